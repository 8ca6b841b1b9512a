// Package bank is the payout rail for bank accounts. It writes payment files, submits each file to a bank once, and
// applies the bank's responses.
//
//	output   queued → prepared → sent → fulfilled → returned
//	             └→ failed  └→ in_doubt ↑  └→ failed
//	file     prepared → in_doubt → sent → refused
//	payment  ordered → paid → returned
//	            └→ rejected
//
// An [Account] of the operator defines the format of its files: NACHA for ACH payments in the United States, ISO
// 20022 pain.001 for all others (account.go; packages nacha and iso20022). An account can instead use the bank's API
// (api.go). Every file and every payment has a reference that the bank repeats in its responses: S0000012 is a file,
// S0000012P00003 its third payment. A [Drop] is the directory, local or on an SFTP server, through which files and
// responses are exchanged (drop.go, sftp.go).
//
// Invariants:
//
//   - Write ahead. The file with its number and checksum, its payments, the journal and the state of the outputs are
//     committed before the bank can see the file. A file belongs to one company, one currency and one account, and
//     its number is unique.
//   - The outcome of a file is unknown (state in_doubt) from before it is submitted until it is certain that the
//     bank received it. Repeating the submission is harmless: it renames one staged copy, which can be renamed only
//     once, see [Drop.Release]. If neither the copy nor the file is found, the bank may have received it. A second
//     file is never written: the bank's response decides, or staff after asking the bank.
//   - A response is a file from the bank. It is processed once, identified by its content. The state of a payment
//     ensures that each fact about it takes effect once, whichever response states it first. Anything that cannot be
//     parsed is stored as a problem for staff and changes nothing.
//   - Money that came back is owed to the payee again (account 2110). The amount that the bank withheld is the
//     operator's cost (5010). If the bank withheld more than is permitted, the returned amount waits in suspense, and
//     the payment keeps its state until staff decide.
package bank

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank/nacha"
)

// jobChange is the kind of the job that reports a notification of change. Its payload is a changeJob.
const jobChange = "payout.bank_change"

// Source types of journals.
const (
	Source = "bank_file" // journals of a file; the source ID is the file's ID
	// SourceFound is the source type of journals of MarkPaid; the source ID is the output's ID, the purpose is the
	// payment's reference.
	SourceFound = "output"
)

// States of a file.
const (
	Prepared       = "prepared" // stored; not visible to the bank
	UnknownOutcome = "in_doubt" // the bank may have received it
	Sent           = "sent"     // the bank received it or can collect it
	Refused        = "refused"  // the bank rejected every payment
)

// States of a payment.
const (
	Ordered  = "ordered"
	Paid     = "paid"
	Rejected = "rejected" // the bank did not pay it
	Returned = "returned" // the bank paid it and the money came back
)

// Kinds of files.
const (
	KindPayments  = "payments"
	KindPrenotes  = "prenotes"  // entries of zero that check accounts; see check.go
	KindReversals = "reversals" // debits that reverse payments; see reversal.go
)

// Reasons of failed outputs, in addition to the codes of banks.
const (
	ReasonDestination = "destination_incomplete" // also the code of a transfer refused without a call to the bank
	reasonTooLarge    = "amount_above_limit"
	// ReasonInternational states that a party is abroad, so that an ACH entry would be an international transaction
	// (IAT). A payment fails with it if the operator has no account for credit transfers, through files or at Wise.
	ReasonInternational = "international_ach"
)

// Destination is the bank account that an output is paid to, unsealed.
type Destination struct {
	Country, Scheme string
	Data            json.RawMessage
}

// Config has the dependencies of a Rail. All are required unless stated otherwise.
type Config struct {
	Drop     *Drop // required unless every account has an API
	Accounts []Account
	APIs     map[string]API // by account ID, one for each account with an API
	Sealer   *identity.Sealer
	// Reveal unseals a destination as it was at the release of the payroll.
	Reveal func(snapshot json.RawMessage) (Destination, error)
	// Details returns a description of what outputs of a company pay for, by output ID.
	Details func(ctx context.Context, tx *db.Tx, companyID string, outs []payout.Output) (map[string]payout.Details, error)
	// Changed is called with an output and a correction that the payee's bank asks for.
	Changed func(ctx context.Context, tx *db.Tx, o payout.Output, code string, c nacha.Correction) error
	// Checked is called with the result of a check of a destination's account. It returns false if checks of that
	// destination are not stored.
	Checked func(ctx context.Context, tx *db.Tx, c Checked) (kept bool, err error)
	// Verifier compares payees' names with the names of account holders. It is optional: without it, names are compared
	// only by banks that report the result with a payment.
	Verifier Verifier
	// Statement books the entries of a statement or notification that are not about this rail's payments: incoming
	// money, balances, and returned parts of payments. It may be called repeatedly with the same statement, and returns
	// problems for staff. It is optional: without it, each such entry is a problem.
	Statement func(ctx context.Context, d *db.DB, statement io.Reader, parts []Part) (problems []string, err error)
	// Debits applies the facts that banks report about direct debits, and returns problems for staff. It may be called
	// repeatedly with the same facts. It is optional: without it, each fact is a problem.
	Debits func(ctx context.Context, d *db.DB, facts []DebitFact) (problems []string, err error)
	// DebitReferences returns the references of direct debits by the bank's IDs of their transfers, for accounts with an
	// API. It is required if Debits is set.
	DebitReferences func(ctx context.Context, tx *db.Tx, account string, transfers []string) (map[string]string, error)
	// Simulate lets a simulated bank process files before responses are read. Optional; nil for a real bank.
	Simulate func(ctx context.Context) error
	Retry    time.Duration // delay after the first failed attempt to submit a file; default 5 s
	Log      *slog.Logger
}

// Rail pays outputs through a bank. It implements payout.Rail.
type Rail struct{ c Config }

var _ payout.Rail = (*Rail)(nil)

// New returns the bank rail.
func New(c Config) (*Rail, error) {
	switch {
	case c.Drop == nil && slices.ContainsFunc(c.Accounts, func(a Account) bool { return !a.ByAPI() }):
		return nil, errors.New("bank: the drop is missing")
	case slices.ContainsFunc(c.Accounts, func(a Account) bool { return a.ByAPI() && c.APIs[a.ID] == nil }):
		return nil, errors.New("bank: an account's API is missing")
	case (c.Debits == nil) != (c.DebitReferences == nil):
		return nil, errors.New("bank: one of Debits and DebitReferences is missing")
	case len(c.Accounts) == 0:
		return nil, errors.New("bank: no bank account of the operator is configured")
	case c.Sealer == nil || c.Reveal == nil || c.Details == nil || c.Changed == nil || c.Checked == nil ||
		c.Log == nil:
		return nil, errors.New("bank: Sealer, Reveal, Details, Changed, Checked or Log is missing")
	}
	if c.Retry == 0 {
		c.Retry = 5 * time.Second
	}
	return &Rail{c}, nil
}

// Name implements payout.Rail.
func (r *Rail) Name() payout.RailName { return payout.RailBank }

// Jobs implements payout.Rail.
func (r *Rail) Jobs() job.Table { return job.Table{jobChange: {Tx: r.handleChange}} }

// Periodic implements payout.Rail.
func (r *Rail) Periodic(d *db.DB) []job.Periodic {
	return []job.Periodic{
		{Name: "bank.reversals", Every: time.Minute,
			Run: func(ctx context.Context) error { return r.makeReversals(ctx, d) }},
		{Name: "bank.prenotes", Every: time.Minute,
			Run: func(ctx context.Context) error { return r.workPrenotes(ctx, d) }},
		{Name: "bank.files", Every: time.Minute, Run: func(ctx context.Context) error { return r.wake(ctx, d) }},
		{Name: "bank.responses", Every: 30 * time.Second, Run: func(ctx context.Context) error { return r.Collect(ctx, d) }},
		{Name: "bank.statements", Every: 10 * time.Minute, Run: func(ctx context.Context) error {
			return r.readStatements(ctx, d)
		}},
	}
}

// wake enqueues a prepare job for each company with queued outputs, because a pause or hold may have ended, or an
// account may have been added.
func (r *Rail) wake(ctx context.Context, d *db.DB) error {
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		companies, err := payout.CompaniesWaiting(ctx, tx, r.Name())
		for _, id := range companies {
			payout.EnqueuePrepare(tx, id, r.Name(), time.Time{})
		}
		return err
	})
}

// Prepare implements payout.Rail. It writes the company's queued outputs to files, oldest first, one file per
// account and kind of payment.
func (r *Rail) Prepare(ctx context.Context, d *db.DB, companyID string) error {
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return r.prepare(ctx, tx, companyID) })
}

func (r *Rail) prepare(ctx context.Context, tx *db.Tx, companyID string) error {
	if why, err := payout.PayoutsAllowed(ctx, tx, r.c.Log); err != nil || why != "" {
		return err // the periodic work of the rail calls Prepare again
	}
	outs, err := payout.Head(ctx, tx, companyID, r.Name(), maxPayments)
	if err != nil {
		return err
	}
	stopped, err := ledger.StoppedAssets(ctx, tx)
	if err != nil {
		return err
	}
	found := len(outs)
	outs = slices.DeleteFunc(outs, func(o payout.Output) bool { return stopped[o.Amount.Asset()] })
	if len(outs) == 0 {
		return nil
	}
	details, err := r.c.Details(ctx, tx, companyID, outs)
	if err != nil {
		return err
	}
	refused, err := refusedInstantly(ctx, tx, companyID, outs)
	if err != nil {
		return err
	}
	type group struct {
		account  Account
		outs     []payout.Output
		payments []Payment
	}
	var groups []*group
	of := map[string]*group{}
	for _, o := range outs {
		to, err := r.c.Reveal(o.Destination)
		if err != nil {
			return fmt.Errorf("output %s: %w", o.ID, err)
		}
		party := to.party(details[o.ID].PayerCountry)
		a, ok := ChooseAccount(r.c.Accounts, o.Amount.Asset(), to.Country, to.Scheme, party)
		if !ok && OnlyInternationalACH(r.c.Accounts, o.Amount.Asset(), to.Country, to.Scheme, party) {
			if err := payout.Fail(ctx, tx, o, ReasonInternational); err != nil {
				return err
			}
			continue
		}
		if !ok {
			r.c.Log.WarnContext(ctx, "no bank account of the operator pays this currency",
				"company_id", o.CompanyID, "currency", o.Amount.Asset())
			continue
		}
		if stopped[a.Currency] { // the bank would exchange it
			continue
		}
		p := Payment{Amount: o.Amount, Country: to.Country, Scheme: to.Scheme, Data: to.Data, Details: details[o.ID],
			Instant: a.PaysInstantly(tx.Now(), o.Amount) && !refused[o.ID]}
		if err := a.Check(tx.Now(), p); err != nil {
			reason := ReasonDestination
			if errors.Is(err, errTooLarge) {
				reason = reasonTooLarge
			}
			if err := payout.Fail(ctx, tx, o, reason); err != nil {
				return err
			}
			continue
		}
		key := a.fileKey(p)
		g := of[key]
		if g == nil {
			g = &group{account: a}
			of[key], groups = g, append(groups, g)
		}
		g.outs, g.payments = append(g.outs, o), append(g.payments, p)
	}
	for _, g := range groups {
		if err := r.makeFile(ctx, tx, g.account, g.outs, g.payments); err != nil {
			return err
		}
	}
	if found == maxPayments && len(groups) > 0 {
		payout.EnqueuePrepare(tx, companyID, r.Name(), time.Time{})
	}
	return nil
}

// makeFile encodes and stores one file, and enqueues a job that sends it.
func (r *Rail) makeFile(ctx context.Context, tx *db.Tx, a Account, outs []payout.Output, payments []Payment) error {
	number, err := NextNumber(ctx, tx)
	if err != nil {
		return err
	}
	made, err := a.Encode(number, tx.Now(), payments)
	if err != nil {
		return fmt.Errorf("file %d: %w", number, err)
	}
	total := money.Zero(payments[0].Amount.Asset())
	for _, p := range payments {
		if total, err = total.Add(p.Amount); err != nil {
			return err
		}
	}
	f := File{
		CompanyID: outs[0].CompanyID, ID: tx.NewID("bfl"), Number: number, Account: a.ID, Name: made.Name, Total: total,
		Payments: int64(len(outs)), Execute: made.Execute.Format(time.DateOnly), Checksum: checksum(made.Body),
		State: Prepared, Version: 1, Instant: made.Instant, Currency: a.Currency,
		Kind: KindPayments,
	}
	if f.sealed, err = r.c.Sealer.Seal(sealedAt(f), made.Body); err != nil {
		return err
	}
	if err := insertFile(ctx, tx, f, outs, made.Parts); err != nil {
		return err
	}
	if err := payout.Assign(ctx, tx, outs, f.ID, "", 1); err != nil {
		return err
	}
	lines := make([]ledger.Line, 0, len(outs)+1)
	for _, o := range outs {
		lines = append(lines, ledger.Debit(ledger.OutputPayable, o.ID, o.Amount))
	}
	lines = append(lines, ledger.Credit(ledger.InTransit, f.ID, total))
	if err := f.post(tx, "submit", lines); err != nil {
		return err
	}
	enqueueSend(tx, f, tx.Now())
	return nil
}

func checksum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func sealedAt(f File) identity.SealContext {
	return identity.SealContext{Table: "bank_files", Column: "sealed", Row: f.CompanyID + "/" + f.ID}
}

// Body returns the content of the file.
func (f File) Body(s *identity.Sealer) ([]byte, error) {
	b, err := s.Open(sealedAt(f), f.sealed)
	if err == nil && checksum(b) != f.Checksum {
		err = fmt.Errorf("bank: the content of file %s does not match its checksum", f.Name)
	}
	return b, err
}

func (f File) post(tx *db.Tx, purpose string, lines []ledger.Line) error {
	return ledger.Post(tx, ledger.Journal{CompanyID: f.CompanyID, SourceType: Source, SourceID: f.ID, Purpose: purpose,
		Lines: lines})
}

func enqueueSend(tx *db.Tx, f File, at time.Time) {
	payout.EnqueueSend(tx, f.CompanyID, payout.RailBank, at, f.ID)
}

// Send implements payout.Rail. ids are the IDs of files. Send may run on several machines at once: only the process
// that changes a file from prepared to in_doubt has the valid staged copy, and that copy can be renamed only once.
func (r *Rail) Send(ctx context.Context, d *db.DB, companyID string, ids []string) error {
	var failed []error
	for _, id := range ids {
		failed = append(failed, r.send(ctx, d, companyID, id))
	}
	return errors.Join(failed...)
}

func (r *Rail) send(ctx context.Context, d *db.DB, companyID, fileID string) error {
	var f File
	err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		f, err = get(ctx, tx, companyID, fileID)
		return err
	})
	if errors.Is(err, db.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	if a, api, ok, err := r.apiOf(f); err != nil {
		return err
	} else if ok {
		return r.sendByAPI(ctx, d, f, a, api)
	}
	if f.State == Prepared {
		if staged, err := r.stage(ctx, d, &f); err != nil || !staged {
			return err
		}
	}
	if f.State != UnknownOutcome {
		return nil
	}
	response, err := r.release(ctx, d, f)
	if err != nil {
		return err
	}
	if err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		return r.record(ctx, tx, f, response)
	}); err != nil {
		return err
	}
	if response.Outcome != payout.Accepted || r.c.Simulate == nil {
		return nil
	}
	return r.Collect(ctx, d)
}

// release makes the staged copy of a file visible to the bank. If the file is a reversal that must no longer be sent,
// release only checks whether the bank can already see the file.
func (r *Rail) release(ctx context.Context, d *db.DB, f File) (payout.Answer, error) {
	if f.Kind != KindReversals {
		return r.c.Drop.Release(ctx, f.Name, f.token), nil
	}
	why := ""
	if err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		why, err = r.recheckReversal(ctx, tx, f)
		return err
	}); err != nil {
		return payout.Answer{}, err
	}
	if why == "" {
		return r.c.Drop.Release(ctx, f.Name, f.token), nil
	}
	found, err := r.c.Drop.Find(ctx, f.Name)
	if err == nil && found {
		return payout.Answer{Outcome: payout.Accepted}, nil
	}
	return payout.Answer{Reason: "not sent again, because " + why}, err
}

// stage writes a copy of the file to the drop and records the copy's token as the valid one. It returns false if this
// process must not release the copy, because the attempt failed and is retried, or another process sends the file.
func (r *Rail) stage(ctx context.Context, d *db.DB, f *File) (staged bool, err error) {
	token := ""
	retry := func(why string) error {
		return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			r.c.Log.WarnContext(ctx, "cannot submit a bank file now; it is retried", "file", f.Name, "reason", why)
			enqueueSend(tx, *f, tx.Now().Add(payout.Backoff(r.c.Retry, f.Attempts)))
			return countAttempt(ctx, tx, *f)
		})
	}
	err = d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		token = tx.NewID("try")
		return nil
	})
	if err != nil {
		return false, err
	}
	body, err := f.Body(r.c.Sealer)
	if err != nil {
		return false, err
	}
	if err := r.c.Drop.Stage(ctx, f.Name, token, body); err != nil {
		return false, retry(err.Error())
	}
	paused := ""
	err = d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		staged = false
		if paused, err = payout.PayoutsAllowed(ctx, tx, r.c.Log, f.Total.Asset()); err != nil || paused != "" {
			return err
		}
		if f.Kind == KindReversals {
			if why, err := r.recheckReversal(ctx, tx, *f); err != nil || why != "" {
				return err
			}
		}
		if a, ok := r.accountOf(*f); ok && a.late(*f, body, tx.Now()) {
			return r.withdraw(ctx, tx, *f)
		}
		staged, err = claim(ctx, tx, *f, token)
		return err
	})
	switch {
	case err != nil:
		return false, err
	case paused != "":
		return false, retry("payouts are paused: " + paused)
	case !staged:
		return false, nil // another process sends the file
	}
	f.State, f.token = UnknownOutcome, token
	f.Version++
	return true, nil
}

// record stores the result of submitting a file.
func (r *Rail) record(ctx context.Context, tx *db.Tx, was File, response payout.Answer) error {
	f, err := lock(ctx, tx, was.Number)
	if err != nil || f.State != UnknownOutcome || f.token != was.token {
		return err
	}
	if response.Outcome == payout.Accepted {
		return f.received(ctx, tx)
	}
	r.c.Log.ErrorContext(ctx, "the outcome of a bank file is unknown",
		"file", f.Name, "attempts", f.Attempts+1, "reason", response.Reason)
	if err := advanceOutputs(ctx, tx, f, payout.UnknownOutcome, payout.Prepared); err != nil {
		return err
	}
	enqueueSend(tx, f, tx.Now().Add(payout.Backoff(r.c.Retry, f.Attempts)))
	return countAttempt(ctx, tx, f)
}

// received records that the bank received the file.
func (f *File) received(ctx context.Context, tx *db.Tx) error {
	if f.State != UnknownOutcome && f.State != Prepared {
		return nil
	}
	if err := f.advance(ctx, tx, Sent, ""); err != nil {
		return err
	}
	return advanceOutputs(ctx, tx, *f, payout.Sent, payout.Prepared, payout.UnknownOutcome)
}

// advanceOutputs changes the state of the outputs of a file that have one of the states in from.
func advanceOutputs(ctx context.Context, tx *db.Tx, f File, to payout.State, from ...payout.State) error {
	outs, err := payout.InBatches(ctx, tx, f.CompanyID, f.ID)
	if err != nil {
		return err
	}
	var some []*payout.Output
	for i := range outs {
		if slices.Contains(from, outs[i].State) {
			some = append(some, &outs[i])
		}
	}
	return payout.Advance(ctx, tx, some, to, func(*payout.Output) string { return "" })
}

// Errors of staff's decisions.
var (
	ErrNoFile       = errors.New("bank file not found")
	ErrOutcomeKnown = errors.New("the outcome of this file is known")
)

// ConfirmReceived records that, according to staff, the bank received a file whose outcome was unknown.
func ConfirmReceived(ctx context.Context, tx *db.Tx, number int64) error {
	f, err := lockUnknown(ctx, tx, number)
	if err != nil {
		return err
	}
	return f.received(ctx, tx)
}

// Resend records that, according to staff, the bank did not receive a file whose outcome was unknown. The same file
// is sent again, under the same number.
func Resend(ctx context.Context, tx *db.Tx, number int64) error {
	f, err := lockUnknown(ctx, tx, number)
	if err != nil {
		return err
	}
	if err := f.advance(ctx, tx, Prepared, "the bank did not receive it"); err != nil {
		return err
	}
	enqueueSend(tx, f, tx.Now())
	return nil
}

func lockUnknown(ctx context.Context, tx *db.Tx, number int64) (File, error) {
	f, err := lock(ctx, tx, number)
	switch {
	case errors.Is(err, db.ErrNoRows):
		return f, fmt.Errorf("%w: %s", ErrNoFile, FileReference(number))
	case err == nil && f.State != UnknownOutcome:
		err = fmt.Errorf("%w: %s is %s", ErrOutcomeKnown, f.Name, f.State)
	}
	return f, err
}

// RecordReturn records that, according to staff, the amount back of a payment came back; the rest is the bank's fee.
// Unless the return was recorded before, RecordReturn calls counted with the payment's reference, so that the caller
// can clear earlier parts of the payment from suspense.
func RecordReturn(ctx context.Context, tx *db.Tx, number int64, position int, back money.Amount,
	counted func(ctx context.Context, tx *db.Tx, payment string, back money.Amount) error,
) error {
	f, err := lock(ctx, tx, number)
	if errors.Is(err, db.ErrNoRows) {
		return fmt.Errorf("%w: %s", ErrNoFile, FileReference(number))
	}
	if err != nil {
		return err
	}
	b, err := newFileUpdate(ctx, tx, f, money.Zero(f.Total.Asset()))
	if err != nil {
		return err
	}
	ref := Reference{File: f.Number, Position: position}
	b.apply(fact{ref: ref, kind: returned, amount: back, certain: true})
	switch {
	case len(b.problems) > 0:
		return errors.New(strings.Join(b.problems, "; "))
	case len(b.returned) == 0: // the return was recorded before
		return nil
	}
	if err := b.f.received(ctx, tx); err != nil {
		return err
	}
	if err := b.write(ctx, tx); err != nil {
		return err
	}
	return counted(ctx, tx, PaymentReference(number, position), back)
}
