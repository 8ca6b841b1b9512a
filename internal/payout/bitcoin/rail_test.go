package bitcoin_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/btcsuite/btcd/wire/v2"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	bitcoinrail "github.com/stipend/stipend/internal/payout/bitcoin"
	"github.com/stipend/stipend/internal/payout/payouttest"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
)

// unreliable is the simulated chain with a connection that fails. It records accepted transactions.
type unreliable struct {
	*node
	connection payouttest.Connection
	accepted   map[string][]byte
}

func (u *unreliable) Broadcast(ctx context.Context, raw []byte) error {
	if u.connection == payouttest.LostBefore {
		return errors.New("connection refused")
	}
	if err := u.node.Broadcast(ctx, raw); err != nil {
		return err
	}
	var tx wire.MsgTx
	if err := tx.Deserialize(bytes.NewReader(raw)); err != nil {
		return err
	}
	u.accepted[tx.TxID()] = raw
	if u.connection == payouttest.LostAfter {
		return errors.New("connection reset")
	}
	return nil
}

// The Bitcoin rail keeps the contract of payout.Rail on the simulated chain.
func TestRail(t *testing.T) {
	payouttest.Run(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) payouttest.Outside {
		w := &fixture{t: t, ctx: t.Context(), d: d, clock: clock, node: &node{Chain: bitcoinsim.New(d), rate: 5}}
		outside := &unreliable{node: w.node, accepted: map[string][]byte{}}
		w.signer, w.payee = key(t, 1), key(t, 2).Deriver()
		log := slog.New(slog.DiscardHandler)
		w.pool = chain.NewPool(d, network, w.signer.Deriver())
		w.must(w.pool.Start(w.ctx))
		w.watcher = chain.NewWatcher(d, network, outside, 1, log)
		var err error
		w.rail, err = bitcoinrail.New(bitcoinrail.Config{Chain: network, Source: outside, Pool: w.pool, Signer: w.signer,
			Log: log})
		w.must(err)
		follow := func() {
			t.Helper()
			w.must(w.watcher.Sync(w.ctx))
		}
		w.must(w.node.Mine(w.ctx, 1))
		follow()
		for i := range 4 {
			var address string
			w.write(func(ctx context.Context, tx *db.Tx) (err error) {
				address, err = w.pool.NewAddress(ctx, tx, "com_funds", fmt.Sprintf("fund_%d", i))
				return err
			})
			_, err := w.node.Pay(w.ctx, address, 5_000_000)
			w.must(err)
		}
		w.must(w.node.Mine(w.ctx, chain.DefaultConfirmations))
		follow()
		w.must(w.rail.RefreshFees(w.ctx, d))
		return payouttest.Outside{
			Rail: w.rail,
			Output: func() payout.Output {
				address, err := w.payee.Address(0, w.payees)
				w.must(err)
				w.payees++
				return payout.Output{Amount: money.New(money.BTC, 500_000), Address: address}
			},
			Unpayable: func() payout.Output { return payout.Output{Amount: money.New(money.BTC, 500_000), Address: "invalid"} },
			Set:       func(c payouttest.Connection) { outside.connection = c },
			Advance: func() {
				w.must(w.node.Mine(w.ctx, 1))
				follow()
			},
			Revert: func(payout.Output) {
				w.must(w.node.Reorg(w.ctx, 3))
				follow()
			},
			Reverted: payout.Sent,
			Executed: func(o payout.Output) (n int) {
				script, err := bitcoin.AddressScript(o.Address, "regtest")
				if err != nil {
					return 0
				}
				for _, raw := range outside.accepted {
					n += bytes.Count(raw, script)
				}
				return n
			},
		}
	})
}
