// Package bankfile carries the outputs that a bank pays: it makes files of them, hands each file over once, and books what the bank
// answers.
//
//	output   queued → prepared → sent → fulfilled → returned
//	                     └→ in_doubt ↑  └→ failed
//	file     prepared → in_doubt → sent → refused
//	payment  ordered → paid → returned
//	            └→ rejected
//
// What holds for all of it:
//
//   - Write ahead. The file with its number and checksum, its payments, the books and the outputs' state are committed before the bank can
//     see anything. A file is of one company, one currency and one account, and has a number that no other has.
//   - A file is in doubt from before it is handed over until it is known that the bank has it. Handing over again is harmless: it moves
//     the one staged copy, which is there to be moved once, see [bank.Drop]. When neither the copy nor the file is found, the bank may
//     have taken it, and nothing here ever writes a second one: the bank's answer decides, or a person who has asked the bank.
//   - An answer is a file of the bank. It is read once, by what is in it, and what it says of a payment counts once, whichever of the
//     bank's files says it first: the state of the payment is the guard. What cannot be understood is kept as a problem for a person
//     and changes nothing.
//   - Money that came back is owed to the payee again (2110). What the bank kept of it is the house's cost (5010). A part that came back, of
//     which more is missing than a fee, changes nothing of the payment: it waits in suspense until a person says what it is.
//
// The package knows outputs, not pay runs: whom an output is for hears of it by the job payout.changed.
package bankfile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/rail"
	"github.com/stipend/stipend/internal/rail/bank"
)

// Job kinds of this package.
const (
	JobSend   = "payout.bank_send"   // payload {file_id}: hand this file over
	JobChange = "payout.bank_change" // payload {file_id, position, code}: whose destination the bank wants put right
)

// Sources of the journals; the ids of the first are those of files.
const (
	Source      = "bank_file"
	SourceFound = "output" // of what Found books, by the output; the purpose names the payment
)

// States of a file.
const (
	Prepared = "prepared" // stored; the bank has not seen it
	InDoubt  = "in_doubt" // the bank may have it
	Sent     = "sent"     // the bank has it, or can take it
	Refused  = "refused"  // the bank will pay none of it
)

// States of a payment.
const (
	Ordered  = "ordered"
	Paid     = "paid"
	Rejected = "rejected" // the bank never paid it
	Returned = "returned" // it was paid and came back
)

// Reasons that a failed output can carry beside the bank's own codes.
const (
	ReasonDestination = "destination_incomplete"
	ReasonTooLarge    = "amount_above_limit"
)

// Destination is where an output goes, with everything in the clear.
type Destination struct {
	Country, Scheme string
	Data            json.RawMessage
}

// Config is what an Engine needs.
type Config struct {
	Drop     *bank.Drop     // nil: no bank; outputs wait
	Accounts []bank.Account // of the house
	Sealer   *identity.Sealer
	// Reveal opens the destination as it stood at release.
	Reveal func(snapshot json.RawMessage) (Destination, error)
	// Statement is given each statement and notification, for what is not of our own payments: money that came in, balances; and for the
	// parts of our payments that came back, which this package does not book. It may be given the same one again, and says what a person
	// should look at. nil: a person looks at all of that.
	Statement func(ctx context.Context, d *db.DB, statement io.Reader, parts []bank.Part) (problems []string, err error)
	// Counted is called when a person says that a payment came back, and how much: whoever booked parts of it gives them up. nil: nobody.
	Counted func(ctx context.Context, tx *db.Tx, payment string, back money.Amount) error
	// Play has the other side of the drop work, where there is nobody but a played bank. nil: a real one.
	Play  func(ctx context.Context) error
	Retry time.Duration // of a file that cannot be handed over, at first; 5 s
	Log   *slog.Logger  // nil: slog.Default
}

// Engine carries outputs to a bank. Its methods are job handlers.
type Engine struct{ c Config }

// New makes an engine.
func New(c Config) *Engine {
	if c.Retry == 0 {
		c.Retry = 5 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return &Engine{c}
}

// Periodic is what the engine does by the clock: look for what waits, and for answers.
func (e *Engine) Periodic(d *db.DB) []job.Periodic {
	if e.c.Drop == nil {
		return nil
	}
	return []job.Periodic{
		{Name: "bank.files", Every: time.Minute, Run: func(ctx context.Context) error { return e.look(ctx, d) }},
		{Name: "bank.answers", Every: 30 * time.Second, Run: func(ctx context.Context) error { return e.Collect(ctx, d) }},
	}
}

// look has files made of what waits for whatever reason: a pause that has ended, a hold, an account that there was not before.
func (e *Engine) look(ctx context.Context, d *db.DB) error {
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		companies, err := waiting(ctx, tx)
		for _, c := range companies {
			job.Enqueue(tx, job.New{CompanyID: c, Kind: payout.JobBank})
		}
		return err
	})
}

// Cut makes files of what waits for a bank, oldest first, one for each account (job payout.bank). It all is one transaction: when it
// commits, the files exist and are only to be handed over; when it does not, nothing was chosen.
func (e *Engine) Cut(ctx context.Context, tx *db.Tx, j job.Job) error {
	if e.c.Drop == nil {
		return nil
	}
	if why, err := payout.MayLeave(ctx, tx, e.c.Log); err != nil || why != "" {
		return err // the clock looks again
	}
	outs, err := queue(ctx, tx, j.CompanyID, bank.MaxPayments)
	if err != nil {
		return err
	}
	type group struct {
		account  bank.Account
		outs     []payout.Output
		payments []bank.Payment
	}
	var groups []*group
	of := map[string]*group{}
	for _, o := range outs {
		to, err := e.c.Reveal(o.Destination)
		if err != nil {
			return fmt.Errorf("output %s: %w", o.ID, err)
		}
		a, ok := bank.Choose(e.c.Accounts, o.Amount.Asset(), to.Country, to.Scheme)
		if !ok {
			e.c.Log.WarnContext(ctx, "no account of the house pays in this currency", "company_id", o.CompanyID, "currency", o.Amount.Asset())
			continue
		}
		p := bank.Payment{Amount: o.Amount, Country: to.Country, Scheme: to.Scheme, Data: to.Data, Text: o.PaymentID}
		if err := a.Check(tx.Now(), p); err != nil {
			reason := ReasonDestination
			if errors.Is(err, bank.ErrTooLarge) {
				reason = ReasonTooLarge
			}
			if err := move(ctx, tx, []*payout.Output{&o}, payout.Failed, func(*payout.Output) string { return reason }); err != nil {
				return err
			}
			payout.Announce(tx, []payout.Output{o})
			continue
		}
		key := a.ID + " " + string(a.Currency) + " " + a.Format
		g := of[key]
		if g == nil {
			g = &group{account: a}
			of[key], groups = g, append(groups, g)
		}
		g.outs, g.payments = append(g.outs, o), append(g.payments, p)
	}
	for _, g := range groups {
		if err := e.cut(ctx, tx, g.account, g.outs, g.payments); err != nil {
			return err
		}
	}
	if len(outs) == bank.MaxPayments && len(groups) > 0 {
		job.Enqueue(tx, job.New{CompanyID: j.CompanyID, Kind: payout.JobBank})
	}
	return nil
}

// cut makes one file.
func (e *Engine) cut(ctx context.Context, tx *db.Tx, a bank.Account, outs []payout.Output, payments []bank.Payment) error {
	number, err := nextNumber(ctx, tx)
	if err != nil {
		return err
	}
	made, err := a.Make(number, tx.Now(), payments)
	if err != nil {
		return fmt.Errorf("file %d: %w", number, err)
	}
	total := money.Zero(a.Currency)
	for _, p := range payments {
		if total, err = total.Add(p.Amount); err != nil {
			return err
		}
	}
	f := File{CompanyID: outs[0].CompanyID, ID: tx.NewID("bfl"), Number: number, Account: a.ID, Name: made.Name, Total: total, Payments: int64(len(outs)),
		Execute: made.Execute.Format(time.DateOnly), Checksum: checksum(made.Body), State: Prepared, Version: 1}
	if f.sealed, err = e.c.Sealer.Seal(sealedAt(f), made.Body); err != nil {
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
	send(tx, f, tx.Now())
	return nil
}

func checksum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func sealedAt(f File) identity.Place {
	return identity.Place{Table: "bank_files", Column: "sealed", Row: f.CompanyID + "/" + f.ID}
}

// Body is the file, as it was or will be handed over.
func (f File) Body(s *identity.Sealer) ([]byte, error) {
	b, err := s.Open(sealedAt(f), f.sealed)
	if err == nil && checksum(b) != f.Checksum {
		err = fmt.Errorf("bankfile: file %s is not what its checksum says", f.Name)
	}
	return b, err
}

func (f File) post(tx *db.Tx, purpose string, lines []ledger.Line) error {
	return ledger.Post(tx, ledger.Journal{CompanyID: f.CompanyID, SourceType: Source, SourceID: f.ID, Purpose: purpose, Lines: lines})
}

type sendJob struct {
	FileID string `json:"file_id"`
}

func send(tx *db.Tx, f File, at time.Time) {
	job.Enqueue(tx, job.New{CompanyID: f.CompanyID, Kind: JobSend, Payload: sendJob{f.ID}, RunAt: at})
}

// Send hands a file over (job payout.bank_send). It may run any number of times, on several machines at once: only who takes the file
// from prepared to in_doubt has a staged copy that counts, and that copy can be moved to the bank once.
func (e *Engine) Send(ctx context.Context, d *db.DB, j job.Job) error {
	var in sendJob
	if err := j.Decode(&in); err != nil {
		return err
	}
	if e.c.Drop == nil {
		return nil
	}
	var f File
	err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		f, err = get(ctx, tx, j.CompanyID, in.FileID)
		return err
	})
	if errors.Is(err, db.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	if f.State == Prepared {
		if going, err := e.stage(ctx, d, &f); err != nil || !going {
			return err
		}
	}
	if f.State != InDoubt {
		return nil
	}
	answer := e.c.Drop.Release(ctx, f.Name, f.token)
	if err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return e.record(ctx, tx, f, answer) }); err != nil {
		return err
	}
	if answer.Outcome != rail.Accepted || e.c.Play == nil {
		return nil
	}
	return e.Collect(ctx, d)
}

// stage writes a copy and makes it the one that counts. It says whether that came to be.
func (e *Engine) stage(ctx context.Context, d *db.DB, f *File) (going bool, err error) {
	token := ""
	again := func(why string) error {
		return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			e.c.Log.WarnContext(ctx, "a bank file waits", "file", f.Name, "reason", why)
			send(tx, *f, tx.Now().Add(backoff(e.c.Retry, f.Attempts)))
			return tried(ctx, tx, *f)
		})
	}
	err = d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		token = tx.NewID("try")
		return nil
	})
	if err != nil {
		return false, err
	}
	body, err := f.Body(e.c.Sealer)
	if err != nil {
		return false, err
	}
	if err := e.c.Drop.Stage(ctx, f.Name, token, body); err != nil {
		return false, again(err.Error())
	}
	paused := ""
	err = d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		going = false
		if paused, err = payout.MayLeave(ctx, tx, e.c.Log); err != nil || paused != "" {
			return err
		}
		going, err = claim(ctx, tx, *f, token)
		return err
	})
	switch {
	case err != nil:
		return false, err
	case paused != "":
		return false, again("payouts are paused: " + paused)
	case !going:
		return false, nil // somebody else hands it over
	}
	f.State, f.token = InDoubt, token
	f.Version++
	return true, nil
}

func backoff(first time.Duration, attempts int64) time.Duration {
	return min(first<<min(attempts, 20), time.Hour)
}

// record writes down what came of handing over.
func (e *Engine) record(ctx context.Context, tx *db.Tx, was File, answer rail.Answer) error {
	f, err := lock(ctx, tx, was.Number)
	if err != nil || f.State != InDoubt || f.token != was.token {
		return err
	}
	if answer.Outcome == rail.Accepted {
		return e.arrived(ctx, tx, &f)
	}
	e.c.Log.ErrorContext(ctx, "it is not known whether the bank has a file", "file", f.Name, "attempts", f.Attempts+1, "reason", answer.Reason)
	if err := moveOpen(ctx, tx, f, payout.InDoubt, payout.Prepared); err != nil {
		return err
	}
	send(tx, f, tx.Now().Add(backoff(e.c.Retry, f.Attempts)))
	return tried(ctx, tx, f)
}

// arrived notes that the bank has a file.
func (e *Engine) arrived(ctx context.Context, tx *db.Tx, f *File) error {
	if f.State != InDoubt && f.State != Prepared {
		return nil
	}
	if err := f.to(ctx, tx, Sent, ""); err != nil {
		return err
	}
	return moveOpen(ctx, tx, *f, payout.Sent, payout.Prepared, payout.InDoubt)
}

// What a person may not decide of a file.
var (
	ErrNoFile     = errors.New("there is no such bank file")
	ErrNotInDoubt = errors.New("the file is not in doubt")
)

// Arrived is a person's word that the bank has a file that was in doubt.
func (e *Engine) Arrived(ctx context.Context, tx *db.Tx, number int64) error {
	f, err := doubted(ctx, tx, number)
	if err != nil {
		return err
	}
	return e.arrived(ctx, tx, &f)
}

// Resend is a person's word that the bank has not got a file that was in doubt and never will have: the same file, under the same number,
// is handed over again.
func (e *Engine) Resend(ctx context.Context, tx *db.Tx, number int64) error {
	f, err := doubted(ctx, tx, number)
	if err != nil {
		return err
	}
	if err := f.to(ctx, tx, Prepared, "the bank has not got it"); err != nil {
		return err
	}
	send(tx, f, tx.Now())
	return nil
}

// What stands in the way of Found.
var (
	ErrNotQueued = errors.New("there is no such output in the queue for banks; only one that waits there can have been paid unknown to this database")
	ErrKnown     = errors.New("this database knows what became of it")
)

// Forget prepares a database that was restored from a backup, which does not know which files were made since: the next numbers stay unused,
// so that no file ever has the number of another.
func Forget(ctx context.Context, tx *db.Tx, skip int64) error { return skipNumbers(ctx, tx, skip) }

// Found is a person's word that a queued output was paid by a payment that this database does not know, S0000012P00003: it was restored from
// a backup, and the file was made before that. Payouts must be paused, and each payment is one output's. The books then have it as paid
// from an account of the house.
func Found(ctx context.Context, tx *db.Tx, outputID, name, account string) (payout.Output, error) {
	switch why, err := payout.Paused(ctx, tx); {
	case err != nil:
		return payout.Output{}, err
	case why == "":
		return payout.Output{}, payout.ErrNotPaused
	}
	at, ok := bank.FindNamed(name)
	if !ok || at.Position == 0 {
		return payout.Output{}, fmt.Errorf("%q is no payment of a file; want one such as S0000012P00003", name)
	}
	name = bank.Position(at.File, at.Position)
	if err := reachNumber(ctx, tx, at.File); err != nil { // whoever finds another one waits from here on
		return payout.Output{}, err
	}
	taken, err := paidUnknown(ctx, tx, name)
	if err != nil {
		return payout.Output{}, err
	}
	if _, err := lock(ctx, tx, at.File); err == nil || len(taken) > 0 {
		return payout.Output{}, fmt.Errorf("%w: %s", ErrKnown, name)
	} else if !errors.Is(err, db.ErrNoRows) {
		return payout.Output{}, err
	}
	outs, err := selectOutputs(ctx, tx, "output_id = $1 AND rail = 'bank' AND state = 'queued'", outputID)
	if err != nil {
		return payout.Output{}, err
	}
	if len(outs) != 1 {
		return payout.Output{}, ErrNotQueued
	}
	o := outs[0]
	if err := markFound(ctx, tx, o, name); err != nil {
		return payout.Output{}, err
	}
	if err := ledger.Post(tx, ledger.Journal{CompanyID: o.CompanyID, SourceType: SourceFound, SourceID: o.ID, Purpose: "found " + name, Lines: []ledger.Line{
		ledger.Debit(ledger.OutputPayable, o.ID, o.Amount), ledger.Credit(ledger.Bank, account, o.Amount)}}); err != nil {
		return payout.Output{}, err
	}
	payout.Announce(tx, outs)
	return o, nil
}

func doubted(ctx context.Context, tx *db.Tx, number int64) (File, error) {
	f, err := lock(ctx, tx, number)
	switch {
	case errors.Is(err, db.ErrNoRows):
		return f, fmt.Errorf("%w: %s", ErrNoFile, bank.Reference(number))
	case err == nil && f.State != InDoubt:
		err = fmt.Errorf("%w: %s is %s", ErrNotInDoubt, f.Name, f.State)
	}
	return f, err
}

// CameBack is a person's word that so much of a payment came back, whatever the bank kept of it.
func (e *Engine) CameBack(ctx context.Context, tx *db.Tx, number int64, position int, back money.Amount) error {
	f, err := lock(ctx, tx, number)
	if errors.Is(err, db.ErrNoRows) {
		return fmt.Errorf("%w: %s", ErrNoFile, bank.Reference(number))
	}
	if err != nil {
		return err
	}
	about := bank.Named{File: f.Number, Position: position}
	b, err := e.book(ctx, tx, number, []fact{{about: about, word: returned, amount: back, sure: true}})
	switch {
	case err != nil:
		return err
	case len(b.problems) > 0:
		return errors.New(strings.Join(b.problems, "; "))
	case len(b.back) == 0 || e.c.Counted == nil: // it is known already
		return nil
	}
	return e.c.Counted(ctx, tx, bank.Position(number, position), back)
}

// returnFee is what the bank of a file keeps at most of a payment that comes back.
func (e *Engine) returnFee(f File) money.Amount {
	for _, a := range e.c.Accounts {
		if fee, err := a.KeepsOfReturn(); a.ID == f.Account && a.Currency == f.Total.Asset() && err == nil {
			return fee
		}
	}
	return money.Zero(f.Total.Asset())
}
