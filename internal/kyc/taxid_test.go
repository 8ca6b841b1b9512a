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

// published are valid and invalid numbers from authorities, standards and other libraries.
//
//go:embed testdata/taxids.tsv
var published []byte

func TestPublishedTaxIDs(t *testing.T) {
	tried := map[string][2]int{} // good and bad ones of each type
	for lines := bufio.NewScanner(bytes.NewReader(published)); lines.Scan(); {
		part := strings.Split(lines.Text(), "\t")
		code, kind, _ := strings.Cut(part[0], ".")
		_, err := checkTaxID(code, kind, part[1], forCompanies(code, kind))
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
			t.Errorf("%s: no published number is rejected", name)
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

// oneDigitCounts reports whether at least 9 of the 10 last digits make the example invalid, as with a check digit.
func oneDigitCounts(name string) bool {
	code, kind, _ := strings.Cut(name, ".")
	for _, row := range country.Find(code).TaxIDs {
		if row.Type != kind {
			continue
		}
		rejected := 0
		for i := range 10 {
			other := row.Example[:len(row.Example)-1] + string(rune('0'+i))
			if _, err := checkTaxID(code, kind, other, row.Holder == "biz"); err != nil {
				rejected++
			}
		}
		return rejected >= 9
	}
	return false
}

// forCompanies reports whether only companies have the kind of tax ID.
func forCompanies(code, kind string) bool {
	for _, row := range country.Find(code).TaxIDs {
		if row.Type == kind {
			return row.Holder == "biz"
		}
	}
	return false
}

func TestTheExampleOfEveryTaxIDIsValid(t *testing.T) {
	rows := 0
	eachTaxID(func(code string, row country.TaxID) {
		rows++
		if _, err := checkTaxID(code, row.Type, row.Example, row.Holder == "biz"); err != nil {
			t.Errorf("%s.%s: the example is rejected: %v", code, row.Type, err)
		}
		for _, bad := range []string{"", " ", "x", strings.Repeat("9", 64), row.Example + "0000000000000000000000000"} {
			if _, err := checkTaxID(code, row.Type, bad, row.Holder == "biz"); !errors.Is(err, ErrTaxID) {
				t.Errorf("%s.%s accepts %q", code, row.Type, bad)
			}
		}
	})
	if rows < 160 {
		t.Errorf("the registry has %d tax IDs, want at least 160", rows)
	}
}

// A hyphen that is part of the number remains.
func TestTaxIDsAreNormalized(t *testing.T) {
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

// If a country has tax IDs of only one kind, both people and companies use it.
func TestPeopleAndCompaniesHaveDifferentTaxIDs(t *testing.T) {
	for _, c := range []struct {
		code, kind, text string
		isCompany, ok    bool
	}{
		{"US", "ein", "911144442", false, false},
		{"US", "ein", "911144442", true, true},
		{"US", "ssn", "536904399", true, false},
		{"KR", "brn", "1168648093", false, true},
		{"US", "cpf", "39053344705", false, false},
	} {
		if _, err := checkTaxID(c.code, c.kind, c.text, c.isCompany); (err == nil) != c.ok {
			t.Errorf("%s.%s, company %v: %v", c.code, c.kind, c.isCompany, err)
		}
	}
	if _, err := checkTaxID("XX", "ssn", "536904399", false); !errors.Is(err, ErrCountry) {
		t.Errorf("an unknown country: %v", err)
	}
}
