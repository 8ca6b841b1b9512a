package kyc

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/stipend/stipend/internal/apierr"
)

// ErrCountry refuses a country whose documents nobody here can judge.
var ErrCountry = apierr.New(apierr.Invalid, "country_not_supported", "Documents of this country are not supported.")

// ErrTaxID refuses a tax id that does not have the form or the check digits of its type.
var ErrTaxID = apierr.New(apierr.Invalid, "tax_id_invalid", "This is not a tax id of the type in tax_id_type. Check it for a mistyped character.")

//go:embed countries.json
var countriesJSON []byte

// country is what identifies people and firms of one country.
type country struct {
	Code      string       `json:"country"`
	Name      string       `json:"name"`
	Documents []idDocument `json:"documents"`
	TaxIDs    []*taxIDType `json:"tax_ids"`
	Note      string       `json:"note"` // what a reader of the table should know
}

// idDocument is a kind of identity document that the country issues.
type idDocument struct {
	Type     string `json:"doc_type"`
	Backside bool   `json:"requires_backside"` // the back says something that the front does not
}

// taxIDType is one kind of number.
type taxIDType struct {
	Type    string `json:"type"`
	Holder  string `json:"holder"`  // ind: people, biz: firms, both
	Pattern string `json:"pattern"` // of the canonical form
	Check   string `json:"check"`   // the rule in words; taxid.go has it as code
	Example string `json:"example"`

	shape *regexp.Regexp
	check func(string) bool
}

// countries is the table, read once: country by code.
var countries = sync.OnceValue(func() map[string]*country {
	var rows []*country
	if err := json.Unmarshal(countriesJSON, &rows); err != nil {
		panic("kyc: countries.json: " + err.Error())
	}
	byCode := make(map[string]*country, len(rows))
	for _, c := range rows {
		byCode[c.Code] = c
		for _, t := range c.TaxIDs {
			check, ok := checks[c.Code+"."+t.Type]
			if !ok {
				panic(fmt.Sprintf("kyc: taxid.go does not know %s of %s", t.Type, c.Code))
			}
			t.shape, t.check = regexp.MustCompile(t.Pattern), check
		}
	}
	return byCode
})

// document is how the country knows a kind of identity document, nil when it does not.
func (c *country) document(docType string) *idDocument {
	if i := slices.IndexFunc(c.Documents, func(d idDocument) bool { return d.Type == docType }); i >= 0 {
		return &c.Documents[i]
	}
	return nil
}

// taxIDTypes are the names of the numbers that people, or firms, have. Where people have none, those of firms are all there
// is: a person in business of their own has one.
func (c *country) taxIDTypes(firm bool) []string {
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

// spelling are the marks with which people group digits.
var spelling = strings.NewReplacer(" ", "", ".", "", "/", "", "\u00a0", "")

// checkTaxID checks a tax id of a country and returns its canonical form: capitals, without the spaces, points, slashes and,
// where they mean nothing, hyphens with which it was written. An unknown country is ErrCountry; a type that the country does
// not have (for people or, with firm, for firms), a wrong form and a wrong check digit are ErrTaxID.
func checkTaxID(countryCode, kind, text string, firm bool) (string, error) {
	c := countries()[countryCode]
	if c == nil {
		return "", ErrCountry.At("body", "/issuing_country")
	}
	types := c.taxIDTypes(firm)
	if !slices.Contains(types, kind) {
		return "", ErrTaxID.Detailf("Tax ids of this country are of the type %s.", strings.Join(types, ", ")).At("body", "/tax_id_type")
	}
	i := slices.IndexFunc(c.TaxIDs, func(t *taxIDType) bool { return t.Type == kind })
	t := c.TaxIDs[i]
	kept := spelling.Replace(strings.ToUpper(strings.TrimSpace(text)))
	// Some numbers have a hyphen that means something, so it is taken away only where it does not fit; likewise the country,
	// which stands before the number in Europe's VAT ids.
	bare := strings.ReplaceAll(kept, "-", "")
	for _, form := range []string{kept, bare, strings.TrimPrefix(bare, countryCode)} {
		if t.shape.MatchString(form) {
			if t.check == nil || t.check(form) {
				return form, nil
			}
			break
		}
	}
	return "", ErrTaxID.Detailf("This is not a tax id of the type %s, such as %s.", t.Type, t.Example).At("body", "/tax_id")
}
