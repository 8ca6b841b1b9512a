package httpapi

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/chain/evmtest"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/sandbox/evmsim"
	"github.com/stipend/stipend/internal/testkit"
)

// acceptDollars makes claims payable in USDC on network base.
func (b *fixture) acceptDollars() evm.Network {
	n := testkit.Must(evm.Lookup("base"))
	testkit.Check(b.t, chain.NewWatcher(b.db, n.Name, evmsim.New(b.db, n), 1, slog.New(slog.DiscardHandler)).Sync(
		b.t.Context()))
	keys := testkit.Must(evm.ParseXPriv(testkit.Must(evm.MasterFromSeed([]byte("the account of a claim's payments")))))
	b.server.Claim.Accounts = chain.EVMNetworks{
		Pool:     chain.NewPool(b.db, "evm", keys.Deriver(), n.Name),
		Networks: []chain.EVMNetwork{{Name: n.Name, Assets: n.Assets(), Test: true, URI: n.URI, Spec: n.Network}},
	}
	b.set(`INSERT INTO rates (asset, rate, sources, observed_at, valid_to) VALUES ('USDC', '1', 'x', 1, 9000000000000000)
		ON CONFLICT (asset) DO UPDATE SET rate = '1'`)
	return n
}

// signed returns a header PAYMENT-SIGNATURE for the terms of a 402.
func (b *fixture) signed(n evm.Network, body string, nonce byte) string {
	b.t.Helper()
	var required struct{ Accepts []members }
	testkit.Check(b.t, json.Unmarshal([]byte(body), &required))
	terms := required.Accepts[0]
	var units int64
	_, err := fmt.Sscan(terms["amount"].(string), &units)
	testkit.Check(b.t, err)
	a := evm.Authorization{
		From: testkit.Must(evm.ParseAddress("0xd41c057fd1c78805aac12b0a94a405c0461a6fbb")),
		To:   testkit.Must(evm.ParseAddress(terms["payTo"].(string))), Amount: money.New(money.USDC, units),
		ValidBefore: 1 << 33, Nonce: [32]byte{nonce},
	}
	testkit.Check(b.t, evmtest.Authorize(n, append(make([]byte, 31), 7), &a))
	return base64.StdEncoding.EncodeToString(testkit.Must(json.Marshal(members{
		"x402Version": 2, "accepted": terms, "payload": members{
			"signature": "0x" + hex.EncodeToString(a.Signature[:]),
			"authorization": members{
				"from": a.From.String(), "to": a.To.String(), "value": terms["amount"], "validAfter": "0",
				"validBefore": fmt.Sprint(a.ValidBefore), "nonce": "0x" + hex.EncodeToString(a.Nonce[:]),
			},
		},
	})))
}

// Payments by x402 that cost nothing to make create no claim, and are limited. A transfer that did not pay its claim is
// no success.
func TestX402RefusesWhatDoesNotPay(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newFullFixture(t, d)
		n := b.acceptDollars()
		for range maxSettling {
			b.server.settling <- struct{}{}
		}
		want := func(status int, method, path string, headers ...string) reply {
			t.Helper()
			got := b.do(method, path, "", headers...)
			if got.status != status {
				t.Errorf("%s %s: %d %.400s, want %d", method, path, got.status, got.text, status)
			}
			return got
		}
		const header = "PAYMENT-SIGNATURE"
		made, _ := ask[members](b, "POST", "/api/merchant/payment-links",
			`{"title":"Report","amount":25,"denomination_currency":"USD","funding_currency":"USDC"}`)
		link := strings.TrimPrefix(made["x402_url"].(string), "https://pay.example.com")
		if got := want(405, "HEAD", link); got.header.Get("Allow") != "GET" {
			t.Errorf("Allow is %q", got.header.Get("Allow"))
		}
		asked := want(402, "GET", link)
		signature := string(testkit.Must(base64.StdEncoding.DecodeString(b.signed(n, asked.text, 1))))
		changed := func(to func(string) string) string {
			_, after, _ := strings.Cut(signature, `"to":"`)
			address, _, _ := strings.Cut(after, `"`)
			return base64.StdEncoding.EncodeToString([]byte(
				strings.Replace(signature, `"to":"`+address, `"to":"`+to(address), 1)))
		}
		want(400, "GET", link, header, changed(func(string) string { return "0x12" }))
		want(202, "GET", link, header, changed(strings.ToLower))
		if n := b.count("SELECT COUNT(*) FROM claims WHERE link_id <> ''"); n != 1 { // the one that the 402 named
			t.Errorf("the link created %d claims", n)
		}

		// The transfer is in a block, and its claim takes it no more.
		b.set(`INSERT INTO payout_batches (company_id, batch_id, chain, state, txid, value, fee, inputs, change, sent_at,
			asset, purpose, account, nonce, version, created_at)
			VALUES ('operator', 'bat_1', 'base', 'lost', '0x01', 0, 0, '[]', '', 0, 'ETH', 'collect', '', 0, 1, 0)`)
		b.set("UPDATE payout_collections SET batch_id = 'bat_1'")
		for _, state := range []string{"paid_late", "cancelled", "expired"} {
			b.set("UPDATE claims SET state = '" + state + "' WHERE link_id <> ''")
			got := want(409, "GET", link, header, changed(strings.ToLower))
			if !strings.Contains(got.text, "did not pay the claim") || got.header.Get("PAYMENT-RESPONSE") != "" {
				t.Errorf("%s: %s", state, got.text)
			}
		}
		b.set("UPDATE claims SET state = 'awaiting_payment' WHERE link_id <> ''")
		want(202, "GET", link, header, changed(strings.ToLower))

		claim, _ := ask[members](b, "POST", claimPath+"/create",
			`{"payer_id":"agent-7","amount":40,"denomination_currency":"USD","funding_currency":"USDC"}`)
		path := "/api/x402/" + claim["claim_id"].(string)
		asked = want(402, "GET", path)
		for i := range byte(19) {
			want(202, "GET", path, header, b.signed(n, asked.text, 10+i))
			b.set("UPDATE payout_collections SET reason = 'insufficient_funds' WHERE batch_id = ''")
		}
		want(429, "GET", path, header, b.signed(n, asked.text, 40))
	})
}

// A claim and a payment link that are paid by x402 return each response of the contract. Package app tests payments on
// a real node.
func TestResponsesOfX402(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newFullFixture(t, d)
		n := b.acceptDollars()
		create := func(funding, more string) (id, path string) {
			t.Helper()
			made, text := ask[members](b, "POST", claimPath+"/create",
				`{"payer_id":"agent-7","amount":40,"denomination_currency":"USD","funding_currency":"`+funding+`"`+more+`}`)
			id, path = made["claim_id"].(string), ""
			if url := made["x402_url"].(string); url != "" {
				path = strings.TrimPrefix(url, "https://pay.example.com")
				if path != "/api/x402/"+id {
					t.Fatal(text)
				}
			}
			return id, path
		}
		want := func(status int, code, path string, headers ...string) reply {
			t.Helper()
			got := b.do("GET", path, "", headers...)
			if got.status != status || code != "" && !strings.Contains(got.text, `"code":"`+code+`"`) {
				t.Errorf("GET %s: %d %.400s, want %d %s", path, got.status, got.text, status, code)
			}
			return got
		}
		id, path := create("USDC", "")
		asked := want(402, "", path)
		if header := testkit.Must(base64.StdEncoding.DecodeString(asked.header.Get("PAYMENT-REQUIRED"))); string(header) !=
			asked.text {
			t.Errorf("the header has %s, the body %s", header, asked.text)
		}
		const header = "PAYMENT-SIGNATURE"
		good, other := b.signed(n, asked.text, 1), b.signed(n, asked.text, 2)
		want(400, "malformed_json", path, header, "no base64!")
		want(400, "malformed_json", path, header, base64.StdEncoding.EncodeToString([]byte("[]")))
		want(422, "invalid_parameter", path, header, strings.Repeat("a", 8193))
		want(422, "invalid_parameter", path+"?amount=1&amount=2")
		want(404, "not_found", "/api/x402/clm_00000000000000000000000000")
		want(404, "not_found", "/api/x402/plk_00000000000000000000000000")

		// As many requests wait as a process allows, so this one does not. No worker process settles the payment.
		for range maxSettling {
			b.server.settling <- struct{}{}
		}
		for range 2 {
			if got := want(202, "", path, header, good); !strings.Contains(got.text, `"status":"awaiting_payment"`) ||
				got.header.Get("PAYMENT-RESPONSE") != "" {
				t.Errorf("a payment that is not settled: %s", got.text)
			}
		}
		if n := b.count("SELECT COUNT(*) FROM payout_collections"); n != 1 {
			t.Errorf("the same payment is stored %d times", n)
		}
		want(409, "already_processing", path, header, other)
		b.set("UPDATE payout_collections SET reason = 'insufficient_funds'")
		refused := want(402, "", path, header, good)
		text := testkit.Must(base64.StdEncoding.DecodeString(refused.header.Get("PAYMENT-RESPONSE")))
		if !strings.Contains(string(text), `"success":false,"errorReason":"insufficient_funds",`+
			`"payer":"0xd41c057fd1c78805AAC12B0A94a405c0461A6FBb"`) {
			t.Errorf("PAYMENT-RESPONSE is %s", text)
		}
		b.set("UPDATE claims SET state = 'paid' WHERE claim_id = '" + id + "'")
		if got := want(200, "", path); !strings.Contains(got.text, `"status":"paid"`) {
			t.Errorf("%s", got.text)
		}
		b.set("UPDATE claims SET state = 'paid_late' WHERE claim_id = '" + id + "'")
		want(409, "invalid_state", path)

		bitcoin, _ := create("BTC", "")
		want(409, "invalid_state", "/api/x402/"+bitcoin)
		_, soon := create("USDC", "")
		b.set("UPDATE quotes SET valid_to = valid_from + 30000000, valid_from = valid_from - 870000000 " +
			"WHERE funding_asset = 'USDC'")
		if got := want(409, "invalid_state", soon); !strings.Contains(got.text, "about to end") {
			t.Errorf("a price that ends in 30 seconds: %s", got.text)
		}
		late, path := create("USDC", "")
		b.set("UPDATE quotes SET state = 'expired', valid_to = valid_from WHERE object_id = '" + late + "'")
		b.set("UPDATE claims SET state = 'expired' WHERE claim_id = '" + late + "'")
		want(402, "", path) // gets a new price

		made, _ := ask[members](b, "POST", "/api/merchant/payment-links",
			`{"title":"Report","denomination_currency":"USD","funding_currency":"USDC"}`)
		link := strings.TrimPrefix(made["x402_url"].(string), "https://pay.example.com")
		want(422, "amount_not_positive", link+"?amount=0")
		want(422, "amount_precision", link+"?amount=1.001")
		asked = want(402, "", link+"?amount=25")
		if !strings.Contains(asked.text, `"url":"https://pay.example.com`+link+`?amount=25"`) {
			t.Errorf("%s", asked.text)
		}
		good = b.signed(n, asked.text, 3)
		want(202, "", link+"?amount=25", header, good)
		if n := b.count("SELECT COUNT(*) FROM claims WHERE link_id <> ''"); n != 1 { // the one that the 402 named
			t.Errorf("the link created %d claims", n)
		}
		for _, change := range [][2]string{{"active = FALSE", "active = TRUE"}, {"ends_at = 1", "ends_at = 0"}} {
			b.set("UPDATE payment_links SET " + change[0])
			if got := want(409, "invalid_state", link+"?amount=25"); !strings.Contains(got.text, "takes no payments any more") {
				t.Errorf("a link with %s: %s", change[0], got.text)
			}
			b.set("UPDATE payment_links SET " + change[1])
		}
		if n := b.count("SELECT COUNT(*) FROM claims WHERE link_id <> ''"); n != 1 {
			t.Errorf("links that are inactive or ended created claims: there are %d", n)
		}
		b.set("UPDATE companies SET status = 'frozen'")
		want(403, "company_frozen", link+"?amount=25")
		b.set("UPDATE companies SET status = 'active'")
		b.set("DELETE FROM rates")
		want(503, "rate_unavailable", link+"?amount=25")
		for range 20 {
			b.do("GET", link+"?amount=25", "")
		}
		want(429, "rate_limited", link+"?amount=25")
		for range 60 {
			b.do("GET", path, "")
		}
		want(429, "rate_limited", path)
	})
}
