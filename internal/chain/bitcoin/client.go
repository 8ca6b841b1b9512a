package bitcoin

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/shopspring/decimal"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/money"
)

// ErrWrongNetwork is returned if the node is on another network than configured.
var ErrWrongNetwork = errors.New("bitcoin: the node is on another network")

// Options configures a Client. URL and Network are required.
type Options struct {
	URL      string // http://host:port; a user and password in the URL apply if the fields below are empty
	User     string
	Password string
	Network  string // "bitcoin", "testnet", "signet" or "regtest"

	// CookieFile contains "user:password", which the node rewrites at each start. It overrides User and Password.
	CookieFile string

	// CAFile has certificates in PEM. One of them must have signed the node's certificate, or be the node's: btcd signs
	// its own. The default is the certificates that the system trusts.
	CAFile string

	// FeeFloor is the fee rate, in satoshis per virtual byte, that is used if the node has no estimate. The default is
	// 2, above the minimum relay fee.
	FeeFloor int64
	// HTTP is the client to use. The default has a timeout of one minute, which a large block may need.
	HTTP *http.Client
}

// Client is a chain.Source over JSON-RPC. It uses only methods that work alike in Bitcoin Core and btcd. Before its
// first request it compares the node's first block with the network's, and returns ErrWrongNetwork if they differ.
type Client struct {
	o       Options
	checked atomic.Bool
}

// NewClient returns a client. It does not call the node.
func NewClient(o Options) (*Client, error) {
	if _, err := Params(o.Network); err != nil {
		return nil, err
	}
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, errors.New("bitcoin: the node's URL must be like http://127.0.0.1:8332")
	}
	if u.User != nil {
		if o.User == "" && o.Password == "" {
			o.User = u.User.Username()
			o.Password, _ = u.User.Password()
		}
		u.User = nil
		o.URL = u.String()
	}
	if o.FeeFloor <= 0 {
		o.FeeFloor = 2
	}
	if o.HTTP == nil {
		o.HTTP = &http.Client{Timeout: time.Minute}
	}
	if o.CAFile != "" {
		if u.Scheme != "https" {
			return nil, errors.New("bitcoin: a file of certificates is for a node whose URL begins with https://")
		}
		if o.HTTP, err = trust(*o.HTTP, o.CAFile); err != nil {
			return nil, err
		}
	}
	return &Client{o: o}, nil
}

// trust returns the client with the certificates of a file in place of those that the system trusts.
func trust(client http.Client, file string) (*http.Client, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("bitcoin: read the certificates: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("bitcoin: %s has no certificate in PEM", file)
	}
	client.Transport = &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second}
	return &client, nil
}

// Error is an error that the node returned.
type Error struct {
	Method  string `json:"-"`
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *Error) Error() string {
	return fmt.Sprintf("bitcoin: %s: %s (code %d)", e.Method, e.Message, e.Code)
}

// The error codes that the client handles.
const (
	codeMisc         = -1  // btcd: height out of range
	codeNotFound     = -5  // no such block or transaction
	codeOutOfRange   = -8  // Core: height out of range
	codeUndecodable  = -22 // the bytes are not a transaction
	codeTxError      = -25 // an input is missing; on btcd also: a script fails
	codeTxRejected   = -26 // refused by a rule; on btcd also: already in the mempool
	codeAlreadyMined = -27
)

// maxResponse bounds a response: a block of 4 MB in hexadecimal, with a margin.
const maxResponse = 32 << 20

// Call calls a method of the node and decodes the result. An error that the node returned is an *Error.
func (c *Client) Call(ctx context.Context, result any, method string, params ...any) error {
	if params == nil {
		params = []any{}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "1.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return fmt.Errorf("bitcoin: %s: %w", method, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.o.URL, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("bitcoin: %s: %w", method, err)
	}
	user, password, err := c.credentials()
	if err != nil {
		return fmt.Errorf("bitcoin: %s: %w", method, err)
	}
	req.SetBasicAuth(user, password)
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.o.HTTP.Do(req)
	if err != nil {
		var refused *url.Error // its text contains the URL, which may contain a key of the node's provider
		if errors.As(err, &refused) {
			err = refused.Err
		}
		return fmt.Errorf("bitcoin: %s: %w", method, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse))
	if err != nil {
		return fmt.Errorf("bitcoin: %s: %w", method, err)
	}
	var answer struct {
		Result json.RawMessage `json:"result"`
		Error  *Error          `json:"error"`
	}
	// Core returns errors with HTTP status 500, btcd with 200, both with the same JSON. A response without JSON comes
	// from a proxy, or means a wrong password or a node that is not running.
	if err := json.Unmarshal(text, &answer); err != nil || (resp.StatusCode != http.StatusOK && answer.Error == nil) {
		return fmt.Errorf("bitcoin: %s: the node answered %s", method, resp.Status)
	}
	if answer.Error != nil {
		answer.Error.Method = method
		return answer.Error
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(answer.Result, result); err != nil {
		return fmt.Errorf("bitcoin: %s: unexpected answer: %w", method, err)
	}
	return nil
}

// credentials reads the cookie for each request, because the node may have been restarted.
func (c *Client) credentials() (user, password string, err error) {
	if c.o.CookieFile == "" {
		return c.o.User, c.o.Password, nil
	}
	text, err := os.ReadFile(c.o.CookieFile)
	if err != nil {
		return "", "", fmt.Errorf("the node's cookie: %w", err)
	}
	user, password, ok := strings.Cut(strings.TrimSpace(string(text)), ":")
	if !ok {
		return "", "", fmt.Errorf("the node's cookie: %s does not hold user:password", c.o.CookieFile)
	}
	return user, password, nil
}

// checkedCall is Call on a node whose network was checked. It returns chain.ErrNotFound for the error codes in
// notFound.
func (c *Client) checkedCall(ctx context.Context, result any, notFound []int, method string, params ...any) error {
	if !c.checked.Load() {
		var hash string
		if err := c.Call(ctx, &hash, "getblockhash", 0); err != nil {
			return err
		}
		if !slices.Contains(genesisHashes(c.o.Network), hash) {
			return fmt.Errorf("%w: its first block is %s, not one of %s", ErrWrongNetwork, hash, c.o.Network)
		}
		c.checked.Store(true)
	}
	err := c.Call(ctx, result, method, params...)
	var refusal *Error
	if errors.As(err, &refusal) && slices.Contains(notFound, refusal.Code) {
		return fmt.Errorf("%w: %s", chain.ErrNotFound, refusal.Message)
	}
	return err
}

// Network implements chain.Source.
func (c *Client) Network() string { return c.o.Network }

// Tip implements chain.Source. If the chain changes between the two requests, they are repeated.
func (c *Client) Tip(ctx context.Context) (int64, string, error) {
	for range 10 {
		var height int64
		if err := c.checkedCall(ctx, &height, nil, "getblockcount"); err != nil {
			return 0, "", err
		}
		hash, err := c.BlockHash(ctx, height)
		if errors.Is(err, chain.ErrNotFound) {
			continue
		}
		return height, hash, err
	}
	return 0, "", errors.New("bitcoin: the node's tip does not stand still")
}

// BlockHash implements chain.Source.
func (c *Client) BlockHash(ctx context.Context, height int64) (hash string, err error) {
	err = c.checkedCall(ctx, &hash, []int{codeMisc, codeOutOfRange}, "getblockhash", height)
	return hash, err
}

// Block implements chain.Source.
func (c *Client) Block(ctx context.Context, hash string) (chain.Block, error) {
	raw, err := c.hex(ctx, []int{codeNotFound}, "getblock", hash, 0)
	if err != nil {
		return chain.Block{}, err
	}
	b, err := decodeBlock(raw, c.o.Network)
	if err == nil && b.Hash != hash {
		err = fmt.Errorf("bitcoin: asked for block %s, got %s", hash, b.Hash)
	}
	return b, err
}

// Mempool implements chain.Source.
func (c *Client) Mempool(ctx context.Context) (txids []string, err error) {
	err = c.checkedCall(ctx, &txids, nil, "getrawmempool")
	return txids, err
}

// Tx implements chain.Source.
func (c *Client) Tx(ctx context.Context, txid string) (chain.Tx, error) {
	raw, err := c.hex(ctx, []int{codeNotFound}, "getrawtransaction", txid, 0)
	if err != nil {
		return chain.Tx{}, err
	}
	tx, err := DecodeTx(raw, c.o.Network)
	if err == nil && tx.ID != txid {
		err = fmt.Errorf("bitcoin: asked for transaction %s, got %s", txid, tx.ID)
	}
	return tx, err
}

func (c *Client) hex(ctx context.Context, notFound []int, method string, params ...any) ([]byte, error) {
	var s string
	if err := c.checkedCall(ctx, &s, notFound, method, params...); err != nil {
		return nil, err
	}
	raw, err := hex.DecodeString(s)
	if err != nil {
		return nil, fmt.Errorf("bitcoin: %s: %w", method, err)
	}
	return raw, nil
}

// Broadcast implements chain.Source.
func (c *Client) Broadcast(ctx context.Context, raw []byte) error {
	err := c.checkedCall(ctx, nil, nil, "sendrawtransaction", hex.EncodeToString(raw))
	var refusal *Error
	if !errors.As(err, &refusal) {
		return err
	}
	text := strings.ToLower(refusal.Message)
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(text, p) })
	}
	switch refusal.Code {
	case codeAlreadyMined:
		return nil
	case codeTxRejected:
		if has("already have transaction", "txn-already-in-mempool", "txn-already-known") {
			return nil
		}
		// A full mempool or a node that is still loading does not mean that the transaction is invalid.
		if has("mempool full", "mempool is not loaded") {
			return err
		}
		return fmt.Errorf("%w: %w", chain.ErrRejected, err)
	case codeUndecodable:
		return fmt.Errorf("%w: %w", chain.ErrRejected, err)
	case codeTxError:
		// A missing input does not prove that the transaction is invalid: one that was mined long ago, and whose outputs
		// are spent, causes the same error.
		if has("missing", "orphan", "spent") {
			return err
		}
		return fmt.Errorf("%w: %w", chain.ErrRejected, err)
	}
	return err
}

// feeTarget is the number of blocks within which a transaction should be mined.
const feeTarget = 6

// FeeRate implements chain.Source. It returns the estimate of a Core node, or that of a btcd node, or the configured
// floor.
func (c *Client) FeeRate(ctx context.Context) (int64, error) {
	var smart struct {
		Rate json.Number `json:"feerate"`
	}
	err := c.checkedCall(ctx, &smart, nil, "estimatesmartfee", feeTarget)
	if rate, ok := satPerVByte(smart.Rate); err == nil && ok {
		return max(rate, c.o.FeeFloor), nil
	}
	var refusal *Error
	if err != nil && !errors.As(err, &refusal) {
		return 0, err
	}
	var plain json.Number
	err = c.checkedCall(ctx, &plain, nil, "estimatefee", feeTarget)
	if rate, ok := satPerVByte(plain); err == nil && ok {
		return max(rate, c.o.FeeFloor), nil
	}
	if err != nil && !errors.As(err, &refusal) {
		return 0, err
	}
	return c.o.FeeFloor, nil
}

// satPerVByte converts a rate in BTC per 1,000 virtual bytes to satoshis per virtual byte, rounded up. Nodes return
// -1 for "no estimate".
func satPerVByte(rate json.Number) (int64, bool) {
	d, err := decimal.NewFromString(rate.String())
	if err != nil || d.Sign() <= 0 {
		return 0, false
	}
	sat := d.Shift(8 - 3).Ceil()
	if sat.GreaterThan(decimal.NewFromInt(1_000_000)) {
		return 0, false
	}
	return sat.IntPart(), true
}

// Coin implements chain.UTXOSource.
func (c *Client) Coin(ctx context.Context, o chain.Outpoint) (int64, error) {
	var out *struct {
		Value json.Number `json:"value"`
	}
	if err := c.Call(ctx, &out, "gettxout", o.TxID, o.Vout, false); err != nil {
		return 0, err
	}
	if out == nil {
		return 0, chain.ErrNotFound
	}
	a, err := money.Parse(money.BTC, out.Value.String())
	return a.Units(), err
}
