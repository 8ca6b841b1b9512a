package approval_test

import (
	"context"
	"testing"

	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/testkit/fixture"
)

func TestAReleaseNeedsTwoDifferentMembersOfStaff(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		x := &fixture.Fixture{TB: t, DB: d, Clock: clock} // there are no rates
		limit := approval.NewReleaseLimit(money.New(money.USD, 100_00))
		above := money.New(money.USD, 100_01)
		approved := func(l approval.ReleaseLimit, amount money.Amount, want bool) {
			t.Helper()
			x.Write(func(ctx context.Context, tx *db.Tx) error {
				got, err := l.Approved(ctx, tx, "com_1", "prl_1", amount)
				if got != want {
					t.Errorf("approved %v, want %v, for %s %s", got, want, amount, amount.Asset())
				}
				return err
			})
		}
		approved(limit, money.New(money.USD, 100_00), true)
		approved(limit, above, false)
		approved(limit, money.New(money.BTC, 1), false) // there is no rate
		approved(approval.NewReleaseLimit(money.Amount{}), above, true)
		approved(approval.ReleaseLimit{}, money.New(money.USD, 1), false)

		open := approval.Request{
			Action: approval.Release, CompanyID: "com_1", ObjectID: "prl_1", Reason: "checked", RequestedBy: "opr_1",
		}
		request := func(ctx context.Context, tx *db.Tx) (approval.Request, error) { return approval.Open(ctx, tx, open) }
		r := fixture.Do(x, request)
		x.WantError(approval.ErrRequested, fixture.Drop(request))
		answer := func(staff string, approve bool, want error) {
			t.Helper()
			x.WantError(want, func(ctx context.Context, tx *db.Tx) error {
				_, err := approval.Answer(ctx, tx, r.ID, staff, approve)
				return err
			})
		}
		answer("opr_1", true, approval.ErrRequester)
		approved(limit, above, false)
		answer("opr_2", true, nil)
		approved(limit, above, true)
		answer("opr_2", false, approval.ErrAnswered)
	})
}

func TestRequestsOfARemovedMemberOfStaffAreDropped(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		x := &fixture.Fixture{TB: t, DB: d, Clock: clock} // there are no rates
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			for _, id := range []string{"opr_1", "opr_2"} {
				if _, err := approval.Open(ctx, tx, approval.Request{
					Action: approval.Release, CompanyID: "com_1", ObjectID: id, RequestedBy: id,
				}); err != nil {
					return err
				}
			}
			return approval.DropRequestsOf(ctx, tx, "opr_1")
		})
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			open, err := approval.OpenRequests(ctx, tx)
			if len(open) != 1 || open[0].RequestedBy != "opr_2" {
				t.Errorf("%+v", open)
			}
			return err
		})
	})
}
