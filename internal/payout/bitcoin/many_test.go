package bitcoin_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/payout"
)

// manyAmounts returns the amounts of a large release.
func manyAmounts() []int64 {
	amounts := make([]int64, 60)
	for i := range amounts {
		amounts[i] = 10_000 + int64(i)
	}
	return amounts
}

func (w *fixture) all(want payout.State) []payout.Output {
	w.t.Helper()
	outs := w.outputs()
	for _, o := range outs {
		if o.State != want {
			w.t.Fatalf("output %s is %s (%s), want %s", o.ID, o.State, o.Reason, want)
		}
	}
	return outs
}

func TestOneTransactionPaysManyOutputs(t *testing.T) {
	run(t, func(w *fixture) {
		w.fund(5_000_000)
		w.release(manyAmounts()...)
		w.all(payout.Queued)
		w.must(w.rail.Prepare(w.ctx, w.d, company))
		outs := w.all(payout.Prepared)
		positions := map[uint32]bool{}
		for _, o := range outs {
			positions[o.Vout] = true
			if o.TxID == "" || o.TxID != outs[0].TxID || w.balance(ledger.OutputPayable, o.ID) != 0 {
				t.Fatalf("not in the one transaction, or still owed: %+v", o)
			}
		}
		if len(positions) != len(outs) {
			t.Fatalf("%d positions for %d outputs", len(positions), len(outs))
		}
		w.watch()
		w.all(payout.Sent)
		w.mine(1)
		for _, o := range w.all(payout.Fulfilled) {
			if got := w.received(o.TxID, o.Address); got != o.Amount.Units() {
				t.Fatalf("%s got %d, want %d", o.Address, got, o.Amount.Units())
			}
			var changes []db.Change
			w.must(w.d.Read(w.ctx, func(ctx context.Context, tx *db.Tx) (err error) {
				changes, err = db.Changes(ctx, tx, company, o.ID)
				return err
			}))
			at := string(payout.Queued) // the history has no row for an output's first state
			for i, c := range changes {
				if c.From != at || c.Version != int64(i)+2 {
					t.Fatalf("the history of version %d: %+v", o.Version, changes)
				}
				at = c.To
			}
			if at != string(payout.Fulfilled) || o.Version != int64(len(changes))+1 {
				t.Fatalf("the history of version %d: %+v", o.Version, changes)
			}
		}
		if w.node.calls != 1 {
			t.Fatalf("%d broadcasts", w.node.calls)
		}
	})
}

func TestManyOutputsWaitWhilePayoutsArePausedOrFeesAreHigh(t *testing.T) {
	run(t, func(w *fixture) {
		w.write(func(ctx context.Context, tx *db.Tx) error { return payout.SetPaused(ctx, tx, "a drill") })
		w.fund(5_000_000)
		w.release(manyAmounts()...)
		w.watch()
		w.all(payout.Queued)
		w.write(func(ctx context.Context, tx *db.Tx) error { return payout.SetPaused(ctx, tx, "") })
		w.release(manyAmounts()...)
		w.watch()
		w.all(payout.Sent)
		w.mine(1)

		w.node.rate = 500
		w.must(w.rail.RefreshFees(w.ctx, w.d))
		w.release(manyAmounts()...)
		w.watch()
		if outs := w.outputs(); slices.ContainsFunc(outs, func(o payout.Output) bool { return o.State == payout.Prepared }) {
			t.Fatal("signed at a fee rate above the limit")
		}
		w.node.rate = 5
		w.must(w.rail.RefreshFees(w.ctx, w.d))
		w.clock.Advance(2 * time.Minute)
		w.watch()
		w.mine(1)
		w.all(payout.Fulfilled)
	})
}

func TestAReleaseIsPaidAsFarAsFundsSuffice(t *testing.T) {
	run(t, func(w *fixture) {
		w.fund(300_000) // half of the amount owed
		w.release(manyAmounts()...)
		w.watch() // the jobs pay the oldest outputs
		w.fund(2_000_000)
		w.clock.Advance(2 * time.Minute)
		w.watch()
		w.mine(1)
		w.all(payout.Fulfilled)
	})
}

func TestOneInvalidAddressAmongManyFailsAlone(t *testing.T) {
	run(t, func(w *fixture) {
		w.fund(5_000_000)
		outs := w.unqueued(manyAmounts()...)
		outs[7].Address = "invalid"
		w.queue(outs)
		w.all(payout.Queued)
		w.watch()
		for _, o := range w.outputs() {
			if want := map[bool]payout.State{true: payout.Failed, false: payout.Sent}[o.Address == "invalid"]; o.State != want {
				t.Fatalf("%s is %s, want %s", o.Address, o.State, want)
			}
		}
	})
}

// A payout that cannot be stored is not sent, and is sent when it can be stored again.
func TestNothingIsSentThatCannotBeStored(t *testing.T) {
	run(t, func(w *fixture) {
		w.fund(5_000_000)
		do := func(statements map[db.Engine][]string) {
			t.Helper()
			w.write(func(ctx context.Context, tx *db.Tx) error {
				for _, sql := range statements[w.d.Engine()] {
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
		if err := w.runner.Drain(w.ctx); err == nil {
			t.Fatal("no error for a full disk")
		}
		w.states(payout.Queued)
		if w.node.calls != 0 {
			t.Fatal("broadcast without being stored")
		}
		do(map[db.Engine][]string{db.SQLite: {"DROP TRIGGER no_room"},
			db.Postgres: {"DROP TRIGGER no_room ON payout_batches"}})
		w.clock.Advance(2 * time.Minute)
		w.watch()
		w.mine(1)
		w.states(payout.Fulfilled)
	})
}
