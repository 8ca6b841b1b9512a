package deposit

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/job"
)

// TestConcurrentSyncKeepsTheNewerState stops a transaction that has updated a deposit before its commit, changes the
// output, and updates the deposit in another transaction, as worker processes do that share a PostgreSQL database.
// SQLite has one writer at a time.
func TestConcurrentSyncKeepsTheNewerState(t *testing.T) {
	type output struct {
		state     string
		confirmed bool
	}
	seen, confirmed := output{"seen", false}, output{"mined", true}
	for _, c := range []struct {
		name  string
		first output
		then  output
		want  State
	}{
		{"reorganized while it is confirmed", confirmed, seen, Reverted},
		{"in another block while it is confirmed", confirmed, confirmed, Confirmed},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock, url := dbtest.NewClock(), dbtest.Postgres(t)
			open := func() *db.DB { return dbtest.Open(t, db.Options{URL: url, Clock: clock.Now}) }
			runIn(t, open(), clock, func(h *env) {
				h.output("tx1", 0, "prl_1", 2_020_000)
				h.sync("tx1", 0)
				h.chain("tx1", c.first.state, c.first.confirmed, "")
				update := func(ctx context.Context, tx *db.Tx) error {
					return OutputsChanged(ctx, tx, []job.Job{{CompanyID: company, Kind: chain.JobOutput,
						Payload: []byte(`{"chain":"bitcoin","txid":"tx1","vout":0}`)}})
				}
				slow, fast := open(), open()
				updated, commit, done := make(chan error), make(chan struct{}), make(chan error, 2)
				go func() {
					done <- slow.Write(context.WithoutCancel(t.Context()), func(ctx context.Context, tx *db.Tx) error {
						err := update(ctx, tx)
						updated <- err
						<-commit
						return err
					})
				}()
				if err := <-updated; err != nil {
					t.Fatal(err)
				}
				h.chain("tx1", c.then.state, c.then.confirmed, "")
				go func() { done <- fast.Write(context.WithoutCancel(t.Context()), update) }()
				for len(done) == 0 && h.Count("SELECT COUNT(*) FROM pg_locks WHERE NOT granted AND locktype = 'advisory'") == 0 {
					if err := t.Context().Err(); err != nil {
						t.Fatal(err)
					}
				}
				close(commit)
				for range 2 {
					if err := <-done; err != nil {
						t.Fatal(err)
					}
				}
				if got := h.one("tx1", 0); got.State != c.want {
					t.Errorf("the deposit is %s, want %s", got.State, c.want)
				}
			})
		})
	}
}

// The job of an output is lost, after the output was confirmed or after its block left the chain. The deposit is
// repaired, and once only.
func TestHealUpdatesDepositsWhoseJobWasLost(t *testing.T) {
	run(t, func(h *env) {
		heal := func(want State) {
			t.Helper()
			for range 2 {
				if err := Heal(t.Context(), h.DB, slog.New(slog.DiscardHandler), network); err != nil {
					t.Fatal(err)
				}
			}
			d := h.one("tx1", 0)
			if d.State != want {
				t.Errorf("the deposit is %s, want %s", d.State, want)
			}
		}
		h.output("tx1", 0, "prl_1", 2_020_000)
		h.sync("tx1", 0)
		h.chain("tx1", "mined", true, "")
		heal(Confirmed)
		version := h.one("tx1", 0).Version
		heal(Confirmed)
		h.chain("tx1", "seen", false, "")
		heal(Reverted)
		if got := h.one("tx1", 0).Version; got != version+1 {
			t.Errorf("version %d, want %d", got, version+1)
		}
		h.output("tx2", 0, "prl_1", 2_020_000) // the job of its first sight was lost, too
		h.chain("tx2", "mined", true, "")
		heal(Reverted)
		if got := h.one("tx2", 0).State; got != Confirmed {
			t.Errorf("the deposit is %s", got)
		}

		h.output("tx3", 0, "prl_1", 2_020_000)
		h.chain("tx3", "mined", true, "")
		h.Write(func(_ context.Context, tx *db.Tx) error {
			job.Enqueue(tx, chain.OutputJob(company, network, chain.Outpoint{TxID: "tx3"}))
			return nil
		})
		heal(Reverted)
		if all := h.deposits("prl_1"); len(all) != 2 {
			t.Errorf("Heal did the work of a job that waits: %v", all)
		}
	})
}
