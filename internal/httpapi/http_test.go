package httpapi

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ratelimit"
)

// Types of the routes that these tests define.
type (
	tryItem struct {
		Amount Decimal `json:"amount"`
		Name   string  `json:"name,omitempty" maxLength:"5"`
		Urgent bool    `json:"urgent,omitempty"`
	}
	tryBody struct {
		CompanyID string         `json:"company_id,omitempty"`
		Items     []tryItem      `json:"items" minItems:"1" maxItems:"3"`
		Color     string         `json:"color,omitempty" enum:"red,green"`
		Share     int64          `json:"share,omitempty" minimum:"0" maximum:"100"`
		Data      jsontext.Value `json:"data,omitempty"`
	}
	tryIn struct {
		ID   string `path:"id"`
		Body tryBody
	}
	tryOut struct {
		ID     string    `json:"id"`
		Amount Decimal   `json:"amount"`
		Items  []tryItem `json:"items"`
		Run    int64     `json:"run"`
	}
	tryList struct {
		CompanyID string    `query:"company_id"`
		Role      string    `query:"role" enum:"contractor,vendor"`
		From      time.Time `query:"from"`
		paging
	}
	tryPage struct {
		CompanyID string `json:"company_id"`
		Meta      meta   `json:"meta"`
	}
)

type fixture struct {
	t        testing.TB
	db       *db.DB
	server   *server
	key      string
	company  string
	refusals int // requests of [fixture.refuses]
	runs     atomic.Int64
	hold     chan struct{} // when set, the handler waits for it
	started  chan struct{}
}

func (b *fixture) routes() []route {
	try := handle(func(ctx context.Context, tx *db.Tx, c *request, in *tryIn) (*tryOut, error) {
		n := b.runs.Add(1)
		if b.hold != nil {
			b.started <- struct{}{}
			<-b.hold
		}
		if err := db.SetSetting(ctx, tx, "effect", in.ID); err != nil {
			return nil, err
		}
		switch in.ID {
		case "panic":
			panic("on purpose")
		case "broken":
			return nil, errors.New("secret cause")
		case "taken":
			return nil, apierr.New(apierr.Conflict, "external_id_conflict", "Taken.").Set("payroll_id", "prl_1")
		}
		return &tryOut{ID: in.ID, Amount: in.Body.Items[0].Amount, Run: n}, nil
	})
	list := handle(func(_ context.Context, _ *db.Tx, c *request, in *tryList) (*tryPage, error) {
		return &tryPage{c.company, in.meta(45)}, nil
	})
	return []route{
		{method: "POST", path: "/try/{id}", scope: identity.CompanyWorkersPay, kind: write, handler: try, bodyLimit: 100_000},
		{method: "POST", path: "/keyed/{id}", scope: identity.CompanyWorkersPay, kind: write, handler: try,
			keyRequired: true},
		{method: "DELETE", path: "/try/{id}", scope: identity.UserCreate, kind: write, handler: try},
		{method: "GET", path: "/list", scope: identity.CompanyDetail, kind: read, handler: list},
		{method: "GET", path: "/open", scope: public, kind: read, handler: handle(func(context.Context, *db.Tx, *request,
			*none) (*none, error) {
			return &none{}, nil
		})},
	}
}

// newFixture returns a server with the test routes, a company and its API key.
func newFixture(t testing.TB, d *db.DB, change func(*Deps)) *fixture {
	t.Helper()
	b := &fixture{t: t, db: d}
	err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		c, err := identity.CreateCompany(ctx, tx, identity.NewCompany{Name: "Acme", Country: "US", Email: "ops@acme.example"})
		if err != nil {
			return err
		}
		app, _, err := identity.CreateApp(ctx, tx, identity.Sandbox, identity.NewApp{CompanyID: c.ID, Name: "App of " + c.ID,
			Scopes: identity.NewScopes(identity.CompanyWorkersPay, identity.CompanyDetail, identity.CompanyWorkerList,
				identity.CompanyWorkersInvite)})
		if err != nil {
			return err
		}
		b.company = c.ID
		_, b.key, err = identity.CreateAPIKey(ctx, tx, identity.Sandbox, identity.NewAPIKey{CompanyID: c.ID, AppID: app.ID})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	deps := Deps{DB: d, Env: identity.Sandbox, Now: time.Now}
	if change != nil {
		change(&deps)
	}
	b.server = newServer(deps, b.routes())
	return b
}

type reply struct {
	status int
	header http.Header
	text   string
}

func (r reply) json(t testing.TB) map[string]any {
	t.Helper()
	m := map[string]any{}
	if err := json.Unmarshal([]byte(r.text), &m); err != nil {
		t.Fatalf("not JSON: %q: %v", r.text, err)
	}
	return m
}

// do sends a request with the API key. headers are name and value pairs that replace the defaults.
func (b *fixture) do(method, path, body string, headers ...string) reply {
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	r := httptest.NewRequest(method, path, in)
	r.Header.Set("Authorization", "Basic "+b.key)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] == "" {
			r.Header.Del(headers[i])
		} else if r.Header.Get(headers[i]) != "" && strings.HasPrefix(headers[i+1], "+") {
			r.Header.Add(headers[i], headers[i+1][1:])
		} else {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	w := httptest.NewRecorder()
	b.server.ServeHTTP(w, r)
	if err := theContract().Check(r, []byte(body), w.Code, w.Header(), w.Body.Bytes()); err != nil {
		b.t.Errorf("%s %s: the contract: %v", method, path, err)
	}
	return reply{w.Code, w.Header(), w.Body.String()}
}

func sqlite(t testing.TB) *db.DB { return dbtest.Open(t, db.Options{URL: dbtest.SQLite(t)}) }

const good = `{"items":[{"amount":12.50}]}`

func TestErrors(t *testing.T) {
	b := newFixture(t, sqlite(t), nil)
	deep := strings.Repeat(`[`, 40) + strings.Repeat(`]`, 40)
	for _, c := range []struct {
		name, method, path, body string
		headers                  []string
		status                   int
		code, pointer            string
	}{
		{"no credential", "POST", "/try/a", good, []string{"Authorization", ""}, 401, "invalid_token", ""},
		{"unknown key", "POST", "/try/a", good, []string{"Authorization", "Basic nonsense"}, 401, "invalid_token", ""},
		{"key as bearer", "POST", "/try/a", good, []string{"Authorization", "Bearer " + b.key}, 401, "invalid_token", ""},
		{"other scheme", "POST", "/try/a", good, []string{"Authorization", "Digest " + b.key}, 401, "invalid_token", ""},
		{"two credentials", "POST", "/try/a", good, []string{"Authorization", "+Basic x"}, 400, "duplicate_header",
			"Authorization"},
		{"scope", "DELETE", "/try/a", good, nil, 403, "insufficient_scope", ""},
		{"version", "POST", "/try/a", good, []string{"Api-Version", "1.0"}, 400, "unsupported_version", "Api-Version"},
		{"no such path", "POST", "/nothing", good, nil, 404, "not_found", ""},
		{"unclean path", "POST", "//try/a", good, nil, 404, "not_found", ""},
		{"dots", "POST", "/x/../try/a", good, nil, 404, "not_found", ""},
		{"NUL in the path", "POST", "/try/a%00b", good, nil, 404, "not_found", ""},
		{"method", "PUT", "/try/a", good, nil, 405, "method_not_allowed", ""},
		{"media type", "POST", "/try/a", good, []string{"Content-Type", "text/plain"}, 415, "unsupported_media_type", ""},
		{"charset", "POST", "/try/a", good, []string{"Content-Type", "application/json; charset=latin1"}, 415,
			"unsupported_media_type", ""},
		{"no media type", "POST", "/try/a", good, []string{"Content-Type", ""}, 415, "unsupported_media_type", ""},
		{"compressed", "POST", "/try/a", good, []string{"Content-Encoding", "gzip"}, 415, "unsupported_media_type", ""},
		{"too large", "POST", "/try/a", `{"items":[` + strings.Repeat(" ", 100_000) + `]}`, nil, 413, "payload_too_large",
			""},
		{"empty", "POST", "/try/a", " ", nil, 400, "malformed_json", ""},
		{"syntax", "POST", "/try/a", `{"items":[}`, nil, 400, "malformed_json", ""},
		{"cut off", "POST", "/try/a", `{"items":[`, nil, 400, "malformed_json", ""},
		{"duplicate", "POST", "/try/a", `{"color":"red","color":"red","items":[{"amount":1}]}`, nil, 400, "malformed_json",
			""},
		{"duplicate spelt otherwise", "POST", "/try/a", `{"color":"red","c\u006flor":"red","items":[{"amount":1}]}`, nil, 400,
			"malformed_json", ""},
		{"duplicate in the unknown", "POST", "/try/a", `{"x":{"a":1,"a":2},"items":[{"amount":1}]}`, nil, 400,
			"malformed_json", ""},
		{"trailing", "POST", "/try/a", good + `{}`, nil, 400, "malformed_json", ""},
		{"trailing junk", "POST", "/try/a", good + `x`, nil, 400, "malformed_json", ""},
		{"depth", "POST", "/try/a", `{"x":` + deep + `}`, nil, 400, "malformed_json", ""},
		{"NUL", "POST", "/try/a", `{"color":"a\u0000"}`, nil, 400, "malformed_json", ""},
		{"UTF-8", "POST", "/try/a", "{\"color\":\"\xff\"}", nil, 400, "malformed_json", ""},
		{"lone surrogate", "POST", "/try/a", `{"color":"\ud800"}`, nil, 400, "malformed_json", ""},
		{"byte order mark", "POST", "/try/a", "\ufeff" + good, nil, 400, "malformed_json", ""},
		{"NaN", "POST", "/try/a", `{"items":[{"amount":NaN}]}`, nil, 400, "malformed_json", ""},
		{"not an object", "POST", "/try/a", `[]`, nil, 422, "invalid_type", ""},
		{"unknown", "POST", "/try/a", `{"items":[{"amount":1,"amount_fait":2}]}`, nil, 422, "unknown_field",
			"/items/0/amount_fait"},
		{"case matters", "POST", "/try/a", `{"items":[{"Amount":1,"amount":1}]}`, nil, 422, "unknown_field",
			"/items/0/Amount"},
		{"pointer is escaped", "POST", "/try/a", `{"a/b~":1,"items":[{"amount":1}]}`, nil, 422, "unknown_field", "/a~1b~0"},
		{"missing", "POST", "/try/a", `{"items":[{"amount":1},{}]}`, nil, 422, "missing_field", "/items/1/amount"},
		{"null is absent", "POST", "/try/a", `{"items":null}`, nil, 422, "missing_field", "/items"},
		{"text for number", "POST", "/try/a", `{"items":[{"amount":"1"}]}`, nil, 422, "invalid_type", "/items/0/amount"},
		{"number for text", "POST", "/try/a", `{"color":1,"items":[{"amount":1}]}`, nil, 422, "invalid_type", "/color"},
		{"too many digits", "POST", "/try/a", `{"items":[{"amount":1e99}]}`, nil, 422, "amount_too_large", "/items/0/amount"},
		{"few items", "POST", "/try/a", `{"items":[]}`, nil, 422, "invalid_parameter", "/items"},
		{"many items", "POST", "/try/a", `{"items":[{"amount":1},{"amount":1},{"amount":1},{"amount":1}]}`, nil, 422,
			"invalid_parameter", "/items"},
		{"length", "POST", "/try/a", `{"items":[{"amount":1,"name":"abcdef"}]}`, nil, 422, "invalid_parameter",
			"/items/0/name"},
		{"choice", "POST", "/try/a", `{"color":"blue","items":[{"amount":1}]}`, nil, 422, "invalid_parameter", "/color"},
		{"range", "POST", "/try/a", `{"share":101,"items":[{"amount":1}]}`, nil, 422, "invalid_parameter", "/share"},
		{"fraction for integer", "POST", "/try/a", `{"share":1.5,"items":[{"amount":1}]}`, nil, 422, "invalid_type",
			"/share"},
		{"text for object", "POST", "/try/a", `{"data":"x","items":[{"amount":1}]}`, nil, 422, "invalid_type", "/data"},
		{"foreign company", "POST", "/try/a", `{"company_id":"com_other","items":[{"amount":1}]}`, nil, 404, "not_found", ""},
		{"key required", "POST", "/keyed/a", good, nil, 400, "idempotency_key_required", "Idempotency-Key"},
		{"key form", "POST", "/try/a", good, []string{"Idempotency-Key", "a b"}, 400, "idempotency_key_invalid",
			"Idempotency-Key"},
		{"key length", "POST", "/try/a", good, []string{"Idempotency-Key", strings.Repeat("k", 256)}, 400,
			"idempotency_key_invalid", "Idempotency-Key"},
		{"parameter twice", "GET", "/list?page=1&page=2", "", nil, 422, "invalid_parameter", "page"},
		{"parameter type", "GET", "/list?page=x", "", nil, 422, "invalid_parameter", "page"},
		{"parameter range", "GET", "/list?page=0", "", nil, 422, "invalid_parameter", "page"},
		{"parameter choice", "GET", "/list?role=boss", "", nil, 422, "invalid_parameter", "role"},
		{"parameter time", "GET", "/list?from=yesterday", "", nil, 422, "invalid_parameter", "from"},
		{"parameter text", "GET", "/list?company_id=%ff", "", nil, 422, "invalid_parameter", "company_id"},
		{"foreign company in a query", "GET", "/list?company_id=com_other", "", nil, 404, "not_found", ""},
		{"fault", "POST", "/try/taken", good, nil, 409, "external_id_conflict", ""},
		{"error", "POST", "/try/broken", good, nil, 500, "internal", ""},
		{"panic", "POST", "/try/panic", good, nil, 500, "internal", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := b.do(c.method, c.path, c.body, c.headers...)
			m := got.json(t)
			if got.status != c.status || m["code"] != c.code || m["status"] != float64(c.status) {
				t.Fatalf("got %d %s", got.status, got.text)
			}
			if ct := got.header.Get("Content-Type"); ct != "application/json" {
				t.Errorf("content type %q", ct)
			}
			if m["request_id"] != got.header.Get("X-Request-Id") || m["request_id"] == "" {
				t.Errorf("request id %v, header %q", m["request_id"], got.header.Get("X-Request-Id"))
			}
			if m["type"] != "/docs/errors/"+c.code || m["title"] == "" || m["detail"] == "" {
				t.Errorf("incomplete: %s", got.text)
			}
			if e, ok := explanationOf[c.code]; !ok || e.What == "" || e.Do == "" {
				t.Errorf("%s is not documented", c.code)
			}
			if strings.Contains(got.text, "secret cause") {
				t.Error("an internal error reveals its cause")
			}
			if c.pointer != "" {
				first := m["errors"].([]any)[0].(map[string]any)
				if first["pointer"] != c.pointer || first["code"] != c.code || first["message"] != m["detail"] {
					t.Errorf("first problem: %v", first)
				}
			}
			switch c.status {
			case 401:
				if len(got.header.Values("WWW-Authenticate")) != 3 {
					t.Error("401 without WWW-Authenticate")
				}
			case 405:
				if got.header.Get("Allow") != "DELETE, POST" {
					t.Errorf("Allow: %q", got.header.Get("Allow"))
				}
			}
		})
	}
	if err := b.db.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		left, err := db.Setting(ctx, tx, "effect")
		if left != "" {
			t.Errorf("a refused request left %q", left)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	if got := b.do("POST", "/try/taken", good).json(t); got["payroll_id"] != "prl_1" {
		t.Errorf("the existing ID is missing: %v", got)
	}
	if got := b.do("DELETE", "/try/a", good); !strings.Contains(got.text, "u_user_create") {
		t.Errorf("the scope is not named: %s", got.text)
	}
}

func TestErrorListsAllProblems(t *testing.T) {
	b := newFixture(t, sqlite(t), nil)
	got := b.do("POST", "/try/a",
		`{"colour":"red","items":[{"amount":true},{"name":"toolong"}],"share":-1,"data":null}`).json(t)
	var pointers []string
	for _, e := range got["errors"].([]any) {
		pointers = append(pointers, e.(map[string]any)["pointer"].(string))
	}
	if want := "/colour /items/0/amount /items/1/name /items/1/amount /share"; strings.Join(pointers, " ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(pointers, " "), want)
	}
	many := b.do("POST", "/try/a", `{`+manyUnknown(300)+`}`).json(t)
	if n := len(many["errors"].([]any)); n != 100 {
		t.Errorf("%d problems are listed, want 100", n)
	}
}

func manyUnknown(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"x` + strings.Repeat("y", i) + `":1`)
	}
	return b.String()
}

func TestAmountsKeepEveryDigit(t *testing.T) {
	b := newFixture(t, sqlite(t), nil)
	for in, out := range map[string]string{
		"12.50": "12.50", "0.1": "0.1", "9007199254740993.123456789": "9007199254740993.123456789", "1e3": "1000",
		"1.25E1": "12.5",
		"125e-3": "0.125", "-5": "-5", "0": "0", "0e5": "0", "1.5e-2": "0.015", "12e0": "12",
	} {
		got := b.do("POST", "/try/a", `{"items":[{"amount":`+in+`}]}`)
		if !strings.Contains(got.text, `"amount":`+out+`,`) || !strings.Contains(got.text, `"items":[]`) {
			t.Errorf("%s became %s", in, got.text)
		}
	}
}

func TestCredentials(t *testing.T) {
	b := newFixture(t, sqlite(t), nil)
	for _, header := range []string{
		"Basic " + b.key, "basic " + b.key, "Basic  " + b.key,
		"Basic " + base64.StdEncoding.EncodeToString([]byte(b.key+":")),
	} {
		if got := b.do("GET", "/list", "", "Authorization", header); got.status != 200 ||
			got.json(t)["company_id"] != b.company {
			t.Errorf("%.12s…: %d %s", header, got.status, got.text)
		}
	}
	if got := b.do("GET", "/open", "", "Authorization", ""); got.status != 200 || got.text != "{}" {
		t.Errorf("a public route answers %d %s", got.status, got.text)
	}
}

func TestHeaders(t *testing.T) {
	b := newFixture(t, sqlite(t), nil)
	got := b.do("GET", "/list", "", "X-Request-Id", "mine-1", "Api-Version", "2.0")
	if got.header.Get("X-Request-Id") != "mine-1" || got.header.Get("Api-Version") != "2.0" ||
		got.header.Get("Content-Type") != "application/json" {
		t.Errorf("%v", got.header)
	}
	if got := b.do("GET", "/list", "", "X-Request-Id",
		"bad id<script>"); !strings.HasPrefix(got.header.Get("X-Request-Id"), "req_") {
		t.Errorf("%v", got.header)
	}
}

func TestPaging(t *testing.T) {
	b := newFixture(t, sqlite(t), nil)
	for query, want := range map[string]string{
		"": `{"page":1,"total":45,"pages":3,"has_prev":false,"has_next":true,"prev_num":0,` +
			`"next_num":2,"per_page":20,"next_cursor":""}`,
		"?page=3": `{"page":3,"total":45,"pages":3,"has_prev":true,"has_next":false,"prev_num":2,` +
			`"next_num":0,"per_page":20,"next_cursor":""}`,
		"?page=9": `{"page":9,"total":45,"pages":3,"has_prev":true,"has_next":false,"prev_num":8,` +
			`"next_num":0,"per_page":20,"next_cursor":""}`,
		"?per_page=1000&other=": `{"page":1,"total":45,"pages":1,"has_prev":false,"has_next":false,"prev_num":0,` +
			`"next_num":0,"per_page":100,"next_cursor":""}`,
	} {
		if got := b.do("GET", "/list"+query, ""); !strings.Contains(got.text, `"meta":`+want) {
			t.Errorf("%s: %s", query, got.text)
		}
	}
}

func TestIdempotency(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newFixture(t, d, nil)
		first := b.do("POST", "/keyed/a", `{"items":[{"amount":1,"name":"é"}],"color":"red"}`, "Idempotency-Key", "k1")
		if first.status != 200 || first.header.Get("Idempotent-Replayed") != "" {
			t.Fatalf("%d %s", first.status, first.text)
		}
		again := b.do("POST", "/keyed/a", ` {"color":"red", "items":[{"name":"\u00e9","amount":1}]}`, "Idempotency-Key", "k1")
		if again.text != first.text || again.header.Get("Idempotent-Replayed") != "true" {
			t.Fatalf("the replay differs: %s, %s", again.text, first.text)
		}
		same := b.do("POST", "/keyed/a", `{"items":[{"amount":1,"name":"é"}],"color":"red"}`, "Idempotency-Key", "k1")
		if same.text != first.text || same.header.Get("Idempotent-Replayed") != "true" {
			t.Fatalf("the replay of an identical request differs: %s, %s", same.text, first.text)
		}
		for name, got := range map[string]reply{
			"another body": b.do("POST", "/keyed/a", `{"items":[{"amount":2,"name":"é"}],"color":"red"}`, "Idempotency-Key",
				"k1"),
			"another path": b.do("POST", "/keyed/b", `{"items":[{"amount":1,"name":"é"}],"color":"red"}`, "Idempotency-Key",
				"k1"),
		} {
			if got.status != 422 || got.json(t)["code"] != "idempotency_key_reused" {
				t.Errorf("%s: %d %s", name, got.status, got.text)
			}
		}
		if got := b.do("POST", "/try/a", good, "Idempotency-Key", "k1"); got.status != 200 ||
			got.header.Get("Idempotent-Replayed") != "" {
			t.Errorf("a key is shared between routes: %d %s", got.status, got.text)
		}
		runs := b.runs.Load()
		if got := b.do("POST", "/try/taken", good, "Idempotency-Key", "k2"); got.status != 409 {
			t.Errorf("%d %s", got.status, got.text)
		}
		if got := b.do("POST", "/try/c", good, "Idempotency-Key", "k2"); got.status != 200 || b.runs.Load() <= runs+1 {
			t.Errorf("a failed attempt keeps the key: %d %s", got.status, got.text)
		}
	})
}

func TestIdempotencyKeysExpire(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		b := newFixture(t, d, nil)
		first := b.do("POST", "/try/a", good, "Idempotency-Key", "k")
		clock.Advance(29 * 24 * time.Hour)
		if got := b.do("POST", "/try/a", good, "Idempotency-Key", "k"); got.text != first.text {
			t.Errorf("expired too early: %s", got.text)
		}
		clock.Advance(25 * time.Hour)
		if got := b.do("POST", "/try/b", good, "Idempotency-Key", "k"); got.status != 200 ||
			got.header.Get("Idempotent-Replayed") != "" {
			t.Errorf("expired too late: %d %s", got.status, got.text)
		}
		clock.Advance(31 * 24 * time.Hour)
		if err := ForgetKeys(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			var n int
			err := tx.QueryRow(ctx, "SELECT count(*) FROM idempotency").Scan(&n)
			if n != 0 {
				t.Errorf("%d keys are left", n)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := b.do("POST", "/try/b", good, "Idempotency-Key", "k"); got.status != 200 ||
			got.header.Get("Idempotent-Replayed") != "" {
			t.Errorf("an identical request after its key was deleted: %d %s", got.status, got.text)
		}
	})
}

// Concurrent requests with one key have one effect. In one process they run one at a time; in two processes the
// primary key of the stored response decides.
func TestConcurrentRequestsWithOneKeyHaveOneEffect(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newFixture(t, d, nil)
		other := &fixture{t: t, db: d, key: b.key, company: b.company}
		other.server = newServer(Deps{DB: d, Env: identity.Sandbox, Now: time.Now}, b.routes())
		var wg sync.WaitGroup
		texts := make([]string, 20)
		var first atomic.Int64 // responses that are not marked as replayed
		for i := range texts {
			wg.Go(func() {
				caller := b
				if i%2 == 1 {
					caller = other
				}
				got := caller.do("POST", "/try/a", good, "Idempotency-Key", "same")
				if got.status != 200 {
					t.Errorf("%d %s", got.status, got.text)
				}
				if got.header.Get("Idempotent-Replayed") == "" {
					first.Add(1)
				}
				texts[i] = got.text
			})
		}
		wg.Wait()
		for _, text := range texts {
			if text != texts[0] {
				t.Fatalf("two effects: %s and %s", texts[0], text)
			}
		}
		if first.Load() != 1 {
			t.Errorf("%d responses are not marked as replayed", first.Load())
		}
	})
}

// A request that waits for a running one with the same key gets its response if the requests are equal, and runs if
// that one failed.
func TestWaitingRequestsShareTheResponse(t *testing.T) {
	b := newFixture(t, sqlite(t), nil)
	send := func(path, body string) chan reply {
		done := make(chan reply, 1)
		go func() { done <- b.do("POST", path, body, "Idempotency-Key", "k") }()
		return done
	}
	b.hold, b.started = make(chan struct{}), make(chan struct{}, 1)
	fails := send("/try/taken", good)
	<-b.started
	next := send("/try/a", good)
	b.hold <- struct{}{}
	if got := <-fails; got.status != 409 {
		t.Errorf("%d %s", got.status, got.text)
	}
	<-b.started // the failed request left the key unused
	same, different := send("/try/a", good), send("/try/b", good)
	close(b.hold)
	first := <-next
	if again := <-same; again.text != first.text || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%d %s", again.status, again.text)
	}
	if got := <-different; got.status != 422 || got.json(t)["code"] != "idempotency_key_reused" {
		t.Errorf("%d %s", got.status, got.text)
	}
	if runs := b.runs.Load(); runs != 2 {
		t.Errorf("the handler ran %d times", runs)
	}
}

// A revoked key stops working at once in the process that revokes it, and within a second in others.
func TestRevokedKeyStopsWorking(t *testing.T) {
	dbtest.RunURL(t, func(t *testing.T, url string) {
		d, d2 := dbtest.Open(t, db.Options{URL: url}), dbtest.Open(t, db.Options{URL: url})
		b := newFixture(t, d, nil)
		var skew atomic.Int64
		other := &fixture{t: t, db: d2, key: b.key, company: b.company}
		other.server = newServer(Deps{DB: d2, Env: identity.Sandbox, Now: func() time.Time {
			return time.Unix(1e9+skew.Load(), 0)
		}}, b.routes())
		ask := func(who *fixture, status int) {
			t.Helper()
			if got := who.do("GET", "/list", ""); got.status != status {
				t.Errorf("%d %s, want %d", got.status, got.text, status)
			}
		}
		for range 2 {
			ask(b, 200)
			ask(other, 200)
		}
		if err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			by, err := identity.Authenticate(ctx, tx, "Basic", b.key, identity.Sandbox)
			if err != nil {
				return err
			}
			return identity.RevokeAPIKey(ctx, tx, b.company, by.ID)
		}); err != nil {
			t.Fatal(err)
		}
		ask(b, 401)
		skew.Add(1)
		ask(other, 401)
	})
}

func TestWaitForConcurrentRequestIsLimited(t *testing.T) {
	b := newFixture(t, sqlite(t), nil)
	b.hold, b.started, b.server.duplicateWait = make(chan struct{}), make(chan struct{}, 1), 20*time.Millisecond
	done := make(chan reply)
	go func() { done <- b.do("POST", "/try/a", good, "Idempotency-Key", "k") }()
	<-b.started
	got := b.do("POST", "/try/a", good, "Idempotency-Key", "k")
	if got.status != 409 || got.json(t)["code"] != "idempotency_in_progress" || got.header.Get("Retry-After") == "" {
		t.Errorf("%d %s %v", got.status, got.text, got.header)
	}
	close(b.hold)
	if got := <-done; got.status != 200 {
		t.Errorf("%d %s", got.status, got.text)
	}
}

func TestRateLimit(t *testing.T) {
	clock := dbtest.NewClock()
	b := newFixture(t, sqlite(t), func(d *Deps) { d.Reads, d.Now = 0.3, clock.Now })
	for i := range 3 {
		if got := b.do("GET", "/list", ""); got.status != 200 || got.header.Get("RateLimit-Remaining") != []string{"2", "1",
			"0"}[i] {
			t.Fatalf("%d %v", got.status, got.header)
		}
	}
	got := b.do("GET", "/list", "")
	if got.status != 429 || got.header.Get("Retry-After") != "4" || got.header.Get("RateLimit-Limit") != "3" ||
		strings.Contains(got.text, "retry_after") {
		t.Fatalf("%d %v %s", got.status, got.header, got.text)
	}
	if got := b.do("POST", "/try/a", good); got.status != 200 {
		t.Errorf("writes are limited with the reads: %d", got.status)
	}
	clock.Advance(4 * time.Second)
	if got := b.do("GET", "/list", ""); got.status != 200 {
		t.Errorf("%d %s", got.status, got.text)
	}
}

func TestUnknownHostIsRejected(t *testing.T) {
	b := newFixture(t, sqlite(t), func(d *Deps) { d.Hosts = []string{"api.example"} })
	if got := b.do("GET", "/list", ""); got.status != 421 || got.json(t)["code"] != "misdirected" {
		t.Errorf("%d %s", got.status, got.text)
	}
}

func TestHealthAndDocumentation(t *testing.T) {
	ready := errors.New("not yet")
	b := newFixture(t, sqlite(t), func(d *Deps) { d.Ready = func(context.Context) error { return ready } })
	if got := b.do("GET", "/healthz", "", "Authorization", ""); got.status != 200 {
		t.Errorf("%d %s", got.status, got.text)
	}
	if got := b.do("GET", "/readyz", ""); got.status != 503 {
		t.Errorf("%d %s", got.status, got.text)
	}
	ready = nil
	if got := b.do("GET", "/readyz", ""); got.status != 200 {
		t.Errorf("%d %s", got.status, got.text)
	}
	for _, path := range []string{"/openapi.json", "/openapi.yaml"} {
		if got := b.do("GET", path, ""); got.status != 200 || !strings.Contains(got.text, "/try/{id}") {
			t.Errorf("%s: %d %.200s", path, got.status, got.text)
		}
	}
}

func TestEveryErrorCodeIsExplained(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range explanations {
		if seen[e.Code] || e.Title == "" || e.What == "" || e.Do == "" || e.Status < 400 || e.Status > 599 {
			t.Errorf("%+v", e)
		}
		seen[e.Code] = true
	}
	for _, f := range []*apierr.Fault{errMalformed, errKeyRequired, errKeyInvalid, errDuplicate, errVersion, errToken,
		errScope, errMethod,
		errMisdirected, errTooLarge, errMediaType, errKeyReused, errInProgress, ratelimit.ErrTooMany, errRetryLater,
		errInternal, errNoSuchRoute} {
		if e := explanationOf[f.Code]; e.Status != statusOf(f) {
			t.Errorf("%s is %d here and %d on its page", f.Code, statusOf(f), e.Status)
		}
	}
}

func BenchmarkBodyOfAThousandItems(b *testing.B) {
	type item struct {
		Amount  Decimal `json:"amount_fiat"`
		User    string  `json:"user_id" maxLength:"64"`
		Country string  `json:"country,omitempty" maxLength:"2"`
		Premium bool    `json:"is_premium,omitempty"`
		Text    string  `json:"description,omitempty" maxLength:"255"`
	}
	type body struct {
		ToPay []item `json:"to_pay" minItems:"1" maxItems:"10000"`
	}
	type in struct{ Body body }
	_, inputs := compileRoutes([]route{{method: "POST", path: "/x", scope: public, kind: write,
		handler: handle(func(context.Context, *db.Tx, *request, *in) (*none, error) { return nil, nil })}})
	text := []byte(`{"to_pay":[` + strings.TrimSuffix(strings.Repeat(`{"amount_fiat":1250.75,`+
		`"user_id":"usr_01k2m3n4p5q6r7s8t9vwxyz012","country":"DE","is_premium":true,"description":"September"},`, 1000),
		",") + `]}`)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		var problems apierr.List
		v := reflect.New(inputs[0].typ).Elem()
		if err := inputs[0].readBody(text, v, &problems); err != nil || !problems.Empty() {
			b.Fatal(err, problems.Fields())
		}
	}
}

// The page /reference runs only scripts of the service, and contains an API key only in the sandbox.
func TestReference(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		page := newFixture(t, d, func(d *Deps) { d.TryKey = "everybody's" }).do("GET", "/reference", "")
		if policy := page.header.Get("Content-Security-Policy"); page.status != 200 ||
			!strings.Contains(policy, "default-src 'none'; script-src 'self';") ||
			!strings.Contains(policy, "connect-src 'self'") {
			t.Errorf("%d, policy %q", page.status, policy)
		}
		if !strings.Contains(page.text, `data-key="everybody&#39;s"`) {
			t.Errorf("the sandbox's page names no key:\n%s", page.text)
		}
		b := newFixture(t, d, func(d *Deps) { d.TryKey, d.Env = "everybody's", identity.Production })
		if other := b.do("GET", "/reference/", ""); other.status != 200 || strings.Contains(other.text, "data-key") {
			t.Errorf("production: %d\n%s", other.status, other.text)
		}
		scripts := regexp.MustCompile(`<script src="(/reference/static/[^"]+)"></script>`).
			FindAllStringSubmatch(page.text, -1)
		if n := strings.Count(page.text, "<script"); len(scripts) != 2 || n != 2 {
			t.Fatalf("%d of %d scripts are files of the service", len(scripts), n)
		}
		const packed, banner = "\x1f\x8b", "@scalar/api-reference 1.46.4"
		for accept, coding := range map[string]string{
			"": "", "br": "", "gzip;q=0": "", "br, GZIP ; q=0.5": "gzip", "gzip, deflate": "gzip", "gzip;q=0.000": "",
		} {
			got := b.do("GET", scripts[0][1], "", "Accept-Encoding", accept)
			if got.status != 200 || got.header.Get("Content-Encoding") != coding ||
				strings.HasPrefix(got.text, packed) != (coding == "gzip") || strings.Contains(got.text, banner) != (coding == "") {
				t.Errorf("Accept-Encoding %q: %d, coding %q, %d bytes", accept, got.status, got.header.Get("Content-Encoding"),
					len(got.text))
			}
			if got.header.Get("Cache-Control") != "public, max-age=31536000, immutable" ||
				got.header.Get("Vary") != "Accept-Encoding" {
				t.Errorf("headers %v", got.header)
			}
		}
		if got := b.do("GET", "/reference/static/scalar-000000000000.js", ""); got.status != 404 {
			t.Errorf("another content: %d", got.status)
		}
	})
}

// A client that disconnects before the response is not logged as an error.
func TestDisconnectedClientIsNoError(t *testing.T) {
	noted := make(chan int, 1)
	var log strings.Builder // read after the request
	b := newFixture(t, dbtest.Open(t, db.Options{URL: dbtest.SQLite(t)}), func(d *Deps) {
		d.Observe = func(_ context.Context, _, _ string, status int, _ time.Duration) { noted <- status }
		d.Log = slog.New(slog.NewTextHandler(&log, nil))
	})
	ctx, leave := context.WithCancel(t.Context())
	s := httptest.NewServer(newServer(b.server.Deps, []route{{method: "GET", path: "/slow", scope: public, kind: read,
		handler: handle(func(ctx context.Context, _ *db.Tx, _ *request, _ *none) (*none, error) {
			leave()
			<-ctx.Done()
			return nil, ctx.Err()
		})}}))
	defer s.Close()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/slow", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := http.DefaultTransport.RoundTrip(r); err == nil {
		t.Errorf("got response %d after disconnecting", got.StatusCode)
		_ = got.Body.Close()
	}
	if status := <-noted; status != 499 {
		t.Errorf("it counts as %d", status)
	}
	s.Close()
	if strings.Contains(log.String(), "ERROR") || !strings.Contains(log.String(), "status=499") {
		t.Errorf("the log says:\n%s", log.String())
	}
}

// A client that is still sending a rejected body can read the response: the connection is closed, not reset.
func TestClientStillSendingReadsTheResponse(t *testing.T) {
	b := newFixture(t, dbtest.Open(t, db.Options{URL: dbtest.SQLite(t)}), nil)
	s := httptest.NewServer(b.server)
	defer s.Close()
	for _, refused := range []struct {
		kind   string
		length int // Content-Length
		status int
	}{
		{"application/json", defaultBodyLimit + 1, 413},
		{"text/plain", defaultBodyLimit, 415},
	} {
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if _, err := fmt.Fprintf(conn, "POST /try/a HTTP/1.1\r\nHost: %s\r\nAuthorization: Basic %s\r\nIdempotency-Key: "+
			"still\r\n"+
			"Content-Type: %s\r\nContent-Length: %d\r\n\r\n%s", s.Listener.Addr(), b.key, refused.kind, refused.length,
			strings.Repeat(" ", 8*ratelimit.FreeBodySize)); err != nil {
			t.Fatal(err)
		}
		answer := bufio.NewReader(conn)
		got, err := http.ReadResponse(answer, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(got.Body)
		_ = got.Body.Close()
		if err != nil || got.StatusCode != refused.status {
			t.Errorf("%d %s, %v; want %d", got.StatusCode, body, err, refused.status)
		}
		if rest, err := io.ReadAll(answer); err != nil || len(rest) > 0 {
			t.Errorf("after %d comes %q, %v", refused.status, rest, err)
		}
	}
}
