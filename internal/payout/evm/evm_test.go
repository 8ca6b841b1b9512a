package evm_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evmtest"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	evmrail "github.com/stipend/stipend/internal/payout/evm"
	"github.com/stipend/stipend/internal/payout/onchain"
	"github.com/stipend/stipend/internal/payout/payouttest"
)

// Payouts on a real node with failures and changing fees. The chain proves that every payee is paid once.
func TestPayoutsOnARealNode(t *testing.T) {
	node := evmtest.Start(t)
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		r := &realNode{newRealFixture(f, node), node}
		r.assetsAndReorganization()
		r.requests()
		r.silence()
		r.raisedFee()
		r.feeAboveTheLimit()
		r.refusingToken()
		r.shortage()
		r.CheckLedger()
		if why := r.Paused(); why != "" {
			t.Errorf("paused: %s", why)
		}
		r.unknownTransactions()
	})
}

// realNode has the steps of TestPayoutsOnARealNode, which run in order on one chain.
type realNode struct {
	*fixture
	node *evmtest.Node
}

// Payments of three assets are sent in the order of their nonces, and confirmed again after a reorganization.
func (w *realNode) assetsAndReorganization() {
	amounts := []money.Amount{usdc(5_000_000), eth(3_000_000), money.New(money.USDT, 7_000_000)}
	var to, ids []string
	for _, a := range amounts {
		address, id := w.add(a)
		to, ids = append(to, address), append(ids, id)
	}
	w.sync()
	fees := int64(0)
	for i, id := range ids {
		o, a := w.Want(id, payout.Sent, ""), amounts[i]
		code, dim := ledger.WalletOf(a.Asset(), "base")
		w.holds(ledger.OutputPayable, id, money.Zero(a.Asset()))
		w.holds(code, dim, a) // the amount is in transit until the payment is in a block
		fee := w.Balance(ledger.InTransit, o.BatchID, money.ETH).Units()
		if a.Asset() == money.ETH {
			fee -= a.Units()
		} else {
			w.holds(ledger.InTransit, o.BatchID, a)
		}
		if fees += fee; fee <= 0 {
			w.Errorf("a fee of %d is in transit with %s", fee, a.Asset())
		}
	}
	w.holds(ledger.NetworkFee, "payout", eth(fees))
	w.mine()
	for i, a := range amounts {
		o := w.Want(ids[i], payout.Fulfilled, "")
		w.paid(to[i], a)
		w.holds(ledger.InTransit, o.BatchID, money.Zero(a.Asset()))
		w.holds(ledger.InTransit, o.BatchID, eth(0))
		// the wallet's ETH also paid the fees
		if code, dim := ledger.WalletOf(a.Asset(), "base"); a.Asset() != money.ETH {
			w.holds(code, dim, money.Zero(a.Asset()))
		}
	}

	before := w.Want(ids[2], payout.Fulfilled, "")
	w.Must(w.lab.Reorg(w.Context(), 1))
	w.sync()
	w.Want(ids[2], payout.Sent, "")
	w.mine()
	if after := w.Want(ids[2], payout.Fulfilled, ""); after.TxID != before.TxID {
		w.Errorf("paid again by %s", after.TxID)
	}
	w.paid(to[2], amounts[2])
}

// The number of requests to the node does not depend on the number of payouts.
func (w *realNode) requests() {
	count := func(payees ...string) int64 {
		before := w.node.Requests()
		ids := w.addTo(usdc(100), payees...)
		w.Drain()
		requests := w.node.Requests() - before
		w.mine()
		for _, id := range ids {
			w.Want(id, payout.Fulfilled, "")
		}
		return requests
	}
	if one, three := count(w.newPayee()), count(w.newPayee(), w.newPayee(), w.newPayee()); one != three {
		w.Errorf("%d requests for one payout, %d for three", one, three)
	}
}

// An output stays queued while the node does not answer.
func (w *realNode) silence() {
	w.node.SetConnection(evmtest.RequestsLost)
	address, id := w.add(usdc(1_000_000))
	w.Drain()
	w.Want(id, payout.Queued, "")
	w.node.SetConnection(evmtest.Connected)
	w.Clock.Advance(time.Minute)
	w.Must(w.rail.RefreshFees(w.Context(), w.DB))
	w.sync()
	w.Want(id, payout.Sent, "")
	w.mine()
	w.Want(id, payout.Fulfilled, "")
	w.paid(address, usdc(1_000_000))
}

// Blocks grow expensive after the payment was sent: it is replaced at its nonce, and one of the two is mined.
func (w *realNode) raisedFee() {
	address, id := w.add(usdc(2_000_000))
	w.sync()
	first := w.Want(id, payout.Sent, "")
	w.baseFee(15_000_000_000)
	w.Want(id, payout.Sent, "")
	w.wait(3 * time.Minute)
	if second := w.Want(id, payout.Sent, ""); second.TxID == first.TxID {
		w.Fatal("the fee was not raised")
	}
	w.mine()
	w.Want(id, payout.Fulfilled, "")
	w.paid(address, usdc(2_000_000))
}

// The base fee rises above the limit: the sent transaction is stuck and is not replaced, and the queue waits. The
// delay is reported once.
func (w *realNode) feeAboveTheLimit() {
	w.delays()
	stuckTo, stuck := w.add(usdc(2_500_000))
	w.sync()
	first := w.Want(stuck, payout.Sent, "")
	w.baseFee(30_000_000_000)
	w.wait(3 * time.Minute)
	w.delays("fee_too_high 1 2.500000 USDC base")
	address, id := w.add(usdc(3_000_000))
	for range 3 {
		w.wait(time.Minute)
	}
	w.Want(id, payout.Queued, "")
	if w.Want(stuck, payout.Sent, "").TxID != first.TxID {
		w.Error("a fee above the limit was offered")
	}
	w.Must(w.node.SetBaseFee(w.Context(), 1_000_000_000))
	w.mine()
	w.wait(time.Minute)
	w.Want(stuck, payout.Fulfilled, "")
	w.paid(stuckTo, usdc(2_500_000))
	w.Want(id, payout.Sent, "")
	w.mine()
	w.paid(address, usdc(3_000_000))
	w.wait(time.Minute)
	w.delays("fee_too_high 1 2.500000 USDC base")
}

// A token contract rejects a payee: first when the node estimates the payment, then when a block executes it. In the
// block, the failure counts only once a second node reports it too.
func (w *realNode) refusingToken() {
	address, id := w.add(usdc(4_000_000))
	w.Must(w.node.Blacklist(w.Context(), money.USDC, address, true))
	w.sync()
	w.Want(id, payout.Failed, onchain.ReasonRefused)
	w.paid(address, usdc(0))
	address, id = w.add(usdc(4_500_000))
	w.sync()
	// Evicting the transaction keeps it out of the block that blacklists the payee.
	w.Must(w.lab.Evict(w.Context(), w.Want(id, payout.Sent, "").TxID))
	w.Must(w.node.Blacklist(w.Context(), money.USDC, address, true))
	w.wait(time.Minute) // the transaction is broadcast again
	witness := &payouttest.Witness{Source: w.node, Down: true}
	w.watcher.SetWitnesses([]chain.Witness{{Source: witness, Name: "second"}}, 0)
	w.mine()
	w.wait(time.Minute)
	w.Want(id, payout.Sent, "") // only one node reports that the transaction failed
	witness.Down = false
	for range 11 { // a witness that was down is retried after some blocks
		w.mine()
	}
	w.wait(time.Minute)
	w.Want(id, payout.Failed, onchain.ReasonRefused)
	w.paid(address, usdc(0))
	w.watcher.SetWitnesses(nil, 0)
}

// An output above the balance waits and does not fail.
func (w *realNode) shortage() {
	_, id := w.add(usdc(900_000_000_000))
	w.sync()
	w.Want(id, payout.Queued, "")
	w.wait(time.Minute) // deposits may be on their way to the account
	w.delays("fee_too_high 1 2.500000 USDC base")
	w.wait(2 * time.Minute)
	w.delays("fee_too_high 1 2.500000 USDC base", "insufficient_funds 1 900000.000000 USDC base")
}

// spend broadcasts a payment from the hot wallet that this service did not make.
func (w *realNode) spend(to string, units int64) (txid string) {
	w.Helper()
	state, err := w.node.State(w.Context(), w.hot)
	w.Must(err)
	raw, txid, _, err := w.lab.SignOwn(w.Context(), state.Nonce, 2_000_000_000, chain.Output{Address: to,
		Amount: units})
	w.Must(err)
	w.Must(w.node.Broadcast(w.Context(), raw))
	return txid
}

func (w *realNode) resume() {
	w.Helper()
	w.Pause("")
	w.wait(time.Minute)
}

// Another program uses the key: payouts are paused until staff have explained the transactions.
func (w *realNode) unknownTransactions() {
	w.spend(w.newPayee(), 1)
	w.mine()
	if w.Paused() == "" {
		w.Error("payouts are not paused after another use of the hot wallet's key")
	}

	// MarkPaid accepts a transaction that this service made before its database was restored, and that paid an output
	// which is queued again. It accepts the transaction once, for the exact amount and address. Then payouts resume, and
	// no payee is paid twice.
	address, id := w.add(usdc(6_000_000))
	_, other := w.add(usdc(6_000_000))
	w.sync()
	w.Want(id, payout.Queued, "")
	txid := w.spend(address, 6_000_000)
	markPaid := func(id string, want error) {
		w.Helper()
		seen, err := w.node.Tx(w.Context(), txid)
		w.Must(err)
		if err := w.DB.Write(w.Context(), func(ctx context.Context, tx *db.Tx) error {
			_, err := evmrail.MarkPaid(ctx, tx, w.node.Spec(), id, seen)
			return err
		}); !errors.Is(err, want) {
			w.Errorf("output %s is marked as paid: %v, want %v", id, err, want)
		}
	}
	w.mine()
	markPaid(id, onchain.ErrNoPayment) // one block is not enough
	for range 5 {
		w.mine()
	}
	markPaid(other, onchain.ErrNoPayment)
	markPaid(id, nil)
	w.Want(id, payout.Fulfilled, "")
	markPaid(id, onchain.ErrNotQueued)
	// The balance now also pays the outputs that are ahead in the queue.
	w.Must(w.node.Fund(w.Context(), w.hot, 1_000_000_000_000, 1_000_000_000_000))
	w.resume()
	w.Want(other, payout.Sent, "")
	w.mine()
	w.Want(other, payout.Fulfilled, "")
	w.paid(address, usdc(6_000_000))

	// An unknown transaction pauses payouts when it is found, and once more before the next nonce is used. After staff
	// resume payouts the second time, the queue is paid.
	w.spend(w.newPayee(), 1)
	w.mine()
	address, id = w.add(usdc(7_500_000))
	w.resume()
	w.Want(id, payout.Queued, "")
	w.resume()
	w.Want(id, payout.Sent, "")
	w.mine()
	w.paid(address, usdc(7_500_000))
	w.Read(func(ctx context.Context, tx *db.Tx) error {
		spends, err := chain.UnknownSpends(ctx, tx, "base")
		if len(spends) != 2 { // no payout explains the two transfers of one unit
			w.Errorf("unknown transactions: %v", spends)
		}
		return err
	})
}
