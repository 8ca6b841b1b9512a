package httpapi

import (
	"bytes"
	"encoding/json"
	"math/big"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/money"
)

// lists are the paged lists of people with their parameters.
var lists = map[string][]string{
	"/api/company/recipients": {"company_id", "search", "role", "recipient_type", "status", "country", "sort_by",
		"sort_by_dir", "page", "per_page"},
	"/api/company/workers":            {"company_id", "user_id", "email", "page", "per_page"},
	"/api/company/worker/invitations": {"company_id", "status", "email", "page", "per_page"},
}

// FuzzLists sets two parameters of every list to any values. The response is a consistent page or an error of the
// request, and never contains a row of another company.
func FuzzLists(f *testing.F) {
	for _, seed := range [][2]string{
		{"ada", "1"}, {"%", "2"}, {"' OR 1=1 --", "0"}, {"\x00", "-1"}, {"\xff", "1e9"}, {"vendor", "9223372036854775808"},
		{"é", "e\u0301"},
		{"name", "desc"}, {"US", "us"}, {"", " "}, {"@", "\u202e"}, {"İ", "ß"},
	} {
		f.Add(seed[0], seed[1], uint(0), uint(8))
	}
	b := newService(f, sqlite(f), nil)
	other := newService(f, b.db, nil)
	all := b.keyWith(identity.CompanyWorkerList, identity.CompanyWorkerInvitationsList)
	for _, who := range []*fixture{b, other} {
		for _, first := range []string{"Ada", "100%_\\", "Zoë"} {
			body, _ := json.Marshal(members{
				"first_name": first, "last_name": "of " + who.company, "country": "US", "role": "vendor",
			})
			if got := who.do("POST", "/api/company/"+who.company+"/recipients/create", string(body)); got.status != 200 {
				f.Fatal(got.text)
			}
		}
		if got := who.do("POST", "/api/company/worker/invite",
			`{"email":"ada@`+who.company[4:]+`.example"}`); got.status != 200 {
			f.Fatal(got.text)
		}
	}
	f.Fuzz(func(t *testing.T, one, two string, i, j uint) {
		b.t = t
		for path, names := range lists {
			q := url.Values{}
			q.Set(names[i%uint(len(names))], one)
			q.Set(names[j%uint(len(names))], two)
			got := b.do("GET", path+"?"+q.Encode(), "", "Authorization", all)
			var answer struct {
				Data []json.RawMessage
				Meta struct{ Total int64 }
			}
			switch got.status {
			case 200:
				if err := json.Unmarshal([]byte(got.text), &answer); err != nil {
					t.Fatal(err)
				}
				m := answer.Meta
				if int64(len(answer.Data)) > m.Total || m.Total > 3 {
					t.Errorf("%s?%s: %s", path, q.Encode(), got.text)
				}
			case 404, 422:
			default:
				t.Errorf("%s?%s: %d %s", path, q.Encode(), got.status, got.text)
			}
		}
	})
}

// FuzzStrictBody decodes any bytes as the body of any operation. An accepted body is one JSON object and decodes to
// the same value again. Anything else is an error of the request.
func FuzzStrictBody(f *testing.F) {
	all, _ := operations(f)
	_, inputs := compileRoutes(routes)
	var bodies []*input
	for i, o := range all {
		if inputs[i].body >= 0 {
			_, example := o.wellFormed(nil)
			f.Add(uint(len(bodies)), []byte(example))
			bodies = append(bodies, inputs[i])
		}
	}
	f.Fuzz(func(t *testing.T, i uint, body []byte) {
		in := bodies[i%uint(len(bodies))]
		first, again := reflect.New(in.typ).Elem(), reflect.New(in.typ).Elem()
		var problems, same apierr.List
		err := in.readBody(bytes.Clone(body), first, &problems)
		if f, ok := apierr.As(err); err != nil && (!ok || f.Code != errMalformed.Code) {
			t.Fatalf("%q: %v", body, err)
		}
		if err == nil && !json.Valid(body) {
			t.Fatalf("%q is read as JSON", body)
		}
		if f, ok := apierr.As(problems.Err()); problems.Err() != nil &&
			(!ok || f.Kind != apierr.Invalid || len(f.Fields) == 0) {
			t.Fatalf("%q: %v", body, problems.Err())
		}
		if err != nil || problems.Err() != nil {
			return
		}
		if err := in.readBody(bytes.Clone(body), again, &same); err != nil ||
			!reflect.DeepEqual(first.Interface(), again.Interface()) {
			t.Fatalf("%q is read as %v, then as %v", body, first, again)
		}
	})
}

// FuzzAmount decodes any text as an amount of every asset. An accepted amount equals the number in the text.
func FuzzAmount(f *testing.F) {
	for _, seed := range []string{
		"0", "-0", "1", "12.50", "1e2", "1.5E-3", "0.00000001", "9223372036854775807", "92233720368547758.07", "1e40",
		"1e-40", "01", ".5", "5.", "+1", "1_0", "0x1", "NaN",
	} {
		f.Add(seed)
	}
	in := newInput(newRegistry(), reflect.TypeFor[tryIn]())
	f.Fuzz(func(t *testing.T, text string) {
		v := reflect.New(in.typ)
		var problems apierr.List
		if in.readBody([]byte(`{"items":[{"amount":`+text+`}]}`), v.Elem(), &problems) != nil || problems.Err() != nil {
			return
		}
		items := v.Interface().(*tryIn).Body.Items
		written, ok := new(big.Rat).SetString(strings.TrimSpace(text))
		if len(items) != 1 || !ok {
			return // the text closes the number and adds members
		}
		for _, asset := range money.All() {
			a, err := money.Parse(asset, string(items[0].Amount))
			if err != nil {
				if f, ok := apierr.As(err); !ok || f.Kind != apierr.Invalid {
					t.Errorf("%q %s: %v", text, asset, err)
				}
				continue
			}
			if got, ok := new(big.Rat).SetString(a.String()); !ok || got.Cmp(written) != 0 {
				t.Errorf("%q is read as %s %s", text, a, asset)
			}
		}
	})
}

// FuzzParameters sets two query parameters of any GET operation to any values. The response is never an internal
// error.
func FuzzParameters(f *testing.F) {
	all, _ := operations(f)
	all = slices.DeleteFunc(all, func(o *operation) bool {
		return o.method != "GET" || !slices.ContainsFunc(o.Parameters, func(p parameter) bool { return p.In == "query" })
	})
	for i := range all {
		for j, seed := range []string{
			"", "1", "-1", "9223372036854775807", "%_\\", "2026-01-01", "0000-01-01T00:00:00Z",
			"9999-12-31T23:59:59.999999999-23:59", "' OR 1=1 --", "\x00", "\u202e", "*", "a,b",
		} {
			f.Add(uint(i), uint(j), uint(j+1), seed, "1000000000")
		}
	}
	b := newFullFixture(f, sqlite(f))
	ids := map[string]string{"company_id": b.company, "user_id": b.user("Ada"), "recipient_id": b.payee()}
	f.Fuzz(func(t *testing.T, i, j, k uint, one, two string) {
		b.t = t
		o := all[i%uint(len(all))]
		path, _ := o.wellFormed(ids)
		q, takes := url.Values{}, []string{}
		for _, p := range o.Parameters {
			if p.In == "query" {
				takes = append(takes, p.Name)
			}
			if p.In == "query" && ids[p.Name] != "" {
				q.Set(p.Name, ids[p.Name])
			}
		}
		q.Set(takes[k%uint(len(takes))], two)
		q.Set(takes[j%uint(len(takes))], one)
		switch got := b.do("GET", path+"?"+q.Encode(), ""); got.status {
		case 200, 404, 409, 422:
		default:
			t.Errorf("%s?%s: %d %s", path, q.Encode(), got.status, got.text)
		}
	})
}
