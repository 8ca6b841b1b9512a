package chaintest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
)

// company is the company of everything that the watcher's tests watch.
const company = "com_chaintest"

// fixture is a watcher of a chain, with a wallet of its own.
type fixture struct {
	*testing.T
	d     *db.DB
	chain Chain
	name  string
	w     *chain.Watcher
	keys  *bitcoin.Signer // set on Bitcoin only
	pool  *chain.Pool

	accounts AccountChain // set on EVM networks only
}

func newFixture(t *testing.T, d *db.DB, factory Factory) *fixture {
	b := &fixture{T: t, d: d, chain: factory(t, d), name: "chain-" + t.Name()}
	if b.accounts, _ = b.chain.(AccountChain); b.accounts != nil {
		b.pool = chain.NewPool(d, b.name, b.accounts.Deriver())
	} else {
		b.keys = NewSigner(t, d)
		b.pool = chain.NewPool(d, b.name, b.keys.Deriver())
	}
	b.restart()
	b.sync()
	return b
}

// restart replaces the watcher, as after a restart of the program.
func (b *fixture) restart() {
	b.w = chain.NewWatcher(b.d, b.name, b.chain.Source(), 1, slog.New(slog.DiscardHandler))
	if b.keys != nil {
		b.must(b.w.CacheAddresses(b.keys.Deriver(), 0))
	}
}

func (b *fixture) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *fixture) write(fn func(context.Context, *db.Tx) error) {
	b.Helper()
	b.must(b.d.Write(b.Context(), fn))
}
func (b *fixture) read(fn func(context.Context, *db.Tx) error) {
	b.Helper()
	b.must(b.d.Read(b.Context(), fn))
}

func (b *fixture) sync() {
	b.Helper()
	b.must(b.w.Sync(b.Context()))
}

func (b *fixture) mine(n int) {
	b.Helper()
	b.must(b.chain.Mine(b.Context(), n))
	b.sync()
}

func (b *fixture) newAddress() (addr string) {
	b.Helper()
	b.write(func(ctx context.Context, tx *db.Tx) (err error) {
		addr, err = b.pool.NewAddress(ctx, tx, company, "obj_1")
		return err
	})
	return addr
}

// pay broadcasts a payment to a new address. It does not run the watcher, which has not seen the payment yet.
func (b *fixture) pay(amount int64) (txid string) {
	b.Helper()
	return b.payTo(chain.Output{Address: b.newAddress(), Amount: amount})
}

func (b *fixture) payTo(outputs ...chain.Output) string {
	b.Helper()
	txid, err := b.chain.PayAll(b.Context(), outputs...)
	b.must(err)
	return txid
}

// replace replaces a payment in the mempool. It does not run the watcher, which has not seen the replacement yet.
func (b *fixture) replace(txid string, outputs ...chain.Output) string {
	b.Helper()
	rival, err := b.chain.Replace(b.Context(), txid, outputs...)
	b.must(err)
	return rival
}

func (b *fixture) broadcast(raw []byte) {
	b.Helper()
	b.must(b.chain.Source().Broadcast(b.Context(), raw))
}

func (b *fixture) evict(txid string) {
	b.Helper()
	b.must(b.chain.Evict(b.Context(), txid))
	b.sync()
}

func (b *fixture) reorg(depth int) {
	b.Helper()
	b.must(b.chain.Reorg(b.Context(), depth))
	b.sync()
}

func (b *fixture) output(txid string, vout uint32) (o chain.WatchedOutput) {
	b.Helper()
	b.read(func(ctx context.Context, tx *db.Tx) (err error) {
		o, err = chain.GetOutput(ctx, tx, b.name, chain.Outpoint{TxID: txid, Vout: vout})
		return err
	})
	return o
}

func (b *fixture) tx(txid string) (w chain.WatchedTx) {
	b.Helper()
	b.read(func(ctx context.Context, tx *db.Tx) (err error) {
		w, err = chain.GetTx(ctx, tx, b.name, txid)
		return err
	})
	return w
}

func (b *fixture) coins() (coins []chain.WalletCoin) {
	b.Helper()
	b.read(func(ctx context.Context, tx *db.Tx) (err error) {
		coins, err = chain.Coins(ctx, tx, b.name)
		return err
	})
	return coins
}

func (b *fixture) require(txid string, vout uint32, n int64) {
	b.Helper()
	b.write(func(ctx context.Context, tx *db.Tx) error {
		o, err := chain.GetOutput(ctx, tx, b.name, chain.Outpoint{TxID: txid, Vout: vout})
		if err != nil {
			return err
		}
		return chain.RequireConfirmations(ctx, tx, b.name, []chain.WatchedOutput{o.WithConfirmations(n)})
	})
}

func (b *fixture) want(txid string, vout uint32, state chain.State, confirmed bool) chain.WatchedOutput {
	b.Helper()
	o := b.output(txid, vout)
	if o.State != state || o.Confirmed != confirmed {
		b.Fatalf("output %s:%d is %s, confirmed %t; want %s, %t", txid, vout, o.State, o.Confirmed, state, confirmed)
	}
	return o
}

func (b *fixture) wantTx(txid string, state chain.State, confirmed bool) chain.WatchedTx {
	b.Helper()
	w := b.tx(txid)
	if w.State != state || w.Confirmed != confirmed {
		b.Fatalf("transaction %s is %s, confirmed %t; want %s, %t", txid, w.State, w.Confirmed, state, confirmed)
	}
	return w
}

// changes runs the pending jobs of the fixture's chain, and counts them by kind and payload.
func (b *fixture) changes() map[string]int {
	b.Helper()
	var mu sync.Mutex // the runner runs several jobs concurrently
	found := map[string]int{}
	note := func(_ context.Context, _ *db.Tx, j job.Job) error {
		var n chain.OutputRef // an OutputRef can also decode the payload of a JobTx
		if err := j.Decode(&n); err != nil {
			return err
		}
		if j.CompanyID != company {
			return fmt.Errorf("job of company %q", j.CompanyID)
		}
		if n.Chain == b.name {
			about, err := json.Marshal(n)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			found[j.Kind+string(about)]++
		}
		return nil
	}
	b.drain(job.Table{chain.JobOutput: {Tx: note}, chain.JobTx: {Tx: note}})
	return found
}

// drain runs the pending jobs with the given handlers.
func (b *fixture) drain(table job.Table) {
	b.Helper()
	b.must(job.NewRunner(b.d, table, nil, slog.New(slog.DiscardHandler)).Drain(b.Context()))
}

// wantChanges checks that there are jobs for exactly the given outputs.
func (b *fixture) wantChanges(outpoints ...chain.Outpoint) {
	b.Helper()
	got := b.changes()
	for _, o := range outpoints {
		about, err := json.Marshal(chain.OutputRef{Chain: b.name, TxID: o.TxID, Vout: o.Vout})
		b.must(err)
		if got[chain.JobOutput+string(about)] == 0 {
			b.Errorf("no job for %v", o)
		}
		delete(got, chain.JobOutput+string(about))
	}
	if len(got) > 0 {
		b.Errorf("unexpected jobs: %v", got)
	}
}

// watcherCases are the cases of every chain.
var watcherCases = map[string]func(b *fixture){
	"exact payment":                   (*fixture).exactPayment,
	"split payment":                   (*fixture).splitPayment,
	"two outputs of one transaction":  (*fixture).outputsOfOneTransaction,
	"requirement changes":             (*fixture).requirementChanges,
	"replaced by a payment to us":     (*fixture).replacedByAPaymentToUs,
	"replaced by a payment to others": func(b *fixture) { b.replacedByOthers(b.restart, b.sync) },
	"replaced unseen, found in the block": func(b *fixture) {
		b.replacedByOthers(func() {}, func() { b.mine(1) }) // a block, before the next mempool scan
	},
	"evicted and back":                   (*fixture).evictedAndBack,
	"reorganization with a double spend": (*fixture).doubleSpend,
	"catch-up after a stop":              (*fixture).catchUp,
	"two watchers of one chain":          (*fixture).twoWatchers,
}

// RunWatcher tests a watcher over a source.
func RunWatcher(t *testing.T, d *db.DB, factory Factory) {
	cases := maps.Clone(watcherCases)
	for depth := 1; depth <= 6; depth++ {
		cases[fmt.Sprintf("reorganization of %d", depth)] = func(b *fixture) { b.reorganization(depth) }
	}
	if _, ok := factory(t, d).(AccountChain); ok {
		maps.Copy(cases, accountCases)
	} else {
		maps.Copy(cases, coinCases)
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) { cases[name](newFixture(t, d, factory)) })
	}
}

func (b *fixture) exactPayment() {
	addr := b.newAddress()
	txid := b.payTo(chain.Output{Address: addr, Amount: 100_000})
	b.sync()
	o := b.want(txid, 0, chain.Seen, false)
	if o.Amount != 100_000 || o.Address != addr || o.CompanyID != company || o.ObjectID != "obj_1" ||
		o.FirstSeen.IsZero() || o.Height != 0 {
		b.Fatalf("%+v", o)
	}
	b.wantChanges(chain.Outpoint{TxID: txid})
	b.require(txid, 0, 2)
	b.mine(1)
	if o = b.want(txid, 0, chain.Mined, false); o.Depth != 1 || o.BlockHash == "" {
		b.Fatalf("%+v", o)
	}
	b.wantChanges(chain.Outpoint{TxID: txid})
	b.mine(1)
	b.want(txid, 0, chain.Mined, true)
	b.wantChanges(chain.Outpoint{TxID: txid})
	b.mine(1)
	b.sync()
	b.wantChanges() // a second step changes nothing
	if again := b.output(txid, 0); again.FirstSeen != o.FirstSeen {
		b.Errorf("first seen changed from %v to %v", o.FirstSeen, again.FirstSeen)
	}
}

func (b *fixture) splitPayment() {
	addr := b.newAddress()
	one := b.payTo(chain.Output{Address: addr, Amount: 40_000})
	b.sync()
	two := b.payTo(chain.Output{Address: addr, Amount: 60_000})
	b.mine(6)
	b.want(one, 0, chain.Mined, true)
	b.want(two, 0, chain.Mined, true)
	b.read(func(ctx context.Context, tx *db.Tx) error {
		all, err := chain.OutputsOf(ctx, tx, b.name, company, "obj_1")
		if len(all) != 2 || all[0].TxID != one {
			b.Errorf("%v", all)
		}
		return err
	})
}

func (b *fixture) outputsOfOneTransaction() {
	if _, one := b.chain.(interface{ PaysOne() }); one {
		return
	}
	addr, other := b.newAddress(), b.newAddress()
	txid := b.payTo(chain.Output{Address: addr, Amount: 40_000}, chain.Output{Address: other, Amount: 50_000},
		chain.Output{Address: addr, Amount: 60_000})
	b.sync()
	if b.accounts != nil { // a contract's payments are known only after a block has executed them
		b.mine(1)
	}
	b.wantChanges(chain.Outpoint{TxID: txid}, chain.Outpoint{TxID: txid, Vout: 1}, chain.Outpoint{TxID: txid, Vout: 2})
	b.mine(1)
	for vout, amount := range []int64{40_000, 50_000, 60_000} {
		if o := b.want(txid, uint32(vout), chain.Mined, false); o.Amount != amount {
			b.Errorf("%+v", o)
		}
	}
}

func (b *fixture) requirementChanges() {
	txid := b.pay(40_000)
	b.sync()
	b.require(txid, 0, 0)
	b.want(txid, 0, chain.Seen, true)
	b.require(txid, 0, 3)
	b.want(txid, 0, chain.Seen, false)
	b.mine(2)
	b.want(txid, 0, chain.Mined, false)
	b.require(txid, 0, 2)
	b.want(txid, 0, chain.Mined, true)
}

func (b *fixture) wantReplaced(old, by string) {
	b.Helper()
	if o := b.want(old, 0, chain.Replaced, false); o.ReplacedBy != by {
		b.Errorf("replaced by %s, want %s", o.ReplacedBy, by)
	}
}

func (b *fixture) replacedByAPaymentToUs() {
	addr := b.newAddress()
	old := b.payTo(chain.Output{Address: addr, Amount: 40_000})
	b.sync()
	b.changes()
	txid := b.replace(old, chain.Output{Address: addr, Amount: 41_000})
	b.sync()
	b.wantReplaced(old, txid)
	b.want(txid, 0, chain.Seen, false)
	b.wantChanges(chain.Outpoint{TxID: old}, chain.Outpoint{TxID: txid})
	b.mine(6)
	b.want(old, 0, chain.Replaced, false)
	b.want(txid, 0, chain.Mined, true)
}

// replacedByOthers replaces a payment by one that pays the service nothing. The watcher learns of it by follow.
func (b *fixture) replacedByOthers(before, follow func()) {
	old := b.pay(40_000)
	b.sync()
	before()
	txid := b.replace(old)
	follow()
	b.wantReplaced(old, txid)
}

func (b *fixture) evictedAndBack() {
	txid := b.pay(40_000)
	b.sync()
	b.changes()
	known, err := b.chain.Source().Tx(b.Context(), txid)
	b.must(err)
	b.evict(txid)
	b.want(txid, 0, chain.Evicted, false)
	b.wantChanges(chain.Outpoint{TxID: txid})
	if b.accounts != nil {
		b.must(b.accounts.Rebroadcast(b.Context(), txid))
	} else {
		b.broadcast(known.Raw)
	}
	b.sync()
	b.want(txid, 0, chain.Seen, false)
	b.wantChanges(chain.Outpoint{TxID: txid})
	b.mine(6)
	b.want(txid, 0, chain.Mined, true)
}

func (b *fixture) reorganization(depth int) {
	older := b.pay(30_000)
	b.mine(1)
	b.require(older, 0, 1)
	txid := b.pay(40_000)
	b.mine(1)
	b.require(txid, 0, 1)
	if depth > 1 {
		b.mine(depth - 1)
	}
	before := b.want(txid, 0, chain.Mined, true)
	b.changes()
	b.reorg(depth)
	b.want(txid, 0, chain.Seen, false)
	b.want(older, 0, chain.Mined, true)
	b.wantChanges(chain.Outpoint{TxID: txid})
	b.mine(1)
	after := b.want(txid, 0, chain.Mined, true)
	if after.BlockHash == before.BlockHash || after.FirstSeen != before.FirstSeen {
		b.Errorf("before %+v, after %+v", before, after)
	}
	b.wantChanges(chain.Outpoint{TxID: txid})
}

func (b *fixture) doubleSpend() {
	txid := b.pay(40_000)
	b.mine(1)
	b.require(txid, 0, 1)
	b.must(b.chain.Reorg(b.Context(), 1))
	rival := b.replace(txid)
	b.mine(1)
	b.wantReplaced(txid, rival)
}

// catchUp stops the watcher while the last block leaves the best chain and others follow.
func (b *fixture) catchUp() {
	late := b.newAddress()
	first := b.pay(40_000)
	b.mine(1)
	b.require(first, 0, 1)
	b.restart()
	b.must(b.chain.Reorg(b.Context(), 1))
	b.must(b.chain.Mine(b.Context(), 1))
	second := b.payTo(chain.Output{Address: late, Amount: 50_000})
	b.must(b.chain.Mine(b.Context(), 12))
	b.sync()
	b.want(first, 0, chain.Mined, true)
	b.want(second, 0, chain.Mined, true)
	b.read(func(ctx context.Context, tx *db.Tx) error {
		height, hash, err := chain.Tip(ctx, tx, b.name)
		if err != nil {
			return err
		}
		h, at, err := b.chain.Source().Tip(ctx)
		if h != height || at != hash {
			b.Errorf("cursor at %d %s, tip at %d %s", height, hash, h, at)
		}
		return err
	})
}

func (b *fixture) twoWatchers() {
	txid := b.pay(40_000)
	second := chain.NewWatcher(b.d, b.name, b.chain.Source(), 1, slog.New(slog.DiscardHandler))
	b.must(b.chain.Mine(b.Context(), 8))
	done := make(chan error)
	go func() { done <- second.Sync(b.Context()) }()
	b.sync()
	b.must(<-done)
	b.want(txid, 0, chain.Mined, true)
}
