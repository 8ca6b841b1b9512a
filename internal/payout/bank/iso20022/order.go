package iso20022

import (
	"encoding/xml"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/money"
)

// Versions of pain.001 that are written.
const (
	Order09 = "pain.001.001.09"
	Order11 = "pain.001.001.11"
)

// Scheme is the payment scheme of an order.
type Scheme int

// Payment schemes.
const (
	CreditTransfer Scheme = iota // any currency, charges are shared
	SEPA                         // SEPA Credit Transfer (SCT)
	SEPAInstant                  // SEPA Instant Credit Transfer (SCT Inst)
)

// Order is a file of credit transfers from one account, in one currency and on one day.
type Order struct {
	Version   string // Order09 or Order11; "" means Order09
	ID        string // message ID, also the ID of its one payment group
	Created   time.Time
	Execute   time.Time // execution date
	Scheme    Scheme
	Category  string // category purpose of all transfers: an ISO code such as SALA, or ""
	Initiator string // name of the sender of the file
	Debtor    Party  // account holder; Bank is a BIC, or "" if the bank does not require it
	Address   Address
	// Instruction is a text for the debtor's bank, or "".
	Instruction string
	Transfers   []Transfer
}

// Transfer is one payment of an order.
type Transfer struct {
	ID              string // end-to-end and instruction ID
	Amount          money.Amount
	UltimateDebtor  string // name of the party on whose behalf the debtor pays, or ""
	UltimateLEI     string // legal entity identifier of the ultimate debtor, or ""
	UltimateAddress Address
	Creditor        Party
	Number          string // scheme of an account number that is not an IBAN, such as "BBAN" or "CLABE"; "" if unspecified
	Proxy           bool   // Creditor.Account is an alias, such as an email address, of the type Number
	Kind            string // account type: an ISO code (CACC, SVGS) or a national term; "" if unspecified
	Clearing        Member // national code of the creditor's bank, in addition to or instead of Creditor.Bank
	BankName        string
	Address         Address
	TaxID           string // tax ID or another identification of the creditor
	IDKind          string // scheme of TaxID; "" if unspecified
	Email           string
	Phone           string
	Company         bool   // the creditor is a company
	Purpose         string // ISO purpose code such as SALA, or ""
	LocalPurpose    string // purpose code of the creditor's country, used instead of Purpose
	Remittance      string
}

// Member identifies a bank by its code in a clearing system. The system has an ISO code, such as GBDSC, or a
// proprietary name.
type Member struct {
	System string
	Listed bool // System is an ISO code
	Code   string
}

// Address is a postal address: structured or, if Line is set, hybrid. Banks refuse an address without Town or
// Country.
type Address struct {
	Street, Line, PostCode, Town, State, Country string
}

// known reports whether any part of the address is known.
func (a Address) known() bool { return a != Address{} }

// check returns an error for an address that banks refuse.
func (a Address) check(of string) error {
	if a.known() && (a.Town == "" || len(a.Country) != 2 || !letters(a.Country)) {
		return fmt.Errorf("iso20022: the address of %s must have a town and a country code", of)
	}
	return nil
}

func (a Address) toXML() *orderAddress {
	if !a.known() {
		return nil
	}
	return &orderAddress{Street: truncate(a.Street, 70), PostCode: truncate(a.PostCode, 16), Town: truncate(a.Town, 35),
		State: truncate(a.State, 35), Country: a.Country, Line: truncate(a.Line, 70)}
}

type (
	orderTotals struct {
		Count int    `xml:"NbOfTxs"`
		Sum   string `xml:"CtrlSum"`
	}
	orderParty struct {
		Name    string        `xml:"Nm"`
		Address *orderAddress `xml:"PstlAdr"`
		LEI     *string       `xml:"Id>OrgId>LEI"`
		Org     *orderID      `xml:"Id>OrgId>Othr"`
		Person  *orderID      `xml:"Id>PrvtId>Othr"`
		Contact *orderContact `xml:"CtctDtls"`
	}
	orderID struct {
		ID   string  `xml:"Id"`
		Kind *string `xml:"SchmeNm>Prtry"`
	}
	orderContact struct {
		Email string      `xml:"EmailAdr,omitempty"`
		Phone *orderPhone `xml:"Othr"`
	}
	orderPhone struct {
		Channel string `xml:"ChanlTp"`
		Number  string `xml:"Id"`
	}
	orderAddress struct {
		Street   string `xml:"StrtNm,omitempty"`
		PostCode string `xml:"PstCd,omitempty"`
		Town     string `xml:"TwnNm,omitempty"`
		State    string `xml:"CtrySubDvsn,omitempty"`
		Country  string `xml:"Ctry,omitempty"`
		Line     string `xml:"AdrLine,omitempty"`
	}
	orderAccount struct {
		IBAN            *string `xml:"Id>IBAN"`
		Other           *string `xml:"Id>Othr>Id"`
		Scheme          *string `xml:"Id>Othr>SchmeNm>Prtry"`
		Kind            *string `xml:"Tp>Cd"`
		ProprietaryKind *string `xml:"Tp>Prtry"`
		Currency        string  `xml:"Ccy,omitempty"`
		ProxyKind       *string `xml:"Prxy>Tp>Prtry"`
		Proxy           *string `xml:"Prxy>Id"`
	}
	orderBank struct {
		BIC         *string `xml:"FinInstnId>BICFI"`
		System      *string `xml:"FinInstnId>ClrSysMmbId>ClrSysId>Cd"`
		Proprietary *string `xml:"FinInstnId>ClrSysMmbId>ClrSysId>Prtry"`
		Member      *string `xml:"FinInstnId>ClrSysMmbId>MmbId"`
		Name        *string `xml:"FinInstnId>Nm"`
		None        *string `xml:"FinInstnId>Othr>Id"`
	}
	orderTransfer struct {
		Instruction string       `xml:"PmtId>InstrId"`
		EndToEnd    string       `xml:"PmtId>EndToEndId"`
		Amount      Amount       `xml:"Amt>InstdAmt"`
		Ultimate    *orderParty  `xml:"UltmtDbtr"`
		Bank        *orderBank   `xml:"CdtrAgt"`
		Creditor    orderParty   `xml:"Cdtr"`
		Account     orderAccount `xml:"CdtrAcct"`
		Purpose     *code        `xml:"Purp"`
		Remittance  *string      `xml:"RmtInf>Ustrd"`
	}
)

// notProvided is written instead of a required number or code that is unknown.
const notProvided = "NOTPROVIDED"

// Limits of SEPA: the length of names, and the largest amount in cents.
const (
	sepaName  = 70
	sepaCents = 999_999_999_99
)

// Write returns the encoded file. It returns an error for an order that no bank accepts: without payments, with
// duplicate IDs, with several currencies, or against the rules of its scheme.
func (o Order) Write() ([]byte, error) {
	if len(o.Transfers) == 0 || o.Created.IsZero() || o.Execute.IsZero() || o.Debtor.Account == "" ||
		o.Debtor.Name == "" {
		return nil, errors.New(
			"iso20022: an order must have payments, a name, an account, a creation time and an execution date")
	}
	if o.Version == "" {
		o.Version = Order09
	}
	if o.Version != Order09 && o.Version != Order11 {
		return nil, fmt.Errorf("iso20022: the version %q of an order is not supported", o.Version)
	}
	if !o.Address.known() {
		return nil, errors.New("iso20022: the address of the debtor is missing")
	}
	if err := errors.Join(checkIDs(o.ID), o.Address.check("the debtor")); err != nil {
		return nil, err
	}
	asset := o.Transfers[0].Amount.Asset()
	sum, seen := money.Zero(asset), map[string]bool{}
	transfers := make([]orderTransfer, len(o.Transfers))
	for i, t := range o.Transfers {
		if err := t.check(o.Scheme); err != nil {
			return nil, err
		}
		if seen[t.ID] {
			return nil, fmt.Errorf("iso20022: two payments have the ID %s", t.ID)
		}
		seen[t.ID] = true
		var err error
		if sum, err = sum.Add(t.Amount); err != nil {
			return nil, fmt.Errorf("iso20022: order %s: %w", o.ID, err)
		}
		transfers[i] = t.toXML(o)
	}
	totals := orderTotals{len(transfers), sum.String()}
	debtor := accountOf(o.Debtor.Account)
	var message struct {
		XMLName xml.Name `xml:"Document"`
		Space   string   `xml:"xmlns,attr"`
		Head    struct {
			ID      string `xml:"MsgId"`
			Created string `xml:"CreDtTm"`
			orderTotals
			Initiator string `xml:"InitgPty>Nm"`
		} `xml:"CstmrCdtTrfInitn>GrpHdr"`
		Group struct {
			ID     string `xml:"PmtInfId"`
			Method string `xml:"PmtMtd"`
			Batch  bool   `xml:"BtchBookg"`
			orderTotals
			Service     string          `xml:"PmtTpInf>SvcLvl>Cd"`
			Instrument  *string         `xml:"PmtTpInf>LclInstrm>Cd"`
			Category    *string         `xml:"PmtTpInf>CtgyPurp>Cd"`
			Execute     string          `xml:"ReqdExctnDt>Dt"`
			Debtor      orderParty      `xml:"Dbtr"`
			Account     orderAccount    `xml:"DbtrAcct"`
			Bank        orderBank       `xml:"DbtrAgt"`
			Instruction *string         `xml:"InstrForDbtrAgt"`
			Charges     string          `xml:"ChrgBr"`
			Transfers   []orderTransfer `xml:"CdtTrfTxInf"`
		} `xml:"CstmrCdtTrfInitn>PmtInf"`
	}
	message.Space = namespace + o.Version
	h := &message.Head
	h.ID, h.Created, h.orderTotals, h.Initiator = o.ID, formatTime(o.Created), totals, o.name(o.Initiator)
	g := &message.Group
	g.ID, g.Method, g.Batch, g.orderTotals, g.Service, g.Execute = o.ID, "TRF", true, totals, "NURG",
		o.Execute.Format(time.DateOnly)
	g.Category, g.Instruction = optional(o.Category), optional(truncate(o.Instruction, 140))
	g.Debtor = orderParty{Name: o.name(o.Debtor.Name), Address: o.Address.toXML()}
	g.Account = orderAccount{IBAN: debtor.IBAN, Other: debtor.Other, Currency: string(asset)}
	// Charges follow the rules of the scheme or are shared. If they are shared, the payee receives the amount minus the
	// charges of the payee's own bank.
	g.Bank, g.Charges, g.Transfers = orderBank{BIC: optional(o.Debtor.Bank)}, "SHAR", transfers
	if o.Scheme != CreditTransfer {
		g.Service, g.Charges = "SEPA", "SLEV"
	}
	if o.Scheme == SEPAInstant {
		g.Instrument = optional("INST")
	}
	if g.Bank.BIC == nil {
		g.Bank.None = optional(notProvided)
	}
	return encode(message)
}

// name shortens a name to the length that the scheme allows.
func (o Order) name(s string) string {
	if o.Scheme == CreditTransfer {
		return truncate(s, 140)
	}
	return truncate(s, sepaName)
}

// check returns an error for a transfer that no bank accepts in the scheme.
func (t Transfer) check(scheme Scheme) error {
	if err := checkIDs(t.ID); err != nil {
		return err
	}
	if err := errors.Join(t.Address.check("the creditor of payment "+t.ID),
		t.UltimateAddress.check("the ultimate debtor of payment "+t.ID)); err != nil {
		return err
	}
	switch {
	case t.Amount.Sign() <= 0:
		return fmt.Errorf("iso20022: the amount of payment %s is not positive", t.ID)
	case t.Creditor.Name == "":
		return fmt.Errorf("iso20022: the creditor of payment %s has no name", t.ID)
	case t.Creditor.Bank != "" && !IsBIC(t.Creditor.Bank):
		return fmt.Errorf("iso20022: %q is not a BIC, payment %s", t.Creditor.Bank, t.ID)
	case scheme == CreditTransfer:
		return t.checkTexts()
	case t.Amount.Asset() != money.EUR || !IsIBAN(t.Creditor.Account) || t.Amount.Units() > sepaCents:
		return fmt.Errorf("iso20022: payment %s is not a SEPA payment: at most 999999999.99 EUR to an IBAN", t.ID)
	case t.Creditor.Bank != "" && !SameCountry(t.Creditor.Bank, t.Creditor.Account):
		return fmt.Errorf("iso20022: the BIC and the IBAN of payment %s are of different countries", t.ID)
	}
	if len(t.TaxID) > maxCode || len(t.IDKind) > maxCode {
		return fmt.Errorf("iso20022: the tax ID of payment %s, or its scheme, has over %d characters", t.ID, maxCode)
	}
	for _, text := range []string{t.Creditor.Name, t.UltimateDebtor, t.Remittance, t.TaxID, t.IDKind, t.Address.Street,
		t.Address.Line, t.Address.PostCode, t.Address.Town, t.Address.State} {
		if !IsSEPAText(text) {
			return fmt.Errorf("iso20022: payment %s has a character that SEPA does not allow", t.ID)
		}
	}
	return nil
}

// Largest numbers of characters of numbers and codes in a transfer. These are never shortened, because a shortened
// number or code would identify something else.
const (
	maxNumber = 34 // account number
	maxCode   = 35 // other numbers, codes and the names of their schemes
	maxProxy  = 2048
)

// checkTexts returns an error if a transfer outside of SEPA has a text whose characters or length banks do not
// accept. All texts have the characters of SEPA, which are also the characters of Swift. The name may be in katakana,
// as banks in Japan require, and an identifier of the account or of a scheme may contain @ and underscores.
func (t Transfer) checkTexts() error {
	number := maxNumber
	if t.Proxy {
		number = maxProxy
	}
	if !IsSEPAText(t.Creditor.Name) && !IsKatakana(t.Creditor.Name) {
		return fmt.Errorf("iso20022: the name of the creditor of payment %s has a character that banks do not accept", t.ID)
	}
	for _, text := range []string{t.UltimateDebtor, t.Remittance, t.BankName, t.Address.Street, t.Address.Line,
		t.Address.PostCode, t.Address.Town, t.Address.State, t.UltimateAddress.Street, t.UltimateAddress.PostCode,
		t.UltimateAddress.Town, t.UltimateAddress.State} {
		if !IsSEPAText(text) {
			return fmt.Errorf("iso20022: payment %s has a character that banks do not accept", t.ID)
		}
	}
	for _, x := range []struct {
		what, text string
		most       int
	}{{"account number", t.Creditor.Account, number}, {"scheme of the account number", t.Number, maxCode},
		{"account type", t.Kind, maxCode}, {"bank code", t.Clearing.Code, maxCode},
		{"clearing system", t.Clearing.System, maxCode}, {"tax ID", t.TaxID, maxCode},
		{"scheme of the tax ID", t.IDKind, maxCode},
		{"purpose", t.LocalPurpose, maxCode}, {"email address", t.Email, 256}, {"telephone number", t.Phone, maxCode}} {
		if !IsIdentifier(x.text) || len(x.text) > x.most {
			return fmt.Errorf("iso20022: the %s of payment %s has over %d characters, or one that banks do not accept", x.what,
				t.ID, x.most)
		}
	}
	return nil
}

// IsKatakana reports whether a text has only katakana, in full or half width, and characters that [IsSEPACharacter]
// accepts.
func IsKatakana(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool {
		return !IsSEPACharacter(r) && (r < 0x30A0 || r > 0x30FF) && (r < 0xFF61 || r > 0xFF9F) && r != 0x3000
	}) < 0
}

// IsIdentifier reports whether a text has only characters that [IsSEPACharacter] accepts, @ and underscores.
func IsIdentifier(s string) bool { return IsSEPAText(strings.NewReplacer("@", "", "_", "").Replace(s)) }

// IsSEPAText reports whether a text has only characters that every bank in SEPA accepts.
func IsSEPAText(s string) bool {
	for _, r := range s {
		if !IsSEPACharacter(r) {
			return false
		}
	}
	return true
}

// IsSEPACharacter reports whether every bank in SEPA accepts a character.
func IsSEPACharacter(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
		strings.ContainsRune("/-?:().,'+ ", r)
}

// ibanCountries maps territories whose banks have BICs with the territory's code to the country of their IBANs.
var ibanCountries = map[string]string{"GG": "GB", "JE": "GB", "IM": "GB", "AX": "FI", "GF": "FR", "GP": "FR",
	"MQ": "FR", "YT": "FR", "RE": "FR", "PM": "FR", "BL": "FR", "MF": "FR"}

// SameCountry reports whether a valid BIC and a valid IBAN belong to the same country.
func SameCountry(bic, iban string) bool {
	return bic[4:6] == iban[:2] || ibanCountries[bic[4:6]] == iban[:2]
}

func (t Transfer) toXML(o Order) orderTransfer {
	s := orderTransfer{Instruction: t.ID, EndToEnd: t.ID, Amount: amountOf(t.Amount),
		Creditor:   orderParty{Name: o.name(t.Creditor.Name), Address: t.Address.toXML()},
		Remittance: optional(truncate(t.Remittance, 140))}
	switch {
	case t.LocalPurpose != "":
		s.Purpose = &code{Proprietary: t.LocalPurpose}
	case t.Purpose != "":
		s.Purpose = &code{Code: t.Purpose}
	}
	if t.UltimateDebtor != "" {
		s.Ultimate = &orderParty{Name: o.name(t.UltimateDebtor), LEI: optional(t.UltimateLEI)}
	}
	switch id := (orderID{t.TaxID, optional(t.IDKind)}); {
	case t.TaxID == "":
	case t.Company:
		s.Creditor.Org = &id
	default:
		s.Creditor.Person = &id
	}
	if o.Scheme != CreditTransfer { // the scheme does not have the other elements
		s.Account.IBAN = &t.Creditor.Account
		if t.Creditor.Bank != "" {
			s.Bank = &orderBank{BIC: &t.Creditor.Bank}
		}
		return s
	}
	if s.Ultimate != nil {
		s.Ultimate.Address = t.UltimateAddress.toXML()
	}
	switch t.Kind {
	case "CACC", "SVGS":
		s.Account.Kind = &t.Kind
	default:
		s.Account.ProprietaryKind = optional(t.Kind)
	}
	if IsIBAN(t.Creditor.Account) {
		s.Account.IBAN = &t.Creditor.Account
	} else {
		s.Account.Other, s.Account.Scheme = &t.Creditor.Account, optional(t.Number)
	}
	if t.Proxy {
		s.Account.Proxy, s.Account.ProxyKind = &t.Creditor.Account, optional(t.Number)
		if len(t.Creditor.Account) > maxNumber { // version 09 requires an account number
			s.Account.Other = optional(notProvided)
		}
	}
	if t.Creditor.Bank != "" || t.Clearing.Code != "" || t.BankName != "" {
		s.Bank = &orderBank{BIC: optional(t.Creditor.Bank), Member: optional(t.Clearing.Code),
			Name: optional(truncate(t.BankName, 140))}
		switch {
		case t.Clearing.Code == "":
		case t.Clearing.Listed:
			s.Bank.System = optional(t.Clearing.System)
		default:
			s.Bank.Proprietary = optional(t.Clearing.System)
		}
	}
	if t.Email != "" || t.Phone != "" {
		s.Creditor.Contact = &orderContact{Email: t.Email}
		if t.Phone != "" {
			s.Creditor.Contact.Phone = &orderPhone{"TELE", t.Phone}
		}
	}
	return s
}
