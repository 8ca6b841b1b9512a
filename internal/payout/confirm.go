package payout

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
)

// Confirm listens to the chain's news about our own transactions and brings their batches in line with what the
// chain shows now. News about transactions that are not payouts is somebody else's.
func (e *Engine) Confirm(ctx context.Context, tx *db.Tx, jobs []job.Job) error {
	of := map[string][]string{}
	for _, j := range jobs {
		var news chain.TxNews
		if err := j.Decode(&news); err != nil {
			return err
		}
		if news.Chain == e.c.Chain {
			of[j.CompanyID] = append(of[j.CompanyID], news.TxID)
		}
	}
	for _, companyID := range slices.Sorted(maps.Keys(of)) {
		ids, err := batchesOf(ctx, tx, companyID, of[companyID])
		if err != nil {
			return err
		}
		batches, err := lockBatches(ctx, tx, e.c.Chain, companyID, ids)
		if err != nil {
			return err
		}
		for _, b := range batches {
			if _, err := e.settle(ctx, tx, b); err != nil {
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
	newest    chain.State  // where the newest stands
	dead      string       // why none of them can ever confirm, "" while one might
}

func (e *Engine) look(ctx context.Context, tx *db.Tx, b Batch) (view, error) {
	ours := make(map[string]bool, len(b.signed))
	for _, t := range b.signed {
		ours[t.TxID] = true
	}
	v := view{newest: chain.Watched}
	for i, t := range b.signed {
		w, watched := b.seen[t.TxID]
		if !watched {
			continue
		}
		switch {
		case w.State == chain.Mined && w.Confirmed && w.Failed && !w.Attested: // our node alone says that nobody was paid
			v.present = true
		case w.State == chain.Mined && w.Confirmed && w.Failed:
			b.signed[i].Fee = w.Fee
			v.failed, v.present = &b.signed[i], true
		case w.State == chain.Mined && w.Confirmed:
			if e.acc != nil { // what it cost is known with its block
				b.signed[i].Fee = w.Fee
			}
			v.confirmed, v.present = &b.signed[i], true
		case w.State == chain.Mined || w.State == chain.Seen:
			v.present = true
		case e.beaten(w) && !ours[w.ConflictedBy]:
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
	// A coin of a transaction that can never confirm never comes into being.
	for _, c := range b.inputs {
		if c.Unconfirmed == 0 {
			continue
		}
		parent, err := chain.GetTx(ctx, tx, b.Chain, c.TxID)
		switch {
		case errors.Is(err, chain.ErrUnknown):
		case err != nil:
			return view{}, err
		case e.beaten(parent):
			v.dead = ReasonConflict
		}
	}
	return v, nil
}

// beaten says whether a rival lies deep enough in the chain to prove that a transaction never confirms. That takes
// more than a confirmation: a proof that is reorganised away would have us pay twice. The chain tells of a rival's
// first confirmations only; the nudge finds the depth. Where there is a second node to ask, it must have the rival's block, too.
func (e *Engine) beaten(w chain.WatchedTx) bool {
	return w.State == chain.Conflicted && w.Height > 0 && w.Depth >= e.c.ConflictDepth && w.Attested
}

// settle is the one place where the chain decides about a batch. It returns the batch as it is afterwards.
func (e *Engine) settle(ctx context.Context, tx *db.Tx, b Batch) (Batch, error) {
	if err := b.State.Check("batch " + b.ID); err != nil {
		return b, err
	}
	v, err := e.look(ctx, tx, b)
	if err != nil {
		return b, err
	}
	if b.State == Fulfilled && (v.confirmed == nil || v.confirmed.TxID != b.TxID) {
		if err := e.revert(ctx, tx, &b); err != nil {
			return b, err
		}
		if v.confirmed == nil && !v.present && v.dead == "" {
			send(tx, b.CompanyID, tx.Now(), b.TxID)
		}
		e.nudge(tx, b)
	}
	switch {
	case b.State == Fulfilled || b.State == Lost:
		return b, nil
	case b.State == Dead:
		if v.confirmed == nil {
			return b, nil
		}
		return b, e.lose(ctx, tx, &b, *v.confirmed)
	case v.confirmed != nil:
		return b, e.fulfil(ctx, tx, &b, *v.confirmed)
	case v.failed != nil:
		return b, e.refuse(ctx, tx, &b, *v.failed)
	case v.dead != "":
		return b, e.reopen(ctx, tx, &b, v.dead)
	case v.present && b.State != Sent:
		return b, e.move(ctx, tx, &b, Sent, b.TxID, "found on the chain")
	case !v.present && b.State == Sent && v.newest == chain.Watched:
		// Accepted once and forgotten since: an eviction or a reorganisation.
		send(tx, b.CompanyID, tx.Now(), b.TxID)
	}
	return b, nil
}

// fulfil books a confirmed batch. Which of its transactions confirmed decides the fee, so a bump that lost is
// taken back here.
func (e *Engine) fulfil(ctx context.Context, tx *db.Tx, b *Batch, t Transaction) error {
	booked := b.Fee
	if err := moveBatch(ctx, tx, b, Fulfilled, t.TxID, t.Fee, ""); err != nil {
		return err
	}
	lines := append(e.transit(ledger.Debit, *b, booked), e.wallet(ledger.Credit, *b, t.Fee)...)
	if booked > t.Fee {
		lines = append(lines, ledger.Credit(ledger.NetworkFee, source, e.native(booked-t.Fee)))
	} else {
		lines = append(lines, ledger.Debit(ledger.NetworkFee, source, e.native(t.Fee-booked)))
	}
	if err := e.post(tx, *b, "confirm", lines...); err != nil {
		return err
	}
	if e.acc == nil { // the change of a transaction that outlived its replacement can be built on again
		if err := chain.Unreserve(ctx, tx, b.Chain, changeHolder(*b)); err != nil {
			return err
		}
	}
	outs, err := moveOutputs(ctx, tx, *b, Fulfilled, t.TxID, "")
	if err != nil {
		return err
	}
	changed(tx, outs)
	if b.Purpose == purposeSweep {
		return wakeAccounts(ctx, tx, Rail(b.Chain))
	}
	return nil
}

// revert takes a fulfilment back: its block left the chain. The payout is on its way again, by the same bytes.
func (e *Engine) revert(ctx context.Context, tx *db.Tx, b *Batch) error {
	if err := moveBatch(ctx, tx, b, Sent, b.TxID, b.Fee, "reorganisation"); err != nil {
		return err
	}
	if err := e.post(tx, *b, "unconfirm",
		append(e.wallet(ledger.Debit, *b, b.Fee), e.transit(ledger.Credit, *b, b.Fee)...)...); err != nil {
		return err
	}
	outs, err := moveOutputs(ctx, tx, *b, Sent, b.TxID, "reorganisation")
	if err != nil {
		return err
	}
	changed(tx, outs)
	return nil
}

// reopen queues the outputs of a batch that is proven never to pay them. They keep their place in the queue.
func (e *Engine) reopen(ctx context.Context, tx *db.Tx, b *Batch, reason string) error {
	if err := moveBatch(ctx, tx, b, Dead, b.TxID, b.Fee, reason); err != nil {
		return err
	}
	// The rival took one coin; the others are free again.
	if err := chain.Unreserve(ctx, tx, b.Chain, b.ID); err != nil {
		return err
	}
	outs, err := moveOutputs(ctx, tx, *b, Queued, "", reason)
	if err != nil {
		return err
	}
	lines := append(e.transit(ledger.Debit, *b, b.Fee), ledger.Credit(ledger.NetworkFee, source, e.native(b.Fee)))
	for _, o := range outs {
		lines = append(lines, ledger.Credit(ledger.OutputPayable, o.ID, o.Amount))
	}
	if err := e.post(tx, *b, "reopen", lines...); err != nil {
		return err
	}
	e.c.Log.ErrorContext(ctx, "payout batch conflicted; its outputs are queued again", "company_id", b.CompanyID, "batch_id", b.ID, "txid", b.TxID)
	if e.acc != nil {
		lookAtAccount(tx, b.CompanyID, Rail(b.Chain), tx.Now())
	} else {
		lookAt(tx, b.CompanyID, tx.Now())
	}
	changed(tx, outs)
	return nil
}

// lose handles what should not happen: a batch that was proven dead confirmed after all, because the proof was
// reorganised away. Its outputs may be paid twice, so everything stops for a person.
func (e *Engine) lose(ctx context.Context, tx *db.Tx, b *Batch, t Transaction) error {
	if err := moveBatch(ctx, tx, b, Lost, t.TxID, t.Fee, "confirmed after its conflict"); err != nil {
		return err
	}
	if err := e.post(tx, *b, "lose",
		append(e.wallet(ledger.Credit, *b, t.Fee),
			ledger.Debit(ledger.ReorgLoss, b.ID, money.New(b.Asset, e.value(*b))), ledger.Debit(ledger.NetworkFee, source, e.native(t.Fee)))...); err != nil {
		return err
	}
	e.c.Log.ErrorContext(ctx, "a dead payout batch confirmed; payouts are paused", "company_id", b.CompanyID, "batch_id", b.ID, "txid", t.TxID)
	return SetPaused(ctx, tx, "the payout transaction "+t.TxID+" confirmed after it was proven dead; its payees may have been paid twice")
}

// Stranger stops all payouts when a coin of the wallet was spent by a transaction that is not known here (job
// chain.stranger): whoever made it may have paid the same payees, and only a person can find out.
func (e *Engine) Stranger(ctx context.Context, tx *db.Tx, j job.Job) error {
	var news chain.TxNews
	if err := j.Decode(&news); err != nil {
		return err
	}
	if news.Chain != e.c.Chain {
		return nil
	}
	e.c.Log.ErrorContext(ctx, "an unknown transaction spent coins of the wallet; payouts are paused", "txid", news.TxID)
	return SetPaused(ctx, tx, "the transaction "+news.TxID+" spent coins of the wallet and is not known here")
}

func (e *Engine) post(tx *db.Tx, b Batch, what string, lines ...ledger.Line) error {
	return ledger.Post(tx, ledger.Journal{CompanyID: b.CompanyID, SourceType: source, SourceID: b.ID, Purpose: purpose(what, b), Lines: lines})
}

// walletDim is the dimension of the hot wallet's account.
const walletDim = ""
