package simulation

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing/synctest"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
)

func synctestWait() { synctest.Wait() }

// network is the simulated Bitcoin network, which has a separate database.
type network struct {
	*bitcoinsim.Chain
	d    *db.DB
	rng  *rand.Rand
	calm time.Time // time from which there are no more faults
}

func openNetwork(ctx context.Context, dir string, seed uint64) (*network, error) {
	d, err := db.Open(ctx, db.Options{URL: "sqlite:" + dir + "/chain.db"})
	if err != nil {
		return nil, err
	}
	n := &network{d: d, rng: rand.New(rand.NewPCG(seed, 3))} //nolint:gosec // must be repeatable
	if err := d.Migrate(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	n.Chain = bitcoinsim.New(d)
	return n, nil
}

// mine adds a block. An actor calls it.
func (n *network) mine(ctx context.Context) {
	if err := n.Mine(ctx, 1); err != nil {
		panic("simulation: no block can be mined: " + err.Error())
	}
}

// reorganize replaces the last depth blocks, includes their transactions in the new blocks, and returns the number of
// replaced blocks.
func (n *network) reorganize(depth int) int {
	if n.Reorg(context.Background(), depth) != nil {
		return 0
	}
	return depth
}

var errNode = errors.New("simulation: the node does not answer")

// node is a process's connection to the Bitcoin node.
type node struct {
	w *World
	p *process
}

var _ chain.UTXOSource = (*node)(nil)

// ask sends a process's request to a node, or acts out a fault.
func ask[T any](ctx context.Context, n *node, what string, do func() (T, error)) (v T, err error) {
	label := db.Label(ctx) + " " + what
	switch n.w.park(label, atNode, n.p) {
	case killed, killNow:
		return v, errKilled
	case lost:
		return v, errNode
	}
	v, err = do()
	switch n.w.park(label, atAnswer, n.p) {
	case killed, killNow:
		return v, errKilled
	case lostAnswer:
		return v, errNode
	}
	return v, err
}

func (n *node) Network() string { return n.w.chain.Network() }

func (n *node) Tip(ctx context.Context) (height int64, hash string, err error) {
	hash, err = ask(ctx, n, "Tip", func() (h string, err error) {
		height, h, err = n.w.chain.Tip(context.Background())
		return h, err
	})
	return height, hash, err
}

func (n *node) BlockHash(ctx context.Context, height int64) (string, error) {
	return ask(ctx, n, "BlockHash", func() (string, error) { return n.w.chain.BlockHash(context.Background(), height) })
}

func (n *node) Block(ctx context.Context, hash string) (chain.Block, error) {
	return ask(ctx, n, "Block "+hash, func() (chain.Block, error) { return n.w.chain.Block(context.Background(), hash) })
}

func (n *node) Mempool(ctx context.Context) ([]string, error) {
	return ask(ctx, n, "Mempool", func() ([]string, error) { return n.w.chain.Mempool(context.Background()) })
}

func (n *node) Tx(ctx context.Context, txid string) (chain.Tx, error) {
	return ask(ctx, n, "Tx "+txid, func() (chain.Tx, error) { return n.w.chain.Tx(context.Background(), txid) })
}

func (n *node) Broadcast(ctx context.Context, raw []byte) error {
	_, err := ask(ctx, n, "Broadcast", func() (struct{}, error) {
		return struct{}{}, n.w.chain.Broadcast(context.Background(), raw)
	})
	return err
}

func (n *node) FeeRate(ctx context.Context) (int64, error) {
	return ask(ctx, n, "FeeRate", func() (int64, error) { return n.w.chain.FeeRate(context.Background()) })
}

func (n *node) Coin(ctx context.Context, o chain.Outpoint) (int64, error) {
	return ask(ctx, n, "Coin "+o.TxID, func() (int64, error) { return n.w.chain.Coin(context.Background(), o) })
}
