package company

import (
	"bytes"
	"cmp"
	"context"
	"net/url"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
	"github.com/stipend/stipend/internal/wallet"
	"github.com/stipend/stipend/internal/web/ui"
)

var (
	errTooLong = apierr.New(apierr.Invalid, "statement_too_long",
		"This period has too many lines for one file. Choose a shorter one.")
	errNoISOFor = apierr.New(apierr.Invalid, "currency_not_supported",
		"camt.053 files are available for fiat currencies only.")
)

// wholeStatement returns all lines of one currency in the requested period. By default the period starts on the
// first day of the month.
func wholeStatement(ctx context.Context, c *ui.Request, tx *db.Tx) (wallet.Statement, error) {
	f := statementFilter(c)
	if now := tx.Now(); f.To.After(now) {
		f.To = now
	}
	f.Page = db.Page{PerPage: maxStatementLines}
	s, err := wallet.StatementOf(ctx, tx, c.Session.Principal(), "", f)
	if err == nil && s.Total > maxStatementLines {
		err = errTooLong
	}
	return s, err
}

// fileName returns a name made of the statement's currency and dates.
func fileName(s wallet.Statement, extension string) string {
	last := s.To.Add(-time.Microsecond)
	return "statement-" + string(s.Currency) + "-" + s.From.UTC().Format(time.DateOnly) + "-" + last.UTC().Format(
		time.DateOnly) + extension
}

// walletPDF exports the statement of a balance as PDF.
func walletPDF(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	s, err := wholeStatement(ctx, c, tx)
	if err != nil {
		return ui.View{}, err
	}
	title := c.Text("wallet.statement.of", s.Currency)
	now := c.FormatTime(tx.Now())
	doc := c.NewPDF(c.Session.Company.Name, title, c.FormatMoney(s.Closing), s.CompanyID, now, [][2]string{
		{"field.since", c.FormatTime(s.From)}, {"field.until", c.FormatTime(s.To)},
		{"wallet.opening", c.FormatMoney(s.Opening)}, {"wallet.in", c.FormatMoney(s.In)},
		{"wallet.out", c.FormatMoney(s.Out)}, {"wallet.closing", c.FormatMoney(s.Closing)},
	})
	const when, what, amount = 0.24, 0.36, 0.2 // shares of the width; the balance has the rest
	row := func(style, at, text, moved, balance string) {
		doc.Style(style, 8)
		doc.CellFormat(ui.PDFWidth*when, ui.PDFLine, at, "B", 0, "L", false, 0, "")
		doc.CellFormat(ui.PDFWidth*what, ui.PDFLine, ui.Shorten(doc, text, ui.PDFWidth*what-2), "B", 0, "L", false, 0, "")
		doc.CellFormat(ui.PDFWidth*amount, ui.PDFLine, moved, "B", 0, "R", false, 0, "")
		doc.CellFormat(ui.PDFWidth*(1-when-what-amount), ui.PDFLine, balance, "B", 1, "R", false, 0, "")
	}
	row("B", c.Text("step.at"), c.Text("wallet.what"), c.Text("payment.amount"), c.Text("wallet.balance"))
	for _, t := range s.Lines {
		row("", c.FormatTime(t.At), c.Word("transaction", t.Type), c.FormatMoney(t.Amount), c.FormatMoney(t.Balance))
		doc.Quiet(7)
		doc.SetX(ui.PDFMargin + 5)
		doc.MultiCell(ui.PDFWidth-5, 4, t.ID+"  "+t.SourceID, "", "L", false)
	}
	var b bytes.Buffer
	err = doc.Output(&b)
	return ui.View{File: &ui.File{Name: fileName(s, ".pdf"), ContentType: "application/pdf", Data: b.Bytes()}}, err
}

// walletISO exports the statement of a fiat balance as camt.053, for accounting software.
func walletISO(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	s, err := wholeStatement(ctx, c, tx)
	if err != nil {
		return ui.View{}, err
	}
	if s.Currency.IsCrypto() {
		return ui.View{}, errNoISOFor
	}
	stamp := tx.Now().UTC()
	var b bytes.Buffer
	w, err := iso20022.WriteStatement(&b, iso20022.Statement{
		File:    string(s.Currency) + stamp.Format("20060102150405"),
		ID:      string(s.Currency) + s.From.UTC().Format("20060102") + s.To.UTC().Format("20060102150405"),
		Created: stamp, From: s.From, To: s.To, Account: s.CompanyID, Currency: string(s.Currency),
		Owner: c.Session.Company.Name,
		Balances: []iso20022.Balance{{Type: "OPBD", Amount: s.Opening, Day: s.From.UTC()},
			{Type: "CLBD", Amount: s.Closing, Day: s.To.UTC().Add(-time.Microsecond)}},
	})
	if err != nil {
		return ui.View{}, err
	}
	for _, t := range s.Lines {
		if err := w.Entry(entryOf(t)); err != nil {
			return ui.View{}, err
		}
	}
	if err := w.Close(); err != nil {
		return ui.View{}, err
	}
	return ui.View{File: &ui.File{Name: fileName(s, ".xml"), ContentType: "application/xml", Data: b.Bytes()}}, nil
}

func entryOf(t wallet.Transaction) iso20022.Entry {
	amount, credit := t.Amount, true
	if amount.Sign() < 0 {
		amount, credit = amount.Neg(), false
	}
	kind := iso20022.Type{Domain: "PMNT", Family: "ICDT", SubFamily: "OTHR"}
	if credit {
		kind.Family = "RCDT"
	}
	return iso20022.Entry{
		Reference: t.ID, Servicer: t.ID, Amount: amount, Credit: credit, Status: "BOOK", Booked: t.At.UTC(),
		Valued: t.At.UTC(), Type: kind, Info: t.Description,
		Details: []iso20022.Detail{{EndToEndID: cmp.Or(t.SourceID, t.ID), Amount: amount, Credit: credit}},
	}
}

// statementFiles returns the links to the files of a statement.
func statementFiles(c *ui.Request, currency money.Asset) []ui.Cell {
	q := c.HTTP.URL.Query()
	q.Set("asset", string(currency))
	q.Del("page")
	files := []ui.Cell{{Text: c.Text("wallet.pdf", currency), Path: "/wallets/statement.pdf?" + q.Encode()}}
	if !currency.IsCrypto() {
		files = append(files, ui.Cell{Text: c.Text("wallet.iso", currency), Path: "/wallets/statement.xml?" + q.Encode()})
	}
	return files
}

// closedMonths lists the closed months of a currency, with their files.
func closedMonths(ctx context.Context, c *ui.Request, tx *db.Tx, currency money.Asset) (ui.Table, error) {
	t := ui.Table{Caption: c.Text("wallet.months", currency),
		Heads: c.Columns("wallet.month", "wallet.closing#", "wallet.files")}
	all, err := wallet.Months(ctx, tx, c.Session.Principal(), "", currency)
	for _, m := range all {
		q := url.Values{"asset": {string(currency)}, "since": {m.Begin.Format(time.DateOnly)},
			"until": {m.End.AddDate(0, 0, -1).Format(time.DateOnly)}}.Encode()
		files := ui.Cell{Text: "CSV", Path: "/wallets/statement.csv?" + q,
			Lines: []ui.Cell{{Text: "PDF", Path: "/wallets/statement.pdf?" + q}}}
		if !currency.IsCrypto() {
			files.Lines = append(files.Lines, ui.Cell{Text: "camt.053", Path: "/wallets/statement.xml?" + q})
		}
		t.Rows = append(t.Rows, []ui.Cell{{Text: m.Begin.Format("2006-01")}, c.AmountCell(m.Closing), files})
	}
	return t, err
}
