package income_test

import (
	"context"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/income"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/testkit/fixture"
)

// checkAccounts makes accounts in euros ones that banks check, under a policy.
func (h *env) checkAccounts(p destination.CheckPolicy) {
	h.s.Payroll.Checks = destination.Checks{Policy: p,
		Method: func(symbol money.Asset, _, _ string) destination.CheckMethod {
			return map[money.Asset]destination.CheckMethod{money.EUR: destination.CheckName}[symbol]
		}}
}

// destination returns the user's only destination.
func (p *person) destination() destination.Destination {
	p.Helper()
	return fixture.Get(p.Fixture, func(ctx context.Context, tx *db.Tx) (destination.Destination, error) {
		all, err := destination.ForOwners(ctx, tx, []string{p.id})
		return all[p.id][0], err
	})
}

// checked reports the result of a check of the user's account.
func (p *person) checked(r destination.CheckResult) {
	p.Helper()
	p.Clock.Advance(time.Second)
	d := p.destination()
	p.Write(func(ctx context.Context, tx *db.Tx) error {
		_, err := destination.RecordCheck(ctx, tx, d, destination.AccountCheck{Method: destination.CheckName, Result: r})
		return err
	})
}

func (p *person) confirm(code string) {
	p.Helper()
	id := p.destination().ID
	p.WantFault(code, fixture.Drop(func(ctx context.Context, tx *db.Tx) (destination.Destination, error) {
		return destination.Confirm(ctx, tx, p.By, p.s.Payroll.Checks, p.id, id)
	}))
}

// Income to an account that did not pass its check waits until the person confirms the account. A later result waits
// again, and one that passes continues by itself.
func TestAPersonConfirmsAnAccountThatDidNotPassItsCheck(t *testing.T) {
	run(t, func(h *env) {
		h.checkAccounts(destination.CheckBlocks)
		for _, r := range []destination.CheckResult{"", destination.CheckCloseMatch, destination.CheckNoMatch,
			destination.CheckNotPossible} {
			p := h.person(map[money.Asset]int{money.EUR: 100})
			if r != "" {
				p.checked(r)
			}
			p.receive("100")
			p.want(payroll.OnHold, payroll.ReasonCheck, 0)
			p.confirm("")
			p.want(payroll.Released, "", 1)
		}
		p := h.person(map[money.Asset]int{money.EUR: 100})
		p.receive("100")
		p.want(payroll.OnHold, payroll.ReasonCheck, 0)
		h.blocked = true
		p.confirm("")
		p.want(payroll.OnHold, payroll.ReasonReview, 0)
		p.checked(destination.CheckNoMatch)
		h.blocked = false
		p.want(payroll.OnHold, payroll.ReasonCheck, 0)
		p.checked(destination.CheckMatch)
		p.want(payroll.Released, "", 1)
		p.confirm("invalid_state")

		// A confirmation without an answer leaves the check open, and counts for income only.
		q := h.person(map[money.Asset]int{money.EUR: 100})
		q.confirm("")
		if c := q.destination().Check; c == nil || c.Result != destination.CheckPending {
			t.Errorf("a confirmed account without an answer: %+v", c)
		}
		if h.s.Payroll.Checks.Concern(h.Clock.Now(), []destination.Destination{q.destination()}) == nil {
			t.Error("payrolls trust an account that only its owner confirmed")
		}
	})
}

// An account can be confirmed once the bank has answered or has not answered in time, and never if no bank checks it,
// or while a prenote waits or after it was returned.
func TestAConfirmationEndsNoCheck(t *testing.T) {
	run(t, func(h *env) {
		h.checkAccounts(destination.CheckBlocks)
		p := h.person(map[money.Asset]int{money.EUR: 100})
		h.Exec("UPDATE destinations SET updated_at = $2 WHERE owner_id = $1", p.id, db.Micros(h.Clock.Now()))
		p.confirm("invalid_state")
		h.Clock.Advance(destination.AnswerWait)
		p.confirm("")

		h.s.Payroll.Checks.Method = func(money.Asset, string, string) destination.CheckMethod {
			return destination.CheckPrenote
		}
		for _, r := range []destination.CheckResult{destination.CheckPending, destination.CheckReturned} {
			p.prenote(r)
			p.confirm("invalid_state")
		}
		p.prenote(destination.CheckNotPossible)
		p.confirm("")

		h.s.Payroll.Checks.Method = func(money.Asset, string, string) destination.CheckMethod { return "" }
		h.person(map[money.Asset]int{money.EUR: 100}).confirm("invalid_state")
	})
}

// prenote reports the result of a prenote to the user's account.
func (p *person) prenote(r destination.CheckResult) {
	p.Helper()
	d := p.destination()
	p.Write(func(ctx context.Context, tx *db.Tx) error {
		_, err := destination.RecordCheck(ctx, tx, d, destination.AccountCheck{Method: destination.CheckPrenote, Result: r})
		return err
	})
}

// Income waits for the first answer about a new account, for ten minutes at most.
func TestIncomeWaitsForTheFirstAnswerOfTheBank(t *testing.T) {
	run(t, func(h *env) {
		h.checkAccounts(destination.CheckWarns)
		entered := func() *person {
			p := h.person(map[money.Asset]int{money.EUR: 100})
			h.Exec("UPDATE destinations SET updated_at = $2 WHERE owner_id = $1", p.id, db.Micros(h.Clock.Now()))
			p.receive("100")
			return p
		}
		p := entered()
		p.want(payroll.OnHold, payroll.ReasonAnswer, 0)
		p.checked(destination.CheckNoMatch) // the operator's setting is to warn
		p.want(payroll.Released, "", 1)

		q := entered()
		q.checked(destination.CheckPending) // the bank does not answer now
		q.want(payroll.OnHold, payroll.ReasonAnswer, 0)
		h.Clock.Advance(destination.AnswerWait)
		q.want(payroll.Released, "", 1)
	})
}

// Income that waits for a setting of the operator is paid once the process was started with another setting.
func TestIncomeContinuesAfterASettingChanged(t *testing.T) {
	run(t, func(h *env) {
		start := func() {
			h.Helper()
			testkit.Check(t, new(income.HeldRetrier).Retry(t.Context(), h.DB))
		}
		h.checkAccounts(destination.CheckBlocks)
		p := h.person(map[money.Asset]int{money.EUR: 100})
		p.receive("100")
		p.want(payroll.OnHold, payroll.ReasonCheck, 0)
		start()
		p.want(payroll.OnHold, payroll.ReasonCheck, 0)
		h.checkAccounts(destination.CheckWarns)
		start()
		p.want(payroll.Released, "", 1)

		q := h.person(map[money.Asset]int{money.BTC: 100})
		h.Exec("UPDATE destinations SET rail = 'lightning', network = 'lightning' WHERE owner_id = $1", q.id)
		q.receive("100")
		q.want(payroll.ActionRequired, payroll.ReasonNoRail, 0)
		start()
		q.want(payroll.ActionRequired, payroll.ReasonNoRail, 0)
		h.s.Payroll.Lightning = true
		start()
		q.want(payroll.Released, "", 1)
	})
}

// Income that may wait for people for months is tried again at the start of the process and every hour, and not every
// minute. A bank's first answer has its own attempt.
func TestIncomeThatWaitsForPeopleIsTriedEveryHour(t *testing.T) {
	run(t, func(h *env) {
		for reason, c := range map[string]struct {
			state                   payroll.State
			start, minute, hourEach int64
		}{
			payroll.ReasonConversion: {payroll.OnHold, 1, 1, 1},
			income.ReasonOwes:        {payroll.OnHold, 1, 1, 1},
			payroll.ReasonCheck:      {payroll.OnHold, 1, 0, 1},
			payroll.ReasonNoRail:     {payroll.ActionRequired, 1, 0, 1},
			payroll.ReasonAnswer:     {payroll.OnHold, 0, 0, 0},
		} {
			h.blocked = true
			p := h.person(map[money.Asset]int{money.EUR: 100})
			p.receive("100")
			p.want(payroll.OnHold, payroll.ReasonReview, 0)
			h.Exec("UPDATE incomes SET state = $1, reason = $2 WHERE user_id = $3", string(c.state), reason, p.id)
			var r income.HeldRetrier
			for _, step := range []struct {
				after time.Duration
				want  int64
			}{{0, c.start}, {time.Minute, c.minute}, {58 * time.Minute, c.minute}, {time.Minute, c.hourEach},
				{time.Minute, c.minute}} {
				h.Clock.Advance(step.after)
				testkit.Check(t, r.Retry(t.Context(), h.DB))
				h.WantCount(step.want, "jobs WHERE kind = 'income.release' AND company_id = $1", p.id)
				h.Exec("DELETE FROM jobs")
			}
			h.Exec("UPDATE incomes SET reason = 'under_review' WHERE user_id = $1", p.id)
		}
	})
}

// Income to an account whose correction the person disputes waits until the person replaces the account.
func TestADisputedCorrectionHoldsIncome(t *testing.T) {
	run(t, func(h *env) {
		p := h.person(map[money.Asset]int{money.EUR: 100})
		p.Exec(`UPDATE destinations SET correction_for = $2,
				correction = '{"correction_id":"cor_1","code":"C01","members":["account_number"]}'
			WHERE owner_id = $1`, p.id, p.By.CompanyID)
		id := p.destination().ID
		dispute := fixture.Drop(func(ctx context.Context, tx *db.Tx) (destination.Destination, error) {
			return destination.Dispute(ctx, tx, p.By, p.id, id, "cor_1")
		})
		p.WantFault("", dispute)
		p.WantFault("invalid_state", dispute)
		h.WantCount(1, "events WHERE name = 'distribution.correction_disputed' AND company_id = $1", p.By.CompanyID)
		found := fixture.Get(p.Fixture, func(ctx context.Context, tx *db.Tx) ([]destination.Destination, error) {
			return destination.Corrections(ctx, tx, p.By.CompanyID, 10)
		})
		if len(found) != 1 || found[0].ID != id {
			t.Errorf("the company sees %+v", found)
		}
		p.receive("100")
		p.want(payroll.ActionRequired, payroll.ReasonDisputed, 0)
		p.destinations(map[money.Asset]int{money.EUR: 100})
		p.want(payroll.Released, "", 1)
	})
}
