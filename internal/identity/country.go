package identity

import (
	"strings"

	"github.com/nyaruka/phonenumbers"

	"github.com/stipend/stipend/internal/apierr"
)

// countries of ISO 3166-1, and Kosovo under the code everyone uses for it.
const countries = " AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS XK YE YT ZA ZM ZW "

// IsCountry reports whether a code is an ISO 3166-1 alpha-2 code.
func IsCountry(code string) bool {
	return len(code) == 2 && code[0] != ' ' && code[1] != ' ' && strings.Contains(countries, " "+code+" ")
}

// Countries returns all country codes in order.
func Countries() []string { return strings.Fields(countries) }

// Country normalizes a country code and records a problem if it is invalid.
func Country(problems *apierr.List, pointer, code string, required bool) string {
	code = strings.ToUpper(strings.TrimSpace(code))
	switch {
	case code == "":
		if required {
			problems.Add("missing_field", pointer, "This field is required.")
		}
	case !IsCountry(code):
		problems.Add("invalid_parameter", pointer, "The value must be a two-letter country code, for example DE.")
	default:
		return code
	}
	return ""
}

// phone normalizes a number to its international form. Only a national number requires the country.
func phone(problems *apierr.List, text, country string, required bool) string {
	text = strings.TrimSpace(text)
	if text == "" {
		if required {
			problems.Add("missing_field", "/phone_number", "This field is required.")
		}
		return ""
	}
	if len(text) <= 40 && !strings.ContainsFunc(text, Unprintable) {
		number, err := phonenumbers.Parse(text, country)
		if err == nil && phonenumbers.IsValidNumber(number) {
			// Several countries share a calling code, so the codes are compared and not the countries.
			if country != "" && phonenumbers.GetCountryCodeForRegion(country) != int(number.GetCountryCode()) {
				problems.Add("invalid_parameter", "/phone_country", "phone_number belongs to another country. Correct one of them.")
				return ""
			}
			return phonenumbers.Format(number, phonenumbers.E164)
		}
	}
	problems.Add("invalid_parameter", "/phone_number", "The value must be a phone number: international, for example +14155552671, or national together with phone_country.")
	return ""
}
