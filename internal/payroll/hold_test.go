package payroll

import (
	"context"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
)

func TestAFreezeHoldsPayrolls(t *testing.T) {
	run(t, func(h *env) {
		company := func(status string, then func(ctx context.Context, tx *db.Tx, companyID string) error) {
			h.Helper()
			h.Exec("UPDATE companies SET status = '" + status + "'")
			h.Write(func(ctx context.Context, tx *db.Tx) error { return then(ctx, tx, h.By.CompanyID) })
		}
		// One payroll is funded during the freeze, one was received and one released before it.
		coming, received, released := h.create(CreateParams{ToPay: worked}), h.funded(worked...), h.released(worked...)
		company("frozen", Freeze)
		h.fund(coming, "confirmed")
		h.release(coming.ID)
		h.want(coming.ID, OnHold, FundingFunded, Received)
		h.want(received.ID, OnHold, FundingFunded, Received)
		h.want(released.ID, OnHold, FundingFunded, Released)
		queued := "SELECT COUNT(*) FROM outputs WHERE state = 'queued' AND NOT on_hold"
		if n := h.Count(queued); n != 0 {
			h.Errorf("%d outputs of a frozen company can leave", n)
		}
		// Ending another hold does not end the freeze.
		h.Exec("UPDATE payrolls SET hold_reason = $1 WHERE payroll_id IN ($2, $3)", ReasonReview, received.ID,
			released.ID)
		h.Write(func(ctx context.Context, tx *db.Tx) error {
			return OnScreeningResolved(ctx, tx, h.By.CompanyID, h.By.CompanyID)
		})
		h.release(received.ID)
		h.want(received.ID, OnHold, FundingFunded, Received)
		h.want(released.ID, OnHold, FundingFunded, Released)
		company("active", Unfreeze)
		for _, p := range []Payroll{coming, received} {
			h.release(p.ID)
			h.want(p.ID, Released, FundingFunded, Released)
		}
		h.want(released.ID, Released, FundingFunded, Released)
		if n := h.Count(queued); n != 3*int64(len(worked)) {
			h.Errorf("%d outputs can leave", n)
		}
	})
}

// A payment with several payouts ends when one of them fails, and its payroll with it. The others are held by a freeze,
// and one that was sent before it stays payable if its bank returns it later.
func TestAFreezeHoldsThePayoutsOfAnEndedPayroll(t *testing.T) {
	run(t, func(h *env) {
		p := h.released(Payee{AmountText: "1000", UserID: "rec_mix"})
		h.Exec("UPDATE outputs SET state = 'sent' WHERE asset = 'USD'")
		h.outcome(p, money.EUR, payout.Failed)
		h.wantState(p, PartiallyFulfilled)
		company := func(status string, then func(ctx context.Context, tx *db.Tx, companyID string) error) {
			h.Helper()
			h.Exec("UPDATE companies SET status = '" + status + "'")
			h.Write(func(ctx context.Context, tx *db.Tx) error { return then(ctx, tx, h.By.CompanyID) })
		}
		company("frozen", Freeze)
		h.wantState(p, PartiallyFulfilled)
		h.WantCount(0, "outputs WHERE state = 'queued' AND NOT on_hold")
		h.Deliver(HandleFreeze, "", "")
		h.outcome(p, money.USD, payout.Fulfilled)
		company("active", Unfreeze)
		h.WantCount(0, "outputs WHERE on_hold")
		h.WantCount(1, "outputs WHERE state = 'queued'")
	})
}

// A release that began before its company was frozen is held after it ends.
func TestAReleaseThatBeganBeforeTheFreezeIsHeld(t *testing.T) {
	run(t, func(h *env) {
		p := h.create(CreateParams{ToPay: worked})
		h.Exec("UPDATE companies SET status = 'frozen'")
		h.Write(func(ctx context.Context, tx *db.Tx) error { return Freeze(ctx, tx, h.By.CompanyID) })
		h.Exec("UPDATE companies SET status = 'active'") // the release reads the company as active
		h.fund(p, "confirmed")
		h.release(p.ID)
		h.want(p.ID, Released, FundingFunded, Released)
		h.Exec("UPDATE companies SET status = 'frozen'")
		h.WantCount(1, "jobs WHERE kind = $1", JobFreeze)
		h.Deliver(HandleFreeze, "", "")
		h.want(p.ID, OnHold, FundingFunded, Released)
	})
}
