package column_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/bankreceipt"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/payouttest"
)

// openWithStatements returns a branch whose statements are imported.
func openWithStatements(f *payouttest.Fixture) branch {
	f.Helper()
	b := open(f, `,"zone":"America/New_York"`)
	b.Statement = func(ctx context.Context, d *db.DB, in io.Reader, parts []bank.Part) ([]string, error) {
		s, err := bankreceipt.Import(ctx, d, in, b.Accounts, parts...)
		return s.Problems, err
	}
	b.now = func() time.Time {
		now, err := f.DB.Now(context.Background())
		f.Must(err)
		return now
	}
	return b
}

// differences waits for the statement of the day and returns what it does not agree with.
func (b branch) differences() (all string) {
	b.Helper()
	b.Clock.Advance(28 * time.Hour)
	for range 6 { // the reports of each day are requested, made, and read
		b.advance()
		for _, p := range b.Rails.Periodic(b.DB) {
			b.Must(p.Run(b.Context()))
		}
	}
	r, err := backoffice.Reconcile(b.Context(), b.DB, backoffice.Sources{Banks: b.Accounts})
	b.Must(err)
	for _, x := range r.Differences {
		all += x.Kind + " " + x.Object + "; "
	}
	return all
}

// operator returns the balance of one of the operator's ledger accounts.
func (b branch) operator(code ledger.Code) (a money.Amount) {
	b.Helper()
	b.Read(func(ctx context.Context, tx *db.Tx) (err error) {
		a, err = ledger.Balance(ctx, tx, ledger.Operator, code, "usd", money.USD)
		return err
	})
	return a
}

// The transactions of each day are a statement: payments, returns, account checks, fees, interest and received money
// agree with the ledger to the cent. Money that was only locked is no entry. What the account's holder ordered
// elsewhere is a difference, and nobody's money.
func TestStatements(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		b := openWithStatements(f)
		b.Clock.Advance(48 * time.Hour)
		b.Work(1) // a first day without entries
		b.Between(func() {
			b.receive("acht_in", 500_00, "Rose")
			b.book("fee_1", "bank_account.fee.charged", balance{available: -12_34})
			b.book("ipay_1", "interest.payment.completed", balance{available: 56})
			b.book("hold_1", "book.transfer.hold_created", balance{available: -9_00, locked: 4_00, holding: 5_00})
		})
		outs := b.Queue(b.To("110000000", 100_00), b.To("110000000", 23_45), b.To("110000000", 23_45))
		b.Work(2)
		if got := b.differences(); got != "" {
			t.Errorf("after payments: %s", got)
		}
		fee := func(want string) {
			t.Helper()
			if got := b.operator(ledger.BankFee); got.String() != want && got.Neg().String() != want {
				t.Errorf("fees: %s, want %s", got, want)
			}
		}
		fee("12.34")
		if got := b.operator(ledger.InterestIncome); got.String() != "0.56" && got.Neg().String() != "0.56" {
			t.Errorf("interest: %s", got)
		}
		b.change(b.Reference(outs[0]), object{"status": "RETURNED", "return_details": []object{{"return_code": "R02"}}})
		b.Between(func() {
			b.book(b.transfers[1]["id"].(string), "ach.outgoing_transfer.returned", balance{available: 100_00})
		})
		b.Write(func(ctx context.Context, tx *db.Tx) error {
			return b.Rail.AddPrenote(ctx, tx, payouttest.Company, money.USD, b.To("110000000", 1).Destination)
		})
		b.Clock.Advance(24 * time.Hour)
		b.Work(1)
		b.Want(outs[0].ID, payout.Returned, "R02")
		if got := b.differences(); got != "" {
			t.Errorf("after a return and the check of an account: %s", got)
		}
		fee("12.35")
		b.change("pre_", object{"status": "RETURNED", "return_details": []object{{"return_code": "R03"}}})
		b.Between(func() {
			b.book(b.transfers[len(b.transfers)-1]["id"].(string), "ach.outgoing_transfer.returned", balance{available: 1})
		})
		// The money of a reversal is that of the company.
		payment := b.Reference(outs[1])
		f.Write(func(ctx context.Context, tx *db.Tx) error {
			return bank.Reverse(ctx, tx, payment, bank.ReversalAmount)
		})
		b.Work(2)
		if got := b.differences(); got != "" {
			t.Errorf("after a reversal: %s", got)
		}
		fee("12.34")
		if got := f.Balance(ledger.CompanyFunds, "", money.USD); got.String() != "23.45" && got.Neg().String() != "23.45" {
			t.Errorf("the company's balance is %s after a reversal", got)
		}
		b.Between(func() { b.book("acht_elsewhere", "ach.outgoing_transfer.initiated", balance{available: -7_00}) })
		if got := b.differences(); !strings.Contains(got, string(backoffice.EntryUnbooked)) {
			t.Errorf("after a transfer from elsewhere: %s", got)
		}
	})
}

// Statements whose entries do not lead from one balance to the next are differences: a report without an entry, and a
// day that opens with another balance than the one before closed with.
func TestMissingEntriesAreFound(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		b := openWithStatements(f)
		b.Clock.Advance(48 * time.Hour)
		b.Work(2)
		b.Between(func() { b.receive("acht_in", 500_00, "Rose") })
		b.Clock.Advance(28 * time.Hour)
		run := func() {
			for _, p := range b.Rails.Periodic(b.DB) {
				b.Must(p.Run(b.Context()))
			}
		}
		run()
		b.advance()
		b.Between(func() {
			for id, rows := range b.documents {
				if len(rows) > 2 { // transactions
					b.documents[id] = rows[:len(rows)-2]
				}
			}
		})
		run()
		r, err := backoffice.Reconcile(f.Context(), f.DB, backoffice.Sources{Banks: b.Accounts})
		f.Must(err)
		if len(r.Differences) == 0 || r.Differences[0].Kind != string(backoffice.StatementSum) {
			t.Errorf("%+v, want %s", r.Differences, backoffice.StatementSum)
		}
	})
}

// A report about other hours than the account's day is not read.
func TestReportsOfAnotherZone(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		b := openWithStatements(f)
		b.otherZone = "UTC"
		b.Clock.Advance(48 * time.Hour)
		var failed []error
		for _, p := range b.Rails.Periodic(b.DB) {
			failed = append(failed, p.Run(b.Context()))
		}
		if err := errors.Join(failed...); err == nil || !strings.Contains(err.Error(), "set the zone of the bank account") {
			t.Errorf("%v", err)
		}
	})
}

// A report that Column cannot make is an error, and is requested again. One that stays unfinished is reported.
func TestReportsThatAreNotMade(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		b := openWithStatements(f)
		b.Clock.Advance(48 * time.Hour)
		run := func() error {
			var failed []error
			for _, p := range b.Rails.Periodic(b.DB) {
				failed = append(failed, p.Run(b.Context()))
			}
			return errors.Join(failed...)
		}
		missing := func() bool {
			r, err := backoffice.Reconcile(b.Context(), b.DB, backoffice.Sources{Banks: b.Accounts})
			b.Must(err)
			return slices.ContainsFunc(r.Differences, func(x backoffice.Difference) bool {
				return x.Kind == string(backoffice.StatementLate)
			})
		}
		b.Must(run())
		b.advance()
		b.Must(run()) // a first statement
		b.Clock.Advance(24 * time.Hour)
		b.Must(run())
		requested := len(b.reports)
		b.Between(func() { b.reports[requested-1]["status"] = "failed" })
		if err := run(); err == nil || !strings.Contains(err.Error(), "could not be made, 1 times") {
			t.Errorf("a report that failed, while the other one is pending: %v", err)
		}
		if n := len(b.reports); n != requested+1 {
			t.Errorf("%d reports were requested, want %d", n, requested+1)
		}
		b.Must(run()) // the new one is pending
		if missing() {
			t.Error("a statement is missing before it is late")
		}
		b.Clock.Advance(24 * time.Hour)
		b.Must(run())
		if !missing() {
			t.Error("a late statement is not reported")
		}
		for range 3 {
			b.advance()
			b.Must(run())
		}
		if missing() {
			t.Error("a statement is missing that was read")
		}
	})
}
