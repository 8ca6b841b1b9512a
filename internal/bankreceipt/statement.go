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

// Statement is what a bank says of an account at the end of a day (camt.053), as it is kept for reconciliation.
type Statement struct {
	Number           string // of the account
	Currency         money.Asset
	ID               string
	Sequence         int64        // the bank's count, 0 without one
	Balanced         bool         // the bank says with what it opens and closes
	Opening, Closing money.Amount // where it is balanced
	Opens, Closes    string       // days, 2026-03-02
	Made             time.Time
	Sum              money.Amount // of its bookings

	entries []*entry
}

// Told is what the statements of an account say in all about one thing of ours: a file of payments (S0000012) or a transfer (trf_…).
// About what nobody knows, each booking stands by itself, without a subject.
type Told struct {
	Subject string
	Name    string // the bank's, of the booking or the first of them
	Amount  money.Amount
}

// entry is one thing that a booking is about.
type entry struct {
	subject, name string
	amount        money.Amount
}

// placeOf is where money on an account stands on 1020: by the id of the house's account, and by the number where it has none.
func placeOf(accounts []bank.Account, number string, a money.Asset) string {
	number = compact(number)
	for _, x := range accounts {
		if compact(x.Number) == number && x.Currency == a {
			return x.ID
		}
	}
	return number
}

// open begins a statement.
func open(st *iso20022.Statement) *Statement {
	s := &Statement{Number: compact(st.Account), Currency: money.Asset(st.Currency), ID: st.ID, Made: st.Created}
	s.Sequence, _ = strconv.ParseInt(st.Sequence, 10, 64) // a bank that counts otherwise does not count
	var opens, closes bool
	for _, b := range st.Balances {
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
	// A statement opens where the one before it closed; its own days are those that it says.
	if !st.From.IsZero() {
		s.Opens = day(st.From)
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

// take keeps what a booking is about: payments of ours, the credits that it was split into, or nobody knows what.
func (s *Statement) take(e *iso20022.Entry, credits []item) {
	if s.Currency == "" {
		s.Currency = e.Amount.Asset()
	}
	name := strings.Join(slices.Compact(slices.DeleteFunc([]string{e.Reference, e.Servicer}, func(s string) bool { return s == "" })), " ")
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
		return
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
		rest, _ = rest.Sub(amount) // what is there is not less
		add(bank.FileReference(n.File), amount, e.Credit)
	}
	if rest.IsZero() {
		return
	}
	subject := ""
	if n, is := bank.FindReference(e.Batch.PaymentInfoID, e.Batch.MessageID, e.Reference, e.Servicer, e.Info); is {
		subject = bank.FileReference(n.File)
	}
	add(subject, rest, e.Credit)
}

// keep stores statements, each in place of what was kept of it before.
func keep(ctx context.Context, d *db.DB, all []*Statement) error {
	for _, s := range all {
		if s.Currency == "" {
			continue // nothing is booked in it, and it says no balance
		}
		if err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return replaceStatement(ctx, tx, s) }); err != nil {
			return fmt.Errorf("statement %s: %w", s.ID, err)
		}
	}
	return nil
}

// Statements are those of all accounts, by account and in the order of their days.
func Statements(ctx context.Context, tx *db.Tx) ([]Statement, error) { return statements(ctx, tx) }

// ToldOf is what the statements of an account are about.
func ToldOf(ctx context.Context, tx *db.Tx, number string, currency money.Asset) ([]Told, error) {
	return told(ctx, tx, number, currency)
}
