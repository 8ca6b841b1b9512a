package web

import (
	"context"
	"html/template"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/receivable/deposit"
	"github.com/stipend/stipend/internal/wallet"
)

// coinsPart is how a wallet is paid in coins, and what came.
type coinsPart struct {
	Wallet    wallet.Wallet
	Groups    []string // the address
	Names     string   // of the networks on which it is paid
	Test      bool     // their coins are worth nothing
	QR        template.HTML
	Deposits  table
	Simulates bool
	Simulated []field
}

// latestCoins are the deposits that the page of wallets shows. The interface pages all of them.
const latestCoins = 20

func (c *call) coinsPart(ctx context.Context, tx *db.Tx, w wallet.Wallet) (p *coinsPart, err error) {
	p = &coinsPart{Wallet: w, Simulates: c.simulates() && c.session.Manages()}
	if w.Address != "" {
		var names []string
		networks := field{Name: "network", Label: c.text("wallet.network"), Type: "select"}
		for _, name := range wallet.Networks(w.Currency, c.Payroll.Network, c.Payroll.Accounts) {
			names = append(names, networkName(name))
			p.Test = p.Test || c.worthless(name)
			networks.Options = append(networks.Options, option{Value: name, Label: networkName(name)})
		}
		p.Names, p.Groups = strings.Join(names, ", "), groups(w.Address)
		if p.QR, err = qrCode(w.Address); err != nil {
			return nil, err
		}
		p.Simulated = []field{c.field(networks), c.field(field{Name: "amount", Most: 30})}
	}
	p.Deposits = table{Caption: c.text("deposits.title"), Empty: c.text("deposits.none"),
		Heads: c.heads("deposits.seen", "payment.amount#", "payroll.status", "wallet.network", "deposits.confirmations#", "deposits.tx")}
	all, _, err := deposit.OfBalance(ctx, tx, c.session.Company.ID, string(w.Currency), latestCoins, 0)
	if err != nil {
		return nil, err
	}
	depths, err := deposit.Depths(ctx, tx, all)
	for i, d := range all {
		network := d.Chain
		if network == c.Payroll.ChainName {
			network = c.Payroll.Network
		}
		p.Deposits.Rows = append(p.Deposits.Rows, []cell{
			c.at(d.FirstSeen), c.amount(d.Amount), {Text: c.word("deposit.state", string(d.State))}, {Text: networkName(network)},
			{Kind: "number", Text: c.text("deposits.of", c.count(min(depths[i], d.Wanted)), c.count(d.Wanted))}, code(d.TxID),
		})
	}
	return p, err
}

// simulateWalletDeposit pays to a wallet on the simulated chain.
func simulateWalletDeposit(ctx context.Context, _ *db.Tx, c *call) (view, error) {
	_, err := c.Sandbox.Deposit(ctx, c.session.Principal(), c.r.PathValue("id"), c.form.Get("network"), "exact", strings.TrimSpace(c.form.Get("amount")))
	if f, ok := apierr.As(err); ok && f.Kind != apierr.NotFound && len(f.Fields) == 0 {
		err = f.At("body", "")
	}
	return view{redirect: "/wallets?asset=" + c.query("asset")}, err
}
