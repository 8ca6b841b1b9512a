package bank_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/bankreceipt"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
	"github.com/stipend/stipend/internal/payout/bank/nacha"
)

const (
	company = "com_1"
	payee   = `{"account_holder_name":"Ada","account_holder_type":"individual","iban":"DE89370400440532013000"}`
)

// unchanged ignores requested corrections.
func unchanged(context.Context, *db.Tx, payout.Output, string, nacha.Correction) error { return nil }

// fixture is a rail with a local drop and queued outputs.
type fixture struct {
	*testing.T
	d    *db.DB
	e    *bank.Rail
	root string
}

func newFixture(t *testing.T, d *db.DB, outputs int) *fixture {
	t.Helper()
	sealer, err := identity.NewSealer(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	b := &fixture{T: t, d: d, root: t.TempDir()}
	drop, err := bank.OpenFolder(b.root)
	if err != nil {
		t.Fatal(err)
	}
	accounts := bank.SandboxAccounts()
	for i := range accounts {
		accounts[i].ReturnFee = "0.50"
	}
	b.e, err = bank.New(bank.Config{Log: slog.New(slog.DiscardHandler), Changed: unchanged, Drop: drop, Accounts: accounts,
		Sealer: sealer, Reveal: func(snapshot json.RawMessage) (bank.Destination, error) {
			return bank.Destination{Country: "DE", Scheme: "sepa_ct", Data: snapshot}, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	b.write(func(ctx context.Context, tx *db.Tx) error {
		var outs []payout.Output
		for i := range outputs {
			o := payout.Output{CompanyID: company, ID: fmt.Sprintf("out_%d", i+1), PayrollID: "prl_1",
				PaymentID: fmt.Sprintf("pmt_%d", i+1), Rail: payout.RailBank,
				Amount: money.New(money.EUR, int64(100*(i+1))), Input: money.New(money.EUR, 100),
				Destination: json.RawMessage(payee)}
			outs = append(outs, o)
			if err := ledger.Post(tx, ledger.Journal{CompanyID: company, SourceType: "test", SourceID: o.ID, Purpose: "owe",
				Lines: []ledger.Line{
					ledger.Debit(ledger.FXPosition, "", o.Amount), ledger.Credit(ledger.OutputPayable, o.ID, o.Amount)}}); err != nil {
				return err
			}
		}
		return payout.Add(tx, outs)
	})
	if err := b.e.Prepare(b.Context(), b.d, company); err != nil {
		b.Fatal(err)
	}
	return b
}

func (b *fixture) write(f func(context.Context, *db.Tx) error) {
	b.Helper()
	if err := b.d.Write(b.Context(), f); err != nil {
		b.Fatal(err)
	}
}

func (b *fixture) file() (f bank.File) {
	b.Helper()
	b.write(func(ctx context.Context, tx *db.Tx) (err error) { f, err = bank.Find(ctx, tx, 1); return err })
	return f
}

func (b *fixture) send() {
	b.Helper()
	if err := b.e.Send(b.Context(), b.d, company, []string{b.file().ID}); err != nil {
		b.Fatal(err)
	}
}

// files returns the number of files that are or were visible to the bank.
func (b *fixture) files() int {
	found, _ := filepath.Glob(filepath.Join(b.root, "*", "S*.xml"))
	return len(found)
}

func (b *fixture) state(output string) (o payout.Output) {
	b.Helper()
	b.write(func(ctx context.Context, tx *db.Tx) (err error) {
		o, err = payout.Get(ctx, tx, company, output)
		return err
	})
	return o
}

func (b *fixture) is(file string, output payout.State) {
	b.Helper()
	if f, o := b.file(), b.state("out_1"); f.State != file || o.State != output {
		b.Fatalf("the file is %s and its output %s; want %s and %s", f.State, o.State, file, output)
	}
}

func (b *fixture) balance(c ledger.Code, dim string) (a money.Amount) {
	b.Helper()
	b.write(func(ctx context.Context, tx *db.Tx) (err error) {
		a, err = ledger.Balance(ctx, tx, company, c, dim, money.EUR)
		return err
	})
	return a
}

// The bank receives a file once, at whatever point of the submission the program is killed. If that cannot be
// verified, the outcome is unknown.
func TestAFileIsSubmittedOnceWhereverTheProgramIsKilled(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newFixture(t, d, 2)
		b.is(bank.Prepared, payout.Prepared)
		f := b.file()
		body, err := f.Body(b.e.Config().Sealer)
		if err != nil || !bytes.Contains(body, []byte("S0000001P00002")) {
			t.Fatalf("%v\n%s", err, body)
		}
		// The program is killed after staging a copy, before storing its token: the next attempt stages another copy.
		if err := b.e.Config().Drop.Stage(t.Context(), f.Name, "lost", body); err != nil {
			t.Fatal(err)
		}
		// The program is killed after storing the token, before the release.
		if err := b.e.Config().Drop.Stage(t.Context(), f.Name, "mine", body); err != nil {
			t.Fatal(err)
		}
		b.write(func(ctx context.Context, tx *db.Tx) error {
			ok, err := bank.Claim(ctx, tx, f, "mine")
			if err == nil && !ok {
				err = errors.New("not claimed")
			}
			return err
		})
		b.is(bank.UnknownOutcome, payout.Prepared)
		if n := b.files(); n != 0 {
			t.Fatalf("%d files", n)
		}
		b.send()
		b.is(bank.Sent, payout.Sent)
		// The program is killed after the release, before recording it: the outcome is unknown again, but the file is
		// found.
		b.write(func(ctx context.Context, tx *db.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE bank_files SET state = 'in_doubt' WHERE company_id = $1", company)
			return err
		})
		b.send()
		b.is(bank.Sent, payout.Sent)
		if n := b.files(); n != 1 {
			t.Fatalf("%d files", n)
		}
		// The program is killed at the same point, and the bank has deleted the file: the outcome stays unknown and
		// the file is not sent again.
		if err := os.Remove(filepath.Join(b.root, "out", f.Name)); err != nil {
			t.Fatal(err)
		}
		b.write(func(ctx context.Context, tx *db.Tx) error {
			outs, err := payout.InBatches(ctx, tx, company, f.ID)
			if err != nil {
				return err
			}
			sent := []*payout.Output{&outs[0], &outs[1]}
			reason := func(*payout.Output) string { return "" }
			if err := payout.Advance(ctx, tx, sent, payout.Prepared, reason); err != nil {
				return err
			}
			_, err = tx.Exec(ctx, "UPDATE bank_files SET state = 'in_doubt' WHERE company_id = $1", company)
			return err
		})
		for range 3 {
			b.send()
		}
		b.is(bank.UnknownOutcome, payout.UnknownOutcome)
		if n := b.files(); n != 0 {
			t.Fatalf("%d files are visible again", n)
		}
		// Staff decide after asking the bank; deciding about another file fails.
		b.write(func(ctx context.Context, tx *db.Tx) error {
			if err := bank.Resend(ctx, tx, 2); !errors.Is(err, bank.ErrNoFile) {
				t.Errorf("no file: %v", err)
			}
			return bank.Resend(ctx, tx, 1)
		})
		b.send()
		if got, err := os.ReadFile(filepath.Join(b.root, "out", f.Name)); err != nil || !bytes.Equal(got, body) {
			t.Errorf("not the same file: %v", err)
		}
		b.is(bank.Sent, payout.Sent)
		b.write(func(ctx context.Context, tx *db.Tx) error {
			if err := bank.ConfirmReceived(ctx, tx, 1); !errors.Is(err, bank.ErrOutcomeKnown) {
				t.Errorf("known outcome: %v", err)
			}
			return nil
		})
	})
}

// statement writes an account statement to the drop and returns the rail's record of the response after reading it.
func (b *fixture) statement(name string, entries ...iso20022.Entry) bank.Response {
	b.Helper()
	var out bytes.Buffer
	w, err := iso20022.WriteStatement(&out, iso20022.Statement{File: name, ID: name, Created: time.Unix(0, 0),
		Account: "1"})
	if err != nil {
		b.Fatal(err)
	}
	for _, e := range entries {
		if err := w.Entry(e); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	return b.response(name, out.Bytes())
}

func (b *fixture) response(name string, body []byte) (found bank.Response) {
	b.Helper()
	if err := os.WriteFile(filepath.Join(b.root, "in", name), body, 0o600); err != nil {
		b.Fatal(err)
	}
	if err := b.e.Collect(b.Context(), b.d); err != nil {
		b.Fatal(err)
	}
	b.write(func(ctx context.Context, tx *db.Tx) error {
		all, err := bank.Responses(ctx, tx, false, 100)
		for _, a := range all {
			if a.Checksum == bank.ChecksumOf(body) || a.Checksum == bank.IncompleteChecksum(name, body) {
				found = a
			}
		}
		return err
	})
	return found
}

func eur(cents int64) money.Amount { return money.New(money.EUR, cents) }

func debit(a money.Amount, name string) iso20022.Entry {
	return iso20022.Entry{Reference: name, Amount: a, Batch: iso20022.Batch{MessageID: name}}
}

func one(id string, a money.Amount, credit bool, reason, kind string) iso20022.Entry {
	t := iso20022.Type{Domain: "PMNT", Family: "ICDT", SubFamily: kind}
	return iso20022.Entry{Reference: "e" + id, Amount: a, Credit: credit, Type: t,
		Details: []iso20022.Detail{{EndToEndID: id, Amount: a, Credit: credit, Type: t, ReturnReason: reason}}}
}

// Each fact that a bank reports is booked once, even if several files report it. Invalid statements change nothing.
func TestResponsesAreBookedOnce(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newFixture(t, d, 3) // three outputs of 1, 2 and 3 euros
		b.send()
		f := b.file()
		if got := b.balance(ledger.InTransit, f.ID); got != eur(600) {
			t.Fatalf("%s in transit", got)
		}
		// The debit is reported before the rejection of one payment: the response is pending and is read again.
		if a := b.statement("early", debit(eur(400), "S0000001")); a.Settled || len(a.Problems) != 1 {
			t.Errorf("%+v", a)
		}
		status, err := iso20022.Status{ID: "A1", Order: "S0000001", Code: "PART", Payments: []iso20022.PaymentStatus{
			{ID: "S0000001P00002", Code: "RJCT", Reasons: []iso20022.Reason{{Code: "AC01"}}},
			{ID: "S0000009P00001", Code: "RJCT"},
			{ID: "S0000001P00001", Code: "XXXX"}}}.Write(time.Unix(0, 0))
		if err != nil {
			t.Fatal(err)
		}
		// The status report also names a payment of another file, and has an unknown status for one payment.
		if a := b.response("status", status); !a.Settled || len(a.Problems) != 2 ||
			!strings.Contains(strings.Join(a.Problems, ""), `"XXXX"`) {
			t.Errorf("%+v", a)
		}
		strange := one("S0000001P00003", eur(300), true, "AC04", "RRTN")
		strange.Status = "WXYZ"
		if a := b.statement("strange", strange); !strings.Contains(fmt.Sprint(a), `the status "WXYZ"`) {
			t.Errorf("%+v", a)
		}
		if err := b.e.Collect(t.Context(), b.d); err != nil {
			t.Fatal(err)
		}
		for id, want := range map[string]payout.State{"out_1": payout.Fulfilled, "out_2": payout.Failed,
			"out_3": payout.Fulfilled} {
			if o := b.state(id); o.State != want || want == payout.Failed && o.Reason != "AC01" {
				t.Errorf("%s is %s %s, want %s", id, o.State, o.Reason, want)
			}
		}
		check := func(atBank, transit, fees, owed1, owed2, owed3 int64) {
			t.Helper()
			got := []money.Amount{b.balance(ledger.Bank, "sandbox"), b.balance(ledger.InTransit, f.ID),
				b.balance(ledger.BankFee, "sandbox"),
				b.balance(ledger.OutputPayable, "out_1"), b.balance(ledger.OutputPayable, "out_2"),
				b.balance(ledger.OutputPayable, "out_3")}
			want := []money.Amount{eur(atBank), eur(transit), eur(fees), eur(owed1), eur(owed2), eur(owed3)}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("the ledger has %v, want %v", got, want)
			}
		}
		check(-400, 0, 0, 0, 200, 0)
		b.statement("again", debit(eur(400), "S0000001"), one("S0000001P00001", eur(100), false, "", "ESCT"))
		check(-400, 0, 0, 0, 200, 0)
		// The bank reports a fee, which is booked once, and a returned payment, less a fee.
		b.statement("fee", one("S0000001P00001", eur(20), false, "", "CHRG"))
		b.statement("fee again", one("S0000001P00001", eur(20), false, "", "CHRG"))
		check(-420, 0, 20, 0, 200, 0)
		back := one("S0000001P00003", eur(250), true, "AC04", "RRTN")
		b.statement("back", back)
		b.statement("back again", back)
		check(-170, 0, 70, 0, 200, 300)
		if o := b.state("out_3"); o.State != payout.Returned || o.Reason != "AC04" {
			t.Errorf("%+v", o)
		}
		// Each of these entries is a problem for staff and changes nothing.
		for i, e := range []iso20022.Entry{
			one("S0000001P00002", eur(200), true, "AC04", "RRTN"), // the bank rejected this payment before
			one("S0000001P00001", eur(101), true, "AC04", "RRTN"), // more than the payment's amount
			one("S0000001P00009", eur(100), true, "AC04", "RRTN"),
			one("S0000007P00001", eur(100), true, "AC04", "RRTN"),
			one("X", eur(100), false, "", "ESCT"), debit(eur(999), "S0000001"),
		} {
			if a := b.statement(fmt.Sprintf("odd%d", i), e); len(a.Problems) != 1 {
				t.Errorf("%d: %+v", i, a)
			}
		}
		if a := b.response("junk", []byte("junk")); len(a.Problems) != 1 {
			t.Errorf("%+v", a)
		}
		check(-170, 0, 70, 0, 200, 300)
		var n int64
		b.write(func(ctx context.Context, tx *db.Tx) error {
			return tx.QueryRow(ctx, "SELECT COUNT(*) FROM events WHERE name = 'payout.returned'").Scan(&n)
		})
		if n != 1 {
			t.Errorf("%d payout.returned events", n)
		}
	})
}

// read makes the rail pass statements to package bankreceipt, as the service does.
func (b *fixture) read() {
	accounts := []bank.Account{{ID: "sandbox", Number: "1", Currency: money.EUR}}
	b.e.Config().Statement = func(ctx context.Context, d *db.DB, statement io.Reader, parts []bank.Part) ([]string,
		error) {
		s, err := bankreceipt.Import(ctx, d, statement, accounts, parts...)
		return s.Problems, err
	}
}

// A payee can send a small amount with the payment's reference: that is not a return. A bank may withhold at most the
// account's return fee; if more is missing, staff decide.
func TestOnlyTheBankReturnsAPayment(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newFixture(t, d, 1) // one output of one euro
		b.read()
		b.send()
		suspense := func() (n int) {
			b.write(func(ctx context.Context, tx *db.Tx) error {
				waits, err := bankreceipt.List(ctx, tx, false, 10)
				n = len(waits)
				return err
			})
			return n
		}
		early := one("X", eur(3), true, "", "ESCT")
		if a := b.statement("early", debit(eur(99), "S0000001"), early); a.Settled || suspense() != 1 {
			t.Errorf("a pending debit delays a credit: %+v", a)
		}
		early.Credit, early.Details[0].Credit, early.Reversal = false, false, true
		if a := b.statement("reversal", early); len(a.Problems) != 0 || suspense() != 0 {
			t.Errorf("a reversed credit stays: %+v", a)
		}
		b.statement("paid", debit(eur(100), "S0000001"))
		check := func(what string, a bank.Response, problems int, state payout.State, fees, owed int64) {
			t.Helper()
			o := b.state("out_1")
			got := fmt.Sprint(len(a.Problems), o.State, b.balance(ledger.BankFee, "sandbox"),
				b.balance(ledger.OutputPayable, "out_1"))
			if want := fmt.Sprint(problems, state, eur(fees), eur(owed)); got != want {
				t.Errorf("%s: %s, want %s: %q", what, got, want, a.Problems)
			}
		}
		check("a credit with its reference", b.statement("cent", one("S0000001P00001", eur(1), true, "", "ESCT")), 0,
			payout.Fulfilled, 0, 0)
		whole := one("S0000001P00001", eur(100), true, "", "ESCT")
		whole.Reference, whole.Servicer = "w", "w"
		check("a credit of the whole amount", b.statement("whole", whole), 0, payout.Fulfilled, 0, 0)
		if n := suspense(); n != 2 {
			t.Errorf("%d credits in suspense, want both", n)
		}
		check("a return of too little", b.statement("little", one("S0000001P00001", eur(49), true, "AC04", "RRTN")), 0,
			payout.Fulfilled, 0, 0)
		if n := suspense(); n != 3 {
			t.Errorf("%d credits in suspense, want also the part", n)
		}
		b.write(func(ctx context.Context, tx *db.Tx) error {
			if err := bank.RecordReturn(ctx, tx, 1, 1, eur(101), bankreceipt.ClearParts); err == nil {
				t.Error("a return above the payment was accepted")
			}
			if err := bank.RecordReturn(ctx, tx, 9, 1, eur(1), bankreceipt.ClearParts); !errors.Is(err, bank.ErrNoFile) {
				t.Errorf("no file: %v", err)
			}
			return bank.RecordReturn(ctx, tx, 1, 1, eur(49), bankreceipt.ClearParts)
		})
		check("recorded by staff", bank.Response{}, 0, payout.Returned, 51, 100)
		check("the bank reports the rest", b.statement("again", one("S0000001P00001", eur(100), true, "AC04", "RRTN")), 0,
			payout.Returned, 51, 100)
	})
}

// A server lists a response while the bank writes it. An incomplete response stays in the drop; it is read when it is
// complete. If it stays unchanged for the timeout, it becomes a problem for staff.
func TestAnResponseIsReadWhenItIsComplete(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		b := newFixture(t, d, 1)
		b.send()
		var out bytes.Buffer
		w, err := iso20022.WriteStatement(&out, iso20022.Statement{File: "s", ID: "s", Created: time.Unix(0, 0),
			Account: "1"})
		if err == nil {
			err = errors.Join(w.Entry(debit(eur(100), "S0000001")), w.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		there := func(name string, want bool) {
			t.Helper()
			if _, err := os.Stat(filepath.Join(b.root, "in", name)); (err == nil) != want {
				t.Errorf("%s is there: %v, want %v", name, err == nil, want)
			}
		}
		whole := out.Bytes()
		for _, n := range []int{0, 1, len(whole) / 2, len(whole) - 5} {
			if a := b.response("s.xml", whole[:n]); a.Settled || a.Facts != 0 {
				t.Errorf("%d bytes of %d: %+v", n, len(whole), a)
			}
			there("s.xml", true)
			clock.Advance(bank.IncompleteTimeout - time.Second) // each part is younger than the timeout
		}
		if o := b.state("out_1"); o.State != payout.Sent {
			t.Errorf("the output is %s", o.State)
		}
		if a := b.response("s.xml", whole); !a.Settled || a.Facts != 1 || len(a.Problems) != 0 ||
			b.state("out_1").State != payout.Fulfilled {
			t.Errorf("the whole: %+v, and the output is %s", a, b.state("out_1").State)
		}
		there("s.xml", false)
		for _, junk := range []string{"101 half of a header", "<Document", "x"} {
			b.response("junk", []byte(junk))
			clock.Advance(bank.IncompleteTimeout)
			if a := b.response("junk", []byte(junk)); !a.Settled || len(a.Problems) != 1 {
				t.Errorf("%q: %+v", junk, a)
			}
			there("junk", false)
		}
		for _, name := range []string{"junk", "t.xml"} { // a new file may begin like an archived one
			if a := b.response(name, []byte("<Document")); a.Settled {
				t.Errorf("%s: %+v", name, a)
			}
			there(name, true)
		}
		b.response("empty", nil)
		clock.Advance(24 * time.Hour)
		if a := b.response("empty", nil); a.Settled {
			t.Errorf("an empty file: %+v", a)
		}
		there("empty", true)
		b.write(func(ctx context.Context, tx *db.Tx) error {
			all, err := bank.Responses(ctx, tx, false, 100)
			if len(all) != 6 {
				t.Errorf("%d responses are stored, want a complete, three unreadable and two pending ones", len(all))
			}
			return err
		})
	})
}

// A database restored from a backup lacks the files made since. A bank's response about such a file pauses payouts.
// Staff mark the payments that it made, each once. Then payouts continue, under numbers that no file had.
func TestARestoredBackupPaysEachOutputOnce(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newFixture(t, d, 1)
		b.send()
		paused := func() (why string) {
			b.write(func(ctx context.Context, tx *db.Tx) (err error) { why, err = payout.Paused(ctx, tx); return err })
			return why
		}
		b.statement("unknown", debit(eur(500), "S0000007"))
		if !strings.Contains(paused(), "S0000007") {
			t.Fatalf("payouts go on: %q", paused())
		}
		b.write(func(ctx context.Context, tx *db.Tx) error {
			outs := []payout.Output{}
			for i := range 3 {
				o := payout.Output{CompanyID: company, ID: fmt.Sprintf("out_again_%d", i), PayrollID: "prl_2",
					PaymentID: fmt.Sprintf("pmt_again_%d", i), Rail: payout.RailBank,
					Amount: eur(500), Input: eur(500), Destination: json.RawMessage(payee)}
				outs = append(outs, o)
				if err := ledger.Post(tx, ledger.Journal{CompanyID: company, SourceType: "test", SourceID: o.ID, Purpose: "owe",
					Lines: []ledger.Line{
						ledger.Debit(ledger.FXPosition, "", o.Amount),
						ledger.Credit(ledger.OutputPayable, o.ID, o.Amount)}}); err != nil {
					return err
				}
			}
			return errors.Join(payout.Add(tx, outs), bank.SkipNumbers(ctx, tx, 1000))
		})
		cut := func() {
			if err := b.e.Prepare(b.Context(), b.d, company); err != nil {
				b.Fatal(err)
			}
		}
		cut()
		found := func(output, name string) error {
			return d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				_, err := bank.MarkPaid(ctx, tx, output, name, "sandbox")
				return err
			})
		}
		for _, c := range []struct {
			output, name string
			want         error
		}{
			{"out_again_0", "S0000001P00001", bank.ErrKnown}, {"out_1", "S0000007P00001", bank.ErrNotQueued},
			{"out_again_0", "S0000007P00001", nil},
			{"out_again_1", "S0000007P00001", bank.ErrKnown}, {"out_again_0", "S0000007P00002", bank.ErrNotQueued},
			{"out_again_1", "S0002000P00002", nil},
		} {
			if err := found(c.output, c.name); !errors.Is(err, c.want) {
				t.Errorf("%s by %s: %v, want %v", c.output, c.name, err, c.want)
			}
		}
		if o := b.state("out_again_0"); o.State != payout.Fulfilled || b.balance(ledger.Bank, "sandbox") != eur(-1000) ||
			b.balance(ledger.OutputPayable, o.ID) != eur(0) {
			t.Errorf("%+v, %s at the bank", o, b.balance(ledger.Bank, "sandbox"))
		}
		b.write(func(ctx context.Context, tx *db.Tx) error { return payout.SetPaused(ctx, tx, "") })
		b.statement("again", debit(eur(501), "S0000007"))
		if err := found("out_again_2", "S0000007P00003"); !errors.Is(err, payout.ErrNotPaused) || paused() != "" {
			t.Errorf("%v, %q", err, paused())
		}
		cut()
		b.write(func(ctx context.Context, tx *db.Tx) error {
			all, err := bank.List(ctx, tx, false, 10)
			if len(all) != 2 || all[0].Number != 2001 || all[0].Payments != 1 {
				t.Errorf("%+v", all)
			}
			return err
		})
	})
}
