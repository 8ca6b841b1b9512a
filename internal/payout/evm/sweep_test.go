package evm_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evmtest"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout/payouttest"
)

// Deposits are swept to the hot wallet, tokens after gas was sent to their address, on a network that charges
// separately for publishing data. Whichever answers are lost, the chain proves that each deposit is moved once and
// completely.
func TestDepositsAreSweptOnARealNode(t *testing.T) {
	node := evmtest.Start(t)
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		w := newRealFixture(f, node)
		ether := node.Chain(t, money.ETH)
		w.Must(node.SetDataFee(t.Context(), 500_000_000_000_000)) // the data fee exceeds the cost of all gas
		pool := chain.NewPool(w.DB, "base", w.keys.Deriver())
		var tokens, coins string
		w.Write(func(ctx context.Context, tx *db.Tx) (err error) {
			if tokens, err = pool.NewAddress(ctx, tx, payouttest.Company, "clm_1"); err == nil {
				coins, err = pool.NewAddress(ctx, tx, payouttest.Company, "clm_2")
			}
			return err
		})
		before, _, err := w.lab.Paid(t.Context(), money.USDC)
		w.Must(err)
		_, err = w.lab.PayAll(t.Context(), chain.Output{Address: tokens, Amount: 9_000_000})
		w.Must(err)
		_, err = ether.PayAll(t.Context(), chain.Output{Address: coins, Amount: 50_000_000})
		w.Must(err)
		for range 6 {
			w.mine()
		}

		for i := range 6 {
			w.Must(w.rail.Sweep(t.Context(), w.DB))
			if i%2 == 0 { // the node receives the broadcast, but its answer is lost
				node.SetConnection(evmtest.ResponsesLost)
			}
			w.Drain()
			node.SetConnection(evmtest.Connected)
			w.wait(time.Minute)
			w.mine()
		}

		got, _, err := w.lab.Paid(t.Context(), money.USDC)
		w.Must(err)
		if n := got[w.hot] - before[w.hot]; n != 9_000_000 {
			t.Errorf("%d of the tokens arrived", n)
		}
		_, times, err := w.lab.Paid(t.Context(), money.ETH)
		w.Must(err)
		state, err := node.State(t.Context(), coins)
		w.Must(err)
		// The margin of the data fee remains at the address: the node would reject the transaction without it.
		if left := state.Balances[money.ETH]; left < 500_000 || left > 1_000_000 || state.Nonce != 1 || times[tokens] != 1 {
			t.Errorf("%d are left after %d transactions, and gas came %d times", left, state.Nonce, times[tokens])
		}
		w.Read(func(ctx context.Context, tx *db.Tx) error {
			var open int
			failed := tx.QueryRow(ctx, "SELECT COUNT(*) FROM payout_batches WHERE state <> 'fulfilled'").Scan(&open)
			if open > 0 || failed != nil {
				t.Errorf("%d transactions are open, %v", open, failed)
			}
			// A sweep costs the operator the fee; other balances do not change.
			rows, failed := tx.Query(ctx, `
				SELECT b.batch_id, b.purpose, l.code, l.asset, CAST(SUM(l.amount) AS BIGINT), b.fee FROM payout_batches b
				JOIN ledger_journals j ON j.company_id = b.company_id AND j.source_id = b.batch_id
				JOIN ledger_lines l ON l.company_id = j.company_id AND l.journal_id = j.journal_id
				GROUP BY b.batch_id, b.purpose, l.code, l.asset, b.fee HAVING SUM(l.amount) <> 0 ORDER BY b.batch_id, l.code`)
			lines, failed := db.Collect(rows, failed, func(r *db.Rows) (string, error) {
				var id, purpose, code, asset string
				var sum, fee int64
				err := r.Scan(&id, &purpose, &code, &asset, &sum, &fee)
				if fee <= 0 || sum != fee && sum != -fee {
					t.Errorf("%s: %d on %s, of a fee of %d", purpose, sum, code, fee)
				}
				return fmt.Sprintf("%s %s %s %t", purpose, code, asset, sum > 0), err
			})
			want := map[string]int{"gas 1006 ETH false": 1, "gas 5000 ETH true": 1, "sweep 1006 ETH false": 2,
				"sweep 5000 ETH true": 2}
			for _, line := range lines {
				want[line]--
			}
			for line, n := range want {
				if n != 0 || failed != nil {
					t.Errorf("%q: %d are missing, %v", line, n, failed)
				}
			}
			return failed
		})
		w.Must(node.SetDataFee(t.Context(), 0))
	})
}
