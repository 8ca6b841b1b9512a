// Package country is the registry of countries: names, postal codes, states, bank accounts, clearing systems,
// identity documents and tax IDs.
//
// All data of a country is one entry of countries.json. An entry refers to the check-digit algorithms in
// algorithms.go by name. To add a country, complete its entry and update the numbers in TestSizes. The tests of this
// package check the patterns, algorithms and examples of every entry.
package country

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

//go:embed countries.json
var data []byte

// Country is a country of ISO 3166-1, Kosovo (XK), or a union of countries with common bank accounts (EU).
type Country struct {
	Code         string         `json:"code"`
	Name         string         `json:"name"`  // in English; "" if no page shows the name
	Union        bool           `json:"union"` // not a country: its bank accounts apply to all countries with SEPA
	SEPA         bool           `json:"sepa"`  // accounts in the country can receive euro transfers by SEPA
	IBAN         *Pattern       `json:"iban"`  // format of the country's IBANs; a bank account can have another
	PostalCode   *PostalCode    `json:"postal_code"`
	NoPostalCode bool           `json:"no_postal_code"` // the country has no postal codes
	Clearing     *Clearing      `json:"clearing"`
	States       []string       `json:"states"` // "CODE Name"; former codes follow the code: "CODE/OLD Name"
	Documents    []Document     `json:"documents"`
	TaxIDs       []TaxID        `json:"tax_ids"`
	BankAccounts []*BankAccount `json:"bank_accounts"`
	Note         string         `json:"note"`
}

// PostalCode is the format of a country's postal codes.
type PostalCode struct {
	Form Pattern `json:"form"` // format without the gap
	Gap  string  `json:"gap"`
	// GapAt is the number of characters before the gap or, if it is negative, after the gap. A code that ends there has
	// no gap.
	GapAt int `json:"gap_at"`
}

// Clearing is a national clearing system: its ISO 20022 code, and the fields of a bank account that together form the
// code of the bank.
type Clearing struct {
	System        string   `json:"system"`
	Fields        []string `json:"fields"`
	Prefix        string   `json:"prefix"`
	AccountDigits int      `json:"account_digits"` // leading digits of the account number that belong to the code
}

// Document is a kind of identity document that a country issues.
type Document struct {
	Type     string `json:"doc_type"`
	Backside bool   `json:"requires_backside"` // the back contains information that the front lacks
}

// TaxID is a kind of tax ID.
type TaxID struct {
	Type    string  `json:"type"`
	Holder  string  `json:"holder"`  // ind (people), biz (companies) or both
	Pattern Pattern `json:"pattern"` // format of the canonical form
	Check   string  `json:"check"`   // name of an algorithm; "" if there is no published one
	Example string  `json:"example"`
	Rule    string  `json:"rule"` // describes the algorithm for readers
}

// Valid reports whether a number matches the pattern and, if there is an algorithm, has the right check digits.
func (t TaxID) Valid(number string) bool {
	return t.Pattern.MatchString(number) && (t.Check == "" || algorithms[t.Check](number, nil))
}

// BankAccount is a format of bank accounts in a country and currency. A country may have several formats for a
// currency.
type BankAccount struct {
	Currency   string   `json:"currency"`
	Rail       string   `json:"rail"`
	ExactlyOne []string `json:"exactly_one"` // of these fields, exactly one is required
	Note       string   `json:"note"`
	Fields     []Field  `json:"fields"`

	Country *Country `json:"-"`
}

// Field is a field of a bank account.
type Field struct {
	Key      string   `json:"key"`
	Label    string   `json:"label"`
	Type     string   `json:"type"` // "group" for the address of the account holder; otherwise ""
	Required bool     `json:"required"`
	Pattern  *Pattern `json:"pattern"`
	Check    string   `json:"check"` // name of an algorithm
	CheckIf  *struct {
		Field string `json:"field"`
		Value string `json:"value"`
	} `json:"check_if"` // if set, the algorithm applies only if another field has a given value
	Example      string `json:"example"`       // shown to callers
	CheckExample string `json:"check_example"` // used instead of Example in tests

	// Pad, Prefix and Replaces describe common short forms of the value: with fewer digits, without a prefix, or with
	// another prefix.
	Pad *struct {
		From int `json:"from"`
		To   int `json:"to"`
	} `json:"pad"`
	Prefix   string `json:"prefix"`
	Replaces string `json:"replaces"`
}

// Completed returns the full form of a value in a short form. It returns "" if the value is not in a short form.
func (f Field) Completed(value string) string {
	switch {
	case f.Pad != nil && len(value) >= f.Pad.From && len(value) < f.Pad.To:
		return strings.Repeat("0", f.Pad.To-len(value)) + value
	case f.Prefix != "":
		if national, ok := strings.CutPrefix(value, f.Replaces); ok {
			return f.Prefix + national
		}
	}
	return ""
}

// Valid reports whether a value has the right check digits. The value must match the field's pattern. get returns the
// values of other fields.
func (f Field) Valid(value string, get func(key string) string) bool {
	if f.Check == "" || f.CheckIf != nil && get(f.CheckIf.Field) != f.CheckIf.Value {
		return true
	}
	return algorithms[f.Check](value, get)
}

// Pattern is a regular expression that must match a whole value.
type Pattern struct{ *regexp.Regexp }

// UnmarshalText compiles a pattern and anchors it, so that it matches only whole values.
func (p *Pattern) UnmarshalText(text []byte) (err error) {
	expression := string(text)
	if !strings.HasPrefix(expression, "^") {
		expression = "^(?:" + expression + ")$"
	}
	p.Regexp, err = regexp.Compile(expression)
	return err
}

var registry map[string]*Country

func init() { // not in the declaration, because an algorithm refers to registry
	registry = read()
}

// read parses countries.json. It panics if an entry refers to an unknown algorithm.
func read() map[string]*Country {
	var all []*Country
	if err := json.Unmarshal(data, &all); err != nil {
		panic("countries.json: " + err.Error())
	}
	byCode := make(map[string]*Country, len(all))
	for _, c := range all {
		byCode[c.Code] = c
		for _, b := range c.BankAccounts {
			b.Country = c
			for _, f := range b.Fields {
				if f.Check != "" && algorithms[f.Check] == nil {
					panic(fmt.Sprintf("countries.json: %s %s %s names the unknown algorithm %q", c.Code, b.Currency, f.Key, f.Check))
				}
				if f.Key == "iban" && !c.Union {
					c.IBAN = f.Pattern
				}
			}
		}
		for _, t := range c.TaxIDs {
			if t.Check != "" && algorithms[t.Check] == nil {
				panic(fmt.Sprintf("countries.json: %s %s names the unknown algorithm %q", c.Code, t.Type, t.Check))
			}
		}
	}
	return byCode
}

// Find returns the country with a code of two capital letters. It returns nil if there is no such country.
func Find(code string) *Country {
	if c := registry[code]; c != nil && !c.Union {
		return c
	}
	return nil
}

// EuroArea is the code of the entry with the euro bank accounts of all SEPA countries.
const EuroArea = "EU"

// Entry returns the entry of a country or of [EuroArea], or nil.
func Entry(code string) *Country { return registry[code] }

// Exists reports whether code is the code of a country, in capital letters.
func Exists(code string) bool { return Find(code) != nil }

// unitedStates are the codes of the United States and its territories.
var unitedStates = []string{"US", "AS", "GU", "MP", "PR", "UM", "VI"}

// InUnitedStates reports whether code is that of the United States or one of its territories, which ACH treats as one
// area.
func InUnitedStates(code string) bool { return slices.Contains(unitedStates, code) }

// Codes returns the codes of all countries, sorted.
func Codes() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(registry)), func(code string) bool { return !Exists(code) })
}

// Currencies returns the currencies of all bank accounts, sorted.
func Currencies() []string {
	found := map[string]bool{}
	for _, c := range registry {
		for _, b := range c.BankAccounts {
			found[b.Currency] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// BankAccounts returns the formats of bank accounts of a country in a currency. If the country has none, it returns
// the formats of [EuroArea].
func BankAccounts(currency, code string) []*BankAccount {
	c := Find(code)
	if c == nil {
		return nil
	}
	found := c.bankAccounts(currency)
	if len(found) == 0 && c.SEPA {
		found = registry[EuroArea].bankAccounts(currency)
	}
	return found
}

func (c *Country) bankAccounts(currency string) (found []*BankAccount) {
	for _, b := range c.BankAccounts {
		if b.Currency == currency {
			found = append(found, b)
		}
	}
	return found
}

// AccountNumbers are the fields that can contain an account number, in order of preference. Each has the name of its
// scheme in ISO 20022 files.
var AccountNumbers = []struct{ Field, Scheme string }{
	{"iban", ""}, {"clabe", "CLABE"}, {"cbu_cvu", "CBU"}, {"cci", "CCI"}, {"rib", "RIB"}, {"account_number", ""},
	{"card_number", "card"}, {"pix_key", "PIX"}, {"alias", "alias"}, {"phone_number", "mobile"},
}

var accountTypes = map[string]string{
	"checking": "CACC", "current": "CACC", "cheque": "CACC", "corriente": "CACC", "corrente": "CACC",
	"savings": "SVGS", "ahorro": "SVGS", "ahorros": "SVGS", "poupanca": "SVGS",
}

// AccountType returns the ISO 20022 code of a national type of account. If the type has no code, it returns the type.
func AccountType(kind string) string {
	if code := accountTypes[kind]; code != "" {
		return code
	}
	return kind
}
