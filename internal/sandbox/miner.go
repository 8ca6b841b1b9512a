package sandbox

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
)

// Miner mines the blocks of simulated chains. Only one process of the service mines each chain at a time. Its methods
// may be called concurrently.
type Miner struct {
	DB     *db.DB
	Holder string // identifies this process as the holder of leases
	Lease  time.Duration
	Every  time.Duration // interval between blocks
	Log    *slog.Logger

	mu sync.Mutex // held while a block is mined and while mining is paused
}

// Run calls mine at each interval until ctx is done, while this process holds the lease of the chain.
func (m *Miner) Run(ctx context.Context, chain string, mine func(context.Context) error) {
	job.Leader{
		DB: m.DB, Name: "miner." + chain, Holder: m.Holder, Length: m.Lease, Pause: m.Every,
		Report: func(err error) { m.warn(ctx, "the miner has no lease", chain, err) },
	}.Run(ctx, func(ctx context.Context) error {
		tick := time.NewTicker(m.Every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
			m.mu.Lock()
			err := mine(ctx)
			m.mu.Unlock()
			m.warn(ctx, "no block could be mined", chain, err)
		}
	})
}

func (m *Miner) warn(ctx context.Context, what, chain string, err error) {
	if err != nil && ctx.Err() == nil {
		m.Log.WarnContext(ctx, what, "chain", chain, "error", err)
	}
}

// Pause stops mining in this process until the returned function is called.
func (m *Miner) Pause() (resume func()) {
	m.mu.Lock()
	return m.mu.Unlock
}
