package bankreceipt

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
)

// Statement is a bank's statement of an account for a period (camt.053), stored for reconciliation.
type Statement struct {
	Number           string // account number
	Currency         money.Asset
	ID               string
	Sequence         int64        // the bank's sequence number, or 0
	Balanced         bool         // the statement has an opening and a closing balance
	Opening, Closing money.Amount // set if Balanced
	Opens, Closes    string       // dates, such as 2026-03-02
	Made             time.Time
	Sum              money.Amount // sum of the entries

	entries []*entry
}

// StatementTotal is the sum of all entries on an account that concern one subject: a payment file (S0000012) or a
// transfer (trf_…). Each entry whose subject is unknown has a total of its own, with an empty Subject.
type StatementTotal struct {
	Subject string
	Name    string // the bank's reference of the first entry
	Amount  money.Amount
}

// entry is the part of a statement entry that concerns one subject.
type entry struct {
	subject, name string
	amount        money.Amount
}

// accountIDOf returns the dimension of ledger account 1020 for a bank account: the ID of the operator's account, or
// the number of an account that has no ID.
func accountIDOf(accounts []bank.Account, number string, a money.Asset) string {
	number = compact(number)
	for _, x := range accounts {
		if compact(x.Number) == number && x.Currency == a {
			return x.ID
		}
	}
	return number
}

// pageMark separates the ID of a statement from the number of a page.
const pageMark = " page "

// Page returns the page number if s is a page of a statement with several pages, or "".
func (s Statement) Page() string {
	_, page, _ := strings.Cut(s.ID, pageMark)
	return page
}

// newStatement returns a statement, or one page of it, without entries.
func newStatement(st *iso20022.Statement) *Statement {
	s := &Statement{Number: compact(st.Account), Currency: money.Asset(st.Currency), ID: st.ID, Made: st.Created}
	s.Sequence, _ = strconv.ParseInt(st.Sequence, 10, 64) // a sequence that is not a number is ignored
	if st.Page > 0 {                                      // the pages of a statement share an ID
		s.ID = fmt.Sprintf("%s%s%04d", st.ID, pageMark, st.Page)
	}
	var opens, closes bool
	for i, b := range st.Balances {
		if st.Page > 0 && b.Type == "ITBD" { // balance between two pages
			b.Type = map[bool]string{true: "OPBD", false: "CLBD"}[i == 0]
		}
		switch b.Type {
		case "OPBD", "PRCD":
			if !opens || b.Type == "OPBD" {
				s.Opening, s.Opens, opens = b.Amount, day(b.Day), true
			}
		case "CLBD":
			s.Closing, s.Closes, closes = b.Amount, day(b.Day), true
		}
	}
	s.Balanced = opens && closes && s.Opening.Asset() == s.Closing.Asset() && st.Err == nil
	if s.Balanced {
		s.Currency = s.Closing.Asset()
	}
	// The opening balance is dated to the day before the statement; From is more exact. From is midnight at the bank,
	// which may be on the previous day in UTC: 13 hours later it is the same day in all zones from UTC-10 to UTC+13.
	if !st.From.IsZero() {
		s.Opens = day(st.From.UTC().Add(13 * time.Hour))
	}
	if s.Closes == "" {
		s.Closes = day(st.To)
	}
	if s.Closes == "" {
		s.Closes = day(st.Created)
	}
	return s
}

func day(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.DateOnly)
}

// addEntry adds the subjects of an entry: payment files, the credits that were extracted from the entry, or an
// unknown subject. It returns the part of the entry that is neither, or nil.
func (s *Statement) addEntry(e *iso20022.Entry, credits []item) *entry {
	if s.Currency == "" {
		s.Currency = e.Amount.Asset()
	}
	name := strings.Join(slices.Compact(slices.DeleteFunc([]string{e.Reference, e.Servicer},
		func(s string) bool { return s == "" })), " ")
	add := func(subject string, a money.Amount, credit bool) *entry {
		if !credit {
			a = a.Neg()
		}
		made := &entry{subject, name, a}
		s.entries = append(s.entries, made)
		return made
	}
	if len(credits) > 0 {
		for i := range credits {
			credits[i].entry = add("", credits[i].Amount, e.Credit)
		}
		return nil
	}
	if number, ok := bank.DebitOf(e); ok {
		return add(bank.DebitReference(number), e.Amount, e.Credit)
	}
	rest := e.Amount
	for _, d := range e.Details {
		n, is := bank.FindReference(d.Names()...)
		if !is {
			continue
		}
		amount := d.Amount
		if len(e.Details) == 1 || amount.Asset() != rest.Asset() || amount.Cmp(rest) > 0 {
			amount = rest
		}
		rest, _ = rest.Sub(amount) // cannot fail: amount is at most rest
		add(bank.FileReference(n.File), amount, e.Credit)
	}
	if rest.IsZero() {
		return nil
	}
	subject := ""
	if n, is := bank.FindReference(e.Batch.PaymentInfoID, e.Batch.MessageID, e.Reference, e.Servicer, e.Info); is {
		subject = bank.FileReference(n.File)
	}
	return add(subject, rest, e.Credit)
}

// storeStatements stores statements. Each replaces an earlier version of the same statement.
func storeStatements(ctx context.Context, d *db.DB, all []*Statement) error {
	for _, s := range all {
		if s.Currency == "" {
			continue // a statement without entries and balances is not stored
		}
		if err := d.Write(ctx, func(ctx context.Context,
			tx *db.Tx) error {
			return replaceStatement(ctx, tx, s)
		}); err != nil {
			return fmt.Errorf("statement %s: %w", s.ID, err)
		}
	}
	return nil
}
