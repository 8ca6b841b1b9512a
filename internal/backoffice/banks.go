package backoffice

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/bankreceipt"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/directdebit"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/receivable/deposit"
)

// bankAccount is an account of the operator at a bank, with its postings and statements.
type bankAccount struct {
	name       string // name of the account in reports
	number     string
	currency   money.Asset
	places     []string // dimensions of ledger account 1020; several if the account pays files of two formats
	zone       bank.Account
	statements []bankreceipt.Statement
	duplicates []string                // IDs of statements that repeat another one
	unbalanced []bankreceipt.Statement // statements without an opening or closing balance
	subjects   map[string]*subject
	books      int64  // balance of the account in the ledger
	first      string // day of the first posting, or "" if there is none
}

// subject is an item of the ledger and the statements: a payment file, a transfer, or a transaction of the operator.
type subject struct {
	name          string
	books, stated int64
	booked        bool // whether the ledger has a posting about the subject
	onStatement   bool
	day           string // day of the newest posting about the subject
}

func (s *subject) off() int64 { return s.books - s.stated }

// compareBanks compares account 1020 with the bank's statements, by bank account and subject. A posting after the
// newest statement is not a difference. A statement without balances is one, and so is an account with postings whose
// bank has not sent a statement in time.
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
		for _, s := range a.unbalanced {
			r.differ(StatementUnbalanced, a.name+", "+s.ID+" of "+s.Closes, "",
				"it has no opening or no closing balance; ask the bank for statements with both")
		}
		if len(a.statements) == 0 {
			a.withoutStatement(r, tx.Now())
			continue
		}
		a.dropDuplicates(r)
		totals, err := bankreceipt.StatementTotals(ctx, tx, a.number, a.currency, a.duplicates...)
		if err != nil {
			return err
		}
		r.Coins++
		a.sequence(r)
		newest := a.statements[len(a.statements)-1]
		if day := a.zone.LateStatement(newest.Closes, tx.Now()); day != "" {
			r.differ(StatementLate, a.name+", "+day, "", fmt.Sprintf("the newest statement is %s of %s; ask the bank, and read "+
				"the log of the jobs bank.statements and bank.responses", newest.ID, newest.Closes))
		}
		a.compare(r, totals)
	}
	return nil
}

// withoutStatement reports an account that has postings and no imported statement with balances: as a difference once
// the first statement is late.
func (a *bankAccount) withoutStatement(r *Report, now time.Time) {
	if a.first == "" {
		return
	}
	if first, err := time.Parse(time.DateOnly, a.first); err == nil {
		before := first.AddDate(0, 0, -1).Format(time.DateOnly)
		if day := a.zone.LateStatement(before, now); day != "" {
			r.differ(StatementLate, a.name+", "+day, text(a.currency, a.books),
				"no statement with balances was imported; ask the bank to send them")
			return
		}
	}
	if a.books != 0 {
		r.NotCompared = append(r.NotCompared, fmt.Sprintf("%s %s, %s: %s; no statement with a closing balance was imported",
			ledger.Bank, ledger.Bank.Name(), a.name, text(a.currency, a.books)))
	}
}

// bankAccounts returns the configured accounts and those of statements, each with its postings on account 1020.
func (r *Report) bankAccounts(ctx context.Context, tx *db.Tx, listed []bank.Account,
	statements []bankreceipt.Statement) ([]*bankAccount, error) {
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
			a = &bankAccount{
				name: l.ID, number: number, currency: l.Currency, places: []string{number}, zone: l,
				subjects: map[string]*subject{},
			}
			all = append(all, a)
		} else if !slices.Contains(a.places, l.ID) {
			a.name += "+" + l.ID
		}
		a.places = append(a.places, l.ID)
	}
	for _, s := range statements {
		a := find(s.Currency, named(s.Number))
		if a == nil {
			a = &bankAccount{
				name: s.Number, number: s.Number, currency: s.Currency, places: []string{s.Number},
				subjects: map[string]*subject{},
			}
			all = append(all, a)
		}
		if s.Balanced {
			a.statements = append(a.statements, s)
		} else {
			a.unbalanced = append(a.unbalanced, s)
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
	debits, err := directdebit.Numbers(ctx, tx)
	if err != nil {
		return nil, err
	}
	parts, err := bankreceipt.Subjects(ctx, tx)
	if err != nil {
		return nil, err
	}
	others := map[string]int64{} // units posted to unlisted accounts, by dimension and currency
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
		case directdebit.Source:
			name = cmp.Or(debits[m.SourceID], m.SourceID)
		case bankreceipt.SourceCharge:
			name = m.SourceID
		case bankreceipt.Source:
			name = cmp.Or(parts[m.SourceID], m.SourceID)
		case bank.SourceFound:
			if n, ok := bank.FindReference(m.Purpose); ok {
				name = bank.FileReference(n.File)
			}
		default: // a payroll's funding: the purpose has the deposit's ID
			for _, part := range strings.Split(m.Purpose, ":") {
				name = cmp.Or(transfers[part], name)
			}
		}
		s := a.subject(name)
		s.books, s.booked = s.books+units, true
		s.day = max(s.day, a.zone.Day(m.BookedAt))
		if day := a.zone.Day(m.BookedAt); a.first == "" || day < a.first {
			a.first = day
		}
	})
	for _, key := range slices.Sorted(maps.Keys(others)) {
		if place, currency, _ := strings.Cut(key, " "); others[key] != 0 {
			r.NotCompared = append(r.NotCompared,
				fmt.Sprintf("%s %s, %s: %s; it is not a configured account and has no statements",
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

// dropDuplicates reports statements that the bank sent again under another ID, and removes all but the newest version
// of each: those of one day with the same sequence number, or with the same two different balances.
func (a *bankAccount) dropDuplicates(r *Report) {
	var kept []bankreceipt.Statement
	for _, s := range a.statements {
		i := slices.IndexFunc(kept, func(k bankreceipt.Statement) bool {
			return k.Closes == s.Closes && k.Page() == s.Page() && (s.Sequence > 0 && k.Sequence == s.Sequence ||
				k.Opening == s.Opening && k.Closing == s.Closing && s.Opening != s.Closing)
		})
		if i < 0 {
			kept = append(kept, s)
			continue
		}
		older := kept[i] // statements are sorted by the time at which the bank created them
		kept[i] = s
		a.duplicates = append(a.duplicates, older.ID)
		r.differ(StatementDuplicate, fmt.Sprintf("%s, %s and %s of %s", a.name, older.ID, s.ID, s.Closes), "",
			fmt.Sprintf("closes with %s and %s; the newer one is compared", text(a.currency, older.Closing.Units()),
				text(a.currency, s.Closing.Units())))
	}
	a.statements = kept
}

// sequence reports missing statements, and statements whose entries do not add up to the change of the balance.
func (a *bankAccount) sequence(r *Report) {
	for i, s := range a.statements {
		if moved, err := s.Closing.Sub(s.Opening); err != nil || moved != s.Sum {
			r.differ(StatementSum, a.name+" "+s.ID, "", fmt.Sprintf("opens with %s, closes with %s; its bookings are %s",
				s.Opening, s.Closing, text(a.currency, s.Sum.Units())))
		}
		if i == 0 {
			continue
		}
		before := a.statements[i-1]
		// Banks restart the sequence number at 1 each year, so a lower number is not a gap.
		if s.Opening != before.Closing || before.Sequence > 0 && s.Sequence > before.Sequence+1 {
			r.differ(StatementMissing, fmt.Sprintf("%s, between %s of %s and %s of %s", a.name, before.ID, before.Closes, s.ID,
				s.Closes), "",
				fmt.Sprintf("%s, then %s", text(a.currency, before.Closing.Units()), text(a.currency, s.Opening.Units())))
		}
	}
}

// compare compares the ledger with the statements, by subject and in total.
func (a *bankAccount) compare(r *Report, totals []bankreceipt.StatementTotal) {
	first, last := a.statements[0], a.statements[len(a.statements)-1]
	var open []*subject
	for _, t := range totals {
		if t.Subject == "" {
			open = append(open, &subject{
				name: cmp.Or(t.Name, "an entry without a reference"), stated: t.Amount.Units(), onStatement: true,
			})
			continue
		}
		s := a.subject(t.Subject)
		s.stated, s.onStatement = s.stated+t.Amount.Units(), true
	}
	for _, name := range slices.Sorted(maps.Keys(a.subjects)) {
		if s := a.subjects[name]; s.off() != 0 {
			open = append(open, s)
		}
	}
	open = explain(open, first.Opens)
	late := int64(0) // units posted after the newest statement
	for _, s := range open {
		object := a.name + ", " + s.name
		switch {
		case s.booked && !s.onStatement && s.day < first.Opens: // the first opening balance includes this subject
		case s.booked && s.day >= last.Closes:
			late += s.off()
		case !s.booked:
			r.differ(EntryUnbooked, object, "", text(a.currency, s.stated))
		case !s.onStatement:
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

// explain removes pairs of subjects with opposite differences of the same amount, for which the ledger and the bank
// use different references. It matches the oldest first, and ignores subjects that the first opening balance
// includes.
func explain(open []*subject, opens string) []*subject {
	gone := map[*subject]bool{}
	for _, s := range open {
		if gone[s] || s.onStatement || s.day < opens {
			continue
		}
		for _, other := range open {
			if other != s && !gone[other] && other.off() == -s.off() && (other.onStatement || other.day >= opens) {
				gone[s], gone[other] = true, true
				break
			}
		}
	}
	return slices.DeleteFunc(open, func(s *subject) bool { return gone[s] })
}
