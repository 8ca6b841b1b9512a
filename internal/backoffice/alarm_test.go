package backoffice_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/testkit/fixture"
)

// The funding of a released payroll is reversed. Staff are notified at once; the company is frozen if it still owes the
// money after ten minutes, and unfrozen when it has paid, unless staff froze it too.
func TestACompanyThatOwesReversedFundingIsFrozen(t *testing.T) {
	fixture.Run(t, func(x *fixture.Fixture) {
		x.UseCompany(identity.NewCompany{Name: "Acme", Country: "US", Email: "acme@example.com"})
		company := x.By.CompanyID
		sealer := testkit.Must(identity.NewSealer(make([]byte, 32)))
		jobs := job.NewRunner(x.DB, job.Table{
			payroll.JobReverted: {Tx: func(ctx context.Context, tx *db.Tx, j job.Job) error {
				return backoffice.FundingReverted(ctx, tx, slog.New(slog.DiscardHandler), j)
			}},
			payroll.JobFreeze: {Tx: backoffice.HandleFreeze},
		}, nil, slog.New(slog.DiscardHandler))
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			_, _, err := backoffice.Add(ctx, tx, sealer, "Ada", "ada@example.com", backoffice.Admin)
			return err
		})
		owe := func(debit, credit ledger.Code) {
			x.Helper()
			x.Write(func(_ context.Context, tx *db.Tx) error {
				return ledger.Post(tx, ledger.Journal{CompanyID: company, SourceType: "test", SourceID: tx.NewID("tst"),
					Purpose: "debt", Lines: []ledger.Line{
						ledger.Debit(debit, "", fixture.Sats(1000)), ledger.Credit(credit, "", fixture.Sats(1000)),
					}})
			})
		}
		report := func() {
			x.Helper()
			x.Write(func(_ context.Context, tx *db.Tx) error {
				job.Enqueue(tx, job.New{CompanyID: company, Kind: payroll.JobReverted,
					Payload: payroll.Reverted{PayrollID: "prl_1"}})
				return nil
			})
			testkit.Check(x, jobs.Drain(x.Context()))
		}
		is := func(status string) {
			x.Helper()
			testkit.Check(x, backoffice.Thaw(x.Context(), x.DB))
			x.WantCount(1, "companies WHERE company_id = $1 AND status = $2", company, status)
		}
		wait := func() {
			x.Helper()
			x.Clock.Advance(10 * time.Minute)
			testkit.Check(x, jobs.Drain(x.Context()))
		}
		report()
		x.WantCount(0, "mails")
		owe(ledger.DueFromCustomer, ledger.HotWallet)
		report()
		x.WantCount(1, "mails WHERE template = 'staff_alarm'")
		is(identity.CompanyActive)
		wait()
		is(identity.CompanyFrozen)
		owe(ledger.HotWallet, ledger.DueFromCustomer)
		is(identity.CompanyActive)
		owe(ledger.DueFromCustomer, ledger.HotWallet)
		report()
		wait()
		is(identity.CompanyFrozen)
		x.Write(func(ctx context.Context, tx *db.Tx) error { return backoffice.FreezeCompany(ctx, tx, company) })
		x.Write(func(ctx context.Context, tx *db.Tx) error { // as if staff froze it after Thaw listed it
			done, err := identity.Thaw(ctx, tx, company)
			if done {
				x.Error("the end of a debt ends a freeze by staff")
			}
			return err
		})
		owe(ledger.HotWallet, ledger.DueFromCustomer)
		is(identity.CompanyFrozen)
		report()
		wait()
		is(identity.CompanyFrozen)
		x.WantCount(2, "mails WHERE template = 'staff_alarm'")
	})
}
