// Package nacha writes files of ACH credits and debits under Nacha's rules. It also reads files of returns and
// notifications of change.
//
// A file has batches of PPD entries (people) and of CCD and CTX entries (companies), or of CCD and WEB debits. The
// entries of a batch have the same description and settlement day. There are several such batches if their total
// exceeds the limit of one entry, which is lower for entries that settle on the same day. Each batch is balanced: it
// has an entry on the originator's account for the sum of its entries, except batches of prenotes. Files that the
// package reads come from outside and are not trusted: if the totals of a file do not match its entries, the whole
// file is rejected.
//
// The package only encodes and decodes records. Callers decide on the effect of a return. [Inspect] applies the rules
// of a bank that receives a file.
package nacha

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mozillazg/go-unidecode"
)

// hashModulus limits the entry hash, the sum of routing numbers, of batches and files to ten digits.
const hashModulus = 10_000_000_000

// Originator is the sender of a file, with its bank and account.
type Originator struct {
	Name            string // company name; 16 characters are sent
	ID              string // company identification, up to 10 characters, assigned by the bank
	ODFI            string // routing number of the originator's bank, 9 digits
	Account         string // debited for each batch
	Savings         bool   // whether Account is a savings account
	Destination     string // immediate destination: routing number of the recipient of the file, 9 digits
	DestinationName string // name of the immediate destination
	Origin          string // immediate origin, 9 or 10 characters, assigned by the bank; default: ID
}

// File is a file of credits that one company pays, or of debits for one company.
type File struct {
	Originator
	Payer     string    // paying company, shown to the receiver; 16 characters are sent; default: Name
	Created   time.Time // in the bank's time zone
	Modifier  byte      // A to Z or 0 to 9; distinguishes files created in the same minute
	Reference string    // reference of the file, 8 characters
	Entries   []Entry
}

// Entry is one credit or debit.
type Entry struct {
	ID          string // reference of the payment, up to 15 characters; repeated in a return
	Name        string // name of the receiver
	Routing     string // routing number, 9 digits
	Account     string // up to 17 characters
	Savings     bool
	Company     bool      // the receiver is a company: the entry is CCD, otherwise PPD
	Prenote     bool      // checks the account: Cents is zero
	Reversal    bool      // reverses an earlier entry: the receiver's account is debited
	Cents       int64     // up to 99,999,999.99 dollars
	Description string    // company entry description, shown to the receiver: [Payroll] or another
	Effective   time.Time // day on which the money should arrive
	Window      string    // descriptive date that asks for a window of same-day ACH, see [SameDayWindows]; "" for none
	Addenda     string    // payment-related information, see [Remittance]; "" for none
	// CTX makes an entry to a company a CTX entry, whose Addenda is an [Advice] in several records.
	CTX   bool
	Debit Debit
}

// Debit is the kind of a debit entry.
type Debit string

// Kinds of debit entries. An Entry without a kind is a credit.
const (
	CompanyDebit Debit = "CCD" // debit of a company's account
	WebDebit     Debit = "WEB" // debit of a consumer's account, authorized on the internet for repeated debits
)

// MaxCents is the largest amount of one entry.
const MaxCents = 99_999_999_99

// Company entry descriptions, of at most ten characters. Nacha defines PAYROLL for PPD credits that pay wages,
// salaries and similar compensation; RETRY PYMT for a debit that repeats a returned debit; and PURCHASE for purchases
// of goods on the internet: WEB debits, or other classes where the rule on standing authorizations permits it. This
// package does not write PURCHASE, because its debits fund accounts. Prenote describes prenotes.
const (
	Payroll = "PAYROLL"
	Vendor  = "VENDOR PMT"
	Other   = "PAYMENT"
	Prenote = "PRENOTE"
	// Reversal is the description that Nacha requires for the reversal of an entry.
	Reversal = "REVERSAL"
	Funding  = "FUNDING" // a debit that funds the account of a company
	Retry    = "RETRY PYMT"

	purchase = "PURCHASE"
)

// SameDayMaxCents is the largest amount of one entry that settles on the day on which the bank receives it. It limits
// credits and debits, including the entry on the originator's account. Nacha does not limit the sum of entries.
const SameDayMaxCents = 1_000_000_00

// SameDayWindow is a window of same-day ACH: a part of the day in which entries settle on the same day.
type SameDayWindow struct {
	Deadline time.Duration // time of day in New York by which banks must have sent entries
	Date     string        // company descriptive date that asks the bank for this window: SD and the time of settlement
}

// Closes returns the time by which banks must have sent the entries of a day. newYork is the time zone of New York.
func (w SameDayWindow) Closes(day time.Time, newYork *time.Location) time.Time {
	return time.Date(day.Year(), day.Month(), day.Day(), int(w.Deadline.Hours()), int(w.Deadline.Minutes())%60, 0, 0,
		newYork)
}

// SameDayWindows are the windows of a business day.
var SameDayWindows = [...]SameDayWindow{
	{10*time.Hour + 30*time.Minute, "SD1300"}, {14*time.Hour + 45*time.Minute, "SD1700"},
	{16*time.Hour + 45*time.Minute, "SD1800"},
}

// addendaWidth is the number of characters of payment-related information in an addenda record.
const addendaWidth = 80

// Remittance returns payment-related information as one segment of ANSI X12, as Nacha requires in addenda records:
// the number of the paid invoice with the amount or, without an invoice, a note. It returns "" if there is neither.
func Remittance(invoice, note string, cents int64) string {
	clean := func(s string, n int) string { // a text must not contain the separators of a segment
		return ascii(strings.NewReplacer("*", " ", "\\", " ", "~", " ").Replace(unidecode.Unidecode(s)), n)
	}
	if number := clean(invoice, 30); number != "" {
		return fmt.Sprintf("RMR*IV*%s**%d.%02d\\", number, cents/100, cents%100)
	}
	if text := clean(note, 60); text != "" {
		return "NTE*PMT*" + text + "\\"
	}
	return ""
}

// Limits of records.
const (
	maxLines = 9_999
	width    = 94
)

// batch is a batch of entries of one kind.
type batch struct {
	kind
	cents   int64
	records int // entry and addenda records
	entries []Entry
}

// kind has the properties that all entries of a batch share.
type kind struct {
	class       string
	debit       bool
	description string
	effective   time.Time
	window      string
	prenote     bool
	reversal    bool
}

// codes returns the transaction codes of the entries and of the originator's entry, for checking accounts. Codes for
// savings accounts are higher by ten.
func (k kind) codes() (entry, offset int) {
	switch {
	case k.prenote:
		return 23, 0
	case k.reversal || k.debit:
		return 27, 22
	}
	return 22, 27
}

// Write returns the encoded file. If a bank would not accept an entry, Write returns an error that names it.
func (f File) Write() ([]byte, error) {
	if !ValidRoutingNumber(f.ODFI) || !ValidRoutingNumber(f.Destination) {
		return nil, errors.New("nacha: a routing number of the bank is invalid")
	}
	if f.Account == "" || len(f.Account) > 17 || f.ID == "" || len(f.ID) > 10 || f.Created.IsZero() {
		return nil, errors.New("nacha: the originator's account or identification, or the creation time is missing")
	}
	batches, err := f.batches()
	if err != nil {
		return nil, err
	}
	origin := f.Origin
	if origin == "" {
		origin = f.ID
	}
	w := &writer{}
	w.line("101"+padLeft10(f.Destination)+padLeft10(ascii(origin,
		10))+f.Created.Format("060102")+f.Created.Format("1504")+string(f.Modifier)+"094101",
		padRight(f.DestinationName, 23)+padRight(f.Name, 23)+padRight(f.Reference, 8))
	trace := 0
	var count, hash, total int64
	for i, b := range batches {
		number := zeroPadded(int64(i+1), 7)
		service := "200"
		if b.prenote {
			service = "220" // without a debit
		}
		day := b.effective.Format("060102")
		w.line("5"+service+padRight(cmp.Or(f.Payer, f.Name), 16)+padRight(f.Name, 20)+padRight(f.ID, 10)+b.class+
			padRight(b.description, 10)+cmp.Or(b.window, day)+day+"   1"+f.ODFI[:8]+number, "")
		var sum int64
		write := func(code string, e Entry) {
			trace++
			addenda, records := "0", e.addenda()
			if len(records) > 0 {
				addenda = "1"
			}
			receiver := padRight(e.Name, 22)
			if b.class == classCTX {
				receiver = zeroPadded(int64(len(records)), 4) + padRight(e.Name, 16) + "  "
			}
			terms := "  "
			if e.Debit == WebDebit {
				terms = "R " // the authorization is for repeated debits
			}
			w.line("6"+code+e.Routing+padRight(e.Account, 17)+zeroPadded(e.Cents, 10)+padRight(e.ID, 15)+receiver+
				terms+addenda+f.ODFI[:8]+zeroPadded(int64(trace), 7), "")
			for i, text := range records {
				w.line("705"+fmt.Sprintf("%-*s", addendaWidth, text)+zeroPadded(int64(i+1), 4)+zeroPadded(int64(trace), 7), "")
			}
			prefix, _ := strconv.ParseInt(e.Routing[:8], 10, 64)
			sum += prefix
		}
		for _, e := range b.entries {
			code, _ := b.codes()
			if e.Savings {
				code += 10
			}
			write(strconv.Itoa(code), e)
		}
		_, offset := b.codes()
		if f.Savings {
			offset += 10
		}
		n := int64(b.records)
		if !b.prenote {
			write(strconv.Itoa(offset), Entry{ID: f.Part(i + 1), Name: f.Name, Routing: f.ODFI, Account: f.Account,
				Cents: b.cents})
			n++
		}
		w.line("8"+service+zeroPadded(n, 6)+zeroPadded(sum%hashModulus, 10)+zeroPadded(b.cents, 12)+zeroPadded(b.cents,
			12)+padRight(f.ID, 10)+padRight("", 25)+f.ODFI[:8]+number, "")
		count, hash, total = count+n, hash+sum, total+b.cents
	}
	blocks := (w.lines + 1 + 9) / 10
	w.line("9"+zeroPadded(int64(len(batches)), 6)+zeroPadded(int64(blocks), 6)+zeroPadded(count,
		8)+zeroPadded(hash%hashModulus, 10)+zeroPadded(total, 12)+zeroPadded(total, 12)+padRight("", 39), "")
	for w.lines%10 != 0 {
		w.line(strings.Repeat("9", width), "")
	}
	return w.out.Bytes(), w.err
}

// class returns the standard entry class of an entry.
func (e Entry) class() string {
	switch {
	case e.Debit != "":
		return string(e.Debit)
	case e.CTX:
		return classCTX
	case e.Company:
		return "CCD"
	}
	return "PPD"
}

// addenda returns the payment-related information of the entry's addenda records.
func (e Entry) addenda() (all []string) {
	text := ascii(e.Addenda, len(e.Addenda))
	for len(text) > addendaWidth {
		all, text = append(all, text[:addendaWidth]), text[addendaWidth:]
	}
	if text != "" {
		all = append(all, text)
	}
	return all
}

// limit returns the largest amount of an entry of a kind, in cents.
func (k kind) limit(created time.Time) int64 {
	if k.window != "" || k.effective.Format(time.DateOnly) == created.Format(time.DateOnly) {
		return SameDayMaxCents
	}
	return MaxCents
}

// batches groups the entries by kind. It starts a new batch when the originator's entry of a batch would exceed the
// limit.
func (f File) batches() ([]*batch, error) {
	if len(f.Entries) == 0 {
		return nil, errors.New("nacha: a file must have entries")
	}
	var all []*batch
	open := map[kind]*batch{}
	for _, e := range f.Entries {
		switch {
		case e.Reversal != (e.Description == Reversal):
			return nil, fmt.Errorf("nacha: entry %s is described as a reversal or is one, but not both", e.ID)
		case e.Prenote && (e.Cents != 0 || e.Addenda != ""):
			return nil, fmt.Errorf("nacha: the prenote %s has an amount or an addenda", e.ID)
		case !e.Prenote && (e.Cents <= 0 || e.Cents > MaxCents):
			return nil, fmt.Errorf("nacha: entry %s has %d cents; want 1 to %d", e.ID, e.Cents, int64(MaxCents))
		case !ValidRoutingNumber(e.Routing):
			return nil, fmt.Errorf("nacha: entry %s has an invalid routing number", e.ID)
		case e.Account == "" || len(e.Account) > 17:
			return nil, fmt.Errorf("nacha: the account number of entry %s must have 1 to 17 characters", e.ID)
		case e.ID == "" || len(e.ID) > 15:
			return nil, fmt.Errorf("nacha: entry ID %q must have 1 to 15 characters", e.ID)
		case e.Effective.IsZero():
			return nil, fmt.Errorf("nacha: entry %s has no effective date", e.ID)
		case e.Description == "" || len(e.Description) > 10 || len(e.Addenda) > addendaWidth && !e.CTX:
			return nil, fmt.Errorf("nacha: entry %s needs a description of at most 10 characters, and an addenda of at most %d",
				e.ID, addendaWidth)
		case e.CTX && (!e.Company || e.Debit != "" || e.Prenote || len(e.addenda()) > maxLines):
			return nil, fmt.Errorf("nacha: the CTX entry %s is not a payment to a company with up to %d addenda", e.ID, maxLines)
		case e.Company && e.Description == Payroll:
			return nil, fmt.Errorf("nacha: entry %s pays a company, so it is not payroll", e.ID)
		case e.Debit != "" && e.Debit != CompanyDebit && e.Debit != WebDebit || e.Debit == WebDebit && e.Addenda != "":
			return nil, fmt.Errorf("nacha: entry %s is a debit of the unknown kind %q, or has an addenda", e.ID, e.Debit)
		case (e.Debit == "") != (f.Entries[0].Debit == ""):
			return nil, fmt.Errorf("nacha: entry %s is in a file of credits and debits", e.ID)
		case e.Debit != "" && (e.Prenote || e.Reversal):
			return nil, fmt.Errorf("nacha: entry %s is a prenote or reversal of a debit", e.ID)
		}
		k := kind{e.class(), e.Debit != "", e.Description, e.Effective, e.Window, e.Prenote, e.Reversal}
		if e.Cents > k.limit(f.Created) {
			return nil, fmt.Errorf("nacha: entry %s is too large to settle on the same day", e.ID)
		}
		b := open[k]
		if b == nil || b.cents+e.Cents > k.limit(f.Created) || len(b.entries) >= maxLines {
			b = &batch{kind: k}
			open[k] = b
			all = append(all, b)
		}
		b.cents += e.Cents
		b.records += 1 + len(e.addenda())
		b.entries = append(b.entries, e)
	}
	return all, nil
}

// Parts returns the number, from 1, of the batch of each entry. The originator's account has one entry per batch,
// with the ID that [File.Part] returns.
func (f File) Parts() ([]int, error) {
	all, err := f.batches()
	at := map[string]int{}
	for i, b := range all {
		for _, e := range b.entries {
			at[e.ID] = i + 1
		}
	}
	parts := make([]int, len(f.Entries))
	for i, e := range f.Entries {
		parts[i] = at[e.ID]
	}
	return parts, err
}

// Part returns the ID of the originator's entry of a batch.
func (f File) Part(n int) string { return fmt.Sprintf("%sB%05d", f.Reference, n) }

// Schedule states when the entries of a batch settle.
type Schedule struct {
	Effective time.Time
	Window    string // descriptive date that asks for a window of same-day ACH, or ""
}

// Schedules returns the schedule of each batch of a file that this package wrote.
func Schedules(file []byte) (all []Schedule) {
	for l := range strings.SplitSeq(string(file), "\n") {
		if len(l) != width || l[0] != '5' {
			continue
		}
		day, err := time.Parse("060102", l[69:75])
		if err != nil {
			continue
		}
		s := Schedule{Effective: day}
		if window := strings.TrimSpace(l[63:69]); strings.HasPrefix(window, "SD") {
			s.Window = window
		}
		all = append(all, s)
	}
	return all
}

type writer struct {
	out   bytes.Buffer
	lines int
	err   error
}

func (w *writer) line(record, rest string) {
	record += rest
	if len(record) != width && w.err == nil {
		w.err = fmt.Errorf("nacha: record %d has %d characters, not %d", w.lines+1, len(record), width)
	}
	w.out.WriteString(record)
	w.out.WriteByte('\n')
	w.lines++
}

// ascii transliterates s to printable ASCII characters and truncates it to n.
func ascii(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, unidecode.Unidecode(s))
	s = strings.TrimSpace(s)
	return strings.TrimSpace(s[:min(n, len(s))])
}

func padRight(s string, n int) string { return fmt.Sprintf("%-*s", n, ascii(s, n)) }
func padLeft10(s string) string       { return fmt.Sprintf("%10s", s) }

func zeroPadded(v int64, n int) string { return fmt.Sprintf("%0*d", n, v) }

// ValidRoutingNumber reports whether s has nine digits and a correct check digit.
func ValidRoutingNumber(s string) bool {
	if len(s) != 9 || strings.Trim(s, "0123456789") != "" {
		return false
	}
	sum := 0
	for i, c := range []byte(s) {
		sum += int(c-'0') * [3]int{3, 7, 1}[i%3]
	}
	return sum%10 == 0
}
