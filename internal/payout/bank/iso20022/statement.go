package iso20022

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/money"
)

// Statement is the head of what a bank says of one account.
type Statement struct {
	Message  Message // BankStatement, AccountReport or Notification
	File     string  // the identity of the whole message
	ID       string
	Sequence string // the electronic number, "" without
	Created  time.Time
	From, To time.Time // the period, zero without
	Account  string    // the IBAN, or the bank's own number
	Currency string    // of the account, "" when the bank does not say
	Owner    string    // the name of the account's owner
	Bank     string    // the BIC of the account's bank
	Balances []Balance
	Err      error // a balance or date of the head that cannot be read
}

// Balance is what was on the account.
type Balance struct {
	Type   string // OPBD opening, CLBD closing, and others
	Amount money.Amount
	Day    time.Time
}

// Entry is one booking on an account. It has as many details as payments are booked by it, often one, and none
// when the bank says nothing about them.
type Entry struct {
	Reference string // the bank's name of the booking, "" without
	Servicer  string // the bank's reference of the booking
	Amount    money.Amount
	Credit    bool   // money came in
	Reversal  bool   // an earlier booking of the other side is taken back
	Status    string // BOOK, PDNG, INFO or FUTR
	Booked    time.Time
	Valued    time.Time
	Type      Type
	Batch     Batch // of payments that were ordered and booked together
	Details   []Detail
	Info      string
	Err       error // what cannot be read of it: its amount, a date. The others stand.
}

// Final says whether the bank has booked it, rather than merely announced it.
func (e *Entry) Final() bool { return e.Status == "BOOK" }

// Returned says whether it takes an earlier payment back, or one of these payments of it does: whoever ordered it, no payer can make a
// credit look so by what they write.
func (e *Entry) Returned(details ...Detail) bool {
	return e.Reversal || e.Type.Returned() || slices.ContainsFunc(details, func(d Detail) bool { return d.ReturnReason != "" || d.Type.Returned() })
}

// Type is what kind of booking it is: PMNT RCDT ESCT is a credit transfer that came in, PMNT ICDT RRTN one that
// was sent back.
type Type struct {
	Domain, Family, SubFamily string
	Own                       string // the bank's own code
}

// Returned says whether it is the return of an earlier payment.
func (t Type) Returned() bool { return t.SubFamily == "RRTN" || t.SubFamily == "PRRT" }

// Batch names the group of payments that a booking is of, by what its order called it.
type Batch struct {
	MessageID     string `xml:"MsgId,omitempty"`
	PaymentInfoID string `xml:"PmtInfId,omitempty"`
}

// Detail is one payment of a booking.
type Detail struct {
	MessageID      string // of the message that ordered it
	PaymentInfoID  string // of the group within that message
	InstructionID  string
	EndToEndID     string // "" also when the bank writes that there is none
	TransactionID  string
	Servicer       string
	UETR           string
	MandateID      string
	Amount         money.Amount // the booking's own when it has one detail without an amount
	Credit         bool
	Type           Type // the booking's own when the detail has none
	Charges        []Charge
	Debtor         Party
	UltimateDebtor string
	Creditor       Party
	Remittance     []string // lines of free text
	Creditors      []string // structured references: RF…, a creditor's own number
	ReturnReason   string   // why it came back: AC04; "" when it did not
	ReturnInfo     []string
	Info           string
}

// Names are all texts in which a name that the one who ordered the payment gave it may stand.
func (d Detail) Names() []string {
	return append([]string{d.EndToEndID, d.InstructionID, d.PaymentInfoID, d.MessageID, d.TransactionID, d.Servicer, d.Info}, d.Remittance...)
}

// Party is one end of a payment.
type Party struct {
	Name    string
	Account string // the IBAN, or a national number
	Bank    string // the BIC, or a national code
}

// Charge is what the bank took for a payment, or gave back.
type Charge struct {
	Amount money.Amount
	Credit bool
}

// The shapes of the messages. They serve all versions from 02 on: where a version moved something, both places stand here.
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
		Domain    *string `xml:"Domn>Cd"`
		Family    *string `xml:"Domn>Fmly>Cd"`
		SubFamily *string `xml:"Domn>Fmly>SubFmlyCd"`
		Own       *string `xml:"Prtry>Cd"`
	}
	status struct {
		Code string `xml:"Cd,omitempty"`
		Text string `xml:",chardata"` // up to version 03
	}
	party struct {
		Name  string  `xml:"Nm,omitempty"` // up to version 03
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
		Amount  *Amount  `xml:"Amt"` // up to version 03 each charge stands by itself
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

// ReadStatements reads a camt.052, camt.053 or camt.054 message: fn gets each statement at its beginning, without an entry, and then
// each of its entries in their order. The balances are known from the beginning on. What fn gets is its own to keep.
func ReadStatements(in io.Reader, fn func(*Statement, *Entry) error) error {
	r := newReader(in)
	kind, err := r.open()
	if err != nil {
		return err
	}
	inner := map[Message]string{BankStatement: "Stmt", AccountReport: "Rpt", Notification: "Ntfctn"}[kind]
	if inner == "" {
		return fmt.Errorf("iso20022: %.40q is no statement, report or notification of an account", kind)
	}
	file := ""
	for heads := 0; ; heads++ {
		if heads > maxHeads {
			return r.where(fmt.Errorf("%w: over %d statements", ErrTooMuch, maxHeads))
		}
		r.part()
		e, ok, err := r.child()
		if err != nil {
			return err
		}
		if !ok {
			return r.end()
		}
		switch e.Name.Local {
		case "GrpHdr":
			var head struct {
				ID string `xml:"MsgId"`
			}
			if err := r.decode(&head, e); err != nil {
				return err
			}
			file = strings.TrimSpace(head.ID)
		case inner:
			if err := r.statement(&Statement{Message: kind, File: file}, fn); err != nil {
				return err
			}
		default:
			if err := r.skip(); err != nil {
				return err
			}
		}
	}
}

// end reads what is behind the message, so that a truncated file is not taken for a whole one.
func (r *reader) end() error {
	for {
		_, err := r.d.Token()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return r.where(err)
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
	note := func(err error) {
		if s.Err == nil {
			s.Err = err
		}
	}
	for {
		r.unit()
		e, ok, err := r.child()
		if err != nil {
			return err
		}
		if !ok {
			return begin()
		}
		text := func(to *string) error {
			err := r.decode(to, e)
			*to = strings.TrimSpace(*to)
			return err
		}
		switch e.Name.Local {
		case "Id":
			err = text(&s.ID)
		case "ElctrncSeqNb":
			err = text(&s.Sequence)
		case "CreDtTm":
			var at string
			if err = text(&at); err == nil {
				s.Created, err = instant(at)
				note(err)
				err = nil
			}
		case "FrToDt":
			var period struct {
				From string `xml:"FrDtTm"`
				To   string `xml:"ToDtTm"`
			}
			if err = r.decode(&period, e); err == nil {
				var bad error
				if s.From, bad = instant(period.From); bad != nil {
					note(bad)
				}
				if s.To, bad = instant(period.To); bad != nil {
					note(bad)
				}
			}
		case "Acct":
			var a account
			err = r.decode(&a, e)
			s.Account, s.Currency, s.Owner, s.Bank = a.number(), strings.TrimSpace(a.Currency), said(a.Owner), either(said(a.BIC), said(a.OldBIC))
		case "Bal":
			if len(s.Balances) >= 100 {
				return r.where(fmt.Errorf("%w: over 100 balances", ErrTooMuch))
			}
			var b balance
			if err = r.decode(&b, e); err == nil {
				read, bad := b.read()
				if bad != nil {
					note(bad)
					continue
				}
				s.Balances = append(s.Balances, read)
			}
		case "Ntry":
			if err = begin(); err != nil {
				return err
			}
			r.part()
			var entry *Entry
			if entry, err = r.entry(); err == nil {
				err = fn(s, entry)
			}
		default:
			err = r.skip()
		}
		if err != nil {
			return err
		}
	}
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

// entry reads one booking, and one transaction of it at a time.
func (r *reader) entry() (*Entry, error) {
	var e Entry
	var amount Amount
	note := func(err error) {
		if e.Err == nil {
			e.Err = err
		}
	}
	var transactions []transaction
	sided := false
	for {
		start, ok, err := r.child()
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		text := func(to *string) error {
			err := r.decode(to, start)
			*to = strings.TrimSpace(*to)
			return err
		}
		day := func(to *time.Time) error {
			var d date
			if err := r.decode(&d, start); err != nil {
				return err
			}
			var bad error
			*to, bad = d.time()
			note(bad)
			return nil
		}
		switch start.Name.Local {
		case "NtryRef":
			err = text(&e.Reference)
		case "AcctSvcrRef":
			err = text(&e.Servicer)
		case "Amt":
			err = r.decode(&amount, start)
		case "CdtDbtInd":
			var side string
			err = text(&side)
			e.Credit, sided = side == "CRDT", side == "CRDT" || side == "DBIT"
		case "RvslInd":
			var word string
			err = text(&word)
			e.Reversal = word == "true" || word == "1"
		case "Sts":
			var st status
			err = r.decode(&st, start)
			e.Status = either(st.Code, st.Text)
		case "BookgDt":
			err = day(&e.Booked)
		case "ValDt":
			err = day(&e.Valued)
		case "BkTxCd":
			var t bookingType
			err = r.decode(&t, start)
			e.Type = t.read()
		case "AddtlNtryInf":
			err = text(&e.Info)
		case "NtryDtls":
			transactions, err = r.details(&e, transactions)
		default:
			err = r.skipWithin()
		}
		if err != nil {
			return nil, err
		}
	}
	var err error
	if e.Amount, err = amount.Money(); err != nil {
		note(err)
	}
	if !sided {
		note(errors.New("iso20022: the entry is neither credit nor debit"))
	}
	if !slices.Contains([]string{"BOOK", "PDNG", "INFO", "FUTR"}, e.Status) {
		note(fmt.Errorf("iso20022: nobody knows whether the entry is booked, its status is %.10q", e.Status))
	}
	for i := range transactions {
		e.Details = append(e.Details, transactions[i].read(&e, len(transactions) == 1, note))
	}
	return &e, nil
}

// skipWithin passes over an element of an entry, whose size counts for the entry.
func (r *reader) skipWithin() error { return r.where(r.d.Skip()) }

func (r *reader) details(of *Entry, all []transaction) ([]transaction, error) {
	for {
		r.unit()
		start, ok, err := r.child()
		if err != nil || !ok {
			return all, err
		}
		if start.Name.Local == "Btch" {
			var b Batch
			if err := r.decode(&b, start); err != nil {
				return all, err
			}
			if of.Batch == (Batch{}) {
				of.Batch = Batch{word(b.MessageID), word(b.PaymentInfoID)}
			}
			continue
		}
		if start.Name.Local != "TxDtls" {
			if err := r.skipWithin(); err != nil {
				return all, err
			}
			continue
		}
		if len(all) >= maxUnits {
			return all, r.where(fmt.Errorf("%w: over %d transactions in one entry", ErrTooMuch, maxUnits))
		}
		var t transaction
		if err := r.decode(&t, start); err != nil {
			return all, err
		}
		all = append(all, t)
	}
}

func (t *transaction) read(e *Entry, only bool, note func(error)) Detail {
	refs := t.References
	if refs == nil {
		refs = new(references)
	}
	d := Detail{
		MessageID: word(refs.MessageID), PaymentInfoID: word(refs.PaymentInfoID), InstructionID: word(refs.InstructionID),
		EndToEndID: word(refs.EndToEndID), TransactionID: word(refs.TransactionID), Servicer: word(refs.Servicer),
		UETR: word(refs.UETR), MandateID: word(refs.MandateID),
		Credit: e.Credit, Type: e.Type,
		Debtor: t.Debtor.read(t.DebtorAt, t.DebtorBank), Creditor: t.Creditor.read(t.CreditorAt, t.CreditBank), UltimateDebtor: t.Ultimate.name(),
		Info: strings.TrimSpace(t.Info),
	}
	if m := t.Remittance; m != nil {
		free := m.Free
		for _, s := range m.Structured {
			free = append(free, s.Free...)
			if ref := said(s.Reference); ref != "" {
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
			note(err)
		}
	case only:
		d.Amount = e.Amount
	default:
		note(errors.New("iso20022: one of several transactions has no amount"))
	}
	for _, c := range t.Charges {
		list := c.Records
		if c.Amount != nil {
			list = append(list, charge{*c.Amount, c.Side})
		}
		for _, c := range list {
			a, err := c.Amount.Money()
			if err != nil {
				note(err)
				continue
			}
			d.Charges = append(d.Charges, Charge{a, strings.TrimSpace(c.Side) == "CRDT"})
		}
	}
	return d
}

func (t bookingType) read() Type {
	return Type{said(t.Domain), said(t.Family), said(t.SubFamily), said(t.Own)}
}

func (a *account) number() string {
	if a == nil {
		return ""
	}
	return strings.ReplaceAll(either(said(a.IBAN), said(a.Other)), " ", "")
}

func (p *party) name() string {
	if p == nil {
		return ""
	}
	return either(either(said(p.Party), p.Name), said(p.Agent))
}

func (p *party) read(at *account, bank *agent) Party {
	who := Party{Name: p.name(), Account: at.number()}
	if bank != nil {
		who.Bank = either(either(said(bank.BIC), said(bank.OldBIC)), said(bank.Member))
	}
	return who
}

// said is a text that may be absent.
func said(s *string) string {
	if s == nil {
		return ""
	}
	return strings.TrimSpace(*s)
}

// some is the other way round.
func some(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// word is a reference; banks write NOTPROVIDED where there is none.
func word(s string) string {
	if s = strings.TrimSpace(s); s == "NOTPROVIDED" {
		return ""
	}
	return s
}

func either(a, b string) string {
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
