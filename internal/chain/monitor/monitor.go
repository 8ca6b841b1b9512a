// Package monitor runs the watchers of chains, each chain in one process of the service at a time. It stores the time
// of the last successful observation of each chain. It refuses quotes for a chain that was not observed for too long,
// or if the chain's nodes disagree.
package monitor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
)

// noteEvery is the minimum interval between two writes of the time of the last observation. A quote may be accepted
// for as much longer.
const noteEvery = 2 * time.Second

var (
	errUnwatched = apierr.New(apierr.Unavailable, "retry_later",
		"The blockchain is not being watched at the moment, so no price can be held. Try again in some minutes.")
	errDisagree = apierr.New(apierr.Unavailable, "retry_later",
		"The nodes of the blockchain disagree, so no price can be held. Try again in some minutes.")
)

// Config has the dependencies and limits of a Monitor.
type Config struct {
	DB     *db.DB
	Log    *slog.Logger
	Holder string        // holder of leases: the name of this process
	Lease  time.Duration // duration of a lease, after which another process may take over
	// Limit is the time without an observation of a chain after which Check refuses quotes; 0 means no limit.
	Limit time.Duration
	// HealthAge is the time for which Check reuses the health of the chains' nodes.
	HealthAge time.Duration
	// Fail is called with an error that a repetition does not repair.
	Fail func(error)
}

// Monitor follows chains and reports whether they are watched. It is safe for concurrent use.
type Monitor struct {
	c      Config
	seen   sync.Map // by chain: a time.Time at which the chain was observed
	health atomic.Pointer[health]
}

// health is the state of each chain's nodes at one time.
type health struct {
	at     time.Time
	chains map[string]chain.Health
}

// New returns a monitor. Every field of c but Limit and HealthAge is required.
func New(c Config) (*Monitor, error) {
	if c.DB == nil || c.Log == nil || c.Holder == "" || c.Lease <= 0 || c.Fail == nil {
		return nil, errors.New("monitor: the database, log, holder, lease and Fail are required")
	}
	return &Monitor{c: c}, nil
}

// Follow steps the watcher of a chain at each interval until ctx ends, in one process at a time.
func (m *Monitor) Follow(ctx context.Context, name string, w *chain.Watcher, every time.Duration) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	f := m.Follower(name, w)
	report := func(err error) {
		if err != nil && ctx.Err() == nil {
			m.c.Log.Warn("the chain cannot be watched", "chain", name, "error", err)
		}
	}
	job.Leader{
		DB: m.c.DB, Name: "watcher." + name, Holder: m.c.Holder, Length: m.c.Lease, Pause: every, Report: report,
	}.Run(ctx, func(ctx context.Context) error {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			err := f.Step(ctx)
			if errors.Is(err, chain.ErrTooDeep) {
				stop()
				m.c.Fail(err)
			}
			report(err)
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-tick.C:
			}
		}
	})
}

// Follower returns what follows a chain, for a caller that steps it itself.
func (m *Monitor) Follower(name string, w *chain.Watcher) *Follower {
	return &Follower{monitor: m, chain: name, watcher: w}
}

// Follower follows one chain.
type Follower struct {
	monitor *Monitor
	chain   string
	watcher *chain.Watcher
	noted   time.Time // the stored time of the last observation
}

// Step steps the watcher to the tip and stores the time of the observation.
func (f *Follower) Step(ctx context.Context) error {
	for {
		seen, err := f.monitor.c.DB.Now(ctx)
		if err != nil {
			return err
		}
		progressed, err := f.watcher.Step(ctx)
		if errors.Is(err, chain.ErrNodesDisagree) {
			return nil // the alarm of the chain reports the disagreement
		}
		if err != nil {
			return err
		}
		if !progressed {
			return f.note(ctx, seen)
		}
	}
}

// note stores the time of an observation. It stores nothing while the nodes disagree or lag: they may hide a payment,
// and the quote of a hidden payment must not expire.
func (f *Follower) note(ctx context.Context, seen time.Time) error {
	if seen.Sub(f.noted) < noteEvery || f.watcher.WitnessAhead() {
		return nil
	}
	err := f.monitor.c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		if all, err := chain.LoadHealth(ctx, tx); err != nil || all[f.chain].Unreliable() {
			return err
		}
		return db.SetSetting(ctx, tx, settingSeen(f.chain), strconv.FormatInt(db.Micros(seen), 10))
	})
	if err == nil {
		f.noted = seen
	}
	return err
}

// settingSeen is the setting with the time of the last observation of a chain, in microseconds since 1970.
func settingSeen(chain string) string { return "chain.watched." + chain }

// SeenUntil returns a function that reads the time of the last observation of a chain. The time is zero if there was
// none.
func SeenUntil(chain string) func(ctx context.Context, tx *db.Tx) (time.Time, error) {
	return func(ctx context.Context, tx *db.Tx) (time.Time, error) {
		text, err := db.Setting(ctx, tx, settingSeen(chain))
		if err != nil || text == "" {
			return time.Time{}, err
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return time.Time{}, fmt.Errorf("the time up to which %s was seen: %w", chain, err)
		}
		return db.Time(n), nil
	}
}

// Check returns an error if the last observation of a chain is older than the limit or before a time, or if the chain's
// nodes disagree. It may reuse values that are a few seconds old.
func (m *Monitor) Check(ctx context.Context, tx *db.Tx, name string, until time.Time) error {
	if err := m.checkHealth(ctx, tx, name); err != nil {
		return err
	}
	if !until.IsZero() {
		if at, err := SeenUntil(name)(ctx, tx); err != nil || at.Before(until) {
			return cmp.Or(err, error(errUnwatched))
		}
	}
	last, _ := m.seen.Load(name)
	if seen, _ := last.(time.Time); m.c.Limit <= 0 || tx.Now().Sub(seen) < m.c.Limit/2 {
		return nil
	}
	at, err := SeenUntil(name)(ctx, tx)
	if err != nil {
		return err
	}
	if tx.Now().Sub(at) > m.c.Limit {
		return errUnwatched
	}
	m.seen.Store(name, at)
	return nil
}

func (m *Monitor) checkHealth(ctx context.Context, tx *db.Tx, name string) error {
	known := m.health.Load()
	if known == nil || tx.Now().Sub(known.at).Abs() > m.c.HealthAge {
		all, err := chain.LoadHealth(ctx, tx)
		if err != nil {
			return err
		}
		known = &health{tx.Now(), all}
		m.health.Store(known)
	}
	if known.chains[name].Unreliable() {
		return errDisagree
	}
	return nil
}
