package backoffice

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/bankreceipt"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/receivable/deposit"
)

// bankAccount is one account at a bank, as the books and its statements know it.
type bankAccount struct {
	name       string // for a person
	number     string
	currency   money.Asset
	places     []string // on 1020; more than one where files of two formats are paid from it, or where older bookings stand
	zone       bank.Account
	statements []bankreceipt.Statement
	subjects   map[string]*subject
	books      int64 // the sum
}

// subject is one thing that the books and the statements speak of: a file of payments, a transfer, a booking of the operator's.
type subject struct {
	name          string
	books, stated int64
	booked, told  bool
	day           string // the newest on which something was booked
}

func (s *subject) off() int64 { return s.books - s.stated }

// compareBanks compares account 1020 with the bank's statements: account by account, thing by thing. What is booked after the newest
// statement closed is not a difference: the next one has it, or does not.
func (r *Report) compareBanks(ctx context.Context, tx *db.Tx, listed []bank.Account) error {
	statements, err := bankreceipt.Statements(ctx, tx)
	if err != nil {
		return err
	}
	accounts, err := r.bankAccounts(ctx, tx, listed, statements)
	if err != nil {
		return err
	}
	for _, a := range accounts {
		if len(a.statements) == 0 {
			if a.books != 0 {
				r.NotCompared = append(r.NotCompared, fmt.Sprintf("%s %s, %s: %s; no statement that says with what it closes was taken in",
					ledger.Bank, ledger.Bank.Name(), a.name, text(a.currency, a.books)))
			}
			continue
		}
		told, err := bankreceipt.StatementTotals(ctx, tx, a.number, a.currency)
		if err != nil {
			return err
		}
		r.Coins++
		a.sequence(r)
		a.compare(r, told)
	}
	return nil
}

// bankAccounts are the listed accounts and all others that 1020 or a statement speaks of, each with what the books say.
func (r *Report) bankAccounts(ctx context.Context, tx *db.Tx, listed []bank.Account, statements []bankreceipt.Statement) ([]*bankAccount, error) {
	var all []*bankAccount
	find := func(currency money.Asset, by func(*bankAccount) bool) *bankAccount {
		i := slices.IndexFunc(all, func(a *bankAccount) bool { return a.currency == currency && by(a) })
		if i < 0 {
			return nil
		}
		return all[i]
	}
	named := func(number string) func(*bankAccount) bool {
		return func(a *bankAccount) bool { return a.number == number }
	}
	for _, l := range listed {
		number := strings.Join(strings.Fields(l.Number), "")
		a := find(l.Currency, named(number))
		if a == nil {
			a = &bankAccount{name: l.ID, number: number, currency: l.Currency, places: []string{number}, zone: l, subjects: map[string]*subject{}}
			all = append(all, a)
		} else if !slices.Contains(a.places, l.ID) {
			a.name += "+" + l.ID
		}
		a.places = append(a.places, l.ID)
	}
	for _, s := range statements {
		a := find(s.Currency, named(s.Number))
		if a == nil {
			a = &bankAccount{name: s.Number, number: s.Number, currency: s.Currency, places: []string{s.Number}, subjects: map[string]*subject{}}
			all = append(all, a)
		}
		if s.Balanced {
			a.statements = append(a.statements, s)
		}
	}
	files, err := bank.FileNumbers(ctx, tx)
	if err != nil {
		return nil, err
	}
	transfers, err := deposit.Transfers(ctx, tx)
	if err != nil {
		return nil, err
	}
	parts, err := bankreceipt.Subjects(ctx, tx)
	if err != nil {
		return nil, err
	}
	others := map[string]int64{} // by place and currency
	err = ledger.EachMovement(ctx, tx, ledger.Bank, func(m ledger.Movement) {
		units, currency := m.Amount.Units(), m.Amount.Asset()
		a := find(currency, func(a *bankAccount) bool { return slices.Contains(a.places, m.Dim) })
		if a == nil {
			others[m.Dim+" "+string(currency)] += units
			return
		}
		a.books += units
		name := m.SourceType + " " + m.SourceID
		switch m.SourceType {
		case bank.Source:
			name = bank.FileReference(files[m.SourceID])
		case bankreceipt.Source:
			name = cmp.Or(parts[m.SourceID], m.SourceID)
		case bank.SourceFound:
			if n, ok := bank.FindReference(m.Purpose); ok {
				name = bank.FileReference(n.File)
			}
		default: // a payroll books its funding by the deposit
			for _, part := range strings.Split(m.Purpose, ":") {
				name = cmp.Or(transfers[part], name)
			}
		}
		s := a.subject(name)
		s.books, s.booked = s.books+units, true
		s.day = max(s.day, a.zone.Day(m.BookedAt))
	})
	for _, key := range slices.Sorted(maps.Keys(others)) {
		if place, currency, _ := strings.Cut(key, " "); others[key] != 0 {
			r.NotCompared = append(r.NotCompared, fmt.Sprintf("%s %s, %s: %s; it is no account of the list and has no statements",
				ledger.Bank, ledger.Bank.Name(), place, text(money.Asset(currency), others[key])))
		}
	}
	return all, err
}

func (a *bankAccount) subject(name string) *subject {
	if a.subjects[name] == nil {
		a.subjects[name] = &subject{name: name}
	}
	return a.subjects[name]
}

// sequence looks for statements that are missing between others, and for those whose bookings do not lead from one balance to the other.
func (a *bankAccount) sequence(r *Report) {
	for i, s := range a.statements {
		if moved, err := s.Closing.Sub(s.Opening); err != nil || moved != s.Sum {
			r.differ(StatementSum, a.name+" "+s.ID, "", fmt.Sprintf("opens with %s, closes with %s; its bookings are %s", s.Opening, s.Closing, text(a.currency, s.Sum.Units())))
		}
		if i == 0 {
			continue
		}
		before := a.statements[i-1]
		// A bank counts from 1 again each year.
		if s.Opening != before.Closing || before.Sequence > 0 && s.Sequence > before.Sequence+1 {
			r.differ(StatementMissing, fmt.Sprintf("%s, between %s of %s and %s of %s", a.name, before.ID, before.Closes, s.ID, s.Closes), "",
				fmt.Sprintf("%s, then %s", text(a.currency, before.Closing.Units()), text(a.currency, s.Opening.Units())))
		}
	}
}

// compare compares what the books say with what the statements say, thing by thing, and the sums.
func (a *bankAccount) compare(r *Report, told []bankreceipt.StatementTotal) {
	first, last := a.statements[0], a.statements[len(a.statements)-1]
	var open []*subject
	for _, t := range told {
		if t.Subject == "" {
			open = append(open, &subject{name: cmp.Or(t.Name, "a booking without a name"), stated: t.Amount.Units(), told: true})
			continue
		}
		s := a.subject(t.Subject)
		s.stated, s.told = s.stated+t.Amount.Units(), true
	}
	for _, name := range slices.Sorted(maps.Keys(a.subjects)) {
		if s := a.subjects[name]; s.off() != 0 {
			open = append(open, s)
		}
	}
	open = explain(open, first.Opens)
	late := int64(0) // booked after the newest statement
	for _, s := range open {
		object := a.name + ", " + s.name
		switch {
		case s.booked && !s.told && s.day < first.Opens: // the first opening balance has it
		case s.booked && s.day >= last.Closes:
			late += s.off()
		case !s.booked:
			r.differ(EntryUnbooked, object, "", text(a.currency, s.stated))
		case !s.told:
			r.differ(BookingUnstated, object, text(a.currency, s.books), "")
		default:
			r.differ(EntryAmount, object, text(a.currency, s.books), text(a.currency, s.stated))
		}
	}
	if off := a.books - late - last.Closing.Units(); off != 0 {
		r.differ(BankTotal, string(ledger.Bank)+" "+a.name, text(a.currency, a.books-late),
			fmt.Sprintf("%s on %s, difference %s", text(a.currency, last.Closing.Units()), last.Closes, text(a.currency, -off)))
	}
	if late != 0 {
		r.NotCompared = append(r.NotCompared, fmt.Sprintf("%s %s, %s: %s were booked since the newest statement, of %s",
			ledger.Bank, ledger.Bank.Name(), a.name, text(a.currency, late), last.Closes))
	}
}

// explain leaves out what the books call otherwise than the bank: a booking that no statement speaks of and another thing of which as
// much is missing. The oldest come first; what the first opening balance has explains nothing.
func explain(open []*subject, opens string) []*subject {
	gone := map[*subject]bool{}
	for _, s := range open {
		if gone[s] || s.told || s.day < opens {
			continue
		}
		for _, other := range open {
			if other != s && !gone[other] && other.off() == -s.off() && (other.told || other.day >= opens) {
				gone[s], gone[other] = true, true
				break
			}
		}
	}
	return slices.DeleteFunc(open, func(s *subject) bool { return gone[s] })
}
