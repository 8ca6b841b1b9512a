package ledger

import (
	"cmp"
	"context"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

// Debt is an amount that a company or person owes the operator (1300), because received money was reversed after its
// owner had spent it.
type Debt struct {
	OwnerID string
	Dim     string       // ID of the reversed deposit, or ""
	Amount  money.Amount // amount owed; negative if the money came in again after the debt was settled
}

// ID returns the deposit's ID or, if there is none, the asset. It is unique among the debts of one owner.
func (d Debt) ID() string { return cmp.Or(d.Dim, string(d.Amount.Asset())) }

// DebtOf returns the debt of an owner by its ID. If there is none, the Debt has no asset.
func DebtOf(ctx context.Context, tx *db.Tx, ownerID, id string) (Debt, error) {
	owed, err := debtsOf(ctx, tx, ownerID)
	for _, d := range owed {
		if d.ID() == id {
			return d, err
		}
	}
	return Debt{}, err
}

// CheckNoDebt returns ErrInsufficient if a company has a debt. Such a company cannot take money out.
func CheckNoDebt(ctx context.Context, tx *db.Tx, companyID string) error {
	owed, err := debtsOf(ctx, tx, companyID)
	for _, d := range owed {
		if d.Amount.Sign() > 0 {
			return ErrInsufficient.Detailf("The company owes %s %s because a deposit was reversed. Pay this first.",
				d.Amount, d.Amount.Asset())
		}
	}
	return err
}

// ReversalLines returns the debits that take an amount back from a company: from its balance as far as that suffices,
// and the rest as a debt.
func ReversalLines(ctx context.Context, tx *db.Tx, ownerID string, a money.Amount) ([]Line, error) {
	taken, err := Balance(ctx, tx, ownerID, CompanyFunds, "", a.Asset())
	if err != nil {
		return nil, err
	}
	if taken.Cmp(a) > 0 {
		taken = a
	}
	owed, err := a.Sub(taken)
	return []Line{Debit(CompanyFunds, "", taken), Debit(DueFromCustomer, "", owed)}, err
}

// Offset settles a debt from its owner's balance as far as the balance allows. If the debt is negative, Offset
// credits the excess to the balance. It returns the remaining debt.
func Offset(ctx context.Context, tx *db.Tx, d Debt) (left money.Amount, err error) {
	owed, err := Balance(ctx, tx, d.OwnerID, DueFromCustomer, d.Dim, d.Amount.Asset())
	if err != nil {
		return owed, err
	}
	settled, err := Balance(ctx, tx, d.OwnerID, CompanyFunds, "", owed.Asset())
	if err != nil {
		return owed, err
	}
	if settled.Cmp(owed) > 0 {
		settled = owed
	}
	lines := []Line{Debit(CompanyFunds, "", settled), Credit(DueFromCustomer, d.Dim, settled)}
	if settled.Sign() < 0 {
		lines = []Line{Debit(DueFromCustomer, d.Dim, settled.Neg()), Credit(CompanyFunds, "", settled.Neg())}
	}
	if err := Post(tx, Journal{
		CompanyID: d.OwnerID, SourceType: "debt", SourceID: tx.NewID("off"), Purpose: "set_off", Lines: lines,
	}); err != nil {
		return owed, err
	}
	return owed.Sub(settled)
}

// OffsetAll settles all debts of an owner from the owner's balances as far as the balances allow.
func OffsetAll(ctx context.Context, tx *db.Tx, ownerID string) error {
	owed, err := debtsOf(ctx, tx, ownerID)
	for _, d := range owed {
		if err == nil {
			_, err = Offset(ctx, tx, d)
		}
	}
	return err
}

// WriteOff writes off an amount of a debt at the operator's cost, once per case ID. If the money comes in again, the
// debt becomes negative, and [Offset] credits the excess to its owner.
func WriteOff(tx *db.Tx, d Debt, caseID string, x money.Amount) error {
	return Post(tx, Journal{
		CompanyID: d.OwnerID, SourceType: "debt", SourceID: caseID, Purpose: "write_off",
		Lines: []Line{Debit(ReorgLoss, caseID, x), Credit(DueFromCustomer, d.Dim, x)},
	})
}
