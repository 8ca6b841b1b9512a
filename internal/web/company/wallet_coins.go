package company

import (
	"context"
	"html/template"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/receivable/deposit"
	"github.com/stipend/stipend/internal/wallet"
	"github.com/stipend/stipend/internal/web/ui"
)

// coinsPart shows the address of a wallet and its deposits.
type coinsPart struct {
	Wallet    wallet.Wallet
	Groups    []string // address
	Names     string   // networks that it supports
	Test      bool     // on a test network
	QR        template.HTML
	Deposits  ui.Table
	Simulates bool
	Simulated []ui.Field
}

// maxCoinDeposits is the number of deposits that the page lists. The API lists all.
const maxCoinDeposits = 20

func renderCoins(ctx context.Context, c *ui.Request, tx *db.Tx, w wallet.Wallet) (p *coinsPart, err error) {
	p = &coinsPart{Wallet: w, Simulates: c.CanSimulate() && c.Session.Manages()}
	if w.Address != "" {
		var names []string
		networks := ui.Field{Name: "network", Label: c.Text("wallet.network"), Type: "select"}
		for _, name := range wallet.Networks(w.Currency, c.Payroll.Network, c.Payroll.Accounts) {
			names = append(names, networkName(name))
			p.Test = p.Test || isTestNetwork(c, name)
			networks.Options = append(networks.Options, ui.Option{Value: name, Label: networkName(name)})
		}
		p.Names, p.Groups = strings.Join(names, ", "), ui.GroupsOfFour(w.Address)
		if p.QR, err = ui.QRCode(w.Address); err != nil {
			return nil, err
		}
		p.Simulated = []ui.Field{c.Field(networks), c.Field(ui.Field{Name: "amount", MaxLength: 30})}
	}
	p.Deposits = ui.Table{Caption: c.Text("deposits.title"), Empty: c.Empty("deposits.none"),
		Heads: c.Columns("deposits.seen", "payment.amount#", "payroll.status", "wallet.network", "deposits.confirmations#",
			"deposits.tx")}
	all, _, err := deposit.OfBalance(ctx, tx, c.Session.Company.ID, string(w.Currency),
		db.Page{PerPage: maxCoinDeposits})
	if err != nil {
		return nil, err
	}
	depths, err := deposit.Depths(ctx, tx, all)
	for i, d := range all {
		network := d.Chain
		if network == c.Payroll.ChainName {
			network = c.Payroll.Network
		}
		p.Deposits.Rows = append(p.Deposits.Rows, []ui.Cell{
			c.TimeCell(d.FirstSeen), c.AmountCell(d.Amount), {Text: c.Word("deposit.state", string(d.State))},
			{Text: networkName(network)},
			{Kind: "number", Text: c.Text("deposits.of", c.FormatCount(min(depths[i], d.Wanted)), c.FormatCount(d.Wanted))},
			ui.CodeCell(d.TxID),
		})
	}
	return p, err
}

// simulateWalletDeposit pays a wallet's address on the simulated chain.
func simulateWalletDeposit(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	_, err := c.Sandbox.Deposit(ctx, c.Session.Principal(), c.HTTP.PathValue("id"), "", c.Form.Get("network"), "exact",
		strings.TrimSpace(c.Form.Get("amount")))
	if f, ok := apierr.As(err); ok && f.Kind != apierr.NotFound && len(f.Fields) == 0 {
		err = f.At("body", "")
	}
	return ui.View{Redirect: "/wallets?asset=" + c.Query("asset")}, err
}
