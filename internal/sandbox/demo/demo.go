// Package demo shows a payroll, from its creation to the last payout, in a terminal. It is a client of the public
// API. With a regtest node it also mines blocks and pays.
package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/sandbox"
	"github.com/stipend/stipend/internal/sandbox/apiclient"
)

// Options are the parameters of Run.
type Options struct {
	Client         *apiclient.Client
	Payees         int    // number of people to pay
	Amount         string // amount of each payment, in USD
	BitcoinRPC     string // URL of a Bitcoin node; "" for the simulated chain
	BitcoinNetwork string
}

// Run creates a payroll, pays it in the sandbox, and prints the progress until every payee is paid.
func Run(ctx context.Context, t *Terminal, o Options) error {
	api := o.Client
	var company struct {
		CompanyID string `json:"company_id"`
		Name      string `json:"name"`
	}
	if err := api.Get(ctx, "/api/company", &company); err != nil {
		return err
	}

	t.Step("Payees of %s", company.Name)
	people, err := o.people(ctx, t, api, company.CompanyID)
	if err != nil {
		return err
	}
	toPay := make([]map[string]any, len(people))
	for i, p := range people {
		toPay[i] = map[string]any{"user_id": p.id, "amount_fiat": json.Number(o.Amount), "description": "Demo pay"}
	}
	var made created
	if err := api.Post(ctx, "/api/company/payroll/create", map[string]any{
		"company_id": company.CompanyID, "currency": "USD", "funding_method": "crypto", "funding_currency": "BTC",
		"to_pay": toPay,
	}, &made); err != nil {
		return err
	}
	rows := [][]string{}
	for i, p := range people {
		if i == 12 && len(people) > 14 {
			rows = append(rows, []string{"", fmt.Sprintf("… and %d more", len(people)-i), ""})
			break
		}
		rows = append(rows, []string{p.name, p.id, o.Amount + " USD"})
	}
	rows = append(rows, []string{"", "Volume", made.Volume.String() + " USD"}, []string{"", "Fees", made.Fees.String() +
		" USD"},
		[]string{"", "Total", made.Total.String() + " USD"})
	t.table("NAME\tID\tAMOUNT", rows)

	q := made.Quote
	t.Step("Quote for payroll %s", made.PayrollID)
	t.Note("Send     %s %s", q.FundingAmount, q.FundingCurrency)
	t.Note("To       %s  (%s)", q.FundingDetails.Address, q.FundingDetails.Network)
	t.Note("Price    %s USD per %s", q.Rate, q.FundingCurrency)
	t.Note("Until    %s", q.ValidTo.Local().Format("15:04:05"))
	if err := t.qr(fmt.Sprintf("bitcoin:%s?amount=%s", q.FundingDetails.Address, q.FundingAmount)); err != nil {
		return err
	}

	node, err := o.pay(ctx, t, api, made)
	if err != nil {
		return err
	}
	return t.follow(ctx, api, made, node)
}

// person is one payee of the demo.
type person struct{ id, name string }

// people returns workers of the company who can be paid. If they are too few, it creates recipients with new
// addresses.
func (o Options) people(ctx context.Context, t *Terminal, api *apiclient.Client, companyID string) ([]person, error) {
	var workers struct {
		Data []struct {
			UserID           string `json:"user_id"`
			FirstName        string `json:"first_name"`
			LastName         string `json:"last_name"`
			HasDistributions bool   `json:"has_distributions"`
		} `json:"data"`
	}
	if err := api.Get(ctx, "/api/company/workers?per_page=100&company_id="+companyID, &workers); err != nil {
		return nil, err
	}
	var all []person
	for _, w := range workers.Data {
		// This worker receives half by bank, and the demo has no bank.
		if w.UserID == sandbox.DefaultSeed().Workers[sandbox.BankWorker].UserID {
			continue
		}
		if w.HasDistributions && len(all) < o.Payees {
			all = append(all, person{w.UserID, w.FirstName + " " + w.LastName})
		}
	}
	if len(all) == o.Payees {
		return all, nil
	}
	wallet, err := sandbox.NewWallet(o.BitcoinNetwork)
	if err != nil {
		return nil, err
	}
	for i := len(all); i < o.Payees; i++ {
		t.status("Creating payee %d of %d", i+1, o.Payees)
		last := fmt.Sprintf("Demo %04d", i+1)
		var made struct {
			RecipientID string `json:"recipient_id"`
		}
		if err := api.Post(ctx, "/api/company/"+companyID+"/recipients/create", map[string]any{
			"first_name": "Payee", "last_name": last, "country": "US",
		}, &made); err != nil {
			return nil, err
		}
		address, err := wallet.Deriver().Address(chain.External, uint32(i))
		if err != nil {
			return nil, err
		}
		if err := api.Post(ctx, "/api/company/"+companyID+"/recipients/"+made.RecipientID+"/distribution", map[string]any{
			"symbol": "BTC", "distribution_data": map[string]any{"address": address},
		}, nil); err != nil {
			return nil, err
		}
		all = append(all, person{made.RecipientID, "Payee " + last})
	}
	t.clear()
	return all, nil
}

// pay funds the payroll from the sandbox's faucet, by mining on a regtest node, or by waiting for a person to pay. It
// returns a miner for the following blocks, or nil if another program mines them.
func (o Options) pay(ctx context.Context, t *Terminal, api *apiclient.Client, made created) (*miner, error) {
	t.Step("Funding")
	switch {
	case o.BitcoinRPC == "":
		var paid map[string]any
		if err := api.Post(ctx, "/api/sandbox/deposit", map[string]any{"payroll_id": made.PayrollID, "kind": "exact"},
			&paid); err != nil {
			return nil, err
		}
		if tx, ok := paid["tx_hash"].(string); ok {
			t.Note("Paid on the simulated chain: %s", tx)
		} else {
			t.Note("Paid on the simulated chain.")
		}
		return nil, nil
	case o.BitcoinNetwork != "regtest":
		t.Note("Pay the address above from any %s wallet; the demo goes on by itself.", o.BitcoinNetwork)
		return nil, nil
	}
	node, err := newMiner(o.BitcoinRPC)
	if err != nil {
		return nil, err
	}
	sats, err := money.Parse(money.BTC, made.Quote.FundingAmount.String())
	if err != nil {
		return nil, err
	}
	t.status("Mining coins on the regtest node")
	txid, err := node.pay(ctx, made.Quote.FundingDetails.Address, sats.Units())
	t.clear()
	if err != nil {
		return nil, fmt.Errorf("pay on the regtest node: %w", err)
	}
	t.Note("Paid on the regtest node: %s", txid)
	return node, nil
}

// follow prints each change once, until the payroll has ended.
func (t *Terminal) follow(ctx context.Context, api *apiclient.Client, made created, node *miner) error {
	var last detail
	paid := map[string]bool{}
	mineAt := time.Now().Add(time.Second)
	for {
		var now detail
		if err := api.Get(ctx, "/api/company/payrolls/"+made.PayrollID, &now); err != nil {
			return err
		}
		if now.FundingState != last.FundingState && now.FundingState != "" && now.FundingState != "none" {
			t.event("funding", "%s", map[string]string{
				"detected": "money seen, not all of it yet", "partial": "part of it confirmed",
				"confirming": "money seen: enough, waiting for confirmations",
				"funded":     "confirmed in full", "over": "confirmed, with a surplus for the company's balance",
				"late": "money came after the quote ended",
			}[now.FundingState])
		}
		if n := now.confirmations(); n > last.confirmations() {
			t.event("chain", "%d confirmation%s", n, plural(n))
		}
		if now.Status != last.Status {
			t.event("payroll", "%s", now.Status)
		}
		for _, p := range now.Payments {
			for i, o := range p.Outputs {
				key := fmt.Sprintf("%s/%d/%s/%s", p.ID, i, o.status(), o.TxHash)
				if paid[key] || o.status() == "queued" || o.status() == "" {
					continue
				}
				paid[key] = true
				if len(now.Payments) <= 20 {
					t.event("payout", "%-22s %14s %-4s %-10s %s", p.payee(), o.Volume, o.Currency, o.status(), o.TxHash)
				}
			}
		}
		done, all := now.progress()
		switch now.Status {
		case "fulfilled":
			t.event("done", "%d of %d payments reached their payee", done, all)
			return nil
		case "partially_fulfilled", "cancelled", "expired_unfunded", "on_hold":
			return fmt.Errorf("the payroll ended as %s", now.Status)
		}
		if now.Status == "pending" {
			t.status("Quote ends in %s · status %s", time.Until(made.Quote.ValidTo).Truncate(time.Second), now.Status)
		} else {
			t.status("%d of %d payments fulfilled · status %s", done, all, now.Status)
		}
		last = now
		if node != nil && time.Now().After(mineAt) {
			if err := node.mine(ctx, 1); err != nil {
				return fmt.Errorf("mine a block: %w", err)
			}
			mineAt = time.Now().Add(time.Second)
		}
		select {
		case <-ctx.Done():
			t.clear()
			return ctx.Err()
		case <-time.After(150 * time.Millisecond):
		}
	}
}

// The following types contain the members of API responses that the demo reads. Amounts are strings, to avoid binary
// floating point.
type (
	created struct {
		PayrollID string      `json:"payroll_id"`
		Fees      json.Number `json:"fees"`
		Volume    json.Number `json:"volume_input_in_input_currency"`
		Total     json.Number `json:"total_input_in_input_currency"`
		Quote     struct {
			ValidTo         time.Time   `json:"valid_to"`
			Rate            json.Number `json:"rate"`
			FundingCurrency string      `json:"funding_currency"`
			FundingAmount   json.Number `json:"funding_amount"`
			FundingDetails  struct {
				Address string `json:"address"`
				Network string `json:"network"`
			} `json:"funding_details"`
		} `json:"quote"`
	}
	detail struct {
		Status       string `json:"status"`
		FundingState string `json:"funding_state"`
		Deposits     []struct {
			Confirmations int64 `json:"confirmations"`
		} `json:"deposits"`
		Payments []payment `json:"payments"`
	}
	payment struct {
		ID      string   `json:"subpayroll_id"`
		UserID  string   `json:"user_id"`
		Name    string   `json:"name"`
		Status  string   `json:"status"`
		Outputs []output `json:"outputs"`
	}
	output struct {
		Status   string      `json:"status"`
		State    string      `json:"state"`
		Currency string      `json:"output_currency"`
		Volume   json.Number `json:"volume_output_in_output_currency"`
		TxHash   string      `json:"tx_hash"`
	}
)

func (d detail) confirmations() (n int64) {
	for _, p := range d.Deposits {
		n = max(n, p.Confirmations)
	}
	return n
}

func (d detail) progress() (done, all int) {
	for _, p := range d.Payments {
		if p.Status == "fulfilled" {
			done++
		}
	}
	return done, len(d.Payments)
}

func (p payment) payee() string {
	if p.Name != "" {
		return p.Name
	}
	return p.UserID
}

func (o output) status() string {
	if o.Status != "" {
		return o.Status
	}
	return o.State
}

func plural(n int64) string {
	if n == 1 {
		return ""
	}
	return "s"
}
