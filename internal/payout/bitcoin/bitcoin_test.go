package bitcoin_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	bitcoinrail "github.com/stipend/stipend/internal/payout/bitcoin"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
	"github.com/stipend/stipend/internal/webhook"
)

const (
	network = "bitcoin-test"
	company = "com_1"
	payroll = "prl_1"
)

// node is the simulated chain with a connection that a test can cut.
type node struct {
	*bitcoinsim.Chain
	rate      int64
	broadcast func(raw []byte) (deliver bool, err error) // nil: deliver
	mu        sync.Mutex
	calls     int
	sent      [][]byte
}

func (n *node) FeeRate(context.Context) (int64, error) { return n.rate, nil }

func (n *node) Broadcast(ctx context.Context, raw []byte) error {
	n.mu.Lock()
	n.calls++
	n.sent = append(n.sent, raw)
	n.mu.Unlock()
	if n.broadcast != nil {
		deliver, err := n.broadcast(raw)
		if deliver {
			if err := n.Chain.Broadcast(ctx, raw); err != nil {
				return err
			}
		}
		return err
	}
	return n.Chain.Broadcast(ctx, raw)
}

// fixture has a hot wallet on a simulated chain, with payouts.
type fixture struct {
	t       *testing.T
	ctx     context.Context
	d       *db.DB
	clock   *dbtest.Clock
	node    *node
	signer  *bitcoin.Signer
	pool    *chain.Pool
	watcher *chain.Watcher
	rail    *bitcoinrail.Rail
	payouts *payout.Rails
	runner  *job.Runner
	mu      sync.Mutex
	changed []payout.Changed
	funded  []string // addresses paid by fund, in order
	payee   *bitcoin.Deriver
	payees  uint32
}

func run(t *testing.T, f func(w *fixture)) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		w := &fixture{t: t, ctx: t.Context(), d: d, clock: clock, node: &node{Chain: bitcoinsim.New(d), rate: 5}}
		w.signer, w.payee = key(t, 1), key(t, 2).Deriver()
		log := slog.New(slog.DiscardHandler)
		w.pool = chain.NewPool(d, network, w.signer.Deriver())
		w.must(w.pool.Start(w.ctx))
		w.watcher = chain.NewWatcher(d, network, w.node, 1, log)
		var err error
		w.rail, err = bitcoinrail.New(bitcoinrail.Config{Chain: network, Source: w.node, Pool: w.pool, Signer: w.signer,
			Log: log})
		w.must(err)
		w.payouts, err = payout.New(w.rail)
		w.must(err)
		table := w.payouts.Jobs()

		table[payout.JobChanged] = job.Entry{Tx: func(_ context.Context, _ *db.Tx, j job.Job) error {
			var c payout.Changed
			if err := j.Decode(&c); err != nil {
				return err
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.changed = append(w.changed, c)
			return nil
		}}
		table[chain.JobOutput] = job.Entry{Tx: func(context.Context, *db.Tx, job.Job) error { return nil }}
		w.runner = job.NewRunner(d, table, nil, log)
		w.must(w.node.Mine(w.ctx, 1))
		w.must(w.rail.RefreshFees(w.ctx, d))
		w.watch() // a new watcher starts at the current tip
		f(w)
		w.must(d.Read(w.ctx, func(ctx context.Context, tx *db.Tx) error {
			report, err := ledger.Check(ctx, tx)
			if len(report.Problems) > 0 {
				t.Errorf("ledger: %v", report.Problems)
			}
			return err
		}))
	})
}

func key(t *testing.T, seed byte) *bitcoin.Signer {
	t.Helper()
	master, err := bitcoin.MasterFromSeed(bytes.Repeat([]byte{seed}, 32), "regtest")
	if err != nil {
		t.Fatal(err)
	}
	s, err := bitcoin.ParseXPriv(master, "regtest")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (w *fixture) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *fixture) write(f func(ctx context.Context, tx *db.Tx) error) {
	w.t.Helper()
	w.must(w.d.Write(w.ctx, f))
}

// watch lets the watcher catch up and runs the jobs that follow.
func (w *fixture) watch() {
	w.t.Helper()
	for {
		w.must(w.runner.Drain(w.ctx))
		progressed, err := w.watcher.Step(w.ctx)
		w.must(err)
		if !progressed {
			w.must(w.runner.Drain(w.ctx))
			return
		}
	}
}

func (w *fixture) mine(n int) {
	w.t.Helper()
	w.must(w.node.Mine(w.ctx, n))
	w.watch()
}

// fund pays confirmed coins to the hot wallet.
func (w *fixture) fund(sats ...int64) {
	w.t.Helper()
	for i, n := range sats {
		var addr string
		w.write(func(ctx context.Context, tx *db.Tx) (err error) {
			addr, err = w.pool.NewAddress(ctx, tx, "com_funds", fmt.Sprintf("fund_%d_%d", i, n))
			return err
		})
		_, err := w.node.Pay(w.ctx, addr, n)
		w.must(err)
		w.funded = append(w.funded, addr)
	}
	w.mine(chain.DefaultConfirmations)
}

// release queues amounts to new addresses of payees and posts them, as the release of a payroll does.
func (w *fixture) release(amounts ...int64) []payout.Output {
	w.t.Helper()
	outs := w.unqueued(amounts...)
	w.queue(outs)
	return outs
}

func (w *fixture) unqueued(amounts ...int64) []payout.Output {
	w.t.Helper()
	outs := make([]payout.Output, len(amounts))
	for i, n := range amounts {
		addr, err := w.payee.Address(0, w.payees)
		w.must(err)
		w.payees++
		outs[i] = payout.Output{CompanyID: company, PayrollID: payroll, PaymentID: fmt.Sprintf("pay_%d", i),
			Rail:   payout.RailBitcoin,
			Amount: money.New(money.BTC, n), Input: money.New(money.USD, n/20), Address: addr}
	}
	return outs
}

func (w *fixture) queue(outs []payout.Output) {
	w.t.Helper()
	release := func(_ context.Context, tx *db.Tx) error {
		if err := payout.Add(tx, outs); err != nil {
			return err
		}
		var lines []ledger.Line
		sum := money.Zero(money.BTC)
		for _, o := range outs {
			lines = append(lines, ledger.Credit(ledger.OutputPayable, o.ID, o.Amount))
			sum, _ = sum.Add(o.Amount)
		}
		return ledger.Post(tx, ledger.Journal{CompanyID: outs[0].CompanyID, SourceType: "test", SourceID: tx.NewID("rel"),
			Purpose: "release",
			Lines:   append(lines, ledger.Debit(ledger.HotWallet, "", sum))})
	}
	w.write(release)
}

func (w *fixture) outputs() []payout.Output {
	w.t.Helper()
	var outs []payout.Output
	w.must(w.d.Read(w.ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		outs, err = payout.ForPayroll(ctx, tx, company, payroll)
		return err
	}))
	return outs
}

func (w *fixture) states(want ...payout.State) []payout.Output {
	w.t.Helper()
	outs := w.outputs()
	if len(outs) != len(want) {
		w.t.Fatalf("%d outputs, want %d", len(outs), len(want))
	}
	for i, o := range outs {
		if o.State != want[i] {
			w.t.Fatalf("output %d is %s (%s), want %s", i, o.State, o.Reason, want[i])
		}
	}
	return outs
}

func (w *fixture) balance(code ledger.Code, dim string) int64 {
	w.t.Helper()
	var a money.Amount
	w.must(w.d.Read(w.ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		a, err = ledger.Balance(ctx, tx, company, code, dim, money.BTC)
		return err
	}))
	return a.Units()
}

// received returns the amount that a transaction pays to an address.
func (w *fixture) received(txid string, addr string) (sum int64) {
	w.t.Helper()
	tx, err := w.node.Tx(w.ctx, txid)
	w.must(err)
	for _, o := range tx.Outputs {
		if o.Address == addr {
			sum += o.Amount
		}
	}
	return sum
}

func TestPayoutsAreSentInOneTransactionAndBookedOnce(t *testing.T) {
	run(t, func(w *fixture) {
		w.fund(5_000_000)
		outs := w.release(1_200_000, 300_000)
		w.watch()
		sent := w.states(payout.Sent, payout.Sent)
		if sent[0].TxID == "" || sent[0].TxID != sent[1].TxID || sent[0].Vout == sent[1].Vout {
			t.Fatalf("not one transaction: %+v", sent)
		}
		fee := w.balance(ledger.NetworkFee, "payout")
		if got := w.balance(ledger.InTransit, sent[0].BatchID); fee <= 0 || got != 1_500_000+fee {
			t.Fatalf("in transit %d, fee %d", got, fee)
		}
		for _, o := range outs {
			if got := w.balance(ledger.OutputPayable, o.ID); got != 0 {
				t.Fatalf("still owed: %d", got)
			}
		}
		had := w.balance(ledger.HotWallet, "")
		if had != 1_500_000 {
			t.Errorf("the ledger has %d in the wallet before the confirmation", had)
		}
		w.mine(1)
		done := w.states(payout.Fulfilled, payout.Fulfilled)
		for _, o := range done {
			if got := w.received(o.TxID, o.Address); got != o.Amount.Units() {
				t.Fatalf("%s got %d", o.Address, got)
			}
		}
		if got := w.balance(ledger.InTransit, sent[0].BatchID); got != 0 {
			t.Fatalf("in transit after confirmation: %d", got)
		}
		if got := w.balance(ledger.HotWallet, ""); got != had-1_500_000-fee || w.balance(ledger.NetworkFee, "payout") != fee {
			t.Errorf("the wallet has %d after it had %d, and a fee of %d was paid", got, had, fee)
		}
		if len(w.changed) != 1 || w.changed[0].PayrollID != payroll {
			t.Fatalf("payout.changed jobs: %v", w.changed)
		}
		if w.node.calls != 1 {
			t.Fatalf("%d broadcasts", w.node.calls)
		}
		w.mine(3)
		w.states(payout.Fulfilled, payout.Fulfilled)
	})
}

func TestOneInvalidAddressBlocksNoOther(t *testing.T) {
	run(t, func(w *fixture) {
		w.fund(5_000_000)
		good, err := w.payee.Address(0, 99)
		w.must(err)
		out := func(payment, addr string, n int64) payout.Output {
			return payout.Output{CompanyID: company, PayrollID: payroll, PaymentID: payment, Rail: payout.RailBitcoin,
				Amount: money.New(money.BTC, n), Input: money.New(money.USD, 1), Address: addr}
		}
		w.queue([]payout.Output{
			out("a", "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", 100_000), // an address of the main network
			out("b", good, 100_000),
			out("c", good, 100), // below the dust limit
		})
		w.watch()
		outs := w.states(payout.Failed, payout.Sent, payout.Failed)
		if outs[0].Reason != payout.ReasonBadAddress || outs[2].Reason != bitcoinrail.ReasonDust {
			t.Fatalf("reasons %q %q", outs[0].Reason, outs[2].Reason)
		}
		if got := w.balance(ledger.OutputPayable, outs[0].ID); got != 100_000 {
			t.Fatalf("%d is owed to a failed output", got)
		}
		w.write(func(ctx context.Context, tx *db.Tx) error {
			if err := payout.Correct(ctx, tx, outs[1]); !errors.Is(err, payout.ErrProcessing) {
				t.Fatalf("a sent output was changed: %v", err)
			}
			fixed := outs[0]
			fixed.Address, fixed.Destination = good, []byte(`{"address":"`+good+`"}`)
			if err := payout.Correct(ctx, tx, fixed); err != nil {
				return err
			}
			if err := payout.Correct(ctx, tx, fixed); !errors.Is(err, payout.ErrProcessing) {
				t.Fatalf("corrected twice from one version: %v", err)
			}
			fixed.Amount = money.New(money.USD, 1)
			if err := payout.Correct(ctx, tx, fixed); err == nil {
				t.Fatal("a Bitcoin output in dollars was accepted")
			}
			return nil
		})
		w.watch()
		w.states(payout.Sent, payout.Sent, payout.Failed)
	})
}

func TestAnUnknownOutcomeSendsTheSameBytesAgain(t *testing.T) {
	for _, delivered := range []bool{true, false} {
		t.Run(fmt.Sprintf("delivered=%v", delivered), func(t *testing.T) {
			run(t, func(w *fixture) {
				w.fund(5_000_000)
				w.node.broadcast = func([]byte) (bool, error) { return delivered, errors.New("connection reset") }
				w.release(1_000_000)
				w.must(w.runner.Drain(w.ctx))
				first := w.states(payout.UnknownOutcome)[0]
				if first.TxID == "" {
					t.Fatal("no txid")
				}
				w.node.broadcast = nil
				if delivered {
					w.watch() // the watcher finds the delivered transaction in the mempool
					w.states(payout.Sent)
				}
				w.clock.Advance(time.Minute)
				w.watch()
				w.states(payout.Sent)
				w.mine(1)
				if last := w.states(payout.Fulfilled)[0]; last.TxID != first.TxID {
					t.Fatalf("a second transaction: %s, %s", first.TxID, last.TxID)
				}
				for _, raw := range w.node.sent {
					if !bytes.Equal(raw, w.node.sent[0]) {
						t.Fatal("other bytes were broadcast")
					}
				}
			})
		})
	}
}

func TestARefusedTransactionThatIsFoundIsSent(t *testing.T) {
	run(t, func(w *fixture) {
		w.fund(5_000_000)
		w.node.broadcast = func([]byte) (bool, error) {
			return true,
				fmt.Errorf("%w: txn-mempool-conflict", chain.ErrRejected)
		}
		w.release(1_000_000)
		w.must(w.runner.Drain(w.ctx))
		w.states(payout.Sent)
	})
}

func TestARefusalIsAnUnknownOutcome(t *testing.T) {
	run(t, func(w *fixture) {
		w.fund(5_000_000)
		w.node.broadcast = func([]byte) (bool, error) {
			return false,
				fmt.Errorf("%w: mempool min fee not met", chain.ErrRejected)
		}
		w.release(1_000_000)
		w.must(w.runner.Drain(w.ctx))
		w.states(payout.UnknownOutcome)
		w.node.broadcast = nil
		w.clock.Advance(time.Minute)
		w.watch()
		w.states(payout.Sent)
	})
}

func TestARestartBetweenBroadcastAndRecordPaysOnce(t *testing.T) {
	run(t, func(w *fixture) {
		w.fund(5_000_000)
		ctx, crash := context.WithCancel(w.ctx)
		w.node.broadcast = func([]byte) (bool, error) { return true, nil }
		w.release(1_000_000)
		var stored []string
		table := w.payouts.Jobs()
		table[payout.JobSend(payout.RailBitcoin)] = job.Entry{Net: func(_ context.Context, d *db.DB, j job.Job) error {
			var in struct{ IDs []string }
			if err := j.Decode(&in); err != nil {
				return err
			}
			stored = in.IDs
			w.node.broadcast = func([]byte) (bool, error) { defer crash(); return true, nil }
			return w.rail.Send(ctx, d, company, stored)
		}}
		dead := job.NewRunner(w.d, table, nil, slog.New(slog.DiscardHandler))
		if err := dead.Drain(w.ctx); err == nil {
			t.Fatal("the crash did not happen")
		}
		w.states(payout.Prepared)
		w.node.broadcast = nil
		w.must(w.rail.Send(w.ctx, w.d, company, stored))
		w.must(w.rail.Send(w.ctx, w.d, company, stored))
		w.states(payout.Sent)
		w.mine(1)
		o := w.states(payout.Fulfilled)[0]
		if got := w.balance(ledger.InTransit, o.BatchID); got != 0 {
			t.Fatalf("booked more than once: %d in transit", got)
		}
	})
}

func TestPausedPayoutsAreNotBroadcast(t *testing.T) {
	run(t, func(w *fixture) {
		w.fund(5_000_000)
		w.write(func(ctx context.Context, tx *db.Tx) error { return payout.SetPaused(ctx, tx, "a drill") })
		w.release(1_000_000)
		w.release(1_000_000)
		w.watch()
		w.states(payout.Queued, payout.Queued)
		if w.node.calls != 0 {
			t.Fatal("broadcast while paused")
		}
		w.write(func(ctx context.Context, tx *db.Tx) error { return payout.SetPaused(ctx, tx, "") })
		w.clock.Advance(2 * time.Minute)
		w.node.broadcast = func([]byte) (bool, error) { return false, errors.New("timeout") }
		w.watch()
		w.states(payout.UnknownOutcome, payout.UnknownOutcome)
		w.write(func(ctx context.Context, tx *db.Tx) error { return payout.SetPaused(ctx, tx, "a drill") })
		w.node.broadcast = nil
		calls := w.node.calls
		w.clock.Advance(time.Minute)
		w.watch()
		if w.node.calls != calls {
			t.Fatal("signed bytes were broadcast while paused")
		}
		w.write(func(ctx context.Context, tx *db.Tx) error { return payout.SetPaused(ctx, tx, "") })
		w.clock.Advance(2 * time.Minute)
		w.watch()
		w.states(payout.Sent, payout.Sent)
	})
}

// delays counts the payout.delayed events of a reason.
func (w *fixture) delays(reason string) (n int64) {
	w.t.Helper()
	w.must(w.d.Read(w.ctx, func(ctx context.Context, tx *db.Tx) error {
		return tx.QueryRow(ctx, "SELECT COUNT(*) FROM events WHERE company_id = $1 AND name = $2 AND data LIKE $3", company,
			webhook.PayoutDelayed.Name,
			`%"reason":"`+reason+`"%`).Scan(&n)
	}))
	return n
}

func TestAHighFeeRateDelaysPayouts(t *testing.T) {
	run(t, func(w *fixture) {
		w.fund(5_000_000)
		w.node.rate = 500
		w.must(w.rail.RefreshFees(w.ctx, w.d))
		w.release(2_000_000)
		w.watch()
		w.states(payout.Queued)
		w.clock.Advance(2 * time.Minute)
		w.watch()
		if n := w.delays("fee_too_high"); n != 1 {
			t.Fatalf("%d events for one delay", n)
		}
		w.node.rate = 5
		w.must(w.rail.RefreshFees(w.ctx, w.d))
		w.clock.Advance(2 * time.Minute)
		w.watch()
		w.states(payout.Sent)
	})
}

func TestAnUnreasonableFeeDelaysPayouts(t *testing.T) {
	run(t, func(w *fixture) {
		w.fund(5_000_000)
		w.node.rate = 100 // a transaction of 141 vB costs 14,100 sat
		w.must(w.rail.RefreshFees(w.ctx, w.d))
		w.release(400_000)
		w.watch()
		w.states(payout.Queued)
		w.release(400_000) // both outputs together are worth the fee
		w.watch()
		w.states(payout.Sent, payout.Sent)
	})
}

func TestAShortWalletPaysTheOldestFirst(t *testing.T) {
	run(t, func(w *fixture) {
		w.fund(1_000_000)
		w.release(700_000)
		w.clock.Advance(time.Second)
		w.release(900_000)
		w.clock.Advance(time.Second)
		w.release(50_000)
		w.watch()
		queued := func() (all []int64) {
			for _, o := range w.outputs() {
				if o.State == payout.Queued {
					all = append(all, o.Amount.Units())
				} else if got := w.received(o.TxID, o.Address); got != o.Amount.Units() {
					t.Fatalf("an output was paid partly: %d of %s", got, o.Amount)
				}
			}
			slices.Sort(all)
			return all
		}
		if got := queued(); !slices.Equal(got, []int64{50_000, 900_000}) {
			t.Fatalf("%d are queued, want the second and the third", got)
		}
		if n := w.delays("insufficient_funds"); n != 1 {
			t.Fatalf("%d payout.delayed events", n)
		}
		w.fund(2_000_000)
		w.clock.Advance(2 * time.Minute)
		w.watch()
		if got := queued(); len(got) != 0 {
			t.Fatalf("%d are still queued", got)
		}
	})
}

func TestTwoRunnersPayEachOutputOnce(t *testing.T) {
	run(t, func(w *fixture) {
		w.fund(1_000_000, 1_000_000, 1_000_000, 1_000_000, 1_000_000, 1_000_000)
		want := map[string]int64{}
		for c := range 5 {
			var outs []payout.Output
			for i := range 3 {
				addr, err := w.payee.Address(0, uint32(100+10*c+i))
				w.must(err)
				n := int64(100_000 + 10*c + i)
				want[addr] = n
				outs = append(outs, payout.Output{CompanyID: fmt.Sprintf("com_%d", c), PayrollID: payroll, PaymentID: "pay",
					Rail:   payout.RailBitcoin,
					Amount: money.New(money.BTC, n), Input: money.New(money.USD, 1), Address: addr})
			}
			w.queue(outs)
		}
		var g errgroup.Group
		for range 2 {
			r := job.NewRunner(w.d, w.payouts.Jobs(), nil, slog.New(slog.DiscardHandler))
			g.Go(func() error { return r.Drain(w.ctx) })
		}
		w.must(g.Wait())
		w.watch()
		got := map[string]int64{}
		ids, err := w.node.Mempool(w.ctx)
		w.must(err)
		for _, id := range ids {
			tx, err := w.node.Tx(w.ctx, id)
			w.must(err)
			for _, o := range tx.Outputs {
				got[o.Address] += o.Amount
			}
		}
		for addr, n := range want {
			if got[addr] != n {
				t.Fatalf("%s gets %d, want %d", addr, got[addr], n)
			}
		}
	})
}

func TestALongQueueIsPaidByChainedTransactions(t *testing.T) {
	run(t, func(w *fixture) {
		w.fund(500_000_000)
		amounts := make([]int64, 2_500)
		for i := range amounts {
			amounts[i] = 10_000 + int64(i)
		}
		w.release(amounts...)
		w.watch()
		w.clock.Advance(2 * time.Minute)
		w.watch()
		w.mine(1)
		w.clock.Advance(2 * time.Minute)
		w.watch()
		w.mine(1)
		txs := map[string]bool{}
		for _, o := range w.outputs() {
			if o.State != payout.Fulfilled {
				t.Fatalf("output is %s (%s)", o.State, o.Reason)
			}
			txs[o.TxID] = true
		}
		if len(txs) != 2 {
			t.Fatalf("%d transactions", len(txs))
		}
	})
}

func TestOutputsOnHoldAndOfOtherRailsStayQueued(t *testing.T) {
	run(t, func(w *fixture) {
		w.fund(5_000_000)
		outs := w.release(1_000_000)
		w.write(func(ctx context.Context, tx *db.Tx) error {
			n, err := payout.Hold(ctx, tx, company, payroll)
			if err == nil && n != 1 {
				err = fmt.Errorf("%d held", n)
			}
			return err
		})
		w.write(func(_ context.Context, tx *db.Tx) error {
			return payout.Add(tx, []payout.Output{{CompanyID: company, PayrollID: payroll, PaymentID: "pay_bank",
				Rail:   payout.RailBank,
				Amount: money.New(money.EUR, 36_800), Input: money.New(money.USD, 40_000), Destination: []byte(`{"iban":"x"}`)}})
		})
		w.watch()
		w.states(payout.Queued, payout.Queued)
		w.write(func(ctx context.Context, tx *db.Tx) error { return payout.Resume(ctx, tx, company, payroll) })
		w.watch()
		w.states(payout.Sent, payout.Queued)
		w.must(w.d.Read(w.ctx, func(ctx context.Context, tx *db.Tx) error {
			some, err := payout.ForPayments(ctx, tx, company, payroll, outs[0].PaymentID)
			if err == nil && (len(some) != 1 || some[0].ID != outs[0].ID) {
				err = fmt.Errorf("for payments: %+v", some)
			}
			return err
		}))
	})
}
