package bank

import (
	"context"
	"errors"
	"fmt"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/payout"
)

// Why an output cannot be marked as paid.
var (
	ErrNotQueued = errors.New("there is no such output in the queue for banks; " +
		"only a queued output can have been paid without this database knowing")
	ErrKnown = errors.New("this database knows what became of it")
)

// SkipNumbers prepares a database that was restored from a backup, which does not know which files were made since: the next numbers
// stay unused, so that no two files ever have the same number.
func SkipNumbers(ctx context.Context, tx *db.Tx, n int64) error { return skipNumbers(ctx, tx, n) }

// MarkPaid records a person's statement that a queued output was paid by a payment that this database does not know, such as
// S0000012P00003: it was restored from a backup that is older than the file. Payouts must be paused, and a payment pays one output.
// It is posted as paid from an account of the operator.
func MarkPaid(ctx context.Context, tx *db.Tx, outputID, name, account string) (payout.Output, error) {
	if err := payout.RequirePaused(ctx, tx); err != nil {
		return payout.Output{}, err
	}
	at, ok := FindNamed(name)
	if !ok || at.Position == 0 {
		return payout.Output{}, fmt.Errorf("%q is no payment of a file; want one such as S0000012P00003", name)
	}
	name = Position(at.File, at.Position)
	if err := reachNumber(ctx, tx, at.File); err != nil { // also serializes concurrent calls
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
	o.TxID, o.Vout = name, 0
	if err := payout.MarkPaid(ctx, tx, o, "found at the bank"); err != nil {
		return payout.Output{}, err
	}
	return o, ledger.Post(tx, ledger.Journal{
		CompanyID: o.CompanyID, SourceType: SourceFound, SourceID: o.ID, Purpose: "found " + name, Lines: []ledger.Line{
			ledger.Debit(ledger.OutputPayable, o.ID, o.Amount), ledger.Credit(ledger.Bank, account, o.Amount),
		},
	})
}
