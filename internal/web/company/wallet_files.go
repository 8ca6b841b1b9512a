package company

import (
	"context"
	"net/url"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/document"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/wallet"
	"github.com/stipend/stipend/internal/web/ui"
)

// wholeStatement returns all lines of one currency in the requested period. By default the period starts on the
// first day of the month.
func wholeStatement(ctx context.Context, c *ui.Request, tx *db.Tx) (wallet.Statement, error) {
	f := statementFilter(c)
	if now := tx.Now(); f.To.After(now) {
		f.To = now
	}
	return wallet.WholeStatement(ctx, tx, c.Session.Principal(), "", f)
}

// walletPDF exports the statement of a balance as PDF.
func walletPDF(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	s, err := wholeStatement(ctx, c, tx)
	if err != nil {
		return ui.View{}, err
	}
	return ui.Download(c.Documents().BalancePDF(c.Session.Company.Name, s, tx.Now()))
}

// walletISO exports the statement of a fiat balance as camt.053, for accounting software.
func walletISO(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	s, err := wholeStatement(ctx, c, tx)
	if err != nil {
		return ui.View{}, err
	}
	return ui.Download(document.BalanceISO(c.Session.Company.Name, s, tx.Now()))
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
