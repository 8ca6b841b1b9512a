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

// Two processes take out of what the house owns at the same time, while others book: each unit is taken once.
func TestWhatTheHouseOwnsIsTakenOnce(t *testing.T) {
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
				own, err := TakeOwn(ctx, tx, money.BTC, money.USD)
				if got = err == nil && own[money.BTC].Units() > 0; !got {
					return err
				}
				for range 20 { // long enough for the other to look
					if _, err := Own(ctx, tx, money.BTC); err != nil {
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
			post(processes[round%2], House, fmt.Sprint(round), Debit(HotWallet, "", one(1)), Credit(FXPosition, "", one(1)))
			if round%2 == 0 { // what was booked is added up already, or is not yet
				if err := processes[0].Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
					_, err := TakeOwn(ctx, tx, money.BTC)
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
			own, err := Own(ctx, tx, money.BTC, money.USD, money.EUR)
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
