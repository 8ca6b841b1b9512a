package travelrule

import "strings"

// IVMS101 is a record in the interVASP data model (IVMS101), with the names and codes of its JSON form. A self-hosted
// wallet has no BeneficiaryVASP.
type IVMS101 struct {
	Originator      *Originator      `json:"originator"`
	Beneficiary     *Beneficiary     `json:"beneficiary"`
	OriginatingVASP *OriginatingVASP `json:"originatingVASP"`
	BeneficiaryVASP *BeneficiaryVASP `json:"beneficiaryVASP,omitempty"`
}

type (
	// Originator is who sends the payout.
	Originator struct {
		Persons       []Person `json:"originatorPersons"`
		AccountNumber []string `json:"accountNumber"`
	}

	// Beneficiary is who receives it.
	Beneficiary struct {
		Persons       []Person `json:"beneficiaryPersons"`
		AccountNumber []string `json:"accountNumber"`
	}

	// OriginatingVASP is the operator, who sends it for the originator.
	OriginatingVASP struct {
		VASP Person `json:"originatingVASP"`
	}

	// BeneficiaryVASP is the provider that hosts the wallet of the beneficiary.
	BeneficiaryVASP struct {
		VASP Person `json:"beneficiaryVASP"`
	}

	// Person has one of its members.
	Person struct {
		NaturalPerson *NaturalPerson `json:"naturalPerson,omitempty"`
		LegalPerson   *LegalPerson   `json:"legalPerson,omitempty"`
	}

	// NaturalPerson is a human being.
	NaturalPerson struct {
		Name               NaturalPersonName `json:"name"`
		GeographicAddress  []Address         `json:"geographicAddress,omitempty"`
		CountryOfResidence string            `json:"countryOfResidence,omitempty"`
	}

	// NaturalPersonName has the names of a natural person.
	NaturalPersonName struct {
		NameIdentifier []NaturalPersonNameID `json:"nameIdentifier"`
	}

	// NaturalPersonNameID is one name of a natural person.
	NaturalPersonNameID struct {
		PrimaryIdentifier   string `json:"primaryIdentifier"` // family name, or the full name
		SecondaryIdentifier string `json:"secondaryIdentifier,omitempty"`
		NameIdentifierType  string `json:"nameIdentifierType"`
	}

	// LegalPerson is a company or another organization.
	LegalPerson struct {
		Name                   LegalPersonName         `json:"name"`
		GeographicAddress      []Address               `json:"geographicAddress,omitempty"`
		NationalIdentification *NationalIdentification `json:"nationalIdentification,omitempty"`
		CountryOfRegistration  string                  `json:"countryOfRegistration,omitempty"`
	}

	// LegalPersonName has the names of a legal person.
	LegalPersonName struct {
		NameIdentifier []LegalPersonNameID `json:"nameIdentifier"`
	}

	// LegalPersonNameID is one name of a legal person.
	LegalPersonNameID struct {
		LegalPersonName               string `json:"legalPersonName"`
		LegalPersonNameIdentifierType string `json:"legalPersonNameIdentifierType"`
	}

	// Address is a postal address.
	Address struct {
		AddressType        string   `json:"addressType"`
		AddressLine        []string `json:"addressLine"`
		PostCode           string   `json:"postCode,omitempty"`
		TownName           string   `json:"townName"`
		CountrySubDivision string   `json:"countrySubDivision,omitempty"`
		Country            string   `json:"country"`
	}

	// NationalIdentification is a number that an authority or register gave to a legal person.
	NationalIdentification struct {
		NationalIdentifier     string `json:"nationalIdentifier"`
		NationalIdentifierType string `json:"nationalIdentifierType"`
		RegistrationAuthority  string `json:"registrationAuthority,omitempty"`
	}
)

// Codes of the standard.
const (
	legalName       = "LEGL"
	homeAddress     = "HOME"
	businessAddress = "BIZZ"
	typeLEI         = "LEIX"
	typeRegister    = "RAID"
)

// Longest texts of the standard, in characters.
const (
	maxName     = 100
	maxLine     = 70
	maxLines    = 7
	maxTown     = 35
	maxPostCode = 16
	maxArea     = 35
)

// person returns a payer or a payee as the standard describes them.
func (p *party) person() Person {
	if p.legal {
		l := legalPerson(p.name, p.lei, p.country)
		l.GeographicAddress = p.address(businessAddress)
		return Person{LegalPerson: l}
	}
	name := NaturalPersonNameID{cut(p.last, maxName), cut(p.first, maxName), legalName}
	if p.last == "" {
		name.PrimaryIdentifier, name.SecondaryIdentifier = cut(p.name, maxName), ""
	}
	return Person{NaturalPerson: &NaturalPerson{Name: NaturalPersonName{[]NaturalPersonNameID{name}},
		GeographicAddress: p.address(homeAddress), CountryOfResidence: p.country}}
}

// address returns the postal address, or nil if it is not known.
func (p *party) address(kind string) []Address {
	if !p.addressed() {
		return nil
	}
	return []Address{{kind, lines(p.street, p.street2), cut(p.postCode, maxPostCode), cut(p.town, maxTown),
		cut(p.area, maxArea), p.country}}
}

// person returns a provider as the standard describes it.
func (v VASP) person() Person {
	l := legalPerson(v.Name, v.LEI, v.Country)
	if register, number, ok := strings.Cut(v.Registration, "/"); ok {
		l.NationalIdentification = &NationalIdentification{number, typeRegister, register}
	}
	p := party{street: v.Street, town: v.City, postCode: v.PostCode, country: v.Country}
	l.GeographicAddress = p.address(businessAddress)
	return Person{LegalPerson: l}
}

func legalPerson(name, lei, in string) *LegalPerson {
	l := &LegalPerson{Name: LegalPersonName{[]LegalPersonNameID{{cut(name, maxName), legalName}}},
		CountryOfRegistration: in}
	if lei != "" {
		l.NationalIdentification = &NationalIdentification{lei, typeLEI, ""}
	}
	return l
}

// cut returns at most n characters of a text.
func cut(text string, n int) string {
	if r := []rune(text); len(r) > n {
		return strings.TrimSpace(string(r[:n]))
	}
	return text
}

// lines divides an address into lines that the standard allows, between words if possible.
func lines(texts ...string) (all []string) {
	for _, text := range texts {
		line := ""
		for _, word := range strings.Fields(text) {
			for r := []rune(word); len(r) > maxLine; r = []rune(word) {
				if line != "" {
					all, line = append(all, line), ""
				}
				all, word = append(all, string(r[:maxLine])), string(r[maxLine:])
			}
			if line != "" && len([]rune(line))+1+len([]rune(word)) > maxLine {
				all, line = append(all, line), ""
			}
			line = strings.TrimSpace(line + " " + word)
		}
		if line != "" {
			all = append(all, line)
		}
	}
	return all[:min(len(all), maxLines)]
}
