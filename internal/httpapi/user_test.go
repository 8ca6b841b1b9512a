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
