package payroll

import (
	"context"
	"errors"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/receivable/deposit"
)

// SettleDebts settles debts of companies and people with money that has arrived in their balances, and re-evaluates
// the payrolls that wait for it. It runs periodically.
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

// WriteOff writes off an amount of a debt ([ledger.WriteOff]), and re-evaluates the payrolls that wait for it.
func WriteOff(ctx context.Context, tx *db.Tx, owed ledger.Debt, caseID string, x money.Amount) error {
	if err := ledger.WriteOff(tx, owed, caseID, x); err != nil {
		return err
	}
	return resumeOwing(ctx, tx, owed.OwnerID)
}

// resumeOwing re-evaluates the payrolls of a company that are on hold because of its debts.
func resumeOwing(ctx context.Context, tx *db.Tx, companyID string) error {
	held, err := heldFor(ctx, tx, companyID, ReasonReverted)
	for _, id := range held {
		job.Enqueue(tx, job.New{CompanyID: companyID, Kind: deposit.JobChanged, Payload: deposit.Changed{ObjectID: id}})
	}
	return err
}

// stillOwed returns the part of a payroll's reversed funding that the company still owes: at most its total debt.
func (f *funding) stillOwed(ctx context.Context, tx *db.Tx) (money.Amount, error) {
	owed, err := f.owed()
	if err != nil || owed.IsZero() {
		return owed, err
	}
	all, err := ledger.Balance(ctx, tx, f.p.CompanyID, ledger.DueFromCustomer, "", owed.Asset())
	if all.Sign() < 0 {
		all = money.Zero(owed.Asset())
	}
	return smaller(owed, all), err
}
