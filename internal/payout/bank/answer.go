package bank

import (
	"bytes"
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
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
	"github.com/stipend/stipend/internal/payout/bank/nacha"
	"github.com/stipend/stipend/internal/webhook"
)

// maxAnswer is how large a bank's file may be that is read.
const maxAnswer = 64 << 20

// word is what a bank says of a payment, a part of a file, or a file.
type word int

const (
	taken    word = iota // the bank has it
	paid                 // the money left
	rejected             // it will never leave
	returned             // it left and came back
	charged              // the bank took a fee for it
	changed              // something about the destination should be put right
)

// fact is one thing that an answer says of something of ours.
type fact struct {
	about   Named
	word    word
	code    string       // of the bank's reason
	info    string       // in its words; of a change, what it should be
	amount  money.Amount // that moved; without an asset when the answer does not say
	certain bool         // a person says so
}

// said is all that an answer says.
type said struct {
	kind     string
	facts    []fact
	others   []string // what is said of bookings that are not of our payments, for a person where nobody else reads them
	problems []string
	whole    bool // a statement or notification that was read to its end
	torn     bool // nobody can read it, or not to its end: perhaps the bank writes it still
	waits    bool // for what the bank says elsewhere; then it is read again, which does no harm
}

func (s *said) problem(format string, args ...any) {
	if len(s.problems) < 100 {
		s.problems = append(s.problems, fmt.Sprintf(format, args...))
	}
}

// unfinished is how long an answer that nobody can read must stay the same before it is taken for what the bank meant to send: servers
// show a file while it is being written.
const unfinished = 10 * time.Minute

// Collect reads every answer that the bank has left.
func (r *Rail) Collect(ctx context.Context, d *db.DB) error {
	if r.c.Drop == nil {
		return nil
	}
	if r.c.Simulate != nil {
		if err := r.c.Simulate(ctx); err != nil {
			return err
		}
	}
	names, err := r.c.Drop.Answers(ctx)
	if err != nil {
		return err
	}
	var failed error
	for _, name := range names { // one that cannot be booked now does not hold the others up
		if err := r.collect(ctx, d, name); err != nil {
			failed = errors.Join(failed, fmt.Errorf("answer %s: %w", name, err))
		}
	}
	return failed
}

func (r *Rail) collect(ctx context.Context, d *db.DB, name string) error {
	var body []byte
	err := r.c.Drop.Read(ctx, name, func(in io.Reader) (err error) {
		body, err = io.ReadAll(io.LimitReader(in, maxAnswer+1))
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil // somebody else has read it meanwhile
	}
	if err != nil {
		return err
	}
	s := understand(body)
	a := Answer{Checksum: checksum(body), Name: name}
	if s.torn {
		a.Checksum = tornChecksum(name, body)
	}
	var settled bool
	var since, now time.Time
	if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		now = tx.Now()
		settled, since, err = known(ctx, tx, a.Checksum)
		return err
	}); err != nil {
		return err
	}
	switch {
	case settled && !s.torn:
		return r.c.Drop.Done(ctx, name)
	case s.torn: // what was put away as it is under this name was another file
		s.waits = settled || since.IsZero() || now.Sub(since) < unfinished || len(body) == 0
	}
	if err := r.apply(ctx, d, body, &s); err != nil {
		return err
	}
	a.Kind, a.Facts, a.Problems, a.Settled = s.kind, int64(len(s.facts)), s.problems, !s.waits
	if len(s.problems) > 0 && (!s.torn || !s.waits) {
		r.c.Log.ErrorContext(ctx, "a bank's answer needs a person", "answer", name, "problems", s.problems)
	}
	if err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return noteAnswer(ctx, tx, a) }); err != nil || s.waits {
		return err
	}
	return r.c.Drop.Done(ctx, name)
}

// tornChecksum tells beginnings of files apart, of which many are alike.
func tornChecksum(name string, body []byte) string {
	return checksum([]byte(name + "\x00" + checksum(body)))
}

// understand reads a file, whatever it is. What it is not is a problem.
func understand(body []byte) (s said) {
	trimmed := bytes.TrimSpace(body)
	switch {
	case len(body) > maxAnswer:
		s.problem("the file is larger than %d MiB", maxAnswer>>20)
	case bytes.HasPrefix(trimmed, []byte("101")):
		s.kind = FormatNACHA
		s.returns(trimmed)
	default:
		kind, err := iso20022.KindOf(bytes.NewReader(body))
		if err != nil {
			s.torn = true
			s.problem("nobody can read it: %v", err)
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
			s.whole = err == nil && kind != iso20022.AccountReport
			if err != nil {
				s.torn, s.facts, s.others = true, nil, nil // a part of a statement is none
				s.problem("nobody can read all of it: %v", err)
			}
		default:
			s.problem("%s is no answer", kind)
		}
	}
	return s
}

// returns reads a file of returned entries and notifications of change.
func (s *said) returns(body []byte) {
	file, err := nacha.Read(bytes.NewReader(body))
	if err != nil {
		s.torn = true
		s.problem("%v", err)
		return
	}
	for _, a := range file.Answers {
		about, ours := FindNamed(a.ID)
		switch {
		case !ours || about.Position == 0 && !a.Debit:
			s.problem("%s of %q, which is no payment of ours", a.Code, a.ID)
		case a.Contested():
			s.problem("%s of %s: the bank disputes a return that we have not refused", a.Code, a.ID)
		case a.Debit || about.Part > 0:
			s.problem("%s (%s): the debit of our own account came back, %s", a.Code, nacha.Says(a.Code), a.ID)
		case a.Change():
			if _, err := a.Correction(); err != nil {
				s.problem("%s: %v", a.ID, err)
			}
			s.facts = append(s.facts, fact{about: about, word: changed, code: a.Code, info: a.Corrected})
		default:
			s.facts = append(s.facts, fact{about: about, word: returned, code: a.Code, info: a.Info, amount: money.New(money.USD, a.Cents)})
		}
	}
}

// status reads what a bank says of an order before it has booked anything.
func (s *said) status(body []byte) {
	st, err := iso20022.ReadStatus(bytes.NewReader(body))
	if err != nil {
		s.torn = true
		s.problem("%v", err)
		return
	}
	whole, ours := FindNamed(st.Order)
	if !ours {
		s.problem("it answers %.40q, which is no file of ours", st.Order)
		return
	}
	add := func(about Named, code string, why []iso20022.Reason) {
		f := fact{about: about}
		switch iso20022.Means(code) {
		case iso20022.Taken, iso20022.Mixed:
			f.word = taken
		case iso20022.Paid:
			f.word = paid
		case iso20022.Rejected:
			f.word, f.code = rejected, code
		case iso20022.Unknown:
			if code != "" {
				s.problem("nobody knows what the status %.10q of %s means", code, Reference(about.File))
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
	}
	for _, p := range st.Payments { // before the whole, since they say why
		about, ours := FindNamed(p.ID)
		if !ours || about.File != whole.File || about.Position == 0 {
			s.problem("it speaks of %.40q, which is no payment of %s", p.ID, st.Order)
			continue
		}
		add(about, p.Code, p.Reasons)
	}
	add(Named{File: whole.File}, st.Code, st.Reasons)
}

// charges are the kinds of bookings that are a bank's fee.
var charges = []string{"CHRG", "COMM", "FEES"}

// entry reads one booking on an account.
func (s *said) entry(st *iso20022.Statement, e *iso20022.Entry) {
	if e == nil {
		if st.Err != nil {
			s.problem("statement %s: %v", st.ID, st.Err)
		}
		return
	}
	what := fmt.Sprintf("entry %s of statement %s", either(e.Reference, e.Servicer), st.ID)
	switch {
	case e.Err != nil:
		s.others = append(s.others, fmt.Sprintf("%s: %v", what, e.Err))
		return
	case !e.Final():
		return // it is announced, and will be booked
	}
	before := len(s.facts)
	for _, d := range e.Details {
		about, ours := FindNamed(d.Names()...)
		if !ours || d.Credit != e.Returned(d) {
			continue // whoever pays, or takes back what they paid, may quote a name of ours
		}
		f := fact{about: about, amount: d.Amount, code: d.ReturnReason, info: strings.Join(d.ReturnInfo, " ")}
		switch {
		case d.Credit && about.Position > 0:
			f.word = returned
			if len(e.Details) == 1 {
				f.amount = e.Amount // that came, whatever it was once
			}
		case d.Credit:
			s.problem("%s: %s %s came back for all of %s", what, d.Amount, d.Amount.Asset(), Reference(about.File))
			return
		case slices.Contains(charges, d.Type.SubFamily):
			f.word = charged
		default:
			f.word = paid
		}
		s.facts = append(s.facts, f)
	}
	if len(s.facts) > before {
		if n := len(s.facts) - before; n < len(e.Details) {
			s.problem("%s: %d of its %d payments are not ours", what, len(e.Details)-n, len(e.Details))
		}
		return
	}
	about, ours := FindNamed(e.Batch.PaymentInfoID, e.Batch.MessageID, e.Reference, e.Servicer, e.Info)
	back := e.Returned(e.Details...)
	switch {
	case ours && !e.Credit && !back:
		f := fact{about: about, amount: e.Amount, word: paid}
		if slices.Contains(charges, e.Type.SubFamily) {
			f.word = charged
		}
		s.facts = append(s.facts, f)
	case ours && e.Credit && back && about.Position > 0:
		s.facts = append(s.facts, fact{about: about, amount: e.Amount, word: returned})
	case e.Credit && back:
		s.problem("%s: %s %s came back, and it is not known of which payment", what, e.Amount, e.Amount.Asset())
	case e.Credit:
		s.others = append(s.others, fmt.Sprintf("%s: %s %s came in, and it is not known what for", what, e.Amount, e.Amount.Asset()))
	case back:
		s.others = append(s.others, fmt.Sprintf("%s: %s %s was taken back, and it is not known of what", what, e.Amount, e.Amount.Asset()))
	default:
		s.problem("%s: %s %s left the account, and it is not known what for", what, e.Amount, e.Amount.Asset())
	}
}

func either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// apply books what an answer says, file by file.
func (r *Rail) apply(ctx context.Context, d *db.DB, body []byte, s *said) error {
	var order []int64
	var parts []Part
	of := map[int64][]fact{}
	for _, f := range s.facts {
		if of[f.about.File] == nil {
			order = append(order, f.about.File)
		}
		of[f.about.File] = append(of[f.about.File], f)
	}
	for _, number := range order {
		var b *booking
		err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			b, err = r.book(ctx, tx, number, of[number])
			return err
		})
		if err != nil {
			return err
		}
		s.waits = s.waits || b.waits
		for _, p := range b.problems {
			s.problem("%s", p)
		}
		parts = append(parts, b.parts...)
	}
	if s.whole && r.c.Statement != nil {
		problems, err := r.c.Statement(ctx, d, bytes.NewReader(body), parts)
		for _, p := range problems {
			s.problem("%s", p)
		}
		return err
	}
	for _, p := range parts {
		s.problem("%s %s came back for %s, a part of it; nothing is booked before a statement says so", p.Amount, p.Amount.Asset(), p.Payment)
	}
	for _, o := range s.others {
		s.problem("%s", o)
	}
	return nil
}

// booking is what one answer does to one file.
type booking struct {
	f        File
	fee      money.Amount // that the bank keeps at most of a payment that comes back
	all      []*payment
	lines    []ledger.Line
	changed  map[int]*payment
	left     map[string]bool   // outputs whose money left
	failed   map[string]string // and those that were not paid, or came back, with the bank's reason
	back     map[string]fact
	parts    []Part // that came back, and are no return
	changes  []fact
	problems []string
	waits    bool
}

func (b *booking) problem(format string, args ...any) {
	if len(b.problems) < 100 {
		b.problems = append(b.problems, b.f.Name+": "+fmt.Sprintf(format, args...))
	}
}

// newBooking returns an empty booking of a locked file. fee is the most that the bank keeps of a returned payment.
func newBooking(ctx context.Context, tx *db.Tx, f File, fee money.Amount) (*booking, error) {
	all, err := payments(ctx, tx, f)
	return &booking{
		f: f, fee: fee, all: all, changed: map[int]*payment{},
		left: map[string]bool{}, failed: map[string]string{}, back: map[string]fact{},
	}, err
}

// book applies what an answer says of one file.
func (r *Rail) book(ctx context.Context, tx *db.Tx, number int64, facts []fact) (*booking, error) {
	f, err := lock(ctx, tx, number)
	if errors.Is(err, db.ErrNoRows) {
		return &booking{problems: []string{Reference(number) + " is no file of this service"}}, pauseUnknown(ctx, tx, number, facts)
	}
	if err != nil {
		return nil, err
	}
	b, err := newBooking(ctx, tx, f, r.returnFee(f))
	if err != nil {
		return nil, err
	}
	for _, fact := range facts {
		b.apply(fact)
	}
	if err := b.f.received(ctx, tx); err != nil { // the bank names it, so it has it
		return nil, err
	}
	if err := r.storeChanges(ctx, tx, b); err != nil {
		return nil, err
	}
	return b, b.write(ctx, tx)
}

// returnFee returns the most that the bank of a file keeps of a payment that comes back.
func (r *Rail) returnFee(f File) money.Amount {
	for _, a := range r.c.Accounts {
		if fee, err := a.KeepsOfReturn(); a.ID == f.Account && a.Currency == f.Total.Asset() && err == nil {
			return fee
		}
	}
	return money.Zero(f.Total.Asset())
}

// pauseUnknown pauses all payouts when the bank has a file of this service that the database does not know: it was made before the
// database was restored, for example, and may have paid outputs that are queued. A file of which payments were marked as paid does
// not pause payouts again.
func pauseUnknown(ctx context.Context, tx *db.Tx, number int64, facts []fact) error {
	found, err := payout.PaidByPrefix(ctx, tx, payout.RailBank, Reference(number)+"P")
	if err != nil || len(found) > 0 || !slices.ContainsFunc(facts, func(f fact) bool { return f.word == taken || f.word == paid }) {
		return err
	}
	if why, err := payout.Paused(ctx, tx); err != nil || why != "" {
		return err
	}
	return payout.SetPaused(ctx, tx, "the bank has the file "+Reference(number)+", which is not known here")
}

// apply moves payments as a fact says. What a payment has been through already is not news.
func (b *booking) apply(f fact) {
	some := b.payments(f.about)
	if len(some) == 0 {
		b.problem("it has no payment %d and no part %d", f.about.Position, f.about.Part)
		return
	}
	if a := f.amount.Asset(); a != "" && a != b.f.Total.Asset() && f.word != charged {
		b.problem("%s %s are spoken of, and it pays %s", f.amount, a, b.f.Total.Asset())
		return
	}
	switch f.word {
	case taken:
	case paid:
		if a := f.amount.Asset(); a != "" && f.amount != due(some) {
			// Perhaps the bank says elsewhere that it rejects some of them, and that file is read later.
			b.waits = b.waits || f.about.Position == 0 && f.amount.Cmp(due(some)) < 0
			b.problem("%s %s left the account for payment %d, part %d; %s were due", f.amount, a, f.about.Position, f.about.Part, due(some))
			return
		}
		for _, p := range some {
			b.pay(p)
		}
	case rejected:
		for _, p := range some {
			b.reject(p, f)
		}
	case returned:
		b.giveBack(some[0], f)
	case charged:
		b.charge(some[0], f)
	case changed:
		b.changes = append(b.changes, f)
	}
}

// payments are what a fact is about.
func (b *booking) payments(about Named) []*payment {
	var some []*payment
	for _, p := range b.all {
		if (about.Position == 0 || p.position == about.Position) && (about.Part == 0 || p.part == about.Part) {
			some = append(some, p)
		}
	}
	return some
}

// due is what a bank debits for some payments: all that it did not reject.
func due(some []*payment) money.Amount {
	sum := money.Zero(some[0].amount.Asset())
	for _, p := range some {
		if p.state != Rejected {
			sum, _ = sum.Add(p.amount) // the whole file's sum was checked when it was made
		}
	}
	return sum
}

// pay notes that the money of a payment left.
func (b *booking) pay(p *payment) {
	if p.state != Ordered {
		return
	}
	p.state, b.changed[p.position], b.left[p.output] = Paid, p, true
	b.lines = append(b.lines, ledger.Debit(ledger.InTransit, b.f.ID, p.amount), ledger.Credit(ledger.Bank, b.f.Account, p.amount))
}

// reject takes a payment back that never left: it is owed as before.
func (b *booking) reject(p *payment, f fact) {
	switch p.state {
	case Paid, Returned:
		if f.about.Position > 0 {
			b.problem("payment %d is rejected (%s), but its money had left", p.position, f.code)
		}
		return
	case Rejected:
		return
	}
	p.state, p.reason, b.changed[p.position], b.failed[p.output] = Rejected, f.code, p, f.code
	b.lines = append(b.lines, ledger.Debit(ledger.InTransit, b.f.ID, p.amount), ledger.Credit(ledger.OutputPayable, p.output, p.amount))
}

// giveBack notes that the money of a payment came back, less what the bank kept. That it left was perhaps not said yet. Where the
// bank kept more than it may, it is a part: the payment stays as it is, and a person says what it means (see [Engine.CameBack]).
func (b *booking) giveBack(p *payment, f fact) {
	if p.state == Returned {
		return
	}
	if p.state == Rejected {
		b.problem("payment %d came back, but it never left", p.position)
		return
	}
	back := f.amount
	if back.Asset() == "" {
		back = p.amount
	}
	kept, err := p.amount.Sub(back)
	if err != nil || kept.Sign() < 0 || back.Sign() <= 0 {
		b.problem("%s %s came back for payment %d of %s", back, back.Asset(), p.position, p.amount)
		return
	}
	if !f.certain && kept.Cmp(b.fee) > 0 {
		b.pay(p)
		b.parts = append(b.parts, Part{Payment: Position(b.f.Number, p.position), Amount: back})
		return
	}
	b.pay(p)
	p.state, p.reason, b.changed[p.position] = Returned, either(f.code, "returned"), p
	p.fee += kept.Units()
	f.code = p.reason
	b.back[p.output] = f
	b.lines = append(b.lines, ledger.Debit(ledger.Bank, b.f.Account, back), ledger.Debit(ledger.BankFee, b.f.Account, kept),
		ledger.Credit(ledger.OutputPayable, p.output, p.amount))
}

// charge books a fee of the bank, once for a payment: nothing tells a second fee from a second telling of the first.
func (b *booking) charge(p *payment, f fact) {
	if p.fee > 0 {
		if p.fee != f.amount.Units() {
			b.problem("another fee for payment %d: %s %s", p.position, f.amount, f.amount.Asset())
		}
		return
	}
	if f.amount.Asset() != b.f.Total.Asset() || f.amount.Sign() <= 0 {
		b.problem("a fee of %s %s for payment %d is not understood", f.amount, f.amount.Asset(), p.position)
		return
	}
	p.fee += f.amount.Units()
	b.changed[p.position] = p
	b.lines = append(b.lines, ledger.Debit(ledger.BankFee, b.f.Account, f.amount), ledger.Credit(ledger.Bank, b.f.Account, f.amount))
}

// storeChanges stores the notifications of change of a booking and enqueues a job for each new one.
func (r *Rail) storeChanges(ctx context.Context, tx *db.Tx, b *booking) error {
	for _, c := range b.changes {
		sealed, err := r.c.Sealer.Seal(changeAt(b.f, c.about.Position, c.code), []byte(c.info))
		if err != nil {
			return err
		}
		isNew, err := noteChange(ctx, tx, b.f, c.about.Position, c.code, sealed)
		if err != nil {
			return err
		}
		if isNew {
			job.Enqueue(tx, job.New{CompanyID: b.f.CompanyID, Kind: jobChange, Payload: changeJob{b.f.ID, c.about.Position, c.code}})
		}
	}
	return nil
}

// write stores a booking: payments, outputs, journal, events.
func (b *booking) write(ctx context.Context, tx *db.Tx) error {
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
	open := []payout.State{payout.Prepared, payout.Sent, payout.InDoubt}
	left := pick(func(o *payout.Output) bool { return b.left[o.ID] && slices.Contains(open, o.State) })
	if err := payout.Advance(ctx, tx, left, payout.Fulfilled, func(*payout.Output) string { return "" }); err != nil {
		return err
	}
	failed := pick(func(o *payout.Output) bool { _, has := b.failed[o.ID]; return has && slices.Contains(open, o.State) })
	if err := payout.Advance(ctx, tx, failed, payout.Failed, func(o *payout.Output) string { return b.failed[o.ID] }); err != nil {
		return err
	}
	back := pick(func(o *payout.Output) bool { _, has := b.back[o.ID]; return has && o.State == payout.Fulfilled })
	if err := payout.Advance(ctx, tx, back, payout.Returned, func(o *payout.Output) string { return b.back[o.ID].code }); err != nil {
		return err
	}
	for _, o := range back {
		if err := emitReturned(tx, *o, b.back[o.ID]); err != nil {
			return err
		}
	}
	payout.Announce(tx, values(pick(func(o *payout.Output) bool {
		_, failed := b.failed[o.ID]
		_, back := b.back[o.ID]
		return b.left[o.ID] || failed || back
	})))
	if !slices.ContainsFunc(b.all, func(p *payment) bool { return p.state != Rejected }) && b.f.State == Sent {
		if err := b.f.advance(ctx, tx, Refused, "the bank rejected every payment"); err != nil {
			return err
		}
	} else if err := b.f.advance(ctx, tx, b.f.State, ""); err != nil { // a version of its own for the journal
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

// emitReturned emits payout.returned.
func emitReturned(tx *db.Tx, o payout.Output, f fact) error {
	meaning := iso20022.Says(f.code)
	if meaning == "" {
		meaning = nacha.Says(f.code)
	}
	return webhook.Emit(tx, webhook.PayoutReturned.Event(o.CompanyID, o.ID, o.Version, webhook.PayoutReturnedData{
		PayoutID: o.ID, PayrollID: o.PayrollID, SubpayrollID: o.PaymentID, DistributionID: o.DistributionID, Amount: o.Amount,
		Currency: o.Amount.Asset(), Reason: f.code, ReasonText: meaning, BankText: f.info, Returned: tx.Now(),
	}))
}
