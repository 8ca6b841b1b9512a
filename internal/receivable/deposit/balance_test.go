package deposit

import (
	"context"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/testkit/fixture"
)

// Money sent to a wallet's address is credited to the company's balance once it is confirmed. If a reorganization
// removes it, it is debited again; an amount already spent is owed until the money is confirmed again.
func TestWallet(t *testing.T) {
	run(t, func(h *env) {
		const wallet = "wal_1"
		receive := func(txid string, asset money.Asset, amount int64) {
			h.output(txid, 0, wallet, amount)
			if asset != money.BTC {
				h.exec("UPDATE chain_outputs SET asset = $1 WHERE txid = $2", string(asset), txid)
			}
			h.sync(txid, 0)
		}
		holds := func(c ledger.Code, dim string, a money.Asset, want int64) {
			h.Helper()
			h.WantBalance(c, dim, money.New(a, want))
		}
		confirmations := func(txid string, want int64) {
			h.Helper()
			if d := h.one(txid, 0); d.Wanted != want {
				h.Errorf("%s wants %d confirmations, not %d", txid, d.Wanted, want)
			}
		}
		receive("big", money.BTC, 50_000_000) // worth 25,000 USD
		confirmations("big", 3)
		receive("beside", money.BTC, 100_000) // waiting deposits count together
		confirmations("beside", 3)
		holds(ledger.CompanyFunds, "", money.BTC, 0)
		h.report("big", "mined", true)
		h.report("beside", "mined", true)
		receive("small", money.BTC, 100_000) // worth 50 USD; no other deposit waits
		confirmations("small", 1)
		h.report("small", "mined", true)
		holds(ledger.CompanyFunds, "", money.BTC, 50_200_000)
		receive("token", money.USDT, 5_000_000)
		h.report("token", "mined", true)
		holds(ledger.CompanyFunds, "", money.USDT, 5_000_000)
		holds(ledger.OtherWallets, network, money.USDT, 5_000_000)

		for txid, coin := range map[string]money.Amount{"dust": money.New(money.BTC, 293), "gas": money.New(money.POL,
			1_000_000)} {
			receive(txid, coin.Asset(), coin.Units())
			h.report(txid, "mined", true)
			holds(ledger.SuspenseUnknown, h.one(txid, 0).ID, coin.Asset(), coin.Units())
			holds(ledger.CompanyFunds, "", money.POL, 0)
		}

		spent := fixture.Sats(50_150_000) // the company spends most of its balance
		h.Post(company, "payroll", "prl_2", "fund", ledger.Debit(ledger.CompanyFunds, "", spent),
			ledger.Credit(ledger.Escrow, "prl_2", spent))
		id := h.one("small", 0).ID
		h.report("small", "seen", false)
		holds(ledger.CompanyFunds, "", money.BTC, 0)
		holds(ledger.DueFromCustomer, id, money.BTC, 50_000)
		h.report("small", "mined", true)
		holds(ledger.DueFromCustomer, id, money.BTC, 0)
		holds(ledger.CompanyFunds, "", money.BTC, 50_000)
		h.report("small", "evicted", false)
		h.report("big", "replaced", false)
		holds(ledger.DueFromCustomer, h.one("big", 0).ID, money.BTC, 50_000_000)
		holds(ledger.HotWallet, "", money.BTC, 100_293)

		h.Write(func(ctx context.Context, tx *db.Tx) error {
			all, total, err := OfBalance(ctx, tx, company, "BTC", db.Page{Number: 2, PerPage: 1})
			if total != 3 || len(all) != 1 {
				h.Errorf("%d of %d deposits", len(all), total)
			}
			return err
		})
		if all := h.unknown(); len(all) != 1 || all[0].Amount.Asset() != money.POL {
			h.Errorf("%v are in suspense", all)
		}
	})
}
