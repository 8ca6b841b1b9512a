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

// Reasons why a queue waits.
const (
	WaitPaused       = "paused"
	WaitNoFee        = "fee_unknown"
	WaitFee          = "fee_too_high"
	WaitFunds        = "insufficient_funds"
	WaitNotEstimated = "not_estimated" // the node does not estimate the gas of a payment
	WaitNode         = "node_unreachable"
	WaitSigner       = "signer_refused" // the signer does not permit a payment yet, or does not answer
	// WaitAddress is a reason of single outputs only: the server of a Lightning address does not answer.
	WaitAddress = "address_unreachable"
	// WaitDeposits means that funds are insufficient but deposits may be on their way to the hot wallet. It is not
	// reported as a delay.
	WaitDeposits = "funds_coming"
)

// Queue is one company's queue for one rail, locked for the rest of the transaction.
type Queue struct {
	companyID string
	rail      RailName
	reason    string // why the queue waits, or ""
	since     time.Time
	nextRunAt time.Time // time of the scheduled retry
	version   int64
}

// Waiting returns the reason why the queue waits, or "", and the time since which it has waited.
func (q Queue) Waiting() (reason string, since time.Time) { return q.reason, q.since }

// Delay describes why payouts wait.
type Delay struct {
	Reason  string
	FeeRate int64         // current fee rate of the network, for the log only
	Stuck   string        // ID of a batch that cannot be confirmed, whose outputs count as waiting too, or ""
	Assets  []money.Asset // assets with waiting outputs; empty means all
}

// Wait records that the queue waits, and schedules a retry unless one is scheduled already.
func (q Queue) Wait(ctx context.Context, tx *db.Tx, log *slog.Logger, retry time.Duration, delay Delay) error {
	var next time.Time
	if !q.nextRunAt.After(tx.Now()) {
		next = tx.Now().Add(retry)
		EnqueuePrepare(tx, q.companyID, q.rail, next)
	}
	return q.record(ctx, tx, log, delay, next)
}

// WaitStuck records that outputs of a batch wait, without scheduling a retry of the queue.
func (q Queue) WaitStuck(ctx context.Context, tx *db.Tx, log *slog.Logger, delay Delay) error {
	return q.record(ctx, tx, log, delay, time.Time{})
}

// record stores the reason for the delay, and the time of the next retry unless next is zero. If the reason is new
// and concerns the network or the wallet, record emits a payout.delayed event for each waiting asset.
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
		if delay.Reason != WaitFee && delay.Reason != WaitFunds && delay.Reason != WaitNotEstimated {
			continue
		}
		if err := webhook.EmitNext(ctx, tx, webhook.PayoutDelayed.Event(q.companyID, q.companyID, 0,
			webhook.PayoutDelayedData{
				Reason: delay.Reason, Waiting: w.n, Amount: w.sum, Currency: asset, Network: string(q.rail),
				Since: since.Truncate(time.Millisecond),
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

// WaitingQueue is a company's queue that waits.
type WaitingQueue struct {
	CompanyID, Reason string
	Since             time.Time
}

func byAge(a, b Output) int {
	return cmp.Or(a.QueuedAt.Compare(b.QueuedAt), cmp.Compare(a.ID, b.ID))
}
