package payroll

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/testkit/fixture"
)

// checked stores a check of the bank account of rec_eur.
func (h *env) checked(c destination.AccountCheck) {
	h.Helper()
	c.Checked = h.Clock.Now()
	text, err := json.Marshal(c)
	if err != nil {
		h.Fatal(err)
	}
	h.Exec("UPDATE destinations SET account_check = $1 WHERE owner_id = 'rec_eur'", string(text))
}

// checkAccounts makes the account of rec_eur one that banks check, under a policy.
func (h *env) checkAccounts(p destination.CheckPolicy) {
	h.s.Checks = destination.Checks{Policy: p,
		Method: func(symbol money.Asset, _, _ string) destination.CheckMethod {
			return map[money.Asset]destination.CheckMethod{money.EUR: destination.CheckName}[symbol]
		}}
}

// A payment to a bank account that has not passed its check warns, blocks or neither, by the operator's setting. A
// member can confirm an account that blocks; a later result blocks again.
func TestChecksOfAccounts(t *testing.T) {
	run(t, func(h *env) {
		results := []destination.CheckResult{"", destination.CheckPending, destination.CheckMatch,
			destination.CheckCloseMatch, destination.CheckNoMatch, destination.CheckNotPossible}
		for _, policy := range []destination.CheckPolicy{"", destination.CheckIgnored, destination.CheckWarns,
			destination.CheckBlocks} {
			h.checkAccounts(policy)
			for _, r := range results {
				h.Exec("UPDATE destinations SET account_check = '', created_at = 1")
				if r != "" {
					h.checked(destination.AccountCheck{Method: destination.CheckName, Result: r})
				}
				h.Clock.Advance(8 * 24 * time.Hour)
				passed := r == destination.CheckMatch
				want := map[int][]Warning{}
				if (policy == destination.CheckWarns || policy == destination.CheckBlocks) && !passed {
					want[1] = []Warning{{Code: WarnAccount, Check: r}}
				}
				p := h.create(CreateParams{ToPay: worked})
				if policy != "" { // someone was paid before
					h.wantWarnings(string(policy)+" "+string(r), p, want)
				}
				h.fund(p, "confirmed")
				h.release(p.ID)
				h.wantPayment(p, 0, Released, "", 1)
				if policy == destination.CheckBlocks && !passed {
					h.wantPayment(p, 1, OnHold, ReasonCheck, 0)
				} else {
					h.wantPayment(p, 1, Released, "", 1)
				}
			}
		}
		h.member("usr_admin", "admin")
		p := h.released(worked...)
		confirm := func(code string) {
			h.Helper()
			h.WantFault(code, fixture.Drop(func(ctx context.Context, tx *db.Tx) (Payroll, error) {
				return h.confirmDestination(ctx, tx, h.as("usr_admin"), p.ID, p.Payments[1].ID)
			}))
		}
		h.Clock.Advance(time.Minute)
		confirm("")
		h.Clock.Advance(time.Minute)
		h.checked(destination.AccountCheck{Method: destination.CheckName, Result: destination.CheckNoMatch})
		h.release(p.ID)
		h.wantPayment(p, 1, OnHold, ReasonCheck, 0)
		h.Clock.Advance(time.Minute)
		confirm("")
		h.release(p.ID)
		h.wantPayment(p, 1, Released, "", 1)
	})
}

// While a prenote waits, or after its return, nothing is paid to the account under any setting, and nobody can confirm
// it. Once it is accepted, the payment goes on.
func TestAPrenoteHoldsPayments(t *testing.T) {
	run(t, func(h *env) {
		h.checkAccounts(destination.CheckIgnored)
		h.checked(destination.AccountCheck{Method: destination.CheckPrenote, Result: destination.CheckPending})
		p := h.released(worked...)
		h.wantPayment(p, 1, OnHold, ReasonPrenote, 0)
		h.member("usr_admin", "admin")
		h.WantFault("invalid_state", fixture.Drop(func(ctx context.Context, tx *db.Tx) (Payroll, error) {
			return h.confirmDestination(ctx, tx, h.as("usr_admin"), p.ID, p.Payments[1].ID)
		}))
		h.checked(destination.AccountCheck{Method: destination.CheckPrenote, Result: destination.CheckReturned, Code: "R03"})
		h.release(p.ID)
		h.wantPayment(p, 1, ActionRequired, ReasonReturned, 0)
		q := h.released(worked...)
		h.wantPayment(q, 1, ActionRequired, ReasonReturned, 0)
		h.checked(destination.AccountCheck{Method: destination.CheckPrenote, Result: destination.CheckAccepted})
		h.Deliver(HandlePayable, "recipient_id", "rec_eur")
		h.release(p.ID)
		h.release(q.ID)
		h.wantPayment(p, 1, Released, "", 1)
		h.wantPayment(q, 1, Released, "", 1)
	})
}

// A payment waits for the first answer about a new account, for ten minutes at most. A member can confirm the account
// meanwhile.
func TestAPaymentWaitsForTheFirstAnswerOfTheBank(t *testing.T) {
	run(t, func(h *env) {
		h.checkAccounts(destination.CheckWarns)
		entered := func() Payroll {
			h.Helper()
			h.Exec(`UPDATE destinations SET account_check = '', updated_at = $1, created_at = $1
				WHERE owner_id = 'rec_eur'`, db.Micros(h.Clock.Now()))
			p := h.released(worked...)
			h.wantPayment(p, 1, OnHold, ReasonAnswer, 0)
			return p
		}
		p := entered()
		h.checked(destination.AccountCheck{Method: destination.CheckName, Result: destination.CheckPending})
		h.Clock.Advance(destination.AnswerWait - time.Second)
		h.release(p.ID)
		h.wantPayment(p, 1, OnHold, ReasonAnswer, 0)
		h.Clock.Advance(time.Second)
		h.release(p.ID)
		h.wantPayment(p, 1, Released, "", 1)

		p = entered()
		h.checked(destination.AccountCheck{Method: destination.CheckName, Result: destination.CheckNoMatch})
		h.release(p.ID)
		h.wantPayment(p, 1, Released, "", 1)

		h.checkAccounts(destination.CheckBlocks)
		p = entered()
		h.checked(destination.AccountCheck{Method: destination.CheckName, Result: destination.CheckCloseMatch})
		h.release(p.ID)
		h.wantPayment(p, 1, OnHold, ReasonCheck, 0)

		p = entered()
		h.member("usr_admin", "admin")
		h.Clock.Advance(time.Second)
		h.WantFault("", fixture.Drop(func(ctx context.Context, tx *db.Tx) (Payroll, error) {
			return h.confirmDestination(ctx, tx, h.as("usr_admin"), p.ID, p.Payments[1].ID)
		}))
		h.release(p.ID)
		h.wantPayment(p, 1, Released, "", 1)
	})
}

// A payment to a destination whose correction the payee disputes needs action, also if it was on hold before.
func TestADisputedCorrectionHoldsPayments(t *testing.T) {
	run(t, func(h *env) {
		h.checkAccounts(destination.CheckBlocks)
		h.checked(destination.AccountCheck{Method: destination.CheckName, Result: destination.CheckNoMatch})
		p := h.released(worked...)
		h.wantPayment(p, 1, OnHold, ReasonCheck, 0)
		h.Exec(`UPDATE destinations SET correction = '{"correction_id":"cor_1","disputed":"2026-01-01T00:00:00Z"}'
			WHERE owner_id = 'rec_eur'`)
		h.release(p.ID)
		h.wantPayment(p, 1, ActionRequired, ReasonDisputed, 0)
		// The account that replaces it does not pass its check: a member confirms it.
		h.destinations("rec_eur", map[money.Asset]int{money.EUR: 100})
		h.checked(destination.AccountCheck{Method: destination.CheckName, Result: destination.CheckNoMatch})
		h.release(p.ID)
		h.wantPayment(p, 1, OnHold, ReasonCheck, 0)
		h.member("usr_admin", "admin")
		h.Clock.Advance(time.Second)
		h.WantFault("", fixture.Drop(func(ctx context.Context, tx *db.Tx) (Payroll, error) {
			return h.confirmDestination(ctx, tx, h.as("usr_admin"), p.ID, p.Payments[1].ID)
		}))
		h.release(p.ID)
		h.wantPayment(p, 1, Released, "", 1)
	})
}
