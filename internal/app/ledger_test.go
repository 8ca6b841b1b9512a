package app_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/testkit"
)

// checkLedger runs the ledger's checks on the database of a service.
func checkLedger(ctx context.Context, s *service) (report ledger.Report, err error) {
	err = s.DB().Read(ctx, func(ctx context.Context, tx *db.Tx) error {
		report, err = ledger.Check(ctx, tx)
		return err
	})
	return report, err
}

// A balance is changed beside the service. The money that nobody has cannot be spent, no payout in the asset is sent,
// and the operator learns of it. Payouts go out once the balance is right again.
func TestAWrongBalanceIsNotPaidOut(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, url string) {
		s := boot(t, url)
		d := newAPIClient(t, s)
		testkit.Check(t, s.DB().Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			_, _, err := backoffice.Add(ctx, tx, s.Sealer(), "Ada", "ada@example.com", backoffice.Admin)
			return err
		}))
		first := d.payTwo("25.00")
		d.deposit(first.PayrollID, "over", "")
		d.fulfilled(first.PayrollID)
		change := func(by int64) {
			t.Helper()
			testkit.Check(t, s.DB().Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				return tx.ExecOne(ctx, `UPDATE ledger_balances SET balance = balance + $1
					WHERE company_id = $2 AND code = '2000' AND asset = 'BTC'`, by, d.seed.CompanyID)
			}))
		}
		change(50_000_000)
		fromBalance := pays(`"funding_method":"wallet","funding_currency":"BTC",`, "9000.00", d.seed.Workers[0].UserID)
		d.refused(503, "retry_later", "POST", createPath, fromBalance, "Idempotency-Key", freshKey())
		ready := func() string { return d.as("").ok("GET", "/readyz", "").text }
		eventually(t, 30*time.Second, "the account is frozen", func() bool {
			return strings.Contains(ready(), "ledger_differences")
		})
		eventually(t, 30*time.Second, "the operator learns of it", func() bool {
			return strings.Contains(d.as("").metrics(), "stipend_ledger_differences 1") &&
				d.count("SELECT COUNT(*) FROM mails WHERE template = 'staff_alarm'") == 1
		})
		second := d.payTwo("25.00")
		d.deposit(second.PayrollID, "exact", "")
		d.until(second.PayrollID, "released", func(v payrollView) bool { return v.Status == "released" })
		eventually(t, 30*time.Second, "the payouts wait", func() bool {
			return d.count("SELECT COUNT(*) FROM payout_queues WHERE wait_reason = 'paused'") == 1
		})
		change(-50_000_000)
		testkit.Check(t, backoffice.CheckBalances(t.Context(), s.DB(), slog.New(slog.DiscardHandler)))
		d.refused(409, "insufficient_balance", "POST", createPath, fromBalance, "Idempotency-Key", freshKey())
		d.fulfilled(second.PayrollID)
		if text := ready(); text != `{"status":"ready"}` {
			t.Errorf("ready says %s", text)
		}
		d.checkLedgerBalances()
	})
}
