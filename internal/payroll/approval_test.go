package payroll

import (
	"context"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
)

// as returns the principal of a member who is signed in to the pages.
func (h *fixture) as(user string) identity.Principal {
	return identity.Principal{Kind: identity.KindSession, ID: "ses_" + user, CompanyID: h.by.CompanyID, UserID: user}
}

func (h *fixture) member(user, role string) {
	h.t.Helper()
	h.write(func(ctx context.Context, tx *db.Tx) error {
		return identity.AddMember(ctx, tx, identity.Member{CompanyID: h.by.CompanyID, UserID: user, Role: role})
	})
}

// says runs a member's action and fails the test unless it ends with the error code, or without an error for "".
func (h *fixture) says(code string, f func(ctx context.Context, tx *db.Tx) error) {
	h.t.Helper()
	err := h.d.Write(h.t.Context(), f)
	if code != "" {
		_ = wantFault(h.t, err, code)
	} else if err != nil {
		h.t.Fatal(err)
	}
}

func (h *fixture) limit(code, user string, amount money.Amount) {
	h.t.Helper()
	h.says(code, func(ctx context.Context, tx *db.Tx) error { return approval.SetLimit(ctx, tx, h.as(user), amount) })
}

func (h *fixture) approve(code string, by identity.Principal, id string) {
	h.t.Helper()
	h.says(code, func(ctx context.Context, tx *db.Tx) error {
		_, err := h.s.Approve(ctx, tx, by, id)
		return err
	})
}

// waits checks that a payroll is on hold for its approval and that no output exists.
func (h *fixture) waits(id string, needed, given int) {
	h.t.Helper()
	p := h.want(id, OnHold, FundingFunded, Received)
	if p.HoldReason != ReasonApproval || p.HeldFrom != Received || p.Approval.Needed != int64(needed) ||
		len(p.Approval.By) != given {
		h.t.Errorf("held for %q, %d of %d approvals; want %d of %d", p.HoldReason, len(p.Approval.By), p.Approval.Needed,
			given, needed)
	}
	if n := h.count("SELECT COUNT(*) FROM outputs WHERE payroll_id = $1", id); n != 0 {
		h.t.Errorf("%d outputs", n)
	}
}

// Every path to the release of a payroll above the limit waits until enough members who may approve have approved.
func TestNothingGoesAroundTheApproval(t *testing.T) {
	run(t, func(h *fixture) {
		for user, role := range map[string]string{"usr_a": identity.RoleOwner, "usr_dev": identity.RoleDeveloper} {
			h.member(user, role)
		}
		h.limit("second_person_missing", "usr_a", usd(1000_00))
		h.member("usr_b", identity.RoleAdmin)
		h.limit("role_required", "usr_dev", usd(1000_00))
		h.limit("", "usr_a", usd(1010_00))

		within := h.create(CreateParams{ToPay: worked}) // 1,010.00 in all
		h.deposit(within, "dep_1", 2_020_000, "confirmed")
		h.release(within.ID)
		h.want(within.ID, Released, FundingFunded, Released)

		above := h.create(CreateParams{ToPay: []Payee{{AmountText: "1000.01", UserID: "rec_btc"}}})
		h.deposit(above, "dep_2", above.Quote.Funding.Units(), "confirmed")
		h.release(above.ID)
		h.waits(above.ID, 2, 0)
		h.release(above.ID)
		h.says("", func(ctx context.Context, tx *db.Tx) error { return h.s.Resume(ctx, tx, h.by.CompanyID, above.ID) })
		h.release(above.ID)
		h.waits(above.ID, 2, 0)

		// A reorganization removes the funding, which is confirmed again: the payroll waits again.
		h.deposit(above, "dep_2", above.Quote.Funding.Units(), "reverted")
		if got := h.get(above.ID); got.State != Pending || got.HoldReason != "" {
			h.t.Errorf("%s, held for %q", got.State, got.HoldReason)
		}
		h.approve("invalid_state", h.as("usr_a"), above.ID)
		h.deposit(above, "dep_2", above.Quote.Funding.Units(), "confirmed")
		h.release(above.ID)
		h.waits(above.ID, 2, 0)

		for _, by := range []identity.Principal{h.by, h.as("usr_dev"), h.as("usr_nobody"), {Kind: identity.KindOAuth,
			CompanyID: h.by.CompanyID, UserID: "usr_a"}} {
			h.approve("role_required", by, above.ID)
		}
		h.approve("", h.as("usr_a"), above.ID)
		h.approve("", h.as("usr_a"), above.ID)
		h.waits(above.ID, 2, 1)
		h.member("usr_a", identity.RoleViewer) // an approval by a member who may no longer approve does not count
		h.approve("", h.as("usr_b"), above.ID)
		h.waits(above.ID, 2, 1)
		h.member("usr_c", identity.RoleAdmin)
		h.approve("", h.as("usr_c"), above.ID)
		h.member("usr_c", identity.RoleViewer)
		h.release(above.ID)
		h.waits(above.ID, 2, 1)
		h.member("usr_c", identity.RoleAdmin)
		h.says("", func(ctx context.Context, tx *db.Tx) error { return h.s.Resume(ctx, tx, h.by.CompanyID, above.ID) })
		h.release(above.ID)
		if got := h.want(above.ID, Released, FundingFunded, Released); len(got.Approval.By) != 2 {
			h.t.Errorf("%+v", got.Approval)
		}
		h.approve("invalid_state", h.as("usr_b"), above.ID)
		if n := h.count("SELECT COUNT(*) FROM history WHERE object_id = $1 AND reason = $2", above.ID,
			ReasonApproved); n != 3 {
			h.t.Errorf("%d approvals in the history", n)
		}
	})
}

// A member cannot approve their own payroll. Payrolls in another currency, or without a known price, are checked too.
func TestWhoMadeAPayrollDoesNotApproveIt(t *testing.T) {
	run(t, func(h *fixture) {
		h.member("usr_a", identity.RoleOwner)
		h.member("usr_b", identity.RoleAdmin)
		h.limit("", "usr_a", usd(100_00))
		maker, app := h.as("usr_a"), h.by
		h.by = maker
		var v Preview
		h.says("", func(ctx context.Context, tx *db.Tx) (err error) {
			v, err = h.s.Preview(ctx, tx, maker, CreateParams{Currency: "EUR", ToPay: []Payee{{AmountText: "95",
				UserID: "rec_btc"}}})
			return err
		})
		if v.Approvals != 1 || len(v.Blockers) > 0 {
			h.t.Errorf("%+v", v)
		}
		p := h.create(CreateParams{Currency: "EUR", ToPay: []Payee{{AmountText: "95", UserID: "rec_btc"}}})
		h.by = app
		h.deposit(p, "dep_1", p.Quote.Funding.Units(), "confirmed")
		h.release(p.ID)
		h.waits(p.ID, 1, 0)
		h.approve("second_person_required", maker, p.ID)
		h.approve("", h.as("usr_b"), p.ID)
		h.release(p.ID)
		h.want(p.ID, Released, FundingFunded, Released)

		small := h.create(CreateParams{Currency: "EUR", ToPay: []Payee{{AmountText: "10", UserID: "rec_btc"}}})
		h.deposit(small, "dep_2", small.Quote.Funding.Units(), "confirmed")
		h.exec("DELETE FROM rates WHERE asset = 'EUR'")
		h.release(small.ID)
		h.waits(small.ID, 2, 0)
	})
}

// Declining or cancelling returns the money to the company, and a shortfall to the operator.
func TestADeclinedPayrollGivesItsMoneyBack(t *testing.T) {
	run(t, func(h *fixture) {
		h.member("usr_a", identity.RoleOwner)
		h.member("usr_b", identity.RoleAdmin)
		h.limit("", "usr_a", usd(0))
		h.exec("UPDATE companies SET tolerance_bps = 100")
		p := h.create(CreateParams{ToPay: worked})
		h.deposit(p, "dep_1", 2_019_000, "confirmed")
		h.release(p.ID)
		h.waits(p.ID, 2, 0)
		h.says("role_required", func(ctx context.Context, tx *db.Tx) error {
			_, err := h.s.Decline(ctx, tx, h.by, p.ID)
			return err
		})
		h.says("", func(ctx context.Context, tx *db.Tx) error {
			_, err := h.s.Decline(ctx, tx, h.as("usr_b"), p.ID)
			return err
		})
		if got := h.want(p.ID, Cancelled, FundingFunded, Cancelled); got.HoldReason != "" || got.Approval.Needed != 0 {
			h.t.Errorf("%+v", got)
		}
		if n := h.count("SELECT COUNT(*) FROM history WHERE object_id = $1 AND to_state = 'cancelled' AND reason = $2", p.ID,
			ReasonDeclined); n != 1 {
			h.t.Errorf("%d", n)
		}
		if got, short := h.balance(ledger.CompanyFunds, "", money.BTC), h.balance(ledger.Shortfall, p.ID,
			money.BTC); got != 2_019_000 || short != 0 {
			h.t.Errorf("the company has %d, the operator is short of %d", got, short)
		}

		wallet := h.create(CreateParams{ToPay: []Payee{{AmountText: "40", UserID: "rec_btc"}}, FundingMethod: MethodWallet,
			FundingCurrency: "BTC"})
		h.release(wallet.ID)
		h.waits(wallet.ID, 2, 0)
		h.says("", func(ctx context.Context, tx *db.Tx) error {
			_, err := h.s.Cancel(ctx, tx, h.by, wallet.ID)
			return err
		})
		h.want(wallet.ID, Cancelled, FundingFunded, Cancelled)
		if got := h.balance(ledger.CompanyFunds, "", money.BTC); got != 2_019_000 {
			h.t.Errorf("the company has %d", got)
		}
		h.release(wallet.ID)
		h.clock.Advance(time.Hour)
	})
}

// One person can lower a limit; raising it takes two.
func TestTheLimitIsRaisedByTwo(t *testing.T) {
	run(t, func(h *fixture) {
		for _, user := range []string{"usr_a", "usr_b", "usr_c"} {
			h.member(user, identity.RoleAdmin)
		}
		now := func() (l approval.Limit) {
			h.says("", func(ctx context.Context, tx *db.Tx) (err error) {
				l, err = approval.LimitOf(ctx, tx, h.by)
				return err
			})
			return l
		}
		answer := func(code, user, id string, yes bool) {
			h.t.Helper()
			h.says(code, func(ctx context.Context, tx *db.Tx) error {
				return approval.AnswerLimit(ctx, tx, h.as(user), id,
					yes)
			})
		}
		h.limit("invalid_parameter", "usr_a", sats(5))
		h.limit("invalid_parameter", "usr_a", usd(-1))
		h.limit("", "usr_a", usd(500_00))
		h.limit("", "usr_b", usd(400_00))
		for _, wanted := range []money.Amount{usd(400_01), money.New(money.EUR, 1), {}} {
			h.limit("", "usr_a", wanted)
			l := now()
			if l.Amount != usd(400_00) || l.Proposal.By != "usr_a" || l.Proposal.Amount != wanted {
				h.t.Fatalf("%+v", l)
			}
			answer("second_person_required", "usr_a", l.Proposal.ID, true)
			answer("invalid_state", "usr_b", "alp_other", true)
			answer("invalid_state", "usr_b", "", true)
			answer("role_required", "usr_x", l.Proposal.ID, true)
			h.member("usr_a", identity.RoleDeveloper)
			answer("invalid_state", "usr_b", l.Proposal.ID, true)
			h.member("usr_a", identity.RoleAdmin)
			answer("", "usr_b", l.Proposal.ID, false)
			answer("invalid_state", "usr_b", l.Proposal.ID, true)
			if l = now(); l.Amount != usd(400_00) || l.Proposal.ID != "" {
				h.t.Fatalf("%+v", l)
			}
		}
		h.limit("", "usr_a", usd(900_00))
		first := now().Proposal.ID
		h.limit("", "usr_c", usd(800_00)) // replaces it
		answer("invalid_state", "usr_b", first, true)
		answer("", "usr_b", now().Proposal.ID, true)
		if l := now(); l.Amount != usd(800_00) || l.Proposal.ID != "" {
			h.t.Errorf("%+v", l)
		}
		h.limit("", "usr_a", money.Amount{})
		answer("", "usr_b", now().Proposal.ID, true)
		if l := now(); l.Amount != (money.Amount{}) {
			h.t.Errorf("%+v", l)
		}
		if n := h.count("SELECT COUNT(*) FROM history WHERE object_id = $1 AND reason LIKE 'approval limit: %'",
			h.by.CompanyID); n != 13 {
			h.t.Errorf("%d changes in the history", n)
		}
	})
}
