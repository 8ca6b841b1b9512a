package bitcoin_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/btcsuite/btcd/address/v2"
	"github.com/btcsuite/btcd/btcutil/v2/hdkeychain"
	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/testkit"
)

// These keys belong to the account in the test vectors of BIP 84.
const (
	zprv = "zprvAdG4iTXWBoARxkkzNpNh8r6Qag3irQB8PzEMkAFeTRXxHpbF9z4QgEvBRmfvqWvGp42t42nvgGpNgYSJA9iefm" +
		"1yYNZKEm7z6qUWCroSQnE"
	zpub = "zpub6rFR7y4Q2AijBEqTUquhVz398htDFrtymD9xYYfG1m4wAcvPhXNfE3EfH1r1ADqtfSdVCToUG868RvUUkgDKf3" +
		"1mGDtKsAYz2oz2AGutZYs"
	root = "zprvAWgYBBk7JR8Gjrh4UJQ2uJdG1r3WNRRfURiABBE3RvMXYSrRJL62XuezvGdPvG6GFBZduosCc1YP5wixPox7zh" +
		"ZLfiUm8aunE96BBa4Kei5"
)

func TestBIP84Vectors(t *testing.T) {
	public := testkit.Must(bitcoin.ParseXPub(zpub, "bitcoin"))
	account := testkit.Must(bitcoin.ParseXPriv(zprv, "bitcoin"))
	master := testkit.Must(bitcoin.ParseXPriv(root, "bitcoin"))
	for _, c := range []struct {
		branch, index uint32
		want          string
	}{
		{chain.External, 0, "bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu"},
		{chain.External, 1, "bc1qnjg0jd8228aq7egyzacy8cys3knf9xvrerkf9g"},
		{chain.Change, 0, "bc1q8c6fshw2dlwun7ekn9qwf37cu2rn755upcp6el"},
	} {
		for name, d := range map[string]*bitcoin.Deriver{"public": public, "account": account.Deriver(),
			"master": master.Deriver()} {
			if got, err := d.Address(c.branch, c.index); err != nil || got != c.want {
				t.Errorf("%s %d/%d: %s, %v", name, c.branch, c.index, got, err)
			}
		}
	}
}

// The derived addresses, cached or not, equal those of a library that derives more slowly.
func TestAddressesAreThoseOfBIP32(t *testing.T) {
	d := testkit.Must(bitcoin.ParseXPub(zpub, "bitcoin"))
	account := testkit.Must(hdkeychain.NewKeyFromString(zpub))
	for _, branch := range []uint32{chain.External, chain.Change} {
		parent := testkit.Must(account.Derive(branch))
		for i := range uint32(200) {
			index := hdkeychain.HardenedKeyStart - 1 - i*i*i
			if i >= 150 {
				index = hdkeychain.HardenedKeyStart - 1 - i%10<<20 // distinct indexes that share a cache entry
			}
			key := testkit.Must(parent.Derive(index))
			want := testkit.Must(key.Address(&chaincfg.MainNetParams))
			witness := testkit.Must(address.NewAddressWitnessPubKeyHash(want.ScriptAddress(), &chaincfg.MainNetParams))
			for range 2 {
				if got, err := d.Address(branch, index); err != nil || got != witness.EncodeAddress() {
					t.Errorf("%d/%d: %s, %v; want %s", branch, index, got, err, witness.EncodeAddress())
				}
			}
		}
	}
	if a, err := d.Address(chain.External, hdkeychain.HardenedKeyStart); err == nil {
		t.Errorf("an address of a hardened index: %s", a)
	}
}

func TestKeysOfTheWrongKind(t *testing.T) {
	for name, err := range map[string]error{
		"private for public": second(bitcoin.ParseXPub(zprv, "bitcoin")),
		"public for private": second(bitcoin.ParseXPriv(zpub, "bitcoin")),
		"other network":      second(bitcoin.ParseXPub(zpub, "testnet")),
		"unknown network":    second(bitcoin.ParseXPub(zpub, "litecoin")),
		"not a key":          second(bitcoin.ParseXPriv("correct horse", "bitcoin")),
		"seed of real money": second(bitcoin.MasterFromSeed(make([]byte, 32), "bitcoin")),
		"address out of range": func() error {
			d := testkit.Must(bitcoin.ParseXPub(zpub, "bitcoin"))
			return second(d.Address(2, 0))
		}(),
	} {
		if err == nil {
			t.Errorf("%s: taken", name)
		} else if strings.Contains(err.Error(), "horse") || strings.Contains(err.Error(), zprv) {
			t.Errorf("%s: the error repeats the key: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestNormalAddress(t *testing.T) {
	const pubkey = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"
	for _, c := range []struct {
		addr, network string
		want          error
	}{
		{"bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu", "bitcoin", nil},
		{"BC1QCR8TE4KR609GCAWUTMRZA0J4XV80JY8Z306FYU", "bitcoin", nil},
		{"1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2", "bitcoin", nil},
		{"3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy", "bitcoin", nil},
		{"bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0", "bitcoin", nil},
		{"bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu", "regtest", bitcoin.ErrAddressNetwork},
		{"1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2", "testnet", bitcoin.ErrAddressNetwork},
		{"bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyv", "bitcoin", bitcoin.ErrAddress},
		{pubkey, "bitcoin", bitcoin.ErrAddress},
		{"04" + strings.Repeat("79", 64), "bitcoin", bitcoin.ErrAddress},
		{"", "bitcoin", bitcoin.ErrAddress},
		{"0x52908400098527886E0F7030069857D2E4169EE7", "bitcoin", bitcoin.ErrAddress},
	} {
		if _, err := bitcoin.NormalizeAddress(c.addr, c.network); !errors.Is(err, c.want) {
			t.Errorf("%q on %s: %v, want %v", c.addr, c.network, err, c.want)
		}
	}
	if a, err := bitcoin.NormalizeAddress("BC1QCR8TE4KR609GCAWUTMRZA0J4XV80JY8Z306FYU", "bitcoin"); err != nil ||
		a != "bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu" {
		t.Errorf("%s, %v", a, err)
	}
}

func TestSignRefusesAForeignCoin(t *testing.T) {
	s := testkit.Must(bitcoin.ParseXPriv(zprv, "bitcoin"))
	hash := chainhash.DoubleHashH([]byte("coin"))
	msg := wire.NewMsgTx(2)
	msg.AddTxIn(wire.NewTxIn(wire.NewOutPoint(&hash, 1), nil, nil))
	msg.AddTxOut(wire.NewTxOut(1_000, []byte{0x51}))
	coin := chain.WalletCoin{Outpoint: chain.Outpoint{TxID: hash.String(), Vout: 1},
		Address: "bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu", Amount: 2_000}
	one, id, err := s.Sign(msg, []chain.WalletCoin{coin})
	testkit.Check(t, err)
	if two, again, err := s.Sign(msg, []chain.WalletCoin{coin}); err != nil || string(one) != string(two) || id != again {
		t.Error("the same transaction was signed differently")
	}
	if len(msg.TxIn[0].Witness) != 0 {
		t.Error("the argument was signed")
	}
	for name, change := range map[string]func(*chain.WalletCoin){
		"index": func(c *chain.WalletCoin) { c.Index = 1 },
		"vout":  func(c *chain.WalletCoin) { c.Vout = 0 },
	} {
		bad := coin
		change(&bad)
		if _, _, err := s.Sign(msg, []chain.WalletCoin{bad}); err == nil {
			t.Errorf("%s: signed", name)
		}
	}
}

// node returns a client of a server that responds as Bitcoin Core does where Core differs from btcd.
func node(t *testing.T, answer func(method string) (result any, code int, message string)) *bitcoin.Client {
	const genesis = "0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Method string `json:"method"`
			Params []any  `json:"params"`
		}
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &q); err != nil {
			t.Error(err)
		}
		if user, password, _ := r.BasicAuth(); user != "u" || password != "p" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if q.Method == "getblockhash" && q.Params[0] == 0.0 {
			_ = json.NewEncoder(w).Encode(map[string]any{"result": genesis, "error": nil})
			return
		}
		result, code, message := answer(q.Method)
		if code == 0 {
			_ = json.NewEncoder(w).Encode(map[string]any{"result": result, "error": nil})
			return
		}
		w.WriteHeader(http.StatusInternalServerError)
		_ = json.NewEncoder(w).Encode(map[string]any{"result": nil,
			"error": map[string]any{"code": code, "message": message}})
	}))
	t.Cleanup(s.Close)
	c := testkit.Must(bitcoin.NewClient(bitcoin.Options{URL: strings.Replace(s.URL, "http://", "http://u:p@", 1),
		Network: "regtest"}))
	return c
}

func TestBroadcastAnswers(t *testing.T) {
	for _, c := range []struct {
		code    int
		message string
		ok      bool
		refused bool
	}{
		{0, "", true, false},
		{-27, "Transaction outputs already in utxo set", true, false},
		{-26, "txn-already-in-mempool", true, false},
		{-26, "TX rejected: already have transaction in mempool", true, false},
		{-26, "min relay fee not met, 100 < 141", false, true},
		{-26, "mempool full", false, false},
		{-22, "TX decode failed", false, true},
		{-25, "bad-txns-inputs-missingorspent", false, false},
		{-25, "TX rejected: failed to validate input", false, true},
		{-28, "Loading block index…", false, false},
	} {
		err := node(t, func(string) (any, int, string) { return "id", c.code, c.message }).Broadcast(t.Context(), []byte{1})
		if (err == nil) != c.ok || errors.Is(err, chain.ErrRejected) != c.refused {
			t.Errorf("%d %s: %v", c.code, c.message, err)
		}
	}
}

func TestFeeRate(t *testing.T) {
	for _, c := range []struct {
		name         string
		smart, plain any
		want         int64
	}{
		{"smart", map[string]any{"feerate": json.Number("0.00012345"), "blocks": 6}, nil, 13},
		{"tiny", map[string]any{"feerate": json.Number("1e-8"), "blocks": 6}, nil, 2},
		{"no estimate", map[string]any{"errors": []string{"Insufficient data"}, "blocks": 6}, -1, 2},
		{"plain", nil, json.Number("0.00005"), 5},
		{"neither", nil, nil, 2},
	} {
		got, err := node(t, func(method string) (any, int, string) {
			result := c.plain
			if method == "estimatesmartfee" {
				result = c.smart
			}
			if result == nil {
				return nil, -32601, "Method not found"
			}
			return result, 0, ""
		}).FeeRate(t.Context())
		if err != nil || got != c.want {
			t.Errorf("%s: %d, %v; want %d", c.name, got, err, c.want)
		}
	}
}

func TestWrongNetwork(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"result":"000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f","error":null}`)
	}))
	defer s.Close()
	c := testkit.Must(bitcoin.NewClient(bitcoin.Options{URL: s.URL, Network: "regtest"}))
	if _, _, err := c.Tip(t.Context()); !errors.Is(err, bitcoin.ErrWrongNetwork) {
		t.Error(err)
	}
}

// The client reads the cookie file again after the node has rewritten it.
func TestTheCookieIsReadForEachRequest(t *testing.T) {
	file := filepath.Join(t.TempDir(), ".cookie")
	var accepted atomic.Value
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user+":"+password != accepted.Load() {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"result":7,"error":null}`)
	}))
	t.Cleanup(node.Close)
	c := testkit.Must(bitcoin.NewClient(bitcoin.Options{URL: node.URL, CookieFile: file, Network: "regtest"}))
	var height int
	if err := c.Call(t.Context(), &height, "getblockcount"); err == nil || !strings.Contains(err.Error(), "cookie") {
		t.Errorf("without a cookie: %v", err)
	}
	for _, cookie := range []string{"__cookie__:first", "__cookie__:second"} {
		accepted.Store(cookie)
		testkit.Check(t, os.WriteFile(file, []byte(cookie), 0o600))
		if err := c.Call(t.Context(), &height, "getblockcount"); err != nil || height != 7 {
			t.Errorf("%s: %d %v", cookie, height, err)
		}
	}
	accepted.Store("__cookie__:third")
	if err := c.Call(t.Context(), &height, "getblockcount"); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("an old cookie: %v", err)
	}
}

// A URL may contain the key of a provider, so errors must not contain it.
func TestErrorsDoNotContainTheURL(t *testing.T) {
	c := testkit.Must(bitcoin.NewClient(bitcoin.Options{URL: "http://user:word@127.0.0.1:1/v2/key", Network: "regtest"}))
	if _, _, err := c.Tip(t.Context()); err == nil || strings.Contains(err.Error(), "key") ||
		strings.Contains(err.Error(), "word") {
		t.Errorf("got %v", err)
	}
}
