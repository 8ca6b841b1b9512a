package lightning

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Hash is the payment hash of an invoice, the SHA-256 of its preimage. It identifies the invoice.
type Hash [32]byte

// String returns the hash in hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// ParseHash parses a hash of 64 hexadecimal digits.
func ParseHash(text string) (h Hash, err error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(h) {
		return h, fmt.Errorf("lightning: %q is not a payment hash", text)
	}
	return Hash(raw), nil
}

var (
	// ErrUnknown is returned if the node has no such invoice.
	ErrUnknown = errors.New("lightning: the node has no such invoice")
	// ErrSettled is returned if an invoice cannot be canceled because it was paid.
	ErrSettled = errors.New("lightning: the invoice was paid")
	// ErrWrongNode is returned if the node is on a network other than the configured one, or returned an invoice that
	// does not match the request. Invoices of such a node must not be shown to payers.
	ErrWrongNode = errors.New("lightning: the node is not to be used")
)

// Options configures a Client. URL, Macaroon and Network are required.
type Options struct {
	URL      string // URL of the node's REST interface, https://host:8080
	Macaroon []byte // access token, in the binary format of the node's file
	// Certificate is the only trusted certificate, in PEM: the node's self-signed certificate or the certificate of a
	// private authority. If it is empty, the system's authorities are trusted.
	Certificate []byte
	Network     string // "bitcoin", "testnet", "signet" or "regtest"
	// Timeout limits the duration of a call, but not of a subscription. The default is 20 seconds.
	Timeout time.Duration
}

// Client is a client of LND's REST API. It is safe for concurrent use.
type Client struct {
	url      string
	macaroon string
	network  string
	calls    *http.Client
	streams  *http.Client // client for subscriptions, without a timeout

	mu sync.Mutex
	id string // the node's ID; empty before the first Info
}

const (
	maxResponse = 1 << 20
	// maxSubscription is the duration after which a subscription ends, so that it is renewed in case a proxy dropped it
	// silently.
	maxSubscription = 10 * time.Minute
)

// NewClient returns a client. It does not call the node.
func NewClient(o Options) (*Client, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return nil, errors.New("lightning: the node's URL must be like https://127.0.0.1:8080")
	}
	if len(o.Macaroon) == 0 {
		return nil, errors.New("lightning: the macaroon is empty")
	}
	if Prefix(o.Network) == "" {
		return nil, fmt.Errorf("lightning: unknown network %q; want bitcoin, testnet, signet or regtest", o.Network)
	}
	if o.Timeout <= 0 {
		o.Timeout = 20 * time.Second
	}
	security := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(o.Certificate) > 0 {
		security.RootCAs = x509.NewCertPool()
		if !security.RootCAs.AppendCertsFromPEM(o.Certificate) {
			return nil, errors.New("lightning: the node's certificate is not PEM")
		}
	}
	transport := &http.Transport{TLSClientConfig: security, TLSHandshakeTimeout: 10 * time.Second,
		IdleConnTimeout: 90 * time.Second}
	// A macaroon is a bearer token, so redirects are not followed.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{
		url: strings.TrimRight(o.URL, "/"), macaroon: hex.EncodeToString(o.Macaroon), network: o.Network,
		calls:   &http.Client{Transport: transport, CheckRedirect: stay, Timeout: o.Timeout},
		streams: &http.Client{Transport: transport, CheckRedirect: stay},
	}, nil
}

// Error is an error that the node returned.
type Error struct {
	Status  int    `json:"-"`    // the HTTP status, 0 within a stream
	Code    int    `json:"code"` // the gRPC code: 2 unknown, 5 not found, …
	Message string `json:"message"`
}

func (e *Error) Error() string {
	return fmt.Sprintf("lightning: the node returned: %s (code %d, status %d)", e.Message, e.Code, e.Status)
}

// refusalContains reports whether err is an error of the node whose message contains a text. LND returns most errors
// with the code "unknown", so that only the message distinguishes them.
func refusalContains(err error, text string) bool {
	var refusal *Error
	return errors.As(err, &refusal) && strings.Contains(refusal.Message, text)
}

const codeNotFound = 5

func isNotFound(err error) bool {
	var refusal *Error
	return errors.As(err, &refusal) && (refusal.Code == codeNotFound || refusalContains(err, "unable to locate invoice") ||
		refusalContains(err, "there are no existing invoices"))
}

func (c *Client) request(ctx context.Context, method, path string, body any) (*http.Request, error) {
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("lightning: %w", err)
		}
		reader = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, reader)
	if err != nil {
		return nil, fmt.Errorf("lightning: %w", err)
	}
	req.Header.Set("Grpc-Metadata-macaroon", c.macaroon)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

func (c *Client) call(ctx context.Context, result any, method, path string, body any) error {
	req, err := c.request(ctx, method, path, body)
	if err != nil {
		return err
	}
	resp, err := c.calls.Do(req)
	if err != nil {
		return fmt.Errorf("lightning: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse))
	if err != nil {
		return fmt.Errorf("lightning: %s: %w", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return refusal(resp.StatusCode, text)
	}
	if err := json.Unmarshal(text, result); err != nil {
		return fmt.Errorf("lightning: %s: unexpected answer: %w", path, err)
	}
	return nil
}

// refusal decodes an error response. Calls that return a stream have the error in a member. A response without LND's
// JSON comes from a proxy, and is not an answer of the node.
func refusal(status int, text []byte) error {
	var body struct {
		Error
		Stream *Error `json:"error"`
	}
	if json.Unmarshal(text, &body) != nil {
		body.Stream = nil
	}
	e := &body.Error
	if body.Stream != nil {
		e = body.Stream
	}
	if e.Status = status; e.Message == "" {
		return fmt.Errorf("lightning: not the node answered: %s", http.StatusText(status))
	}
	return e
}

// Info describes a node.
type Info struct {
	ID      string // public key in hexadecimal
	Alias   string
	Version string
	Network string // name as in Options; "" for an unknown network
	Synced  bool   // the node has all blocks of its chain
}

// networks maps LND's names of networks to the names in Options.
var networks = map[string]string{"mainnet": "bitcoin", "testnet": "testnet", "testnet4": "testnet", "signet": "signet",
	"regtest": "regtest"}

// Info returns the node's description, or [ErrWrongNode] if the node is on another network.
func (c *Client) Info(ctx context.Context) (Info, error) {
	var a struct {
		ID      string `json:"identity_pubkey"`
		Alias   string `json:"alias"`
		Version string `json:"version"`
		Synced  bool   `json:"synced_to_chain"`
		Chains  []struct {
			Network string `json:"network"`
		} `json:"chains"`
	}
	if err := c.call(ctx, &a, http.MethodGet, "/v1/getinfo", nil); err != nil {
		return Info{}, err
	}
	i := Info{ID: a.ID, Alias: a.Alias, Version: a.Version, Synced: a.Synced}
	if len(a.Chains) == 1 {
		i.Network = networks[a.Chains[0].Network]
	}
	if i.Network != c.network || i.ID == "" {
		return i, fmt.Errorf("%w: it is on %v, not on %s", ErrWrongNode, a.Chains, c.network)
	}
	return i, nil
}

// ID returns the node's public key, in hexadecimal. The key never changes, so it is requested only once.
func (c *Client) ID(ctx context.Context) (string, error) {
	c.mu.Lock()
	id := c.id
	c.mu.Unlock()
	if id != "" {
		return id, nil
	}
	i, err := c.Info(ctx)
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.id = i.ID
	return i.ID, nil
}

// Balance returns the node's funds in satoshis: its side of the channels, including channels being opened or closed,
// and its on-chain wallet. The macaroon must permit reading both balances.
func (c *Client) Balance(ctx context.Context) (sats int64, err error) {
	type part struct {
		Sats number64 `json:"sat"`
	}
	var channels struct {
		Local     part `json:"local_balance"`
		Unsettled part `json:"unsettled_local_balance"`
		Opening   part `json:"pending_open_local_balance"`
	}
	if err := c.call(ctx, &channels, http.MethodGet, "/v1/balance/channels", nil); err != nil {
		return 0, err
	}
	var wallet struct {
		Total number64 `json:"total_balance"`
	}
	if err := c.call(ctx, &wallet, http.MethodGet, "/v1/balance/blockchain", nil); err != nil {
		return 0, err
	}
	return int64(channels.Local.Sats + channels.Unsettled.Sats + channels.Opening.Sats + wallet.Total), nil
}

// NewInvoice is an invoice to add. The caller chooses the preimage and stores it before the call, so that a repeated
// call after a lost response returns the same invoice.
type NewInvoice struct {
	Preimage [32]byte
	Amount   int64 // amount in satoshis
	Expiry   time.Duration
	Memo     string // at most 639 bytes
	Private  bool   // include hints for channels that are not announced
}

// Hash returns the payment hash.
func (n NewInvoice) Hash() Hash { return HashOf(n.Preimage) }

// AddInvoice creates an invoice at the node and returns its payment request. If the invoice exists already, it
// returns the existing request. It returns [ErrWrongNode] if the network, amount, hash or signer of the request is
// wrong.
func (c *Client) AddInvoice(ctx context.Context, n NewInvoice) (string, error) {
	id, err := c.ID(ctx)
	if err != nil {
		return "", err
	}
	var a struct {
		Hash           []byte `json:"r_hash"`
		PaymentRequest string `json:"payment_request"`
	}
	err = c.call(ctx, &a, http.MethodPost, "/v1/invoices", map[string]any{
		"r_preimage": base64.StdEncoding.EncodeToString(n.Preimage[:]),
		"value_msat": strconv.FormatInt(n.Amount*1000, 10),
		"expiry":     strconv.FormatInt(int64(n.Expiry/time.Second), 10),
		"memo":       n.Memo,
		"private":    n.Private,
	})
	if refusalContains(err, "payment hash already exists") {
		made, err := c.Lookup(ctx, n.Hash())
		if err != nil {
			return "", err
		}
		a.PaymentRequest = made.PaymentRequest
	} else if err != nil {
		return "", err
	}
	return a.PaymentRequest, c.checkRequest(a.PaymentRequest, n, id)
}

func (c *Client) checkRequest(text string, n NewInvoice, id string) error {
	r, err := Decode(text)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrWrongNode, err)
	}
	for _, f := range []struct {
		what      string
		got, want any
	}{
		{"network", r.Network, c.network}, {"amount in msat", r.Msat, n.Amount * 1000}, {"hash", r.Hash, n.Hash()},
		{"signer", r.Payee, id},
	} {
		if f.got != f.want {
			return fmt.Errorf("%w: the %s of its invoice is %v, want %v", ErrWrongNode, f.what, f.got, f.want)
		}
	}
	return nil
}

// NodeState is LND's state of an invoice.
type NodeState string

// States of an invoice at the node.
const (
	NodeOpen     NodeState = "OPEN"
	NodeAccepted NodeState = "ACCEPTED" // some parts of the payment have arrived
	NodeSettled  NodeState = "SETTLED"
	NodeCanceled NodeState = "CANCELED" // canceled by a call, or by the node after the expiry
)

// NodeInvoice is an invoice at the node.
type NodeInvoice struct {
	Hash           Hash
	State          NodeState
	PaymentRequest string
	PaidMsat       int64  // may exceed the amount of the invoice
	SettleIndex    uint64 // position among the node's settled invoices, from 1; 0 before the settlement
	SettledAt      time.Time
}

// number64 is a 64-bit integer, which the API encodes as a string.
type number64 int64

func (n *number64) UnmarshalJSON(text []byte) error {
	v, err := strconv.ParseInt(strings.Trim(string(text), `"`), 10, 64)
	*n = number64(v)
	return err
}

type nodeInvoice struct {
	Hash           []byte    `json:"r_hash"`
	State          NodeState `json:"state"`
	PaymentRequest string    `json:"payment_request"`
	Paid           number64  `json:"amt_paid_msat"`
	SettleIndex    number64  `json:"settle_index"`
	SettleDate     number64  `json:"settle_date"`
}

// errUnknownState is returned for an invoice in a state that this version of the program does not know. The client
// skips the invoice and processes the others.
var errUnknownState = errors.New("which this version does not know")

func (a nodeInvoice) read() (NodeInvoice, error) {
	if len(a.Hash) != len(Hash{}) {
		return NodeInvoice{}, errors.New("lightning: an invoice without a hash")
	}
	i := NodeInvoice{Hash: Hash(a.Hash), State: a.State, PaymentRequest: a.PaymentRequest, PaidMsat: int64(a.Paid),
		SettleIndex: uint64(a.SettleIndex)}
	switch i.State {
	case NodeOpen, NodeAccepted, NodeSettled, NodeCanceled:
	default:
		return i, fmt.Errorf("lightning: the node has invoice %x in the state %.40q, %w", a.Hash, string(i.State),
			errUnknownState)
	}
	if i.State == NodeSettled {
		i.SettledAt = time.Unix(int64(a.SettleDate), 0).UTC()
	}
	return i, nil
}

// Lookup returns an invoice, or [ErrUnknown] if the node does not have it.
func (c *Client) Lookup(ctx context.Context, h Hash) (NodeInvoice, error) {
	var a nodeInvoice
	err := c.call(ctx, &a, http.MethodGet, "/v1/invoice/"+h.String(), nil)
	if isNotFound(err) {
		return NodeInvoice{}, ErrUnknown
	}
	if err != nil {
		return NodeInvoice{}, err
	}
	i, err := a.read()
	if err == nil && i.Hash != h {
		err = fmt.Errorf("lightning: asked for invoice %s, got %s", h, i.Hash)
	}
	return i, err
}

// CancelInvoice cancels an invoice, so that it can no longer be paid. It succeeds if the invoice is already canceled.
// It returns [ErrSettled] if the invoice was paid, and [ErrUnknown] if the node does not have it.
func (c *Client) CancelInvoice(ctx context.Context, h Hash) error {
	err := c.call(ctx, &struct{}{}, http.MethodPost, "/v2/invoices/cancel",
		map[string]string{"payment_hash": base64.StdEncoding.EncodeToString(h[:])})
	switch {
	case refusalContains(err, "already settled"):
		return ErrSettled
	case isNotFound(err):
		return ErrUnknown
	}
	return err
}

// Subscribe calls f for each settled invoice in the order of settlement: first the invoices after the given index,
// then new ones. With index 0, the node omits invoices settled before the call. Subscribe returns when f or the
// connection fails, when ctx is canceled and, without an error, after maxSubscription.
//
// The node sends nothing before the first invoice, not even response headers.
func (c *Client) Subscribe(ctx context.Context, after uint64, f func(NodeInvoice) error) error {
	bounded, cancel := context.WithTimeout(ctx, maxSubscription)
	defer cancel()
	err := c.subscribe(bounded, after, f)
	if ctx.Err() == nil && errors.Is(bounded.Err(), context.DeadlineExceeded) {
		return nil
	}
	return err
}

func (c *Client) subscribe(ctx context.Context, after uint64, f func(NodeInvoice) error) error {
	req, err := c.request(ctx, http.MethodGet, "/v1/invoices/subscribe?settle_index="+strconv.FormatUint(after, 10), nil)
	if err != nil {
		return err
	}
	resp, err := c.streams.Do(req)
	if err != nil {
		return fmt.Errorf("lightning: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxResponse))
		return refusal(resp.StatusCode, text)
	}
	one := &io.LimitedReader{R: resp.Body}
	decoder := json.NewDecoder(one)
	var unknown error // the first error of an unknown state, returned when the subscription ends
	for {
		one.N = maxResponse // limit for the next message, in addition to the bytes that the decoder has buffered
		var a struct {
			Result *nodeInvoice `json:"result"`
			Error  *Error       `json:"error"`
		}
		if err := decoder.Decode(&a); err != nil {
			return errors.Join(fmt.Errorf("lightning: the subscription broke off: %w", err), unknown)
		}
		if a.Error != nil {
			return a.Error
		}
		if a.Result == nil {
			continue
		}
		if s := a.Result.State; s == NodeOpen || s == NodeAccepted || s == NodeCanceled {
			continue // the subscription also reports invoices that are not settled
		}
		i, err := a.Result.read()
		if errors.Is(err, errUnknownState) {
			unknown = cmp.Or(unknown, err)
			continue
		}
		if err != nil {
			return err
		}
		if err := f(i); err != nil {
			return err
		}
	}
}
