package bitcoin_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/btcsuite/btcd/wire/v2"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	bitcoinrail "github.com/stipend/stipend/internal/payout/bitcoin"
	"github.com/stipend/stipend/internal/payout/payouttest"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
	"github.com/stipend/stipend/internal/signer/signertest"
)

const network = "bitcoin-test"

// node is the simulated chain with a connection that a test can cut. It records the broadcasts.
type node struct {
	*bitcoinsim.Chain
	rate       int64
	connection payouttest.Connection
	broadcast  func() (deliver bool, err error) // answer to a broadcast; nil delivers it

	mu       sync.Mutex
	sent     [][]byte
	accepted map[string][]byte // accepted transactions by txid
}

func (n *node) FeeRate(context.Context) (int64, error) { return n.rate, nil }

func (n *node) Broadcast(ctx context.Context, raw []byte) error {
	return n.connection.Send(func() (err error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.sent = append(n.sent, raw)
		deliver := true
		if n.broadcast != nil {
			deliver, err = n.broadcast()
		}
		if !deliver {
			return err
		}
		if err := n.Chain.Broadcast(ctx, raw); err != nil {
			return err
		}
		var tx wire.MsgTx
		if err := tx.Deserialize(bytes.NewReader(raw)); err != nil {
			return err
		}
		n.accepted[tx.TxID()] = raw
		return err
	})
}

// answer sets the answer to the following broadcasts.
func (n *node) answer(deliver bool, err error) {
	n.broadcast = func() (bool, error) { return deliver, err }
}

// fixture has a hot wallet on a simulated chain, with payouts.
type fixture struct {
	*payouttest.Fixture
	node    *node
	signer  *bitcoin.Signer
	pool    *chain.Pool
	watcher *chain.Watcher
	config  bitcoinrail.Config
	remote  *signertest.Signer // nil if the keys are in the process
	rail    *bitcoinrail.Rail
	funded  []string // addresses paid by fund, in order
	payee   *bitcoin.Deriver
	payees  uint32
}

func run(t *testing.T, f func(w *fixture)) {
	payouttest.RunFixture(t, func(on *payouttest.Fixture) { f(newFixture(on)) })
}

func newFixture(on *payouttest.Fixture) *fixture { return newFixtureWith(on, "") }

// newFixtureWith returns a fixture whose keys are in a signer with a policy, or in the process if policy is "".
func newFixtureWith(on *payouttest.Fixture, policy string) *fixture {
	w := &fixture{Fixture: on, node: &node{Chain: bitcoinsim.New(on.DB), accepted: map[string][]byte{}}}
	w.signer, w.payee = w.key(1), w.key(2).Deriver()
	w.pool = chain.NewPool(w.DB, network, w.signer.Deriver())
	w.Must(w.pool.Start(w.Context()))
	w.watcher = chain.NewWatcher(w.DB, network, w.node, 1, w.Log)
	w.config = bitcoinrail.Config{Chain: network, Source: w.node, Pool: w.pool, Signer: w.signer, Log: w.Log}
	if policy != "" {
		master, err := bitcoin.MasterFromSeed(bytes.Repeat([]byte{1}, 32), "regtest")
		w.Must(err)
		w.remote = signertest.Start(w.T, master, "", policy, w.Clock.Now)
		w.config.Signer, w.config.Remote, w.config.Keys = nil, w.remote.Client, w.signer.Deriver()
	}
	var err error
	w.rail, err = bitcoinrail.New(w.config)
	w.Start(w.rail, err)
	w.Must(w.node.Mine(w.Context(), 1))
	w.feeRate(5)
	w.watch() // a new watcher starts at the current tip
	return w
}

func (w *fixture) key(seed byte) *bitcoin.Signer {
	w.Helper()
	master, err := bitcoin.MasterFromSeed(bytes.Repeat([]byte{seed}, 32), "regtest")
	w.Must(err)
	s, err := bitcoin.ParseXPriv(master, "regtest")
	w.Must(err)
	return s
}

// feeRate sets the fee rate of the network, which the rail then reads.
func (w *fixture) feeRate(rate int64) {
	w.Helper()
	w.node.rate = rate
	w.Must(w.rail.RefreshFees(w.Context(), w.DB))
}

// watch lets the watcher catch up and runs the jobs that follow.
func (w *fixture) watch() {
	w.Helper()
	for progressed := true; progressed; {
		w.Drain()
		var err error
		progressed, err = w.watcher.Step(w.Context())
		w.Must(err)
	}
	w.Drain()
}

// wait lets time pass, reads the fee rate again and watches.
func (w *fixture) wait(d time.Duration) {
	w.Helper()
	w.Clock.Advance(d)
	w.feeRate(w.node.rate)
	w.watch()
}

func (w *fixture) mine(n int) {
	w.Helper()
	w.Must(w.node.Mine(w.Context(), n))
	w.watch()
}

// fund pays confirmed coins to the hot wallet.
func (w *fixture) fund(sats ...int64) {
	w.Helper()
	for i, n := range sats {
		var addr string
		w.Write(func(ctx context.Context, tx *db.Tx) (err error) {
			addr, err = w.pool.NewAddress(ctx, tx, "com_funds", fmt.Sprintf("fund_%d_%d", i, n))
			return err
		})
		_, err := w.node.Pay(w.Context(), addr, n)
		w.Must(err)
		w.funded = append(w.funded, addr)
	}
	w.mine(chain.DefaultConfirmations)
}

// release queues amounts to new addresses of payees, as the release of a payroll does.
func (w *fixture) release(amounts ...int64) []payout.Output {
	w.Helper()
	return w.Queue(w.outputsOf(amounts...)...)
}

// outputsOf returns outputs that pay amounts to new addresses, without queuing them.
func (w *fixture) outputsOf(amounts ...int64) (outs []payout.Output) {
	w.Helper()
	for i, n := range amounts {
		addr, err := w.payee.Address(0, w.payees)
		w.Must(err)
		w.payees++
		outs = append(outs, payout.Output{PaymentID: fmt.Sprintf("pay_%d", i), Rail: payout.RailBitcoin,
			Amount: money.New(money.BTC, n), Address: addr})
	}
	return outs
}

func (w *fixture) outputs() (outs []payout.Output) {
	w.Helper()
	w.Read(func(ctx context.Context, tx *db.Tx) (err error) {
		outs, err = payout.ForPayroll(ctx, tx, payouttest.Company, payouttest.Payroll)
		return err
	})
	return outs
}

// states returns the outputs of the payroll and fails the test unless they have the given states, in order.
func (w *fixture) states(want ...payout.State) []payout.Output {
	w.Helper()
	outs := w.outputs()
	if len(outs) != len(want) {
		w.Fatalf("%d outputs, want %d", len(outs), len(want))
	}
	for i, o := range outs {
		if o.State != want[i] {
			w.Fatalf("output %d is %s (%s), want %s", i, o.State, o.Reason, want[i])
		}
	}
	return outs
}

// all returns the outputs of the payroll and fails the test unless all have the given state.
func (w *fixture) all(want payout.State) []payout.Output {
	w.Helper()
	states := make([]payout.State, len(w.outputs()))
	for i := range states {
		states[i] = want
	}
	return w.states(states...)
}

// holds fails the test unless a ledger account has the given balance in satoshis.
func (w *fixture) holds(code ledger.Code, dim string, want int64) {
	w.Helper()
	if got := w.Balance(code, dim, money.BTC).Units(); got != want {
		w.Fatalf("account %s %s has %d, want %d", code, dim, got, want)
	}
}

// fee returns the network fees posted so far, in satoshis.
func (w *fixture) fee() int64 {
	w.Helper()
	return w.Balance(ledger.NetworkFee, "payout", money.BTC).Units()
}

// paid fails the test unless the transaction of each output pays the whole output.
func (w *fixture) paid(outs ...payout.Output) {
	w.Helper()
	for _, o := range outs {
		tx, err := w.node.Tx(w.Context(), o.TxID)
		w.Must(err)
		var got int64
		for _, out := range tx.Outputs {
			if out.Address == o.Address {
				got += out.Amount
			}
		}
		if got != o.Amount.Units() {
			w.Fatalf("%s got %d, want %s", o.Address, got, o.Amount)
		}
	}
}

// sentOnlyOnce fails the test unless all broadcasts had the same bytes.
func (w *fixture) sentOnlyOnce() {
	w.Helper()
	for _, raw := range w.node.sent {
		if !bytes.Equal(raw, w.node.sent[0]) {
			w.Fatal("other bytes were broadcast")
		}
	}
}

// decode returns a broadcast transaction, counted from 0, or from the last one at -1.
func (w *fixture) decode(i int) (tx wire.MsgTx) {
	w.Helper()
	if i < 0 {
		i += len(w.node.sent)
	}
	w.Must(tx.Deserialize(bytes.NewReader(w.node.sent[i])))
	return tx
}
