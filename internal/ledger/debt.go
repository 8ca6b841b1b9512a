package ledger

import (
	"cmp"
	"context"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

// Debt is what a company owes the operator in one asset (1300): money that had come in was reversed after the company spent it.
type Debt struct {
	OwnerID string
	Dim     string       // the deposit that was reversed, or ""
	Amount  money.Amount // negative if more was settled than is owed, because the money came in again
}

// ID identifies a debt among those of its owner: by its deposit, or else by its asset.
func (d Debt) ID() string { return cmp.Or(d.Dim, string(d.Amount.Asset())) }

// DebtOf returns the debt of an owner with an ID; without an asset if there is none.
func DebtOf(ctx context.Context, tx *db.Tx, ownerID, id string) (Debt, error) {
	owed, err := debtsOf(ctx, tx, ownerID)
	for _, d := range owed {
		if d.ID() == id {
			return d, err
		}
	}
	return Debt{}, err
}

// CheckNoDebt returns ErrInsufficient while a company owes anything: it cannot take money out.
func CheckNoDebt(ctx context.Context, tx *db.Tx, companyID string) error {
	owed, err := debtsOf(ctx, tx, companyID)
	for _, d := range owed {
		if d.Amount.Sign() > 0 {
			return ErrInsufficient.Detailf("The company owes %s %s because a deposit was reversed. It must pay that first.", d.Amount, d.Amount.Asset())
		}
	}
	return err
}

// ReversalLines returns the debits that take an amount from a company: from its balance as far as that suffices, the rest as a debt.
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

// Offset settles a debt from its owner's balance as far as that suffices, or returns to the balance what was settled in excess. It returns
// what is still owed.
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
	if err := Post(tx, Journal{CompanyID: d.OwnerID, SourceType: "debt", SourceID: tx.NewID("off"), Purpose: "set_off", Lines: lines}); err != nil {
		return owed, err
	}
	return owed.Sub(settled)
}

// WriteOff gives up an amount of a debt, once per case, at the cost of the operator. If the money comes in again, the debt is settled in
// excess, and [Offset] returns that to its owner.
func WriteOff(tx *db.Tx, d Debt, caseID string, x money.Amount) error {
	return Post(tx, Journal{CompanyID: d.OwnerID, SourceType: "debt", SourceID: caseID, Purpose: "write_off", Lines: []Line{
		Debit(ReorgLoss, caseID, x), Credit(DueFromCustomer, d.Dim, x),
	}})
}
