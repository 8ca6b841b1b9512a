package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/webhook"
)

const (
	mostProcesses = 4
	committers    = 64 // transactions that commit at the same time in the measurement of the order of events
)

// commitDelays are the durations that a commit waits, as for a synchronous replica.
var commitDelays = []time.Duration{0, time.Millisecond, 3 * time.Millisecond, 5 * time.Millisecond}

// delayCommits makes each commit of the PostgreSQL server wait before its log is flushed. Commits that wait at the same
// time share the flush.
func delayCommits(ctx context.Context, address string, delay time.Duration) error {
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, statement := range []string{"ALTER SYSTEM SET commit_siblings = 0",
		fmt.Sprintf("ALTER SYSTEM SET commit_delay = %d", delay.Microseconds()), "SELECT pg_reload_conf()"} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// processes measures several processes of the service on one database, and the order of events alone.
func (b *bench) processes(ctx context.Context, binary string) error {
	if b.engine != "postgres" {
		return nil
	}
	if err := b.orderOfEvents(ctx); err != nil {
		return err
	}
	address, err := b.databases("processes")
	if err != nil {
		return err
	}
	most := slices.Max(b.clients)
	w, err := seed(ctx, address, 1, most, 1)
	if err != nil {
		return fmt.Errorf("seed: %w", err)
	}
	var running []*process
	var clients []*client
	for range mostProcesses {
		p, err := start(ctx, binary, address)
		if err != nil {
			return err
		}
		defer p.stop()
		c := newClient(p.url, most)
		if err := c.ready(ctx, w.companies[0]); err != nil {
			return err
		}
		running, clients = append(running, p), append(clients, c)
	}
	began, used := time.Now(), cpuOfTree(b.server)
	var idle time.Duration
	for _, p := range running {
		idle -= cpuOf(p.pid)
	}
	time.Sleep(b.span)
	for _, p := range running {
		idle += cpuOf(p.pid)
	}
	fmt.Fprintf(b.out, "\n%d idle processes: %.1f%% of a processor each, database %.1f%%\n", len(running),
		100*idle.Seconds()/time.Since(began).Seconds()/float64(len(running)),
		100*(cpuOfTree(b.server)-used).Seconds()/time.Since(began).Seconds())
	t := newTable(b.out, b.engine+": claims a second by several processes", "commit waits", "clients", "1 process", "p50",
		"p99", "2 processes", "p50", "p99", "ratio", "4 processes", "p50", "p99", "ratio")
	for _, delay := range commitDelays {
		if err := delayCommits(ctx, address, delay); err != nil {
			return err
		}
		for _, n := range b.clients {
			b.logf("%d clients, commits wait %s", n, delay)
			var all []func(int) error
			for _, processes := range []int{1, 2, mostProcesses} {
				all = append(all, func(i int) error {
					by := w.companies[i%len(w.companies)]
					return clients[i%processes].post(ctx, by, claimPath, newKey(), by.claim())
				})
			}
			flows, err := b.alternate(n, running[0].pid, all...)
			if err != nil {
				return err
			}
			row := []any{delay, n}
			for i, f := range flows {
				row = append(row, f.rate, f.p50, f.p99)
				if i > 0 {
					row = append(row, ratio(f.rate, flows[0].rate))
				}
			}
			t.row(row...)
		}
	}
	return t.end()
}

// orderOfEvents measures transactions that each commit one event, and how long a reader waits for them.
func (b *bench) orderOfEvents(ctx context.Context) error {
	address, err := b.databases("events")
	if err != nil {
		return err
	}
	d, err := db.Open(ctx, db.Options{URL: address, Connections: 2 * committers, Committers: 1})
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Migrate(ctx); err != nil {
		return err
	}
	t := newTable(b.out, b.engine+": transactions that commit one event each", "commit waits", "transactions at once",
		"commits/s", "read late p50", "p99", "missed")
	for _, delay := range commitDelays {
		if err := delayCommits(ctx, address, delay); err != nil {
			return err
		}
		for _, n := range []int{1, 4, 16, committers} {
			b.logf("%d transactions at once, commits wait %s", n, delay)
			f, err := b.commitEvents(ctx, d, address, n)
			if err != nil {
				return err
			}
			t.row(delay, n, f.rate, f.p50, f.p99, f.missed)
		}
	}
	return t.end()
}

type readEvents struct {
	measurement
	missed int64
}

// commitEvents commits events in n handles with one committer each, so that no two events share a commit.
func (b *bench) commitEvents(ctx context.Context, d *db.DB, address string, n int) (f readEvents, err error) {
	handles := make([]*db.DB, n)
	for i := range handles {
		if handles[i], err = db.Open(ctx, db.Options{URL: address, Connections: 1, Committers: 1}); err != nil {
			return f, err
		}
		defer handles[i].Close()
	}
	var mu sync.Mutex
	committed := map[string]time.Time{} // by object, those that were not read yet
	early := map[string]time.Time{}     // those that were read before the committer continued
	var late []time.Duration
	var ended atomic.Bool
	var readErr error
	var reader sync.WaitGroup
	reader.Go(func() {
		for readErr == nil {
			last := ended.Load()
			var events []webhook.StoredEvent
			readErr = d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
				events, err = webhook.Next(ctx, tx, 1_000)
				return err
			})
			mu.Lock()
			now := time.Now()
			for _, e := range events {
				if at, ok := committed[e.ObjectID]; ok {
					late = append(late, now.Sub(at))
					delete(committed, e.ObjectID)
				} else {
					early[e.ObjectID] = now
				}
			}
			mu.Unlock()
			if last && len(events) == 0 {
				return
			}
		}
	})
	f.measurement, err = throughput(n, b.span, func(client int) error {
		object := newKey()
		if err := handles[client].Write(ctx, func(_ context.Context, tx *db.Tx) error {
			return webhook.Emit(tx, webhook.PayrollCreated.Event(fmt.Sprintf("com_bench%02d", client), object, 1,
				webhook.PayrollCreated.Example))
		}); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if _, ok := early[object]; ok {
			late = append(late, 0)
			delete(early, object)
		} else {
			committed[object] = time.Now()
		}
		return nil
	})
	ended.Store(true)
	reader.Wait()
	if err := errors.Join(err, readErr); err != nil {
		return f, err
	}
	lags := spreadOf(late)
	f.p50, f.p99, f.missed = lags.p50, lags.p99, int64(len(committed))
	return f, nil
}
