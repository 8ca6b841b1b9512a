package deposit

import (
	"context"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
)

// Money sent to a wallet's address is credited to the company's balance once it is confirmed. If a reorganization
// removes it, it is debited again; an amount already spent is owed until the money is confirmed again.
func TestWallet(t *testing.T) {
	run(t, func(t *testing.T, h *fixture) {
		const wallet = "wal_1"
		come := func(txid string, asset money.Asset, amount int64) {
			h.output(txid, 0, wallet, amount)
			if asset != money.BTC {
				h.exec("UPDATE chain_outputs SET asset = $1 WHERE txid = $2", string(asset), txid)
			}
			h.sync(txid, 0)
		}
		becomes := func(txid, state string, confirmed bool) {
			h.chain(txid, state, confirmed, "")
			h.sync(txid, 0)
		}
		holds := func(c ledger.Code, dim string, a money.Asset, want int64) {
			t.Helper()
			if got := h.balanceIn(c, dim, a); got != want {
				t.Errorf("%s %s: %d units of %s, want %d", c, dim, got, a, want)
			}
		}
		confirmations := func(txid string, want int64) {
			t.Helper()
			if d := h.one(txid, 0); d.Wanted != want {
				t.Errorf("%s wants %d confirmations, not %d", txid, d.Wanted, want)
			}
		}
		come("big", money.BTC, 50_000_000) // 25,000 USD
		confirmations("big", 3)
		come("beside", money.BTC, 100_000) // waiting deposits count together, so that splitting lowers nothing
		confirmations("beside", 3)
		holds(ledger.CompanyFunds, "", money.BTC, 0)
		becomes("big", "mined", true)
		becomes("beside", "mined", true)
		come("small", money.BTC, 100_000) // 50 USD, no other waiting deposit
		confirmations("small", 1)
		becomes("small", "mined", true)
		holds(ledger.CompanyFunds, "", money.BTC, 50_200_000)
		come("token", money.USDT, 5_000_000)
		becomes("token", "mined", true)
		holds(ledger.CompanyFunds, "", money.USDT, 5_000_000)
		holds(ledger.OtherWallets, network, money.USDT, 5_000_000)

		for txid, coin := range map[string]money.Amount{"dust": money.New(money.BTC, 293), "gas": money.New(money.POL,
			1_000_000)} {
			come(txid, coin.Asset(), coin.Units())
			becomes(txid, "mined", true)
			holds(ledger.SuspenseUnknown, h.one(txid, 0).ID, coin.Asset(), coin.Units())
			holds(ledger.CompanyFunds, "", money.POL, 0)
		}

		h.write(func(_ context.Context, tx *db.Tx) error { // spend most of it
			return ledger.Post(tx, ledger.Journal{CompanyID: company, SourceType: "payroll", SourceID: "prl_2",
				Purpose: "fund", Lines: []ledger.Line{
					ledger.Debit(ledger.CompanyFunds, "", money.New(money.BTC, 50_150_000)),
					ledger.Credit(ledger.Escrow,
						"prl_2", money.New(money.BTC, 50_150_000)),
				}})
		})
		id := h.one("small", 0).ID
		becomes("small", "seen", false)
		holds(ledger.CompanyFunds, "", money.BTC, 0)
		holds(ledger.DueFromCustomer, id, money.BTC, 50_000)
		becomes("small", "mined", true)
		holds(ledger.DueFromCustomer, id, money.BTC, 0)
		holds(ledger.CompanyFunds, "", money.BTC, 50_000)
		becomes("small", "evicted", false)
		becomes("big", "replaced", false)
		holds(ledger.DueFromCustomer, h.one("big", 0).ID, money.BTC, 50_000_000)
		holds(ledger.HotWallet, "", money.BTC, 100_293)

		h.write(func(ctx context.Context, tx *db.Tx) error {
			all, total, err := OfBalance(ctx, tx, company, "BTC", 2, 1)
			if err == nil && (total != 3 || len(all) != 2) {
				t.Errorf("%d of %d deposits", len(all), total)
			}
			if err != nil {
				return err
			}
			waiting, err := UnknownToAll(ctx, tx, 10)
			if len(waiting) != 1 || waiting[0].Amount.Asset() != money.POL {
				t.Errorf("%v wait in suspense", waiting)
			}
			return err
		})
	})
}
