package deposit

import (
	"cmp"
	"context"
	"errors"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
)

// Unexpected money waits in suspense (2500) until staff decide which balance or payroll receives it, or to which
// address it is sent back. These functions carry out the decision; their callers check the authority of the staff
// member.

// Errors returned to staff.
var (
	ErrNotFound     = apierr.New(apierr.NotFound, "not_found", "There is no such deposit.")
	ErrNotSuspended = apierr.New(apierr.Conflict, "invalid_state",
		"The deposit is not in suspense: it was decided already, or the chain has taken it back.")
	ErrOtherOwner = apierr.New(apierr.Conflict, "invalid_state",
		"The address was given to another company. Only what came to a forgotten address can be anybody's.")
)

// Suspended reports whether a deposit waits for a decision by staff.
func (d Deposit) Suspended() bool {
	return d.State == Confirmed && !d.expected() && !d.inventory() && d.OwnerID == "" && d.RefundTo == ""
}

// decide stores a decision about a deposit in suspense as the deposit's next version.
func (d Deposit) decide(ctx context.Context, tx *db.Tx, reason string, how func(*Deposit)) (Deposit, error) {
	if !d.Suspended() {
		return d, ErrNotSuspended
	}
	return d.rewrite(ctx, tx, reason, how)
}

func (d Deposit) rewrite(ctx context.Context, tx *db.Tx, reason string, how func(*Deposit)) (Deposit, error) {
	c := &change{Deposit: d, was: d}
	how(&c.Deposit)
	c.step(d.State, reason)
	stored, err := update(ctx, tx, []*change{c})
	if err != nil || !stored[d.ID] {
		return d, cmp.Or(err, db.ErrConflict)
	}
	c.note(tx)
	return c.Deposit, nil
}

// leave posts that a deposit leaves suspense. The coins stay in the wallet, and now belong to an owner.
func (d Deposit) leave(tx *db.Tx) error {
	wallet, where := ledger.WalletOf(d.Amount.Asset(), d.Chain)
	return d.post(tx, d.CompanyID, "leave", ledger.Debit(ledger.SuspenseUnknown, d.ID, d.Amount),
		ledger.Credit(wallet, where, d.Amount))
}

// CreditTo credits a deposit in suspense to a company's available balance. The company must own the address, unless
// the address is a forgotten one.
func (d Deposit) CreditTo(ctx context.Context, tx *db.Tx, companyID string) error {
	if d.CompanyID != chain.UnassignedCompany && d.CompanyID != companyID {
		return ErrOtherOwner
	}
	d, err := d.decide(ctx, tx, "credited to "+companyID, func(d *Deposit) { d.OwnerID = companyID })
	if err != nil {
		return err
	}
	return errors.Join(d.leave(tx), d.creditBalance(ctx, tx), d.emitBalance(tx, ""))
}

// GiveTo assigns a deposit in suspense to a payroll of the same company that is funded in the same asset. The deposit
// has no quote, so it counts as late money, which the payroll accepts at the current rate.
func (d Deposit) GiveTo(ctx context.Context, tx *db.Tx, payrollID string) error {
	d, err := d.decide(ctx, tx, "given to "+payrollID, func(d *Deposit) {
		d.ObjectID, d.QuoteID, d.OnTime = payrollID,
			payrollID, false
	})
	if err != nil {
		return err
	}
	changed(tx, d)
	return d.leave(tx)
}

// SendBack records the decision that a deposit in suspense is sent back to an address.
func (d Deposit) SendBack(ctx context.Context, tx *db.Tx, address string) (Deposit, error) {
	return d.decide(ctx, tx, "is sent back", func(d *Deposit) { d.RefundTo = address })
}

// Refunding posts that a payout is sending the deposit back.
func (d Deposit) Refunding(ctx context.Context, tx *db.Tx, outputID string) error {
	if d.State != Confirmed || d.RefundTo == "" || d.RefundID != "" {
		return ErrNotSuspended
	}
	d, err := d.rewrite(ctx, tx, "paid by "+outputID, func(d *Deposit) { d.RefundID = outputID })
	if err != nil {
		return err
	}
	return d.post(tx, d.CompanyID, "refund", ledger.Debit(ledger.SuspenseUnknown, d.ID, d.Amount),
		ledger.Credit(ledger.OutputPayable, outputID, d.Amount))
}

// NotRefunded posts that the payout of a refund failed. The deposit is in suspense again.
func (d Deposit) NotRefunded(ctx context.Context, tx *db.Tx) error {
	output := d.RefundID
	if output == "" {
		return nil
	}
	d, err := d.rewrite(ctx, tx, "could not be sent back", func(d *Deposit) { d.RefundTo, d.RefundID = "", "" })
	if err != nil {
		return err
	}
	return d.post(tx, d.CompanyID, "refund_failed", ledger.Debit(ledger.OutputPayable, output, d.Amount),
		ledger.Credit(ledger.SuspenseUnknown, d.ID, d.Amount))
}
