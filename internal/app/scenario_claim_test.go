package app_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/testkit/allow"
	"github.com/stipend/stipend/internal/treasury"
	"github.com/stipend/stipend/internal/withdrawal"
)

// Each test here is a client of a merchant's checkout in a whole sandbox. Package claim tests the payments on a chain
// that the test controls.
func TestClaims(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, url string) {
		s := boot(t, url, func(c *app.Config) { c.ReadsPerSecond, c.WritesPerSecond, c.ClaimsPerMinute = 0, 0, 0 })
		type scenario struct {
			name string
			run  func(*apiClient)
		}
		all, ran := []scenario{
			{"paid exactly", claimPaid},
			{"underpaid, then refreshed and paid", claimUnderpaid},
			{"too much", claimOverpaid},
			{"late, and accepted at the new price", claimLate},
			{"cancelled, and paid anyway", claimCancelled},
			{"too much, and refunded", claimRefunded},
			{"late, and refunded", claimRefundedLate},
			{"settled", claimSettled},
			{"payers", claimPayers},
			{"merchant settings", merchantSettings},
		}, 0
		for _, c := range all {
			t.Run(c.name, func(t *testing.T) {
				ran++
				d := newAPIClient(t, s)
				c.run(d)
				d.checkLedgerBalances()
			})
		}
		if needed := checkEvents(t, s); ran == len(all) {
			checkNeeded(t, needed, ofClaims)
		}
	})
}

const (
	claimPath = "/api/merchant/claim/create"
)

// claimOf creates a claim for an amount in dollars.
func (d *apiClient) claimOf(amount string) object {
	d.Helper()
	return d.ok("POST", claimPath,
		`{"payer_id":"customer-1","amount":`+amount+`,"denomination_currency":"USD","funding_currency":"BTC"}`).read(d)
}

func (d *apiClient) payClaim(id, kind, amount string) string {
	d.Helper()
	body := `{"claim_id":"` + id + `","kind":"` + kind + `"`
	if amount != "" {
		body += `,"amount":` + amount
	}
	return d.ok("POST", "/api/sandbox/deposit", body+"}").read(d)["tx_hash"].(string)
}

// claimIs waits until a claim has this status and exception.
func (d *apiClient) claimIs(id, status, exception string) (last object) {
	d.Helper()
	if !await(d.T, 30*time.Second, func() bool {
		last = d.ok("GET", "/api/merchant/claim/status?claim_id="+id, "").read(d)
		return last["status"] == status && last["exception"] == exception
	}) {
		d.Fatalf("want a claim that is %s with the exception %s; got %v", status, exception, last)
	}
	return last
}

// statusEvents returns the statuses in a claim's events, in order.
func (d *apiClient) statusEvents(id string) (all []string) {
	d.Helper()
	for _, e := range d.ok("GET", "/api/events?object_id="+id+"&name=claim.status_update", "").read(d)["data"].([]any) {
		data := e.(object)["data"].(object)
		if data["previous_status"] != nil {
			all = append(all, data["status"].(string))
		}
	}
	return all
}

func (d *apiClient) merchant() int64 {
	d.Helper()
	return d.balanceIn(ledger.MerchantPayable, "", "USD").Units()
}

func claimPaid(d *apiClient) {
	had := d.merchant()
	made := d.claimOf("100.00")
	id := made["claim_id"].(string)
	if made["rate"] != "50000" || made["funding_amount"] != "0.00200000" || made["denomination_amount"] != "100.00" ||
		made["status"] != "awaiting_payment" {
		d.Errorf("%v", made)
	}
	if want := d.s.Ready().BaseURL + "/pay/" + id; made["checkout_url"] != want {
		d.Errorf("the checkout URL is %v, want %s", made["checkout_url"], want)
	}
	txid := d.payClaim(id, "exact", "")
	v := d.claimIs(id, "paid", "none")
	if v["tx_hash"] != txid || v["due_amount"] != "0.00" || v["received_amount"] != "0.00200000" ||
		v["refundable_amount"] != "0.00000000" {
		d.Errorf("%v", v)
	}
	if got := d.merchant() - had; got != 99_00 {
		d.Errorf("the merchant got %d cents of 100 USD, want 9900", got)
	}
	eventually(d.T, 10*time.Second, "the events report the claim's statuses", func() bool {
		got := d.statusEvents(id)
		// if a block came before the payment was seen
		return slices.Equal(got, []string{"confirming", "paid"}) || slices.Equal(got, []string{"paid"})
	})
	events := d.ok("GET", "/api/events?object_id="+id, "").read(d)["data"].([]any)
	if first := events[0].(object); first["event"] != "claim.created" {
		d.Errorf("the first event is %v", first)
	}
	events = d.ok("GET", "/api/events?object_id="+id+"&name=user.payment_status_update", "").read(d)["data"].([]any)
	last := events[len(events)-1].(object)
	if data := last["data"].(object); data["claim_id"] != id || data["status"] != "paid" ||
		data["payment"].(object)["received"] != true {
		d.Errorf("the last event of the payment is %v", last)
	}
	d.refused(409, "invalid_state", "POST", "/api/merchant/claim/quote/refresh", `{"claim_id":"`+id+`"}`)
	d.refused(409, "invalid_state", "POST", "/api/merchant/claim/cancel", `{"claim_id":"`+id+`"}`)
	found := d.ok("GET", "/api/merchant/claims?status=paid&payer_id=customer-1", "").read(d)["data"].([]any)
	if len(found) != 1 || found[0].(object)["claim_id"] != id {
		d.Errorf("the list has %v", found)
	}
}

func claimUnderpaid(d *apiClient) {
	had := d.merchant()
	made := d.claimOf("100.00")
	id := made["claim_id"].(string)
	d.payClaim(id, "under", "")
	v := d.claimIs(id, "partially_paid", "none")
	if v["due_amount"] != "10.00" {
		d.Errorf("%v", v)
	}
	d.advance(16 * time.Minute)
	d.claimIs(id, "underpaid", "none")
	if again := d.ok("POST", "/api/merchant/claim/quote/refresh", `{"claim_id":"`+id+`"}`).read(
		d); again["funding_amount"] != "0.00020000" ||
		again["denomination_amount"] != "10.00" || again["status"] != "partially_paid" ||
		again["funding_details"].(object)["address"] != made["funding_details"].(object)["address"] ||
		again["quote_id"] == made["quote_id"] {
		d.Errorf("%v", again)
	}
	d.payClaim(id, "exact", "")
	v = d.claimIs(id, "paid", "none")
	if n := len(v["tx_hashes"].([]any)); n != 2 || d.merchant()-had != 99_00 {
		d.Errorf("the claim has %d transactions: %v", n, v)
	}
}

func claimOverpaid(d *apiClient) {
	had := d.merchant()
	id := d.claimOf("100.00")["claim_id"].(string)
	d.payClaim(id, "exact", "0.002050")
	v := d.claimIs(id, "paid", "overpaid")
	if v["refundable_amount"] != "0.00005000" || d.merchant()-had != 99_00 || d.balance(ledger.RefundPayable,
		id).Units() != 5000 {
		d.Errorf("%v", v)
	}
}

func claimLate(d *apiClient) {
	had := d.merchant()
	id := d.claimOf("100.00")["claim_id"].(string)
	d.payClaim(id, "late", "")
	d.claimIs(id, "paid_late", "late")
	if got := d.balance(ledger.SuspenseLate, id).Units(); got != 200_000 || d.merchant() != had {
		d.Errorf("%d sat are unallocated", got)
	}
	if v := d.ok("POST", "/api/merchant/claim/quote/refresh", `{"claim_id":"`+id+`"}`).read(d); v["status"] != "paid" ||
		v["exception"] != "late" {
		d.Errorf("%v", v)
	}
	if got := d.balance(ledger.SuspenseLate, id).Units(); got != 0 || d.merchant()-had != 99_00 {
		d.Errorf("%d sat are still unallocated", got)
	}
}

func claimCancelled(d *apiClient) {
	id := d.claimOf("100.00")["claim_id"].(string)
	for range 2 {
		if v := d.ok("POST", "/api/merchant/claim/cancel", `{"claim_id":"`+id+`"}`).read(d); v["status"] != "cancelled" {
			d.Errorf("%v", v)
		}
	}
	d.refused(409, "invalid_state", "POST", "/api/merchant/claim/quote/refresh", `{"claim_id":"`+id+`"}`)
	d.payClaim(id, "exact", "")
	d.claimIs(id, "paid_late", "late")
	if got := d.balance(ledger.SuspenseLate, id).Units(); got != 200_000 {
		d.Errorf("%d sat are unallocated", got)
	}
	if v := d.ok("POST", "/api/merchant/claim/quote/refresh", `{"claim_id":"`+id+`"}`).read(d); v["status"] != "paid" ||
		v["exception"] != "late" || v["payment_uri"] != "" {
		d.Errorf("the merchant accepts the late payment: got %v", v)
	}
}

func claimPayers(d *apiClient) {
	ask := func(payer, currency string) string {
		return `{"payer_id":"` + payer + `","amount":10,"denomination_currency":"` + currency + `"}`
	}
	// A payer's website is only text: the service never calls it, and no page links to it.
	var calls atomic.Int64
	site := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
	defer site.Close()
	me := d.ok("POST", "/api/user/payer/create",
		`{"name":"Me","company_type":"client","payroll_invoice_currency":"USD","website":"`+site.URL+`/me"}`).read(d)
	mine := me["external_company_id"].(string)
	paid := d.ok("POST", claimPath, ask(mine, "USD")).read(d)
	d.payClaim(paid["claim_id"].(string), "exact", "")
	d.claimIs(paid["claim_id"].(string), "paid", "none")
	if page := d.do("GET", "/pay/"+paid["claim_id"].(string), "", "Authorization", ""); page.status != 200 ||
		strings.Contains(page.text, site.URL) {
		d.Errorf("%d\n%s", page.status, page.text)
	}
	if kept := d.ok("GET", "/api/user/payer/detail?external_company_id="+mine,
		"").read(d); me["website"] != site.URL+"/me" || kept["website"] != site.URL+"/me" || calls.Load() != 0 {
		d.Errorf("the website is %v, and the service called it %d times", kept["website"], calls.Load())
	}
	d.ok("POST", claimPath, ask("Zoe\u0308 1", "USD")) // the decomposed and the composed form of the same letter
	for _, name := range []string{"Zoe\u0308 1", "Zo\u00eb 1"} {
		if got := d.ok("GET", "/api/merchant/claims?payer_id="+url.QueryEscape(name),
			"").read(d)["data"].([]any); len(got) != 1 || got[0].(object)["payer_id"] != "Zo\u00eb 1" {
			d.Errorf("the search for claims of %q finds %v", name, got)
		}
	}
	first := d.ok("POST", claimPath, ask("a", "EUR"), "Idempotency-Key", "claim-once")
	if again := d.ok("POST", claimPath, ask("a", "EUR"), "Idempotency-Key", "claim-once"); again.text != first.text {
		d.Errorf("the same idempotency key gets the answers %s and %s", first.text, again.text)
	}
}

func merchantSettings(d *apiClient) {
	const path = "/api/merchant/settings"
	if v := d.ok("GET", path, "").read(d); v["confirmations"] != 1.0 || v["late_policy"] != "manual" ||
		v["tolerance_bps"] != 0.0 {
		d.Errorf("a new merchant has the settings %v", v)
	}
	d.refused(422, "invalid_parameter", "POST", path, `{"confirmations":3}`)
	d.refused(422, "unknown_field", "POST", path, `{"settlement_address":"`+d.s.Bitcoin().Home()+`"}`)
	d.ok("POST", path, `{"tolerance_bps":100,"confirmations":0,"late_policy":"requote","settlement_currency":"BTC",`+
		`"origins":["https://shop.example"]}`)
	if v := d.ok("POST", path, `{"late_grace_seconds":5}`).read(d); v["confirmations"] != 0.0 ||
		v["late_policy"] != "requote" || v["tolerance_bps"] != 100.0 ||
		v["late_grace_seconds"] != 5.0 || len(v["origins"].([]any)) != 1 {
		d.Errorf("%v", v)
	}
	defer d.ok("POST", path,
		`{"tolerance_bps":0,"confirmations":1,"late_policy":"manual","settlement_currency":"","late_grace_seconds":0}`)

	had, earned := d.balance(ledger.MerchantPayable, "").Units(), d.balance(ledger.FeeRevenue, "").Units()
	made := d.ok("POST", claimPath,
		`{"payer_id":"a","amount":100,"denomination_currency":"USD","return_url":"https://shop.example/thanks"}`).read(d)
	id := made["claim_id"].(string)
	d.payClaim(id, "exact", "0.00199") // half a percent too little, and accepted before it is confirmed
	if v := d.claimIs(id, "paid", "within_tolerance"); v["due_amount"] != "0.00" {
		d.Errorf("a paid claim asks for %v more", v["due_amount"])
	}
	if got := d.balance(ledger.MerchantPayable, "").Units() - had; got != 198_000 {
		d.Errorf("a merchant who settles in BTC has %d sat, want 198000", got)
	}
	if got := d.balance(ledger.FeeRevenue, "").Units() - earned; got != 2_000 {
		d.Errorf("the fee of a merchant who settles in BTC is %d sat, want 2000", got)
	}
	if got := d.balance(ledger.Shortfall, id).Units(); got != 1_000 {
		d.Errorf("%d sat were absorbed, want 1000", got)
	}
	late := d.claimOf("100.00")["claim_id"].(string)
	d.payClaim(late, "late", "")
	d.claimIs(late, "paid", "late")
}

// accept does what the page behind a refund link does.
func (d *apiClient) accept(id, link, address string) error {
	d.Helper()
	withdrawals, err := withdrawal.New(withdrawal.Config{
		Setup: destination.Setup{Sealer: &identity.Sealer{}}, AllowUnverified: true,
	}, withdrawal.Guards{TravelRule: allow.Records[payout.Output],
		Screen: allow.Subjects[destination.ScreeningSubject], ReleaseApproved: allow.Release})
	if err != nil {
		return err
	}
	service, err := claim.New(claim.Config{
		Pool: chain.NewPool(d.s.DB(), app.BitcoinChain, nil), ChainName: app.BitcoinChain, Network: "regtest",
		Validity: time.Minute, Withdrawals: withdrawals, Sealer: &identity.Sealer{},
		Treasury: &treasury.Treasury{},
	}, claim.Guards{CheckWatched: allow.Network, Screen: allow.Address, ReleaseApproved: allow.Release,
		Renewable: allow.Renewal})
	if err != nil {
		return err
	}
	return d.s.DB().Write(d.Context(), func(ctx context.Context, tx *db.Tx) error {
		_, err := service.Accept(ctx, tx, id, path.Base(link), address)
		return err
	})
}

func claimRefunded(d *apiClient) {
	id := d.claimOf("100.00")["claim_id"].(string)
	ref := `{"claim_id":"` + id + `"}`
	d.refused(409, "invalid_state", "POST", "/api/merchant/claim/refund", ref)
	d.payClaim(id, "exact", "0.0025")
	d.claimIs(id, "paid", "overpaid")
	old := d.ok("POST", "/api/merchant/claim/refund", ref).read(d)
	link := d.ok("POST", "/api/merchant/claim/refund", ref).read(d)
	url := link["refund_url"].(string)
	if link["amount"] != "0.00050000" || link["status"] != "offered" || !strings.HasPrefix(url,
		d.s.Ready().BaseURL+"/pay/"+id+"/refund/") {
		d.Errorf("%v", link)
	}
	if n := d.count("SELECT COUNT(*) FROM claim_refunds WHERE token_digest = $1", path.Base(url)); n != 0 {
		d.Errorf("the database contains the link's secret")
	}
	home := d.s.Bitcoin().Home()
	if err := d.accept(id, old["refund_url"].(string), home); !errors.Is(err, claim.ErrLink) {
		d.Errorf("accept with a link that another link replaced: %v", err)
	}
	for _, bad := range []string{"", "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq", "nonsense"} {
		if err := d.accept(id, url, bad); err == nil {
			d.Errorf("the service accepted the address %q", bad)
		}
	}
	own := d.claimOf("10.00")["funding_details"].(object)["address"].(string)
	if err := d.accept(id, url, own); err == nil {
		d.Errorf("the service accepted one of its own addresses")
	}
	testkit.Check(d, d.accept(id, url, home))
	if err := d.accept(id, url, home); !errors.Is(err, claim.ErrLink) {
		d.Errorf("accept with a link that was already used: %v", err)
	}
	eventually(d.T, 60*time.Second, "the payer gets the excess", func() bool {
		v := d.ok("GET", "/api/merchant/claim/status?claim_id="+id, "").read(d)
		return v["status"] == "paid" && v["refunded_amount"] == "0.00050000" && v["refundable_amount"] == "0.00000000"
	})
	if got := d.balance(ledger.RefundPayable, id); !got.IsZero() {
		d.Errorf("the service still owes the payer %s BTC", got)
	}
	got := d.count("SELECT amount FROM outputs WHERE payroll_id = $1", id)
	if got >= 50_000 || got < 48_000 { // the payer pays the miner's fee
		d.Errorf("the payer got %d sat", got)
	}
	d.refused(409, "invalid_state", "POST", "/api/merchant/claim/refund", ref)
}

func claimRefundedLate(d *apiClient) {
	had := d.merchant()
	id := d.claimOf("100.00")["claim_id"].(string)
	d.payClaim(id, "late", "")
	d.claimIs(id, "paid_late", "late")
	link := d.ok("POST", "/api/merchant/claim/refund", `{"claim_id":"`+id+`"}`).read(d)
	if link["amount"] != "0.00200000" || !d.balance(ledger.SuspenseLate, id).IsZero() {
		d.Errorf("%v", link)
	}
	d.refused(409, "invalid_state", "POST", "/api/merchant/claim/quote/refresh", `{"claim_id":"`+id+`"}`)
	testkit.Check(d, d.accept(id, link["refund_url"].(string), d.s.Bitcoin().Home()))
	d.claimIs(id, "refunded", "none")
	if d.merchant() != had {
		d.Errorf("the merchant got %d cents of a refunded claim", d.merchant()-had)
	}
}

func claimSettled(d *apiClient) {
	const path = "/api/merchant/settlements"
	id := d.claimOf("100.00")["claim_id"].(string)
	d.payClaim(id, "exact", "")
	d.claimIs(id, "paid", "none")
	brought, funds := d.merchant(), d.balanceIn(ledger.CompanyFunds, "", "USD").Units()
	d.refused(409, "insufficient_balance", "POST", path, `{"currency":"USD","amount":999999.00}`)
	d.refused(422, "amount_precision", "POST", path, `{"currency":"USD","amount":1.001}`)
	if v := d.ok("POST", path, `{"currency":"USD","amount":1.00}`).read(d); v["amount"] != "1.00" ||
		v["withdrawal_id"] != "" {
		d.Errorf("%v", v)
	}
	d.ok("POST", path, `{"currency":"USD"}`)
	if got := d.balanceIn(ledger.CompanyFunds, "", "USD").Units(); got != funds+brought || d.merchant() != 0 {
		d.Errorf("the wallet has %d cents more, want %d", got-funds, brought)
	}
	lines := d.ok("GET", "/api/wallets/transactions?account=claims&currency=USD&per_page=3", "").read(d)["data"].([]any)
	kinds := ""
	for _, l := range lines {
		kinds += l.(object)["type"].(string) + " "
	}
	if kinds != "settlement settlement claim_payment " {
		d.Errorf("the statement of the settled claims: %v", lines)
	}

	// A merchant can settle in bitcoin and withdraw to the company's own destination.
	var own struct {
		Destinations []struct {
			ID string `json:"destination_id"`
		} `json:"destinations"`
	}
	d.decode(d.ok("GET", "/api/wallets/destinations", ""), &own)
	settings := "/api/merchant/settings"
	d.ok("POST", settings, `{"settlement_currency":"BTC","settlement_destination_id":"`+own.Destinations[0].ID+`"}`)
	defer d.ok("POST", settings, `{"settlement_currency":"","settlement_destination_id":""}`)
	id = d.claimOf("100.00")["claim_id"].(string)
	d.payClaim(id, "exact", "")
	d.claimIs(id, "paid", "none")
	out := d.ok("POST", path, `{"currency":"BTC","amount":0.0015}`).read(d)
	newest := d.ok("GET", path, "").read(d)["data"].([]any)[0].(object)
	if newest["settlement_id"] != out["settlement_id"] {
		d.Errorf("%v", newest)
	}
	eventually(d.T, 60*time.Second, "the destination is paid", func() bool {
		w := d.ok("GET", "/api/wallets/withdrawals/"+out["withdrawal_id"].(string), "").read(d)
		return w["status"] == "completed" && w["tx_hash"] != ""
	})
}
