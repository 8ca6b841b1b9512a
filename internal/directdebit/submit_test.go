package directdebit_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/directdebit"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/testkit/fixture"
)

// A file that reaches the bank too late for its due date is refused with DT01: the debit gets another number and due
// date, is announced again, and is collected once. Another refusal, or that of a day that has not passed, fails it.
func TestADebitThatArrivedLateIsSentAgain(t *testing.T) {
	run(t, func(x *env) {
		for _, scheme := range []bank.DebitScheme{bank.SEPAB2B, bank.ACHCCD} {
			x.UseCompanyOf(scheme)
			m := x.mandate(scheme, "123456")
			d := x.create(m, "100.00")
			x.reach(d)
			x.submit(d)
			x.want(d, directdebit.Submitted, "", 0, 0, 0)
			first := x.get(d)
			x.Clock.Advance(6 * day) // the bank gets the file after the due date
			for range 2 {
				x.respond()
				x.want(d, directdebit.Scheduled, "", 0, 0, 0)
			}
			x.submit(d)
			again := x.get(d)
			a, _ := bank.DebitAccount(x.accounts, scheme)
			now := testkit.Must(x.DB.Now(x.Context()))
			if want := a.DueDate(scheme, now, time.Time{}).Format(time.DateOnly); again.State != directdebit.Scheduled ||
				again.DueOn != want || again.DueOn <= first.DueOn {
				x.Errorf("%s: it is %s and due on %s, want %s", scheme, again.State, again.DueOn, want)
			}
			x.WantCount(2, "mails WHERE mail_key LIKE '"+d.ID+"/announced/%'")
			x.WantCount(0, "mails WHERE mail_key LIKE '"+d.ID+"/failed/%'")
			if got := x.mandateState(m); got != "active" {
				x.Errorf("%s: the mandate is %s", scheme, got)
			}
			x.reach(again)
			x.submit(d)
			if now := x.get(d); now.Reference() == first.Reference() || now.State != directdebit.Submitted {
				x.Errorf("%s: %s is %s", scheme, now.Reference(), now.State)
			}
			if scheme.SEPA() { // nothing was collected under the mandate
				files := testkit.Must(filepath.Glob(filepath.Join(x.root, "out", "D*.xml")))
				if len(files) != 1 || !strings.Contains(string(testkit.Must(os.ReadFile(files[0]))), "<SeqTp>FRST<") {
					x.Errorf("the bank got %v", files)
				}
			}
			// The refusal of the first file is reported once more: it changes nothing and pauses nothing.
			number, _ := bank.FindDebit(first.Reference())
			x.apply(bank.DebitFact{Number: number, Outcome: bank.DebitRejected, Code: "DT01"}, 1)
			x.respond()
			x.want(d, directdebit.Collected, "", 100_00, 0, 0)
		}
		x.Read(func(ctx context.Context, tx *db.Tx) error {
			why, err := payout.Paused(ctx, tx)
			if why != "" {
				x.Errorf("payouts are paused: %s", why)
			}
			return err
		})
	})
	for name, c := range map[string]struct {
		code string
		wait time.Duration
	}{
		"another reason after the day": {"FF01", 4 * day}, "the day, in time": {"DT01", 0},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(x *env) {
				m := x.mandate(bank.SEPAB2B, "123456")
				d := x.create(m, "100.00")
				x.reach(d)
				x.submit(d)
				x.Clock.Advance(c.wait)
				number, _ := bank.FindDebit(x.get(d).Reference())
				x.apply(bank.DebitFact{Number: number, Outcome: bank.DebitRejected, Code: c.code}, 0)
				x.want(d, directdebit.Failed, c.code, 0, 0, 0)
				if got := x.mandateState(m); got != "suspended "+c.code {
					x.Errorf("the mandate is %s", got)
				}
			})
		})
	}
	// The bank collects a debit whose day it refused: it is credited, and not collected again.
	run(t, func(x *env) {
		d := x.create(x.mandate(bank.SEPAB2B, "123456"), "100.00")
		x.reach(d)
		x.submit(d)
		x.Clock.Advance(4 * day)
		number, _ := bank.FindDebit(x.get(d).Reference())
		x.apply(bank.DebitFact{Number: number, Outcome: bank.DebitRejected, Code: "DT01"}, 0)
		x.submit(d)
		x.apply(bank.DebitFact{Number: number, Outcome: bank.DebitCollected, Amount: d.Amount, Booked: true}, 0)
		x.submit(d)
		x.want(d, directdebit.Collected, "", 100_00, 0, 0)
	})
}

// No debit is sent while the company is frozen, payouts are paused, or the mandate is not active.
func TestADebitWaits(t *testing.T) {
	run(t, func(x *env) {
		m := x.mandate(bank.SEPAB2B, "123456")
		d := x.create(m, "100.00")
		x.reach(d)
		files := func() int { return len(testkit.Must(os.ReadDir(filepath.Join(x.root, "out")))) }
		x.Exec("UPDATE companies SET status = 'frozen'")
		x.submit(d)
		x.want(d, directdebit.Scheduled, directdebit.ReasonFrozen, 0, 0, 0)
		x.Exec("UPDATE companies SET status = 'active'")
		x.Write(func(ctx context.Context, tx *db.Tx) error { return payout.SetPaused(ctx, tx, "test") })
		x.submit(d)
		x.want(d, directdebit.Scheduled, directdebit.ReasonPaused, 0, 0, 0)
		x.Write(func(ctx context.Context, tx *db.Tx) error { return payout.SetPaused(ctx, tx, "") })
		if files() != 0 {
			x.Error("a file was sent")
		}
		// The debit is late: it is announced again, with the promised notice, and sent for its new due date.
		x.Clock.Advance(7 * day)
		now := testkit.Must(x.DB.Now(x.Context()))
		for range 2 {
			x.submit(d)
			late := x.get(d)
			due := testkit.Must(time.Parse(time.DateOnly, late.DueOn))
			if late.State != directdebit.Scheduled || due.Sub(now.Truncate(day)) < 14*day || files() != 0 {
				x.Errorf("%s, due on %s; %d files", late.State, late.DueOn, files())
			}
		}
		x.WantCount(2, "mails WHERE mail_key LIKE '"+d.ID+"/announced/%'")
		late := x.get(d)
		x.reach(late)
		x.WantCount(2, fmt.Sprintf("jobs WHERE kind = 'direct_debit.submit' AND run_at > %d AND run_at <= %d", db.Micros(now),
			db.Micros(testkit.Must(x.DB.Now(x.Context())))))
		x.submit(d)
		if sent := x.get(d); sent.State != directdebit.Submitted || sent.DueOn != late.DueOn || files() != 1 {
			x.Errorf("%s, due on %s; %d files", sent.State, sent.DueOn, files())
		}
		x.WantCount(2, "mails WHERE mail_key LIKE '"+d.ID+"/announced/%'")
		x.respond()
		// A frozen company's money is not released.
		x.Exec("UPDATE companies SET status = 'frozen'")
		x.Clock.Advance(30 * day)
		x.respond()
		x.release(d)
		x.want(d, directdebit.Collected, "", 100_00, 0, 0)
		x.Exec("UPDATE companies SET status = 'active'")
		x.release(d)
		x.want(d, directdebit.Available, "", 0, 100_00, 0)

		revoked := x.create(m, "5.00")
		x.Write(fixture.Drop(func(ctx context.Context, tx *db.Tx) (directdebit.Mandate, error) {
			return x.s.Revoke(ctx, tx, x.admin, "", m.ID)
		}))
		x.submit(revoked)
		if got := x.get(revoked); got.State != directdebit.Cancelled || files() != 0 {
			x.Errorf("the debit under a revoked mandate is %s", got.State)
		}
	})
}

// Wherever a process is killed, and however many send a debit at once, the bank gets one file.
func TestADebitIsSentOnce(t *testing.T) {
	run(t, func(x *env) {
		m := x.mandate(bank.SEPAB2B, "123456")
		d := x.create(m, "100.00")
		x.reach(d)
		out := filepath.Join(x.root, "out")
		// The drop is gone: the debit is prepared and not sent.
		x.Must(os.Rename(out, out+".gone"))
		x.Must(os.WriteFile(out, nil, 0o600))
		x.submit(d)
		x.want(d, directdebit.Submitting, "", 0, 0, 0)
		x.Must(os.Remove(out))
		x.Must(os.Rename(out+".gone", out))
		var work sync.WaitGroup
		for range 4 {
			work.Go(func() { _ = x.trySubmit(d) })
		}
		work.Wait()
		x.submit(d)
		files := testkit.Must(filepath.Glob(filepath.Join(out, "D*.xml")))
		if len(files) != 1 {
			x.Fatalf("the bank got %v", files)
		}
		// The record of the transfer is lost: it is found, and not sent again.
		x.Exec("UPDATE direct_debits SET status = 'submitting'")
		x.submit(d)
		x.want(d, directdebit.Submitted, "", 0, 0, 0)
		// The bank has taken the file, and the record is lost: the outcome is unknown until the bank reports it.
		x.Exec("UPDATE direct_debits SET status = 'submitting'")
		x.Must(os.Rename(files[0], filepath.Join(x.root, "done", "kept")))
		x.submit(d)
		x.want(d, directdebit.Submitting, directdebit.ReasonUnknown, 0, 0, 0)
		number, _ := bank.FindDebit(x.get(d).Reference())
		fact := bank.DebitFact{Number: number, Outcome: bank.DebitCollected, Amount: d.Amount, Booked: true}
		for range 2 {
			if problems, err := x.c.Apply(x.Context(), x.DB, []bank.DebitFact{fact}); err != nil || len(problems) > 0 {
				x.Fatal(problems, err)
			}
			x.want(d, directdebit.Collected, "", 100_00, 0, 0)
		}
		x.submit(d)
		if again := testkit.Must(filepath.Glob(filepath.Join(out, "D*.xml"))); len(again) != 0 {
			x.Errorf("the bank got %v again", again)
		}
		// A return that two workers read at once is booked once, with the fee that the bank took, if the account allows it.
		fact = bank.DebitFact{Number: number, Outcome: bank.DebitReturned, Code: "MD01", Amount: d.Amount}
		for range 4 {
			work.Go(func() { _, _ = x.c.Apply(x.Context(), x.DB, []bank.DebitFact{fact}) })
		}
		work.Wait()
		x.want(d, directdebit.Returned, "MD01", 0, 0, 0)
		if got := x.mandateState(m); got != "ended MD01" {
			x.Errorf("the mandate is %s", got)
		}
	})
}

// Staff who asked the bank decide about a debit whose outcome is unknown. One that the bank does not have is sent
// again, once: as the same file, or by another file that is due later.
func TestStaffDecideAboutAnUnknownOutcome(t *testing.T) {
	for name, c := range map[string]struct {
		decide func(ctx context.Context, tx *db.Tx, number int64) error
		wait   time.Duration
		number int64 // of the file after that
		state  directdebit.State
		files  int
	}{
		"the bank has it": {decide: directdebit.ConfirmReceived, state: directdebit.Submitted, number: 1},
		"it does not":     {decide: directdebit.Resend, state: directdebit.Submitted, number: 1, files: 1},
		"it is too late":  {decide: directdebit.Resend, wait: 20 * day, state: directdebit.Submitted, number: 2, files: 1},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(x *env) {
				d := x.create(x.mandate(bank.SEPAB2B, "123456"), "100.00")
				decide := func() error {
					return x.DB.Write(x.Context(), func(ctx context.Context, tx *db.Tx) error { return c.decide(ctx, tx, 1) })
				}
				if err := decide(); !errors.Is(err, directdebit.ErrNotFound) {
					x.Errorf("before it has a number: %v", err)
				}
				x.reach(d)
				x.submit(d)
				if err := decide(); !errors.Is(err, directdebit.ErrOutcomeKnown) {
					x.Errorf("a known outcome: %v", err)
				}
				x.Exec("UPDATE direct_debits SET status = 'submitting'")
				x.Must(os.Remove(filepath.Join(x.root, "out", "D0000001.xml")))
				x.submit(d)
				x.want(d, directdebit.Submitting, directdebit.ReasonUnknown, 0, 0, 0)
				x.Clock.Advance(c.wait)
				x.Must(decide())
				x.submit(d)
				if c.wait > 0 { // it is announced again before it is sent
					x.want(d, directdebit.Scheduled, "", 0, 0, 0)
					x.reach(x.get(d))
				}
				for range 2 {
					x.submit(d)
				}
				got := x.get(d)
				if number, _ := bank.FindDebit(got.Reference()); got.State != c.state || number != c.number {
					x.Errorf("%s is %s", got.Reference(), got.State)
				}
				if later := c.number == 2; later != (got.DueOn > d.DueOn) {
					x.Errorf("it is due on %s, was %s", got.DueOn, d.DueOn)
				}
				if files, _ := filepath.Glob(filepath.Join(x.root, "out", "D*.xml")); len(files) != c.files {
					x.Errorf("the bank got %v", files)
				}
			})
		})
	}
}

// A debit that is ready to be sent is not sent after its mandate ended or was suspended.
func TestNoDebitIsSentAfterItsMandateEnded(t *testing.T) {
	for name, end := range map[string]func(x *env, m directdebit.Mandate){
		"revoked": func(x *env, m directdebit.Mandate) {
			x.Write(fixture.Drop(func(ctx context.Context, tx *db.Tx) (directdebit.Mandate, error) {
				return x.s.Revoke(ctx, tx, x.admin, "", m.ID)
			}))
		},
		"suspended": func(x *env, _ directdebit.Mandate) {
			x.Exec("UPDATE direct_debit_mandates SET status = 'suspended', reason = 'MD01'")
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(x *env) {
				m := x.mandate(bank.SEPAB2B, "123456")
				d := x.create(m, "100.00")
				x.reach(d)
				out := filepath.Join(x.root, "out")
				x.Must(os.Rename(out, out+".gone")) // the debit is made and cannot be sent
				x.Must(os.WriteFile(out, nil, 0o600))
				x.submit(d)
				x.want(d, directdebit.Submitting, "", 0, 0, 0)
				x.Must(os.Remove(out))
				x.Must(os.Rename(out+".gone", out))
				end(x, m)
				for range 2 {
					x.submit(d)
				}
				x.want(d, directdebit.Cancelled, directdebit.ReasonMandate, 0, 0, 0)
				if files, _ := filepath.Glob(filepath.Join(out, "D*.xml")); len(files) != 0 {
					x.Errorf("the bank got %v", files)
				}
			})
		})
	}
}
