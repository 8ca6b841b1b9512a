package iso20022

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

const namespaceStatement = "urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"

// StatementWriter writes one statement of one account, as camt.053.001.08, entry by entry.
type StatementWriter struct {
	out *xml.Encoder
	end []xml.EndElement
}

// WriteStatement writes the head of a statement. Its file, id, creation and account must be given; a period and the balances
// are written when they are. Entries follow, then Close.
func WriteStatement(w io.Writer, s Statement) (*StatementWriter, error) {
	if s.Created.IsZero() || s.Account == "" {
		return nil, errors.New("iso20022: a statement says of which account it is and when it was made")
	}
	if err := identifiers(s.File, s.ID); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return nil, err
	}
	sw := &StatementWriter{out: xml.NewEncoder(w)}
	sw.out.Indent("", " ")
	sw.open("Document", xml.Attr{Name: xml.Name{Local: "xmlns"}, Value: namespaceStatement})
	sw.open(string(BankStatement))
	created := instantText(s.Created)
	sw.put("GrpHdr", struct {
		ID      string `xml:"MsgId"`
		Created string `xml:"CreDtTm"`
	}{s.File, created})
	sw.open("Stmt")
	sw.put("Id", s.ID)
	if s.Sequence != "" {
		sw.put("ElctrncSeqNb", s.Sequence)
	}
	sw.put("CreDtTm", created)
	if !s.From.IsZero() && !s.To.IsZero() {
		sw.put("FrToDt", struct {
			From string `xml:"FrDtTm"`
			To   string `xml:"ToDtTm"`
		}{instantText(s.From), instantText(s.To)})
	}
	at := accountOf(s.Account)
	at.Currency, at.Owner, at.BIC = s.Currency, some(cut(s.Owner, 140)), some(s.Bank)
	sw.put("Acct", at)
	for _, b := range s.Balances {
		side, amount := "CRDT", b.Amount
		if amount.Sign() < 0 {
			side, amount = "DBIT", amount.Neg()
		}
		sw.put("Bal", balance{Type: code{Code: b.Type}, Amount: amountOf(amount), Side: side, Date: dayOf(b.Day)})
	}
	return sw, nil
}

// Entry writes one booking. Its amount is positive; its side is said by Credit.
func (w *StatementWriter) Entry(e Entry) error {
	if e.Amount.Sign() < 0 {
		return fmt.Errorf("iso20022: entry %s: a booking of %s %s has no side", e.Reference, e.Amount, e.Amount.Asset())
	}
	if e.Status == "" {
		e.Status = "BOOK"
	}
	shape := struct {
		Reference string        `xml:"NtryRef,omitempty"`
		Amount    Amount        `xml:"Amt"`
		Side      string        `xml:"CdtDbtInd"`
		Reversal  bool          `xml:"RvslInd,omitempty"`
		Status    status        `xml:"Sts"`
		Booked    *date         `xml:"BookgDt"`
		Valued    *date         `xml:"ValDt"`
		Servicer  string        `xml:"AcctSvcrRef,omitempty"`
		Type      bookingType   `xml:"BkTxCd"`
		Details   *entryDetails `xml:"NtryDtls"`
		Info      string        `xml:"AddtlNtryInf,omitempty"`
	}{
		Reference: cut(e.Reference, 35), Amount: amountOf(e.Amount), Side: sideOf(e.Credit), Reversal: e.Reversal, Status: status{Code: e.Status},
		Booked: dayOf(e.Booked), Valued: dayOf(e.Valued), Servicer: cut(e.Servicer, 35), Type: e.Type.shape(), Info: cut(e.Info, 500),
	}
	if e.Batch != (Batch{}) || len(e.Details) > 0 {
		shape.Details = new(entryDetails)
	}
	if e.Batch != (Batch{}) {
		shape.Details.Batch = &Batch{cut(e.Batch.MessageID, 35), cut(e.Batch.PaymentInfoID, 35)}
	}
	for _, d := range e.Details {
		shape.Details.Payments = append(shape.Details.Payments, d.shape(e))
	}
	return w.out.EncodeElement(shape, xml.StartElement{Name: xml.Name{Local: "Ntry"}})
}

type entryDetails struct {
	Batch    *Batch        `xml:"Btch"`
	Payments []transaction `xml:"TxDtls"`
}

// Close ends the statement and the message.
func (w *StatementWriter) Close() error {
	for len(w.end) > 0 {
		last := w.end[len(w.end)-1]
		w.end = w.end[:len(w.end)-1]
		if err := w.out.EncodeToken(last); err != nil {
			return err
		}
	}
	return w.out.Close()
}

// open and put leave their errors to the encoder, which repeats the first one when it is closed.
func (w *StatementWriter) open(name string, attrs ...xml.Attr) {
	start := xml.StartElement{Name: xml.Name{Local: name}, Attr: attrs}
	_ = w.out.EncodeToken(start)
	w.end = append(w.end, start.End())
}

func (w *StatementWriter) put(name string, v any) {
	_ = w.out.EncodeElement(v, xml.StartElement{Name: xml.Name{Local: name}})
}

func (d Detail) shape(e Entry) transaction {
	amount := d.Amount
	if amount.Asset() == "" {
		amount = e.Amount
	}
	shaped := amountOf(amount)
	t := transaction{
		References: &references{MessageID: cut(d.MessageID, 35), Servicer: cut(d.Servicer, 35), PaymentInfoID: cut(d.PaymentInfoID, 35),
			InstructionID: cut(d.InstructionID, 35), EndToEndID: cut(d.EndToEndID, 35), UETR: d.UETR, TransactionID: cut(d.TransactionID, 35),
			MandateID: cut(d.MandateID, 35)},
		Amount: &shaped, Side: sideOf(d.Credit),
		Debtor: partyOf(d.Debtor.Name), DebtorAt: accountAt(d.Debtor.Account), Ultimate: partyOf(d.UltimateDebtor),
		Creditor: partyOf(d.Creditor.Name), CreditorAt: accountAt(d.Creditor.Account),
		DebtorBank: agentOf(d.Debtor.Bank), CreditBank: agentOf(d.Creditor.Bank), Info: cut(d.Info, 500),
	}
	if *t.References == (references{}) {
		t.References = nil
	}
	if d.Type != (Type{}) && d.Type != e.Type {
		own := d.Type.shape()
		t.Type = &own
	}
	if len(d.Charges) > 0 {
		list := charges{}
		for _, c := range d.Charges {
			list.Records = append(list.Records, charge{amountOf(c.Amount), sideOf(c.Credit)})
		}
		t.Charges = []charges{list}
	}
	if len(d.Remittance)+len(d.Creditors) > 0 {
		t.Remittance = new(remittance)
	}
	for _, line := range d.Remittance {
		t.Remittance.Free = append(t.Remittance.Free, cut(line, 140))
	}
	for _, ref := range d.Creditors {
		t.Remittance.Structured = append(t.Remittance.Structured, structured{Reference: some(cut(ref, 35))})
	}
	if d.ReturnReason != "" {
		t.Return = &returned{Reason: &code{Code: cut(d.ReturnReason, 4)}}
		for _, line := range d.ReturnInfo {
			t.Return.Info = append(t.Return.Info, cut(line, 105))
		}
	}
	return t
}

// shape writes that a type is not known where it is not.
func (t Type) shape() bookingType {
	if t == (Type{}) {
		t = Type{Domain: "XTND", Family: "NTAV", SubFamily: "NTAV"}
	}
	return bookingType{some(t.Domain), some(t.Family), some(t.SubFamily), some(t.Own)}
}

func sideOf(credit bool) string {
	if credit {
		return "CRDT"
	}
	return "DBIT"
}

func partyOf(name string) *party {
	if name == "" {
		return nil
	}
	return &party{Party: some(cut(name, 140))}
}

func accountAt(number string) *account {
	if number == "" {
		return nil
	}
	a := accountOf(number)
	return &a
}

// accountOf tells an IBAN from another number by its form.
func accountOf(number string) account {
	if IsIBAN(number) {
		return account{IBAN: &number}
	}
	return account{Other: some(cut(number, 34))}
}

func agentOf(bank string) *agent {
	switch {
	case bank == "":
		return nil
	case IsBIC(bank):
		return &agent{BIC: &bank}
	}
	return &agent{Member: some(cut(bank, 35))}
}

// IsIBAN says whether a number has the form and the check digits of an IBAN.
func IsIBAN(s string) bool {
	if len(s) < 15 || len(s) > 34 || !letters(s[:2]) || !digits(s[2:4]) {
		return false
	}
	sum := 0
	for _, c := range []byte(s[4:] + s[:4]) {
		switch {
		case c >= '0' && c <= '9':
			sum = (sum*10 + int(c-'0')) % 97
		case c >= 'A' && c <= 'Z':
			sum = (sum*100 + int(c-'A') + 10) % 97
		default:
			return false
		}
	}
	return sum == 1
}

// IsBIC says whether a text has the form of a BIC.
func IsBIC(s string) bool {
	return (len(s) == 8 || len(s) == 11) && letters(s[:6]) && strings.Trim(s[6:], "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == ""
}

func letters(s string) bool { return strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" }
func digits(s string) bool  { return strings.Trim(s, "0123456789") == "" }

// identifiers are the names that a message stands or falls with: 1 to 35 characters.
func identifiers(ids ...string) error {
	for _, id := range ids {
		if id == "" || utf8.RuneCountInString(id) > 35 {
			return fmt.Errorf("iso20022: %.60q is no identification: it has 1 to 35 characters", id)
		}
	}
	return nil
}

// cut shortens a text to what its place in a message holds.
func cut(s string, n int) string {
	s = strings.TrimSpace(s)
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return strings.TrimSpace(string([]rune(s)[:n]))
}

func instantText(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }
