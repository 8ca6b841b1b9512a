// Package nacha writes files of ACH credits as Nacha's rules want them, and reads what comes back: returns and
// notifications of change.
//
// A file has one batch, or more where the sum is too large for one, of PPD entries (people) and of CCD entries (companies). Each is
// balanced: a debit of the originator's own account stands beside the credits, so the file moves money by itself. What comes back
// is foreign input: a file whose totals disagree with its entries is refused whole.
//
// The package knows the records only. What a return means is its callers' matter.
package nacha

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mozillazg/go-unidecode"
)

// hashModulus keeps the last ten digits of the sum of routing numbers, the entry hash of batches and files.
const hashModulus = 10_000_000_000

// Originator is who sends, by which bank, and which account pays.
type Originator struct {
	Name           string // of the company, 16 characters are sent
	ID             string // 10 characters, that the bank gave
	ODFI           string // routing number of the bank, 9 digits
	Account        string // that pays
	Savings        bool   // it is a savings account
	Destination    string // routing number of who takes the file, 9 digits
	DestinationFor string // its name
	Origin         string // who delivers the file, as the bank names it: 9 or 10 characters; the ID where it is empty
}

// File is credits that leave together.
type File struct {
	Originator
	Created   time.Time // in the bank's own zone
	Modifier  byte      // A to Z, 0 to 9: tells the files of one minute apart
	Reference string    // 8 characters of our own
	Effective time.Time // the day on which the money shall arrive
	Entries   []Entry
}

// Entry is one credit.
type Entry struct {
	ID      string // of the payment, up to 15 characters; it comes back with a return
	Name    string // of the receiver
	Routing string // 9 digits
	Account string // up to 17 characters
	Savings bool
	Company bool  // the receiver is one: the entry is CCD, else PPD
	Cents   int64 // up to 99,999,999.99 dollars
}

// MaxCents is the largest amount of one entry.
const MaxCents = 99_999_999_99

// Limits of the records.
const (
	maxLines = 9_999
	width    = 94
)

// batch is entries of one kind.
type batch struct {
	company bool
	cents   int64
	entries []Entry
}

// Write makes the file. It refuses what no bank takes, and says which entry it is.
func (f File) Write() ([]byte, error) {
	if !Routing(f.ODFI) || !Routing(f.Destination) {
		return nil, errors.New("nacha: the bank's routing numbers must be right")
	}
	if f.Account == "" || len(f.Account) > 17 || f.ID == "" || len(f.ID) > 10 || f.Effective.IsZero() || f.Created.IsZero() {
		return nil, errors.New("nacha: a file needs the originator's account and number, its day and its making")
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
	w.line("101"+ten(f.Destination)+ten(text(origin, 10))+f.Created.Format("060102")+f.Created.Format("1504")+string(f.Modifier)+"094101",
		left(f.DestinationFor, 23)+left(f.Name, 23)+left(f.Reference, 8))
	trace := 0
	var count, hash, total int64
	for i, b := range batches {
		number := zeros(int64(i+1), 7)
		kind, purpose := "PPD", "PAYROLL"
		if b.company {
			kind, purpose = "CCD", "PAYMENT"
		}
		w.line("5200"+left(f.Name, 16)+left("", 20)+left(f.ID, 10)+kind+left(purpose, 10)+f.Effective.Format("060102")+f.Effective.Format("060102")+"   1"+f.ODFI[:8]+number, "")
		var sum int64
		credit := func(code string, e Entry) {
			trace++
			w.line("6"+code+e.Routing+left(e.Account, 17)+zeros(e.Cents, 10)+left(e.ID, 15)+left(e.Name, 22)+"  0"+f.ODFI[:8]+zeros(int64(trace), 7), "")
			prefix, _ := strconv.ParseInt(e.Routing[:8], 10, 64)
			sum += prefix
		}
		for _, e := range b.entries {
			code := "22"
			if e.Savings {
				code = "32"
			}
			credit(code, e)
		}
		offset := "27"
		if f.Savings {
			offset = "37"
		}
		credit(offset, Entry{ID: f.Part(i + 1), Name: f.Name, Routing: f.ODFI, Account: f.Account, Cents: b.cents})
		n := int64(len(b.entries) + 1)
		w.line("8200"+zeros(n, 6)+zeros(sum%hashModulus, 10)+zeros(b.cents, 12)+zeros(b.cents, 12)+left(f.ID, 10)+left("", 25)+f.ODFI[:8]+number, "")
		count, hash, total = count+n, hash+sum, total+b.cents
	}
	blocks := (w.lines + 1 + 9) / 10
	w.line("9"+zeros(int64(len(batches)), 6)+zeros(int64(blocks), 6)+zeros(count, 8)+zeros(hash%hashModulus, 10)+zeros(total, 12)+zeros(total, 12)+left("", 39), "")
	for w.lines%10 != 0 {
		w.line(strings.Repeat("9", width), "")
	}
	return w.out.Bytes(), w.err
}

// batches divides the entries by kind, and where one debit could not pay for all.
func (f File) batches() ([]*batch, error) {
	if len(f.Entries) == 0 {
		return nil, errors.New("nacha: a file has entries")
	}
	var all []*batch
	open := map[bool]*batch{}
	for _, e := range f.Entries {
		switch {
		case e.Cents <= 0 || e.Cents > MaxCents:
			return nil, fmt.Errorf("nacha: entry %s is of %d cents; one can be of 1 to %d", e.ID, e.Cents, int64(MaxCents))
		case !Routing(e.Routing):
			return nil, fmt.Errorf("nacha: entry %s has no right routing number", e.ID)
		case e.Account == "" || len(e.Account) > 17:
			return nil, fmt.Errorf("nacha: entry %s has no account number of up to 17 characters", e.ID)
		case e.ID == "" || len(e.ID) > 15:
			return nil, fmt.Errorf("nacha: an entry's name %q has 1 to 15 characters", e.ID)
		}
		b := open[e.Company]
		if b == nil || b.cents+e.Cents > MaxCents || len(b.entries) >= maxLines {
			b = &batch{company: e.Company}
			open[e.Company] = b
			all = append(all, b)
		}
		b.cents += e.Cents
		b.entries = append(b.entries, e)
	}
	return all, nil
}

// Parts says in which batch, from 1, each entry stands: the originator's account is debited for one batch at a time, under the name
// that [File.Part] gives it.
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

// Part is the name of the debit of one batch.
func (f File) Part(n int) string { return fmt.Sprintf("%sB%05d", f.Reference, n) }

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

// text is what a record can hold of a name: letters without marks, digits, signs.
func text(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, unidecode.Unidecode(s))
	s = strings.TrimSpace(s)
	return strings.TrimSpace(s[:min(n, len(s))])
}

func left(s string, n int) string { return fmt.Sprintf("%-*s", n, text(s, n)) }
func ten(s string) string         { return fmt.Sprintf("%10s", s) }

func zeros(v int64, n int) string { return fmt.Sprintf("%0*d", n, v) }

// Routing says whether a routing number has nine digits, of which the last one fits.
func Routing(s string) bool {
	if len(s) != 9 || strings.Trim(s, "0123456789") != "" {
		return false
	}
	sum := 0
	for i, c := range []byte(s) {
		sum += int(c-'0') * [3]int{3, 7, 1}[i%3]
	}
	return sum%10 == 0
}
