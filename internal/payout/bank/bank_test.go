package bank_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/bankreceipt"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
	"github.com/stipend/stipend/internal/payout/bank/nacha"
	"github.com/stipend/stipend/internal/payout/payouttest"
)

const payee = `{"account_holder_name":"Ada","account_holder_type":"individual","iban":"DE89370400440532013000"}`

// unchanged ignores requested corrections.
func unchanged(context.Context, *db.Tx, payout.Output, string, nacha.Correction) error { return nil }

func unchecked(context.Context, *db.Tx, bank.Checked) (bool, error) { return true, nil }

// fixture is a rail with a local drop and prepared outputs.
type fixture struct {
	*payouttest.Fixture
	e    *bank.Rail
	root string
}

// config returns the configuration of a rail whose destinations are SEPA accounts in Germany.
func config(f *payouttest.Fixture, drop *bank.Drop) bank.Config {
	sealer, err := identity.NewSealer(make([]byte, 32))
	f.Must(err)
	return bank.Config{Log: f.Log, Changed: unchanged, Checked: unchecked, Drop: drop,
		Accounts: bank.SandboxAccounts(), Sealer: sealer,
		Details: func(context.Context, *db.Tx, string, []payout.Output) (map[string]payout.Details, error) {
			return nil, nil
		},
		Reveal: func(snapshot json.RawMessage) (bank.Destination, error) {
			return bank.Destination{Country: "DE", Scheme: "sepa_ct", Data: snapshot}, nil
		}}
}

// run runs f on every database, with prepared outputs of 1, 2, … euros.
func run(t *testing.T, outputs int, f func(b *fixture)) {
	payouttest.RunFixture(t, func(on *payouttest.Fixture) {
		b := &fixture{Fixture: on, root: on.TempDir()}
		drop, err := bank.OpenFolder(b.root)
		b.Must(err)
		c := config(on, drop)
		for i := range c.Accounts {
			c.Accounts[i].ReturnFee = "0.50"
		}
		b.e, err = bank.New(c)
		b.Start(b.e, err)
		for i := range outputs {
			b.queue(fmt.Sprintf("out_%d", i+1), eur(int64(100*(i+1))))
		}
		b.prepare()
		f(b)
	})
}

func (b *fixture) queue(id string, amount money.Amount) {
	b.Helper()
	b.Queue(payout.Output{ID: id, Rail: payout.RailBank, Amount: amount, Destination: json.RawMessage(payee)})
}

func (b *fixture) prepare() {
	b.Helper()
	b.Must(b.e.Prepare(b.Context(), b.DB, payouttest.Company))
}

func (b *fixture) file() (f bank.File) {
	b.Helper()
	b.Write(func(ctx context.Context, tx *db.Tx) (err error) { f, err = bank.Find(ctx, tx, 1); return err })
	return f
}

func (b *fixture) send() {
	b.Helper()
	b.Must(b.e.Send(b.Context(), b.DB, payouttest.Company, []string{b.file().ID}))
}

// files returns the number of files that are or were visible to the bank.
func (b *fixture) files() int {
	found, _ := filepath.Glob(filepath.Join(b.root, "*", "S*.xml"))
	return len(found)
}

func (b *fixture) is(file string, output payout.State) {
	b.Helper()
	if f, o := b.file(), b.Load("out_1"); f.State != file || o.State != output {
		b.Fatalf("the file is %s and its output %s; want %s and %s", f.State, o.State, file, output)
	}
}

func (b *fixture) balance(c ledger.Code, dim string) money.Amount {
	b.Helper()
	return b.Balance(c, dim, money.EUR)
}

// The bank receives a file once, at whatever point of the submission the program is killed. If that cannot be
// verified, the outcome is unknown.
func TestAFileIsSubmittedOnceWhereverTheProgramIsKilled(t *testing.T) {
	run(t, 2, func(b *fixture) {
		b.is(bank.Prepared, payout.Prepared)
		f := b.file()
		body, err := f.Body(b.e.Config().Sealer)
		if err != nil || !bytes.Contains(body, []byte("S0000001P00002")) {
			b.Fatalf("%v\n%s", err, body)
		}
		// The program is killed after staging a copy, before storing its token: the next attempt stages another copy.
		b.Must(b.e.Config().Drop.Stage(b.Context(), f.Name, "lost", body))
		// The program is killed after storing the token, before the release.
		b.Must(b.e.Config().Drop.Stage(b.Context(), f.Name, "mine", body))
		b.Write(func(ctx context.Context, tx *db.Tx) error {
			ok, err := bank.Claim(ctx, tx, f, "mine")
			if err == nil && !ok {
				err = errors.New("not claimed")
			}
			return err
		})
		b.is(bank.UnknownOutcome, payout.Prepared)
		if n := b.files(); n != 0 {
			b.Fatalf("%d files", n)
		}
		b.send()
		b.is(bank.Sent, payout.Sent)
		// The program is killed after the release, before recording it: the outcome is unknown again, but the file is
		// found.
		b.Write(func(ctx context.Context, tx *db.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE bank_files SET state = 'in_doubt' WHERE company_id = $1", payouttest.Company)
			return err
		})
		b.send()
		b.is(bank.Sent, payout.Sent)
		if n := b.files(); n != 1 {
			b.Fatalf("%d files", n)
		}
		// The program is killed at the same point, and the bank has deleted the file: the outcome stays unknown and
		// the file is not sent again.
		b.Must(os.Remove(filepath.Join(b.root, "out", f.Name)))
		b.Write(func(ctx context.Context, tx *db.Tx) error {
			outs, err := payout.InBatches(ctx, tx, payouttest.Company, f.ID)
			if err != nil {
				return err
			}
			sent := []*payout.Output{&outs[0], &outs[1]}
			reason := func(*payout.Output) string { return "" }
			if err := payout.Advance(ctx, tx, sent, payout.Prepared, reason); err != nil {
				return err
			}
			_, err = tx.Exec(ctx, "UPDATE bank_files SET state = 'in_doubt' WHERE company_id = $1", payouttest.Company)
			return err
		})
		for range 3 {
			b.send()
		}
		b.is(bank.UnknownOutcome, payout.UnknownOutcome)
		if n := b.files(); n != 0 {
			b.Fatalf("%d files are visible again", n)
		}
		// Staff decide after asking the bank; deciding about another file fails.
		b.Write(func(ctx context.Context, tx *db.Tx) error {
			if err := bank.Resend(ctx, tx, 2); !errors.Is(err, bank.ErrNoFile) {
				b.Errorf("no file: %v", err)
			}
			return bank.Resend(ctx, tx, 1)
		})
		b.send()
		if got, err := os.ReadFile(filepath.Join(b.root, "out", f.Name)); err != nil || !bytes.Equal(got, body) {
			b.Errorf("not the same file: %v", err)
		}
		b.is(bank.Sent, payout.Sent)
		b.Write(func(ctx context.Context, tx *db.Tx) error {
			if err := bank.ConfirmReceived(ctx, tx, 1); !errors.Is(err, bank.ErrOutcomeKnown) {
				b.Errorf("known outcome: %v", err)
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
	b.Must(err)
	for _, e := range entries {
		b.Must(w.Entry(e))
	}
	b.Must(w.Close())
	return b.response(name, out.Bytes())
}

func (b *fixture) response(name string, body []byte) (found bank.Response) {
	b.Helper()
	b.Must(os.WriteFile(filepath.Join(b.root, "in", name), body, 0o600))
	b.Must(b.e.Collect(b.Context(), b.DB))
	b.Write(func(ctx context.Context, tx *db.Tx) error {
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
	run(t, 3, func(b *fixture) {
		b.send()
		f := b.file()
		if got := b.balance(ledger.InTransit, f.ID); got != eur(600) {
			b.Fatalf("%s in transit", got)
		}
		// The debit is reported before the rejection of one payment: the response is pending and is read again.
		if a := b.statement("early", debit(eur(400), "S0000001")); a.Settled || len(a.Problems) != 1 {
			b.Errorf("%+v", a)
		}
		status, err := iso20022.Status{ID: "A1", Order: "S0000001", Code: "PART", Payments: []iso20022.PaymentStatus{
			{ID: "S0000001P00002", Code: "RJCT", Reasons: []iso20022.Reason{{Code: "AC01"}}},
			{ID: "S0000009P00001", Code: "RJCT"},
			{ID: "S0000001P00001", Code: "XXXX"}}}.Write(time.Unix(0, 0))
		b.Must(err)
		// The status report also names a payment of another file, and has an unknown status for one payment.
		if a := b.response("status", status); !a.Settled || len(a.Problems) != 2 ||
			!strings.Contains(strings.Join(a.Problems, ""), `"XXXX"`) {
			b.Errorf("%+v", a)
		}
		strange := one("S0000001P00003", eur(300), true, "AC04", "RRTN")
		strange.Status = "WXYZ"
		if a := b.statement("strange", strange); !strings.Contains(fmt.Sprint(a), `the status "WXYZ"`) {
			b.Errorf("%+v", a)
		}
		b.Must(b.e.Collect(b.Context(), b.DB))
		for id, want := range map[string]payout.State{"out_1": payout.Fulfilled, "out_2": payout.Failed,
			"out_3": payout.Fulfilled} {
			if o := b.Load(id); o.State != want || want == payout.Failed && o.Reason != "AC01" {
				b.Errorf("%s is %s %s, want %s", id, o.State, o.Reason, want)
			}
		}
		check := func(atBank, transit, fees, owed1, owed2, owed3 int64) {
			b.Helper()
			got := []money.Amount{b.balance(ledger.Bank, "sandbox"), b.balance(ledger.InTransit, f.ID),
				b.balance(ledger.BankFee, "sandbox"),
				b.balance(ledger.OutputPayable, "out_1"), b.balance(ledger.OutputPayable, "out_2"),
				b.balance(ledger.OutputPayable, "out_3")}
			want := []money.Amount{eur(atBank), eur(transit), eur(fees), eur(owed1), eur(owed2), eur(owed3)}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				b.Errorf("the ledger has %v, want %v", got, want)
			}
		}
		check(-400, 0, 0, 0, 200, 0)
		b.statement("again", debit(eur(400), "S0000001"), one("S0000001P00001", eur(100), false, "", "ESCT"))
		check(-400, 0, 0, 0, 200, 0)
		// The bank reports a fee, which is booked once, and a returned payment, less a fee.
		b.statement("fee", one("S0000001P00001", eur(20), false, "", "CHRG"))
		b.statement("fee-again", one("S0000001P00001", eur(20), false, "", "CHRG"))
		check(-420, 0, 20, 0, 200, 0)
		back := one("S0000001P00003", eur(250), true, "AC04", "RRTN")
		b.statement("back", back)
		b.statement("back-again", back)
		check(-170, 0, 70, 0, 200, 300)
		if o := b.Load("out_3"); o.State != payout.Returned || o.Reason != "AC04" {
			b.Errorf("%+v", o)
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
				b.Errorf("%d: %+v", i, a)
			}
		}
		if a := b.response("junk", []byte("junk")); len(a.Problems) != 1 {
			b.Errorf("%+v", a)
		}
		check(-170, 0, 70, 0, 200, 300)
		var n int64
		b.Write(func(ctx context.Context, tx *db.Tx) error {
			return tx.QueryRow(ctx, "SELECT COUNT(*) FROM events WHERE name = 'payout.returned'").Scan(&n)
		})
		if n != 1 {
			b.Errorf("%d payout.returned events", n)
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
	run(t, 1, func(b *fixture) {
		b.read()
		b.send()
		suspense := func() (n int) {
			b.Write(func(ctx context.Context, tx *db.Tx) error {
				waits, err := bankreceipt.List(ctx, tx, false, 10)
				n = len(waits)
				return err
			})
			return n
		}
		early := one("X", eur(3), true, "", "ESCT")
		if a := b.statement("early", debit(eur(99), "S0000001"), early); a.Settled || suspense() != 1 {
			b.Errorf("a pending debit delays a credit: %+v", a)
		}
		early.Credit, early.Details[0].Credit, early.Reversal = false, false, true
		if a := b.statement("reversal", early); len(a.Problems) != 0 || suspense() != 0 {
			b.Errorf("a reversed credit stays: %+v", a)
		}
		b.statement("paid", debit(eur(100), "S0000001"))
		check := func(what string, a bank.Response, problems int, state payout.State, fees, owed int64) {
			b.Helper()
			o := b.Load("out_1")
			got := fmt.Sprint(len(a.Problems), o.State, b.balance(ledger.BankFee, "sandbox"),
				b.balance(ledger.OutputPayable, "out_1"))
			if want := fmt.Sprint(problems, state, eur(fees), eur(owed)); got != want {
				b.Errorf("%s: %s, want %s: %q", what, got, want, a.Problems)
			}
		}
		check("a credit with its reference", b.statement("cent", one("S0000001P00001", eur(1), true, "", "ESCT")), 0,
			payout.Fulfilled, 0, 0)
		whole := one("S0000001P00001", eur(100), true, "", "ESCT")
		whole.Reference, whole.Servicer = "w", "w"
		check("a credit of the whole amount", b.statement("whole", whole), 0, payout.Fulfilled, 0, 0)
		if n := suspense(); n != 2 {
			b.Errorf("%d credits in suspense, want both", n)
		}
		check("a return of too little", b.statement("little", one("S0000001P00001", eur(49), true, "AC04", "RRTN")), 0,
			payout.Fulfilled, 0, 0)
		if n := suspense(); n != 3 {
			b.Errorf("%d credits in suspense, want also the part", n)
		}
		b.Write(func(ctx context.Context, tx *db.Tx) error {
			if err := bank.RecordReturn(ctx, tx, 1, 1, eur(101), bankreceipt.ClearParts); err == nil {
				b.Error("a return above the payment was accepted")
			}
			if err := bank.RecordReturn(ctx, tx, 9, 1, eur(1), bankreceipt.ClearParts); !errors.Is(err, bank.ErrNoFile) {
				b.Errorf("no file: %v", err)
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
func TestAResponseIsReadWhenItIsComplete(t *testing.T) {
	run(t, 1, func(b *fixture) {
		b.send()
		var out bytes.Buffer
		w, err := iso20022.WriteStatement(&out, iso20022.Statement{File: "s", ID: "s", Created: time.Unix(0, 0),
			Account: "1"})
		if err == nil {
			err = errors.Join(w.Entry(debit(eur(100), "S0000001")), w.Close())
		}
		b.Must(err)
		there := func(name string, want bool) {
			b.Helper()
			if _, err := os.Stat(filepath.Join(b.root, "in", name)); (err == nil) != want {
				b.Errorf("%s is there: %v, want %v", name, err == nil, want)
			}
		}
		whole := out.Bytes()
		for _, n := range []int{0, 1, len(whole) / 2, len(whole) - 5} {
			if a := b.response("s.xml", whole[:n]); a.Settled || a.Facts != 0 {
				b.Errorf("%d bytes of %d: %+v", n, len(whole), a)
			}
			there("s.xml", true)
			b.Clock.Advance(bank.IncompleteTimeout - time.Second) // each part is younger than the timeout
		}
		if o := b.Load("out_1"); o.State != payout.Sent {
			b.Errorf("the output is %s", o.State)
		}
		if a := b.response("s.xml", whole); !a.Settled || a.Facts != 1 || len(a.Problems) != 0 ||
			b.Load("out_1").State != payout.Fulfilled {
			b.Errorf("the whole: %+v, and the output is %s", a, b.Load("out_1").State)
		}
		there("s.xml", false)
		for _, junk := range []string{"101 half of a header", "<Document", "x"} {
			b.response("junk", []byte(junk))
			b.Clock.Advance(bank.IncompleteTimeout)
			if a := b.response("junk", []byte(junk)); !a.Settled || len(a.Problems) != 1 {
				b.Errorf("%q: %+v", junk, a)
			}
			there("junk", false)
		}
		for _, name := range []string{"junk", "t.xml"} { // a new file may begin like an archived one
			if a := b.response(name, []byte("<Document")); a.Settled {
				b.Errorf("%s: %+v", name, a)
			}
			there(name, true)
		}
		b.response("empty", nil)
		b.Clock.Advance(24 * time.Hour)
		if a := b.response("empty", nil); a.Settled {
			b.Errorf("an empty file: %+v", a)
		}
		there("empty", true)
		b.Write(func(ctx context.Context, tx *db.Tx) error {
			all, err := bank.Responses(ctx, tx, false, 100)
			if len(all) != 6 {
				b.Errorf("%d responses are stored, want a complete, three unreadable and two pending ones", len(all))
			}
			return err
		})
	})
}

// A database restored from a backup lacks the files made since. A bank's response about such a file pauses payouts.
// Staff mark the payments that it made, each once. Then payouts continue, under numbers that no file had.
func TestARestoredBackupPaysEachOutputOnce(t *testing.T) {
	run(t, 1, func(b *fixture) {
		b.send()
		b.statement("unknown", debit(eur(500), "S0000007"))
		if !strings.Contains(b.Paused(), "S0000007") {
			b.Fatalf("payouts go on: %q", b.Paused())
		}
		for i := range 3 {
			b.queue(fmt.Sprintf("out_again_%d", i), eur(500))
		}
		b.Write(func(ctx context.Context, tx *db.Tx) error { return bank.SkipNumbers(ctx, tx, 1000) })
		b.prepare()
		currency := money.EUR
		found := func(output, name string) error {
			return b.DB.Write(b.Context(), func(ctx context.Context, tx *db.Tx) error {
				_, err := bank.MarkPaid(ctx, tx, output, name, bank.Account{ID: "sandbox", Currency: currency})
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
				b.Errorf("%s by %s: %v, want %v", c.output, c.name, err, c.want)
			}
		}
		currency = money.USD
		if err := found("out_again_2", "S0000008P00001"); !errors.Is(err, bank.ErrOtherCurrency) {
			b.Errorf("by an account in dollars: %v", err)
		}
		currency = money.EUR
		if o := b.Load("out_again_0"); o.State != payout.Fulfilled || b.balance(ledger.Bank, "sandbox") != eur(-1000) ||
			b.balance(ledger.OutputPayable, o.ID) != eur(0) {
			b.Errorf("%+v, %s at the bank", o, b.balance(ledger.Bank, "sandbox"))
		}
		b.Pause("")
		b.statement("again", debit(eur(501), "S0000007"))
		if err := found("out_again_2", "S0000007P00003"); !errors.Is(err, payout.ErrNotPaused) || b.Paused() != "" {
			b.Errorf("%v, %q", err, b.Paused())
		}
		b.prepare()
		b.Write(func(ctx context.Context, tx *db.Tx) error {
			all, err := bank.List(ctx, tx, false, 10)
			if len(all) != 2 || all[0].Number != 2001 || all[0].Payments != 1 {
				b.Errorf("%+v", all)
			}
			return err
		})
	})
}

// A file has one category purpose: wages and payments of vendors are in different files.
func TestWagesAndVendorsAreInDifferentFiles(t *testing.T) {
	run(t, 0, func(b *fixture) {
		b.e.Config().Details = func(_ context.Context, _ *db.Tx, _ string, outs []payout.Output) (map[string]payout.Details,
			error) {
			all := map[string]payout.Details{}
			for _, o := range outs {
				all[o.ID] = payout.Details{Purpose: payout.PurposeWages, Description: "text of " + o.ID}
				if o.ID == "out_2" {
					all[o.ID] = payout.Details{Purpose: payout.PurposeVendor, Invoice: "INV-7"}
				}
			}
			return all, nil
		}
		for i := range 3 {
			b.queue(fmt.Sprintf("out_%d", i+1), eur(100))
		}
		b.prepare()
		b.Write(func(ctx context.Context, tx *db.Tx) error {
			files, err := bank.List(ctx, tx, true, 10)
			if err != nil {
				return err
			}
			var got []string
			for _, f := range files {
				body, err := f.Body(b.e.Config().Sealer)
				b.Must(err)
				for _, part := range []string{"SALA", "SUPP", "<Ustrd>text of out 1<", "<Ustrd>text of out 3<", "<Ustrd>INV-7<"} {
					if bytes.Contains(body, []byte(part)) {
						got = append(got, part)
					}
				}
			}
			want := "[SUPP <Ustrd>INV-7< SALA <Ustrd>text of out 1< <Ustrd>text of out 3<]"
			if fmt.Sprint(got) != want || len(files) != 2 {
				b.Errorf("%d files with %v, want %v", len(files), got, want)
			}
			return nil
		})
	})
}
