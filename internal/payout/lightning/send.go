package lightning

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
)

const (
	// quiet is the time after which a call of the node whose answer was lost can no longer reach the node.
	quiet = 10 * time.Minute
	// callMargin is the time that a call may take beyond the timeout of the payment.
	callMargin = 30 * time.Second
	// expiryMargin is the largest assumed deviation of the node's clock.
	expiryMargin = 2 * time.Minute
	// maxBlocks is the largest lock time of a payment's route, the default of LND's --max-cltv-expiry.
	maxBlocks = 2016
	// maxFlight is the time within which maxBlocks are mined and the outcome is confirmed on the chain: two weeks, and
	// one more week for slow blocks and high fees. After it no part of a payment is in flight.
	maxFlight = 21 * 24 * time.Hour
	// maxSilence is the time for which the node must not have answered before staff's decision applies without its
	// answer.
	maxSilence = 24 * time.Hour
	// maxFailures is the number of failed payments after which an output fails.
	maxFailures = 3
	// codeInvalidArgument is the gRPC code of a request that cannot be decoded.
	codeInvalidArgument = 3
)

// Send implements payout.Rail. ids are the IDs of payments.
func (r *Rail) Send(ctx context.Context, d *db.DB, companyID string, ids []string) error {
	var failed error
	for _, id := range ids {
		if err := r.send(ctx, d, companyID, id); err != nil && !errors.Is(err, db.ErrConflict) {
			failed = errors.Join(failed, fmt.Errorf("payment %s: %w", id, err))
		} else if err != nil { // changed concurrently: try again
			failed = errors.Join(failed, r.later(ctx, d, companyID, id, r.c.Retry))
		}
	}
	return failed
}

// send continues one payment: it asks the node about a payment that may have been started, or starts it.
func (r *Rail) send(ctx context.Context, d *db.DB, companyID, id string) error {
	var p Payment
	var now time.Time
	why := ""
	if err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		now = tx.Now()
		if p, err = get(ctx, tx, companyID, id); err != nil {
			return err
		}
		why, err = payout.PayoutsAllowed(ctx, tx, r.c.Log, money.BTC)
		return err
	}); err != nil {
		return err
	}
	switch p.State {
	case payout.Prepared, payout.UnknownOutcome, payout.Sent:
	case payout.Fulfilled, payout.Failed:
		return nil
	default:
		return p.State.Check("payment " + p.ID)
	}
	nodeID, err := r.c.Node.ID(ctx)
	if err != nil || nodeID != p.NodeID {
		r.c.Log.WarnContext(ctx, "a payment cannot be followed at its Lightning node", "payment_id", p.ID,
			"node_id", p.NodeID, "error", err)
		return r.unanswered(ctx, d, p, now, err == nil, time.Minute)
	}
	hash, err := lightning.ParseHash(p.Hash)
	if err != nil {
		return err
	}
	if p.State != payout.Prepared {
		result, err := r.c.Node.TrackPayment(ctx, hash)
		switch {
		case err == nil:
			return r.record(ctx, d, p, result, now)
		case errors.Is(err, lightning.ErrUnclear):
			r.c.Log.ErrorContext(ctx, "the Lightning node describes a payment in a way that is not valid; ask its operator",
				"payment_id", p.ID, "error", err)
			return r.later(ctx, d, companyID, id, time.Hour)
		case !errors.Is(err, lightning.ErrNoPayment):
			r.c.Log.WarnContext(ctx, "the Lightning node does not tell the outcome of a payment", "payment_id", p.ID,
				"error", err)
			return r.unanswered(ctx, d, p, now, false, r.delay(p))
		case p.State == payout.Sent:
			r.c.Log.ErrorContext(ctx, "the Lightning node has lost a payment; ask its operator", "payment_id", p.ID,
				"hash", p.Hash)
			return r.unanswered(ctx, d, p, now, true, time.Hour)
		}
	}
	if now.After(p.ExpiresAt.Add(expiryMargin)) { // the node does not start a payment of an expired invoice
		return r.fail(ctx, d, p, ReasonInvoiceExpired, now)
	}
	if why != "" {
		return r.later(ctx, d, companyID, id, time.Minute)
	}
	return r.pay(ctx, d, p, hash, now)
}

// pay calls the node to make the payment. The call is recorded before it is made.
func (r *Rail) pay(ctx context.Context, d *db.DB, p Payment, hash lightning.Hash, now time.Time) error {
	before := p.doubtUntil
	if err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		claimed := p
		claimed.State, claimed.doubtUntil = payout.UnknownOutcome, tx.Now().Add(r.c.Timeout+callMargin+quiet)
		claimed.Attempts++
		if err := update(ctx, tx, p.State, &claimed); err != nil {
			return err
		}
		if p.State == payout.Prepared {
			if err := advance(ctx, tx, p, payout.UnknownOutcome, ""); err != nil {
				return err
			}
		}
		// This job continues the payment, even if the call has no result.
		payout.EnqueueSend(tx, p.CompanyID, r.Name(), tx.Now().Add(r.c.Timeout+callMargin+r.delay(p)), p.ID)
		return nil
	}); err != nil {
		return err
	}
	p.State, p.Attempts, p.Version, p.followed = payout.UnknownOutcome, p.Attempts+1, p.Version+1, true
	in := lightning.PaymentParams{Request: p.Request, MaxFee: p.MaxFee, Timeout: r.c.Timeout,
		MaxBlocks: maxBlocks}
	if invoice, err := lightning.Decode(p.Request); err != nil {
		return err
	} else if invoice.Msat == 0 {
		in.Amount = p.Amount
	}
	call, cancel := context.WithTimeout(ctx, r.c.Timeout+callMargin)
	result, err := r.c.Node.Pay(call, in)
	cancel()
	if err == nil {
		p.doubtUntil = before // this call was answered
		return r.record(ctx, d, p, result, now)
	}
	r.c.Log.WarnContext(ctx, "a call of the Lightning node to pay had no result", "payment_id", p.ID, "error", err)
	var answer *lightning.Error
	answered := errors.As(err, &answer) && isRefusal(answer)
	if answered {
		p.doubtUntil = before
	} else {
		p.doubtUntil = now.Add(r.c.Timeout + callMargin + quiet)
	}
	result, trackErr := r.c.Node.TrackPayment(ctx, hash)
	switch {
	case trackErr == nil:
		return r.record(ctx, d, p, result, now)
	case answered && errors.Is(trackErr, lightning.ErrNoPayment):
		return r.fail(ctx, d, p, ReasonRefused, now)
	}
	return nil
}

// isRefusal reports whether an error proves that the node will not start the payment, because the request is
// malformed or cannot be paid. Any other error, for example from a proxy or from a node that shuts down, proves
// nothing.
func isRefusal(e *lightning.Error) bool {
	if e.Code == codeInvalidArgument {
		return true
	}
	message := strings.ToLower(e.Message)
	return slices.ContainsFunc([]string{"invoice expired", "already paid", "self-payments not allowed",
		"amount must be specified", "amount must not be specified", "not for current active network"},
		func(text string) bool { return strings.Contains(message, text) })
}

// delay returns the time until the node is asked again about a payment without an outcome.
func (r *Rail) delay(p Payment) time.Duration { return payout.Backoff(r.c.Retry, max(p.Attempts-1, 0)) }

func (r *Rail) later(ctx context.Context, d *db.DB, companyID, id string, delay time.Duration) error {
	return d.Write(ctx, func(_ context.Context, tx *db.Tx) error {
		payout.EnqueueSend(tx, companyID, r.Name(), tx.Now().Add(delay), id)
		return nil
	})
}

// settledBy returns the time after which no part of the payment is in flight, independent of the node's reports: the
// node starts the payment before the invoice expires, and locks its parts for at most maxBlocks.
func (p Payment) settledBy() time.Time { return p.ExpiresAt.Add(expiryMargin + maxFlight) }

// unanswered handles a payment about which its node reports nothing. If staff decided that the payment was not made,
// it fails: at once if its node is gone or has lost the payment, otherwise when the node has not answered for
// maxSilence.
func (r *Rail) unanswered(ctx context.Context, d *db.DB, p Payment, now time.Time, gone bool,
	delay time.Duration) error {
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		if !p.declaredAt.IsZero() && now.After(p.settledBy()) && (gone || now.Sub(p.declaredAt) >= maxSilence) {
			return p.end(ctx, tx, ReasonInvoiceExpired)
		}
		payout.EnqueueSend(tx, p.CompanyID, r.Name(), tx.Now().Add(delay), p.ID)
		if !p.inFlight {
			return nil
		}
		unknown := p
		unknown.inFlight = false
		return update(ctx, tx, p.State, &unknown)
	})
}

// checkDeclared asks the node about payments that failed by staff's decision. The first payment that the node reports
// as made pauses payouts, because the payee may have been paid twice.
func (r *Rail) checkDeclared(ctx context.Context, d *db.DB) error {
	nodeID, err := r.c.Node.ID(ctx)
	if err != nil {
		return nil //nolint:nilerr // asked again later; Send reports that the node does not answer
	}
	var all []Payment
	if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		all, err = declared(ctx, tx, nodeID)
		return err
	}); err != nil {
		return err
	}
	var failed error
	for _, p := range all {
		hash, err := lightning.ParseHash(p.Hash)
		if err != nil {
			return err
		}
		result, err := r.c.Node.TrackPayment(ctx, hash)
		if err != nil || result.State == lightning.PaymentInFlight {
			continue // asked again later
		}
		if err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			return r.resolve(ctx, tx, p, result)
		}); err != nil && !errors.Is(err, db.ErrConflict) {
			failed = errors.Join(failed, fmt.Errorf("payment %s: %w", p.ID, err))
		}
	}
	return failed
}

// resolve records the final outcome that the node reported for a payment that failed by staff's decision.
func (r *Rail) resolve(ctx context.Context, tx *db.Tx, p Payment, result lightning.Payment) error {
	if result.State == lightning.PaymentSucceeded && result.Msat != 1000*p.Amount {
		return fmt.Errorf("the node paid %d msat, want %d", result.Msat, 1000*p.Amount)
	}
	known := p
	known.declaredAt = time.Time{}
	if result.State == lightning.PaymentFailed {
		return update(ctx, tx, p.State, &known)
	}
	known.Fee, known.Preimage = result.Fee(), result.Preimage
	if err := update(ctx, tx, p.State, &known); err != nil {
		return err
	}
	amount, cost := money.New(money.BTC, p.Amount), money.New(money.BTC, known.Fee)
	spent, err := amount.Add(cost)
	if err != nil {
		return err
	}
	if err := p.post(tx, "lose", ledger.Debit(ledger.ReorgLoss, p.ID, amount),
		ledger.Debit(ledger.NetworkFee, Source, cost), ledger.Credit(ledger.ChannelBalance, "", spent)); err != nil {
		return err
	}
	r.c.Log.ErrorContext(ctx, "a Lightning payment that staff declared not made was made; payouts are paused",
		"company_id", p.CompanyID, "output_id", p.OutputID, "payment_id", p.ID, "hash", p.Hash)
	return payout.SetPaused(ctx, tx, "the Lightning payment "+p.Hash+
		" was made although staff declared it not made; its payee may have been paid twice")
}

// record stores the node's report about a payment.
func (r *Rail) record(ctx context.Context, d *db.DB, p Payment, result lightning.Payment, now time.Time) error {
	switch result.State {
	case lightning.PaymentSucceeded:
		return r.complete(ctx, d, p, result)
	case lightning.PaymentFailed:
		reason := ReasonRefused
		switch result.Failure {
		case lightning.FailureNoRoute, lightning.FailureTimeout:
			reason = ReasonNoRoute
		case lightning.FailureBalance:
			reason = ReasonLiquidity
		}
		return r.fail(ctx, d, p, reason, now)
	case lightning.PaymentInFlight:
	}
	if !p.declaredAt.IsZero() {
		r.c.Log.WarnContext(ctx, "a payment that staff declared not made is on its way; the decision is dropped",
			"payment_id", p.ID, "hash", p.Hash)
	}
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		if !p.followed {
			payout.EnqueueSend(tx, p.CompanyID, r.Name(), tx.Now().Add(r.delay(p)), p.ID)
		}
		sent := p
		sent.State, sent.Attempts = payout.Sent, p.Attempts+1 // increases the delay
		sent.inFlight, sent.declaredAt = true, time.Time{}
		if err := update(ctx, tx, p.State, &sent); err != nil || p.State == payout.Sent {
			return err
		}
		return advance(ctx, tx, p, payout.Sent, "")
	})
}

// complete records a payment that the node reports as successful, with its preimage.
func (r *Rail) complete(ctx context.Context, d *db.DB, p Payment, result lightning.Payment) error {
	if result.Msat != 1000*p.Amount {
		return fmt.Errorf("the node paid %d msat, want %d", result.Msat, 1000*p.Amount)
	}
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		return p.succeed(ctx, tx, result.Fee(), result.Preimage)
	})
}

// succeed records a payment as made, with its fee in satoshis and its preimage.
func (p Payment) succeed(ctx context.Context, tx *db.Tx, fee int64, preimage string) error {
	paid := p
	paid.State, paid.Fee, paid.Preimage = payout.Fulfilled, fee, preimage
	if err := update(ctx, tx, p.State, &paid); err != nil {
		return err
	}
	amount, cost := money.New(money.BTC, p.Amount), money.New(money.BTC, paid.Fee)
	spent, err := amount.Add(cost)
	if err != nil {
		return err
	}
	if err := p.post(tx, "pay", ledger.Debit(ledger.InTransit, p.ID, amount),
		ledger.Debit(ledger.NetworkFee, Source, cost), ledger.Credit(ledger.ChannelBalance, "", spent)); err != nil {
		return err
	}
	if err := payout.SetProof(ctx, tx, p.CompanyID, p.OutputID, paid.Preimage); err != nil {
		return err
	}
	return advance(ctx, tx, p, payout.Fulfilled, "")
}

// fail records that a payment was not made, once that is certain. If the reason is not final, the output is queued
// for another payment; otherwise it fails.
func (r *Rail) fail(ctx context.Context, d *db.DB, p Payment, reason string, now time.Time) error {
	if now.Before(p.doubtUntil) && now.Before(p.ExpiresAt.Add(expiryMargin)) {
		if p.followed {
			return nil
		}
		return r.later(ctx, d, p.CompanyID, p.ID, p.doubtUntil.Sub(now))
	}
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return p.end(ctx, tx, reason) })
}

// end records a payment as failed, and queues its output again or fails it.
func (p Payment) end(ctx context.Context, tx *db.Tx, reason string) error {
	ended := p
	ended.State, ended.Reason = payout.Failed, reason
	if err := update(ctx, tx, p.State, &ended); err != nil {
		return err
	}
	amount := money.New(money.BTC, p.Amount)
	if err := p.post(tx, "fail", ledger.Debit(ledger.InTransit, p.ID, amount),
		ledger.Credit(ledger.OutputPayable, p.OutputID, amount)); err != nil {
		return err
	}
	failures, err := countFailed(ctx, tx, p.CompanyID, p.OutputID)
	if err != nil {
		return err
	}
	o, err := payout.Get(ctx, tx, p.CompanyID, p.OutputID)
	if err != nil {
		return err
	}
	final := reason == ReasonRefused || reason == ReasonInvoiceExpired && !lightning.IsAddress(o.Address)
	if !final && failures%maxFailures != 0 {
		return payout.Requeue(ctx, tx, []*payout.Output{&o}, func(*payout.Output) string { return reason })
	}
	return advance(ctx, tx, p, payout.Failed, reason)
}

// advance changes the state of a payment's output.
func advance(ctx context.Context, tx *db.Tx, p Payment, to payout.State, reason string) error {
	o, err := payout.Get(ctx, tx, p.CompanyID, p.OutputID)
	if err != nil {
		return err
	}
	if o.BatchID != p.ID {
		return fmt.Errorf("output %s is not paid by payment %s", o.ID, p.ID)
	}
	err = payout.Advance(ctx, tx, []*payout.Output{&o}, to, func(*payout.Output) string { return reason })
	if err != nil {
		return err
	}
	if to == payout.Fulfilled || to == payout.Failed {
		payout.Announce(tx, []payout.Output{o})
	}
	return nil
}
