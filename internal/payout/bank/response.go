package bank

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
	"github.com/stipend/stipend/internal/payout/bank/nacha"
	"github.com/stipend/stipend/internal/webhook"
)

// maxResponse is the size limit of a response file, in bytes.
const maxResponse = 64 << 20

// factKind is the kind of a fact that a bank reports about a payment, a part of a file or a whole file.
type factKind int

const (
	accepted factKind = iota // the bank received the payment
	paid                     // the money left the operator's account
	rejected                 // the bank will not execute the payment
	returned                 // the money came back after the payment was executed
	charged                  // the bank took a fee for the payment
	verified                 // the payee's bank compared the payee's name with that of the account's holder
	changed                  // the payee's bank asks for a correction of the destination
)

// fact is one fact that a response reports about one of our files, parts or payments.
type fact struct {
	ref     Reference
	kind    factKind
	code    string       // reason code of the bank; for verified, the result
	info    string       // text of the bank; for changed, the corrected data; for verified, the holder's name
	amount  money.Amount // without an asset if the response does not state the amount
	certain bool         // entered by staff, not read from a response
	cost    money.Amount // for paid: what left the account, with the bank's price; without an asset, the payment's amount
	price   money.Amount // for paid: the bank's price, a part of cost; may lack an asset
	debit   bool         // about a debit of the payee's account
}

// responseContent is the parsed content of a response file.
type responseContent struct {
	kind        string
	facts       []fact
	debits      []DebitFact
	unmatched   []string // entries about other payments, which are problems unless Config.Statement is set
	problems    []string
	isStatement bool // the file is a complete camt.053 or camt.054 message
	incomplete  bool // the file is unreadable or ends early: the bank may still be writing it
	pending     bool // the response depends on a response that was not read yet, so it will be read again
}

func (s *responseContent) problem(format string, args ...any) {
	if len(s.problems) < 100 {
		s.problems = append(s.problems, fmt.Sprintf(format, args...))
	}
}

// incompleteTimeout is the time for which an unreadable response must stay unchanged before it counts as complete.
// Servers also list files that are still being written.
const incompleteTimeout = 10 * time.Minute

// Collect asks the banks with an API about transfers, and reads all responses in the drop. A response that fails does
// not block the others; Collect joins the errors.
func (r *Rail) Collect(ctx context.Context, d *db.DB) error {
	checked := r.checkTransfers(ctx, d)
	if r.c.Drop == nil {
		return checked
	}
	if r.c.Simulate != nil {
		if err := r.c.Simulate(ctx); err != nil {
			return err
		}
	}
	names, err := r.c.Drop.Responses(ctx)
	if err != nil {
		return errors.Join(checked, err)
	}
	failed := checked
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return errors.Join(failed, err)
		}
		if err := r.collect(ctx, d, name); err != nil {
			failed = errors.Join(failed, fmt.Errorf("response %s: %w", name, err))
		}
	}
	return failed
}

func (r *Rail) collect(ctx context.Context, d *db.DB, name string) error {
	var body []byte
	err := r.c.Drop.Read(ctx, name, func(in io.Reader) (err error) {
		body, err = io.ReadAll(io.LimitReader(in, maxResponse+1))
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another process has read the response
	}
	if err != nil {
		return err
	}
	s := parseResponse(body)
	a := Response{Checksum: checksum(body), Name: name}
	if s.incomplete {
		a.Checksum = incompleteChecksum(name, body)
	}
	var settled bool
	var since, now time.Time
	if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		now = tx.Now()
		settled, since, err = findResponse(ctx, tx, a.Checksum)
		return err
	}); err != nil {
		return err
	}
	switch {
	case settled && !s.incomplete:
		return r.c.Drop.Done(ctx, name)
	case s.incomplete: // a settled response of this name was a different file
		s.pending = settled || since.IsZero() || now.Sub(since) < incompleteTimeout || len(body) == 0
	}
	if err := r.apply(ctx, d, body, &s); err != nil {
		return err
	}
	a.Kind, a.Facts, a.Problems, a.Settled = s.kind, int64(len(s.facts)+len(s.debits)), s.problems, !s.pending
	if len(s.problems) > 0 && (!s.incomplete || !s.pending) {
		r.c.Log.ErrorContext(ctx, "a bank's response needs a person", "response", name, "problems", s.problems)
	}
	if err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return storeResponse(ctx, tx, a) }); err != nil ||
		s.pending {
		return err
	}
	return r.c.Drop.Done(ctx, name)
}

// incompleteChecksum returns the checksum of an incomplete file. It includes the name, because different files often
// begin with the same bytes.
func incompleteChecksum(name string, body []byte) string {
	return checksum([]byte(name + "\x00" + checksum(body)))
}

// parseResponse parses a response file of any supported format. It records everything that it cannot use as a
// problem.
func parseResponse(body []byte) (s responseContent) {
	trimmed := bytes.TrimSpace(body)
	switch {
	case len(body) > maxResponse:
		s.problem("the file is larger than %d MiB", maxResponse>>20)
	case bytes.HasPrefix(trimmed, []byte("101")):
		s.kind = FormatNACHA
		s.returns(trimmed)
	default:
		kind, err := iso20022.KindOf(bytes.NewReader(body))
		if err != nil {
			s.incomplete = true
			s.problem("the file cannot be read: %v", err)
			return s
		}
		s.kind = string(kind)
		switch kind {
		case iso20022.StatusReport:
			s.status(body)
		case iso20022.BankStatement, iso20022.AccountReport, iso20022.Notification:
			err := iso20022.ReadStatements(bytes.NewReader(body), func(st *iso20022.Statement, en *iso20022.Entry) error {
				s.entry(st, en)
				return nil
			})
			s.isStatement = err == nil && kind != iso20022.AccountReport
			if err != nil {
				s.incomplete, s.facts, s.debits, s.unmatched = true, nil, nil, nil // an incomplete statement is not used
				s.problem("the file cannot be read to its end: %v", err)
			}
		default:
			s.problem("message %s is not a response to a payment file", kind)
		}
	}
	return s
}

// returns parses a NACHA file of returned entries and notifications of change.
func (s *responseContent) returns(body []byte) {
	file, err := nacha.Read(bytes.NewReader(body))
	if err != nil {
		s.incomplete = true
		s.problem("%v", err)
		return
	}
	for _, a := range file.Responses {
		ref, ours := FindReference(a.ID)
		debit, isDebit := FindDebit(a.ID)
		switch {
		case isDebit && a.Debit && !a.IsChange() && !a.Dishonored():
			s.debits = append(s.debits, DebitFact{Number: debit, Outcome: DebitReturned, Code: a.Code, Info: a.Info,
				Amount: money.New(money.USD, a.Cents)})
		case isDebit:
			s.problem("%s (%s) for the direct debit %s: ask the company for a new mandate if its account has changed", a.Code,
				nacha.ReasonText(a.Code), a.ID)
		case !ours || ref.Position == 0 && !a.Debit:
			s.problem("%s for %q, which is not a payment of this service", a.Code, a.ID)
		case a.Dishonored():
			s.problem("%s for %s: the bank disputes a return that this service did not make", a.Code, a.ID)
		case a.Debit && ref.Position > 0:
			s.facts = append(s.facts, fact{ref: ref, kind: returned, code: a.Code, info: a.Info, debit: true})
		case a.Debit || ref.Part > 0:
			s.problem("%s (%s): the debit of the operator's account was returned, %s", a.Code, nacha.ReasonText(a.Code), a.ID)
		case a.IsChange():
			if _, err := a.Correction(); err != nil {
				s.problem("%s: %v", a.ID, err)
			}
			s.facts = append(s.facts, fact{ref: ref, kind: changed, code: a.Code, info: a.Corrected})
		default:
			s.facts = append(s.facts, fact{ref: ref, kind: returned, code: a.Code, info: a.Info,
				amount: money.New(money.USD, a.Cents)})
		}
	}
}

// status parses a pain.002 message, which reports the state of an order before the order is booked.
func (s *responseContent) status(body []byte) {
	st, err := iso20022.ReadStatus(bytes.NewReader(body))
	if err != nil {
		s.incomplete = true
		s.problem("%v", err)
		return
	}
	if debit, ok := FindDebit(st.Order); ok {
		s.debits = append(s.debits, debitStatusFacts(debit, st)...)
		return
	}
	whole, ours := FindReference(st.Order)
	if !ours {
		s.problem("it is a response to %.40q, which is not a file of this service", st.Order)
		return
	}
	add := func(ref Reference, code string, why []iso20022.Reason) {
		f := fact{ref: ref}
		switch iso20022.OutcomeOf(code) {
		case iso20022.Accepted, iso20022.Mixed:
			f.kind = accepted
		case iso20022.Paid:
			f.kind = paid
		case iso20022.Rejected:
			f.kind, f.code = rejected, code
		case iso20022.Unknown:
			if code != "" {
				s.problem("the status %.10q of %s is unknown", code, FileReference(ref.File))
			}
			return
		}
		for _, r := range why {
			if r.Code != "" {
				f.code = r.Code
			}
			f.info = strings.TrimSpace(f.info + " " + strings.Join(r.Info, " "))
		}
		s.facts = append(s.facts, f)
		if v := iso20022.VerificationOf(code); v != "" {
			name := f.info
			if v != iso20022.CloseMatch {
				name = ""
			}
			s.facts = append(s.facts, fact{ref: ref, kind: verified, code: string(v), info: name})
		}
	}
	for _, p := range st.Payments { // payments first: unlike the whole file, they have reasons
		ref, ours := FindReference(p.ID)
		if !ours || ref.File != whole.File || ref.Position == 0 {
			s.problem("it names %.40q, which is not a payment of %s", p.ID, st.Order)
			continue
		}
		add(ref, p.Code, p.Reasons)
	}
	add(Reference{File: whole.File}, st.Code, st.Reasons)
}

// entry parses one entry of an account statement.
func (s *responseContent) entry(st *iso20022.Statement, e *iso20022.Entry) {
	if e == nil {
		if st.Err != nil {
			s.problem("statement %s: %v", st.ID, st.Err)
		}
		return
	}
	what := fmt.Sprintf("entry %s of statement %s", cmp.Or(e.Reference, e.Servicer), st.ID)
	switch {
	case e.Err != nil:
		s.unmatched = append(s.unmatched, fmt.Sprintf("%s: %v", what, e.Err))
		return
	case !e.Final():
		return // the entry is only announced; a booked entry follows
	}
	if debit, ok := DebitOf(e); ok {
		if e.Credit && e.Returned(e.Details...) {
			s.problem("%s: a return of %s was undone; credit the company", what, DebitReference(debit))
			return
		}
		s.debits = append(s.debits, debitEntryFacts(debit, e)...)
		return
	}
	before := len(s.facts)
	for _, d := range e.Details {
		ref, ours := FindReference(d.Names()...)
		if !ours || d.Credit != e.Returned(d) {
			continue // a payer can write one of our references into any transfer
		}
		f := fact{ref: ref, amount: d.Amount, code: d.ReturnReason, info: strings.Join(d.ReturnInfo, " ")}
		switch {
		case d.Credit && ref.Position > 0:
			f.kind = returned
			if len(e.Details) == 1 {
				f.amount = e.Amount // the amount that arrived, not the original amount
			}
		case d.Credit:
			s.problem("%s: %s %s were returned for the whole file %s", what, d.Amount, d.Amount.Asset(), FileReference(ref.File))
			return
		case d.Type.IsFee():
			f.kind = charged
		default:
			f.kind = paid
		}
		s.facts = append(s.facts, f)
	}
	if len(s.facts) > before {
		if n := len(s.facts) - before; n < len(e.Details) {
			s.problem("%s: %d of its %d payments are not of this service", what, len(e.Details)-n, len(e.Details))
		}
		return
	}
	ref, ours := FindReference(e.Batch.PaymentInfoID, e.Batch.MessageID, e.Reference, e.Servicer, e.Info)
	back := e.Returned(e.Details...)
	switch {
	case ours && !e.Credit && !back:
		f := fact{ref: ref, amount: e.Amount, kind: paid}
		if e.Type.IsFee() {
			f.kind = charged
		}
		s.facts = append(s.facts, f)
	case ours && e.Credit && back && ref.Position > 0:
		s.facts = append(s.facts, fact{ref: ref, amount: e.Amount, kind: returned})
	case e.Credit && back:
		s.problem("%s: %s %s were returned for an unknown payment", what, e.Amount, e.Amount.Asset())
	case e.Credit:
		s.unmatched = append(s.unmatched, fmt.Sprintf("%s: %s %s were received for an unknown purpose", what, e.Amount,
			e.Amount.Asset()))
	case back:
		s.unmatched = append(s.unmatched, fmt.Sprintf("%s: %s %s were taken back for an unknown credit", what, e.Amount,
			e.Amount.Asset()))
	case e.Type.IsFee() || e.Type.IsInterest(): // a fee of the account, not of a payment
		s.unmatched = append(s.unmatched, fmt.Sprintf("%s: the bank charged %s %s", what, e.Amount, e.Amount.Asset()))
	default:
		s.problem("%s: %s %s left the account for an unknown purpose", what, e.Amount, e.Amount.Asset())
	}
}

// apply applies a response to its files, each in its own transaction, and then passes statements to Config.Statement.
func (r *Rail) apply(ctx context.Context, d *db.DB, body []byte, s *responseContent) error {
	var order []int64
	var parts []Part
	of := map[int64][]fact{}
	for _, f := range s.facts {
		if of[f.ref.File] == nil {
			order = append(order, f.ref.File)
		}
		of[f.ref.File] = append(of[f.ref.File], f)
	}
	for _, number := range order {
		var b *fileUpdate
		err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			b, err = r.updateFile(ctx, tx, number, of[number])
			return err
		})
		if err != nil {
			return err
		}
		s.pending = s.pending || b.pending
		for _, p := range b.problems {
			s.problem("%s", p)
		}
		parts = append(parts, b.parts...)
	}
	if len(s.debits) > 0 && r.c.Debits == nil {
		s.problem("it reports direct debits, and none are configured")
	} else if len(s.debits) > 0 {
		problems, err := r.c.Debits(ctx, d, s.debits)
		for _, p := range problems {
			s.problem("%s", p)
		}
		if err != nil {
			return err
		}
	}
	if s.isStatement && r.c.Statement != nil {
		problems, err := r.c.Statement(ctx, d, bytes.NewReader(body), parts)
		for _, p := range problems {
			s.problem("%s", p)
		}
		return err
	}
	for _, p := range parts {
		s.problem("%s %s were returned for %s, which is a part of it; only a statement or notification books a part",
			p.Amount, p.Amount.Asset(), p.Payment)
	}
	for _, o := range s.unmatched {
		s.problem("%s", o)
	}
	return nil
}

// fileUpdate collects the effect of one response on one file.
type fileUpdate struct {
	f             File
	fee           money.Amount // largest amount that the bank may withhold from a returned payment
	all           []*payment
	lines         []ledger.Line
	changed       map[int]*payment
	fulfilled     map[string]bool    // output IDs
	failed        map[string]string  // output ID → the bank's reason
	fallback      bool               // payments that the bank refuses as instant payments are queued as ordinary payments
	requeued      map[string]string  // output ID → the bank's reason, for payments that are queued again
	returned      map[string]fact    // output ID → the return that the bank reported
	parts         []Part             // partial amounts that came back
	prenotes      map[string]Checked // results by prenote ID
	reversal      string             // new state of the file's reversal, "" if unchanged
	reversalCode  string
	changes       []fact
	verifications []fact
	problems      []string
	pending       bool // the response depends on a response that was not read yet
}

func (b *fileUpdate) problem(format string, args ...any) {
	if len(b.problems) < 100 {
		b.problems = append(b.problems, b.f.Name+": "+fmt.Sprintf(format, args...))
	}
}

// newFileUpdate returns an empty update of a locked file. fee is the largest amount that the bank may withhold from a
// returned payment.
func newFileUpdate(ctx context.Context, tx *db.Tx, f File, fee money.Amount) (*fileUpdate, error) {
	all, err := payments(ctx, tx, f)
	return &fileUpdate{
		f: f, fee: fee, all: all, changed: map[int]*payment{},
		fulfilled: map[string]bool{}, failed: map[string]string{}, returned: map[string]fact{}, requeued: map[string]string{},
		prenotes: map[string]Checked{},
	}, err
}

// updateFile applies the facts of a response to one file.
func (r *Rail) updateFile(ctx context.Context, tx *db.Tx, number int64, facts []fact) (*fileUpdate, error) {
	f, err := lock(ctx, tx, number)
	if errors.Is(err, db.ErrNoRows) {
		return &fileUpdate{problems: []string{FileReference(number) + " is not a file of this service"}},
			pauseUnknown(ctx, tx, number, facts)
	}
	if err != nil {
		return nil, err
	}
	b, err := newFileUpdate(ctx, tx, f, r.returnFee(f))
	if err != nil {
		return nil, err
	}
	b.fallback = f.Instant && r.fallsBack(f)
	for _, fact := range facts {
		if r.refusedDay(f, fact, tx.Now()) {
			for _, p := range b.payments(fact.ref) {
				if err := b.writeAgain(ctx, tx, p); err != nil {
					return nil, err
				}
			}
		}
		b.apply(fact)
	}
	if !strings.HasSuffix(f.Name, apiSuffix) {
		if err := b.f.received(ctx, tx); err != nil { // a response proves that the bank received the file
			return nil, err
		}
	}
	if err := r.storeChanges(ctx, tx, b); err != nil {
		return nil, err
	}
	if err := r.storeVerifications(ctx, tx, b); err != nil {
		return nil, err
	}
	if err := b.writeReversal(ctx, tx); err != nil {
		return nil, err
	}
	if err := r.writePrenotes(ctx, tx, b); err != nil {
		return nil, err
	}
	return b, b.write(ctx, tx)
}

// finalReasons are the reasons for which a bank that refused an instant payment would also refuse an ordinary payment.
var finalReasons = []string{"AC01", "AC03", "AC04", "AC06", "AC07", "AC14", "AM01", "AM03", "AM05", "BE01", "BE04",
	"BE22", "DU04", "FRAD", "FR01", "MD07", "RC01", "RC04", "RF01", "RR02", "RR03", "RR04", "RR07", "RR10"}

// fallsBack reports whether instant payments of a file that the bank refused are sent again as ordinary payments.
func (r *Rail) fallsBack(f File) bool {
	return slices.ContainsFunc(r.c.Accounts, func(a Account) bool {
		return a.ID == f.Account && a.Currency == f.Total.Asset() && a.Instant != nil && a.Instant.Fallback
	})
}

// returnFee returns the largest amount that the bank of a file may withhold from a returned payment.
func (r *Rail) returnFee(f File) money.Amount {
	for _, a := range r.c.Accounts {
		if fee, err := a.maxReturnFee(); a.ID == f.Account && a.Currency == f.Total.Asset() && err == nil {
			return fee
		}
	}
	return money.Zero(f.Total.Asset())
}

// pauseUnknown pauses all payouts when the bank received a file of this service that the database does not contain,
// for example because the database was restored from an older backup. The file may have paid outputs that are still
// queued. If payments of the file were already marked as paid, pauseUnknown does not pause payouts again.
func pauseUnknown(ctx context.Context, tx *db.Tx, number int64, facts []fact) error {
	found, err := payout.PaidByPrefix(ctx, tx, payout.RailBank, FileReference(number)+"P")
	if err != nil || len(found) > 0 || !slices.ContainsFunc(facts,
		func(f fact) bool { return f.kind == accepted || f.kind == paid }) {
		return err
	}
	if why, err := payout.Paused(ctx, tx); err != nil || why != "" {
		return err
	}
	return payout.SetPaused(ctx, tx,
		"the bank received the file "+FileReference(number)+", which this database does not contain")
}

// apply changes the states of payments according to a fact. A fact that was applied before has no effect.
func (b *fileUpdate) apply(f fact) {
	some := b.payments(f.ref)
	if len(some) == 0 {
		b.problem("the file has no payment %d or no part %d", f.ref.Position, f.ref.Part)
		return
	}
	if a := f.amount.Asset(); a != "" && a != b.f.Total.Asset() && f.kind != charged {
		b.problem("the response states %s %s, but the file pays %s", f.amount, a, b.f.Total.Asset())
		return
	}
	if b.f.Kind == KindPrenotes {
		b.applyPrenote(some, f)
		return
	}
	if b.f.Kind == KindReversals {
		b.applyReversal(some[0], f)
		return
	}
	if f.debit {
		b.problem("%s (%s): a debit was returned, payment %d", f.code, nacha.ReasonText(f.code), f.ref.Position)
		return
	}
	switch f.kind {
	case accepted:
	case paid:
		if a := f.amount.Asset(); a != "" && f.amount != due(some) {
			// The bank may reject some of the payments in another response, which is read later.
			b.pending = b.pending || f.ref.Position == 0 && f.amount.Cmp(due(some)) < 0
			b.problem("%s %s left the account for payment %d, part %d, but %s were due", f.amount, a, f.ref.Position, f.ref.Part,
				due(some))
			return
		}
		for _, p := range some {
			b.markPaid(p, f)
		}
	case rejected:
		for _, p := range some {
			b.markRejected(p, f)
		}
	case returned:
		b.markReturned(some[0], f)
	case charged:
		b.recordFee(some[0], f)
	case verified:
		b.verifications = append(b.verifications, f)
	case changed:
		b.changes = append(b.changes, f)
	}
}

// payments returns the payments to which a reference refers.
func (b *fileUpdate) payments(ref Reference) []*payment {
	var some []*payment
	for _, p := range b.all {
		if (ref.Position == 0 || p.position == ref.Position) && (ref.Part == 0 || p.part == ref.Part) {
			some = append(some, p)
		}
	}
	return some
}

// due returns the amount that the bank debits for some payments: the sum of the payments that it did not reject.
func due(some []*payment) money.Amount {
	sum := money.Zero(some[0].amount.Asset())
	for _, p := range some {
		if p.state != Rejected {
			sum, _ = sum.Add(p.amount) // cannot overflow: the sum of the file did not
		}
	}
	return sum
}

// markPaid records that the money of a payment left the account, as f reports it. A payment that the bank exchanges
// is recorded only if f states its cost.
func (b *fileUpdate) markPaid(p *payment, f fact) {
	if p.state != Ordered {
		return
	}
	if f.cost.Asset() != "" {
		p.cost, p.price = f.cost.Units(), f.price.Units()
	}
	lines, err := b.costOf(p, ledger.Debit, ledger.Credit)
	if err != nil {
		b.problem("payment %d left the account: %v", p.position, err)
		return
	}
	p.state, b.changed[p.position], b.fulfilled[p.output] = Paid, p, true
	b.lines = append(b.lines, ledger.Debit(ledger.InTransit, b.f.ID, p.amount))
	b.lines = append(b.lines, lines...)
}

// costOf returns the lines that credit the account with the cost of a payment and balance the payment's amount: the
// bank's price is a fee, and the rest is the amount itself or was exchanged for it. With debit and credit swapped,
// the lines undo this.
func (b *fileUpdate) costOf(p *payment, debit, credit func(ledger.Code, string, money.Amount) ledger.Line,
) ([]ledger.Line, error) {
	if p.cost == 0 && b.f.Currency == p.amount.Asset() {
		return []ledger.Line{credit(ledger.Bank, b.f.Account, p.amount)}, nil
	}
	cost, price := money.New(b.f.Currency, p.cost), money.New(b.f.Currency, p.price)
	rest, err := cost.Sub(price)
	switch {
	case err != nil || price.Sign() < 0 || rest.Sign() <= 0:
		return nil, fmt.Errorf("its cost of %s with a price of %s %s is not known yet", cost, price, b.f.Currency)
	case b.f.Currency == p.amount.Asset() && rest != p.amount:
		return nil, fmt.Errorf("its cost of %s less the price of %s %s is not %s", cost, price, b.f.Currency, p.amount)
	}
	lines := []ledger.Line{debit(ledger.BankFee, b.f.Account, price), credit(ledger.Bank, b.f.Account, cost)}
	if b.f.Currency != p.amount.Asset() {
		lines = append(lines, debit(ledger.FXPosition, "", rest), credit(ledger.FXPosition, "", p.amount))
	}
	return lines, nil
}

// markRejected records that the bank did not pay a payment. The amount is owed to the payee again.
func (b *fileUpdate) markRejected(p *payment, f fact) {
	switch p.state {
	case Paid, Returned:
		if f.ref.Position > 0 {
			b.problem("payment %d is rejected (%s), but its money left the account before", p.position, f.code)
		}
		return
	case Rejected:
		return
	}
	p.state, p.reason, b.changed[p.position] = Rejected, f.code, p
	if b.fallback && !slices.Contains(finalReasons, f.code) {
		b.requeued[p.output] = f.code
	} else {
		b.failed[p.output] = f.code
	}
	b.lines = append(b.lines, ledger.Debit(ledger.InTransit, b.f.ID, p.amount),
		ledger.Credit(ledger.OutputPayable, p.output, p.amount))
}

// markReturned records that the money of a payment came back, minus the bank's fee. It first marks the payment as
// paid if no response has reported that before. If the bank withheld more than is permitted, the amount is recorded
// as a part, and the payment keeps its state until staff decide (see [RecordReturn]).
func (b *fileUpdate) markReturned(p *payment, f fact) {
	if p.state == Returned {
		return
	}
	if p.state == Rejected {
		b.problem("payment %d was returned, but it was rejected before", p.position)
		return
	}
	back := f.amount
	if back.Asset() == "" {
		back = p.amount
	}
	kept, err := p.amount.Sub(back)
	if err != nil || kept.Sign() < 0 || back.Sign() <= 0 {
		b.problem("%s %s were returned for payment %d of %s", back, back.Asset(), p.position, p.amount)
		return
	}
	b.markPaid(p, f)
	if p.state != Paid {
		return
	}
	if !f.certain && kept.Cmp(b.fee) > 0 {
		b.parts = append(b.parts, Part{Payment: PaymentReference(b.f.Number, p.position), Amount: back})
		return
	}
	lines := []ledger.Line{ledger.Debit(ledger.Bank, b.f.Account, back), ledger.Debit(ledger.BankFee, b.f.Account, kept)}
	if p.cost > 0 { // the bank gives back the payment's cost
		if kept.Sign() > 0 {
			b.problem("%s %s of payment %d were returned, which cost %s %s; book the difference", back, back.Asset(),
				p.position, money.New(b.f.Currency, p.cost), b.f.Currency)
			return
		}
		if lines, err = b.costOf(p, ledger.Credit, ledger.Debit); err != nil {
			b.problem("payment %d came back: %v", p.position, err)
			return
		}
	}
	p.state, p.reason, b.changed[p.position] = Returned, cmp.Or(f.code, "returned"), p
	p.fee += kept.Units()
	f.code = p.reason
	b.returned[p.output] = f
	b.lines = append(append(b.lines, lines...), ledger.Credit(ledger.OutputPayable, p.output, p.amount))
}

// recordFee posts a bank fee. It posts only one fee per payment, because a second fee looks like a repeated report of
// the first.
func (b *fileUpdate) recordFee(p *payment, f fact) {
	if p.fee > 0 {
		if p.fee != f.amount.Units() {
			b.problem("another fee for payment %d: %s %s", p.position, f.amount, f.amount.Asset())
		}
		return
	}
	if f.amount.Asset() != b.f.Total.Asset() || f.amount.Sign() <= 0 {
		b.problem("the fee of %s %s for payment %d is invalid", f.amount, f.amount.Asset(), p.position)
		return
	}
	p.fee += f.amount.Units()
	b.changed[p.position] = p
	b.lines = append(b.lines, ledger.Debit(ledger.BankFee, b.f.Account, f.amount),
		ledger.Credit(ledger.Bank, b.f.Account, f.amount))
}

// storeChanges stores the notifications of change of a response and enqueues a job for each new one.
func (r *Rail) storeChanges(ctx context.Context, tx *db.Tx, b *fileUpdate) error {
	for _, c := range b.changes {
		sealed, err := r.c.Sealer.Seal(changeAt(b.f, c.ref.Position, c.code), []byte(c.info))
		if err != nil {
			return err
		}
		isNew, err := insertChange(ctx, tx, b.f, c.ref.Position, c.code, sealed)
		if err != nil {
			return err
		}
		if isNew {
			job.Enqueue(tx, job.New{CompanyID: b.f.CompanyID, Kind: jobChange,
				Payload: changeJob{b.f.ID, c.ref.Position, c.code}})
		}
	}
	return nil
}

// write stores the update: payments, outputs, journal and events.
func (b *fileUpdate) write(ctx context.Context, tx *db.Tx) error {
	if len(b.changed) == 0 {
		return nil
	}
	changed := make([]*payment, 0, len(b.changed))
	for _, p := range b.all {
		if b.changed[p.position] != nil {
			changed = append(changed, p)
		}
	}
	if err := storePayments(ctx, tx, b.f, changed); err != nil {
		return err
	}
	outs, err := payout.InBatches(ctx, tx, b.f.CompanyID, b.f.ID)
	if err != nil {
		return err
	}
	pick := func(which func(o *payout.Output) bool) (some []*payout.Output) {
		for i := range outs {
			if which(&outs[i]) {
				some = append(some, &outs[i])
			}
		}
		return some
	}
	open := []payout.State{payout.Prepared, payout.Sent, payout.UnknownOutcome}
	fulfilled := pick(func(o *payout.Output) bool { return b.fulfilled[o.ID] && slices.Contains(open, o.State) })
	if err := payout.Advance(ctx, tx, fulfilled, payout.Fulfilled, func(*payout.Output) string { return "" }); err != nil {
		return err
	}
	failed := pick(func(o *payout.Output) bool { _, has := b.failed[o.ID]; return has && slices.Contains(open, o.State) })
	reason := func(o *payout.Output) string { return b.failed[o.ID] }
	if err := payout.Advance(ctx, tx, failed, payout.Failed, reason); err != nil {
		return err
	}
	requeued := pick(func(o *payout.Output) bool {
		_, has := b.requeued[o.ID]
		return has && slices.Contains(open, o.State)
	})
	reason = func(o *payout.Output) string { return b.requeued[o.ID] }
	if err := payout.Requeue(ctx, tx, requeued, reason); err != nil {
		return err
	}
	returned := pick(func(o *payout.Output) bool { _, has := b.returned[o.ID]; return has && o.State == payout.Fulfilled })
	reason = func(o *payout.Output) string { return b.returned[o.ID].code }
	if err := payout.Advance(ctx, tx, returned, payout.Returned, reason); err != nil {
		return err
	}
	for _, o := range returned {
		if err := emitReturned(tx, *o, b.returned[o.ID]); err != nil {
			return err
		}
	}
	payout.Announce(tx, values(pick(func(o *payout.Output) bool {
		_, failed := b.failed[o.ID]
		_, returned := b.returned[o.ID]
		_, requeued := b.requeued[o.ID]
		return b.fulfilled[o.ID] || failed || returned || requeued
	})))
	ended := !slices.ContainsFunc(b.all, func(p *payment) bool { return p.state != Rejected })
	if ended && (b.f.State == Sent || b.f.State == Prepared) {
		why := "the bank rejected every payment"
		if b.f.State == Prepared {
			why = reasonLate
		}
		if err := b.f.advance(ctx, tx, Refused, why); err != nil {
			return err
		}
	} else if err := b.f.advance(ctx, tx, b.f.State, ""); err != nil { // the version names the next journal
		return err
	}
	return b.f.post(tx, "answer."+strconv.FormatInt(b.f.Version, 10), b.lines)
}

func values(some []*payout.Output) []payout.Output {
	outs := make([]payout.Output, len(some))
	for i, o := range some {
		outs[i] = *o
	}
	return outs
}

func emitReturned(tx *db.Tx, o payout.Output, f fact) error {
	if identity.IsUser(o.CompanyID) {
		return nil // the events of the user's income report it
	}
	meaning := iso20022.ReasonText(f.code)
	if meaning == "" {
		meaning = nacha.ReasonText(f.code)
	}
	return webhook.Emit(tx, webhook.PayoutReturned.Event(o.CompanyID, o.ID, o.Version, webhook.PayoutReturnedData{
		PayoutID: o.ID, PayrollID: o.PayrollID, SubpayrollID: o.PaymentID, DistributionID: o.DistributionID, Amount: o.Amount,
		Currency: o.Amount.Asset(), Reason: f.code, ReasonText: meaning, BankText: f.info,
		Returned: tx.Now().Truncate(time.Millisecond),
	}))
}
