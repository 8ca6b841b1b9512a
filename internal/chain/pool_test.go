package chain_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/chaintest"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
	"github.com/stipend/stipend/internal/testkit"
)

// Two processes share a wallet. Each has a pool, and one of them was never started.
func TestPoolGivesEachAddressOnce(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		keys := chaintest.NewSigner(t, d).Deriver()
		chaintest.StartWatching(t, d, "regtest")
		started, lazy := chain.NewPool(d, "regtest", keys), chain.NewPool(d, "regtest", keys)
		testkit.Check(t, started.Start(t.Context()))
		var mu sync.Mutex
		given := map[string]bool{}
		var all sync.WaitGroup
		for i := range 300 {
			pool, take := started, (*chain.Pool).NewAddress
			if i%3 == 0 {
				pool = lazy
			}
			if i%5 == 0 {
				take = (*chain.Pool).NewChangeAddress
			}
			all.Go(func() {
				var addr string
				err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
					addr, err = take(pool, ctx, tx, "com_1", "obj_1")
					return err
				})
				mu.Lock()
				defer mu.Unlock()
				if err != nil || given[addr] {
					t.Errorf("%s given twice, or %v", addr, err)
				}
				given[addr] = true
			})
		}
		all.Wait()
	})
}

// A payment to an address that was assigned before the watcher has a cursor might be in a block that the watcher
// never reads.
func TestPoolWaitsForTheWatcher(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		pool := chain.NewPool(d, "regtest", chaintest.NewSigner(t, d).Deriver())
		take := func() error {
			return d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				_, err := pool.NewAddress(ctx, tx, "com_1", "obj_1")
				return err
			})
		}
		if err := take(); !errors.Is(err, chain.ErrNotWatched) {
			t.Errorf("before the first step: %v", err)
		}
		chaintest.StartWatching(t, d, "regtest")
		if err := take(); err != nil {
			t.Errorf("after the first step: %v", err)
		}
	})
}

func TestUnwatchedOutputsAndTransactionsAreUnknown(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			if _, err := chain.GetOutput(ctx, tx, "regtest", chain.Outpoint{TxID: "no"}); !errors.Is(err, chain.ErrUnknown) {
				t.Error(err)
			}
			if _, err := chain.GetTx(ctx, tx, "regtest", "no"); !errors.Is(err, chain.ErrUnknown) {
				t.Error(err)
			}
			height, hash, err := chain.Tip(ctx, tx, "regtest")
			if height != -1 || hash != "" {
				t.Errorf("%d %s", height, hash)
			}
			return err
		})
		testkit.Check(t, err)
	})
}

func TestReorgDeeperThanStoredBlocksStopsTheWatcher(t *testing.T) {
	d := dbtest.Open(t, db.Options{URL: dbtest.SQLite(t)})
	ctx, src := t.Context(), bitcoinsim.New(d)
	testkit.Check(t, src.Mine(ctx, 130))
	w := chain.NewWatcher(d, "regtest", src, 1, slog.New(slog.DiscardHandler))
	for _, depth := range []int{chain.MaxReorg, chain.MaxReorg + 20} {
		testkit.Check(t, w.Sync(ctx))
		testkit.Check(t, src.Reorg(ctx, depth))
		if err := w.Sync(ctx); (depth > chain.MaxReorg) != errors.Is(err, chain.ErrTooDeep) {
			t.Errorf("%d blocks: %v", depth, err)
		}
	}
}

// lateParent lists a child in the mempool before its parent, as the scan of a large mempool may.
type lateParent struct {
	*bitcoinsim.Chain
	hidden string
}

func (s *lateParent) Mempool(ctx context.Context) (ids []string, err error) {
	all, err := s.Chain.Mempool(ctx)
	for _, id := range all {
		if id != s.hidden {
			ids = append(ids, id)
		}
	}
	return ids, err
}

func TestACoinSpentBeforeItIsSeenIsSpent(t *testing.T) {
	d := dbtest.Open(t, db.Options{URL: dbtest.SQLite(t)})
	ctx := t.Context()
	src := &lateParent{Chain: bitcoinsim.New(d)}
	w := chain.NewWatcher(d, "regtest", src, 1, slog.New(slog.DiscardHandler))
	keys := chaintest.NewSigner(t, d)
	pool := chain.NewPool(d, "regtest", keys.Deriver())
	testkit.Check(t, w.Sync(ctx))
	var addr string
	testkit.Check(t, d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		addr, err = pool.NewAddress(ctx, tx, "com_1", "obj_1")
		return err
	}))
	parent := testkit.Must(src.Pay(ctx, addr, 100_000))
	coin := chain.WalletCoin{Outpoint: chain.Outpoint{TxID: parent}, Address: addr, Amount: 100_000}
	raw, child := chaintest.Spend(t, keys, []chain.WalletCoin{coin},
		chain.Output{Address: addr, Amount: 90_000})
	testkit.Check(t, src.Broadcast(ctx, raw))
	src.hidden = parent
	testkit.Check(t, w.Sync(ctx))
	src.hidden = strings.Repeat("0", 64)
	testkit.Check(t, w.Sync(ctx))
	testkit.Check(t, d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
		o, err := chain.GetOutput(ctx, tx, "regtest", chain.Outpoint{TxID: parent})
		if o.SpendState != chain.Spent || o.SpentBy != child {
			t.Errorf("%+v", o)
		}
		return err
	}))
}
