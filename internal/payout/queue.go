package payout

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/webhook"
)

// Why a queue waits.
const (
	WaitPaused  = "paused"
	WaitNoFee   = "fee_unknown"
	WaitFee     = "fee_too_high"
	WaitFunds   = "insufficient_funds"
	WaitUnclear = "not_estimated" // the node does not estimate what a payment needs
	WaitComing  = "funds_coming"  // too little, and deposits may be on their way to the paying account; not reported at first
)

// Queue is one company's queue for one rail, locked for the rest of the transaction, with the reason why it waits.
type Queue struct {
	companyID string
	rail      RailName
	reason    string
	since     time.Time
	nextRunAt time.Time // of the retry that is already scheduled
	version   int64
}

// Waiting returns why the queue waits, "" when it does not, and since when.
func (q Queue) Waiting() (reason string, since time.Time) { return q.reason, q.since }

// Delay says why payouts wait.
type Delay struct {
	Reason  string
	FeeRate int64         // the network's, for the log
	Stuck   string        // batch that cannot be confirmed, whose outputs wait with the queue; "" for none
	Assets  []money.Asset // assets of which some outputs wait for this reason; none means all
}

// Wait records that the queue waits and schedules one retry, however many jobs call it.
func (q Queue) Wait(ctx context.Context, tx *db.Tx, log *slog.Logger, retry time.Duration, delay Delay) error {
	var next time.Time
	if !q.nextRunAt.After(tx.Now()) {
		next = tx.Now().Add(retry)
		EnqueuePrepare(tx, q.companyID, q.rail, next)
	}
	return q.record(ctx, tx, log, delay, next)
}

// Stuck records that outputs of a batch wait, without scheduling a retry of the queue.
func (q Queue) Stuck(ctx context.Context, tx *db.Tx, log *slog.Logger, delay Delay) error {
	return q.record(ctx, tx, log, delay, time.Time{})
}

// record stores why the queue waits and when it is retried next, the zero time for no change. For a reason of the network or the
// wallet that is new it emits one payout.delayed event per asset that waits.
func (q Queue) record(ctx context.Context, tx *db.Tx, log *slog.Logger, delay Delay, next time.Time) error {
	changed := q.reason != delay.Reason
	if !changed && next.IsZero() {
		return nil
	}
	since := q.since
	if q.reason == "" {
		since = tx.Now()
	}
	if next.IsZero() {
		next = q.nextRunAt
	}
	if err := setQueue(ctx, tx, q, delay.Reason, since, next); err != nil || !changed {
		return err
	}
	waiting, err := countQueue(ctx, tx, q, delay.Stuck)
	if err != nil {
		return err
	}
	for _, w := range waiting {
		asset := w.sum.Asset()
		if len(delay.Assets) > 0 && !slices.Contains(delay.Assets, asset) {
			continue
		}
		log.WarnContext(ctx, "payouts wait", "company_id", q.companyID, "reason", delay.Reason, "fee_rate", delay.FeeRate,
			"outputs", w.n, "amount", w.sum.String(), "currency", asset)
		if delay.Reason != WaitFee && delay.Reason != WaitFunds && delay.Reason != WaitUnclear {
			continue
		}
		if err := webhook.EmitNext(ctx, tx, webhook.PayoutDelayed.Event(q.companyID, q.companyID, 0, webhook.PayoutDelayedData{
			Reason: delay.Reason, Waiting: w.n, Amount: w.sum, Currency: asset, Network: string(q.rail), Since: since,
		})); err != nil {
			return err
		}
	}
	return nil
}

// Clear records that the queue no longer waits.
func (q Queue) Clear(ctx context.Context, tx *db.Tx) error {
	if q.reason == "" {
		return nil
	}
	return setQueue(ctx, tx, q, "", time.Time{}, q.nextRunAt)
}

// waiting counts the waiting outputs of one asset.
type waiting struct {
	n   int64
	sum money.Amount
}

// HeldQueue is a company's queue that waits.
type HeldQueue struct {
	CompanyID, Reason string
	Since             time.Time
}

func byAge(a, b Output) int {
	return cmp.Or(a.QueuedAt.Compare(b.QueuedAt), cmp.Compare(a.ID, b.ID))
}
