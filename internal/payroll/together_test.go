package payroll

import (
	"context"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
)

// Payments that stand alike are moved by one change and one row of history, whatever their number; from then on that each of them
// goes its own way, each has its own.
func TestPaymentsMoveTogetherUntilTheyPart(t *testing.T) {
	run(t, func(h *house) {
		p := h.create(CreateParams{ToPay: append([]Payee{{AmountText: "50", UserID: "rec_mix"}}, worked...)})
		h.deposit(p, "dep_1", p.Quote.Funding.Units(), "confirmed")
		h.want(p.ID, Received, FundingFunded, Received)
		h.destinations("rec_mix", nil) // it parts at the release: there is nowhere to pay it to
		h.release(p.ID)
		if got := h.get(p.ID); got.Payments[0].State != ActionRequired || got.Payments[1].State != Released || got.Payments[2].State != Released {
			h.t.Fatalf("%+v", got.Payments)
		} else {
			h.checkSteps(got)
		}
		if n := h.count("SELECT COUNT(*) FROM history h JOIN payments m ON m.company_id = h.company_id AND m.payment_id = h.object_id"); n != 1 {
			h.t.Errorf("%d rows of history for one payment that has parted", n)
		}
		if n := h.told(EventPayment, ""); n != 6 {
			h.t.Errorf("%d events for 3 payments that were received, and released or not", n)
		}
		h.destinations("rec_mix", map[money.Asset]int{money.BTC: 100})
		h.release(p.ID)
		h.outcome(p, money.EUR, payout.Fulfilled)
		h.checkSteps(h.get(p.ID))
		h.outcome(p, "", payout.Fulfilled)
		h.want(p.ID, Fulfilled, FundingFunded, Fulfilled)
	})
}

// A payment leaves the others only from where they stand: who has read them elsewhere changes nothing.
func TestAPaymentDoesNotPartFromWhereItIsNot(t *testing.T) {
	run(t, func(h *house) {
		p := h.create(CreateParams{ToPay: worked})
		read := h.get(p.ID)
		h.deposit(p, "dep_1", 2_020_000, "confirmed")
		err := h.d.Write(h.t.Context(), func(ctx context.Context, tx *db.Tx) error {
			return read.movePayment(ctx, tx, &read.Payments[0], Cancelled, "")
		})
		_ = wantFault(h.t, err, "retry_later")
		err = h.d.Write(h.t.Context(), func(ctx context.Context, tx *db.Tx) error {
			stale := read
			return stale.moveTogether(ctx, tx, Cancelled)
		})
		_ = wantFault(h.t, err, "retry_later")
		h.want(p.ID, Received, FundingFunded, Received)
	})
}
