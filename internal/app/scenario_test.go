package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
)

// What can go wrong with a pay run, seen from outside: each scenario is a client of a whole sandbox, and each leaves books
// that balance. They share a service, as companies do; none counts on what another has left.
func TestScenarios(t *testing.T) {
	dbtest.RunURL(t, func(t *testing.T, url string) {
		s := boot(t, url, func(c *Config) { c.ReadsPerSecond, c.WritesPerSecond = 0, 0 })
		for _, c := range []struct {
			name string
			run  func(*door)
		}{
			{"under and top-up", underThenTopUp},
			{"short by less than dust", shortByDust},
			{"over", overPaid},
			{"split deposit", splitDeposit},
			{"late and applied", lateApplied},
			{"late and short", lateAndShort},
			{"late and large", lateAndLarge},
			{"refresh", refreshAfterExpiry},
			{"replaced", replacedDeposit},
			{"reorganised before the release", reorgBeforeRelease},
			{"reorganised after the release", reorgAfterRelease},
			{"cancel, then deposit", cancelThenDeposit},
			{"half to a bank", halfToBank},
			{"same key again", sameKeyAgain},
			{"same key at once", sameKeyAtOnce},
			{"same key elsewhere", sameKeyElsewhere},
			{"no key", noKey},
			{"external id", externalID},
			{"amounts", amounts},
			{"a thousand payees", thousandPayees},
			{"no destination", noDestination},
			{"foreign company", foreignCompany},
			{"scope", missingScope},
			{"dead credentials", deadCredentials},
			{"body attacks", bodyAttacks},
			{"server fields", serverFields},
			{"methods", methods},
			{"injection", injection},
		} {
			t.Run(c.name, func(t *testing.T) {
				d := newDoor(t, s)
				c.run(d)
				d.checkBooks()
			})
		}
	})
}

// door is a client of the interface, with a key of the seeded company unless another is given.
type door struct {
	*testing.T
	s    *Service
	seed Seed
	auth string
}

func newDoor(t *testing.T, s *Service) *door {
	seed := sandboxSeed()
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

func (d *door) create(body string) demoCreated {
	d.Helper()
	var made demoCreated
	if err := json.Unmarshal([]byte(d.ok("POST", createPath, body, "Idempotency-Key", freshKey()).text), &made); err != nil {
		d.Fatal(err)
	}
	return made
}

// payTwo makes a payroll of two workers with an amount each.
func (d *door) payTwo(amount string) demoCreated {
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
	demoDetail
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

// until looks at a payroll until it is as wanted.
func (d *door) until(payroll, what string, ok func(scene) bool) (last scene) {
	d.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		if last = d.look(payroll); ok(last) {
			return last
		}
		if time.Now().After(deadline) {
			d.Fatalf("not in time: %s; it is %+v", what, last)
		}
		time.Sleep(30 * time.Millisecond)
	}
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
	if err := d.s.db.Read(d.Context(), f); err != nil {
		d.Fatal(err)
	}
}

func (d *door) balance(c ledger.Code, dim string) (a money.Amount) {
	d.Helper()
	d.inBooks(func(ctx context.Context, tx *db.Tx) (err error) {
		a, err = ledger.Balance(ctx, tx, d.seed.CompanyID, c, dim, money.BTC)
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
	report, err := d.s.checkLedger(d.Context())
	if err != nil || len(report.Problems) > 0 {
		d.Errorf("books: %v, %v", report.Problems, err)
	}
}

func underThenTopUp(d *door) {
	funds := d.funds()
	made := d.payTwo("250.00")
	d.deposit(made.PayrollID, "under", "")
	v := d.until(made.PayrollID, "a part is confirmed", func(v scene) bool { return v.FundingState == "partial" })
	if v.Status != "pending" || d.sats(v.Funded) >= d.sats(made.Quote.FundingAmount) {
		d.Errorf("%+v", v)
	}
	d.deposit(made.PayrollID, "exact", "")
	v = d.fulfilled(made.PayrollID)
	if len(v.Deposits) != 2 || v.FundingState != "funded" {
		d.Errorf("%+v", v)
	}
	d.wantFunds(funds)
}

// Nobody can send what is less than dust, so nobody is asked to.
func shortByDust(d *door) {
	funds := d.funds()
	made := d.payTwo("250.00")
	d.deposit(made.PayrollID, "exact", btc(d.sats(made.Quote.FundingAmount)-200))
	d.fulfilled(made.PayrollID)
	d.wantFunds(funds)
}

func overPaid(d *door) {
	funds := d.funds()
	made := d.payTwo("250.00")
	due := d.sats(made.Quote.FundingAmount)
	d.deposit(made.PayrollID, "over", "")
	if v := d.fulfilled(made.PayrollID); v.FundingState != "over" {
		d.Errorf("%+v", v)
	}
	surplus := due / 10
	d.wantFunds(funds + surplus)

	// A second full payment is the company's, whole.
	d.deposit(made.PayrollID, "exact", btc(due))
	d.until(made.PayrollID, "the second payment is confirmed", func(v scene) bool { return v.deposits("confirmed") == 2 })
	eventually(d.T, 10*time.Second, "it is the company's", func() bool { return d.funds() == funds+surplus+due })

	// The balance pays another run, and not more than it holds.
	wallet := `"funding_method":"wallet","funding_currency":"BTC",`
	d.refused(409, "insufficient_balance", "POST", createPath, pays(wallet, "99999.00", d.seed.Workers[0].UserID), "Idempotency-Key", freshKey())
	next := d.create(pays(wallet, "20.00", d.seed.Workers[0].UserID))
	d.fulfilled(next.PayrollID)
	d.wantFunds(funds + surplus + due - 40_400) // 20.20 USD at 50,000
}

func splitDeposit(d *door) {
	funds := d.funds()
	made := d.payTwo("250.00")
	due := d.sats(made.Quote.FundingAmount)
	part := due / 3
	d.deposit(made.PayrollID, "exact", btc(part))
	d.deposit(made.PayrollID, "exact", btc(part))
	d.deposit(made.PayrollID, "exact", btc(due-2*part))
	if v := d.fulfilled(made.PayrollID); v.deposits("confirmed") != 3 || v.FundingState != "funded" {
		d.Errorf("%+v", v)
	}
	d.wantFunds(funds)
}

// A little late money is applied at the present price without being asked.
func lateApplied(d *door) {
	funds := d.funds()
	made := d.payTwo("250.00")
	d.deposit(made.PayrollID, "late", "")
	d.fulfilled(made.PayrollID)
	d.wantFunds(funds)
	if n := d.count("SELECT COUNT(*) FROM events WHERE object_id = $1 AND name = 'payroll.funding_late'", made.PayrollID); n != 1 {
		d.Errorf("the company was told %d times that the money was late, want once", n)
	}
	if got := d.balance(ledger.SuspenseLate, made.PayrollID); !got.IsZero() {
		d.Errorf("%s BTC still wait for a decision", got)
	}
}

// Late money that is not enough counts, and a new quote asks for the rest of it only.
func lateAndShort(d *door) {
	funds := d.funds()
	made := d.payTwo("250.00")
	due := d.sats(made.Quote.FundingAmount)
	first := d.look(made.PayrollID).Quote.ID
	d.advance(31 * time.Minute)
	d.deposit(made.PayrollID, "under", "")
	v := d.until(made.PayrollID, "a new quote for the rest", func(v scene) bool { return v.Quote.ID != first })
	if v.Status != "pending" || v.FundingState != "partial" || d.sats(v.Funded) != due-due/10 || d.sats(v.Quote.Amount) != due/10 {
		d.Errorf("%+v, want a quote of %s", v, btc(due/10))
	}
	again := d.ok("POST", "/api/company/payroll/quote/refresh", `{"payroll_id":"`+made.PayrollID+`"}`).read(d)["quotes"].([]any)
	if len(again) != 1 || again[0].(object)["quote_id"] != v.Quote.ID {
		d.Errorf("a refresh gives %v, want the active quote %s", again, v.Quote.ID)
	}
	d.deposit(made.PayrollID, "exact", "")
	d.fulfilled(made.PayrollID)
	d.wantFunds(funds)
}

// Much late money is safe and waits until the company asks for a price.
func lateAndLarge(d *door) {
	funds := d.funds()
	made := d.payTwo("1000.00")
	due := d.sats(made.Quote.FundingAmount)
	d.deposit(made.PayrollID, "late", "")
	v := d.until(made.PayrollID, "late money", func(v scene) bool { return v.FundingState == "late" })
	if v.Status != "pending" {
		d.Errorf("%+v", v)
	}
	if got := d.balance(ledger.SuspenseLate, made.PayrollID); got.Units() != due {
		d.Errorf("%s BTC wait for a decision, want %s", got, btc(due))
	}
	quotes := d.ok("POST", "/api/company/payroll/quote/refresh", `{"payroll_id":"`+made.PayrollID+`"}`).read(d)["quotes"].([]any)
	if len(quotes) != 0 {
		d.Errorf("nothing is due, and yet there are the quotes %v", quotes)
	}
	d.fulfilled(made.PayrollID)
	d.wantFunds(funds)
}

func refreshAfterExpiry(d *door) {
	made := d.payTwo("250.00")
	refresh := func() object {
		d.Helper()
		quotes := d.ok("POST", "/api/company/payroll/quote/refresh", `{"payroll_id":"`+made.PayrollID+`"}`).read(d)["quotes"].([]any)
		if len(quotes) != 1 {
			d.Fatalf("quotes %v", quotes)
		}
		return quotes[0].(object)
	}
	first := d.look(made.PayrollID).Quote.ID
	if q := refresh(); q["quote_id"] != first {
		d.Errorf("an active quote is refreshed to %v", q)
	}
	d.advance(31 * time.Minute)
	var second object
	// The quote ends once the chain has been watched up to its end.
	eventually(d.T, 15*time.Second, "a new quote", func() bool { second = refresh(); return second["quote_id"] != first })
	if at := second["funding_details"].(object)["address"]; at != made.Quote.FundingDetails.Address {
		d.Errorf("the address moved from %s to %v", made.Quote.FundingDetails.Address, at)
	}
	d.deposit(made.PayrollID, "exact", "")
	d.refusedOrRefreshed(made.PayrollID)
	d.fulfilled(made.PayrollID)
	d.refused(409, "invalid_state", "POST", "/api/company/payroll/quote/refresh", `{"payroll_id":"`+made.PayrollID+`"}`)
}

// refusedOrRefreshed races a refresh against a payment on its way: it may come before the payment is seen, and must not
// break anything.
func (d *door) refusedOrRefreshed(payroll string) {
	d.Helper()
	r := d.do("POST", "/api/company/payroll/quote/refresh", `{"payroll_id":"`+payroll+`"}`)
	if code := r.read(d)["code"]; r.status != 200 && (r.status != 409 || code != "quote_locked" && code != "invalid_state") {
		d.Errorf("%d %s", r.status, r.text)
	}
}

func replacedDeposit(d *door) {
	funds := d.funds()
	made := d.payTwo("250.00")
	txid := d.deposit(made.PayrollID, "replaced", "")
	v := d.until(made.PayrollID, "the payment is gone", func(v scene) bool { return v.deposits("replaced") == 1 && v.FundingState == "none" })
	if v.Status != "pending" || d.sats(v.Funded) != 0 || v.Deposits[0].TxHash != txid {
		d.Errorf("%+v", v)
	}
	d.deposit(made.PayrollID, "exact", "")
	if v := d.fulfilled(made.PayrollID); v.deposits("confirmed") != 1 || v.deposits("replaced") != 1 {
		d.Errorf("%+v", v)
	}
	d.wantFunds(funds)
}

// Two confirmations are wanted, so a block that is thrown out has released nothing.
func reorgBeforeRelease(d *door) {
	funds := d.funds()
	made := d.payTwo("600.00")
	d.deposit(made.PayrollID, "reorged", "")
	v := d.fulfilled(made.PayrollID)
	if v.deposits("confirmed") != 1 || len(v.Deposits) != 1 {
		d.Errorf("%+v", v)
	}
	received := 0
	for _, step := range v.Timeline {
		if step.ObjectID == made.PayrollID && step.To == "received" {
			received++
		}
	}
	if received != 1 {
		d.Errorf("received %d times, want once: %+v", received, v.Timeline)
	}
	d.wantFunds(funds)
}

// One confirmation is enough, so the payroll may have been released when its block is thrown out. It ends the same.
func reorgAfterRelease(d *door) {
	funds := d.funds()
	made := d.payTwo("100.00")
	d.deposit(made.PayrollID, "reorged", "")
	// The payouts may be proven before the funding is back; the debt is settled when it is.
	d.until(made.PayrollID, "fulfilled, and nothing owed", func(v scene) bool {
		return v.Status == "fulfilled" && v.deposits("confirmed") == 1 && d.balance(ledger.DueFromCustomer, "").IsZero()
	})
	d.fulfilled(made.PayrollID)
	d.wantFunds(funds)
}

func cancelThenDeposit(d *door) {
	funds := d.funds()
	made := d.payTwo("250.00")
	due := d.sats(made.Quote.FundingAmount)
	d.deposit(made.PayrollID, "under", "")
	d.until(made.PayrollID, "a part is confirmed", func(v scene) bool { return v.FundingState == "partial" })
	for range 2 {
		if m := d.ok("POST", "/api/company/payroll/cancel", `{"payroll_id":"`+made.PayrollID+`"}`).read(d); m["status"] != "cancelled" {
			d.Errorf("%v", m)
		}
	}
	d.wantFunds(funds + due - due/10)
	d.deposit(made.PayrollID, "exact", btc(due))
	d.until(made.PayrollID, "the payment is confirmed", func(v scene) bool { return v.deposits("confirmed") == 2 })
	eventually(d.T, 10*time.Second, "it is the company's", func() bool { return d.funds() == funds+2*due-due/10 })
	v := d.look(made.PayrollID)
	if v.Status != "cancelled" || slices.ContainsFunc(v.Payments, func(p demoPayment) bool { return p.Status != "cancelled" || len(p.Outputs) > 0 }) {
		d.Errorf("%+v", v)
	}
	d.refused(409, "invalid_state", "POST", "/api/company/payroll/quote/refresh", `{"payroll_id":"`+made.PayrollID+`"}`)

	done := d.payTwo("250.00")
	d.deposit(done.PayrollID, "exact", "")
	d.fulfilled(done.PayrollID)
	d.refused(409, "invalid_state", "POST", "/api/company/payroll/cancel", `{"payroll_id":"`+done.PayrollID+`"}`)
}

func halfToBank(d *door) {
	made := d.create(pays("", "200.00", d.seed.Workers[bankWorker].UserID))
	d.deposit(made.PayrollID, "exact", "")
	half := func(v scene, currency string) (o demoOutput) {
		for _, p := range v.Payments {
			for _, x := range p.Outputs {
				if x.Currency == currency {
					o = x
				}
			}
		}
		return o
	}
	v := d.until(made.PayrollID, "the Bitcoin half has arrived", func(v scene) bool { return half(v, "BTC").Status == "fulfilled" })
	if o := half(v, "BTC"); o.Volume != "0.00200000" || o.TxHash == "" {
		d.Errorf("%+v", o)
	}
	if o := half(v, "USD"); o.Volume != "100.00" || o.Status != "queued" || o.TxHash != "" {
		d.Errorf("%+v", o)
	}
	if v.Status != "released" || len(v.Payments) != 1 || len(v.Payments[0].Outputs) != 2 || v.Payments[0].Status != "released" {
		d.Errorf("%+v", v)
	}
}

func sameKeyAgain(d *door) {
	key, body := freshKey(), pays("", "25.00", d.seed.Workers[0].UserID)
	first := d.ok("POST", createPath, body, "Idempotency-Key", key)
	if first.header.Get("Idempotent-Replayed") != "" {
		d.Error("a first answer is marked as a replay")
	}
	d.nothing(func() {
		for _, same := range []string{body, " " + strings.ReplaceAll(body, ":", " : ")} {
			again := d.ok("POST", createPath, same, "Idempotency-Key", key)
			if again.text != first.text || again.header.Get("Idempotent-Replayed") != "true" {
				d.Errorf("%s, replayed %q; want %s", again.text, again.header.Get("Idempotent-Replayed"), first.text)
			}
		}
		before := d.do("GET", "/api/company/payrolls/"+first.read(d)["payroll_id"].(string), "").text
		d.refused(422, "idempotency_key_reused", "POST", createPath, pays("", "25.01", d.seed.Workers[0].UserID), "Idempotency-Key", key)
		if after := d.do("GET", "/api/company/payrolls/"+first.read(d)["payroll_id"].(string), "").text; after != before {
			d.Errorf("%s\n%s", before, after)
		}
	})
}

func sameKeyAtOnce(d *door) {
	before := d.effects()
	key, body := freshKey(), pays("", "25.00", d.seed.Workers[0].UserID)
	answers := make([]response, 100)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i] = d.send("POST", createPath, body, "Idempotency-Key", key) })
	}
	all.Wait()
	ids := map[string]bool{}
	fresh := 0
	for _, r := range answers {
		switch {
		case r.err != nil:
			d.Error(r.err)
		case r.status == 200:
			ids[r.text] = true
			if r.header.Get("Idempotent-Replayed") == "" {
				fresh++
			}
		case r.status == 409 && r.read(d)["code"] == "idempotency_in_progress" && r.header.Get("Retry-After") != "":
		default:
			d.Errorf("%d %s", r.status, r.text)
		}
	}
	if len(ids) != 1 || fresh != 1 {
		d.Errorf("%d different answers, %d of them not replayed", len(ids), fresh)
	}
	after := d.effects()
	for i := range after {
		if after[i]-before[i] != 1 {
			d.Errorf("payrolls, payments, quotes, addresses, events: %v before, %v after; want one more of each", before, after)
			break
		}
	}
}

func sameKeyElsewhere(d *door) {
	key, body := freshKey(), pays("", "25.00", d.seed.Workers[0].UserID)
	first := d.ok("POST", createPath, body, "Idempotency-Key", key)
	id := first.read(d)["payroll_id"].(string)

	// Another operation has its own keys.
	refreshed := d.ok("POST", "/api/company/payroll/quote/refresh", `{"payroll_id":"`+id+`"}`, "Idempotency-Key", key)
	if refreshed.header.Get("Idempotent-Replayed") != "" || refreshed.text == first.text {
		d.Errorf("%s", refreshed.text)
	}
	// So has another user of the same app, and another company.
	if by := d.as(d.token(identity.CompanyWorkersPay)).ok("POST", createPath, body, "Idempotency-Key", key); by.read(d)["payroll_id"] == id {
		d.Error("a token gets the answer of the API key")
	}
	_, stranger := d.stranger()
	d.nothing(func() {
		r := stranger.refused(422, "invalid_parameter", "POST", createPath, body, "Idempotency-Key", key)
		if strings.Contains(r.text, id) || r.header.Get("Idempotent-Replayed") != "" {
			d.Errorf("a stranger gets %s", r.text)
		}
	})
}

func noKey(d *door) {
	body := pays("", "25.00", d.seed.Workers[0].UserID)
	d.nothing(func() { d.refused(400, "idempotency_key_required", "POST", createPath, body) })
	d.as(d.token(identity.CompanyWorkersPay)).ok("POST", createPath, body)
}

func externalID(d *door) {
	user := d.as(d.token(identity.CompanyWorkersPay))
	body := pays(`"external_id":"`+freshKey()+`",`, "25.00", d.seed.Workers[0].UserID)
	id := user.ok("POST", createPath, body).read(d)["payroll_id"]
	d.nothing(func() {
		if m := user.refused(409, "external_id_conflict", "POST", createPath, body).read(d); m["payroll_id"] != id {
			d.Errorf("the answer names %v, want %v", m["payroll_id"], id)
		}
	})

	body = pays(`"external_id":"`+freshKey()+`",`, "25.00", d.seed.Workers[0].UserID)
	before := d.effects()
	answers := make([]response, 10)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i] = user.send("POST", createPath, body) })
	}
	all.Wait()
	made := 0
	for _, r := range answers {
		switch {
		case r.err != nil:
			d.Error(r.err)
		case r.status == 200:
			made++
		case r.status != 409 || r.read(d)["code"] != "external_id_conflict":
			d.Errorf("%d %s", r.status, r.text)
		}
	}
	if after := d.effects(); made != 1 || after[0]-before[0] != 1 || after[4]-before[4] != 1 {
		d.Errorf("%d succeeded; %v before, %v after", made, before, after)
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

// Every bad amount is told at once, and one good item among them does not help.
func amounts(d *door) {
	for _, c := range []struct {
		currency, code string
		amounts        []string
	}{
		{"USD", "amount_precision", []string{"1.001", "1.0000000000000000001", "0.001"}},
		{"JPY", "amount_precision", []string{"1000.5", "0.1"}},
		{"KWD", "amount_precision", []string{"10.0001"}},
		{"USD", "amount_not_positive", []string{"0", "-0", "-5", "0.00", "-0.00"}},
	} {
		var items, want []string
		for i, amount := range append(c.amounts, "100") {
			items = append(items, `{"user_id":"`+d.seed.Workers[0].UserID+`","amount_fiat":`+amount+`}`)
			if i < len(c.amounts) {
				want = append(want, fmt.Sprintf("%s /to_pay/%d/amount_fiat", c.code, i))
			}
		}
		body := `{"currency":"` + c.currency + `","to_pay":[` + strings.Join(items, ",") + `]}`
		d.nothing(func() {
			r := d.refused(422, c.code, "POST", createPath, body, "Idempotency-Key", freshKey())
			if got := d.pointers(r); !slices.Equal(got, want) {
				d.Errorf("%s: problems %q, want %q", c.currency, got, want)
			}
		})
	}
	d.nothing(func() {
		huge := pays("", "99999999999999999999", d.seed.Workers[0].UserID)
		d.refused(422, "amount_too_large", "POST", createPath, huge, "Idempotency-Key", freshKey())
		sum := pays("", "90000000000000000.00", d.seed.Workers[0].UserID, d.seed.Workers[1].UserID)
		d.refused(422, "amount_too_large", "POST", createPath, sum, "Idempotency-Key", freshKey())
	})
	if made := d.create(pays(`"currency":"JPY",`, "10000", d.seed.Workers[0].UserID)); made.Volume != "10000" || made.Total != "10100" {
		d.Errorf("%+v", made)
	}
	if made := d.create(pays(`"currency":"KWD",`, "10.005", d.seed.Workers[0].UserID)); made.Volume != "10.005" || made.Fees != "0.100" {
		d.Errorf("%+v", made)
	}
}

// The total is the volume and one rounded fee, to the cent.
func thousandPayees(d *door) {
	var items []string
	var cents int64
	for i := range int64(1000) {
		c := 101 + 7*i
		cents += c
		items = append(items, fmt.Sprintf(`{"user_id":"%s","amount_fiat":%s}`, d.seed.Workers[i%2].UserID, money.New(money.USD, c)))
	}
	made := d.create(`{"to_pay":[` + strings.Join(items, ",") + `]}`)
	fees := cents / 100
	if rest := cents % 100; rest > 50 || rest == 50 && fees%2 == 1 { // half to even
		fees++
	}
	want := [3]string{money.New(money.USD, cents).String(), money.New(money.USD, fees).String(), money.New(money.USD, cents+fees).String()}
	if got := [3]string{made.Volume.String(), made.Fees.String(), made.Total.String()}; got != want {
		d.Errorf("volume, fees, total: %v, want %v", got, want)
	}
	var parts struct {
		Payments []struct {
			Amount json.Number `json:"amount_fiat"`
			Fees   json.Number `json:"fees"`
		} `json:"payments"`
	}
	if err := json.Unmarshal([]byte(d.ok("GET", "/api/company/payrolls/"+made.PayrollID, "").text), &parts); err != nil {
		d.Fatal(err)
	}
	sum := money.Zero(money.USD)
	for _, p := range parts.Payments {
		for _, n := range []json.Number{p.Amount, p.Fees} {
			a, err := money.Parse(money.USD, n.String())
			if err != nil {
				d.Fatal(err)
			}
			if sum, err = sum.Add(a); err != nil {
				d.Fatal(err)
			}
		}
	}
	if len(parts.Payments) != 1000 || sum.String() != want[2] {
		d.Errorf("%d payments and their fees add up to %s, want %s", len(parts.Payments), sum, want[2])
	}

	// Rounding a fee at half a cent goes to the even one: 1 % of 0.50 is 0.00 or 0.01, of 1.50 it is 0.02.
	for amount, fee := range map[string]json.Number{"12.50": "0.12", "13.50": "0.14"} {
		if got := d.create(pays("", amount, d.seed.Workers[0].UserID)); got.Fees != fee {
			d.Errorf("the fee of %s is %s, want %s", amount, got.Fees, fee)
		}
	}
}

func noDestination(d *door) {
	made := d.ok("POST", "/api/company/"+d.seed.CompanyID+"/recipients/create",
		`{"first_name":"No","last_name":"Where","country":"US","email":"`+freshKey()+`@example.com"}`, "Idempotency-Key", freshKey()).read(d)
	id := made["recipient_id"].(string)
	d.nothing(func() {
		r := d.refused(422, "no_distribution", "POST", createPath, pays("", "25.00", id, d.seed.Workers[0].UserID, id), "Idempotency-Key", freshKey())
		if got, want := d.pointers(r), []string{"no_distribution /to_pay/0/user_id", "no_distribution /to_pay/2/user_id"}; !slices.Equal(got, want) {
			d.Errorf("problems %q, want %q", got, want)
		}
	})
}

// stranger is another company with a key of its own.
func (d *door) stranger() (company string, other *door) {
	d.Helper()
	var key string
	err := d.s.db.Write(d.Context(), func(ctx context.Context, tx *db.Tx) error {
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
	err := d.s.db.Write(d.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
		_, token, err = identity.CreateAccessToken(ctx, tx, identity.Sandbox, identity.NewAccessToken{
			CompanyID: d.seed.CompanyID, AppID: seedID("app", "app"), UserID: seedID("usr", "admin"), Scopes: identity.NewScopes(scopes...),
		})
		return err
	})
	if err != nil {
		d.Fatal(err)
	}
	return "Bearer " + token
}

// What is another company's and what does not exist look the same, to the byte.
func foreignCompany(d *door) {
	made := d.payTwo("25.00")
	before := d.do("GET", "/api/company/payrolls/"+made.PayrollID, "").text
	payment := d.look(made.PayrollID).Payments[0].ID
	company, stranger := d.stranger()
	ada, person := d.seed.Workers[0].UserID, d.seed.Recipients[0].RecipientID
	missing := strings.NewReplacer(d.seed.CompanyID, seedID("com", "none"), made.PayrollID, seedID("prl", "none"), payment, seedID("pmt", "none"),
		person, seedID("rec", "none"))
	d.nothing(func() {
		for _, c := range [][3]string{
			{"GET", "/api/company/payrolls/" + made.PayrollID, ""},
			{"GET", "/api/company/payrolls?company_id=" + d.seed.CompanyID, ""},
			{"GET", "/api/company/workers?company_id=" + d.seed.CompanyID, ""},
			{"GET", "/api/company/recipients?company_id=" + d.seed.CompanyID, ""},
			{"GET", "/api/company/" + d.seed.CompanyID + "/recipients/" + person + "/distribution", ""},
			{"GET", "/api/company/" + company + "/recipients/" + person + "/distribution", ""},
			{"POST", createPath, pays(`"company_id":"`+d.seed.CompanyID+`",`, "25.00", ada)},
			{"POST", "/api/company/payroll/preview", pays(`"company_id":"`+d.seed.CompanyID+`",`, "25.00", ada)},
			{"POST", "/api/company/payroll/quote/refresh", `{"payroll_id":"` + made.PayrollID + `"}`},
			{"POST", "/api/company/payroll/quote/refresh", `{"company_id":"` + d.seed.CompanyID + `","payroll_id":"` + made.PayrollID + `"}`},
			{"POST", "/api/company/payroll/cancel", `{"payroll_id":"` + made.PayrollID + `"}`},
			{"POST", "/api/company/" + d.seed.CompanyID + "/recipients/create", `{"first_name":"A","last_name":"B","country":"US","email":"a@b.example"}`},
			{"POST", "/api/sandbox/deposit", `{"payroll_id":"` + made.PayrollID + `","kind":"exact"}`},
			{"POST", "/api/sandbox/payout-failure", `{"subpayroll_id":"` + payment + `"}`},
		} {
			headers := []string{"X-Request-Id", "same", "Idempotency-Key", ""}
			if c[0] == "POST" {
				headers[3] = freshKey()
			}
			foreign := stranger.refused(404, "not_found", c[0], c[1], c[2], headers...)
			none := stranger.refused(404, "not_found", c[0], missing.Replace(c[1]), missing.Replace(c[2]), headers...)
			if foreign.text != none.text {
				d.Errorf("%s %s: a stranger sees the difference of\n%s\n%s", c[0], c[1], foreign.text, none.text)
			}
		}
	})
	if after := d.do("GET", "/api/company/payrolls/"+made.PayrollID, "").text; after != before {
		d.Errorf("a stranger changed it:\n%s\n%s", before, after)
	}
}

func missingScope(d *door) {
	weak := d.as(d.token(identity.CompanyDetail))
	weak.ok("GET", "/api/company", "")
	d.nothing(func() {
		for _, c := range [][2]string{{"POST", createPath}, {"POST", "/api/company/payroll/cancel"}, {"GET", "/api/company/payrolls"}} {
			body := ""
			if c[0] == "POST" {
				body = pays("", "25.00", d.seed.Workers[0].UserID)
			}
			r := weak.refused(403, "insufficient_scope", c[0], c[1], body)
			if got := strings.Join(r.header.Values("WWW-Authenticate"), ", "); !strings.Contains(got, `scope="c_company_workers_pay"`) {
				d.Errorf("WWW-Authenticate %q does not name the scope", got)
			}
		}
	})
}

func deadCredentials(d *door) {
	var keyID, key string
	write := func(f func(context.Context, *db.Tx) error) {
		if err := d.s.db.Write(d.Context(), f); err != nil {
			d.Fatal(err)
		}
	}
	write(func(ctx context.Context, tx *db.Tx) (err error) {
		keyID, key, err = identity.CreateAPIKey(ctx, tx, identity.Sandbox, identity.NewAPIKey{CompanyID: d.seed.CompanyID, AppID: seedID("app", "app")})
		return err
	})
	d.as("Basic "+key).ok("GET", "/api/company", "")
	write(func(ctx context.Context, tx *db.Tx) error {
		return identity.RevokeAPIKey(ctx, tx, d.seed.CompanyID, keyID)
	})
	for _, auth := range []string{
		"Basic " + key, "Bearer " + d.seed.APIKey, "Basic " + strings.Replace(d.seed.APIKey, "sandbox", "production", 1), "Basic x' OR '1'='1", "",
	} {
		r := d.refused(401, "invalid_token", "GET", "/api/company", "", "Authorization", auth)
		if r.header.Get("WWW-Authenticate") == "" {
			d.Errorf("%q is refused without WWW-Authenticate", auth)
		}
	}
}

func bodyAttacks(d *door) {
	item := `{"user_id":"` + d.seed.Workers[0].UserID + `","amount_fiat":25.00}`
	good := `{"to_pay":[` + item + `]}`
	var many bytes.Buffer
	many.WriteString(`{"to_pay":[` + item + `]`)
	for i := range 500_000 {
		fmt.Fprintf(&many, `,"k%d":0`, i)
	}
	many.WriteString(`}`)
	post := func(status int, code, body string, headers ...string) response {
		d.Helper()
		began := time.Now()
		r := d.refused(status, code, "POST", createPath, body, append([]string{"Idempotency-Key", freshKey()}, headers...)...)
		if took := time.Since(began); took > 3*time.Second {
			d.Errorf("a body of %d bytes took %s", len(body), took)
		}
		return r
	}
	d.nothing(func() {
		post(400, "malformed_json", strings.Repeat(`{"to_pay":`, 10_000)+"1"+strings.Repeat("}", 10_000))
		post(400, "malformed_json", strings.Repeat("[", 1<<20))
		post(422, "unknown_field", many.String())
		post(400, "malformed_json", `{"to_pay":[`+item+`],"to_pay":[]}`)
		post(400, "malformed_json", `{"to_pay":[`+strings.Replace(item, "}", `,"amount_fiat":1}`, 1)+`]}`)
		post(400, "malformed_json", `{"to_pay":[`+strings.Replace(item, "}", `,"amount\u005ffiat":1}`, 1)+`]}`)
		post(400, "malformed_json", good+good)
		if got := d.pointers(post(422, "unknown_field", `{"to_pay":[`+strings.Replace(item, "}", `,"amount":1}`, 1)+`]}`)); got[0] != "unknown_field /to_pay/0/amount" {
			d.Errorf("problems %q", got)
		}
		for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-16", "application/jsonx", ""} {
			post(415, "unsupported_media_type", good, "Content-Type", kind)
		}
		post(415, "unsupported_media_type", good, "Content-Encoding", "gzip")
		post(422, "invalid_type", `[`+good+`]`)
		post(422, "invalid_type", strings.Replace(good, "25.00", `"25.00"`, 1))
		post(422, "missing_field", `{"to_pay":[{"user_id":"`+d.seed.Workers[0].UserID+`","amount_fiat":null}]}`)
		post(413, "payload_too_large", `{"to_pay":[`+strings.Repeat(" ", 8<<20)+item+`]}`)
	})
	// The service is none the worse for it.
	d.create(good)
}

// What the service decides cannot be sent along.
func serverFields(d *door) {
	user := d.seed.Workers[0].UserID
	d.nothing(func() {
		for _, member := range []string{`"status":"fulfilled"`, `"fees":0`, `"fees":-5`, `"rate":1`, `"funding_state":"funded"`, `"payroll_id":"prl_1"`, `"total":1`} {
			name, _, _ := strings.Cut(strings.TrimPrefix(member, `"`), `"`)
			r := d.refused(422, "unknown_field", "POST", createPath, pays(member+",", "25.00", user), "Idempotency-Key", freshKey())
			if got := d.pointers(r); len(got) != 1 || got[0] != "unknown_field /"+name {
				d.Errorf("problems %q", got)
			}
		}
		for _, member := range []string{`"fees":-5`, `"status":"fulfilled"`, `"distribution_id":"dst_1"`} {
			body := `{"to_pay":[{"user_id":"` + user + `","amount_fiat":25,` + member + `}]}`
			d.refused(422, "unknown_field", "POST", createPath, body, "Idempotency-Key", freshKey())
		}
	})
	// A premium payee costs what the contract says, 2 %, and never less.
	made := d.create(`{"to_pay":[{"user_id":"` + user + `","amount_fiat":100,"is_premium":true},{"user_id":"` + user + `","amount_fiat":100,"is_premium":false}]}`)
	if made.Fees != "3.00" || made.Total != "203.00" {
		d.Errorf("%+v", made)
	}
}

func methods(d *door) {
	d.nothing(func() {
		for _, method := range []string{"GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"} {
			r := d.do(method, createPath, "", "X-HTTP-Method-Override", "POST", "X-Method-Override", "POST")
			if r.status != http.StatusMethodNotAllowed || r.header.Get("Allow") != "POST" {
				d.Errorf("%s: %d, Allow %q", method, r.status, r.header.Get("Allow"))
			}
		}
		body := pays("", "25.00", d.seed.Workers[0].UserID)
		r := d.do("POST", "/api/company/payrolls", body, "Idempotency-Key", freshKey(), "X-HTTP-Method-Override", "GET")
		if r.status != http.StatusMethodNotAllowed || r.header.Get("Allow") != "GET, HEAD" {
			d.Errorf("POST on a list: %d, Allow %q", r.status, r.header.Get("Allow"))
		}
	})
}

func injection(d *door) {
	d.payTwo("25.00")
	evil := []string{"' OR '1'='1", "'; DROP TABLE payrolls; --", `" OR ""="`, "%' OR 1=1 --", "$1", "?1", "1;SELECT pg_sleep(9)--"}
	escape := func(s string) string {
		var b strings.Builder
		for i := range len(s) {
			fmt.Fprintf(&b, "%%%02X", s[i])
		}
		return b.String()
	}
	d.nothing(func() {
		for _, text := range evil {
			r := d.ok("GET", "/api/company/payrolls?external_id="+escape(text), "")
			if rows := r.read(d)["data"].([]any); len(rows) != 0 {
				d.Errorf("%q finds %d payrolls", text, len(rows))
			}
			if rows := d.ok("GET", "/api/company/recipients?search="+escape(text), "").read(d)["data"].([]any); len(rows) != 0 {
				d.Errorf("%q finds %d recipients", text, len(rows))
			}
			d.refused(422, "invalid_parameter", "GET", "/api/company/payrolls?status="+escape(text), "")
			d.refused(404, "not_found", "GET", "/api/company/payrolls/"+escape(text), "")
			d.refused(404, "not_found", "GET", "/api/company/payrolls?company_id="+escape(text), "")
			for _, name := range []string{"sort_by", "sort_by_dir"} {
				if r := d.do("GET", "/api/company/recipients?"+name+"="+escape(text), ""); r.status != 422 {
					d.Errorf("%s=%s: %d %.300s", name, text, r.status, r.text)
				}
			}
			quoted, err := json.Marshal(text)
			if err != nil {
				d.Fatal(err)
			}
			d.refused(404, "not_found", "POST", "/api/company/payroll/cancel", `{"payroll_id":`+string(quoted)+`}`)
		}
		d.refused(404, "not_found", "POST", "/api/company/payroll/cancel", `{"payroll_id":"x"}`, "Idempotency-Key", "';DROP/**/TABLE/**/idempotency;--")
		d.refused(400, "idempotency_key_invalid", "POST", createPath, pays("", "25.00", d.seed.Workers[0].UserID), "Idempotency-Key", "' OR '1'='1")
	})
	// Text is only text: it is stored and found as it is.
	text := "O'Brien'); DROP TABLE payments; -- %_ " + freshKey()
	quoted, err := json.Marshal(text)
	if err != nil {
		d.Fatal(err)
	}
	d.create(pays(`"external_id":`+string(quoted)+`,`, "25.00", d.seed.Workers[0].UserID))
	if rows := d.ok("GET", "/api/company/payrolls?external_id="+escape(text), "").read(d)["data"].([]any); len(rows) != 1 || rows[0].(object)["external_id"] != text {
		d.Errorf("%v", rows)
	}
}
