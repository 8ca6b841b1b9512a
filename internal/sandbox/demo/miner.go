package demo

import (
	"context"
	"errors"

	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/sandbox"
)

// miner pays on a regtest node with coins that it mined itself, so that the node needs no wallet.
type miner struct {
	node    *bitcoin.Client
	wallet  *bitcoin.Signer
	address string
}

func newMiner(rpc string) (*miner, error) {
	node, err := bitcoin.NewClient(bitcoin.Options{URL: rpc, Network: "regtest"})
	if err != nil {
		return nil, err
	}
	wallet, err := sandbox.NewWallet("regtest")
	if err != nil {
		return nil, err
	}
	address, err := wallet.Deriver().Address(chain.External, 0)
	if err != nil {
		return nil, err
	}
	return &miner{node, wallet, address}, nil
}

func (m *miner) mine(ctx context.Context, n int) error {
	for range n {
		if _, err := m.generate(ctx); err != nil {
			return err
		}
	}
	return nil
}

// pay mines coins until it has the amount, waits until they mature, and sends the amount.
func (m *miner) pay(ctx context.Context, address string, sats int64) (string, error) {
	const fee = 2_000 // satoshis per input, 20 times the relay minimum
	var coins []chain.WalletCoin
	var have int64
	for have < sats+fee*int64(len(coins)+1) {
		if len(coins) == 200 {
			return "", errors.New("blocks of this regtest chain hold too few coins by now; start a fresh one")
		}
		hash, err := m.generate(ctx)
		if err != nil {
			return "", err
		}
		b, err := m.node.Block(ctx, hash)
		if err != nil {
			return "", err
		}
		reward := b.Txs[0]
		for _, o := range reward.Outputs {
			if o.Address == m.address {
				coins = append(coins, chain.WalletCoin{
					Outpoint: chain.Outpoint{TxID: reward.ID, Vout: o.Vout}, Address: m.address, Amount: o.Amount,
					Branch: chain.External,
				})
				have += o.Amount
			}
		}
	}
	height, _, err := m.node.Tip(ctx)
	if err != nil {
		return "", err
	}
	if err := m.mine(ctx, max(chain.CoinbaseMaturity, segwitHeight-int(height))); err != nil {
		return "", err
	}

	tx := wire.NewMsgTx(2)
	for _, c := range coins {
		hash, err := chainhash.NewHashFromStr(c.TxID)
		if err != nil {
			return "", err
		}
		tx.AddTxIn(wire.NewTxIn(wire.NewOutPoint(hash, c.Vout), nil, nil))
	}
	script, err := bitcoin.AddressScript(address, "regtest")
	if err != nil {
		return "", err
	}
	tx.AddTxOut(wire.NewTxOut(sats, script))
	// Change below the relay minimum becomes part of the fee.
	if change := have - sats - fee*int64(len(coins)); change > 1_000 {
		back, err := bitcoin.AddressScript(m.address, "regtest")
		if err != nil {
			return "", err
		}
		tx.AddTxOut(wire.NewTxOut(change, back))
	}
	raw, txid, err := m.wallet.Sign(tx, coins)
	if err != nil {
		return "", err
	}
	return txid, m.node.Broadcast(ctx, raw)
}
