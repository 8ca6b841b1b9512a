package ledger

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/testkit"
)

func TestOperatorMovementsAreRolledUp(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		const journals = 7
		if err := d.Write(t.Context(), func(_ context.Context, tx *db.Tx) error {
			for i := range journals {
				for _, a := range []money.Asset{money.BTC, money.USD} {
					if err := Post(tx, Journal{
						CompanyID: "com_1", SourceType: "test", SourceID: fmt.Sprint(i, a), Purpose: "post", Lines: []Line{
							Debit(HotWallet, "", money.New(a, 5)), Credit(FeeRevenue, "", money.New(a, 3)),
							Credit(CompanyFunds, "", money.New(a, 2)),
						},
					}); err != nil {
						return err
					}
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		check := func(left int64) {
			t.Helper()
			if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				var n int64
				if err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM operator_movements").Scan(&n); err != nil {
					return err
				}
				owned, err := OperatorBalances(ctx, tx)
				if err != nil {
					return err
				}
				btc, usd := owned[money.BTC].Units(), owned[money.USD].Units()
				if n != left || len(owned) != 2 || btc != 3*journals || usd != 3*journals {
					t.Errorf("%d movements, want %d; the operator's balances are %v", n, left, owned)
				}
				report, err := Check(ctx, tx)
				if len(report.Problems) > 0 {
					t.Errorf("Check: %v", report.Problems)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		check(2 * journals)
		dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error {
			if n, err := rollUp(ctx, tx, money.BTC, 4); n != 4 || err != nil {
				return fmt.Errorf("%d of 4: %w", n, err)
			}
			return nil
		})
		check(2*journals - 4)
		for range 2 {
			testkit.Check(t, RollUp(t.Context(), d))
			check(0)
		}
		// Check reports an operator balance that differs from the accounts.
		dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE operator_balances SET balance = balance + 1 WHERE asset = 'BTC'")
			return err
		})
		dbtest.Read(t, d, func(ctx context.Context, tx *db.Tx) error {
			report, err := Check(ctx, tx)
			if len(report.Problems) != 1 {
				t.Errorf("a wrong balance: %v", report.Problems)
			}
			return err
		})
	})
}

// Two processes spend the operator's balance concurrently, while others post: each unit is spent once.
func TestOperatorBalanceIsSpentOnce(t *testing.T) {
	dbtest.RunURL(t, func(t *testing.T, url string) {
		sats := func(n int64) money.Amount { return money.New(money.BTC, n) }
		var processes []*db.DB
		for i := range 2 {
			d, err := db.Open(t.Context(), db.Options{URL: url})
			testkit.Check(t, err)
			t.Cleanup(func() { _ = d.Close() }) // an error of Close loses no data of the test
			if i == 0 {
				testkit.Check(t, d.Migrate(t.Context()))
			}
			processes = append(processes, d)
		}
		post := func(d *db.DB, company, id string, lines ...Line) {
			t.Helper()
			if err := d.Write(t.Context(), func(_ context.Context, tx *db.Tx) error {
				return Post(tx, Journal{CompanyID: company, SourceType: "test", SourceID: id, Purpose: "post", Lines: lines})
			}); err != nil {
				t.Error(err)
			}
		}
		// spend debits one unit if the operator has it, and reports whether it did.
		spend := func(d *db.DB, id string) (got bool) {
			if err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				owned, err := DebitOperator(ctx, tx, money.BTC, money.USD)
				if got = err == nil && owned[money.BTC].Units() > 0; !got {
					return err
				}
				for range 20 { // lets the other process read between the reads and writes of this one
					if _, err := OperatorBalances(ctx, tx, money.BTC); err != nil {
						return err
					}
				}
				return Post(tx, Journal{
					CompanyID: "com_2", SourceType: "test", SourceID: id, Purpose: "post",
					Lines: []Line{Debit(FXPosition, "", sats(1)), Credit(OutputPayable, id, sats(1))},
				})
			}); err != nil {
				t.Error(err)
			}
			return got
		}
		post(processes[0], "com_1", "1", Debit(HotWallet, "", sats(1_000)), Credit(CompanyFunds, "", sats(1_000)))
		const rounds = 6
		for round := range rounds {
			post(processes[round%2], Operator, fmt.Sprint(round), Debit(HotWallet, "", sats(1)), Credit(FXPosition, "", sats(1)))
			if round%2 == 0 { // in every second round, the movement is in the balance; in the others it is separate
				testkit.Check(t, processes[0].Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
					_, err := DebitOperator(ctx, tx, money.BTC)
					return err
				}))
			}
			var wg sync.WaitGroup
			var got [2]bool
			for i, d := range processes {
				wg.Go(func() { got[i] = spend(d, fmt.Sprint(round, " by ", i)) })
			}
			wg.Go(func() {
				post(processes[1], "com_2", fmt.Sprint("fee ", round),
					Debit(Bank, "", money.New(money.USD, 1)), Credit(FeeRevenue, "", money.New(money.USD, 1)))
			})
			wg.Wait()
			if got[0] == got[1] {
				t.Errorf("round %d: processes that spent the only unit: %v", round, got)
			}
		}
		testkit.Check(t, processes[1].Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			owned, err := OperatorBalances(ctx, tx, money.BTC, money.USD, money.EUR)
			if err != nil {
				return err
			}
			if !owned[money.BTC].IsZero() || owned[money.USD].Units() != rounds || !owned[money.EUR].IsZero() {
				t.Errorf("the operator's balances are %v", owned)
			}
			report, err := Check(ctx, tx)
			if len(report.Problems) > 0 {
				t.Errorf("Check: %v", report.Problems)
			}
			return err
		}))
	})
}
