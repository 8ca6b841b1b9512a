package payroll

import (
	"context"
	"io/fs"
	"regexp"
	"strings"
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

// What was on its way when payments got to move together goes on from where it stood.
func TestPayrollsOnTheirWayAreTakenOver(t *testing.T) {
	text, err := fs.ReadFile(db.Migrations(), "0270_payments_together.sql")
	if err != nil {
		t.Fatal(err)
	}
	var updates []string
	for statement := range strings.SplitSeq(regexp.MustCompile(`(?m)^--.*$`).ReplaceAllString(string(text), ""), ";") {
		if statement = strings.TrimSpace(statement); strings.HasPrefix(statement, "UPDATE") {
			updates = append(updates, statement)
		}
	}
	run(t, func(h *house) {
		pending, received, released := h.create(CreateParams{ToPay: worked}), h.create(CreateParams{ToPay: worked}), h.create(CreateParams{ToPay: worked})
		h.deposit(received, "dep_2", 2_020_000, "confirmed")
		h.deposit(released, "dep_3", 2_020_000, "confirmed")
		h.release(released.ID)

		h.exec(`INSERT INTO history (company_id, object_id, version, from_state, to_state, reason, at)
			SELECT m.company_id, m.payment_id, h.version, h.from_state, h.to_state, h.reason, h.at FROM payments m
			JOIN history h ON h.company_id = m.company_id AND h.object_id = m.payroll_id || '/payments'`)
		h.exec("DELETE FROM history WHERE object_id LIKE '%/payments'")
		h.exec(`UPDATE payments SET divided = payroll_id = $1,
			state = (SELECT p.payments_state FROM payrolls p WHERE p.company_id = payments.company_id AND p.payroll_id = payments.payroll_id),
			version = (SELECT p.payments_version FROM payrolls p WHERE p.company_id = payments.company_id AND p.payroll_id = payments.payroll_id)`, released.ID)
		h.exec("UPDATE payrolls SET payments_state = '', payments_version = 0")
		for _, u := range updates {
			h.exec(u)
		}

		h.want(pending.ID, Pending, FundingNone, Pending)
		h.want(received.ID, Received, FundingFunded, Received)
		h.want(released.ID, Released, FundingFunded, Released)
		h.deposit(pending, "dep_1", 2_020_000, "confirmed")
		for i, p := range []Payroll{pending, received, released} {
			h.release(p.ID)
			h.want(p.ID, Released, FundingFunded, Released)
			h.outcome(p, "", payout.Fulfilled)
			if got := h.want(p.ID, Fulfilled, FundingFunded, Fulfilled); got.Payments[0].Version != 4 {
				h.t.Errorf("payroll %d: version %d", i, got.Payments[0].Version)
			}
		}
	})
}
