package evm_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	evmrail "github.com/stipend/stipend/internal/payout/evm"
	"github.com/stipend/stipend/internal/payout/payouttest"
	"github.com/stipend/stipend/internal/sandbox/evmsim"
)

// unreliable is a simulated network whose connection fails. It records accepted transactions.
type unreliable struct {
	*evmsim.Chain
	connection payouttest.Connection
	accepted   map[string]evm.Call
}

func (u *unreliable) Broadcast(ctx context.Context, raw []byte) error {
	if u.connection == payouttest.LostBefore {
		return errors.New("connection refused")
	}
	if err := u.Chain.Broadcast(ctx, raw); err != nil {
		return err
	}
	signed, _, err := evm.DecodeTx(raw)
	if err != nil {
		return err
	}
	u.accepted[string(raw)] = signed.Call
	if u.connection == payouttest.LostAfter {
		return errors.New("connection reset")
	}
	return nil
}

func (u *unreliable) BroadcastAll(ctx context.Context, raws [][]byte) []error {
	errs := make([]error, len(raws))
	for i, raw := range raws {
		errs[i] = u.Broadcast(ctx, raw)
	}
	return errs
}

// The EVM rail keeps the contract of payout.Rail on a simulated network.
func TestRail(t *testing.T) {
	payouttest.Run(t, func(t *testing.T, d *db.DB, _ *dbtest.Clock) payouttest.Outside {
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		network, err := evm.Lookup("base")
		must(err)
		network.BlocksPerConfirmation = 1
		seed, err := evm.MasterFromSeed([]byte("the account of a rail that is tested"))
		must(err)
		keys, err := evm.ParseXPriv(seed)
		must(err)
		hot, err := keys.Deriver().HotAddress()
		must(err)
		outside := &unreliable{Chain: evmsim.New(d, network), accepted: map[string]evm.Call{}}
		must(outside.Fund(t.Context(), hot, money.New(money.ETH, 1_000_000_000_000)))
		must(outside.Fund(t.Context(), hot, money.New(money.USDC, 1_000_000_000)))
		log := slog.New(slog.DiscardHandler)
		rail, err := evmrail.New(t.Context(), d, evmrail.Config{Node: outside, Signer: keys, Log: log})
		must(err)
		watcher := chain.NewWatcher(d, network.Name, outside, 1, log)
		must(watcher.Sync(t.Context()))
		payees := uint32(1_000)
		return payouttest.Outside{
			Rail: rail,
			Output: func() payout.Output {
				address, err := keys.Deriver().Address(chain.External, payees)
				must(err)
				payees++
				return payout.Output{Amount: money.New(money.USDC, 5_000_000), Address: address}
			},
			Unpayable: func() payout.Output { return payout.Output{Amount: money.New(money.USDC, 5_000_000), Address: "0x123"} },
			Set:       func(c payouttest.Connection) { outside.connection = c },
			Advance: func() {
				must(outside.Mine(t.Context(), 1))
				must(watcher.Sync(t.Context()))
			},
			Revert: func(payout.Output) {
				must(outside.Reorg(t.Context(), 3))
				must(watcher.Sync(t.Context()))
			},
			Reverted: payout.Sent,
			Executed: func(o payout.Output) (n int) {
				for _, call := range outside.accepted {
					if to, _, _ := network.ParseTransfer(call); to.String() == o.Address {
						n++
					}
				}
				return n
			},
		}
	})
}
