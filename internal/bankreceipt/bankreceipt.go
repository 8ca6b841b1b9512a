// Package bankreceipt books money received on the operator's bank accounts: it imports the bank's statements and
// notifications, determines the owner of each credit, and keeps credits without an owner in suspense until staff
// decide.
//
//	suspense → credited
//	    └──→ returned ←── credited   the bank took it back, or staff sent it back
//	         or it was part of a returned payment that staff recorded
//
// A credit is booked once, even if the bank reports it several times (camt.054 at once, camt.053 at the end of the
// day). It is identified by the bank's references or, if a message has none, by its content. Equal credits in one
// message are different credits.
//
// The owner of a credit is the owner of the funding account that received it, or else the company, payroll or invoice
// whose ID the payer wrote. All other credits are in suspense (account 2500), with a reason. This includes credits
// whose text names a bill, because bills are paid by payrolls and vendors have no balance. A credit that pays an open
// invoice of its owner is applied to that invoice, which is identified by its ID or number, or by the payer's name
// and the exact amount. The money is credited to the owner's balance in any case. A credit for a payroll funded by
// bank transfer, which the payer named or which waits for exactly this amount, is a deposit of that payroll and is
// booked by package deposit. If several owners, payrolls or invoices match, none is chosen.
//
// Fees of an account and interest on it, which the bank's transaction codes identify, are posted only from statements
// (accounts 5010, 4030, 5020; charge.go). Each is posted once, even if a statement is imported several times.
//
// A part of one of our payments that comes back is also in suspense, whatever its text is: only staff can find out
// whether the rest will follow, the bank withholds it, or the part was a mistake.
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

// State is the state of a transfer.
type State string

// States of a transfer.
const (
	Suspense State = "suspense" // the owner of the transfer is unknown
	Credited State = "credited" // the owner's balance includes the transfer
	Returned State = "returned" // the transfer was returned to the sender
)

// Reasons of suspense, credit or return.
const (
	ReasonUnknown   = "unknown"         // nothing identifies an owner
	ReasonAmbiguous = "ambiguous"       // the payer mentioned several owners
	ReasonCurrency  = "wrong_currency"  // the funding account has another currency
	ReasonParts     = "parts_differ"    // the details of the entry do not sum to its amount
	ReasonDuplicate = "perhaps_known"   // may be the same as an imported credit that has another text or date
	ReasonPayment   = "part_of_payment" // a part of a payment that came back; staff record the return
	ReasonAccount   = "account"         // credited: received on the owner's funding account
	ReasonReference = "reference"       // credited: the payer mentioned the owner
	ReasonReversal  = "reversal"        // credited: a payment made in error was reversed
	ReasonOperator  = "operator"        // staff decided
	ReasonBank      = "bank"            // reported by the bank
)

// Errors that are shown to staff.
var (
	ErrNotFound = apierr.New(apierr.NotFound, "not_found", "There is no such transfer.")
	ErrState    = apierr.New(apierr.Conflict, "invalid_state", "The transfer is no longer in suspense.")
	errOwner    = apierr.New(apierr.Invalid, "invalid_parameter", "No company or user has this ID.")
	errInvoice  = apierr.New(apierr.Conflict, "invalid_state",
		"The owner has no open invoice with this ID in the transfer's currency.")
	errBill = apierr.New(apierr.Conflict, "invalid_state",
		"This is a bill, which a payroll of the company pays. Credit the transfer to the company, or send it back.")
	errParts = apierr.New(apierr.Conflict, "invalid_state",
		"The parts of this payment in suspense exceed this amount. Enter the whole amount that came back.")
	errGiven = apierr.New(apierr.Conflict, "invalid_state",
		"A part of this payment was already credited to an owner. Enter only the amount that came back in addition.")
	errMessage = apierr.New(apierr.Invalid, "invalid_parameter",
		"Only booked statements (camt.053) and notifications (camt.054) are credited.")
	errAccount = apierr.New(apierr.Invalid, "invalid_parameter", "The statement has no account number.")
)

// Transfer is one credit on a bank account of the operator.
type Transfer struct {
	ID            string
	BankAccount   string // number of the operator's account
	Number        string // number of the funding account that received the transfer, if reported
	Amount        money.Amount
	BookedOn      string // date, such as 2026-01-31
	Debtor        string
	DebtorAccount string
	Lines         []string // the payer's text
	State         State
	Reason        string
	OwnerID       string // "" in suspense
	CompanyID     string // company that gets the transfer's events: the owner or the company of the user; or ""
	PayerID       string // payer of the owner, or ""
	InvoiceID     string // invoice that the transfer pays, or ""
	PayrollID     string // ID of the payroll that the payer mentioned, or ""
	Version       int64
	CreatedAt     time.Time

	fingerprint, seen string
	payment           string       // reference of the payment that this transfer is a part of, or ""
	file              int64        // number of the payment file that the bank names, or 0
	accountID         string       // dimension of account 1020
	invoiceAmount     money.Amount // amount applied to the invoice
	fundsPayroll      bool         // the transfer is posted as a deposit of the payroll
}

// item is a credit in a message, or the reversal of a credit.
type item struct {
	Transfer
	references []string // the bank's references, each with its kind
	kind       string   // kind of message that reported the credit: camt.053 or camt.054
	isReversal bool     // the item reverses an earlier credit
	reason     string   // reason for suspense if the credit must not be matched; "" otherwise
	entry      *entry   // the item's share of the statement; nil for a notification
}

// Summary counts the items of a message by their effect.
type Summary struct {
	Credited, Suspense, Returned int      // numbers of new transfers by state
	Known                        int      // number of items that were imported before
	Others                       int      // debits, fees, interest, announcements and returned payments
	Problems                     []string // items without effect that staff must check
}

// Import imports a statement or notification and books its new credits. It also stores statements for reconciliation
// ([Statements]). It books credits on the given accounts of the operator. parts are the returned parts of payments
// that package bank found in the message.
//
// Import is idempotent and may be repeated after an error that is [apierr.Passing]. An item that fails does not block
// the others.
func Import(ctx context.Context, d *db.DB, in io.Reader, accounts []bank.Account, parts ...bank.Part) (Summary, error) {
	var s Summary
	var items []item
	var statements []*Statement
	var charges []*charge
	err := iso20022.ReadStatements(in, func(st *iso20022.Statement, e *iso20022.Entry) error {
		switch {
		case st.Message == iso20022.AccountReport:
			return errMessage
		case st.Account == "":
			return fmt.Errorf("statement %s: %w", st.ID, errAccount)
		case e == nil:
			if st.Message == iso20022.BankStatement {
				statements = append(statements, newStatement(st))
			}
		case e.Err != nil:
			s.Problems = append(s.Problems, fmt.Sprintf("%s, %s %s: %v", st.Account, e.Reference, e.Servicer, e.Err))
		default:
			c := newCharge(st, e)
			var some, back []item
			if c == nil {
				some, back = credits(st, e), returnedParts(st, e, parts)
			}
			if len(some)+len(back) == 0 {
				s.Others++
			}
			if st.Message == iso20022.BankStatement && e.Final() {
				at := statements[len(statements)-1].addEntry(e, some)
				if c != nil {
					c.entry, c.accountID = at, accountIDOf(accounts, st.Account, e.Amount.Asset())
					charges = append(charges, c)
				}
			}
			for _, it := range append(some, back...) {
				it.accountID = accountIDOf(accounts, st.Account, it.Amount.Asset())
				items = append(items, it)
			}
		}
		return nil
	})
	if err != nil {
		return Summary{Problems: s.Problems}, err // an incomplete message is not imported
	}
	for _, st := range statements {
		if st.Currency == "" {
			s.Problems = append(s.Problems, fmt.Sprintf("statement %s of %s has no currency, balance or entry", st.ID,
				st.Number))
		}
	}
	// Items with references come first, so that an item without references is not matched by its content with a credit
	// to which another item refers.
	slices.SortStableFunc(items, func(a, b item) int { return min(len(b.references), 1) - min(len(a.references), 1) })
	imported := map[string]bool{} // IDs of the transfers that this message reported
	var failed error
	for i := range items {
		items[i].fingerprint = items[i].computeFingerprint()
		err := items[i].importOne(ctx, d, imported, &s)
		switch f, _ := apierr.As(err); {
		case err == nil:
		case !apierr.Passing(err):
			s.Problems = append(s.Problems, fmt.Sprintf("%s: %v", items[i], err))
		case f != nil && f.Kind == apierr.Unavailable || ctx.Err() != nil: // the remaining items would fail too
			return s, errors.Join(failed, fmt.Errorf("%s: %w", items[i], err))
		default:
			failed = errors.Join(failed, fmt.Errorf("%s: %w", items[i], err))
		}
	}
	if err := errors.Join(failed, postCharges(ctx, d, charges)); err != nil {
		return s, err
	}
	return s, storeStatements(ctx, d, statements)
}

// String returns a description of an item from which staff can find the item's entry.
func (it item) String() string {
	return fmt.Sprintf("entry of %s %s on %s, account %s, %s", it.Amount, it.Amount.Asset(), it.BookedOn, it.BankAccount,
		strings.Join(it.references, ", "))
}

// credits returns the credits of an entry, and the reversals of earlier credits, or nothing.
func credits(st *iso20022.Statement, e *iso20022.Entry) []item {
	back := e.Returned(e.Details...)
	if !e.Final() || e.Credit == back { // package bank posts our own payments and their returns
		return nil
	}
	if _, debit := bank.DebitOf(e); debit { // package directdebit posts the debits that it collects
		return nil
	}
	whole := newItem(st, e)
	whole.isReversal = back
	if len(e.Details) <= 1 {
		whole.addReference("booking", e.Servicer)
		if len(e.Details) == 1 {
			whole.addDetail(&e.Details[0])
		}
		return []item{whole}
	}
	var items []item
	sum := money.Zero(e.Amount.Asset())
	for i := range e.Details {
		it := whole
		it.references = nil
		it.addDetail(&e.Details[i])
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
		whole.addReference("booking", e.Servicer)
		whole.reason = ReasonParts
		return []item{whole}
	}
	return items
}

// newItem returns an item for the whole amount of an entry.
func newItem(st *iso20022.Statement, e *iso20022.Entry) item {
	it := item{kind: string(st.Message)}
	it.BankAccount, it.Amount = compact(st.Account), e.Amount
	if n, ours := bank.FindReference(e.Batch.PaymentInfoID, e.Batch.MessageID, e.Reference); ours {
		it.file = n.File
	}
	it.BookedOn = e.Booked.Format(time.DateOnly)
	if e.Booked.IsZero() {
		it.BookedOn = e.Valued.Format(time.DateOnly)
	}
	return it
}

// returnedParts returns the credits of an entry that are returned parts of our payments. Of the bank's references, it
// uses only the servicer reference, because the others identify the payment and are equal for all its parts.
func returnedParts(st *iso20022.Statement, e *iso20022.Entry, parts []bank.Part) (items []item) {
	if !e.Final() || !e.Credit || !e.Returned(e.Details...) {
		return nil
	}
	add := func(it item, texts []string) {
		n, ours := bank.FindReference(texts...)
		if it.payment = bank.PaymentReference(n.File, n.Position); !ours ||
			!slices.Contains(parts, bank.Part{Payment: it.payment, Amount: it.Amount}) {
			return
		}
		it.reason = ReasonPayment
		if len(e.Details) <= 1 {
			it.addReference("booking", e.Servicer)
		}
		if !slices.Contains(it.Lines, it.payment) {
			it.Lines = append(it.Lines, it.payment)
		}
		items = append(items, it)
	}
	for i, d := range e.Details {
		it := newItem(st, e)
		it.addDetail(&e.Details[i])
		it.references = nil
		it.addReference("servicer", d.Servicer)
		if len(e.Details) > 1 {
			it.Amount = d.Amount
		}
		if d.Credit {
			add(it, d.Names())
		}
	}
	if len(items) == 0 {
		add(newItem(st, e), []string{e.Batch.PaymentInfoID, e.Batch.MessageID, e.Reference, e.Servicer, e.Info})
	}
	return items
}

func (it *item) addReference(kind, text string) {
	if text = strings.TrimSpace(text); text != "" {
		it.references = append(it.references, kind+" "+text)
	}
}

// addDetail sets the fields of an item from a detail.
func (it *item) addDetail(d *iso20022.Detail) {
	it.addReference("servicer", d.Servicer)
	it.addReference("uetr", d.UETR)
	it.addReference("transaction", d.TransactionID)
	it.Debtor, it.DebtorAccount = d.Debtor.Name, compact(d.Debtor.Account)
	if d.UltimateDebtor != "" {
		it.Debtor = d.UltimateDebtor
	}
	it.Number = compact(d.Creditor.Account)
	it.Lines = slices.DeleteFunc(slices.Concat(d.Remittance, d.Creditors, []string{d.EndToEndID}),
		func(s string) bool { return strings.TrimSpace(s) == "" })
}

// computeFingerprint returns a digest of the content of a credit, without the bank's references. It is the same in
// every message about the credit.
func (it *item) computeFingerprint() string {
	h := sha256.New()
	parts := []string{it.BookedOn, string(it.Amount.Asset()), it.Amount.String(), strings.ToUpper(compact(it.Debtor)),
		it.DebtorAccount, it.Number,
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

// importOne books an item in its own transaction, unless it was imported before.
func (it *item) importOne(ctx context.Context, d *db.DB, imported map[string]bool, s *Summary) error {
	var did Summary
	for range 5 {
		var id string
		err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			did = Summary{}
			if err := lockAccount(ctx, tx, it.BankAccount); err != nil {
				return err
			}
			if it.isReversal {
				id, err = it.applyReversal(ctx, tx, &did)
			} else {
				id, err = it.book(ctx, tx, imported, &did)
			}
			return err
		})
		if errors.Is(err, db.ErrConflict) {
			continue // a concurrent import committed the same credit; the next attempt finds it
		}
		if err != nil {
			return err
		}
		if !it.isReversal {
			imported[id] = true
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

// book books a credit, unless it was imported before, and returns its ID.
func (it *item) book(ctx context.Context, tx *db.Tx, imported map[string]bool, s *Summary) (id string, err error) {
	known, err := it.findKnown(ctx, tx, imported)
	if err != nil {
		return "", err
	}
	if known.ID != "" {
		s.Known++
		if known.Amount != it.Amount {
			s.amountDiffers(it, known)
		}
		return known.ID, it.recordMention(ctx, tx, known)
	}
	t := it.Transfer
	t.ID, t.Version, t.CreatedAt, t.seen = tx.NewID("trf"), 1, tx.Now(), it.kind
	t.invoiceAmount = money.Zero(t.Amount.Asset())
	t.State, t.Reason = Suspense, it.reason
	if it.reason == "" {
		if err := t.match(ctx, tx); err != nil {
			return "", err
		}
	}
	if err := insert(ctx, tx, t, it.references); err != nil {
		return "", err
	}
	db.History(tx, ledger.Operator, t.ID, t.Version, "", string(t.State), t.Reason)
	if t.State == Suspense {
		s.Suspense++
		return t.ID, t.post(tx, "suspense", ledger.Operator,
			ledger.Debit(ledger.Bank, t.accountID, t.Amount), ledger.Credit(ledger.SuspenseUnknown, t.ID, t.Amount))
	}
	s.Credited++
	if err := t.emit(tx, ""); err != nil {
		return "", err
	}
	return t.ID, t.credit(ctx, tx)
}

// credit posts a credit to its owner, as a deposit of the payroll or to the balance. It returns an error for an owner
// who cannot have a balance.
func (t *Transfer) credit(ctx context.Context, tx *db.Tx) error {
	kind, _, _ := strings.Cut(t.OwnerID, "_")
	if t.OwnerID != ledger.Operator && kind != "com" && kind != "usr" {
		return fmt.Errorf("bankreceipt: transfer %s: owner %q has no balance", t.ID, t.OwnerID)
	}
	if t.fundsPayroll {
		return deposit.Transferred(ctx, tx, t.OwnerID, t.PayrollID, t.accountID, t.ID, t.Amount)
	}
	return t.post(tx, "credit", t.OwnerID, ledger.Debit(ledger.Bank, t.accountID, t.Amount),
		ledger.Credit(t.ledgerCode(), "", t.Amount))
}

// findKnown returns the imported credit that an item reports, or the zero Transfer. It searches by references, and
// then by content among credits that this message has not reported yet and whose references do not contradict the
// item's references.
func (it *item) findKnown(ctx context.Context, tx *db.Tx, imported map[string]bool) (Transfer, error) {
	t, err := byReferences(ctx, tx, it.BankAccount, it.references)
	if err != nil || t.ID != "" {
		return t, err
	}
	like, err := byFingerprint(ctx, tx, it.BankAccount, it.fingerprint)
	if err != nil {
		return t, err
	}
	for _, old := range like {
		if imported[old.ID] {
			continue
		}
		references, err := referencesOf(ctx, tx, old)
		if err != nil {
			return t, err
		}
		if !contradict(references, it.references) {
			return old, nil
		}
	}
	return it.findNearby(ctx, tx, imported)
}

// maxDateDifference is the largest difference, in days, between the dates of one credit in a notification and in a
// statement.
const maxDateDifference = 5

// findNearby returns the imported credit that an item reports with another date and without common references. The
// credit must have the same amount, and only the other kind of message may have reported it. If the content is equal,
// it is the same credit. If the content is different but does not contradict, the item goes to suspense as a possible
// duplicate.
func (it *item) findNearby(ctx context.Context, tx *db.Tx, imported map[string]bool) (Transfer, error) {
	booked, _ := time.Parse(time.DateOnly, it.BookedOn) // without a date, no credit matches
	all, err := byAmountAndDate(ctx, tx, it.BankAccount, it.Amount,
		booked.AddDate(0, 0, -maxDateDifference).Format(time.DateOnly),
		booked.AddDate(0, 0, maxDateDifference).Format(time.DateOnly))
	if err != nil {
		return Transfer{}, err
	}
	for _, old := range all {
		if imported[old.ID] || old.payment != it.payment || slices.Contains(strings.Fields(old.seen), it.kind) {
			continue
		}
		references, err := referencesOf(ctx, tx, old)
		if err != nil {
			return Transfer{}, err
		}
		if contradict(references, it.references) {
			continue
		}
		same, may := it.compare(old)
		if same {
			return old, nil
		}
		if may && it.reason == "" {
			it.reason = ReasonDuplicate
		}
	}
	return Transfer{}, nil
}

// compare compares the content of an item, without its date, with the content of an earlier credit. same reports
// whether they are equal. may reports whether they may be the same credit, because each field that differs is empty
// in one of them.
func (it *item) compare(old Transfer) (same, may bool) {
	same, may = true, true
	for _, pair := range [][2]string{
		{strings.ToUpper(compact(it.Debtor)), strings.ToUpper(compact(old.Debtor))},
		{lastDigits(it.DebtorAccount), lastDigits(old.DebtorAccount)}, {lastDigits(it.Number), lastDigits(old.Number)},
		{compact(strings.Join(it.Lines, "")), compact(strings.Join(old.Lines, ""))},
	} {
		same = same && pair[0] == pair[1]
		may = may && (pair[0] == pair[1] || pair[0] == "" || pair[1] == "")
	}
	return same, may
}

// contradict reports whether two sets of references have different references of the same kind.
func contradict(a, b []string) bool {
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

// recordMention stores the references and the kind of the message that reported a known credit again.
func (it *item) recordMention(ctx context.Context, tx *db.Tx, t Transfer) error {
	if err := insertReferences(ctx, tx, t, it.references); err != nil {
		return err
	}
	if slices.Contains(strings.Fields(t.seen), it.kind) {
		return nil
	}
	return setSeen(ctx, tx, t, strings.TrimSpace(t.seen+" "+it.kind))
}

// amountDiffers adds the problem that the bank reports a known credit with a different amount.
func (s *Summary) amountDiffers(it *item, t Transfer) {
	s.Problems = append(s.Problems, fmt.Sprintf("%s: %s is booked with %s %s; ask the bank", it, t.ID, t.Amount,
		t.Amount.Asset()))
}

// applyReversal reverses the credit that an item takes back, and returns the credit's subject in reconciliation. If
// the credit is unknown or has a different amount, it adds a problem for staff instead.
func (it *item) applyReversal(ctx context.Context, tx *db.Tx, s *Summary) (id string, err error) {
	t, err := it.findReversed(ctx, tx)
	switch {
	case err != nil:
		return "", err
	case t.ID == "":
		s.Others++
		s.Problems = append(s.Problems, fmt.Sprintf("%s: it reverses an unknown credit; ask the bank", it))
		return "", nil
	case t.Amount != it.Amount:
		s.Others++
		s.amountDiffers(it, t)
		return "", nil
	case t.State == Returned && t.Reason == ReasonPayment:
		s.Others++
		s.Problems = append(s.Problems,
			fmt.Sprintf("%s: it reverses a part of %s, which was recorded as returned; ask the bank", it, t.payment))
		return t.subject(), nil
	case t.State == Returned:
		s.Known++
		return t.subject(), nil
	}
	s.Returned++
	return t.subject(), t.reverse(ctx, tx, ReasonBank)
}

// subject returns the subject of a transfer in reconciliation: the file of the payment for a returned part, otherwise
// the transfer's ID.
func (t Transfer) subject() string {
	if n, ok := bank.FindReference(t.payment); ok {
		return bank.FileReference(n.File)
	}
	return t.ID
}

// Subjects returns the subjects of all returned parts of payments by transfer ID.
func Subjects(ctx context.Context, tx *db.Tx) (map[string]string, error) {
	of, err := payments(ctx, tx)
	for id, payment := range of {
		of[id] = Transfer{ID: id, payment: payment}.subject()
	}
	return of, err
}

// ClearParts takes the returned parts of a payment out of suspense after staff have recorded the return of the
// payment. most is the total amount that came back. ClearParts returns an error if the parts exceed that amount, or
// if a part was already credited to an owner and the amount includes it.
func ClearParts(ctx context.Context, tx *db.Tx, payment string, most money.Amount) error {
	parts, err := returnedPartsOf(ctx, tx, payment)
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
		if err := t.advance(ctx, tx, Returned, ReasonPayment); err != nil {
			return err
		}
		if err := t.post(tx, "counted", ledger.Operator,
			ledger.Debit(ledger.SuspenseUnknown, t.ID, t.Amount),
			ledger.Credit(ledger.Bank, t.accountID, t.Amount)); err != nil {
			return err
		}
	}
	if given && rest.Sign() > 0 {
		return errGiven
	}
	return nil
}

// findReversed returns the credit that an item reverses: the credit with the same references, or else the only credit
// with the same amount and text.
func (it *item) findReversed(ctx context.Context, tx *db.Tx) (Transfer, error) {
	t, err := byReferences(ctx, tx, it.BankAccount, it.references)
	if err != nil || t.ID != "" || len(it.Lines) == 0 {
		return t, err
	}
	same, err := byAmount(ctx, tx, it.BankAccount, it.Amount)
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

// reverse takes a credit out of suspense or out of its owner's balance. If the owner has spent the money, the rest
// becomes a debt.
func (t *Transfer) reverse(ctx context.Context, tx *db.Tx, reason string) error {
	from, owner := t.State, t.OwnerID
	if from == Credited && t.invoiceAmount.Sign() > 0 {
		if err := invoice.TakeBack(ctx, tx, t.OwnerID, t.InvoiceID, t.invoiceAmount); err != nil {
			return err
		}
	}
	if err := t.advance(ctx, tx, Returned, reason); err != nil {
		return err
	}
	if from == Suspense {
		return t.post(tx, "return", ledger.Operator,
			ledger.Debit(ledger.SuspenseUnknown, t.ID, t.Amount), ledger.Credit(ledger.Bank, t.accountID, t.Amount))
	}
	if t.PayrollID != "" {
		if funded, err := deposit.TakenBack(ctx, tx, owner, t.accountID, t.ID); err != nil || funded {
			return err
		}
	}
	out := ledger.Credit(ledger.Bank, t.accountID, t.Amount)
	if owner == ledger.Operator {
		return t.post(tx, "return", owner, ledger.Debit(t.ledgerCode(), "", t.Amount), out)
	}
	lines, err := ledger.ReversalLines(ctx, tx, owner, t.Amount)
	if err != nil {
		return err
	}
	return t.post(tx, "return", owner, append(lines, out)...)
}

// ledgerCode returns the ledger account to which a transfer is credited.
func (t *Transfer) ledgerCode() ledger.Code {
	if t.OwnerID == ledger.Operator {
		return ledger.FXPosition
	}
	return ledger.CompanyFunds
}

// Source is the source type of transfers' journals.
const Source = "bank_deposit"

func (t *Transfer) post(tx *db.Tx, purpose, owner string, lines ...ledger.Line) error {
	return ledger.Post(tx, ledger.Journal{CompanyID: owner, SourceType: Source, SourceID: t.ID, Purpose: purpose,
		Lines: lines})
}

// advance changes the state of a transfer, and adds its history and event. It fails if the transfer has changed since
// it was read.
func (t *Transfer) advance(ctx context.Context, tx *db.Tx, to State, reason string) error {
	from := t.State
	t.State, t.Reason = to, reason
	if err := update(ctx, tx, t, from); err != nil {
		return err
	}
	db.History(tx, ledger.Operator, t.ID, t.Version, string(from), string(to), reason)
	if from == Suspense {
		from = "" // a transfer in suspense had no event
	}
	return t.emit(tx, from)
}

// emit emits an event for the transfer's change from a state. It does nothing if the transfer has no owner.
func (t *Transfer) emit(tx *db.Tx, from State) error {
	return virtualaccount.Announce(tx, t.OwnerID, t.Version, webhook.TransferData{
		CompanyID: t.CompanyID, TransferID: t.ID, Status: string(t.State), PreviousStatus: string(from),
		Currency: t.Amount.Asset(), Amount: t.Amount.String(),
		PayrollID: t.PayrollID, InvoiceID: t.InvoiceID, ExternalCompanyID: t.PayerID,
	})
}
