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
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/testkit/allow"
	"github.com/stipend/stipend/internal/testkit/fixture"
)

const platformID = "com_platform"

// withPlatform sets the fee of the company's platform.
func (h *env) withPlatform(bps int64) {
	h.Helper()
	h.Write(func(ctx context.Context, tx *db.Tx) error {
		return identity.SetPlatform(ctx, tx, h.By.CompanyID, platformID, bps)
	})
}

// platformEarned runs the jobs that credit the platform, and compares its balance.
func (h *env) platformEarned(want int64) {
	h.Helper()
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
		return ledger.Balance(ctx, tx, platformID, ledger.CompanyFunds, "", money.USD)
	})
	if got.Units() != want {
		h.Errorf("the platform has %s, want %d cents", got, want)
	}
	h.WantCount(0, `(SELECT SUM(amount) AS rest FROM ledger_lines WHERE code = '2250') x WHERE rest <> 0`)
}

// A platform earns its part of the fee of each payment once, when the payment has reached its payee, also if a bank
// returns it later. The fee is the one that applied when the payroll was created.
func TestAPlatformEarnsItsFeeOnce(t *testing.T) {
	run(t, func(h *env) {
		fee, earned := h.withPlatform, h.platformEarned
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
		if next := h.released(worked...); next.Fees.Units() != 1000 || next.PlatformID != platformID {
			t.Errorf("fees of the next payroll: %s", next.Fees)
		}
	})
}

// A platform earns its fee also if the last payment of a payroll ends without a payout: the company takes it back, or a
// release finds that the payee must act.
func TestAPlatformEarnsItsFeeWhenTheLastPaymentEndsWithoutAPayout(t *testing.T) {
	run(t, func(h *env) {
		h.withPlatform(50)
		h.member("anna", "admin")
		h.fill(h.By.CompanyID, usd(500_00))
		p := h.paidInDollars(coins, Payee{AmountText: "400", UserID: "rec_eur"})
		h.bitcoinAt("60000")
		h.release(p.ID)
		h.outcome(p, money.EUR, payout.Fulfilled)
		h.wantState(p, Released)
		h.platformEarned(0)
		h.Write(fixture.Drop(func(ctx context.Context, tx *db.Tx) (Payroll, error) {
			return h.s.TakeBack(ctx, tx, h.as("anna"), p.ID, p.Payments[0].ID)
		}))
		h.wantState(p, PartiallyFulfilled)
		h.platformEarned(200)

		h.bitcoinAt("50000")
		p = h.released(worked...)
		h.outcome(p, money.EUR, payout.Returned)
		h.s.guards.Screen = func(context.Context, *db.Tx, string, []destination.ScreeningSubject) (map[string]bool, error) {
			return map[string]bool{"rec_eur": true}, nil
		}
		h.correct("rec_eur")
		h.release(p.ID)
		h.wantPayment(p, 1, OnHold, ReasonReview, 1)
		h.outcome(p, money.BTC, payout.Fulfilled)
		h.wantState(p, Released)
		h.s.guards.Screen = allow.Subjects[destination.ScreeningSubject]
		h.Exec("UPDATE recipients SET status = 'inactive' WHERE recipient_id = 'rec_eur'")
		h.release(p.ID)
		h.wantState(p, PartiallyFulfilled)
		h.platformEarned(500)
	})
}
