package bank

import (
	"context"
	"errors"
	"fmt"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/payout"
)

// Errors of MarkPaid.
var (
	ErrNotQueued = errors.New("this output is not queued for payout by bank; only queued outputs can be marked as paid")
	ErrKnown     = errors.New("the outcome of this payment is known to the database")
	// ErrOtherCurrency is returned if the account and the output have different currencies. The bank then exchanged the
	// payment at an unknown price.
	ErrOtherCurrency = errors.New("the account is in another currency than the output")
)

// MarkPaid marks a queued output as paid by a payment, such as S0000012P00003, that staff found at the bank and that
// the database lacks because it was restored from an older backup. Payouts must be paused. Each payment can be used
// for one output only. The amount is posted as paid from the operator's account, which must be in the currency of the
// output.
func MarkPaid(ctx context.Context, tx *db.Tx, outputID, name string, account Account) (payout.Output, error) {
	if err := payout.RequirePaused(ctx, tx); err != nil {
		return payout.Output{}, err
	}
	at, ok := FindReference(name)
	if !ok || at.Position == 0 {
		return payout.Output{}, fmt.Errorf("%q is not the reference of a payment, such as S0000012P00003", name)
	}
	name = PaymentReference(at.File, at.Position)
	if err := reachNumber(ctx, tx, at.File); err != nil { // also makes concurrent calls wait
		return payout.Output{}, err
	}
	taken, err := payout.PaidByPrefix(ctx, tx, payout.RailBank, name)
	if err != nil {
		return payout.Output{}, err
	}
	if _, err := lock(ctx, tx, at.File); err == nil || len(taken) > 0 {
		return payout.Output{}, fmt.Errorf("%w: %s", ErrKnown, name)
	} else if !errors.Is(err, db.ErrNoRows) {
		return payout.Output{}, err
	}
	o, err := payout.GetQueued(ctx, tx, payout.RailBank, outputID)
	if errors.Is(err, db.ErrNoRows) {
		err = ErrNotQueued
	}
	if err != nil {
		return payout.Output{}, err
	}
	if account.Currency != o.Amount.Asset() {
		return payout.Output{}, fmt.Errorf("%w: %s is in %s, the output in %s", ErrOtherCurrency, account.ID,
			account.Currency, o.Amount.Asset())
	}
	o.TxID, o.Vout = name, 0
	if err := payout.MarkPaid(ctx, tx, o, "found at the bank"); err != nil {
		return payout.Output{}, err
	}
	return o, ledger.Post(tx, ledger.Journal{
		CompanyID: o.CompanyID, SourceType: SourceFound, SourceID: o.ID, Purpose: "found " + name, Lines: []ledger.Line{
			ledger.Debit(ledger.OutputPayable, o.ID, o.Amount), ledger.Credit(ledger.Bank, account.ID, o.Amount),
		},
	})
}
