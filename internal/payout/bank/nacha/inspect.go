package nacha

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Received is an entry of a file that a bank received.
type Received struct {
	ID, Account, Name, Trace string
	Routing                  string // routing number of the account's bank
	Class                    string // standard entry class
	Description              string // company entry description
	Company                  string // company name
	Effective                time.Time
	Cents                    int64
	Debit                    bool
	Prenote                  bool
	Addenda                  string // payment-related information
}

// ErrDay reports that entries cannot settle on the day or in the window that the file states.
var ErrDay = errors.New("nacha: the entries cannot settle at the stated time")

// Inspect checks a file of PPD, CCD, CTX and WEB entries in the way of a bank that receives the file at a time in the
// bank's zone, and returns the entries. Its error names the record that breaks a rule of Nacha. The error is [ErrDay]
// if the file would be valid at another time.
func Inspect(in []byte, at time.Time, isBankingDay func(time.Time) bool) ([]Received, error) {
	if _, err := Read(bytes.NewReader(in)); err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimRight(string(in), "\n"), "\n")
	switch {
	case len(lines)%10 != 0:
		return nil, fmt.Errorf("nacha: %d records are not a multiple of ten", len(lines))
	case !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "5") }):
		return nil, errors.New("nacha: the file has no batch")
	}
	b := inspection{at: at, blocks: len(lines) / 10, isBankingDay: isBankingDay}
	for i, l := range lines {
		if err := b.record(l); err != nil {
			return nil, fmt.Errorf("nacha: record %d: %w", i+1, err)
		}
	}
	return b.entries, nil
}

// inspection is the state of Inspect between two records.
type inspection struct {
	at           time.Time
	isBankingDay func(time.Time) bool
	blocks       int    // number of blocks of ten records
	number       string // number of the previous batch
	entries      []Received
	header       string // header record of the current batch
	batch        Received
	first        int  // index in entries of the first entry of the batch
	open         bool // an addenda record must follow
	more         int  // number of addenda records of a CTX entry that must still follow
	trace        string
	received     int    // number of addenda records of a CTX entry that were read
	window       string // descriptive date of the batch that asks for a window of same-day ACH, or ""
}

func (b *inspection) record(l string) error {
	if len(l) != width {
		return fmt.Errorf("it has %d characters, not %d", len(l), width)
	}
	if b.open != (l[0] == '7') {
		return errors.New("the addenda record indicator of an entry and its addenda records disagree")
	}
	switch l[0] {
	case '1':
		if l[34:40] != "094101" || !ValidRoutingNumber(strings.TrimSpace(l[3:13])) || strings.TrimSpace(l[13:23]) == "" {
			return errors.New("the destination, origin or format of the file header is invalid")
		}
	case '5':
		return b.batchHeader(l)
	case '6':
		return b.entry(l)
	case '7':
		return b.addenda(l)
	case '8':
		if l[1:4] != b.header[1:4] || l[44:54] != b.header[40:50] || l[79:] != b.header[79:] {
			return errors.New("the batch control record does not match the header of its batch")
		}
		return b.batchEnd()
	case '9':
		if blocks := l[7:13]; blocks != zeroPadded(int64(b.blocks), 6) && strings.Trim(l, "9") != "" {
			return fmt.Errorf("the file control record states %s blocks of ten records, but the file has %d", blocks, b.blocks)
		}
	}
	return nil
}

func (b *inspection) batchHeader(l string) error {
	b.header, b.trace, b.first = l, "", len(b.entries)
	b.batch = Received{Class: l[50:53], Description: strings.TrimSpace(l[53:63]), Company: strings.TrimSpace(l[4:20])}
	class := l[1:4]
	switch {
	case class != "200" && class != "220" && class != "225":
		return fmt.Errorf("the service class code %q is unknown", class)
	case !slices.Contains([]string{"PPD", "CCD", classCTX, string(WebDebit)}, b.batch.Class):
		return fmt.Errorf("the originator is not approved for the class %q", b.batch.Class)
	case l[87:] <= b.number:
		return fmt.Errorf("the batch number %s does not ascend", l[87:])
	case b.batch.Company == "" || strings.TrimSpace(l[40:50]) == "":
		return errors.New("the company name or identification is missing")
	case b.batch.Description == "":
		return errors.New("the company entry description is missing")
	case b.batch.Description == purchase && b.batch.Class != string(WebDebit):
		return errPurchase
	case b.batch.Description == Payroll && b.batch.Class != "PPD":
		return errPayroll
	}
	b.number = l[87:]
	day, err := time.Parse("060102", l[69:75])
	if err != nil || !b.isBankingDay(day) {
		return fmt.Errorf("%w: the effective entry date %q is not a banking day", ErrDay, l[69:75])
	}
	if today := b.at.Format(time.DateOnly); day.Format(time.DateOnly) < today {
		return fmt.Errorf("%w: the effective entry date %q is before the day on which the file arrived", ErrDay, l[69:75])
	}
	b.batch.Effective, b.window = day, ""
	if window := strings.TrimSpace(l[63:69]); strings.HasPrefix(window, "SD") {
		if windowAt(window) < 0 {
			return fmt.Errorf("the descriptive date %q asks for a window of same-day ACH that does not exist", window)
		}
		b.window = window
	}
	return nil
}

// Errors of batches whose description is not allowed.
var (
	errPayroll = errors.New("the description PAYROLL is for PPD credits")
	// The rule on standing authorizations permits PURCHASE in other classes too, but no originator is approved for them.
	errPurchase = errors.New("the originator is approved for the description PURCHASE in WEB debits only")
)

// batchEnd returns an error unless the last entry of a batch, on an account at the originator's bank, balances all
// other entries, which have the opposite direction. A batch of prenotes has no such entry.
func (b *inspection) batchEnd() error {
	all := b.entries[b.first:]
	if len(all) == 0 {
		return errors.New("the batch has no entry")
	}
	prenotes := 0
	for _, e := range all {
		if e.Prenote {
			prenotes++
		}
	}
	switch {
	case prenotes == len(all):
		return nil
	case prenotes > 0:
		return errors.New("the batch has prenotes and payments")
	}
	own := all[len(all)-1]
	sum := own.Cents
	for _, e := range all[:len(all)-1] {
		if sum -= e.Cents; e.Debit == own.Debit {
			return errors.New("the batch has entries in the direction of the one that balances it")
		}
	}
	switch {
	case sum != 0:
		return errors.New("the batch is not balanced by its last entry")
	case own.Routing[:8] != b.header[79:87]:
		return errors.New("the entry that balances the batch is on an account at another bank")
	case b.batch.Description == Payroll && !own.Debit:
		return errPayroll
	case b.batch.Description == purchase && own.Debit:
		return errPurchase
	case b.batch.Class == string(WebDebit) && own.Debit:
		return errors.New("a WEB credit is a payment between people, not of a company")
	}
	return nil
}

// windowAt returns the index of the window of same-day ACH that a descriptive date asks for, or -1 if it asks for
// none.
func windowAt(date string) int {
	return slices.IndexFunc(SameDayWindows[:], func(w SameDayWindow) bool { return w.Date == date })
}

func (b *inspection) entry(l string) error {
	e := b.batch
	e.Routing = l[3:12]
	e.Account, e.ID = strings.TrimSpace(l[12:29]), strings.TrimSpace(l[39:54])
	e.Name, e.Trace = strings.TrimSpace(l[54:76]), l[79:94]
	count := 1
	if e.Class == classCTX {
		e.Name = strings.TrimSpace(l[58:74])
		var err error
		if count, err = strconv.Atoi(l[54:58]); err != nil || (count > 0) != (l[78] == '1') {
			return fmt.Errorf("the number of addenda records %q of a CTX entry disagrees with its indicator", l[54:58])
		}
	}
	e.Cents, _ = strconv.ParseInt(l[29:39], 10, 64) // Read has already parsed the number
	code := l[1:3]
	e.Debit, e.Prenote = code == "27" || code == "37", code == "23" || code == "33"
	sameDay := e.Effective.Format(time.DateOnly) == b.at.Format(time.DateOnly)
	switch {
	case !e.Debit && !e.Prenote && code != "22" && code != "32":
		return fmt.Errorf("the transaction code %q is not supported", code)
	case !ValidRoutingNumber(l[3:12]):
		return fmt.Errorf("the routing number %q is invalid", l[3:12])
	case e.Account == "" || e.Name == "":
		return errors.New("the account number or the name is missing")
	case e.Prenote != (e.Cents == 0):
		return errors.New("the amount is zero, or a prenote has one")
	case e.Class == string(WebDebit) && e.Debit && l[76:78] != "R " && l[76:78] != "S ":
		return errors.New("a WEB debit must state whether it is single or recurring")
	case e.Trace[:8] != b.header[79:87] || e.Trace <= b.trace:
		return fmt.Errorf("the trace number %s does not ascend, or is of another bank", e.Trace)
	case b.header[1:4] == "220" && e.Debit || b.header[1:4] == "225" && !e.Debit:
		return errors.New("the entry does not match the service class code")
	case (sameDay || b.window != "") && e.Cents > SameDayMaxCents:
		return fmt.Errorf("%d cents are more than the limit of an entry that settles on the same day", e.Cents)
	case sameDay && !b.inTime():
		return fmt.Errorf("%w: the file arrived at %s, too late to settle on the same day or in the window %q", ErrDay,
			b.at.Format("15:04"), b.window)
	}
	b.trace, b.open, b.more = e.Trace, l[78] == '1', count
	b.entries = append(b.entries, e)
	return nil
}

// Find returns the entry with an ID in a file that this package wrote, and the name of the paying company.
func Find(file []byte, id string) (e Entry, payer string, ok bool) {
	var header string
	for _, l := range strings.Split(string(file), "\n") {
		switch {
		case len(l) != width:
		case l[0] == '5':
			header = l
		case l[0] == '6' && strings.TrimSpace(l[39:54]) == id && header != "":
			e = Entry{ID: id, Name: strings.TrimSpace(l[54:76]), Routing: l[3:12], Account: strings.TrimSpace(l[12:29]),
				Savings: l[1] == '3', Company: header[50:53] == "CCD" || header[50:53] == classCTX}
			if e.CTX = header[50:53] == classCTX; e.CTX {
				e.Name = strings.TrimSpace(l[58:74])
			}
			e.Cents, _ = strconv.ParseInt(l[29:39], 10, 64) // zero does not match any payment
			return e, strings.TrimSpace(header[4:20]), true
		}
	}
	return Entry{}, "", false
}

// segment matches the segments of ANSI X12 that this package writes.
var segment = regexp.MustCompile(`^(RMR\*IV\*[^*~\\]+\*\*[0-9]+\.[0-9]{2}|NTE\*PMT\*[^*~\\]+)\\$`)

func (b *inspection) addenda(l string) error {
	e := &b.entries[len(b.entries)-1]
	if e.Class == classCTX {
		return b.adviceRecord(e, l)
	}
	e.Addenda = strings.TrimSpace(l[3:83])
	switch {
	case l[1:3] != "05" || l[83:87] != "0001" || l[87:94] != e.Trace[8:]:
		return errors.New("the addenda record is not the first one of its entry")
	case !segment.MatchString(e.Addenda):
		return fmt.Errorf("the payment-related information %q is not a segment of ANSI X12", e.Addenda)
	}
	b.open = false
	return nil
}

// adviceRecord adds an addenda record to the advice of a CTX entry, and checks the advice after the last record.
func (b *inspection) adviceRecord(e *Received, l string) error {
	b.received++
	if l[1:3] != "05" || l[83:87] != zeroPadded(int64(b.received), 4) || l[87:94] != e.Trace[8:] {
		return errors.New("the addenda records of an entry are not numbered from 1")
	}
	e.Addenda += l[3:83]
	if b.received < b.more {
		return nil
	}
	b.open, b.received = false, 0
	e.Addenda = strings.TrimSpace(e.Addenda)
	return checkAdvice(e.Addenda, e.Cents)
}

// inTime reports whether the file arrived in time for the window of same-day ACH that its batch asks for. If the
// batch asks for no window, the last window counts.
func (b *inspection) inTime() bool {
	window := SameDayWindows[len(SameDayWindows)-1]
	if i := windowAt(b.window); i >= 0 {
		window = SameDayWindows[i]
	}
	return !window.Closes(b.at, b.at.Location()).Before(b.at.Truncate(time.Minute))
}
