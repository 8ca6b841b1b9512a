package httpapi

import (
	"context"
	"errors"
	"testing"

	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/screening"
	"github.com/stipend/stipend/internal/testkit/allow"
	"github.com/stipend/stipend/internal/withdrawal"
)

// Each guard that does not consent keeps a withdrawal from leaving.
func TestNoWithdrawalLeavesWithoutEveryGuard(t *testing.T) {
	broken := errors.New("the guard is broken")
	type guards = withdrawal.Guards
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		x := openTill(t, d)
		x.credit("dep_1", money.New(money.BTC, 1_000_000))
		id, _ := x.taken("w1", x.bitcoin, "0.001")["withdrawal_id"].(string)
		for name, change := range map[string]func(*guards){
			"nobody can be screened": func(g *guards) {
				g.Screen = func(context.Context, *db.Tx, string, []destination.ScreeningSubject) (map[string]bool, error) {
					return nil, screening.ErrUnavailable
				}
			},
			"the company is blocked": func(g *guards) {
				g.Screen = func(_ context.Context, _ *db.Tx, companyID string, _ []destination.ScreeningSubject) (map[string]bool,
					error) {
					return map[string]bool{companyID: true}, nil
				}
			},
			"the destination is blocked": func(g *guards) {
				g.Screen = func(_ context.Context, _ *db.Tx, _ string, to []destination.ScreeningSubject) (map[string]bool, error) {
					return map[string]bool{to[0].ID: true}, nil
				}
			},
			"the release is not approved": func(g *guards) { g.ReleaseApproved = approval.ReleaseLimit{}.Approved },
			"the approval cannot be read": func(g *guards) {
				g.ReleaseApproved = func(context.Context, *db.Tx, string, string, money.Amount) (bool, error) {
					return false, broken
				}
			},
		} {
			g := guards{Screen: allow.Subjects[destination.ScreeningSubject], ReleaseApproved: allow.Release}
			change(&g)
			s, err := withdrawal.New(x.take.Config, g)
			if err != nil {
				t.Fatal(err)
			}
			err = d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				return s.Process(ctx, tx, job.Job{CompanyID: x.company, Payload: []byte(`{"withdrawal_id":"` + id + `"}`)})
			})
			if err != nil && !errors.Is(err, broken) && !errors.Is(err, screening.ErrUnavailable) {
				t.Errorf("%s: %v", name, err)
			}
			if n := x.count("SELECT COUNT(*) FROM outputs"); n != 0 {
				t.Fatalf("%s: the money leaves all the same", name)
			}
		}
	})
}
