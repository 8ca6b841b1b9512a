package lightning

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
)

const (
	maxPayments    = 50               // largest number of outputs that one call of Prepare prepares
	lookupsAtOnce  = 8                // servers of Lightning addresses that are asked concurrently
	minLeft        = 2 * time.Minute  // time for which an invoice must still be valid
	maxUnreachable = 24 * time.Hour   // time after which an output fails if the server of its address does not answer
	queueRetry     = time.Minute      // interval between checks of a waiting queue
	reorderRetry   = 10 * time.Minute // interval between checks of a queue that waits for funds
)

// found is the invoice that pays an output, or the reason why there is none.
type found struct {
	request string
	invoice lightning.Request
	reason  string // the output fails for this reason
	waits   bool   // the output stays queued
}

// Prepare implements payout.Rail. It asks the servers of Lightning addresses outside of any transaction. It then
// prepares each output in a transaction of its own.
func (r *Rail) Prepare(ctx context.Context, d *db.DB, companyID string) error {
	var head []payout.Output
	var now time.Time
	err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		head, now = nil, tx.Now()
		q, err := payout.LockQueue(ctx, tx, companyID, r.Name())
		if err != nil {
			return err
		}
		some, err := payout.HeadByAsset(ctx, tx, companyID, r.Name(), []money.Asset{money.BTC}, maxPayments)
		if err != nil || len(some) == 0 {
			return err
		}
		why, err := payout.PayoutsAllowed(ctx, tx, r.c.Log, money.BTC)
		if err == nil && why != "" {
			return q.Wait(ctx, tx, r.c.Log, queueRetry, payout.Delay{Reason: payout.WaitPaused})
		}
		head = some
		return err
	})
	if err != nil || len(head) == 0 {
		return err
	}
	nodeID, err := r.c.Node.ID(ctx)
	spendable := int64(0)
	if err == nil {
		spendable, err = r.c.Node.Spendable(ctx)
	}
	if err != nil {
		r.c.Log.WarnContext(ctx, "the Lightning node does not answer; payouts wait", "error", err)
		return r.wait(ctx, d, companyID, queueRetry, payout.WaitNode)
	}
	some := make([]found, len(head))
	var group errgroup.Group
	group.SetLimit(lookupsAtOnce)
	for i, o := range head {
		group.Go(func() error {
			some[i] = r.find(ctx, o, now)
			return nil
		})
	}
	_ = group.Wait() // find reports errors in its result
	short := false
	for i, o := range head {
		waits, err := r.prepare(ctx, d, o, some[i], nodeID, spendable)
		switch {
		case errors.Is(err, payout.ErrProcessing) || errors.Is(err, db.ErrConflict): // changed concurrently
		case err != nil:
			return err
		}
		short = short || waits
	}
	if short {
		return r.wait(ctx, d, companyID, reorderRetry, payout.WaitFunds)
	}
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		q, err := payout.LockQueue(ctx, tx, companyID, r.Name())
		if err != nil {
			return err
		}
		if len(head) == maxPayments {
			payout.EnqueuePrepare(tx, companyID, r.Name(), tx.Now().Add(r.c.Retry))
		}
		return q.Clear(ctx, tx)
	})
}

func (r *Rail) wait(ctx context.Context, d *db.DB, companyID string, retry time.Duration, reason string) error {
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		q, err := payout.LockQueue(ctx, tx, companyID, r.Name())
		if err != nil {
			return err
		}
		return q.Wait(ctx, tx, r.c.Log, retry, payout.Delay{Reason: reason})
	})
}

// find returns a checked invoice that pays an output.
func (r *Rail) find(ctx context.Context, o payout.Output, now time.Time) found {
	switch {
	case o.Amount.Asset() != money.BTC:
		return found{reason: payout.ReasonUnsupportedAsset}
	case o.Amount.Units() < r.c.MinAmount:
		return found{reason: ReasonAmountTooSmall}
	case o.Amount.Units() > r.c.MaxAmount:
		return found{reason: ReasonAmountTooLarge}
	}
	f := found{request: o.Address}
	if lightning.IsAddress(o.Address) {
		var err error
		f.request, err = r.c.Resolver.Invoice(ctx, o.Address, o.Amount.Units())
		var refused *Refusal
		switch {
		case errors.As(err, &refused):
			r.c.Log.WarnContext(ctx, "a Lightning address refuses a payment", "output_id", o.ID, "error", err)
			return found{reason: refused.Reason}
		case err != nil && now.Sub(o.QueuedAt) > maxUnreachable:
			return found{reason: ReasonAddress}
		case err != nil:
			r.c.Log.WarnContext(ctx, "the server of a Lightning address does not answer", "output_id", o.ID, "error", err)
			return found{waits: true}
		}
	}
	var err error
	f.invoice, err = lightning.Decode(f.request)
	exact := f.invoice.Msat == 1000*o.Amount.Units()
	switch {
	case err != nil || f.invoice.Network != r.c.Network:
		f.reason = payout.ReasonBadAddress
	case !exact && (f.invoice.Msat != 0 || lightning.IsAddress(o.Address)):
		f.reason = ReasonInvoiceAmount
	case f.invoice.Expires().Sub(now) < minLeft:
		f.reason = ReasonInvoiceExpired
	}
	return f
}

// prepare stores the payment of one output, or fails the output. short reports whether the node has too little money.
func (r *Rail) prepare(ctx context.Context, d *db.DB, o payout.Output, f found, nodeID string, spendable int64) (
	short bool, err error,
) {
	err = d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		short = false
		why, err := payout.PayoutsAllowed(ctx, tx, r.c.Log, money.BTC)
		switch {
		case err != nil || why != "":
			return err
		case f.waits:
			return payout.SetReason(ctx, tx, []payout.Output{o}, payout.WaitAddress)
		case f.reason != "":
			return payout.Fail(ctx, tx, o, f.reason)
		}
		used, err := isUsed(ctx, tx, f.invoice.Hash)
		if err != nil {
			return err
		}
		if used {
			return payout.Fail(ctx, tx, o, ReasonInvoiceUsed)
		}
		p := Payment{
			CompanyID: o.CompanyID, ID: tx.NewID("lnp"), OutputID: o.ID, State: payout.Prepared, NodeID: nodeID,
			Hash: f.invoice.Hash.String(), Request: f.request, ExpiresAt: f.invoice.Expires(), Amount: o.Amount.Units(),
			MaxFee: r.maxFee(o.Amount.Units()), Version: 1,
		}
		waiting, err := reserved(ctx, tx, nodeID)
		if err != nil {
			return err
		}
		if spendable < waiting+p.Amount+p.MaxFee {
			short = true
			return nil
		}
		if err := insert(ctx, tx, p); err != nil {
			return err
		}
		if err := p.post(tx, "send", ledger.Debit(ledger.OutputPayable, o.ID, o.Amount),
			ledger.Credit(ledger.InTransit, p.ID, o.Amount)); err != nil {
			return err
		}
		if err := payout.Assign(ctx, tx, []payout.Output{o}, p.ID, p.Hash, 0); err != nil {
			return err
		}
		payout.EnqueueSend(tx, p.CompanyID, r.Name(), time.Time{}, p.ID)
		return nil
	})
	if db.IsUnique(err) {
		err = db.ErrConflict // another transaction prepared the same invoice; the next call finds it in use
	}
	return short, err
}

// post posts a journal of the payment.
func (p Payment) post(tx *db.Tx, purpose string, lines ...ledger.Line) error {
	return ledger.Post(tx, ledger.Journal{CompanyID: p.CompanyID, SourceType: Source, SourceID: p.ID, Purpose: purpose,
		Lines: lines})
}
