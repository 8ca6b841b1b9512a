package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
)

// send sends the example request of an operation after change has modified it, and checks the response against the
// contract.
func (b *fixture) send(s http.Handler, o *operation, ids map[string]string, change func(*http.Request)) reply {
	b.t.Helper()
	path, body := o.wellFormed(ids)
	if query := o.query(ids); query != "" {
		path += "?" + query
	}
	r := httptest.NewRequest(o.method, path, strings.NewReader(body))
	if body == "" {
		r = httptest.NewRequest(o.method, path, nil)
	} else {
		r.Header.Set("Content-Type", "application/json")
	}
	if o.scope != public {
		r.Header.Set("Authorization", "Basic "+b.key)
	}
	if o.keyRequired {
		r.Header.Set("Idempotency-Key", "covered")
	}
	change(r)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if err := theContract().Check(r, []byte(body), w.Code, w.Header(), w.Body.Bytes()); err != nil {
		b.t.Errorf("%s: the contract: %v", o.name, err)
	}
	return reply{w.Code, w.Header(), w.Body.String()}
}

// query returns the required query parameters.
func (o *operation) query(ids map[string]string) string {
	var parts []string
	for _, p := range o.Parameters {
		if p.In == "query" && p.Required {
			parts = append(parts, p.Name+"="+idOf(ids, p.Name))
		}
	}
	return strings.Join(parts, "&")
}

// Every operation returns the errors that all have in common: those before authorization, those of wrong idempotency
// keys, and internal ones.
func TestCommonErrorsOfEveryOperation(t *testing.T) {
	b := newFullFixture(t, sqlite(t))
	all, schemas := operations(t)
	ids := map[string]string{"company_id": b.company, "user_id": b.user("Ada")}
	want := func(o *operation, got reply, status int, code string) {
		t.Helper()
		if got.status != status || !strings.Contains(got.text, `"code":"`+code+`"`) {
			t.Errorf("%s: %d %.300s, want %d %s", o.name, got.status, got.text, status, code)
		}
	}
	nothing := func(*http.Request) {}
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Add(name, value) }
	}
	server := func(change func(*Deps), with error) *server {
		deps := b.server.Deps
		change(&deps)
		table := slices.Clone(routes)
		for i := range table {
			h := &table[i].handler
			if h.preprocess = nil; with != nil {
				h.run = func(context.Context, *db.Tx, *request, any) (any, error) { return nil, with }
			}
		}
		return newServer(deps, table)
	}
	same := func(*Deps) {}
	plain := server(same, nil)
	elsewhere := server(func(d *Deps) { d.Hosts = []string{"api.example"} }, nil)
	limited := server(func(d *Deps) { d.Reads, d.Writes = 0.1, 0.1 }, nil)
	broken, late, full := server(same, errors.New("a cause for the log")), server(same, context.DeadlineExceeded),
		server(same, db.ErrStorage)
	plain.duplicateWait = time.Millisecond
	for _, rt := range operationsRoutes {
		all = append(all, &operation{route: rt})
	}
	by, err := b.server.authenticate((&http.Request{Header: http.Header{"Authorization": {"Basic " + b.key}}}).
		WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		want(o, b.send(plain, o, ids, header("Api-Version", "1.0")), 400, "unsupported_version")
		if !anyHost(o.path) {
			want(o, b.send(elsewhere, o, ids, nothing), 421, "misdirected")
		}
		if o.handler.run == nil {
			continue
		}
		want(o, b.send(broken, o, ids, nothing), 500, "internal")
		want(o, b.send(late, o, ids, nothing), 503, "retry_later")
		want(o, b.send(full, o, ids, nothing), 503, "storage_unavailable")
		if o.scope != public {
			want(o, b.send(plain, o, ids, header("Authorization", "Basic x")), 400, "duplicate_header")
			b.send(limited, o, ids, nothing) // uses up the limit
			want(o, b.send(limited, o, ids, nothing), 429, "rate_limited")
		}
		if o.RequestBody.Content != nil {
			want(o, b.send(plain, o, ids, func(r *http.Request) {
				r.Header.Set("Content-Type", "text/plain")
				r.ContentLength = 1
			}), 415, "unsupported_media_type")
			want(o, b.send(plain, o, ids, func(r *http.Request) {
				r.Header.Set("Content-Type", "application/json")
				r.ContentLength = o.maxBody() + 1
			}), 413, "payload_too_large")
			want(o, b.send(plain, o, ids, func(r *http.Request) {
				broken := httptest.NewRequest(o.method, "/", strings.NewReader(`{"`))
				r.Body, r.ContentLength = broken.Body, broken.ContentLength
				r.Header.Set("Content-Type", "application/json")
			}), 400, "malformed_json")
		}
		if o.accepts(schemas, "company_id") {
			want(o, b.send(plain, o, ids, func(r *http.Request) {
				text := strings.Replace(string(o.RequestBody.Content["application/json"].Example), "{",
					`{"company_id":"com_another",`, 1)
				other := httptest.NewRequest(o.method, "/", strings.NewReader(strings.Replace(text, `,}`, `}`, 1)))
				r.Body, r.ContentLength = other.Body, other.ContentLength
				r.Header.Set("Content-Type", "application/json")
			}), 404, "not_found")
		}
		if o.kind != write {
			continue
		}
		key := func(k string) func(*http.Request) {
			return func(r *http.Request) { r.Header.Set("Idempotency-Key", k) }
		}
		want(o, b.send(plain, o, ids, key("two words")), 400, "idempotency_key_invalid")
		used := idempotencyKey{keyAccount(by), o.method + " " + o.path, "used"}
		b.write(func(_ context.Context, tx *db.Tx) error { storeResponse(tx, used, "another", "{}"); return nil })
		want(o, b.send(plain, o, ids, key("used")), 422, "idempotency_key_reused")
		used.value = "running"
		_, finish, err := plain.inflight.start(t.Context(), used, time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		want(o, b.send(plain, o, ids, key("running")), 409, "idempotency_in_progress")
		finish(nil)
	}
}

// A frozen company changes nothing: every operation that writes fails.
func TestFrozenCompanyIsRejected(t *testing.T) {
	b := newFullFixture(t, sqlite(t))
	all, schemas := operations(t)
	user := b.user("Ada")
	payee, destinations := b.recipientIn("US")
	made, _ := ask[members](b, "POST", destinations, `{"symbol":"BTC","distribution_data":`+btcData+`}`)
	ids := map[string]string{
		"company_id": b.company, "user_id": user, "recipient_id": payee, "distribution_id": made["distribution_id"].(string),
	}
	if n, err := b.exec("UPDATE companies SET status = 'frozen' WHERE company_id = $1", b.company); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	known := exampleID(t, all, "user_id")
	refused := 0
	for _, o := range all {
		if !o.changesCompany() {
			continue
		}
		_, text := o.wellFormed(ids)
		if text = strings.ReplaceAll(text, known, user); !strings.Contains(text, user) &&
			strings.HasPrefix(o.path, "/api/user/") && o.accepts(schemas, "user_id") {
			text = strings.Replace(text, "{", `{"user_id":"`+user+`",`, 1) // required with an API key
		}
		got := b.send(b.server, o, ids, func(r *http.Request) {
			fresh := httptest.NewRequest(o.method, "/", strings.NewReader(text))
			r.Body, r.ContentLength = fresh.Body, fresh.ContentLength
		})
		if got.status == http.StatusForbidden && strings.Contains(got.text, `"code":"company_frozen"`) {
			refused++
		} else if got.status < 400 || got.status >= 500 { // a malformed body is refused before
			t.Errorf("%s: %d %s", o.name, got.status, got.text)
		}
	}
	if refused < 40 {
		t.Errorf("only %d operations say that the company is frozen", refused)
	}
}

// accepts reports whether the body has a member.
func (o *operation) accepts(schemas map[string]schema, member string) bool {
	in := malformedInput{schemas: schemas}
	_, ok := in.resolve(o.RequestBody.Content["application/json"].Schema).Properties[member]
	return ok
}

// exampleID returns the ID that examples of bodies have under a name.
func exampleID(t *testing.T, all []*operation, name string) string {
	t.Helper()
	for _, o := range all {
		var body members
		if json.Unmarshal(o.RequestBody.Content["application/json"].Example, &body) == nil {
			if id, _ := body[name].(string); id != "" {
				return id
			}
		}
	}
	t.Fatalf("no example has a %s", name)
	return ""
}

const btcData = `{"address":"` + btcAddress + `"}`

// Errors of domain rules at operations that have no test of their own for them.
func TestDomainErrors(t *testing.T) {
	b := newFullFixture(t, sqlite(t))
	payee, at := b.recipientIn("US")
	made, _ := ask[members](b, "POST", at, `{"symbol":"BTC","distribution_data":`+btcData+`}`)
	dst := made["distribution_id"].(string)
	share := func(n string) string { return `{"distribution_id":"` + dst + `","allocation":` + n + `}` }
	b.wants(422, "allocation_total", "PATCH", at+"/allocations", `{"allocations":[`+share("99")+`]}`)
	fixed := func(amount, currency string) string {
		return `{"allocations":[{"distribution_id":"` + dst + `","fixed_amount":` + amount + `,"fixed_currency":"` +
			currency + `"}]}`
	}
	b.wants(422, "amount_not_positive", "PATCH", at+"/allocations", fixed("0", "USD"))
	b.wants(422, "amount_precision", "PATCH", at+"/allocations", fixed("0.001", "USD"))
	b.wants(422, "currency_not_supported", "PATCH", at+"/allocations", fixed("1", "BTC"))
	b.wants(422, "distribution_limit", "PATCH", at+"/allocations",
		`{"allocations":[`+strings.Repeat(share("0")+",", 3)+share("100")+`]}`)
	b.wants(422, "address_invalid", "POST", at, `{"symbol":"BTC",`+
		`"distribution_data":{"address":"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"}}`)
	b.wants(422, "currency_not_supported", "POST", at+"/update", `{"distribution_id":"`+dst+`","symbol":"DOGE",`+
		`"distribution_data":`+btcData+`}`)
	ask[members](b, "POST", at, `{"symbol":"BTC","distribution_data":`+btcData+`}`)
	ask[members](b, "POST", at, `{"symbol":"BTC","distribution_data":`+btcData+`}`)
	b.wants(422, "distribution_limit", "POST", at, `{"symbol":"BTC","distribution_data":`+btcData+`}`)

	poor, poorAt := b.recipientIn("US")
	pay := func(code, item string) {
		t.Helper()
		b.wants(422, code, "POST", "/api/company/payroll/create", `{"currency":"USD","to_pay":[`+item+`]}`, "Idempotency-Key",
			code)
	}
	pay("amount_not_positive", `{"user_id":"`+payee+`","amount_fiat":0}`)
	pay("amount_precision", `{"user_id":"`+payee+`","amount_fiat":1.001}`)
	pay("amount_too_small", `{"user_id":"`+payee+`","amount_fiat":0.01}`)
	pay("no_distribution", `{"user_id":"`+poor+`","amount_fiat":1}`)
	ask[members](b, "POST", strings.TrimSuffix(poorAt, "/distribution")+"/deactivate", `{}`)
	pay("recipient_inactive", `{"user_id":"`+poor+`","amount_fiat":1}`)

	company := "/api/companies/" + b.company + "/documents"
	b.wants(422, "tax_id_invalid", "POST", company, `{"doc_type":"tax_id","issuing_country":"US","tax_id":"x",`+
		`"tax_id_type":"x"}`)
}

// Every list that is read by cursor refuses one that is not of its own items.
func TestUnknownCursors(t *testing.T) {
	b := newFullFixture(t, sqlite(t))
	all, _ := operations(t)
	recipient, _ := b.recipientIn("DE")
	ids := map[string]string{"company_id": b.company, "user_id": b.user("Ada"), "recipient_id": recipient}
	n := 0
	for _, o := range all {
		if !slices.ContainsFunc(o.Parameters, func(p parameter) bool { return p.Name == "cursor" }) {
			continue
		}
		n++
		got := b.send(b.server, o, ids, func(r *http.Request) {
			r.URL.RawQuery = strings.TrimPrefix(r.URL.RawQuery+"&cursor=nothing", "&")
			if strings.HasPrefix(o.path, "/api/user/") {
				r.URL.RawQuery += "&user_id=" + ids["user_id"]
			}
		})
		if got.status != 422 || !strings.Contains(got.text, `"in":"query","pointer":"cursor"`) {
			t.Errorf("%s: %d %.300s", o.name, got.status, got.text)
		}
	}
	if n < 20 {
		t.Errorf("%d lists have cursors", n)
	}
}
