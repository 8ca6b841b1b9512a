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

// SettleDebts settles what companies and people owe out of what has come into their balances meanwhile, and has the pay runs looked
// at that wait for it. It belongs to no request: run it now and then.
func SettleDebts(ctx context.Context, d *db.DB) error {
	var all []ledger.Debt
	if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		all, err = ledger.Debts(ctx, tx)
		return err
	}); err != nil {
		return err
	}
	var failed error
	for _, owed := range all { // one that cannot be settled now does not keep the others
		failed = errors.Join(failed, d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			left, err := ledger.SetOff(ctx, tx, owed)
			if err != nil || left.Sign() > 0 {
				return err
			}
			return resumeOwing(ctx, tx, owed.OwnerID)
		}))
	}
	return failed
}

// WriteOff gives up an amount of a debt ([ledger.WriteOff]), and has the pay runs looked at that wait for it.
func WriteOff(ctx context.Context, tx *db.Tx, owed ledger.Debt, caseID string, x money.Amount) error {
	if err := ledger.WriteOff(tx, owed, caseID, x); err != nil {
		return err
	}
	return resumeOwing(ctx, tx, owed.OwnerID)
}

// resumeOwing has the pay runs of a company looked at that are held until it owes nothing.
func resumeOwing(ctx context.Context, tx *db.Tx, companyID string) error {
	held, err := heldFor(ctx, tx, companyID, ReasonReverted)
	for _, id := range held {
		job.Enqueue(tx, job.New{CompanyID: companyID, Kind: deposit.JobChanged, Payload: deposit.Changed{ObjectID: id}})
	}
	return err
}

// stillOwed is what of a pay run's taken back money the company still owes: no more than it owes in all.
func (f *funding) stillOwed(ctx context.Context, tx *db.Tx) (money.Amount, error) {
	owed, err := f.owed()
	if err != nil || owed.IsZero() {
		return owed, err
	}
	if err := tx.Flush(ctx); err != nil {
		return owed, err
	}
	all, err := ledger.Balance(ctx, tx, f.p.CompanyID, ledger.DueFromCustomer, "", owed.Asset())
	if all.Sign() < 0 {
		all = money.Zero(owed.Asset())
	}
	return smaller(owed, all), err
}
