package bitcoin_test

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/btcsuite/btcd/chaincfg/v2"

	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/testkit"
)

// A node whose certificate the system does not trust is used with the file of its certificate only.
func TestANodeWithItsOwnCertificate(t *testing.T) {
	node := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"result":%q,"error":null,"id":1}`, chaincfg.RegressionNetParams.GenesisHash)
	}))
	defer node.Close()
	file := func(text []byte) string {
		name := filepath.Join(t.TempDir(), "rpc.cert")
		testkit.Check(t, os.WriteFile(name, text, 0o600))
		return name
	}
	own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: node.Certificate().Raw})
	for _, c := range []struct{ url, ca, want string }{
		{node.URL, "", "certificate"},
		{node.URL, file(own), ""},
		{node.URL, file([]byte("no certificate")), "has no certificate in PEM"},
		{node.URL, "/nowhere/rpc.cert", "read the certificates"},
		{strings.Replace(node.URL, "https", "http", 1), file(own), "begins with https://"},
	} {
		client, err := bitcoin.NewClient(bitcoin.Options{URL: c.url, CAFile: c.ca, Network: "regtest"})
		if err == nil {
			_, err = client.BlockHash(t.Context(), 0)
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %q: %v, want %q", c.url, filepath.Base(c.ca), err, c.want)
		}
	}
}

func TestNetworksOfAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4":   "[bitcoin]",
		"tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx":   "[testnet signet]",
		"bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080": "[regtest]",
		"": "[]",
	} {
		if got := fmt.Sprint(bitcoin.NetworksOf(address)); got != want {
			t.Errorf("%q belongs to %s, want %s", address, got, want)
		}
	}
}
