package web

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/wallet"
)

const (
	exported = 10_000 // lines of a statement that a file holds at most
	charted  = 200    // lines of a statement that a chart is drawn from
)

type walletsPage struct {
	Balances  table
	Filters   []field
	Statement table
	Pager     pager
	CSV       string
	Files     []cell // of one currency
	Months    table  // of that currency
	Chart     chart
	Request   []field
	Add       []fact // how money is added by bank in that currency
	Coins     *coinsPart
}

// statementFilter is what the address asks of a statement.
func (c *call) statementFilter() wallet.Filter {
	f := wallet.Filter{From: c.askedDay("since"), To: c.askedDay("until"), Page: c.page(), PerPage: perPage}
	if a, known := money.Lookup(strings.ToUpper(c.query("asset"))); known {
		f.Currency = string(a)
	}
	if !f.To.IsZero() {
		f.To = f.To.AddDate(0, 0, 1) // the day itself, too
	}
	return f
}

// showWallets is what the company has, and what moved it.
func showWallets(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	by := c.session.Principal()
	balances, err := wallet.Balances(ctx, tx, by, "")
	if err != nil {
		return view{}, err
	}
	p := walletsPage{Balances: table{Caption: c.text("overview.balances"), Empty: c.text("overview.balances.none"),
		Heads: c.heads("wallet.currency", "overview.available#", "wallet.reserved#", "payroll.status", "wallet.id")}}
	assets := []option{{Value: "", Label: c.text("list.all")}}
	for _, b := range balances {
		state := cell{Text: c.text("wallet.state.none")}
		if b.ID != "" {
			state = cell{Text: c.word("wallet.state", string(b.State))}
			if b.Reason != "" {
				state.Lines = []cell{{Text: c.word("reason", b.Reason)}}
			}
		}
		p.Balances.Rows = append(p.Balances.Rows, []cell{{Text: string(b.Currency)}, c.amount(b.Available), c.amount(b.Reserved), state, code(b.ID)})
		assets = append(assets, option{Value: string(b.Currency), Label: string(b.Currency)})
	}
	f := c.statementFilter()
	all, total, err := wallet.Transactions(ctx, tx, by, "", f)
	if err != nil {
		return view{}, err
	}
	p.Statement = table{Caption: c.text("wallet.statement"), Empty: c.text("wallet.statement.none"), Heads: c.heads("step.at", "wallet.what", "payment.amount#", "wallet.balance#")}
	for _, t := range all {
		what := cell{Text: c.word("transaction", t.Type)}
		if t.PayrollID != "" {
			what.Lines = []cell{c.link(t.PayrollID, payrollPath(t.PayrollID))}
		}
		p.Statement.Rows = append(p.Statement.Rows, []cell{c.at(t.At), what, c.amount(t.Amount), c.amount(t.Balance)})
	}
	p.Pager = c.pager(f.Page, f.PerPage, total)
	p.CSV = c.url("/wallets/statement.csv")
	if q := c.r.URL.Query(); len(q) > 0 {
		p.CSV = "/wallets/statement.csv?" + q.Encode()
	}
	p.Filters = []field{
		c.filter(field{Name: "asset", Label: c.text("wallet.currency"), Type: "select", Options: assets}),
		c.filter(field{Name: "since", Type: "date"}),
		c.filter(field{Name: "until", Type: "date"}),
	}
	if len(balances) > 0 {
		f.Currency = cmp.Or(f.Currency, string(balances[0].Currency))
		p.Files = c.statementFiles(money.Asset(f.Currency))
		if t, ok := c.Payroll.TransferTo(c.session.Company.ID, money.Asset(f.Currency)); ok {
			p.Add = append([]fact{{c.text("wallet.currency"), f.Currency}}, c.bankFacts(t)...)
		}
		i := slices.IndexFunc(balances, func(b wallet.Balance) bool { return string(b.Currency) == f.Currency })
		if i >= 0 && balances[i].Currency.IsCrypto() {
			if p.Coins, err = c.coinsPart(ctx, tx, balances[i].Wallet); err != nil {
				return view{}, err
			}
		}
		if p.Months, err = c.closedMonths(ctx, tx, money.Asset(f.Currency)); err != nil {
			return view{}, err
		}
		if p.Chart, err = c.balanceChart(ctx, tx, f); err != nil {
			return view{}, err
		}
	}
	var wanted []option
	for _, a := range wallet.Currencies {
		if !a.IsCrypto() || len(wallet.Networks(a, c.Payroll.Network, c.Payroll.Accounts)) > 0 {
			wanted = append(wanted, option{Value: string(a), Label: string(a)})
		}
	}
	p.Request = []field{c.field(field{Name: "asset", Label: c.text("wallet.currency"), Type: "select", Options: wanted})}
	return view{page: "wallets", title: c.text("wallets.title"), wide: true, data: p}, nil
}

// balanceChart draws how the balance in one currency went.
func (c *call) balanceChart(ctx context.Context, tx *db.Tx, f wallet.Filter) (chart, error) {
	f.Page, f.PerPage = 1, charted
	all, _, err := wallet.Transactions(ctx, tx, c.session.Principal(), "", f)
	if err != nil {
		return chart{}, err
	}
	slices.Reverse(all)
	ch := chart{Title: c.text("wallet.chart", f.Currency), When: c.text("step.at"), What: c.text("wallet.balance"), Read: c.text("chart.figures")}
	for _, t := range all {
		ch.Points = append(ch.Points, point{Label: c.instant(t.At), Value: t.Balance.Units(), Text: c.money(t.Balance)})
	}
	return ch, nil
}

// requestWallet asks for a wallet in a currency.
func requestWallet(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	_, err := wallet.Request(ctx, tx, c.session.Principal(), "", c.form.Get("asset"))
	if f, ok := apierr.As(err); ok && f.Kind != apierr.NotFound {
		return view{}, (&apierr.Fault{Kind: f.Kind, Code: f.Code, Detail: f.Detail}).At("body", "")
	}
	return view{redirect: "/wallets"}, err
}

// walletCSV is the statement of the company's balances as a file.
func walletCSV(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	f := c.statementFilter()
	f.Page, f.PerPage = 1, exported
	all, _, err := wallet.Transactions(ctx, tx, c.session.Principal(), "", f)
	if err != nil {
		return view{}, err
	}
	rows := [][]string{{"transaction_id", "time", "type", "description", "amount", "currency", "balance", "source_type", "source_id"}}
	for _, t := range all {
		rows = append(rows, []string{
			t.ID, stamp(t.At), t.Type, t.Description, t.Amount.String(), string(t.Amount.Asset()), t.Balance.String(), t.SourceType, t.SourceID,
		})
	}
	sheet, err := sheet("statement.csv", rows)
	return view{file: sheet}, err
}
