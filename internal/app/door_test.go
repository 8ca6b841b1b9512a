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
)

// door is a client of the interface, with a key of the seeded company unless another is given.
type door struct {
	*testing.T
	s    *service
	seed sandbox.Seed
	auth string
}

func newDoor(t *testing.T, s *service) *door {
	seed := sandbox.DefaultSeed()
	return &door{t, s, seed, "Basic " + seed.APIKey}
}

func (d *door) as(auth string) *door {
	other := *d
	other.auth = auth
	return &other
}

type object = map[string]any

// response is an answer, with its body as it came.
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

// send sends a body as it is. Headers come in pairs and replace the usual ones; an empty value leaves one out.
func (d *door) send(method, path, body string, headers ...string) response {
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

// do is send for an answer that must come.
func (d *door) do(method, path, body string, headers ...string) response {
	d.Helper()
	r := d.send(method, path, body, headers...)
	if r.err != nil {
		d.Fatalf("%s %s: %v", method, path, r.err)
	}
	return r
}

// ok is do for a request that must succeed.
func (d *door) ok(method, path, body string, headers ...string) response {
	d.Helper()
	r := d.do(method, path, body, headers...)
	if r.status != http.StatusOK {
		d.Fatalf("%s %s: %d %.500s", method, path, r.status, r.text)
	}
	return r
}

// refused is do for a request that must be refused so.
func (d *door) refused(status int, code, method, path, body string, headers ...string) response {
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

// pays is a create body that pays workers one amount each, with more members before to_pay.
func pays(more, amount string, users ...string) string {
	var items []string
	for _, u := range users {
		items = append(items, `{"user_id":"`+u+`","amount_fiat":`+amount+`}`)
	}
	return `{` + more + `"to_pay":[` + strings.Join(items, ",") + `]}`
}

func (d *door) create(body string) createdPayroll {
	d.Helper()
	return d.created(d.ok("POST", createPath, body, "Idempotency-Key", freshKey()))
}

func (d *door) created(r response) (made createdPayroll) {
	d.Helper()
	if err := json.Unmarshal([]byte(r.text), &made); err != nil {
		d.Fatal(err)
	}
	return made
}

// payTwo makes a payroll of two workers with an amount each.
func (d *door) payTwo(amount string) createdPayroll {
	d.Helper()
	return d.create(pays("", amount, d.seed.Workers[0].UserID, d.seed.Workers[1].UserID))
}

func (d *door) deposit(payroll, kind, amount string) string {
	d.Helper()
	body := `{"payroll_id":"` + payroll + `","kind":"` + kind + `"`
	if amount != "" {
		body += `,"amount":` + amount
	}
	return d.ok("POST", "/api/sandbox/deposit", body+"}").read(d)["tx_hash"].(string)
}

func (d *door) advance(by time.Duration) {
	d.Helper()
	d.ok("POST", "/api/sandbox/clock", fmt.Sprintf(`{"advance_seconds":%d}`, int64(by.Seconds())))
}

// scene is what the scenarios read of a payroll.
type scene struct {
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

func (s scene) deposits(status string) (n int) {
	for _, p := range s.Deposits {
		if p.Status == status {
			n++
		}
	}
	return n
}

func (d *door) look(payroll string) (v scene) {
	d.Helper()
	if err := json.Unmarshal([]byte(d.ok("GET", "/api/company/payrolls/"+payroll, "").text), &v); err != nil {
		d.Fatal(err)
	}
	return v
}

// until looks at a payroll until it is as wanted. Payouts that had to wait are looked at again after a minute.
func (d *door) until(payroll, what string, ok func(scene) bool) (last scene) {
	d.Helper()
	if !await(d.T, 90*time.Second, func() bool { last = d.look(payroll); return ok(last) }) {
		d.Fatalf("not in time: %s; it is %+v", what, last)
	}
	return last
}

func (d *door) fulfilled(payroll string) scene {
	d.Helper()
	last := d.until(payroll, "fulfilled", func(v scene) bool { return v.Status == "fulfilled" })
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

// inBooks reads the service's database.
func (d *door) inBooks(f func(context.Context, *db.Tx) error) {
	d.Helper()
	if err := d.s.DB().Read(d.Context(), f); err != nil {
		d.Fatal(err)
	}
}

// balance is what an account holds in bitcoin.
func (d *door) balance(c ledger.Code, dim string) money.Amount {
	d.Helper()
	return d.balanceIn(c, dim, money.BTC)
}

func (d *door) balanceIn(c ledger.Code, dim string, asset money.Asset) (a money.Amount) {
	d.Helper()
	d.inBooks(func(ctx context.Context, tx *db.Tx) (err error) {
		a, err = ledger.Balance(ctx, tx, d.seed.CompanyID, c, dim, asset)
		return err
	})
	return a
}

// funds is the company's balance in satoshis.
func (d *door) funds() int64 {
	d.Helper()
	return d.balance(ledger.CompanyFunds, "").Units()
}

func (d *door) wantFunds(want int64) {
	d.Helper()
	if got := d.funds(); got != want {
		d.Errorf("the company's balance is %d sat, want %d", got, want)
	}
}

func (d *door) sats(n json.Number) int64 {
	d.Helper()
	a, err := money.Parse(money.BTC, n.String())
	if err != nil {
		d.Fatal(err)
	}
	return a.Units()
}

func btc(sats int64) string { return money.New(money.BTC, sats).String() }

func (d *door) count(query string, args ...any) (n int64) {
	d.Helper()
	d.inBooks(func(ctx context.Context, tx *db.Tx) error { return tx.QueryRow(ctx, query, args...).Scan(&n) })
	return n
}

// effects counts what creating payrolls leaves behind.
func (d *door) effects() (n [5]int64) {
	d.Helper()
	for i, query := range []string{
		"SELECT COUNT(*) FROM payrolls", "SELECT COUNT(*) FROM payments", "SELECT COUNT(*) FROM quotes",
		"SELECT COUNT(*) FROM chain_addresses WHERE branch = 0", "SELECT COUNT(*) FROM events WHERE name = 'payroll.created'",
	} {
		n[i] = d.count(query)
	}
	return n
}

// nothing runs f and wants it to leave nothing behind.
func (d *door) nothing(f func()) {
	d.Helper()
	before := d.effects()
	f()
	if after := d.effects(); after != before {
		d.Errorf("payrolls, payments, quotes, addresses, events: %v before, %v after", before, after)
	}
}

func (d *door) checkBooks() {
	d.Helper()
	report, err := checkLedger(d.Context(), d.s)
	if err != nil || len(report.Problems) > 0 {
		d.Errorf("books: %v, %v", report.Problems, err)
	}
}

// pointers are the problems of an answer as "code pointer", in order.
func (d *door) pointers(r response) (all []string) {
	d.Helper()
	for _, e := range r.read(d)["errors"].([]any) {
		all = append(all, fmt.Sprintf("%v %v", e.(object)["code"], e.(object)["pointer"]))
	}
	return all
}

// stranger is another company with a key of its own.
func (d *door) stranger() (company string, other *door) {
	d.Helper()
	var key string
	err := d.s.DB().Write(d.Context(), func(ctx context.Context, tx *db.Tx) error {
		c, err := identity.CreateCompany(ctx, tx, identity.NewCompany{Name: "Stranger", Country: "US", Email: freshKey() + "@example.com"})
		if err != nil {
			return err
		}
		app, _, err := identity.CreateApp(ctx, tx, identity.Sandbox, identity.NewApp{CompanyID: c.ID, Name: "App", Scopes: identity.AllScopes()})
		if err != nil {
			return err
		}
		company = c.ID
		_, key, err = identity.CreateAPIKey(ctx, tx, identity.Sandbox, identity.NewAPIKey{CompanyID: c.ID, AppID: app.ID})
		return err
	})
	if err != nil {
		d.Fatal(err)
	}
	return company, d.as("Basic " + key)
}

// token is an Authorization of the seeded admin, through the seeded app.
func (d *door) token(scopes ...identity.Scope) string {
	d.Helper()
	var token string
	err := d.s.DB().Write(d.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
		_, token, err = identity.CreateAccessToken(ctx, tx, identity.Sandbox, identity.NewAccessToken{
			CompanyID: d.seed.CompanyID, AppID: sandbox.SeedID("app", "app"), UserID: sandbox.SeedID("usr", "admin"), Scopes: identity.NewScopes(scopes...),
		})
		return err
	})
	if err != nil {
		d.Fatal(err)
	}
	return "Bearer " + token
}
