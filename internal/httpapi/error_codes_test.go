package httpapi

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/oauth"
	"github.com/stipend/stipend/internal/ratelimit"
	"github.com/stipend/stipend/internal/treasury"
	"github.com/stipend/stipend/internal/virtualaccount"
)

// These tests provoke the declared errors of operations that no other test provokes.

// atRoot is the pointer of a problem of the whole body.
const atRoot = "the body"

// refusal is a request that must fail, with the pointer of the problem, or "" for none.
type refusal struct {
	status                     int
	code, pointer              string
	method, path, body, bearer string
}

func (b *fixture) refuses(all ...refusal) {
	b.t.Helper()
	for _, r := range all {
		b.refusals++
		headers := []string{"Idempotency-Key", fmt.Sprint("refused-", b.refusals)}
		if r.bearer != "" {
			headers = append(headers, "Authorization", r.bearer)
		}
		got := b.do(r.method, r.path, r.body, headers...)
		var p struct {
			Code   string
			Errors []struct{ Code, Pointer string }
		}
		if err := json.Unmarshal([]byte(got.text), &p); err != nil {
			b.t.Fatal(err)
		}
		at := slices.ContainsFunc(p.Errors, func(e struct{ Code, Pointer string }) bool {
			return e.Code == r.code && (e.Pointer == r.pointer || e.Pointer == "" && r.pointer == atRoot)
		})
		if got.status != r.status || p.Code != r.code || at != (r.pointer != "") {
			b.t.Errorf("%s %s %s: %d %.400s\nwant %d %s at %q", r.method, r.path, r.body, got.status, got.text, r.status, r.code,
				r.pointer)
		}
	}
}

const (
	claimPath   = "/api/merchant/claim"
	payrollPath = "/api/company/payroll"
)

func oneClaim(more string) string {
	return `{"payer_id":"order-7","denomination_currency":"USD","amount":` + more + `}`
}

// A claim is read, gets a new quote and is cancelled; each step fails in the wrong state.
func TestClaimErrors(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newFullFixture(t, d)
		client := goodPayer("")
		delete(client, "user_id")
		made, _ := ask[members](b, "POST", "/api/user/payer/create", encode(client))
		gone := made["external_company_id"].(string)
		ask[members](b, "POST", "/api/user/payer/delete", `{"external_company_id":"`+gone+`"}`)
		create := func(status int, code, pointer, body string) refusal {
			return refusal{status, code, pointer, "POST", claimPath + "/create", body, ""}
		}
		b.refuses(
			create(422, "amount_not_positive", "/amount", oneClaim("0")),
			create(422, "amount_precision", "/amount", oneClaim("1.001")),
			create(422, "amount_too_small", "/amount", oneClaim("0.01")),
			create(422, "redirect_uri_invalid", "/return_url", oneClaim(`1,"return_url":"https://elsewhere.example/"`)),
			create(409, "payer_deleted", "", strings.Replace(oneClaim("1"), "order-7", gone, 1)),
		)

		claim, _ := ask[members](b, "POST", claimPath+"/create", oneClaim("100000"))
		id := claim["claim_id"].(string)
		ref, at := `{"claim_id":"`+id+`"}`, claimPath+"/status?claim_id="+id
		if got, text := ask[members](b, "GET", at, ""); got["status"] != "awaiting_payment" ||
			got["due_amount"] != "100000.00" || got["quote"].(members)["quote_id"] != claim["quote_id"] {
			t.Errorf("%s", text)
		}
		refresh := func() string {
			t.Helper()
			got, _ := ask[members](b, "POST", claimPath+"/quote/refresh", ref)
			return got["quote_id"].(string)
		}
		if refresh() != claim["quote_id"] {
			t.Error("an active quote was replaced")
		}
		b.set("UPDATE quotes SET valid_to = valid_from")
		if refresh() == claim["quote_id"] {
			t.Error("an expired quote was returned")
		}
		refused := func(status int, code, what string) refusal {
			return refusal{status, code, "", "POST", claimPath + what, ref, ""}
		}
		b.set("UPDATE quotes SET valid_to = valid_from WHERE state = 'active'")
		b.set("UPDATE rates SET rate = '0.00000001' WHERE asset = 'BTC'") // more than 21 million bitcoins
		b.refuses(refused(422, "amount_too_large", "/quote/refresh"))
		b.set("DELETE FROM rates")
		b.refuses(refused(503, "rate_unavailable", "/quote/refresh"), create(503, "rate_unavailable", "", oneClaim("1")))
		b.set("UPDATE claims SET state = 'confirming'")
		b.refuses(refused(409, "quote_locked", "/quote/refresh"), refused(409, "invalid_state", "/cancel"))
		b.set("UPDATE claims SET state = 'awaiting_payment'")
		for range 2 {
			if off, text := ask[members](b, "POST", claimPath+"/cancel", ref); off["status"] != "cancelled" ||
				off["claim_id"] != id {
				t.Errorf("%s", text)
			}
		}
		b.refuses(refused(409, "invalid_state", "/quote/refresh"))
	})
}

// An overpayment is offered by one link at a time, and not while it is being refunded.
func TestClaimIsRefundedOnce(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newFullFixture(t, d)
		claim, _ := ask[members](b, "POST", claimPath+"/create", oneClaim("100"))
		id := claim["claim_id"].(string)
		ref := `{"claim_id":"` + id + `"}`
		refused := func(code string) refusal {
			return refusal{409, code, "", "POST", claimPath + "/refund", ref, ""}
		}
		b.refuses(refused("invalid_state"))

		b.set("UPDATE claims SET state = 'paid', exception = 'overpaid', excess = 5000")
		b.bring(ledger.RefundPayable, id, money.New(money.BTC, 5_000))
		if got, text := ask[members](b, "GET", claimPath+"/status?claim_id="+id,
			""); got["refundable_amount"] != "0.00005000" {
			t.Errorf("%s", text)
		}
		offer := func() members {
			t.Helper()
			got, text := ask[members](b, "POST", claimPath+"/refund", ref)
			link, _ := got["refund_url"].(string)
			if got["status"] != "offered" || got["claim_id"] != id || got["currency"] != "BTC" ||
				got["amount"] != "0.00005000" ||
				!strings.HasPrefix(link, "https://pay.example.com/pay/"+id+"/refund/") {
				t.Errorf("%s", text)
			}
			return got
		}
		first, second := offer(), offer()
		if first["refund_id"] == second["refund_id"] || first["refund_url"] == second["refund_url"] {
			t.Errorf("a replaced offer was returned: %v", second)
		}
		if n := b.count("SELECT COUNT(*) FROM claim_refunds WHERE state = 'offered'"); n != 1 {
			t.Errorf("%d offers can be accepted", n)
		}
		b.set("UPDATE claim_refunds SET state = 'accepted' WHERE state = 'offered'")
		b.refuses(refused("already_processing"))
		part := strings.Replace(ref, "}", `,"amount":1}`, 1)
		b.set("UPDATE claims SET wallet = 205000, merchant = 9900")
		b.bring(ledger.MerchantPayable, "", money.New(money.USD, 99_00))
		b.refuses(refusal{422, "conversion_unavailable", "/amount", "POST", claimPath + "/refund", part, ""})
		b.bring(ledger.FXPosition, "", money.New(money.BTC, 1_000_000)) // the operator sells coins for the refund
		made, text := ask[members](b, "POST", claimPath+"/refund", part)
		cancel := `{"claim_id":"` + id + `","refund_id":"` + fmt.Sprint(made["refund_id"]) + `"}`
		b.set("DELETE FROM rates")
		b.refuses(refusal{503, "rate_unavailable", "", "POST", claimPath + "/refund", part, ""},
			refusal{503, "rate_unavailable", "", "POST", claimPath + "/refund/cancel", cancel, ""})
		b.set("UPDATE claim_refunds SET state = 'accepted'")
		b.refuses(refusal{409, "invalid_state", "", "POST", claimPath + "/refund/cancel", cancel, ""})
		if made["denomination_amount"] != "1.00" {
			t.Errorf("%s", text)
		}
	})
}

// A payment link is refused with each problem at its field.
func TestPaymentLinksAreChecked(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newFullFixture(t, d)
		const path = "/api/merchant/payment-links"
		refused := func(code, pointer, members string) refusal {
			return refusal{422, code, pointer, "POST", path, `{"title":"T",` + members + `}`, ""}
		}
		const usd = `"denomination_currency":"USD",`
		b.refuses(
			refused("amount_not_positive", "/amount", usd+`"amount":0`),
			refused("amount_precision", "/amount", usd+`"amount":1.001`),
			refused("amount_too_large", "/min_amount", usd+`"min_amount":99999999999999999999`),
			refused("currency_not_supported", "/denomination_currency", `"denomination_currency":"ETH"`),
			refused("redirect_uri_invalid", "/redirect_url", usd+`"redirect_url":"https://elsewhere.example/x"`),
			refused("invalid_parameter", "/amount", usd+`"amount":5,"min_amount":1`),
			refused("invalid_parameter", "/max_amount", usd+`"min_amount":5,"max_amount":1`),
			refused("invalid_parameter", "/suggested_amounts/1", usd+`"min_amount":5,"suggested_amounts":[5,4]`),
			refused("invalid_parameter", "/ends_at", usd+`"ends_at":"2020-01-01T00:00:00Z"`),
			refused("invalid_parameter", "/metadata", usd+`"metadata":{"a":1}`),
			refusal{404, "not_found", "", "GET", path + "/plk_unknown", "", ""},
			refusal{404, "not_found", "", "PATCH", path + "/plk_unknown", `{"active":true}`, ""},
		)
		made, text := ask[members](b, "POST", path, `{"title":"T",`+usd+`"amount":5}`)
		one := path + "/" + fmt.Sprint(made["payment_link_id"])
		b.refuses(refusal{422, "missing_field", "/title", "PATCH", one, `{"title":""}`, ""})
		if got, _ := ask[members](b, "PATCH", one, `{"max_payments":7}`); got["max_payments"] != 7.0 || got["title"] != "T" {
			t.Errorf("%s, then %v", text, got)
		}
	})
}

// A branding is refused with its reasons at the fields, and a logo is served as a PNG that the service encoded.
func TestBrandingIsChecked(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newFullFixture(t, d)
		const path = "/api/merchant/branding"
		refused := func(status int, code, member, value string) refusal {
			return refusal{status, code, "/" + member, "POST", path, `{"` + member + `":` + value + `}`, ""}
		}
		b.refuses(
			refused(422, "name_reserved", "display_name", `"Stipend Checkout"`),
			refused(422, "name_mixed_scripts", "display_name", `"Bооks"`),
			refused(422, "invalid_parameter", "accent_color", `"red"`),
			refused(422, "invalid_parameter", "accent_color", `"#fff;}*"`),
			refused(422, "invalid_parameter", "thank_you", `"two\nlines"`),
			refusal{422, "invalid_parameter", "/languages/1", "POST", path, `{"languages":["fr","xx"]}`, ""},
			refused(422, "unsupported_image", "logo", `"PHN2Zz48L3N2Zz4="`),
			refused(413, "payload_too_large", "logo", `"`+strings.Repeat("AAAA", 350_000)+`"`),
		)
		var file bytes.Buffer
		if err := png.Encode(&file, image.NewNRGBA(image.Rect(0, 0, 300, 300))); err != nil {
			t.Fatal(err)
		}
		logo := func(text string) string {
			got, _ := ask[members](b, "POST", path, `{"logo":"`+text+`"}`)
			return fmt.Sprint(got["logo_url"])
		}
		if at := logo(base64.StdEncoding.EncodeToString(file.Bytes())); !strings.Contains(at, "/logo/") ||
			!strings.HasSuffix(at, ".png") || b.count("SELECT COUNT(*) FROM brand_logos") != 1 {
			t.Errorf("the logo is at %q", at)
		}
		if at := logo(""); at != "" || b.count("SELECT COUNT(*) FROM brand_logos") != 0 {
			t.Errorf("a removed logo is at %q", at)
		}
	})
}

// Proceeds of claims are settled once: to the balance, and from there to a destination of the company, as a
// withdrawal with all its rules. An API key cannot add a destination.
func TestClaimsAreSettled(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		b := openTill(t, d)
		const path, settings = "/api/merchant/settlements", "/api/merchant/settings"
		settle := func(currency, amount string) string { return `{"currency":"` + currency + `"` + amount + `}` }
		refused := func(status int, code, pointer, body string) refusal {
			return refusal{status, code, pointer, "POST", path, body, ""}
		}
		b.bring(ledger.MerchantPayable, "", money.New(money.USD, 99_00))
		b.bring(ledger.MerchantPayable, "", money.New(money.BTC, 60_000))
		b.refuses(
			refused(422, "amount_not_positive", "/amount", settle("USD", `,"amount":0`)),
			refused(422, "amount_precision", "/amount", settle("USD", `,"amount":1.001`)),
			refused(422, "amount_too_large", "/amount", settle("USD", `,"amount":99999999999999999999`)),
			refused(409, "insufficient_balance", "", settle("USD", `,"amount":99.01`)),
			refused(409, "insufficient_balance", "", settle("EUR", "")),
		)
		to := func(destination string) string { return `{"settlement_destination_id":"` + destination + `"}` }
		b.take.CoolDown = approval.CoolDown(24 * time.Hour)
		fresh := b.add("Fresh", "BTC", `{"address":"`+btcAddress+`"}`)
		b.refuses(
			refusal{
				422, "unknown_field", "/settlement_address", "POST", settings, `{"settlement_address":"` + btcAddress + `"}`, "",
			},
			refusal{404, "not_found", "/settlement_destination_id", "POST", settings, to(btcAddress), ""},
		)
		if got, text := ask[members](b.fixture, "POST", settings,
			`{"settlement_destination_id":"`+fresh+`","settlement_schedule":"daily",`+
				`"support_email":""}`); got["settlement_destination_id"] != fresh {
			t.Errorf("%s", text)
		}

		// The destination is for bitcoin: other currencies remain in the balance.
		for _, c := range []struct{ given, amount string }{{`,"amount":9`, "9.00"}, {"", "90.00"}} {
			if got, text := ask[members](b.fixture, "POST", path, settle("USD", c.given)); got["amount"] != c.amount ||
				got["withdrawal_id"] != "" {
				t.Errorf("%s", text)
			}
		}
		b.refuses(refused(409, "insufficient_balance", "", settle("USD", "")))
		due := func(want int64) {
			t.Helper()
			if err := b.server.Claim.SettleDue(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			if n := b.count("SELECT COUNT(*) FROM settlements"); n != want {
				t.Errorf("%d settlements, want %d", n, want)
			}
		}
		b.refuses(refused(409, "destination_cooling", "", settle("BTC", "")))
		clock.Advance(12 * time.Hour) // midnight
		due(2)
		clock.Advance(12 * time.Hour)
		b.refuses(refused(422, "amount_too_small", "/amount", settle("BTC", `,"amount":0.00009999`)))
		b.take.AllowUnverified = false
		b.refuses(refused(403, "kyc_required", "", settle("BTC", "")))
		due(2)
		b.take.AllowUnverified = true

		// Above the company's limit, a withdrawal needs the approval of two members; above the operator's, of two
		// staff members.
		b.hire("second@acme.example")
		b.write(func(ctx context.Context, tx *db.Tx) error {
			return approval.SetLimit(ctx, tx, b.owner, money.New(money.USD, 12_50))
		})
		takes := func(amount, state string) {
			t.Helper()
			got, text := ask[members](b.fixture, "POST", path, settle("BTC", amount))
			b.look()
			clock.Advance(time.Second) // makes the order of creation definite
			if id, _ := got["withdrawal_id"].(string); id == "" || b.status(id) != state {
				t.Errorf("%s, want it %s", text, state)
			}
		}
		b.release(func(_ context.Context, _ *db.Tx, _, _ string, amount money.Amount) (bool, error) {
			return amount.Units() < 12_000, nil
		})
		takes(`,"amount":0.0001`, "processing ")
		takes(`,"amount":0.00012`, "on_hold release_review")
		takes(`,"amount":0.00011`, "awaiting_approval approval_required")
		clock.Advance(24 * time.Hour)
		due(6) // the rest, by the schedule
		if n := b.count("SELECT COUNT(*) FROM settlements s JOIN withdrawals w ON w.withdrawal_id = s.withdrawal_id WHERE " +
			"w.amount = 27000 AND w.created_by = ''"); n != 1 {
			t.Error("the schedule created no withdrawal")
		}
		b.look()
		if n := b.count("SELECT COUNT(*) FROM withdrawals WHERE amount = 27000 AND status = 'awaiting_approval'"); n != 1 {
			t.Error("the scheduled withdrawal did not wait")
		}

		// Without the destination the amount remains in the balance.
		b.write(func(ctx context.Context, tx *db.Tx) error { return b.take.RemoveDestination(ctx, tx, b.owner, fresh) })
		b.look()
		b.bring(ledger.MerchantPayable, "", money.New(money.BTC, 10_000))
		made, text := ask[members](b.fixture, "POST", path, settle("BTC", ""))
		if made["amount"] != "0.00010000" || made["withdrawal_id"] != "" {
			t.Errorf("%s", text)
		}
		statement, text := ask[members](b.fixture, "GET", path+"/"+fmt.Sprint(made["settlement_id"]), "")
		if lines := statement["data"].([]any); len(lines) != 1 || lines[0].(members)["net_amount"] != "0.00010000" ||
			statement["claims_amount"] != "0.00010000" || statement["closing_amount"] != "0.00000000" {
			t.Errorf("%s", text)
		}
		if all, text := ask[members](b.fixture, "GET", path, ""); len(all["data"].([]any)) != 7 {
			t.Errorf("%s", text)
		}
		if got := b.balance(money.BTC); got != 60_000-10_000+10_000 {
			t.Errorf("the balance has %d", got)
		}

		b.bring(ledger.MerchantPayable, "", money.New(money.BTC, 10_001))
		into := func(asset string) refusal {
			return refusal{422, "invalid_parameter", "/settlement_convert_to", "POST", settings,
				`{"settlement_convert_to":"` + asset + `"}`, ""}
		}
		b.refuses(into("BTC"), into("ABC"), refusal{422, "invalid_parameter", "/settlement_time_zone", "POST", settings,
			`{"settlement_time_zone":"Local"}`, ""})
		if got, text := ask[members](b.fixture, "POST", settings, `{"settlement_convert_to":"EUR",`+
			`"settlement_time_zone":"Europe/Paris","settlement_day":"friday"}`); got["settlement_convert_to"] != "EUR" ||
			got["settlement_time_zone"] != "Europe/Paris" || got["settlement_day"] != "friday" {
			t.Errorf("%s", text)
		}
		b.write(func(ctx context.Context, tx *db.Tx) error {
			return treasury.SetLimit(ctx, tx, treasury.Limit{Asset: money.EUR, Least: money.Zero(money.EUR),
				Most: money.New(money.EUR, 1)})
		})
		b.refuses(refused(422, "conversion_unavailable", "", settle("BTC", "")))
		b.set("DELETE FROM rates")
		b.refuses(refused(503, "rate_unavailable", "", settle("BTC", "")))
		b.checkLedger()
	})
}

// bring posts proceeds of claims to an account of the company.
func (b *fixture) bring(code ledger.Code, dim string, a money.Amount) {
	b.t.Helper()
	from := ledger.HotWallet
	if a.Asset() != money.BTC {
		from = ledger.FXPosition
	}
	b.write(func(_ context.Context, tx *db.Tx) error {
		return ledger.Post(tx, ledger.Journal{CompanyID: b.company, SourceType: "claim",
			SourceID: string(code) + string(a.Asset()) + a.String(), Purpose: "credit",
			Lines: []ledger.Line{ledger.Debit(from, "", a), ledger.Credit(code, dim, a)}})
	})
}

// Errors of payrolls and vendor payrolls that do not concern a payee.
func TestPayrollErrors(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newFullFixture(t, d)
		b.credit("dep_1", money.New(money.USD, 100_00))
		person := b.payee()
		firm := b.payable(`"recipient_type":"company","role":"vendor","name":"Supplies Ltd"`)
		paper := b.paper("1")
		made, _ := ask[members](b, "POST", "/api/company/"+b.company+"/recipients/create",
			`{"country":"GB","recipient_type":"company","role":"vendor","name":"Bare Ltd"}`)
		bare := made["recipient_id"].(string)
		made, _ = ask[members](b, "POST", "/api/company/"+b.company+"/recipients/create",
			`{"country":"GB","recipient_type":"company","role":"vendor","name":"Coins Ltd"}`)
		coins := made["recipient_id"].(string)
		ask[members](b, "POST", "/api/company/"+b.company+"/recipients/"+coins+"/distribution",
			`{"symbol":"BTC","distribution_data":{"address":"bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080"}}`)
		vendor := func(terms, who, more string) string {
			return `{` + terms + `"to_pay":[{"vendor_id":"` + who + `","document_id":"` + paper + `","amount_fiat":` + more +
				`}]}`
		}
		people := func(more string) string {
			return `{"to_pay":[{"user_id":"` + person + `","amount_fiat":` + more + `}]}`
		}
		const balance, debited = `"funding_method":"wallet",`, `"funding_method":"direct_debit",`
		refused := func(status int, code, pointer, path, body string) refusal {
			return refusal{status, code, pointer, "POST", path, body, ""}
		}
		const vendors, create = "/api/vendor/payroll", payrollPath + "/create"
		const bills, payBills = "/api/company/bills", payrollPath + "/pay-invoices"
		bill := func(who, more string) string {
			return `{"vendor_id":"` + who + `","number":"` + who + more + `","currency":"USD","due_date":"2031-01-31",` +
				`"description":"Paper","amount":` + more + `}`
		}
		open := func(who, more string) string {
			got, _ := ask[members](b, "POST", bills, bill(who, more))
			return got["invoice_id"].(string)
		}
		pay := func(terms, invoice string) string { return `{` + terms + `"invoice_ids":["` + invoice + `"]}` }
		inBare := open(bare, "1")
		inFirm := open(firm, "2")
		b.refuses(
			refused(422, "amount_not_positive", "/amount", bills, bill(firm, "0")),
			refused(422, "amount_precision", "/amount", bills, bill(firm, "1.001")),
			refused(422, "currency_not_supported", "/currency", bills,
				strings.Replace(bill(firm, "1"), `"USD"`, `"BTC"`, 1)),
			refused(409, "insufficient_balance", "", payBills, pay(balance, open(firm, "1000"))),
			refused(409, "mandate_not_active", "/funding_method", payBills, pay(debited, open(firm, "3"))),
			refused(422, "amount_too_small", "", payBills, pay("", open(firm, "0.01"))),
			refused(422, "currency_not_supported", "/funding_currency", payBills, pay(`"funding_currency":"XXX",`, inFirm)),
			refused(422, "no_distribution", "/invoice_ids/0", payBills, pay("", inBare)),
			refused(422, "conversion_unavailable", "/invoice_ids/0", payBills, pay(balance, open(coins, "1"))),
		)
		ask[members](b, "POST", vendors, vendor(balance+`"external_id":"run-1",`, firm, "1"), "Idempotency-Key", "run-1")
		b.refuses(
			refused(409, "external_id_conflict", "", vendors, vendor(balance+`"external_id":"run-1",`, firm, "1")),
			refused(409, "external_id_conflict", "", payBills, pay(balance+`"external_id":"run-1",`, inFirm)),
			refused(409, "insufficient_balance", "", vendors, vendor(balance, firm, "1000")),
			refused(409, "mandate_not_active", "/funding_method", vendors, vendor(debited, firm, "1")),
			refused(422, "amount_too_small", "", vendors, vendor("", firm, "0.01")),
			refused(422, "country_not_supported", "/to_pay/0/country", vendors, vendor("", firm, `1,"country":"ZZ"`)),
			refused(422, "currency_not_supported", "/currency", vendors, vendor(`"currency":"BTC",`, firm, "1")),
			refused(422, "no_distribution", "/to_pay/0/vendor_id", vendors, vendor("", bare, "1")),
			refused(422, "conversion_unavailable", "/to_pay/0/vendor_id", vendors, vendor(balance, coins, "1")),
			refused(422, "conversion_unavailable", "/to_pay/0/user_id", create, `{"funding_method":"wallet","to_pay":[`+
				`{"user_id":"`+coins+`","amount_fiat":1}]}`),
			refused(422, "country_not_supported", "/to_pay/0/country", create, people(`1,"country":"ZZ"`)),
		)
		ask[members](b, "POST", "/api/company/"+b.company+"/recipients/"+bare+"/deactivate", `{}`)
		b.refuses(refused(422, "recipient_inactive", "/to_pay/0/vendor_id", vendors, vendor("", bare, "1")),
			refused(422, "recipient_inactive", "/invoice_ids/0", payBills, pay("", inBare)))
		b.server.Payroll.AllowUnverified = false
		b.refuses(refused(403, "kyc_required", "", vendors, vendor(balance, firm, "1")),
			refused(403, "kyc_required", "", payBills, pay(balance, inFirm)))
		b.server.Payroll.AllowUnverified = true

		run, _ := ask[members](b, "POST", create, people("100000"), "Idempotency-Key", "run-2")
		ref := `{"payroll_id":"` + run["payroll_id"].(string) + `"}`
		const refresh = payrollPath + "/quote/refresh"
		b.set("UPDATE quotes SET valid_to = valid_from")
		b.set("UPDATE rates SET rate = '0.00000001' WHERE asset = 'BTC'")
		b.refuses(refused(422, "amount_too_large", "", refresh, ref))
		b.set("DELETE FROM rates")
		b.set("DELETE FROM rate_history")
		other := b.paper("2")
		b.refuses(
			refused(503, "rate_unavailable", "", refresh, ref),
			refused(503, "rate_unavailable", "", create, people("1")),
			refused(503, "rate_unavailable", "", payBills, pay("", inFirm)),
			refused(503, "rate_unavailable", "", vendors, strings.Replace(vendor("", firm, "1"), paper, other, 1)),
		)
		b.set("UPDATE quotes SET state = 'accepted'")
		b.refuses(refused(409, "quote_locked", "", refresh, ref))
		b.set("UPDATE payrolls SET state = 'on_hold', held_from = 'received', hold_reason = 'approval_required'")
		b.set(`INSERT INTO payroll_receipts (company_id, payroll_id, deposit_id, price_id, rate, active, is_late, version,
			amount, escrow, surplus, suspense, debt_settled, debt, repriced)
			SELECT company_id, payroll_id, 'dep_x', 'dep_x', '50000', TRUE, FALSE, 1, 1000, 1000, 0, 0, 0, 0, 0 FROM payrolls
			WHERE state = 'on_hold' AND funding_method = 'crypto'`)
		b.refuses(refused(503, "rate_unavailable", "", payrollPath+"/cancel", ref))
		b.set("UPDATE payrolls SET state = 'received', held_from = '', hold_reason = ''")
		b.refuses(refused(409, "invalid_state", "", refresh, ref))
		for _, s := range []struct{ state, code string }{{"received", "already_processing"},
			{"released", "already_processing"}, {"fulfilled", "invalid_state"}} {
			b.set("UPDATE payrolls SET state = '" + s.state + "'")
			b.refuses(refused(409, s.code, "", payrollPath+"/cancel", ref))
		}

		user := b.user("ada")
		b.set("UPDATE companies SET status = 'frozen'")
		newUser := userBody()
		b.refuses(
			refused(403, "company_frozen", "", create, people("1")),
			refused(403, "company_frozen", "", vendors, strings.Replace(vendor(balance, firm, "1"), paper, other, 1)),
			refused(403, "company_frozen", "", vendors+"/documents", encode(members{"base64_document": pdf("3")})),
			refused(403, "company_frozen", "", "/api/user/create", encode(newUser)),
			refused(403, "company_frozen", "", "/api/user/kyc-initiate", `{"user_id":"`+user+`"}`),
		)
	})
}

// Steps that the current state does not permit.
func TestStateErrors(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newFullFixture(t, d)
		refused := func(status int, code, pointer, path, body string) refusal {
			return refusal{status, code, pointer, "POST", path, body, ""}
		}
		ada := b.user("ada")

		payer := b.billed(ada)
		ref := members{"user_id": ada, "external_company_id": payer, "company_type": "employer"}
		ask[members](b, "POST", "/api/user/payer/update", encode(ref))
		for code, amount := range map[string]json.Number{"amount_not_positive": "0", "amount_precision": "1.001"} {
			ref["payment_amount"] = amount
			b.refuses(refused(422, code, "/payment_amount", "/api/user/payer/update", encode(ref)))
		}
		draft, _ := ask[members](b, "POST", "/api/user/invoice/create",
			`{"user_id":"`+ada+`","external_company_id":"`+payer+`","draft":true,"items":[{"description":"Work",`+
				`"unit_price":100}]}`)
		ask[members](b, "POST", "/api/user/payer/delete", `{"user_id":"`+ada+`","external_company_id":"`+payer+`"}`)
		b.refuses(refused(409, "payer_deleted", "", "/api/user/invoice/send",
			`{"user_id":"`+ada+`","invoice_id":"`+draft["invoice_id"].(string)+`"}`))

		const invite = "/api/company/worker/invite"
		for range 4 {
			ask[members](b, "POST", invite, `{"email":"eve@example.com"}`)
			ask[members](b, "POST", invite+"/revoke", `{"email":"eve@example.com"}`)
		}
		b.refuses(refused(409, "resend_limit_reached", "", invite, `{"email":"eve@example.com"}`))

		at := "/api/company/" + b.company + "/recipients/" + b.payee()
		ask[members](b, "POST", at+"/deactivate", `{}`)
		b.set(`INSERT INTO screening_hits (company_id, hit_id, subject_id, kind, matched, entry_id, entry_name,
			programs, score, state, reason, decided_by, version, created_at, decided_at)
			VALUES ('` + b.company + `', 'hit_1', '` + at[strings.LastIndex(at, "/")+1:] + `', 'name', 'x', 'sdn/1', 'X',
			'', 100, 'open', '', '', 1, 1, 0)`)
		b.refuses(refused(409, "invalid_state", "", at+"/reactivate", `{}`))

		b.approve(ada, identity.KYCApproved)
		b.server.Funding = &virtualaccount.Service{Sealer: b.server.Sealer}
		b.refuses(
			refused(409, "invalid_state", "", "/api/user/funding/account", `{"user_id":"`+ada+`","currency":"EUR"}`),
			refused(404, "not_found", "", "/api/sandbox/bank-deposit", `{"funding_account_id":"fac_1","amount":1,`+
				`"currency":"EUR","reference":"r"}`),
		)

		const hook = `{"url":"https://hooks.example.com/"}`
		var webhook string
		for range 10 {
			made, _ := ask[members](b, "POST", "/api/webhooks", hook)
			webhook = "/api/webhooks/" + made["webhook_id"].(string)
		}
		ask[members](b, "POST", webhook+"/disable", "")
		b.refuses(
			refused(409, "invalid_state", "", "/api/webhooks", hook),
			refused(409, "invalid_state", "", webhook+"/deliveries/evt_1/redeliver", ""),
			refused(422, "invalid_parameter", "/overlap_seconds", webhook+"/rotate", `{"overlap_seconds":-1}`),
		)
	})
}

// Errors of the verification of companies and users.
func TestVerificationErrors(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b, _ := newKYC(t, d)
		at := "/api/companies/" + b.company
		refused := func(status int, code, pointer, path, body string) refusal {
			return refusal{status, code, pointer, "POST", path, body, ""}
		}
		away := b.documented("Away")
		b.set("UPDATE users SET country = 'AQ'")
		b.refuses(refused(422, "country_not_supported", "", "/api/user/kyc-initiate", `{"user_id":"`+away+`"}`))

		ask[members](b, "POST", "/api/companies", newCompany+`,"registration_number":"HRB 1",`+
			`"incorporation_date":"2001-02-03","street_address":"1 Street","city":"Berlin"}`)
		b.refuses(refused(409, "documents_incomplete", "/company_id", at+"/kyb", `{}`),
			refused(422, "invalid_type", atRoot, at+"/kyb", `[]`))
		owner := b.onboarded("Lovelace")
		page := members{
			"ubo_id": owner, "doc_type": "passport", "category": "back", "issuing_country": "DE",
			"base64_image": scan64(900, 640, 9),
		}
		b.refuses(refused(422, "category_not_allowed", "/category", at+"/documents", encode(page)))
		person, ubo := `{"first_name":"Eve","last_name":"Small","date_of_birth":"1970-01-31","country":"DE"}`,
			`{"ubo_id":"`+owner+`"}`
		page["category"], page["doc_type"] = "front", "selfie"
		b.set("UPDATE subjects SET files = 20")
		b.refuses(refused(422, "document_limit", "", at+"/documents", encode(page)))
		b.set("UPDATE subjects SET files = 1")
		ask[members](b, "POST", at+"/ubo/kyc", ubo)
		b.refuses(refused(409, "already_processing", "", at+"/ubo/kyc", ubo),
			refused(409, "already_processing", "", at+"/documents", encode(page)))
		ask[members](b, "POST", at+"/kyb", "")
		b.verify()
		ask[members](b, "POST", "/api/sandbox/kyb", `{"result":"approved","ubo_id":"`+owner+`"}`)
		ask[members](b, "POST", "/api/sandbox/kyb", `{"result":"approved"}`)
		b.refuses(
			refused(409, "invalid_state", "", at+"/ubo/kyc", ubo),
			refused(409, "invalid_state", "", at+"/ubo", person),
			refused(409, "invalid_state", "", at+"/kyb", `{}`),
		)
		b.refuses(refused(409, "invalid_state", "", at+"/documents", encode(page)))
		b.set("UPDATE verifications SET state = 'expired' WHERE kind = 'owner'")
		b.write(func(ctx context.Context, tx *db.Tx) error {
			_, err := kyc.Erase(ctx, tx, owner, 5)
			return err
		})
		b.refuses(refused(409, "invalid_state", "", at+"/documents", encode(page)))
		// After the erasure the company still shows the ownership share.
		_, text := ask[members](b, "GET", "/api/company", "")
		if !strings.Contains(text, owner) || strings.Contains(text, "Lovelace") {
			b.t.Errorf("an owner was erased: %s", text)
		}
	})
}

// A bank destination requires the country of the payee, which a user who signed up alone may not have set.
func TestBankDestinationRequiresCountry(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newFullFixture(t, d)
		var bare string
		b.write(func(ctx context.Context, tx *db.Tx) error {
			u, err := identity.CreateUser(ctx, tx, b.server.Sealer,
				identity.NewUser{Profile: identity.Profile{Email: "bare@example.com"}})
			bare = u.ID
			return err
		})
		token := b.token(bare, identity.AllScopes().List()...)
		own, listed := "/api/user/distribution", "/api/company/"+b.company+"/recipients/"+bare+"/distribution"
		made, _ := ask[members](b, "POST", own, `{"user_id":"`+bare+`","symbol":"BTC","distribution_type":"crypto",`+
			`"distribution_data":`+btcData+`}`, "Authorization", token)
		bank := members{"symbol": "EUR", "distribution_data": json.RawMessage(bankData)}
		change := members{
			"symbol": "EUR", "distribution_data": json.RawMessage(bankData), "distribution_id": made["distribution_id"],
		}
		refused := func(method, path string, body any) refusal {
			text := ""
			if body != nil {
				text = encode(body)
			}
			return refusal{409, "profile_incomplete", "", method, path, text, token}
		}
		b.refuses(
			refused("POST", listed, bank), refused("POST", listed+"/update", change),
			refused("GET", listed+"/fields?currency=EUR", nil),
			refused("GET", own+"/fields?currency=EUR", nil),
		)
		bank["user_id"], bank["distribution_type"], change["user_id"] = bare, "fiat", bare
		b.refuses(refused("POST", own, bank), refused("POST", own+"/update", change))
		change["symbol"] = "DOGE"
		b.refuses(refusal{422, "currency_not_supported", "/symbol", "POST", own + "/update", encode(change), token})

		b.write(func(ctx context.Context, tx *db.Tx) error { // a token without a company
			app, _, err := identity.CreateApp(ctx, tx, identity.Sandbox, identity.NewApp{
				CompanyID: b.company, Name: "Own", Scopes: identity.AllScopes(),
			})
			if err != nil {
				return err
			}
			_, token, err = identity.CreateAccessToken(ctx, tx, identity.Sandbox,
				identity.NewAccessToken{AppID: app.ID, UserID: bare, Scopes: identity.AllScopes()})
			token = "Bearer " + token
			return err
		})
		b.refuses(refusal{404, "not_found", "", "POST", "/api/user/create", encode(userBody()), token})
	})
}

// Errors of the sandbox operations. The simulators are tested elsewhere; here they are stubs.
func TestSandboxErrors(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b, _ := newKYC(t, d)
		refused := func(status int, code, pointer, control, body string) refusal {
			return refusal{status, code, pointer, "POST", "/api/sandbox/" + control, body, ""}
		}
		deposit := func(id, more string) string { return `{"payroll_id":"` + id + `","kind":"exact"` + more + `}` }
		b.refuses(
			refused(404, "not_found", "", "kyc", `{"user_id":"usr_nobody","result":"approved"}`),
			refused(404, "not_found", "", "kyb", `{"ubo_id":"ubo_nobody","result":"approved"}`),
			refused(404, "not_found", "", "payout-failure", `{"subpayroll_id":"pmt_nobodys"}`),
			refused(409, "already_processing", "", "payout-failure", `{"subpayroll_id":"pmt_under_way"}`),
			refused(404, "not_found", "", "bank-return", `{"subpayroll_id":"pmt_nobodys"}`),
			refused(409, "invalid_state", "", "bank-return", `{"subpayroll_id":"pmt_unpaid"}`),
			refused(404, "not_found", "", "deposit", deposit("prl_nobodys", "")),
			refused(409, "invalid_state", "", "deposit", deposit("prl_paid", "")),
			refused(422, "amount_not_positive", "/amount", "deposit", deposit("prl_1", `,"amount":0`)),
			refused(422, "amount_precision", "/amount", "deposit", deposit("prl_1", `,"amount":0.000000001`)),
			refused(409, "invalid_state", "", "fee-rate", `{"sat_per_vbyte":7}`),
			refused(422, "invalid_parameter", "/sat_per_vbyte", "fee-rate", `{"sat_per_vbyte":0}`),
			refused(422, "invalid_parameter", "/advance_seconds", "clock", `{"advance_seconds":0}`),
			refusal{404, "not_found", "", "GET", "/api/sandbox/mails?company_id=com_another", "", ""},
		)
	})
}

// The OAuth endpoints return errors as RFC 6749 defines, and common errors before they are reached.
func TestOAuthErrors(t *testing.T) {
	b := newFullFixture(t, sqlite(t))
	made := func(change func(*server)) *server {
		s := newServer(b.server.Deps, routes)
		s.tokens = ratelimit.New(1000, 1000)
		change(s)
		return s
	}
	plain := made(func(*server) {})
	limited := made(func(s *server) { s.tokens = ratelimit.New(0.001, 1) })
	elsewhere := made(func(s *server) { s.Hosts = []string{"api.example"} })
	failing := func(err error) *server {
		return made(func(s *server) {
			s.mux = http.NewServeMux()
			for _, path := range []string{exchangePath, revokePath, pushPath, devicePath} {
				s.mount("POST", path, s.serveOAuth(path, func(context.Context, *db.Tx, map[string]string) (any, *oauth.Error,
					error) {
					return nil, nil, err
				}))
			}
		})
	}
	broken, full := failing(errors.New("a cause for the log")), failing(db.ErrStorage)
	const form = "application/x-www-form-urlencoded"
	send := func(s *server, path, kind, body string, headers ...string) reply {
		t.Helper()
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		if strings.HasPrefix(path, "/.well-known/") {
			r = httptest.NewRequest(http.MethodGet, path, nil)
		}
		r.Header.Set("Content-Type", kind)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if err := theContract().Check(r, []byte(body), w.Code, w.Header(), w.Body.Bytes()); err != nil {
			t.Errorf("%s: the contract: %v", path, err)
		}
		return reply{w.Code, w.Header(), w.Body.String()}
	}
	want := func(got reply, status int, member, code string) {
		t.Helper()
		if got.status != status || got.json(t)[member] != code {
			t.Errorf("%d %s; want %d %s", got.status, got.text, status, code)
		}
	}
	for _, path := range []string{metadataPath, resourcePath, resourcePath + AgentsPath} {
		want(send(plain, path, "", "", "Api-Version", "1.0"), 400, "code", "unsupported_version")
		want(send(elsewhere, path, "", ""), 421, "code", "misdirected")
	}
	for _, path := range []string{exchangePath, revokePath, pushPath, devicePath} {
		want(send(elsewhere, path, form, "token=x"), 421, "code", "misdirected")
		want(send(plain, path, form, strings.Repeat("a", oauthLimit+1)), 413, "error", "invalid_request")
		want(send(plain, path, "text/plain", "token=x"), 415, "error", "invalid_request")
		want(send(broken, path, form, "token=x"), 500, "error", "server_error")
		want(send(full, path, form, "token=x"), 503, "error", "server_error")
		send(limited, path, form, "token=x") // uses up the limit
		if got := send(limited, path, form, "token=x"); got.status != 429 || got.json(t)["error"] != "rate_limited" ||
			got.header.Get("Retry-After") == "" {
			t.Errorf("%d %v %s", got.status, got.header, got.text)
		}
	}
}
