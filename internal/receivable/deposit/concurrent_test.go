package deposit

import (
	"context"
	"errors"
	"testing"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/job"
)

// TestConcurrentSyncKeepsTheNewerState lets one transaction update a deposit while another has read part of what it
// needs, as worker processes do that share a PostgreSQL database. SQLite has one writer at a time.
func TestConcurrentSyncKeepsTheNewerState(t *testing.T) {
	for _, c := range []struct {
		name     string
		known    bool   // the deposit is recorded before
		prepared bool   // a connection that has run the statements waits where one runs, another where a batch begins
		table    string // where the slower transaction waits until the newer state is stored
	}{
		{"between the output and the deposit", true, true, "deposits"},
		{"between the deposit and the output", true, true, "chain_outputs"},
		{"before the payroll's other deposits", false, false, "quotes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock, url := dbtest.NewClock(), dbtest.Postgres(t)
			d := dbtest.Open(t, db.Options{URL: url, Clock: clock.Now, Committers: 1, Connections: 1})
			runIn(t, d, clock, func(t *testing.T, h *fixture) {
				if c.prepared {
					h.output("tx0", 0, "prl_1", 2_020_000)
					h.sync("tx0", 0)
				}
				h.output("tx1", 0, "prl_1", 2_020_000)
				if c.known {
					h.sync("tx1", 0)
				}
				news := []job.Job{{CompanyID: company, Kind: chain.JobOutput,
					Payload: []byte(`{"chain":"bitcoin","txid":"tx1","vout":0}`)}}
				slow := make(chan error, 1)
				wait := lockTable(h, url, c.table)
				go func() {
					var err error
					for retry := true; retry; retry = errors.Is(err, db.ErrConflict) { // as the job runner does
						err = h.d.Write(context.WithoutCancel(t.Context()), func(ctx context.Context, tx *db.Tx) error {
							return OutputsChanged(ctx, tx, news)
						})
					}
					slow <- err
				}()
				wait.blocked()
				wait.release(func(ctx context.Context, tx *db.Tx) error {
					_, err := tx.Exec(ctx, `UPDATE chain_outputs SET state = 'mined', confirmed = TRUE, height = 90
						WHERE chain = $1 AND txid = 'tx1'`, network)
					return errors.Join(err, OutputsChanged(ctx, tx, news))
				})
				if err := <-slow; err != nil {
					t.Fatal(err)
				}
				if got := h.one("tx1", 0); got.State != Confirmed {
					t.Errorf("the deposit is %s, want %s", got.State, Confirmed)
				}
			})
		})
	}
}

// tableLock is another process's transaction that holds an exclusive lock on a table.
type tableLock struct {
	h      *fixture
	d      *db.DB
	table  string
	finish chan func(context.Context, *db.Tx) error
	done   chan error
}

func lockTable(h *fixture, url, table string) *tableLock {
	h.t.Helper()
	other := dbtest.Open(h.t, db.Options{URL: url, Clock: h.clock.Now})
	l := &tableLock{h, other, table, make(chan func(context.Context, *db.Tx) error), make(chan error, 1)}
	held := make(chan struct{})
	go func() {
		l.done <- other.Write(context.WithoutCancel(h.t.Context()), func(ctx context.Context, tx *db.Tx) error {
			_, err := tx.Exec(ctx, "LOCK TABLE "+table+" IN ACCESS EXCLUSIVE MODE")
			close(held)
			return errors.Join(err, (<-l.finish)(ctx, tx))
		})
	}()
	<-held
	return l
}

// blocked waits until a transaction waits for the table.
func (l *tableLock) blocked() {
	l.h.t.Helper()
	waiting := 0
	for waiting == 0 {
		if err := l.d.Read(l.h.t.Context(), func(ctx context.Context, tx *db.Tx) error {
			return tx.QueryRow(ctx, "SELECT COUNT(*) FROM pg_locks WHERE NOT granted AND relation = $1::regclass",
				l.table).Scan(&waiting)
		}); err != nil {
			l.h.t.Fatal(err)
		}
	}
}

// release ends the transaction after f has run in it.
func (l *tableLock) release(f func(context.Context, *db.Tx) error) {
	l.h.t.Helper()
	l.finish <- f
	if err := <-l.done; err != nil {
		l.h.t.Fatal(err)
	}
}
