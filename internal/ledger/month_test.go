package ledger_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/testkit"
)

// A past month is closed once, with the balance of each account. A later change of its lines is found.
func TestPastMonthsAreClosed(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		fund := func(source string, sats int64) {
			t.Helper()
			testkit.Check(t, post(d, source, "fund", transfer(sats, ledger.HotWallet, "", ledger.CompanyFunds, "")...))
		}
		read := func(f func(ctx context.Context, tx *db.Tx) error) {
			t.Helper()
			dbtest.Read(t, d, f)
		}
		closed := func() (text string) {
			t.Helper()
			testkit.Check(t, ledger.ClosePeriods(t.Context(), d))
			read(func(ctx context.Context, tx *db.Tx) error {
				all, err := ledger.Closings(ctx, tx, "com_1", ledger.CompanyFunds, money.BTC, 10)
				for _, m := range all {
					text += fmt.Sprint(m.Begin.Format("2006-01"), "=", m.Balance.Units(), " ")
				}
				return err
			})
			return text
		}
		var first time.Time
		read(func(_ context.Context, tx *db.Tx) error {
			first = tx.Now().UTC()
			return nil
		})
		name := func(months int) string {
			return time.Date(first.Year(), first.Month()+time.Month(months), 1, 0, 0, 0, 0, time.UTC).Format("2006-01")
		}
		begins := func(months int) time.Duration {
			return time.Date(first.Year(), first.Month()+time.Month(months), 1, 0, 0, 0, 0, time.UTC).Sub(first)
		}
		fund("a", 5)
		if got := closed(); got != "" {
			t.Errorf("closed during the month: %s", got)
		}
		clock.Advance(begins(1) + 30*time.Minute) // half an hour after the month: too early to close it
		fund("b", 7)
		if got := closed(); got != "" {
			t.Errorf("closed half an hour after the month: %s", got)
		}
		clock.Advance(time.Hour)
		fund("c", 1)
		for range 2 {
			if got := closed(); got != name(0)+"=5 " {
				t.Errorf("after the first month: %s", got)
			}
		}
		clock.Advance(begins(4) - begins(1))
		if got := closed(); got != name(3)+"=13 "+name(2)+"=13 "+name(1)+"=13 "+name(0)+"=5 " {
			t.Errorf("after three more months: %s", got)
		}
		problems := func() (found []string) {
			read(func(ctx context.Context, tx *db.Tx) (err error) {
				found, err = ledger.CheckClosings(ctx, tx)
				return err
			})
			return found
		}
		if got := problems(); len(got) != 0 {
			t.Errorf("%v", got)
		}
		dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE ledger_lines SET amount = amount + 1 WHERE code = '1000'")
			return err
		})
		want := "account 1000 of company com_1 in BTC changed after month " + name(2)
		if got := problems(); len(got) != 2 || !strings.Contains(got[0], want) {
			t.Errorf("%v", got)
		}
	})
}
