package bitcoin_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/btcsuite/btcd/wire/v2"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/payout"
	bitcoinrail "github.com/stipend/stipend/internal/payout/bitcoin"
	"github.com/stipend/stipend/internal/payout/onchain"
)

func TestAStuckTransactionIsReplacedWithAHigherFee(t *testing.T) {
	for _, winner := range []string{"replacement", "original"} {
		t.Run(winner, func(t *testing.T) {
			run(t, func(w *fixture) {
				w.fund(5_000_000)
				w.release(1_000_000, 200_000)
				w.watch()
				before := w.states(payout.Sent, payout.Sent)[0]
				oldFee := w.balance(ledger.NetworkFee, "payout")
				if winner == "original" { // the network does not receive the replacement
					w.node.broadcast = func([]byte) (bool, error) { return false, errors.New("timeout") }
				}
				w.node.rate = 20
				w.clock.Advance(7 * time.Hour)
				w.must(w.rail.RefreshFees(w.ctx, w.d))
				w.watch()
				after := w.states(payout.Sent, payout.Sent)[0]
				if after.TxID == before.TxID || after.Vout != before.Vout || after.BatchID != before.BatchID {
					t.Fatalf("no replacement: %+v", after)
				}
				var a, b wire.MsgTx
				w.must(a.Deserialize(bytes.NewReader(w.node.sent[0])))
				w.must(b.Deserialize(bytes.NewReader(w.node.sent[len(w.node.sent)-1])))
				if a.TxIn[0].PreviousOutPoint != b.TxIn[0].PreviousOutPoint || a.TxOut[0].Value != b.TxOut[0].Value {
					t.Fatal("the replacement has another input or amount")
				}
				newFee := w.balance(ledger.NetworkFee, "payout")
				if newFee <= oldFee {
					t.Fatalf("fee %d after %d", newFee, oldFee)
				}
				w.mine(1)
				done := w.states(payout.Fulfilled, payout.Fulfilled)[0]
				wantTx, wantFee := after.TxID, newFee
				if winner == "original" {
					wantTx, wantFee = before.TxID, oldFee
				}
				if fee := w.balance(ledger.NetworkFee, "payout"); done.TxID != wantTx || fee != wantFee {
					t.Fatalf("%s with fee %d, want %s with %d", done.TxID, fee, wantTx, wantFee)
				}
				if got := w.balance(ledger.InTransit, done.BatchID); got != 0 {
					t.Fatalf("in transit %d", got)
				}
				// The change of the confirmed transaction can be spent, whichever transaction that is.
				w.node.broadcast = nil
				w.mine(6)
				w.release(3_000_000)
				w.watch()
				outs := w.outputs()
				for _, o := range outs {
					if o.State == payout.Queued {
						t.Fatal("the wallet cannot spend the change")
					}
				}
			})
		})
	}
}

func TestAReorganizationRevertsOnlyTheConfirmation(t *testing.T) {
	run(t, func(w *fixture) {
		w.fund(5_000_000)
		w.release(1_000_000)
		w.watch()
		w.mine(1)
		first := w.states(payout.Fulfilled)[0]
		w.must(w.node.Reorg(w.ctx, 1))
		w.watch()
		if got, fee := w.balance(ledger.InTransit, w.states(payout.Sent)[0].BatchID),
			w.balance(ledger.NetworkFee, "payout"); got != 1_000_000+fee {
			t.Fatalf("in transit %d, fee %d", got, fee)
		}
		// The network drops the transaction, and receives it again.
		w.must(w.node.Evict(w.ctx, first.TxID))
		w.watch()
		calls := w.node.calls
		w.clock.Advance(time.Hour)
		w.must(w.rail.RefreshFees(w.ctx, w.d))
		w.watch()
		if w.node.calls == calls {
			t.Fatal("not broadcast again")
		}
		for _, raw := range w.node.sent {
			if !bytes.Equal(raw, w.node.sent[0]) {
				t.Fatal("other bytes were broadcast")
			}
		}
		w.mine(2)
		last := w.states(payout.Fulfilled)[0]
		if last.TxID != first.TxID {
			t.Fatal("a new transaction")
		}
		if got := w.balance(ledger.InTransit, last.BatchID); got != 0 {
			t.Fatalf("in transit %d", got)
		}
		if fee := w.balance(ledger.NetworkFee, "payout"); fee <= 0 || fee > 2_000 {
			t.Fatalf("fee %d", fee)
		}
	})
}

func TestOnlyADeepConflictReopensAPayout(t *testing.T) {
	run(t, func(w *fixture) {
		w.fund(2_000_000)
		w.node.broadcast = func([]byte) (bool, error) { return false, errors.New("timeout") }
		w.release(1_000_000)
		w.must(w.runner.Drain(w.ctx))
		doubt := w.states(payout.UnknownOutcome)[0]

		raw := w.conflicting(w.node.sent[0], 2_000_000)
		w.broadcastUnknown(raw)
		w.states(payout.UnknownOutcome)

		w.node.broadcast = nil
		w.mine(3)
		w.clock.Advance(time.Hour)
		w.watch()
		w.states(payout.UnknownOutcome) // three confirmations of the conflicting transaction are not final
		w.mine(3)
		w.clock.Advance(time.Hour)
		w.must(w.rail.RefreshFees(w.ctx, w.d))
		w.watch()
		again := w.states(payout.Sent)[0]
		if again.TxID == doubt.TxID || again.BatchID == doubt.BatchID {
			t.Fatalf("not paid again: %+v", again)
		}
		if got := w.balance(ledger.InTransit, doubt.BatchID); got != 0 {
			t.Fatalf("the dead batch still holds %d", got)
		}
		w.mine(1)
		w.states(payout.Fulfilled)
	})
}

// secondNode is a second node, which can be down.
type secondNode struct {
	chain.Source
	down bool
}

func (s *secondNode) Tip(ctx context.Context) (int64, string, error) {
	if s.down {
		return 0, "", errors.New("connection refused")
	}
	return s.Source.Tip(ctx)
}

// silentNode is a second node that does not answer, and counts requests.
type silentNode struct {
	chain.Source
	asked int
}

func (m *silentNode) Tx(context.Context, string) (chain.Tx, error) {
	m.asked++
	return chain.Tx{}, errors.New("timeout")
}

// A witness that does not answer is asked only once about many refused payouts: otherwise the job would exceed its
// time before storing the answers.
func TestASilentWitnessIsAskedOncePerBroadcast(t *testing.T) {
	run(t, func(w *fixture) {
		w.fund(2_000_000)
		w.fund(2_000_000)
		w.node.broadcast = func([]byte) (bool, error) {
			return false,
				fmt.Errorf("%w: mempool min fee not met", chain.ErrRejected)
		}
		ids := make([]string, 0, 2)
		for range cap(ids) {
			w.release(1_000_000)
			w.must(w.runner.Drain(w.ctx))
		}
		for _, o := range w.states(payout.UnknownOutcome, payout.UnknownOutcome) {
			ids = append(ids, o.TxID)
		}
		witness := &silentNode{Source: w.node.Chain}
		rail, err := bitcoinrail.New(bitcoinrail.Config{
			Chain: network, Source: w.node, Pool: w.pool, Signer: w.signer, Log: slog.New(slog.DiscardHandler),
			Witnesses: []chain.Witness{{Source: witness, Name: "second"}},
		})
		w.must(err)
		w.must(rail.Send(w.ctx, w.d, company, ids))
		if witness.asked != 1 {
			w.t.Errorf("asked %d times", witness.asked)
		}
		w.states(payout.UnknownOutcome, payout.UnknownOutcome)
	})
}

// If there is a second node, a conflict reported by one node only is not final: the outcome stays unknown while the
// other does not answer.
func TestAConflictNeedsBothNodes(t *testing.T) {
	run(t, func(w *fixture) {
		witness := &secondNode{Source: w.node.Chain}
		w.watcher.SetWitnesses([]chain.Witness{{Source: witness, Name: "second"}}, 0)
		w.fund(2_000_000)
		w.node.broadcast = func([]byte) (bool, error) { return false, errors.New("timeout") }
		w.release(1_000_000)
		w.must(w.runner.Drain(w.ctx))
		w.broadcastUnknown(w.conflicting(w.node.sent[0], 2_000_000))
		witness.down = true
		nudge := func() {
			w.clock.Advance(time.Hour)
			w.must(w.rail.RefreshFees(w.ctx, w.d))
			w.watch()
		}
		w.mine(7)
		w.node.broadcast = nil
		nudge()
		doubt := w.states(payout.UnknownOutcome)[0]
		witness.down = false
		for range 12 { // a witness that was down is retried after some blocks
			w.mine(1)
		}
		nudge()
		if again := w.states(payout.Sent)[0]; again.TxID == doubt.TxID {
			t.Fatalf("not paid again: %+v", again)
		}
		w.mine(1)
		w.states(payout.Fulfilled)
	})
}

// index returns the index of an address of the wallet. The pool creates addresses ahead, so the first one need not
// have the first index.
func (w *fixture) index(address string) uint32 {
	w.t.Helper()
	for i := range uint32(1_000) {
		at, err := w.signer.Deriver().Address(chain.External, i)
		w.must(err)
		if at == address {
			return i
		}
	}
	w.t.Fatalf("%s is not an address of the wallet", address)
	return 0
}

// broadcastUnknown broadcasts a transaction that spends coins of the wallet and that this service did not make. It
// pauses payouts; staff then resume them.
func (w *fixture) broadcastUnknown(raw []byte) {
	w.t.Helper()
	w.must(w.node.Chain.Broadcast(w.ctx, raw))
	w.watch()
	w.write(func(ctx context.Context, tx *db.Tx) error {
		if why, err := payout.Paused(ctx, tx); err != nil || why == "" {
			w.t.Errorf("payouts are not paused by an unknown transaction: %v", err)
		}
		return payout.SetPaused(ctx, tx, "")
	})
}

// conflicting returns a transaction that spends the first coin of a signed transaction back to the wallet, as another
// program with the wallet's keys would. The coin is at the first funded address.
func (w *fixture) conflicting(signed []byte, amount int64) []byte {
	w.t.Helper()
	var ours wire.MsgTx
	w.must(ours.Deserialize(bytes.NewReader(signed)))
	own := w.funded[0]
	index := w.index(own)
	script, err := bitcoin.AddressScript(own, "regtest")
	w.must(err)
	coin := ours.TxIn[0].PreviousOutPoint
	tx := wire.NewMsgTx(2)
	tx.AddTxIn(wire.NewTxIn(&coin, nil, nil))
	tx.AddTxOut(wire.NewTxOut(amount-5_000, script))
	raw, _, err := w.signer.Sign(tx, []chain.WalletCoin{{Outpoint: chain.Outpoint{TxID: coin.Hash.String(),
		Vout: coin.Index},
		Address: own, Amount: amount, Branch: chain.External, Index: index}})
	w.must(err)
	return raw
}

func TestAConflictAlsoEndsDependentTransactions(t *testing.T) {
	run(t, func(w *fixture) {
		w.fund(2_000_000)
		w.release(500_000)
		w.watch()
		w.clock.Advance(time.Second)
		w.release(500_000)
		w.watch()
		before := w.states(payout.Sent, payout.Sent)
		if before[0].TxID == before[1].TxID {
			t.Fatal("no chain of transactions to test")
		}
		var first wire.MsgTx
		w.must(first.Deserialize(bytes.NewReader(w.node.sent[0])))
		w.must(w.node.Evict(w.ctx, first.TxID()))
		w.broadcastUnknown(w.conflicting(w.node.sent[0], 2_000_000))
		w.mine(7)
		for range 4 {
			w.clock.Advance(time.Hour)
			w.must(w.rail.RefreshFees(w.ctx, w.d))
			w.watch()
		}
		w.mine(1)
		for i, o := range w.states(payout.Fulfilled, payout.Fulfilled) {
			if o.TxID == before[0].TxID || o.TxID == before[1].TxID || w.received(o.TxID, o.Address) != o.Amount.Units() {
				t.Fatalf("output %d: %+v", i, o)
			}
			if got := w.balance(ledger.InTransit, before[i].BatchID); got != 0 {
				t.Fatalf("a dead batch still holds %d", got)
			}
		}
	})
}

func TestBumpRefusesHarmfulReplacements(t *testing.T) {
	bump := func(w *fixture, batch string, rate int64, want error) {
		w.t.Helper()
		err := w.d.Write(w.ctx, func(ctx context.Context, tx *db.Tx) error {
			_, err := w.rail.Bump(ctx, tx, company, batch, rate)
			return err
		})
		if !errors.Is(err, want) {
			w.t.Fatalf("bump: %v, want %v", err, want)
		}
	}
	run(t, func(w *fixture) {
		w.fund(2_000_000)
		w.release(500_000)
		w.watch()
		first := w.states(payout.Sent)[0]
		bump(w, first.BatchID, 151, onchain.ErrFeeTooHigh)
		bump(w, "pob_none", 10, apierr.NotFoundErr)
		w.release(1_490_000)
		w.watch()
		bump(w, first.BatchID, 10, onchain.ErrChangeSpent)
		for _, o := range w.states(payout.Sent, payout.Sent) {
			if o.BatchID != first.BatchID {
				bump(w, o.BatchID, 140, onchain.ErrUnaffordable)
			}
		}
		w.mine(1)
		bump(w, first.BatchID, 10, payout.ErrProcessing)
	})
}
