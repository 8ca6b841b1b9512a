package httpapi

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/money"
)

// recipientIn creates a recipient in a country and returns the ID and the path of the destinations.
func (b *fixture) recipientIn(country string) (id, destinations string) {
	b.t.Helper()
	made, _ := ask[members](b, "POST", "/api/company/"+b.company+"/recipients/create",
		`{"first_name":"Ada","last_name":"Lovelace","email":"ada@example.com","country":"`+country+`"}`)
	id = made["recipient_id"].(string)
	return id, "/api/company/" + b.company + "/recipients/" + id + "/distribution"
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
				case !f.Required && f.Key != "address":
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
	coins := slices.DeleteFunc(money.All(), func(a money.Asset) bool { return !a.IsCrypto() })
	if len(listed.Currencies) != len(money.All())-len(coins)+1 { // without EVM networks, bitcoin is the only coin
		t.Errorf("%d currencies are listed", len(listed.Currencies))
	}
}
