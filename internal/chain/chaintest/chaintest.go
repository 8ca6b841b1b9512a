// Package chaintest tests implementations of chain.Source: [Run] tests a source against its contract, and
// [RunWatcher] tests the watcher on it. The caller provides a [Chain] that the tests control.
package chaintest

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/db"
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

// AccountChain is an EVM network that a test controls. All its payments are in one asset, and their outputs are
// numbered from 0. A network with a method PaysOne cannot pay several outputs with one transaction.
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

// StartWatching creates the cursor of the chain called name at the first block of regtest, for tests that need
// addresses and no blocks. The simulated chain continues from that block.
func StartWatching(t testing.TB, d *db.DB, name string) {
	t.Helper()
	now, err := d.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	source := emptyChain{block: chain.Block{Hash: chaincfg.RegressionNetParams.GenesisHash.String(), Time: now}}
	if err := chain.NewWatcher(d, name, source, 1, slog.New(slog.DiscardHandler)).Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// emptyChain is the source of a chain that has one block and no transactions.
type emptyChain struct {
	chain.Source // nil: nothing else is requested
	block        chain.Block
}

func (emptyChain) Network() string { return "regtest" }

func (c emptyChain) Tip(context.Context) (int64, string, error) { return 0, c.block.Hash, nil }

func (c emptyChain) Block(context.Context, string) (chain.Block, error) { return c.block, nil }

func (emptyChain) Mempool(context.Context) ([]string, error) { return nil, nil }

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
	return testkit.Must(bitcoin.ParseXPriv(xprv, "regtest"))
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

// source is the source under test, with the chain behind it and the keys of a wallet. The test cases of Run use it.
type source struct {
	*testing.T
	chain.Source
	lab      Chain
	accounts AccountChain    // set on EVM networks only
	wallet   *bitcoin.Signer // set on Bitcoin only
	keys     chain.Deriver
}

// Run tests a source against the contract of chain.Source.
func Run(t *testing.T, d *db.DB, factory Factory) {
	s := source{lab: factory(t, d)}
	s.Source = s.lab.Source()
	if s.accounts, _ = s.lab.(AccountChain); s.accounts != nil {
		s.keys = s.accounts.Deriver()
	} else {
		s.wallet = NewSigner(t, d)
		s.keys = s.wallet.Deriver()
	}
	for _, c := range []struct {
		name string
		f    func(s *source)
	}{
		{"blocks are linked by their hashes", (*source).linkedBlocks},
		{"unknown blocks and transactions are not found", (*source).unknown},
		{"a payment is pending and is mined", (*source).payment},
		{"a broken transaction is rejected", (*source).rejected},
		{"a reorganization changes hashes and brings transactions back", (*source).reorganization},
		{"fee rate", func(s *source) {
			if rate := testkit.Must(s.FeeRate(s.Context())); rate < 1 {
				s.Fatal(rate)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := s
			s.T = t
			c.f(&s)
		})
	}
}

func (s *source) address(i uint32) string { return testkit.Must(s.keys.Address(chain.External, i)) }

func (s *source) pay(outputs ...chain.Output) (txid string) {
	return testkit.Must(s.lab.PayAll(s.Context(), outputs...))
}

func (s *source) mine(n int) { testkit.Check(s, s.lab.Mine(s.Context(), n)) }

func (s *source) tip() (height int64, hash string) {
	height, hash, err := s.Tip(s.Context())
	testkit.Check(s, err)
	return height, hash
}

func (s *source) hashAt(height int64) string { return testkit.Must(s.BlockHash(s.Context(), height)) }

func (s *source) waits(txid string) bool {
	return slices.Contains(testkit.Must(s.Mempool(s.Context())), txid)
}

func (s *source) linkedBlocks() {
	s.mine(3)
	height, hash := s.tip()
	for range 3 {
		b, at := testkit.Must(s.Block(s.Context(), hash)), s.hashAt(height)
		if b.Hash != hash || at != hash || b.Time.IsZero() || s.accounts == nil &&
			(len(b.Txs) == 0 || !b.Txs[0].Coinbase || len(b.Txs[0].Inputs) != 0) {
			s.Fatalf("block %d: %+v, by height %s", height, b, at)
		}
		if b.Height != -1 && b.Height != height {
			s.Fatalf("height %d, want %d or -1", b.Height, height)
		}
		height, hash = height-1, b.Prev
	}
}

func (s *source) unknown() {
	height, _ := s.tip()
	none := strings.Repeat("ab", 32)
	if s.accounts != nil {
		none = "0x" + none
	}
	_, e1 := s.BlockHash(s.Context(), height+1)
	_, e2 := s.Block(s.Context(), none)
	_, e3 := s.Tx(s.Context(), none)
	for i, err := range []error{e1, e2, e3} {
		if !errors.Is(err, chain.ErrNotFound) {
			s.Errorf("%d: %v", i, err)
		}
	}
}

func (s *source) payment() {
	pay := []chain.Output{{Address: s.address(0), Amount: 70_000}, {Address: s.address(1), Amount: 80_000}}
	if s.accounts != nil {
		pay = pay[:1] // one payment, since those of a contract are known only after a block has executed it
	}
	txid := s.pay(pay...)
	if !s.waits(txid) {
		s.Fatalf("the mempool lacks %s", txid)
	}
	tx := testkit.Must(s.Tx(s.Context(), txid))
	if tx.ID != txid || tx.Coinbase || len(tx.Inputs) == 0 {
		s.Fatalf("%+v", tx)
	}
	for i, want := range pay {
		if got := tx.Outputs[i]; got.Vout != uint32(i) || got.Address != want.Address || got.Amount != want.Amount {
			s.Fatalf("%+v", tx)
		}
	}
	again := func() {
		if s.accounts != nil {
			testkit.Check(s, s.accounts.Rebroadcast(s.Context(), txid))
		} else {
			testkit.Check(s, s.Broadcast(s.Context(), tx.Raw))
		}
	}
	again() // a pending transaction can be broadcast again
	s.mine(1)
	_, hash := s.tip()
	b := testkit.Must(s.Block(s.Context(), hash))
	if !slices.ContainsFunc(b.Txs, func(t chain.Tx) bool { return t.ID == txid && len(t.Outputs) == len(tx.Outputs) }) {
		s.Fatal("not mined")
	}
	if s.waits(txid) {
		s.Fatal("it still waits")
	}
	again() // a mined transaction can be broadcast again
}

// wantRejected broadcasts invalid bytes.
func (s *source) wantRejected(invalid map[string][]byte) {
	for name, bad := range invalid {
		if err := s.Broadcast(s.Context(), bad); !errors.Is(err, chain.ErrRejected) {
			s.Errorf("%s: %v", name, err)
		}
	}
}

// rejected tests which transactions a node rejects. One that conflicts with a mined transaction must neither succeed
// nor be rejected for good.
func (s *source) rejected() {
	if s.accounts != nil {
		s.rejectedOfAccount()
		return
	}
	coin := chain.WalletCoin{Outpoint: chain.Outpoint{TxID: s.pay(chain.Output{Address: s.address(2), Amount: 90_000})},
		Address: s.address(2), Amount: 90_000, Branch: chain.External, Index: 2}
	s.mine(1)
	raw, _ := Spend(s, s.wallet, []chain.WalletCoin{coin}, chain.Output{Address: s.address(3), Amount: 80_000})
	var msg wire.MsgTx
	testkit.Check(s, msg.Deserialize(bytes.NewReader(raw)))
	msg.TxOut[0].Value++ // invalidates the signature
	s.wantRejected(map[string][]byte{"signature": bitcoin.Serialize(&msg), "bytes": {1, 2, 3}})
	testkit.Check(s, s.Broadcast(s.Context(), raw))
	s.mine(1)
	rival, _ := Spend(s, s.wallet, []chain.WalletCoin{coin}, chain.Output{Address: s.address(4), Amount: 70_000})
	if err := s.Broadcast(s.Context(), rival); err == nil {
		s.Error("a double spend was accepted")
	}
}

func (s *source) rejectedOfAccount() {
	hot := testkit.Must(s.keys.Address(chain.Change, 0))
	testkit.Check(s, s.accounts.Fund(s.Context(), hot, 1_000_000_000, 1_000_000))
	raw, txid, _, err := s.accounts.SignOwn(s.Context(), 0, tip, chain.Output{Address: s.address(2), Amount: 80_000})
	testkit.Check(s, err)
	s.wantRejected(map[string][]byte{"bytes": {1, 2, 3}, "truncated": raw[:len(raw)-1]})
	testkit.Check(s, s.Broadcast(s.Context(), raw))
	s.mine(1)
	testkit.Check(s, s.Broadcast(s.Context(), raw))
	rival, other, _, err := s.accounts.SignOwn(s.Context(), 0, 3_000_000_000,
		chain.Output{Address: s.address(2), Amount: 70_000})
	testkit.Check(s, err)
	if err := s.Broadcast(s.Context(), rival); err == nil || errors.Is(err, chain.ErrRejected) || other == txid {
		s.Errorf("a second spend of a nonce: %v", err)
	}
}

func (s *source) reorganization() {
	txid := s.pay(chain.Output{Address: s.address(5), Amount: 60_000})
	s.mine(2)
	height, _ := s.tip()
	before, below := s.hashAt(height-1), s.hashAt(height-2)
	testkit.Check(s, s.lab.Reorg(s.Context(), 2))
	if after, same := s.hashAt(height-1), s.hashAt(height-2); after == before || same != below {
		s.Fatalf("before %s after %s, below %s same %s", before, after, below, same)
	}
	if higher, _ := s.tip(); higher != height+1 {
		s.Fatalf("tip %d", higher)
	}
	if !s.waits(txid) {
		s.Fatal("the transaction is lost")
	}
	s.mine(1)
}
