package ledger

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/money"
)

func TestOperatorMovementsAreRolledUp(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		const journals = 7
		if err := d.Write(t.Context(), func(_ context.Context, tx *db.Tx) error {
			for i := range journals {
				for _, a := range []money.Asset{money.BTC, money.USD} {
					if err := Post(tx, Journal{CompanyID: "com_1", SourceType: "test", SourceID: fmt.Sprint(i, a), Purpose: "post", Lines: []Line{
						Debit(HotWallet, "", money.New(a, 5)), Credit(FeeRevenue, "", money.New(a, 3)), Credit(CompanyFunds, "", money.New(a, 2)),
					}}); err != nil {
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
				own, err := OperatorBalances(ctx, tx)
				if n != left || len(own) != 2 || own[money.BTC].Units() != 3*journals || own[money.USD].Units() != 3*journals {
					t.Errorf("%d moves, want %d; the house owns %v", n, left, own)
				}
				report, err2 := Check(ctx, tx)
				if err2 != nil || len(report.Problems) > 0 {
					t.Errorf("the books: %v, %v", report.Problems, err2)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		check(2 * journals)
		if err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			if n, err := rollUp(ctx, tx, money.BTC, 4); n != 4 || err != nil {
				return fmt.Errorf("%d of 4: %w", n, err)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		check(2*journals - 4)
		for range 2 {
			if err := RollUp(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			check(0)
		}
		// A figure that is not that of the accounts is found.
		if err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE operator_balances SET balance = balance + 1 WHERE asset = 'BTC'")
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			report, err := Check(ctx, tx)
			if len(report.Problems) != 1 {
				t.Errorf("a wrong figure: %v", report.Problems)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	})
}

// Two processes take out of what the house owns at the same time, while others book: each unit is taken once.
func TestOperatorBalanceIsSpentOnce(t *testing.T) {
	dbtest.RunURL(t, func(t *testing.T, url string) {
		one := func(n int64) money.Amount { return money.New(money.BTC, n) }
		var processes []*db.DB
		for i := range 2 {
			d, err := db.Open(t.Context(), db.Options{URL: url})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = d.Close() }) // it is a test's
			if i == 0 {
				if err := d.Migrate(t.Context()); err != nil {
					t.Fatal(err)
				}
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
		// take takes the unit if there is one, and says so.
		take := func(d *db.DB, id string) (got bool) {
			if err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				own, err := DebitOperator(ctx, tx, money.BTC, money.USD)
				if got = err == nil && own[money.BTC].Units() > 0; !got {
					return err
				}
				for range 20 { // long enough for the other to look
					if _, err := OperatorBalances(ctx, tx, money.BTC); err != nil {
						return err
					}
				}
				return Post(tx, Journal{CompanyID: "com_poor", SourceType: "test", SourceID: id, Purpose: "post", Lines: []Line{
					Debit(FXPosition, "", one(1)), Credit(OutputPayable, id, one(1)),
				}})
			}); err != nil {
				t.Error(err)
			}
			return got
		}
		post(processes[0], "com_rich", "1", Debit(HotWallet, "", one(1_000)), Credit(CompanyFunds, "", one(1_000)))
		const rounds = 6
		for round := range rounds {
			post(processes[round%2], Operator, fmt.Sprint(round), Debit(HotWallet, "", one(1)), Credit(FXPosition, "", one(1)))
			if round%2 == 0 { // what was booked is added up already, or is not yet
				if err := processes[0].Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
					_, err := DebitOperator(ctx, tx, money.BTC)
					return err
				}); err != nil {
					t.Fatal(err)
				}
			}
			var wg sync.WaitGroup
			var got [2]bool
			for i, d := range processes {
				wg.Go(func() { got[i] = take(d, fmt.Sprint(round, " by ", i)) })
			}
			wg.Go(func() {
				post(processes[1], "com_poor", fmt.Sprint("fee ", round), Debit(Bank, "", money.New(money.USD, 1)), Credit(FeeRevenue, "", money.New(money.USD, 1)))
			})
			wg.Wait()
			if got[0] == got[1] {
				t.Errorf("round %d: of two, %v took the one unit that there was", round, got)
			}
		}
		if err := processes[1].Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			own, err := OperatorBalances(ctx, tx, money.BTC, money.USD, money.EUR)
			if !own[money.BTC].IsZero() || own[money.USD].Units() != rounds || !own[money.EUR].IsZero() {
				t.Errorf("the house owns %v", own)
			}
			report, err2 := Check(ctx, tx)
			if err2 != nil || len(report.Problems) > 0 {
				t.Errorf("the books: %v, %v", report.Problems, err2)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	})
}
