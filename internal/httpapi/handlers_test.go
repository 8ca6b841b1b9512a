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
	"github.com/stipend/stipend/internal/branding"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/chaintest"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/directdebit"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/paymentlink"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/payroll/schedule"
	"github.com/stipend/stipend/internal/proposal"
	"github.com/stipend/stipend/internal/rates"
	"github.com/stipend/stipend/internal/testkit/allow"
	"github.com/stipend/stipend/internal/travelrule"
	"github.com/stipend/stipend/internal/treasury"
	"github.com/stipend/stipend/internal/withdrawal"
)

// fakeAddresses returns addresses that nobody can pay.
type fakeAddresses struct{}

func (fakeAddresses) Address(branch, index uint32) (string, error) {
	return fmt.Sprintf("bcrt1qpaper%dx%d", branch, index), nil
}

type testSandbox struct{ failed string }

// Deposit returns the errors of the real sandbox, selected by the ID.
func (*testSandbox) Deposit(
	_ context.Context, _ identity.Principal, payrollID, _, _, kind, amount string,
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

func (*testSandbox) Advance(_ context.Context, by time.Duration) (time.Time, error) {
	return dbtest.Epoch.Add(by), nil
}

func (*testSandbox) FeeRate(_ context.Context, _ identity.Principal, rate int64) (int64, error) {
	if rate == 7 {
		return 0, payroll.ErrState // as a sandbox with a real node
	}
	return rate - 1, nil
}

func (s *testSandbox) PayoutFailure(_ context.Context, _ *db.Tx, _ identity.Principal, id string) error {
	switch id {
	case "pmt_nobodys":
		return apierr.NotFoundErr
	case "pmt_under_way":
		return payout.ErrProcessing
	}
	s.failed = id
	return nil
}

func (s *testSandbox) BankReturn(ctx context.Context, tx *db.Tx, by identity.Principal, id, _ string) error {
	if id == "pmt_unpaid" {
		return payroll.ErrState
	}
	return s.PayoutFailure(ctx, tx, by, id)
}

func (*testSandbox) AcceptMandate(_ context.Context, _ *db.Tx, by identity.Principal, scheme, account string) (
	directdebit.Mandate, error) {
	if account == "none" {
		return directdebit.Mandate{}, payroll.ErrState
	}
	return directdebit.Mandate{ID: "mdt_1", CompanyID: by.CompanyID, Scheme: bank.DebitScheme(scheme),
		State: directdebit.MandateActive}, nil
}

func (s *testSandbox) DebitReturn(ctx context.Context, tx *db.Tx, by identity.Principal, id, reason string) error {
	return s.BankReturn(ctx, tx, by, id, reason)
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
		own.Sealer, own.Sandbox = sealer, &testSandbox{}
		own.KYC = &kyc.Service{Sealer: sealer, Images: kyc.NewImageDecoder(2, kyc.MinPixels), Provider: kyc.Sandbox{}}
		pool := chain.NewPool(d, "regtest", fakeAddresses{})
		var err error
		if own.TravelRule, err = travelrule.New(travelrule.Config{Sealer: sealer, Network: "regtest",
			Company: own.KYC.CompanyProfile}); err != nil {
			t.Fatal(err)
		}
		if own.Branding, err = branding.New(own.KYC.Images); err != nil {
			t.Fatal(err)
		}
		if own.Withdrawal, err = withdrawal.New(withdrawal.Config{
			Setup:           destination.Setup{Sealer: sealer, BitcoinNetwork: "regtest", Chain: "regtest"},
			AllowUnverified: true,
		}, withdrawal.Guards{TravelRule: allow.Records[payout.Output],
			Screen:          allow.Subjects[destination.ScreeningSubject],
			ReleaseApproved: allow.Release}); err != nil {
			t.Fatal(err)
		}
		if own.Debits, err = directdebit.New(directdebit.Config{Accounts: bank.SandboxAccounts(), AllowUnverified: true,
			Setup: destination.Setup{Sealer: sealer, BitcoinNetwork: "regtest", Chain: "regtest"},
			Payer: func(context.Context, *db.Tx, string) (payout.Details, error) { return payout.Details{}, nil },
		}, directdebit.Guards{
			Stated: func(context.Context, *db.Tx, bank.Account) (string, error) { return "", nil },
			Owns: func(context.Context, *db.Tx, directdebit.Mandate) (bool, error) {
				return true, nil
			}}); err != nil {
			t.Fatal(err)
		}
		funds, err := treasury.New(treasury.Unlimited)
		if err != nil {
			t.Fatal(err)
		}
		if own.Payroll, err = payroll.New(payroll.Config{
			Pool: pool, ChainName: "regtest", Network: "regtest", QuoteValidity: 30 * time.Minute, Treasury: funds,
			AllowUnverified: true, Sealer: sealer, Debits: own.Debits,
		}, payroll.Guards{TravelRule: allow.Records[payout.Output],
			CheckWatched: allow.Network, Screen: allow.Subjects[destination.ScreeningSubject],
			ReleasePlanned: allow.Release, ReleaseApproved: allow.Release, PayeesApproved: allow.Payees}); err != nil {
			t.Fatal(err)
		}
		if own.Schedule, err = schedule.New(own.Payroll); err != nil {
			t.Fatal(err)
		}
		if own.Claim, err = claim.New(claim.Config{
			Pool: pool, ChainName: "regtest", Network: "regtest", Validity: 15 * time.Minute, BaseURL: "https://pay.example.com",
			Withdrawals: own.Withdrawal, Sealer: sealer, Treasury: funds,
		}, claim.Guards{CheckWatched: allow.Network, Screen: allow.Address, ReleaseApproved: allow.Release,
			Renewable: allow.Renewal}); err != nil {
			t.Fatal(err)
		}
		if own.Links, err = paymentlink.New(own.Claim, "https://pay.example.com"); err != nil {
			t.Fatal(err)
		}
		if own.Proposals, err = proposal.New(own.Payroll, own.Claim, sealer); err != nil {
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
		strings.Contains(text, `"symbol":"USDT"`) || // no network of this installation pays it
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
	if want := len(routes) + len(operationsRoutes) + 7; n != want || len(ids) != n {
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
	good := routes[1]
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
