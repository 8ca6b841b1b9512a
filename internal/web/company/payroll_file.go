package company

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/web/ui"
)

// The columns of a file of payments. A payee and an amount are required; receive_amount and receive_currency can take
// the place of amount.
var importColumns = []string{"payee", "amount", "receive_amount", "receive_currency", "description", "category",
	"external_payment_id", "invoice_id",
	"country", "is_premium"}

// ignored is the name of a column that is not read.
const ignored = "ignore"

// columnAliases are other usual names of columns.
var columnAliases = map[string]string{"email": "payee", "id": "payee", "user_id": "payee", "recipient_id": "payee",
	"total": "amount", "note": "description", "reference": "external_payment_id", "name": ignored}

// paymentFile is a file of payments as the user uploaded and corrected it.
type paymentFile struct {
	columns []string // names of the columns in the file
	header  []string // what each column contains: a name of importColumns, ignored, or "" if unknown
	items   []draftItem
	lines   []int                     // line number of each item; the header is on line 1
	values  map[int]map[string]string // values by line and column
	skipped int64                     // rows without an amount
}

// readPayments reads a CSV file of payments and adds the problems of its rows to list. It accepts what spreadsheets
// write: a byte order mark, semicolons as separators, and apostrophes before formulas. The form may say what a column
// contains (map.COLUMN, from 0) and correct a value (fix.LINE.COLUMN). A file that cannot be read at all is an error.
func readPayments(c *ui.Request, text string, list *apierr.List) (f paymentFile, err error) {
	problem := func(code, message string) error {
		var one apierr.List
		one.Add(code, "/file", message)
		return one.Err()
	}
	text = strings.TrimPrefix(text, "\ufeff")
	if strings.TrimSpace(text) == "" {
		return f, problem("no_file", "Choose a file, or paste CSV.")
	}
	r := csv.NewReader(strings.NewReader(text))
	r.FieldsPerRecord = -1
	if line, _, _ := strings.Cut(text, "\n"); !strings.Contains(line, ",") && strings.Contains(line, ";") {
		r.Comma = ';'
	}
	if f.columns, err = r.Read(); err != nil {
		return f, problem("invalid_csv", "The first row must contain the column names, such as payee,amount.")
	}
	if !f.mapColumns(c) {
		return f, problem("columns_unknown", "Choose what each column of your file contains.")
	}
	f.values = map[int]map[string]string{}
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		var broken *csv.ParseError
		if errors.As(err, &broken) {
			return f, problem("line_unreadable",
				fmt.Sprintf("Line %d is not valid CSV. Check its quotes.", broken.StartLine))
		}
		if err != nil {
			return f, err
		}
		if len(f.items) == payroll.MaxPayees {
			return f, problem("too_many_rows",
				fmt.Sprintf("A payroll has at most %d payments. Split the file.", payroll.MaxPayees))
		}
		line, _ := r.FieldPos(0)
		f.readRow(c, line, record, list)
	}
	if len(f.items) == 0 && list.Empty() {
		return f, problem("no_rows", "The file has no rows with an amount below the header.")
	}
	return f, nil
}

// mapColumns decides what each column contains, and reports whether every column is known once and none is missing.
func (f *paymentFile) mapColumns(c *ui.Request) bool {
	for i, name := range f.columns {
		name = strings.ToLower(strings.TrimSpace(name))
		name = cmp.Or(c.Form.Get("map."+strconv.Itoa(i)), columnAliases[name], name)
		if name != ignored && !slices.Contains(importColumns, name) {
			name = ""
		}
		f.header = append(f.header, name)
	}
	for i, name := range f.header {
		if name == "" || name != ignored && slices.Index(f.header, name) < i {
			return false
		}
	}
	return slices.Contains(f.header, "payee") && (slices.Contains(f.header, "amount") ||
		slices.Contains(f.header, "receive_amount") && slices.Contains(f.header, "receive_currency"))
}

// readRow adds a row to the file, or its problems to list.
func (f *paymentFile) readRow(c *ui.Request, line int, record []string, list *apierr.List) {
	if len(record) != len(f.header) {
		list.Add("line_unreadable", atRow(line, ""), fmt.Sprintf(
			"The line has %d fields, but the header has %d. Put quotes around values that contain the separator.",
			len(record), len(f.header)))
		return
	}
	var it draftItem
	receive := ""
	to := map[string]*string{
		"payee": &it.Payee, "amount": &it.Amount, "receive_amount": &receive, "receive_currency": &it.Receive,
		"description": &it.Description, "category": &it.Category,
		"external_payment_id": &it.External, "invoice_id": &it.Invoice, "country": &it.Country,
	}
	values := map[string]string{}
	f.values[line] = values
	for i, value := range record {
		name := f.header[i]
		if fix := fmt.Sprintf("fix.%d.%s", line, name); c.Form.Has(fix) {
			value = c.Form.Get(fix)
		}
		value = payee.PlainCell(strings.TrimSpace(value))
		values[name] = value
		if text := to[name]; text != nil {
			*text = value
		}
		if name != "is_premium" {
			continue
		}
		switch strings.ToLower(value) {
		case "true", "yes", "1":
			it.Premium = true
		case "", "false", "no", "0":
		default:
			list.Add("invalid_parameter", atRow(line, name), "Enter true or false.")
		}
	}
	switch {
	case it.Amount == "" && receive == "" && it.Payee != "":
		f.skipped++
		return
	case it.Amount != "" && receive != "":
		list.Add("invalid_parameter", atRow(line, "receive_amount"), "Enter an amount or a received amount, not both.")
		return
	case it.Amount != "":
		it.Receive = ""
	case it.Receive == "":
		list.Add("missing_field", atRow(line, "receive_currency"), "Enter the currency of the received amount.")
		return
	default:
		it.Amount = receive
	}
	it.Amount = c.PlainAmount(it.Amount, money.Asset(cmp.Or(it.Receive, c.Form.Get("currency"))))
	f.items, f.lines = append(f.items, it), append(f.lines, line)
}

// resolve replaces the payees' emails and external IDs by IDs. It removes each row without a match and adds its problem
// to list.
func (f *paymentFile) resolve(ctx context.Context, tx *db.Tx, companyID string, list *apierr.List) error {
	var names []string
	for _, it := range f.items {
		names = append(names, it.Payee)
	}
	slices.Sort(names)
	ids, err := payee.Resolve(ctx, tx, companyID, slices.Compact(names))
	if err != nil {
		return err
	}
	items, lines := f.items, f.lines
	f.items, f.lines = nil, nil
	for i, it := range items {
		id, found := ids[it.Payee]
		if !found {
			list.Add("unknown_payee", atRow(lines[i], "payee"),
				"No match, or more than one, for this ID or email. Check it for a typo, or use the payee's ID.")
			continue
		}
		it.Payee = id
		f.items, f.lines = append(f.items, it), append(f.lines, lines[i])
	}
	return nil
}

// atRow returns the pointer to a column of a row, which rowOf parses.
func atRow(row int, column string) string { return fmt.Sprintf("/row/%d/%s", row, column) }

func rowOf(pointer string) (row int, column string, ok bool) {
	parts := strings.Split(pointer, "/")
	if len(parts) != 4 || parts[1] != "row" {
		return 0, "", false
	}
	row, err := strconv.Atoi(parts[2])
	return row, parts[3], err == nil
}

// maxEditable is the largest file in bytes whose problems can be corrected on the page.
const maxEditable = 512 << 10

type importPage struct {
	Terms   []ui.Field
	CSV     string
	Columns []string
	Mapping []ui.Field // what each column of the file contains, if that is not known
	Fixes   []rowFix
	Kept    []hidden // corrections of rows that are right now
	File    ui.Field
}

// rowFix is a problem of a row, with a field to correct it.
type rowFix struct {
	Line, Column, Problem string
	Field                 ui.Field // without a name if it cannot be corrected on the page
}

type hidden struct{ Name, Value string }

// postedFile returns the uploaded file, or the text of the form.
func postedFile(c *ui.Request) (string, error) {
	data, err := c.Upload("file")
	if err != nil || len(data) == 0 {
		return c.Form.Get("csv"), err
	}
	return string(data), nil
}

// showImport renders the form for a file, with the problems of the last one.
func showImport(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	p := importPage{Columns: importColumns}
	var err error
	if p.CSV, err = postedFile(c); err != nil {
		return ui.View{}, err
	}
	editable := len(p.CSV) <= maxEditable && strings.ToValidUTF8(p.CSV, "") == p.CSV
	if !editable {
		p.CSV = "" // the user chooses the corrected file
	}
	if p.Terms, err = terms(ctx, c, tx); err != nil {
		return ui.View{}, err
	}
	if c.Problem != nil {
		p.listProblems(c, editable)
	}
	p.File = c.Field(ui.Field{Name: "file", Type: "file", Accept: ".csv,text/csv"})
	return ui.View{Template: "payroll_import", Title: c.Text("payrolls.import"), Crumbs: payrollCrumbs(c), Data: p}, nil
}

// listProblems takes the problems of rows out of the problems of the form and lists them with fields to correct them.
func (p *importPage) listProblems(c *ui.Request, editable bool) {
	file, _ := readPayments(c, p.CSV, &apierr.List{})
	if editable && c.Problem.Code == "columns_unknown" {
		p.Mapping = file.mappingFields(c)
	}
	kept := *c.Problem
	kept.Fields = nil
	shown := map[string]bool{}
	for _, problem := range c.Problem.Fields {
		line, column, ofRow := rowOf(problem.Pointer)
		if !ofRow {
			kept.Fields = append(kept.Fields, problem)
			continue
		}
		fix := rowFix{Line: strconv.Itoa(line), Column: column,
			Problem: c.Localize(problem.Code, problem.Message, column).Text}
		if value, has := file.values[line][column]; has && editable {
			fix.Field = ui.Field{Name: fmt.Sprintf("fix.%d.%s", line, column), Value: value, MaxLength: 500, Type: "text",
				Label: c.Text("import.fix", c.FormatCount(int64(line)), column)}
		}
		if shown[fix.Field.Name] {
			fix.Field = ui.Field{}
		}
		shown[fix.Field.Name] = true
		if len(p.Fixes) < maxProblems {
			p.Fixes = append(p.Fixes, fix)
		}
	}
	for name := range c.Form {
		if (strings.HasPrefix(name, "fix.") || strings.HasPrefix(name, "map.") && p.Mapping == nil) && !shown[name] {
			p.Kept = append(p.Kept, hidden{name, c.Form.Get(name)})
		}
	}
	slices.SortFunc(p.Kept, func(a, b hidden) int { return strings.Compare(a.Name, b.Name) })
	if len(p.Fixes) > 0 {
		kept.Fields = append(kept.Fields, apierr.Field{
			Code: "file_refused", Pointer: "/file", Message: "Some rows have errors. Nothing was created."})
	}
	c.Problem = &kept
}

// mappingFields returns a field for each column in which the user chooses what it contains.
func (f *paymentFile) mappingFields(c *ui.Request) (all []ui.Field) {
	for i, name := range f.columns {
		field := ui.Field{Name: "map." + strconv.Itoa(i), Label: strings.TrimSpace(name), Type: "select", Required: true,
			Value: f.header[i], Options: []ui.Option{{Label: c.Text("form.choose")}, {Value: ignored,
				Label: c.Text("import.ignore")}}}
		for _, known := range importColumns {
			field.Options = append(field.Options, ui.Option{Value: known, Label: known})
		}
		all = append(all, c.Field(field))
	}
	return all
}

// previewImport reads a file, looks up its payees, and shows a preview or all problems by row.
func previewImport(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	text, err := postedFile(c)
	if err != nil {
		return ui.View{}, err
	}
	var list apierr.List
	f, err := readPayments(c, text, &list)
	if err != nil {
		return ui.View{}, err
	}
	if err := f.resolve(ctx, tx, c.Session.Company.ID, &list); err != nil {
		return ui.View{}, err
	}
	d := draftTerms(c)
	d.Items = f.items
	var v ui.View
	if len(d.Items) > 0 {
		v, err = preview(ctx, c, tx, d, f.skipped, func(i int, member string) string {
			switch member {
			case "user_id", "company_id":
				member = "payee"
			case "amount_fiat":
				member = "amount"
			case "receive_amount", "receive_currency":
				if _, has := f.values[f.lines[i]][member]; !has {
					member = "amount"
				}
			}
			return atRow(f.lines[i], member)
		})
		if fault, ok := apierr.As(err); ok && len(fault.Fields) > 0 {
			for _, problem := range fault.Fields {
				list.AddField(problem)
			}
		} else if err != nil {
			return ui.View{}, err
		}
	}
	if list.Empty() {
		return v, nil
	}
	problems := list.Fields()
	slices.SortStableFunc(problems, func(a, b apierr.Field) int {
		x, _, _ := rowOf(a.Pointer)
		y, _, _ := rowOf(b.Pointer)
		return cmp.Compare(x, y)
	})
	var sorted apierr.List
	for _, problem := range problems {
		sorted.AddField(problem)
	}
	return ui.View{}, sorted.Err()
}

// maxTemplate is the largest number of payees in a template.
const maxTemplate = payee.MaxImport

// paymentsTemplate returns a CSV file with a row for each active payee, in which the user enters amounts. Rows without
// an amount are left out of the payroll.
func paymentsTemplate(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	var b strings.Builder
	w := csv.NewWriter(&b)
	_ = w.Write([]string{"payee", "name", "amount", "description", "external_payment_id"}) // a Builder does not fail
	for page := 1; (page-1)*maxTemplatePage < maxTemplate; page++ {
		found, err := payee.List(ctx, tx, c.Session.Principal(), payee.ListParams{Status: payee.Active, SortBy: "name",
			Page: db.Page{Number: page, PerPage: maxTemplatePage}})
		if err != nil {
			return ui.View{}, err
		}
		for _, r := range found.Items {
			_ = w.Write([]string{r.ID, payee.SafeCell(r.Name), "", "", ""})
		}
		if len(found.Items) < maxTemplatePage {
			break
		}
	}
	w.Flush()
	return ui.View{File: &ui.File{Name: "payroll.csv", ContentType: "text/csv; charset=utf-8",
		Data: []byte(b.String())}}, nil
}

// maxTemplatePage is the number of payees that are read at once.
const maxTemplatePage = 100
