// Package bitcoinsim simulates a Bitcoin chain in the database, for the sandbox and for most tests. Its transactions
// are real: they have signatures, which it verifies by executing their scripts. Its blocks have real headers and
// hashes, so that callers can use it like a node. It has no proof of work, no block subsidy, no maturity of coinbases
// and no size limits. [Chain] implements chain.Source. It also simulates payers and miners: it pays from a faucet,
// mines, replaces, evicts and reorganizes on request. Never use it for real money, because the faucet's key is
// public.
package bitcoinsim

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/btcsuite/btcd/btcutil/v2"
	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/txscript/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/sandbox/simulated"
)

const (
	network = "regtest"
	// The first block after the genesis block gives the faucet premineCoins coins of premineValue satoshis each.
	premineCoins = 200
	premineValue = 50_000_00000000 / premineCoins
	// fee is the fee of a payment from the faucet, in satoshis. A replacement adds the same amount.
	fee = 1_000
	// calmFee is the default fee rate of the chain, in sat/vB.
	calmFee = 2
)

// Chain is the simulated chain of a database. All Chains of the same database are the same chain. Its methods may be
// called concurrently.
type Chain struct {
	store  *simulated.Store
	faucet *bitcoin.Signer
	home   string // address of the faucet
	script string // output script of the faucet's address, in hexadecimal
}

// New returns the simulated chain of a database. The first call of a method creates the chain.
func New(d *db.DB) *Chain {
	seed := sha256.Sum256([]byte("faucet of the simulated chain"))
	xprv, err := bitcoin.MasterFromSeed(seed[:], network)
	if err != nil {
		panic(err) // cannot happen: the input is constant
	}
	faucet, err := bitcoin.ParseXPriv(xprv, network)
	if err != nil {
		panic(err)
	}
	home, err := faucet.Deriver().Address(chain.External, 0)
	if err != nil {
		panic(err)
	}
	script, err := bitcoin.AddressScript(home, network)
	if err != nil {
		panic(err)
	}
	c := &Chain{faucet: faucet, home: home, script: hex.EncodeToString(script)}
	c.store = &simulated.Store{DB: d, Begin: c.begin, FeeSetting: "sim.fee_rate", FeeRate: calmFee}
	return c
}

// Home returns the faucet's address. Money that is sent there can be paid out again.
func (c *Chain) Home() string { return c.home }

// begin creates the genesis block and the block that fills the faucet.
func (c *Chain) begin(ctx context.Context, tx *db.Tx) error {
	if _, _, err := tip(ctx, tx); !errors.Is(err, db.ErrNoRows) {
		return err
	}
	genesis := chaincfg.RegressionNetParams.GenesisBlock
	header := genesis.Header
	if err := insertBlock(ctx, tx, 0, header); err != nil {
		return err
	}
	coinbase := genesis.Transactions[0]
	if err := c.insertMined(ctx, tx, header.BlockHash().String(), 0, coinbase); err != nil {
		return err
	}
	script, err := hex.DecodeString(c.script)
	if err != nil {
		return err
	}
	outs := make([]*wire.TxOut, premineCoins)
	for i := range outs {
		outs[i] = wire.NewTxOut(premineValue, script)
	}
	return c.mine(ctx, tx, 1, nil, outs)
}

// insertMined stores a coinbase transaction at its position in a block.
func (c *Chain) insertMined(ctx context.Context, tx *db.Tx, hash string, position int, coinbase *wire.MsgTx) error {
	if err := insertTx(ctx, tx, coinbase, 0, "mined"); err != nil {
		return err
	}
	return insertBlockTx(ctx, tx, hash, position, coinbase.TxID())
}

// mine adds a block with the given transactions of the mempool. A random salt makes the block's hash random.
func (c *Chain) mine(ctx context.Context, tx *db.Tx, height int64, txs []stored, reward []*wire.TxOut) error {
	prev, err := activeHeader(ctx, tx, height-1)
	if err != nil {
		return err
	}
	if reward == nil {
		script, err := hex.DecodeString(c.script)
		if err != nil {
			return err
		}
		reward = []*wire.TxOut{wire.NewTxOut(0, script)}
	}
	at := tx.Now().Truncate(time.Second)
	if !at.After(prev.Timestamp) {
		at = prev.Timestamp.Add(time.Second)
	}
	msgs := make([]*wire.MsgTx, len(txs))
	for i, t := range txs {
		msgs[i] = t.msg
	}
	header := wire.BlockHeader{Version: 4, PrevBlock: prev.BlockHash(), Timestamp: at,
		Bits: chaincfg.RegressionNetParams.PowLimitBits}
	block, err := bitcoin.NewBlock(header, height, []byte(tx.NewID("salt")), reward, msgs)
	if err != nil {
		return err
	}
	header, coinbase := block.Header, block.Transactions[0]
	hash := header.BlockHash().String()
	if err := insertBlock(ctx, tx, height, header); err != nil {
		return err
	}
	if err := c.insertMined(ctx, tx, hash, 0, coinbase); err != nil {
		return err
	}
	for i, t := range txs {
		if err := setState(ctx, tx, t.msg.TxID(), "mined"); err != nil {
			return err
		}
		if err := insertBlockTx(ctx, tx, hash, i+1, t.msg.TxID()); err != nil {
			return err
		}
	}
	return nil
}

// Mine adds n blocks. The first one includes the whole mempool.
func (c *Chain) Mine(ctx context.Context, n int) error {
	return c.store.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		height, _, err := tip(ctx, tx)
		if err != nil {
			return err
		}
		for i := range n {
			var txs []stored
			if i == 0 {
				if txs, err = mempool(ctx, tx); err != nil {
					return err
				}
			}
			if err := c.mine(ctx, tx, height+1+int64(i), txs, nil); err != nil {
				return err
			}
		}
		return nil
	})
}

// Reorg replaces the last depth blocks by depth+1 empty blocks. The transactions of the replaced blocks return to the
// mempool until the next Mine. The genesis block cannot be replaced.
func (c *Chain) Reorg(ctx context.Context, depth int) error {
	return c.store.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		height, _, err := tip(ctx, tx)
		if err != nil {
			return err
		}
		fork := height - int64(depth)
		if depth < 1 || fork < 1 {
			return fmt.Errorf("sim: a chain of %d blocks cannot lose %d", height, depth)
		}
		undone, err := deactivate(ctx, tx, fork)
		if err != nil {
			return err
		}
		for _, t := range undone {
			if isCoinbase(t.msg) {
				if err := drop(ctx, tx, t.msg.TxID()); err != nil {
					return err
				}
				continue
			}
			if err := setState(ctx, tx, t.msg.TxID(), "mempool"); err != nil {
				return err
			}
		}
		for h := fork + 1; h <= height+1; h++ {
			if err := c.mine(ctx, tx, h, nil, nil); err != nil {
				return err
			}
		}
		return nil
	})
}

// Pay sends an amount from the faucet to an address. The transaction waits in the mempool for a block.
func (c *Chain) Pay(ctx context.Context, address string, sats int64) (txid string, err error) {
	return c.PayAll(ctx, chain.Output{Address: address, Amount: sats})
}

// PayAll sends several amounts in one transaction, whose first outputs are the given ones, in order.
func (c *Chain) PayAll(ctx context.Context, outputs ...chain.Output) (txid string, err error) {
	total := int64(fee)
	for _, o := range outputs {
		total += o.Amount
	}
	err = c.store.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		coins, err := faucetCoins(ctx, tx, c.script, total)
		if err != nil {
			return err
		}
		txid, err = c.pay(ctx, tx, coins, total, outputs)
		return err
	})
	return txid, err
}

func (c *Chain) pay(ctx context.Context, tx *db.Tx, coins []chain.WalletCoin, total int64,
	outputs []chain.Output) (string, error) {
	msg := wire.NewMsgTx(2)
	var have int64
	for i := range coins {
		coins[i].Address, coins[i].Branch = c.home, chain.External
		have += coins[i].Amount
		hash, err := chainhash.NewHashFromStr(coins[i].TxID)
		if err != nil {
			return "", err
		}
		in := wire.NewTxIn(wire.NewOutPoint(hash, coins[i].Vout), nil, nil)
		in.Sequence = wire.MaxTxInSequenceNum - 2 // signals that the transaction can be replaced
		msg.AddTxIn(in)
	}
	for _, o := range append(slices.Clone(outputs), chain.Output{Address: c.home, Amount: have - total}) {
		script, err := bitcoin.AddressScript(o.Address, network)
		if err != nil {
			return "", err
		}
		msg.AddTxOut(wire.NewTxOut(o.Amount, script))
	}
	raw, txid, err := c.faucet.Sign(msg, coins)
	if err != nil {
		return "", err
	}
	return txid, accept(ctx, tx, raw)
}

// Replace replaces a payment from the faucet in the mempool by a payment with a higher fee. The new payment spends
// the same coins and pays the given outputs. If there are no outputs, all money returns to the faucet.
func (c *Chain) Replace(ctx context.Context, txid string, outputs ...chain.Output) (newTxID string, err error) {
	err = c.store.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		old, err := loadTx(ctx, tx, txid)
		if err != nil {
			return err
		}
		if old.state != "mempool" {
			return fmt.Errorf("sim: transaction %s is not in the mempool", txid)
		}
		var coins []chain.WalletCoin
		var have int64
		for _, in := range old.msg.TxIn {
			o, err := loadOutput(ctx, tx, in.PreviousOutPoint)
			if err != nil {
				return err
			}
			if o.script != c.script {
				return fmt.Errorf("sim: transaction %s was not paid by the faucet", txid)
			}
			coins = append(coins, chain.WalletCoin{
				Outpoint: chain.Outpoint{TxID: in.PreviousOutPoint.Hash.String(), Vout: in.PreviousOutPoint.Index},
				Amount:   o.amount,
			})
			have += o.amount
		}
		total := old.fee + fee
		for _, o := range outputs {
			total += o.Amount
		}
		if total > have {
			return fmt.Errorf("sim: the replaced payment had %d sat, not %d", have, total)
		}
		if err := drop(ctx, tx, txid); err != nil {
			return err
		}
		newTxID, err = c.pay(ctx, tx, coins, total, outputs)
		return err
	})
	return newTxID, err
}

// Evict drops a transaction and its descendants from the mempool.
func (c *Chain) Evict(ctx context.Context, txid string) error {
	return c.store.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		t, err := loadTx(ctx, tx, txid)
		if err != nil {
			return err
		}
		if t.state != "mempool" {
			return fmt.Errorf("sim: transaction %s is not in the mempool", txid)
		}
		return drop(ctx, tx, txid)
	})
}

// accept adds a transaction to the mempool as a node does. It returns chain.ErrRejected if a rule forbids the
// transaction. A transaction that conflicts with one in the mempool replaces it if it pays a higher fee.
func accept(ctx context.Context, tx *db.Tx, raw []byte) error {
	var msg wire.MsgTx
	r := bytes.NewReader(raw)
	if err := msg.Deserialize(r); err != nil || r.Len() != 0 {
		return fmt.Errorf("%w: the bytes are not a transaction", chain.ErrRejected)
	}
	switch t, err := loadTx(ctx, tx, msg.TxID()); {
	case err == nil && t.state != "dropped":
		return nil
	case err != nil && !errors.Is(err, chain.ErrNotFound):
		return err
	}
	if len(msg.TxIn) == 0 || len(msg.TxOut) == 0 || isCoinbase(&msg) {
		return fmt.Errorf("%w: no inputs or no outputs", chain.ErrRejected)
	}
	coins := txscript.NewMultiPrevOutFetcher(nil)
	spent := map[wire.OutPoint]bool{}
	rivals := map[string]bool{}
	var in, out int64
	for _, txIn := range msg.TxIn {
		op := txIn.PreviousOutPoint
		o, err := loadOutput(ctx, tx, op)
		if errors.Is(err, db.ErrNoRows) {
			// not a rejection: the transaction may have been mined long ago
			return fmt.Errorf("sim: missing input %v", op)
		}
		if err != nil {
			return err
		}
		if spent[op] {
			return fmt.Errorf("%w: input %v twice", chain.ErrRejected, op)
		}
		spent[op] = true
		if o.spentBy != "" {
			rivals[o.spentBy] = true
		}
		script, err := hex.DecodeString(o.script)
		if err != nil {
			return err
		}
		coins.AddPrevOut(op, wire.NewTxOut(o.amount, script))
		in += o.amount
	}
	for _, o := range msg.TxOut {
		if o.Value < 0 || o.Value > btcutil.MaxSatoshi {
			return fmt.Errorf("%w: output out of range", chain.ErrRejected)
		}
		if o.Value < 294 && !txscript.IsUnspendable(o.PkScript) {
			return fmt.Errorf("%w: dust", chain.ErrRejected)
		}
		out += o.Value
	}
	// Nodes do not relay transactions that pay less than one satoshi per virtual byte.
	paid, vsize := in-out, int64(msg.SerializeSizeStripped()*3+msg.SerializeSize()+3)/4
	if paid < vsize {
		return fmt.Errorf("%w: min relay fee not met, %d < %d", chain.ErrRejected, paid, vsize)
	}
	if err := bitcoin.Verify(&msg, coins); err != nil {
		return fmt.Errorf("%w: %w", chain.ErrRejected, err)
	}
	for rival := range rivals {
		old, err := loadTx(ctx, tx, rival)
		if err != nil {
			return err
		}
		if old.state == "mined" {
			return fmt.Errorf("sim: missing input: spent by %s", rival)
		}
		if paid <= old.fee || !slices.ContainsFunc(old.msg.TxIn,
			func(i *wire.TxIn) bool { return i.Sequence < wire.MaxTxInSequenceNum-1 }) {
			return fmt.Errorf("%w: conflicts with %s in the mempool", chain.ErrRejected, rival)
		}
	}
	for rival := range rivals {
		if err := drop(ctx, tx, rival); err != nil {
			return err
		}
	}
	return insertTx(ctx, tx, &msg, paid, "mempool")
}

func isCoinbase(msg *wire.MsgTx) bool {
	return len(msg.TxIn) == 1 && msg.TxIn[0].PreviousOutPoint.Index == wire.MaxPrevOutIndex &&
		msg.TxIn[0].PreviousOutPoint.Hash == (chainhash.Hash{})
}

// Network implements chain.Source.
func (c *Chain) Network() string { return network }

// Tip implements chain.Source.
func (c *Chain) Tip(ctx context.Context) (height int64, hash string, err error) {
	hash, err = simulated.Read(ctx, c.store, func(ctx context.Context, tx *db.Tx) (hash string, err error) {
		height, hash, err = tip(ctx, tx)
		return hash, err
	})
	return height, hash, err
}

// BlockHash implements chain.Source.
func (c *Chain) BlockHash(ctx context.Context, height int64) (hash string, err error) {
	return simulated.Read(ctx, c.store, func(ctx context.Context, tx *db.Tx) (string, error) {
		header, err := activeHeader(ctx, tx, height)
		if err != nil {
			return "", err
		}
		return header.BlockHash().String(), nil
	})
}

// Block implements chain.Source.
func (c *Chain) Block(ctx context.Context, hash string) (chain.Block, error) {
	return simulated.Read(ctx, c.store, func(ctx context.Context, tx *db.Tx) (b chain.Block, err error) {
		height, header, err := loadBlock(ctx, tx, hash)
		if err != nil {
			return b, err
		}
		b = chain.Block{Height: height, Hash: hash, Prev: header.PrevBlock.String(), Time: header.Timestamp.UTC()}
		raws, err := blockTxs(ctx, tx, hash)
		if err != nil {
			return b, err
		}
		for _, raw := range raws {
			t, err := bitcoin.DecodeTx(raw, network)
			if err != nil {
				return b, err
			}
			b.Txs = append(b.Txs, t)
		}
		return b, nil
	})
}

// Mempool implements chain.Source.
func (c *Chain) Mempool(ctx context.Context) (txids []string, err error) {
	return simulated.Read(ctx, c.store, mempoolIDs)
}

// Tx implements chain.Source. Like a node with a transaction index, it also knows mined transactions.
func (c *Chain) Tx(ctx context.Context, txid string) (chain.Tx, error) {
	return simulated.Read(ctx, c.store, func(ctx context.Context, tx *db.Tx) (chain.Tx, error) {
		t, err := loadTx(ctx, tx, txid)
		if err == nil && t.state == "dropped" {
			err = chain.ErrNotFound
		}
		if err != nil {
			return chain.Tx{}, err
		}
		return bitcoin.DecodeTx(bitcoin.Serialize(t.msg), network)
	})
}

// Broadcast implements chain.Source.
func (c *Chain) Broadcast(ctx context.Context, raw []byte) error {
	return c.store.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return accept(ctx, tx, raw) })
}

// FeeRate implements chain.Source. It returns the rate set by [Chain.SetFeeRate], or calmFee.
func (c *Chain) FeeRate(ctx context.Context) (rate int64, err error) {
	return simulated.Read(ctx, c.store, c.store.Fee)
}

// SetFeeRate sets the fee rate that FeeRate returns, in sat/vB, and returns the previous rate. The mempool and blocks
// still accept transactions with lower rates.
func (c *Chain) SetFeeRate(ctx context.Context, rate int64) (before int64, err error) {
	return c.store.SetFee(ctx, rate)
}

// Coin implements chain.UTXOSource.
func (c *Chain) Coin(ctx context.Context, o chain.Outpoint) (sats int64, err error) {
	return simulated.Read(ctx, c.store, func(ctx context.Context, tx *db.Tx) (int64, error) {
		return minedCoin(ctx, tx, o)
	})
}
