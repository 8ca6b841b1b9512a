package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
)

// newUserService returns a fixture whose key has every scope.
func newUserService(t testing.TB, d *db.DB) *fixture {
	t.Helper()
	b := newService(t, d, nil)
	b.everyScope()
	return b
}

func (b *fixture) everyScope() {
	b.t.Helper()
	if err := b.db.Write(b.t.Context(), func(ctx context.Context, tx *db.Tx) error {
		app, _, err := identity.CreateApp(ctx, tx, identity.Sandbox, identity.NewApp{
			CompanyID: b.company, Name: "All", Scopes: identity.AllScopes(),
		})
		if err != nil {
			return err
		}
		_, b.key, err = identity.CreateAPIKey(ctx, tx, identity.Sandbox,
			identity.NewAPIKey{CompanyID: b.company, AppID: app.ID})
		return err
	}); err != nil {
		b.t.Fatal(err)
	}
}

// tokenOf returns the Authorization header of a new token of a user.
func (b *fixture) tokenOf(userID string) []string {
	b.t.Helper()
	var token string
	if err := b.db.Write(b.t.Context(), func(ctx context.Context, tx *db.Tx) error {
		app, _, err := identity.CreateApp(ctx, tx, identity.Sandbox, identity.NewApp{
			CompanyID: b.company, Name: "Own", Scopes: identity.AllScopes(),
		})
		if err != nil {
			return err
		}
		_, token, err = identity.CreateAccessToken(ctx, tx, identity.Sandbox, identity.NewAccessToken{
			CompanyID: b.company, AppID: app.ID, UserID: userID, Scopes: identity.AllScopes()})
		return err
	}); err != nil {
		b.t.Fatal(err)
	}
	return []string{"Authorization", "Bearer " + token}
}

// state returns row counts and versions, to check that a rejected request changed nothing.
func (b *fixture) state(tables ...string) string {
	b.t.Helper()
	var all []string
	if err := b.db.Read(b.t.Context(), func(ctx context.Context, tx *db.Tx) error {
		for _, table := range tables {
			var n int64
			if err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM "+table).Scan(&n); err != nil {
				return err
			}
			all = append(all, fmt.Sprint(table, " ", n))
		}
		var versions int64
		err := tx.QueryRow(ctx, "SELECT CAST((SELECT COALESCE(SUM(version), 0) FROM users) + (SELECT "+
			"COALESCE(SUM(version), 0) FROM recipients) + (SELECT COALESCE(SUM(version), 0) FROM destination_owners) AS "+
			"BIGINT)").Scan(&versions)
		all = append(all, fmt.Sprint("versions ", versions))
		return err
	}); err != nil {
		b.t.Fatal(err)
	}
	return strings.Join(all, ", ")
}

// badOperation is an operation with a valid body, for tests of invalid input.
type badOperation struct {
	method, path string
	body         members
	optional     []string // members that may be absent, null or empty
	emptyAllowed []string // members that are required and may be empty
	ids          []string // IDs of objects: a wrong one is not found or invalid
}

// refusesBadInput sends every member of the valid body in every invalid way. Each request must get an error that
// points at the member and change no row.
func (b *fixture) refusesBadInput(op badOperation, tables ...string) {
	b.t.Helper()
	before := b.state(tables...)
	send := func(body members) reply {
		text, err := json.Marshal(body)
		if err != nil {
			b.t.Fatal(err)
		}
		return b.do(op.method, op.path, string(text))
	}
	for name, value := range op.body {
		may := slices.Contains(op.optional, name)
		id := slices.Contains(op.ids, name)
		_, isText := value.(string)
		cases := map[string]any{"null": nil, "other type": true, "array": []any{1}}
		if isText {
			maps.Copy(cases, members{
				"a number": 7, "empty": "", "too long": strings.Repeat("x", 5000), "control": "a\u0007b\r\nc",
				"bidirectional": "a\u202eb", "isolate": "\u2066a",
			})
		}
		for what, bad := range cases {
			if may && (what == "null" || what == "empty") || what == "empty" && slices.Contains(op.emptyAllowed, name) {
				continue
			}
			body := maps.Clone(op.body)
			body[name] = bad
			b.pointed(send(body), "/"+name, id && isText && what != "too long", op.path+" "+name+" "+what)
		}
		if !may {
			body := maps.Clone(op.body)
			delete(body, name)
			got := send(body)
			if b.pointed(got, "/"+name, false, op.path+" "+name+" missing"); got.json(b.t)["code"] != "missing_field" {
				b.t.Errorf("%s without %s: %s", op.path, name, got.text)
			}
		}
	}
	body := maps.Clone(op.body)
	body["colour"] = "red"
	b.pointed(send(body), "/colour", false, op.path+" unknown member")
	for name, text := range map[string]string{
		"NUL": `{"a":"\u0000"}`, "array": `[]`, "text": `"x"`, "twice": `{"a":1,"a":2}`, "cut": `{"a":`, "nothing": ` `,
	} {
		if got := b.do(op.method, op.path, text); got.status != 400 && got.status != 422 {
			b.t.Errorf("%s %s: %d %s", op.path, name, got.status, got.text)
		}
	}
	if after := b.state(tables...); after != before {
		b.t.Errorf("%s %s: bad input changed rows: %s, before %s", op.method, op.path, after, before)
	}
}

// pointed checks that the response is a validation error with the given JSON pointer, or not found if orMissing is
// set.
func (b *fixture) pointed(got reply, pointer string, orMissing bool, what string) {
	b.t.Helper()
	if orMissing && got.status == 404 {
		return
	}
	p := got.json(b.t)
	list, _ := p["errors"].([]any)
	ok := got.status == 422 && p["request_id"] != "" && p["type"] == "/docs/errors/"+fmt.Sprint(p["code"]) && len(list) > 0
	if ok {
		ok = slices.ContainsFunc(list, func(e any) bool {
			return strings.HasPrefix(e.(members)["pointer"].(string), pointer) && e.(members)["in"] == "body"
		})
	}
	if !ok {
		b.t.Errorf("%s: %d %s", what, got.status, got.text)
	}
}

func userBody() members {
	return members{
		"email": "ada@Example.com", "phone_number": "(217) 555-0123", "phone_country": "us", "first_name": " Ada ",
		"last_name":     "Lovelace",
		"date_of_birth": "1992-02-29", "street_address": "1 Main Street", "street_address_2": "Floor 2",
		"city":  "Springfield",
		"state": "illinois", "zip": "627011234", "country": "us", "product": "worker",
	}
}

// createUser creates a user and returns the ID.
func (b *fixture) createUser(change members) string {
	b.t.Helper()
	body := userBody()
	maps.Copy(body, change)
	text, _ := json.Marshal(body)
	made, _ := ask[members](b, "POST", "/api/user/create", string(text))
	return made["user_id"].(string)
}

func TestUsers(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newUserService(t, d)
		id := b.createUser(nil)
		detail, text := ask[members](b, "GET", "/api/user/detail?user_id="+id, "")
		for name, want := range map[string]any{
			"user_id": id, "email": "ada@example.com", "phone_number": "+12175550123", "phone_country": "US",
			"first_name":    "Ada",
			"date_of_birth": "1992-02-29", "state": "IL", "zip": "62701-1234", "country": "US", "street_address_2": "Floor 2",
			"kyc_status": "not_started", "profile_complete": true,
		} {
			if detail[name] != want {
				t.Errorf("%s is %v, want %v: %s", name, detail[name], want, text)
			}
		}
		if workers, text := ask[members](b, "GET", "/api/company/workers?user_id="+id,
			""); len(workers["data"].([]any)) != 1 || !strings.Contains(text, `"has_distributions":false`) {
			t.Errorf("the user is not a worker: %s", text)
		}

		// Only the given fields change.
		if done, _ := ask[members](b, "POST", "/api/user/update", `{"user_id":"`+id+`","city":"Chicago","zip":"60601",`+
			`"street_address_2":""}`); done["success"] != true {
			t.Errorf("%v", done)
		}
		after, _ := ask[members](b, "GET", "/api/user/detail?user_id="+id, "")
		want := maps.Clone(detail)
		maps.Copy(want, members{"city": "Chicago", "zip": "60601", "street_address_2": ""})
		if !maps.Equal(after, want) {
			t.Errorf("%v, want %v", after, want)
		}
		ask[members](b, "POST", "/api/user/update", `{"user_id":"`+id+`","first_name":"Augusta",`+
			`"email":"augusta@example.com"}`)
		if _, text := ask[members](b, "GET", "/api/company/workers?email=AUGUSTA@example.com", ""); !strings.Contains(text,
			`"first_name":"Augusta"`) {
			t.Errorf("the worker keeps the old name: %s", text)
		}
		// The country determines the valid states and postal codes.
		if got := b.do("POST", "/api/user/update", `{"user_id":"`+id+`","country":"CA"}`); got.status != 422 ||
			!strings.Contains(got.text, `"/state"`) || !strings.Contains(got.text, `"/zip"`) {
			t.Errorf("%d %s", got.status, got.text)
		}
		ask[members](b, "POST", "/api/user/update", `{"user_id":"`+id+`","country":"CA","state":"Québec","zip":"h3z2y7"}`)
		if _, text := ask[members](b, "GET", "/api/user/detail?user_id="+id, ""); !strings.Contains(text,
			`"state":"QC","zip":"H3Z 2Y7"`) {
			t.Errorf("%s", text)
		}

		// A user can be created once per address. Users of other companies are not visible.
		text2, _ := json.Marshal(userBody())
		other := b.createUser(nil) // the first one has a new address
		if got := b.do("POST", "/api/user/create", string(text2)); got.status != 409 ||
			got.json(t)["code"] != "user_exists" || got.json(t)["user_id"] != other {
			t.Errorf("%d %s", got.status, got.text)
		}
		if got := b.do("POST", "/api/user/update", `{"user_id":"`+id+`","email":"ADA@example.com"}`); got.status != 409 ||
			got.json(t)["user_id"] != other {
			t.Errorf("%d %s", got.status, got.text)
		}
		stranger := newFixture(t, d, nil)
		stranger.server = b.server
		stranger.everyScope()
		theirs := stranger.createUser(nil)
		for _, c := range [][3]string{
			{"GET", "/api/user/detail?user_id=" + id, ""}, {"GET", "/api/user/detail?user_id=usr_x", ""},
			{"POST", "/api/user/update", `{"user_id":"` + id + `","city":"Paris"}`},
			{"POST", "/api/user/update", `{"user_id":"usr_x","city":"Paris"}`},
		} {
			if got := stranger.do(c[0], c[1], c[2]); got.status != 404 || got.json(t)["code"] != "not_found" {
				t.Errorf("another company: %s %s: %d %s", c[0], c[1], got.status, got.text)
			}
		}
		if got := b.do("GET", "/api/user/detail", ""); got.status != 422 || !strings.Contains(got.text, `"in":"query",`+
			`"pointer":"user_id"`) {
			t.Errorf("a key that names nobody: %d %s", got.status, got.text)
		}

		// A token acts for its own user, whether or not the request names the user.
		own := stranger.tokenOf(theirs)
		for _, path := range []string{"/api/user/detail", "/api/user/detail?user_id=" + theirs} {
			if me, _ := ask[members](b, "GET", path, "", own...); me["user_id"] != theirs {
				t.Errorf("%v", me)
			}
		}
		if got := b.do("GET", "/api/user/detail?user_id="+id, "", own...); got.status != 404 {
			t.Errorf("%d %s", got.status, got.text)
		}

		var events, history string
		if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			if err := tx.QueryRow(ctx, "SELECT data FROM events WHERE company_id = $1 AND object_id = $2 AND name = "+
				"'user.create_user'", b.company, id).Scan(&events); err != nil {
				return err
			}
			return tx.QueryRow(ctx, "SELECT reason FROM history WHERE company_id = '' AND object_id = $1 AND version = 2 AND "+
				"reason LIKE 'profile%'", id).Scan(&history)
		}); err != nil || !strings.Contains(events, `"user_id":"`+id+`"`) ||
			history != "profile: city, zip, street_address_2" {
			t.Errorf("%v %s %s", err, events, history)
		}
	})
}

// A user and the worker with the same ID have separate versions and histories.
func TestUserAndWorkerHaveSeparateVersions(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newUserService(t, d)
		id := b.createUser(nil)
		ask[members](b, "POST", "/api/company/"+b.company+"/recipients/"+id+"/deactivate", "{}")
		ask[members](b, "POST", "/api/user/update", `{"user_id":"`+id+`","city":"Paris"}`)
	})
}

// Only the user can change the address that they sign in with: an app could otherwise take over the account.
func TestAppCannotChangeSignInAddress(t *testing.T) {
	b := newUserService(t, sqlite(t))
	var id string
	if err := b.db.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		u, err := identity.CreateUser(ctx, tx, b.server.Sealer,
			identity.NewUser{Profile: identity.Profile{Email: "eve@example.com"}})
		id = u.ID
		return err
	}); err != nil {
		t.Fatal(err)
	}
	own := b.tokenOf(id)
	if got := b.do("POST", "/api/user/update", `{"user_id":"`+id+`","email":"mallory@example.com"}`,
		own...); got.status != 409 || got.json(t)["code"] != "invalid_state" {
		t.Errorf("%d %s", got.status, got.text)
	}
	ask[members](b, "POST", "/api/user/update", `{"user_id":"`+id+`","city":"Paris"}`, own...)
}

func TestMalformedUsers(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newUserService(t, d)
		id := b.createUser(members{"email": "first@example.com"})
		tables := []string{"users", "company_users", "recipients", "events", "history", "jobs"}
		b.refusesBadInput(badOperation{method: "POST", path: "/api/user/create", body: userBody(),
			optional: []string{"street_address_2"}}, tables...)
		change := userBody()
		delete(change, "product")
		change["user_id"] = id
		optional := slices.Collect(maps.Keys(change))
		optional = slices.DeleteFunc(optional, func(name string) bool { return name == "user_id" })
		b.refusesBadInput(badOperation{method: "POST", path: "/api/user/update", body: change, optional: optional,
			ids: []string{"user_id"}}, tables...)
		for pointer, change := range map[string]members{
			"/product":       {"product": "Worker"},
			"/date_of_birth": {"date_of_birth": "1991-02-29"},
			"/email":         {"email": "Ada <ada@example.com>"},
			"/phone_number":  {"phone_number": "555-0123"},
			"/phone_country": {"phone_number": "+442079460958"},
			"/state":         {"state": "ZZ"},
			"/zip":           {"zip": "6270"},
			"/country":       {"country": "XX"},
		} {
			body := userBody()
			maps.Copy(body, change)
			text, _ := json.Marshal(body)
			b.pointed(b.do("POST", "/api/user/create", string(text)), pointer, false, pointer)
		}
		for _, young := range []string{"2020-02-01", "2999-01-16", "1899-12-31"} {
			body := userBody()
			body["date_of_birth"] = young
			text, _ := json.Marshal(body)
			b.pointed(b.do("POST", "/api/user/create", string(text)), "/date_of_birth", false, young)
		}
		if got := b.do("GET", "/api/user/detail?user_id="+id+"&user_id="+id, ""); got.status != 422 {
			t.Errorf("%d %s", got.status, got.text)
		}
		for _, bad := range []string{"a%00b", strings.Repeat("x", 100), "%ff"} {
			if got := b.do("GET", "/api/user/detail?user_id="+bad, ""); got.status != 422 ||
				!strings.Contains(got.text, `"user_id"`) {
				t.Errorf("%d %s", got.status, got.text)
			}
		}
	})
}
