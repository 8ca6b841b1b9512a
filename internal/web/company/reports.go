package company

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/accounting"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/wallet"
	"github.com/stipend/stipend/internal/web/ui"
)

const reportsPath = "/reports"

// reportsPage is what the company paid in a year, with its files.
type reportsPage struct {
	Payees ui.Table
	Years  ui.Filters
	Files  []ui.Cell
	Month  ui.Filters
	Months []ui.Cell // files of the month's journal
	Bank   []ui.Cell // statements of the balances in bank currencies, as camt.053

	Unpriced string // currencies of the month without any known price
}

// yearOf returns the calendar year that the URL names, or the present one.
func yearOf(c *ui.Request, now time.Time) int {
	if n, err := strconv.Atoi(c.Query("year")); err == nil && n >= 2000 && n <= now.Year() {
		return n
	}
	return now.Year()
}

// totalsOf returns the totals of the requested year.
func totalsOf(ctx context.Context, tx *db.Tx, c *ui.Request) (accounting.Year, error) {
	return accounting.YearOf(ctx, tx, c.KYC, c.Session.Principal(), yearOf(c, tx.Now().UTC()))
}

// showReports renders the totals of a year per payee.
func showReports(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	y, err := totalsOf(ctx, tx, c)
	if err != nil {
		return ui.View{}, err
	}
	year := strconv.Itoa(y.Year)
	p := reportsPage{Payees: ui.Table{Caption: c.Text("reports.year"), Empty: c.Empty("reports.none"),
		Heads: c.Columns("reports.payee|a", "tax.form|c", "reports.paid#|b", "reports.usd#|d", "reports.eur#|e")}}
	for i := range y.Payees {
		line := &y.Payees[i]
		name := c.LinkCell(line.Payee.Name, "/recipients/"+line.Payee.ID)
		if line.Payee.Name == "" {
			name.Text = line.Payee.ID
		}
		name.Lines = []ui.Cell{{Text: c.Word("role", line.Payee.Role)}}
		form := c.StateCell("tax.status", line.Status)
		if line.Status != kyc.FormMissing {
			form.Lines = []ui.Cell{{Text: c.Text("tax.form." + line.TaxForm.Form)}, {Text: c.Text("reports.tax_id.missing")}}
		}
		if line.TaxIDOnFile() {
			form.Lines[1].Text = c.Text("reports.tax_id.on_file")
		}
		var paid ui.Cell
		for n, total := range line.Totals {
			if cell := c.AmountCell(total); n == 0 {
				paid = cell
			} else {
				paid.Lines = append(paid.Lines, ui.Cell{Text: cell.Text})
			}
		}
		usd := c.AmountCell(line.USD)
		if line.Unvalued > 0 {
			usd.Lines = []ui.Cell{{Text: c.Plural("reports.unvalued", line.Unvalued, c.FormatCount(line.Unvalued))}}
		}
		p.Payees.Rows = append(p.Payees.Rows, []ui.Cell{name, form, paid, usd, c.AmountCell(line.EUR)})
	}
	p.Files = []ui.Cell{c.LinkCell(c.Text("payroll.csv"), reportsPath+"/year.csv?year="+year),
		c.LinkCell("JSON", reportsPath+"/year.json?year="+year)}
	if c.Session.Administers() {
		p.Files = append(p.Files, c.LinkCell(c.Text("reports.nec"), reportsPath+"/1099-nec.csv?year="+year))
	}
	var years []ui.Option
	for n := tx.Now().Year(); n >= y.Company.Created.Year(); n-- {
		years = append(years, ui.Option{Value: strconv.Itoa(n), Label: strconv.Itoa(n), Selected: n == y.Year})
	}
	p.Years = c.FilterBar(reportsPath, ui.Field{Name: "year", Label: c.Text("field.year"), Type: "select", Value: year,
		Options: years})
	return ui.View{Template: "reports", Title: c.Text("reports.title"), Data: p}, p.addJournal(ctx, tx, c)
}

// addJournal adds the files of the month that the URL names, or of the present one.
func (p *reportsPage) addJournal(ctx context.Context, tx *db.Tx, c *ui.Request) error {
	now := tx.Now().UTC()
	from, err := time.Parse("2006-01", c.Query("month"))
	if err != nil || from.After(now) || from.Year() < 2000 {
		from = time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	}
	month, currency := from.Format("2006-01"), cmp.Or(c.Query("currency"), string(money.USD))
	p.Month = c.FilterBar(reportsPath, ui.Field{Name: "month", Label: c.Text("wallet.month"), Type: "month",
		Value: month}, ui.Field{Name: "currency", Label: c.Text("reports.currency"), Type: "select", Value: currency,
		Options: []ui.Option{{Value: "USD", Label: "USD", Selected: currency == "USD"},
			{Value: "EUR", Label: "EUR", Selected: currency == "EUR"}}})
	for _, f := range accounting.Formats {
		q := url.Values{"month": {month}, "currency": {currency}, "format": {f}}
		p.Months = append(p.Months, c.LinkCell(c.Text("reports.format."+f), reportsPath+"/journal.csv?"+q.Encode()))
	}
	in := money.USD
	if currency == string(money.EUR) {
		in = money.EUR
	}
	unpriced, err := accounting.Unpriced(ctx, tx, c.Session.Principal(), from, in)
	if err != nil {
		return err
	}
	p.Unpriced = names(unpriced)
	of, err := wallet.StatementCurrencies(ctx, tx, c.Session.Principal(), from, from.AddDate(0, 1, 0))
	for _, currency := range of {
		if !currency.IsCrypto() {
			q := url.Values{"asset": {string(currency)}, "since": {from.Format(time.DateOnly)},
				"until": {from.AddDate(0, 1, -1).Format(time.DateOnly)}}
			p.Bank = append(p.Bank, c.LinkCell("camt.053 "+string(currency), "/wallets/statement.xml?"+q.Encode()))
		}
	}
	return err
}

// names returns the names of currencies, such as "BTC, ETH".
func names(all []money.Asset) string {
	texts := make([]string, len(all))
	for i, a := range all {
		texts[i] = string(a)
	}
	return strings.Join(texts, ", ")
}

// journalCSV exports the journal of a month: one file or, if it is longer than the format's program imports, a ZIP
// archive of files.
func journalCSV(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	format := c.Query("format")
	if !slices.Contains(accounting.Formats, format) {
		format = accounting.FormatCSV
	}
	j, err := accounting.JournalOf(ctx, tx, c.Session.Principal(),
		cmp.Or(c.Query("month"), tx.Now().UTC().Format("2006-01")), money.Asset(cmp.Or(c.Query("currency"), "USD")))
	if err != nil {
		return ui.View{}, err
	}
	name, parts := "journal-"+j.Month.Format("2006-01")+"-"+format, j.Parts(format)
	if len(parts) == 1 {
		return csvFile(name+".csv", func(w io.Writer) error { return j.Write(w, format) })
	}
	var b bytes.Buffer
	archive := zip.NewWriter(&b)
	for n := range parts {
		w, err := archive.Create(name + "-" + strconv.Itoa(n+1) + ".csv")
		if err == nil {
			err = parts[n].Write(w, format)
		}
		if err != nil {
			return ui.View{}, err
		}
	}
	err = archive.Close()
	return ui.View{File: &ui.File{Name: name + ".zip", ContentType: "application/zip", Data: b.Bytes()}}, err
}

// accountsPage is the form for the accounts of the journal.
type accountsPage struct {
	Accounts []accountRow
	Changes  bool
}

// accountRow is the inputs of an account. Code has no name if the account has no code.
type accountRow struct {
	Label      string
	Code, Name ui.Field
}

// showJournalAccounts renders the codes and names of the journal's accounts.
func showJournalAccounts(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	all, err := accounting.AccountsOf(ctx, tx, c.Session.Principal())
	p := accountsPage{Changes: c.Session.Administers()}
	c.Labels = map[string]string{}
	for i, a := range all {
		row := accountRow{Label: c.Text("reports.account." + a.Key)}
		input := func(kind, value string, limit int) ui.Field {
			name, label := kind+"_"+strconv.Itoa(i), row.Label+": "+c.Text("reports."+kind)
			c.Labels[name] = label
			return c.Field(ui.Field{Name: name, Label: label, Value: value, MaxLength: limit})
		}
		if a.Key != accounting.TaxRate {
			row.Code = input("code", a.Code, 40)
		}
		row.Name = input("name", a.Name, 100)
		p.Accounts = append(p.Accounts, row)
	}
	return ui.View{Template: "reports_accounts", Title: c.Text("reports.accounts"), Lead: c.Text("reports.accounts.lead"),
		Crumbs: []ui.Cell{c.LinkCell(c.Text("reports.title"), reportsPath)}, Data: p}, err
}

// setJournalAccounts stores the codes and names of the journal's accounts.
func setJournalAccounts(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	all := slices.Clone(accounting.Defaults)
	for i := range all {
		at := "_" + strconv.Itoa(i)
		all[i].Code, all[i].Name = c.Form.Get("code"+at), c.Form.Get("name"+at)
	}
	err := accounting.SetAccounts(ctx, tx, c.Session.Principal(), all)
	return ui.View{Redirect: reportsPath + "/accounts"}, ui.FormError(ui.RenameFields(err, func(pointer string) string {
		if part := strings.Split(pointer, "/"); len(part) == 4 { // such as /accounts/0/code
			return "/" + part[3] + "_" + part[2]
		}
		return pointer
	}))
}

// csvFile returns what write writes as a download.
func csvFile(name string, write func(io.Writer) error) (ui.View, error) {
	var b bytes.Buffer
	err := write(&b)
	return ui.View{File: &ui.File{Name: name, ContentType: "text/csv; charset=utf-8", Data: b.Bytes()}}, err
}

// yearCSV exports the totals of a year.
func yearCSV(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	y, err := totalsOf(ctx, tx, c)
	if err != nil {
		return ui.View{}, err
	}
	return csvFile("payees-"+strconv.Itoa(y.Year)+".csv", y.WriteCSV)
}

// necCSV exports the columns of Form 1099-NEC, with complete tax IDs.
func necCSV(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	y, err := totalsOf(ctx, tx, c)
	if err != nil {
		return ui.View{}, err
	}
	return csvFile("1099-nec-"+strconv.Itoa(y.Year)+".csv", y.WriteNEC)
}

// yearJSON exports the totals of a year with the members of the API.
func yearJSON(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	y, err := totalsOf(ctx, tx, c)
	if err != nil {
		return ui.View{}, err
	}
	data, err := json.MarshalIndent(&y, "", "  ")
	return ui.View{File: &ui.File{Name: "payees-" + strconv.Itoa(y.Year) + ".json", ContentType: "application/json",
		Data: data}}, err
}
