package httpapi

import (
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
)

func goodPayer(userID string) members {
	return members{
		"user_id": userID, "name": "Northwind GmbH", "email": "ap@northwind.example", "company_type": "client",
		"payroll_invoice_currency": "EUR",
		"website":                  "https://northwind.example/about", "street_address": "1 Example Street",
		"street_address_2": "Floor 2",
		"city":             "Berlin",
		"region":           "BE", "zip": "10115", "country": "DE",
	}
}

func TestPayers(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newBilling(t, d)
		ada := b.user("ada")
		made, text := ask[members](b, "POST", "/api/user/payer/create", encode(goodPayer(ada)))
		id, _ := made["external_company_id"].(string)
		if !strings.HasPrefix(id, "pyr_") || made["country"] != "DE" || made["status"] != "active" ||
			strings.Contains(text, "payment_amount") {
			t.Fatalf("%s", text)
		}
		ref := `{"user_id":"` + ada + `","external_company_id":"` + id + `"}`
		query := "?user_id=" + ada + "&external_company_id=" + id

		// An update changes only the given fields; "" clears a field; another type clears the fields that only the
		// old type has.
		same, _ := ask[members](b, "POST", "/api/user/payer/update",
			`{"user_id":"`+ada+`","external_company_id":"`+id+`","name":"Northwind AG","website":"","email":null}`)
		if same["name"] != "Northwind AG" || same["website"] != "" || same["email"] != "ap@northwind.example" ||
			same["city"] != "Berlin" {
			t.Errorf("%v", same)
		}
		b.wants(422, "invalid_parameter", "POST", "/api/user/payer/update",
			`{"user_id":"`+ada+`","external_company_id":"`+id+`","occupation":"Writer"}`)
		employer, text := ask[members](b, "POST", "/api/user/payer/update",
			`{"user_id":"`+ada+`","external_company_id":"`+id+`","company_type":"employer","occupation":"Writer",`+
				`"payment_amount":2500.5}`)
		if employer["city"] != "" || employer["occupation"] != "Writer" ||
			!strings.Contains(text, `"payment_amount":2500.50`) {
			t.Errorf("%s", text)
		}
		if again, _ := ask[members](b, "GET", "/api/user/payer/detail"+query, ""); again["occupation"] != "Writer" ||
			again["name"] != "Northwind AG" {
			t.Errorf("%v", again)
		}

		// A request with a user's token reads that user's payers without a user ID.
		token := b.token(ada, identity.UserPayerList, identity.UserPayerDetail)
		if list, _ := ask[members](b, "GET", "/api/user/payer/list", "", "Authorization",
			token); len(list["payers"].([]any)) != 1 {
			t.Errorf("%v", list)
		}
		b.wants(403, "insufficient_scope", "POST", "/api/user/payer/delete", ref, "Authorization", token)

		// Other companies and users get the same response as for an unknown ID.
		bob, other := b.user("bob"), b.otherCompany()
		theirs := other.user("eve")
		for name, c := range map[string]struct {
			as   *fixture
			user string
			auth string
		}{
			"another user": {b, bob, ""}, "the company itself": {b, "", ""},
			"another company, its own user": {other, theirs, ""},
			"another company, our user":     {other, ada, ""}, "another company": {other, "", ""},
			"another user's token": {b, "", b.token(bob, identity.UserPayerDetail, identity.UserPayerUpdate)},
		} {
			headers := []string{}
			if c.auth != "" {
				headers = []string{"Authorization", c.auth}
			}
			for _, at := range []string{id, "pyr_00000000000000000000000000"} {
				c.as.wants(404, "not_found", "GET", "/api/user/payer/detail?user_id="+c.user+"&external_company_id="+at, "",
					headers...)
				c.as.wants(404, "not_found", "POST", "/api/user/payer/delete",
					encode(members{"user_id": c.user, "external_company_id": at}), headers...)
				c.as.wants(404, "not_found", "POST", "/api/user/payer/update",
					encode(members{"user_id": c.user, "external_company_id": at, "name": name}), headers...)
			}
		}
		if list, _ := ask[members](b, "GET", "/api/user/payer/list?user_id="+bob, ""); len(list["payers"].([]any)) != 0 {
			t.Errorf("another user lists %v", list)
		}

		// A deletion can be repeated. The name is stored, use is rejected, and the same data creates a new payer.
		for range 2 {
			if gone, text := ask[members](b, "POST", "/api/user/payer/delete", ref); len(gone) != 1 ||
				gone["external_company_id"] != id {
				t.Errorf("%s", text)
			}
		}
		if gone, _ := ask[members](b, "GET", "/api/user/payer/detail"+query, ""); gone["status"] != "deleted" ||
			gone["name"] != "Northwind AG" {
			t.Errorf("%v", gone)
		}
		if list, _ := ask[members](b, "GET", "/api/user/payer/list?user_id="+ada, ""); len(list["payers"].([]any)) != 0 {
			t.Errorf("a deleted payer is listed: %v", list)
		}
		b.wants(409, "payer_deleted", "POST", "/api/user/payer/update",
			`{"user_id":"`+ada+`","external_company_id":"`+id+`","name":"Again"}`)
		if anew, _ := ask[members](b, "POST", "/api/user/payer/create",
			encode(goodPayer(ada))); anew["external_company_id"] == id {
			t.Error("a deleted payer came back")
		}

		// A company has its own payers.
		own := goodPayer("")
		ours, _ := ask[members](b, "POST", "/api/user/payer/create", encode(own))
		if list, _ := ask[members](b, "GET", "/api/user/payer/list", ""); len(list["payers"].([]any)) != 1 {
			t.Errorf("%v", list)
		}
		b.wants(404, "not_found", "GET", payerAt(ada, ours["external_company_id"].(string)), "")

		rules := map[string]rule{
			"user_id": {id: true}, "name": {required: true}, "email": {}, "company_type": {required: true},
			"payroll_invoice_currency": {required: true},
			"website":                  {}, "street_address": {}, "street_address_2": {}, "city": {}, "region": {}, "zip": {},
			"country": {},
		}
		refuseBadInput(b, "POST", "/api/user/payer/create", goodPayer(ada), rules)
		asEmployer := members{
			"name": "N", "company_type": "employer", "payroll_invoice_currency": "USD", "occupation": "Writer",
			"payment_amount": 1,
		}
		refuseBadInput(b, "POST", "/api/user/payer/create", asEmployer,
			map[string]rule{"occupation": {}, "payment_amount": {}})
		for member, values := range map[string][]any{
			"company_type": {"Client", "CLIENT", "partner"}, "payroll_invoice_currency": {"eur", "GBP"},
			"country": {"XX", "DEU"},
			"website": {"northwind.example", "ftp://northwind.example", "javascript:alert(1)", "https://",
				"https://u:p@northwind.example", "//northwind.example"},
			"email": {"northwind", "a b@northwind.example"}, "occupation": {"Writer"}, "payment_amount": {1},
		} {
			for _, v := range values {
				body := goodPayer(ada)
				body[member] = v
				b.refused("POST", "/api/user/payer/create", "odd "+member, body, member, false)
			}
		}
		for _, v := range []any{0, -1, 1.001} {
			asEmployer["payment_amount"] = v
			b.refused("POST", "/api/user/payer/create", "odd amount", asEmployer, "payment_amount", false)
		}
		refuseBadInput(b, "POST", "/api/user/payer/delete", members{"user_id": ada, "external_company_id": id},
			map[string]rule{"user_id": {id: true}, "external_company_id": {required: true, id: true}})
		b.wants(422, "missing_field", "GET", "/api/user/payer/detail?user_id="+ada, "")
	})
}

func payerAt(userID, payerID string) string {
	return "/api/user/payer/detail?user_id=" + userID + "&external_company_id=" + payerID
}
