package kyc

import (
	"testing"

	"github.com/stipend/stipend/internal/country"
)

// No text makes a check-digit algorithm panic, and the canonical form of a number is valid itself.
func FuzzTaxID(f *testing.F) {
	eachTaxID(func(code string, id country.TaxID) { f.Add(code, id.Type, id.Example) })
	f.Fuzz(func(t *testing.T, code, kind, text string) {
		for _, isCompany := range []bool{false, true} {
			form, err := checkTaxID(code, kind, text, isCompany)
			if err != nil {
				continue
			}
			if again, err := checkTaxID(code, kind, form, isCompany); err != nil || again != form {
				t.Errorf("%s.%s: the canonical form %q of %q reads as %q, %v", code, kind, form, text, again, err)
			}
		}
	})
}
