// Package bankreceipt is money that came in at the operator's bank: it reads the bank's statements and notifications, finds out whose
// each credit is, and keeps what nobody can be found for until a person decides.
//
//	suspense → credited
//	    └──→ returned ←── credited   the bank took it back, or the operator sent it back
//	         or the operator counted it for the payment of which it is a part
//
// A credit is booked once, however often and by whichever message the bank tells of it (camt.054 at once, camt.053 at the end of
// the day): by the bank's own names of it, and where a message has none, by all that it says. Equal credits of one message are
// different ones.
//
// Whose it is: the owner of the funding account on whose number it was paid; otherwise the company or invoice whose id the payer
// wrote. Everything else is in suspense (account 2500), with a reason. A credit that pays an open invoice of its owner, by the
// invoice's id or number, or by the payer's name and the exact amount, is counted there; the money is the owner's balance in any
// case. A part of a payment of ours that the bank gives back is in suspense, too, whatever it names: whether the rest follows, the bank
// keeps it, or it was a mistake, only a person can find out. One for a payroll that is funded by bank, which the payer named or which waits for the exact amount, is a deposit of that
// payroll, whose package books it. Nothing is guessed: where two fit, none is taken.
package bankreceipt

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/invoice"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
	"github.com/stipend/stipend/internal/receivable/deposit"
	"github.com/stipend/stipend/internal/virtualaccount"
	"github.com/stipend/stipend/internal/webhook"
)

// State is where a transfer stands.
type State string

// The states of a transfer.
const (
	Suspense State = "suspense" // whose it is must be found out
	Credited State = "credited" // in its owner's balance
	Returned State = "returned" // gone back to who sent it
)

// Why a transfer is in suspense, or what credited it.
const (
	ReasonUnknown   = "unknown"         // nothing says whose it is
	ReasonAmbiguous = "ambiguous"       // the payer named several
	ReasonCurrency  = "wrong_currency"  // the account on which it was paid is in another currency
	ReasonParts     = "parts_differ"    // a collective booking whose parts do not sum to it
	ReasonTwice     = "perhaps_known"   // another message may have told of it, in other words or under another date
	ReasonPayment   = "part_of_payment" // a part of a payment of ours came back; returned: it was counted for that payment
	ReasonAccount   = "account"         // credited: it was paid on its owner's funding account
	ReasonReference = "reference"       // credited: the payer wrote whose it is
	ReasonOperator  = "operator"        // a person decided
	ReasonBank      = "bank"            // the bank's statement shows it
)

// What an operator may be told.
var (
	ErrNotFound = apierr.New(apierr.NotFound, "not_found", "There is no such transfer.")
	ErrState    = apierr.New(apierr.Conflict, "invalid_state", "The transfer is not in suspense any more.")
	errOwner    = apierr.New(apierr.Invalid, "invalid_parameter", "There is no company or user of this id.")
	errInvoice  = apierr.New(apierr.Conflict, "invalid_state", "The owner has no open invoice of this id in the transfer's currency.")
	errParts    = apierr.New(apierr.Conflict, "invalid_state", "More of the payment waits in suspense than is said to have come back.")
	errGiven    = apierr.New(apierr.Conflict, "invalid_state", "A part of the payment was credited to somebody already; say what came back beside it.")
	errMessage  = apierr.New(apierr.Invalid, "invalid_parameter", "Only booked statements (camt.053) and notifications (camt.054) are credited.")
	errAccount  = apierr.New(apierr.Invalid, "invalid_parameter", "The statement names no account.")
)

// Transfer is one credit.
type Transfer struct {
	ID            string
	BankAccount   string // the operator's
	Number        string // on which it was paid, where the bank says so
	Amount        money.Amount
	BookedOn      string // 2026-01-31
	Debtor        string
	DebtorAccount string
	Lines         []string // the payer's words
	State         State
	Reason        string
	OwnerID       string // "" in suspense
	CompanyID     string // that hears of it: the owner, or whom the user's things are made for; "" for nobody
	PayerID       string // of the owner, "" where none was recognised
	InvoiceID     string // that it pays, "" for none
	PayrollID     string // that the payer named, "" for none
	Version       int64
	CreatedAt     time.Time

	likeness, seen string
	payment        string       // of ours, of which this part came back, "" for none
	place          string       // on account 1020
	part           money.Amount // counted as paid on the invoice
	funds          bool         // the payroll books it, as its funding
}

// item is one line of a bank's message.
type item struct {
	Transfer
	names  []string // the bank's own, each with its kind
	kind   string   // of message
	back   bool     // it takes an earlier credit back
	reason string   // why it cannot be matched
	entry  *entry   // of the statement, nil for a notification
}

// Summary says what a message brought.
type Summary struct {
	Credited, Suspense, Returned int      // new
	Known                        int      // told before
	Others                       int      // debits, announcements, and what package payout looks at: returns of our own payments
	Problems                     []string // bookings that a person must look at: nothing came of them
}

// Import reads a statement or notification of the bank and books what is new, under the ids of the house's accounts that it is of. It
// keeps what a statement says of the account, for reconciliation ([Statements]). Reading the same again changes nothing: do so after an
// error that is [apierr.Passing]. A booking that fails does not keep the others. Returns of our own payments are booked elsewhere, but for
// those that are parts.
func Import(ctx context.Context, d *db.DB, in io.Reader, accounts []bank.Account, parts ...bank.Part) (Summary, error) {
	var s Summary
	var items []item
	var statements []*Statement
	err := iso20022.ReadStatements(in, func(st *iso20022.Statement, e *iso20022.Entry) error {
		switch {
		case st.Message == iso20022.AccountReport:
			return errMessage
		case st.Account == "":
			return fmt.Errorf("statement %s: %w", st.ID, errAccount)
		case e == nil:
			if st.Message == iso20022.BankStatement {
				statements = append(statements, open(st))
			}
		case e.Err != nil: // the others stand
			s.Problems = append(s.Problems, fmt.Sprintf("%s, %s %s: %v", st.Account, e.Reference, e.Servicer, e.Err))
		default:
			some, back := split(st, e), returned(st, e, parts)
			if len(some)+len(back) == 0 {
				s.Others++
			}
			if st.Message == iso20022.BankStatement && e.Final() {
				statements[len(statements)-1].take(e, some)
			}
			for _, it := range append(some, back...) {
				it.place = placeOf(accounts, st.Account, it.Amount.Asset())
				items = append(items, it)
			}
		}
		return nil
	})
	if err != nil {
		return Summary{Problems: s.Problems}, err // a message is read as a whole or not at all
	}
	// What the bank names comes first: the rest is told by what it says, and must not be taken for one that is named below.
	slices.SortStableFunc(items, func(a, b item) int { return min(len(b.names), 1) - min(len(a.names), 1) })
	told := map[string]bool{} // by this message
	var failed error
	for i := range items {
		items[i].likeness = items[i].alike()
		err := items[i].importOne(ctx, d, told, &s)
		switch f, _ := apierr.As(err); {
		case err == nil:
		case !apierr.Passing(err):
			s.Problems = append(s.Problems, fmt.Sprintf("%s: %v", items[i], err))
		case f != nil && f.Kind == apierr.Unavailable || ctx.Err() != nil: // so would be the others
			return s, errors.Join(failed, fmt.Errorf("%s: %w", items[i], err))
		default:
			failed = errors.Join(failed, fmt.Errorf("%s: %w", items[i], err))
		}
	}
	if failed != nil {
		return s, failed
	}
	return s, keep(ctx, d, statements)
}

// String is how a person finds the booking of an item.
func (it item) String() string {
	return fmt.Sprintf("the booking of %s %s on %s, account %s, %s", it.Amount, it.Amount.Asset(), it.BookedOn, it.BankAccount, strings.Join(it.names, ", "))
}

// split makes the credits of a booking, and what takes earlier ones back; none where it is neither.
func split(st *iso20022.Statement, e *iso20022.Entry) []item {
	back := e.Returned(e.Details...)
	if !e.Final() || e.Credit == back { // what was ordered by us, or came back of that: package payout books it
		return nil
	}
	whole := itemOf(st, e)
	whole.back = back
	if len(e.Details) <= 1 {
		whole.name("booking", e.Servicer)
		if len(e.Details) == 1 {
			whole.describe(&e.Details[0])
		}
		return []item{whole}
	}
	var items []item
	sum := money.Zero(e.Amount.Asset())
	for i := range e.Details {
		it := whole
		it.names = nil
		it.describe(&e.Details[i])
		it.Amount = e.Details[i].Amount
		items = append(items, it)
		if it.Amount.Asset() != sum.Asset() || it.Amount.Sign() <= 0 {
			sum = money.Amount{}
			break
		}
		var err error
		if sum, err = sum.Add(it.Amount); err != nil {
			sum = money.Amount{}
			break
		}
	}
	if sum != e.Amount {
		whole.name("booking", e.Servicer)
		whole.reason = ReasonParts
		return []item{whole}
	}
	return items
}

// itemOf begins an item of a booking, of all its amount.
func itemOf(st *iso20022.Statement, e *iso20022.Entry) item {
	it := item{kind: string(st.Message)}
	it.BankAccount, it.Amount = compact(st.Account), e.Amount
	it.BookedOn = e.Booked.Format(time.DateOnly)
	if e.Booked.IsZero() {
		it.BookedOn = e.Valued.Format(time.DateOnly)
	}
	return it
}

// returned makes the credits of a booking by which a part of a payment of ours came back. Of the bank's names only its own of this booking
// are kept: the others are those of the payment, and so the same for each of its parts.
func returned(st *iso20022.Statement, e *iso20022.Entry, parts []bank.Part) (items []item) {
	if !e.Final() || !e.Credit || !e.Returned(e.Details...) {
		return nil
	}
	add := func(it item, names []string) {
		n, ours := bank.FindReference(names...)
		if it.payment = bank.PaymentReference(n.File, n.Position); !ours || !slices.Contains(parts, bank.Part{Payment: it.payment, Amount: it.Amount}) {
			return
		}
		it.reason = ReasonPayment
		if len(e.Details) <= 1 {
			it.name("booking", e.Servicer)
		}
		if !slices.Contains(it.Lines, it.payment) {
			it.Lines = append(it.Lines, it.payment)
		}
		items = append(items, it)
	}
	for i, d := range e.Details {
		it := itemOf(st, e)
		it.describe(&e.Details[i])
		it.names = nil
		it.name("servicer", d.Servicer)
		if len(e.Details) > 1 {
			it.Amount = d.Amount
		}
		if d.Credit {
			add(it, d.Names())
		}
	}
	if len(items) == 0 {
		add(itemOf(st, e), []string{e.Batch.PaymentInfoID, e.Batch.MessageID, e.Reference, e.Servicer, e.Info})
	}
	return items
}

func (it *item) name(kind, text string) {
	if text = strings.TrimSpace(text); text != "" {
		it.names = append(it.names, kind+" "+text)
	}
}

// describe takes what a bank says of one payment.
func (it *item) describe(d *iso20022.Detail) {
	it.name("servicer", d.Servicer)
	it.name("uetr", d.UETR)
	it.name("transaction", d.TransactionID)
	it.Debtor, it.DebtorAccount = d.Debtor.Name, compact(d.Debtor.Account)
	if d.UltimateDebtor != "" {
		it.Debtor = d.UltimateDebtor
	}
	it.Number = compact(d.Creditor.Account)
	it.Lines = slices.DeleteFunc(slices.Concat(d.Remittance, d.Creditors, []string{d.EndToEndID}), func(s string) bool { return strings.TrimSpace(s) == "" })
}

// alike is a digest of all that is said of a credit but the bank's own names: two messages about one credit say the same.
func (it *item) alike() string {
	h := sha256.New()
	parts := []string{it.BookedOn, string(it.Amount.Asset()), it.Amount.String(), strings.ToUpper(compact(it.Debtor)), it.DebtorAccount, it.Number,
		compact(strings.Join(it.Lines, ""))}
	if it.payment != "" {
		parts = append(parts, it.payment)
	}
	for _, part := range parts {
		fmt.Fprintf(h, "%d %s\n", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func compact(s string) string { return strings.Join(strings.Fields(s), "") }

// importOne books an item unless it is known, in a transaction of its own.
func (it *item) importOne(ctx context.Context, d *db.DB, told map[string]bool, s *Summary) error {
	var did Summary
	for range 5 {
		var id string
		err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			did = Summary{}
			if err := lockAccount(ctx, tx, it.BankAccount); err != nil {
				return err
			}
			if it.back {
				id, err = it.takeBack(ctx, tx, &did)
			} else {
				id, err = it.book(ctx, tx, told, &did)
			}
			return err
		})
		if errors.Is(err, db.ErrConflict) {
			continue // the twin has committed: reading anew finds its credit
		}
		if err != nil {
			return err
		}
		if !it.back {
			told[id] = true
		}
		if it.entry != nil {
			it.entry.subject = id
		}
		s.Credited, s.Suspense, s.Returned = s.Credited+did.Credited, s.Suspense+did.Suspense, s.Returned+did.Returned
		s.Known, s.Others, s.Problems = s.Known+did.Known, s.Others+did.Others, append(s.Problems, did.Problems...)
		return nil
	}
	return db.ErrConflict
}

// book books a credit unless it is known, and gives its id.
func (it *item) book(ctx context.Context, tx *db.Tx, told map[string]bool, s *Summary) (id string, err error) {
	known, err := it.known(ctx, tx, told)
	if err != nil {
		return "", err
	}
	if known.ID != "" {
		s.Known++
		if known.Amount != it.Amount {
			s.differs(it, known)
		}
		return known.ID, it.note(ctx, tx, known)
	}
	t := it.Transfer
	t.ID, t.Version, t.CreatedAt, t.seen = tx.NewID("trf"), 1, tx.Now(), it.kind
	t.part = money.Zero(t.Amount.Asset())
	t.State, t.Reason = Suspense, it.reason
	if it.reason == "" {
		if err := t.match(ctx, tx); err != nil {
			return "", err
		}
	}
	if err := insert(ctx, tx, t, it.names); err != nil {
		return "", err
	}
	db.History(tx, ledger.Operator, t.ID, t.Version, "", string(t.State), t.Reason)
	if t.State == Suspense {
		s.Suspense++
		return t.ID, t.post(tx, "suspense", ledger.Operator,
			ledger.Debit(ledger.Bank, t.place, t.Amount), ledger.Credit(ledger.SuspenseUnknown, t.ID, t.Amount))
	}
	s.Credited++
	if err := t.emit(tx, ""); err != nil {
		return "", err
	}
	return t.ID, t.credit(ctx, tx)
}

// credit gives a credit to its owner: as funding of the payroll that it is for, else as balance.
func (t *Transfer) credit(ctx context.Context, tx *db.Tx) error {
	if t.funds {
		return deposit.Transferred(ctx, tx, t.OwnerID, t.PayrollID, t.place, t.ID, t.Amount)
	}
	return t.post(tx, "credit", t.OwnerID, ledger.Debit(ledger.Bank, t.place, t.Amount), ledger.Credit(t.owed(), "", t.Amount))
}

// known finds the credit that an item tells of, if it is booked: by a name of the bank's, or as one that says the same, which this
// message has not told of yet and which the bank has not named differently.
func (it *item) known(ctx context.Context, tx *db.Tx, told map[string]bool) (Transfer, error) {
	t, err := byNames(ctx, tx, it.BankAccount, it.names)
	if err != nil || t.ID != "" {
		return t, err
	}
	like, err := alike(ctx, tx, it.BankAccount, it.likeness)
	if err != nil {
		return t, err
	}
	for _, old := range like {
		if told[old.ID] {
			continue
		}
		names, err := namesOf(ctx, tx, old)
		if err != nil {
			return t, err
		}
		if !differ(names, it.names) {
			return old, nil
		}
	}
	return it.near(ctx, tx, told)
}

// days is how far apart the dates may be that a notification and a statement give one credit.
const days = 5

// near finds the credit that an item tells of where the bank names it nowhere, or not in both, and gives it another date: it is of the
// amount and was told by the other kind of message only. One that says the same is the same. One that only does not contradict makes the
// item wait in suspense: a person can see whether it came twice.
func (it *item) near(ctx context.Context, tx *db.Tx, told map[string]bool) (Transfer, error) {
	booked, _ := time.Parse(time.DateOnly, it.BookedOn) // without a date nothing is near
	all, err := nearby(ctx, tx, it.BankAccount, it.Amount, booked.AddDate(0, 0, -days).Format(time.DateOnly), booked.AddDate(0, 0, days).Format(time.DateOnly))
	if err != nil {
		return Transfer{}, err
	}
	for _, old := range all {
		if told[old.ID] || old.payment != it.payment || slices.Contains(strings.Fields(old.seen), it.kind) {
			continue
		}
		names, err := namesOf(ctx, tx, old)
		if err != nil {
			return Transfer{}, err
		}
		if differ(names, it.names) {
			continue
		}
		same, may := it.says(old)
		if same {
			return old, nil
		}
		if may && it.reason == "" {
			it.reason = ReasonTwice
		}
	}
	return Transfer{}, nil
}

// says compares what an item says with what was said of a credit, but for the date: whether it is the same, and whether it may be.
func (it *item) says(old Transfer) (same, may bool) {
	same, may = true, true
	for _, pair := range [][2]string{
		{strings.ToUpper(compact(it.Debtor)), strings.ToUpper(compact(old.Debtor))},
		{tail(it.DebtorAccount), tail(old.DebtorAccount)}, {tail(it.Number), tail(old.Number)},
		{compact(strings.Join(it.Lines, "")), compact(strings.Join(old.Lines, ""))},
	} {
		same = same && pair[0] == pair[1]
		may = may && (pair[0] == pair[1] || pair[0] == "" || pair[1] == "")
	}
	return same, may
}

// differ says that two sets of names both have one of a kind, and not the same.
func differ(a, b []string) bool {
	for _, x := range a {
		kind, _, _ := strings.Cut(x, " ")
		for _, y := range b {
			if other, _, _ := strings.Cut(y, " "); other == kind && x != y {
				return true
			}
		}
	}
	return false
}

// note adds what an item says newly of a known credit: its names, and the kind of message.
func (it *item) note(ctx context.Context, tx *db.Tx, t Transfer) error {
	if err := insertNames(ctx, tx, t, it.names); err != nil {
		return err
	}
	if slices.Contains(strings.Fields(t.seen), it.kind) {
		return nil
	}
	return setSeen(ctx, tx, t, strings.TrimSpace(t.seen+" "+it.kind))
}

// differs notes that the bank gives one name to two amounts.
func (s *Summary) differs(it *item, t Transfer) {
	s.Problems = append(s.Problems, fmt.Sprintf("%s: %s is booked as %s %s; ask the bank", it, t.ID, t.Amount, t.Amount.Asset()))
}

// takeBack books that an earlier credit is gone. Where the credit is not known, or was of another amount, a person must look.
func (it *item) takeBack(ctx context.Context, tx *db.Tx, s *Summary) (id string, err error) {
	t, err := it.original(ctx, tx)
	switch {
	case err != nil:
		return "", err
	case t.ID == "":
		s.Others++
		s.Problems = append(s.Problems, fmt.Sprintf("%s: it takes back what nobody knows to have come in", it))
		return "", nil
	case t.Amount != it.Amount:
		s.Others++
		s.differs(it, t)
		return "", nil
	case t.State == Returned && t.Reason == ReasonPayment:
		s.Others++
		s.Problems = append(s.Problems, fmt.Sprintf("%s: it takes back a part that was counted for %s", it, t.payment))
		return t.subject(), nil
	case t.State == Returned:
		s.Known++
		return t.subject(), nil
	}
	s.Returned++
	return t.subject(), t.giveBack(ctx, tx, ReasonBank)
}

// subject is what reconciliation calls the bookings of a transfer: a part belongs to the file of its payment.
func (t Transfer) subject() string {
	if n, ok := bank.FindReference(t.payment); ok {
		return bank.FileReference(n.File)
	}
	return t.ID
}

// Subjects are the names under which reconciliation has parts of our own payments, by transfer.
func Subjects(ctx context.Context, tx *db.Tx) (map[string]string, error) {
	of, err := payments(ctx, tx)
	for id, payment := range of {
		of[id] = Transfer{ID: id, payment: payment}.subject()
	}
	return of, err
}

// CountParts takes what waits in suspense of a payment of ours out of there: the payment came back, and whoever says so books all that came
// of it, most, in one. It is their word that nothing else is to be expected. What was credited to somebody already is not part of most.
func CountParts(ctx context.Context, tx *db.Tx, payment string, most money.Amount) error {
	parts, err := partsOf(ctx, tx, payment)
	if err != nil {
		return err
	}
	rest, given := most, false
	for i := range parts {
		t := &parts[i]
		if given = given || t.State == Credited; t.State != Suspense {
			continue
		}
		if rest, err = rest.Sub(t.Amount); err != nil {
			return err
		}
		if rest.Sign() < 0 {
			return errParts
		}
		if err := t.move(ctx, tx, Returned, ReasonPayment); err != nil {
			return err
		}
		if err := t.post(tx, "counted", ledger.Operator,
			ledger.Debit(ledger.SuspenseUnknown, t.ID, t.Amount), ledger.Credit(ledger.Bank, t.place, t.Amount)); err != nil {
			return err
		}
	}
	if given && rest.Sign() > 0 {
		return errGiven
	}
	return nil
}

// original is the credit that an item takes back: the one of its names, or the only one of the amount that has its words.
func (it *item) original(ctx context.Context, tx *db.Tx) (Transfer, error) {
	t, err := byNames(ctx, tx, it.BankAccount, it.names)
	if err != nil || t.ID != "" || len(it.Lines) == 0 {
		return t, err
	}
	same, err := ofAmount(ctx, tx, it.BankAccount, it.Amount)
	if err != nil {
		return t, err
	}
	same = slices.DeleteFunc(same, func(old Transfer) bool {
		return !slices.ContainsFunc(it.Lines, func(line string) bool { return slices.Contains(old.Lines, line) })
	})
	if len(same) != 1 {
		return Transfer{}, nil
	}
	return same[0], nil
}

// giveBack takes a credit out of where it is: out of suspense, or out of its owner's balance as far as that goes; what the owner
// has spent already is owed.
func (t *Transfer) giveBack(ctx context.Context, tx *db.Tx, reason string) error {
	from, owner := t.State, t.OwnerID
	if from == Credited && t.part.Sign() > 0 {
		if err := invoice.TakeBack(ctx, tx, t.OwnerID, t.InvoiceID, t.part); err != nil {
			return err
		}
	}
	if err := t.move(ctx, tx, Returned, reason); err != nil {
		return err
	}
	if from == Suspense {
		return t.post(tx, "return", ledger.Operator,
			ledger.Debit(ledger.SuspenseUnknown, t.ID, t.Amount), ledger.Credit(ledger.Bank, t.place, t.Amount))
	}
	if t.PayrollID != "" {
		if funded, err := deposit.TakenBack(ctx, tx, owner, t.place, t.ID); err != nil || funded {
			return err
		}
	}
	out := ledger.Credit(ledger.Bank, t.place, t.Amount)
	if owner == ledger.Operator {
		return t.post(tx, "return", owner, ledger.Debit(t.owed(), "", t.Amount), out)
	}
	lines, err := ledger.ReversalLines(ctx, tx, owner, t.Amount)
	if err != nil {
		return err
	}
	return t.post(tx, "return", owner, append(lines, out)...)
}

// owed is the account of the books that has a credited transfer.
func (t *Transfer) owed() ledger.Code {
	if t.OwnerID == ledger.Operator {
		return ledger.FXPosition
	}
	return ledger.CompanyFunds
}

// Source of the journals: the wallet's pages know it for a bank deposit.
const Source = "bank_deposit"

func (t *Transfer) post(tx *db.Tx, purpose, owner string, lines ...ledger.Line) error {
	return ledger.Post(tx, ledger.Journal{CompanyID: owner, SourceType: Source, SourceID: t.ID, Purpose: purpose, Lines: lines})
}

// move takes a transfer on from the version that was read, with its history and its event.
func (t *Transfer) move(ctx context.Context, tx *db.Tx, to State, reason string) error {
	from := t.State
	t.State, t.Reason = to, reason
	if err := update(ctx, tx, t, from); err != nil {
		return err
	}
	db.History(tx, ledger.Operator, t.ID, t.Version, string(from), string(to), reason)
	if from == Suspense {
		from = "" // which was nobody's: the owner hears of it for the first time
	}
	return t.emit(tx, from)
}

// emit tells the company of a transfer; what nobody owns is told to nobody.
func (t *Transfer) emit(tx *db.Tx, from State) error {
	return virtualaccount.EmitTransfer(tx, t.OwnerID, t.Version, webhook.TransferData{
		CompanyID: t.CompanyID, TransferID: t.ID, Status: string(t.State), PreviousStatus: string(from), Currency: t.Amount.Asset(), Amount: t.Amount.String(),
		PayrollID: t.PayrollID, InvoiceID: t.InvoiceID, ExternalCompanyID: t.PayerID,
	})
}
