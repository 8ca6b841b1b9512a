package app

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/chain/evmsim"
	"github.com/stipend/stipend/internal/chain/sim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/receivable/deposit"
)

// The account that pays on a simulated network was once given its gas out of nothing. Such a sandbox is opened with it in the books, once,
// and only when nothing is under way; then books and network agree, as they do in a new one from the start.
func TestAnOldSandboxHasItsGasInTheBooks(t *testing.T) {
	const hot = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
	network, err := evm.Lookup("base")
	if err != nil {
		t.Fatal(err)
	}
	network.BlocksPerConfirmation = 1
	gift := money.New(network.Native, gasOfSandbox)
	for name, old := range map[string]struct{ given, since bool }{ // out of nothing; and another gift since
		"new": {false, false}, "old": {true, false}, "opened since": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			dbtest.Run(t, func(t *testing.T, d *db.DB) {
				ctx, log := t.Context(), slog.New(slog.DiscardHandler)
				must := func(err error) {
					t.Helper()
					if err != nil {
						t.Fatal(err)
					}
				}
				bitcoin := sim.New(d)
				a := accountChain{network: network, sim: evmsim.New(d, network)}
				a.node = a.sim
				must(chain.NewWatcher(d, chainName, bitcoin, log).Sync(ctx))
				watcher := chain.NewWatcher(d, network.Name, a.sim, log)
				must(watcher.Sync(ctx))
				must(d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
					return chain.WatchAccount(ctx, tx, network.Name, hot, ledger.House)
				}))
				settle := func() {
					t.Helper()
					must(a.sim.Mine(ctx, chain.DefaultConfirmations))
					must(watcher.Sync(ctx))
					must(job.NewRunner(d, job.Table{chain.JobOutput: {Batch: deposit.OutputsChanged}}, nil, log).Drain(ctx))
				}
				off := func() int {
					t.Helper()
					r, err := backoffice.Reconcile(ctx, d, backoffice.World{Chain: chainName, Node: bitcoin, Accounts: []evm.Node{a.node}})
					must(err)
					return len(r.Differences)
				}
				start := func() {
					t.Helper()
					s := &Service{db: d}
					must(s.giveGas(ctx, a, hot))
				}
				want := int64(1)
				if old.given {
					must(a.sim.Fund(ctx, hot, gift))
				}
				if old.since {
					want = 2
					_, err := a.sim.Pay(ctx, hot, gift)
					must(err)
					must(d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
						return db.SetSetting(ctx, tx, "sandbox.gas."+network.Name, hot)
					}))
					start() // before the network has the gift
					must(a.sim.Mine(ctx, 1))
					must(watcher.Sync(ctx))
					start() // before it is booked
				}
				if old.since {
					settle()
				}
				if got := off() > 0; got != old.given {
					t.Fatalf("books and network differ: %v", got)
				}
				for range 3 {
					start()
					settle()
				}
				if n := off(); n != 0 {
					t.Errorf("%d differences", n)
				}
				must(d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
					booked, err := ledger.Balance(ctx, tx, ledger.House, ledger.OtherWallets, network.Name, network.Native)
					if booked.Units() != want*gasOfSandbox {
						t.Errorf("the books have %s", booked)
					}
					return err
				}))
			})
		})
	}
}
