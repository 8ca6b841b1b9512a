package evm

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/money"
)

// Errors of a Client whose node does not match its options.
var (
	ErrWrongNetwork = errors.New("evm: the node is on another network")
	ErrWrongToken   = errors.New("evm: the contract is not the token that it should be")
)

// Options configures a Client. URL and Network are required.
type Options struct {
	URL     string // http://host:port or https://host/path; a user and password in the URL are sent to the node
	Network Network
	// HTTP is the client to use. The default has a timeout of one minute, which a large block may need.
	HTTP *http.Client
}

// Client is a Node over JSON-RPC. Before its first request it compares the node's chain id and the decimals and
// EIP-712 domains of the tokens with the network, and returns ErrWrongNetwork or ErrWrongToken if they differ.
type Client struct {
	o       Options
	user    *url.Userinfo
	checked atomic.Bool

	mu      sync.Mutex
	pending map[string]chain.Tx // the transactions that Mempool returned last, by id
}

// NewClient returns a client. It does not call the node.
func NewClient(o Options) (*Client, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, errors.New("evm: the node's URL must be like http://127.0.0.1:8545")
	}
	for i, t := range o.Network.Tokens {
		a, err := ParseAddress(t.Contract)
		if err != nil {
			return nil, fmt.Errorf("evm: contract of %s on %s: %w", t.Asset, o.Network.Name, err)
		}
		o.Network.Tokens[i].Contract = a.String()
	}
	c := &Client{user: u.User}
	u.User = nil
	o.URL = u.String()
	if o.HTTP == nil {
		o.HTTP = &http.Client{Timeout: time.Minute}
	}
	c.o = o
	return c, nil
}

// Error is an error that the node returned.
type Error struct {
	Method  string          `json:"-"`
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *Error) Error() string {
	return fmt.Sprintf("evm: %s: %s (code %d)", e.Method, e.Message, e.Code)
}

const (
	codeNoMethod = -32601
	codeRevert   = 3

	// maxResponse bounds a response. The receipts of a full block are much smaller.
	maxResponse = 64 << 20
	// maxUnits bounds the amount of one output: two million ETH or two billion USDC.
	maxUnits = 2_100_000_000_000_000
	// batchSize is the maximum number of calls in one request.
	batchSize = 50
)

type rpcRequest struct {
	Version string `json:"jsonrpc"`
	ID      int    `json:"id"`
	Method  string `json:"method"`
	Params  []any  `json:"params"`
}

type rpcResponse struct {
	ID     int             `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *Error          `json:"error"`
}

// rpcCall is one call of a batch and its outcome. The result is decoded into result.
type rpcCall struct {
	method string
	params []any
	result any
	err    *Error
}

// Call calls a method of the node and decodes the result. An error that the node returned is an *Error.
func (c *Client) Call(ctx context.Context, result any, method string, params ...any) error {
	a := []rpcCall{{method: method, params: params, result: result}}
	if err := c.batch(ctx, a); err != nil {
		return err
	}
	if a[0].err != nil {
		return a[0].err
	}
	return nil
}

// batch makes several calls in as few requests as possible. It stores an error that the node returned in the failed
// call.
func (c *Client) batch(ctx context.Context, rpcs []rpcCall) error {
	for some := range slices.Chunk(rpcs, batchSize) {
		if err := c.post(ctx, some); err != nil {
			return fmt.Errorf("evm: %s: %w", some[0].method, err)
		}
	}
	return nil
}

func (c *Client) post(ctx context.Context, rpcs []rpcCall) error {
	questions := make([]rpcRequest, len(rpcs))
	for i, a := range rpcs {
		if a.params == nil {
			a.params = []any{}
		}
		questions[i] = rpcRequest{"2.0", i + 1, a.method, a.params}
	}
	var out any = questions
	if len(questions) == 1 {
		out = questions[0]
	}
	body, err := json.Marshal(out)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.o.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if c.user != nil {
		password, _ := c.user.Password()
		req.SetBasicAuth(c.user.Username(), password)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := c.o.HTTP.Do(req)
	if err != nil {
		var refused *url.Error // its text contains the URL, which may contain a key of the node's provider
		if errors.As(err, &refused) {
			err = refused.Err
		}
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxResponse+1))
	if err != nil {
		return err
	}
	if len(text) > maxResponse {
		return errors.New("the answer is too long")
	}
	replies := make([]rpcResponse, 1)
	if len(rpcs) == 1 {
		err = json.Unmarshal(text, &replies[0])
	} else {
		err = json.Unmarshal(text, &replies)
	}
	if err != nil {
		return fmt.Errorf("status %d, and no answer of JSON-RPC: %w", res.StatusCode, err)
	}
	answered := 0
	for _, r := range replies {
		if r.ID < 1 || r.ID > len(rpcs) {
			if r.Error != nil {
				return fmt.Errorf("%s (code %d)", r.Error.Message, r.Error.Code)
			}
			return errors.New("an answer to nothing that was asked")
		}
		a := &rpcs[r.ID-1]
		answered++
		if r.Error != nil {
			r.Error.Method = a.method
			a.err = r.Error
			continue
		}
		if a.result == nil {
			continue
		}
		if err := json.Unmarshal(r.Result, a.result); err != nil {
			return fmt.Errorf("%s: unexpected answer: %w", a.method, err)
		}
	}
	if answered != len(rpcs) {
		return fmt.Errorf("%d answers to %d questions", answered, len(rpcs))
	}
	return nil
}

// check compares the node with the network, once.
func (c *Client) check(ctx context.Context) error {
	if c.checked.Load() {
		return nil
	}
	var id hexInt
	rpcs := []rpcCall{{method: "eth_chainId", result: &id}}
	decimals := make([]hexInt, len(c.o.Network.Tokens))
	for i, t := range c.o.Network.Tokens {
		rpcs = append(rpcs, rpcCall{method: "eth_call", params: []any{map[string]string{"to": t.Contract,
			"data": hexOf(selectorDecimals)}, "latest"}, result: &decimals[i]})
	}
	separators, asked := make([]hexBytes, len(c.o.Network.Tokens)), map[int]int{} // the index of a token's call
	for i, t := range c.o.Network.Tokens {
		if t.Domain.Name != "" {
			asked[i] = len(rpcs)
			rpcs = append(rpcs, rpcCall{method: "eth_call", params: []any{map[string]string{"to": t.Contract,
				"data": hexOf(selectorDomain)}, "latest"}, result: &separators[i]})
		}
	}
	if err := c.batch(ctx, rpcs); err != nil {
		return err
	}
	if rpcs[0].err != nil {
		return rpcs[0].err
	}
	if id.Uint64() != c.o.Network.ChainID || !id.IsUint64() {
		return fmt.Errorf("%w: its chain id is %s, and %s has %d", ErrWrongNetwork, id.String(), c.o.Network.Name,
			c.o.Network.ChainID)
	}
	for i, t := range c.o.Network.Tokens {
		if err := rpcs[i+1].err; err != nil {
			return fmt.Errorf("%w: %s on %s at %s: %w", ErrWrongToken, t.Asset, c.o.Network.Name, t.Contract, err)
		}
		if want := int64(t.Asset.Exponent()); !decimals[i].IsInt64() || decimals[i].Int64() != want {
			return fmt.Errorf("%w: %s on %s at %s has %s decimals, not %d", ErrWrongToken, t.Asset, c.o.Network.Name, t.Contract,
				decimals[i].String(), want)
		}
		call, signed := asked[i]
		if !signed {
			continue
		}
		if want, err := c.o.Network.separator(t); err != nil || rpcs[call].err != nil || !bytes.Equal(separators[i], want) {
			return fmt.Errorf("%w: %s on %s at %s has another EIP-712 domain than %q, version %q", ErrWrongToken, t.Asset,
				c.o.Network.Name, t.Contract, t.Domain.Name, t.Domain.Version)
		}
	}
	c.checked.Store(true)
	return nil
}

// getResult is Call after a check that the node is on the right chain. It returns chain.ErrNotFound if the result is
// null.
func (c *Client) getResult(ctx context.Context, result any, method string, params ...any) error {
	if err := c.check(ctx); err != nil {
		return err
	}
	var raw json.RawMessage
	if err := c.Call(ctx, &raw, method, params...); err != nil {
		return err
	}
	if len(raw) == 0 || string(raw) == "null" {
		return fmt.Errorf("%w: %s", chain.ErrNotFound, method)
	}
	if err := json.Unmarshal(raw, result); err != nil {
		return fmt.Errorf("evm: %s: unexpected answer: %w", method, err)
	}
	return nil
}

// hexInt is a number in the hexadecimal notation of JSON-RPC.
type hexInt struct{ big.Int }

func (h *hexInt) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	digits, ok := strings.CutPrefix(text, "0x")
	if digits == "" {
		digits = "0"
	}
	if _, done := h.SetString(digits, 16); !ok || !done || len(digits) > 64 {
		return fmt.Errorf("%.20q is not a number", text)
	}
	return nil
}

func hexOf(b []byte) string { return "0x" + hex.EncodeToString(b) }

func hexNumber(n int64) string { return "0x" + strconv.FormatInt(n, 16) }

// hexBytes is a byte string in the hexadecimal notation of JSON-RPC.
type hexBytes []byte

func (h *hexBytes) UnmarshalJSON(b []byte) (err error) {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	digits, ok := strings.CutPrefix(text, "0x")
	if !ok {
		return fmt.Errorf("%.20q is not a row of bytes", text)
	}
	*h, err = hex.DecodeString(digits)
	return err
}

type wireTx struct {
	Hash      string   `json:"hash"`
	BlockHash string   `json:"blockHash"`
	From      string   `json:"from"`
	To        string   `json:"to"`
	Nonce     hexInt   `json:"nonce"`
	Value     hexInt   `json:"value"`
	Input     hexBytes `json:"input"`
}

type wireReceipt struct {
	Hash     string  `json:"transactionHash"`
	Status   *hexInt `json:"status"`
	GasUsed  hexInt  `json:"gasUsed"`
	GasPrice hexInt  `json:"effectiveGasPrice"`
	L1Fee    *hexInt `json:"l1Fee"` // the cost of publication, which some networks charge in addition to the gas
	Logs     []struct {
		Address string   `json:"address"`
		Topics  []string `json:"topics"`
		Data    hexBytes `json:"data"`
		Removed bool     `json:"removed"`
	} `json:"logs"`
}

type wireHead struct {
	Number  hexInt  `json:"number"`
	Hash    string  `json:"hash"`
	Parent  string  `json:"parentHash"`
	Time    hexInt  `json:"timestamp"`
	BaseFee *hexInt `json:"baseFeePerGas"`
}

type wireBlock struct {
	wireHead
	Txs []wireTx `json:"transactions"`
}

// checksummed returns an address in the form of Address.String, or "" for malformed text.
func checksummed(text string) string {
	a, err := ParseAddress(strings.ToLower(text))
	if err != nil {
		return ""
	}
	return a.String()
}

// callee parses the recipient of a transaction. It reports whether the transaction creates a contract instead.
func callee(text string) (to Address, creates bool) {
	to, err := ParseAddress(strings.ToLower(text))
	return to, err != nil
}

// tx converts a transaction and its receipt. Without a receipt it converts the request that the transaction makes.
func (c *Client) tx(w wireTx, r *wireReceipt) (chain.Tx, error) {
	t := chain.Tx{ID: w.Hash, From: checksummed(w.From)}
	if t.From != "" && w.Nonce.IsUint64() {
		t.Inputs = []chain.Outpoint{NonceOutpoint(t.From, w.Nonce.Uint64())}
	}
	to, creates := callee(w.To)
	n := c.o.Network
	call := Call{To: to, Value: &w.Value.Int, Data: w.Input}
	_, token := n.asset(to.String())
	add := func(vout uint32, from, to string, amount *big.Int, asset money.Asset) {
		if from == t.From {
			from = ""
		}
		// An amount above the supply of any asset comes from a dishonest token, and could not be recorded.
		if to != "" && amount.Sign() > 0 && amount.IsInt64() && amount.Int64() <= maxUnits {
			t.Outputs = append(t.Outputs, chain.Output{
				Vout: vout, Address: to, Amount: amount.Int64(), Asset: asset, From: from,
			})
		}
	}
	if r == nil {
		if a, ok := n.ParseAuthorized(call); ok && !creates {
			add(0, a.From.String(), a.To.String(), big.NewInt(a.Amount.Units()), a.Amount.Asset())
		}
		if to, amount, ok := n.ParseTransfer(call); ok && !creates {
			vout := uint32(0)
			if !token {
				vout = NativeVout
			}
			add(vout, t.From, to.String(), big.NewInt(amount.Units()), amount.Asset())
		}
		return t, nil
	}
	if r.Status == nil || !r.GasUsed.IsUint64() {
		return t, fmt.Errorf("evm: the receipt of %s has no status", w.Hash)
	}
	if !r.Status.IsUint64() || r.Status.Uint64() > 1 {
		return t, fmt.Errorf("evm: the receipt of %s has the status %s, which is neither failure nor success", w.Hash,
			r.Status.String())
	}
	cost := new(big.Int).Mul(&r.GasUsed.Int, &r.GasPrice.Int)
	if r.L1Fee != nil {
		cost.Add(cost, &r.L1Fee.Int)
	}
	cost.Add(cost, big.NewInt(gwei-1))
	if cost = Gwei(cost); !cost.IsInt64() {
		return t, fmt.Errorf("evm: the fee of %s is out of range", w.Hash)
	}
	t.Fee = cost.Int64()
	if t.Failed = r.Status.Sign() == 0; t.Failed {
		return t, nil
	}
	wantTo, want, transfer := n.ParseTransfer(call)
	moved := !token || !transfer
	vout := uint32(0)
	for _, l := range r.Logs {
		asset, ours := n.asset(checksummed(l.Address))
		if !ours || l.Removed || len(l.Topics) != 3 || l.Topics[0] != topicTransfer || len(l.Data) != 32 ||
			len(l.Topics[2]) != 66 {
			continue
		}
		to, units := checksummed("0x"+l.Topics[2][26:]), new(big.Int).SetBytes(l.Data)
		from := ""
		if len(l.Topics[1]) == 66 {
			from = checksummed("0x" + l.Topics[1][26:])
		}
		add(vout, from, to, units, asset)
		vout++
		moved = moved || to == wantTo.String() && asset == want.Asset() && units.Cmp(big.NewInt(want.Units())) == 0
	}
	// A token may return false from a transfer without reverting the transaction.
	t.Failed = !moved
	if !creates {
		add(NativeVout, t.From, to.String(), Gwei(&w.Value.Int), n.Native)
	}
	return t, nil
}

// Network implements chain.Source.
func (c *Client) Network() string { return c.o.Network.Name }

// Spec implements Node.
func (c *Client) Spec() Network { return c.o.Network }

// Tip implements chain.Source.
func (c *Client) Tip(ctx context.Context) (int64, string, error) {
	var b wireHead
	err := c.getResult(ctx, &b, "eth_getBlockByNumber", "latest", false)
	return b.Number.Int64(), b.Hash, err
}

// BlockHash implements chain.Source.
func (c *Client) BlockHash(ctx context.Context, height int64) (string, error) {
	var b wireHead
	err := c.getResult(ctx, &b, "eth_getBlockByNumber", hexNumber(height), false)
	return b.Hash, err
}

// Block implements chain.Source.
func (c *Client) Block(ctx context.Context, hash string) (chain.Block, error) {
	if err := c.check(ctx); err != nil {
		return chain.Block{}, err
	}
	var b *wireBlock
	var receipts []wireReceipt
	rpcs := []rpcCall{
		{method: "eth_getBlockByHash", params: []any{hash, true}, result: &b},
		{method: "eth_getBlockReceipts", params: []any{hash}, result: &receipts},
	}
	if err := c.batch(ctx, rpcs); err != nil {
		return chain.Block{}, err
	}
	if b == nil && rpcs[0].err == nil {
		return chain.Block{}, fmt.Errorf("%w: block %s", chain.ErrNotFound, hash)
	}
	for _, a := range rpcs {
		if a.err != nil {
			return chain.Block{}, a.err
		}
	}
	if b.Hash != hash {
		return chain.Block{}, fmt.Errorf("evm: asked for block %s, got %s", hash, b.Hash)
	}
	if len(receipts) != len(b.Txs) {
		return chain.Block{}, fmt.Errorf("evm: block %s has %d transactions and %d receipts", hash, len(b.Txs), len(receipts))
	}
	out := chain.Block{Height: b.Number.Int64(), Hash: b.Hash, Prev: b.Parent, Time: time.Unix(b.Time.Int64(), 0).UTC()}
	for i, w := range b.Txs {
		if receipts[i].Hash != w.Hash {
			return chain.Block{}, fmt.Errorf("evm: receipt %d of block %s is another transaction's", i, hash)
		}
		t, err := c.tx(w, &receipts[i])
		if err != nil {
			return chain.Block{}, err
		}
		out.Txs = append(out.Txs, t)
	}
	return out, nil
}

// Mempool implements chain.Source. It returns the transactions of the node's next block, or none if the node has no
// pending block.
func (c *Client) Mempool(ctx context.Context) ([]string, error) {
	var b wireBlock
	err := c.getResult(ctx, &b, "eth_getBlockByNumber", "pending", true)
	var refusal *Error
	if err != nil && !errors.Is(err, chain.ErrNotFound) && !errors.As(err, &refusal) {
		return nil, err
	}
	pending := make(map[string]chain.Tx, len(b.Txs))
	ids := make([]string, 0, len(b.Txs))
	for _, w := range b.Txs {
		t, err := c.tx(w, nil)
		if err != nil {
			return nil, err
		}
		pending[t.ID] = t
		ids = append(ids, t.ID)
	}
	c.mu.Lock()
	c.pending = pending
	c.mu.Unlock()
	return ids, nil
}

// IsPending implements chain.PendingChecker.
func (c *Client) IsPending(ctx context.Context, txid string) (bool, error) {
	var w wireTx
	err := c.getResult(ctx, &w, "eth_getTransactionByHash", txid)
	if errors.Is(err, chain.ErrNotFound) {
		return false, nil
	}
	return err == nil && w.BlockHash == "", err
}

// Tx implements chain.Source. It returns mined transactions too.
func (c *Client) Tx(ctx context.Context, txid string) (chain.Tx, error) {
	c.mu.Lock()
	t, known := c.pending[txid]
	c.mu.Unlock()
	if known {
		return t, nil
	}
	var w wireTx
	if err := c.getResult(ctx, &w, "eth_getTransactionByHash", txid); err != nil {
		return chain.Tx{}, err
	}
	if w.Hash != txid {
		return chain.Tx{}, fmt.Errorf("evm: asked for transaction %s, got %s", txid, w.Hash)
	}
	if w.BlockHash == "" {
		return c.tx(w, nil)
	}
	var r wireReceipt
	if err := c.getResult(ctx, &r, "eth_getTransactionReceipt", txid); err != nil {
		return chain.Tx{}, err
	}
	return c.tx(w, &r)
}
