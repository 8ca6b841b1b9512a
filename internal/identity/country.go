package identity

import (
	"strings"

	"github.com/nyaruka/phonenumbers"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/country"
)

// CountryProblem is the message for a text that is not a country code.
const CountryProblem = "The value must be a country code of two letters (ISO 3166-1), for example DE."

// Country returns a country code in capitals. It adds a problem at the pointer if the code is not that of a country.
func Country(problems *apierr.List, pointer, code string, required bool) string {
	code = strings.ToUpper(strings.TrimSpace(code))
	switch {
	case code == "":
		if required {
			problems.Add("missing_field", pointer, "This field is required.")
		}
	case !country.Exists(code):
		problems.Add("invalid_parameter", pointer, CountryProblem)
	default:
		return code
	}
	return ""
}

// phone returns a phone number in international form. The country is needed only for a number in national form.
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
			// Several countries share a calling code, so the calling codes are compared instead of the countries.
			if country != "" && phonenumbers.GetCountryCodeForRegion(country) != int(number.GetCountryCode()) {
				problems.Add("invalid_parameter", "/phone_country", "phone_number belongs to another country. Correct one of them.")
				return ""
			}
			return phonenumbers.Format(number, phonenumbers.E164)
		}
	}
	problems.Add("invalid_parameter", "/phone_number",
		"The value must be a phone number: international, for example +14155552671, or national together with phone_country.")
	return ""
}
