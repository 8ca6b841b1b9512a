//go:build lnd

package lightning_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/lightning/lightningtest"
	"github.com/stipend/stipend/internal/lightning/lndtest"
	"github.com/stipend/stipend/internal/testkit"
)

// LND passes the contract of the simulated node, and their responses have the same form.
func TestLND(t *testing.T) {
	pair, own := lndtest.Start(t), lightningtest.Start(t)
	t.Run("contract", func(t *testing.T) { lightningtest.RunContract(t, pair) })
	t.Run("payer's contract", func(t *testing.T) {
		lightningtest.RunPayerContract(t, testkit.Must(lightning.NewClient(pair.PayerOptions())), pair)
	})
	t.Run("answers", func(t *testing.T) {
		preimage := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{77}, 32))
		hash := lightning.NewInvoice{Preimage: [32]byte(bytes.Repeat([]byte{77}, 32))}.Hash()
		unknown := base64.StdEncoding.EncodeToString(make([]byte, 32))
		invoice := fmt.Sprintf(`{"r_preimage":%q,"value_msat":"5000000","expiry":"900","memo":"Order 7","private":true}`,
			preimage)
		for _, c := range []struct{ method, path, body string }{
			{http.MethodGet, "/v1/getinfo", ""},
			{http.MethodPost, "/v1/invoices", invoice},
			{http.MethodPost, "/v1/invoices", invoice}, // repeats the request above
			{http.MethodPost, "/v1/invoices", `{"r_preimage":"AAAA"}`},
			{http.MethodPost, "/v1/invoices", `{"memo":"` + strings.Repeat("x", 640) + `"}`},
			{http.MethodPost, "/v1/invoices", `{"value_msat":"-1"}`},
			{http.MethodGet, "/v1/invoice/" + hash.String(), ""},
			{http.MethodGet, "/v1/invoice/" + strings.Repeat("0", 64), ""},
			{http.MethodPost, "/v2/invoices/cancel", fmt.Sprintf(`{"payment_hash":%q}`,
				base64.StdEncoding.EncodeToString(hash[:]))},
			{http.MethodPost, "/v2/invoices/cancel", fmt.Sprintf(`{"payment_hash":%q}`, unknown)},
			{http.MethodGet, "/v1/nothing", ""},
		} {
			got, want := ask(t, own.Options(), c.method, c.path, c.body), ask(t, pair.Options(), c.method, c.path, c.body)
			if got != want {
				t.Errorf("%s %s\nown %s\nLND %s", c.method, c.path, got, want)
			}
		}
	})
}

// ask returns the status and the form of a response: the names and types of its members, and the text of an error.
func ask(t *testing.T, o lightning.Options, method, path, body string) string {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(o.Certificate)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool,
		MinVersion: tls.VersionTLS12}}}
	req := testkit.Must(http.NewRequestWithContext(t.Context(), method, o.URL+path, strings.NewReader(body)))
	req.Header.Set("Grpc-Metadata-macaroon", hex.EncodeToString(o.Macaroon))
	resp := testkit.Must(client.Do(req))
	defer resp.Body.Close()
	text := testkit.Must(io.ReadAll(resp.Body))
	var members map[string]any
	if err := json.Unmarshal(text, &members); err != nil {
		t.Fatalf("%s: %s", err, text)
	}
	form := []string{fmt.Sprint(resp.StatusCode), resp.Header.Get("Content-Type")}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if name == "code" || name == "message" {
			form = append(form, fmt.Sprintf("%s=%v", name, members[name]))
			continue
		}
		form = append(form, fmt.Sprintf("%s:%T", name, members[name]))
	}
	return strings.Join(form, " ")
}
