package httpapi

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
)

// recipientIn creates a recipient in a country and returns the ID and the path of the destinations.
func (b *fixture) recipientIn(country string) (id, destinations string) {
	b.t.Helper()
	made, _ := ask[members](b, "POST", "/api/company/"+b.company+"/recipients/create",
		`{"first_name":"Ada","last_name":"Lovelace","email":"ada@example.com","country":"`+country+`"}`)
	id = made["recipient_id"].(string)
	return id, "/api/company/" + b.company + "/recipients/" + id + "/distribution"
}

// first returns the first destination of an owner.
func (b *fixture) first(owner string) (d destination.Destination) {
	b.t.Helper()
	b.write(func(ctx context.Context, tx *db.Tx) error {
		all, err := destination.ForOwners(ctx, tx, []string{owner})
		if err == nil {
			d = all[owner][0]
		}
		return err
	})
	return d
}

// askCorrection simulates a bank that requests another value of a member, after a payment to the destination.
func (b *fixture) askCorrection(was destination.Destination, member, value string) {
	b.t.Helper()
	b.write(func(ctx context.Context, tx *db.Tx) error {
		return destination.AskCorrection(ctx, tx, destination.Setup{Sealer: b.server.Sealer}, destination.Asked{
			CompanyID: b.company, Was: was, Code: "C01", Reason: "account number", Members: map[string]string{member: value},
		})
	})
}

// correction simulates a bank that requests another value for the first destination of an owner, and returns the ID
// of the correction.
func (b *fixture) correction(owner, member, value string) (id string) {
	b.t.Helper()
	b.askCorrection(b.first(owner), member, value)
	return b.first(owner).Correction.ID
}

// Destinations of recipients follow the rules of those of users: history, mail, event, and the cool-down of payments.
func TestRecipientDestinations(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newUserService(t, d)
		id, at := b.recipientIn("US")
		fields, text := ask[members](b, "GET", at+"/fields?currency=USD", "")
		if fields["country"] != "US" || fields["currency"] != "USD" || fields["payable"] != true ||
			!strings.Contains(text, `"key":"routing_number"`) {
			t.Errorf("%s", text)
		}
		for query, pointer := range map[string]string{
			"": "currency", "?currency=usd": "currency", "?symbol=DOGE": "symbol", "?currency=MXN": "currency",
		} {
			if got := b.do("GET", at+"/fields"+query, ""); got.status != 422 ||
				!strings.Contains(got.text, `"in":"query","pointer":"`+pointer+`"`) {
				t.Errorf("%s: %d %s", query, got.status, got.text)
			}
		}

		bank, _ := ask[members](b, "POST", at, `{"symbol":"USD","distribution_data":`+achData+`}`)
		dst := bank["distribution_id"].(string)
		detail := at + "/detail?distribution_id="
		item, text := ask[members](b, "GET", detail+dst, "")
		if item["recipient_id"] != id || item["allocation"] != 100.0 || item["payable"] != true ||
			!strings.Contains(text, `"account_number":"••••6789"`) || strings.Contains(text, "000123456789") {
			t.Errorf("%s", text)
		}
		was := b.first(id)
		asked := b.correction(id, "account_number", "1918171614")
		if item, text = ask[members](b, "GET", detail+dst, ""); item["correction"].(members)["correction_id"] != asked ||
			strings.Contains(text, "1918171614") {
			t.Errorf("%s", text)
		}
		again := b.correction(id, "routing_number", "021000021") // in addition to the pending correction
		if _, text := ask[members](b, "GET", detail+dst, ""); !strings.Contains(text,
			`"members":["account_number","routing_number"]`) {
			t.Errorf("the members of the correction: %s", text)
		}
		b.wants(409, "invalid_state", "POST", at+"/correction", `{"distribution_id":"`+dst+`","correction_id":"`+asked+`"}`)
		b.wants(404, "not_found", "POST", at+"/correction", `{"distribution_id":"dst_none","correction_id":"`+again+`"}`)
		item, text = ask[members](b, "POST", at+"/correction", `{"distribution_id":"`+dst+`","correction_id":"`+again+`"}`)
		if item["correction"] != nil || !strings.Contains(text, `"account_number":"••••1614"`) ||
			!strings.Contains(text, `"routing_number":"021000021"`) {
			t.Errorf("%s", text)
		}
		b.wants(409, "invalid_state", "POST", at+"/correction", `{"distribution_id":"`+dst+`","correction_id":"`+again+`"}`)
		if b.askCorrection(was, "account_type", "savings"); b.first(id).Correction != nil {
			t.Error("a correction of the old account was applied to the new one")
		}
		if _, err := b.exec("UPDATE destination_owners SET destination_changed_at = 0 WHERE owner_id = $1", id); err != nil {
			t.Fatal(err)
		}
		update := func(id, more string) reply {
			return b.do("POST", at+"/update", `{"distribution_id":"`+id+`",`+more+`}`)
		}
		if got := update(dst,
			`"distribution_data":{"address":"rN7n7otQDd6FczFgLdSqtcsAUxDkw6fzRh"},"symbol":"XRP"`); got.status != 422 ||
			!strings.Contains(got.text, `"/distribution_data/address"`) {
			t.Errorf("%d %s", got.status, got.text)
		}
		got := update(dst, `"symbol":"XRP","distribution_data":`+xrpData)
		if m := got.json(t); got.status != 200 || m["distribution_id"] != dst || m["symbol"] != "XRP" || m["tag"] != "42" ||
			m["allocation"] != 100.0 || m["payable"] != false {
			t.Errorf("%d %s", got.status, got.text)
		}
		if again, text := ask[members](b, "GET", detail+dst, ""); again["address"] != "rf1BiGeXwwQoi8Z2ueFYTEXSwuJYfV2Jpn" ||
			again["payable"] != false {
			t.Errorf("%s", text)
		}
		history, text := ask[members](b, "GET", at+"/history", "")
		if rows := history["data"].([]any); len(rows) != 3 || rows[0].(members)["action"] != "replaced" ||
			!strings.Contains(text, "••••6789") {
			t.Errorf("%s", text)
		}
		var events, mails, changedAt int64
		b.query("SELECT COUNT(*) FROM events WHERE object_id = '"+id+"' AND name = 'distribution.changed'", &events)
		b.query("SELECT COUNT(*) FROM mails WHERE template = 'destination_changed'", &mails)
		b.query("SELECT destination_changed_at FROM destination_owners WHERE owner_id = '"+id+"'", &changedAt)
		if events != 3 || mails != 3 || changedAt == 0 {
			t.Errorf("%d events, %d mails, changed at %d", events, mails, changedAt)
		}

		if got := update("dst_none", `"distribution_data":`+xrpData); got.status != 404 {
			t.Errorf("%d %s", got.status, got.text)
		}
		for _, unknown := range []string{"dst_none", ""} {
			if got := b.do("GET", detail+unknown, ""); got.status != 404 {
				t.Errorf("detail of %q: %d %s", unknown, got.status, got.text)
			}
		}
		_, other := b.recipientIn("US")
		stranger := newFixture(t, d, nil)
		stranger.server = b.server
		stranger.everyScope()
		for _, c := range [][3]string{
			{"GET", detail + dst, ""}, {"GET", at + "/fields?currency=USD", ""},
			{"POST", at + "/update", `{"distribution_id":"` + dst + `","distribution_data":` + xrpData + `}`},
		} {
			if got := stranger.do(c[0], c[1], c[2]); got.status != 404 {
				t.Errorf("another company: %s %s: %d %s", c[0], c[1], got.status, got.text)
			}
			if got := b.do(c[0], strings.Replace(c[1], at, other, 1), c[2]); got.status != 404 &&
				!strings.Contains(c[1], "/fields") {
				t.Errorf("by another recipient: %s %s: %d %s", c[0], c[1], got.status, got.text)
			}
		}
	})
}

// The list of currencies, the required fields and the accepted destinations agree.
func TestCurrenciesFieldsAndDestinationsAgree(t *testing.T) {
	b := newUserService(t, sqlite(t))
	var listed struct {
		Currencies []struct {
			Symbol, Type        string
			Payable             bool
			Networks, Countries []string
		}
	}
	_, text := ask[members](b, "GET", "/api/currencies", "")
	if err := json.Unmarshal([]byte(text), &listed); err != nil {
		t.Fatal(err)
	}
	countries := map[string]string{"ZW": ""} // no bank destination exists
	for _, c := range listed.Currencies {
		for _, country := range c.Countries {
			countries[country] = ""
		}
	}
	for country := range countries {
		_, countries[country] = b.recipientIn(country)
	}
	type field struct {
		Key, Type, Example string
		Required           bool
		Options            []struct{ Value string }
	}
	for _, c := range listed.Currencies {
		if want := len(c.Countries) > 0 || c.Symbol == "BTC"; c.Payable != want {
			t.Errorf("%s is payable: %t", c.Symbol, c.Payable)
		}
		if c.Type == "fiat" && len(c.Countries) == 0 {
			c.Payable = true // no destination exists to report it
		}
		if (c.Type == "crypto") != (len(c.Networks) > 0) || c.Type == "crypto" && len(c.Countries) > 0 {
			t.Errorf("%s: networks %v, countries %v", c.Symbol, c.Networks, c.Countries)
		}
		for country, at := range countries {
			if !slices.Contains(c.Countries, country) && country != "ZW" && country != "DE" {
				continue
			}
			var fields struct {
				Payable bool
				Fields  []field `json:"required_fields"`
			}
			got := b.do("GET", at+"/fields?currency="+c.Symbol, "")
			offered := c.Type == "crypto" || slices.Contains(c.Countries, country)
			if (got.status == 200) != offered || offered && (json.Unmarshal([]byte(got.text), &fields) != nil ||
				fields.Payable != c.Payable) {
				t.Errorf("%s in %s: %d %s", c.Symbol, country, got.status, got.text)
			}
			if c.Type == "fiat" && offered || c.Type == "crypto" && country != "ZW" {
				continue // the examples are tested by package destination
			}
			data := map[string]any{}
			for _, f := range fields.Fields {
				switch {
				case !f.Required:
				case len(f.Options) > 0:
					data[f.Key] = f.Options[0].Value
				default:
					data[f.Key] = f.Example
				}
			}
			body, _ := json.Marshal(members{"symbol": c.Symbol, "distribution_data": data})
			_, own := b.recipientIn(country)
			made := b.do("POST", own, string(body))
			if offered && (made.status != 200 || made.json(t)["payable"] != c.Payable) ||
				!offered && !strings.Contains(made.text, `"currency_not_supported"`) {
				t.Errorf("%s in %s: fields %v become %d %s", c.Symbol, country, slices.Sorted(maps.Keys(data)), made.status,
					made.text)
			}
		}
	}
	if len(listed.Currencies) != len(money.All())-1 { // POL pays for gas only
		t.Errorf("%d currencies are listed", len(listed.Currencies))
	}
}
