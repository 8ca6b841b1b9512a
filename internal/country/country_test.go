package country

import (
	"slices"
	"strings"
	"testing"
)

// changed returns all texts that differ from value in one digit.
func changed(value string) (all []string) {
	for i, c := range []byte(value) {
		if c >= '0' && c <= '9' {
			all = append(all, value[:i]+string('0'+(c-'0'+1)%10)+value[i+1:])
		}
	}
	return all
}

// otherFields are the values of other fields on which the examples depend, by country.
var otherFields = map[string]map[string]string{
	"NG": {"bank_code": "011"},
	"CO": {"id_type": "NIT"},
	"PE": {"id_type": "RUC"},
	"BR": {"pix_key_type": "cpf"},
}

func TestEntriesAreConsistentAndTheirExamplesValid(t *testing.T) {
	checked := 0
	for code, c := range registry {
		if len(code) != 2 || strings.ToUpper(code) != code {
			t.Errorf("%q is not a country code", code)
		}
		if c.PostalCode != nil && c.NoPostalCode {
			t.Errorf("%s has a postal code format and no_postal_code", code)
		}
		if c.SEPA && c.IBAN == nil {
			t.Errorf("%s has SEPA but no IBAN pattern", code)
		}
		for _, state := range c.States {
			if _, name, ok := strings.Cut(state, " "); !ok || name == "" {
				t.Errorf("%s: state %q has no name", code, state)
			}
		}
		for _, b := range c.BankAccounts {
			for _, f := range b.Fields {
				if f.Type == "group" {
					continue
				}
				if f.Pattern == nil || f.Label == "" {
					t.Errorf("%s %s: field %s has no pattern or no label", code, b.Currency, f.Key)
					continue
				}
				if f.Example != "" && !f.Pattern.MatchString(f.Example) {
					t.Errorf("%s %s: the example of %s does not match its pattern", code, b.Currency, f.Key)
				}
				if f.Check == "" {
					continue
				}
				example := f.CheckExample
				if example == "" {
					example = f.Example
				}
				get := func(key string) string { return otherFields[code][key] }
				if example == "" || !f.Pattern.MatchString(example) || !f.Valid(example, get) {
					t.Errorf("%s %s: %s needs an example that %s accepts, not %q", code, b.Currency, f.Key, f.Check, example)
				}
				rejected := func(other string) bool { return f.Pattern.MatchString(other) && !f.Valid(other, get) }
				if !slices.ContainsFunc(changed(example), rejected) {
					t.Errorf("%s %s: %s accepts every change of a digit of %s", code, b.Currency, f.Key, example)
				}
				checked++
			}
			for _, key := range b.ExactlyOne {
				if !slices.ContainsFunc(b.Fields, func(f Field) bool { return f.Key == key && !f.Required }) {
					t.Errorf("%s %s: exactly_one names %s, which is not an optional field", code, b.Currency, key)
				}
			}
		}
		if c.Clearing != nil {
			for _, key := range c.Clearing.Fields {
				if !slices.ContainsFunc(c.BankAccounts, func(b *BankAccount) bool {
					return slices.ContainsFunc(b.Fields, func(f Field) bool { return f.Key == key })
				}) {
					t.Errorf("%s: clearing code of the unknown field %s", code, key)
				}
			}
		}
		for _, id := range c.TaxIDs {
			if !slices.Contains([]string{"ind", "biz", "both"}, id.Holder) {
				t.Errorf("%s %s: holder %q", code, id.Type, id.Holder)
			}
			if !id.Valid(id.Example) {
				t.Errorf("%s %s: the example %s is not valid", code, id.Type, id.Example)
			}
			if id.Check != "" {
				checked++
			}
		}
		if len(c.Documents) > 0 && c.Name == "" {
			t.Errorf("%s has documents but no name", code)
		}
	}
	if checked < 150 {
		t.Errorf("only %d uses of algorithms were checked", checked)
	}
}

func TestNoAlgorithmIsUnused(t *testing.T) {
	used := map[string]bool{}
	for _, c := range registry {
		for _, b := range c.BankAccounts {
			for _, f := range b.Fields {
				used[f.Check] = true
			}
		}
		for _, id := range c.TaxIDs {
			used[id.Check] = true
		}
	}
	for name := range algorithms {
		if !used[name] {
			t.Errorf("no entry uses %s", name)
		}
	}
}

// TestSizes detects entries that were lost by mistake. Adding a country changes these numbers.
func TestSizes(t *testing.T) {
	banks, taxIDs, documents := 0, 0, 0
	for _, c := range registry {
		banks += len(c.BankAccounts)
		taxIDs += len(c.TaxIDs)
		if len(c.Documents) > 0 {
			documents++
		}
	}
	if len(Codes()) != 250 || banks != 79 || taxIDs != 160 || documents != 91 {
		t.Errorf("%d countries, %d bank accounts, %d tax ids, %d countries with documents", len(Codes()), banks, taxIDs,
			documents)
	}
	if Exists("EU") || Exists("de") || Exists("") || !Exists("XK") || !slices.IsSorted(Codes()) {
		t.Error("codes")
	}
}

// The numbers are published by the authors of the algorithms, or are known account numbers.
func TestAlgorithmsAcceptPublishedNumbers(t *testing.T) {
	for _, c := range []struct{ algorithm, value, field, with string }{
		{"aba", "021000021", "", ""},
		{"iban", "DE89370400440532013000", "", ""},
		{"sepa_iban", "EE382200221020145685", "", ""},
		{"clabe", "032180000118359719", "", ""},
		{"cbu", "2850590994009041813526", "", ""},
		{"luhn", "6212142000000000004", "", ""},
		{"ua_rnokpp", "1759013776", "", ""},
		{"br_cpf_or_cnpj", "52998224725", "", ""},
		{"br_cpf_or_cnpj", "11222333000181", "", ""},
		{"br_cpf_or_cnpj", "12ABC34501DE35", "", ""},
		{"ar_cuit", "20055361682", "", ""},
		{"co_nit_of_company", "8001972684", "", ""},
		{"cl_rut", "125319092", "", ""},
		{"pe_ruc_digits", "20512333797", "", ""},
		{"uy_ci_or_rut", "211003420017", "", ""},
		{"ec_cedula_or_ruc", "1710034065", "", ""},
		{"do_cedula_or_rnc", "00113918205", "", ""},
		{"cn_resident_id", "11010519491231002X", "", ""},
		{"gt_nit_or_cui", "39525503", "", ""},
		{"rib", "007810000123400012345628", "", ""},
		{"nz_account", "01-0902-0068389-00", "", ""},
		{"nz_account", "08-6523-1954512-001", "", ""},
		{"nz_account", "26-2600-0320871-032", "", ""},
		{"nuban", "0000014579", "bank_code", "011"},
		{"pix_key", "52998224725", "pix_key_type", "cpf"},
	} {
		get := func(key string) string {
			if key == c.field {
				return c.with
			}
			return ""
		}
		check := algorithms[c.algorithm]
		if !check(c.value, get) {
			t.Errorf("%s rejects %s", c.algorithm, c.value)
		}
		middle := len(c.value) / 2
		for c.value[middle] < '0' || c.value[middle] > '9' {
			middle++
		}
		if other := c.value[:middle] + string('0'+(c.value[middle]-'0'+1)%10) + c.value[middle+1:]; check(other, get) {
			t.Errorf("%s accepts %s", c.algorithm, other)
		}
	}
	if algorithms["nuban"]("0000014579", func(string) string { return "012" }) {
		t.Error("nuban accepts a number with another bank's code")
	}
}
