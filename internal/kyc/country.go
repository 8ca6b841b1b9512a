package kyc

import (
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/country"
)

// ErrCountry refuses documents of a country that the registry has none of.
var ErrCountry = apierr.New(apierr.Invalid, "country_not_supported", "Documents of this country are not supported.")

// ErrTaxID refuses a tax id without the form or the check digits of its type.
var ErrTaxID = apierr.New(apierr.Invalid, "tax_id_invalid",
	"This is not a tax id of the type in tax_id_type. Check it for a mistyped character.")

// supported returns a country of whose people and companies we check documents, or nil.
func supported(code string) *country.Country {
	if c := country.Find(code); c != nil && len(c.Documents) > 0 {
		return c
	}
	return nil
}

// document returns a kind of identity document of a country, or nil if the country does not issue it.
func document(c *country.Country, docType string) *country.Document {
	if i := slices.IndexFunc(c.Documents, func(d country.Document) bool { return d.Type == docType }); i >= 0 {
		return &c.Documents[i]
	}
	return nil
}

// taxIDTypes returns the types of tax ids that people, or companies, have. Where a country has one kind only, it serves
// both: a self-employed person has one of a business.
func taxIDTypes(c *country.Country, firm bool) []string {
	other := "biz"
	if firm {
		other = "ind"
	}
	var all, own []string
	for _, t := range c.TaxIDs {
		all = append(all, t.Type)
		if t.Holder != other {
			own = append(own, t.Type)
		}
	}
	if len(own) == 0 {
		return all
	}
	return own
}

// spelling removes the marks with which people group digits.
var spelling = strings.NewReplacer(" ", "", ".", "", "/", "", "\u00a0", "")

// checkTaxID checks a tax id of a person, or of a company if firm is set. It returns the canonical form: capitals
// without spaces, points, slashes, and hyphens that have no meaning. It returns ErrCountry for an unsupported country,
// and ErrTaxID for a type that the country does not have, a wrong form or a wrong check digit.
func checkTaxID(countryCode, kind, text string, firm bool) (string, error) {
	c := supported(countryCode)
	if c == nil {
		return "", ErrCountry.At("body", "/issuing_country")
	}
	types := taxIDTypes(c, firm)
	if !slices.Contains(types, kind) {
		return "", ErrTaxID.Detailf("Tax ids of this country are of the type %s.", strings.Join(types, ", ")).At("body",
			"/tax_id_type")
	}
	i := slices.IndexFunc(c.TaxIDs, func(t country.TaxID) bool { return t.Type == kind })
	t := c.TaxIDs[i]
	kept := spelling.Replace(strings.ToUpper(strings.TrimSpace(text)))
	// Some numbers have a hyphen that means something, so it is taken away only where it does not fit; likewise the
	// country, which stands before the number in Europe's VAT ids.
	bare := strings.ReplaceAll(kept, "-", "")
	for _, form := range []string{kept, bare, strings.TrimPrefix(bare, countryCode)} {
		if t.Pattern.MatchString(form) {
			if t.Valid(form) {
				return form, nil
			}
			break
		}
	}
	return "", ErrTaxID.Detailf("This is not a tax id of the type %s, such as %s.", t.Type, t.Example).At("body",
		"/tax_id")
}
