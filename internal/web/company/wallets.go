package company

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/document"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/wallet"
	"github.com/stipend/stipend/internal/web/ui"
)

const (
	maxChartLines = 200 // lines shown in the chart
)

type walletsPage struct {
	Balances  []walletCard
	Filters   ui.Filters
	Statement ui.Table
	Pager     ui.Pager
	CSV       string
	Files     []ui.Cell // of the selected currency
	Months    ui.Table  // of the selected currency
	Chart     ui.Chart
	Request   []ui.Field
	Add       []fact // bank details for deposits in that currency
	Coins     *coinsPart
}

// walletCard is the balance of an asset. Selected is the one whose details the page shows.
type walletCard struct {
	Currency, ID, Path                  string // ID of the wallet, "" for a balance without one
	Available, Reserved, Claims, Reason string
	State                               ui.Cell
	Selected                            bool
}

// statementFilter returns the filter in the URL.
func statementFilter(c *ui.Request) wallet.Filter {
	f := wallet.Filter{From: c.QueryDate("since"), To: c.QueryDate("until"), Page: c.Page()}
	if a, known := money.Lookup(strings.ToUpper(c.Query("asset"))); known {
		f.Currency = string(a)
	}
	if !f.To.IsZero() {
		f.To = f.To.AddDate(0, 0, 1) // include the whole day
	}
	return f
}

// showWallets renders the balances and the statement of the company.
func showWallets(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	by := c.Session.Principal()
	balances, err := wallet.Balances(ctx, tx, by, "")
	if err != nil {
		return ui.View{}, err
	}
	var p walletsPage
	f := statementFilter(c)
	assets := []ui.Option{{Value: "", Label: c.Text("list.all")}}
	for _, b := range balances {
		card := walletCard{Currency: string(b.Currency), ID: b.ID, Path: c.URL("/wallets?asset=" + string(b.Currency)),
			Available: c.FormatMoney(b.Available), State: c.StateCell("wallet.state", string(b.State)),
			Selected: string(b.Currency) == cmp.Or(f.Currency, string(balances[0].Currency))}
		if b.State == "" {
			card.State = ui.Cell{} // a balance from payrolls or claims needs no wallet
		}
		if b.Reserved.Sign() != 0 {
			card.Reserved = c.FormatMoney(b.Reserved)
		}
		if b.Claims.Sign() != 0 {
			card.Claims = c.FormatMoney(b.Claims)
		}
		if b.Reason != "" {
			card.Reason = c.Word("reason", b.Reason)
		}
		p.Balances = append(p.Balances, card)
		assets = append(assets, ui.Option{Value: string(b.Currency), Label: string(b.Currency)})
	}
	all, total, err := wallet.Transactions(ctx, tx, by, "", f)
	if err != nil {
		return ui.View{}, err
	}
	p.Statement = ui.Table{Caption: c.Text("wallet.statement"), Empty: c.Empty("wallet.statement.none"),
		Heads: c.Columns("wallet.what|a", "step.at|c", "payment.amount#|b", "wallet.balance#|d")}
	for _, t := range all {
		what := ui.Cell{Text: c.Word("transaction", t.Type)}
		if t.PayrollID != "" {
			what.Lines = []ui.Cell{{Text: c.Text("payroll.id"), Path: c.URL(payrollPath(t.PayrollID))}}
		}
		p.Statement.Rows = append(p.Statement.Rows, []ui.Cell{
			what, c.TimeCell(t.At), c.AmountCell(t.Amount), c.AmountCell(t.Balance)})
	}
	p.Pager = c.Pager(f.Page, total)
	p.CSV = c.URL("/wallets/statement.csv")
	if q := c.HTTP.URL.Query(); len(q) > 0 {
		p.CSV = "/wallets/statement.csv?" + q.Encode()
	}
	p.Filters = c.FilterBar("/wallets",
		c.Filter(ui.Field{Name: "asset", Label: c.Text("wallet.currency"), Type: "select", Options: assets}),
		c.Filter(ui.Field{Name: "since", Type: "date"}),
		c.Filter(ui.Field{Name: "until", Type: "date"}),
	)
	if len(balances) > 0 {
		f.Currency = cmp.Or(f.Currency, string(balances[0].Currency))
		p.Files = statementFiles(c, money.Asset(f.Currency))
		if t, ok := c.Payroll.TransferTo(c.Session.Company.ID, money.Asset(f.Currency)); ok {
			p.Add = append([]fact{{c.Text("wallet.currency"), f.Currency}}, bankFacts(c, t)...)
		}
		i := slices.IndexFunc(balances, func(b wallet.Balance) bool { return string(b.Currency) == f.Currency })
		if i >= 0 && balances[i].Currency.IsCrypto() {
			if p.Coins, err = renderCoins(ctx, c, tx, balances[i].Wallet); err != nil {
				return ui.View{}, err
			}
		}
		if p.Months, err = closedMonths(ctx, c, tx, money.Asset(f.Currency)); err != nil {
			return ui.View{}, err
		}
		if p.Chart, err = balanceChart(ctx, c, tx, f); err != nil {
			return ui.View{}, err
		}
	}
	var wanted []ui.Option
	for _, a := range wallet.Currencies {
		if !a.IsCrypto() || len(wallet.Networks(a, c.Payroll.Network, c.Payroll.Accounts)) > 0 {
			wanted = append(wanted, ui.Option{Value: string(a), Label: string(a)})
		}
	}
	p.Request = []ui.Field{c.Field(ui.Field{Name: "asset", Label: c.Text("wallet.currency"), Type: "select",
		Options: wanted})}
	return ui.View{Template: "wallets", Title: c.Text("wallets.title"), Data: p}, nil
}

// balanceChart draws the balance of one currency over time.
func balanceChart(ctx context.Context, c *ui.Request, tx *db.Tx, f wallet.Filter) (ui.Chart, error) {
	f.Page = db.Page{PerPage: maxChartLines}
	all, _, err := wallet.Transactions(ctx, tx, c.Session.Principal(), "", f)
	if err != nil {
		return ui.Chart{}, err
	}
	slices.Reverse(all)
	ch := ui.Chart{Title: c.Text("wallet.chart", f.Currency), When: c.Text("step.at"), What: c.Text("wallet.balance"),
		TableLabel: c.Text("chart.figures")}
	for _, t := range all {
		ch.Points = append(ch.Points, ui.Point{Label: c.FormatTime(t.At), Value: t.Balance.Units(),
			Text: c.FormatMoney(t.Balance)})
	}
	return ch, nil
}

// requestWallet requests a wallet in a currency.
func requestWallet(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	_, err := wallet.Request(ctx, tx, c.Session.Principal(), "", c.Form.Get("asset"))
	return ui.View{Redirect: "/wallets"}, ui.WholeFormError(err)
}

// walletCSV exports the statement of the company's balances as CSV.
func walletCSV(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	f := statementFilter(c)
	f.Page = db.Page{PerPage: wallet.MaxStatementLines}
	all, _, err := wallet.Transactions(ctx, tx, c.Session.Principal(), "", f)
	if err != nil {
		return ui.View{}, err
	}
	return ui.Download(document.TransactionsCSV("statement.csv", all))
}
