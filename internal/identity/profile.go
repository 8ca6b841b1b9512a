package identity

import (
	"encoding/json"
	"fmt"
	"net/mail"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/stipend/stipend/internal/apierr"
)

// Profile contains a person's data. For users, the email address, names and country are searchable; Details are
// stored encrypted.
type Profile struct {
	Email     string `json:"-"`
	FirstName string `json:"-"`
	LastName  string `json:"-"`
	Country   string `json:"-"`
	Details
}

// Details are the personal data that are never searched.
type Details struct {
	PhoneNumber    string `json:"phone_number,omitempty"`
	PhoneCountry   string `json:"phone_country,omitempty"`
	DateOfBirth    string `json:"date_of_birth,omitempty"`
	StreetAddress  string `json:"street_address,omitempty"`
	StreetAddress2 string `json:"street_address_2,omitempty"`
	City           string `json:"city,omitempty"`
	State          string `json:"state,omitempty"`
	Zip            string `json:"zip,omitempty"`
}

// Seal encrypts the details for a table, column and row.
func (d Details) Seal(s *Sealer, at SealContext) (string, error) {
	text, err := json.Marshal(d)
	if err != nil {
		return "", err
	}
	return s.Seal(at, text)
}

// OpenDetails decrypts details that [Details.Seal] encrypted.
func OpenDetails(s *Sealer, at SealContext, sealed string) (d Details, err error) {
	text, err := s.Open(at, sealed)
	if err != nil {
		return Details{}, err
	}
	return d, json.Unmarshal(text, &d)
}

// Complete reports whether a profile has the data that payouts require: name, date of birth, country and address.
func (p Profile) Complete() bool {
	return p.FirstName != "" && p.LastName != "" && p.DateOfBirth != "" && p.Country != "" && p.StreetAddress != "" &&
		p.City != ""
}

// Check normalizes a profile and adds its problems. required lists the names of fields that must not be empty. A
// state and a postal code are required only in countries that have them.
func (p Profile) Check(problems *apierr.List, now time.Time, required ...string) Profile {
	must := map[string]bool{}
	for _, name := range required {
		must[name] = true
	}
	line := func(name, value string, most int) string {
		least := 0
		if must[name] {
			least = 1
		}
		return Line(problems, "/"+name, value, least, most)
	}
	q := Profile{
		Email:     Email(problems, "/email", p.Email, must["email"]),
		FirstName: line("first_name", p.FirstName, 100),
		LastName:  line("last_name", p.LastName, 100),
		Details: Details{
			DateOfBirth:    birthDate(problems, p.DateOfBirth, now, must["date_of_birth"]),
			StreetAddress:  line("street_address", p.StreetAddress, 200),
			StreetAddress2: line("street_address_2", p.StreetAddress2, 200),
			City:           line("city", p.City, 100),
		},
	}
	q.Country = Country(problems, "/country", p.Country, must["country"])
	q.State = State(problems, "/state", p.State, q.Country, must["state"])
	q.Zip = PostalCode(problems, "/zip", p.Zip, q.Country, must["zip"])
	q.PhoneCountry = Country(problems, "/phone_country", p.PhoneCountry, must["phone_country"])
	if p.PhoneCountry == "" || q.PhoneCountry != "" { // otherwise the invalid country was already reported
		q.PhoneNumber = phone(problems, p.PhoneNumber, q.PhoneCountry, must["phone_number"])
	}
	return q
}

// Line normalizes a line of text. It adds a problem if the text is too short, is too long, or contains control
// characters, which would get into mails and bank files.
func Line(problems *apierr.List, pointer, text string, least, most int) string {
	if !utf8.ValidString(text) || len(text) > 8*most+64 {
		problems.Add("invalid_parameter", pointer, fmt.Sprintf("The text must have at most %d characters.", most))
		return ""
	}
	text = strings.TrimSpace(norm.NFC.String(text))
	switch n := utf8.RuneCountInString(text); {
	case n < least && n == 0:
		problems.Add("missing_field", pointer, "This field is required.")
	case n < least || n > most:
		problems.Add("invalid_parameter", pointer, fmt.Sprintf("The text must have %d to %d characters.", least, most))
	case strings.ContainsFunc(text, Unprintable):
		problems.Add("invalid_parameter", pointer, "The text must be one line without control characters.")
	default:
		return text
	}
	return ""
}

// Unprintable reports whether a character is not permitted in a line of text: a line break, a direction control or an
// invisible character, except the joiner and non-joiner that some scripts require.
func Unprintable(r rune) bool {
	return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' ||
		unicode.Is(unicode.Cf, r) && r != '\u200c' && r != '\u200d'
}

// Email normalizes an email address, and adds a problem if it is invalid.
func Email(problems *apierr.List, pointer, text string, required bool) string {
	text = strings.TrimSpace(text)
	if text == "" {
		if required {
			problems.Add("missing_field", pointer, "This field is required.")
		}
		return ""
	}
	text = norm.NFC.String(text)
	a, err := mail.ParseAddress(text)
	// ParseAddress also accepts "Name <address>". It returns an address without a name unchanged.
	at := strings.LastIndexByte(text, '@')
	if err != nil || a.Address != text || a.Name != "" || len(text) > 254 || at > 64 ||
		strings.ContainsFunc(text, Unprintable) || !mailDomain.MatchString(text[at+1:]) {
		problems.Add("invalid_parameter", pointer, "The value must be an email address, for example ada@example.com.")
		return ""
	}
	return text[:at+1] + strings.ToLower(text[at+1:]) // the part before the @ may be case-sensitive
}

// mailDomain matches a public domain name in any script, with at least two labels.
var mailDomain = regexp.MustCompile(
	`^([\p{L}\p{N}]([\p{L}\p{M}\p{N}-]{0,61}[\p{L}\p{M}\p{N}])?\.)+[\p{L}][\p{L}\p{M}\p{N}-]{0,61}[\p{L}\p{M}\p{N}]$`)

// MinimumAge is the minimum age of a payee in years, from which most countries permit regular paid work. Banks and
// companies may require a higher age.
const MinimumAge = 16

func birthDate(problems *apierr.List, text string, now time.Time, required bool) string {
	text = strings.TrimSpace(text)
	if text == "" {
		if required {
			problems.Add("missing_field", "/date_of_birth", "This field is required.")
		}
		return ""
	}
	day, err := time.Parse(time.DateOnly, text)
	if err != nil || day.Year() < 1900 || day.After(now) {
		problems.Add("invalid_parameter", "/date_of_birth", "The value must be a past date as YYYY-MM-DD.")
		return ""
	}
	// For a person born on February 29, AddDate returns March 1 in years that are not leap years.
	if day.AddDate(MinimumAge, 0, 0).After(now) {
		problems.Add("invalid_parameter", "/date_of_birth", fmt.Sprintf("A payee must be at least %d years old.", MinimumAge))
		return ""
	}
	return text
}
