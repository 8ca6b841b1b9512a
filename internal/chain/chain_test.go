package chain_test

import (
	"sync"
	"testing"

	"github.com/stipend/stipend/internal/chain/btcdtest"
	"github.com/stipend/stipend/internal/chain/chaintest"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
	"github.com/stipend/stipend/internal/testkit/fixture"
)

func onSim(_ *testing.T, d *db.DB) chaintest.Chain {
	return fixture.Simulated{Chain: bitcoinsim.New(d)}
}

// onNode shares one node among all subtests of a test, because starting one takes longer than they do.
func onNode(t *testing.T, start func(testing.TB) *btcdtest.Node) chaintest.Factory {
	once := sync.OnceValue(func() *btcdtest.Node { return start(t) })
	return func(*testing.T, *db.DB) chaintest.Chain { return once() }
}

func TestSource(t *testing.T) {
	t.Run("sim", func(t *testing.T) {
		dbtest.Run(t, func(t *testing.T, d *db.DB) { chaintest.Run(t, d, onSim) })
	})
	btcdtest.Each(t, func(t *testing.T, start func(testing.TB) *btcdtest.Node) {
		chaintest.Run(t, dbtest.Open(t, db.Options{URL: dbtest.SQLite(t)}), onNode(t, start))
	})
}

func TestWatcher(t *testing.T) {
	t.Run("sim", func(t *testing.T) {
		dbtest.Run(t, func(t *testing.T, d *db.DB) { chaintest.RunWatcher(t, d, onSim) })
	})
	btcdtest.Each(t, func(t *testing.T, start func(testing.TB) *btcdtest.Node) {
		node := onNode(t, start)
		dbtest.Run(t, func(t *testing.T, d *db.DB) { chaintest.RunWatcher(t, d, node) })
	})
}
