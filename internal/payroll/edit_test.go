package payroll

import (
	"context"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/testkit/fixture"
)

func (h *env) edit(id string, to ...Payee) Payroll {
	h.Helper()
	return fixture.Do(h.Fixture, func(ctx context.Context, tx *db.Tx) (Payroll, error) {
		return h.s.Edit(ctx, tx, h.By, EditParams{PayrollID: id, ToPay: to})
	})
}

// Money that was sent for the quote before an edit is worth the same: if it is too little, the rest is due, and what is
// too much goes to the balance. Nobody gets another rate by an edit.
func TestMoneyForTheQuoteBeforeAnEdit(t *testing.T) {
	run(t, func(h *env) {
		p := h.create(CreateParams{ToPay: worked})
		more := h.edit(p.ID, append(worked, Payee{AmountText: "100", UserID: "rec_btc"})...)
		if more.Total != usd(1_111_00) || more.Quote.Rate != p.Quote.Rate || more.Quote.ValidTo != p.Quote.ValidTo ||
			more.Quote.Address != p.Quote.Address || more.Quote.Funding != sats(2_222_000) {
			h.Errorf("%+v", more.Quote)
		}
		h.fund(p, "confirmed") // the amount of the first quote
		h.want(p.ID, Pending, FundingPartial, Pending)
		h.deposit(p, "rest", 202_000, "confirmed")
		h.want(p.ID, Received, FundingFunded, Received)
		h.release(p.ID)
		h.want(p.ID, Released, FundingFunded, Released)

		p = h.create(CreateParams{ToPay: worked})
		h.edit(p.ID, Payee{AmountText: "600", UserID: "rec_btc"})
		h.fund(p, "confirmed")
		h.want(p.ID, Received, FundingOver, Received)
		h.WantBalance(ledger.CompanyFunds, "", sats(808_000))
	})
}

// A payroll for which any money was seen cannot be changed, nor one that is paid or cancelled.
func TestOnlyAPayrollWithoutMoneyIsEdited(t *testing.T) {
	run(t, func(h *env) {
		change := func(p Payroll) fixture.Tx {
			return fixture.Drop(func(ctx context.Context, tx *db.Tx) (Payroll, error) {
				return h.s.Edit(ctx, tx, h.By, EditParams{PayrollID: p.ID, ToPay: worked})
			})
		}
		p := h.create(CreateParams{ToPay: worked})
		h.deposit(p, "part", 1000, "seen")
		h.WantFault("invalid_state", change(p))
		h.WantFault("invalid_state", change(h.released(worked...)))
		vendor := h.create(CreateParams{ToPay: worked})
		h.Exec("UPDATE recipients SET role = 'vendor' WHERE recipient_id = 'rec_eur'")
		h.WantFault("invalid_state", change(vendor))
	})
}

// A second member who edits a payroll removes its creator.
func TestAnEditByAnotherMemberRemovesTheCreator(t *testing.T) {
	run(t, func(h *env) {
		h.member("usr_a", "owner")
		h.member("usr_b", "admin")
		h.By = h.as("usr_a")
		p := h.create(CreateParams{ToPay: worked})
		if got := h.edit(p.ID, worked...); got.CreatedBy != "usr_a" {
			h.Errorf("created by %q", got.CreatedBy)
		}
		h.By = h.as("usr_b")
		if got := h.edit(p.ID, worked...); got.CreatedBy != "" {
			h.Errorf("created by %q", got.CreatedBy)
		}
		h.WantCount(2, "payments WHERE payroll_id = $1", p.ID)
	})
}
