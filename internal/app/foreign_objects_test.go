package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/httpapi"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/web"
	"github.com/stipend/stipend/internal/web/ui"
	"github.com/stipend/stipend/internal/web/webtest"
)

// objectIDs are IDs of objects by the name of the member that holds them, such as payroll_id. The last ones are kept.
type objectIDs map[string][]string

var objectID = regexp.MustCompile(`^[a-z]+_[0-9a-z]{20,}$`)

// mostIDs is the number of IDs of a kind that are tried.
const mostIDs = 3

// freeIDs are members and parameters that callers choose freely, or that no object of a company has.
var freeIDs = []string{"external_id", "external_payment_id", "request_id", "client_id", "tax_id"}

func (ids objectIDs) collect(body []byte) {
	var whole any
	if json.Unmarshal(body, &whole) == nil {
		ids.collectFrom(whole)
	}
}

func (ids objectIDs) collectFrom(value any) {
	switch v := value.(type) {
	case []any:
		for _, one := range v {
			ids.collectFrom(one)
		}
	case map[string]any:
		for name, one := range v {
			if id, ok := one.(string); !ok {
				ids.collectFrom(one)
			} else if strings.HasSuffix(name, "_id") && objectID.MatchString(id) && !slices.Contains(ids[name], id) {
				ids[name] = append(ids[name], id)
				ids[name] = ids[name][max(0, len(ids[name])-mostIDs):]
			}
		}
	}
}

// operation is a part of the contract.
type operation struct {
	OperationID string
	Security    []map[string][]string
	Parameters  []struct {
		Ref      string `json:"$ref"`
		In, Name string
	}
	RequestBody struct {
		Content map[string]struct {
			Example json.RawMessage
			Schema  struct {
				Ref string `json:"$ref"`
			}
		}
	}
	members []string // of the body, at its top
}

// How the requests of an operation name objects of others.
const (
	withinOwn   = iota // the caller's own company, and others' objects in the path and in the example
	withForeign        // another company, too
	withAll            // and every ID that the body may have
	variants
)

// last returns the name at the end of a reference.
func last(ref string) string { return ref[strings.LastIndex(ref, "/")+1:] }

// unlike returns an ID of the same kind that no object has.
func unlike(id string) string { return id[:len(id)-6] + "000000" }

// withTheirs returns a text in which IDs that no object has are replaced by those from which they were made.
func (ids objectIDs) withTheirs(text string) string {
	for _, some := range ids {
		for _, id := range some {
			text = strings.ReplaceAll(text, unlike(id), id)
		}
	}
	return text
}

// request is a request that names objects.
type request struct{ method, path, body string }

// requests returns an operation's request with the n-th IDs, and the same one with IDs that no object has. named
// reports whether it names an object.
func (ids objectIDs) requests(method, path string, o operation, n, variant int, own string) (
	theirs, none request, named bool) {
	theirs, none = request{method: method, path: path}, request{method: method, path: path}
	pick := func(name string) (id, other string, ok bool) {
		if name == "company_id" && variant == withinOwn {
			return own, own, true
		}
		known := ids[strings.TrimSuffix(name, "s")]
		if slices.Contains(freeIDs, name) || len(known) == 0 {
			return "", "", false
		}
		named = true
		id = known[n%len(known)]
		return id, unlike(id), true
	}
	query := "?"
	for _, p := range o.Parameters {
		if !strings.HasSuffix(p.Name, "_id") || p.In == "query" && p.Name == "company_id" && variant == withinOwn {
			continue
		}
		id, other, ok := pick(p.Name)
		switch {
		case !ok:
			id, other = "unknown", "unknown"
			if p.In == "query" {
				continue
			}
			fallthrough
		case p.In == "path":
			theirs.path = strings.ReplaceAll(theirs.path, "{"+p.Name+"}", id)
			none.path = strings.ReplaceAll(none.path, "{"+p.Name+"}", other)
		case p.In == "query":
			theirs.path, none.path = theirs.path+query+p.Name+"="+id, none.path+query+p.Name+"="+other
			query = "&"
		}
	}
	if example := o.RequestBody.Content["application/json"].Example; len(example) > 0 {
		fill := func(other bool) string {
			var body map[string]any
			if json.Unmarshal(example, &body) != nil {
				return ""
			}
			for _, name := range o.members {
				if _, has := body[name]; !has && variant == withAll && strings.HasSuffix(name, "_id") {
					body[name] = ""
				}
			}
			replaceIDs(body, func(name string) (string, bool) {
				id, not, ok := pick(name)
				if other {
					id = not
				}
				return id, ok
			})
			text, _ := json.Marshal(body)
			return string(text)
		}
		theirs.body, none.body = fill(false), fill(true)
	}
	return theirs, none, named
}

// replaceIDs replaces the members with IDs, also in lists such as invoice_ids.
func replaceIDs(value any, pick func(name string) (string, bool)) {
	switch v := value.(type) {
	case []any:
		for _, one := range v {
			replaceIDs(one, pick)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			id, ok := "", false
			if strings.HasSuffix(name, "_id") || strings.HasSuffix(name, "_ids") {
				id, ok = pick(name)
			}
			switch _, list := v[name].([]any); {
			case ok && list:
				v[name] = []any{id}
			case ok:
				v[name] = id
			default:
				replaceIDs(v[name], pick)
			}
		}
	}
}

// outcome is a response without what differs from request to request.
type outcome struct {
	status int
	code   string
	body   string // of a success
}

func (d *apiClient) outcome(t *testing.T, r request, authorization string) (a outcome) {
	t.Helper()
	req := testkit.Must(http.NewRequestWithContext(t.Context(), r.method, d.s.Ready().BaseURL+r.path,
		strings.NewReader(r.body)))
	req.Header.Set("Authorization", authorization)
	req.Header.Set("Idempotency-Key", freshKey())
	if r.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	testkit.Check(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	testkit.Check(t, err)
	a.status = res.StatusCode
	var problem struct{ Code string }
	if json.Unmarshal(body, &problem) == nil {
		a.code = problem.Code
	}
	if a.status < 300 {
		a.body = string(body)
	}
	return a
}

// checkOperations calls every operation with objects of others, as a company and as a user. The responses must be those
// for objects that do not exist, so that nothing is read, changed or revealed.
func (ids objectIDs) checkOperations(t *testing.T, d *scriptClient) {
	var contract struct {
		Paths      map[string]map[string]operation
		Components struct {
			Parameters map[string]struct{ In, Name string }
			Schemas    map[string]struct{ Properties map[string]json.RawMessage }
		}
	}
	testkit.Check(t, json.Unmarshal(bytes.TrimSpace(httpapi.Document()), &contract))
	company, other := d.stranger()
	var user string
	d.write(t, func(ctx context.Context, tx *db.Tx) error {
		u, err := identity.CreateUser(ctx, tx, d.s.Sealer(), identity.NewUser{Profile: identity.Profile{
			Email: "nobodys@example.com", FirstName: "Free", LastName: "Agent", Country: "US"}})
		user = u.ID
		return err
	})
	callers := map[string]string{"a company": other.auth, "a user": d.userToken(t, user, []string{company})}
	checked := map[string]bool{}
	for _, path := range slices.Sorted(maps.Keys(contract.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(contract.Paths[path])) {
			o := contract.Paths[path][method]
			if len(o.Security) == 0 || len(o.Security[0]) == 0 {
				continue // a payer's
			}
			for i, p := range o.Parameters {
				if shared, ok := contract.Components.Parameters[last(p.Ref)]; ok {
					o.Parameters[i].In, o.Parameters[i].Name = shared.In, shared.Name
				}
			}
			schema := contract.Components.Schemas[last(o.RequestBody.Content["application/json"].Schema.Ref)]
			o.members = slices.Sorted(maps.Keys(schema.Properties))
			for caller, authorization := range callers {
				for n := range variants * mostIDs {
					theirs, none, named := ids.requests(strings.ToUpper(method), path, o, n/variants, n%variants, company)
					if !named {
						continue
					}
					checked[o.OperationID] = true
					got, want := d.outcome(t, theirs, authorization), d.outcome(t, none, authorization)
					want.body = ids.withTheirs(want.body)
					if got != want || got.status >= 500 {
						t.Errorf("%s by %s: %d %s, and %d %s for objects that do not exist\n%s %s %s\n%s\n%s", o.OperationID,
							caller, got.status, got.code, want.status, want.code, theirs.method, theirs.path, theirs.body,
							got.body, want.body)
						break
					}
				}
			}
		}
	}
	if len(checked) < 130 {
		t.Errorf("%d operations were called with objects of others", len(checked))
	}
}

// owner signs in as an owner of a company, with a password and an authenticator.
func (d *scriptClient) owner(t *testing.T, company string) *webtest.Visitor {
	const email, password = "owner@others.example", "seven tiny purple boats"
	d.write(t, func(ctx context.Context, tx *db.Tx) error {
		u, err := identity.CreateUser(ctx, tx, d.s.Sealer(), identity.NewUser{
			PasswordHash: testkit.PasswordHash(t, password),
			Profile:      identity.Profile{Email: email, FirstName: "Own", LastName: "Er", Country: "US"}})
		if err != nil {
			return err
		}
		return identity.AddMember(ctx, tx, identity.Member{CompanyID: company, UserID: u.ID, Role: identity.RoleOwner})
	})
	v := webtest.NewVisitor(t, d.s.Ready().BaseURL)
	v.Submit(v.Get("/sign-in"), "/sign-in", "email", email, "password", password)
	v.Submit(v.Get("/account/factor"), "/account/factor/begin")
	secret := regexp.MustCompile(`[A-Z2-7]{32}`).FindString(v.Get("/account/factor").Text)
	code, err := totp.GenerateCode(secret, time.Now())
	testkit.Check(t, err)
	page := v.Submit(v.Get("/account/factor"), "/account/factor/confirm", "code", code)
	if page.Status != http.StatusOK {
		t.Fatalf("enroll: %d to %q\n%s", page.Status, page.Location(), page.Text)
	}
	return v
}

// checkPages opens and posts every page with objects of others, as an owner of another company. The responses
// must be those for objects that do not exist.
func (ids objectIDs) checkPages(t *testing.T, d *scriptClient) {
	company, _ := d.stranger()
	v := d.owner(t, company)
	token := url.Values{"form_token": {ui.FormToken(v.Cookie("stipend_session"))}}
	visit := func(method, path string) (o outcome) {
		got := v.Get
		if method == http.MethodPost {
			got = func(path string) webtest.Visit { return v.Post(path, token) }
		}
		page := got(path)
		return outcome{status: page.Status, code: page.Location()}
	}
	checked := 0
	for _, rt := range web.Routes() {
		if rt.Access == ui.Anyone || rt.Staff || !strings.Contains(rt.Path, "{") || rt.Kind == ui.Stream {
			continue
		}
		for _, some := range ids {
			id := some[0]
			theirs := pathParameter.ReplaceAllString(rt.Path, id)
			got, want := visit(rt.Method, theirs), visit(rt.Method, pathParameter.ReplaceAllString(rt.Path, unlike(id)))
			want.code = ids.withTheirs(want.code)
			if got != want || got.status >= 500 {
				t.Errorf("%s %s: %d to %q, and %d to %q for objects that do not exist", rt.Method, theirs, got.status,
					got.code, want.status, want.code)
			}
			checked++
		}
	}
	if checked < 1000 {
		t.Errorf("%d pages were opened with objects of others", checked)
	}
}

var pathParameter = regexp.MustCompile(`\{\w+\}`)
