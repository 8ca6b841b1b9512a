package ledger

import (
	"cmp"
	"context"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

// Debt is what an owner owes the house in one asset (1300): money that came in for them was taken back when they had spent it.
type Debt struct {
	OwnerID string
	Dim     string       // of what it is: a deposit, "" for all else
	Amount  money.Amount // negative where more was settled than was owed, since the money came in again
}

// ID names a debt among those of its owner: it is the deposit's, or else the asset.
func (d Debt) ID() string { return cmp.Or(d.Dim, string(d.Amount.Asset())) }

// DebtOf is the debt of an owner that an ID names, without an asset when nothing of that kind is owed.
func DebtOf(ctx context.Context, tx *db.Tx, ownerID, id string) (Debt, error) {
	owed, err := debtsOf(ctx, tx, ownerID)
	for _, d := range owed {
		if d.ID() == id {
			return d, err
		}
	}
	return Debt{}, err
}

// Debts lists what is owed by whom, however little.
func Debts(ctx context.Context, tx *db.Tx) ([]Debt, error) { return debts(ctx, tx) }

// MayTake is ErrInsufficient while a company owes anything: a debtor takes no money out.
func MayTake(ctx context.Context, tx *db.Tx, companyID string) error {
	owed, err := debtsOf(ctx, tx, companyID)
	for _, d := range owed {
		if d.Amount.Sign() > 0 {
			return ErrInsufficient.Detailf("The company owes %s %s, since money that had come in was taken back. It pays that first.", d.Amount, d.Amount.Asset())
		}
	}
	return err
}

// TakeBack are the lines that take an amount from an owner again: out of their balance as far as that goes, and the rest they owe.
func TakeBack(ctx context.Context, tx *db.Tx, ownerID string, a money.Amount) ([]Line, error) {
	if err := tx.Flush(ctx); err != nil { // so that the balance is the one that this transaction leaves
		return nil, err
	}
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

// SetOff settles a debt out of its owner's balance as far as that goes, or gives the balance what was settled too much. It gives what
// is owed after it.
func SetOff(ctx context.Context, tx *db.Tx, d Debt) (left money.Amount, err error) {
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

// WriteOff gives up an amount of a debt, once for each case: the house bears it. Should the money come in again all the same, the debt is
// settled too much, and [SetOff] gives that to its owner.
func WriteOff(tx *db.Tx, d Debt, caseID string, x money.Amount) error {
	return Post(tx, Journal{CompanyID: d.OwnerID, SourceType: "debt", SourceID: caseID, Purpose: "write_off", Lines: []Line{
		Debit(ReorgLoss, caseID, x), Credit(DueFromCustomer, d.Dim, x),
	}})
}
