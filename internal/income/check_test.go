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
		return destination.Confirm(ctx, tx, p.By, p.id, id)
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

// Income that waits for a setting of the operator is paid once the setting changed.
func TestIncomeContinuesAfterASettingChanged(t *testing.T) {
	run(t, func(h *env) {
		retry := func() {
			h.Helper()
			testkit.Check(t, income.RetryHeld(t.Context(), h.DB))
		}
		h.checkAccounts(destination.CheckBlocks)
		p := h.person(map[money.Asset]int{money.EUR: 100})
		p.receive("100")
		p.want(payroll.OnHold, payroll.ReasonCheck, 0)
		retry()
		p.want(payroll.OnHold, payroll.ReasonCheck, 0)
		h.checkAccounts(destination.CheckWarns)
		retry()
		p.want(payroll.Released, "", 1)

		q := h.person(map[money.Asset]int{money.BTC: 100})
		h.Exec("UPDATE destinations SET rail = 'lightning', network = 'lightning' WHERE owner_id = $1", q.id)
		q.receive("100")
		q.want(payroll.ActionRequired, payroll.ReasonNoRail, 0)
		retry()
		q.want(payroll.ActionRequired, payroll.ReasonNoRail, 0)
		h.s.Payroll.Lightning = true
		retry()
		q.want(payroll.Released, "", 1)
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
