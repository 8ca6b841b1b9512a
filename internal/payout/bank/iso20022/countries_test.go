package iso20022_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
	"github.com/stipend/stipend/internal/testkit"
)

// agents has, by currency and payment scheme, how a file names the payee's bank if the account has no IBAN. It is ""
// if the account number includes the bank or there is no bank, as for a card or a mobile wallet.
var agents = map[string]string{
	"AUD": "<Cd>AUBSB", "BDT": "<Prtry>BD ", "BRL ted": "<Prtry>BR ", "CAD": "<Cd>CACPA", "CLP": "<Prtry>CL ",
	"COP": "<Prtry>CO ", "DOP": "<Prtry>DO ",
	"GBP": "<Cd>GBDSC", "GHS": "<Prtry>GH ", "GTQ": "<Prtry>GT ", "HKD": "<Cd>HKNCC", "IDR": "<Prtry>ID ",
	"INR": "<Cd>INFSC", "JPY": "<Cd>JPZGN",
	"KES pesalink": "<Prtry>KE ", "KRW": "<Prtry>KR ", "LKR": "<Prtry>LK ", "MYR": "<BICFI>MBBEMYKL", "NGN": "<Prtry>NG ",
	"NAD": "<Prtry>NA ", "NPR": "<Prtry>NP ",
	"NZD": "<Cd>NZNCC", "PHP": "<BICFI>BOPIPHMM", "RWF": "<Prtry>RW ", "SGD": "<Cd>SGIBG", "THB": "<Cd>THCBC",
	"TZS": "<Prtry>TZ ", "UGX": "<Prtry>UG ",
	"USD ach": "<Cd>USABA", "USD fedwire": "<Cd>USABA", "USD local": "<Prtry>EC ", "UYU": "<Prtry>UY ",
	"VND": "<Prtry>VN ", "XOF": "<Prtry>SN ", "ZAR": "<Cd>ZANCC",
	"BWP": "<Prtry>BW ", "FJD": "Example Bank", "ZMW": "<Prtry>ZM ", "MZN": "",
	"ARS": "", "BRL pix": "", "CNY": "", "KES m-pesa": "", "MAD": "", "MXN": "", "PEN": "",
}

// samples are values of fields without an example.
var samples = map[string]string{
	"bank_code": "00123", "branch_code": "045", "account_number": "123456789", "routing_number": "021000021",
	"bank_name": "Example Bank", "tax_id": "123456789",
	"id_number": "987654321", "email": "ada@example.com", "phone_number": "+8613800138000", "date_of_birth": "900101",
	"pix_key":             "12345678909",
	"account_holder_kana": "\u30a8\u30a4\u30c0", "city": "Springfield",
}

// For every country and payment scheme with destination fields, the file conforms to the schema, names the payee's
// bank as the country requires, and has all data that the payee had to give.
func TestEveryCountryHasAValidFile(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	accounts := slices.DeleteFunc(bank.SandboxAccounts(), func(a bank.Account) bool { return a.Format != bank.FormatPain })
	var files, newest [][]byte // in both versions
	local := map[string]bool{}
	for _, asset := range money.All() {
		for _, country := range destination.Countries(asset) {
			req := testkit.Must(destination.Fields(string(asset), country))
			schemes := map[string]bool{}
			for _, f := range req.Fields {
				if f.Key == "rail" {
					for _, o := range f.Options {
						schemes[o.Value] = true
					}
				}
			}
			one := len(schemes) == 0
			if one { // a country with one payment scheme has no field for the scheme
				schemes["local"] = true
			}
			for scheme := range schemes {
				data, given := sample(req.Fields, scheme)
				text := testkit.Must(json.Marshal(data))
				a, ok := bank.ChooseAccount(accounts, asset, country, scheme, "US")
				if !ok {
					t.Fatalf("no account in %s", asset)
				}
				payments := []bank.Payment{{Amount: money.New(asset, 100_00), Country: country, Scheme: scheme,
					Data: text, Details: payout.Details{Payer: "Example Inc", Purpose: payout.PurposeWages}}}
				a.Version = iso20022.Order11
				newer, err := a.Encode(1, now, payments)
				if err != nil {
					t.Errorf("%s %s %s, %s: %v", asset, country, scheme, a.Version, err)
					continue
				}
				a.Version = iso20022.Order09
				f, err := a.Encode(1, now, payments)
				if err != nil {
					t.Errorf("%s %s %s: %v", asset, country, scheme, err)
					continue
				}
				files, newest = append(files, f.Body), append(newest, newer.Body)
				for key, value := range given {
					if !strings.Contains(string(f.Body), value) {
						t.Errorf("%s %s %s: %s is missing in\n%s", asset, country, scheme, key, f.Body)
					}
				}
				if strings.Contains(string(f.Body), "<CdtrAcct>\n     <Id>\n      <IBAN>") {
					continue
				}
				key := string(asset) + " " + scheme
				if one && asset != money.USD {
					key = string(asset)
				}
				local[key] = true
				switch want, known := agents[key]; {
				case !known:
					t.Errorf("%s %s: agents has no entry for\n%s", key, country, f.Body)
				case want == "" && strings.Contains(string(f.Body), "<CdtrAgt>"):
					t.Errorf("%s names a bank:\n%s", key, f.Body)
				case !strings.Contains(string(f.Body), want):
					t.Errorf("%s: no %s in\n%s", key, want, f.Body)
				}
			}
		}
	}
	if len(files) < 79 || len(local) != len(agents) {
		t.Errorf("%d schemes, %d without an IBAN, want %d", len(files), len(local), len(agents))
	}
	iso20022.Conforms(t, iso20022.Order09, files...)
	iso20022.Conforms(t, iso20022.Order11, newest...)
}

// sample returns values for the fields of a scheme, and those values that the file must contain.
func sample(fields []destination.Field, scheme string) (data map[string]any, given map[string]string) {
	data, given = map[string]any{}, map[string]string{}
	for _, f := range fields {
		if f.DependsOn != nil && f.DependsOn.Value != scheme {
			continue
		}
		switch {
		case f.Key == "rail":
		case f.Type == "group":
			group, inner := sample(f.Fields, scheme)
			data[f.Key] = group
			for key, value := range inner {
				given[f.Key+"."+key] = value
			}
		case f.Required || f.Key == "alias":
			value := f.Example
			if value == "" {
				value = samples[f.Key]
			}
			data[f.Key], given[f.Key] = value, value
		}
	}
	// the file has codes for these fields instead of their values
	for _, said := range []string{"account_holder_type", "account_type"} {
		delete(given, said)
	}
	if _, kana := given["account_holder_kana"]; kana {
		delete(given, "account_holder_name")
	}
	return data, given
}
