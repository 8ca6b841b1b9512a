package onchain

import (
	"context"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
)

// Reasons of outputs.
const (
	reasonConflict = "input_conflict"      // requeued: another transaction spent an input of its batch
	ReasonRefused  = "destination_refuses" // failed: the token or receiving contract rejects payments to the address
)

// Confirm handles changes of transactions (job chain.tx): it updates their batches to the current state of the chain.
// It ignores transactions that are not payouts or are on another chain.
func (c *Carrier) Confirm(ctx context.Context, tx *db.Tx, jobs []job.Job) error {
	companies, idsOf, err := byCompany(jobs, func(n chain.TxRef) (string, bool) { return n.TxID, n.Chain == c.Chain })
	if err != nil {
		return err
	}
	for _, companyID := range companies {
		ids, err := batchesOf(ctx, tx, companyID, idsOf[companyID])
		if err != nil {
			return err
		}
		batches, err := lockBatches(ctx, tx, c.Chain, companyID, ids)
		if err != nil {
			return err
		}
		for _, b := range batches {
			if _, err := c.settle(ctx, tx, b); err != nil {
				return err
			}
		}
	}
	return nil
}

// view is the state of a batch on the chain, computed from all its transactions.
type view struct {
	confirmed *Transaction // transaction with enough confirmations
	failed    *Transaction // confirmed transaction that failed: proof that nothing was paid
	present   bool         // a transaction is in the mempool or a block
	newest    chain.State  // state of the current transaction
	dead      string       // why no transaction of the batch can ever be confirmed, or ""
}

func (c *Carrier) view(ctx context.Context, tx *db.Tx, b Batch) (view, error) {
	ours := make(map[string]bool, len(b.Signed))
	for _, t := range b.Signed {
		ours[t.TxID] = true
	}
	v := view{newest: chain.Watched}
	for i, t := range b.Signed {
		w, watched := b.Seen[t.TxID]
		if !watched {
			continue
		}
		switch {
		case w.State == chain.Mined && w.Confirmed && w.Failed && !w.Verified: // only one node reports the failure so far
			v.present = true
		case w.State == chain.Mined && w.Confirmed:
			b.Signed[i].Fee = c.family.Cost(t, w)
			if v.present = true; w.Failed {
				v.failed = &b.Signed[i]
			} else {
				v.confirmed = &b.Signed[i]
			}
		case w.State == chain.Mined || w.State == chain.Seen:
			v.present = true
		case c.conflictIsFinal(w) && !ours[w.ConflictedBy]:
			v.dead = reasonConflict
		}
		if t.TxID == b.TxID {
			v.newest = w.State
		}
	}
	if v.present {
		v.dead = ""
		return v, nil
	}
	if v.dead == "" && b.State != dead && b.State != lost {
		gone, err := c.inputsGone(ctx, tx, b.Inputs, map[string]bool{})
		if gone {
			v.dead = reasonConflict
		}
		return v, err
	}
	return v, nil
}

// inputsGone reports whether one of some coins can never exist, because a transaction that conflicts with the coin's
// own transaction is final. The coin's transaction may be one of a payer, which a reorganization removed after its
// coin was spent. If it belongs to another batch, inputsGone checks the inputs of that batch too. known has the
// transactions that were already checked.
func (c *Carrier) inputsGone(ctx context.Context, tx *db.Tx, coins []chain.WalletCoin, known map[string]bool) (
	bool, error,
) {
	var parents []string
	var ask []db.Statement
	gone, exists := false, map[string]bool{}
	for _, coin := range coins {
		if known[coin.TxID] {
			continue
		}
		known[coin.TxID] = true
		parents = append(parents, coin.TxID)
		ask = append(ask, chain.OutputsQuery(c.Chain, coin.TxID, func(o chain.WatchedOutput) {
			exists[o.TxID] = exists[o.TxID] || o.State == chain.Mined || o.State == chain.Seen
			gone = gone || o.State == chain.Replaced && o.ReplacedDepth >= c.ConflictDepth
		}))
	}
	if err := tx.Batch(ctx, ask); err != nil || gone || len(parents) == 0 {
		return gone, err
	}
	own, err := chain.GetTxs(ctx, tx, c.Chain, parents)
	if err != nil {
		return false, err
	}
	for _, txid := range parents {
		parent, ours := own[txid]
		if !ours || exists[txid] {
			continue
		}
		if c.conflictIsFinal(parent) {
			return true, nil
		}
		of, err := readBatches(ctx, tx, c.Chain, parent.CompanyID, []string{parent.ObjectID})
		if err != nil {
			return false, err
		}
		for _, b := range of {
			if gone, err := c.inputsGone(ctx, tx, b.Inputs, known); err != nil || gone {
				return gone, err
			}
		}
	}
	return false, nil
}

// conflictIsFinal reports whether a transaction that conflicts with w is deep enough in the chain to prove that w
// will never be confirmed. One confirmation is not enough: if the conflicting block were reorganized away, the output
// could be paid twice. The chain reports only the first confirmation of a conflict; the nudge job finds out when it
// is deep enough. If there is a second node, it must also have the conflicting block.
func (c *Carrier) conflictIsFinal(w chain.WatchedTx) bool {
	return w.State == chain.Conflicted && w.Height > 0 && w.Depth >= c.ConflictDepth && w.Verified
}

// settle updates a batch to the state of the chain and returns it. Every change of a batch that follows from the
// chain is made here.
func (c *Carrier) settle(ctx context.Context, tx *db.Tx, b Batch) (Batch, error) {
	if err := b.check(); err != nil {
		return b, err
	}
	v, err := c.view(ctx, tx, b)
	if err != nil {
		return b, err
	}
	if b.State == payout.Fulfilled && (v.confirmed == nil || v.confirmed.TxID != b.TxID) {
		if err := c.revert(ctx, tx, &b); err != nil {
			return b, err
		}
		if v.confirmed == nil && !v.present && v.dead == "" {
			payout.EnqueueSend(tx, b.CompanyID, c.Rail, tx.Now(), b.TxID)
		}
		c.enqueueNudge(tx, b)
	}
	switch {
	case b.State == payout.Fulfilled || b.State == lost:
		return b, nil
	case b.State == dead:
		if v.confirmed == nil {
			return b, nil
		}
		return b, c.lose(ctx, tx, &b, *v.confirmed)
	case v.confirmed != nil:
		return b, c.fulfill(ctx, tx, &b, *v.confirmed)
	case v.failed != nil:
		return b, c.refuse(ctx, tx, &b, *v.failed)
	case v.dead != "":
		return b, c.reopen(ctx, tx, &b, v.dead, tx.Now())
	case v.present && b.State != payout.Sent:
		return b, advance(ctx, tx, &b, payout.Sent, b.TxID, "found on the chain")
	case !v.present && b.State == payout.Sent && v.newest == chain.Watched:
		// The transaction was accepted and has since been dropped from the mempool.
		payout.EnqueueSend(tx, b.CompanyID, c.Rail, tx.Now(), b.TxID)
	}
	return b, nil
}

// fulfill records a confirmed batch. The posted fee is corrected to the fee of the transaction that was confirmed.
func (c *Carrier) fulfill(ctx context.Context, tx *db.Tx, b *Batch, t Transaction) error {
	booked := b.Fee
	if err := advanceBatch(ctx, tx, b, payout.Fulfilled, t.TxID, t.Fee, ""); err != nil {
		return err
	}
	lines := append(c.transit(ledger.Debit, *b, booked), c.wallet(ledger.Credit, *b, t.Fee)...)
	if booked > t.Fee {
		lines = append(lines, ledger.Credit(ledger.NetworkFee, Source, c.native(booked-t.Fee)))
	} else {
		lines = append(lines, ledger.Debit(ledger.NetworkFee, Source, c.native(t.Fee-booked)))
	}
	if err := post(tx, *b, "confirm", lines); err != nil {
		return err
	}
	if len(b.Signed) > 1 { // if a replaced transaction was confirmed, its change can be spent after all
		if err := chain.Unreserve(ctx, tx, b.Chain, b.ChangeReservation()); err != nil {
			return err
		}
	}
	outs, err := payout.AdvanceBatch(ctx, tx, b.CompanyID, b.ID, b.Outs, payout.Fulfilled, t.TxID, "")
	if err != nil {
		return err
	}
	payout.Announce(tx, outs)
	if b.Purpose == PurposeSweep { // queues may wait for the swept funds
		return wakeQueues(ctx, tx, c.Rail)
	}
	return nil
}

// revert undoes the fulfillment of a batch whose block left the chain. The same transaction is broadcast again.
func (c *Carrier) revert(ctx context.Context, tx *db.Tx, b *Batch) error {
	const reason = "reorganization"
	if err := advanceBatch(ctx, tx, b, payout.Sent, b.TxID, b.Fee, reason); err != nil {
		return err
	}
	lines := append(c.wallet(ledger.Debit, *b, b.Fee), c.transit(ledger.Credit, *b, b.Fee)...)
	if err := post(tx, *b, "unconfirm", lines); err != nil {
		return err
	}
	outs, err := payout.AdvanceBatch(ctx, tx, b.CompanyID, b.ID, b.Outs, payout.Sent, b.TxID, reason)
	if err != nil {
		return err
	}
	payout.Announce(tx, outs)
	return nil
}

// reopen queues the outputs of a batch again after proof that the batch will never pay them. They keep their position
// in the queue and are prepared at the time at.
func (c *Carrier) reopen(ctx context.Context, tx *db.Tx, b *Batch, reason string, at time.Time) error {
	if err := advanceBatch(ctx, tx, b, dead, b.TxID, b.Fee, reason); err != nil {
		return err
	}
	// A conflicting transaction spent one coin; the others are free again.
	if err := chain.Unreserve(ctx, tx, b.Chain, b.ID); err != nil {
		return err
	}
	outs, err := payout.AdvanceBatch(ctx, tx, b.CompanyID, b.ID, b.Outs, payout.Queued, "", reason)
	if err != nil {
		return err
	}
	lines := append(c.transit(ledger.Debit, *b, b.Fee), ledger.Credit(ledger.NetworkFee, Source, c.native(b.Fee)))
	if err := post(tx, *b, "reopen", append(lines, owedAgain(outs)...)); err != nil {
		return err
	}
	c.Log.ErrorContext(ctx, "a payout batch is never paid; its outputs are queued again", "company_id", b.CompanyID,
		"batch_id", b.ID, "txid", b.TxID, "reason", reason)
	payout.EnqueuePrepare(tx, b.CompanyID, c.Rail, at)
	payout.Announce(tx, outs)
	return nil
}

// refuse ends a batch whose transaction is in a block but failed. Its fee is spent; its outputs need a corrected
// destination.
func (c *Carrier) refuse(ctx context.Context, tx *db.Tx, b *Batch, t Transaction) error {
	booked := b.Fee
	if err := advanceBatch(ctx, tx, b, dead, t.TxID, t.Fee, ReasonRefused); err != nil {
		return err
	}
	if err := chain.Unreserve(ctx, tx, b.Chain, b.ID); err != nil {
		return err
	}
	outs, err := payout.AdvanceBatch(ctx, tx, b.CompanyID, b.ID, b.Outs, payout.Failed, t.TxID, ReasonRefused)
	if err != nil {
		return err
	}
	code, dim := ledger.WalletOf(c.Native, b.Chain)
	lines := append(c.transit(ledger.Debit, *b, booked),
		ledger.Credit(code, dim, c.native(t.Fee)), ledger.Credit(ledger.NetworkFee, Source, c.native(booked-t.Fee)))
	if err := post(tx, *b, "refuse", append(lines, owedAgain(outs)...)); err != nil {
		return err
	}
	c.Log.ErrorContext(ctx, "a payout failed in its block",
		"company_id", b.CompanyID, "batch_id", b.ID, "txid", t.TxID, "purpose", b.Purpose)
	payout.Announce(tx, outs)
	return nil
}

// owedAgain returns lines that credit the amounts of outputs to the account of debts to outputs again.
func owedAgain(outs []payout.Output) []ledger.Line {
	lines := make([]ledger.Line, len(outs))
	for i, o := range outs {
		lines[i] = ledger.Credit(ledger.OutputPayable, o.ID, o.Amount)
	}
	return lines
}

// lose records a batch that was confirmed although it had been proven dead, because the proof was reorganized away.
// Its outputs may have been paid twice, so payouts are paused until staff decide.
func (c *Carrier) lose(ctx context.Context, tx *db.Tx, b *Batch, t Transaction) error {
	if err := advanceBatch(ctx, tx, b, lost, t.TxID, t.Fee, "confirmed after its conflict"); err != nil {
		return err
	}
	if err := post(tx, *b, "lose", append(c.wallet(ledger.Credit, *b, t.Fee),
		ledger.Debit(ledger.ReorgLoss, b.ID, money.New(b.Asset, b.spends())),
		ledger.Debit(ledger.NetworkFee, Source, c.native(t.Fee)))); err != nil {
		return err
	}
	c.Log.ErrorContext(ctx, "a dead payout batch was confirmed; payouts are paused",
		"company_id", b.CompanyID, "batch_id", b.ID, "txid", t.TxID)
	return payout.SetPaused(ctx, tx,
		"the payout transaction "+t.TxID+" was confirmed although its failure was final; payees may have been paid twice")
}

// UnknownSpend pauses all payouts when an unknown transaction spent coins of the wallet (job chain.unknown_spend).
// That transaction may have paid queued outputs, and only staff can find out.
func (c *Carrier) UnknownSpend(ctx context.Context, tx *db.Tx, j job.Job) error {
	var in chain.TxRef
	if err := j.Decode(&in); err != nil || in.Chain != c.Chain {
		return err
	}
	c.Log.ErrorContext(ctx, "an unknown transaction spent coins of the wallet; payouts are paused", "txid", in.TxID)
	return payout.SetPaused(ctx, tx, "the unknown transaction "+in.TxID+" spent coins of the wallet")
}
