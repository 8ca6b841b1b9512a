package app_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/testkit"
)

type walletView struct {
	ID        string      `json:"wallet_id"`
	Currency  string      `json:"currency"`
	Status    string      `json:"status"`
	Available json.Number `json:"available"`
	Address   string      `json:"address"`
	Networks  []string    `json:"networks"`
}

func (d *apiClient) wallet(currency string) (w walletView) {
	d.Helper()
	var all struct {
		Wallets []walletView `json:"wallets"`
	}
	d.decode(d.ok("GET", "/api/wallets", ""), &all)
	for _, w := range all.Wallets {
		if w.Currency == currency {
			return w
		}
	}
	return w
}

// A company's wallet in coins keeps its own address permanently. Deposits there are credited to its balance, even if
// the chain discards their block and mines them again, and the balance can pay payrolls.
func walletReceivesCoins(d *apiClient) {
	for _, x := range []struct{ currency, amount, network string }{{"BTC", "0.02", "regtest"}, {"USDC", "300.00",
		"base"}} {
		asset := money.Asset(x.currency)
		open := func() (w walletView) {
			d.ok("POST", "/api/wallets/request", `{"currency":"`+x.currency+`"}`)
			eventually(d.T, 30*time.Second, "the wallet has an address",
				func() bool { w = d.wallet(x.currency); return w.Address != "" })
			return w
		}
		w := open()
		if again := open(); again.ID != w.ID || again.Address != w.Address || strings.Join(w.Networks, " ") != x.network ||
			w.Status != "completed" {
			d.Fatalf("%+v, and then %+v", w, again)
		}
		before := d.balanceIn(ledger.CompanyFunds, "", asset)
		pay := func(kind string) string {
			return d.ok("POST", "/api/sandbox/deposit", fmt.Sprintf(`{"wallet_id":%q,"network":%q,"kind":%q,"amount":%s}`, w.ID,
				x.network, kind, x.amount)).read(d)["tx_hash"].(string)
		}
		hashes := []string{pay("exact"), pay("reorged")}
		eventually(d.T, 60*time.Second, "the ledger records the reorganization", func() bool {
			return d.count("SELECT COUNT(*) FROM jobs WHERE kind = $1", chain.JobOutput) == 0
		})
		one, err := money.Parse(asset, x.amount)
		testkit.Check(d, err)
		type coming struct {
			WalletID string      `json:"wallet_id"`
			Status   string      `json:"status"`
			Amount   json.Number `json:"amount"`
			TxHash   string      `json:"tx_hash"`
			Network  string      `json:"network"`
			Address  string      `json:"address"`
			Depth    int64       `json:"confirmations"`
		}
		var seen struct {
			Data []coming `json:"data"`
		}
		// The second deposit is also credited before the chain discards its block. It has no confirmations after
		// that, until it is mined again.
		eventually(d.T, 60*time.Second, "both deposits are credited", func() bool {
			got, err := d.balanceIn(ledger.CompanyFunds, "", asset).Sub(before)
			if err != nil || got.Units() != 2*one.Units() {
				return false
			}
			seen.Data = nil
			d.decode(d.ok("GET", "/api/wallets/deposits?per_page=2&currency="+x.currency, ""), &seen)
			return !slices.ContainsFunc(seen.Data, func(c coming) bool { return c.Status != "confirmed" || c.Depth < 1 })
		})
		for _, got := range seen.Data {
			if got.WalletID != w.ID || got.Network != x.network || got.Address != w.Address || got.TxHash != hashes[0] &&
				got.TxHash != hashes[1] {
				d.Errorf("%+v", got)
			}
		}
		if len(seen.Data) != 2 {
			d.Errorf("the list has %d deposits, want 2", len(seen.Data))
		}
		if text := d.ok("GET", "/api/wallets/transactions?currency="+x.currency, "").text; strings.Count(text,
			`"type":"coin_deposit"`) < 2 {
			d.Error(text)
		}
		if n := d.count(`SELECT COUNT(*) FROM events WHERE name = 'wallet.deposit_update'
			AND data LIKE '%"status":"confirmed"%' AND data LIKE $1`, "%"+w.ID+"%"); n < 2 {
			d.Errorf("%d events report confirmed deposits, want at least 2", n)
		}
	}
	paid := d.create(pays(`"funding_method":"wallet","funding_currency":"USDC",`, "50.00", d.bankPayee()))
	d.fulfilled(paid.PayrollID)

	d.refused(422, "missing_field", "POST", "/api/sandbox/deposit",
		`{"wallet_id":"`+d.wallet("BTC").ID+`","kind":"exact"}`)
	d.refused(422, "invalid_parameter", "POST", "/api/sandbox/deposit",
		`{"wallet_id":"`+d.wallet("BTC").ID+`","kind":"exact","amount":1,"network":"base"}`)
	d.refused(404, "not_found", "POST", "/api/sandbox/deposit", `{"wallet_id":"wal_nobody","kind":"exact","amount":1}`)
}
