package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/chaintest"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/rates"
	"github.com/stipend/stipend/internal/testkit/allow"
	"github.com/stipend/stipend/internal/treasury"
	"github.com/stipend/stipend/internal/withdrawal"
)

// fakeAddresses returns addresses that nobody can pay.
type fakeAddresses struct{}

func (fakeAddresses) Address(branch, index uint32) (string, error) {
	return fmt.Sprintf("bcrt1qpaper%dx%d", branch, index), nil
}

type stubSandbox struct{ failed string }

// Deposit returns the errors of the real sandbox, selected by the ID.
func (*stubSandbox) Deposit(
	_ context.Context, _ identity.Principal, payrollID, _, kind, amount string,
) (string, error) {
	if amount != "" {
		a, err := money.Parse(money.BTC, amount)
		if err == nil && a.Sign() <= 0 {
			err = money.ErrNotPositive
		}
		if f, refused := apierr.As(err); refused {
			return "", f.At("body", "/amount")
		}
	}
	switch payrollID {
	case "prl_nobodys":
		return "", apierr.NotFoundErr
	case "prl_paid":
		return "", payroll.ErrState
	}
	return payrollID + "/" + kind + "/" + amount, nil
}

func (*stubSandbox) Advance(_ context.Context, by time.Duration) (time.Time, error) {
	return dbtest.Epoch.Add(by), nil
}

func (*stubSandbox) FeeRate(_ context.Context, _ identity.Principal, rate int64) (int64, error) {
	if rate == 7 {
		return 0, payroll.ErrState // as a sandbox with a real node
	}
	return rate - 1, nil
}

func (s *stubSandbox) PayoutFailure(_ context.Context, _ *db.Tx, _ identity.Principal, id string) error {
	switch id {
	case "pmt_nobodys":
		return apierr.NotFoundErr
	case "pmt_under_way":
		return payout.ErrProcessing
	}
	s.failed = id
	return nil
}

func (s *stubSandbox) BankReturn(ctx context.Context, tx *db.Tx, by identity.Principal, id, _ string) error {
	if id == "pmt_unpaid" {
		return payroll.ErrState
	}
	return s.PayoutFailure(ctx, tx, by, id)
}

// newService returns a fixture with the real routes.
func newService(t testing.TB, d *db.DB, change func(*Deps)) *fixture {
	t.Helper()
	sealer, err := identity.NewSealer(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	const ever = 100_000 * time.Hour
	r := rates.Refresher{DB: d, Sources: []rates.Source{rates.Sandbox()}, Quorum: 1, CryptoLimit: ever, FiatLimit: ever}
	if err := r.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	chaintest.StartWatching(t, d, "regtest")
	var deps Deps
	b := newFixture(t, d, func(own *Deps) {
		own.Sealer, own.Sandbox = sealer, &stubSandbox{}
		own.KYC = &kyc.Service{Sealer: sealer, Images: kyc.NewImageDecoder(2, kyc.MinPixels), Provider: kyc.Sandbox{}}
		pool := chain.NewPool(d, "regtest", fakeAddresses{})
		var err error
		if own.Withdrawal, err = withdrawal.New(withdrawal.Config{
			Setup:           destination.Setup{Sealer: sealer, BitcoinNetwork: "regtest", Chain: "regtest"},
			AllowUnverified: true,
		}, withdrawal.Guards{Screen: allow.Subjects[destination.ScreeningSubject],
			ReleaseApproved: allow.Release}); err != nil {
			t.Fatal(err)
		}
		funds, err := treasury.New(treasury.Unlimited)
		if err != nil {
			t.Fatal(err)
		}
		if own.Payroll, err = payroll.New(payroll.Config{
			Pool: pool, ChainName: "regtest", Network: "regtest", QuoteValidity: 30 * time.Minute, Treasury: funds,
			AllowUnverified: true,
		}, payroll.Guards{CheckWatched: allow.Network, Screen: allow.Subjects[destination.ScreeningSubject],
			ReleaseApproved: allow.Release}); err != nil {
			t.Fatal(err)
		}
		if own.Claim, err = claim.New(claim.Config{
			Pool: pool, ChainName: "regtest", Network: "regtest", Validity: 15 * time.Minute, BaseURL: "https://pay.example.com",
			Withdrawals: own.Withdrawal,
		}, claim.Guards{CheckWatched: allow.Chain, Screen: allow.Address, ReleaseApproved: allow.Release}); err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(own)
		}
		deps = *own
	})
	b.server = newServer(deps, routes)
	return b
}

// ask sends a request that must succeed, and decodes the response.
func ask[T any](b *fixture, method, path, body string, headers ...string) (out T, text string) {
	b.t.Helper()
	got := b.do(method, path, body, headers...)
	if got.status != 200 {
		b.t.Fatalf("%s %s: %d %s", method, path, got.status, got.text)
	}
	if err := json.Unmarshal([]byte(got.text), &out); err != nil {
		b.t.Fatal(err)
	}
	return out, got.text
}

type members = map[string]any

const btcAddress = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080"

func TestFromRecipientToPayroll(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newService(t, d, nil)
		recipients := "/api/company/" + b.company + "/recipients/"
		body := `{"first_name":"Ada","last_name":"Lovelace","country":"GB","external_id":"a-1","email":"ada@example.com"}`
		made, _ := ask[members](b, "POST", recipients+"create", body, "Idempotency-Key", "r1")
		if made["recipient_type"] != "user" || made["status"] != "pending" || made["idempotency_replayed"] != false ||
			made["relationship_id"] == "" {
			t.Fatalf("%v", made)
		}
		again, _ := ask[members](b, "POST", recipients+"create", body, "Idempotency-Key", "r1")
		if again["recipient_id"] != made["recipient_id"] || again["idempotency_replayed"] != true {
			t.Fatalf("%v", again)
		}
		if got := b.do("POST", recipients+"create", body); got.status != 409 ||
			got.json(t)["recipient_id"] != made["recipient_id"] {
			t.Errorf("%d %s", got.status, got.text)
		}
		if got := b.do("POST", recipients+"create", `{}`); got.status != 422 || len(got.json(t)["errors"].([]any)) != 3 {
			t.Errorf("%d %s", got.status, got.text)
		}
		id := made["recipient_id"].(string)

		at := recipients + id + "/distribution"
		first, _ := ask[members](b, "POST", at, `{"symbol":"BTC","distribution_data":{"address":"`+btcAddress+`"}}`)
		if first["allocation"] != 100.0 || first["symbol"] != "BTC" || first["recipient_id"] != id {
			t.Fatalf("%v", first)
		}
		second, _ := ask[members](b, "POST", at, `{"symbol":"BTC","distribution_data":{"address":"`+btcAddress+`"}}`)
		one, two := first["distribution_id"].(string), second["distribution_id"].(string)
		if got := b.do("DELETE", at, `{"distribution_id":"`+one+`"}`); got.status != 409 ||
			got.json(t)["code"] != "allocation_not_zero" {
			t.Errorf("%d %s", got.status, got.text)
		}
		if got := b.do("PATCH", at+"/allocations", `{"allocations":[{"distribution_id":"`+one+`","allocation":33.5},`+
			`{"distribution_id":"`+two+`","allocation":66.5}]}`); got.status != 422 ||
			got.json(t)["code"] != "allocation_invalid" {
			t.Errorf("%d %s", got.status, got.text)
		}
		ask[members](b, "PATCH", at+"/allocations", `{"allocations":[{"distribution_id":"`+one+`","allocation":0},`+
			`{"distribution_id":"`+two+`","allocation":100}]}`)
		if gone, _ := ask[members](b, "DELETE", at, `{"distribution_id":"`+one+`"}`); gone["deleted"] != true {
			t.Errorf("%v", gone)
		}
		if list, text := ask[members](b, "GET", at, ""); len(list["distributions"].([]any)) != 1 ||
			!strings.Contains(text, btcAddress) {
			t.Errorf("%s", text)
		}

		if _, text := ask[members](b, "GET", at+"/history", ""); !strings.Contains(text, one) ||
			!strings.Contains(text, two) {
			t.Errorf("the changes of the destinations: %s", text)
		}

		list, text := ask[members](b, "GET", "/api/company/recipients?status=active&search=LOVE", "")
		if rows := list["data"].([]any); len(rows) != 1 || rows[0].(members)["vendor_type"] != "" ||
			list["meta"].(members)["total"] != 1.0 {
			t.Errorf("%s", text)
		}
		if _, text := ask[members](b, "GET", "/api/company/workers", ""); !strings.Contains(text, `"data":[]`) {
			t.Errorf("%s", text)
		}

		pay := `{"company_id":"` + b.company + `","currency":"USD","external_id":"run-1","to_pay":[{"user_id":"` + id +
			`","amount_fiat":1250.50,"description":"September"}]}`
		if got := b.do("POST", "/api/company/payroll/create", pay); got.status != 400 ||
			got.json(t)["code"] != "idempotency_key_required" {
			t.Errorf("%d %s", got.status, got.text)
		}
		preview, text := ask[members](b, "POST", "/api/company/payroll/preview", pay)
		if len(preview["blockers"].([]any)) != 0 || !strings.Contains(text, `"volume_input_in_input_currency":1250.50`) {
			t.Errorf("%s", text)
		}
		run, text := ask[members](b, "POST", "/api/company/payroll/create", pay, "Idempotency-Key", "p1")
		q := run["quote"].(members)
		if !strings.Contains(text, `"total_input_in_input_currency":1250.50`) || q["funding_currency"] != "BTC" ||
			q["funding_details"].(members)["network"] != "regtest" {
			t.Fatalf("%s", text)
		}
		if _, replay := ask[members](b, "POST", "/api/company/payroll/create", pay, "Idempotency-Key", "p1"); replay != text {
			t.Errorf("%s\n%s", replay, text)
		}
		if got := b.do("POST", "/api/company/payroll/create", pay, "Idempotency-Key", "p2"); got.status != 409 ||
			got.json(t)["payroll_id"] != run["payroll_id"] {
			t.Errorf("%d %s", got.status, got.text)
		}
		bad := b.do("POST", "/api/company/payroll/create", `{"currency":"USD","to_pay":[{"user_id":"usr_nobody",`+
			`"amount_fiat":1},{"user_id":"`+id+`","amount_fiat":1.234}]}`, "Idempotency-Key", "p3")
		if bad.status != 422 || !strings.Contains(bad.text, `"pointer":"/to_pay/0`) ||
			!strings.Contains(bad.text, `"pointer":"/to_pay/1/amount_fiat"`) {
			t.Errorf("%d %s", bad.status, bad.text)
		}
		prl := run["payroll_id"].(string)
		refreshed, text := ask[members](b, "POST", "/api/company/payroll/quote/refresh", `{"payroll_id":"`+prl+`"}`)
		if quotes := refreshed["quotes"].([]any); len(quotes) != 1 || quotes[0].(members)["quote_id"] != q["quote_id"] {
			t.Errorf("%s", text)
		}
		detail, text := ask[members](b, "GET", "/api/company/payrolls/"+prl, "")
		if detail["status"] != "pending" || len(detail["payments"].([]any)) != 1 || len(detail["deposits"].([]any)) != 0 ||
			detail["quote"] == nil {
			t.Errorf("%s", text)
		}
		found, text := ask[members](b, "GET", "/api/company/payrolls?status=pending&external_id=run-1&from=2020-01-01", "")
		if len(found["data"].([]any)) != 1 {
			t.Errorf("%s", text)
		}
		if got := b.do("GET", "/api/company/payrolls/prl_unknown", ""); got.status != 404 {
			t.Errorf("%d %s", got.status, got.text)
		}
		if off, _ := ask[members](b, "POST", "/api/company/payroll/cancel",
			`{"payroll_id":"`+prl+`"}`); off["status"] != "cancelled" {
			t.Errorf("%v", off)
		}

		stranger := newFixture(t, d, nil)
		stranger.server = b.server
		for _, c := range [][2]string{
			{"GET", "/api/company/payrolls/" + prl}, {"GET", "/api/company/recipients?company_id=" + b.company}, {"GET", at},
			{"GET", "/api/company/" + stranger.company + "/recipients/" + id + "/distribution"},
		} {
			if got := stranger.do(c[0], c[1], ""); got.status != 404 {
				t.Errorf("another company gets %s: %d %s", c[1], got.status, got.text)
			}
		}
	})
}

// After its idempotency key expires, a request with the same external ID creates no second payroll.
func TestExpiredKeyCreatesNoSecondPayroll(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		b := newService(t, d, nil)
		body := `{"external_id":"march","to_pay":[{"user_id":"` + b.payee() + `","amount_fiat":25}]}`
		first, _ := ask[members](b, "POST", payrollPath+"/create", body, "Idempotency-Key", "k")
		clock.Advance(31 * 24 * time.Hour)
		if err := ForgetKeys(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		got := b.do("POST", payrollPath+"/create", body, "Idempotency-Key", "k")
		if m := got.json(t); got.status != 409 || m["code"] != "external_id_conflict" ||
			m["payroll_id"] != first["payroll_id"] {
			t.Errorf("%d %s, want a conflict with %v", got.status, got.text, first["payroll_id"])
		}
		if n := b.count("SELECT COUNT(*) FROM payrolls"); n != 1 {
			t.Errorf("%d payrolls", n)
		}
		next, _ := ask[members](b, "POST", payrollPath+"/create", strings.Replace(body, "march", "april", 1),
			"Idempotency-Key", "k")
		if next["payroll_id"] == first["payroll_id"] {
			t.Error("an expired key returned the old payroll")
		}
	})
}

func TestReferenceAndSandbox(t *testing.T) {
	b := newService(t, sqlite(t), nil)
	if _, text := ask[members](b, "GET", "/api/rates", "", "Authorization", ""); !strings.Contains(text, `"base":"BTC"`) {
		t.Errorf("%s", text)
	}
	if _, text := ask[members](b, "GET", "/api/currencies", "", "Authorization", ""); !strings.Contains(text,
		`{"symbol":"JPY","type":"fiat","decimals":0,"minimum":1,"payable":true,"networks":[],"funding_networks":[],`+
			`"countries":["JP"]}`) ||
		!strings.Contains(text, `{"symbol":"BTC","type":"crypto","decimals":8,"minimum":0.00000294,"payable":true,`+
			`"networks":["regtest"],"funding_networks":[],"countries":[]}`) ||
		!strings.Contains(text, `{"symbol":"USDT","type":"crypto","decimals":6,"minimum":0.010000,"payable":false,`+
			`"networks":["ethereum","polygon","arbitrum","tron"],"funding_networks":[],"countries":[]}`) ||
		!strings.Contains(text, `"symbol":"EUR","type":"fiat","decimals":2,"minimum":0.01,"payable":true,"networks":[],`+
			`"funding_networks":[],"countries":["AD","AT",`) {
		t.Errorf("%s", text)
	}
	if own, text := ask[members](b, "GET", "/api/company", ""); own["company_id"] != b.company {
		t.Errorf("%s", text)
	}
	if paid, text := ask[members](b, "POST", "/api/sandbox/deposit",
		`{"payroll_id":"prl_1","kind":"under","amount":0.5}`); paid["tx_hash"] != "prl_1/under/0.5" {
		t.Errorf("%s", text)
	}
	if _, text := ask[members](b, "POST", "/api/sandbox/clock",
		`{"advance_seconds":60}`); text != `{"now":"2026-01-15T12:01:00Z"}` {
		t.Errorf("%s", text)
	}
	if _, text := ask[members](b, "POST", "/api/sandbox/fee-rate",
		`{"sat_per_vbyte":200}`); text != `{"sat_per_vbyte":200,"previous_sat_per_vbyte":199}` {
		t.Errorf("%s", text)
	}
	ask[members](b, "POST", "/api/sandbox/payout-failure", `{"subpayroll_id":"pmt_1"}`)
	ask[members](b, "POST", "/api/sandbox/bank-return", `{"subpayroll_id":"pmt_1","reason":"AC04"}`)
	live := newService(t, sqlite(t), func(d *Deps) { d.Env = identity.Production })
	if got := live.do("POST", "/api/sandbox/clock", `{"advance_seconds":60}`, "Authorization", ""); got.status != 404 {
		t.Errorf("production has sandbox routes: %d", got.status)
	}
}

// Every reference of the contract resolves, operation IDs are unique, and no amount is a binary floating-point
// number.
func TestContract(t *testing.T) {
	b := newService(t, sqlite(t), nil)
	doc, text := ask[members](b, "GET", "/openapi.json", "")
	schemas := doc["components"].(members)["schemas"].(members)
	for _, part := range strings.Split(text, `"$ref":"#/components/schemas/`)[1:] {
		name, _, _ := strings.Cut(part, `"`)
		if schemas[name] == nil {
			t.Errorf("no schema %s", name)
		}
	}
	if strings.Contains(text, `"double"`) || !strings.Contains(text, `"format":"decimal"`) {
		t.Error("money is not shown as decimal")
	}
	ids := map[string]bool{}
	n := 0
	for _, item := range doc["paths"].(members) {
		for _, op := range item.(members) {
			ids[op.(members)["operationId"].(string)] = true
			n++
		}
	}
	// the OAuth endpoints are not in the table
	if want := len(routes) + len(operationsRoutes) + 3; n != want || len(ids) != n {
		t.Errorf("%d operations with %d ids for %d routes", n, len(ids), want)
	}
	create := schemas["PayrollCreateBody"].(members)
	if create["additionalProperties"] != false || create["required"].([]any)[0] != "to_pay" {
		t.Errorf("%v", create)
	}
	if s := schemas["PayrollDetail"].(members); s["additionalProperties"] != nil ||
		s["properties"].(members)["payroll_id"] == nil {
		t.Errorf("%v", s)
	}
}

func TestRouteTableIsChecked(t *testing.T) {
	good := routes[0]
	for name, change := range map[string]func(*route){
		"no scope":                func(r *route) { r.scope = "" },
		"any scope":               func(r *route) { r.scope = anyScope },
		"GET that writes":         func(r *route) { r.kind = write },
		"public write":            func(r *route) { r.method, r.kind, r.scope = "POST", write, public },
		"path value left unread":  func(r *route) { r.path = "/x/{id}" },
		"method that is not ours": func(r *route) { r.method = "TRACE" },
	} {
		bad := good
		change(&bad)
		if checkRoutes([]route{bad}) == "" {
			t.Errorf("%s passes", name)
		}
	}
	if fault := checkRoutes(routes); fault != "" {
		t.Error(fault)
	}
}

// A body member whose schema has no type or another one would be decoded unchecked, so the service does not start.
func TestSchemaWithoutTypeIsRefused(t *testing.T) {
	type in struct {
		Body struct {
			Free any `json:"free"`
		}
	}
	defer func() {
		if text := fmt.Sprint(recover()); !strings.Contains(text, "in.Body.Free") {
			t.Errorf("panic: %s", text)
		}
	}()
	newInput(newRegistry(), reflect.TypeFor[in]())
	t.Error("a member of any type was accepted")
}
