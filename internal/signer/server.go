package signer

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// Paths of the protocol. Requests and responses are JSON; bytes are base64. A refusal has the status 403 and a Verdict
// as its body.
const (
	pathInfo        = "/v1/info"         // GET: Info
	pathCheck       = "/v1/check"        // POST CheckRequest: a list of Verdict
	pathSignBitcoin = "/v1/sign/bitcoin" // POST BitcoinRequest: Signed
	pathSignEVM     = "/v1/sign/evm"     // POST EVMRequest: Signed
)

// CheckRequest asks what the signer would decide.
type CheckRequest struct {
	Payments  []Payment  `json:"payments"`
	Approvals []Approval `json:"approvals,omitempty"`
	Together  bool       `json:"together,omitempty"`
}

// BitcoinRequest is a transaction to sign.
type BitcoinRequest struct {
	PSBT       []byte     `json:"psbt"`
	References []string   `json:"references,omitempty"`
	Approvals  []Approval `json:"approvals,omitempty"`
}

// Signed is a signed PSBT, or r and s of a transaction on an EVM network.
type Signed struct {
	PSBT      []byte `json:"psbt,omitempty"`
	Signature []byte `json:"signature,omitempty"`
}

// maxBody bounds a request: a PSBT of the largest transaction that nodes relay is below 1 MB.
const maxBody = 8 << 20

// Handler serves the protocol.
func (s *Service) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathInfo, func(w http.ResponseWriter, _ *http.Request) { respond(w, s.Info(), nil) })
	mux.HandleFunc("POST "+pathCheck, func(w http.ResponseWriter, r *http.Request) {
		var in CheckRequest
		err := read(w, r, &in)
		if err != nil {
			respond(w, nil, err)
			return
		}
		respond(w, s.Check(in.Payments, in.Approvals, in.Together), nil)
	})
	mux.HandleFunc("POST "+pathSignBitcoin, func(w http.ResponseWriter, r *http.Request) {
		var in BitcoinRequest
		err := read(w, r, &in)
		var out Signed
		if err == nil {
			out.PSBT, err = s.SignBitcoin(r.Context(), in.PSBT, in.References, in.Approvals)
		}
		respond(w, out, err)
	})
	mux.HandleFunc("POST "+pathSignEVM, func(w http.ResponseWriter, r *http.Request) {
		var in EVMRequest
		err := read(w, r, &in)
		var out Signed
		if err == nil {
			var sig [64]byte
			sig, err = s.SignEVM(r.Context(), in)
			out.Signature = sig[:]
		}
		respond(w, out, err)
	})
	return mux
}

func read(w http.ResponseWriter, r *http.Request, into any) error {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	if d.Decode(into) != nil || d.More() {
		return refuse(Malformed, "the request cannot be read")
	}
	return nil
}

func respond(w http.ResponseWriter, body any, err error) {
	status := http.StatusOK
	if err != nil {
		var r Refused
		status, body = http.StatusInternalServerError, Verdict{}
		if errors.As(err, &r) {
			status, body = http.StatusForbidden, r.Verdict
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client is gone
}

// TLSFiles are the files of mutual TLS: the own certificate and key, and the certificate authority of the other side.
type TLSFiles struct{ Cert, Key, CA string }

// config returns the configuration of one side. It requires a certificate of the other one.
func (f TLSFiles) config() (*tls.Config, error) {
	if f.Cert == "" || f.Key == "" || f.CA == "" {
		return nil, errors.New("mutual TLS needs a certificate, its key and the certificate authority of the other side")
	}
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate", f.CA)
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, ClientCAs: pool, RootCAs: pool,
		ClientAuth: tls.RequireAndVerifyClientCert}, nil
}

// Listen listens at unix:PATH, or by mutual TLS at HOST:PORT. The socket can be used by its owner and group only.
func Listen(address string, files TLSFiles) (net.Listener, error) {
	path, unix := strings.CutPrefix(address, "unix:")
	if !unix {
		config, err := files.config()
		if err != nil {
			return nil, err
		}
		return tls.Listen("tcp", address, config)
	}
	if c, err := net.Dial("unix", path); err == nil { //nolint:noctx // a local socket answers at once
		return nil, errors.Join(fmt.Errorf("another signer listens at %s", path), c.Close())
	}
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	l, err := net.Listen("unix", path) //nolint:noctx // a local path needs no lookup
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o660); err != nil { //nolint:gosec // the service, of the same group, must connect
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Serve serves the protocol until ctx ends.
func (s *Service) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second,
		WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10}
	stop := context.AfterFunc(ctx, func() { _ = server.Shutdown(context.WithoutCancel(ctx)) })
	defer stop()
	err := server.Serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Client asks a signer. It is safe for concurrent use.
type Client struct {
	base string
	http *http.Client
}

// NewClient returns the client of a signer at unix:PATH, or by mutual TLS at HOST:PORT. It does not connect yet.
func NewClient(address string, files TLSFiles) (*Client, error) {
	transport := &http.Transport{MaxIdleConns: 16, MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute}
	c := &Client{base: "http://signer", http: &http.Client{Transport: transport, Timeout: 20 * time.Second}}
	if path, unix := strings.CutPrefix(address, "unix:"); unix {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		}
		return c, nil
	}
	config, err := files.config()
	if err != nil {
		return nil, err
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, fmt.Errorf("want unix:PATH or HOST:PORT: %w", err)
	}
	transport.TLSClientConfig, c.base = config, "https://"+address
	return c, nil
}

// call sends a request and decodes the response. A refusal is a Refused.
func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := c.http.Do(r)
	if err != nil {
		return fmt.Errorf("the signer does not answer: %w", err)
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
		return json.NewDecoder(response.Body).Decode(out)
	case http.StatusForbidden:
		var v Verdict
		if err := json.NewDecoder(response.Body).Decode(&v); err != nil || v.Code == "" {
			return errors.New("the signer refused without a reason")
		}
		return Refused{v}
	}
	return fmt.Errorf("the signer answered with status %d", response.StatusCode)
}

// Info returns the public keys, and where the log ends.
func (c *Client) Info(ctx context.Context) (i Info, err error) {
	return i, c.call(ctx, http.MethodGet, pathInfo, nil, &i)
}

// Check returns what the signer would decide about payments, in their order.
func (c *Client) Check(ctx context.Context, in CheckRequest) (verdicts []Verdict, err error) {
	if err = c.call(ctx, http.MethodPost, pathCheck, in, &verdicts); err == nil && len(verdicts) != len(in.Payments) {
		err = errors.New("the signer did not answer about each payment")
	}
	return verdicts, err
}

// SignBitcoin returns the signed PSBT.
func (c *Client) SignBitcoin(ctx context.Context, in BitcoinRequest) ([]byte, error) {
	var out Signed
	err := c.call(ctx, http.MethodPost, pathSignBitcoin, in, &out)
	return out.PSBT, err
}

// SignEVM returns the signature of a transaction on an EVM network, r and s.
func (c *Client) SignEVM(ctx context.Context, in EVMRequest) (sig [64]byte, err error) {
	var out Signed
	if err = c.call(ctx, http.MethodPost, pathSignEVM, in, &out); err == nil && copy(sig[:], out.Signature) != len(sig) {
		err = errors.New("the signer's signature is incomplete")
	}
	return sig, err
}
