package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/sandbox"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/testkit/fixture"
)

// apiClient sends requests to a service, with the API key of the seeded company unless another caller is set.
type apiClient struct {
	*testing.T
	s    *service
	seed sandbox.Seed
	auth string
}

func newAPIClient(t *testing.T, s *service) *apiClient {
	seed := sandbox.DefaultSeed()
	return &apiClient{t, s, seed, "Basic " + seed.APIKey}
}

func (d *apiClient) as(auth string) *apiClient {
	other := *d
	other.auth = auth
	return &other
}

type object = map[string]any

// response is the response to a request, with its body as text.
type response struct {
	status int
	header http.Header
	text   string
	err    error
}

func (r response) read(t testing.TB) object {
	t.Helper()
	var m object
	if err := json.Unmarshal([]byte(r.text), &m); err != nil {
		t.Fatalf("not JSON: %d %.300q: %v", r.status, r.text, err)
	}
	return m
}

// send sends a body unchanged. headers are pairs that replace the default headers. An empty value removes a header.
func (d *apiClient) send(method, path, body string, headers ...string) response {
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(d.Context(), method, d.s.Ready().BaseURL+path, in)
	if err != nil {
		return response{err: err}
	}
	req.Header.Set("Authorization", d.auth)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] == "" {
			req.Header.Del(headers[i])
		} else {
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return response{err: err}
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return response{res.StatusCode, res.Header, string(text), err}
}

// do sends a request that must get a response.
func (d *apiClient) do(method, path, body string, headers ...string) response {
	d.Helper()
	r := d.send(method, path, body, headers...)
	if r.err != nil {
		d.Fatalf("%s %s: %v", method, path, r.err)
	}
	return r
}

// ok sends a request that must succeed.
func (d *apiClient) ok(method, path, body string, headers ...string) response {
	d.Helper()
	r := d.do(method, path, body, headers...)
	if r.status != http.StatusOK {
		d.Fatalf("%s %s: %d %.500s", method, path, r.status, r.text)
	}
	return r
}

// refused sends a request that must be refused with a status and a code.
func (d *apiClient) refused(status int, code, method, path, body string, headers ...string) response {
	d.Helper()
	r := d.do(method, path, body, headers...)
	if m := r.read(d); r.status != status || m["code"] != code {
		d.Errorf("%s %s: %d %.500s; want %d %s", method, path, r.status, r.text, status, code)
	}
	return r
}

const createPath = "/api/company/payroll/create"

var keys struct {
	sync.Mutex
	n int
}

func freshKey() string {
	keys.Lock()
	defer keys.Unlock()
	keys.n++
	return fmt.Sprintf("scenario-%d", keys.n)
}

// pays returns the body of a request that pays each worker the same amount. It puts the members in more before
// to_pay.
func pays(more, amount string, users ...string) string {
	var items []string
	for _, u := range users {
		items = append(items, `{"user_id":"`+u+`","amount_fiat":`+amount+`}`)
	}
	return `{` + more + `"to_pay":[` + strings.Join(items, ",") + `]}`
}

func (d *apiClient) create(body string) createdPayroll {
	d.Helper()
	return d.created(d.ok("POST", createPath, body, "Idempotency-Key", freshKey()))
}

func (d *apiClient) created(r response) (made createdPayroll) {
	d.Helper()
	testkit.Check(d, json.Unmarshal([]byte(r.text), &made))
	return made
}

// payTwo creates a payroll that pays two workers the same amount each.
func (d *apiClient) payTwo(amount string) createdPayroll {
	d.Helper()
	return d.create(pays("", amount, d.seed.Workers[0].UserID, d.seed.Workers[1].UserID))
}

func (d *apiClient) deposit(payroll, kind, amount string) string {
	d.Helper()
	body := `{"payroll_id":"` + payroll + `","kind":"` + kind + `"`
	if amount != "" {
		body += `,"amount":` + amount
	}
	return d.ok("POST", "/api/sandbox/deposit", body+"}").read(d)["tx_hash"].(string)
}

func (d *apiClient) advance(by time.Duration) {
	d.Helper()
	d.ok("POST", "/api/sandbox/clock", fmt.Sprintf(`{"advance_seconds":%d}`, int64(by.Seconds())))
}

// payrollView is the part of a payroll that the tests read.
type payrollView struct {
	payrollDetail
	Funded json.Number `json:"funded_amount"`
	Quote  struct {
		ID     string      `json:"quote_id"`
		Amount json.Number `json:"funding_amount"`
	} `json:"quote"`
	Deposits []struct {
		Status string      `json:"status"`
		Amount json.Number `json:"amount"`
		TxHash string      `json:"tx_hash"`
	} `json:"deposits"`
	Timeline []struct {
		ObjectID string `json:"object_id"`
		To       string `json:"to"`
	} `json:"timeline"`
}

func (s payrollView) deposits(status string) (n int) {
	for _, p := range s.Deposits {
		if p.Status == status {
			n++
		}
	}
	return n
}

func (d *apiClient) payroll(payrollID string) (v payrollView) {
	d.Helper()
	testkit.Check(d, json.Unmarshal([]byte(d.ok("GET", "/api/company/payrolls/"+payrollID, "").text), &v))
	return v
}

// until polls a payroll until ok returns true. The service retries payouts that had to wait after a minute.
func (d *apiClient) until(payroll, what string, ok func(payrollView) bool) (last payrollView) {
	d.Helper()
	if !await(d.T, 90*time.Second, func() bool { last = d.payroll(payroll); return ok(last) }) {
		d.Fatalf("not in time: %s; the payroll is %+v", what, last)
	}
	return last
}

func (d *apiClient) fulfilled(payroll string) payrollView {
	d.Helper()
	last := d.until(payroll, "fulfilled", func(v payrollView) bool { return v.Status == "fulfilled" })
	for _, p := range last.Payments {
		if p.Status != "fulfilled" {
			d.Errorf("a fulfilled payroll has the payment %+v", p)
		}
	}
	if got := d.balance(ledger.Escrow, payroll); !got.IsZero() {
		d.Errorf("a fulfilled payroll still holds %s BTC", got)
	}
	return last
}

// read reads from the service's database.
func (d *apiClient) read(f func(context.Context, *db.Tx) error) {
	d.Helper()
	testkit.Check(d, d.s.DB().Read(d.Context(), f))
}

// balance returns the balance of an account in bitcoin.
func (d *apiClient) balance(c ledger.Code, dim string) money.Amount {
	d.Helper()
	return d.balanceIn(c, dim, money.BTC)
}

func (d *apiClient) balanceIn(c ledger.Code, dim string, asset money.Asset) (a money.Amount) {
	d.Helper()
	d.read(func(ctx context.Context, tx *db.Tx) (err error) {
		a, err = ledger.Balance(ctx, tx, d.seed.CompanyID, c, dim, asset)
		return err
	})
	return a
}

// funds returns the company's balance in satoshis.
func (d *apiClient) funds() int64 {
	d.Helper()
	return d.balance(ledger.CompanyFunds, "").Units()
}

func (d *apiClient) checkFunds(want int64) {
	d.Helper()
	if got := d.funds(); got != want {
		d.Errorf("the company's balance is %d sat, want %d", got, want)
	}
}

func (d *apiClient) sats(n json.Number) int64 {
	d.Helper()
	a, err := money.Parse(money.BTC, n.String())
	testkit.Check(d, err)
	return a.Units()
}

func btc(sats int64) string { return money.New(money.BTC, sats).String() }

func (d *apiClient) count(query string, args ...any) (n int64) {
	d.Helper()
	d.read(func(ctx context.Context, tx *db.Tx) error { return tx.QueryRow(ctx, query, args...).Scan(&n) })
	return n
}

// effects counts the rows that the creation of payrolls writes.
func (d *apiClient) effects() (n [5]int64) {
	d.Helper()
	for i, query := range []string{
		"SELECT COUNT(*) FROM payrolls", "SELECT COUNT(*) FROM payments", "SELECT COUNT(*) FROM quotes",
		"SELECT COUNT(*) FROM chain_addresses WHERE branch = 0", "SELECT COUNT(*) FROM events WHERE name = 'payroll.created'",
	} {
		n[i] = d.count(query)
	}
	return n
}

// storesNothing runs f and checks that the numbers of payrolls, payments, quotes, addresses and events do not change.
func (d *apiClient) storesNothing(f func()) {
	d.Helper()
	before := d.effects()
	f()
	if after := d.effects(); after != before {
		d.Errorf("payrolls, payments, quotes, addresses, events: %v before, %v after", before, after)
	}
}

func (d *apiClient) checkLedgerBalances() {
	d.Helper()
	report, err := checkLedger(d.Context(), d.s)
	if err != nil || len(report.Problems) > 0 {
		d.Errorf("ledger: %v, %v", report.Problems, err)
	}
}

// pointers returns the problems of a response as "code pointer", in order.
func (d *apiClient) pointers(r response) (all []string) {
	d.Helper()
	for _, e := range r.read(d)["errors"].([]any) {
		all = append(all, fmt.Sprintf("%v %v", e.(object)["code"], e.(object)["pointer"]))
	}
	return all
}

// stranger creates another company with an API key.
func (d *apiClient) stranger() (company string, other *apiClient) {
	d.Helper()
	var key string
	err := d.s.DB().Write(d.Context(), func(ctx context.Context, tx *db.Tx) error {
		c, err := identity.CreateCompany(ctx, tx, identity.NewCompany{Name: "Stranger", Country: "US", Email: freshKey() +
			"@example.com"})
		if err != nil {
			return err
		}
		app, _, err := identity.CreateApp(ctx, tx, identity.Sandbox, identity.NewApp{CompanyID: c.ID, Name: "App of " + c.ID,
			Scopes: identity.AllScopes()})
		if err != nil {
			return err
		}
		company = c.ID
		_, key, err = identity.CreateAPIKey(ctx, tx, identity.Sandbox, identity.NewAPIKey{CompanyID: c.ID, AppID: app.ID})
		return err
	})
	testkit.Check(d, err)
	return company, d.as("Basic " + key)
}

// token returns the Authorization header of the seeded administrator, signed in through the seeded app.
func (d *apiClient) token(scopes ...identity.Scope) string {
	d.Helper()
	return d.tokenOf(sandbox.SeedID("usr", "admin"), scopes...)
}

// tokenOf returns the Authorization header of a user of the seeded app.
func (d *apiClient) tokenOf(userID string, scopes ...identity.Scope) string {
	d.Helper()
	var token string
	err := d.s.DB().Write(d.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
		if err := fixture.AddManager(ctx, tx, d.seed.CompanyID, userID); err != nil {
			return err
		}
		_, token, err = identity.CreateAccessToken(ctx, tx, identity.Sandbox, identity.NewAccessToken{
			CompanyID: d.seed.CompanyID, AppID: sandbox.SeedID("app", "app"), UserID: userID,
			Scopes: identity.NewScopes(scopes...),
		})
		return err
	})
	testkit.Check(d, err)
	return "Bearer " + token
}
