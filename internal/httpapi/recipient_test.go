package httpapi

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
)

func TestRecipientChanges(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newService(t, d, nil)
		recipients := "/api/company/" + b.company + "/recipients/"
		create := func(body string) string {
			made, _ := ask[members](b, "POST", recipients+"create", body)
			return made["recipient_id"].(string)
		}
		ada := create(`{"first_name":"Ada","last_name":"King","country":"GB","external_id":"a-1",` +
			`"email":"ada@example.com","date_of_birth":"1990-12-10","phone_number":"+442071838750"}`)
		bob := create(`{"first_name":"Bob","last_name":"Stone","country":"US"}`)
		one, text := ask[members](b, "GET", recipients+ada, "")
		if one["id"] != ada || one["name"] != "Ada King" || one["status"] != "pending" || one["relationship_id"] == "" ||
			one["user_id"] != "" || one["vendor_type"] != "" {
			t.Errorf("%s", text)
		}
		if strings.Contains(text, "1990") || strings.Contains(text, "4420") {
			t.Errorf("personal details are shown: %s", text)
		}

		// Only the given fields change, and a derived name with them.
		changed, text := ask[members](b, "POST", recipients+ada+"/update", `{"last_name":"Lovelace","role":"employee",`+
			`"email":"","department":"R&D","zip":null}`)
		if changed["name"] != "Ada Lovelace" || changed["first_name"] != "Ada" || changed["role"] != "employee" ||
			changed["email"] != "" ||
			changed["department"] != "R&D" || changed["external_id"] != "a-1" || changed["country"] != "GB" {
			t.Errorf("%s", text)
		}
		if list, text := ask[members](b, "GET", "/api/company/recipients?search=lovelace",
			""); list["meta"].(members)["total"] != 1.0 {
			t.Errorf("the list lacks: %s", text)
		}
		if list, text := ask[members](b, "GET", "/api/company/recipients?search=king",
			""); list["meta"].(members)["total"] != 0.0 {
			t.Errorf("the list has the old name: %s", text)
		}
		changed, text = ask[members](b, "POST", recipients+ada+"/update", `{"name":"Countess Lovelace"}`)
		if changed["name"] != "Countess Lovelace" || changed["last_name"] != "Lovelace" {
			t.Errorf("%s", text)
		}
		changed, text = ask[members](b, "POST", recipients+ada+"/update", `{"first_name":"Augusta"}`)
		if changed["name"] != "Countess Lovelace" || changed["first_name"] != "Augusta" {
			t.Errorf("a name of its own follows: %s", text)
		}

		if got := b.do("POST", recipients+bob+"/update", `{"external_id":"a-1"}`); got.status != 409 ||
			got.json(t)["recipient_id"] != ada || got.json(t)["code"] != "external_id_conflict" {
			t.Errorf("%d %s", got.status, got.text)
		}
		ask[members](b, "POST", recipients+ada+"/update", `{"external_id":"a-1"}`) // unchanged
		ask[members](b, "POST", recipients+bob+"/update", `{"external_id":"A-1"}`) // case matters

		for _, step := range []struct{ verb, status string }{
			{"deactivate", "inactive"}, {"deactivate", "inactive"}, {"reactivate", "pending"}, {"reactivate", "pending"},
		} {
			if got, text := ask[members](b, "POST", recipients+bob+"/"+step.verb, ""); got["status"] != step.status {
				t.Errorf("%s: %s", step.verb, text)
			}
		}
		ask[members](b, "POST", recipients+bob+"/distribution",
			`{"symbol":"BTC","distribution_data":{"address":"`+btcAddress+`"}}`)
		for _, step := range []struct{ verb, status string }{{"deactivate", "inactive"}, {"reactivate", "active"}} {
			if got, text := ask[members](b, "POST", recipients+bob+"/"+step.verb, ""); got["status"] != step.status {
				t.Errorf("%s: %s", step.verb, text)
			}
		}
		var events int
		b.query("SELECT COUNT(*) FROM events WHERE name = 'recipient.status_update'", &events)
		if events != 5 {
			t.Errorf("%d events of status, want one for each change: 2, then 1 by the destination, then 2", events)
		}

		stranger := newService(t, d, nil)
		reader := b.keyWith(identity.CompanyWorkerList)
		for _, c := range []struct {
			status             int
			code               string
			method, path, body string
			auth               string
		}{
			{404, "not_found", "GET", recipients + "rec_unknown", "", ""},
			{404, "not_found", "GET", recipients + strings.Repeat("x", 300), "", ""},
			{404, "not_found", "GET", recipients + url.PathEscape("rec_' OR 1=1 --"), "", ""},
			{404, "not_found", "GET", recipients + "%00", "", ""},
			{404, "not_found", "GET", recipients + ada, "", "Basic " + stranger.key},
			{404, "not_found", "GET", "/api/company/" + stranger.company + "/recipients/" + ada, "", "Basic " + stranger.key},
			{404, "not_found", "POST", "/api/company/" + stranger.company + "/recipients/" + ada + "/update",
				`{"role":"vendor"}`, "Basic " + stranger.key},
			{404, "not_found", "POST", "/api/company/" + stranger.company + "/recipients/" + ada + "/deactivate", "",
				"Basic " + stranger.key},
			{404, "not_found", "POST", recipients + ada + "/reactivate", "", "Basic " + stranger.key},
			{403, "insufficient_scope", "POST", recipients + ada + "/update", `{"role":"vendor"}`, reader},
			{403, "insufficient_scope", "POST", recipients + ada + "/deactivate", "", reader},
			{422, "missing_field", "POST", recipients + ada + "/update", `{"country":""}`, ""},
			{422, "missing_field", "POST", recipients + bob + "/update", `{"first_name":""}`, ""},
			{422, "invalid_parameter", "POST", recipients + ada + "/update", `{"role":"boss"}`, ""},
			{422, "invalid_parameter", "POST", recipients + ada + "/update", `{"email":"no"}`, ""},
			{422, "invalid_parameter", "POST", recipients + ada + "/update", `{"name":"two\nlines"}`, ""},
			{422, "invalid_parameter", "POST", recipients + ada + "/update", `{"external_id":" a "}`, ""},
			{422, "invalid_type", "POST", recipients + ada + "/update", `{"name":5}`, ""},
			{422, "unknown_field", "POST", recipients + ada + "/update", `{"status":"active"}`, ""},
			{422, "unknown_field", "POST", recipients + ada + "/update", `{"recipient_type":"company"}`, ""},
			{400, "malformed_json", "POST", recipients + ada + "/update", `{"name":"a","name":"b"}`, ""},
			{415, "unsupported_media_type", "POST", recipients + ada + "/update", "", ""},
		} {
			headers := []string{}
			if c.auth != "" {
				headers = []string{"Authorization", c.auth}
			}
			if got := b.do(c.method, c.path, c.body, headers...); got.status != c.status || got.json(t)["code"] != c.code {
				t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, got.status, got.text)
			}
		}
		if one, text := ask[members](b, "GET", recipients+ada, ""); one["name"] != "Countess Lovelace" ||
			one["role"] != "employee" || one["status"] != "pending" {
			t.Errorf("refusals changed something: %s", text)
		}
	})
}
