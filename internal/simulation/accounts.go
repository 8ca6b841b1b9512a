package simulation

import (
	"context"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/sandbox"
	"github.com/stipend/stipend/internal/sandbox/evmsim"
)

// The EVM network of the runs is a test network with the name of Base and Base's USDC.
const (
	evmName    = "base"
	evmChainID = 31337
	evmUSDC    = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
)

// openEVM returns the simulated EVM network, which uses the database of the Bitcoin network.
func openEVM(d *db.DB) (*evmsim.Chain, error) {
	c, err := config("")
	if err != nil {
		return nil, err
	}
	all, err := c.OpenEVM(nil)
	if err != nil {
		return nil, err
	}
	return evmsim.New(d, all[0].Network), nil
}

// fundHotWallet pays the operator's account on the EVM network enough for fees and for payees who receive USDC.
func fundHotWallet(ctx context.Context, n *evmsim.Chain) error {
	key, err := evm.ParseXPriv(sandbox.EVMKey())
	if err != nil {
		return err
	}
	hot, err := key.Deriver().HotAddress()
	if err != nil {
		return err
	}
	for _, x := range []money.Amount{
		money.New(n.Spec().Native, sandbox.Gas), money.New(money.USDC, 100_000*1_000_000),
	} {
		if _, err := n.Pay(ctx, hot, x); err != nil {
			return err
		}
	}
	return n.Mine(ctx, 101) // deeper than any reorganization of a run
}

// accountNode is a process's node of an EVM network.
type accountNode struct{ *node }

var _ evm.Node = accountNode{}

func (n accountNode) Network() string { return n.w.evm.Network() }

func (n accountNode) Spec() evm.Network { return n.w.evm.Spec() }

func (n accountNode) Tip(ctx context.Context) (height int64, hash string, err error) {
	hash, err = ask(ctx, n.node, "EVM Tip", func() (h string, err error) {
		height, h, err = n.w.evm.Tip(context.Background())
		return h, err
	})
	return height, hash, err
}

func (n accountNode) BlockHash(ctx context.Context, height int64) (string, error) {
	return ask(ctx, n.node, "EVM BlockHash", func() (string, error) {
		return n.w.evm.BlockHash(context.Background(), height)
	})
}

func (n accountNode) Block(ctx context.Context, hash string) (chain.Block, error) {
	return ask(ctx, n.node, "EVM Block "+hash, func() (chain.Block, error) {
		return n.w.evm.Block(context.Background(), hash)
	})
}

func (n accountNode) Mempool(ctx context.Context) ([]string, error) {
	return ask(ctx, n.node, "EVM Mempool", func() ([]string, error) { return n.w.evm.Mempool(context.Background()) })
}

func (n accountNode) Tx(ctx context.Context, txid string) (chain.Tx, error) {
	return ask(ctx, n.node, "EVM Tx "+txid, func() (chain.Tx, error) { return n.w.evm.Tx(context.Background(), txid) })
}

func (n accountNode) Broadcast(ctx context.Context, raw []byte) error {
	_, err := ask(ctx, n.node, "EVM Broadcast", func() (struct{}, error) {
		return struct{}{}, n.w.evm.Broadcast(context.Background(), raw)
	})
	return err
}

// BroadcastAll implements chain.Broadcaster. If the response is lost, the result of each transaction is lost.
func (n accountNode) BroadcastAll(ctx context.Context, raws [][]byte) []error {
	all, err := ask(ctx, n.node, "EVM BroadcastAll", func() ([]error, error) {
		return n.w.evm.BroadcastAll(context.Background(), raws), nil
	})
	if err != nil {
		all = make([]error, len(raws))
		for i := range all {
			all[i] = err
		}
	}
	return all
}

func (n accountNode) FeeRate(ctx context.Context) (int64, error) {
	return ask(ctx, n.node, "EVM FeeRate", func() (int64, error) { return n.w.evm.FeeRate(context.Background()) })
}

func (n accountNode) State(ctx context.Context, account string) (evm.State, error) {
	return ask(ctx, n.node, "EVM State "+account, func() (evm.State, error) {
		return n.w.evm.State(context.Background(), account)
	})
}

func (n accountNode) Balances(ctx context.Context, accounts []string, height int64) (map[money.Asset]int64, error) {
	return ask(ctx, n.node, "EVM Balances", func() (map[money.Asset]int64, error) {
		return n.w.evm.Balances(context.Background(), accounts, height)
	})
}

func (n accountNode) Estimate(ctx context.Context, from string, calls []evm.Call) ([]evm.Estimate, error) {
	return ask(ctx, n.node, "EVM Estimate", func() ([]evm.Estimate, error) {
		return n.w.evm.Estimate(context.Background(), from, calls)
	})
}

// mineEVM adds a block if a transaction is in the mempool or needs more confirmations. An actor calls it.
func (w *World) mineEVM(ctx context.Context) {
	if err := w.evm.Settle(ctx); err != nil {
		panic("simulation: no block can be mined: " + err.Error())
	}
}
