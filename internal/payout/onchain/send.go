package onchain

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/payout"
)

const (
	// alarmAfter is the number of consecutive failed broadcasts after which failures are logged as errors.
	alarmAfter = 10
	// firstRetry is the delay after the first failed broadcast. The delay doubles with each further failure.
	firstRetry = 5 * time.Second
	// findWithin limits the time for finding all refused transactions: a job has 40 seconds, and must still store the
	// answers.
	findWithin = 10 * time.Second
)

// Send implements payout.Rail. ids are the IDs of stored transactions. Send broadcasts the signed transactions and
// records the answers; for the unsigned ones, it requests signatures.
func (c *Carrier) Send(ctx context.Context, d *db.DB, companyID string, ids []string) error {
	var ready []Transaction
	var unsigned []pending
	var stopped []string
	if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		ready, unsigned, stopped, err = c.sendable(ctx, tx, companyID, ids)
		return err
	}); err != nil {
		return err
	}
	for _, p := range unsigned {
		if err := c.requestSignature(ctx, d, p); err != nil {
			return err
		}
	}
	if len(ready)+len(stopped) == 0 {
		return nil
	}
	answers := c.submit(ctx, ready)
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		payout.EnqueueSend(tx, companyID, c.Rail, tx.Now().Add(c.Retry), stopped...)
		batchIDs := make([]string, len(ready))
		for i, t := range ready {
			batchIDs[i] = t.BatchID
		}
		batches, err := lockBatches(ctx, tx, c.Chain, companyID, batchIDs)
		if err != nil {
			return err
		}
		for _, b := range batches {
			for _, t := range b.Signed {
				if answer, asked := answers[t.TxID]; asked {
					if err := c.record(ctx, tx, b, t, answer); err != nil {
						return err
					}
				}
			}
		}
		return nil
	})
}

// sendable returns the current transactions of open batches, ready to broadcast. While payouts, or payouts of the
// asset, are stopped, it returns transactions that the network never accepted as stopped instead, and no unsigned
// transactions.
func (c *Carrier) sendable(ctx context.Context, tx *db.Tx, companyID string, txids []string) (ready []Transaction,
	unsigned []pending, stopped []string, err error,
) {
	paused, err := payout.Paused(ctx, tx)
	if err != nil {
		return nil, nil, nil, err
	}
	assets, err := ledger.StoppedAssets(ctx, tx)
	if err != nil {
		return nil, nil, nil, err
	}
	batchIDs, err := batchesOf(ctx, tx, companyID, txids)
	if err != nil {
		return nil, nil, nil, err
	}
	batches, err := readBatches(ctx, tx, c.Chain, companyID, batchIDs)
	for _, b := range batches {
		if err := b.check(); err != nil {
			return nil, nil, nil, err
		}
		if t, ok := b.unsigned(); ok && slices.Contains(txids, t.TxID) && b.open() {
			if paused != "" || assets[b.Asset] {
				stopped = append(stopped, t.TxID)
				continue
			}
			p := pending{Batch: b, Transaction: t}
			outs := make([]string, len(b.Outs))
			for i, o := range b.Outs {
				outs[i] = o.ID
			}
			if p.approvals, err = approvalsOf(ctx, tx, companyID, outs); err != nil {
				return nil, nil, nil, err
			}
			unsigned = append(unsigned, p)
		}
		t, ok := b.newest()
		switch {
		case !ok || !slices.Contains(txids, t.TxID) || !b.open():
		case (paused != "" || assets[b.Asset]) && t.State != payout.Sent:
			stopped = append(stopped, t.TxID)
		default:
			ready = append(ready, t)
		}
	}
	return ready, unsigned, stopped, err
}

// submit broadcasts transactions and returns the answers by txid. After a refusal it searches for the transaction,
// because an earlier broadcast may have succeeded, so that the inputs are already spent. If a node does not answer a
// search, no further searches are made.
func (c *Carrier) submit(ctx context.Context, txs []Transaction) map[string]payout.Answer {
	answers := make(map[string]payout.Answer, len(txs))
	finding, stop := context.WithTimeout(ctx, findWithin)
	defer stop()
	var silent error
	for i, answer := range c.nodes.Submit(ctx, txs...) {
		if answer.Outcome == payout.Refused {
			found := false
			if silent == nil {
				found, silent = c.nodes.Find(finding, txs[i].TxID)
			}
			switch {
			case found:
				answer = payout.Answer{Outcome: payout.Accepted}
			case silent != nil:
				answer = payout.Answer{Outcome: payout.Unknown, Reason: answer.Reason + "; " + silent.Error()}
			}
		}
		answers[txs[i].TxID] = answer
	}
	return answers
}

// record stores the answer to the broadcast of a transaction.
func (c *Carrier) record(ctx context.Context, tx *db.Tx, b Batch, t Transaction, answer payout.Answer) error {
	to, attempts := payout.Sent, int64(0)
	if answer.Outcome != payout.Accepted {
		attempts = t.Attempts + 1
		// A transaction that was accepted before stays sent if the outcome of a repeated broadcast is unknown.
		if to = payout.UnknownOutcome; answer.Outcome == payout.Unknown && t.State == payout.Sent {
			to = payout.Sent
		}
	}
	if to != t.State || attempts != t.Attempts {
		if err := setTransactionState(ctx, tx, t, to, attempts); err != nil {
			return err
		}
	}
	if answer.Outcome != payout.Accepted {
		level := slog.LevelWarn
		if attempts >= alarmAfter {
			level = slog.LevelError
		}
		c.Log.Log(ctx, level, "a payout's broadcast was not accepted", "company_id", b.CompanyID, "batch_id", b.ID, "txid",
			t.TxID,
			"outcome", answer.Outcome.String(), "attempts", attempts, "reason", answer.Reason)
		payout.EnqueueSend(tx, b.CompanyID, c.Rail, tx.Now().Add(payout.Backoff(firstRetry, attempts)), t.TxID)
	}

	switch {
	case to == payout.Sent && (b.State == payout.Prepared || b.State == payout.UnknownOutcome):
		return advance(ctx, tx, &b, payout.Sent, b.TxID, "")
	case to == payout.UnknownOutcome && (b.State == payout.Prepared || b.State == payout.Sent):
		for _, other := range b.Signed {
			if other.TxID != t.TxID && other.State == payout.Sent {
				return nil // the network still has the replaced transaction
			}
		}
		return advance(ctx, tx, &b, payout.UnknownOutcome, b.TxID, answer.Outcome.String())
	}
	return nil
}

// advance changes the state of a batch and its outputs.
func advance(ctx context.Context, tx *db.Tx, b *Batch, to payout.State, txid, reason string) error {
	if err := advanceBatch(ctx, tx, b, to, txid, b.Fee, reason); err != nil {
		return err
	}
	_, err := payout.AdvanceBatch(ctx, tx, b.CompanyID, b.ID, b.Outs, to, txid, reason)
	return err
}
