// Package evmsim simulates an EVM network in the database, for the sandbox and for tests. Its transactions are real:
// they have signatures, which it verifies. It supports the calls that the service uses: transfers of the network's
// native coin and of its tokens, including token transfers that a payer authorized with a signature (EIP-3009). Any
// other call fails and costs its gas. Blocks have hashes and can be reorganized. [Chain] implements evm.Node. It also
// simulates payers and miners: it pays from a faucet, mines, replaces and evicts on request. Never use it for real
// money, because the faucet's key is public.
package evmsim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/sandbox/simulated"
)

const (
	// The constants gasPay, gasTransfer and gasAuthorized are the gas used by a payment in native coin, by a token
	// transfer, and by a token transfer that the payer authorized.
	gasPay        = 21_000
	gasTransfer   = 52_000
	gasAuthorized = 80_000
	// calmFee is the default base fee of a block, in wei per unit of gas. The tip calmTip is added to it.
	calmFee = 1_000_000_000
	calmTip = 100_000_000
	// after is the number of empty blocks that Settle mines after a block with transactions.
	after = 12
)

// TestAccount is an account with [TestFunds] units of each token whose transfers can be authorized. Its private key
// is public: it is the first key of the development nodes Anvil and Hardhat.
const (
	TestAccount = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
	TestFunds   = 1_000_000_000_000
)

// Chain is a simulated network in a database. All Chains with the same name and database are the same network. Its
// methods may be called concurrently.
type Chain struct {
	store   *simulated.Store
	network evm.Network
	faucet  *evm.Signer
	home    string // address of the faucet
}

// New returns a simulated network in a database. The first call of a method creates the network.
func New(d *db.DB, network evm.Network) *Chain {
	seed := sha256.Sum256([]byte("faucet of the simulated networks of accounts"))
	xprv, err := evm.MasterFromSeed(seed[:])
	if err != nil {
		panic(err) // cannot happen: the input is constant
	}
	faucet, err := evm.ParseXPriv(xprv)
	if err != nil {
		panic(err)
	}
	home, err := faucet.Deriver().HotAddress()
	if err != nil {
		panic(err)
	}
	c := &Chain{network: network, faucet: faucet, home: home}
	c.store = &simulated.Store{DB: d, Begin: c.begin, FeeSetting: "sim.base_fee." + network.Name, FeeRate: calmFee}
	return c
}

// begin creates the genesis block.
func (c *Chain) begin(ctx context.Context, tx *db.Tx) error {
	if _, err := tip(ctx, tx, c.network.Name); !errors.Is(err, chain.ErrNotFound) {
		return err
	}
	for _, t := range c.network.Tokens {
		if t.Domain.Name != "" {
			if err := add(ctx, tx, c.network.Name, TestAccount, t.Asset, TestFunds); err != nil {
				return err
			}
		}
	}
	return insertBlock(ctx, tx, c.network.Name, block{hash: c.hash(tx), height: 0, mined: tx.Now()})
}

// hash returns a random block hash.
func (c *Chain) hash(tx *db.Tx) string {
	sum := sha256.Sum256([]byte(c.network.Name + tx.NewID("blk")))
	return "0x" + hex.EncodeToString(sum[:])
}

// Mine adds n blocks. The first block executes those transactions in the mempool that can be executed.
func (c *Chain) Mine(ctx context.Context, n int) error {
	return c.store.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		for i := range n {
			if err := c.mine(ctx, tx, i > 0); err != nil {
				return err
			}
		}
		return nil
	})
}

// Settle mines a block if a transaction is in the mempool or needs more confirmations.
func (c *Chain) Settle(ctx context.Context) error {
	due, err := simulated.Read(ctx, c.store, func(ctx context.Context, tx *db.Tx) (bool, error) {
		ids, err := waitingIDs(ctx, tx, c.network.Name)
		if err != nil || len(ids) > 0 {
			return true, err
		}
		busy, err := lastBusy(ctx, tx, c.network.Name)
		if err != nil || busy == 0 {
			return false, err
		}
		b, err := tip(ctx, tx, c.network.Name)
		return b.height < busy+after, err
	})
	if err != nil || !due {
		return err
	}
	return c.Mine(ctx, 1)
}

func (c *Chain) mine(ctx context.Context, tx *db.Tx, empty bool) error {
	prev, err := tip(ctx, tx, c.network.Name)
	if err != nil {
		return err
	}
	b := block{hash: c.hash(tx), prev: prev.hash, height: prev.height + 1, mined: tx.Now().Truncate(time.Second)}
	if err := insertBlock(ctx, tx, c.network.Name, b); err != nil || empty {
		return err
	}
	txs, err := waiting(ctx, tx, c.network.Name)
	if err != nil {
		return err
	}
	base, err := c.store.Fee(ctx, tx)
	if err != nil {
		return err
	}
	for i, t := range txs {
		if err := c.execute(ctx, tx, t, b, int64(i), base); err != nil {
			return err
		}
	}
	return nil
}

// execute includes a transaction in a block, if its nonce is the next one and it pays enough.
func (c *Chain) execute(ctx context.Context, tx *db.Tx, t stored, b block, place, base int64) error {
	name := c.network.Name
	nonce, err := nonceOf(ctx, tx, name, t.sender)
	if err != nil || nonce != t.tx.Nonce || t.tx.MaxFee < base {
		return err
	}
	e := c.effect(t.sender, t.tx.Call)
	price := min(t.tx.MaxFee, base+t.tx.Tip)
	t.fee, t.state, t.block = evm.GasCost(min(e.gas, t.tx.Gas), price), "mined", b.hash
	if e.can = e.can && e.gas <= t.tx.Gas; e.can {
		why, err := c.refusal(ctx, tx, e, t.fee, b.mined)
		if err != nil {
			return err
		}
		e.can = why == ""
	}
	t.failed = !e.can
	if err := put(ctx, tx, name, t, place); err != nil {
		return err
	}
	if err := setNonce(ctx, tx, name, t.sender, nonce+1); err != nil {
		return err
	}
	return c.move(ctx, tx, t, e, 1)
}

// effect is the effect of a call, provided that the payer has the money and the call is valid at that time.
type effect struct {
	can        bool // false if the call always fails
	gas        uint64
	from, to   string
	moved      money.Amount
	authorized evm.Authorization // has an amount if the payer authorized the transfer
}

// effect returns the effect of a sender's call.
func (c *Chain) effect(sender string, call evm.Call) effect {
	if a, ok := c.network.ParseAuthorized(call); ok {
		return effect{c.network.Verify(a) == nil, gasAuthorized, a.From.String(), a.To.String(), a.Amount, a}
	}
	e := effect{gas: gasTransfer, from: sender}
	if len(call.Data) == 0 {
		e.gas = gasPay
	}
	if len(call.Data) == 0 && call.Value.Sign() == 0 {
		e.can, e.to, e.moved = true, call.To.String(), money.Zero(c.network.Native)
		return e
	}
	to, moved, can := c.network.ParseTransfer(call)
	e.to, e.moved, e.can = to.String(), moved, can
	return e
}

// key identifies the authorization, which a token executes only once. It is "" for a call without an authorization.
func (e effect) key() string {
	if e.authorized.Amount.IsZero() {
		return ""
	}
	return e.from + "/" + hex.EncodeToString(e.authorized.Nonce[:])
}

// refusal returns the reason why a call fails at a given time, with the text of a node's error, or "" if the call
// succeeds. fee is the amount that the sender pays for gas.
func (c *Chain) refusal(ctx context.Context, tx *db.Tx, e effect, fee int64, now time.Time) (text string, err error) {
	if key := e.key(); key != "" {
		used, err := executed(ctx, tx, c.network.Name, key)
		switch {
		case err != nil:
			return "", err
		case used:
			return "execution reverted: authorization is used", nil
		case now.Unix() <= e.authorized.ValidAfter || now.Unix() >= e.authorized.ValidBefore:
			return "execution reverted: authorization is not valid at this time", nil
		}
	}
	if e.from == c.home {
		return "", nil
	}
	holds, err := balance(ctx, tx, c.network.Name, e.from, e.moved.Asset())
	switch {
	case e.moved.Asset() == c.network.Native && holds-fee < e.moved.Units():
		text = "insufficient funds for transfer"
	case holds < e.moved.Units():
		text = "execution reverted: ERC20: transfer amount exceeds balance"
	}
	return text, err
}

// move books the transfer and the fee of an executed transaction. With a sign of -1, it reverts them.
func (c *Chain) move(ctx context.Context, tx *db.Tx, t stored, e effect, sign int64) error {
	name := c.network.Name
	if t.sender != c.home {
		if err := add(ctx, tx, name, t.sender, c.network.Native, -sign*t.fee); err != nil {
			return err
		}
	}
	if t.failed || e.moved.IsZero() {
		return nil
	}
	if e.from != c.home {
		if err := add(ctx, tx, name, e.from, e.moved.Asset(), -sign*e.moved.Units()); err != nil {
			return err
		}
	}
	return add(ctx, tx, name, e.to, e.moved.Asset(), sign*e.moved.Units())
}

// Reorg replaces the last depth blocks by depth+1 empty blocks. The transactions of the replaced blocks return to the
// mempool until the next Mine. The genesis block cannot be replaced.
func (c *Chain) Reorg(ctx context.Context, depth int) error {
	return c.store.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		for range depth {
			b, err := tip(ctx, tx, c.network.Name)
			if err != nil {
				return err
			}
			if b.height == 0 {
				return errors.New("evmsim: the chain is too short")
			}
			txs, err := inBlock(ctx, tx, c.network.Name, b.hash)
			if err != nil {
				return err
			}
			for _, t := range slices.Backward(txs) {
				if err := c.move(ctx, tx, t, c.effect(t.sender, t.tx.Call), -1); err != nil {
					return err
				}
				if err := setNonce(ctx, tx, c.network.Name, t.sender, t.tx.Nonce); err != nil {
					return err
				}
				t.state, t.block, t.failed, t.fee = "mempool", "", false, 0
				if err := put(ctx, tx, c.network.Name, t, 0); err != nil {
					return err
				}
			}
			if err := deactivate(ctx, tx, c.network.Name, b.hash); err != nil {
				return err
			}
		}
		for range depth + 1 {
			if err := c.mine(ctx, tx, true); err != nil {
				return err
			}
		}
		return nil
	})
}

// Fund credits an account with newly created coins.
func (c *Chain) Fund(ctx context.Context, account string, amount money.Amount) error {
	return c.store.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		return add(ctx, tx, c.network.Name, account, amount.Asset(), amount.Units())
	})
}

// Pay sends an amount from the faucet to an address. The transaction waits in the mempool for a block.
func (c *Chain) Pay(ctx context.Context, address string, amount money.Amount) (txid string, err error) {
	to, err := evm.ParseAddress(address)
	if err != nil {
		return "", err
	}
	call, err := c.network.TransferCall(to, amount)
	if err != nil {
		return "", err
	}
	err = c.store.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		nonce, err := nonceOf(ctx, tx, c.network.Name, c.home)
		if err != nil {
			return err
		}
		for { // skips nonces that transactions in the mempool use
			taken, err := rival(ctx, tx, c.network.Name, c.home, nonce)
			if err != nil {
				return err
			}
			if len(taken) == 0 {
				break
			}
			nonce++
		}
		txid, err = c.pay(ctx, tx, nonce, calmTip, call)
		return err
	})
	return txid, err
}

func (c *Chain) pay(ctx context.Context, tx *db.Tx, nonce uint64, tip int64, call evm.Call) (txid string, err error) {
	raw, txid, err := c.faucet.Sign(evm.Tx{ChainID: c.network.ChainID, Nonce: nonce, Tip: tip, MaxFee: 1 << 60,
		Gas: gasTransfer, Call: call}, chain.Change, 0)
	if err != nil {
		return "", err
	}
	return txid, c.accept(ctx, tx, raw)
}

// Replace replaces a payment of the faucet in the mempool by a transaction with the same nonce that transfers
// nothing.
func (c *Chain) Replace(ctx context.Context, txid string, outputs ...chain.Output) (newTxID string, err error) {
	to, err := evm.ParseAddress(c.home)
	if err != nil {
		return "", err
	}
	call := evm.Call{To: to, Value: new(big.Int)}
	if len(outputs) > 0 {
		if to, err = evm.ParseAddress(outputs[0].Address); err != nil {
			return "", err
		}
		if call, err = c.network.TransferCall(to, money.New(outputs[0].Asset, outputs[0].Amount)); err != nil {
			return "", err
		}
	}
	err = c.store.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		old, err := loadTx(ctx, tx, c.network.Name, txid)
		if err != nil {
			return err
		}
		if old.state != "mempool" || old.sender != c.home {
			return fmt.Errorf("evmsim: %s is no payment of the faucet that waits", txid)
		}
		// A replacement must raise the tip and the maximum fee by at least a tenth.
		if err := c.drop(ctx, tx, old); err != nil {
			return err
		}
		newTxID, err = c.pay(ctx, tx, old.tx.Nonce, 2*old.tx.Tip, call)
		return err
	})
	return newTxID, err
}

func (c *Chain) drop(ctx context.Context, tx *db.Tx, t stored) error {
	t.state = "dropped"
	return put(ctx, tx, c.network.Name, t, 0)
}

// Evict drops a transaction from the mempool.
func (c *Chain) Evict(ctx context.Context, txid string) error {
	return c.store.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		t, err := loadTx(ctx, tx, c.network.Name, txid)
		if err == nil && t.state != "mempool" {
			err = fmt.Errorf("evmsim: %s does not wait", txid)
		}
		if err != nil {
			return err
		}
		return c.drop(ctx, tx, t)
	})
}

// errNonce means that the nonce is taken. It is not a rejection, because the transaction may have been mined long
// ago.
var errNonce = errors.New("evmsim: the nonce is taken")

// accept adds a transaction to the mempool as a node does. It returns chain.ErrRejected if a rule forbids the
// transaction.
func (c *Chain) accept(ctx context.Context, tx *db.Tx, raw []byte) error {
	name := c.network.Name
	t, from, err := evm.DecodeTx(raw)
	if err != nil {
		return fmt.Errorf("%w: %w", chain.ErrRejected, err)
	}
	s := stored{txid: evm.ID(raw), sender: from.String(), tx: t, raw: raw, state: "mempool"}
	switch known, err := loadTx(ctx, tx, name, s.txid); {
	case err == nil && known.txid != "":
		return nil
	case !errors.Is(err, chain.ErrNotFound):
		return err
	}
	e := c.effect(s.sender, t.Call)
	s.authorized = e.key()
	switch {
	case t.ChainID != c.network.ChainID:
		return fmt.Errorf("%w: chain id %d", chain.ErrRejected, t.ChainID)
	case t.Gas < min(e.gas, gasPay):
		return fmt.Errorf("%w: intrinsic gas too low", chain.ErrRejected)
	case t.Tip > t.MaxFee:
		return fmt.Errorf("%w: the tip is higher than the most to be paid", chain.ErrRejected)
	}
	nonce, err := nonceOf(ctx, tx, name, s.sender)
	if err != nil {
		return err
	}
	if t.Nonce < nonce {
		return errNonce
	}
	if s.sender != c.home {
		holds, err := balance(ctx, tx, name, s.sender, c.network.Native)
		if err != nil {
			return err
		}
		if need := evm.GasCost(t.Gas, t.MaxFee) + evm.Gwei(t.Value).Int64(); holds < need {
			return fmt.Errorf("%w: insufficient funds for gas and value: has %d gwei, may need %d", chain.ErrRejected, holds,
				need)
		}
	}
	rivals, err := rival(ctx, tx, name, s.sender, t.Nonce)
	if err != nil {
		return err
	}
	for _, r := range rivals {
		if t.Tip < r.tx.Tip+r.tx.Tip/10 || t.MaxFee < r.tx.MaxFee+r.tx.MaxFee/10 {
			return errNonce
		}
		if err := c.drop(ctx, tx, r); err != nil {
			return err
		}
	}
	return put(ctx, tx, name, s, 0)
}

// Network implements chain.Source.
func (c *Chain) Network() string { return c.network.Name }

// Spec implements evm.Node.
func (c *Chain) Spec() evm.Network { return c.network }

// Tip implements chain.Source.
func (c *Chain) Tip(ctx context.Context) (height int64, hash string, err error) {
	b, err := simulated.Read(ctx, c.store, func(ctx context.Context, tx *db.Tx) (block, error) {
		return tip(ctx, tx, c.network.Name)
	})
	return b.height, b.hash, err
}

// BlockHash implements chain.Source.
func (c *Chain) BlockHash(ctx context.Context, height int64) (hash string, err error) {
	b, err := simulated.Read(ctx, c.store, func(ctx context.Context, tx *db.Tx) (block, error) {
		return blockAt(ctx, tx, c.network.Name, height)
	})
	return b.hash, err
}

// Block implements chain.Source.
func (c *Chain) Block(ctx context.Context, hash string) (chain.Block, error) {
	return simulated.Read(ctx, c.store, func(ctx context.Context, tx *db.Tx) (out chain.Block, err error) {
		b, err := blockOf(ctx, tx, c.network.Name, hash)
		if err != nil {
			return out, err
		}
		out = chain.Block{Height: b.height, Hash: b.hash, Prev: b.prev, Time: b.mined}
		txs, err := inBlock(ctx, tx, c.network.Name, hash)
		for _, t := range txs {
			out.Txs = append(out.Txs, c.show(t))
		}
		return out, err
	})
}

// show converts a stored transaction to the form that a watcher reads.
func (c *Chain) show(t stored) chain.Tx {
	out := chain.Tx{ID: t.txid, Raw: t.raw, From: t.sender, Inputs: []chain.Outpoint{evm.NonceOutpoint(t.sender,
		t.tx.Nonce)}, Fee: t.fee, Failed: t.failed}
	e := c.effect(t.sender, t.tx.Call)
	if !e.can || t.failed || e.moved.IsZero() {
		return out
	}
	paid := chain.Output{Address: e.to, Amount: e.moved.Units(), Asset: e.moved.Asset()}
	if e.moved.Asset() == c.network.Native {
		paid.Vout = evm.NativeVout
	}
	if e.from != t.sender {
		paid.From = e.from
	}
	out.Outputs = []chain.Output{paid}
	return out
}

// Mempool implements chain.Source.
func (c *Chain) Mempool(ctx context.Context) ([]string, error) {
	return simulated.Read(ctx, c.store, func(ctx context.Context, tx *db.Tx) ([]string, error) {
		return waitingIDs(ctx, tx, c.network.Name)
	})
}

// Raw returns the bytes of a transaction in any state.
func (c *Chain) Raw(ctx context.Context, txid string) ([]byte, error) {
	return simulated.Read(ctx, c.store, func(ctx context.Context, tx *db.Tx) ([]byte, error) {
		return rawOf(ctx, tx, c.network.Name, txid)
	})
}

// Tx implements chain.Source. It also knows mined transactions.
func (c *Chain) Tx(ctx context.Context, txid string) (chain.Tx, error) {
	return simulated.Read(ctx, c.store, func(ctx context.Context, tx *db.Tx) (chain.Tx, error) {
		t, err := loadTx(ctx, tx, c.network.Name, txid)
		if err != nil {
			return chain.Tx{}, err
		}
		return c.show(t), nil
	})
}

// Broadcast implements chain.Source.
func (c *Chain) Broadcast(ctx context.Context, raw []byte) error {
	return c.store.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return c.accept(ctx, tx, raw) })
}

// BroadcastAll implements chain.Broadcaster.
func (c *Chain) BroadcastAll(ctx context.Context, raws [][]byte) []error {
	errs := make([]error, len(raws))
	err := c.store.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		for i, raw := range raws {
			if errs[i] = c.accept(ctx, tx, raw); errs[i] != nil && !errors.Is(errs[i], chain.ErrRejected) && !errors.Is(errs[i],
				errNonce) {
				return errs[i]
			}
		}
		return nil
	})
	for i := range errs {
		if err != nil {
			errs[i] = err
		}
	}
	return errs
}

// FeeRate implements chain.Source. It returns the rate set by [Chain.SetFeeRate], or calmFee.
func (c *Chain) FeeRate(ctx context.Context) (rate int64, err error) {
	rate, err = simulated.Read(ctx, c.store, c.store.Fee)
	return rate + calmTip, err
}

// SetFeeRate sets the fee rate that later blocks require, in wei per unit of gas, and returns the previous rate.
// Blocks include no transaction that pays less.
func (c *Chain) SetFeeRate(ctx context.Context, wei int64) (before int64, err error) {
	return c.store.SetFee(ctx, wei)
}

// State implements evm.Node.
func (c *Chain) State(ctx context.Context, account string) (evm.State, error) {
	return simulated.Read(ctx, c.store, func(ctx context.Context, tx *db.Tx) (s evm.State, err error) {
		b, err := tip(ctx, tx, c.network.Name)
		if err != nil {
			return s, err
		}
		s = evm.State{Height: b.height, Tip: calmTip}
		if s.Nonce, err = nonceOf(ctx, tx, c.network.Name, account); err != nil {
			return s, err
		}
		if s.BaseFee, err = c.store.Fee(ctx, tx); err != nil {
			return s, err
		}
		s.Balances, err = c.holds(ctx, tx, account)
		return s, err
	})
}

// Balances implements evm.Node. It only knows the balances at the newest block.
func (c *Chain) Balances(ctx context.Context, accounts []string, height int64) (map[money.Asset]int64, error) {
	return simulated.Read(ctx, c.store, func(ctx context.Context, tx *db.Tx) (map[money.Asset]int64, error) {
		if b, err := tip(ctx, tx, c.network.Name); err != nil || b.height != height {
			return nil, errors.Join(chain.ErrNotFound, err)
		}
		all := map[money.Asset]int64{}
		for _, account := range accounts {
			holds, err := c.holds(ctx, tx, account)
			if err != nil {
				return nil, err
			}
			for asset, units := range holds {
				all[asset] += units
			}
		}
		return all, nil
	})
}

func (c *Chain) holds(ctx context.Context, tx *db.Tx, account string) (all map[money.Asset]int64, err error) {
	assets := []money.Asset{c.network.Native}
	for _, t := range c.network.Tokens {
		assets = append(assets, t.Asset)
	}
	all = map[money.Asset]int64{}
	for _, a := range assets {
		if all[a], err = balance(ctx, tx, c.network.Name, account, a); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Estimate implements evm.Node. Its errors have the same texts as those of geth.
func (c *Chain) Estimate(ctx context.Context, from string, calls []evm.Call) ([]evm.Estimate, error) {
	return simulated.Read(ctx, c.store, func(ctx context.Context, tx *db.Tx) ([]evm.Estimate, error) {
		all := make([]evm.Estimate, len(calls))
		for i, call := range calls {
			e := c.effect(from, call)
			text := "execution reverted"
			if e.can {
				var err error
				if text, err = c.refusal(ctx, tx, e, 0, tx.Now()); err != nil {
					return nil, err
				}
			}
			if text == "" {
				all[i].Gas = e.gas
				continue
			}
			refused := &evm.Error{Method: "eth_estimateGas", Code: -32000, Message: text}
			if strings.HasPrefix(text, "execution reverted: ") {
				refused.Code = 3
			}
			all[i] = evm.Estimate{Verdict: refused.Verdict(call), Refusal: refused.Error()}
		}
		return all, nil
	})
}
