package iso20022

import (
	"encoding/xml"
	"errors"
	"fmt"
	"time"

	"github.com/stipend/stipend/internal/money"
)

const namespaceOrder = "urn:iso:std:iso:20022:tech:xsd:pain.001.001.09"

// Order is a file of credit transfers from one account, in one currency and on one day.
type Order struct {
	ID        string // message ID, also the ID of its one payment group
	Created   time.Time
	Execute   time.Time // execution date
	SEPA      bool      // SEPA credit transfers, otherwise ordinary ones
	Initiator string    // name of the sender of the file
	Debtor    Party     // account holder; Bank is a BIC, or "" if the bank requires none
	Country   string    // country code of the debtor
	Transfers []Transfer
}

// Transfer is one payment of an order.
type Transfer struct {
	ID         string // end-to-end and instruction ID
	Amount     money.Amount
	Creditor   Party
	Number     string // scheme of an account number that is not an IBAN, such as "BBAN" or "CLABE"; "" if unspecified
	Kind       string // account type: an ISO code (CACC, SVGS) or a national term; "" if unspecified
	Clearing   Member // national code of the creditor's bank, in addition to or instead of Creditor.Bank
	BankName   string
	Address    Address
	TaxID      string // tax ID or another identification of the creditor
	IDKind     string // scheme of TaxID; "" if unspecified
	Email      string
	Phone      string
	Company    bool   // the creditor is a company
	Purpose    string // purpose code of the creditor's country
	Remittance string
}

// Member identifies a bank by its code in a clearing system. The system is named by an ISO code (GBDSC) or a
// proprietary name.
type Member struct {
	System string
	Listed bool // System is an ISO code
	Code   string
}

// Address is the known part of a creditor's address.
type Address struct {
	Street, PostCode, Town, State, Country string
}

type (
	orderTotals struct {
		Count int    `xml:"NbOfTxs"`
		Sum   string `xml:"CtrlSum"`
	}
	orderParty struct {
		Name    string        `xml:"Nm"`
		Address *orderAddress `xml:"PstlAdr"`
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
	}
	orderAccount struct {
		IBAN            *string `xml:"Id>IBAN"`
		Other           *string `xml:"Id>Othr>Id"`
		Scheme          *string `xml:"Id>Othr>SchmeNm>Prtry"`
		Kind            *string `xml:"Tp>Cd"`
		ProprietaryKind *string `xml:"Tp>Prtry"`
		Currency        string  `xml:"Ccy,omitempty"`
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
		Bank        *orderBank   `xml:"CdtrAgt"`
		Creditor    orderParty   `xml:"Cdtr"`
		Account     orderAccount `xml:"CdtrAcct"`
		Purpose     *string      `xml:"Purp>Prtry"`
		Remittance  *string      `xml:"RmtInf>Ustrd"`
	}
)

// Write returns the file as pain.001.001.09. It returns an error for an order that no bank accepts: one without
// payments, with duplicate IDs, with several currencies, or with a SEPA payment to an account that is not an IBAN.
func (o Order) Write() ([]byte, error) {
	if len(o.Transfers) == 0 || o.Created.IsZero() || o.Execute.IsZero() || o.Debtor.Account == "" {
		return nil, errors.New("iso20022: an order must have payments, an account, a creation time and an execution date")
	}
	if err := checkIDs(o.ID); err != nil {
		return nil, err
	}
	asset := o.Transfers[0].Amount.Asset()
	sum, seen := money.Zero(asset), map[string]bool{}
	transfers := make([]orderTransfer, len(o.Transfers))
	for i, t := range o.Transfers {
		if err := checkIDs(t.ID); err != nil {
			return nil, err
		}
		if seen[t.ID] {
			return nil, fmt.Errorf("iso20022: two payments have the ID %s", t.ID)
		}
		seen[t.ID] = true
		if t.Amount.Sign() <= 0 {
			return nil, fmt.Errorf("iso20022: the amount of payment %s is not positive", t.ID)
		}
		if o.SEPA && (asset != money.EUR || !IsIBAN(t.Creditor.Account)) {
			return nil, fmt.Errorf("iso20022: payment %s is not a SEPA payment: it must be in EUR to an IBAN", t.ID)
		}
		var err error
		if sum, err = sum.Add(t.Amount); err != nil {
			return nil, fmt.Errorf("iso20022: order %s: %w", o.ID, err)
		}
		transfers[i] = t.toXML()
	}
	totals := orderTotals{len(transfers), sum.String()}
	service := "NURG"
	if o.SEPA {
		service = "SEPA"
	}
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
			Service   string          `xml:"PmtTpInf>SvcLvl>Cd"`
			Execute   string          `xml:"ReqdExctnDt>Dt"`
			Debtor    orderParty      `xml:"Dbtr"`
			Account   orderAccount    `xml:"DbtrAcct"`
			Bank      orderBank       `xml:"DbtrAgt"`
			Charges   string          `xml:"ChrgBr"`
			Transfers []orderTransfer `xml:"CdtTrfTxInf"`
		} `xml:"CstmrCdtTrfInitn>PmtInf"`
	}
	message.Space = namespaceOrder
	h := &message.Head
	h.ID, h.Created, h.orderTotals, h.Initiator = o.ID, formatTime(o.Created), totals, truncate(o.Initiator, 140)
	g := &message.Group
	g.ID, g.Method, g.Batch, g.orderTotals, g.Service, g.Execute = o.ID, "TRF", true, totals, service,
		o.Execute.Format(time.DateOnly)
	g.Debtor = orderParty{Name: truncate(o.Debtor.Name, 140)}
	if o.Country != "" {
		g.Debtor.Address = &orderAddress{Country: o.Country}
	}
	g.Account = orderAccount{IBAN: debtor.IBAN, Other: debtor.Other, Currency: string(asset)}
	// Charges follow the rules of the scheme or are shared: the payee receives the amount less the charges of the
	// payee's own bank.
	g.Bank, g.Charges, g.Transfers = orderBank{BIC: optional(o.Debtor.Bank)}, "SHAR", transfers
	if o.SEPA {
		g.Charges = "SLEV"
	}
	if g.Bank.BIC == nil {
		g.Bank.None = optional("NOTPROVIDED")
	}
	return encode(message)
}

func (t Transfer) toXML() orderTransfer {
	s := orderTransfer{Instruction: t.ID, EndToEnd: t.ID, Amount: amountOf(t.Amount),
		Creditor: orderParty{Name: truncate(t.Creditor.Name, 140)},
		Purpose:  optional(truncate(t.Purpose, 35)), Remittance: optional(truncate(t.Remittance, 140))}
	switch t.Kind {
	case "CACC", "SVGS":
		s.Account.Kind = &t.Kind
	default:
		s.Account.ProprietaryKind = optional(truncate(t.Kind, 35))
	}
	if IsIBAN(t.Creditor.Account) {
		s.Account.IBAN = &t.Creditor.Account
	} else {
		s.Account.Other, s.Account.Scheme = optional(truncate(t.Creditor.Account, 34)), optional(truncate(t.Number, 35))
	}
	if t.Creditor.Bank != "" || t.Clearing.Code != "" {
		s.Bank = &orderBank{BIC: optional(t.Creditor.Bank), Member: optional(truncate(t.Clearing.Code, 35)),
			Name: optional(truncate(t.BankName, 140))}
		switch {
		case t.Clearing.Code == "":
		case t.Clearing.Listed:
			s.Bank.System = optional(t.Clearing.System)
		default:
			s.Bank.Proprietary = optional(truncate(t.Clearing.System, 35))
		}
	}
	a := orderAddress{Street: truncate(t.Address.Street, 70), PostCode: truncate(t.Address.PostCode, 16),
		Town: truncate(t.Address.Town, 35), State: truncate(t.Address.State, 35),
		Country: t.Address.Country}
	if a != (orderAddress{}) {
		s.Creditor.Address = &a
	}
	if t.Email != "" || t.Phone != "" {
		s.Creditor.Contact = &orderContact{Email: t.Email}
		if t.Phone != "" {
			s.Creditor.Contact.Phone = &orderPhone{"TELE", t.Phone}
		}
	}
	switch id := (orderID{truncate(t.TaxID, 35), optional(truncate(t.IDKind, 35))}); {
	case t.TaxID == "":
	case t.Company:
		s.Creditor.Org = &id
	default:
		s.Creditor.Person = &id
	}
	return s
}
