package identity

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/country"
)

// states maps, for each country, the folded codes and names of its states to the codes.
var states = sync.OnceValue(func() map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, c := range country.Codes() {
		all[c] = map[string]string{}
		for _, entry := range country.Find(c).States {
			codes, name, _ := strings.Cut(entry, " ")
			code, _, _ := strings.Cut(codes, "/")
			for spelling := range strings.SplitSeq(codes, "/") {
				all[c][fold(spelling)] = code
				all[c][fold(c+"-"+spelling)] = code
			}
			all[c][fold(name)] = code
		}
	}
	return all
})

// fold converts text to lower case and removes accents, spaces and punctuation.
func fold(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, norm.NFD.String(text))
}

// State returns the code of a state or province, given its code or name. It adds a problem if the country has no such
// state. If package country lists no states for the country, State returns the text unchanged.
func State(problems *apierr.List, pointer, text, countryCode string, required bool) string {
	known := country.Find(countryCode)
	listed := known != nil && len(known.States) > 0
	least := 0
	if required && listed {
		least = 1
	}
	text = Line(problems, pointer, text, least, 100)
	if text == "" || !listed {
		return text
	}
	code, ok := states()[countryCode][fold(text)]
	if !ok {
		problems.Add("invalid_parameter", pointer, "The value must be a state or province of the country, as code or name.")
	}
	return code
}

var anyPostalCode = regexp.MustCompile(`^[A-Z0-9](?:[A-Z0-9 \-]{0,10}[A-Z0-9])?$`)

// PostalCode returns a postal code in the format of its country. It adds a problem if the code does not have that
// format, or is required but missing. It is never required in a country without postal codes.
func PostalCode(problems *apierr.List, pointer, text, countryCode string, required bool) string {
	known := country.Find(countryCode)
	least := 0
	if required && (known == nil || !known.NoPostalCode) {
		least = 1
	}
	text = strings.ToUpper(strings.Join(strings.Fields(Line(problems, pointer, text, least, 20)), " "))
	if text == "" {
		return ""
	}
	if known == nil || known.PostalCode == nil {
		if !anyPostalCode.MatchString(text) {
			problems.Add("invalid_parameter", pointer, "A postal code may contain letters, digits, spaces and hyphens.")
			return ""
		}
		return text
	}
	form := known.PostalCode
	text = strings.NewReplacer(" ", "", "-", "").Replace(text)
	if !form.Form.MatchString(text) {
		problems.Add("invalid_parameter", pointer, fmt.Sprintf("The value is not a valid postal code of %s.", countryCode))
		return ""
	}
	at := form.GapAt
	if at < 0 {
		at += len(text)
	}
	if at <= 0 || at >= len(text) {
		return text
	}
	return text[:at] + form.Gap + text[at:]
}
