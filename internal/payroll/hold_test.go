package payroll

import (
	"context"
	"testing"

	"github.com/stipend/stipend/internal/db"
)

func TestAFrozenCompanysReleaseWaits(t *testing.T) {
	run(t, func(h *fixture) {
		company := func(status string, then func(ctx context.Context, tx *db.Tx, companyID string) error) {
			h.t.Helper()
			h.exec("UPDATE companies SET status = '" + status + "'")
			h.write(func(ctx context.Context, tx *db.Tx) error { return then(ctx, tx, h.by.CompanyID) })
		}
		// One payroll is funded during the freeze, one was received and one released before it.
		coming, received, released := h.create(CreateParams{ToPay: worked}), h.create(CreateParams{ToPay: worked}),
			h.create(CreateParams{ToPay: worked})
		h.deposit(received, "dep_1", 2_020_000, "confirmed")
		h.deposit(released, "dep_2", 2_020_000, "confirmed")
		h.release(released.ID)
		company("frozen", Freeze)
		h.deposit(coming, "dep_3", 2_020_000, "confirmed")
		h.release(coming.ID)
		h.want(coming.ID, OnHold, FundingFunded, Received)
		h.want(received.ID, OnHold, FundingFunded, Received)
		h.want(released.ID, OnHold, FundingFunded, Released)
		queued := "SELECT COUNT(*) FROM outputs WHERE state = 'queued' AND NOT on_hold"
		if n := h.count(queued); n != 0 {
			h.t.Errorf("%d outputs of a frozen company can leave", n)
		}
		// Ending another hold does not end the freeze.
		h.exec("UPDATE payrolls SET hold_reason = $1 WHERE payroll_id IN ($2, $3)", ReasonReview, received.ID,
			released.ID)
		h.write(func(ctx context.Context, tx *db.Tx) error {
			return OnScreeningResolved(ctx, tx, h.by.CompanyID, h.by.CompanyID)
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
		if n := h.count(queued); n != 3*int64(len(worked)) {
			h.t.Errorf("%d outputs can leave", n)
		}
	})
}

// A release that began before its company was frozen is held after it ends.
func TestAFreezeComesAgain(t *testing.T) {
	run(t, func(h *fixture) {
		p := h.create(CreateParams{ToPay: worked})
		h.exec("UPDATE companies SET status = 'frozen'")
		h.write(func(ctx context.Context, tx *db.Tx) error { return Freeze(ctx, tx, h.by.CompanyID) })
		h.exec("UPDATE companies SET status = 'active'") // as read by the release
		h.deposit(p, "dep_1", 2_020_000, "confirmed")
		h.release(p.ID)
		h.want(p.ID, Released, FundingFunded, Released)
		h.exec("UPDATE companies SET status = 'frozen'")
		if n := h.count("SELECT COUNT(*) FROM jobs WHERE kind = $1", JobFreeze); n != 1 {
			h.t.Fatalf("%d jobs", n)
		}
		h.deliver(HandleFreeze, "{}")
		h.want(p.ID, OnHold, FundingFunded, Released)
	})
}
