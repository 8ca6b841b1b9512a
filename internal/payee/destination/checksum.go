package destination

import (
	"regexp"
	"strings"
)

// check is a rule that a pattern cannot say: a checksum, mostly.
type check struct {
	name   string // as Fields answers it
	code   string // of the problem, "" for invalid_parameter
	always bool   // runs for an absent member too
	// run returns what is wrong, as the end of a sentence that begins with the field's label, or "".
	run func(value string, get func(key string) string) string
}

const wrong = "has a wrong check digit. Check it for a mistyped character."

// digitCheck makes a check of one value.
func digitCheck(name, code string, ok func(string) bool) *check {
	return &check{name: name, code: code, run: func(value string, _ func(string) string) string {
		if ok(value) {
			return ""
		}
		return wrong
	}}
}

// when limits a test to values of some lengths; other values of the same member have no check digit.
func when(length int, ok func(string) bool) func(string) bool {
	return func(s string) bool { return len(s) != length || ok(s) }
}

// onlyFor limits a check to one kind of document.
func onlyFor(idType string, c *check) *check {
	run := c.run
	c.run = func(value string, get func(string) string) string {
		if get("id_type") != idType {
			return ""
		}
		return run(value, get)
	}
	return c
}

const (
	ibanInvalid  = "iban_invalid"
	taxIDInvalid = "tax_id_invalid"
)

// checks are the rules by the names that fields.json gives them. Nil: the pattern says it all. Lists of banks are
// not part of the table; the bank's own answer decides those.
var checks = map[string]*check{
	"":     nil,
	"enum": nil, "list": nil, "CBUAE list": nil, "SBIF/CMF list": nil, "first 3 = bank list": nil, // lists
	`list; strip "-"`: nil, `strip "-" and spaces`: nil, "normalise 07.. / 01..": nil, // spelling
	"5th char is 0": nil, // in the pattern

	"aba":    digitCheck("aba", "", func(s string) bool { return weigh(s, 3, 7, 1)%10 == 0 }),
	"iban97": digitCheck("iban97", ibanInvalid, iban97),
	"iban97 + country length + country BBAN regex": {name: "iban97", code: ibanInvalid, run: func(value string, _ func(string) string) string {
		switch shape := ibanShapes[value[:2]]; {
		case shape == nil || !strings.Contains(sepa, " "+value[:2]+" "):
			return "is of a country that euro transfers do not reach."
		case !shape.MatchString(value):
			return "does not have the length and form of its country."
		case !iban97(value):
			return wrong
		}
		return ""
	}},
	"clabe (weights 3,7,1; each product mod 10)": digitCheck("clabe", "", func(s string) bool {
		sum := 0
		for i := range 17 {
			sum += digit(s[i]) * [3]int{3, 7, 1}[i%3] % 10
		}
		return (10-sum%10)%10 == digit(s[17])
	}),
	"cbu two check digits (block 1 weights 7,1,3,9,7,1,3; block 2 weights 3,9,7,1 repeated)": digitCheck("cbu", "", func(s string) bool {
		return (10-weigh(s[:7], 7, 1, 3, 9)%10)%10 == digit(s[7]) && (10-weigh(s[8:21], 3, 9, 7, 1)%10)%10 == digit(s[21])
	}),
	"one of cbu_cvu / alias": {name: "", always: true, run: func(_ string, get func(string) string) string {
		if (get("cbu_cvu") == "") == (get("alias") == "") {
			return "or the CBU or CVU: exactly one of the two is needed."
		}
		return ""
	}},
	"luhn": digitCheck("luhn", "", luhn),
	"per type: cpf 11 digits+check; cnpj 14 alnum+check; phone ^\\+55[1-9]{2}9?\\d{8}$; email max 77; evp UUID": {name: "pix", run: pixKey},
	"RIB mod 97": {name: "rib97", run: func(value string, _ func(string) string) string {
		if len(value) == 24 && !rib97(value) {
			return wrong
		}
		return ""
	}},
	"key = 97 - (first 22 digits followed by 00 mod 97)": digitCheck("rib97", "", rib97),
	"weighted check per bank range":                      digitCheck("nz", "", newZealand),

	"weights -1,5,7,9,4,6,10,5,7": digitCheck("rnokpp", taxIDInvalid, func(s string) bool {
		sum := weigh(s[:9], -1, 5, 7, 9, 4, 6, 10, 5, 7) % 11
		return (sum+11)%11%10 == digit(s[9])
	}),
	"cedula: luhn": digitCheck("luhn", taxIDInvalid, when(11, luhn)),
	"NIT mod-11": digitCheck("nit", taxIDInvalid, func(s string) bool {
		return len(s) == 13 || s[len(s)-1] == mod11(s[:len(s)-1], 2, 1<<30)
	}),
	"cpf/cnpj": digitCheck("cpf", taxIDInvalid, func(s string) bool { return len(s) == 11 && cpf(s) || len(s) == 14 && cnpj(s) }),
	"cuit": digitCheck("cuit", taxIDInvalid, func(s string) bool {
		return "012345678990"[11-weigh(s[:10], 5, 4, 3, 2, 7, 6, 5, 4, 3, 2)%11] == s[10]
	}),
	// A NIT is given without its check digit too, and other numbers have ten digits as well: only a firm's number
	// (8… or 9…) of ten digits surely has one.
	"NIT: mod-11": onlyFor("NIT", digitCheck("nit", taxIDInvalid, func(s string) bool {
		if len(s) != 10 || !numeric(s) || s[0] < '8' {
			return true
		}
		rest := weigh(s[:9], 41, 37, 29, 23, 19, 17, 13, 7, 3) % 11
		if rest > 1 {
			rest = 11 - rest
		}
		return rest == digit(s[9])
	})),
	"rut mod-11": digitCheck("rut", taxIDInvalid, func(s string) bool { return s[len(s)-1] == mod11(s[:len(s)-1], 2, 7) }),
	"RUC mod-11": onlyFor("RUC", digitCheck("ruc", taxIDInvalid, func(s string) bool {
		return len(s) == 11 && numeric(s) && (11-weigh(s[:10], 5, 4, 3, 2, 7, 6, 5, 4, 3, 2)%11)%10 == digit(s[10])
	})),
	"RUT mod-11": digitCheck("rut", taxIDInvalid, when(12, func(s string) bool {
		return (11-weigh(s[:11], 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2)%11)%11 == digit(s[11])
	})),
	// A person's tax number is the cedula and 001; a firm's has a third digit of 6 or 9 and another rule.
	"cedula mod-10": digitCheck("cedula", taxIDInvalid, func(s string) bool { return s[2] >= '6' || luhn(s[:10]) }),
	"mod 11-2": digitCheck("mod11-2", taxIDInvalid, func(s string) bool {
		return "10X98765432"[weigh(s[:17], 7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)%11] == s[17]
	}),
}

// nuban is Nigeria's check digit, over the bank's code and the serial number. Codes of five digits are those of
// other institutions and count with a 9 before them.
var nuban = check{name: "nuban", run: func(value string, get func(string) string) string {
	bank := get("bank_code")
	if len(bank) == 5 {
		bank = "9" + bank
	}
	if (10-weigh(bank+value[:9], 3, 7, 3)%10)%10 != digit(value[9]) {
		return wrong
	}
	return ""
}}

func digit(c byte) int { return int(c - '0') }

func numeric(s string) bool { return strings.Trim(s, "0123456789") == "" }

// weigh sums the digits times the weights, which repeat.
func weigh(digits string, weights ...int) (sum int) {
	for i := range len(digits) {
		sum += digit(digits[i]) * weights[i%len(weights)]
	}
	return sum
}

// mod11 is the check character of digits whose weights rise from the right, from first to last and again.
func mod11(digits string, first, last int) byte {
	sum, weight := 0, first
	for i := len(digits) - 1; i >= 0; i-- {
		sum += digit(digits[i]) * weight
		if weight++; weight > last {
			weight = first
		}
	}
	return "0123456789K0"[11-sum%11]
}

func luhn(digits string) bool {
	sum := 0
	for i := range len(digits) {
		n := digit(digits[len(digits)-1-i])
		if i%2 == 1 {
			if n *= 2; n > 9 {
				n -= 9
			}
		}
		sum += n
	}
	return sum%10 == 0
}

// mod97 reads letters as 10 to 35.
func mod97(s string) (rest int) {
	for i := range len(s) {
		if c := s[i]; c >= 'A' {
			rest = (rest*100 + int(c-'A') + 10) % 97
		} else {
			rest = (rest*10 + digit(c)) % 97
		}
	}
	return rest
}

func iban97(s string) bool { return len(s) > 4 && mod97(s[4:]+s[:4]) == 1 }

// rib97 is the key of a French-style account number. Its letters count as digits: A and J are 1, B, K and S are 2, …
func rib97(s string) bool {
	plain := []byte(s)
	for i, c := range plain {
		if c >= 'A' && c <= 'Z' {
			plain[i] = "12345678912345678923456789"[c-'A']
		}
	}
	return 97-mod97(string(plain[:22])+"00") == digit(plain[22])*10+digit(plain[23])
}

func cpf(s string) bool {
	return numeric(s) && strings.Trim(s, s[:1]) != "" && s[9] == mod11x(s[:9], 11) && s[10] == mod11x(s[:10], 11)
}

// cnpj may have letters since 2026; they count as their code less that of the digit 0.
func cnpj(s string) bool {
	return numeric(s[12:]) && strings.Trim(s, s[:1]) != "" && s[12] == mod11x(s[:12], 9) && s[13] == mod11x(s[:13], 9)
}

// mod11x is the Brazilian check digit: weights from 2 at the right up to last and again, and 0 for what would not be a digit.
func mod11x(s string, last int) byte {
	sum, weight := 0, 2
	for i := len(s) - 1; i >= 0; i-- {
		sum += digit(s[i]) * weight
		if weight++; weight > last {
			weight = 2
		}
	}
	if sum%11 < 2 {
		return '0'
	}
	return byte('0' + 11 - sum%11)
}

var (
	pixPhone = regexp.MustCompile(`^\+55[1-9]{2}9?\d{8}$`)
	pixEmail = regexp.MustCompile(`^[^@\s]+@[^@\s]+$`)
	uuid     = regexp.MustCompile(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`)
)

// pixKey must be of the type that is said: a mobile number of eleven digits can be a valid CPF too.
func pixKey(value string, get func(string) string) string {
	ok := false
	switch get("pix_key_type") {
	case "cpf":
		s := noMarks.Replace(value)
		ok = len(s) == 11 && cpf(s)
	case "cnpj":
		s := strings.ToUpper(noMarks.Replace(value))
		ok = len(s) == 14 && cnpj(s)
	case "phone":
		ok = pixPhone.MatchString(value)
	case "email":
		ok = len(value) <= 77 && pixEmail.MatchString(value)
	case "evp":
		ok = uuid.MatchString(value)
	}
	if !ok {
		return "is not a key of the type in pix_key_type."
	}
	return ""
}

// ibanShapes are the forms of the account numbers that euro transfers reach, by country. Reading the table fills it, from the rows of
// fields.json and, for countries without a row, from registryShapes.
var ibanShapes map[string]*regexp.Regexp

// registryShapes are the domestic parts after the country, as the IBAN registry has them.
var registryShapes = map[string]string{
	"AD": `\d{10}[A-Z0-9]{12}`, "CY": `\d{10}[A-Z0-9]{16}`, "EE": `\d{18}`, "IS": `\d{24}`, "LI": `\d{7}[A-Z0-9]{12}`,
	"LT": `\d{18}`, "LU": `\d{5}[A-Z0-9]{13}`, "LV": `\d{2}[A-Z]{4}[A-Z0-9]{13}`, "MC": `\d{12}[A-Z0-9]{11}\d{2}`,
	"MT": `\d{2}[A-Z]{4}\d{5}[A-Z0-9]{18}`, "SI": `\d{17}`, "SK": `\d{22}`, "SM": `\d{2}[A-Z]\d{10}[A-Z0-9]{12}`, "VA": `\d{20}`,
}

func shapesOf(rows []*row) map[string]*regexp.Regexp {
	shapes := make(map[string]*regexp.Regexp, 2*len(registryShapes))
	for country, shape := range registryShapes {
		shapes[country] = regexp.MustCompile("^" + country + shape + "$")
	}
	for _, r := range rows {
		for _, f := range r.fields {
			if f.Key == "iban" && r.Country != "EU" {
				shapes[r.Country] = f.pattern
			}
		}
	}
	return shapes
}

// The weights of New Zealand's account numbers: bank 2, branch 4, account 8, suffix 3 digits.
var nzWeights = map[byte][17]int{
	'A': {0, 0, 6, 3, 7, 9, 0, 0, 10, 5, 8, 4, 2, 1, 0, 0, 0},
	'B': {0, 0, 0, 0, 0, 0, 0, 0, 10, 5, 8, 4, 2, 1, 0, 0, 0},
	'D': {0, 0, 0, 0, 0, 0, 0, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0},
	'E': {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 4, 3, 2, 0, 0, 1},
	'F': {0, 0, 0, 0, 0, 0, 0, 1, 7, 3, 1, 7, 3, 1, 0, 0, 0},
	'G': {0, 0, 0, 0, 0, 0, 0, 1, 3, 7, 1, 3, 7, 1, 3, 7, 1},
}

// newZealand checks an account number by the rule of its bank.
func newZealand(s string) bool {
	s = strings.ReplaceAll(s, "-", "")
	number := s[:6] + "0" + s[6:13] + strings.Repeat("0", 16-len(s)) + s[13:]
	rule, mod := byte('A'), 11
	switch s[:2] {
	case "08":
		rule = 'D'
	case "09":
		rule = 'E'
	case "25", "33":
		rule, mod = 'F', 10
	case "26", "28", "29":
		rule, mod = 'G', 10
	case "31":
		return true // Citibank has no check digit
	default:
		if s[6:13] >= "0990000" {
			rule = 'B'
		}
	}
	sum := 0
	for i, w := range nzWeights[rule] {
		n := digit(number[i]) * w
		if rule == 'E' || rule == 'G' {
			for n > 9 {
				n = n/10 + n%10
			}
		}
		sum += n
	}
	return sum%mod == 0
}
