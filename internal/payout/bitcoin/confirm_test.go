package bitcoin_test

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/stipend/stipend/internal/payout/payouttest"
)

func TestAStuckTransactionIsReplacedWithAHigherFee(t *testing.T) {
	for _, winner := range []string{"replacement", "original"} {
		t.Run(winner, func(t *testing.T) {
			run(t, func(w *fixture) {
				w.fund(5_000_000)
				w.release(1_000_000, 200_000)
				w.watch()
				before, oldFee := w.states(payout.Sent, payout.Sent)[0], w.fee()
				if winner == "original" { // the network does not receive the replacement
					w.node.answer(false, errors.New("timeout"))
				}
				w.node.rate = 20
				w.wait(7 * time.Hour)
				after, newFee := w.states(payout.Sent, payout.Sent)[0], w.fee()
				if after.TxID == before.TxID || after.Vout != before.Vout || after.BatchID != before.BatchID {
					w.Fatalf("no replacement: %+v", after)
				}
				a, b := w.decode(0), w.decode(-1)
				if a.TxIn[0].PreviousOutPoint != b.TxIn[0].PreviousOutPoint || a.TxOut[0].Value != b.TxOut[0].Value {
					w.Fatal("the replacement has another input or amount")
				}
				if newFee <= oldFee {
					w.Fatalf("fee %d after %d", newFee, oldFee)
				}
				w.mine(1)
				done := w.states(payout.Fulfilled, payout.Fulfilled)[0]
				wantTx, wantFee := after.TxID, newFee
				if winner == "original" {
					wantTx, wantFee = before.TxID, oldFee
				}
				if fee := w.fee(); done.TxID != wantTx || fee != wantFee {
					w.Fatalf("%s with fee %d, want %s with %d", done.TxID, fee, wantTx, wantFee)
				}
				w.holds(ledger.InTransit, done.BatchID, 0)
				// The change of the confirmed transaction can be spent, whichever transaction that is.
				w.node.broadcast = nil
				w.mine(6)
				w.release(3_000_000)
				w.watch()
				for _, o := range w.outputs() {
					if o.State == payout.Queued {
						w.Fatal("the wallet cannot spend the change")
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
		w.Must(w.node.Reorg(w.Context(), 1))
		w.watch()
		w.holds(ledger.InTransit, w.states(payout.Sent)[0].BatchID, 1_000_000+w.fee())
		// The network drops the transaction, and receives it again.
		w.Must(w.node.Evict(w.Context(), first.TxID))
		w.watch()
		calls := len(w.node.sent)
		w.wait(time.Hour)
		if len(w.node.sent) == calls {
			w.Fatal("not broadcast again")
		}
		w.sentOnlyOnce()
		w.mine(2)
		last := w.states(payout.Fulfilled)[0]
		if last.TxID != first.TxID {
			w.Fatal("a new transaction")
		}
		w.holds(ledger.InTransit, last.BatchID, 0)
		if fee := w.fee(); fee <= 0 || fee > 2_000 {
			w.Fatalf("fee %d", fee)
		}
	})
}

// A conflicting transaction reopens a payout only when it is deep in the chain and every node has it.
func TestOnlyAFinalConflictReopensAPayout(t *testing.T) {
	for name, c := range map[string]struct {
		witnessed bool // there is a second node, which is down at first
		mined     int  // number of blocks after which the conflict is not final
		more      int  // number of further blocks after which it is final
	}{
		"three confirmations are not final": {false, 3, 3},
		"the second node is down":           {true, 7, 12},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *fixture) {
				witness := &payouttest.Witness{Source: w.node.Chain}
				if c.witnessed {
					w.watcher.SetWitnesses([]chain.Witness{{Source: witness, Name: "second"}}, 0)
				}
				w.fund(2_000_000)
				w.node.answer(false, errors.New("timeout"))
				w.release(1_000_000)
				w.Drain()
				w.broadcastUnknown(w.conflicting(2_000_000))
				w.states(payout.UnknownOutcome)
				witness.Down = true
				w.mine(c.mined)
				w.node.broadcast = nil
				w.wait(time.Hour)
				doubt := w.states(payout.UnknownOutcome)[0]
				witness.Down = false
				for range c.more { // a witness that was down is retried after some blocks
					w.mine(1)
				}
				w.wait(time.Hour)
				again := w.states(payout.Sent)[0]
				if again.TxID == doubt.TxID || again.BatchID == doubt.BatchID {
					w.Fatalf("not paid again: %+v", again)
				}
				w.holds(ledger.InTransit, doubt.BatchID, 0)
				w.mine(1)
				w.states(payout.Fulfilled)
			})
		})
	}
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
		w.node.answer(false, fmt.Errorf("%w: mempool min fee not met", chain.ErrRejected))
		for range 2 {
			w.release(1_000_000)
			w.Drain()
		}
		var ids []string
		for _, o := range w.states(payout.UnknownOutcome, payout.UnknownOutcome) {
			ids = append(ids, o.TxID)
		}
		witness := &silentNode{Source: w.node.Chain}
		w.config.Witnesses = []chain.Witness{{Source: witness, Name: "second"}}
		rail, err := bitcoinrail.New(w.config)
		w.Must(err)
		w.Must(rail.Send(w.Context(), w.DB, payouttest.Company, ids))
		if witness.asked != 1 {
			w.Errorf("asked %d times", witness.asked)
		}
		w.states(payout.UnknownOutcome, payout.UnknownOutcome)
	})
}

// broadcastUnknown broadcasts a transaction that spends coins of the wallet and that this service did not make. It
// pauses payouts; staff then resume them.
func (w *fixture) broadcastUnknown(raw []byte) {
	w.Helper()
	w.Must(w.node.Chain.Broadcast(w.Context(), raw))
	w.watch()
	if w.Paused() == "" {
		w.Error("payouts are not paused by an unknown transaction")
	}
	w.Pause("")
}

// conflicting returns a transaction that spends the first coin of the first broadcast back to the wallet, as another
// program with the wallet's keys would. The coin has the given amount and is at the first funded address.
func (w *fixture) conflicting(amount int64) []byte {
	w.Helper()
	own := w.funded[0]
	index := uint32(0) // the pool derives addresses ahead, so the address may have any index
	for at := ""; at != own; index++ {
		var err error
		at, err = w.signer.Deriver().Address(chain.External, index)
		w.Must(err)
		if index > 1_000 {
			w.Fatalf("%s is not an address of the wallet", own)
		}
	}
	script, err := bitcoin.AddressScript(own, "regtest")
	w.Must(err)
	coin := w.decode(0).TxIn[0].PreviousOutPoint
	tx := wire.NewMsgTx(2)
	tx.AddTxIn(wire.NewTxIn(&coin, nil, nil))
	tx.AddTxOut(wire.NewTxOut(amount-5_000, script))
	raw, _, err := w.signer.Sign(tx, []chain.WalletCoin{{
		Outpoint: chain.Outpoint{TxID: coin.Hash.String(), Vout: coin.Index},
		Address:  own, Amount: amount, Branch: chain.External, Index: index - 1}})
	w.Must(err)
	return raw
}

func TestAConflictAlsoEndsDependentTransactions(t *testing.T) {
	run(t, func(w *fixture) {
		w.fund(2_000_000)
		w.release(500_000)
		w.watch()
		w.Clock.Advance(time.Second)
		w.release(500_000)
		w.watch()
		before := w.states(payout.Sent, payout.Sent)
		if before[0].TxID == before[1].TxID {
			w.Fatal("no chain of transactions to test")
		}
		first := w.decode(0)
		w.Must(w.node.Evict(w.Context(), first.TxID()))
		w.broadcastUnknown(w.conflicting(2_000_000))
		w.mine(7)
		for range 4 {
			w.wait(time.Hour)
		}
		w.mine(1)
		for i, o := range w.states(payout.Fulfilled, payout.Fulfilled) {
			if o.TxID == before[0].TxID || o.TxID == before[1].TxID {
				w.Fatalf("output %d: %+v", i, o)
			}
			w.paid(o)
			w.holds(ledger.InTransit, before[i].BatchID, 0)
		}
	})
}

// A reorganization removes the deposit whose coin a payout spends, and the payer spends the deposit's inputs elsewhere:
// neither that payout nor the one that spends its change can ever be confirmed.
func TestAVanishedDepositEndsThePayoutsThatSpendIt(t *testing.T) {
	run(t, func(w *fixture) {
		w.fund(2_000_000)
		deposit := w.inputs()[0]
		for range 2 {
			w.release(500_000)
			w.watch()
			w.Clock.Advance(time.Second)
		}
		before := w.states(payout.Sent, payout.Sent)
		if before[0].TxID == before[1].TxID {
			w.Fatal("no chain of transactions to test")
		}
		w.Must(w.node.Reorg(w.Context(), chain.DefaultConfirmations))
		_, err := w.node.Replace(w.Context(), deposit)
		w.Must(err)
		w.watch()
		w.mine(1)
		w.wait(time.Hour)
		for _, o := range w.outputs() {
			if o.State == payout.Queued || o.State == payout.Fulfilled {
				w.Fatalf("%s after one confirmation of the conflicting transaction: %+v", o.State, o)
			}
		}
		w.mine(5)
		w.wait(time.Hour)
		w.fund(3_000_000)
		for range 3 {
			w.wait(time.Hour)
			w.mine(1)
		}
		for i, o := range w.states(payout.Fulfilled, payout.Fulfilled) {
			w.paid(o)
			w.holds(ledger.InTransit, before[i].BatchID, 0)
		}
	})
}

// inputs returns the transactions of the wallet's coins.
func (w *fixture) inputs() (txids []string) {
	w.Helper()
	w.Read(func(ctx context.Context, tx *db.Tx) error {
		coins, err := chain.Coins(ctx, tx, network)
		for _, c := range coins {
			txids = append(txids, c.TxID)
		}
		return err
	})
	return txids
}

func TestBumpRefusesHarmfulReplacements(t *testing.T) {
	run(t, func(w *fixture) {
		bump := func(batch string, rate int64, want error) {
			w.Helper()
			err := w.DB.Write(w.Context(), func(ctx context.Context, tx *db.Tx) error {
				_, err := w.rail.Bump(ctx, tx, payouttest.Company, batch, rate)
				return err
			})
			if !errors.Is(err, want) {
				w.Fatalf("bump: %v, want %v", err, want)
			}
		}
		w.fund(2_000_000)
		w.release(500_000)
		w.watch()
		first := w.states(payout.Sent)[0]
		bump(first.BatchID, 151, onchain.ErrFeeTooHigh)
		bump("pob_none", 10, apierr.NotFoundErr)
		w.release(1_490_000)
		w.watch()
		bump(first.BatchID, 10, onchain.ErrChangeSpent)
		for _, o := range w.states(payout.Sent, payout.Sent) {
			if o.BatchID != first.BatchID {
				bump(o.BatchID, 140, onchain.ErrUnaffordable)
			}
		}
		w.mine(1)
		bump(first.BatchID, 10, payout.ErrProcessing)
	})
}
