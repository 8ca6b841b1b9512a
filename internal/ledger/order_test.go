package ledger_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
)

// Money that moves both ways between the same accounts at once takes their rows in one order, so nobody is sent away because
// of deadlocks, each of which PostgreSQL takes a second to find.
func TestOppositeTransfersDoNotDeadlock(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		post := func(id string, lines ...ledger.Line) error {
			return d.Write(t.Context(), func(_ context.Context, tx *db.Tx) error {
				return ledger.Post(tx, ledger.Journal{CompanyID: "com_1", SourceType: "test", SourceID: id, Purpose: "move", Lines: lines})
			})
		}
		sats := func(n int64) money.Amount { return money.New(money.BTC, n) }
		if err := post("fund", ledger.Debit(ledger.HotWallet, "", sats(2_000_000)),
			ledger.Credit(ledger.Escrow, "a", sats(1_000_000)), ledger.Credit(ledger.Escrow, "b", sats(1_000_000))); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for i := range 8 {
			from, to := "a", "b"
			if i%2 == 1 {
				from, to = to, from
			}
			all.Go(func() {
				for n := range 25 {
					if err := post(fmt.Sprintf("%d-%d", i, n), ledger.Debit(ledger.Escrow, from, sats(1)), ledger.Credit(ledger.Escrow, to, sats(1))); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
	})
}
