package iso20022

import (
	"encoding/xml"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/money"
)

// Versions of pain.008 that are written.
const (
	Collection02 = "pain.008.001.02"
	Collection08 = "pain.008.001.08"
)

// Instruments of SEPA direct debits.
const (
	Core = "CORE" // SEPA Direct Debit Core, which the debtor can have refunded for eight weeks
	B2B  = "B2B"  // SEPA Direct Debit Business-to-Business, without a right to a refund
)

// Sequences of collections under a mandate.
const (
	First     = "FRST"
	Recurring = "RCUR"
	Final     = "FNAL" // the last debit under the mandate
	OneOff    = "OOFF" // the only debit under the mandate
)

// Collection is a file of SEPA direct debits to one account, with one instrument, one sequence type and one due date.
type Collection struct {
	Version    string // Collection02 or Collection08; "" means Collection08
	ID         string // message ID, also the ID of its one payment group
	Created    time.Time
	Due        time.Time // day on which the debtors' accounts are debited
	Instrument string    // Core or B2B
	Sequence   string    // First, Recurring, Final or OneOff
	Creditor   Party     // account holder; Bank is a BIC, or "" if the bank does not require it
	Address    Address
	CreditorID string // SEPA creditor identifier
	Debits     []Debit
}

// Debit is one direct debit of a collection.
type Debit struct {
	ID         string // end-to-end and instruction ID
	Amount     money.Amount
	Mandate    string    // unique mandate reference
	Signed     time.Time // day on which the mandate was signed
	Debtor     Party
	Address    Address // address of the debtor; required if [NeedsAddress] returns true
	Remittance string
}

// collectionBank is a bank in pain.008: BIC in version 02, BICFI in version 08.
type collectionBank struct {
	Old  *string `xml:"FinInstnId>BIC"`
	BIC  *string `xml:"FinInstnId>BICFI"`
	None *string `xml:"FinInstnId>Othr>Id"`
}

type collectionDebit struct {
	Instruction string         `xml:"PmtId>InstrId"`
	EndToEnd    string         `xml:"PmtId>EndToEndId"`
	Amount      Amount         `xml:"InstdAmt"`
	Mandate     string         `xml:"DrctDbtTx>MndtRltdInf>MndtId"`
	Signed      string         `xml:"DrctDbtTx>MndtRltdInf>DtOfSgntr"`
	Bank        collectionBank `xml:"DbtrAgt"`
	Debtor      orderParty     `xml:"Dbtr"`
	Account     orderAccount   `xml:"DbtrAcct"`
	Remittance  *string        `xml:"RmtInf>Ustrd"`
}

// Write returns the encoded file. It returns an error if the collection breaks the rules of its scheme.
func (c Collection) Write() ([]byte, error) {
	if c.Version == "" {
		c.Version = Collection08
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	sum, seen := money.Zero(money.EUR), map[string]bool{}
	debits := make([]collectionDebit, len(c.Debits))
	for i, d := range c.Debits {
		if err := d.check(); err != nil {
			return nil, err
		}
		if c.Version == Collection02 && d.Address.known() { // version 02 has no structured addresses in SEPA
			return nil, fmt.Errorf("iso20022: direct debit %s has an address, which only %s can contain", d.ID, Collection08)
		}
		if seen[d.ID] {
			return nil, fmt.Errorf("iso20022: two direct debits have the ID %s", d.ID)
		}
		seen[d.ID] = true
		var err error
		if sum, err = sum.Add(d.Amount); err != nil {
			return nil, fmt.Errorf("iso20022: collection %s: %w", c.ID, err)
		}
		debits[i] = collectionDebit{Instruction: d.ID, EndToEnd: d.ID, Amount: amountOf(d.Amount), Mandate: d.Mandate,
			Signed: d.Signed.Format(time.DateOnly), Bank: c.bank(d.Debtor.Bank),
			Debtor:  orderParty{Name: truncate(d.Debtor.Name, sepaName), Address: d.Address.toXML()},
			Account: orderAccount{IBAN: &d.Debtor.Account}, Remittance: optional(truncate(d.Remittance, 140))}
	}
	totals := orderTotals{len(debits), sum.String()}
	var message struct {
		XMLName xml.Name `xml:"Document"`
		Space   string   `xml:"xmlns,attr"`
		Head    struct {
			ID      string `xml:"MsgId"`
			Created string `xml:"CreDtTm"`
			orderTotals
			Initiator string `xml:"InitgPty>Nm"`
		} `xml:"CstmrDrctDbtInitn>GrpHdr"`
		Group struct {
			ID     string `xml:"PmtInfId"`
			Method string `xml:"PmtMtd"`
			Batch  bool   `xml:"BtchBookg"`
			orderTotals
			Service    string            `xml:"PmtTpInf>SvcLvl>Cd"`
			Instrument string            `xml:"PmtTpInf>LclInstrm>Cd"`
			Sequence   string            `xml:"PmtTpInf>SeqTp"`
			Due        string            `xml:"ReqdColltnDt"`
			Creditor   orderParty        `xml:"Cdtr"`
			Account    orderAccount      `xml:"CdtrAcct"`
			Bank       collectionBank    `xml:"CdtrAgt"`
			Charges    string            `xml:"ChrgBr"`
			CreditorID string            `xml:"CdtrSchmeId>Id>PrvtId>Othr>Id"`
			IDScheme   string            `xml:"CdtrSchmeId>Id>PrvtId>Othr>SchmeNm>Prtry"`
			Debits     []collectionDebit `xml:"DrctDbtTxInf"`
		} `xml:"CstmrDrctDbtInitn>PmtInf"`
	}
	message.Space = namespace + c.Version
	h := &message.Head
	h.ID, h.Created, h.orderTotals, h.Initiator = c.ID, formatTime(c.Created), totals, truncate(c.Creditor.Name, sepaName)
	g := &message.Group
	g.ID, g.Method, g.Batch, g.orderTotals, g.Service = c.ID, "DD", false, totals, "SEPA"
	g.Instrument, g.Sequence, g.Due = c.Instrument, c.Sequence, c.Due.Format(time.DateOnly)
	g.Creditor = orderParty{Name: truncate(c.Creditor.Name, sepaName)}
	if c.Version != Collection02 { // banks that read version 02 neither accept nor require a structured address
		g.Creditor.Address = c.Address.toXML()
	}
	g.Account = orderAccount{IBAN: &c.Creditor.Account, Currency: string(money.EUR)}
	g.Bank, g.Charges = c.bank(c.Creditor.Bank), "SLEV"
	g.CreditorID, g.IDScheme, g.Debits = c.CreditorID, "SEPA", debits
	return encode(message)
}

// bank returns a bank identified by its BIC, or as not provided if the BIC is unknown.
func (c Collection) bank(bic string) collectionBank {
	switch {
	case bic == "":
		return collectionBank{None: optional("NOTPROVIDED")}
	case c.Version == Collection02:
		return collectionBank{Old: &bic}
	}
	return collectionBank{BIC: &bic}
}

// check returns an error for a collection that no bank accepts. It does not check the debits.
func (c Collection) check() error {
	switch {
	case len(c.Debits) == 0 || c.Created.IsZero() || c.Due.IsZero() || c.Creditor.Name == "":
		return errors.New("iso20022: a collection must have debits, a creditor, a creation time and a due date")
	case c.Version != Collection02 && c.Version != Collection08:
		return fmt.Errorf("iso20022: the version %q of a collection is not supported", c.Version)
	case c.Instrument != Core && c.Instrument != B2B:
		return fmt.Errorf("iso20022: the instrument %q of a collection is unknown", c.Instrument)
	case c.Sequence != First && c.Sequence != Recurring && c.Sequence != Final && c.Sequence != OneOff:
		return fmt.Errorf("iso20022: the sequence %q of a collection is unknown", c.Sequence)
	case !IsIBAN(c.Creditor.Account) || c.Creditor.Bank != "" && !IsBIC(c.Creditor.Bank):
		return errors.New("iso20022: the creditor's IBAN or BIC is invalid")
	case !IsCreditorID(c.CreditorID):
		return fmt.Errorf("iso20022: %q is not a SEPA creditor identifier", c.CreditorID)
	}
	return errors.Join(checkIDs(c.ID), c.Address.check("the creditor"))
}

// check returns an error for a direct debit that no bank accepts.
func (d Debit) check() error {
	switch {
	case d.Amount.Asset() != money.EUR || d.Amount.Sign() <= 0 || d.Amount.Units() > sepaCents:
		return fmt.Errorf("iso20022: direct debit %s must be of 0.01 to 999999999.99 EUR", d.ID)
	case d.Debtor.Name == "" || !IsIBAN(d.Debtor.Account):
		return fmt.Errorf("iso20022: the debtor of direct debit %s must have a name and an IBAN", d.ID)
	case d.Debtor.Bank != "" && (!IsBIC(d.Debtor.Bank) || !SameCountry(d.Debtor.Bank, d.Debtor.Account)):
		return fmt.Errorf("iso20022: the BIC of the debtor of direct debit %s does not fit the IBAN", d.ID)
	case d.Mandate == "" || len(d.Mandate) > 35 || d.Signed.IsZero():
		return fmt.Errorf("iso20022: direct debit %s must name a mandate of up to 35 characters and its date", d.ID)
	}
	if NeedsAddress(d.Debtor.Account) && !d.Address.known() {
		return fmt.Errorf("iso20022: direct debit %s lacks the debtor's address, which its bank requires", d.ID)
	}
	if err := d.Address.check("the debtor of direct debit " + d.ID); err != nil {
		return err
	}
	for _, text := range []string{d.ID, d.Mandate, d.Debtor.Name, d.Remittance, d.Address.Street, d.Address.Line,
		d.Address.PostCode, d.Address.Town, d.Address.State} {
		if !IsSEPAText(text) {
			return fmt.Errorf("iso20022: direct debit %s has a character that SEPA does not allow", d.ID)
		}
	}
	return checkIDs(d.ID)
}

// eea are the countries of the European Economic Area, as the first two letters of their IBANs.
const eea = "AT BE BG CY CZ DE DK EE ES FI FR GR HR HU IE IS IT LI LT LU LV MT NL NO PL PT RO SE SI SK"

// NeedsAddress reports whether a SEPA direct debit from an account must contain the address of the debtor, because
// the debtor's bank is outside of the European Economic Area.
func NeedsAddress(iban string) bool { return len(iban) < 2 || !strings.Contains(eea, iban[:2]) }

// IsCreditorID reports whether s is a SEPA creditor identifier: a country code, two check digits, a business code of
// three characters, and a national identifier. The check digits do not cover the business code.
func IsCreditorID(s string) bool {
	if len(s) < 8 || len(s) > 35 || !letters(s[:2]) || !digits(s[2:4]) {
		return false
	}
	return mod97(s[7:]+s[:4]) == 1
}
