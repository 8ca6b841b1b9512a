package company

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"net/url"
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
	Fixes                   []rowFix
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
	text = corrected(text, c.Form)
	rows, err := payee.Import(ctx, tx, c.Sealer, c.Session.Principal(), c.Session.Company.ID, text, true)
	if err != nil {
		return ui.View{}, ui.RenameField(err, "/csv", "/file")
	}
	p := recipientsFilePage{CSV: text, Checked: true}
	values, shown := cellsOf(text), map[string]bool{}
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
			if len(p.Fixes) == maxProblems {
				break
			}
			fix := rowFix{Line: strconv.Itoa(row.Row), Column: f.Pointer,
				Problem: c.Localize(f.Code, f.Message, f.Pointer).Text}
			name := fixName(row.Row, f.Pointer)
			if value, has := values(row.Row, f.Pointer); has && !shown[name] && len(text) <= maxEditable {
				fix.Field = ui.Field{Name: name, Value: value,
					Label: c.Text("import.fix", c.FormatCount(int64(row.Row)), f.Pointer)}
			}
			shown[name] = true
			p.Fixes = append(p.Fixes, fix)
		}
	}
	p.Summary = c.Text("recipients.import.result", c.FormatCount(int64(p.Valid)), c.FormatCount(int64(p.Existing)),
		c.FormatCount(int64(p.Failed)))
	p.Confirm = c.Plural("recipients.import.confirm", int64(p.Valid), c.FormatCount(int64(p.Valid)))
	return recipientsFile(c, p), nil
}

// fixName returns the name of the field that corrects a value of a CSV file.
func fixName(row int, column string) string { return fmt.Sprintf("fix.%d.%s", row, column) }

// readCells reads a CSV file, whose separator is a comma or semicolon.
func readCells(text string) ([][]string, error) {
	r := csv.NewReader(strings.NewReader(strings.TrimPrefix(text, "\ufeff")))
	r.FieldsPerRecord = -1
	if line, _, _ := strings.Cut(text, "\n"); !strings.Contains(line, ",") && strings.Contains(line, ";") {
		r.Comma = ';'
	}
	return r.ReadAll()
}

// cellsOf returns a function that looks up a value of a CSV file by row and column. The header is row 1. The function
// reports false if the file has no such column or row.
func cellsOf(text string) func(row int, column string) (string, bool) {
	records, err := readCells(text)
	return func(row int, column string) (string, bool) {
		if err != nil || row < 1 || row > len(records) {
			return "", false
		}
		for i, name := range records[0] {
			if strings.EqualFold(strings.TrimSpace(name), column) && i < len(records[row-1]) {
				return records[row-1][i], true
			}
		}
		return "", false
	}
}

// corrected returns a CSV file with the values of the form's fields that correct it. A file that is not valid CSV is
// returned unchanged.
func corrected(text string, form url.Values) string {
	records, err := readCells(text)
	changed := false
	for n := range records {
		for i, column := range records[0] {
			name := fixName(n+1, strings.ToLower(strings.TrimSpace(column)))
			if n > 0 && form.Has(name) && i < len(records[n]) {
				records[n][i], changed = form.Get(name), true
			}
		}
	}
	if err != nil || !changed {
		return text
	}
	var b strings.Builder
	w := csv.NewWriter(&b)
	if w.WriteAll(records) != nil {
		return text // cannot happen, because a string builder does not fail
	}
	return b.String()
}

// importRecipients adds the valid rows of the file that the user has checked. Rows with an external_id that exists are
// skipped, so posting the form twice adds those people once. They have no destinations yet, so it redirects to the page
// that asks them for one.
func importRecipients(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	text := c.Form.Get("csv")
	if text == "" {
		return ui.View{}, errNoFile.At("body", "/file")
	}
	rows, err := payee.Import(ctx, tx, c.Sealer, c.Session.Principal(), c.Session.Company.ID, text, false)
	added := int64(0)
	for _, row := range rows {
		if row.Status != payee.ImportFailed && row.Status != payee.ImportExisting {
			added++
		}
	}
	return ui.View{Redirect: "/recipients/unpayable", About: c.Plural("recipients.count", added, c.FormatCount(added))},
		ui.RenameField(err, "/csv", "/file")
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
