package onchain

import (
	"context"
	"errors"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
)

// Reasons of outputs.
const (
	ReasonConflict = "input_conflict"      // queued again: another transaction spent an input of its batch
	ReasonRefused  = "destination_refuses" // failed: the token or the receiving contract fails every payment to the address
)

// Confirm handles changes of our own transactions (job chain.tx): it brings their batches in line with what the chain shows now.
// Changes of transactions that are not payouts, or of another chain, are ignored.
func (c *Carrier) Confirm(ctx context.Context, tx *db.Tx, jobs []job.Job) error {
	companies, of, err := byCompany(jobs, func(n chain.TxRef) (string, bool) { return n.TxID, n.Chain == c.Chain })
	if err != nil {
		return err
	}
	for _, companyID := range companies {
		ids, err := batchesOf(ctx, tx, companyID, of[companyID])
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

// view is what the chain shows of a batch's transactions.
type view struct {
	confirmed *Transaction // has its confirmations
	failed    *Transaction // has them, too, and moved nothing: proof that nobody was paid
	present   bool         // one of them is in the mempool or in a block
	newest    chain.State  // state of the newest
	dead      string       // why none of them can ever be confirmed; "" while one might be
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
		case w.State == chain.Mined && w.Confirmed && w.Failed && !w.Verified: // one node alone says that nobody was paid
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
		case c.beaten(w) && !ours[w.ConflictedBy]:
			v.dead = ReasonConflict
		}
		if t.TxID == b.TxID {
			v.newest = w.State
		}
	}
	if v.present {
		v.dead = ""
		return v, nil
	}
	// A coin of a transaction that can never be confirmed never comes into being.
	for _, coin := range b.Inputs {
		if coin.Unconfirmed == 0 {
			continue
		}
		parent, err := chain.GetTx(ctx, tx, b.Chain, coin.TxID)
		switch {
		case errors.Is(err, chain.ErrUnknown):
		case err != nil:
			return view{}, err
		case c.beaten(parent):
			v.dead = ReasonConflict
		}
	}
	return v, nil
}

// beaten reports whether a conflicting transaction is deep enough in the chain to prove that a transaction is never confirmed. That
// takes more than one confirmation: a proof that is reorganized away would pay twice. The chain reports a conflict's first
// confirmations only; the nudge finds the depth. Where there is a second node, it must have the conflicting block, too.
func (c *Carrier) beaten(w chain.WatchedTx) bool {
	return w.State == chain.Conflicted && w.Height > 0 && w.Depth >= c.ConflictDepth && w.Verified
}

// settle is the one place where the chain decides about a batch. It returns the batch as it is afterwards.
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
	case b.State == payout.Fulfilled || b.State == Lost:
		return b, nil
	case b.State == Dead:
		if v.confirmed == nil {
			return b, nil
		}
		return b, c.lose(ctx, tx, &b, *v.confirmed)
	case v.confirmed != nil:
		return b, c.fulfill(ctx, tx, &b, *v.confirmed)
	case v.failed != nil:
		return b, c.refuse(ctx, tx, &b, *v.failed)
	case v.dead != "":
		return b, c.reopen(ctx, tx, &b, v.dead)
	case v.present && b.State != payout.Sent:
		return b, advance(ctx, tx, &b, payout.Sent, b.TxID, "found on the chain")
	case !v.present && b.State == payout.Sent && v.newest == chain.Watched:
		// Accepted once and since dropped from the mempool.
		payout.EnqueueSend(tx, b.CompanyID, c.Rail, tx.Now(), b.TxID)
	}
	return b, nil
}

// fulfill books a confirmed batch. The confirmed transaction decides the fee, so the fee of a replacement that lost is reversed.
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
	if len(b.Signed) > 1 { // the change of a transaction that was confirmed instead of its replacement can be spent again
		if err := chain.Unreserve(ctx, tx, b.Chain, b.ChangeReservation()); err != nil {
			return err
		}
	}
	outs, err := payout.AdvanceBatch(ctx, tx, b.CompanyID, b.ID, b.Outs, payout.Fulfilled, t.TxID, "")
	if err != nil {
		return err
	}
	payout.Announce(tx, outs)
	if b.Purpose == PurposeSweep { // queues may have waited for what it brought
		return wakeQueues(ctx, tx, c.Rail)
	}
	return nil
}

// revert takes a fulfillment back whose block left the chain. The same bytes pay it again.
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

// reopen queues the outputs of a batch that is proven never to pay them. They keep their place in the queue.
func (c *Carrier) reopen(ctx context.Context, tx *db.Tx, b *Batch, reason string) error {
	if err := advanceBatch(ctx, tx, b, Dead, b.TxID, b.Fee, reason); err != nil {
		return err
	}
	// The conflicting transaction took one coin; the others are free again.
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
	c.Log.ErrorContext(ctx, "an input of a payout batch was spent by another transaction; its outputs are queued again",
		"company_id", b.CompanyID, "batch_id", b.ID, "txid", b.TxID)
	payout.EnqueuePrepare(tx, b.CompanyID, c.Rail, tx.Now())
	payout.Announce(tx, outs)
	return nil
}

// refuse ends a batch whose transaction is in the chain and moved nothing. Its fee is spent; its outputs need a corrected
// destination.
func (c *Carrier) refuse(ctx context.Context, tx *db.Tx, b *Batch, t Transaction) error {
	booked := b.Fee
	if err := advanceBatch(ctx, tx, b, Dead, t.TxID, t.Fee, ReasonRefused); err != nil {
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

// owedAgain returns the lines that owe outputs again.
func owedAgain(outs []payout.Output) []ledger.Line {
	lines := make([]ledger.Line, len(outs))
	for i, o := range outs {
		lines[i] = ledger.Credit(ledger.OutputPayable, o.ID, o.Amount)
	}
	return lines
}

// lose books a batch that was confirmed after it was proven dead, because the proof was reorganized away. Its outputs may be paid
// twice, so payouts stop until a person has decided.
func (c *Carrier) lose(ctx context.Context, tx *db.Tx, b *Batch, t Transaction) error {
	if err := advanceBatch(ctx, tx, b, Lost, t.TxID, t.Fee, "confirmed after its conflict"); err != nil {
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
		"the payout transaction "+t.TxID+" confirmed after it was proven dead; its payees may have been paid twice")
}

// UnknownSpend pauses all payouts when an unknown transaction spent coins of the wallet (job chain.stranger): it may have paid the
// same payees, and only a person can find out.
func (c *Carrier) UnknownSpend(ctx context.Context, tx *db.Tx, j job.Job) error {
	var in chain.TxRef
	if err := j.Decode(&in); err != nil || in.Chain != c.Chain {
		return err
	}
	c.Log.ErrorContext(ctx, "an unknown transaction spent coins of the wallet; payouts are paused", "txid", in.TxID)
	return payout.SetPaused(ctx, tx, "the transaction "+in.TxID+" spent coins of the wallet and is not known here")
}
