// Package evmtest runs a real node of an EVM network, anvil, on the loopback interface for tests. Blocks are mined on
// request only.
//
// The binary is that of the npm package @foundry-rs/anvil-linux-amd64 in .tools/anvil, which tools/install.sh
// installs. The network has tokens whose source and code are in the directory contracts: a standard USDC with
// EIP-3009, a USDT
// whose transfer returns nothing, and a DAI whose transfer returns false instead of failing. [Chain] is the node as a
// chain that package chaintest controls. Clients connect through a proxy that can lose requests and responses.
package evmtest

import (
	"bytes"
	"context"
	"embed"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/testkit/freeport"
)

//go:embed contracts/*.hex
var contracts embed.FS

// ChainID is the chain id of every test network.
const ChainID = 31337

// Connection is the behavior of the proxy in front of the node.
type Connection int32

// Connections.
const (
	Connected     Connection = iota
	RequestsLost             // requests do not reach the node
	ResponsesLost            // the node handles requests, but its responses are lost
)

// Node is a running anvil.
type Node struct {
	*evm.Client
	// URL is the URL of the proxy, see [Node.SetConnection].
	URL string
	// Payer is a contract that pays several recipients from its own tokens.
	Payer evm.Address

	direct     *evm.Client // bypasses the proxy
	connection atomic.Int32
	l1Fee      atomic.Int64 // wei; see SetL1Fee
	chains     atomic.Int64
	requests   atomic.Int64
}

// Start starts a node, deploys the tokens and connects as network "base". It stops with the test.
func Start(t testing.TB, flags ...string) *Node {
	t.Helper()
	testkit.NotQuick(t, "anvil")
	n, err := start(t, flags)
	if err != nil {
		t.Fatalf("anvil: %v", err)
	}
	return n
}

func start(t testing.TB, flags []string) (*Node, error) {
	binary, err := install(t.Context())
	if err != nil {
		return nil, err
	}
	address, err := freeport.Free()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(binary, append([]string{"--port", port, "--chain-id", strconv.Itoa(ChainID), "--no-mining",
		"--silent"}, flags...)...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+cmd.Dir)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	base := "http://" + address
	n := &Node{}
	network, err := evm.Lookup("base")
	if err != nil {
		return nil, err
	}
	dollar := network.Tokens[0].Domain
	network.ChainID, network.Tokens, network.BlocksPerConfirmation = ChainID, nil, 1
	if n.direct, err = evm.NewClient(evm.Options{URL: base, Network: network}); err != nil {
		return nil, err
	}
	for up := false; !up; time.Sleep(10 * time.Millisecond) {
		up = n.direct.Call(t.Context(), nil, "eth_chainId") == nil
		if cmd.ProcessState != nil || t.Context().Err() != nil {
			return nil, fmt.Errorf("the node does not answer:\n%s", output.String())
		}
	}
	addresses := map[string]evm.Address{}
	for _, name := range []string{"token", "quiettoken", "politetoken", "payer"} {
		if addresses[name], err = n.deploy(t.Context(), name); err != nil {
			return nil, err
		}
	}
	n.Payer = addresses["payer"]
	network.Tokens = []evm.Token{
		{Asset: money.USDC, Contract: addresses["token"].String(), Domain: dollar},
		{Asset: money.USDT, Contract: addresses["quiettoken"].String()},
		{Asset: "DAI", Contract: addresses["politetoken"].String()},
	}
	if n.direct, err = evm.NewClient(evm.Options{URL: base, Network: network}); err != nil {
		return nil, err
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { n.proxy(w, r, base) }))
	t.Cleanup(server.Close)
	n.URL = server.URL
	network.Tokens = slices.Clone(network.Tokens)
	n.Client, err = evm.NewClient(evm.Options{URL: n.URL, Network: network})
	return n, err
}

// proxy forwards a request to the node, depending on the connection.
func (n *Node) proxy(w http.ResponseWriter, r *http.Request, base string) {
	n.requests.Add(1)
	line := Connection(n.connection.Load())
	cut := func() {
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			c.Close()
		}
	}
	if line == RequestsLost {
		cut()
		return
	}
	req, err := http.NewRequestWithContext(context.WithoutCancel(r.Context()), http.MethodPost, base, r.Body)
	if err != nil {
		cut()
		return
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil || line == ResponsesLost {
		if err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
		cut()
		return
	}
	defer res.Body.Close()
	w.WriteHeader(res.StatusCode)
	wei := n.l1Fee.Load()
	if wei == 0 {
		_, _ = io.Copy(w, res.Body)
		return
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		cut()
		return
	}
	const price = `"effectiveGasPrice":`
	_, _ = w.Write(bytes.ReplaceAll(body, []byte(price), fmt.Appendf(nil, `"l1Fee":"%#x",%s`, wei, price)))
}

// SetL1Fee sets a fee in wei that every receipt reports in addition to gas, as on networks of the OP stack.
func (n *Node) SetL1Fee(wei int64) { n.l1Fee.Store(wei) }

// SetDataFee sets the cost in wei of publishing a transaction, which networks of the OP stack report by a contract.
func (n *Node) SetDataFee(ctx context.Context, wei int64) error {
	code := fmt.Sprintf("0x7f%064x60005260206000f3", wei) // a contract that returns the number wei
	return n.direct.Call(ctx, nil, "anvil_setCode", "0x420000000000000000000000000000000000000F", code)
}

// Requests returns the number of requests to the proxy.
func (n *Node) Requests() int64 { return n.requests.Load() }

// SetConnection sets the behavior of the proxy.
func (n *Node) SetConnection(l Connection) { n.connection.Store(int32(l)) }

// install returns the path of the binary. tools/install.sh installs it if necessary.
func install(ctx context.Context) (string, error) {
	root, err := testkit.Root()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(root, ".tools", "anvil", "node_modules", "@foundry-rs", "anvil-linux-amd64", "bin", "anvil")
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	if out, err := exec.CommandContext(ctx, filepath.Join(root, "tools", "install.sh"),
		"anvil").CombinedOutput(); err != nil {
		return "", fmt.Errorf("tools/install.sh anvil: %w\n%s", err, out)
	}
	return binary, nil
}

// deployer is one of anvil's own accounts, for which it signs.
const deployer = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"

func (n *Node) deploy(ctx context.Context, name string) (a evm.Address, err error) {
	code, err := contracts.ReadFile("contracts/" + name + ".hex")
	if err != nil {
		return a, err
	}
	var txid string
	if err := n.direct.Call(ctx, &txid, "eth_sendTransaction", map[string]string{"from": deployer, "data": "0x" +
		strings.TrimSpace(string(code))}); err != nil {
		return a, err
	}
	if err := n.Mine(ctx, 1); err != nil {
		return a, err
	}
	var receipt struct {
		Contract string `json:"contractAddress"`
	}
	if err := n.direct.Call(ctx, &receipt, "eth_getTransactionReceipt", txid); err != nil {
		return a, err
	}
	return evm.ParseAddress(strings.ToLower(receipt.Contract))
}

// Mine adds blocks. The first contains the pending transactions.
func (n *Node) Mine(ctx context.Context, blocks int) error {
	return n.direct.Call(ctx, nil, "anvil_mine", "0x"+strconv.FormatInt(int64(blocks), 16))
}

// Evict removes a pending transaction.
func (n *Node) Evict(ctx context.Context, txid string) error {
	return n.direct.Call(ctx, nil, "anvil_dropTransaction", txid)
}

// Reorg replaces the last depth blocks by depth+1 empty ones. Their transactions become pending again.
func (n *Node) Reorg(ctx context.Context, depth int) error {
	height, _, err := n.direct.Tip(ctx)
	if err != nil {
		return err
	}
	var raws []string
	for _, at := range append(heights(height, depth), "pending") {
		var b struct {
			Txs []string `json:"transactions"`
		}
		if err := n.direct.Call(ctx, &b, "eth_getBlockByNumber", at, false); err != nil {
			return err
		}
		for _, txid := range b.Txs {
			var raw string
			if err := n.direct.Call(ctx, &raw, "eth_getRawTransactionByHash", txid); err != nil {
				return fmt.Errorf("%s in block %s: %w", txid, at, err)
			}
			raws = append(raws, raw)
		}
	}
	if err := n.direct.Call(ctx, nil, "anvil_dropAllTransactions"); err != nil {
		return err
	}
	if err := n.direct.Call(ctx, nil, "anvil_reorg", depth, []any{}); err != nil {
		return err
	}
	if err := n.Mine(ctx, 1); err != nil {
		return err
	}
	for _, raw := range raws {
		if err := n.direct.Call(ctx, nil, "eth_sendRawTransaction", raw); err != nil {
			return err
		}
	}
	return nil
}

func heights(tip int64, depth int) (all []string) {
	for h := tip - int64(depth) + 1; h <= tip; h++ {
		all = append(all, "0x"+strconv.FormatInt(h, 16))
	}
	return all
}

// Fund sets the native balance of an account, in gwei, and mints an amount of every token for it.
func (n *Node) Fund(ctx context.Context, account string, native, tokens int64) error {
	if err := n.direct.Call(ctx, nil, "anvil_setBalance", account, "0x"+evm.Wei(native).Text(16)); err != nil {
		return err
	}
	if tokens == 0 {
		return nil
	}
	for _, t := range n.Spec().Tokens {
		if err := n.send(ctx, t.Contract, "40c10f19", account, tokens); err != nil { // mint(address,uint256)
			return err
		}
	}
	return nil
}

// Blacklist sets whether every transfer of a token to an account fails.
func (n *Node) Blacklist(ctx context.Context, asset money.Asset, account string, on bool) error {
	contract, _ := n.Spec().Contract(asset)
	flag := int64(0)
	if on {
		flag = 1
	}
	return n.send(ctx, contract.String(), "358d4c72", account, flag) // block_(address,bool)
}

// send calls a contract function with an account and a number, and mines the call.
func (n *Node) send(ctx context.Context, contract, selector, account string, number int64) error {
	who, err := evm.ParseAddress(account)
	if err != nil {
		return err
	}
	data := make([]byte, 68)
	sel, _ := hex.DecodeString(selector)
	copy(data, sel)
	copy(data[16:], who[:])
	binary.BigEndian.PutUint64(data[60:], uint64(number))
	var txid string
	if err := n.direct.Call(ctx, &txid, "eth_sendTransaction", map[string]string{"from": deployer, "to": contract,
		"data": "0x" + hex.EncodeToString(data)}); err != nil {
		return err
	}
	if err := n.Mine(ctx, 1); err != nil {
		return err
	}
	var receipt struct {
		Status string `json:"status"`
	}
	if err := n.direct.Call(ctx, &receipt, "eth_getTransactionReceipt", txid); err != nil || receipt.Status != "0x1" {
		return fmt.Errorf("call of %s failed: %w", selector, err)
	}
	return nil
}

// Authorize signs a payer's authorization with a private key.
func Authorize(n evm.Network, key []byte, a *evm.Authorization) error {
	digest, err := n.Digest(*a)
	if err != nil {
		return err
	}
	compact := ecdsa.SignCompact(secp256k1.PrivKeyFromBytes(key), digest, false) // v, r and s
	copy(a.Signature[:], append(compact[1:], compact[0]))
	return nil
}

// SetBaseFee sets the base fee of the next block, in wei per unit of gas.
func (n *Node) SetBaseFee(ctx context.Context, wei int64) error {
	return n.direct.Call(ctx, nil, "anvil_setNextBlockBaseFeePerGas", "0x"+strconv.FormatInt(wei, 16))
}

// Paid returns the total of an asset and the number of transfers per recipient, in the best chain.
func (n *Node) Paid(
	ctx context.Context, asset money.Asset,
) (amounts map[string]int64, times map[string]int, err error) {
	amounts, times = map[string]int64{}, map[string]int{}
	height, _, err := n.direct.Tip(ctx)
	if err != nil {
		return nil, nil, err
	}
	for h := range height {
		hash, err := n.direct.BlockHash(ctx, h+1)
		if err != nil {
			return nil, nil, err
		}
		b, err := n.direct.Block(ctx, hash)
		if err != nil {
			return nil, nil, err
		}
		for _, t := range b.Txs {
			for _, o := range t.Outputs {
				if o.Asset == asset {
					amounts[o.Address] += o.Amount
					times[o.Address]++
				}
			}
		}
	}
	return amounts, times, nil
}

// Chain is a node as a chain that a test controls, with a payer and a wallet of its own. Its payments are of one asset.
type Chain struct {
	*Node
	asset  money.Asset
	payer  *evm.Signer
	from   string
	wallet *evm.Signer
	sent   map[string]sent
}

// sent is a transaction of the chain's payer.
type sent struct {
	tx  evm.Tx
	raw []byte
}

// Chain returns a chain that pays an asset.
func (n *Node) Chain(t testing.TB, asset money.Asset) *Chain {
	t.Helper()
	id := n.chains.Add(1)
	l := &Chain{Node: n, asset: asset, payer: signer(t, 2*id), wallet: signer(t, 2*id+1), sent: map[string]sent{}}
	var err error
	if l.from, err = l.payer.Deriver().HotAddress(); err == nil {
		err = n.Fund(t.Context(), l.from, 1_000_000_000_000, 1_000_000_000_000)
	}
	if err == nil {
		err = n.Fund(t.Context(), n.Payer.String(), 0, 1_000_000_000_000)
	}
	testkit.Check(t, err)
	return l
}

func signer(t testing.TB, id int64) *evm.Signer {
	t.Helper()
	xprv := testkit.Must(evm.MasterFromSeed(binary.BigEndian.AppendUint64([]byte("a wallet of a test"), uint64(id))))
	return testkit.Must(evm.ParseXPriv(xprv))
}

// Source implements chaintest.Chain.
func (l *Chain) Source() chain.Source { return l.Client }

// Signer returns the wallet's signer. Deposits go to the wallet, and its hot account pays.
func (l *Chain) Signer() *evm.Signer { return l.wallet }

// Deriver implements chaintest.AccountChain.
func (l *Chain) Deriver() chain.Deriver { return l.wallet.Deriver() }

// PayAll implements chaintest.Chain. It pays one output by a transfer, and several by the Payer contract.
func (l *Chain) PayAll(ctx context.Context, outputs ...chain.Output) (string, error) {
	var nonce hexCount
	if err := l.direct.Call(ctx, &nonce, "eth_getTransactionCount", l.from, "pending"); err != nil {
		return "", err
	}
	return l.pay(ctx, uint64(nonce), 2_000_000_000, outputs)
}

type hexCount uint64

func (h *hexCount) UnmarshalJSON(b []byte) error {
	n, err := strconv.ParseUint(strings.Trim(string(b), `"`), 0, 64)
	*h = hexCount(n)
	return err
}

func (l *Chain) call(outputs []chain.Output) (evm.Call, error) {
	network := l.Spec()
	if len(outputs) == 0 {
		to, err := evm.ParseAddress(l.from)
		return evm.Call{To: to, Value: new(big.Int)}, err
	}
	if len(outputs) == 1 {
		to, err := evm.ParseAddress(outputs[0].Address)
		if err != nil {
			return evm.Call{}, err
		}
		return network.TransferCall(to, money.New(l.asset, outputs[0].Amount))
	}
	contract, ok := network.Contract(l.asset)
	if !ok {
		return evm.Call{}, fmt.Errorf("the contract pays tokens, not %s", l.asset)
	}
	word := func(b []byte) []byte { return append(make([]byte, 32-len(b)), b...) }
	number := func(n int64) []byte { return word(big.NewInt(n).Bytes()) }
	sel, _ := hex.DecodeString("95ecdced") // pay(address,address[],uint256[])
	data := slices.Concat(sel, word(contract[:]), number(96), number(int64(96+32+32*len(outputs))),
		number(int64(len(outputs))))
	for _, o := range outputs {
		to, err := evm.ParseAddress(o.Address)
		if err != nil {
			return evm.Call{}, err
		}
		data = append(data, word(to[:])...)
	}
	data = append(data, number(int64(len(outputs)))...)
	for _, o := range outputs {
		data = append(data, number(o.Amount)...)
	}
	return evm.Call{To: l.Payer, Value: new(big.Int), Data: data}, nil
}

// Submit sends a call from the payer's account.
func (l *Chain) Submit(ctx context.Context, call evm.Call) error {
	var nonce hexCount
	if err := l.direct.Call(ctx, &nonce, "eth_getTransactionCount", l.from, "pending"); err != nil {
		return err
	}
	raw, _, err := l.payer.Sign(evm.Tx{ChainID: ChainID, Nonce: uint64(nonce), Tip: 2_000_000_000, MaxFee: 102_000_000_000,
		Gas: 300_000, Call: call}, chain.Change, 0)
	if err != nil {
		return err
	}
	return l.direct.Broadcast(ctx, raw)
}

func (l *Chain) pay(ctx context.Context, nonce uint64, tip int64, outputs []chain.Output) (string, error) {
	call, err := l.call(outputs)
	if err != nil {
		return "", err
	}
	tx := evm.Tx{ChainID: ChainID, Nonce: nonce, Tip: tip, MaxFee: 100_000_000_000 + tip, Gas: 300_000, Call: call}
	raw, txid, err := l.payer.Sign(tx, chain.Change, 0)
	if err != nil {
		return "", err
	}
	l.sent[txid] = sent{tx, raw}
	return txid, l.direct.Broadcast(ctx, raw)
}

// Replace implements chaintest.Chain.
func (l *Chain) Replace(ctx context.Context, txid string, outputs ...chain.Output) (string, error) {
	old, ok := l.sent[txid]
	if !ok {
		return "", fmt.Errorf("%s is not the lab's", txid)
	}
	return l.pay(ctx, old.tx.Nonce, 100*old.tx.Tip, outputs)
}

// Rebroadcast implements chaintest.AccountChain.
func (l *Chain) Rebroadcast(ctx context.Context, txid string) error {
	return l.direct.Broadcast(ctx, l.sent[txid].raw)
}

// SignOwn implements chaintest.AccountChain: a payment signed by the wallet's hot account.
func (l *Chain) SignOwn(
	ctx context.Context, nonce uint64, tip int64, to chain.Output,
) (raw []byte, txid string, spends chain.Outpoint, err error) {
	hot, err := l.wallet.Deriver().HotAddress()
	if err != nil {
		return nil, "", spends, err
	}
	call, err := l.call([]chain.Output{to})
	if err != nil {
		return nil, "", spends, err
	}
	raw, txid, err = l.wallet.Sign(evm.Tx{ChainID: ChainID, Nonce: nonce, Tip: tip, MaxFee: 100_000_000_000 + tip,
		Gas: 100_000, Call: call}, chain.Change, 0)
	return raw, txid, evm.NonceOutpoint(hot, nonce), err
}
