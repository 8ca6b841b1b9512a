package deposit

import (
	"context"
	"testing"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/chaintest"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
	"github.com/stipend/stipend/internal/testkit/fixture"
)

// TestWithAWatchedChain sends transactions of 2,020,000 sat on the simulated chain through the watcher and its jobs.
// Payments of this value need two confirmations. A step with a state and a time
// checks that the last deposit has them.
func TestWithAWatchedChain(t *testing.T) {
	for name, steps := range map[string]string{
		"paid": "pay 2_020_000, seen in_time, mine 1, seen in_time, mine 1, confirmed in_time",
		"replaced with a higher fee after the quote ended": "pay 2_020_000, seen in_time, wait 1h, " +
			"replace 2_020_000, seen in_time, first replaced, mine 2, confirmed in_time",
		"taken back by the payer": "pay 2_020_000, seen in_time, replace, first replaced",
		"evicted":                 "pay 2_020_000, seen in_time, evict, evicted in_time",
		"late":                    "wait 30m, pay 2_020_000, mine 2, confirmed late",
		"reorganized and mined again": "pay 2_020_000, mine 3, confirmed in_time, reorg 3, reverted in_time, " +
			"mine 2, confirmed in_time",
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(h *env) {
				c := h.watch(network, fixture.Simulated{Chain: bitcoinsim.New(h.DB)})
				h.open(c, chaintest.NewSigner(h, h.DB).Deriver(), "prl_1")
				c.Play(steps, func(verb, rest string) {
					txid, state, inTime := c.Paid[len(c.Paid)-1], State(verb), rest == "in_time"
					if verb == "first" {
						txid, state, inTime = c.Paid[0], State(rest), true
					}
					d := h.one(txid, 0)
					if d.State != state || d.OnTime != inTime || d.Amount != fixture.Sats(2_020_000) {
						h.Errorf("after %s: %s, in time %v, %s; want %s, %v", h.Clock.Now().Sub(dbtest.Epoch), d.State,
							d.OnTime, d.Amount, state, inTime)
					}
					h.checkLedger()
				})
			})
		})
	}
}

// watch starts the watcher of a chain and the jobs of its deposits.
func (h *env) watch(name string, c chaintest.Chain) *fixture.Chain {
	h.Helper()
	h.exec("DELETE FROM chain_cursors WHERE chain = $1", network) // the watcher creates its own
	return h.NewChain(name, c, job.Table{chain.JobOutput: {Batch: OutputsChanged}}, nil)
}

// open assigns an address to an object, which Play pays.
func (h *env) open(c *fixture.Chain, keys chain.Deriver, object string) {
	h.Helper()
	pool := chain.NewPool(h.DB, c.Name, keys)
	c.Address = fixture.Do(h.Fixture, func(ctx context.Context, tx *db.Tx) (string, error) {
		return pool.NewAddress(ctx, tx, company, object)
	})
}
