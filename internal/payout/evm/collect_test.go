package evm_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/chain/evmtest"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	evmrail "github.com/stipend/stipend/internal/payout/evm"
	"github.com/stipend/stipend/internal/payout/payouttest"
	"github.com/stipend/stipend/internal/testkit"
)

// payerKey is the private key of payer.
var payerKey = append(make([]byte, 31), 7)

const payer = "0xd41c057fd1c78805aac12b0a94a405c0461a6fbb"

// collector has the steps of TestAuthorizedTransfersOnARealNode.
type collector struct {
	*realNode
	pool   *chain.Pool
	claims int
}

// authorize stores an authorized transfer to a new address, and returns it.
func (w *collector) authorize(amount money.Amount) evmrail.Collection {
	w.Helper()
	w.claims++
	id := "clm_" + string(rune('a'+w.claims))
	w.Write(func(ctx context.Context, tx *db.Tx) error {
		address, err := w.pool.NewAddress(ctx, tx, payouttest.Company, id)
		if err != nil {
			return err
		}
		a := evm.Authorization{
			From: testkit.Must(evm.ParseAddress(payer)), To: testkit.Must(evm.ParseAddress(address)), Amount: amount,
			ValidBefore: math.MaxInt32, Nonce: [32]byte{byte(w.claims), 1},
		}
		copy(a.Nonce[2:], w.hot) // each run on the node has its own wallet
		w.Must(evmtest.Authorize(w.node.Spec(), payerKey, &a))
		w.Must(w.node.Spec().Verify(a))
		return evmrail.Collect(ctx, tx, w.node.Spec(), payouttest.Company, id, a, tx.Now().Add(10*time.Minute))
	})
	return w.find(id)
}

func (w *collector) find(objectID string) (c evmrail.Collection) {
	w.Helper()
	w.Read(func(ctx context.Context, tx *db.Tx) error {
		all, err := evmrail.CollectionsOf(ctx, tx, payouttest.Company, objectID)
		if err == nil {
			c = all[0]
		}
		return err
	})
	return c
}

// state returns what became of a transfer.
func (w *collector) state(c evmrail.Collection) (s evmrail.Collected) {
	w.Helper()
	c = w.find(c.ObjectID)
	w.Read(func(ctx context.Context, tx *db.Tx) (err error) {
		s, err = c.State(ctx, tx)
		return err
	})
	return s
}

// settled checks that a transfer arrived once, as one deposit.
func (w *collector) settled(c evmrail.Collection) evmrail.Collected {
	w.Helper()
	w.paid(c.To.String(), c.Amount)
	s := w.state(c)
	if !s.Done || s.Reason != "" {
		w.Fatalf("the transfer is %+v", s)
	}
	w.Read(func(ctx context.Context, tx *db.Tx) error {
		out, err := chain.GetOutput(ctx, tx, "base", chain.Outpoint{TxID: s.TxID})
		if err != nil || out.State != chain.Mined || out.ObjectID != c.ObjectID || out.Amount != c.Amount.Units() {
			w.Errorf("the deposit is %+v: %v", out, err)
		}
		return nil
	})
	return s
}

// failed checks that a transfer failed for a reason, and that nothing arrived.
func (w *collector) failed(c evmrail.Collection, reason string) {
	w.Helper()
	if s := w.state(c); s.Reason != reason || s.Done {
		w.Errorf("the transfer is %+v, want the reason %s", s, reason)
	}
}

// batches returns the number of signed transfers.
func (w *collector) batches() (n int64) {
	w.Helper()
	w.Read(func(ctx context.Context, tx *db.Tx) error {
		return tx.QueryRow(ctx, "SELECT COUNT(*) FROM payout_batches WHERE purpose = 'collect'").Scan(&n)
	})
	return n
}

// Transfers that payers authorized arrive once, whenever the process stops and whichever requests and responses are
// lost. The chain proves it. Transfers that cannot succeed are not sent.
func TestAuthorizedTransfersOnARealNode(t *testing.T) {
	node := evmtest.Start(t)
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		w := &collector{realNode: &realNode{newRealFixture(f, node), node}}
		w.pool = chain.NewPool(w.DB, "base", w.keys.Deriver())
		w.Must(node.Fund(w.Context(), payer, 0, 1_000_000_000))
		w.Write(func(ctx context.Context, tx *db.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO rates (asset, rate, sources, observed_at, valid_to)
				VALUES ('ETH', '2500', 'x', 1, $1), ('USDC', '1', 'x', 1, $1)`, db.Micros(tx.Now().Add(1000*time.Hour)))
			return err
		})
		w.arrives()
		w.stops()
		w.lost()
		w.raised()
		w.reorganized()
		w.submittedByOthers()
		w.forged()
		w.impossible()
		w.CheckLedger()
		if why := w.Paused(); why != "" {
			t.Errorf("paused: %s", why)
		}
	})
}

// The transfer is seen before it is in a block. Its gas is booked, and the hot wallet's tokens are not.
func (w *collector) arrives() {
	before := w.Balance(ledger.OtherWallets, "base", money.USDC)
	c := w.authorize(usdc(20_000_000))
	w.sync()
	if s := w.state(c); !s.Open() || s.TxID == "" {
		w.Fatalf("before its block the transfer is %+v", s)
	}
	w.Must(w.watcher.Sync(w.Context()))
	w.Read(func(ctx context.Context, tx *db.Tx) error {
		out, err := chain.GetOutput(ctx, tx, "base", chain.Outpoint{TxID: w.state(c).TxID})
		if err != nil || out.State != chain.Seen {
			w.Errorf("before its block the deposit is %+v: %v", out, err)
		}
		return nil
	})
	w.mine()
	w.settled(c)
	if got := w.Balance(ledger.OtherWallets, "base", money.USDC); got != before {
		w.Errorf("the transfer took %s from the hot wallet", got)
	}
	if w.Balance(ledger.InTransit, w.find(c.ObjectID).BatchID, money.ETH).Sign() != 0 {
		w.Error("the gas is still in transit")
	}
}

// The process stops after each of its transactions, and two processes run the same job.
func (w *collector) stops() {
	before := w.batches()
	c := w.authorize(usdc(21_000_000))
	run := func() {
		entry := w.rail.Jobs()["payout.collect.base"]
		payload := []byte(`{"collection_id":"` + c.ID + `"}`)
		if err := entry.Net(w.Context(), w.DB, job.Job{CompanyID: payouttest.Company, Payload: payload}); err != nil {
			w.Error(err)
		}
	}
	for range 3 { // the transfer is signed and stored, and not sent
		run()
	}
	if w.batches() != before+1 {
		w.Errorf("%d transfers were signed", w.batches()-before)
	}
	if _, times, err := w.lab.Paid(w.Context(), money.USDC); err != nil || times[c.To.String()] != 0 {
		w.Errorf("it was sent: %v", err)
	}
	w.sync() // the next process sends what is stored
	run()
	w.mine()
	w.settled(c)
}

func (w *collector) lost() {
	for _, line := range []evmtest.Connection{evmtest.RequestsLost, evmtest.ResponsesLost} {
		c := w.authorize(usdc(22_000_000))
		entry := w.rail.Jobs()["payout.collect.base"]
		w.Must(entry.Net(w.Context(), w.DB, job.Job{CompanyID: payouttest.Company,
			Payload: []byte(`{"collection_id":"` + c.ID + `"}`)}))
		w.node.SetConnection(line)
		w.Drain()
		w.node.SetConnection(evmtest.Connected)
		w.mine()
		w.wait(time.Minute)
		w.mine()
		w.settled(c)
	}
	// The node does not answer at all: the transfer waits for it.
	c := w.authorize(usdc(23_000_000))
	w.node.SetConnection(evmtest.RequestsLost)
	w.Drain()
	w.node.SetConnection(evmtest.Connected)
	w.wait(3 * time.Second)
	w.mine()
	w.settled(c)
}

// A transfer whose fee is raised keeps its nonce.
func (w *collector) raised() {
	c := w.authorize(usdc(200_000_000))
	w.sync()
	first := w.state(c).TxID
	w.baseFee(15_000_000_000)
	w.wait(3 * time.Minute)
	w.mine()
	if s := w.settled(c); s.TxID == first {
		w.Error("the fee was not raised")
	}
	w.baseFee(1_000_000_000)
}

func (w *collector) reorganized() {
	c := w.authorize(usdc(24_000_000))
	w.sync()
	w.mine()
	before := w.settled(c)
	w.Must(w.lab.Reorg(w.Context(), 1))
	w.sync()
	if s := w.state(c); s.Done {
		w.Errorf("after a reorganization the transfer is %+v", s)
	}
	w.mine()
	if after := w.settled(c); after.TxID != before.TxID {
		w.Errorf("sent again by %s", after.TxID)
	}
}

// Someone else submits the authorization first. The money arrives, once, and the service's own transaction fails.
func (w *collector) submittedByOthers() {
	c := w.authorize(usdc(25_000_000))
	entry := w.rail.Jobs()["payout.collect.base"]
	w.Must(entry.Net(w.Context(), w.DB, job.Job{CompanyID: payouttest.Company,
		Payload: []byte(`{"collection_id":"` + c.ID + `"}`)}))
	w.Must(w.lab.Submit(w.Context(), testkit.Must(w.node.Spec().AuthorizedCall(c.Authorization))))
	w.mine()
	w.sync()
	w.mine()
	w.mine()
	w.paid(c.To.String(), c.Amount)
	w.failed(c, evmrail.CollectReverted)
	w.Read(func(ctx context.Context, tx *db.Tx) error {
		var n int
		err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM chain_outputs WHERE object_id = $1 AND state = 'mined'`,
			c.ObjectID).Scan(&n)
		if n != 1 {
			w.Errorf("%d deposits", n)
		}
		return err
	})
	if w.Balance(ledger.InTransit, w.find(c.ObjectID).BatchID, money.ETH).Sign() != 0 {
		w.Error("the gas of the failed transaction is still in transit")
	}
}

// Someone else submits an authorization that the payer did not sign. It is never a deposit, not even before its block.
func (w *collector) forged() {
	c := w.authorize(usdc(29_000_000))
	c.Signature[5]++
	w.Must(w.lab.Submit(w.Context(), testkit.Must(w.node.Spec().AuthorizedCall(c.Authorization))))
	for range 2 {
		w.Must(w.watcher.Sync(w.Context()))
		w.Read(func(ctx context.Context, tx *db.Tx) error {
			var n int
			err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM chain_outputs WHERE object_id = $1", c.ObjectID).Scan(&n)
			if n != 0 {
				w.Error("a forged transfer is a deposit")
			}
			return err
		})
		w.Must(w.node.Mine(w.Context(), 1))
	}
	w.sync()
	w.mine()
	w.settled(c)
}

// Transfers that would fail, or whose gas is too expensive, or that are too late, are not signed.
func (w *collector) impossible() {
	before := w.batches()
	poor := w.authorize(usdc(2_000_000_000))
	cheap := w.authorize(usdc(10_000))
	late := w.authorize(usdc(26_000_000))
	refused := w.authorize(usdc(27_000_000))
	w.Must(w.node.Blacklist(w.Context(), money.USDC, refused.To.String(), true))
	w.node.SetConnection(evmtest.RequestsLost)
	w.Drain()
	w.node.SetConnection(evmtest.Connected)
	w.Write(func(ctx context.Context, tx *db.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE payout_collections SET send_before = 1 WHERE collection_id = $1", late.ID)
		return err
	})
	w.wait(3 * time.Second)
	w.failed(poor, evmrail.CollectFunds)
	w.failed(cheap, evmrail.CollectFee)
	w.failed(late, evmrail.CollectExpired)
	w.failed(refused, evmrail.CollectRefused)
	blocked := w.authorize(usdc(28_000_000))
	w.blocked = blocked.From.String()
	w.sync()
	w.failed(blocked, evmrail.CollectRefused)
	w.blocked = ""
	paid := w.authorize(usdc(30_000_000)) // and its claim is paid in another way
	w.notDue = paid.ID
	w.sync()
	w.failed(paid, evmrail.CollectNotDue)
	if n := w.batches() - before; n != 0 {
		w.Errorf("%d of them were signed", n)
	}
}
