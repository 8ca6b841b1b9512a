package bank

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
)

// booksDir has a directory for each currency. It contains the entries that the simulated bank booked on the
// operator's account, as messages whose names begin with the day, and the state of the account's statements.
const (
	booksDir  = "books"
	stateFile = "state.json"
)

// report states how the simulated bank reports entries that it books.
type report bool

const (
	notified report = true  // by a notification at once, and by the statement of the day
	stated   report = false // only by the statement of the day
)

// bookState is the state of an account's statements.
type bookState struct {
	Day      string `json:"day"`      // day of the newest statement; initially the day before the first entry
	Sequence int64  `json:"sequence"` // number of the newest statement
	Closing  int64  `json:"closing"`  // balance of the newest statement, in the smallest unit of the currency
}

// account returns the operator's account in a currency.
func (s *Sandbox) account(currency money.Asset) (Account, error) {
	for _, a := range s.accounts {
		if a.Currency == currency {
			return a, nil
		}
	}
	return Account{}, fmt.Errorf("sandbox bank: there is no account in %s", currency)
}

// book books entries on the operator's account in their currency. Repeated calls with the same name book only once,
// but repeat the notification.
func (s *Sandbox) book(name string, entries []iso20022.Entry, how report, now time.Time) error {
	if len(entries) == 0 {
		return nil
	}
	s.books.Lock()
	defer s.books.Unlock()
	a, err := s.account(entries[0].Amount.Asset())
	if err != nil {
		return err
	}
	dir := filepath.Join(s.root, booksDir, string(a.Currency))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	message, err := booked(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		message, err = addBooking(dir, a, name, entries, now)
	}
	if err != nil || how == stated {
		return err
	}
	return s.writeResponse(name+".2.notification.xml", message)
}

// booked returns the message about the entries with a name, or fs.ErrNotExist.
func booked(dir, name string) ([]byte, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if len(f.Name()) > len(time.DateOnly) && f.Name()[len(time.DateOnly):] == bookingName("", name) {
			return os.ReadFile(filepath.Join(dir, f.Name()))
		}
	}
	return nil, fs.ErrNotExist
}

// bookingName returns the name of the message about entries of a day.
func bookingName(day, name string) string { return day + "." + name + ".xml" }

// addBooking stores a message about entries of today, or of the first day without a statement if that is later, and
// returns it.
func addBooking(dir string, a Account, name string, entries []iso20022.Entry, now time.Time) ([]byte, error) {
	day := a.Day(now)
	state, known, err := readState(dir)
	if err != nil {
		return nil, err
	}
	if !known {
		state.Day = addDays(day, -1)
		if err := writeState(dir, state); err != nil {
			return nil, err
		}
	}
	if day <= state.Day {
		day = addDays(state.Day, 1)
	}
	date, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return nil, err
	}
	for i := range entries {
		entries[i].Booked, entries[i].Valued = date, date
	}
	id := truncatedID("NT" + strings.TrimSuffix(strings.TrimSuffix(name, ".xml"), ".ach"))
	message, err := writeEntries(iso20022.Statement{Message: iso20022.Notification, File: id, ID: id, Created: now,
		Account: a.Number, Currency: string(a.Currency)}, entries)
	if err != nil {
		return nil, err
	}
	return message, writeWhole(dir, bookingName(day, name), message)
}

// truncatedID cuts an ID to the length that a message can contain.
func truncatedID(id string) string { return id[:min(35, len(id))] }

func addDays(day string, n int) string {
	date, err := time.Parse(time.DateOnly, day)
	if err != nil { // cannot happen: the days are formatted by this package
		return day
	}
	return date.AddDate(0, 0, n).Format(time.DateOnly)
}

// writeEntries returns a statement or notification with entries.
func writeEntries(st iso20022.Statement, entries []iso20022.Entry) ([]byte, error) {
	var out bytes.Buffer
	w, err := iso20022.WriteStatement(&out, st)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if err := w.Entry(e); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// readState returns the state of an account's statements, and false if nothing was booked yet.
func readState(dir string) (state bookState, known bool, err error) {
	text, err := os.ReadFile(filepath.Join(dir, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return state, false, nil
	}
	if err != nil {
		return state, false, err
	}
	return state, true, json.Unmarshal(text, &state)
}

func writeState(dir string, state bookState) error {
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	return writeWhole(dir, stateFile, text)
}

// stateAccounts sends the statements of each account with entries. There is one statement for each past business day,
// and for each other day with entries. A month without entries that has ended before the statement of its first day
// was sent gets one statement for the whole month. A statement that is written again has the same content.
func (s *Sandbox) stateAccounts(now time.Time) error {
	s.books.Lock()
	defer s.books.Unlock()
	for _, a := range s.accounts {
		dir := filepath.Join(s.root, booksDir, string(a.Currency))
		own, err := s.account(a.Currency)
		if err != nil {
			return err
		}
		if own.Format != a.Format { // another format already handles this account
			continue
		}
		if err := s.stateAccount(a, dir, now); err != nil {
			return err
		}
	}
	return nil
}

// stateAccount sends the statements of one account.
func (s *Sandbox) stateAccount(a Account, dir string, now time.Time) error {
	state, known, err := readState(dir)
	today := a.Day(now)
	if err != nil || !known || addDays(state.Day, 1) >= today {
		return err
	}
	files, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return err
	}
	for from := addDays(state.Day, 1); from < today; {
		day := from
		if end := monthEnd(day); strings.HasSuffix(day, "-01") && end < today && !bookedWithin(files, day, end) {
			day = end
		}
		date, err := time.Parse(time.DateOnly, day)
		if err != nil {
			return err
		}
		var entries []iso20022.Entry
		for _, f := range files {
			if strings.HasPrefix(f.Name(), day+".") {
				some, err := readEntries(filepath.Join(dir, f.Name()))
				if err != nil {
					return err
				}
				entries = append(entries, some...)
			}
		}
		if len(entries) > 0 || day > from || a.Calendar.isBusinessDay(date) {
			if state, err = s.stateDays(a, from, day, state, entries); err != nil {
				return err
			}
			if err := writeState(dir, state); err != nil {
				return err
			}
		}
		from = addDays(day, 1)
	}
	return nil
}

// monthEnd returns the last day of the month of a day.
func monthEnd(day string) string {
	return addDays(addDays(day[:len("2006-01-")]+"01", 31)[:len("2006-01-")]+"01", -1)
}

// bookedWithin reports whether a file in files contains entries of a day from first to last.
func bookedWithin(files []fs.DirEntry, first, last string) bool {
	return slices.ContainsFunc(files, func(f fs.DirEntry) bool {
		day := f.Name()[:min(len(f.Name()), len(time.DateOnly))]
		return first <= day && day <= last
	})
}

// stateDays sends the statement of the days from first to last, which follows the statement described by state, and
// returns the next state.
func (s *Sandbox) stateDays(a Account, first, last string, state bookState, entries []iso20022.Entry) (
	bookState, error,
) {
	opening := money.New(a.Currency, state.Closing)
	closing := opening
	for _, e := range entries {
		amount := e.Amount
		if !e.Credit {
			amount = amount.Neg()
		}
		var err error
		if closing, err = closing.Add(amount); err != nil {
			return state, err
		}
	}
	state = bookState{Day: last, Sequence: state.Sequence + 1, Closing: closing.Units()}
	id := "ST" + string(a.Currency) + strings.ReplaceAll(last, "-", "")
	from, err := time.ParseInLocation(time.DateOnly, first, a.zone)
	if err != nil {
		return state, err
	}
	date, err := time.ParseInLocation(time.DateOnly, last, a.zone)
	if err != nil {
		return state, err
	}
	end := date.AddDate(0, 0, 1)
	message, err := writeEntries(iso20022.Statement{File: id, ID: id, Sequence: fmt.Sprint(state.Sequence), Created: end,
		From: from, To: end.Add(-time.Second), Account: a.Number, Currency: string(a.Currency),
		Balances: []iso20022.Balance{{Type: "OPBD", Amount: opening, Day: from}, {Type: "CLBD", Amount: closing, Day: date}},
	}, entries)
	if err != nil {
		return state, err
	}
	return state, s.writeResponse(id+".xml", message)
}

// readEntries returns the entries of a stored message.
func readEntries(name string) (all []iso20022.Entry, err error) {
	body, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	err = iso20022.ReadStatements(bytes.NewReader(body), func(_ *iso20022.Statement, e *iso20022.Entry) error {
		if e != nil {
			all = append(all, *e)
		}
		return nil
	})
	return all, err
}
