package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
)

// flaw is one invalid value in an otherwise valid request.
type flaw struct {
	what string
	bad  any
	// byDecoder: the decoder rejects the value and points at it. Other flaws are rejected by the handler, which may
	// first find that an ID does not exist.
	byDecoder bool
	// harmless: the value may be valid; the schema cannot tell.
	harmless bool
}

// absent means that the member is left out.
type absent struct{}

// kind returns the JSON type of the schema.
func (s schema) kind() string {
	if list, ok := s.Type.([]any); ok {
		s.Type = list[0]
	}
	text, _ := s.Type.(string)
	return text
}

// free reports whether a string is not one line of text but has a decoder of its own.
func (s schema) free() bool { return s.ContentEncoding != "" || s.Format == inCSV }

// flaws returns the invalid values of a schema.
func (s schema) flaws(required bool, good any) (all []flaw) {
	if required {
		all = append(all, flaw{what: "missing", bad: absent{}, byDecoder: true}, flaw{what: "null", byDecoder: true})
	}
	for kind, value := range map[string]any{
		"string": "x", "integer": 7, "number": 7.5, "boolean": true, "array": []any{[]any{}},
		"object": members{"a": members{}},
	} {
		if kind != s.kind() && (kind != "integer" || s.kind() != "number") {
			all = append(all, flaw{what: "of type " + kind, bad: value, byDecoder: true})
		}
	}
	switch s.kind() {
	case "string":
		text, _ := good.(string)
		length := s.MaxLength + 1
		if s.MaxLength == 0 {
			length = 10_000
		}
		all = append(all,
			flaw{what: "empty", bad: "", harmless: !required},
			flaw{what: "blank", bad: "   ", harmless: !required},
			flaw{what: "too long", bad: strings.Repeat("x", length), byDecoder: s.MaxLength > 0},
			flaw{what: "with a control character", bad: text + "\u0007", byDecoder: !s.free()},
			flaw{what: "with a bidirectional control", bad: text + "\u202e", byDecoder: !s.free()})
		if len(s.Enum) > 0 {
			choice := s.Enum[0].(string)
			for _, e := range s.Enum {
				if strings.ContainsFunc(e.(string), unicode.IsLetter) {
					choice = e.(string)
				}
			}
			other := strings.ToUpper(choice)
			if other == choice {
				other = strings.ToLower(choice)
			}
			if !slices.Contains(s.Enum, any(other)) {
				all = append(all, flaw{what: "in another case", bad: other, byDecoder: true})
			}
		}
	case "number":
		all = append(all, flaw{what: "with 100 digits", bad: json.RawMessage(strings.Repeat("9", 100)), byDecoder: true})
	case "integer":
		all = append(all, flaw{what: "with 100 digits", bad: json.RawMessage(strings.Repeat("9", 100)), byDecoder: true})
	}
	return all
}

// malformedInput sends invalid requests to operations.
type malformedInput struct {
	*fixture
	schemas  map[string]schema
	ids      map[string]string
	harmless bool // send harmless flaws, which may change rows, after the others
	count    int
}

func (b *malformedInput) resolve(s schema) schema {
	for s.Ref != "" {
		s = b.schemas[s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]]
	}
	return s
}

// sample returns a value of a schema that is valid as far as the schema tells.
func (b *malformedInput) sample(s schema) any {
	if len(s.Examples) > 0 {
		return s.Examples[0]
	}
	s = b.resolve(s)
	switch {
	case len(s.Examples) > 0:
		return s.Examples[0]
	case len(s.Enum) > 0:
		return s.Enum[0]
	}
	switch s.kind() {
	case "object":
		o := members{}
		for _, name := range s.Required {
			o[name] = b.sample(s.Properties[name])
		}
		return o
	case "array":
		return []any{b.sample(*s.Items)}
	case "integer", "number":
		return 1
	case "boolean":
		return true
	}
	switch s.Format {
	case "date":
		return "2026-09-30"
	case "date-time":
		return "2026-09-30T12:00:00Z"
	case "email":
		return "ada@example.com"
	}
	return "x"
}

// stubbed lists the members whose value the simulators of these tests ignore.
var stubbed = map[string]string{
	"sandbox-deposit": "payroll_id", "sandbox-payout-failure": "subpayroll_id", "sandbox-bank-return": "subpayroll_id",
	"sandbox-direct-debit-return": "debit_id",
}

// known replaces the IDs in an example with IDs that exist.
func (b *malformedInput) known(v any) any {
	switch v := v.(type) {
	case members:
		for name, value := range v {
			if id := b.ids[name]; id != "" {
				v[name] = id
			} else {
				v[name] = b.known(value)
			}
		}
	case []any:
		for i := range v {
			v[i] = b.known(v[i])
		}
	}
	return v
}

// each calls f for every member of a schema, with its path.
func (b *malformedInput) each(s schema, at []string, f func(at []string, s schema, required bool)) {
	s = b.resolve(s)
	switch s.kind() {
	case "object":
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			m := b.resolve(s.Properties[name])
			here := append(slices.Clone(at), name)
			f(here, m, slices.Contains(s.Required, name))
			b.each(m, here, f)
		}
	case "array":
		item := b.resolve(*s.Items)
		here := append(slices.Clone(at), "0")
		f(here, item, false)
		b.each(item, here, f)
	}
}

// with returns a copy of a value in which the member at a path is replaced. It creates missing parents.
func (b *malformedInput) with(v any, s schema, at []string, put any) any {
	if len(at) == 0 {
		return put
	}
	s = b.resolve(s)
	if s.kind() == "array" {
		list, _ := v.([]any)
		if len(list) == 0 {
			list = []any{b.sample(*s.Items)}
		}
		list = slices.Clone(list)
		list[0] = b.with(list[0], *s.Items, at[1:], put)
		return list
	}
	o, _ := v.(members)
	if o == nil {
		o, _ = b.sample(s).(members)
	}
	o = maps.Clone(o)
	value := b.with(o[at[0]], s.Properties[at[0]], at[1:], put)
	if o[at[0]] = value; value == any(absent{}) {
		delete(o, at[0])
	}
	return o
}

// valueAt returns the member at a path, or nil.
func valueAt(v any, at []string) any {
	for _, name := range at {
		switch in := v.(type) {
		case members:
			v = in[name]
		case []any:
			if len(in) == 0 {
				return nil
			}
			v = in[0]
		default:
			return nil
		}
	}
	return v
}

// try sends an invalid request and checks the error. It reports whether the request was accepted, which is permitted
// for a harmless flaw only.
func (b *malformedInput) try(o *operation, path, body, in, pointer, what string, f flaw) (accepted bool) {
	b.t.Helper()
	if f.harmless != b.harmless {
		return false
	}
	b.count++
	got := b.do(o.method, path, body, "Idempotency-Key", "bad-"+strconv.Itoa(b.count))
	what = fmt.Sprintf("%s, %s %s: %d %.300s", o.name, what, f.what, got.status, got.text)
	if got.status == 200 {
		if !f.harmless {
			b.t.Errorf("%s", what)
		}
		return true
	}
	var p problem
	if err := json.Unmarshal([]byte(got.text), &p); err != nil || p.Status != got.status || p.Code == "" ||
		p.Title == "" || p.Detail == "" || p.RequestID == "" {
		b.t.Errorf("the form of the error: %s", what)
		return false
	}
	points := slices.ContainsFunc(p.Errors, func(e wrong) bool {
		return e.In == in && (e.Pointer == pointer || in == "body" && strings.HasPrefix(e.Pointer, pointer+"/"))
	})
	switch {
	case got.status >= 500, got.status == 401, p.Code == errScope.Code:
		b.t.Errorf("%s", what)
	case f.byDecoder && (got.status != 422 || !points):
		b.t.Errorf("%s", what)
	case got.status == 422 && !points && !f.harmless:
		b.t.Errorf("no problem points at %s: %s", pointer, what)
	}
	return false
}

// digest returns, for every table, the number of rows and for every column the sum of its numbers or of the lengths
// of its texts.
func (b *malformedInput) digest() map[string]string {
	b.t.Helper()
	all := map[string]string{}
	if err := b.db.Read(b.t.Context(), func(ctx context.Context, tx *db.Tx) error {
		columns := map[string][]string{}
		list := `SELECT m.name, p.name, p.type FROM sqlite_master m, pragma_table_info(m.name) p WHERE m.type = 'table' ` +
			`ORDER BY 1, 2`
		if tx.Engine() == db.Postgres {
			list = `SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = ` +
				`current_schema() ORDER BY 1, 2`
		}
		rows, err := tx.Query(ctx, list)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var table, column, kind string
			if err := rows.Scan(&table, &column, &kind); err != nil {
				return err
			}
			sum := `SUM(LENGTH(CAST("` + column + `" AS TEXT)))`
			if kind = strings.ToLower(kind); strings.Contains(kind, "int") {
				sum = `SUM("` + column + `")`
			}
			columns[table] = append(columns[table], `COALESCE(CAST(`+sum+` AS TEXT), '')`)
		}
		if err := rows.Err(); err != nil {
			return err
		}
		rows.Close()
		for table, sums := range columns {
			var text string
			if err := tx.QueryRow(ctx, `SELECT CAST(COUNT(*) AS TEXT) || ':' || `+strings.Join(sums,
				` || ',' || `)+` FROM "`+table+`"`).Scan(&text); err != nil {
				return fmt.Errorf("%s: %w", table, err)
			}
			all[table] = text
		}
		return nil
	}); err != nil {
		b.t.Fatal(err)
	}
	if len(all) < 40 {
		b.t.Fatalf("the digest is of %d tables", len(all))
	}
	return all
}

// Every value of every operation is made invalid in every way, one at a time. Each request gets an error that points
// at the value, and no table changes. The clock is stopped, so that the time of the last use of the key does not
// change either.
func TestMalformedInputChangesNothing(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		all, schemas := operations(t)
		b := &malformedInput{fixture: newFullFixture(t, d), schemas: schemas}
		b.server.Now = clock.Now // a denied request is recorded once a minute
		b.ids = map[string]string{"company_id": b.company, "user_id": b.user("Ada"), "recipient_id": b.payee()}
		before := b.digest()
		hook, _ := ask[members](b.fixture, "POST", "/api/webhooks", `{"url":"http://127.0.0.1:9/","events":["recipient.*"]}`)
		b.ids["webhook_id"] = hook["webhook_id"].(string)
		payer, _ := ask[members](b.fixture, "POST", "/api/user/payer/create", encode(goodPayer(b.ids["user_id"])))
		b.ids["external_company_id"] = payer["external_company_id"].(string)
		if maps.Equal(before, b.digest()) {
			t.Error("the digest does not see a new webhook endpoint")
		}
		before = b.digest()
		for _, o := range all {
			for _, b.harmless = range []bool{false, true} {
				accepted := b.tryBody(o)
				accepted = b.tryParameters(o) || accepted
				after := b.digest()
				for table := range after {
					if !accepted && before[table] != after[table] {
						t.Errorf("%s: refused requests changed %s from %s to %s", o.name, table, before[table], after[table])
					}
				}
				before = after
			}
		}
		if b.count < 3000 {
			t.Errorf("only %d requests were sent", b.count)
		}
	})
}

func (b *malformedInput) tryBody(o *operation) (accepted bool) {
	content, ok := o.RequestBody.Content["application/json"]
	if !ok {
		return false
	}
	path, example := o.wellFormed(b.ids)
	var good any
	if err := json.Unmarshal([]byte(example), &good); err != nil {
		b.t.Fatal(err)
	}
	if _, takes := b.resolve(content.Schema).Properties["user_id"]; takes {
		good.(members)["user_id"] = "" // required with an API key
	}
	good = b.known(good)
	send := func(body any, at []string, f flaw) {
		pointer := "/" + strings.Join(at, "/")
		if b.try(o, path, encode(body), "body", pointer, pointer, f) {
			accepted = true
		}
	}
	b.each(content.Schema, nil, func(at []string, s schema, required bool) {
		value := valueAt(good, at)
		if value == nil {
			value = b.sample(s)
		}
		for _, f := range s.flaws(required, value) {
			f.harmless = f.harmless || stubbed[o.name] == at[0] && (f.what == "empty" || f.what == "blank")
			send(b.with(good, content.Schema, at, f.bad), at, f)
		}
	})
	unknown := maps.Clone(good.(members))
	unknown["no_such_member"] = 1
	send(unknown, []string{"no_such_member"}, flaw{what: "unknown", byDecoder: true})
	return accepted
}

func (b *malformedInput) tryParameters(o *operation) (accepted bool) {
	path, body := o.wellFormed(b.ids)
	good := url.Values{}
	for _, p := range o.Parameters {
		if value := b.sample(p.Schema); p.In == "query" && (p.Required || p.Name == "user_id") {
			if p.Example != nil {
				value = p.Example
			}
			if id := b.ids[p.Name]; id != "" {
				value = id
			}
			good.Set(p.Name, fmt.Sprint(value))
		}
	}
	for _, p := range o.Parameters {
		switch p.In {
		case "query":
			value := good.Get(p.Name)
			for _, f := range b.resolve(p.Schema).inText(p.Required, value) {
				q := maps.Clone(good)
				if f.bad == any(absent{}) {
					q.Del(p.Name)
				} else {
					q.Set(p.Name, f.bad.(string))
				}
				accepted = b.try(o, path+"?"+q.Encode(), body, "query", p.Name, "?"+p.Name, f) || accepted
			}
			q := maps.Clone(good)
			q[p.Name] = []string{"1", "1"}
			accepted = b.try(o, path+"?"+q.Encode(), body, "query", p.Name, "?"+p.Name, flaw{what: "twice", byDecoder: true}) ||
				accepted
		case "path":
			if b.harmless {
				continue
			}
			for _, bad := range []string{"x", "\u0007", "\u202e", "\xff", "\x00", strings.Repeat("x", 10_000)} {
				elsewhere := strings.Replace(o.path, "{"+p.Name+"}", url.PathEscape(bad), 1)
				for name, id := range b.ids {
					elsewhere = strings.ReplaceAll(elsewhere, "{"+name+"}", id)
				}
				elsewhere = strings.NewReplacer("{", "", "}", "").Replace(elsewhere)
				got := b.do(o.method, elsewhere+"?"+good.Encode(), body)
				if b.count++; got.status != 404 && (bad != "x" || got.status != 422) || got.json(b.t)["code"] == "" {
					b.t.Errorf("%s, %s is %.20q: %d %s", o.name, p.Name, bad, got.status, got.text)
				}
			}
		}
	}
	return accepted
}

// inText returns the invalid values of a parameter, which is always text.
func (s schema) inText(required bool, good string) (all []flaw) {
	if required {
		all = append(all, flaw{what: "missing", bad: absent{}, byDecoder: true})
	}
	if s.kind() != "string" || s.Format == "date-time" {
		for _, bad := range []string{"", "x", "1.5x", good + "\u0007", good + "\u202e", strings.Repeat("9", 10_000)} {
			all = append(all, flaw{what: fmt.Sprintf("%.20q", bad), bad: bad, byDecoder: true})
		}
		return all
	}
	s.Type = "string"
	for _, f := range s.flaws(false, good) {
		if _, isText := f.bad.(string); isText {
			f.harmless = f.harmless || f.what == "too long" && !f.byDecoder // a search without results
			all = append(all, f)
		}
	}
	return append(all, flaw{what: "not UTF-8", bad: "\xff", byDecoder: true})
}
