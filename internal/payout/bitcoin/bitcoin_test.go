package bitcoin_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	bitcoinrail "github.com/stipend/stipend/internal/payout/bitcoin"
	"github.com/stipend/stipend/internal/payout/payouttest"
)

func TestPayoutsAreSentInOneTransactionAndBookedOnce(t *testing.T) {
	run(t, func(w *fixture) {
		w.fund(5_000_000)
		outs := w.release(1_200_000, 300_000)
		w.watch()
		sent := w.states(payout.Sent, payout.Sent)
		if sent[0].TxID == "" || sent[0].TxID != sent[1].TxID || sent[0].Vout == sent[1].Vout {
			w.Fatalf("not one transaction: %+v", sent)
		}
		fee, batch := w.fee(), sent[0].BatchID
		if fee <= 0 {
			w.Fatalf("a fee of %d", fee)
		}
		for _, o := range outs {
			w.holds(ledger.OutputPayable, o.ID, 0)
		}
		w.holds(ledger.InTransit, batch, 1_500_000+fee)
		w.holds(ledger.HotWallet, "", 1_500_000)
		w.mine(1)
		w.paid(w.states(payout.Fulfilled, payout.Fulfilled)...)
		w.holds(ledger.InTransit, batch, 0)
		w.holds(ledger.HotWallet, "", -fee)
		w.holds(ledger.NetworkFee, "payout", fee)
		if changed := w.Changed(); len(changed) != 1 || changed[0].PayrollID != payouttest.Payroll {
			w.Fatalf("payout.changed jobs: %v", changed)
		}
		if n := len(w.node.sent); n != 1 {
			w.Fatalf("%d broadcasts", n)
		}
		w.mine(3)
		w.states(payout.Fulfilled, payout.Fulfilled)
	})
}

func TestOneInvalidAddressBlocksNoOther(t *testing.T) {
	run(t, func(w *fixture) {
		w.fund(5_000_000)
		outs := w.outputsOf(100_000, 100_000, 100) // the last amount is below the dust limit
		good := outs[2].Address
		outs[0].Address = "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4" // an address of the main network
		w.Queue(outs...)
		w.watch()
		outs = w.states(payout.Failed, payout.Sent, payout.Failed)
		if outs[0].Reason != payout.ReasonBadAddress || outs[2].Reason != bitcoinrail.ReasonDust {
			w.Fatalf("reasons %q %q", outs[0].Reason, outs[2].Reason)
		}
		w.holds(ledger.OutputPayable, outs[0].ID, 100_000)
		w.Write(func(ctx context.Context, tx *db.Tx) error {
			if err := payout.Correct(ctx, tx, outs[1]); !errors.Is(err, payout.ErrProcessing) {
				w.Fatalf("a sent output was changed: %v", err)
			}
			fixed := outs[0]
			fixed.Address, fixed.Destination = good, []byte(`{"address":"`+good+`"}`)
			if err := payout.Correct(ctx, tx, fixed); err != nil {
				return err
			}
			if err := payout.Correct(ctx, tx, fixed); !errors.Is(err, payout.ErrProcessing) {
				w.Fatalf("corrected twice from one version: %v", err)
			}
			fixed.Amount = money.New(money.USD, 1)
			if err := payout.Correct(ctx, tx, fixed); err == nil {
				w.Fatal("a Bitcoin output in dollars was accepted")
			}
			return nil
		})
		w.watch()
		w.states(payout.Sent, payout.Sent, payout.Failed)
	})
}

// After any failed broadcast the same bytes are sent until the network has them.
func TestAFailedBroadcastSendsTheSameBytesAgain(t *testing.T) {
	for name, c := range map[string]struct {
		deliver bool
		err     error
		want    payout.State
	}{
		"the answer is lost":      {true, errors.New("connection reset"), payout.UnknownOutcome},
		"the request is lost":     {false, errors.New("connection reset"), payout.UnknownOutcome},
		"it is refused and found": {true, fmt.Errorf("%w: txn-mempool-conflict", chain.ErrRejected), payout.Sent},
		"it is refused": {false, fmt.Errorf("%w: mempool min fee not met", chain.ErrRejected),
			payout.UnknownOutcome},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *fixture) {
				w.fund(5_000_000)
				w.node.answer(c.deliver, c.err)
				w.release(1_000_000)
				w.Drain()
				first := w.states(c.want)[0]
				if first.TxID == "" {
					w.Fatal("no txid")
				}
				w.node.broadcast = nil
				if c.deliver {
					w.watch() // the watcher finds the delivered transaction in the mempool
					w.states(payout.Sent)
				}
				w.wait(time.Minute)
				w.states(payout.Sent)
				w.mine(1)
				if last := w.states(payout.Fulfilled)[0]; last.TxID != first.TxID {
					w.Fatalf("a second transaction: %s, %s", first.TxID, last.TxID)
				}
				w.sentOnlyOnce()
			})
		})
	}
}

func TestARestartBetweenBroadcastAndRecordPaysOnce(t *testing.T) {
	run(t, func(w *fixture) {
		w.fund(5_000_000)
		ctx, crash := context.WithCancel(w.Context())
		w.release(1_000_000)
		var stored []string
		table := w.Rails.Jobs()
		table[payout.JobSend(payout.RailBitcoin)] = job.Entry{Net: func(_ context.Context, d *db.DB, j job.Job) error {
			var in struct{ IDs []string }
			if err := j.Decode(&in); err != nil {
				return err
			}
			stored = in.IDs
			w.node.broadcast = func() (bool, error) { crash(); return true, nil }
			return w.rail.Send(ctx, d, payouttest.Company, stored)
		}}
		if err := job.NewRunner(w.DB, table, nil, w.Log).Drain(w.Context()); err == nil {
			w.Fatal("the crash did not happen")
		}
		w.states(payout.Prepared)
		w.node.broadcast = nil
		for range 2 {
			w.Must(w.rail.Send(w.Context(), w.DB, payouttest.Company, stored))
		}
		w.states(payout.Sent)
		w.mine(1)
		w.holds(ledger.InTransit, w.states(payout.Fulfilled)[0].BatchID, 0)
	})
}

func TestPausedPayoutsAreNotBroadcast(t *testing.T) {
	run(t, func(w *fixture) {
		w.fund(5_000_000)
		w.Pause("a drill")
		w.release(1_000_000)
		w.release(1_000_000)
		w.watch()
		w.states(payout.Queued, payout.Queued)
		if len(w.node.sent) != 0 {
			w.Fatal("broadcast while paused")
		}
		w.Pause("")
		w.node.answer(false, errors.New("timeout"))
		w.wait(2 * time.Minute)
		w.states(payout.UnknownOutcome, payout.UnknownOutcome)
		w.Pause("a drill")
		w.node.broadcast = nil
		calls := len(w.node.sent)
		w.wait(time.Minute)
		if len(w.node.sent) != calls {
			w.Fatal("signed bytes were broadcast while paused")
		}
		w.Pause("")
		w.wait(2 * time.Minute)
		w.states(payout.Sent, payout.Sent)
	})
}

// delayed fails the test unless one payout.delayed event has the reason.
func (w *fixture) delayed(reason string) {
	w.Helper()
	if all := w.Delays(); len(all) != 1 || !strings.HasPrefix(all[0], reason+" ") {
		w.Fatalf("payout.delayed events: %q, want one with reason %s", all, reason)
	}
}

func TestAHighFeeDelaysPayouts(t *testing.T) {
	for name, c := range map[string]struct {
		rate, amount int64
		end          func(w *fixture)
	}{
		"the rate is above the limit": {500, 2_000_000, func(w *fixture) { w.feeRate(5) }},
		// A transaction of 141 vB costs 14,100 sat, which both outputs together are worth.
		"the fee is above its share of the amount": {100, 400_000, func(w *fixture) { w.release(400_000) }},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *fixture) {
				w.fund(5_000_000)
				w.feeRate(c.rate)
				w.release(c.amount)
				w.watch()
				w.wait(2 * time.Minute)
				w.states(payout.Queued)
				w.delayed("fee_too_high")
				c.end(w)
				w.wait(2 * time.Minute)
				w.all(payout.Sent)
			})
		})
	}
}

func TestAShortWalletPaysTheOldestFirst(t *testing.T) {
	run(t, func(w *fixture) {
		w.fund(1_000_000)
		for _, n := range []int64{700_000, 900_000, 50_000} {
			w.release(n)
			w.Clock.Advance(time.Second)
		}
		w.watch()
		queued := func() (all []int64) {
			for _, o := range w.outputs() {
				if o.State == payout.Queued {
					all = append(all, o.Amount.Units())
				} else {
					w.paid(o)
				}
			}
			slices.Sort(all)
			return all
		}
		if got := queued(); !slices.Equal(got, []int64{50_000, 900_000}) {
			w.Fatalf("%d are queued, want the second and the third", got)
		}
		w.delayed("insufficient_funds")
		w.fund(2_000_000)
		w.wait(2 * time.Minute)
		if got := queued(); len(got) != 0 {
			w.Fatalf("%d are still queued", got)
		}
	})
}

func TestTwoRunnersPayEachOutputOnce(t *testing.T) {
	run(t, func(w *fixture) {
		w.fund(1_000_000, 1_000_000, 1_000_000, 1_000_000, 1_000_000, 1_000_000)
		want := map[string]int64{}
		for c := range int64(5) {
			outs := w.outputsOf(100_000+10*c, 100_001+10*c, 100_002+10*c)
			for i := range outs {
				outs[i].CompanyID, outs[i].PayrollID = fmt.Sprintf("com_%d", c), payouttest.Payroll
				want[outs[i].Address] = outs[i].Amount.Units()
			}
			w.Queue(outs...)
		}
		var g errgroup.Group
		for range 2 {
			r := job.NewRunner(w.DB, w.Rails.Jobs(), nil, w.Log)
			g.Go(func() error { return r.Drain(w.Context()) })
		}
		w.Must(g.Wait())
		w.watch()
		got := map[string]int64{}
		ids, err := w.node.Mempool(w.Context())
		w.Must(err)
		for _, id := range ids {
			tx, err := w.node.Tx(w.Context(), id)
			w.Must(err)
			for _, o := range tx.Outputs {
				got[o.Address] += o.Amount
			}
		}
		for addr, n := range want {
			if got[addr] != n {
				w.Fatalf("%s gets %d, want %d", addr, got[addr], n)
			}
		}
	})
}

// amounts returns n different amounts, in satoshis.
func amounts(n int) (all []int64) {
	for i := range n {
		all = append(all, 10_000+int64(i))
	}
	return all
}

func TestALongQueueIsPaidByChainedTransactions(t *testing.T) {
	run(t, func(w *fixture) {
		w.fund(500_000_000)
		w.release(amounts(2_500)...)
		w.watch()
		for range 2 {
			w.wait(2 * time.Minute)
			w.mine(1)
		}
		txs := map[string]bool{}
		for _, o := range w.all(payout.Fulfilled) {
			txs[o.TxID] = true
		}
		if len(txs) != 2 {
			w.Fatalf("%d transactions", len(txs))
		}
	})
}

func TestOutputsOnHoldAndOfOtherRailsStayQueued(t *testing.T) {
	run(t, func(w *fixture) {
		w.fund(5_000_000)
		outs := w.release(1_000_000)
		if n := w.Hold(); n != 1 {
			w.Errorf("%d outputs are on hold, want 1", n)
		}
		w.Queue(payout.Output{PaymentID: "pay_bank", Rail: payout.RailBank, Amount: money.New(money.EUR, 36_800),
			Input: money.New(money.USD, 40_000), Destination: []byte(`{"iban":"x"}`)})
		w.watch()
		w.states(payout.Queued, payout.Queued)
		w.Resume()
		w.watch()
		w.states(payout.Sent, payout.Queued)
		w.Read(func(ctx context.Context, tx *db.Tx) error {
			some, err := payout.ForPayments(ctx, tx, payouttest.Company, payouttest.Payroll, outs[0].PaymentID)
			if err == nil && (len(some) != 1 || some[0].ID != outs[0].ID) {
				err = fmt.Errorf("for payments: %+v", some)
			}
			return err
		})
	})
}

// A hold also applies to outputs that are queued again while it lasts.
func TestACorrectedOutputStaysOnHold(t *testing.T) {
	run(t, func(w *fixture) {
		w.fund(5_000_000)
		outs := w.outputsOf(1_000_000)
		good := outs[0].Address
		outs[0].Address = "invalid"
		w.Queue(outs...)
		w.watch()
		o := w.states(payout.Failed)[0]
		w.Hold()
		o = w.Load(o.ID)
		o.Address = good
		w.Write(func(ctx context.Context, tx *db.Tx) error { return payout.Correct(ctx, tx, o) })
		w.watch()
		w.states(payout.Queued)
		w.Resume()
		w.watch()
		w.states(payout.Sent)
	})
}

func TestOneTransactionPaysManyOutputs(t *testing.T) {
	run(t, func(w *fixture) {
		w.fund(5_000_000)
		w.release(amounts(60)...)
		w.all(payout.Queued)
		w.Must(w.rail.Prepare(w.Context(), w.DB, payouttest.Company))
		outs := w.all(payout.Prepared)
		positions := map[uint32]bool{}
		for _, o := range outs {
			positions[o.Vout] = true
			if o.TxID == "" || o.TxID != outs[0].TxID {
				w.Fatalf("not in the one transaction: %+v", o)
			}
			w.holds(ledger.OutputPayable, o.ID, 0)
		}
		if len(positions) != len(outs) {
			w.Fatalf("%d positions for %d outputs", len(positions), len(outs))
		}
		w.watch()
		w.all(payout.Sent)
		w.mine(1)
		outs = w.all(payout.Fulfilled)
		w.paid(outs...)
		for _, o := range outs {
			var changes []db.Change
			w.Read(func(ctx context.Context, tx *db.Tx) (err error) {
				changes, err = db.Changes(ctx, tx, payouttest.Company, o.ID)
				return err
			})
			at := string(payout.Queued) // the history has no row for an output's first state
			for i, c := range changes {
				if c.From != at || c.Version != int64(i)+2 {
					w.Fatalf("the history of version %d: %+v", o.Version, changes)
				}
				at = c.To
			}
			if at != string(payout.Fulfilled) || o.Version != int64(len(changes))+1 {
				w.Fatalf("the history of version %d: %+v", o.Version, changes)
			}
		}
		if n := len(w.node.sent); n != 1 {
			w.Fatalf("%d broadcasts", n)
		}
	})
}

func TestManyOutputsWaitAndAreThenPaid(t *testing.T) {
	for name, c := range map[string]struct {
		funds      int64
		delay, end func(w *fixture)
	}{
		"payouts are paused": {5_000_000, func(w *fixture) { w.Pause("a drill") }, func(w *fixture) {
			w.all(payout.Queued)
			w.Pause("")
			w.release(amounts(60)...)
		}},
		"the fee is high": {5_000_000, func(w *fixture) { w.feeRate(500) }, func(w *fixture) {
			w.all(payout.Queued)
			w.feeRate(5)
		}},
		"the funds pay half of the amount": {300_000, func(*fixture) {}, func(w *fixture) {
			if outs := w.outputs(); outs[0].State != payout.Sent || outs[59].State != payout.Queued {
				w.Errorf("the first output is %s and the last is %s", outs[0].State, outs[59].State)
			}
			w.fund(2_000_000)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(w *fixture) {
				w.fund(c.funds)
				c.delay(w)
				outs := w.outputsOf(amounts(60)...)
				for i := range outs {
					outs[i].ID, outs[i].PaymentID = fmt.Sprintf("out_%02d", i), fmt.Sprintf("pay_%02d", i)
				}
				w.Queue(outs...)
				w.watch()
				c.end(w)
				w.wait(2 * time.Minute)
				w.mine(1)
				w.all(payout.Fulfilled)
			})
		})
	}
}

func TestOneInvalidAddressAmongManyFailsAlone(t *testing.T) {
	run(t, func(w *fixture) {
		w.fund(5_000_000)
		outs := w.outputsOf(amounts(60)...)
		outs[7].Address = "invalid"
		w.Queue(outs...)
		w.watch()
		for _, o := range w.outputs() {
			if want := map[bool]payout.State{true: payout.Failed, false: payout.Sent}[o.Address == "invalid"]; o.State != want {
				w.Fatalf("%s is %s, want %s", o.Address, o.State, want)
			}
		}
	})
}

// A payout that cannot be stored is not sent, and is sent when it can be stored again.
func TestNothingIsSentThatCannotBeStored(t *testing.T) {
	run(t, func(w *fixture) {
		w.fund(5_000_000)
		do := func(statements map[db.Engine][]string) {
			w.Helper()
			w.Write(func(ctx context.Context, tx *db.Tx) error {
				for _, sql := range statements[w.DB.Engine()] {
					if _, err := tx.Exec(ctx, sql); err != nil {
						return err
					}
				}
				return nil
			})
		}
		do(map[db.Engine][]string{
			db.SQLite: {"CREATE TRIGGER no_room BEFORE INSERT ON payout_batches BEGIN SELECT RAISE(ABORT, 'no room'); END"},
			db.Postgres: {`CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS
				$$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$`,
				"CREATE TRIGGER no_room BEFORE INSERT ON payout_batches FOR EACH ROW EXECUTE FUNCTION no_room()"},
		})
		w.release(1_000_000)
		if err := w.Runner.Drain(w.Context()); err == nil {
			w.Fatal("no error for a full disk")
		}
		w.states(payout.Queued)
		if len(w.node.sent) != 0 {
			w.Fatal("broadcast without being stored")
		}
		do(map[db.Engine][]string{db.SQLite: {"DROP TRIGGER no_room"},
			db.Postgres: {"DROP TRIGGER no_room ON payout_batches"}})
		w.wait(2 * time.Minute)
		w.mine(1)
		w.states(payout.Fulfilled)
	})
}
