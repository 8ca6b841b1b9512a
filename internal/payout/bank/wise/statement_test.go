package wise_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/bankreceipt"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/payouttest"
)

// The statements of a balance agree with the ledger to the cent: exchanged payments with Wise's price, refunds,
// charges, interest and received money. A missing entry is a difference.
func TestStatements(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		b := open(f, "EUR", "PHP")
		b.Scheme, b.cents = "local", 0
		b.Statement = func(ctx context.Context, d *db.DB, in io.Reader, parts []bank.Part) ([]string, error) {
			s, err := bankreceipt.Import(ctx, d, in, b.Accounts, parts...)
			return s.Problems, err
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
			b.book(5_000_00, "TRANSFER-7", "DEPOSIT", "Received money from Rose GmbH")
			b.book(-3_21, "ACCRUAL_CHARGE-1", "ACCRUAL_CHARGE", "Charge")
			b.book(45, "BALANCE_INTEREST-1", "BALANCE_INTEREST", "Interest")
		})
		outs := b.Queue(b.to("PHP", 12_345_67, inManila), b.to("PHP", 100_00, inManila))
		b.Work(2)
		b.Want(outs[0].ID, payout.Fulfilled, "")
		if got := differences(); got != "" {
			t.Errorf("after payments: %s", got)
		}
		b.refund(b.Reference(outs[0]))
		b.Clock.Advance(24 * time.Hour)
		b.Work(1)
		b.Want(outs[0].ID, payout.Returned, "funds_refunded")
		if got := differences(); got != "" {
			t.Errorf("after a refund: %s", got)
		}
		b.Between(func() { // the next statement opens with another balance than the last one closed with
			b.book(9_00, "TRANSFER-8", "DEPOSIT", "Received money from Rose GmbH")
			b.book(-1_00, "TRANSFER-9", "DEPOSIT", "Missing")
			b.entries = b.entries[:len(b.entries)-1]
		})
		if got := differences(); !strings.Contains(got, string(backoffice.StatementSum)) {
			t.Errorf("with a missing entry: %s", got)
		}
	})
}
