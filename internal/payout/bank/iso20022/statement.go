package iso20022

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/money"
)

// Statement has the head data of a statement, report or notification of one account.
type Statement struct {
	Message  Message // BankStatement, AccountReport or Notification
	File     string  // ID of the whole message
	ID       string
	Sequence string // electronic sequence number, or ""
	Page     int    // page number, from 1, of a statement with several pages; otherwise 0
	Created  time.Time
	From, To time.Time // period, or zero
	Account  string    // IBAN or local number
	Currency string    // account currency, or ""
	Owner    string    // account holder
	Bank     string    // BIC of the account's bank
	Balances []Balance
	Err      error // error of the first invalid balance or date
}

// Balance is a balance of an account.
type Balance struct {
	Type   string // OPBD opening, CLBD closing, and others
	Amount money.Amount
	Day    time.Time
}

// Entry is one entry of an account. It has a detail for each payment that it books, often only one. It has no details
// if the bank gives none.
type Entry struct {
	Reference string // entry reference, or ""
	Servicer  string // account servicer reference
	Amount    money.Amount
	Credit    bool   // money was received
	Reversal  bool   // reverses an earlier entry of the opposite sign
	Status    string // BOOK, PDNG, INFO or FUTR
	Booked    time.Time
	Valued    time.Time
	Type      Type
	Batch     Batch // order whose payments the entry books together, or the zero value
	Details   []Detail
	Info      string
	Err       error // error of an invalid amount or date; does not affect other entries
}

// Final reports whether the entry is booked, and not only announced.
func (e *Entry) Final() bool { return e.Status == "BOOK" }

// Returned reports whether the entry, or one of the given details, returns an earlier payment. It uses only fields
// that the bank sets, so that a payer's text cannot make a credit look like a return.
func (e *Entry) Returned(details ...Detail) bool {
	return e.Reversal || e.Type.Returned() ||
		slices.ContainsFunc(details, func(d Detail) bool { return d.ReturnReason != "" || d.Type.Returned() })
}

// Type is the bank transaction code: PMNT RCDT ESCT is a received credit transfer, PMNT ICDT RRTN a returned credit
// transfer.
type Type struct {
	Domain, Family, SubFamily string
	Proprietary               string // proprietary code
}

// Returned reports whether the code identifies a returned payment.
func (t Type) Returned() bool { return t.SubFamily == "RRTN" || t.SubFamily == "PRRT" }

// IsFee reports whether the code identifies a bank's fee or the refund of a fee.
func (t Type) IsFee() bool {
	return t.SubFamily == "CHRG" || t.SubFamily == "COMM" || t.SubFamily == "FEES"
}

// IsInterest reports whether the code identifies interest that the bank pays or charges.
func (t Type) IsInterest() bool { return t.SubFamily == "INTR" }

// Batch identifies the payment order that an entry books.
type Batch struct {
	MessageID     string `xml:"MsgId,omitempty"`
	PaymentInfoID string `xml:"PmtInfId,omitempty"`
}

// Detail is one payment of an entry.
type Detail struct {
	MessageID      string // message ID of the order
	PaymentInfoID  string // payment group in the order
	InstructionID  string
	EndToEndID     string // "" also for NOTPROVIDED
	TransactionID  string
	Servicer       string
	UETR           string
	MandateID      string
	Amount         money.Amount // the entry's amount if the bank gives none for the entry's only detail
	Credit         bool
	Type           Type // the entry's type if the bank gives none for the detail
	Charges        []Charge
	Debtor         Party
	UltimateDebtor string
	Creditor       Party
	Remittance     []string // unstructured, by line
	Creditors      []string // structured creditor references, such as RF18…
	ReturnReason   string   // reason code of a return, such as AC04, or ""
	ReturnInfo     []string
	Info           string
}

// Names returns all texts that may contain the reference given by the party that ordered the payment.
func (d Detail) Names() []string {
	return append([]string{d.EndToEndID, d.InstructionID, d.PaymentInfoID, d.MessageID, d.TransactionID, d.Servicer,
		d.Info}, d.Remittance...)
}

// Party is the debtor or creditor of a payment.
type Party struct {
	Name    string
	Account string // IBAN or local number
	Bank    string // BIC or national code
}

// Charge is a bank's charge for a payment or, if Credit is set, the refund of a charge.
type Charge struct {
	Amount money.Amount
	Credit bool
}

// XML elements. They cover all versions from 02 on: if a version moved an element, both places are listed.
type (
	account struct {
		IBAN     *string `xml:"Id>IBAN"`
		Other    *string `xml:"Id>Othr>Id"`
		Currency string  `xml:"Ccy,omitempty"`
		Owner    *string `xml:"Ownr>Nm"`
		BIC      *string `xml:"Svcr>FinInstnId>BICFI"`
		OldBIC   *string `xml:"Svcr>FinInstnId>BIC"`
	}
	balance struct {
		Type   code   `xml:"Tp>CdOrPrtry"`
		Amount Amount `xml:"Amt"`
		Side   string `xml:"CdtDbtInd"`
		Date   *date  `xml:"Dt"`
	}
	bookingType struct {
		Domain      *string `xml:"Domn>Cd"`
		Family      *string `xml:"Domn>Fmly>Cd"`
		SubFamily   *string `xml:"Domn>Fmly>SubFmlyCd"`
		Proprietary *string `xml:"Prtry>Cd"`
	}
	status struct {
		Code string `xml:"Cd,omitempty"`
		Text string `xml:",chardata"` // versions up to 03 have the text here
	}
	party struct {
		Name  string  `xml:"Nm,omitempty"` // versions up to 03 have the name here
		Party *string `xml:"Pty>Nm"`
		Agent *string `xml:"Agt>FinInstnId>Nm"`
	}
	agent struct {
		BIC    *string `xml:"FinInstnId>BICFI"`
		OldBIC *string `xml:"FinInstnId>BIC"`
		Member *string `xml:"FinInstnId>ClrSysMmbId>MmbId"`
	}
	charge struct {
		Amount Amount `xml:"Amt"`
		Side   string `xml:"CdtDbtInd,omitempty"`
	}
	charges struct {
		Amount  *Amount  `xml:"Amt"` // versions up to 03 have a charge here, without a record
		Side    string   `xml:"CdtDbtInd,omitempty"`
		Records []charge `xml:"Rcrd"`
	}
	references struct {
		MessageID     string `xml:"MsgId,omitempty"`
		Servicer      string `xml:"AcctSvcrRef,omitempty"`
		PaymentInfoID string `xml:"PmtInfId,omitempty"`
		InstructionID string `xml:"InstrId,omitempty"`
		EndToEndID    string `xml:"EndToEndId,omitempty"`
		UETR          string `xml:"UETR,omitempty"`
		TransactionID string `xml:"TxId,omitempty"`
		MandateID     string `xml:"MndtId,omitempty"`
	}
	remittance struct {
		Free       []string     `xml:"Ustrd"`
		Structured []structured `xml:"Strd"`
	}
	structured struct {
		Reference *string  `xml:"CdtrRefInf>Ref"`
		Free      []string `xml:"AddtlRmtInf"`
	}
	returned struct {
		Reason *code    `xml:"Rsn"`
		Info   []string `xml:"AddtlInf"`
	}
	transaction struct {
		References *references  `xml:"Refs"`
		Amount     *Amount      `xml:"Amt"`
		Side       string       `xml:"CdtDbtInd,omitempty"`
		OldAmount  *Amount      `xml:"AmtDtls>TxAmt>Amt"`
		Type       *bookingType `xml:"BkTxCd"`
		Charges    []charges    `xml:"Chrgs"`
		Debtor     *party       `xml:"RltdPties>Dbtr"`
		DebtorAt   *account     `xml:"RltdPties>DbtrAcct"`
		Ultimate   *party       `xml:"RltdPties>UltmtDbtr"`
		Creditor   *party       `xml:"RltdPties>Cdtr"`
		CreditorAt *account     `xml:"RltdPties>CdtrAcct"`
		DebtorBank *agent       `xml:"RltdAgts>DbtrAgt"`
		CreditBank *agent       `xml:"RltdAgts>CdtrAgt"`
		Remittance *remittance  `xml:"RmtInf"`
		Return     *returned    `xml:"RtrInf"`
		Info       string       `xml:"AddtlTxInf,omitempty"`
	}
)

// ReadStatements parses a camt.052, camt.053 or camt.054 message. For each statement it calls fn first with the head,
// including the balances, and a nil entry, and then with the head and each entry in order. fn may keep its arguments.
// ReadStatements stops at the first error of fn and returns it.
func ReadStatements(in io.Reader, fn func(*Statement, *Entry) error) error {
	r := newReader(in)
	kind, err := r.open()
	if err != nil {
		return err
	}
	inner := map[Message]string{BankStatement: "Stmt", AccountReport: "Rpt", Notification: "Ntfctn"}[kind]
	if inner == "" {
		return fmt.Errorf("iso20022: message %.40q is not an account statement, report or notification", kind)
	}
	file := ""
	heads := 0
	if err := r.children(r.resetPart, func(e xml.StartElement) error {
		if heads++; heads > maxHeads {
			return r.withPosition(fmt.Errorf("%w: over %d statements", ErrTooMuch, maxHeads))
		}
		switch e.Name.Local {
		case "GrpHdr":
			var head struct {
				ID string `xml:"MsgId"`
			}
			err := r.decode(&head, e)
			file = strings.TrimSpace(head.ID)
			return err
		case inner:
			return r.statement(&Statement{Message: kind, File: file}, fn)
		}
		return r.skip()
	}); err != nil {
		return err
	}
	return r.end()
}

// end reads to the end of the file, to detect a truncated file.
func (r *reader) end() error {
	for {
		_, err := r.d.Token()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return r.withPosition(err)
		}
	}
}

func (r *reader) statement(s *Statement, fn func(*Statement, *Entry) error) error {
	begun := false
	begin := func() error {
		if begun {
			return nil
		}
		begun = true
		return fn(s, nil)
	}
	if err := r.children(r.resetTokens, func(e xml.StartElement) error {
		switch e.Name.Local {
		case "Id":
			return r.text(&s.ID, e)
		case "ElctrncSeqNb":
			return r.text(&s.Sequence, e)
		case "StmtPgntn":
			var p struct {
				Number string `xml:"PgNb"`
				Last   string `xml:"LastPgInd"`
			}
			if err := r.decode(&p, e); err != nil {
				return err
			}
			number, err := strconv.Atoi(strings.TrimSpace(p.Number))
			if last := strings.TrimSpace(p.Last); err == nil && (number > 1 || last != "true" && last != "1") {
				s.Page = number
			}
			return nil
		case "CreDtTm":
			return r.readTime(&s.Created, &s.Err, e)
		case "FrToDt":
			return r.children(func() {}, func(e xml.StartElement) error {
				switch e.Name.Local {
				case "FrDtTm":
					return r.readTime(&s.From, &s.Err, e)
				case "ToDtTm":
					return r.readTime(&s.To, &s.Err, e)
				}
				return r.skipWithin()
			})
		case "Acct":
			var a account
			err := r.decode(&a, e)
			s.Account, s.Currency, s.Owner, s.Bank = a.number(), strings.TrimSpace(a.Currency), deref(a.Owner),
				firstOf(deref(a.BIC), deref(a.OldBIC))
			return err
		case "Bal":
			if len(s.Balances) >= 100 {
				return r.withPosition(fmt.Errorf("%w: over 100 balances", ErrTooMuch))
			}
			var b balance
			if err := r.decode(&b, e); err != nil {
				return err
			}
			if read, err := b.read(); err != nil {
				note(&s.Err, err)
			} else {
				s.Balances = append(s.Balances, read)
			}
			return nil
		case "Ntry":
			if err := begin(); err != nil {
				return err
			}
			r.resetPart()
			entry, err := r.entry()
			if err != nil {
				return err
			}
			return fn(s, entry)
		}
		return r.skip()
	}); err != nil {
		return err
	}
	return begin()
}

// note stores the first error of a statement or an entry.
func note(first *error, err error) {
	if *first == nil {
		*first = err
	}
}

// readTime decodes a time into to. It stores the error of an invalid time in bad.
func (r *reader) readTime(to *time.Time, bad *error, start xml.StartElement) error {
	var text string
	err := r.text(&text, start)
	if err == nil {
		var invalid error
		*to, invalid = parseTime(text)
		note(bad, invalid)
	}
	return err
}

func (b balance) read() (Balance, error) {
	amount, err := b.Amount.Money()
	if err != nil {
		return Balance{}, fmt.Errorf("balance %.8s: %w", b.Type.value(), err)
	}
	switch strings.TrimSpace(b.Side) {
	case "CRDT":
	case "DBIT":
		amount = amount.Neg()
	default:
		return Balance{}, fmt.Errorf("iso20022: balance %.8s is neither credit nor debit", b.Type.value())
	}
	day, err := b.Date.time()
	return Balance{Type: b.Type.value(), Amount: amount, Day: day}, err
}

// entry reads one entry, one transaction at a time.
func (r *reader) entry() (*Entry, error) {
	var e Entry
	var amount Amount
	var transactions []transaction
	sided := false
	day := func(to *time.Time, start xml.StartElement) error {
		var d date
		err := r.decode(&d, start)
		if err == nil {
			var bad error
			*to, bad = d.time()
			note(&e.Err, bad)
		}
		return err
	}
	if err := r.children(func() {}, func(start xml.StartElement) (err error) {
		switch start.Name.Local {
		case "NtryRef":
			return r.text(&e.Reference, start)
		case "AcctSvcrRef":
			return r.text(&e.Servicer, start)
		case "Amt":
			return r.decode(&amount, start)
		case "CdtDbtInd":
			var side string
			err = r.text(&side, start)
			e.Credit, sided = side == "CRDT", side == "CRDT" || side == "DBIT"
		case "RvslInd":
			var word string
			err = r.text(&word, start)
			e.Reversal = word == "true" || word == "1"
		case "Sts":
			var st status
			err = r.decode(&st, start)
			e.Status = firstOf(st.Code, st.Text)
		case "BookgDt":
			return day(&e.Booked, start)
		case "ValDt":
			return day(&e.Valued, start)
		case "BkTxCd":
			var t bookingType
			err = r.decode(&t, start)
			e.Type = t.read()
		case "AddtlNtryInf":
			return r.text(&e.Info, start)
		case "NtryDtls":
			transactions, err = r.details(&e, transactions)
		default:
			return r.skipWithin()
		}
		return err
	}); err != nil {
		return nil, err
	}
	var err error
	if e.Amount, err = amount.Money(); err != nil {
		note(&e.Err, err)
	}
	if !sided {
		note(&e.Err, errors.New("iso20022: the entry is neither credit nor debit"))
	}
	if !slices.Contains([]string{"BOOK", "PDNG", "INFO", "FUTR"}, e.Status) {
		note(&e.Err, fmt.Errorf("iso20022: the status %.10q of the entry is unknown", e.Status))
	}
	for i := range transactions {
		e.Details = append(e.Details, transactions[i].read(&e, len(transactions) == 1))
	}
	return &e, nil
}

// skipWithin skips an element whose size counts toward the limits of the current entry.
func (r *reader) skipWithin() error { return r.withPosition(r.d.Skip()) }

func (r *reader) details(of *Entry, all []transaction) ([]transaction, error) {
	err := r.children(r.resetTokens, func(start xml.StartElement) error {
		switch start.Name.Local {
		case "Btch":
			var b Batch
			err := r.decode(&b, start)
			if of.Batch == (Batch{}) {
				of.Batch = Batch{idText(b.MessageID), idText(b.PaymentInfoID)}
			}
			return err
		case "TxDtls":
			if len(all) >= maxUnits {
				return r.withPosition(fmt.Errorf("%w: over %d transactions in one entry", ErrTooMuch, maxUnits))
			}
			var t transaction
			err := r.decode(&t, start)
			all = append(all, t)
			return err
		}
		return r.skipWithin()
	})
	return all, err
}

// read converts a transaction of an entry. only states that the entry has no other transaction.
func (t *transaction) read(e *Entry, only bool) Detail {
	refs := t.References
	if refs == nil {
		refs = new(references)
	}
	d := Detail{
		MessageID: idText(refs.MessageID), PaymentInfoID: idText(refs.PaymentInfoID),
		InstructionID: idText(refs.InstructionID),
		EndToEndID:    idText(refs.EndToEndID), TransactionID: idText(refs.TransactionID), Servicer: idText(refs.Servicer),
		UETR: idText(refs.UETR), MandateID: idText(refs.MandateID),
		Credit: e.Credit, Type: e.Type,
		Debtor: t.Debtor.read(t.DebtorAt, t.DebtorBank), Creditor: t.Creditor.read(t.CreditorAt, t.CreditBank),
		UltimateDebtor: t.Ultimate.name(),
		Info:           strings.TrimSpace(t.Info),
	}
	if m := t.Remittance; m != nil {
		free := m.Free
		for _, s := range m.Structured {
			free = append(free, s.Free...)
			if ref := deref(s.Reference); ref != "" {
				d.Creditors = append(d.Creditors, ref)
			}
		}
		d.Remittance = clean(free)
	}
	if back := t.Return; back != nil {
		d.ReturnReason, d.ReturnInfo = back.Reason.value(), clean(back.Info)
	}
	if t.Side != "" {
		d.Credit = strings.TrimSpace(t.Side) == "CRDT"
	}
	if t.Type != nil {
		d.Type = t.Type.read()
	}
	amount := t.Amount
	if amount == nil {
		amount = t.OldAmount
	}
	var err error
	switch {
	case amount != nil:
		if d.Amount, err = amount.Money(); err != nil {
			note(&e.Err, err)
		}
	case only:
		d.Amount = e.Amount
	default:
		note(&e.Err, errors.New("iso20022: one of several transactions has no amount"))
	}
	for _, c := range t.Charges {
		list := c.Records
		if c.Amount != nil {
			list = append(list, charge{*c.Amount, c.Side})
		}
		for _, c := range list {
			a, err := c.Amount.Money()
			if err != nil {
				note(&e.Err, err)
				continue
			}
			d.Charges = append(d.Charges, Charge{a, strings.TrimSpace(c.Side) == "CRDT"})
		}
	}
	return d
}

func (t bookingType) read() Type {
	return Type{deref(t.Domain), deref(t.Family), deref(t.SubFamily), deref(t.Proprietary)}
}

func (a *account) number() string {
	if a == nil {
		return ""
	}
	return strings.ReplaceAll(firstOf(deref(a.IBAN), deref(a.Other)), " ", "")
}

func (p *party) name() string {
	if p == nil {
		return ""
	}
	return firstOf(firstOf(deref(p.Party), p.Name), deref(p.Agent))
}

func (p *party) read(at *account, bank *agent) Party {
	who := Party{Name: p.name(), Account: at.number()}
	if bank != nil {
		who.Bank = firstOf(firstOf(deref(bank.BIC), deref(bank.OldBIC)), deref(bank.Member))
	}
	return who
}

// deref returns the trimmed text of an optional element, or "".
func deref(s *string) string {
	if s == nil {
		return ""
	}
	return strings.TrimSpace(*s)
}

// optional returns nil for "".
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// idText returns an ID, or "" for NOTPROVIDED, which banks write if there is none.
func idText(s string) string {
	if s = strings.TrimSpace(s); s == "NOTPROVIDED" {
		return ""
	}
	return s
}

func firstOf(a, b string) string {
	if a = strings.TrimSpace(a); a != "" {
		return a
	}
	return strings.TrimSpace(b)
}

func clean(lines []string) []string {
	var kept []string
	for _, l := range lines {
		if l = strings.TrimSpace(l); l != "" {
			kept = append(kept, l)
		}
	}
	return kept
}
