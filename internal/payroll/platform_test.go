package payroll

import (
	"context"
	"errors"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/testkit/fixture"
)

// A platform earns its part of the fee of each payment once, when the payment has reached its payee, also if a bank
// returns it later. The fee is the one that applied when the payroll was created.
func TestAPlatformEarnsItsFeeOnce(t *testing.T) {
	run(t, func(h *env) {
		const platform = "com_platform"
		fee := func(bps int64) {
			h.Write(func(ctx context.Context, tx *db.Tx) error {
				return identity.SetPlatform(ctx, tx, h.By.CompanyID, platform, bps)
			})
		}
		earned := func(want int64) {
			t.Helper()
			h.Write(func(ctx context.Context, tx *db.Tx) error {
				rows, err := tx.Query(ctx, "SELECT company_id, job_id, payload FROM jobs WHERE kind = $1", JobPlatformFee)
				jobs, err := db.Collect(rows, err, func(r *db.Rows) (j job.Job, err error) {
					return j, r.Scan(&j.CompanyID, &j.ID, &j.Payload)
				})
				for _, j := range jobs {
					err = errors.Join(err, CreditPlatform(ctx, tx, j), tx.ExecOne(ctx, "DELETE FROM jobs WHERE job_id = $1", j.ID))
				}
				return err
			})
			got := fixture.Get(h.Fixture, func(ctx context.Context, tx *db.Tx) (money.Amount, error) {
				return ledger.Balance(ctx, tx, platform, ledger.CompanyFunds, "", money.USD)
			})
			if got.Units() != want {
				t.Errorf("the platform has %s, want %d cents", got, want)
			}
			h.WantCount(0, `(SELECT SUM(amount) AS rest FROM ledger_lines WHERE code = '2250') x WHERE rest <> 0`)
		}
		fee(50)
		p := h.released(worked...)
		if p.Fees.Units() != 1500 || p.PlatformFeeBps != 50 {
			t.Fatalf("fees %s, of the platform %d bps", p.Fees, p.PlatformFeeBps)
		}
		fee(0)
		earned(0)
		h.outcome(p, money.EUR, payout.Failed)
		h.outcome(p, money.BTC, payout.Fulfilled)
		h.wantState(p, PartiallyFulfilled)
		earned(300)
		h.outcome(p, money.EUR, payout.Fulfilled)
		h.wantState(p, Fulfilled)
		earned(500)
		h.outcome(p, money.EUR, payout.Returned)
		h.outcome(p, money.EUR, payout.Fulfilled)
		earned(500)
		if next := h.released(worked...); next.Fees.Units() != 1000 || next.PlatformID != platform {
			t.Errorf("fees of the next payroll: %s", next.Fees)
		}
	})
}
