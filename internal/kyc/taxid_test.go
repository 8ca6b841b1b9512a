package kyc

import (
	"bufio"
	"bytes"
	_ "embed"
	"errors"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/country"
)

// Numbers that authorities, standards and the libraries of others print as valid and as invalid.
//
//go:embed testdata/taxids.tsv
var published []byte

func TestPublishedTaxIDs(t *testing.T) {
	tried := map[string][2]int{} // good and bad ones of each type
	for lines := bufio.NewScanner(bytes.NewReader(published)); lines.Scan(); {
		part := strings.Split(lines.Text(), "\t")
		code, kind, _ := strings.Cut(part[0], ".")
		_, err := checkTaxID(code, kind, part[1], firmsOnly(code, kind))
		if (err == nil) != (part[2] == "good") {
			t.Errorf("%s %s is %s, but: %v", part[0], part[1], part[2], err)
		}
		if err != nil && (!errors.Is(err, ErrTaxID) || strings.Contains(err.Error(), part[1])) {
			t.Errorf("%s %s: %v", part[0], part[1], err)
		}
		n := tried[part[0]]
		if err == nil {
			n[0]++
		} else {
			n[1]++
		}
		tried[part[0]] = n
	}
	eachTaxID(func(code string, id country.TaxID) {
		name := code + "." + id.Type
		if n := tried[name]; id.Check != "" && n[1] == 0 && !oneDigitCounts(name) {
			t.Errorf("%s: no number is refused", name)
		}
	})
}

func eachTaxID(do func(code string, id country.TaxID)) {
	for _, code := range country.Codes() {
		for _, id := range country.Find(code).TaxIDs {
			do(code, id)
		}
	}
}

// oneDigitCounts says whether another last digit than the example's is refused nine times, as check digits do.
func oneDigitCounts(name string) bool {
	code, kind, _ := strings.Cut(name, ".")
	for _, row := range country.Find(code).TaxIDs {
		if row.Type != kind {
			continue
		}
		refused := 0
		for i := range 10 {
			other := row.Example[:len(row.Example)-1] + string(rune('0'+i))
			if _, err := checkTaxID(code, kind, other, row.Holder == "biz"); err != nil {
				refused++
			}
		}
		return refused >= 9
	}
	return false
}

func firmsOnly(code, kind string) bool {
	for _, row := range country.Find(code).TaxIDs {
		if row.Type == kind {
			return row.Holder == "biz"
		}
	}
	return false
}

// The example of every tax id is valid, and other text is not.
func TestEveryTaxIDOfTheTable(t *testing.T) {
	rows := 0
	eachTaxID(func(code string, row country.TaxID) {
		rows++
		if _, err := checkTaxID(code, row.Type, row.Example, row.Holder == "biz"); err != nil {
			t.Errorf("%s.%s: the example is refused: %v", code, row.Type, err)
		}
		for _, not := range []string{"", " ", "x", strings.Repeat("9", 64), row.Example + "0000000000000000000000000"} {
			if _, err := checkTaxID(code, row.Type, not, row.Holder == "biz"); !errors.Is(err, ErrTaxID) {
				t.Errorf("%s.%s takes %q", code, row.Type, not)
			}
		}
	})
	if rows != 160 {
		t.Errorf("%d tax ids", rows)
	}
}

// What people type is taken: small letters, spaces, points, slashes and hyphens. A hyphen that means something stays.
func TestTaxIDsAreNormalised(t *testing.T) {
	for _, c := range []struct{ code, kind, text, want string }{
		{"BR", "cpf", " 390.533.447-05 ", "39053344705"},
		{"US", "ssn", "536-90-4399", "536904399"},
		{"IE", "pps", "6433435f", "6433435F"},
		{"FI", "hetu", "131052-308t", "131052-308T"},
		{"CZ", "rc", "710319/2745", "7103192745"},
		{"PA", "cedula", "8-123-456", "8-123-456"},
	} {
		if got, err := checkTaxID(c.code, c.kind, c.text, false); err != nil || got != c.want {
			t.Errorf("%s.%s %q: %q, %v", c.code, c.kind, c.text, got, err)
		}
	}
}

// A person is not asked for a firm's number, nor a firm for a person's; where a country has only the one kind, it
// serves both.
func TestTaxIDsOfPeopleAndFirms(t *testing.T) {
	for _, c := range []struct {
		code, kind, text string
		firm             bool
		ok               bool
	}{
		{"US", "ein", "911144442", false, false},
		{"US", "ein", "911144442", true, true},
		{"US", "ssn", "536904399", true, false},
		{"KR", "brn", "1168648093", false, true},
		{"US", "cpf", "39053344705", false, false},
	} {
		if _, err := checkTaxID(c.code, c.kind, c.text, c.firm); (err == nil) != c.ok {
			t.Errorf("%s.%s, firm %v: %v", c.code, c.kind, c.firm, err)
		}
	}
	if _, err := checkTaxID("XX", "ssn", "536904399", false); !errors.Is(err, ErrCountry) {
		t.Errorf("an unknown country: %v", err)
	}
}
