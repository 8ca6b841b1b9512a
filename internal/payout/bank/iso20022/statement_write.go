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

// written has the kinds of messages that this package writes, with their names in the XML namespace and the names of
// their account element.
var written = map[Message]struct{ name, element string }{
	BankStatement: {"camt.053.001.08", "Stmt"}, Notification: {"camt.054.001.08", "Ntfctn"},
}

// StatementWriter writes a camt.053.001.08 message with one statement, or a camt.054.001.08 message with one
// notification, entry by entry.
type StatementWriter struct {
	out *xml.Encoder
	end []xml.EndElement
}

// WriteStatement writes the head of a statement or, if s.Message is Notification, of a notification, which has no
// balances. File, ID, Created and Account are required; period and balances are optional. Call Entry for each entry,
// then Close.
func WriteStatement(w io.Writer, s Statement) (*StatementWriter, error) {
	if s.Message == "" {
		s.Message = BankStatement
	}
	kind, ok := written[s.Message]
	if !ok || s.Message == Notification && len(s.Balances) > 0 {
		return nil, fmt.Errorf("iso20022: a message %q with %d balances is not written", s.Message, len(s.Balances))
	}
	if s.Created.IsZero() || s.Account == "" {
		return nil, errors.New("iso20022: a statement must have an account and a creation time")
	}
	if err := checkIDs(s.File, s.ID); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return nil, err
	}
	sw := &StatementWriter{out: xml.NewEncoder(w)}
	sw.out.Indent("", " ")
	sw.open("Document", xml.Attr{Name: xml.Name{Local: "xmlns"}, Value: namespace + kind.name})
	sw.open(string(s.Message))
	created := formatTime(s.Created)
	sw.put("GrpHdr", struct {
		ID      string `xml:"MsgId"`
		Created string `xml:"CreDtTm"`
	}{s.File, created})
	sw.open(kind.element)
	sw.put("Id", s.ID)
	if s.Sequence != "" {
		sw.put("ElctrncSeqNb", s.Sequence)
	}
	sw.put("CreDtTm", created)
	if !s.From.IsZero() && !s.To.IsZero() {
		sw.put("FrToDt", struct {
			From string `xml:"FrDtTm"`
			To   string `xml:"ToDtTm"`
		}{formatTime(s.From), formatTime(s.To)})
	}
	at := accountOf(s.Account)
	at.Currency, at.Owner, at.BIC = s.Currency, optional(truncate(s.Owner, 140)), optional(s.Bank)
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

// Entry writes one entry. The amount must not be negative; Credit states the direction.
func (w *StatementWriter) Entry(e Entry) error {
	if e.Amount.Sign() < 0 {
		return fmt.Errorf("iso20022: entry %s: the amount %s %s is negative", e.Reference, e.Amount, e.Amount.Asset())
	}
	if e.Status == "" {
		e.Status = "BOOK"
	}
	entry := struct {
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
		Reference: truncate(e.Reference, 35), Amount: amountOf(e.Amount), Side: sideOf(e.Credit), Reversal: e.Reversal,
		Status: status{Code: e.Status},
		Booked: dayOf(e.Booked), Valued: dayOf(e.Valued), Servicer: truncate(e.Servicer, 35), Type: e.Type.toXML(),
		Info: truncate(e.Info, 500),
	}
	if e.Batch != (Batch{}) || len(e.Details) > 0 {
		entry.Details = new(entryDetails)
	}
	if e.Batch != (Batch{}) {
		entry.Details.Batch = &Batch{truncate(e.Batch.MessageID, 35), truncate(e.Batch.PaymentInfoID, 35)}
	}
	for _, d := range e.Details {
		entry.Details.Payments = append(entry.Details.Payments, d.toXML(e))
	}
	return w.out.EncodeElement(entry, xml.StartElement{Name: xml.Name{Local: "Ntry"}})
}

type entryDetails struct {
	Batch    *Batch        `xml:"Btch"`
	Payments []transaction `xml:"TxDtls"`
}

// Close ends the statement and the message and returns the first error of writing the head.
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

// open starts an element. It ignores errors, because the encoder returns its first error again in Close.
func (w *StatementWriter) open(name string, attrs ...xml.Attr) {
	start := xml.StartElement{Name: xml.Name{Local: name}, Attr: attrs}
	_ = w.out.EncodeToken(start)
	w.end = append(w.end, start.End())
}

func (w *StatementWriter) put(name string, v any) {
	_ = w.out.EncodeElement(v, xml.StartElement{Name: xml.Name{Local: name}})
}

func (d Detail) toXML(e Entry) transaction {
	amount := d.Amount
	if amount.Asset() == "" {
		amount = e.Amount
	}
	xmlAmount := amountOf(amount)
	t := transaction{
		References: &references{MessageID: truncate(d.MessageID, 35), Servicer: truncate(d.Servicer, 35),
			PaymentInfoID: truncate(d.PaymentInfoID, 35),
			InstructionID: truncate(d.InstructionID, 35), EndToEndID: truncate(d.EndToEndID, 35), UETR: d.UETR,
			TransactionID: truncate(d.TransactionID, 35),
			MandateID:     truncate(d.MandateID, 35)},
		Amount: &xmlAmount, Side: sideOf(d.Credit),
		Debtor: partyOf(d.Debtor.Name), DebtorAt: accountAt(d.Debtor.Account), Ultimate: partyOf(d.UltimateDebtor),
		Creditor: partyOf(d.Creditor.Name), CreditorAt: accountAt(d.Creditor.Account),
		DebtorBank: agentOf(d.Debtor.Bank), CreditBank: agentOf(d.Creditor.Bank), Info: truncate(d.Info, 500),
	}
	if *t.References == (references{}) {
		t.References = nil
	}
	if d.Type != (Type{}) && d.Type != e.Type {
		own := d.Type.toXML()
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
		t.Remittance.Free = append(t.Remittance.Free, truncate(line, 140))
	}
	for _, ref := range d.Creditors {
		t.Remittance.Structured = append(t.Remittance.Structured, structured{Reference: optional(truncate(ref, 35))})
	}
	if d.ReturnReason != "" {
		t.Return = &returned{Reason: &code{Code: truncate(d.ReturnReason, 4)}}
		for _, line := range d.ReturnInfo {
			t.Return.Info = append(t.Return.Info, truncate(line, 105))
		}
	}
	return t
}

// toXML encodes an unknown type as "not available".
func (t Type) toXML() bookingType {
	if t == (Type{}) {
		t = Type{Domain: "XTND", Family: "NTAV", SubFamily: "NTAV"}
	}
	return bookingType{optional(t.Domain), optional(t.Family), optional(t.SubFamily), optional(t.Proprietary)}
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
	return &party{Party: optional(truncate(name, 140))}
}

func accountAt(number string) *account {
	if number == "" {
		return nil
	}
	a := accountOf(number)
	return &a
}

// accountOf returns an account identified by its IBAN or local number.
func accountOf(number string) account {
	if IsIBAN(number) {
		return account{IBAN: &number}
	}
	return account{Other: optional(truncate(number, 34))}
}

func agentOf(bank string) *agent {
	switch {
	case bank == "":
		return nil
	case IsBIC(bank):
		return &agent{BIC: &bank}
	}
	return &agent{Member: optional(truncate(bank, 35))}
}

// IsIBAN reports whether s has the form and check digits of an IBAN.
func IsIBAN(s string) bool {
	if len(s) < 15 || len(s) > 34 || !letters(s[:2]) || !digits(s[2:4]) {
		return false
	}
	return mod97(s[4:]+s[:4]) == 1
}

// mod97 returns the remainder modulo 97 of digits and capital letters, which count as 10 to 35, or -1 for any other
// character (ISO/IEC 7064).
func mod97(s string) int {
	sum := 0
	for _, c := range []byte(s) {
		switch {
		case c >= '0' && c <= '9':
			sum = (sum*10 + int(c-'0')) % 97
		case c >= 'A' && c <= 'Z':
			sum = (sum*100 + int(c-'A') + 10) % 97
		default:
			return -1
		}
	}
	return sum
}

// IsBIC reports whether s has the form of a BIC.
func IsBIC(s string) bool {
	return (len(s) == 8 || len(s) == 11) && letters(s[:6]) &&
		strings.Trim(s[6:], "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == ""
}

func letters(s string) bool { return strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" }
func digits(s string) bool  { return strings.Trim(s, "0123456789") == "" }

// checkIDs returns an error unless all IDs have 1 to 35 characters.
func checkIDs(ids ...string) error {
	for _, id := range ids {
		if id == "" || utf8.RuneCountInString(id) > 35 {
			return fmt.Errorf("iso20022: the ID %.60q must have 1 to 35 characters", id)
		}
	}
	return nil
}

// truncate trims s and shortens it to n characters.
func truncate(s string, n int) string {
	s = strings.TrimSpace(s)
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return strings.TrimSpace(string([]rune(s)[:n]))
}

func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }
