package chain_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/chaintest"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
	"github.com/stipend/stipend/internal/testkit"
)

// payers simulates processes that assign addresses and receive payments there, while one of them watches with an
// address cache.
type payers struct {
	*testing.T
	d   *db.DB
	src *bitcoinsim.Chain
	w   *chain.Watcher

	mu   sync.Mutex
	paid []string
}

func newPayers(t *testing.T, d *db.DB, keys chain.Deriver) *payers {
	p := &payers{T: t, d: d, src: bitcoinsim.New(d)}
	p.watch(keys)
	return p
}

// watch starts the watching process again.
func (p *payers) watch(keys chain.Deriver) {
	p.Helper()
	p.w = chain.NewWatcher(p.d, "regtest", p.src, 1, slog.New(slog.DiscardHandler))
	testkit.Check(p, p.w.CacheAddresses(keys, 0))
	p.learn()
}

// learn steps the watcher until the cache contains every address that is assigned.
func (p *payers) learn() {
	p.Helper()
	for range 10 {
		testkit.Check(p, p.w.Sync(p.Context()))
	}
}

func (p *payers) take(pool *chain.Pool) (addr string, err error) {
	err = p.d.Write(p.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
		addr, err = pool.NewAddress(ctx, tx, "com_1", "obj_1")
		return err
	})
	return addr, err
}

// pay assigns an address from a pool, and pays it.
func (p *payers) pay(pool *chain.Pool) error {
	addr, err := p.take(pool)
	if err != nil {
		return err
	}
	return p.payTo(addr)
}

func (p *payers) payTo(addr string) error {
	txid, err := p.src.Pay(p.Context(), addr, 50_000)
	p.mu.Lock()
	p.paid = append(p.paid, txid)
	p.mu.Unlock()
	return err
}

// missesNothing mines all payments, and checks that the watcher found them.
func (p *payers) missesNothing(when string) {
	p.Helper()
	testkit.Check(p, p.src.Mine(p.Context(), 1))
	testkit.Check(p, p.w.Sync(p.Context()))
	testkit.Check(p, p.d.Read(p.Context(), func(ctx context.Context, tx *db.Tx) error {
		for _, txid := range p.paid {
			if o, err := chain.GetOutput(ctx, tx, "regtest", chain.Outpoint{TxID: txid}); err != nil || o.State != chain.Mined {
				p.Errorf("%s: payment %s is %q: %v", when, txid, o.State, err)
			}
		}
		return nil
	}))
	p.paid = nil
}

func TestACachingWatcherMissesNoPayment(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		keys := chaintest.NewSigner(t, d).Deriver()
		p := newPayers(t, d, keys)
		ahead, lazy := chain.NewPool(d, "regtest", keys), chain.NewPool(d, "regtest", keys)
		testkit.Check(p, ahead.Start(t.Context()))
		testkit.Check(p, p.pay(lazy))
		p.missesNothing("before the cache was filled")
		old := testkit.Must(p.take(lazy))

		p.watch(keys)
		testkit.Check(p, p.payTo(old))
		p.missesNothing("assigned before the watcher started")
		foreign := testkit.Must(chaintest.NewSigner(t, d).Deriver().Address(chain.External, 0))
		home := testkit.Must(p.take(ahead))
		if got := p.w.MaybeOwn(foreign, home, p.src.Home()); !slices.Equal(got, []string{home}) {
			t.Errorf("the cache does not rule out %v, want only %s", got, home)
		}
		testkit.Check(p, p.pay(ahead))
		p.missesNothing("assigned from a cached range")
		testkit.Check(p, p.pay(lazy))
		p.missesNothing("reserved after the last load")
		testkit.Check(p, p.pay(lazy))
		testkit.Check(p, p.src.Mine(t.Context(), 2))
		testkit.Check(p, p.pay(lazy))
		testkit.Check(p, p.src.Mine(t.Context(), 1))
		p.missesNothing("reserved later, and paid in one of several blocks")

		var growth sync.WaitGroup
		done := make(chan struct{})
		for i := range 4 {
			growth.Go(func() {
				pool := lazy
				if i%2 == 0 {
					pool = ahead
				}
				for range 5 {
					if err := p.pay(pool); err != nil {
						t.Error(err)
					}
				}
			})
		}
		go func() { growth.Wait(); close(done) }()
		for growing := true; growing; {
			select {
			case <-done:
				growing = false
			default:
				testkit.Check(p, p.w.Sync(t.Context()))
				testkit.Check(p, p.src.Mine(t.Context(), 1))
			}
		}
		p.missesNothing("while the wallet grew")
	})
}

// The watcher cannot derive the addresses of another key. If there are any, it queries the database for every address.
func TestACachingWatcherOfTwoKeysMissesNoPayment(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		keys := chaintest.NewSigner(t, d).Deriver()
		other := chaintest.NewSigner(t, d).Deriver()
		p := newPayers(t, d, keys)
		before, after := chain.NewPool(d, "regtest", keys), chain.NewPool(d, "regtest", other)
		testkit.Check(p, before.Start(t.Context()))
		p.learn()
		testkit.Check(p, after.Start(t.Context()))
		for _, watching := range []chain.Deriver{keys, other} {
			testkit.Check(p, p.pay(before))
			testkit.Check(p, p.pay(after))
			p.missesNothing("with two keys at work")
			p.watch(watching)
		}
		testkit.Check(p, p.pay(after))
		testkit.Check(p, p.pay(before))
		p.missesNothing("by the new key's process")
	})
}
