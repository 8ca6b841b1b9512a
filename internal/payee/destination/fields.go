package destination

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/country"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/money"
)

// Requirement lists the required fields of a destination in a currency and country.
type Requirement struct {
	Currency string  `json:"currency"`
	Country  string  `json:"country"`
	Fields   []Field `json:"required_fields"`
}

// Field is one member of distribution_data.
type Field struct {
	Key       string      `json:"key"`
	Label     string      `json:"label"`
	Type      string      `json:"type"` // text, select, email, phone, group
	Required  bool        `json:"required"`
	MinLength int         `json:"min_length,omitempty"`
	MaxLength int         `json:"max_length,omitempty"` // 0 if only the pattern limits the length
	Pattern   string      `json:"pattern,omitempty"`
	Example   string      `json:"example,omitempty"`
	Options   []Option    `json:"options,omitempty"`    // choices of a select field
	DependsOn *Dependency `json:"depends_on,omitempty"` // if set, the field depends on another member's value
	OneOf     string      `json:"one_of,omitempty"`     // exactly one of the fields with the same value here is required
	Checksum  string      `json:"checksum,omitempty"`
	Rail      string      `json:"rail"`
	Fields    []Field     `json:"fields,omitempty"` // members of a group, whose value is an object
}

// Option is one of the choices of a select field.
type Option struct {
	Value string `json:"value"`
	Label string `json:"label"`
}

// Dependency names a member, and the value of it for which a field is required.
type Dependency struct {
	Field string `json:"field"`
	Value string `json:"value"`
}

// account is a format of bank accounts, with the compiled checks of its fields.
type account struct {
	*country.BankAccount
	scheme string // first word of the rail's name; selects one of several rails
	fields []field
}

// field is a [Field] with its compiled checks.
type field struct {
	Field
	source country.Field
	code   string // error code for an invalid value
	group  []field
}

// accounts returns the compiled bank account formats of all countries, by their entry in package country.
var accounts = sync.OnceValue(func() map[*country.BankAccount]*account {
	all := map[*country.BankAccount]*account{}
	for _, code := range append(country.Codes(), country.EuroArea) {
		for _, b := range country.Entry(code).BankAccounts {
			all[b] = newAccount(b)
		}
	}
	return all
})

func newAccount(b *country.BankAccount) *account {
	a := &account{BankAccount: b}
	a.scheme = strings.ToLower(strings.ReplaceAll(strings.TrimSpace(strings.Split(b.Rail, "/")[0]), " ", "_"))
	a.fields = []field{
		a.text("account_holder_name", "Name of the account holder", `^[\p{L}][\p{L}\p{M}' .,\-]{1,69}$`, "Ada Lovelace"),
		a.text("account_holder_type", "Type of the account holder", `^(individual|business)$`, "individual"),
	}
	for _, f := range b.Fields {
		if f.Type == "group" {
			a.fields = append(a.fields, a.address(f.Key, f.Required))
		} else {
			a.fields = append(a.fields, a.field(f))
		}
	}
	return a
}

// SchemeName returns the name of the payment scheme of a bank account, such as "ACH" or "SEPA CT". If the country's
// entry does not list the scheme, SchemeName returns the scheme's code.
func SchemeName(d Destination) string {
	for _, code := range []string{d.Country, country.EuroArea} {
		entry := country.Entry(code)
		if entry == nil {
			continue
		}
		for _, b := range entry.BankAccounts {
			if a := accounts()[b]; a.scheme == d.Scheme {
				name, _, _ := strings.Cut(b.Rail, "/")
				return strings.TrimSpace(name)
			}
		}
	}
	return d.Scheme
}

// text returns a required text field without check digits, as every country has.
func (a *account) text(key, label, pattern, example string) field {
	return a.field(country.Field{Key: key, Label: label, Required: true, Example: example,
		Pattern: &country.Pattern{Regexp: regexp.MustCompile(pattern)}})
}

// address returns the field for the account holder's address, which some countries require.
func (a *account) address(key string, required bool) field {
	f := field{Field: Field{Key: key, Label: "Address of the account holder", Type: "group", Required: required,
		Rail: a.Rail}}
	f.group = []field{
		a.text("address_line1", "Street and number", `^.{2,70}$`, "1 Main Street"),
		a.text("city", "City", `^.{2,40}$`, ""),
	}
	if len(a.Country.States) > 0 {
		f.group = append(f.group, a.text("state", "State", `^.{2,40}$`, ""))
	}
	f.group = append(f.group,
		a.text("postal_code", "Postal code", `^[A-Za-z0-9][A-Za-z0-9 \-]{1,9}$`, ""),
		a.text("country", "Country", `^[A-Z]{2}$`, a.Country.Code))
	for _, g := range f.group {
		f.Fields = append(f.Fields, g.Field)
	}
	return f
}

var choice = regexp.MustCompile(`^\^\(([A-Za-z_]+(?:\|[A-Za-z_]+)*)\)\$$`)

func (a *account) field(source country.Field) field {
	f := Field{
		Key: source.Key, Label: source.Label, Required: source.Required, Example: source.Example,
		Pattern:  source.Pattern.String(),
		Checksum: source.Check, Rail: a.Rail, Type: "text",
	}
	switch f.Key {
	case "email":
		f.Type = "email"
	case "phone_number":
		f.Type = "phone"
	}
	if m := choice.FindStringSubmatch(f.Pattern); m != nil {
		f.Type = "select"
		for value := range strings.SplitSeq(m[1], "|") {
			f.Options = append(f.Options, Option{value, value})
		}
	}
	f.MinLength, f.MaxLength = lengths(f.Pattern)
	code := "invalid_parameter"
	switch {
	case source.Check == "":
	case f.Key == "iban":
		code = "iban_invalid"
	case f.Key == "tax_id" || f.Key == "id_number":
		code = "tax_id_invalid"
	}
	return field{Field: f, source: source, code: code}
}

// lengths returns the minimum and maximum number of characters that a pattern matches. most is 0 if there is no
// maximum.
func lengths(pattern string) (least, most int) {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0, 0
	}
	least, most = span(re)
	if most >= endless {
		most = 0
	}
	return least, most
}

const endless = 1 << 20

func span(re *syntax.Regexp) (least, most int) {
	times := func(from, to int) (int, int) {
		l, m := span(re.Sub[0])
		if to < 0 {
			return l * from, endless
		}
		return l * from, min(m*to, endless)
	}
	switch re.Op {
	case syntax.OpLiteral:
		return len(re.Rune), len(re.Rune)
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return 1, 1
	case syntax.OpCapture:
		return span(re.Sub[0])
	case syntax.OpStar:
		return times(0, -1)
	case syntax.OpPlus:
		return times(1, -1)
	case syntax.OpQuest:
		return times(0, 1)
	case syntax.OpRepeat:
		return times(re.Min, re.Max)
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			l, m := span(sub)
			least, most = least+l, min(most+m, endless)
		}
		return least, most
	case syntax.OpAlternate:
		least = endless
		for _, sub := range re.Sub {
			l, m := span(sub)
			least, most = min(least, l), max(most, m)
		}
		return least, most
	default: // anchors match no characters
		return 0, 0
	}
}

// lookup returns the formats of bank accounts for a currency: those of the country itself, or those of the euro area.
func lookup(currency, code string) ([]*account, error) {
	if code == "" {
		return nil, ErrProfile
	}
	var found []*account
	for _, b := range country.BankAccounts(currency, code) {
		found = append(found, accounts()[b])
	}
	if len(found) == 0 {
		return nil, ErrCurrency
	}
	return found, nil
}

// Countries returns a sorted list of the countries in which a payee can have a bank account in a currency.
func Countries(currency money.Asset) []string {
	return slices.DeleteFunc(country.Codes(), func(code string) bool {
		return len(country.BankAccounts(string(currency),
			code)) == 0
	})
}

// Fields returns the members of distribution_data for a currency in a country. In a country with several rails, the
// member "rail" selects one (by default the first), and the other members depend on it. Fields returns ErrCurrency
// for an unsupported pair, and ErrProfile if the country is empty.
func Fields(currency, code string) (Requirement, error) {
	rows, err := lookup(currency, code)
	if err != nil {
		return Requirement{}, err
	}
	answer := Requirement{Currency: currency, Country: code, Fields: []Field{}}
	if len(rows) == 1 {
		for _, f := range rows[0].fields {
			answer.Fields = append(answer.Fields, f.Field)
		}
		return answer, nil
	}
	choose := Field{Key: "rail", Label: "Way of payment", Type: "select", Example: rows[0].scheme, Rail: rows[0].Rail}
	for _, r := range rows {
		choose.Options = append(choose.Options, Option{r.scheme, r.Rail})
	}
	answer.Fields = append(answer.Fields, choose)
	for i, r := range rows {
		for j, f := range r.fields {
			if j < 2 && i > 0 {
				continue // all rails have the same field for the account holder
			}
			if j >= 2 {
				f.DependsOn = &Dependency{"rail", r.scheme}
			}
			answer.Fields = append(answer.Fields, f.Field)
		}
	}
	return answer, nil
}

// base is the JSON pointer of distribution_data in a request body.
const base = "/distribution_data"

// checkFiat validates bank data by the rules of the owner's country. It returns the destination with masked data, and
// the normalized data to encrypt.
func checkFiat(d Destination, members map[string]any, code string) (Destination, []byte, error) {
	rows, err := lookup(string(d.Symbol), code)
	if errors.Is(err, ErrCurrency) {
		return d, nil, ErrCurrency.At("body", "/symbol")
	}
	if err != nil {
		return d, nil, err
	}
	var problems apierr.List
	known := make([]string, 0, 10)
	r := rows[0]
	if len(rows) > 1 {
		known = append(known, "rail")
		if wanted := text(&problems, members, "rail", false); wanted != "" {
			i := slices.IndexFunc(rows, func(a *account) bool { return a.scheme == wanted })
			if i < 0 {
				problems.Add("invalid_parameter", base+"/rail", "There is no such way of payment for "+string(
					d.Symbol)+" in "+code+".")
				return d, nil, problems.Err()
			}
			r = rows[i]
		}
	}
	clean := r.validate(&problems, base, r.fields, members)
	for _, f := range r.fields {
		known = append(known, f.Key)
	}
	refuseUnknown(&problems, base, members, known...)
	r.checkAll(&problems, clean)
	if err := problems.Err(); err != nil {
		return d, nil, err
	}
	d.Rail, d.Scheme, d.Country = RailBank, r.scheme, code
	full, err := json.Marshal(clean)
	if err != nil {
		return d, nil, err
	}
	d.Data, err = json.Marshal(mask(clean))
	return d, full, err
}

// quote returns the beginning of a problem's message, which names the country, the currency and the field.
func (a *account) quote(f Field) string {
	return fmt.Sprintf("%s %s (%s): %s", a.Country.Code, a.Currency, a.Rail, f.Label)
}

// validate checks each field separately and returns the values in their normal form.
func (a *account) validate(problems *apierr.List, at string, fields []field, members map[string]any) map[string]any {
	clean := make(map[string]any, len(fields))
	for _, f := range fields {
		pointer := at + "/" + f.Key
		value, there := members[f.Key]
		if s, ok := value.(string); ok && strings.TrimSpace(s) == "" {
			there = false
		}
		if !there {
			if f.Required {
				problems.Add("missing_field", pointer, a.quote(f.Field)+" is required.")
			}
			continue
		}
		if f.group != nil {
			inner, ok := value.(map[string]any)
			if !ok {
				problems.Add("invalid_type", pointer, a.quote(f.Field)+" is an object.")
				continue
			}
			keys := make([]string, len(f.group))
			for i, g := range f.group {
				keys[i] = g.Key
			}
			address := a.validate(problems, pointer, f.group, inner)
			refuseUnknown(problems, pointer, inner, keys...)
			spellAddress(problems, pointer, address)
			clean[f.Key] = address
			continue
		}
		s, ok := value.(string)
		if !ok {
			problems.Add("invalid_type", pointer, a.quote(f.Field)+" is a string.")
			continue
		}
		s, ok = a.spell(f, s)
		if !ok {
			problems.Add(f.code, pointer, a.mismatch(f.Field))
			continue
		}
		if f.Key == "country" && !country.Exists(s) {
			problems.Add("invalid_parameter", pointer, a.quote(f.Field)+" is a country code of two letters.")
			continue
		}
		if f.Key == "country" && a.scheme == "ach" && a.Country.Code == "US" && !country.InUnitedStates(s) {
			problems.Add("invalid_parameter", pointer, a.quote(f.Field)+
				" is the United States or one of its territories: ACH does not pay people or companies abroad. Use a wire.")
			continue
		}
		clean[f.Key] = s
	}
	return clean
}

// spellAddress checks the state and the postal code of an address by the rules of its country.
func spellAddress(problems *apierr.List, pointer string, address map[string]any) {
	code, _ := address["country"].(string)
	if state, _ := address["state"].(string); state != "" {
		address["state"] = identity.State(problems, pointer+"/state", state, code, true)
	}
	if postal, _ := address["postal_code"].(string); postal != "" {
		address["postal_code"] = identity.PostalCode(problems, pointer+"/postal_code", postal, code, true)
	}
}

func (a *account) mismatch(f Field) string {
	var b strings.Builder
	b.WriteString(a.quote(f))
	if f.Type == "select" {
		values := make([]string, len(f.Options))
		for i, o := range f.Options {
			values[i] = o.Value
		}
		b.WriteString(" is one of: " + strings.Join(values, ", ") + ".")
		return b.String()
	}
	b.WriteString(" must match " + f.Pattern)
	if f.Example != "" {
		b.WriteString(", for example " + f.Example)
	}
	b.WriteString(".")
	return b.String()
}

// maxValue is the maximum length of a value that is matched against a pattern.
const maxValue = 512

var (
	noGaps  = strings.NewReplacer(" ", "", "-", "", "\u00a0", "", "\u2011", "", "\u2013", "")
	noMarks = strings.NewReplacer(" ", "", "-", "", ".", "", "/", "", "\u00a0", "", "\u2011", "", "\u2013", "")
)

// spell returns a value in the form that the field requires: unchanged, in capitals without spaces, or completed by a
// rule of the country. It also reports whether the value is valid.
func (a *account) spell(f field, value string) (string, bool) {
	value = strings.TrimSpace(norm.NFC.String(value))
	if len(value) > maxValue || !utf8.ValidString(value) || strings.ContainsFunc(value, identity.Unprintable) {
		return "", false
	}
	packed := strings.ToUpper(noGaps.Replace(value))
	candidates := []string{value, packed, strings.ToUpper(noMarks.Replace(value))}
	if completed := f.source.Completed(packed); completed != "" {
		candidates = append(candidates, completed)
	}
	for _, c := range candidates {
		if f.source.Pattern.MatchString(c) {
			return c, true
		}
	}
	return "", false
}

// checkAll verifies check digits, which may depend on several fields. If there are already problems, it omits checks
// that depend on a field without a valid value.
func (a *account) checkAll(problems *apierr.List, clean map[string]any) {
	complete, absent := problems.Empty(), false
	get := func(key string) string {
		s, _ := clean[key].(string)
		absent = absent || s == ""
		return s
	}
	for _, f := range a.fields {
		value := get(f.Key)
		if complete && len(a.ExactlyOne) > 0 && f.Key == a.ExactlyOne[len(a.ExactlyOne)-1] {
			a.checkExactlyOne(problems, f.Field, get)
		}
		absent = false
		if value != "" && !f.source.Valid(value, get) && (complete || !absent) {
			problems.Add(f.code, base+"/"+f.Key, a.quote(f.Field)+" "+wrong(f.source.Check, value))
		}
	}
}

// checkExactlyOne adds a problem, at the last of a group of fields, unless exactly one of them has a value.
func (a *account) checkExactlyOne(problems *apierr.List, last Field, get func(string) string) {
	given := 0
	others := []string{}
	for _, f := range a.fields {
		if slices.Contains(a.ExactlyOne, f.Key) {
			if get(f.Key) != "" {
				given++
			}
			if f.Key != last.Key {
				others = append(others, f.Label)
			}
		}
	}
	if given != 1 {
		problems.Add("invalid_parameter", base+"/"+last.Key, a.quote(last)+" or the "+strings.Join(others,
			" or ")+": exactly one of them is needed.")
	}
}

// wrong describes why a check-digit algorithm rejects a value.
func wrong(check, value string) string {
	switch check {
	case "pix_key":
		return "is not a key of the type in pix_key_type."
	case "sepa_iban":
		c := country.Find(value[:2])
		switch {
		case c == nil || !c.SEPA:
			return "is of a country that euro transfers do not reach."
		case !c.IBAN.MatchString(value):
			return "does not have the length and form of its country."
		}
	}
	return "has a wrong check digit. Check it for a mistyped character."
}

// text returns a member that must be a string.
func text(problems *apierr.List, members map[string]any, key string, required bool) string {
	value, there := members[key]
	s, ok := value.(string)
	switch {
	case there && !ok:
		problems.Add("invalid_type", base+"/"+key, "This is a string.")
	case required && strings.TrimSpace(s) == "":
		problems.Add("missing_field", base+"/"+key, "This member is required.")
	case len(s) > maxValue:
		problems.Add("invalid_parameter", base+"/"+key, "This is too long.")
	default:
		return strings.TrimSpace(s)
	}
	return ""
}

var pointerEscape = strings.NewReplacer("~", "~0", "/", "~1")

// refuseUnknown adds a problem for each unknown member, so that misspelled names are not ignored.
func refuseUnknown(problems *apierr.List, at string, members map[string]any, known ...string) {
	for _, key := range slices.Sorted(maps.Keys(members)) {
		if !slices.Contains(known, key) && members[key] != nil {
			name := key
			if len(name) > 64 {
				name = name[:64]
			}
			problems.Add("unknown_field", at+"/"+pointerEscape.Replace(strings.ToValidUTF8(name, "")),
				"There is no such member here. The fields of this currency and country are: "+strings.Join(known, ", ")+".")
		}
	}
}

// open contains the names of members that are not masked because they do not identify an account.
const open = " account_holder_name account_holder_type account_type bic bank_code bank_name branch_code sort_code " +
	"routing_number bsb ifsc institution_number transit_number pix_key_type id_type purpose_code channel "

// mask returns a copy of the members in which identifying values show only their last four characters, and addresses
// show nothing.
func mask(clean map[string]any) map[string]any {
	masked := make(map[string]any, len(clean))
	for key, value := range clean {
		s, ok := value.(string)
		if !ok {
			continue
		}
		if !strings.Contains(open, " "+key+" ") {
			s = maskText(s)
		}
		masked[key] = s
	}
	return masked
}

func maskText(s string) string {
	r := []rune(s)
	if len(r) < 8 {
		return "••••"
	}
	return "••••" + string(r[len(r)-4:])
}
