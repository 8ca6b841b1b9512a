package bank

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/testkit"
)

// Each setting that is refused is named, and the same setting with an allowed value is accepted.
func TestReadAccountsNamesEachRefusedSetting(t *testing.T) {
	for text, want := range map[string]string{`{}`: "bank accounts", `[{"unknown":1}]`: `unknown field "unknown"`,
		`[{"currency":"EUR"}]`: `format "" is neither`} {
		if _, err := ReadAccounts(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	type object = map[string]any
	euros := object{"id": "eur", "currency": "EUR", "format": "pain.001", "name": "Example",
		"number": "DE89370400440532013000", "town": "Berlin", "country": "DE", "calendar": "target", "cut_off": "15:00",
		"zone": "Europe/Berlin"}
	dollars := object{"id": "usd", "currency": "USD", "format": "nacha", "name": "Example", "number": "987654321",
		"company_id": "1234567890", "routing": "091400606", "calendar": "us", "cut_off": "17:30",
		"zone": "America/New_York"}
	column := object{"id": "usd", "currency": "USD", "format": "column", "name": "Example", "number": "bacc_1"}
	wise := object{"id": "wise", "currency": "EUR", "format": "wise", "name": "Example", "number": "64", "profile": "101"}
	// with returns an account with a setting changed, or left out if it is nil.
	with := func(base object, setting string, value any) object {
		changed := object{}
		for k, v := range base {
			changed[k] = v
		}
		if changed[setting] = value; value == nil {
			delete(changed, setting)
		}
		return changed
	}
	read := func(all ...object) error {
		_, err := ReadAccounts(strings.NewReader(string(testkit.Must(json.Marshal(all)))))
		return err
	}
	debits := func(base object, setting string, value any) any {
		d := object{"schemes": object{"sepa_core": object{}, "sepa_b2b": object{}}, "creditor_id": "DE98ZZZ09999999999"}
		if base["currency"] == "USD" {
			d = object{"schemes": object{"ach_ccd": object{}, "ach_web": object{}}}
		}
		return with(d, setting, value)
	}
	long := strings.Repeat("1", 141)
	for _, c := range []struct {
		base    object
		setting string
		refused []any
		named   string // part of the error
		allowed []any
	}{
		{euros, "id", []any{"", nil}, "id is missing", []any{"x"}},
		{euros, "name", []any{""}, "name is missing", []any{"x"}},
		{euros, "number", []any{""}, "number is missing", nil},
		{euros, "number", []any{"DE8937040044053", "DE88370400440532013000", "MU43BOMM0101123456789101000MUR"},
			"must be an IBAN of a country in SEPA", []any{"NL91ABNA0417164300"}},
		{euros, "currency", []any{"BTC", "EURO", nil}, "currency", []any{"EUR"}},
		{euros, "format", []any{"pain.002", nil}, "format", []any{"pain.001"}},
		{euros, "calendar", []any{"moon", nil}, "unknown calendar", []any{"target", "us", "england", "weekdays"}},
		{euros, "cut_off", []any{"15 Uhr", "24:00", nil}, "cut_off", []any{"00:00", "23:59"}},
		{euros, "zone", []any{"Europe/Nowhere", nil}, "zone", []any{"UTC"}},
		{euros, "town", []any{nil, " ", "\u0001"}, "town is missing", []any{"Köln"}},
		{euros, "country", []any{nil, "Germany", "XX"}, "country", []any{"FR"}},
		{euros, "bic", []any{"COBADE", "cobadeff"}, "bic", []any{"COBADEFF", "COBADEFF123", ""}},
		{euros, "version", []any{"pain.001.001.03"}, "version", []any{"pain.001.001.09", "pain.001.001.11", ""}},
		{euros, "return_fee", []any{"-1.00", "much", "1.001"}, "return_fee", []any{"25.00", "0", ""}},
		{euros, "statement_days", []any{-1, 31}, "statement_days", []any{0, 30}},
		{euros, "verification_opt_out", []any{long, "nö"}, "verification_opt_out", []any{long[:140], ""}},
		{dollars, "verification_opt_out", []any{"NO"}, "verification_opt_out", nil},
		{euros, "instant", []any{object{}, object{"limit": "0"}, object{"limit": "1.001"}}, "instant.limit",
			[]any{object{"limit": "100000.00"}, nil}},
		{euros, "instant", []any{object{"limit": "1", "from": "6 am", "until": "22:00"}}, "instant.from", nil},
		{euros, "instant", []any{object{"limit": "1", "from": "06:00", "until": "06:00"}, object{"limit": "1",
			"from": "06:00"}},
			"instant.until", []any{object{"limit": "1", "from": "06:00", "until": "06:01"}}},
		{dollars, "instant", []any{object{"limit": "1"}}, "instant is only for accounts in EUR", nil},
		{euros, "ctx", []any{true}, "ctx is only for accounts with format nacha", []any{false}},
		{euros, "pays", []any{[]string{"USD"}}, "pays is only for accounts with format wise", []any{[]string{}}},

		{dollars, "currency", []any{"EUR"}, "currency", []any{"USD"}},
		{dollars, "routing", []any{nil, "091400607", "9140060"}, "routing", []any{"011000015"}},
		{dollars, "destination", []any{"091400607"}, "destination", []any{"011000015", ""}},
		{dollars, "company_id", []any{nil, "12345678901"}, "company_id", []any{"1"}},
		{dollars, "number", []any{"123456789012345678"}, "number", []any{"12345678901234567"}},
		{dollars, "country", []any{"CA"}, "country", []any{"US", "PR", ""}},
		{dollars, "ctx", nil, "", []any{true}},
		{dollars, "same_day", []any{[]string{"10:31"}, []string{"", "14:46"}, []string{"", "", "16:46"}, []string{"noon"},
			[]string{"", "", "", "12:00"}}, "same_day", []any{[]string{"10:30", "14:45", "16:45"}, []string{"", "14:00"}}},

		{column, "currency", []any{"EUR"}, "currency", []any{"USD"}},
		{column, "instant_limit", []any{"x", "1.001", "-1.00"}, "instant_limit", []any{"25000.00", "0", ""}},
		{with(column, "format", "increase"), "instant_limit", []any{"-0.01"}, "instant_limit", []any{"25000.00"}},
		{column, "statement_days", []any{1}, "statement_days", []any{0}},
		{wise, "profile", []any{nil, "a"}, "profile", []any{"1"}},
		{wise, "number", []any{"a"}, "number", []any{"1"}},
		{wise, "pays", []any{[]string{"BTC"}, []string{"XXX"}}, "pays", []any{[]string{"PHP"}}},

		{euros, "debits", []any{debits(euros, "schemes", nil), debits(euros, "schemes", object{})}, "debits.schemes",
			[]any{debits(euros, "x", nil), nil}},
		{euros, "debits", []any{debits(euros, "schemes", object{"ach_ccd": object{}}),
			debits(euros, "schemes", object{"sepa_x": object{}})}, "debits.schemes", nil},
		{dollars, "debits", []any{debits(dollars, "schemes", object{"sepa_core": object{}})}, "debits.schemes",
			[]any{debits(dollars, "x", nil)}},
		{euros, "debits", []any{debits(euros, "schemes", object{"sepa_core": object{"notice_days": 61}}),
			debits(euros, "schemes", object{"sepa_core": object{"notice_days": -1}})}, "notice_days",
			[]any{debits(euros, "schemes", object{"sepa_core": object{"notice_days": 60}})}},
		{euros, "debits", []any{debits(euros, "schemes", object{"sepa_core": object{"hold_days": 401}}),
			debits(euros, "schemes", object{"sepa_core": object{"hold_days": -1}})}, "hold_days",
			[]any{debits(euros, "schemes", object{"sepa_core": object{"hold_days": 400}})}},
		{euros, "debits", []any{debits(euros, "creditor_id", nil), debits(euros, "creditor_id", "DE97ZZZ09999999999")},
			"debits.creditor_id", []any{debits(euros, "creditor_id", "NL79ZZZ999999990000")}},
		{euros, "debits", []any{debits(euros, "version", "pain.008.001.01")}, "debits.version",
			[]any{debits(euros, "version", "pain.008.001.02"), debits(euros, "version", "pain.008.001.08")}},
		{euros, "debits", []any{debits(euros, "lead_days", -1), debits(euros, "lead_days", 15)}, "debits.lead_days",
			[]any{debits(euros, "lead_days", 0), debits(euros, "lead_days", 14)}},
		{euros, "debits", []any{debits(euros, "max_amount", "-1.00"), debits(euros, "max_amount", "x")},
			"debits.max_amount", []any{debits(euros, "max_amount", "50000.00"), debits(euros, "max_amount", "")}},
		{wise, "debits", []any{debits(euros, "x", nil)}, "debits.schemes", nil},
	} {
		for _, value := range c.refused {
			if err := read(with(c.base, c.setting, value)); err == nil || !strings.Contains(err.Error(), c.named) {
				t.Errorf("%s %s %v: %v, want %s", c.base["format"], c.setting, value, err, c.named)
			}
		}
		for _, value := range c.allowed {
			if err := read(with(c.base, c.setting, value)); err != nil {
				t.Errorf("%s %s %v: %v", c.base["format"], c.setting, value, err)
			}
		}
	}
	for want, all := range map[string][]object{
		"another account has this id":          {euros, with(dollars, "id", "eur")},
		"another account pays EUR by pain.001": {euros, with(euros, "id", "second")},
		"another account pays EUR by wise":     {wise, with(with(wise, "id", "second"), "pays", []string{"PHP"})},
	} {
		if err := read(all...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := read(euros, dollars, wise); err != nil {
		t.Error(err)
	}
}
