package lightning

import (
	"context"
	"fmt"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/payout"
)

// The node says what became of a payment. If it cannot, for example because its database was lost, staff finds out with
// the node's operator and the payee, and decides. A payment is paid only with its preimage, which proves it, and failed
// only when no call can start it any more.

// Errors of decisions about payments.
var (
	ErrDecided = apierr.New(apierr.Conflict, "invalid_state",
		"The outcome of this payment is known, or it is not a payment over Lightning.")
	ErrPreimage = apierr.New(apierr.Invalid, "invalid_parameter",
		"This is not the preimage of the payment: its SHA-256 must be the payment hash. Ask the payee for it.")
	ErrFee = apierr.New(apierr.Invalid, "invalid_parameter",
		"The fee is a number of satoshis up to the largest fee of the payment.")
	ErrMayStart = apierr.New(apierr.Conflict, "invalid_state",
		"The node may still start this payment. Decide after its invoice has expired.")
)

// undecided returns the payment of an output whose outcome the node does not give.
func undecided(ctx context.Context, tx *db.Tx, companyID, outputID string) (Payment, error) {
	all, err := ForOutputs(ctx, tx, companyID, []string{outputID})
	if err != nil {
		return Payment{}, err
	}
	p, found := all[outputID]
	if !found || p.State != payout.UnknownOutcome && p.State != payout.Sent {
		return p, ErrDecided
	}
	return p, nil
}

// CheckPaid returns the error that MarkPaid would return.
func CheckPaid(ctx context.Context, tx *db.Tx, companyID, outputID, preimage string, fee int64) error {
	p, err := undecided(ctx, tx, companyID, outputID)
	if err != nil {
		return err
	}
	return p.checkProof(preimage, fee)
}

func (p Payment) checkProof(preimage string, fee int64) error {
	secret, err := lightning.ParseHash(preimage)
	if err != nil || lightning.HashOf(secret).String() != p.Hash {
		return ErrPreimage
	}
	if fee < 0 || fee > p.MaxFee {
		return ErrFee
	}
	return nil
}

// MarkPaid records that the payment of an output succeeded, with its preimage and the fee in satoshis.
func MarkPaid(ctx context.Context, tx *db.Tx, companyID, outputID, preimage string, fee int64) error {
	p, err := undecided(ctx, tx, companyID, outputID)
	if err != nil {
		return err
	}
	if err := p.checkProof(preimage, fee); err != nil {
		return err
	}
	return p.succeed(ctx, tx, fee, preimage)
}

// CheckFailed returns the error that MarkFailed would return.
func CheckFailed(ctx context.Context, tx *db.Tx, companyID, outputID string) error {
	p, err := undecided(ctx, tx, companyID, outputID)
	if err == nil && (!tx.Now().After(p.ExpiresAt.Add(expiryMargin)) || tx.Now().Before(p.doubtUntil)) {
		err = ErrMayStart
	}
	return err
}

// MarkFailed records that the payment of an output was not made. An output to a Lightning address gets another invoice;
// any other one fails.
func MarkFailed(ctx context.Context, tx *db.Tx, companyID, outputID string) error {
	if err := CheckFailed(ctx, tx, companyID, outputID); err != nil {
		return err
	}
	p, err := undecided(ctx, tx, companyID, outputID)
	if err != nil {
		return err
	}
	return p.end(ctx, tx, ReasonInvoiceExpired)
}

// Lost returns the outputs of payments that are sent although their invoice expired, oldest first: their payee holds
// them, or the node has lost them.
func Lost(ctx context.Context, tx *db.Tx, limit int) ([]payout.Output, error) {
	found, err := lost(ctx, tx, limit)
	if err != nil {
		return nil, err
	}
	all := make([]payout.Output, len(found))
	for i, p := range found {
		if all[i], err = payout.Get(ctx, tx, p.CompanyID, p.OutputID); err != nil {
			return nil, fmt.Errorf("payment %s: %w", p.ID, err)
		}
	}
	return all, nil
}
