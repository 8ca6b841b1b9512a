package evm_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/payouttest"
	"github.com/stipend/stipend/internal/signer/signertest"
)

// The EVM rail keeps the contract of payout.Rail on a simulated network.
func TestRail(t *testing.T) { testRail(t, false) }

// It keeps the contract also when another process signs.
func TestRailWithASigner(t *testing.T) { testRail(t, true) }

func testRail(t *testing.T, separate bool) {
	payouttest.Run(t, func(f *payouttest.Fixture) payouttest.Outside {
		outside, keys := simulate(f)
		var remote *signertest.Signer
		if separate {
			policy := strings.Replace(signertest.Policy, `{"max_fee": "1"}`, fmt.Sprintf(`{"max_fee": "1", "chain_id": %d,
				"tokens": {"USDC": %q, "USDT": %q}}`, outside.Spec().ChainID, outside.Spec().Tokens[0].Contract,
				outside.Spec().Tokens[1].Contract), 1)
			remote = signertest.Start(f.T, "", masterKey(), policy, f.Clock.Now)
		}
		w := newFixtureWith(f, outside, keys, remote)
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
