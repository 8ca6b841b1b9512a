package lightning_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/lightning/lightningtest"
	rail "github.com/stipend/stipend/internal/payout/lightning"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/webhook/delivery"
)

// The server of a Lightning address is asked for an invoice, which must be for the amount and the description.
func TestServersOfLightningAddresses(t *testing.T) {
	payee := lightningtest.Start(t)
	terms := map[string]any{}
	var answer map[string]any
	status := http.StatusOK
	var asked []string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.String())
		body := answer
		if r.URL.Path == "/.well-known/lnurlp/ana" {
			body = terms
		}
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body)
	}))
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	testkit.Check(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	roots := &tls.Config{RootCAs: pool, ServerName: "example.com", MinVersion: tls.VersionTLS12}
	s := rail.NewTestServers(delivery.Policy{Loopback: true}, roots, "localhost:"+port)

	const metadata = `[["text/identifier","ana@wallet.localhost"],["text/plain","Ana"]]`
	invoice := func(msat int64, description string) string {
		return testkit.Must(payee.NewDescribedRequest(msat, description))
	}
	for _, c := range []struct {
		name   string
		terms  map[string]any // in place of the usual ones
		pr     string
		status int
		reason string // of a refusal; "" for another error, "ok" for none
	}{
		{name: "an invoice", pr: invoice(2_000_000, metadata), reason: "ok"},
		{name: "an invoice with a description", pr: testkit.Must(payee.NewRequest(2_000, 1<<40)), reason: "ok"},
		{name: "another amount", pr: invoice(2_000_001, metadata), reason: rail.ReasonInvoiceAmount},
		{name: "no amount", pr: invoice(0, metadata), reason: rail.ReasonInvoiceAmount},
		{name: "another description", pr: invoice(2_000_000, "something else"), reason: rail.ReasonRefused},
		{name: "no invoice", pr: "hello", reason: rail.ReasonRefused},
		{name: "too much", terms: map[string]any{"maxSendable": 1_999_999}, reason: rail.ReasonAmountTooLarge},
		{name: "too little", terms: map[string]any{"minSendable": 2_000_001}, reason: rail.ReasonAmountTooSmall},
		{name: "another purpose", terms: map[string]any{"tag": "withdrawRequest"}, reason: rail.ReasonRefused},
		{name: "a refusal", terms: map[string]any{"status": "ERROR", "reason": "gone"}, reason: rail.ReasonRefused},
		{name: "a callback without TLS", terms: map[string]any{"callback": "http://localhost:" + port + "/pay"},
			reason: rail.ReasonRefused},
		{name: "a callback into a private network", terms: map[string]any{"callback": "https://10.0.0.1/pay"},
			reason: rail.ReasonRefused},
		{name: "an internal callback", terms: map[string]any{"callback": "https://metadata.internal/pay"},
			reason: rail.ReasonRefused},
		{name: "an unknown user", status: http.StatusNotFound, reason: rail.ReasonRefused},
		{name: "a server that fails", status: http.StatusBadGateway},
		{name: "a redirect", status: http.StatusFound},
	} {
		t.Run(c.name, func(t *testing.T) {
			terms = map[string]any{"tag": "payRequest", "callback": "https://localhost:" + port + "/pay?k=1",
				"minSendable": 1000, "maxSendable": 100_000_000, "metadata": metadata}
			for k, v := range c.terms {
				terms[k] = v
			}
			answer, asked, status = map[string]any{"pr": c.pr, "routes": []any{}}, nil, http.StatusOK
			if c.status != 0 {
				status = c.status
			}
			got, err := s.Invoice(t.Context(), "ana@wallet.localhost", 2_000)
			var refused *rail.Refusal
			switch {
			case c.reason == "ok":
				if err != nil || got != c.pr || len(asked) != 2 || asked[1] != "/pay?amount=2000000&k=1" {
					t.Errorf("%v, %q", err, asked)
				}
			case c.reason == "":
				if err == nil || errors.As(err, &refused) {
					t.Errorf("%v", err)
				}
			case !errors.As(err, &refused) || refused.Reason != c.reason || refused.Error() == "":
				t.Errorf("%v, want %s", err, c.reason)
			}
		})
	}
	public := rail.NewServers(delivery.Policy{}, roots)
	for _, to := range []string{"ana@localhost.internal", "ana@wallet.local", "ana", "ana@127.0.0.1"} {
		var refused *rail.Refusal
		if _, err := public.Invoice(t.Context(), to, 1); !errors.As(err, &refused) {
			t.Errorf("%s: %v", to, err)
		}
	}
}

func TestLightningAddresses(t *testing.T) {
	for text, want := range map[string]bool{
		"ana@wallet.example": true, "ana.b-c_d+e@x.co": true, "Ana@wallet.example": false, "ana@wallet": false,
		"@x.co":        false,
		"ana@10.0.0.1": false, "ana@x.co/path": false, "a@b@x.co": false, "": false, "ana@x..co": false,
	} {
		if got := lightning.IsAddress(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
