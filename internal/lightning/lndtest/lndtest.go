// Package lndtest runs two real LND nodes on a private regtest chain, with a channel between them, for tests.
//
// The binary is .tools/bin/lnd of the project, which `make test-lnd` installs; building it takes minutes. One node
// receives payments, with a macaroon that has only the permissions that the service needs. The other node pays.
package lndtest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/btcdtest"
	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/testkit/freeport"
)

const (
	channelSize = 5_000_000 // capacity in satoshis
	timeout     = 90 * time.Second
)

// Node is a running lnd.
type Node struct {
	ID          string
	Certificate []byte // certificate in PEM
	rest, peer  string
	admin       string // admin macaroon in hexadecimal
	client      *http.Client
	log         *bytes.Buffer
}

// Pair is two connected nodes with a channel on one chain.
type Pair struct {
	Chain        *btcdtest.Node
	Payee, Payer *Node
	macaroon     []byte // macaroon with only the permissions that the service needs
	paying       []byte // macaroon of the payer with the permission to pay
}

// Start starts both nodes and opens a channel from the payer to the payee. They stop with the test.
func Start(t testing.TB) *Pair {
	t.Helper()
	p := &Pair{Chain: btcdtest.Start(t)}
	if err := p.start(t); err != nil {
		t.Fatalf("lndtest: %v", err)
	}
	return p
}

func (p *Pair) start(t testing.TB) error {
	binary, err := findBinary()
	if err != nil {
		return err
	}
	front, certificate, err := secure(t, p.Chain)
	if err != nil {
		return err
	}
	for _, n := range []**Node{&p.Payee, &p.Payer} {
		if *n, err = run(t, binary, front, certificate); err != nil {
			return err
		}
	}
	if err := p.connect(t.Context()); err != nil {
		return fmt.Errorf("%w\npayer: %s\npayee: %s", err, p.Payer.log, p.Payee.log)
	}
	if p.macaroon, err = p.Payee.bake(t.Context()); err == nil {
		p.paying, err = p.Payer.bake(t.Context(), permission("offchain", "write"))
	}
	return err
}

func permission(entity, action string) any {
	return map[string]string{"entity": entity, "action": action}
}

// bake returns a macaroon with the permissions to receive payments, and with further permissions.
func (n *Node) bake(ctx context.Context, more ...any) ([]byte, error) {
	var baked struct {
		Macaroon string `json:"macaroon"`
	}
	if err := n.call(ctx, &baked, http.MethodPost, "/v1/macaroon", map[string]any{"permissions": append([]any{
		permission("invoices", "read"), permission("invoices", "write"), permission("info", "read"),
		permission("offchain", "read"), permission("onchain", "read"),
	}, more...)}); err != nil {
		return nil, err
	}
	return hex.DecodeString(baked.Macaroon)
}

func findBinary() (string, error) {
	root, err := testkit.Root()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(root, ".tools", "bin", "lnd")
	if _, err := os.Stat(binary); err != nil {
		return "", errors.New("there is no .tools/bin/lnd; install it by tools/install.sh lnd")
	}
	return binary, nil
}

// secure starts a TLS proxy for the Bitcoin node's API, because lnd requires TLS.
func secure(t testing.TB, n *btcdtest.Node) (host, certificate string, err error) {
	target, err := url.Parse(n.URL())
	if err != nil {
		return "", "", err
	}
	target.User = nil
	front := httptest.NewTLSServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }})
	t.Cleanup(front.Close)
	certificate = filepath.Join(t.TempDir(), "btcd.cert")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw})
	return front.Listener.Addr().String(), certificate, os.WriteFile(certificate, text, 0o600)
}

// run starts a node and waits until it has all blocks of its chain.
func run(t testing.TB, binary, bitcoin, certificate string) (*Node, error) {
	n := &Node{log: &bytes.Buffer{}}
	var rpc string
	for _, address := range []*string{&n.rest, &n.peer, &rpc} {
		var err error
		if *address, err = freeport.Free(); err != nil {
			return nil, err
		}
	}
	dir := t.TempDir()
	cmd := exec.Command(binary, "--lnddir="+dir, "--noseedbackup", "--nobootstrap", "--debuglevel=warn",
		"--bitcoin.regtest", "--bitcoin.node=btcd", "--btcd.rpchost="+bitcoin, "--btcd.rpcuser=u", "--btcd.rpcpass=p",
		"--btcd.rpccert="+certificate,
		"--rpclisten="+rpc, "--restlisten="+n.rest, "--listen="+n.peer)
	cmd.Stdout, cmd.Stderr = n.log, n.log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		force := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait() // an error is expected: the test interrupted the process
		force.Stop()
	})
	err := retry(t.Context(), func(ctx context.Context) error { return n.open(ctx, dir) })
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, n.log)
	}
	return n, nil
}

// open reads the node's certificate and macaroon, and checks that the node is ready.
func (n *Node) open(ctx context.Context, dir string) error {
	certificate, err := os.ReadFile(filepath.Join(dir, "tls.cert"))
	if err != nil {
		return err
	}
	macaroon, err := os.ReadFile(filepath.Join(dir, "data", "chain", "bitcoin", "regtest", "admin.macaroon"))
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certificate)
	n.Certificate, n.admin = certificate, hex.EncodeToString(macaroon)
	n.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool,
		MinVersion: tls.VersionTLS12}}, Timeout: time.Minute}
	var info struct {
		ID     string `json:"identity_pubkey"`
		Synced bool   `json:"synced_to_chain"`
	}
	if err := n.call(ctx, &info, http.MethodGet, "/v1/getinfo", nil); err != nil {
		return err
	}
	if !info.Synced {
		return errors.New("the node does not have all blocks yet")
	}
	n.ID = info.ID
	return nil
}

func (n *Node) call(ctx context.Context, result any, method, path string, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, "https://"+n.rest+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Grpc-Metadata-macaroon", n.admin)
	resp, err := n.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if text, err = io.ReadAll(resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", path, resp.Status, text)
	}
	return json.Unmarshal(text, result)
}

// connect funds the payer and opens its channel to the payee.
func (p *Pair) connect(ctx context.Context) error {
	var address struct {
		Address string `json:"address"`
	}
	if err := p.Payer.call(ctx, &address, http.MethodGet, "/v1/newaddress?type=0", nil); err != nil {
		return err
	}
	if _, err := p.Chain.PayAll(ctx, chain.Output{Address: address.Address, Amount: 2 * channelSize}); err != nil {
		return err
	}
	if err := p.Chain.Mine(ctx, 6); err != nil {
		return err
	}
	if err := p.Payer.call(ctx, &struct{}{}, http.MethodPost, "/v1/peers", map[string]any{
		"addr": map[string]string{"pubkey": p.Payee.ID, "host": p.Payee.peer},
	}); err != nil {
		return err
	}
	if err := retry(ctx, func(ctx context.Context) error {
		return p.Payer.call(ctx, &struct{}{}, http.MethodPost, "/v1/channels", map[string]any{
			"node_pubkey_string": p.Payee.ID, "local_funding_amount": fmt.Sprint(channelSize), "sat_per_vbyte": "2",
		})
	}); err != nil {
		return err
	}
	if err := p.Chain.Mine(ctx, 6); err != nil {
		return err
	}
	for _, n := range []*Node{p.Payer, p.Payee} {
		if err := retry(ctx, func(ctx context.Context) error {
			var a struct {
				Channels []any `json:"channels"`
			}
			if err := n.call(ctx, &a, http.MethodGet, "/v1/channels?active_only=true", nil); err != nil {
				return err
			}
			if len(a.Channels) == 0 {
				return errors.New("the channel is not active")
			}
			return nil
		}); err != nil {
			return err
		}
	}
	// The payer can find a route only after it has received the payee's channel policy.
	return retry(ctx, func(ctx context.Context) error {
		return p.Payer.call(ctx, &struct{}{}, http.MethodGet, "/v1/graph/routes/"+p.Payee.ID+"/1000", nil)
	})
}

// Options returns the options of a client of the payee.
func (p *Pair) Options() lightning.Options {
	return lightning.Options{URL: "https://" + p.Payee.rest, Macaroon: p.macaroon, Certificate: p.Payee.Certificate,
		Network: "regtest"}
}

// PayerOptions returns the options of a client of the payer that is permitted to pay.
func (p *Pair) PayerOptions() lightning.Options {
	return lightning.Options{URL: "https://" + p.Payer.rest, Macaroon: p.paying, Certificate: p.Payer.Certificate,
		Network: "regtest"}
}

// NewRequest creates an invoice of the payee for an amount in satoshis; 0 creates an invoice without an amount.
func (p *Pair) NewRequest(sats int64, expiry time.Duration) (string, error) {
	var a struct {
		Request string `json:"payment_request"`
	}
	err := p.Payee.call(context.Background(), &a, http.MethodPost, "/v1/invoices", map[string]any{
		"value": fmt.Sprint(sats), "expiry": fmt.Sprint(int64(expiry / time.Second)),
	})
	return a.Request, err
}

// PaidFor returns the number of times that an invoice of the payee was paid: 0 or 1.
func (p *Pair) PaidFor(request string) int {
	r, err := lightning.Decode(request)
	if err != nil {
		return 0
	}
	var a struct {
		State lightning.NodeState `json:"state"`
	}
	err = p.Payee.call(context.Background(), &a, http.MethodGet, "/v1/invoice/"+r.Hash.String(), nil)
	if err != nil || a.State != lightning.NodeSettled {
		return 0
	}
	return 1
}

// Pay pays a payment request through the channel. It returns after the payment has succeeded or failed.
func (p *Pair) Pay(ctx context.Context, request string) error {
	return p.send(ctx, map[string]any{"payment_request": request})
}

// PayMsat pays an amount for a payment request. The amount may be less or more than requested, which only a payer
// that violates the protocol would pay.
func (p *Pair) PayMsat(ctx context.Context, request string, msat int64) error {
	var r struct {
		Destination string                     `json:"destination"`
		Hash        string                     `json:"payment_hash"`
		Address     string                     `json:"payment_addr"`
		Delta       string                     `json:"cltv_expiry"`
		Features    map[string]json.RawMessage `json:"features"`
	}
	if err := p.Payer.call(ctx, &r, http.MethodGet, "/v1/payreq/"+request, nil); err != nil {
		return err
	}
	destination, err := hex.DecodeString(r.Destination)
	if err != nil {
		return err
	}
	hash, err := hex.DecodeString(r.Hash)
	if err != nil {
		return err
	}
	delta, err := strconv.Atoi(r.Delta)
	if err != nil {
		return err
	}
	var features []int
	for text := range r.Features {
		bit, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		features = append(features, bit)
	}
	return p.send(ctx, map[string]any{
		"dest": destination, "payment_hash": hash, "payment_addr": r.Address, "amt_msat": strconv.FormatInt(msat, 10),
		"final_cltv_delta": delta, "dest_features": features,
	})
}

// send makes a payment. It returns after the payment has succeeded or failed.
func (p *Pair) send(ctx context.Context, payment map[string]any) error {
	var a struct {
		Result struct {
			Status string `json:"status"`
			Reason string `json:"failure_reason"`
		} `json:"result"`
	}
	payment["timeout_seconds"], payment["fee_limit_sat"], payment["no_inflight_updates"] = 30, "100", true
	err := p.Payer.call(ctx, &a, http.MethodPost, "/v2/router/send", payment)
	if err == nil && a.Result.Status != "SUCCEEDED" {
		err = fmt.Errorf("the payment %s: %s", a.Result.Status, a.Result.Reason)
	}
	return err
}

// IsCanceled reports whether the payee has canceled the invoice of a payment request.
func (p *Pair) IsCanceled(ctx context.Context, request string) bool {
	r, err := lightning.Decode(request)
	if err != nil {
		return false
	}
	var a struct {
		State lightning.NodeState `json:"state"`
	}
	err = p.Payee.call(ctx, &a, http.MethodGet, "/v1/invoice/"+r.Hash.String(), nil)
	return err == nil && a.State == lightning.NodeCanceled
}

// retry calls f until it succeeds, or until the timeout.
func retry(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		err := f(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("timeout: %w", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
