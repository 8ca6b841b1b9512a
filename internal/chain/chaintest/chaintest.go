// Package chaintest tests implementations of chain.Source: [Run] tests a source against its contract, and
// [RunWatcher] tests the watcher on it. The caller provides a [Chain] that the tests control.
package chaintest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
	"github.com/stipend/stipend/internal/testkit"
)

// Chain is a Bitcoin regtest chain that a test controls, unless it is an [AccountChain].
type Chain interface {
	Source() chain.Source
	// Mine adds blocks. The first contains the whole mempool.
	Mine(ctx context.Context, n int) error
	// PayAll broadcasts a replaceable payment from the test's own funds. Its first outputs are the given ones.
	PayAll(ctx context.Context, outputs ...chain.Output) (txid string, err error)
	// Replace broadcasts a transaction with the same inputs as a pending payment, other outputs and a higher fee.
	Replace(ctx context.Context, txid string, outputs ...chain.Output) (newTxID string, err error)
	// Evict removes a payment from the mempool.
	Evict(ctx context.Context, txid string) error
	// Reorg replaces the last depth blocks by depth+1 empty ones. Their transactions return to the mempool.
	Reorg(ctx context.Context, depth int) error
}

// AccountChain is an EVM network that a test controls. Its payments are of one asset, and their outputs are numbered
// from 0. One that has a method PaysOne cannot pay several outputs with one transaction.
type AccountChain interface {
	Chain
	// Deriver returns the addresses of a new key, so that tests on the same chain do not share addresses.
	Deriver() chain.Deriver
	// Rebroadcast broadcasts a payment again.
	Rebroadcast(ctx context.Context, txid string) error
	// SignOwn signs a payment from the wallet's hot account, the first of the change branch, with a nonce and a tip.
	SignOwn(ctx context.Context, nonce uint64, tip int64, to chain.Output) (raw []byte, txid string, spends chain.Outpoint,
		err error)
	// Fund sets the balance of an account's native coin, and mints tokens for it.
	Fund(ctx context.Context, account string, native, tokens int64) error
}

// Factory opens a chain. The database is for simulated chains. A factory may return the same chain each time: each
// test checks only its own transactions.
type Factory func(t *testing.T, d *db.DB) Chain

// StartWatching creates the cursor of the chain called name, with a simulated chain, for tests that need addresses
// and no blocks.
func StartWatching(t testing.TB, d *db.DB, name string) {
	t.Helper()
	if err := chain.NewWatcher(d, name, bitcoinsim.New(d), 1,
		slog.New(slog.DiscardHandler)).Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// NewSigner returns the signer of a new key, so that tests on the same chain do not share addresses.
func NewSigner(t testing.TB, d *db.DB) *bitcoin.Signer {
	t.Helper()
	var seed [16]byte
	if err := d.Read(t.Context(), func(_ context.Context, tx *db.Tx) error {
		copy(seed[:], tx.NewID("")[11:]) // the random part of a new ID makes the seed unique
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	xprv := testkit.Must(bitcoin.MasterFromSeed(seed[:], "regtest"))
	s := testkit.Must(bitcoin.ParseXPriv(xprv, "regtest"))
	return s
}

// Spend signs a transaction that spends coins of a wallet. The difference to the outputs is the fee.
func Spend(
	t testing.TB, s *bitcoin.Signer, coins []chain.WalletCoin, outputs ...chain.Output,
) (raw []byte, txid string) {
	t.Helper()
	msg := wire.NewMsgTx(2)
	for _, c := range coins {
		hash := testkit.Must(chainhash.NewHashFromStr(c.TxID))
		in := wire.NewTxIn(wire.NewOutPoint(hash, c.Vout), nil, nil)
		in.Sequence = wire.MaxTxInSequenceNum - 2
		msg.AddTxIn(in)
	}
	for _, o := range outputs {
		script := testkit.Must(bitcoin.AddressScript(o.Address, "regtest"))
		msg.AddTxOut(wire.NewTxOut(o.Amount, script))
	}
	raw, txid, err := s.Sign(msg, coins)
	testkit.Check(t, err)
	return raw, txid
}

// Run tests a source against the contract of chain.Source.
func Run(t *testing.T, d *db.DB, factory Factory) {
	lab := factory(t, d)
	src, ctx := lab.Source(), t.Context()
	accounts, _ := lab.(AccountChain)
	var wallet *bitcoin.Signer
	var keys chain.Deriver
	if accounts != nil {
		keys = accounts.Deriver()
	} else {
		wallet = NewSigner(t, d)
		keys = wallet.Deriver()
	}
	addr := func(i uint32) string {
		a := testkit.Must(keys.Address(chain.External, i))
		return a
	}

	t.Run("blocks are linked by their hashes", func(t *testing.T) {
		testkit.Check(t, lab.Mine(ctx, 3))
		height, hash, err := src.Tip(ctx)
		testkit.Check(t, err)
		for range 3 {
			b := testkit.Must(src.Block(ctx, hash))
			at := testkit.Must(src.BlockHash(ctx, height))
			if b.Hash != hash || at != hash || b.Time.IsZero() || accounts == nil &&
				(len(b.Txs) == 0 || !b.Txs[0].Coinbase || len(b.Txs[0].Inputs) != 0) {
				t.Fatalf("block %d: %+v, by height %s", height, b, at)
			}
			if b.Height != -1 && b.Height != height {
				t.Fatalf("height %d, want %d or -1", b.Height, height)
			}
			height, hash = height-1, b.Prev
		}
	})
	t.Run("unknown blocks and transactions are not found", func(t *testing.T) {
		height, _, err := src.Tip(ctx)
		testkit.Check(t, err)
		none := strings.Repeat("ab", 32)
		if accounts != nil {
			none = "0x" + none
		}
		_, e1 := src.BlockHash(ctx, height+1)
		_, e2 := src.Block(ctx, none)
		_, e3 := src.Tx(ctx, none)
		for i, err := range []error{e1, e2, e3} {
			if !errors.Is(err, chain.ErrNotFound) {
				t.Errorf("%d: %v", i, err)
			}
		}
	})
	t.Run("a payment is pending and is mined", func(t *testing.T) {
		pay := []chain.Output{{Address: addr(0), Amount: 70_000}, {Address: addr(1), Amount: 80_000}}
		if accounts != nil {
			pay = pay[:1] // one payment, since those of a contract are known only after a block has executed it
		}
		txid := testkit.Must(lab.PayAll(ctx, pay...))
		waiting := testkit.Must(src.Mempool(ctx))
		if !slices.Contains(waiting, txid) {
			t.Fatalf("mempool %v lacks %s", waiting, txid)
		}
		tx := testkit.Must(src.Tx(ctx, txid))
		if tx.ID != txid || tx.Coinbase || len(tx.Inputs) == 0 {
			t.Fatalf("%+v", tx)
		}
		for i, want := range pay {
			if got := tx.Outputs[i]; got.Vout != uint32(i) || got.Address != want.Address || got.Amount != want.Amount {
				t.Fatalf("%+v", tx)
			}
		}
		again := func() error {
			if accounts != nil {
				return accounts.Rebroadcast(ctx, txid)
			}
			return src.Broadcast(ctx, tx.Raw)
		}
		testkit.Check(t, again()) // the transaction is pending
		testkit.Check(t, lab.Mine(ctx, 1))
		_, hash, err := src.Tip(ctx)
		testkit.Check(t, err)
		b := testkit.Must(src.Block(ctx, hash))
		if !slices.ContainsFunc(b.Txs, func(t chain.Tx) bool { return t.ID == txid && len(t.Outputs) == len(tx.Outputs) }) {
			t.Fatal("not mined")
		}
		if waiting, err = src.Mempool(ctx); err != nil || slices.Contains(waiting, txid) {
			t.Fatalf("still waits: %v", err)
		}
		testkit.Check(t, again()) // the transaction was mined
	})
	t.Run("a broken transaction is rejected", func(t *testing.T) {
		if accounts != nil {
			brokenByAccount(t, accounts, addr(2))
			return
		}
		txid := testkit.Must(lab.PayAll(ctx, chain.Output{Address: addr(2), Amount: 90_000}))
		testkit.Check(t, lab.Mine(ctx, 1))
		coin := chain.WalletCoin{Outpoint: chain.Outpoint{TxID: txid}, Address: addr(2), Amount: 90_000,
			Branch: chain.External, Index: 2}
		raw, _ := Spend(t, wallet, []chain.WalletCoin{coin}, chain.Output{Address: addr(3), Amount: 80_000})
		var msg wire.MsgTx
		testkit.Check(t, msg.Deserialize(bytes.NewReader(raw)))
		msg.TxOut[0].Value++ // invalidates the signature
		for name, bad := range map[string][]byte{"signature": bitcoin.Serialize(&msg), "bytes": {1, 2, 3}} {
			if err := src.Broadcast(ctx, bad); !errors.Is(err, chain.ErrRejected) {
				t.Errorf("%s: %v", name, err)
			}
		}
		testkit.Check(t, src.Broadcast(ctx, raw))
		testkit.Check(t, lab.Mine(ctx, 1))
		// The coin is spent. The conflicting transaction must neither succeed nor be rejected for good.
		rival, _ := Spend(t, wallet, []chain.WalletCoin{coin}, chain.Output{Address: addr(4), Amount: 70_000})
		if err := src.Broadcast(ctx, rival); err == nil {
			t.Error("a double spend was accepted")
		}
	})
	t.Run("a reorganization changes hashes and brings transactions back", func(t *testing.T) {
		txid := testkit.Must(lab.PayAll(ctx, chain.Output{Address: addr(5), Amount: 60_000}))
		testkit.Check(t, lab.Mine(ctx, 2))
		height, _, err := src.Tip(ctx)
		testkit.Check(t, err)
		before := testkit.Must(src.BlockHash(ctx, height-1))
		below := testkit.Must(src.BlockHash(ctx, height-2))
		testkit.Check(t, lab.Reorg(ctx, 2))
		after := testkit.Must(src.BlockHash(ctx, height-1))
		same := testkit.Must(src.BlockHash(ctx, height-2))
		if after == before || same != below {
			t.Fatalf("before %s after %s, below %s same %s", before, after, below, same)
		}
		if higher, _, err := src.Tip(ctx); err != nil || higher != height+1 {
			t.Fatalf("tip %d: %v", higher, err)
		}
		waiting := testkit.Must(src.Mempool(ctx))
		if !slices.Contains(waiting, txid) {
			t.Fatal("the transaction is lost")
		}
		testkit.Check(t, lab.Mine(ctx, 1))
	})
	t.Run("fee rate", func(t *testing.T) {
		rate, err := src.FeeRate(ctx)
		if testkit.Check(t, err); rate < 1 {
			t.Fatal(fmt.Sprint(rate))
		}
	})
}

// brokenByAccount tests which transactions of an account a node rejects, and for which the outcome is unknown.
func brokenByAccount(t *testing.T, lab AccountChain, to string) {
	ctx, src := t.Context(), lab.Source()
	hot := testkit.Must(lab.Deriver().Address(chain.Change, 0))
	testkit.Check(t, lab.Fund(ctx, hot, 1_000_000_000, 1_000_000))
	raw, txid, _, err := lab.SignOwn(ctx, 0, 2_000_000_000, chain.Output{Address: to, Amount: 80_000})
	testkit.Check(t, err)
	truncated := raw[:len(raw)-1]
	for name, bad := range map[string][]byte{"bytes": {1, 2, 3}, "cut": truncated} {
		if err := src.Broadcast(ctx, bad); !errors.Is(err, chain.ErrRejected) {
			t.Errorf("%s: %v", name, err)
		}
	}
	testkit.Check(t, src.Broadcast(ctx, raw))
	testkit.Check(t, lab.Mine(ctx, 1))
	testkit.Check(t, src.Broadcast(ctx, raw))
	// The nonce is spent. The conflicting transaction must neither succeed nor be rejected for good.
	rival, other, _, err := lab.SignOwn(ctx, 0, 3_000_000_000, chain.Output{Address: to, Amount: 70_000})
	testkit.Check(t, err)
	if err := src.Broadcast(ctx, rival); err == nil || errors.Is(err, chain.ErrRejected) || other == txid {
		t.Errorf("a second spend of a nonce: %v", err)
	}
}
