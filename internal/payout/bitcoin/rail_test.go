package bitcoin_test

import (
	"bytes"
	"testing"

	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/payouttest"
	"github.com/stipend/stipend/internal/signer/signertest"
)

// The Bitcoin rail keeps the contract of payout.Rail on the simulated chain.
func TestRail(t *testing.T) { testRail(t, "") }

// It keeps the contract also when another process signs.
func TestRailWithASigner(t *testing.T) { testRail(t, signertest.Policy) }

func testRail(t *testing.T, policy string) {
	payouttest.Run(t, func(f *payouttest.Fixture) payouttest.Outside {
		w := newFixtureWith(f, policy)
		w.fund(5_000_000, 5_000_000, 5_000_000, 5_000_000)
		follow := func(err error) {
			t.Helper()
			w.Must(err)
			w.Must(w.watcher.Sync(w.Context()))
		}
		return payouttest.Outside{
			Rail:   w.rail,
			Output: func() payout.Output { return w.outputsOf(500_000)[0] },
			Unpayable: func() payout.Output {
				o := w.outputsOf(500_000)[0]
				o.Address = "invalid"
				return o
			},
			Set:      func(c payouttest.Connection) { w.node.connection = c },
			Advance:  func() { follow(w.node.Mine(w.Context(), 1)) },
			Revert:   func(payout.Output) { follow(w.node.Reorg(w.Context(), 3)) },
			Reverted: payout.Sent,
			Executed: func(o payout.Output) (n int) {
				script, err := bitcoin.AddressScript(o.Address, "regtest")
				if err != nil {
					return 0
				}
				for _, raw := range w.node.accepted {
					n += bytes.Count(raw, script)
				}
				return n
			},
		}
	})
}
