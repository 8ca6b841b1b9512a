package lightning

import (
	"context"
	"fmt"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/payout"
)

// The node reports the outcome of a payment. If it cannot, for example because its database was lost, staff
// investigate with the node's operator and the payee, and decide. Staff can mark a payment as paid only with its
// preimage, which proves it. They can mark it as failed only when no call can start the payment any more, no part of
// it can be in flight, and the node, asked again after the decision, does not contradict. The node continues to be
// asked about the payment afterwards; see [Rail.checkDeclared].

// Errors of staff's decisions about payments.
var (
	ErrDecided = apierr.New(apierr.Conflict, "invalid_state",
		"The outcome of this payment is known, or it is not a payment over Lightning.")
	ErrPreimage = apierr.New(apierr.Invalid, "invalid_parameter",
		"This is not the preimage of the payment: its SHA-256 must be the payment hash. Ask the payee for it.")
	ErrFee = apierr.New(apierr.Invalid, "invalid_parameter",
		"The fee is a number of satoshis up to the largest fee of the payment.")
	ErrMayBePaid = apierr.New(apierr.Conflict, "invalid_state",
		"This payment may still be made. If the node says nothing about it, decide 21 days after its invoice has expired.")
	ErrInFlight = apierr.New(apierr.Conflict, "invalid_state",
		"The node says that this payment is on its way. Wait: the node will say whether it was made.")
	ErrDeclared = apierr.New(apierr.Conflict, "invalid_state",
		"It is decided that this payment was not made. It is recorded once the node does not contradict, within a day.")
)

// undecided returns the payment of an output whose outcome is still unknown.
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

// CheckFailed returns the error that MarkFailed would return, or otherwise the payment hash. While the node answers,
// it reports failures itself. Staff decide only if the node does not answer, and only when the payment can no longer
// be in flight.
func CheckFailed(ctx context.Context, tx *db.Tx, companyID, outputID string) (hash string, err error) {
	p, err := undecided(ctx, tx, companyID, outputID)
	switch {
	case err != nil:
	case p.inFlight:
		err = ErrInFlight
	case !tx.Now().After(p.settledBy()):
		err = ErrMayBePaid
	case !p.declaredAt.IsZero():
		err = ErrDeclared
	}
	return p.Hash, err
}

// MarkFailed records staff's decision that the payment of an output with a payment hash was not made. Before the
// payment fails, [Rail.Send] asks the node once more. An output to a Lightning address then gets another invoice; any
// other output fails.
func MarkFailed(ctx context.Context, tx *db.Tx, companyID, outputID, hash string) error {
	if found, err := CheckFailed(ctx, tx, companyID, outputID); err != nil {
		return err
	} else if found != hash {
		return ErrDecided // the request was about an earlier payment
	}
	p, err := undecided(ctx, tx, companyID, outputID)
	if err != nil {
		return err
	}
	marked := p
	marked.declaredAt = tx.Now()
	payout.EnqueueSend(tx, companyID, payout.RailLightning, time.Time{}, p.ID)
	return update(ctx, tx, p.State, &marked)
}

// Lost returns the outputs of payments that are still sent although their invoice expired, oldest first, if the node
// no longer reports anything about them. It leaves out payments that the node reports as in flight, because only the
// node can report their outcome.
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
