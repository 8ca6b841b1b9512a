package httpapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/platform"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/webhook/delivery"
)

// operation is a route with its part of the contract.
type operation struct {
	route
	Parameters  []parameter
	Security    []map[string][]string
	RequestBody struct {
		Content map[string]struct {
			Schema  schema
			Example json.RawMessage
		}
	}
}

// wellFormed returns the path and body of a valid request: the example of the contract with the given IDs.
func (o *operation) wellFormed(ids map[string]string) (path, body string) {
	path = o.path
	for _, p := range o.Parameters {
		if p.In == "path" {
			path = strings.ReplaceAll(path, "{"+p.Name+"}", idOf(ids, p.Name))
		}
	}
	return path, string(o.RequestBody.Content["application/json"].Example)
}

func idOf(ids map[string]string, name string) string {
	if id := ids[name]; id != "" {
		return id
	}
	return name + "_1"
}

// operations returns the routes with their parts of the contract, and the schemas of the contract.
func operations(t testing.TB) (all []*operation, schemas map[string]schema) {
	t.Helper()
	var doc struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct{ Schemas map[string]schema }
	}
	if err := json.Unmarshal(Document(), &doc); err != nil {
		t.Fatal(err)
	}
	for _, rt := range routes {
		o := &operation{}
		if err := json.Unmarshal(doc.Paths[rt.path][strings.ToLower(rt.method)], o); err != nil {
			t.Fatalf("%s: %v", rt.name, err)
		}
		o.route = rt
		all = append(all, o)
	}
	return all, doc.Components.Schemas
}

// newFullFixture returns a fixture with every service and a key that has every scope.
func newFullFixture(t testing.TB, d *db.DB) *fixture {
	b := newBilling(t, d)
	platforms, err := platform.New(platform.Service{Sealer: b.server.Sealer, Env: identity.Sandbox,
		BaseURL: "https://pay.example", AllowUnverified: true})
	testkit.Check(t, err)
	b.server.Platforms = platforms
	b.server.Webhooks = delivery.Setup{Sealer: b.server.Sealer, Policy: delivery.Policy{Loopback: true}}
	return b
}

// apiKeyOperations repeats the operations that require an API key, so that a route that lacks apiKeyOnly fails the
// test.
var apiKeyOperations = []string{
	"list-security-events", "list-members", "create-platform-company", "list-platform-companies", "get-platform-company",
	"set-platform-fee", "invite-platform-owner", "create-platform-token", "create-onboarding-link",
	"onboard-company", "add-ubo", "initiate-ubo-kyc", "upload-company-document", "initiate-kyb", "request-wallet",
	"withdraw", "cancel-withdrawal", "revoke-mandate", "create-direct-debit", "cancel-direct-debit", "retry-direct-debit",
	"change-merchant-settings", "change-merchant-branding", "settle-claims", "create-webhook", "update-webhook",
	"delete-webhook", "export-1099-nec", "set-journal-accounts",
	"rotate-webhook-secret", "test-webhook", "disable-webhook", "enable-webhook",
	"redeliver-webhook-range", "redeliver-webhook",
}

// secondScopes repeats the scopes that suffice besides that of the route, so that a route that accepts more fails the
// test.
var secondScopes = map[string]identity.Scope{
	"list-approvals": identity.CompanyWorkersPay, "present-second-factor": identity.CompanyMembers,
	"preview-payroll": identity.CompanyPropose, "list-schedules": identity.CompanyPropose,
	"get-schedule": identity.CompanyPropose, "list-payrolls": identity.CompanyPropose,
	"list-payments": identity.CompanyPropose, "get-payroll": identity.CompanyPropose,
	"get-payment":      identity.CompanyPropose,
	"get-claim-status": identity.CompanyPropose, "list-claims": identity.CompanyPropose,
	"list-settlements": identity.CompanyPropose, "get-settlement": identity.CompanyPropose,
	"list-payment-links": identity.CompanyPropose, "get-payment-link": identity.CompanyPropose,
	"list-proposals": identity.CompanyWorkersPay, "get-proposal": identity.CompanyWorkersPay,
}

// Every route is called with each scope alone, by API key and by token. SQLite is enough: authorization precedes the
// handler.
func TestEachRouteAcceptsOnlyItsScope(t *testing.T) {
	b := newFullFixture(t, sqlite(t))
	all, _ := operations(t)
	user := b.user("Ada")
	ids := map[string]string{"company_id": b.company}
	credentials := map[identity.Scope][2]string{}
	for _, scope := range identity.AllScopes().List() {
		credentials[scope] = [2]string{b.keyWith(scope), b.token(user, scope)}
	}
	if len(credentials) != 28 {
		t.Fatalf("%d scopes", len(credentials))
	}
	used := map[identity.Scope]bool{}
	for _, o := range all {
		path, body := o.wellFormed(ids)
		used[o.scope] = true
		bare := b.do(o.method, path, body, "Authorization", "")
		if o.scope == public {
			if bare.status != http.StatusOK && (!o.perNetwork || bare.status != http.StatusNotFound) {
				t.Errorf("%s without a credential: %d %s", o.name, bare.status, bare.text)
			}
			continue
		}
		if bare.status != http.StatusUnauthorized || bare.json(t)["code"] != "invalid_token" ||
			!strings.Contains(strings.Join(bare.header.Values("WWW-Authenticate"), " "), `resource_metadata="`) {
			t.Errorf("%s without a credential: %d %s", o.name, bare.status, bare.text)
		}
		for scope, pair := range credentials {
			for i, credential := range pair {
				got := b.do(o.method, path, body, "Authorization", credential, "Idempotency-Key",
					o.name+scope+[]string{"key", "token"}[i])
				refused := got.status == http.StatusForbidden && strings.Contains(got.text, `"code":"insufficient_scope"`)
				switch {
				case o.scope != anyScope && scope != o.scope && scope != secondScopes[o.name]:
					if !refused || !strings.Contains(got.text, o.scope) ||
						!strings.Contains(strings.Join(got.header.Values("WWW-Authenticate"), " "), `scope="`+o.scope+`"`) {
						t.Errorf("%s with %s: %d %s; want it refused for %s", o.name, scope, got.status, got.text, o.scope)
					}
				case i == 1 && slices.Contains(apiKeyOperations, o.name):
					if broken := b.do(o.method, path, `{"`, "Authorization", credential); !refused ||
						broken.status != http.StatusForbidden {
						t.Errorf("%s with a user's token: %d %s, and with a broken body: %d", o.name, got.status, got.text, broken.status)
					}
					if len(o.Security) != 1 || o.Security[0]["api_key"] == nil {
						t.Errorf("%s: the contract offers %v", o.name, o.Security)
					}
				case refused || got.status == http.StatusUnauthorized || got.status >= 500:
					t.Errorf("%s with its own scope %s: %d %s", o.name, scope, got.status, got.text)
				}
			}
		}
	}
	for _, scope := range identity.AllScopes().List() {
		if !used[scope] {
			t.Errorf("no route takes the scope %s", scope)
		}
	}
}

// A method that no route of a path has gets 405 with the methods it has, whatever X-HTTP-Method-Override says.
func TestEachPathAcceptsOnlyItsMethods(t *testing.T) {
	b := newFullFixture(t, sqlite(t))
	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(Document(), &doc); err != nil {
		t.Fatal(err)
	}
	type taken struct{ method, pattern string }
	table := []taken{
		{"GET", "/openapi.yaml"}, {"GET", termsPath},
	}
	for path, methods := range doc.Paths {
		for method := range methods {
			table = append(table, taken{strings.ToUpper(method), path})
		}
	}
	for _, at := range table {
		path := strings.NewReplacer("{", "", "}", "").Replace(at.pattern)
		var allow []string
		for _, o := range table {
			if matches(o.pattern, path) && !slices.Contains(allow, o.method) {
				if allow = append(allow, o.method); o.method == "GET" && o.pattern != paymentPath {
					allow = append(allow, "HEAD")
				}
			}
		}
		slices.Sort(allow)
		for _, method := range []string{
			"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND",
		} {
			if slices.Contains(allow, method) {
				continue
			}
			got := httptest.NewRecorder()
			r := httptest.NewRequest(method, path, nil)
			r.Header.Set("Authorization", "Basic "+b.key)
			r.Header.Set("X-HTTP-Method-Override", allow[0])
			b.server.ServeHTTP(got, r)
			if got.Code != http.StatusMethodNotAllowed || got.Header().Get("Allow") != strings.Join(allow, ", ") ||
				!strings.Contains(got.Body.String(), `"method_not_allowed"`) {
				t.Errorf("%s %s: %d, Allow %q, want %q: %s", method, path, got.Code, got.Header().Get("Allow"), allow, got.Body)
			}
		}
	}
}

// matches reports whether a path matches a route pattern.
func matches(pattern, path string) bool {
	parts, at := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(parts) != len(at) {
		return false
	}
	for i, part := range parts {
		if part != at[i] && !strings.HasPrefix(part, "{") {
			return false
		}
	}
	return true
}

// schema is a JSON schema of the contract.
type schema struct {
	Ref                  string `json:"$ref"`
	Type                 any
	Format               string
	ContentEncoding      string
	MaxLength            int
	Enum                 []any
	Examples             []any
	Required             []string
	Properties           map[string]schema
	AdditionalProperties any
	Items                *schema
}

// parameter is a path, query or header parameter. A shared parameter has only a reference.
type parameter struct {
	Name, In string
	Required bool
	Schema   schema
	Example  any
}
