package kyc

import (
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/country"
)

// ErrCountry is returned for a country for which package country lists no identity documents.
var ErrCountry = apierr.New(apierr.Invalid, "country_not_supported",
	"Documents of this country are not supported. Contact support.")

// ErrTaxID is returned for a tax ID with a wrong format or wrong check digits.
var ErrTaxID = apierr.New(apierr.Invalid, "tax_id_invalid",
	"The tax ID is not valid for its tax_id_type. Check it for a mistyped character.")

// supported returns a country if package country lists identity documents for it, or nil.
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

// taxIDTypes returns the types of tax IDs that people or companies have in a country. If the country has only types
// of the other kind, it returns those, because a self-employed person may have a business number.
func taxIDTypes(c *country.Country, isCompany bool) []string {
	other := "biz"
	if isCompany {
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

// separators removes the characters with which people group digits.
var separators = strings.NewReplacer(" ", "", ".", "", "/", "", "\u00a0", "")

// checkTaxID checks a tax ID of a person, or of a company if isCompany is true. It returns the canonical form: upper
// case, without spaces, points, slashes, and hyphens that are not part of the number. It returns ErrCountry for an
// unsupported country, and ErrTaxID for a type that the country does not have, an invalid format, or wrong check
// digits.
func checkTaxID(countryCode, kind, text string, isCompany bool) (string, error) {
	c := supported(countryCode)
	if c == nil {
		return "", ErrCountry.At("body", "/issuing_country")
	}
	types := taxIDTypes(c, isCompany)
	if !slices.Contains(types, kind) {
		return "", ErrTaxID.Detailf("The tax_id_type of this country must be one of %s.", strings.Join(types, ", ")).
			At("body", "/tax_id_type")
	}
	i := slices.IndexFunc(c.TaxIDs, func(t country.TaxID) bool { return t.Type == kind })
	t := c.TaxIDs[i]
	compact := separators.Replace(strings.ToUpper(strings.TrimSpace(text)))
	// A hyphen, or the country code of a European VAT ID, can be part of a number. They are removed only if the number
	// does not match with them.
	noHyphens := strings.ReplaceAll(compact, "-", "")
	for _, form := range []string{compact, noHyphens, strings.TrimPrefix(noHyphens, countryCode)} {
		if t.Pattern.MatchString(form) {
			if t.Valid(form) {
				return form, nil
			}
			break
		}
	}
	return "", ErrTaxID.Detailf("This is not a tax ID of the type %s, for example %s.", t.Type, t.Example).
		At("body", "/tax_id")
}
