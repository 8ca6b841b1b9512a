package destination

import (
	_ "embed"
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
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/money"
)

// Requirement is what a destination in a currency consists of, in a country.
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
	MaxLength int         `json:"max_length,omitempty"` // 0: as long as the pattern allows
	Pattern   string      `json:"pattern,omitempty"`
	Example   string      `json:"example,omitempty"`
	Options   []Option    `json:"options,omitempty"`    // of a select
	DependsOn *Dependency `json:"depends_on,omitempty"` // asked for only when another member has a value
	Checksum  string      `json:"checksum,omitempty"`
	Rail      string      `json:"rail"`
	Fields    []Field     `json:"fields,omitempty"` // of a group, whose value is an object
}

// Option is a choice of a select.
type Option struct {
	Value string `json:"value"`
	Label string `json:"label"`
}

// Dependency names the member and its value that make a field apply.
type Dependency struct {
	Field string `json:"field"`
	Value string `json:"value"`
}

//go:embed fields.json
var fieldsJSON []byte

// row is one way into the banks of a country, as fields.json has it.
type row struct {
	Country  string
	Currency string
	Rail     string
	Note     string
	RawField []struct {
		Key, Label, Pattern, Check, Example, Type string
		Required                                  bool
	} `json:"fields"`

	scheme string // the rail's first word, by which a client chooses among several
	fields []field
}

// field is a Field ready to check.
type field struct {
	Field
	pattern *regexp.Regexp
	check   *check
	group   []field
}

// sepa are the countries whose euro accounts the row "EU" reaches.
const sepa = " AD AT BE BG CH CY CZ DE DK EE ES FI FR GB GR HR HU IE IS IT LI LT LU LV MC MT NL NO PL PT RO SE SI SK SM VA "

// tables are the rows by country and currency.
var tables = sync.OnceValue(func() map[[2]string][]*row {
	var rows []*row
	if err := json.Unmarshal(fieldsJSON, &rows); err != nil {
		panic("distribution: fields.json: " + err.Error())
	}
	by := map[[2]string][]*row{}
	for _, r := range rows {
		r.build()
		at := [2]string{r.Country, r.Currency}
		by[at] = append(by[at], r)
	}
	ibanShapes = shapesOf(rows)
	return by
})

func (r *row) build() {
	r.scheme = strings.ToLower(strings.ReplaceAll(strings.TrimSpace(strings.Split(r.Rail, "/")[0]), " ", "_"))
	r.fields = []field{
		r.field(Field{Key: "account_holder_name", Label: "Name of the account holder", Required: true, Example: "Ada Lovelace", Pattern: `^[\p{L}][\p{L}\p{M}' .,\-]{1,69}$`}, nil),
		r.field(Field{Key: "account_holder_type", Label: "Type of the account holder", Required: true, Example: "individual", Pattern: `^(individual|business)$`}, nil),
	}
	for _, raw := range r.RawField {
		if raw.Type == "group" {
			r.fields = append(r.fields, r.address(raw.Key, raw.Required))
			continue
		}
		c, ok := checks[raw.Check]
		if !ok {
			panic(fmt.Sprintf("distribution: fields.json: %s %s has an unknown check %q", r.Country, r.Currency, raw.Check))
		}
		if c == nil && raw.Key == "account_number" && r.Country == "NG" {
			c = &nuban // the row gives it as a note, since it needs two members
		}
		r.fields = append(r.fields, r.field(Field{Key: raw.Key, Label: raw.Label, Required: raw.Required, Example: raw.Example, Pattern: raw.Pattern}, c))
	}
}

// address is the block of members that some countries ask for.
func (r *row) address(key string, required bool) field {
	f := field{Field: Field{Key: key, Label: "Address of the account holder", Type: "group", Required: required, Rail: r.Rail}}
	add := func(key, label, pattern, example string) {
		f.group = append(f.group, r.field(Field{Key: key, Label: label, Required: true, Example: example, Pattern: pattern}, nil))
	}
	add("address_line1", "Street and number", `^.{2,70}$`, "1 Main Street")
	add("city", "City", `^.{2,40}$`, "")
	if strings.Contains(" US CA BR AU MX IN ", " "+r.Country+" ") {
		add("state", "State", `^.{2,40}$`, "")
	}
	add("postal_code", "Postal code", `^[A-Za-z0-9][A-Za-z0-9 \-]{1,9}$`, "")
	add("country", "Country", `^[A-Z]{2}$`, r.Country)
	for _, g := range f.group {
		f.Fields = append(f.Fields, g.Field)
	}
	return f
}

var choice = regexp.MustCompile(`^\^\(([A-Za-z_]+(?:\|[A-Za-z_]+)*)\)\$$`)

func (r *row) field(f Field, c *check) field {
	f.Rail, f.Type = r.Rail, "text"
	if f.Key == "email" {
		f.Type = "email"
	}
	if f.Key == "phone_number" {
		f.Type = "phone"
	}
	if m := choice.FindStringSubmatch(f.Pattern); m != nil {
		f.Type = "select"
		for value := range strings.SplitSeq(m[1], "|") {
			f.Options = append(f.Options, Option{value, value})
		}
	}
	f.MinLength, f.MaxLength = lengths(f.Pattern)
	if c != nil {
		f.Checksum = c.name
	}
	return field{Field: f, pattern: regexp.MustCompile(f.Pattern), check: c}
}

// lengths are how few and how many characters a pattern matches; 0 for most when it has no end.
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
	default: // begin and end of the text, and the like
		return 0, 0
	}
}

// lookup finds the rows for a currency in a country. The country's own rows come before those of its union.
func lookup(currency, country string) ([]*row, error) {
	if country == "" {
		return nil, ErrProfile
	}
	rows := tables()[[2]string{country, currency}]
	if len(rows) == 0 && currency == string(money.EUR) && strings.Contains(sepa, " "+country+" ") {
		rows = tables()[[2]string{"EU", currency}]
	}
	if len(rows) == 0 {
		return nil, ErrCurrency
	}
	return rows, nil
}

// Countries lists those in which a payee can have a bank destination in a currency, sorted.
func Countries(currency money.Asset) []string {
	found := map[string]bool{}
	for at := range tables() {
		switch {
		case at[1] != string(currency):
		case at[0] == "EU":
			for country := range strings.FieldsSeq(sepa) {
				found[country] = true
			}
		default:
			found[at[0]] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// Fields answers the members of distribution_data for a currency in a country. Where a country has several rails, the member
// "rail" chooses (the first one when it is absent) and the members of each depend on it. An unknown pair is
// ErrCurrency, an empty country ErrProfile.
func Fields(currency, country string) (Requirement, error) {
	rows, err := lookup(currency, country)
	if err != nil {
		return Requirement{}, err
	}
	answer := Requirement{Currency: currency, Country: country, Fields: []Field{}}
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
				continue // the account holder is common to all
			}
			if j >= 2 {
				f.DependsOn = &Dependency{"rail", r.scheme}
			}
			answer.Fields = append(answer.Fields, f.Field)
		}
	}
	return answer, nil
}

// base is where distribution_data stands in a body.
const base = "/distribution_data"

// checkFiat validates the members for the owner's country. It returns the destination with masked data, and what is to be
// sealed: the members in their normal spelling.
func checkFiat(d Distribution, members map[string]any, country string) (Distribution, []byte, error) {
	rows, err := lookup(string(d.Symbol), country)
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
			i := slices.IndexFunc(rows, func(r *row) bool { return r.scheme == wanted })
			if i < 0 {
				problems.Add("invalid_parameter", base+"/rail", "There is no such way of payment for "+string(d.Symbol)+" in "+country+".")
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
	if problems.Empty() {
		r.checkAll(&problems, clean)
	}
	if err := problems.Err(); err != nil {
		return d, nil, err
	}
	d.Rail, d.Scheme, d.Country = RailBank, r.scheme, country
	full, err := json.Marshal(clean)
	if err != nil {
		return d, nil, err
	}
	d.Data, err = json.Marshal(mask(clean))
	return d, full, err
}

// quote begins a problem with the row it comes from.
func (r *row) quote(f Field) string {
	return fmt.Sprintf("%s %s (%s): %s", r.Country, r.Currency, r.Rail, f.Label)
}

// validate checks each field by itself and returns the normal spellings.
func (r *row) validate(problems *apierr.List, at string, fields []field, members map[string]any) map[string]any {
	clean := make(map[string]any, len(fields))
	for _, f := range fields {
		pointer := at + "/" + f.Key
		value, there := members[f.Key]
		if s, ok := value.(string); ok && strings.TrimSpace(s) == "" {
			there = false
		}
		if !there {
			if f.Required {
				problems.Add("missing_field", pointer, r.quote(f.Field)+" is required.")
			}
			continue
		}
		if f.group != nil {
			inner, ok := value.(map[string]any)
			if !ok {
				problems.Add("invalid_type", pointer, r.quote(f.Field)+" is an object.")
				continue
			}
			keys := make([]string, len(f.group))
			for i, g := range f.group {
				keys[i] = g.Key
			}
			address := r.validate(problems, pointer, f.group, inner)
			refuseUnknown(problems, pointer, inner, keys...)
			spellAddress(problems, pointer, address)
			clean[f.Key] = address
			continue
		}
		s, ok := value.(string)
		if !ok {
			problems.Add("invalid_type", pointer, r.quote(f.Field)+" is a string.")
			continue
		}
		s, ok = r.spell(f, s)
		if !ok {
			problems.Add(f.code("invalid_parameter"), pointer, r.mismatch(f.Field))
			continue
		}
		if f.Key == "country" && !identity.IsCountry(s) {
			problems.Add("invalid_parameter", pointer, r.quote(f.Field)+" is a country code of two letters.")
			continue
		}
		clean[f.Key] = s
	}
	return clean
}

// spellAddress holds the state and the postal code of an address to the rules of its country.
func spellAddress(problems *apierr.List, pointer string, address map[string]any) {
	country, _ := address["country"].(string)
	if state, _ := address["state"].(string); state != "" {
		address["state"] = identity.State(problems, pointer+"/state", state, country, true)
	}
	if code, _ := address["postal_code"].(string); code != "" {
		address["postal_code"] = identity.PostalCode(problems, pointer+"/postal_code", code, country, true)
	}
}

func (f field) code(otherwise string) string {
	if f.check != nil && f.check.code != "" {
		return f.check.code
	}
	return otherwise
}

func (r *row) mismatch(f Field) string {
	var b strings.Builder
	b.WriteString(r.quote(f))
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

// maxValue bounds what is matched at all.
const maxValue = 512

var (
	noGaps  = strings.NewReplacer(" ", "", "-", "", "\u00a0", "", "\u2011", "", "\u2013", "")
	noMarks = strings.NewReplacer(" ", "", "-", "", ".", "", "/", "", "\u00a0", "", "\u2011", "", "\u2013", "")
)

// spell returns the value in the spelling that the row asks for: as it is, or without the gaps that people type and
// in capitals, or completed by a rule of the country.
func (r *row) spell(f field, value string) (string, bool) {
	value = strings.TrimSpace(norm.NFC.String(value))
	if len(value) > maxValue || !utf8.ValidString(value) || strings.ContainsFunc(value, identity.Unprintable) {
		return "", false
	}
	packed := strings.ToUpper(noGaps.Replace(value))
	candidates := []string{value, packed, strings.ToUpper(noMarks.Replace(value))}
	switch r.Country + " " + f.Key {
	case "GB account_number":
		if len(packed) == 6 || len(packed) == 7 {
			candidates = append(candidates, strings.Repeat("0", 8-len(packed))+packed)
		}
	case "JP account_number":
		if len(packed) > 0 && len(packed) < 7 {
			candidates = append(candidates, strings.Repeat("0", 7-len(packed))+packed)
		}
	case "PL iban":
		candidates = append(candidates, "PL"+packed) // the national number without the country
	case "KE phone_number":
		if national, ok := strings.CutPrefix(packed, "0"); ok {
			candidates = append(candidates, "+254"+national)
		}
	}
	for _, c := range candidates {
		if f.pattern.MatchString(c) {
			return c, true
		}
	}
	return "", false
}

// checkAll runs the checksums, which may need several members.
func (r *row) checkAll(problems *apierr.List, clean map[string]any) {
	get := func(key string) string {
		s, _ := clean[key].(string)
		return s
	}
	for _, f := range r.fields {
		// A check of which of two members is there runs also when its own is not.
		if f.check == nil || get(f.Key) == "" && !f.check.always {
			continue
		}
		if why := f.check.run(get(f.Key), get); why != "" {
			problems.Add(f.code("invalid_parameter"), base+"/"+f.Key, r.quote(f.Field)+" "+why)
		}
	}
}

// text is a member that is a string.
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

// refuseUnknown notes the members that nobody asked for, by name: a misspelt one must not be dropped in silence.
func refuseUnknown(problems *apierr.List, at string, members map[string]any, known ...string) {
	for _, key := range slices.Sorted(maps.Keys(members)) {
		if !slices.Contains(known, key) && members[key] != nil {
			name := key
			if len(name) > 64 {
				name = name[:64]
			}
			problems.Add("unknown_field", at+"/"+pointerEscape.Replace(strings.ToValidUTF8(name, "")), "There is no such member here. The fields of this currency and country are: "+strings.Join(known, ", ")+".")
		}
	}
}

// open are the members that say which bank or kind, not which account.
const open = " account_holder_name account_holder_type account_type bic bank_code bank_name branch_code sort_code routing_number bsb ifsc institution_number transit_number pix_key_type id_type purpose_code channel "

// mask keeps the last four characters of what identifies an account or a person, and nothing of addresses.
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
