package web

import (
	"bytes"
	"cmp"
	"context"
	"net/url"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/rail/bank/iso20022"
	"github.com/stipend/stipend/internal/wallet"
)

var (
	errTooLong  = apierr.New(apierr.Invalid, "statement_too_long", "This period has more lines than a file holds. Ask for a shorter one.")
	errNoISOFor = apierr.New(apierr.Invalid, "currency_not_supported", "A camt.053 is of a currency of banks.")
)

// wholeStatement is a period of one currency with every line in it. Without a beginning it is from the first of the month.
func (c *call) wholeStatement(ctx context.Context, tx *db.Tx) (wallet.Statement, error) {
	f := c.statementFilter()
	if now := tx.Now(); f.To.After(now) {
		f.To = now
	}
	f.Page, f.PerPage = 1, exported
	s, err := wallet.StatementOf(ctx, tx, c.session.Principal(), "", f)
	if err == nil && s.Total > exported {
		err = errTooLong
	}
	return s, err
}

// fileName names a statement by its currency and days.
func fileName(s wallet.Statement, extension string) string {
	last := s.To.Add(-time.Microsecond)
	return "statement-" + string(s.Currency) + "-" + s.From.UTC().Format(time.DateOnly) + "-" + last.UTC().Format(time.DateOnly) + extension
}

// walletPDF is the statement of a balance to be printed and filed.
func walletPDF(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	s, err := c.wholeStatement(ctx, tx)
	if err != nil {
		return view{}, err
	}
	doc := c.newPDF(c.text("wallet.statement.of", s.Currency), s.CompanyID, c.instant(tx.Now()), [][2]string{
		{"field.since", c.instant(s.From)}, {"field.until", c.instant(s.To)}, {"wallet.opening", c.money(s.Opening)}, {"wallet.in", c.money(s.In)},
		{"wallet.out", c.money(s.Out)}, {"wallet.closing", c.money(s.Closing)},
	})
	const when, what, amount = 0.24, 0.36, 0.2 // of the width, and the balance has the rest
	row := func(style, at, text, moved, balance string) {
		doc.SetFont("go", style, 8)
		doc.CellFormat(pdfWidth*when, pdfLine, at, "B", 0, "L", false, 0, "")
		doc.CellFormat(pdfWidth*what, pdfLine, shorten(doc, text, pdfWidth*what-2), "B", 0, "L", false, 0, "")
		doc.CellFormat(pdfWidth*amount, pdfLine, moved, "B", 0, "R", false, 0, "")
		doc.CellFormat(pdfWidth*(1-when-what-amount), pdfLine, balance, "B", 1, "R", false, 0, "")
	}
	row("B", c.text("step.at"), c.text("wallet.what"), c.text("payment.amount"), c.text("wallet.balance"))
	for _, t := range s.Lines {
		row("", c.instant(t.At), c.word("transaction", t.Type), c.money(t.Amount), c.money(t.Balance))
		doc.SetFont("go", "", 7)
		doc.SetX(pdfMargin + 5)
		doc.MultiCell(pdfWidth-5, 4, t.ID+"  "+t.SourceID, "", "L", false)
	}
	var b bytes.Buffer
	err = doc.Output(&b)
	return view{file: &file{name: fileName(s, ".pdf"), contentType: "application/pdf", data: b.Bytes()}}, err
}

// walletISO is the statement of a balance in a currency of banks as camt.053, which accounting programs read.
func walletISO(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	s, err := c.wholeStatement(ctx, tx)
	if err != nil {
		return view{}, err
	}
	if s.Currency.IsCrypto() {
		return view{}, errNoISOFor
	}
	stamp := tx.Now().UTC()
	var b bytes.Buffer
	w, err := iso20022.WriteStatement(&b, iso20022.Statement{
		File: string(s.Currency) + stamp.Format("20060102150405"), ID: string(s.Currency) + s.From.UTC().Format("20060102") + s.To.UTC().Format("20060102150405"),
		Created: stamp, From: s.From, To: s.To, Account: s.CompanyID, Currency: string(s.Currency), Owner: c.session.Company.Name,
		Balances: []iso20022.Balance{{Type: "OPBD", Amount: s.Opening, Day: s.From.UTC()}, {Type: "CLBD", Amount: s.Closing, Day: s.To.UTC().Add(-time.Microsecond)}},
	})
	if err != nil {
		return view{}, err
	}
	for _, t := range s.Lines {
		if err := w.Entry(entryOf(t)); err != nil {
			return view{}, err
		}
	}
	if err := w.Close(); err != nil {
		return view{}, err
	}
	return view{file: &file{name: fileName(s, ".xml"), contentType: "application/xml", data: b.Bytes()}}, nil
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
		Reference: t.ID, Servicer: t.ID, Amount: amount, Credit: credit, Status: "BOOK", Booked: t.At.UTC(), Valued: t.At.UTC(), Type: kind, Info: t.Description,
		Details: []iso20022.Detail{{EndToEndID: cmp.Or(t.SourceID, t.ID), Amount: amount, Credit: credit}},
	}
}

// statementFiles are the files of the statement in a currency that the wallets' page leads to.
func (c *call) statementFiles(currency money.Asset) []cell {
	q := c.r.URL.Query()
	q.Set("asset", string(currency))
	q.Del("page")
	files := []cell{{Text: c.text("wallet.pdf", currency), Path: "/wallets/statement.pdf?" + q.Encode()}}
	if !currency.IsCrypto() {
		files = append(files, cell{Text: c.text("wallet.iso", currency), Path: "/wallets/statement.xml?" + q.Encode()})
	}
	return files
}

// closedMonths are the months of a currency that are closed, each with its files.
func (c *call) closedMonths(ctx context.Context, tx *db.Tx, currency money.Asset) (table, error) {
	t := table{Caption: c.text("wallet.months", currency), Heads: c.heads("wallet.month", "wallet.closing#", "wallet.files")}
	all, err := wallet.Months(ctx, tx, c.session.Principal(), "", currency)
	for _, m := range all {
		q := url.Values{"asset": {string(currency)}, "since": {m.Begin.Format(time.DateOnly)}, "until": {m.End.AddDate(0, 0, -1).Format(time.DateOnly)}}.Encode()
		files := cell{Text: "CSV", Path: "/wallets/statement.csv?" + q, Lines: []cell{{Text: "PDF", Path: "/wallets/statement.pdf?" + q}}}
		if !currency.IsCrypto() {
			files.Lines = append(files.Lines, cell{Text: "camt.053", Path: "/wallets/statement.xml?" + q})
		}
		t.Rows = append(t.Rows, []cell{{Text: m.Begin.Format("2006-01")}, c.amount(m.Closing), files})
	}
	return t, err
}
