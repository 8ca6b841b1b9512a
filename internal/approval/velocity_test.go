package approval_test

import (
	"context"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/testkit/fixture"
)

// TestVelocityLimitsCountADayAndAWeek checks the limits of a company and of a payee over a day and over a week, that an
// object is counted once and stays allowed, and that staff can approve what is above.
func TestVelocityLimitsCountADayAndAWeek(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		x := &fixture.Fixture{TB: t, DB: d, Clock: clock}
		usd := func(n int64) money.Amount { return money.New(money.USD, n) }
		limit := approval.NewReleaseLimit(money.Amount{}).WithVelocity(approval.Velocity{CompanyDay: usd(100),
			CompanyWeek: usd(250), PayeeDay: usd(50), PayeeWeek: usd(60)})
		pays := func(company, object string, amount money.Amount, want bool) {
			t.Helper()
			x.Write(func(ctx context.Context, tx *db.Tx) error {
				got, err := limit.Approved(ctx, tx, company, object, amount)
				if got != want {
					t.Errorf("%s of %s: %v, want %v", object, company, got, want)
				}
				return err
			})
		}
		payees := func(company, object string, want bool, amounts map[string]money.Amount) {
			t.Helper()
			x.Write(func(ctx context.Context, tx *db.Tx) error {
				got, err := limit.PayeesApproved(ctx, tx, company, object, amounts)
				if got != want {
					t.Errorf("payees of %s of %s: %v, want %v", object, company, got, want)
				}
				return err
			})
		}
		planned := func(object string, amount money.Amount, want bool) {
			t.Helper()
			x.Write(func(ctx context.Context, tx *db.Tx) error {
				got, err := limit.Planned(ctx, tx, "com_1", object, amount)
				if got != want {
					t.Errorf("%s as planned: %v, want %v", object, got, want)
				}
				return err
			})
		}
		planned("prl_1", usd(100), true)
		planned("prl_2", usd(101), false)
		pays("com_1", "prl_1", usd(70), true)
		planned("prl_2", usd(31), false)
		pays("com_1", "prl_2", usd(31), false)
		pays("com_1", "prl_1", usd(70), true) // counted once
		pays("com_1", "prl_3", usd(30), true)
		pays("com_1", "prl_1", usd(70), true) // still allowed
		pays("com_1", "prl_1", usd(71), false)
		pays("com_2", "prl_4", usd(100), true)
		pays("com_2", "prl_5", money.New(money.BTC, 1), false) // there is no rate
		clock.Advance(24 * time.Hour)
		pays("com_1", "prl_6", usd(100), true)
		clock.Advance(24 * time.Hour)
		pays("com_1", "prl_7", usd(51), false) // the week
		pays("com_1", "prl_7", usd(50), true)
		clock.Advance(7 * 24 * time.Hour)
		pays("com_1", "prl_8", usd(100), true)

		// Payees count across companies, and a person's own income counts for the person.
		payees("com_1", "prl_a", true, map[string]money.Amount{"usr_1": usd(50), "rec_1": usd(10)})
		payees("com_2", "prl_b", false, map[string]money.Amount{"usr_2": usd(1), "usr_1": usd(1)})
		payees("com_2", "prl_c", true, map[string]money.Amount{"usr_2": usd(1)})
		pays("usr_1", "inc_1", usd(1), false)
		clock.Advance(24 * time.Hour)
		pays("usr_1", "inc_1", usd(10), true)
		payees("com_2", "prl_b", false, map[string]money.Amount{"usr_1": usd(1)})
		if n := fixture.Do(x, func(ctx context.Context, tx *db.Tx) (n int64, err error) {
			return n, tx.QueryRow(ctx, "SELECT COUNT(*) FROM velocity_uses WHERE object_id = 'prl_b'").Scan(&n)
		}); n != 0 {
			t.Error("what was refused is counted")
		}

		r := fixture.Do(x, func(ctx context.Context, tx *db.Tx) (approval.Request, error) {
			return approval.Open(ctx, tx, approval.Request{Action: approval.Release, CompanyID: "com_2", ObjectID: "prl_b",
				Reason: "checked", RequestedBy: "opr_1"})
		})
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			_, err := approval.Answer(ctx, tx, r.ID, "opr_2", true)
			return err
		})
		payees("com_2", "prl_b", true, map[string]money.Amount{"usr_1": usd(1)})
		payees("com_2", "prl_d", true, map[string]money.Amount{"usr_3": usd(50)})

		// What was released to another destination than the present one is counted and compared again.
		pays("com_3", "ref_1", usd(90), true)
		x.Write(func(ctx context.Context, tx *db.Tx) error { return approval.RevokeRelease(ctx, tx, "com_3", "ref_1") })
		pays("com_3", "ref_2", usd(20), true)
		pays("com_3", "ref_1", usd(90), false)
	})
}

// TestConcurrentPaymentsCountEachOther checks that two payments of a company at the same time are not both within its
// limit.
func TestConcurrentPaymentsCountEachOther(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		limit := approval.NewReleaseLimit(money.Amount{}).WithVelocity(approval.Velocity{
			CompanyDay: money.New(money.USD, 100)})
		results := make(chan bool, 2)
		for _, object := range []string{"prl_1", "prl_2"} {
			go func() {
				allowed := false
				if err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
					allowed, err = limit.Approved(ctx, tx, "com_1", object, money.New(money.USD, 60))
					return err
				}); err != nil {
					t.Error(err)
				}
				results <- allowed
			}()
		}
		if a, b := <-results, <-results; a == b {
			t.Errorf("two payments: %v and %v, want one", a, b)
		}
	})
}
