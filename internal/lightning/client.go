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

// Hash is the SHA-256 of a preimage. It names an invoice.
type Hash [32]byte

// String is the hash in hex.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// ParseHash reads 64 digits of hex.
func ParseHash(text string) (h Hash, err error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(h) {
		return h, fmt.Errorf("lightning: %q is not a payment hash", text)
	}
	return Hash(raw), nil
}

var (
	// ErrUnknown says that the node has no such invoice.
	ErrUnknown = errors.New("lightning: the node has no such invoice")
	// ErrSettled refuses to cancel what was paid.
	ErrSettled = errors.New("lightning: the invoice was paid")
	// ErrWrongNode stops a client whose node is on another network than it was told, or whose invoices are not what was asked
	// for. Nothing of such a node may be shown to a payer.
	ErrWrongNode = errors.New("lightning: the node is not to be used")
)

// Options say where a node is and how it is recognised. URL, Macaroon and Network are required.
type Options struct {
	URL      string // https://host:8080, the node's REST interface
	Macaroon []byte // the token, as in the node's file
	// Certificate is PEM. Only what it vouches for is trusted: the node's own certificate, which it signed itself, or that of a
	// private authority. Empty: what the system trusts.
	Certificate []byte
	Network     string // "bitcoin", "testnet", "signet" or "regtest"
	// Timeout bounds a call, but not a subscription. Default: 20 seconds.
	Timeout time.Duration
}

// Client speaks the REST interface of LND. It is safe for concurrent use.
type Client struct {
	url      string
	macaroon string
	network  string
	calls    *http.Client
	streams  *http.Client // without an end

	mu sync.Mutex
	id string // of the node, once it was asked
}

const (
	maxResponse = 1 << 20
	// maxSubscription is after what time a subscription is made anew, in case something between here and the node has
	// forgotten it without a word.
	maxSubscription = 10 * time.Minute
)

// NewClient prepares a client; it does not call the node.
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
	transport := &http.Transport{TLSClientConfig: security, TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second}
	// A macaroon is a bearer token: it goes to the node and nowhere else.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{
		url: strings.TrimRight(o.URL, "/"), macaroon: hex.EncodeToString(o.Macaroon), network: o.Network,
		calls:   &http.Client{Transport: transport, CheckRedirect: stay, Timeout: o.Timeout},
		streams: &http.Client{Transport: transport, CheckRedirect: stay},
	}, nil
}

// Error is a refusal by the node.
type Error struct {
	Status  int    `json:"-"`    // of HTTP, 0 inside a stream
	Code    int    `json:"code"` // of gRPC: 2 unknown, 5 not found, …
	Message string `json:"message"`
}

func (e *Error) Error() string {
	return fmt.Sprintf("lightning: the node says: %s (code %d, status %d)", e.Message, e.Code, e.Status)
}

// refusalContains tells whether a refusal is about something. LND has no codes of its own: most refusals are "unknown" with a text.
func refusalContains(err error, text string) bool {
	var refusal *Error
	return errors.As(err, &refusal) && strings.Contains(refusal.Message, text)
}

const codeNotFound = 5

func isNotFound(err error) bool {
	var refusal *Error
	return errors.As(err, &refusal) && (refusal.Code == codeNotFound || refusalContains(err, "unable to locate invoice") || refusalContains(err, "there are no existing invoices"))
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

// refusal reads an error of the node. Without its JSON it is a proxy's.
func refusal(status int, text []byte) error {
	e := &Error{Status: status}
	if json.Unmarshal(text, e) != nil || e.Message == "" {
		e.Message = http.StatusText(status)
	}
	return e
}

// Info is what a node tells of itself.
type Info struct {
	ID      string // its public key, in hex
	Alias   string
	Version string
	Network string // as Options name it, "" for one that is not known here
	Synced  bool   // with its chain
}

// networks are LND's names of the networks.
var networks = map[string]string{"mainnet": "bitcoin", "testnet": "testnet", "testnet4": "testnet", "signet": "signet", "regtest": "regtest"}

// Info asks who the node is: [ErrWrongNode] when it is on another network than this client's.
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

// ID is the node's public key, in hex. A node has one for its life, so it is asked once.
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

// Balance is what the node has, in satoshis: its side of the channels, those that are opened or closed just now included, and the coins of its
// own wallet. It needs a macaroon that may read both.
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

// NewInvoice is an invoice to add. The preimage is chosen by the caller and written down before, so that asking again after
// an answer was lost can only find the same invoice.
type NewInvoice struct {
	Preimage [32]byte
	Amount   int64 // satoshis
	Expiry   time.Duration
	Memo     string // at most 639 bytes
	Private  bool   // with hints to channels that are not announced
}

// Hash is the invoice's name.
func (n NewInvoice) Hash() Hash { return hashOf(n.Preimage) }

// AddInvoice makes an invoice at the node, or finds it when it was made before, and gives its payment request. The request is
// believed only after it was read back: [ErrWrongNode] when its network, amount, hash or signer is not what was asked for.
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
		{"network", r.Network, c.network}, {"amount in msat", r.Msat, n.Amount * 1000}, {"hash", r.Hash, n.Hash()}, {"signer", r.Payee, id},
	} {
		if f.got != f.want {
			return fmt.Errorf("%w: the %s of its invoice is %v, want %v", ErrWrongNode, f.what, f.got, f.want)
		}
	}
	return nil
}

// NodeState is where an invoice stands at the node, in LND's words.
type NodeState string

// States at the node.
const (
	NodeOpen     NodeState = "OPEN"
	NodeAccepted NodeState = "ACCEPTED" // parts of a payment are there, not all
	NodeSettled  NodeState = "SETTLED"
	NodeCanceled NodeState = "CANCELED" // by the node itself when it expired, too
)

// NodeInvoice is an invoice as the node sees it.
type NodeInvoice struct {
	Hash           Hash
	State          NodeState
	PaymentRequest string
	PaidMsat       int64  // may be more than was asked for
	SettleIndex    uint64 // counts the node's settled invoices; 0 until settled
	SettledAt      time.Time
}

// number64 is an integer of 64 bits, which the interface writes as text.
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

// errUnknownState is of one invoice: nothing is done about that one, and others go on.
var errUnknownState = errors.New("which this version does not know")

func (a nodeInvoice) read() (NodeInvoice, error) {
	if len(a.Hash) != len(Hash{}) {
		return NodeInvoice{}, errors.New("lightning: an invoice without a hash")
	}
	i := NodeInvoice{Hash: Hash(a.Hash), State: a.State, PaymentRequest: a.PaymentRequest, PaidMsat: int64(a.Paid), SettleIndex: uint64(a.SettleIndex)}
	switch i.State {
	case NodeOpen, NodeAccepted, NodeSettled, NodeCanceled:
	default:
		return i, fmt.Errorf("lightning: the node has invoice %x in the state %.40q, %w", a.Hash, string(i.State), errUnknownState)
	}
	if i.State == NodeSettled {
		i.SettledAt = time.Unix(int64(a.SettleDate), 0).UTC()
	}
	return i, nil
}

// Lookup asks where an invoice stands: [ErrUnknown] when the node never made it.
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

// CancelInvoice ends an invoice, so that it can be paid no more. Ending it twice is harmless; [ErrSettled] and [ErrUnknown] say that
// there is nothing to end.
func (c *Client) CancelInvoice(ctx context.Context, h Hash) error {
	err := c.call(ctx, &struct{}{}, http.MethodPost, "/v2/invoices/cancel", map[string]string{"payment_hash": base64.StdEncoding.EncodeToString(h[:])})
	switch {
	case refusalContains(err, "already settled"):
		return ErrSettled
	case isNotFound(err):
		return ErrUnknown
	}
	return err
}

// Subscribe gives each settled invoice to f in the order of settling, first those after the index given, then as they
// settle. An index of 0 leaves out what was settled before: the node takes it as "only what is new". It returns when f or
// the connection fails, when ctx ends, and, without an error, after ten minutes.
//
// The node says nothing until there is something to say, not even that the subscription stands.
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
	var unknown error // the first of them, told when the subscription ends
	for {
		one.N = maxResponse // of each message, besides what was read ahead
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
			continue // new invoices are told too
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
