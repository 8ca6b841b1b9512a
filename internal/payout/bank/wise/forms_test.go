package wise_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// forms are the types of recipient accounts that the server offers for each currency, with their fields. Types and
// fields are those that Wise has published. For BWP, FJD, MZN, NAD, XOF and ZMW, whose fields it has not published,
// they are like those of its other local types. A type begins with its name; "people" excludes companies, and "address"
// is the address of the payee. A field may have a regular expression after ~, values after = (code, or code:name with _
// for spaces), and ? if it is optional.
var forms = map[string]string{
	"AED": `emirates IBAN~AE\d{21}`,
	"ARS": `argentina taxId~\d{11} accountNumber~\d{22}`,
	"AUD": `australian bsbCode~\d{6} accountNumber~\d{4,9}; australian_bpay billerCode customerReferenceNumber`,
	"BDT": `bkash accountNumber~01\d{9}; bangladesh people bankCode=015,020 branchCode=015270362 accountNumber`,
	"BRL": `brazil people bankCode=001,218 branchCode~\d{4} accountNumber accountType=CHECKING,SAVINGS cpf~\d{11} ` +
		`phoneNumber?; brazil_business bankCode=001,218 branchCode~\d{4} accountNumber accountType=CHECKING,SAVINGS`,
	"BWP": `botswana_local bankCode=282267 accountNumber~\d{7,16}`,
	"CAD": `interac interacAccount; canadian institutionNumber~\d{3} transitNumber~\d{5} accountNumber~\d{7,12} ` +
		`accountType=Checking,Saving`,
	"CHF": `iban IBAN~CH\d{7}[A-Z0-9]{12} town postCode`,
	"CLP": `chile bankCode=001 accountNumber rut accountType=CHECKING,SAVINGS,CUENTA_VISTA phoneNumber?`,
	"CNY": `chinese_alipay accountNumber; chinese_card people cardNumber~\d{14,19}`,
	"COP": `colombia bankCode=007 accountNumber accountType=CHECKING,SAVINGS idDocumentType=CC,CE,NIT,PASS ` +
		`idDocumentNumber phoneNumber?`,
	"CRC": `costa_rica IBAN~CR\d{20} identificationNumber`,
	"CZK": `iban IBAN~CZ\d{22}; czech prefix? accountNumber bankCode=5500`,
	"DKK": `iban IBAN~DK\d{16}`,
	"DOP": `swift_code swiftCode~[A-Z]{6}[A-Z0-9]{2,5} accountNumber address`,
	"EGP": `iban IBAN~EG\d{27}`,
	"EUR": `iban IBAN BIC?; swift_code swiftCode accountNumber address`,
	"FJD": `fiji_mobile accountNumber~679\d{7}; fiji_local bankCode=1:Other_Bank,2:Example_Bank accountNumber`,
	"GBP": `sort_code sortCode~\d{6} accountNumber~\d{8}; iban IBAN`,
	"GEL": `iban IBAN~GE\d{2}[A-Z]{2}\d{16}`,
	"GHS": `ghana_local bankCode=030100:Example_Bank,040100 accountNumber~\d{8,20}`,
	"GTQ": `swift_code swiftCode accountNumber address`,
	"HKD": `hong_kong_fps accountNumber; hongkong bankCode=004,307 accountNumber`,
	"HUF": `iban IBAN~HU\d{26}; hungarian accountNumber`,
	"IDR": `indonesian bankCode=610306:Example_Bank accountNumber~\d{5,20}`,
	"ILS": `israeli_local IBAN~IL\d{21}`,
	"INR": `indian_upi accountNumber~.+@.+; indian ifscCode~[A-Z]{4}0[A-Z0-9]{6} accountNumber`,
	"JPY": `japanese bankCode=0001,6470 branchCode~\d{3} accountNumber~\d{7} accountType=CURRENT,SAVINGS,CHECKING`,
	"KES": `kenya_mobile accountNumber~254\d{9}; kenya_local bankCode=35:Example_Bank accountNumber~\d{6,14}`,
	"KRW": `south_korean_paygate people email~[^\s]+@[^\s]+\.[^\s]{2,} dateOfBirth~\d{4}\-\d{2}\-\d{2} ` +
		`bankCode=004,011 accountNumber~\d{10,16}`,
	"KZT": `swift_code swiftCode accountNumber address`,
	"LKR": `srilanka bankCode=7010,7214 branchCode~\d{3} accountNumber`,
	"MAD": `morocco bankCode=BCMAMAMC:Example_Bank accountNumber~\d{24}`,
	"MXN": `mexican clabe~\d{18}`,
	"MYR": `malaysian_duitnow accountNumber; malaysian swiftCode=MBBEMYKL,ABNAMYKL accountNumber~\d{5,17}`,
	"MZN": `mozambique_local accountNumber~\d{21}`,
	"NAD": `namibia_local bankCode=280172 accountNumber~\d{7,13}`,
	"NGN": `nigeria bankCode=011,044 accountNumber~\d{10}`,
	"NOK": `iban IBAN~NO\d{13}`,
	"NPR": `nepal people bankCode=977056:Example_Bank accountNumber`,
	"NZD": `newzealand accountNumber~\d{2}-?\d{4}-?\d{7}-?\d{2,3}`,
	"PEN": `peru bankCode=BCON:Example_Bank accountNumber~\d{20} accountType=CHECKING,SAVINGS ` +
		`idDocumentType=DNI,RUC,C_EXT,PASSP idDocumentNumber phoneNumber`,
	"PHP": `philippinesmobile accountNumber; philippines bankCode=AMA:Example_Bank,BOPIPHMM accountNumber address`,
	"PKR": `iban people IBAN~PK\d{2}[A-Z]{4}\d{16}`,
	"PLN": `iban IBAN~PL\d{26}; polish accountNumber`,
	"RON": `iban IBAN~RO\d{2}[A-Z]{4}[A-Z0-9]{16}`,
	"RWF": `swift_code swiftCode accountNumber~\d{8,16} address`,
	"SAR": `swift_code swiftCode accountNumber~SA\d{2}[A-Z0-9]{20} address`,
	"SEK": `iban IBAN~SE\d{22}; sweden_local clearingNumber accountNumber; bankgiro bankgiroNumber`,
	"SGD": `singapore_paynow accountNumber; singapore bankCode=7171,7418 accountNumber`,
	"THB": `thailand bankCode=002,004 accountNumber~\d{10,12} address`,
	"TND": `swift_code swiftCode accountNumber address`,
	"TRY": `turkish_earthport IBAN~TR\d{24} address`,
	"TZS": `tanzania_local bankCode=1:Example_Bank accountNumber~\d{8,20}`,
	"UAH": `privatbank phoneNumber accountNumber~\d{4}; iban IBAN~UA\d{27} identificationNumber?`,
	"UGX": `uganda_local bankCode=1:Example_Bank accountNumber~\d{8,20}`,
	"USD": `aba abartn~\d{9} accountNumber~\d{4,17} accountType=CHECKING,SAVINGS address; fedwire_local abartn~\d{9} ` +
		`accountNumber~\d{4,17} address; swift_code swiftCode accountNumber address`,
	"UYU": `uruguay bankCode=1001:Example_Bank accountNumber accountType=CHECKING,SAVINGS identificationNumber`,
	"VND": `vietname_earthport swiftCode=BFTVVNVX:Example_Bank,ABBKVNVX accountNumber`,
	"XOF": `senegal_local bankCode=1:Example_Bank accountNumber~\d{24}`,
	"ZAR": `southafrica bankCode=SBZAZAJJ,ALBRZAJJ accountNumber~\d{7,11}`,
	"ZMW": `zambia_local bankCode=010001 accountNumber~\d{10,13}`,
}

// option returns a value that a field allows.
func option(text string) object {
	key, name, named := strings.Cut(text, ":")
	if !named {
		name = "Bank " + key
	}
	return object{"key": key, "name": strings.ReplaceAll(name, "_", " ")}
}

// requirements returns what the server requires of a recipient in a currency, as account-requirements does. country is
// that of the payee's address, if it is known.
func (s *server) requirements(currency, country string) []object {
	all := []object{}
	for form := range strings.SplitSeq(forms[currency], ";") {
		words := strings.Fields(form)
		if len(words) == 0 {
			continue
		}
		kind, words := words[0], words[1:]
		types := []object{{"key": "PRIVATE", "name": "Person"}, {"key": "BUSINESS", "name": "Business"}}
		if slices.Contains(words, "people") {
			types = types[:1]
		}
		if slices.Contains([]string{"USD", "AUD"}, s.currency) && !slices.Contains(words, "address") {
			words = append(words, "address")
		}
		sections := []object{}
		add := func(f object) {
			empty := object{"type": "text", "required": true, "refreshRequirementsOnChange": false, "minLength": nil,
				"maxLength": nil, "validationRegexp": nil, "validationAsync": nil, "valuesAllowed": nil}
			for name, value := range empty {
				if _, set := f[name]; !set {
					f[name] = value
				}
			}
			sections = append(sections, object{"name": f["key"], "group": []object{f}})
		}
		add(object{"key": "email", "required": false})
		add(object{"key": "accountHolderName", "minLength": 2, "maxLength": 140,
			"validationRegexp": `^[0-9A-Za-zÀ-ÖØ-öø-ÿ-_()'*,. ]+$`})
		add(object{"key": "legalType", "type": "select", "valuesAllowed": types})
		for _, word := range words {
			word, optional := strings.CutSuffix(word, "?")
			key, pattern, _ := strings.Cut(word, "~")
			key, values, has := strings.Cut(key, "=")
			f := object{"key": key, "required": !optional}
			switch {
			case key == "people":
				continue
			case key == "address":
				add(object{"key": "address.country", "type": "select", "refreshRequirementsOnChange": true})
				for _, part := range []string{"city", "firstLine", "postCode"} {
					add(object{"key": "address." + part, "minLength": 1, "maxLength": 255, "validationRegexp": "^.{1,255}$"})
				}
				if country == "US" {
					add(object{"key": "address.state", "type": "select", "valuesAllowed": []object{
						{"key": "CO", "name": "Colorado"}, {"key": "NY", "name": "New York"}}})
				}
				continue
			case has:
				options := []object{{"key": "", "name": "Choose"}}
				for value := range strings.SplitSeq(values, ",") {
					options = append(options, option(value))
				}
				f["type"], f["valuesAllowed"] = "select", options
			case pattern != "":
				f["validationRegexp"] = "^" + pattern + "$"
			}
			add(f)
		}
		all = append(all, object{"type": kind, "title": kind, "usageInfo": nil, "fields": sections})
	}
	return all
}

// country returns the country in the address of a recipient.
func country(in object) string {
	details, _ := in["details"].(object)
	address, _ := details["address"].(object)
	code, _ := address["country"].(string)
	return code
}

// wrong returns the key of the first field of a recipient that does not fit its form, or "".
func (s *server) wrong(in object) string {
	currency, _ := in["currency"].(string)
	all := s.requirements(currency, country(in))
	i := slices.IndexFunc(all, func(r object) bool { return r["type"] == in["type"] })
	if i < 0 {
		return "type"
	}
	details, _ := in["details"].(object)
	for _, section := range all[i]["fields"].([]object) {
		f := section["group"].([]object)[0]
		key := f["key"].(string)
		value, _ := details[key].(string)
		if group, member, nested := strings.Cut(key, "."); nested {
			inner, _ := details[group].(object)
			value, _ = inner[member].(string)
		}
		if key == "accountHolderName" {
			value, _ = in[key].(string)
		}
		pattern, _ := f["validationRegexp"].(string)
		options, _ := f["valuesAllowed"].([]object)
		switch {
		case value == "" && f["required"] == true,
			value != "" && pattern != "" && !regexp.MustCompile(pattern).MatchString(value),
			value != "" && options != nil && !slices.ContainsFunc(options, func(o object) bool { return o["key"] == value }):
			return key
		}
	}
	return ""
}

// require writes the requirements for the recipient of a quote.
func (s *server) require(w http.ResponseWriter, r *http.Request, quote, in object) {
	if r.Header.Get("Accept-Minor-Version") != "1" {
		fail(w, http.StatusBadRequest, "old.version")
		return
	}
	s.asked++
	reply(w, s.requirements(fmt.Sprint(quote["targetCurrency"]), country(in)))
}
