package directdebit

import (
	"context"
	"errors"
	"fmt"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payout/bank"
)

// Errors of staff's decisions.
var (
	ErrOutcomeKnown = errors.New("the outcome of this direct debit is known")
	// ErrByAPI is returned by ConfirmReceived for a debit that was ordered through an API. The API itself reports
	// whether the bank has it.
	ErrByAPI = errors.New("the bank's API is asked for this direct debit; it can only be sent again")
)

// ConfirmReceived records that, according to staff, the bank has the file of a debit whose outcome was unknown.
func ConfirmReceived(ctx context.Context, tx *db.Tx, number int64) error {
	x, err := lockUnknown(ctx, tx, number)
	if err == nil && x.token == claimAPI {
		err = ErrByAPI
	}
	if err != nil {
		return err
	}
	return x.advance(ctx, tx, Submitted, "", "the bank has it")
}

// Resend records that, according to staff, the bank does not have a debit whose outcome was unknown, and sends the
// debit again. If the bank can no longer meet the due date, the debit gets a new number and a later due date, and is
// announced again.
func Resend(ctx context.Context, tx *db.Tx, number int64) error {
	x, err := lockUnknown(ctx, tx, number)
	if err != nil {
		return err
	}
	if err := unclaim(ctx, tx, x); err != nil {
		return err
	}
	if err := x.advance(ctx, tx, Submitting, "", "the bank does not have it"); err != nil {
		return err
	}
	x.enqueue(tx, jobSubmit, tx.Now())
	return nil
}

func lockUnknown(ctx context.Context, tx *db.Tx, number int64) (Debit, error) {
	x, err := lockNumber(ctx, tx, number)
	if err == nil && (x.State != Submitting || x.token == "") {
		err = fmt.Errorf("%w: %s is %s", ErrOutcomeKnown, bank.DebitReference(number), x.State)
	}
	return x, err
}
