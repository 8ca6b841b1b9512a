package kyc

import (
	"testing"

	"github.com/stipend/stipend/internal/country"
)

// No text makes a rule read past the end of a number: the pattern comes first.
func FuzzTaxID(f *testing.F) {
	eachTaxID(func(code string, id country.TaxID) { f.Add(code, id.Type, id.Example) })
	f.Fuzz(func(t *testing.T, code, kind, text string) {
		for _, firm := range []bool{false, true} {
			form, err := checkTaxID(code, kind, text, firm)
			if err != nil {
				continue
			}
			if again, err := checkTaxID(code, kind, form, firm); err != nil || again != form {
				t.Errorf("%s.%s: the canonical form %q of %q reads as %q, %v", code, kind, form, text, again, err)
			}
		}
	})
}
