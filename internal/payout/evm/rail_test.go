package evm_test

import (
	"testing"

	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/payouttest"
)

// The EVM rail keeps the contract of payout.Rail on a simulated network.
func TestRail(t *testing.T) {
	payouttest.Run(t, func(f *payouttest.Fixture) payouttest.Outside {
		outside, keys := simulate(f)
		w := newFixture(f, outside, keys)
		follow := func(err error) {
			t.Helper()
			w.Must(err)
			w.Must(w.watcher.Sync(w.Context()))
		}
		return payouttest.Outside{
			Rail:      w.rail,
			Output:    func() payout.Output { return payout.Output{Amount: usdc(5_000_000), Address: w.newPayee()} },
			Unpayable: func() payout.Output { return payout.Output{Amount: usdc(5_000_000), Address: "0x123"} },
			Set:       func(c payouttest.Connection) { outside.connection = c },
			Advance:   func() { follow(outside.Mine(w.Context(), 1)) },
			Revert:    func(payout.Output) { follow(outside.Reorg(w.Context(), 3)) },
			Reverted:  payout.Sent,
			Executed: func(o payout.Output) (n int) {
				for _, call := range outside.accepted {
					if to, _, _ := outside.Spec().ParseTransfer(call); to.String() == o.Address {
						n++
					}
				}
				return n
			},
		}
	})
}
