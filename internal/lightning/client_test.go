package lightning_test

import (
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/lightning/lightningtest"
	"github.com/stipend/stipend/internal/testkit"
)

func TestContract(t *testing.T) { lightningtest.RunContract(t, lightningtest.Start(t)) }

func client(t *testing.T, o lightning.Options) *lightning.Client {
	t.Helper()
	return testkit.Must(lightning.NewClient(o))
}

// A payment request that does not match the order is refused, whatever the rest of the response says.
func TestAPaymentRequestIsVerified(t *testing.T) {
	n := lightningtest.Start(t)
	c := client(t, n.Options())
	for name, change := range map[string]func(*lightning.Request){
		"amount":  func(r *lightning.Request) { r.Msat += 1000 },
		"any":     func(r *lightning.Request) { r.Msat = 0 },
		"hash":    func(r *lightning.Request) { r.Hash[0] ^= 1 },
		"network": func(r *lightning.Request) { r.Network = "bitcoin" },
		"signer":  func(r *lightning.Request) { r.Payee = "" },
	} {
		n.TamperRequests(change)
		if got, err := c.AddInvoice(t.Context(), lightning.NewInvoice{Preimage: [32]byte([]byte(strings.Repeat(name,
			32)[:32])), Amount: 5_000, Expiry: time.Minute}); !errors.Is(err, lightning.ErrWrongNode) {
			t.Errorf("a different %s was accepted: %q, %v", name, got, err)
		}
	}
	n.TamperRequests(nil)
	if _, err := c.AddInvoice(t.Context(), lightning.NewInvoice{Amount: 5_000, Expiry: time.Minute}); err != nil {
		t.Error(err)
	}
}

// A repeated call after a lost response returns the same invoice.
func TestALostResponseCreatesNoSecondInvoice(t *testing.T) {
	n := lightningtest.Start(t)
	c := client(t, n.Options())
	n.LoseResponses(1)
	order := lightning.NewInvoice{Preimage: [32]byte{1}, Amount: 5_000, Expiry: time.Minute}
	if _, err := c.AddInvoice(t.Context(), order); err == nil {
		t.Fatal("the answer was not lost")
	}
	request := testkit.Must(c.AddInvoice(t.Context(), order))
	if err := n.Pay(t.Context(), request); err != nil {
		t.Error(err)
	}
	if n.Count(lightning.NodeOpen)+n.Count(lightning.NodeSettled) != 1 {
		t.Error("there are two invoices")
	}
}

// The macaroon is sent to the node only.
func TestTheMacaroonIsSentToTheNodeOnly(t *testing.T) {
	seen := false
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen = true }))
	defer elsewhere.Close()
	n := lightningtest.Start(t)
	n.Redirect(elsewhere.URL)
	if _, err := client(t, n.Options()).Info(t.Context()); err == nil {
		t.Error("a redirect was accepted as a response")
	}
	if seen {
		t.Error("the client followed a redirect with its macaroon")
	}
	o := n.Options()
	o.URL = "http://" + strings.TrimPrefix(o.URL, "https://")
	if _, err := lightning.NewClient(o); err == nil {
		t.Error("a client that would send its macaroon in the clear")
	}
}

func TestALockedNodeReturnsAnError(t *testing.T) {
	n := lightningtest.Start(t)
	n.Lock()
	c := client(t, n.Options())
	if _, err := c.Info(t.Context()); err == nil || !strings.Contains(err.Error(), "wallet locked") {
		t.Errorf("got %v", err)
	}
	if err := c.Subscribe(t.Context(), 1, nil); err == nil || !strings.Contains(err.Error(), "wallet locked") {
		t.Errorf("got %v", err)
	}
	n.Unlock()
	if _, err := c.Info(t.Context()); err != nil {
		t.Error(err)
	}
}

// An invoice in an unknown state is an error, whatever the other fields of the response are.
func TestAnUnknownStateOfAnInvoiceIsAnError(t *testing.T) {
	hash := lightning.Hash{1}
	state := ""
	node := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"r_hash":%q,"state":%q,"amt_paid_msat":"5000000","settle_index":"1","settle_date":"1"}`,
			base64.StdEncoding.EncodeToString(hash[:]), state)
	}))
	defer node.Close()
	c := client(t, lightning.Options{URL: node.URL, Macaroon: []byte{1}, Network: "regtest",
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: node.Certificate().Raw})})
	state = "SETTLED"
	if n, err := c.Lookup(t.Context(), hash); err != nil || n.State != lightning.NodeSettled {
		t.Errorf("%+v %v", n, err)
	}
	state = "HALF_SETTLED"
	if _, err := c.Lookup(t.Context(), hash); err == nil || !strings.Contains(err.Error(),
		`"HALF_SETTLED", which this version does not know`) {
		t.Errorf("got %v", err)
	}
}
