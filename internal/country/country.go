// Package country is the registry of countries: their names, postal codes, states, bank accounts, clearing systems,
// identity documents and tax ids.
//
// Everything about a country is one entry of countries.json. An entry names check-digit algorithms of algorithms.go.
// Adding a country means filling in its entry; the tests of this package then check its patterns, algorithms and
// examples.
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

// Country is one country of ISO 3166-1, Kosovo (XK), or a union of countries with common bank accounts (EU).
type Country struct {
	Code         string         `json:"code"`
	Name         string         `json:"name"`  // in English; "" where nothing shows it
	Union        bool           `json:"union"` // not a country; its bank accounts serve the countries with SEPA
	SEPA         bool           `json:"sepa"`  // euro transfers reach its accounts
	IBAN         *Pattern       `json:"iban"`  // of its account numbers, where no bank account below has it
	PostalCode   *PostalCode    `json:"postal_code"`
	NoPostalCode bool           `json:"no_postal_code"` // mail goes without one
	Clearing     *Clearing      `json:"clearing"`
	States       []string       `json:"states"` // "CODE Name"; former codes follow the code: "CODE/OLD Name"
	Documents    []Document     `json:"documents"`
	TaxIDs       []TaxID        `json:"tax_ids"`
	BankAccounts []*BankAccount `json:"bank_accounts"`
	Note         string         `json:"note"`
}

// PostalCode is how a country writes its postal codes.
type PostalCode struct {
	Form Pattern `json:"form"` // without the gap
	Gap  string  `json:"gap"`
	// characters before the gap; from the end if negative. A code that ends there has no gap.
	GapAt int `json:"gap_at"`
}

// Clearing is a national clearing system, by ISO 20022's code, and the fields of a bank account that make a bank's code
// in it.
type Clearing struct {
	System        string   `json:"system"`
	Fields        []string `json:"fields"`
	Prefix        string   `json:"prefix"`
	AccountDigits int      `json:"account_digits"` // how many of the account number's first digits are the code
}

// Document is a kind of identity document that a country issues.
type Document struct {
	Type     string `json:"doc_type"`
	Backside bool   `json:"requires_backside"` // the back has information that the front lacks
}

// TaxID is a kind of tax id.
type TaxID struct {
	Type    string  `json:"type"`
	Holder  string  `json:"holder"`  // ind: people, biz: companies, both
	Pattern Pattern `json:"pattern"` // of the canonical form
	Check   string  `json:"check"`   // an algorithm's name; "" where none is published
	Example string  `json:"example"`
	Rule    string  `json:"rule"` // the algorithm in words, for readers
}

// Valid reports whether a number has the pattern and, if there is an algorithm, the right check digits.
func (t TaxID) Valid(number string) bool {
	return t.Pattern.MatchString(number) && (t.Check == "" || algorithms[t.Check](number, nil))
}

// BankAccount is one way to reach bank accounts of a country in a currency. A country may have several for a currency.
type BankAccount struct {
	Currency   string   `json:"currency"`
	Rail       string   `json:"rail"`
	ExactlyOne []string `json:"exactly_one"` // of these fields exactly one is given
	Note       string   `json:"note"`
	Fields     []Field  `json:"fields"`

	Country *Country `json:"-"`
}

// Field is a field of a bank account.
type Field struct {
	Key      string   `json:"key"`
	Label    string   `json:"label"`
	Type     string   `json:"type"` // "group" for the holder's address, else ""
	Required bool     `json:"required"`
	Pattern  *Pattern `json:"pattern"`
	Check    string   `json:"check"` // an algorithm's name
	CheckIf  *struct {
		Field string `json:"field"`
		Value string `json:"value"`
	} `json:"check_if"` // the algorithm applies only if another field has this value
	Example      string `json:"example"`       // shown to callers
	CheckExample string `json:"check_example"` // for tests, where callers are shown none

	// How people write the value without the country: with fewer digits, without a prefix, or with another one.
	Pad *struct {
		From int `json:"from"`
		To   int `json:"to"`
	} `json:"pad"`
	Prefix   string `json:"prefix"`
	Replaces string `json:"replaces"`
}

// Completed returns the value with the digits or the prefix that people leave out, or "" if nothing can be completed.
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

// Valid reports whether a value, which has the field's pattern, has the right check digits. get returns the values of
// other fields.
func (f Field) Valid(value string, get func(key string) string) bool {
	if f.Check == "" || f.CheckIf != nil && get(f.CheckIf.Field) != f.CheckIf.Value {
		return true
	}
	return algorithms[f.Check](value, get)
}

// Pattern is a regular expression for a whole value.
type Pattern struct{ *regexp.Regexp }

// UnmarshalText compiles a pattern. It matches whole values only, also without anchors of its own.
func (p *Pattern) UnmarshalText(text []byte) (err error) {
	expression := string(text)
	if !strings.HasPrefix(expression, "^") {
		expression = "^(?:" + expression + ")$"
	}
	p.Regexp, err = regexp.Compile(expression)
	return err
}

var registry map[string]*Country

func init() { // not in the declaration, since an algorithm looks up countries
	registry = read()
}

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

// Find returns the country with a code of two capital letters, or nil.
func Find(code string) *Country {
	if c := registry[code]; c != nil && !c.Union {
		return c
	}
	return nil
}

// EuroArea is the entry of the bank accounts that euro transfers reach.
const EuroArea = "EU"

// Entry returns the entry of a country or of EuroArea, or nil.
func Entry(code string) *Country { return registry[code] }

// Exists reports whether a code is the two capital letters of a country.
func Exists(code string) bool { return Find(code) != nil }

// Codes returns the codes of all countries, sorted.
func Codes() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(registry)), func(code string) bool { return !Exists(code) })
}

// BankAccounts returns the ways to reach bank accounts in a currency. A country's own come before those of the euro
// area.
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

// AccountNumbers are the fields that have the number of an account, the most exact first, and what ISO 20022 files call
// such a number.
var AccountNumbers = []struct{ Field, Scheme string }{
	{"iban", ""}, {"clabe", "CLABE"}, {"cbu_cvu", "CBU"}, {"cci", "CCI"}, {"rib", "RIB"}, {"account_number", ""},
	{"card_number", "card"},
	{"pix_key", "PIX"}, {"alias", "alias"}, {"phone_number", "mobile"},
}

var accountTypes = map[string]string{
	"checking": "CACC", "current": "CACC", "cheque": "CACC", "corriente": "CACC", "corrente": "CACC",
	"savings": "SVGS", "ahorro": "SVGS", "ahorros": "SVGS", "poupanca": "SVGS",
}

// AccountType returns ISO 20022's code of what a country calls a type of account, or the type itself if it has none.
func AccountType(kind string) string {
	if code := accountTypes[kind]; code != "" {
		return code
	}
	return kind
}
