package wise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stipend/stipend/internal/payout/bank"
)

// requirement is a type of recipient account that Wise offers for a quote, with the fields of its form.
type requirement struct {
	Type   string `json:"type"`
	Fields []struct {
		Group []field `json:"group"`
	} `json:"fields"`
}

// field is a field of the form of a recipient account.
type field struct {
	Key       string `json:"key"` // a dot separates the names of an object and of its member
	Required  bool   `json:"required"`
	Refresh   bool   `json:"refreshRequirementsOnChange"` // other fields depend on the value
	MinLength *int   `json:"minLength"`
	MaxLength *int   `json:"maxLength"`
	Pattern   string `json:"validationRegexp"`
	Values    []struct {
		Key  string `json:"key"`
		Name string `json:"name"`
	} `json:"valuesAllowed"`
}

// kinds has Wise's types that are an account of the payee. The value overrides sources for single fields. Types with
// the suffix _local are accounts of the payee too. Other types are not used: wallets, whose numbers look like account
// numbers, and recipients whom Wise would ask for an account by email.
var kinds = map[string]string{
	"aba": "", "argentina": "", "australian": "", "brazil": "", "brazil_business": "", "canadian": "",
	"bangladesh": "bankCode=routing_number:3 branchCode=routing_number",
	"chile":      "", "chinese_card": "", "colombia": "", "costa_rica": "", "emirates": "", "hongkong": "", "iban": "",
	"indian": "", "indonesian": "", "japanese": "", "kenya_mobile": "accountNumber=phone_number", "malaysian": "",
	"mexican": "", "morocco": "", "nepal": "", "newzealand": "", "nigeria": "", "peru": "", "philippines": "",
	"singapore": "", "sort_code": "", "south_korean_paygate": "", "south_korean_paygate_business": "", "southafrica": "",
	"srilanka": "", "swift_code": "accountNumber=iban|account_number|rib", "thailand": "", "turkish_earthport": "",
	"uruguay": "", "vietname_earthport": "",
}

// local is the suffix of types that are a bank account in the country of the currency.
const local = "_local"

// sources maps a field of Wise to the fields of a destination that can provide its value, in order of preference. A
// colon and a number take only the first characters of the value. A required field that is missing here cannot be
// filled.
var sources = map[string]string{
	"IBAN": "iban", "iban": "iban", "BIC": "bic", "bic": "bic", "swiftCode": "bic|bank_code|bank_name",
	"accountNumber": "account_number|rib|cci|cbu_cvu", "clabe": "clabe", "cardNumber": "card_number",
	"abartn": "routing_number", "sortCode": "sort_code", "bsbCode": "bsb", "ifscCode": "ifsc",
	"institutionNumber": "institution_number", "transitNumber": "transit_number",
	"bankCode": "bank_code|bic|bank_name", "branchCode": "branch_code", "accountType": "account_type",
	"taxId": "tax_id", "cpf": "tax_id", "rut": "tax_id", "identificationNumber": "id_number|tax_id",
	"idDocumentType": "id_type", "idDocumentNumber": "id_number|tax_id", "phoneNumber": "phone_number", "email": "email",
	"dateOfBirth": "date_of_birth", "town": "address.city", "postCode": "address.postal_code",
	"address.country": "address.country", "address.city": "address.city", "address.firstLine": "address.address_line1",
	"address.postCode": "address.postal_code", "address.state": "address.state",
}

// unasked are fields that are sent only if Wise requires them, because Wise writes to the address.
var unasked = []string{"email"}

// numbers are Wise's field keys for account numbers.
var numbers = []string{"accountNumber", "IBAN", "iban", "clabe", "cardNumber"}

// words maps values of our fields to Wise's words for them.
var words = map[string][]string{
	"checking": {"CHECKING", "CURRENT"}, "current": {"CURRENT", "CHECKING"}, "cheque": {"CHECKING", "CURRENT"},
	"corriente": {"CHECKING"}, "corrente": {"CHECKING"}, "savings": {"SAVINGS", "SAVING"}, "ahorro": {"SAVINGS"},
	"ahorros": {"SAVINGS"}, "poupanca": {"SAVINGS"}, "vista": {"CUENTA_VISTA", "DEMAND"}, "futsu": {"SAVINGS"},
	"toza": {"CURRENT"}, "chochiku": {"SAVINGS"}, "transmission": {"CHECKING", "CURRENT"},
	"CE": {"C_EXT"}, "PAS": {"PASSP", "PASS", "PASSPORT"}, "PASSPORT": {"PASSP", "PASS"},
}

// shortReference is the number of characters of a payment text that every network accepts. references has the numbers
// for currencies whose networks accept more.
const shortReference = 10

var references = map[string]int{"AUD": 18, "EUR": 35, "GBP": 18, "ZAR": 18}

func referenceLength(o bank.Order) int {
	return max(references[string(o.Amount.Asset())], shortReference)
}

// payee has the values of a destination by their names, such as account_number and address.city.
type payee struct {
	bank.Payee
	values map[string]string
}

func newPayee(o bank.Order) (p payee, err error) {
	if p.Payee, err = o.Receiver(); err != nil {
		return p, err
	}
	var data map[string]any
	if err := json.Unmarshal(o.Data, &data); err != nil {
		return p, err
	}
	p.values = map[string]string{}
	for name, value := range data {
		p.values[name], _ = value.(string)
	}
	for name, value := range map[string]string{"country": p.Address.Country, "city": p.Address.Town,
		"address_line1": p.Address.Street, "postal_code": p.Address.PostCode, "state": p.Address.State} {
		p.values["address."+name] = value
	}
	if born := p.values["date_of_birth"]; len(born) == 6 { // of a person in Korea: year, month, day
		century := "19"
		if born < "20" {
			century = "20"
		}
		p.values["date_of_birth"] = century + born[:2] + "-" + born[2:4] + "-" + born[4:]
	}
	return p, nil
}

// maxRefreshes is the number of times that the form of a type is read again.
const maxRefreshes = 5

// recipient returns the body of the call that creates the recipient of an order. It uses the first type that Wise
// offers for a quote and for which the destination has all required fields. If there is no such type, it returns an
// errIncomplete that names a missing field.
func (a *API) recipient(ctx context.Context, o bank.Order, quote string) (object, error) {
	to, err := newPayee(o)
	if err != nil {
		return nil, errIncomplete{err}
	}
	path := "/v1/quotes/" + url.PathEscape(quote) + "/account-requirements"
	var offered []requirement
	if err := a.forms.Get(ctx, path, &offered); err != nil {
		return nil, err
	}
	var names []string
	var failed error
	for _, r := range offered {
		names = append(names, r.Type)
		if _, known := kinds[r.Type]; !known && !strings.HasSuffix(r.Type, local) {
			continue
		}
		body, err := a.fill(ctx, o, to, r, path)
		var missing errIncomplete
		if err == nil || !errors.As(err, &missing) {
			return body, err
		}
		if failed == nil {
			failed = err
		}
	}
	if failed == nil {
		failed = errIncomplete{fmt.Errorf("the bank pays %s only to accounts of other types: %s", o.Amount.Asset(),
			strings.Join(names, ", "))}
	}
	return nil, failed
}

// fill returns the body for one type of recipient account. If a value makes Wise require other fields, it reads the
// form again.
func (a *API) fill(ctx context.Context, o bank.Order, to payee, r requirement, path string) (object, error) {
	asked := map[string]bool{}
	for range maxRefreshes {
		body, refresh, err := to.answer(o, r)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(refresh, func(key string) bool { return !asked[key] }) {
			return body, nil
		}
		for _, key := range refresh {
			asked[key] = true
		}
		var offered []requirement
		if err := a.forms.Post(ctx, path, "", body, &offered); err != nil {
			return nil, err
		}
		i := slices.IndexFunc(offered, func(x requirement) bool { return x.Type == r.Type })
		if i < 0 {
			return nil, errIncomplete{fmt.Errorf("the address of the payee or the bank does not fit the type %s", r.Type)}
		}
		r = offered[i]
	}
	return nil, fmt.Errorf("wise: the fields of the type %s change with every answer", r.Type)
}

// answer returns the body for one type, and the filled fields on which other fields depend.
func (p payee) answer(o bank.Order, r requirement) (body object, refresh []string, err error) {
	details := object{}
	body = object{"profile": json.Number(o.Account.Profile), "accountHolderName": name(p.Name),
		"currency": o.Amount.Asset(), "type": r.Type, "details": details}
	hasNumber := false
	for _, section := range r.Fields {
		for _, f := range section.Group {
			value, err := p.value(r.Type, f)
			switch {
			case err != nil && f.Required:
				return nil, nil, errIncomplete{err}
			case err != nil || value == "" || slices.Contains(unasked, f.Key) && !f.Required:
				continue
			}
			if f.Refresh {
				refresh = append(refresh, f.Key)
			}
			if f.Key == "accountHolderName" {
				body[f.Key] = value
				continue
			}
			hasNumber = hasNumber || slices.Contains(numbers, f.Key)
			at := details
			if group, member, nested := strings.Cut(f.Key, "."); nested {
				if at[group] == nil {
					at[group] = object{}
				}
				at[group].(object)[member] = value
				continue
			}
			at[f.Key] = value
		}
	}
	if details["legalType"] == nil {
		details["legalType"] = p.legalType()
	}
	if !hasNumber {
		return nil, nil, errIncomplete{fmt.Errorf("the type %s does not ask for the account number", r.Type)}
	}
	return body, refresh, nil
}

func (p payee) legalType() string {
	return map[bool]string{true: "BUSINESS", false: "PRIVATE"}[p.Business]
}

// value returns the destination's value for a field of Wise, or an error that names the destination's field. It
// returns "" for an optional field that no field of the destination corresponds to.
func (p payee) value(kind string, f field) (string, error) {
	switch f.Key {
	case "legalType":
		value, ok := f.accept(p.legalType())
		if !ok {
			return "", fmt.Errorf("account_holder_type: %s accounts are not paid by this bank",
				map[bool]string{true: "business", false: "individual"}[p.Business])
		}
		return value, nil
	case "accountHolderName":
		value, ok := f.accept(name(p.Name))
		if !ok {
			return "", errors.New("account_holder_name does not fit")
		}
		return value, nil
	}
	from := sources[f.Key]
	for pair := range strings.FieldsSeq(kinds[kind]) {
		if key, other, _ := strings.Cut(pair, "="); key == f.Key {
			from = other
		}
	}
	if from == "" {
		return "", fmt.Errorf("the bank requires %s, which no destination has", f.Key)
	}
	wrong := ""
	for source := range strings.SplitSeq(from, "|") {
		source, cut, _ := strings.Cut(source, ":")
		given := p.values[source]
		if given == "" {
			continue
		}
		if n := len(cut); n > 0 {
			given = given[:min(int(cut[0]-'0'), len(given))]
		}
		forms := append([]string{given}, words[given]...)
		if source == "phone_number" {
			forms = append(forms, strings.TrimPrefix(given, "+"))
		}
		for _, text := range forms {
			if value, ok := f.accept(text); ok {
				return value, nil
			}
		}
		if wrong == "" {
			wrong = source
		}
	}
	if wrong != "" {
		return "", fmt.Errorf("%s does not fit", wrong)
	}
	first, _, _ := strings.Cut(from, "|")
	first, _, _ = strings.Cut(first, ":")
	return "", fmt.Errorf("%s is missing", first)
}

// accept returns a value in the form that a field requires, or false if the field does not allow the value.
func (f field) accept(value string) (string, bool) {
	if len(f.Values) > 0 {
		for _, v := range f.Values {
			if v.Key != "" && compact(v.Key) == compact(value) {
				return v.Key, true
			}
		}
		for _, v := range f.Values { // banks have Wise's own codes, but their usual names
			if v.Key != "" && compact(value) != "" && compact(v.Name) == compact(value) {
				return v.Key, true
			}
		}
		return "", false
	}
	n := utf8.RuneCountInString(value)
	if f.MinLength != nil && n < *f.MinLength || f.MaxLength != nil && n > *f.MaxLength {
		return "", false
	}
	if f.Pattern == "" {
		return value, true
	}
	pattern, err := regexp.Compile("^(?:" + f.Pattern + ")$")
	return value, err != nil || pattern.MatchString(value) // Wise itself checks patterns that Go cannot compile
}

// name replaces the characters of a name that Wise does not permit by spaces.
func name(s string) string {
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("-_()'*,. ", r) {
			return r
		}
		return ' '
	}, s)), " ")
}
