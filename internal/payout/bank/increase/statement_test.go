package increase_test

import (
	"context"
	"io"
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

// The transactions of each day are a statement: payments, returns, fees, interest and received money agree with the
// ledger to the cent. What the account's holder ordered elsewhere is a difference, and nobody's money.
func TestStatements(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
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
		differences := func() (all string) {
			f.Helper()
			b.Clock.Advance(28 * time.Hour)
			for _, p := range b.Rails.Periodic(b.DB) {
				b.Must(p.Run(b.Context()))
			}
			r, err := backoffice.Reconcile(f.Context(), f.DB, backoffice.Sources{Banks: b.Accounts})
			f.Must(err)
			for _, x := range r.Differences {
				all += x.Kind + " " + x.Object + "; "
			}
			return all
		}
		b.Clock.Advance(48 * time.Hour)
		b.Work(1) // a first day without entries
		b.Between(func() {
			b.book(500_00, "inbound_ach_transfer", object{"transfer_id": "inbound_1", "originator_company_name": "Rose"})
			b.book(-12_34, "fee_payment", object{"amount": 12_34})
			b.book(56, "interest_payment", object{"amount": 56})
		})
		outs := b.Queue(b.To("110000000", 100_00), b.To("110000000", 23_45))
		b.Work(2)
		if got := differences(); got != "" {
			t.Errorf("after payments: %s", got)
		}
		for account, want := range map[ledger.Code]string{ledger.BankFee: "12.34", ledger.InterestIncome: "-0.56"} {
			f.Read(func(ctx context.Context, tx *db.Tx) error {
				got, err := ledger.Balance(ctx, tx, ledger.Operator, account, "usd", money.USD)
				if got.String() != want && got.Neg().String() != want {
					t.Errorf("%s: %s, want %s", account, got, want)
				}
				return err
			})
		}
		b.change(b.Reference(outs[0]), object{"status": "returned", "return": object{"raw_return_reason_code": "R02"}})
		b.Between(func() { b.book(100_00, "ach_transfer_return", object{"transfer_id": b.transfers[0]["id"]}) })
		b.Clock.Advance(24 * time.Hour)
		b.Work(1)
		b.Want(outs[0].ID, payout.Returned, "R02")
		if got := differences(); got != "" {
			t.Errorf("after a return: %s", got)
		}
		// The money of a reversal is that of the company.
		payment := b.Reference(outs[1])
		f.Write(func(ctx context.Context, tx *db.Tx) error {
			return bank.Reverse(ctx, tx, payment, bank.ReversalAmount)
		})
		b.Work(2)
		if got := differences(); got != "" {
			t.Errorf("after a reversal: %s", got)
		}
		if got := f.Balance(ledger.CompanyFunds, "", money.USD); got.String() != "23.45" && got.Neg().String() != "23.45" {
			t.Errorf("the company's balance is %s after a reversal", got)
		}
		b.Between(func() { b.book(7_00, "ach_transfer_intention", object{"transfer_id": "ach_transfer_elsewhere"}) })
		if got := differences(); !strings.Contains(got, string(backoffice.EntryUnbooked)) {
			t.Errorf("after a transfer from elsewhere: %s", got)
		}
	})
}
