package onchain

import (
	"context"
	"errors"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/payout"
)

// Errors of [Carrier.Bump].
var (
	ErrUnaffordable = apierr.New(apierr.Conflict, "fee_bump_unaffordable",
		"The change of this transaction cannot pay the higher fee.")
	ErrChangeSpent = apierr.New(apierr.Conflict, "fee_bump_blocked",
		"A later transaction spends the change of this one. Raise the fee of the later one.")
	ErrFeeTooHigh = apierr.New(apierr.Conflict, "fee_above_cap", "The fee rate is above the cap for payouts.")
)

// Bump replaces the current transaction of a batch by a transaction with the given fee rate and the same inputs and
// recipients. It returns payout.ErrProcessing if the batch needs no replacement, or an error of Family.Replace.
func (c *Carrier) Bump(ctx context.Context, tx *db.Tx, companyID, batchID string, rate int64) (txid string, err error) {
	b, err := lockBatch(ctx, tx, c.Chain, companyID, batchID)
	if errors.Is(err, db.ErrNoRows) {
		return "", apierr.NotFoundErr
	}
	if err != nil {
		return "", err
	}
	old, ok := b.newest()
	if _, asked := b.unsigned(); asked || !ok || !b.open() || b.Seen[old.TxID].State == chain.Mined {
		return "", payout.ErrProcessing
	}
	t, err := c.family.Replace(ctx, tx, b, old, rate)
	if err != nil {
		return "", err
	}
	t.CompanyID, t.BatchID, t.Replaces = companyID, b.ID, old.TxID
	if err := insertTransaction(ctx, tx, t); err != nil {
		return "", err
	}
	if t.Unsigned {
		payout.EnqueueSend(tx, companyID, c.Rail, tx.Now(), t.TxID)
		return t.TxID, nil
	}
	return t.TxID, c.replaced(ctx, tx, b, t)
}

// nudge checks unconfirmed batches (job payout.nudge): it broadcasts their transactions again, or replaces a
// transaction that pays too low a fee.
func (c *Carrier) nudge(ctx context.Context, tx *db.Tx, jobs []job.Job) error {
	companies, idsOf, err := byCompany(jobs, func(in nudgeJob) (string, bool) { return in.BatchID, true })
	if err != nil {
		return err
	}
	for _, companyID := range companies {
		batches, err := lockBatches(ctx, tx, c.Chain, companyID, idsOf[companyID])
		if err != nil {
			return err
		}
		var open []Batch
		for _, b := range batches {
			if b, err = c.settle(ctx, tx, b); err != nil {
				return err
			}
			if b.open() {
				open = append(open, b)
				c.enqueueNudge(tx, b)
			}
		}
		if len(open) < len(batches) {
			err = c.unstick(ctx, tx, companyID)
		}
		if err == nil && len(open) > 0 {
			err = c.resend(ctx, tx, companyID, open)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// resend broadcasts the transactions of open batches again, or replaces them by transactions with a higher fee.
func (c *Carrier) resend(ctx context.Context, tx *db.Tx, companyID string, open []Batch) error {
	if why, err := payout.PayoutsAllowed(ctx, tx, c.Log); err != nil || why != "" {
		return err
	}
	rate, fresh, err := c.freshFeeRate(ctx, tx)
	if err != nil {
		return err
	}
	var same []string
	for _, b := range open {
		t, ok := b.newest()
		if !ok || !fresh || tx.Now().Sub(t.CreatedAt) < c.BumpAfter || !c.family.Underpays(b, t, rate) {
			same = append(same, b.sendable()...)
			continue
		}
		switch _, err := c.Bump(ctx, tx, companyID, b.ID, rate); {
		case err == nil:
			continue
		case errors.Is(err, ErrFeeTooHigh) && b.Purpose == PurposePayout:
			if err := c.stuck(ctx, tx, b, rate); err != nil {
				return err
			}
		case !errors.Is(err, payout.ErrProcessing) && !errors.Is(err, ErrFeeTooHigh) &&
			!errors.Is(err, ErrUnaffordable) && !errors.Is(err, ErrChangeSpent):
			return err
		default:
			c.Log.InfoContext(ctx, "the fee of a payout cannot be raised", "company_id", companyID, "batch_id", b.ID, "reason",
				err)
		}
		same = append(same, b.sendable()...)
	}
	payout.EnqueueSend(tx, companyID, c.Rail, tx.Now(), same...)
	return nil
}

// stuck records that a batch cannot be confirmed until the fee rate falls.
func (c *Carrier) stuck(ctx context.Context, tx *db.Tx, b Batch, rate int64) error {
	c.Log.InfoContext(ctx, "the fee of a payout cannot be raised", "company_id", b.CompanyID, "batch_id", b.ID, "reason",
		ErrFeeTooHigh)
	q, err := payout.LockQueue(ctx, tx, b.CompanyID, c.Rail)
	if err != nil {
		return err
	}
	return q.WaitStuck(ctx, tx, c.Log, payout.Delay{Reason: payout.WaitFee, FeeRate: rate, Stuck: b.ID})
}

// unstick ends the delay that a stuck batch caused, unless its company's queue waits for another reason.
func (c *Carrier) unstick(ctx context.Context, tx *db.Tx, companyID string) error {
	q, err := payout.LockQueue(ctx, tx, companyID, c.Rail)
	if err != nil {
		return err
	}
	if reason, _ := q.Waiting(); reason != payout.WaitFee {
		return nil
	}
	if open, err := q.AnyOpen(ctx, tx); err != nil || open {
		return err
	}
	return q.Clear(ctx, tx)
}
