package payout

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/btcsuite/btcd/wire/v2"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/rail"
	"github.com/stipend/stipend/internal/rail/onchain"
)

// alarmAfter is how many broadcasts in a row may fail before the log calls for a person.
const alarmAfter = 10

// findWithin bounds the questions after what was refused, all together: a job has 40 seconds, and the answers are still to be written down.
const findWithin = 10 * time.Second

// Send broadcasts stored bytes and notes what came of it. It may run any number of times: the bytes are always
// the same, so the network sees one transaction.
func (e *Engine) Send(ctx context.Context, d *db.DB, j job.Job) error {
	var in sendJob
	if err := j.Decode(&in); err != nil {
		return err
	}
	if in.TxID != "" {
		in.TxIDs = append(in.TxIDs, in.TxID)
	}
	var open []Transaction
	var stopped []string
	err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
		paused, err := Paused(ctx, tx)
		if err != nil {
			return err
		}
		ids, err := batchesOf(ctx, tx, j.CompanyID, in.TxIDs)
		if err != nil {
			return err
		}
		batches, err := readBatches(ctx, tx, e.c.Chain, j.CompanyID, ids)
		for _, b := range batches {
			if err := b.State.Check("batch " + b.ID); err != nil {
				return err
			}
			t, ours := b.newest()
			switch {
			case !ours || !slices.Contains(in.TxIDs, t.TxID) || b.State != Prepared && b.State != Sent && b.State != InDoubt:
			case paused != "" && t.State != Sent:
				// The kill switch also stops bytes that are signed but were never accepted. What the network has, it has.
				stopped = append(stopped, t.TxID)
			default:
				open = append(open, t)
			}
		}
		return err
	})
	if err != nil || len(open)+len(stopped) == 0 {
		return err
	}
	orders := make([]rail.Order, len(open))
	ids := make([]string, len(open))
	for i, t := range open {
		orders[i], ids[i] = rail.Order{Reference: t.TxID, Body: t.Raw}, t.BatchID
	}
	answers := map[string]rail.Answer{}
	asking, stop := context.WithTimeout(ctx, findWithin)
	defer stop()
	var silent error
	for i, answer := range e.rail.Submit(ctx, orders...) {
		if answer.Outcome == rail.Refused {
			// An earlier attempt may have got through, and its own inputs are then "already spent". Who did not answer is not asked again.
			found := false
			if silent == nil {
				found, silent = e.rail.Find(asking, open[i].TxID)
			}
			switch {
			case found:
				answer = rail.Answer{Outcome: rail.Accepted}
			case silent != nil:
				answer = rail.Answer{Outcome: rail.Unclear, Reason: answer.Reason + "; " + silent.Error()}
			}
		}
		answers[open[i].TxID] = answer
	}
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		for _, txid := range stopped {
			send(tx, j.CompanyID, tx.Now().Add(e.c.Retry), txid)
		}
		batches, err := lockBatches(ctx, tx, e.c.Chain, j.CompanyID, ids)
		if err != nil {
			return err
		}
		for _, b := range batches {
			for _, t := range b.signed {
				if answer, asked := answers[t.TxID]; asked {
					if err := e.record(ctx, tx, b, t, answer); err != nil {
						return err
					}
				}
			}
		}
		return nil
	})
}

// record writes down the answer to one broadcast.
func (e *Engine) record(ctx context.Context, tx *db.Tx, b Batch, t Transaction, answer rail.Answer) error {
	to, attempts := Sent, int64(0)
	if answer.Outcome != rail.Accepted {
		attempts = t.Attempts + 1
		// What was accepted before stays sent while a repetition is merely unanswered.
		if to = InDoubt; answer.Outcome == rail.Unclear && t.State == Sent {
			to = Sent
		}
	}
	if to != t.State || attempts != t.Attempts {
		if err := markTransaction(ctx, tx, t, to, attempts); err != nil {
			return err
		}
	}
	if answer.Outcome != rail.Accepted {
		level := slog.LevelWarn
		if attempts >= alarmAfter {
			level = slog.LevelError
		}
		e.c.Log.Log(ctx, level, "payout broadcast not accepted", "company_id", b.CompanyID, "batch_id", b.ID, "txid", t.TxID,
			"outcome", answer.Outcome.String(), "attempts", attempts, "reason", answer.Reason)
		send(tx, b.CompanyID, tx.Now().Add(backoff(attempts)), t.TxID)
	}

	switch {
	case to == Sent && (b.State == Prepared || b.State == InDoubt):
		return e.move(ctx, tx, &b, Sent, b.TxID, "")
	case to == InDoubt && (b.State == Prepared || b.State == Sent):
		for _, other := range b.signed {
			if other.TxID != t.TxID && other.State == Sent {
				return nil // a replacement in doubt does not put in doubt what it would replace
			}
		}
		return e.move(ctx, tx, &b, InDoubt, b.TxID, answer.Outcome.String())
	}
	return nil
}

// move brings a batch and its outputs into a state.
func (e *Engine) move(ctx context.Context, tx *db.Tx, b *Batch, to State, txid, reason string) error {
	if err := moveBatch(ctx, tx, b, to, txid, b.Fee, reason); err != nil {
		return err
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
	b, err := lockBatch(ctx, tx, e.c.Chain, companyID, batchID)
	if errors.Is(err, db.ErrNoRows) {
		return "", apierr.NotFoundErr
	}
	if err != nil {
		return "", err
	}
	old, there := b.newest()
	if !there || b.State != Prepared && b.State != Sent && b.State != InDoubt || b.seen[old.TxID].State == chain.Mined {
		return "", ErrProcessing
	}
	if e.acc != nil {
		return e.raise(ctx, tx, b, old, rate)
	}
	var signed wire.MsgTx
	if err := signed.Deserialize(bytes.NewReader(old.Raw)); err != nil {
		return "", err
	}
	unsigned, fee, err := onchain.Replacement(&signed, len(signed.TxOut) > len(b.outs), old.Fee, old.VSize, rate)
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
	change := chain.Outpoint{TxID: old.TxID, Vout: uint32(len(b.outs))}
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
	if err := moveBatch(ctx, tx, &b, b.State, txid, fee, "fee raised"); err != nil {
		return "", err
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
	send(tx, companyID, tx.Now(), txid)
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

// Nudge looks at batches that are not confirmed yet: it broadcasts again what the network may have forgotten, and
// raises the fee of what is stuck while the network asks for more.
func (e *Engine) Nudge(ctx context.Context, tx *db.Tx, jobs []job.Job) error {
	of := map[string][]string{}
	for _, j := range jobs {
		var in nudgeJob
		if err := j.Decode(&in); err != nil {
			return err
		}
		of[j.CompanyID] = append(of[j.CompanyID], in.BatchID)
	}
	for _, companyID := range slices.Sorted(maps.Keys(of)) {
		batches, err := lockBatches(ctx, tx, e.c.Chain, companyID, of[companyID])
		if err != nil {
			return err
		}
		var open []Batch
		for _, b := range batches {
			if b, err = e.settle(ctx, tx, b); err != nil {
				return err
			}
			if b.State == Prepared || b.State == Sent || b.State == InDoubt {
				open = append(open, b)
				e.nudge(tx, b)
			}
		}
		if len(open) < len(batches) {
			err = e.relieve(ctx, tx, companyID)
		}
		if err == nil && len(open) > 0 {
			err = e.again(ctx, tx, companyID, open)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// again sends what is not confirmed once more, or in its place what pays a higher fee.
func (e *Engine) again(ctx context.Context, tx *db.Tx, companyID string, open []Batch) error {
	if why, err := Paused(ctx, tx); err != nil || why != "" {
		return err
	}
	rate, fresh, err := feeRate(ctx, tx, e.c.Chain, e.c.FeeMaxAge)
	if err != nil {
		return err
	}
	var same []string
	for _, b := range open {
		if t, there := b.newest(); there && fresh && tx.Now().Sub(t.CreatedAt) >= e.c.BumpAfter && e.stuck(t, b, rate) {
			switch _, err := e.Bump(ctx, tx, companyID, b.ID, rate); {
			case err == nil:
				continue
			case !errors.Is(err, ErrProcessing) && !errors.Is(err, ErrFeeTooHigh) && !errors.Is(err, ErrUnaffordable) && !errors.Is(err, ErrChangeSpent):
				return err
			default:
				e.c.Log.InfoContext(ctx, "payout fee cannot be raised", "company_id", companyID, "batch_id", b.ID, "reason", err)
				if !errors.Is(err, ErrFeeTooHigh) || b.Purpose != purposePayout {
					break
				}
				q, err := lockQueue(ctx, tx, companyID, e.lane())
				if err == nil {
					err = e.delay(ctx, tx, q, heldFee, rate, 0, b.ID)
				}
				if err != nil {
					return err
				}
			}
		}
		same = append(same, b.TxID)
	}
	send(tx, companyID, tx.Now(), same...)
	return nil
}

// relieve ends what a stuck batch was the reason of: it has its end, and no other payout of its company waits.
func (e *Engine) relieve(ctx context.Context, tx *db.Tx, companyID string) error {
	q, err := lockQueue(ctx, tx, companyID, e.lane())
	if err != nil || q.held != heldFee {
		return err
	}
	if waits, err := anyOpen(ctx, tx, q); err != nil || waits {
		return err
	}
	return flowing(ctx, tx, q)
}
