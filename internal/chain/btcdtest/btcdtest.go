// Package btcdtest runs a real Bitcoin node on a private regtest chain, for tests: btcd, and optionally Bitcoin Core
// or a node derived from it.
//
// btcd is the binary .tools/bin/btcd of the project, which is installed at the first use. Core is the binary that the
// variable STIPEND_TEST_BITCOIND names, see [Each]. The package builds the blocks itself, so that it controls their
// content. For a fork it submits a longer branch that starts at an older block. It owns the coins of the first blocks
// and makes payments from them.
package btcdtest

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/testkit/freeport"
)

// Version is the release of btcd under test.
const Version = "v0.26.2"

const (
	network = "regtest"
	// Regtest activates soft forks in periods of 144 blocks: defined, started, locked in, active. After this number of
	// blocks segregated witness is active.
	firstBlocks = 3*144 + 8
	maturity    = 100
	payFee      = 2_000
	headerSize  = 80
)

// Node is a running node. Its methods return errors; only Start and Clone fail the test.
type Node struct {
	*bitcoin.Client

	dir, rpc, peer string
	binary         string
	core           bool
	keys           *bitcoin.Signer
	minerScript    []byte // script of the miner's address
	minerAddress   string

	mu    sync.Mutex
	cmd   *exec.Cmd
	coins []chain.WalletCoin
	paid  map[string][]chain.WalletCoin // coins spent by each payment
	// All submitted blocks, in order. A regtest btcd deletes its chain when it starts.
	blocks []string
	salt   int64
}

// Each runs f with a function that starts btcd and, if STIPEND_TEST_BITCOIND is set, with one that starts Bitcoin Core.
func Each(t *testing.T, f func(t *testing.T, start func(testing.TB) *Node)) {
	t.Helper()
	t.Run("btcd", func(t *testing.T) {
		testkit.NotQuick(t, "btcd")
		f(t, Start)
	})
	if binary := os.Getenv("STIPEND_TEST_BITCOIND"); binary != "" {
		t.Run("core", func(t *testing.T) {
			f(t, func(t testing.TB) *Node {
				t.Helper()
				n, err := start(t, binary, true, nil)
				if err != nil {
					t.Fatalf("%s: %v", binary, err)
				}
				return n
			})
		})
	}
}

// Start starts a btcd, which it installs if necessary, and mines until all soft forks are active. The node stops with
// the test.
func Start(t testing.TB) *Node {
	t.Helper()
	testkit.NotQuick(t, "btcd")
	binary, err := install(t.Context())
	var n *Node
	if err == nil {
		n, err = start(t, binary, false, nil)
	}
	if err != nil {
		t.Fatalf("btcd: %v", err)
	}
	return n
}

// start starts a node with the first blocks, or with those of another node.
func start(t testing.TB, binary string, core bool, from *Node) (*Node, error) {
	xprv, err := bitcoin.MasterFromSeed(bytes.Repeat([]byte{7}, 32), network)
	if err != nil {
		return nil, err
	}
	keys, err := bitcoin.ParseXPriv(xprv, network)
	if err != nil {
		return nil, err
	}
	addr, err := keys.Deriver().Address(chain.External, 0)
	if err != nil {
		return nil, err
	}
	script, err := bitcoin.AddressScript(addr, network)
	if err != nil {
		return nil, err
	}
	n := &Node{
		dir: t.TempDir(), binary: binary, core: core, keys: keys, minerScript: script, minerAddress: addr,
		paid: map[string][]chain.WalletCoin{},
	}
	if n.rpc, err = freeport.Free(); err != nil {
		return nil, err
	}
	if n.peer, err = freeport.Free(); err != nil {
		return nil, err
	}
	if n.Client, err = bitcoin.NewClient(bitcoin.Options{URL: "http://" + n.rpc, User: "u", Password: "p",
		Network: network}); err != nil {
		return nil, err
	}
	t.Cleanup(n.stop)
	if from != nil {
		// a different salt makes the clone's own blocks differ
		n.blocks, n.salt = slices.Clone(from.blocks), from.salt+1<<32
	}
	if err := n.run(t.Context()); err != nil || from != nil {
		return n, err
	}
	return n, n.mineInitial(t.Context())
}

// Clone starts another node with the same blocks. It is not connected to this one; see CopyBlocks.
func (n *Node) Clone(t testing.TB) *Node {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	from, err := start(t, n.binary, n.core, n)
	if err != nil {
		t.Fatal(err)
	}
	return from
}

// CopyBlocks submits the blocks of another node that this one lacks.
func (n *Node) CopyBlocks(ctx context.Context, from *Node) error {
	from.mu.Lock()
	blocks := slices.Clone(from.blocks)
	from.mu.Unlock()
	for _, b := range blocks {
		n.mu.Lock()
		known := slices.Contains(n.blocks, b)
		n.mu.Unlock()
		if known {
			continue
		}
		if err := n.submitHex(ctx, b); err != nil {
			return err
		}
		n.mu.Lock()
		n.blocks = append(n.blocks, b)
		n.mu.Unlock()
	}
	return nil
}

// install returns the path of the binary. It installs the binary if necessary.
func install(ctx context.Context) (string, error) {
	root, err := testkit.Root()
	if err != nil {
		return "", err
	}
	bin := filepath.Join(root, ".tools", "bin")
	binary := filepath.Join(bin, "btcd")
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	cmd := exec.CommandContext(ctx, "go", "install", "github.com/btcsuite/btcd@"+Version)
	cmd.Dir = os.TempDir() // a directory outside of the module
	cmd.Env = append(os.Environ(), "GOBIN="+bin, "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go install btcd: %w\n%s", err, out)
	}
	return binary, nil
}

func (n *Node) run(ctx context.Context) error {
	args := []string{"--regtest", "--configfile=/dev/null", "--datadir=" + n.dir, "--logdir=" + n.dir,
		"--rpcuser=u", "--rpcpass=p", "--notls", "--rpclisten=" + n.rpc, "--listen=" + n.peer, "--nodnsseed", "--txindex",
		"--debuglevel=warn"}
	if n.core {
		_, port, err := net.SplitHostPort(n.rpc)
		if err != nil {
			return err
		}
		args = []string{"-regtest", "-conf=/dev/null", "-datadir=" + n.dir, "-server", "-rpcuser=u", "-rpcpassword=p",
			"-rpcport=" + port,
			"-listen=0", "-dnsseed=0", "-txindex", "-disablewallet", "-persistmempool=0", "-printtoconsole=0"}
	}
	cmd := exec.Command(n.binary, args...)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		return err
	}
	n.mu.Lock()
	n.cmd = cmd
	n.mu.Unlock()
	for range 400 {
		var height int64
		if n.Call(ctx, &height, "getblockcount") == nil {
			return n.replay(ctx)
		}
		time.Sleep(25 * time.Millisecond)
	}
	n.stop()
	return fmt.Errorf("the node does not answer:\n%s", output.String())
}

// dropStaleBlocks removes the blocks that are not in the best chain from those to submit at the next start. Otherwise
// the node would return their transactions to its mempool.
func (n *Node) dropStaleBlocks(ctx context.Context) error {
	height, _, err := n.Tip(ctx)
	if err != nil {
		return err
	}
	best := map[string]bool{}
	for h := range height {
		hash, err := n.BlockHash(ctx, h+1)
		if err != nil {
			return err
		}
		best[hash] = true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.blocks = slices.DeleteFunc(n.blocks, func(text string) bool {
		header, err := hex.DecodeString(text[:2*headerSize])
		return err == nil && !best[chainhash.DoubleHashH(header).String()]
	})
	return nil
}

func (n *Node) replay(ctx context.Context) error {
	n.mu.Lock()
	blocks := slices.Clone(n.blocks)
	n.mu.Unlock()
	for _, b := range blocks {
		if err := n.submitHex(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) stop() {
	n.mu.Lock()
	cmd := n.cmd
	n.cmd = nil
	n.mu.Unlock()
	if cmd == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if n.Call(ctx, nil, "stop") != nil {
		_ = cmd.Process.Kill()
	}
	dead := make(chan struct{})
	go func() { _ = cmd.Wait(); close(dead) }()
	select {
	case <-dead:
	case <-time.After(10 * time.Second):
		_ = cmd.Process.Kill()
		<-dead
	}
}

// Stop stops the node.
func (n *Node) Stop(ctx context.Context) error {
	err := n.dropStaleBlocks(ctx)
	n.stop()
	return err
}

// Restart starts a stopped node with the same blocks and an empty mempool.
func (n *Node) Restart(ctx context.Context) error { return n.run(ctx) }

// URL returns the URL of the node's JSON-RPC, with user and password.
func (n *Node) URL() string { return "http://u:p@" + n.rpc }

// Source returns the node as a chain.Source.
func (n *Node) Source() chain.Source { return n.Client }

// mineInitial mines the first blocks, and keeps their coins for payments.
func (n *Node) mineInitial(ctx context.Context) error {
	for range firstBlocks {
		tx, err := n.mineOn(ctx, "", nil)
		if err != nil {
			return err
		}
		n.coins = append(n.coins, chain.WalletCoin{Outpoint: chain.Outpoint{TxID: tx.TxID()}, Address: n.minerAddress,
			Amount: tx.TxOut[0].Value})
	}
	n.coins = n.coins[:len(n.coins)-maturity]
	return nil
}

// Mine adds blocks. The first contains the whole mempool.
func (n *Node) Mine(ctx context.Context, count int) error {
	for i := range count {
		var txs []*wire.MsgTx
		if i == 0 {
			var err error
			if txs, err = n.mempoolTxs(ctx); err != nil {
				return err
			}
		}
		if _, err := n.mineOn(ctx, "", txs); err != nil {
			return err
		}
	}
	return nil
}

// MineTx adds one block with a single transaction, even if the mempool does not accept it.
func (n *Node) MineTx(ctx context.Context, raw []byte) error {
	var msg wire.MsgTx
	if err := msg.Deserialize(bytes.NewReader(raw)); err != nil {
		return err
	}
	_, err := n.mineOn(ctx, "", []*wire.MsgTx{&msg})
	return err
}

// Reorg replaces the last depth blocks by depth+1 blocks without their transactions.
func (n *Node) Reorg(ctx context.Context, depth int) error {
	height, _, err := n.Tip(ctx)
	if err != nil {
		return err
	}
	prev, err := n.BlockHash(ctx, height-int64(depth))
	if err != nil {
		return err
	}
	for i := range depth + 1 {
		msg, _, err := n.build(ctx, prev, height-int64(depth)+int64(i)+1, nil)
		if err != nil {
			return err
		}
		if err := n.submit(ctx, msg); err != nil {
			return err
		}
		prev = msg.BlockHash().String()
	}
	if _, hash, err := n.Tip(ctx); err != nil || hash != prev {
		return fmt.Errorf("the node did not take the longer chain: tip %s, want %s: %w", hash, prev, err)
	}
	return nil
}

// Invalidate makes the node reject a block and its descendants, until Reconsider.
func (n *Node) Invalidate(ctx context.Context, hash string) error {
	return n.Call(ctx, nil, "invalidateblock", hash)
}

// Reconsider reverts Invalidate.
func (n *Node) Reconsider(ctx context.Context, hash string) error {
	return n.Call(ctx, nil, "reconsiderblock", hash)
}

func (n *Node) mineOn(ctx context.Context, prev string, txs []*wire.MsgTx) (coinbase *wire.MsgTx, err error) {
	height, tip, err := n.Tip(ctx)
	if err != nil {
		return nil, err
	}
	if prev == "" {
		prev = tip
	}
	msg, coinbase, err := n.build(ctx, prev, height+1, txs)
	if err != nil {
		return nil, err
	}
	return coinbase, n.submit(ctx, msg)
}

func (n *Node) submit(ctx context.Context, msg *wire.MsgBlock) error {
	var b bytes.Buffer
	if err := msg.Serialize(&b); err != nil {
		return err
	}
	text := hex.EncodeToString(b.Bytes())
	if err := n.submitHex(ctx, text); err != nil {
		return err
	}
	n.mu.Lock()
	n.blocks = append(n.blocks, text)
	n.mu.Unlock()
	return nil
}

func (n *Node) submitHex(ctx context.Context, block string) error {
	var refusal *string
	if err := n.Call(ctx, &refusal, "submitblock", block); err != nil {
		return err
	}
	// Core stores blocks with these results: one that it already has, and one that is not in the best chain.
	if refusal != nil && (!n.core || *refusal != "duplicate" && *refusal != "inconclusive") {
		return fmt.Errorf("submitblock: %s", *refusal)
	}
	return nil
}

// build builds a valid block and returns it with its coinbase transaction.
func (n *Node) build(
	ctx context.Context, prev string, height int64, txs []*wire.MsgTx,
) (*wire.MsgBlock, *wire.MsgTx, error) {
	parent, err := n.header(ctx, prev)
	if err != nil {
		return nil, nil, err
	}
	n.mu.Lock()
	n.salt++
	salt := n.salt
	n.mu.Unlock()
	at := parent.Timestamp.Add(time.Second)
	if floor := time.Now().Add(-time.Hour).Truncate(time.Second); at.Before(floor) {
		at = floor
	}
	// The version signals for every soft fork.
	header := wire.BlockHeader{Version: 0x20000007, PrevBlock: parent.BlockHash(), Timestamp: at,
		Bits: chaincfg.RegressionNetParams.PowLimitBits}
	reward := []*wire.TxOut{wire.NewTxOut(50_00000000>>(height/150), n.minerScript)}
	block, err := bitcoin.NewBlock(header, height, []byte(strconv.FormatInt(salt, 10)), reward, txs)
	if err != nil {
		return nil, nil, err
	}
	return block, block.Transactions[0], nil
}

func (n *Node) header(ctx context.Context, hash string) (*wire.BlockHeader, error) {
	var text string
	if err := n.Call(ctx, &text, "getblock", hash, 0); err != nil {
		return nil, err
	}
	raw, err := hex.DecodeString(text)
	if err != nil {
		return nil, err
	}
	var h wire.BlockHeader
	return &h, h.Deserialize(bytes.NewReader(raw))
}

// mempoolTxs returns the mempool, parents before children.
func (n *Node) mempoolTxs(ctx context.Context) ([]*wire.MsgTx, error) {
	ids, err := n.Mempool(ctx)
	if err != nil {
		return nil, err
	}
	slices.Sort(ids)
	left := map[chainhash.Hash]*wire.MsgTx{}
	var order []chainhash.Hash
	for _, id := range ids {
		t, err := n.Tx(ctx, id)
		if errors.Is(err, chain.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var msg wire.MsgTx
		if err := msg.Deserialize(bytes.NewReader(t.Raw)); err != nil {
			return nil, err
		}
		left[msg.TxHash()] = &msg
		order = append(order, msg.TxHash())
	}
	var sorted []*wire.MsgTx
	var visit func(chainhash.Hash)
	visit = func(h chainhash.Hash) {
		msg, ok := left[h]
		if !ok {
			return
		}
		delete(left, h)
		for _, in := range msg.TxIn {
			visit(in.PreviousOutPoint.Hash)
		}
		sorted = append(sorted, msg)
	}
	for _, h := range order {
		visit(h)
	}
	return sorted, nil
}

// PayAll broadcasts a payment. Its first outputs are the given ones, in order.
func (n *Node) PayAll(ctx context.Context, outputs ...chain.Output) (string, error) {
	raw, txid, err := n.SignPayment(outputs...)
	if err != nil {
		return "", err
	}
	return txid, n.Broadcast(ctx, raw)
}

// SignPayment signs a payment like PayAll, without broadcasting it.
func (n *Node) SignPayment(outputs ...chain.Output) (raw []byte, txid string, err error) {
	total := int64(payFee)
	for _, o := range outputs {
		total += o.Amount
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	i := slices.IndexFunc(n.coins, func(c chain.WalletCoin) bool { return c.Amount >= total+1_000 })
	if i < 0 {
		return nil, "", fmt.Errorf("btcdtest: no coin of %d sat left", total)
	}
	coins := []chain.WalletCoin{n.coins[i]}
	n.coins = slices.Delete(n.coins, i, i+1)
	return n.spend(coins, total, outputs)
}

// Replace broadcasts a transaction with the inputs of a payment, other outputs and a higher fee.
func (n *Node) Replace(ctx context.Context, txid string, outputs ...chain.Output) (string, error) {
	raw, newID, err := n.SignReplacement(txid, outputs...)
	if err != nil {
		return "", err
	}
	return newID, n.Broadcast(ctx, raw)
}

// SignReplacement signs a replacement like Replace, without broadcasting it.
func (n *Node) SignReplacement(txid string, outputs ...chain.Output) (raw []byte, newID string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	coins, ok := n.paid[txid]
	if !ok {
		return nil, "", fmt.Errorf("btcdtest: %s is not a payment of the harness", txid)
	}
	total := int64(5 * payFee)
	for _, o := range outputs {
		total += o.Amount
	}
	return n.spend(coins, total, outputs)
}

// spend signs a transaction. The caller must hold the lock.
func (n *Node) spend(coins []chain.WalletCoin, total int64, outputs []chain.Output) ([]byte, string, error) {
	msg := wire.NewMsgTx(2)
	var have int64
	for _, c := range coins {
		hash, err := chainhash.NewHashFromStr(c.TxID)
		if err != nil {
			return nil, "", err
		}
		in := wire.NewTxIn(wire.NewOutPoint(hash, c.Vout), nil, nil)
		in.Sequence = wire.MaxTxInSequenceNum - 2
		msg.AddTxIn(in)
		have += c.Amount
	}
	for _, o := range append(slices.Clone(outputs), chain.Output{Address: n.minerAddress, Amount: have - total}) {
		script, err := bitcoin.AddressScript(o.Address, network)
		if err != nil {
			return nil, "", err
		}
		msg.AddTxOut(wire.NewTxOut(o.Amount, script))
	}
	raw, txid, err := n.keys.Sign(msg, coins)
	if err == nil {
		n.paid[txid] = coins
	}
	return raw, txid, err
}

// Evict removes a transaction from the mempool: it restarts the node, which empties the mempool, and broadcasts the
// others again.
func (n *Node) Evict(ctx context.Context, txid string) error {
	others, err := n.mempoolTxs(ctx)
	if err != nil {
		return err
	}
	if err := n.dropStaleBlocks(ctx); err != nil {
		return err
	}
	n.stop()
	if err := n.run(ctx); err != nil {
		return err
	}
	for _, msg := range others {
		if msg.TxID() == txid {
			continue
		}
		// A child of the evicted transaction is evicted too.
		if err := n.Broadcast(ctx, bitcoin.Serialize(msg)); err != nil &&
			!slices.ContainsFunc(msg.TxIn, func(in *wire.TxIn) bool {
				return in.PreviousOutPoint.Hash.String() == txid
			}) {
			return err
		}
	}
	return nil
}
