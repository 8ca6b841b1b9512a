package bank

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
)

// Statement has the entries, oldest first, of an account at a bank with an API in a period, and the balances at the
// start and end of the period.
type Statement struct {
	Opening, Closing money.Amount
	Entries          []Entry
}

// Entry is one entry of a Statement.
type Entry struct {
	ID       string // the bank's ID
	At       time.Time
	Amount   money.Amount // negative if money left the account
	Transfer string       // the bank's ID of the transfer that the entry belongs to, or ""
	Ordered  bool         // the account's holder ordered the transfer
	Returned bool         // the entry undoes an earlier entry
	Fee      bool         // the entry is a fee of the account
	Interest bool
	Payer    string // name
	From     string // account number of the payer
	To       string // account number that received the money
	Text     string
}

// ErrStatementPending reports that the bank is still making a statement.
var ErrStatementPending = errors.New("the bank is still making the statement")

// statementKind is the kind of a Response that stores a Statement. Its name consists of the account and the day.
const statementKind = "statement"

// The statement of a day is read statementDelay after the end of the day, at most daysPerRun statements in one run. A
// statement that was not read statementLate after the end of its day is reported as missing.
const (
	statementDelay = 2 * time.Hour
	statementLate  = 8 * time.Hour
	daysPerRun     = 10
)

// fileStatementLate is the time of day, after midnight, at which a statement file for an earlier business day is
// overdue.
const fileStatementLate = 12 * time.Hour

// LateStatement returns the day whose statement is missing, or "". newest is the day of the newest statement that was
// read for the account. An account with an API has a statement for each day. An account with files has one for each
// business day, which the bank must send by noon of the next business day, or of the business day that
// Account.StatementDays allows.
func (a Account) LateStatement(newest string, now time.Time) string {
	if a.zone == nil { // not an account of the operator
		return ""
	}
	day, err := time.ParseInLocation(time.DateOnly, newest, a.zone)
	if err != nil {
		return ""
	}
	missing, late := day.AddDate(0, 0, 1), day.AddDate(0, 0, 2).Add(statementLate)
	if !a.ByAPI() {
		missing = a.Calendar.nextBusinessDay(missing)
		until := missing
		for range max(a.StatementDays, 1) {
			until = a.Calendar.nextBusinessDay(until.AddDate(0, 0, 1))
		}
		late = until.Add(fileStatementLate)
	}
	if now.Before(late) {
		return ""
	}
	return missing.Format(time.DateOnly)
}

// ReturnsStated returns the day through which the statements of an account with files must have been read before
// money that was on hold until a time can be used: the last business day on which a return can settle.
func (a Account) ReturnsStated(heldUntil time.Time) string {
	local := heldUntil.In(a.zone)
	day := time.Date(local.Year(), local.Month(), local.Day()-1, 0, 0, 0, 0, time.UTC)
	for !a.Calendar.isBusinessDay(day) {
		day = day.AddDate(0, 0, -1)
	}
	return day.Format(time.DateOnly)
}

// readStatements passes the statements of accounts with an API to Config.Statement, one for each day. The first
// statement is for the day before the first run.
func (r *Rail) readStatements(ctx context.Context, d *db.DB) error {
	var failed []error
	for _, a := range r.c.Accounts {
		if !a.ByAPI() || r.c.Statement == nil {
			continue
		}
		for range daysPerRun {
			read, err := r.readStatement(ctx, d, a)
			if errors.Is(err, ErrStatementPending) {
				break
			}
			if err != nil {
				failed = append(failed, fmt.Errorf("statement of account %s: %w", a.ID, err))
			}
			if err != nil || !read {
				break
			}
		}
	}
	return errors.Join(failed...)
}

// readStatement reads an account's statement for the next day that has ended. It reports whether it read a statement.
func (r *Rail) readStatement(ctx context.Context, d *db.DB, a Account) (bool, error) {
	var now, from time.Time
	if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
		now = tx.Now()
		last, err := lastStatement(ctx, tx, a)
		if err != nil {
			return err
		}
		local := now.Add(-statementDelay).In(a.zone)
		from = time.Date(local.Year(), local.Month(), local.Day()-1, 0, 0, 0, 0, a.zone)
		if last != "" {
			if from, err = time.ParseInLocation(time.DateOnly, last, a.zone); err != nil {
				return err
			}
			from = from.AddDate(0, 0, 1)
		}
		return nil
	}); err != nil {
		return false, err
	}
	to := from.AddDate(0, 0, 1)
	if now.Before(to.Add(statementDelay)) {
		return false, nil
	}
	s, err := r.c.APIs[a.ID].Statement(ctx, a, from, to)
	if errors.Is(err, ErrStatementPending) && now.After(to.Add(statementLate)) {
		r.c.Log.ErrorContext(ctx, "a bank has not made a statement in time; ask it if this goes on", "account", a.ID,
			"day", from.Format(time.DateOnly))
	}
	if err != nil {
		return false, err
	}
	var ours map[string]string
	if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		transfers := s.transfers()
		checks, err := prenoteTransfers(ctx, tx, a.ID, transfers)
		if err != nil {
			return err
		}
		for i := range s.Entries { // a cent that checked an account, or came back, is a cost of the account
			s.Entries[i].Fee = s.Entries[i].Fee || checks[s.Entries[i].Transfer]
		}
		if ours, err = referencesOf(ctx, tx, a.ID, transfers); err != nil || r.c.DebitReferences == nil {
			return err
		}
		debits, err := r.c.DebitReferences(ctx, tx, a.ID, transfers)
		maps.Copy(ours, debits)
		return err
	}); err != nil {
		return false, err
	}
	day := from.Format(time.DateOnly)
	message, err := s.encode(a, day, now, ours)
	if err != nil {
		return false, err
	}
	problems, err := r.c.Statement(ctx, d, bytes.NewReader(message), nil)
	if err != nil {
		return false, err
	}
	if len(problems) > 0 {
		r.c.Log.ErrorContext(ctx, "a bank's statement needs a person", "account", a.ID, "day", day, "problems", problems)
	}
	name := a.ID + " " + day
	return true, d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		return storeResponse(ctx, tx, Response{Checksum: checksum([]byte(statementKind + " " + name)), Name: name,
			Kind: statementKind, Facts: int64(len(s.Entries)), Problems: problems, Settled: true})
	})
}

// transfers returns the bank's IDs of the transfers to which the entries belong.
func (s Statement) transfers() (ids []string) {
	for _, e := range s.Entries {
		if e.Transfer != "" {
			ids = append(ids, e.Transfer)
		}
	}
	return ids
}

// encode returns a statement as a camt.053 message, because all statements are processed in that format. ours has the
// references of our payments by the bank's ID of their transfer.
func (s Statement) encode(a Account, day string, now time.Time, ours map[string]string) ([]byte, error) {
	date, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w, err := iso20022.WriteStatement(&out, iso20022.Statement{File: day, ID: day, Created: now, From: date,
		To: date.AddDate(0, 0, 1).Add(-time.Second), Account: a.Number, Currency: string(a.Currency), Owner: latin(a.Name),
		Balances: []iso20022.Balance{{Type: "OPBD", Amount: s.Opening, Day: date},
			{Type: "CLBD", Amount: s.Closing, Day: date}}})
	if err != nil {
		return nil, err
	}
	for _, e := range s.Entries {
		if err := w.Entry(e.encode(a, date, ours[e.Transfer])); err != nil {
			return nil, err
		}
	}
	err = w.Close()
	return out.Bytes(), err
}

// encode converts an entry. reference is the reference of our payment to which the entry belongs, or "".
func (e Entry) encode(a Account, date time.Time, reference string) iso20022.Entry {
	amount, credit := e.Amount, true
	if amount.Sign() < 0 {
		amount, credit = amount.Neg(), false
	}
	kind := iso20022.Type{Domain: "PMNT", Family: "ICDT", SubFamily: "OTHR"}
	switch {
	case e.Fee:
		kind = iso20022.Type{Domain: "ACMT", Family: "MDOP", SubFamily: "CHRG"}
	case e.Interest:
		kind = iso20022.Type{Domain: "ACMT", Family: "MCOP", SubFamily: "INTR"}
	case credit:
		kind.Family = "RCDT"
	}
	// Money that comes back for a transfer that the account's holder ordered is not a received transfer.
	back := e.Returned || credit && (reference != "" || e.Ordered)
	if _, debit := FindDebit(reference); debit {
		kind.Family, back = "IDDT", !credit
	}
	batch := iso20022.Batch{}
	if at, ok := FindReference(reference); ok && at.Position == 0 { // of a reversal, which brings money
		back, batch = !credit, iso20022.Batch{MessageID: reference, PaymentInfoID: reference}
	}
	detail := iso20022.Detail{Servicer: e.ID, EndToEndID: reference, TransactionID: e.Transfer, Amount: amount,
		Credit: credit}
	if credit {
		detail.Debtor = iso20022.Party{Name: e.Payer, Account: e.From}
		detail.Creditor = iso20022.Party{Name: a.Name, Account: e.To}
	}
	if e.Text != "" && reference == "" {
		detail.Remittance = []string{e.Text}
	}
	entry := iso20022.Entry{Reference: e.ID, Servicer: e.ID, Amount: amount, Credit: credit, Reversal: back,
		Status: "BOOK", Booked: date, Valued: date, Type: kind, Info: e.Text, Batch: batch}
	if !e.Fee && !e.Interest {
		entry.Details = []iso20022.Detail{detail}
	}
	return entry
}
