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
	"github.com/stipend/stipend/internal/testkit/fixture"
)

// as returns the principal of a member who is signed in to the pages.
func (h *env) as(user string) identity.Principal {
	return identity.Principal{Kind: identity.KindSession, ID: "ses_" + user, CompanyID: h.By.CompanyID, UserID: user}
}

func (h *env) member(user, role string) {
	h.Helper()
	h.Write(func(ctx context.Context, tx *db.Tx) error {
		return identity.AddMember(ctx, tx, identity.Member{CompanyID: h.By.CompanyID, UserID: user, Role: role})
	})
}

// does runs an action of a principal on a payroll, which must fail with the error code, or succeed if it is "".
func (h *env) does(code string, action func(context.Context, *db.Tx, identity.Principal, string) (Payroll, error),
	by identity.Principal, id string) {
	h.Helper()
	h.WantFault(code, fixture.Drop(func(ctx context.Context, tx *db.Tx) (Payroll, error) {
		return action(ctx, tx, by, id)
	}))
}

// approve approves a payroll as it is now.
func (h *env) approve(ctx context.Context, tx *db.Tx, by identity.Principal, id string) (Payroll, error) {
	p, err := find(ctx, tx, h.By.CompanyID, id)
	if err != nil {
		return Payroll{}, err
	}
	shown, err := h.s.Content(ctx, tx, *p)
	if err != nil {
		return Payroll{}, err
	}
	return h.s.Approve(ctx, tx, by, id, shown)
}

func (h *env) resume(id string) {
	h.Helper()
	h.Write(func(ctx context.Context, tx *db.Tx) error { return h.s.Resume(ctx, tx, h.By.CompanyID, id) })
}

func (h *env) limit(code, user string, amount money.Amount) {
	h.Helper()
	h.WantFault(code, func(ctx context.Context, tx *db.Tx) error { return approval.SetLimit(ctx, tx, h.as(user), amount) })
}

// waits checks that a payroll is on hold for its approval and that no output exists.
func (h *env) waits(id string, needed, given int) {
	h.Helper()
	p := h.want(id, OnHold, FundingFunded, Received)
	if p.HoldReason != ReasonApproval || p.HeldFrom != Received || p.Approval.Needed != int64(needed) ||
		len(p.Approval.By) != given {
		h.Errorf("held for %q, %d of %d approvals; want %d of %d", p.HoldReason, len(p.Approval.By), p.Approval.Needed,
			given, needed)
	}
	h.WantCount(0, "outputs WHERE payroll_id = $1", id)
}

// Every path to the release of a payroll above the limit waits until enough members who may approve have approved.
func TestAPayrollAboveTheLimitWaitsForItsApproval(t *testing.T) {
	run(t, func(h *env) {
		h.member("usr_a", identity.RoleOwner)
		h.member("usr_dev", identity.RoleDeveloper)
		h.limit("second_person_missing", "usr_a", usd(1000_00))
		h.member("usr_b", identity.RoleAdmin)
		h.limit("role_required", "usr_dev", usd(1000_00))
		h.limit("", "usr_a", usd(1010_00))

		within := h.released(worked...) // a total of 1,010.00 USD, equal to the limit
		h.want(within.ID, Released, FundingFunded, Released)

		above := h.released(Payee{AmountText: "1000.01", UserID: "rec_btc"})
		h.waits(above.ID, 2, 0)
		h.release(above.ID)
		h.resume(above.ID)
		h.release(above.ID)
		h.waits(above.ID, 2, 0)

		// A reorganization removes the funding, which is confirmed again: the payroll waits again.
		h.fund(above, "reverted")
		if got := h.get(above.ID); got.State != Pending || got.HoldReason != "" {
			h.Errorf("%s, held for %q", got.State, got.HoldReason)
		}
		h.does("invalid_state", h.approve, h.as("usr_a"), above.ID)
		h.fund(above, "confirmed")
		h.release(above.ID)
		h.waits(above.ID, 2, 0)

		for _, by := range []identity.Principal{h.By, h.as("usr_dev"), h.as("usr_nobody"), {Kind: identity.KindOAuth,
			CompanyID: h.By.CompanyID, UserID: "usr_a"}} {
			h.does("role_required", h.approve, by, above.ID)
		}
		h.does("", h.approve, h.as("usr_a"), above.ID)
		h.does("", h.approve, h.as("usr_a"), above.ID)
		h.waits(above.ID, 2, 1)
		h.member("usr_a", identity.RoleViewer) // an approval by a member who may no longer approve does not count
		h.does("", h.approve, h.as("usr_b"), above.ID)
		h.waits(above.ID, 2, 1)
		h.member("usr_c", identity.RoleAdmin)
		h.does("", h.approve, h.as("usr_c"), above.ID)
		h.member("usr_c", identity.RoleViewer)
		h.release(above.ID)
		h.waits(above.ID, 2, 1)
		h.member("usr_c", identity.RoleAdmin)
		h.resume(above.ID)
		h.release(above.ID)
		if got := h.want(above.ID, Released, FundingFunded, Released); len(got.Approval.By) != 2 {
			h.Errorf("%+v", got.Approval)
		}
		h.does("invalid_state", h.approve, h.as("usr_b"), above.ID)
		h.WantCount(3, "history WHERE object_id = $1 AND reason = $2", above.ID, ReasonApproved)
	})
}

// A member cannot approve their own payroll. Payrolls in another currency, or without a known price, are checked too.
func TestTheCreatorOfAPayrollDoesNotApproveIt(t *testing.T) {
	run(t, func(h *env) {
		h.member("usr_a", identity.RoleOwner)
		h.member("usr_b", identity.RoleAdmin)
		h.limit("", "usr_a", usd(100_00))
		maker, app := h.as("usr_a"), h.By
		h.By = maker
		params := CreateParams{Currency: "EUR", ToPay: []Payee{{AmountText: "95", UserID: "rec_btc"}}}
		v := fixture.Do(h.Fixture, func(ctx context.Context, tx *db.Tx) (Preview, error) {
			return h.s.Preview(ctx, tx, maker, params)
		})
		if v.Approvals != 1 || len(v.Blockers) > 0 {
			h.Errorf("%+v", v)
		}
		p := h.create(params)
		h.By = app
		h.fund(p, "confirmed")
		h.release(p.ID)
		h.waits(p.ID, 1, 0)
		h.does("second_person_required", h.approve, maker, p.ID)
		h.does("", h.approve, h.as("usr_b"), p.ID)
		h.release(p.ID)
		h.want(p.ID, Released, FundingFunded, Released)

		small := h.create(CreateParams{Currency: "EUR", ToPay: []Payee{{AmountText: "10", UserID: "rec_btc"}}})
		h.fund(small, "confirmed")
		h.Exec("DELETE FROM rates WHERE asset = 'EUR'")
		h.release(small.ID)
		h.waits(small.ID, 2, 0)
	})
}

// Declining or cancelling returns the money to the company, and a shortfall to the operator.
func TestADeclinedPayrollReturnsItsMoney(t *testing.T) {
	run(t, func(h *env) {
		h.member("usr_a", identity.RoleOwner)
		h.member("usr_b", identity.RoleAdmin)
		h.limit("", "usr_a", usd(0))
		h.Exec("UPDATE companies SET tolerance_bps = 100")
		p := h.create(CreateParams{ToPay: worked})
		h.deposit(p, "dep_1", 2_019_000, "confirmed")
		h.release(p.ID)
		h.waits(p.ID, 2, 0)
		h.does("role_required", h.s.Decline, h.By, p.ID)
		h.does("", h.s.Decline, h.as("usr_b"), p.ID)
		if got := h.want(p.ID, Cancelled, FundingFunded, Cancelled); got.HoldReason != "" || got.Approval.Needed != 0 {
			h.Errorf("%+v", got)
		}
		h.WantCount(1, "history WHERE object_id = $1 AND to_state = 'cancelled' AND reason = $2", p.ID, ReasonDeclined)
		h.WantBalance(ledger.CompanyFunds, "", sats(2_019_000))
		h.WantBalance(ledger.Shortfall, p.ID, sats(0))

		wallet := h.create(CreateParams{ToPay: []Payee{{AmountText: "40", UserID: "rec_btc"}}, FundingMethod: MethodWallet,
			FundingCurrency: "BTC"})
		h.release(wallet.ID)
		h.waits(wallet.ID, 2, 0)
		h.does("", h.s.Cancel, h.By, wallet.ID)
		h.want(wallet.ID, Cancelled, FundingFunded, Cancelled)
		h.WantBalance(ledger.CompanyFunds, "", sats(2_019_000))
		h.release(wallet.ID)
	})
}

// A quote's rate is not an option for the company. Until the quote's end a canceled payroll returns what it received;
// afterwards it is settled at the present rate: a company does not gain from the market while an approval is missing,
// and loses only what the payroll costs now.
func TestACanceledPayrollIsSettledAtThePresentRate(t *testing.T) {
	run(t, func(h *env) {
		h.member("usr_a", identity.RoleOwner)
		h.member("usr_b", identity.RoleAdmin)
		h.limit("", "usr_a", usd(0))
		cost, balance := int64(2_020_000), int64(0) // at 50,000 USD
		cancel := func(by identity.Principal, action func(context.Context, *db.Tx, identity.Principal, string) (Payroll,
			error), wait time.Duration, btc string, back int64, p Payroll) {
			h.Helper()
			h.release(p.ID)
			h.waits(p.ID, 2, 0)
			h.Clock.Advance(wait)
			h.Exec("UPDATE rates SET rate = $1 WHERE asset = 'BTC'", btc)
			h.does("", action, by, p.ID)
			h.want(p.ID, Cancelled, FundingFunded, Cancelled)
			balance += back
			h.WantBalance(ledger.CompanyFunds, "", sats(balance))
			h.Exec("UPDATE rates SET rate = '50000' WHERE asset = 'BTC'")
		}
		funded := func() Payroll {
			day := h.Clock.Now().AddDate(0, 0, 5).Format(time.DateOnly)
			p := h.create(CreateParams{ToPay: worked, PayDay: PayDay{Date: day}})
			h.fund(p, "confirmed")
			return p
		}
		cancel(h.By, h.s.Cancel, time.Minute, "100000", cost, funded())
		cancel(h.By, h.s.Cancel, time.Hour, "100000", cost/2, funded())
		cancel(h.as("usr_b"), h.s.Decline, time.Hour, "80000", 1_262_500, funded())
		cancel(h.By, h.s.Cancel, time.Hour, "40000", cost, funded())
		wallet := h.create(CreateParams{ToPay: worked, FundingMethod: MethodWallet, FundingCurrency: "BTC"})
		balance -= cost
		cancel(h.By, h.s.Cancel, time.Hour, "100000", cost/2, wallet)

		blind := funded()
		h.release(blind.ID)
		h.Clock.Advance(time.Hour)
		h.Exec("DELETE FROM rates WHERE asset = 'BTC'")
		h.does("rate_unavailable", h.s.Cancel, h.By, blind.ID)
		h.waits(blind.ID, 2, 0)
	})
}

// One person can lower a limit; raising it takes two.
func TestRaisingTheLimitTakesTwoMembers(t *testing.T) {
	run(t, func(h *env) {
		for _, user := range []string{"usr_a", "usr_b", "usr_c"} {
			h.member(user, identity.RoleAdmin)
		}
		now := func() approval.Limit {
			return fixture.Get(h.Fixture, func(ctx context.Context, tx *db.Tx) (approval.Limit, error) {
				return approval.LimitOf(ctx, tx, h.By)
			})
		}
		answer := func(code, user, id string, yes bool) {
			h.Helper()
			h.WantFault(code, func(ctx context.Context, tx *db.Tx) error {
				return approval.AnswerLimit(ctx, tx, h.as(user), id, yes)
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
				h.Fatalf("%+v", l)
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
				h.Fatalf("%+v", l)
			}
		}
		h.limit("", "usr_a", usd(900_00))
		first := now().Proposal.ID
		h.limit("", "usr_c", usd(800_00)) // replaces the proposal of usr_a
		answer("invalid_state", "usr_b", first, true)
		answer("", "usr_b", now().Proposal.ID, true)
		if l := now(); l.Amount != usd(800_00) || l.Proposal.ID != "" {
			h.Errorf("%+v", l)
		}
		h.limit("", "usr_a", money.Amount{})
		answer("", "usr_b", now().Proposal.ID, true)
		if l := now(); l.Amount != (money.Amount{}) {
			h.Errorf("%+v", l)
		}
		h.WantCount(13, "history WHERE object_id = $1 AND reason LIKE 'approval limit: %'", h.By.CompanyID)
	})
}

// What a company pays without approval in a day, and in a week, counts together, so splitting a payroll does not avoid
// the limit.
func TestPayrollsOfADayAndAWeekCountTogether(t *testing.T) {
	run(t, func(h *env) {
		h.member("usr_a", identity.RoleOwner)
		h.member("usr_b", identity.RoleAdmin)
		h.limit("", "usr_a", usd(100_00))
		pay := func(amount string) Payroll { return h.released(Payee{AmountText: amount, UserID: "rec_btc"}) }
		for range 5 {
			h.wantState(pay("60"), Released)
			second := pay("60")
			h.waits(second.ID, 2, 0)
			h.does("", h.approve, h.as("usr_a"), second.ID)
			h.does("", h.approve, h.as("usr_b"), second.ID)
			h.release(second.ID)
			h.wantState(second, Released) // and does not count
			h.wantState(pay("30"), Released)
			h.waits(pay("20").ID, 2, 0)
			h.Clock.Advance(25 * time.Hour)
		}
		h.waits(pay("60").ID, 2, 0) // more than five times the limit in a week
		v := fixture.Do(h.Fixture, func(ctx context.Context, tx *db.Tx) (Preview, error) {
			return h.s.Preview(ctx, tx, h.By, CreateParams{ToPay: []Payee{{AmountText: "60", UserID: "rec_btc"}}})
		})
		if v.Approvals != 2 {
			h.Errorf("%d approvals are announced, want 2", v.Approvals)
		}
		h.Clock.Advance(3 * 24 * time.Hour)
		h.wantState(pay("60"), Released)
	})
}

// An administrator cannot invite the second person: a member who gets the role while there is a limit can approve a
// week later, and cannot raise the limit before.
func TestANewAdministratorApprovesAWeekLater(t *testing.T) {
	run(t, func(h *env) {
		h.member("usr_a", identity.RoleOwner)
		h.member("usr_b", identity.RoleAdmin)
		h.member("usr_dev", identity.RoleDeveloper)
		h.limit("", "usr_a", usd(100_00))
		h.Clock.Advance(time.Minute)
		h.member("usr_c", identity.RoleAdmin)
		h.member("usr_dev", identity.RoleAdmin)
		h.member("usr_b", identity.RoleOwner) // who was an administrator before
		app := h.By
		h.By = h.as("usr_a")
		p := h.create(CreateParams{ToPay: []Payee{{AmountText: "500", UserID: "rec_btc"}}})
		h.By = app
		h.fund(p, "confirmed")
		h.release(p.ID)
		h.waits(p.ID, 1, 0)
		h.limit("", "usr_a", usd(9_000_00))
		raise := fixture.Get(h.Fixture, func(ctx context.Context, tx *db.Tx) (approval.Limit, error) {
			return approval.LimitOf(ctx, tx, h.By)
		}).Proposal.ID
		agree := func(code, user string) {
			h.Helper()
			h.WantFault(code, func(ctx context.Context, tx *db.Tx) error {
				return approval.AnswerLimit(ctx, tx, h.as(user), raise, true)
			})
		}
		for _, user := range []string{"usr_c", "usr_dev"} {
			h.does("second_person_required", h.approve, h.as(user), p.ID)
			agree("second_person_required", user)
		}
		h.Clock.Advance(7 * 24 * time.Hour)
		agree("", "usr_dev")
		h.does("", h.approve, h.as("usr_b"), p.ID)
		h.release(p.ID)
		h.wantState(p, Released)

		h.limit("", "usr_a", usd(100_00))
		last := h.released(Payee{AmountText: "500", UserID: "rec_btc"})
		h.does("", h.approve, h.as("usr_c"), last.ID)
		h.waits(last.ID, 2, 1)
	})
}

// What was approved is what is paid: a destination that changes after the approval, by members or by staff, waits until
// a member confirms it, also after the cool-down and for a payee who was never paid.
func TestADestinationThatChangesAfterTheApprovalWaits(t *testing.T) {
	run(t, func(h *env) {
		h.s.CoolDown = time.Hour
		h.member("usr_a", identity.RoleOwner)
		h.member("usr_b", identity.RoleAdmin)
		h.limit("", "usr_a", usd(100_00))
		reviewed := false
		h.s.guards.ReleaseApproved = func(context.Context, *db.Tx, string, string, money.Amount) (bool, error) {
			return reviewed, nil
		}
		p := h.released(worked...)
		h.does("", h.approve, h.as("usr_a"), p.ID)
		h.does("", h.approve, h.as("usr_b"), p.ID)
		h.release(p.ID)
		if got := h.get(p.ID); got.HoldReason != ReasonRelease {
			h.Fatalf("held for %q", got.HoldReason)
		}
		h.Clock.Advance(time.Minute)
		h.Exec("UPDATE destinations SET address = address || 'x' WHERE owner_id = 'rec_btc'")
		h.changeDestination("rec_btc")
		reviewed = true
		h.Clock.Advance(2 * time.Hour)
		h.resume(p.ID)
		h.release(p.ID)
		h.wantPayment(p, 0, OnHold, ReasonCoolDown, 0)
		h.wantPayment(p, 1, Released, "", 1)
		h.Clock.Advance(48 * time.Hour)
		h.release(p.ID)
		h.wantPayment(p, 0, OnHold, ReasonCoolDown, 0)
		h.WantFault("", fixture.Drop(func(ctx context.Context, tx *db.Tx) (Payroll, error) {
			return h.confirmDestination(ctx, tx, h.as("usr_b"), p.ID, h.get(p.ID).Payments[0].ID)
		}))
		h.release(p.ID)
		h.wantPayment(p, 0, Released, "", 1)
	})
}

// A member approves the payees, destinations and amounts that the page showed, and not what replaced them meanwhile.
func TestAnApprovalRefersToWhatThePageShowed(t *testing.T) {
	run(t, func(h *env) {
		h.member("usr_a", identity.RoleOwner)
		h.member("usr_b", identity.RoleAdmin)
		h.limit("", "usr_a", usd(100_00))
		p := h.released(worked...)
		shown := fixture.Do(h.Fixture, func(ctx context.Context, tx *db.Tx) (string, error) {
			return h.s.Content(ctx, tx, p)
		})
		h.Exec("UPDATE destinations SET address = address || 'x' WHERE owner_id = 'rec_btc'")
		h.WantFault("payroll_changed", fixture.Drop(func(ctx context.Context, tx *db.Tx) (Payroll, error) {
			return h.s.Approve(ctx, tx, h.as("usr_a"), p.ID, shown)
		}))
		h.waits(p.ID, 2, 0)
		h.does("", h.approve, h.as("usr_a"), p.ID)

		// The funding disappears, and the payroll is changed: it needs all approvals again.
		h.Exec("UPDATE payrolls SET created_by = ''")
		h.fund(p, "reverted")
		h.Exec("DELETE FROM deposits")
		h.Exec("DELETE FROM payroll_receipts")
		edited := fixture.Do(h.Fixture, func(ctx context.Context, tx *db.Tx) (Payroll, error) {
			return h.s.Edit(ctx, tx, h.By, EditParams{PayrollID: p.ID, ToPay: []Payee{{AmountText: "1500", UserID: "rec_btc"}}})
		})
		h.WantCount(0, "approvals WHERE object_id = $1", edited.ID)
		h.WantCount(0, "approved_payments WHERE payroll_id = $1", edited.ID)
	})
}
