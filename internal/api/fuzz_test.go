package api

import (
	"encoding/json"
	"net/url"
	"testing"

	"github.com/stipend/stipend/internal/identity"
)

// lists are the paged lists of people, with every parameter that they take.
var lists = map[string][]string{
	"/api/company/recipients":         {"company_id", "search", "role", "recipient_type", "status", "country", "sort_by", "sort_by_dir", "page", "per_page"},
	"/api/company/workers":            {"company_id", "user_id", "email", "page", "per_page"},
	"/api/company/worker/invitations": {"company_id", "status", "email", "page", "per_page"},
}

// FuzzLists gives one parameter of every list any value, beside another. The answer is a page whose numbers agree, or a refusal
// that names the parameter; never an error of the service, and never a row of another company.
func FuzzLists(f *testing.F) {
	for _, seed := range [][2]string{
		{"ada", "1"}, {"%", "2"}, {"' OR 1=1 --", "0"}, {"\x00", "-1"}, {"\xff", "1e9"}, {"vendor", "9223372036854775808"}, {"é", "e\u0301"},
		{"name", "desc"}, {"US", "us"}, {"", " "}, {"@", "\u202e"}, {"İ", "ß"},
	} {
		f.Add(seed[0], seed[1], uint(0), uint(8))
	}
	b := newService(f, sqlite(f), nil)
	other := newService(f, b.db, nil)
	all := b.keyWith(identity.CompanyWorkerList, identity.CompanyWorkerInvitationsList)
	for _, who := range []*bench{b, other} {
		for _, first := range []string{"Ada", "100%_\\", "Zoë"} {
			body, _ := json.Marshal(members{"first_name": first, "last_name": "of " + who.company, "country": "US", "role": "vendor"})
			if got := who.do("POST", "/api/company/"+who.company+"/recipients/create", string(body)); got.status != 200 {
				f.Fatal(got.text)
			}
		}
		if got := who.do("POST", "/api/company/worker/invite", `{"email":"ada@`+who.company[4:]+`.example"}`); got.status != 200 {
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
