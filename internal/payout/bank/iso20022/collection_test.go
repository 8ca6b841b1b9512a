package iso20022

import (
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/testkit"
)

func collection() Collection {
	return Collection{
		ID: "D0000012", Created: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC), Due: day("2026-03-16"),
		Instrument: Core, Sequence: First, CreditorID: "DE98ZZZ09999999999",
		Creditor: Party{"Example Payments GmbH", "DE89370400440532013000", "COBADEFF"},
		Address:  Address{PostCode: "10115", Town: "Berlin", Country: "DE"},
		Debits: []Debit{{ID: "D0000012P00001", Amount: eur(1234_56), Mandate: "M-2026-1", Signed: day("2026-02-27"),
			Debtor: Party{"Example BV", "NL91ABNA0417164300", ""}, Remittance: "Payroll funding"}},
	}
}

// Collections of every instrument and sequence conform to the published schema of each version.
func TestCollectionsConformToTheSchema(t *testing.T) {
	for _, version := range []string{Collection02, Collection08} {
		t.Run(version, func(t *testing.T) {
			var all [][]byte
			for _, instrument := range []string{Core, B2B} {
				for _, sequence := range []string{First, Recurring, Final, OneOff} {
					c := collection()
					c.Version, c.Instrument, c.Sequence = version, instrument, sequence
					all = append(all, testkit.Must(c.Write()))
				}
			}
			c := collection()
			c.Version, c.Creditor.Bank, c.Debits[0].Debtor.Bank = version, "", "ABNANL2A"
			all = append(all, testkit.Must(c.Write()))
			c = collection() // of a bank outside of the European Economic Area
			c.Version, c.Debits[0].Debtor.Account = version, "GB29NWBK60161331926819"
			c.Debits[0].Address = Address{Street: "2 Main Street", PostCode: "EC1A 1BB", Town: "London", Country: "GB"}
			abroad, err := c.Write()
			if version == Collection02 { // which has no structured addresses
				if err == nil {
					t.Errorf("it was written:\n%s", abroad)
				}
			} else {
				if err != nil || !strings.Contains(string(abroad), "<TwnNm>London</TwnNm>") {
					t.Errorf("the debtor's address is missing: %v\n%s", err, abroad)
				}
				all = append(all, abroad)
			}
			conforms(t, version, all...)
			text := strings.Join(strings.Fields(string(all[0])), " ")
			for _, want := range []string{"<PmtMtd>DD</PmtMtd>", "<CtrlSum>1234.56</CtrlSum>", "<Cd>CORE</Cd>",
				"<SeqTp>FRST</SeqTp>", "<ReqdColltnDt>2026-03-16</ReqdColltnDt>", "<Id>DE98ZZZ09999999999</Id>",
				"<MndtId>M-2026-1</MndtId>", "<DtOfSgntr>2026-02-27</DtOfSgntr>", "<IBAN>NL91ABNA0417164300</IBAN>",
				"<Id>NOTPROVIDED</Id>", "<Prtry>SEPA</Prtry>"} {
				if !strings.Contains(text, want) {
					t.Errorf("the file lacks %s:\n%s", want, text)
				}
			}
			if got := strings.Contains(text, "<TwnNm>Berlin</TwnNm>"); got != (version == Collection08) {
				t.Errorf("the address of the creditor: %v", got)
			}
		})
	}
}

func TestCollectionsThatNoBankAcceptsAreNotWritten(t *testing.T) {
	for name, change := range map[string]func(*Collection){
		"no debits":              func(c *Collection) { c.Debits = nil },
		"unknown version":        func(c *Collection) { c.Version = "pain.008.001.01" },
		"unknown instrument":     func(c *Collection) { c.Instrument = "COR1" },
		"unknown sequence":       func(c *Collection) { c.Sequence = "" },
		"no creditor identifier": func(c *Collection) { c.CreditorID = "DE99ZZZ09999999999" },
		"no town":                func(c *Collection) { c.Address.Town = "" },
		"another currency":       func(c *Collection) { c.Debits[0].Amount = money.New(money.USD, 1) },
		"no amount":              func(c *Collection) { c.Debits[0].Amount = eur(0) },
		"no address abroad":      func(c *Collection) { c.Debits[0].Debtor.Account = "GB29NWBK60161331926819" },
		"no town abroad": func(c *Collection) {
			c.Debits[0].Debtor.Account, c.Debits[0].Address = "GB29NWBK60161331926819", Address{Country: "GB"}
		},
		"no IBAN":                func(c *Collection) { c.Debits[0].Debtor.Account = "12345678" },
		"BIC of another country": func(c *Collection) { c.Debits[0].Debtor.Bank = "COBADEFF" },
		"no mandate":             func(c *Collection) { c.Debits[0].Mandate = "" },
		"mandate too long":       func(c *Collection) { c.Debits[0].Mandate = strings.Repeat("M", 36) },
		"no date of signature":   func(c *Collection) { c.Debits[0].Signed = time.Time{} },
		"a foreign character":    func(c *Collection) { c.Debits[0].Debtor.Name = "Пример" },
		"no creditor":            func(c *Collection) { c.Creditor.Name = "" },
		"no due date":            func(c *Collection) { c.Due = time.Time{} },
		"no creation time":       func(c *Collection) { c.Created = time.Time{} },
		"creditor without IBAN":  func(c *Collection) { c.Creditor.Account = "12345678" },
		"creditor with half BIC": func(c *Collection) { c.Creditor.Bank = "COBADE" },
		"no country":             func(c *Collection) { c.Address.Country = "" },
		"too long an ID":         func(c *Collection) { c.ID = strings.Repeat("D", 36) },
		"no ID of a debit":       func(c *Collection) { c.Debits[0].ID = "" },
		"too much":               func(c *Collection) { c.Debits[0].Amount = eur(1_000_000_000_00) },
		"no debtor":              func(c *Collection) { c.Debits[0].Debtor.Name = "" },
		"half a BIC":             func(c *Collection) { c.Debits[0].Debtor.Bank = "ABNANL" },
		"an umlaut in the text":  func(c *Collection) { c.Debits[0].Remittance = "Löhne" },
		"two with one ID":        func(c *Collection) { c.Debits = append(c.Debits, c.Debits[0]) },
	} {
		t.Run(name, func(t *testing.T) {
			c := collection()
			change(&c)
			if b, err := c.Write(); err == nil {
				t.Errorf("it was written:\n%s", b)
			}
		})
	}
}

func TestBICs(t *testing.T) {
	for bic, want := range map[string]bool{"COBADEFF": true, "COBADEFFXXX": true, "COBADEFF123": true, "NDEAFIHH": true,
		"": false, "COBADEF": false, "COBADEFF1": false, "COBADEFF12": false, "COBADEFF1234": false, "cobadeff": false,
		"COBA1EFF": false, "COBAD2FF": false, "1OBADEFF": false, "COBADE-F": false, "COBADEFF ": false, "COBADEÄF": false} {
		if IsBIC(bic) != want {
			t.Errorf("%q is a BIC: %v", bic, IsBIC(bic))
		}
	}
	for _, c := range []struct {
		bic, iban string
		want      bool
	}{{"COBADEFF", "DE89370400440532013000", true}, {"COBADEFF", "NL91ABNA0417164300", false},
		{"MIDLJESH", "GB29NWBK60161331926819", true}, {"BNPARERX", "FR1420041010050500013M02606", true},
		{"NWBKGB2L", "JE29NWBK60161331926819", false}} {
		if got := SameCountry(c.bic, c.iban); got != c.want {
			t.Errorf("%s and %s are of one country: %v", c.bic, c.iban, got)
		}
	}
}

func TestCreditorIdentifiers(t *testing.T) {
	for _, ok := range []string{"DE98ZZZ09999999999", "NL79ZZZ999999990000", "FR72ZZZ123456", "DE98ABC09999999999"} {
		if !IsCreditorID(ok) {
			t.Errorf("%s is valid", ok)
		}
	}
	for _, bad := range []string{"", "DE98", "DE97ZZZ09999999999", "DE98ZZZ0999999999-", "de98ZZZ09999999999"} {
		if IsCreditorID(bad) {
			t.Errorf("%q is not valid", bad)
		}
	}
}
