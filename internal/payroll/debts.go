package payroll

import (
	"context"
	"errors"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/receivable/deposit"
	"github.com/stipend/stipend/internal/webhook"
)

// SettleDebts settles the debts of companies and people with money that has arrived in their balances, and
// re-evaluates the payrolls that wait for a settlement. It runs periodically.
func SettleDebts(ctx context.Context, d *db.DB) error {
	var all []ledger.Debt
	if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		all, err = ledger.Debts(ctx, tx)
		return err
	}); err != nil {
		return err
	}
	var failed error
	for _, owed := range all { // an error for one debt does not delay the others
		failed = errors.Join(failed, d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			left, err := ledger.Offset(ctx, tx, owed)
			if err != nil || left.Sign() > 0 {
				return err
			}
			return resumeOwing(ctx, tx, owed.OwnerID)
		}))
	}
	return failed
}

// WriteOff writes off an amount of a debt ([ledger.WriteOff]), and re-evaluates the payrolls that the debt holds up.
func WriteOff(ctx context.Context, tx *db.Tx, owed ledger.Debt, caseID string, x money.Amount) error {
	if err := ledger.WriteOff(tx, owed, caseID, x); err != nil {
		return err
	}
	return resumeOwing(ctx, tx, owed.OwnerID)
}

// resumeOwing re-evaluates the payrolls of a company whose payouts are on hold because of its debts.
func resumeOwing(ctx context.Context, tx *db.Tx, companyID string) error {
	owing, err := heldForDebts(ctx, tx, companyID)
	for _, id := range owing {
		job.Enqueue(tx, job.New{CompanyID: companyID, Kind: deposit.JobChanged, Payload: deposit.Changed{ObjectID: id}})
	}
	return err
}

// recover resumes the payouts of a released payroll whose reversed funding the company no longer owes, and sets the
// payroll's funding state. If the company is frozen, the payouts stay on hold: [Unfreeze] enqueues the payroll again.
func (p *Payroll) recover(ctx context.Context, tx *db.Tx, to FundingState) error {
	if p.State == OnHold && p.HoldReason == ReasonReverted {
		p.FundingState = to
		return p.resumeUnlessFrozen(ctx, tx)
	}
	if p.State != OnHold { // the payroll had ended
		if frozen, err := isFrozen(ctx, tx, p.CompanyID); err != nil || frozen {
			return err
		}
		p.enqueueRelease(tx)
		if err := payout.Resume(ctx, tx, p.CompanyID, p.ID); err != nil {
			return err
		}
	}
	p.FundingState = to
	return p.noteFunding(ctx, tx, webhook.PayrollStatusUpdate)
}

// stillOwed returns the part of a payroll's reversed funding that the company still owes: at most its total debt.
func (f *funding) stillOwed(ctx context.Context, tx *db.Tx) (money.Amount, error) {
	owed, err := f.owed()
	if err != nil || owed.IsZero() {
		return owed, err
	}
	all, err := f.p.debt(ctx, tx)
	return smaller(owed, all), err
}

// debt returns the company's debt in a payroll's funding currency.
func (p *Payroll) debt(ctx context.Context, tx *db.Tx) (money.Amount, error) {
	all, err := ledger.Balance(ctx, tx, p.CompanyID, ledger.DueFromCustomer, "", p.FundingCurrency)
	if all.Sign() < 0 {
		all = money.Zero(p.FundingCurrency)
	}
	return all, err
}
