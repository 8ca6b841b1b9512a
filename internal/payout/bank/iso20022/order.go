package iso20022

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"time"

	"github.com/stipend/stipend/internal/money"
)

const namespaceOrder = "urn:iso:std:iso:20022:tech:xsd:pain.001.001.09"

// Order is a file of credit transfers from one account in one currency, on one day.
type Order struct {
	ID        string // of the file; its one group of payments has the same
	Created   time.Time
	Execute   time.Time // the day
	SEPA      bool      // under the rules of SEPA, else as an ordinary credit transfer
	Initiator string    // who sends the file
	Debtor    Party     // whose account it is from; Bank is a BIC, or "" where the bank asks for none
	Country   string    // of the debtor
	Transfers []Transfer
}

// Transfer is one payment of an order.
type Transfer struct {
	ID         string // end to end, and of the instruction
	Amount     money.Amount
	Creditor   Party
	Number     string // what kind of number the account has when it is no IBAN: "BBAN", "CLABE"; "" for any
	Kind       string // of the account, by ISO's code (CACC, SVGS) or as its country calls it; "" for any
	Clearing   Member // the creditor's bank, by its national code; beside or without Creditor.Bank
	BankName   string
	Address    Address
	TaxID      string // or another number that the creditor is known by
	IDKind     string // what kind of number that is; "" for any
	Email      string
	Phone      string
	Company    bool   // the creditor is one
	Purpose    string // by the code of the creditor's country
	Remittance string
}

// Member is a bank by its code in a clearing system: a code of ISO's list (GBDSC), or a name of its own.
type Member struct {
	System string
	Listed bool // System is on ISO's list
	Code   string
}

// Address is where a creditor lives, as far as it is known.
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
		IBAN     *string `xml:"Id>IBAN"`
		Other    *string `xml:"Id>Othr>Id"`
		Scheme   *string `xml:"Id>Othr>SchmeNm>Prtry"`
		Kind     *string `xml:"Tp>Cd"`
		OwnKind  *string `xml:"Tp>Prtry"`
		Currency string  `xml:"Ccy,omitempty"`
	}
	orderBank struct {
		BIC    *string `xml:"FinInstnId>BICFI"`
		System *string `xml:"FinInstnId>ClrSysMmbId>ClrSysId>Cd"`
		Own    *string `xml:"FinInstnId>ClrSysMmbId>ClrSysId>Prtry"`
		Member *string `xml:"FinInstnId>ClrSysMmbId>MmbId"`
		Name   *string `xml:"FinInstnId>Nm"`
		None   *string `xml:"FinInstnId>Othr>Id"`
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

// Write makes the file, as pain.001.001.09. It refuses an order that no bank can take: without payments, with two of one
// name, in several currencies, or with a number that is no IBAN under the rules of SEPA.
func (o Order) Write() ([]byte, error) {
	if len(o.Transfers) == 0 || o.Created.IsZero() || o.Execute.IsZero() || o.Debtor.Account == "" {
		return nil, errors.New("iso20022: an order has payments, an account, and the days of its making and its execution")
	}
	if err := identifiers(o.ID); err != nil {
		return nil, err
	}
	asset := o.Transfers[0].Amount.Asset()
	sum, seen := money.Zero(asset), map[string]bool{}
	transfers := make([]orderTransfer, len(o.Transfers))
	for i, t := range o.Transfers {
		if err := identifiers(t.ID); err != nil {
			return nil, err
		}
		if seen[t.ID] {
			return nil, fmt.Errorf("iso20022: two payments are called %s", t.ID)
		}
		seen[t.ID] = true
		if t.Amount.Sign() <= 0 {
			return nil, fmt.Errorf("iso20022: payment %s is of nothing", t.ID)
		}
		if o.SEPA && (asset != money.EUR || !IsIBAN(t.Creditor.Account)) {
			return nil, fmt.Errorf("iso20022: payment %s is none under the rules of SEPA: it needs euros and an IBAN", t.ID)
		}
		var err error
		if sum, err = sum.Add(t.Amount); err != nil {
			return nil, fmt.Errorf("iso20022: order %s: %w", o.ID, err)
		}
		transfers[i] = t.shape()
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
	h.ID, h.Created, h.orderTotals, h.Initiator = o.ID, instantText(o.Created), totals, cut(o.Initiator, 140)
	g := &message.Group
	g.ID, g.Method, g.Batch, g.orderTotals, g.Service, g.Execute = o.ID, "TRF", true, totals, service, o.Execute.Format(time.DateOnly)
	g.Debtor = orderParty{Name: cut(o.Debtor.Name, 140)}
	if o.Country != "" {
		g.Debtor.Address = &orderAddress{Country: o.Country}
	}
	g.Account = orderAccount{IBAN: debtor.IBAN, Other: debtor.Other, Currency: string(asset)}
	// Who pays what is decided by the rules of the scheme, or shared: the payee gets what they were promised, less what their own bank takes.
	g.Bank, g.Charges, g.Transfers = orderBank{BIC: some(o.Debtor.Bank)}, "SHAR", transfers
	if o.SEPA {
		g.Charges = "SLEV"
	}
	if g.Bank.BIC == nil {
		g.Bank.None = some("NOTPROVIDED")
	}
	var out bytes.Buffer
	out.WriteString(xml.Header)
	e := xml.NewEncoder(&out)
	e.Indent("", " ")
	if err := e.Encode(message); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

func (t Transfer) shape() orderTransfer {
	s := orderTransfer{Instruction: t.ID, EndToEnd: t.ID, Amount: amountOf(t.Amount), Creditor: orderParty{Name: cut(t.Creditor.Name, 140)},
		Purpose: some(cut(t.Purpose, 35)), Remittance: some(cut(t.Remittance, 140))}
	switch t.Kind {
	case "CACC", "SVGS":
		s.Account.Kind = &t.Kind
	default:
		s.Account.OwnKind = some(cut(t.Kind, 35))
	}
	if IsIBAN(t.Creditor.Account) {
		s.Account.IBAN = &t.Creditor.Account
	} else {
		s.Account.Other, s.Account.Scheme = some(cut(t.Creditor.Account, 34)), some(cut(t.Number, 35))
	}
	if t.Creditor.Bank != "" || t.Clearing.Code != "" {
		s.Bank = &orderBank{BIC: some(t.Creditor.Bank), Member: some(cut(t.Clearing.Code, 35)), Name: some(cut(t.BankName, 140))}
		switch {
		case t.Clearing.Code == "":
		case t.Clearing.Listed:
			s.Bank.System = some(t.Clearing.System)
		default:
			s.Bank.Own = some(cut(t.Clearing.System, 35))
		}
	}
	a := orderAddress{Street: cut(t.Address.Street, 70), PostCode: cut(t.Address.PostCode, 16), Town: cut(t.Address.Town, 35), State: cut(t.Address.State, 35),
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
	switch id := (orderID{cut(t.TaxID, 35), some(cut(t.IDKind, 35))}); {
	case t.TaxID == "":
	case t.Company:
		s.Creditor.Org = &id
	default:
		s.Creditor.Person = &id
	}
	return s
}
