package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
)

const (
	achData = `{"account_holder_name":"Ada Lovelace","account_holder_type":"individual","routing_number":"110000000",` +
		`"account_number":"000123456789","account_type":"checking","address":{"address_line1":"1 Main Street",` +
		`"city":"Springfield","state":"IL","postal_code":"62701","country":"US"}}`
	xrpData = `{"address":"rf1BiGeXwwQoi8Z2ueFYTEXSwuJYfV2Jpn","tag":"0042"}`
	btcData = `{"address":"` + btcAddress + `"}`
)

func (b *fixture) destination(user, symbol, kind, data string) members {
	b.t.Helper()
	made, _ := ask[members](b, "POST", "/api/user/distribution",
		`{"user_id":"`+user+`","symbol":"`+symbol+`","distribution_type":"`+kind+`","distribution_data":`+data+`}`)
	return made
}

func TestUserDestinations(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newUserService(t, d)
		user := b.createUser(nil)
		const at = "/api/user/distribution"

		fields, text := ask[members](b, "GET", at+"/fields?currency=USD&user_id="+user, "")
		if fields["currency"] != "USD" || fields["country"] != "US" || !strings.Contains(text, `"key":"routing_number"`) ||
			!strings.Contains(text, `"checksum":"aba"`) {
			t.Errorf("%s", text)
		}
		if _, text := ask[members](b, "GET", at+"/fields?symbol=USDC&user_id="+user, ""); !strings.Contains(text,
			`"key":"network"`) || !strings.Contains(text, `"value":"solana"`) {
			t.Errorf("%s", text)
		}
		for query, pointer := range map[string]string{
			"": "currency", "&currency=usd": "currency", "&symbol=DOGE": "symbol", "&currency=MXN": "currency",
		} {
			if got := b.do("GET", at+"/fields?user_id="+user+query, ""); got.status != 422 ||
				!strings.Contains(got.text, `"in":"query","pointer":"`+pointer+`"`) {
				t.Errorf("%s: %d %s", query, got.status, got.text)
			}
		}

		bank := b.destination(user, "USD", "fiat", achData)
		coin := b.destination(user, "XRP", "crypto", xrpData)
		third := b.destination(user, "BTC", "crypto", btcData)
		one, two, three := bank["distribution_id"].(string), coin["distribution_id"].(string),
			third["distribution_id"].(string)
		if bank["allocation"] != 100.0 || coin["allocation"] != 0.0 || bank["user_id"] != user {
			t.Errorf("%v %v", bank, coin)
		}
		if got := b.do("POST", at,
			`{"user_id":"`+user+`","symbol":"BTC","distribution_type":"crypto","distribution_data":`+btcData+`}`); got.status != 422 ||
			got.json(t)["code"] != "distribution_limit" {
			t.Errorf("a fourth: %d %s", got.status, got.text)
		}

		// Bank details are masked, addresses are public.
		for _, path := range []string{
			at + "/list?user_id=" + user, at + "/detail?user_id=" + user + "&distribution_id=" + one,
			at + "/history?user_id=" + user,
		} {
			if _, text := ask[members](b, "GET", path, ""); !strings.Contains(text, `"account_number":"••••6789"`) ||
				strings.Contains(text, "000123456789") || strings.Contains(text, "Main Street") {
				t.Errorf("%s: %s", path, text)
			}
		}
		item, text := ask[members](b, "GET", at+"/detail?user_id="+user+"&distribution_id="+two, "")
		for name, want := range map[string]any{
			"distribution_id": two, "user_id": user, "address": "rf1BiGeXwwQoi8Z2ueFYTEXSwuJYfV2Jpn", "symbol": "XRP",
			"tag": "42", "transfer_memo": "", "allocation": 0.0,
		} {
			if item[name] != want {
				t.Errorf("%s is %v: %s", name, item[name], text)
			}
		}
		var sealed string
		if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			return tx.QueryRow(ctx, "SELECT sealed || masked FROM destinations WHERE destination_id = $1", one).Scan(&sealed)
		}); err != nil || strings.Contains(sealed, "000123456789") || !strings.HasPrefix(sealed, "v1.") {
			t.Errorf("%v %s", err, sealed)
		}

		// Allocations are set together or not at all.
		allocate := func(shares string) reply {
			return b.do("PATCH", at+"/allocations", `{"user_id":"`+user+`","allocations":[`+shares+`]}`)
		}
		s := func(id, n string) string { return `{"distribution_id":"` + id + `","allocation":` + n + `}` }
		for shares, want := range map[string]string{
			s(one, "50") + "," + s(two, "49"):                                           "allocation_total",
			s(one, "33.333") + "," + s(two, "33.333") + "," + s(three, "33.334"):        "allocation_invalid",
			s(one, "-1") + "," + s(two, "101"):                                          "allocation_invalid",
			s(one, "50") + "," + s(one, "50"):                                           "allocation_invalid",
			s(one, "100") + "," + s(two, "0") + "," + s(three, "0") + "," + s("x", "0"): "distribution_limit",
			s(one, "50") + "," + s("dst_x", "50"):                                       "not_found",
			s(one, `"100"`):                                                             "invalid_type",
			s(one, "1e2") + "," + s(two, "1e400"):                                       "amount_too_large",
			"":                                                                          "invalid_parameter",
		} {
			if got := allocate(shares); got.json(t)["code"] != want {
				t.Errorf("%s: %d %s", shares, got.status, got.text)
			}
		}
		if got := allocate(s(one, "40") + "," + s(two, "60")); got.status != 200 || got.json(t)["updated"] != true {
			t.Errorf("%d %s", got.status, got.text)
		}
		if got := b.do("DELETE", at, `{"user_id":"`+user+`","distribution_id":"`+one+`"}`); got.status != 409 ||
			got.json(t)["code"] != "allocation_not_zero" {
			t.Errorf("%d %s", got.status, got.text)
		}
		if gone, _ := ask[members](b, "DELETE", at,
			`{"user_id":"`+user+`","distribution_id":"`+three+`"}`); gone["deleted"] != true {
			t.Errorf("%v", gone)
		}
		changed, text := ask[members](b, "POST", at+"/update",
			`{"user_id":"`+user+`","distribution_id":"`+two+`","distribution_data":{"address":"rN7n7otQDd6FczFgLdSqtcsAUxDkw6fzRH"}}`)
		if changed["allocation"] != 60.0 || changed["tag"] != "" ||
			changed["address"] != "rN7n7otQDd6FczFgLdSqtcsAUxDkw6fzRH" {
			t.Errorf("%s", text)
		}
		if got := b.do("POST", at+"/update",
			`{"user_id":"`+user+`","distribution_id":"`+two+`","distribution_data":{"address":"rN7n7otQDd6FczFgLdSqtcsAUxDkw6fzRh"}}`); got.status != 422 ||
			!strings.Contains(got.text, "/distribution_data/address") {
			t.Errorf("%d %s", got.status, got.text)
		}

		// The history shows who did what, newest first.
		history, text := ask[members](b, "GET", at+"/history?per_page=2&user_id="+user, "")
		rows := history["data"].([]any)
		// three added, two reallocated, one removed, one replaced
		if history["meta"].(members)["total"] != 7.0 || len(rows) != 2 {
			t.Fatalf("%s", text)
		}
		last := rows[0].(members)
		if last["action"] != "replaced" || last["by"].(members)["kind"] != "api_key" ||
			last["by"].(members)["company_id"] != b.company ||
			!strings.Contains(fmt.Sprint(last["before"]), "rf1BiGeXwwQoi8Z2ueFYTEXSwuJYfV2Jpn") ||
			!strings.Contains(fmt.Sprint(last["after"]), "rN7n7otQDd6FczFgLdSqtcsAUxDkw6fzRH") {
			t.Errorf("%v", last)
		}
		if removed := rows[1].(members); removed["action"] != "removed" || removed["after"] != nil {
			t.Errorf("%v", removed)
		}
		var events, mails int64
		if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			if err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM events WHERE company_id = $1 AND object_id = $2 AND name = "+
				"'distribution.changed'", b.company, user).Scan(&events); err != nil {
				return err
			}
			return tx.QueryRow(ctx, "SELECT COUNT(*) FROM mails WHERE template = 'destination_changed'").Scan(&mails)
		}); err != nil || events != 6 || mails != 6 {
			t.Errorf("%v: %d events, %d mails", err, events, mails)
		}

		// A correction requested by the bank is shown, and can be applied with permission to change the destination.
		asked := b.correction(user, "account_number", "000123456788")
		if _, text := ask[members](b, "GET", at+"/list?user_id="+user, ""); !strings.Contains(text,
			`"correction_id":"`+asked+`"`) {
			t.Errorf("%s", text)
		}
		b.wants(409, "invalid_state", "POST", at+"/correction",
			`{"user_id":"`+user+`","distribution_id":"`+two+`","correction_id":"`+asked+`"}`)
		right, text := ask[members](b, "POST", at+"/correction",
			`{"user_id":"`+user+`","distribution_id":"`+one+`","correction_id":"`+asked+`"}`)
		if right["correction"] != nil || right["allocation"] != 40.0 ||
			!strings.Contains(text, `"account_number":"••••6788"`) {
			t.Errorf("%s", text)
		}

		// Nobody else can read or change a destination: another company, another user, or the company of an invited
		// worker.
		stranger := newFixture(t, d, nil)
		stranger.server = b.server
		stranger.everyScope()
		invited := ""
		b.write(func(ctx context.Context, tx *db.Tx) error {
			u, err := identity.CreateUser(ctx, tx, b.server.Sealer,
				identity.NewUser{Profile: identity.Profile{
					Email: "free@example.com", FirstName: "F", LastName: "R", Country: "US",
				}})
			invited = u.ID
			return err
		})
		own := b.tokenOf(invited)
		for _, c := range []struct{ method, path, body string }{
			{"GET", at + "/list?user_id=%s", ""}, {"GET", at + "/detail?user_id=%s&distribution_id=" + one, ""},
			{"GET", at + "/history?user_id=%s", ""},
			{"GET", at + "/fields?currency=USD&user_id=%s", ""}, {"POST", at, `{"user_id":"%s","symbol":"BTC",` +
				`"distribution_type":"crypto","distribution_data":` + btcData + `}`},
			{"POST", at + "/update", `{"user_id":"%s","distribution_id":"` + two + `","distribution_data":` + xrpData + `}`},
			{"PATCH", at + "/allocations", `{"user_id":"%s","allocations":[` + s(two, "100") + `]}`},
			{"DELETE", at, `{"user_id":"%s","distribution_id":"` + one + `"}`},
		} {
			fill := func(text, id string) string { return strings.ReplaceAll(text, "%s", id) }
			if got := stranger.do(c.method, fill(c.path, user), fill(c.body, user)); got.status != 404 {
				t.Errorf("another company: %s %s: %d %s", c.method, c.path, got.status, got.text)
			}
			if got := b.do(c.method, fill(c.path, user), fill(c.body, user), own...); got.status != 404 {
				t.Errorf("another user: %s %s: %d %s", c.method, c.path, got.status, got.text)
			}
			if got := b.do(c.method, fill(c.path, invited), fill(c.body, invited)); got.status != 404 {
				t.Errorf("an invited user: %s %s: %d %s", c.method, c.path, got.status, got.text)
			}
		}
		if got := b.do("GET", "/api/company/"+b.company+"/recipients/"+invited+"/distribution", ""); got.status != 404 {
			t.Errorf("an invited worker's destinations: %d %s", got.status, got.text)
		}
		if _, text := ask[members](b, "GET", at+"/list", "", own...); text != `{"distributions":[]}` {
			t.Errorf("%s", text)
		}
	})
}

// An address of the service is not accepted as a destination: one payroll could fund another.
func TestAddressOfServiceIsRejected(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newUserService(t, d)
		user := b.createUser(nil)
		b.write(func(ctx context.Context, tx *db.Tx) error {
			return tx.Insert(ctx, "chain_addresses", []string{
				"chain", "address", "company_id", "object_id", "branch", "idx", "created",
			},
				[][]any{{"regtest", btcAddress, b.company, "prl_1", int64(0), int64(999), int64(1)}})
		})
		for _, address := range []string{btcAddress, strings.ToUpper(btcAddress)} {
			got := b.do("POST", "/api/user/distribution", `{"user_id":"`+user+`","symbol":"BTC","distribution_type":"crypto",`+
				`"distribution_data":{"address":"`+address+`"}}`)
			if got.status != 422 || got.json(t)["code"] != "address_invalid" ||
				!strings.Contains(got.text, `"/distribution_data/address"`) {
				t.Errorf("%d %s", got.status, got.text)
			}
		}
	})
}

func TestMalformedDestinations(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newUserService(t, d)
		user := b.createUser(nil)
		made := b.destination(user, "BTC", "crypto", btcData)
		id := made["distribution_id"].(string)
		var data any
		if err := json.Unmarshal([]byte(btcData), &data); err != nil {
			t.Fatal(err)
		}
		tables := []string{
			"destinations", "destination_owners", "destination_changes", "recipients", "events", "history", "jobs", "mails",
		}
		const at = "/api/user/distribution"
		b.refusesBadInput(badOperation{method: "POST", path: at, ids: []string{"user_id"},
			body: members{"user_id": user, "symbol": "BTC", "distribution_type": "crypto", "distribution_data": data}},
			tables...)
		b.refusesBadInput(badOperation{method: "POST", path: at + "/update", ids: []string{"user_id", "distribution_id"},
			optional: []string{"symbol", "distribution_type"},
			body: members{"user_id": user, "distribution_id": id, "symbol": "BTC", "distribution_type": "crypto",
				"distribution_data": data}}, tables...)
		b.refusesBadInput(badOperation{method: "DELETE", path: at, ids: []string{"user_id", "distribution_id"},
			body: members{"user_id": user, "distribution_id": id}}, tables...)
		b.refusesBadInput(badOperation{method: "PATCH", path: at + "/allocations", ids: []string{"user_id"},
			body: members{"user_id": user, "allocations": []any{map[string]any{"distribution_id": id, "allocation": 100}}}},
			tables...)
		made2, _ := ask[members](b, "POST", "/api/company/"+b.company+"/recipients/create",
			`{"first_name":"Pat","last_name":"Person","country":"DE"}`)
		recipient := "/api/company/" + b.company + "/recipients/" + made2["recipient_id"].(string) + "/distribution"
		b.refusesBadInput(badOperation{method: "POST", path: recipient,
			body: members{"symbol": "BTC", "distribution_data": data}}, tables...)
		b.refusesBadInput(badOperation{method: "DELETE", path: recipient, ids: []string{"distribution_id"},
			body: members{"distribution_id": id}}, tables...)

		good := members{"user_id": user, "symbol": "BTC", "distribution_type": "crypto", "distribution_data": data}
		for pointer, change := range map[string]members{
			"/symbol":                    {"symbol": "btc"},
			"/distribution_type":         {"distribution_type": "Crypto"},
			"/distribution_data/address": {"distribution_data": members{"address": "bcrt1q\u202ew508d6qejxtdg4y5r3zarvary0c5xw7kygt080"}},
			"/distribution_data/network": {"distribution_data": members{"address": btcAddress, "network": "Regtest"}},
			"/distribution_data/colour":  {"distribution_data": members{"address": btcAddress, "colour": "red"}},
		} {
			body := members{}
			for _, m := range []members{good, change} {
				for k, v := range m {
					body[k] = v
				}
			}
			text, _ := json.Marshal(body)
			b.pointed(b.do("POST", at, string(text)), pointer, false, pointer)
		}
		// Every field of a bank destination, invalid in every way.
		bank := map[string]any{}
		if err := json.Unmarshal([]byte(achData), &bank); err != nil {
			t.Fatal(err)
		}
		before := b.state(tables...)
		for name, value := range bank {
			bad := []any{nil, 7, true, []any{}, strings.Repeat("9", 4000), "a\u0007b", "\u202e1"}
			if _, isText := value.(string); isText {
				bad = append(bad, "", " ", map[string]any{})
			}
			for _, v := range bad {
				data := members{}
				for k, v := range bank {
					data[k] = v
				}
				data[name] = v
				text, _ := json.Marshal(members{
					"user_id": user, "symbol": "USD", "distribution_type": "fiat", "distribution_data": data,
				})
				b.pointed(b.do("POST", at, string(text)), "/distribution_data/"+name, false, fmt.Sprint(name, " ", v))
			}
		}
		if after := b.state(tables...); after != before {
			t.Errorf("%s, before %s", after, before)
		}
	})
}
