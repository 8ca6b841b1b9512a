package company

import (
	"bytes"
	"context"
	"encoding/csv"
	"strconv"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/web/ui"
)

type recipientsFilePage struct {
	CSV                     string
	File                    ui.Field
	Checked                 bool // CSV was read, and the counts below are its result
	Valid, Existing, Failed int
	Summary, Confirm        string
	Problems                ui.Table
	Columns                 []string
}

// showRecipientsFile renders the form to add recipients from a CSV file.
func showRecipientsFile(_ context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	return recipientsFile(c, recipientsFilePage{CSV: c.Form.Get("csv")}), nil
}

func recipientsFile(c *ui.Request, p recipientsFilePage) ui.View {
	p.File = c.Field(ui.Field{Name: "file", Type: "file", Accept: ".csv,text/csv"})
	p.Columns = payee.ImportColumns()
	return ui.View{Template: "recipients_file", Title: c.Text("recipients.import"),
		Crumbs: []ui.Cell{c.LinkCell(c.Text("recipients.title"), "/recipients")}, Data: p}
}

// checkRecipientsFile shows what an import of the posted file would do.
func checkRecipientsFile(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	text, err := postedFile(c)
	if err != nil {
		return ui.View{}, err
	}
	rows, err := payee.Import(ctx, tx, c.Sealer, c.Session.Principal(), c.Session.Company.ID, text, true)
	if err != nil {
		return ui.View{}, ui.RenameField(err, "/csv", "/file")
	}
	p := recipientsFilePage{CSV: text, Checked: true, Problems: ui.Table{Caption: c.Text("import.problems"),
		Heads: c.Columns("import.row#", "import.column", "import.value", "import.wrong")}}
	values := cellsOf(text)
	for _, row := range rows {
		switch row.Status {
		case payee.ImportFailed:
			p.Failed++
		case payee.ImportExisting:
			p.Existing++
		default:
			p.Valid++
		}
		for _, f := range row.Problems {
			if len(p.Problems.Rows) < maxProblems {
				p.Problems.Rows = append(p.Problems.Rows, []ui.Cell{{Text: strconv.Itoa(row.Row), Kind: "number"},
					{Text: f.Pointer}, {Text: values(row.Row, f.Pointer)},
					{Text: c.Localize(f.Code, f.Message, f.Pointer).Text}})
			}
		}
	}
	p.Summary = c.Text("recipients.import.result", c.FormatCount(int64(p.Valid)), c.FormatCount(int64(p.Existing)),
		c.FormatCount(int64(p.Failed)))
	p.Confirm = c.Plural("recipients.import.confirm", int64(p.Valid), c.FormatCount(int64(p.Valid)))
	return recipientsFile(c, p), nil
}

// cellsOf returns a function that looks up a value of a CSV file by row and column. The header is row 1.
func cellsOf(text string) func(row int, column string) string {
	r := csv.NewReader(strings.NewReader(strings.TrimPrefix(text, "\ufeff")))
	r.FieldsPerRecord = -1
	if line, _, _ := strings.Cut(text, "\n"); !strings.Contains(line, ",") && strings.Contains(line, ";") {
		r.Comma = ';'
	}
	records, err := r.ReadAll()
	return func(row int, column string) string {
		if err != nil || row < 1 || row > len(records) {
			return ""
		}
		for i, name := range records[0] {
			if strings.EqualFold(strings.TrimSpace(name), column) && i < len(records[row-1]) {
				return records[row-1][i]
			}
		}
		return ""
	}
}

// importRecipients adds the valid rows of the file that the user has checked. Rows with an external_id that exists are
// skipped, so posting the form twice adds those people once. They have no destinations yet, so it redirects to the page
// that asks them for one.
func importRecipients(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	text := c.Form.Get("csv")
	if text == "" {
		return ui.View{}, errNoFile.At("body", "/file")
	}
	_, err := payee.Import(ctx, tx, c.Sealer, c.Session.Principal(), c.Session.Company.ID, text, false)
	return ui.View{Redirect: "/recipients/unpayable"}, ui.RenameField(err, "/csv", "/file")
}

var errNoFile = apierr.New(apierr.Invalid, "no_file", "Choose a file, or paste CSV.")

// recipientsTemplate returns a CSV file with the column names.
func recipientsTemplate(context.Context, *db.Tx, *ui.Request) (ui.View, error) {
	return ui.View{File: &ui.File{Name: "people.csv", ContentType: "text/csv; charset=utf-8",
		Data: []byte("external_id,first_name,last_name,email,country,role,department\r\n")}}, nil
}

// exportRecipients returns all recipients as CSV.
func exportRecipients(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	write, err := payee.Export(ctx, tx, c.Session.Principal(), payee.ListParams{})
	if err != nil {
		return ui.View{}, err
	}
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return ui.View{}, err
	}
	return ui.View{File: &ui.File{Name: "people.csv", ContentType: "text/csv; charset=utf-8", Data: b.Bytes()}}, nil
}
