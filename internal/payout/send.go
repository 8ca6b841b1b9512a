package payout

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"github.com/btcsuite/btcd/wire/v2"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/fault"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/rail"
	"github.com/stipend/stipend/internal/rail/onchain"
)

// alarmAfter is how many broadcasts in a row may fail before the log calls for a person.
const alarmAfter = 10

// Send broadcasts stored bytes and notes what came of it. It may run any number of times: the bytes are always
// the same, so the network sees one transaction.
func (e *Engine) Send(ctx context.Context, d *db.DB, j job.Job) error {
	var in sendJob
	if err := j.Decode(&in); err != nil {
		return err
	}
	var (
		t      Transaction
		open   bool
		paused string
	)
	err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		if t, err = transaction(ctx, tx, j.CompanyID, in.TxID); err != nil {
			return err
		}
		b, err := getBatch(ctx, tx, j.CompanyID, t.BatchID)
		if err != nil {
			return err
		}
		open = b.Chain == e.c.Chain && b.TxID == t.TxID && (b.State == Prepared || b.State == Sent || b.State == InDoubt)
		paused, err = Paused(ctx, tx)
		return err
	})
	switch {
	case errors.Is(err, db.ErrNoRows):
		return nil
	case err != nil:
		return err
	case !open:
		return nil
	}
	// The kill switch also stops bytes that are signed but were never accepted. What the network has, it has.
	if paused != "" && t.State != Sent {
		return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			send(tx, j.CompanyID, in.TxID, tx.Now().Add(e.c.Retry))
			return nil
		})
	}

	answer := e.rail.Submit(ctx, rail.Order{Reference: t.TxID, Body: t.Raw})
	if answer.Outcome == rail.Refused {
		// An earlier attempt may have got through, and its own inputs are then "already spent".
		switch found, err := e.rail.Find(ctx, t.TxID); {
		case err != nil:
			answer = rail.Answer{Outcome: rail.Unclear, Reason: answer.Reason + "; " + err.Error()}
		case found:
			answer = rail.Answer{Outcome: rail.Accepted}
		}
	}
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return e.record(ctx, tx, j.CompanyID, in.TxID, answer) })
}

// record writes down the answer to one broadcast.
func (e *Engine) record(ctx context.Context, tx *db.Tx, companyID, txid string, answer rail.Answer) error {
	t, err := transaction(ctx, tx, companyID, txid)
	if err != nil {
		return err
	}
	b, err := lockBatch(ctx, tx, companyID, t.BatchID)
	if err != nil {
		return err
	}
	if t, err = transaction(ctx, tx, companyID, txid); err != nil { // as it is now that the batch is ours
		return err
	}
	to, attempts := Sent, int64(0)
	if answer.Outcome != rail.Accepted {
		attempts = t.Attempts + 1
		// What was accepted before stays sent while a repetition is merely unanswered.
		if to = InDoubt; answer.Outcome == rail.Unclear && t.State == Sent {
			to = Sent
		}
	}
	if to != t.State || attempts != t.Attempts {
		switch ok, err := markTransaction(ctx, tx, t, to, attempts); {
		case err != nil:
			return err
		case !ok:
			return errRaced
		}
	}
	if answer.Outcome != rail.Accepted {
		level := slog.LevelWarn
		if attempts >= alarmAfter {
			level = slog.LevelError
		}
		e.c.Log.Log(ctx, level, "payout broadcast not accepted", "company_id", companyID, "batch_id", b.ID, "txid", txid,
			"outcome", answer.Outcome.String(), "attempts", attempts, "reason", answer.Reason)
		send(tx, companyID, txid, tx.Now().Add(backoff(attempts)))
	}

	switch {
	case to == Sent && (b.State == Prepared || b.State == InDoubt):
		return e.move(ctx, tx, &b, Sent, b.TxID, "")
	case to == InDoubt && (b.State == Prepared || b.State == Sent):
		family, err := transactions(ctx, tx, companyID, b.ID)
		if err != nil {
			return err
		}
		for _, other := range family {
			if other.TxID != txid && other.State == Sent {
				return nil // a replacement in doubt does not put in doubt what it would replace
			}
		}
		return e.move(ctx, tx, &b, InDoubt, b.TxID, answer.Outcome.String())
	}
	return nil
}

// move brings a batch and its outputs into a state.
func (e *Engine) move(ctx context.Context, tx *db.Tx, b *Batch, to State, txid, reason string) error {
	switch ok, err := moveBatch(ctx, tx, b, to, txid, b.Fee, reason); {
	case err != nil:
		return err
	case !ok:
		return errRaced
	}
	_, err := moveOutputs(ctx, tx, *b, to, txid, reason)
	return err
}

func backoff(attempts int64) time.Duration {
	return min(5*time.Second<<min(attempts, 20), time.Hour)
}

// Bump replaces the newest transaction of a batch by one with a higher fee rate, in sat/vB: same inputs, same
// recipients at the same positions. It answers ErrProcessing when the batch needs no bump any more, ErrFeeTooHigh
// above the cap, ErrUnaffordable when the change is too small, and ErrChangeSpent when a later batch already
// builds on the change.
func (e *Engine) Bump(ctx context.Context, tx *db.Tx, companyID, batchID string, rate int64) (txid string, err error) {
	b, err := lockBatch(ctx, tx, companyID, batchID)
	if errors.Is(err, db.ErrNoRows) {
		return "", fault.NotFoundErr
	}
	if err != nil {
		return "", err
	}
	if b.Chain != e.c.Chain || b.State != Prepared && b.State != Sent && b.State != InDoubt {
		return "", ErrProcessing
	}
	old, err := transaction(ctx, tx, companyID, b.TxID)
	if err != nil {
		return "", err
	}
	if w, err := chain.GetTx(ctx, tx, b.Chain, old.TxID); err == nil && w.State == chain.Mined {
		return "", ErrProcessing
	} else if err != nil && !errors.Is(err, chain.ErrUnknown) {
		return "", err
	}
	if e.acc != nil {
		return e.raise(ctx, tx, b, old, rate)
	}
	outs, err := outputsOfBatch(ctx, tx, companyID, batchID)
	if err != nil {
		return "", err
	}
	var signed wire.MsgTx
	if err := signed.Deserialize(bytes.NewReader(old.Raw)); err != nil {
		return "", err
	}
	unsigned, fee, err := onchain.Replacement(&signed, len(signed.TxOut) > len(outs), old.Fee, old.VSize, rate)
	if errors.Is(err, onchain.ErrUnaffordable) {
		return "", ErrUnaffordable
	}
	if err != nil {
		return "", err
	}
	if fee > e.c.MaxFeeRate*old.VSize {
		return "", ErrFeeTooHigh
	}
	// The change disappears with the transaction that made it, so nobody may build on it from now on.
	change := chain.Outpoint{TxID: old.TxID, Vout: uint32(len(outs))}
	switch w, err := chain.GetOutput(ctx, tx, b.Chain, change); {
	case errors.Is(err, chain.ErrUnknown): // not seen by the watcher, so not offered to anybody
	case err != nil:
		return "", err
	case w.Spend != chain.Available:
		return "", ErrChangeSpent
	default:
		if err := chain.Reserve(ctx, tx, b.Chain, []chain.Outpoint{change}, changeHolder(b)); err != nil {
			return "", err
		}
	}

	raw, txid, err := e.c.Signer.Sign(unsigned, b.inputs)
	if err != nil {
		return "", err
	}
	t := Transaction{CompanyID: companyID, TxID: txid, BatchID: b.ID, Replaces: old.TxID, Raw: raw, Fee: fee, VSize: old.VSize,
		pack: old.pack, ancestors: old.ancestors}
	if err := insertTransaction(ctx, tx, t); err != nil {
		return "", err
	}
	more := fee - b.Fee
	switch ok, err := moveBatch(ctx, tx, &b, b.State, txid, fee, "fee raised"); {
	case err != nil:
		return "", err
	case !ok:
		return "", errRaced
	}
	if _, err := moveOutputs(ctx, tx, b, b.State, txid, "fee raised"); err != nil {
		return "", err
	}
	if err := ledger.Post(tx, ledger.Journal{CompanyID: companyID, SourceType: source, SourceID: b.ID, Purpose: purpose("bump", b),
		Lines: []ledger.Line{ledger.Debit(ledger.NetworkFee, source, sats(more)), ledger.Credit(ledger.InTransit, b.ID, sats(more))}}); err != nil {
		return "", err
	}
	if err := chain.WatchTx(ctx, tx, b.Chain, txid, companyID, b.ID, e.c.Confirmations); err != nil {
		return "", err
	}
	send(tx, companyID, txid, tx.Now())
	return txid, nil
}

// stuck says that a transaction pays less than the network asks for now, and that raising its fee is worth it.
func (e *Engine) stuck(t Transaction, b Batch, rate int64) bool {
	if e.acc != nil {
		signed, _, err := evm.Decode(t.Raw)
		return err == nil && rate > signed.MaxFee
	}
	return rate*t.VSize > t.Fee && e.reasonable(rate*t.VSize, b.Value)
}

// changeHolder reserves the change that a bump makes disappear. It is not the batch's own name, which holds
// inputs.
func changeHolder(b Batch) string { return b.ID + ".change" }

// purpose names a journal that a batch may need again: each change of the batch has its own version.
func purpose(what string, b Batch) string { return what + "." + strconv.FormatInt(b.Version, 10) }

// Nudge looks at a batch that is not confirmed yet: it broadcasts again what the network may have forgotten, and
// raises the fee of what is stuck while the network asks for more.
func (e *Engine) Nudge(ctx context.Context, tx *db.Tx, j job.Job) error {
	var in nudgeJob
	if err := j.Decode(&in); err != nil {
		return err
	}
	b, err := lockBatch(ctx, tx, j.CompanyID, in.BatchID)
	if errors.Is(err, db.ErrNoRows) {
		return nil
	}
	if err != nil || b.Chain != e.c.Chain {
		return err
	}
	if b, err = e.settle(ctx, tx, b); err != nil {
		return err
	}
	if b.State != Prepared && b.State != Sent && b.State != InDoubt {
		return e.relieve(ctx, tx, b)
	}
	e.nudge(tx, b)
	if why, err := Paused(ctx, tx); err != nil || why != "" {
		return err
	}
	t, err := transaction(ctx, tx, b.CompanyID, b.TxID)
	if err != nil {
		return err
	}
	rate, fresh, err := feeRate(ctx, tx, e.c.Chain, e.c.FeeMaxAge)
	if err != nil {
		return err
	}
	if fresh && tx.Now().Sub(t.CreatedAt) >= e.c.BumpAfter && e.stuck(t, b, rate) {
		switch _, err := e.Bump(ctx, tx, b.CompanyID, b.ID, rate); {
		case err == nil:
			return nil
		case !errors.Is(err, ErrProcessing) && !errors.Is(err, ErrFeeTooHigh) && !errors.Is(err, ErrUnaffordable) && !errors.Is(err, ErrChangeSpent):
			return err
		default:
			e.c.Log.InfoContext(ctx, "payout fee cannot be raised", "company_id", b.CompanyID, "batch_id", b.ID, "reason", err)
			if !errors.Is(err, ErrFeeTooHigh) || b.Purpose != purposePayout {
				break
			}
			q, err := lockQueue(ctx, tx, b.CompanyID, e.lane())
			if err == nil {
				err = e.delay(ctx, tx, q, heldFee, rate, 0, b.ID)
			}
			if err != nil {
				return err
			}
		}
	}
	send(tx, b.CompanyID, b.TxID, tx.Now())
	return nil
}

// relieve ends what a stuck batch was the reason of: it has its end, and no other payout of its company waits.
func (e *Engine) relieve(ctx context.Context, tx *db.Tx, b Batch) error {
	q, err := lockQueue(ctx, tx, b.CompanyID, e.lane())
	if err != nil || q.held != heldFee {
		return err
	}
	if waits, err := anyOpen(ctx, tx, q); err != nil || waits {
		return err
	}
	return flowing(ctx, tx, q)
}
