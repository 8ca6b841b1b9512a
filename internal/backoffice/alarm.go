package backoffice

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payroll"
)

// alarm sends a mail about a condition to every member of staff, once per key.
func alarm(ctx context.Context, tx *db.Tx, alarm, detail, key string) error {
	staff, err := List(ctx, tx)
	for _, m := range staff {
		if err := mail.Enqueue(ctx, tx, mail.Message{
			CompanyID: ledger.Operator, To: m.Email, Template: mail.StaffAlarm, Key: key + "/" + m.ID,
			Data: mail.StaffAlarmData{Name: m.Name, Alarm: alarm, Detail: detail, At: tx.Now()},
		}); err != nil {
			return err
		}
	}
	return err
}

// freezeAfter is the time for which a company may owe reversed funding of a released payroll before it is frozen: a
// reorganization may put the same transaction into another block.
const freezeAfter = 10 * time.Minute

// FundingReverted handles payroll.JobReverted. While the company owes the reversed funding, it reports this in the log
// and by mail to staff and, after freezeAfter, freezes the company until the debt is paid.
func FundingReverted(ctx context.Context, tx *db.Tx, log *slog.Logger, j job.Job) error {
	var in payroll.Reverted
	if err := j.Decode(&in); err != nil {
		return err
	}
	owes := ledger.CheckNoDebt(ctx, tx, j.CompanyID)
	if !errors.Is(owes, ledger.ErrInsufficient) {
		return owes // the debt is paid
	}
	if in.Again {
		done, err := identity.FreezeForDebt(ctx, tx, j.CompanyID)
		if err != nil || !done {
			return err
		}
		return errors.Join(holdPayments(ctx, tx, j.CompanyID),
			RecordCommand(ctx, tx, Freeze, j.CompanyID, "funding of "+in.PayrollID+" was reversed after its release"))
	}
	log.ErrorContext(ctx, "funding was reversed after the release of its payroll", "company_id", j.CompanyID,
		"payroll_id", in.PayrollID, "error", owes)
	in.Again = true
	job.Enqueue(tx, job.New{CompanyID: j.CompanyID, Kind: payroll.JobReverted, Payload: in,
		RunAt: tx.Now().Add(freezeAfter)})
	return alarm(ctx, tx, mail.FundingReverted, "payroll "+in.PayrollID+" of company "+j.CompanyID, j.ID)
}

// Thaw unfreezes the companies that were frozen because of a debt and have paid it.
func Thaw(ctx context.Context, d *db.DB) error {
	var frozen []string
	if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		frozen, err = identity.FrozenForDebt(ctx, tx)
		return err
	}); err != nil {
		return err
	}
	var failed error
	for _, id := range frozen {
		failed = errors.Join(failed, d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			if err := ledger.CheckNoDebt(ctx, tx, id); errors.Is(err, ledger.ErrInsufficient) {
				return nil
			} else if err != nil {
				return err
			}
			done, err := identity.Thaw(ctx, tx, id)
			if err != nil || !done { // staff decided meanwhile
				return err
			}
			return errors.Join(resumePayments(ctx, tx, id), RecordCommand(ctx, tx, Unfreeze, id, "the debt is paid"))
		}))
	}
	return failed
}

// CheckBalances compares every guarded balance with its lines ([ledger.FindDifferences]). It reports each account that
// it freezes in the log and by mail to staff, and wakes the payouts that waited for a freeze that ended.
func CheckBalances(ctx context.Context, d *db.DB, log *slog.Logger) error {
	frozen, ended, err := ledger.FindDifferences(ctx, d)
	if err != nil || len(frozen) == 0 && !ended {
		return err
	}
	for _, x := range frozen {
		log.ErrorContext(ctx, "a balance is not the sum of its lines; the account is frozen, and payouts of its asset stop",
			"company_id", x.CompanyID, "account", x.Code, "dim", x.Dim, "asset", x.Balance.Asset(),
			"balance", x.Balance.String(), "lines", x.Lines.String())
	}
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		for _, x := range frozen {
			key := x.CompanyID + "/" + string(x.Code) + "/" + x.Dim + "/" + x.Found.String()
			if err := alarm(ctx, tx, mail.BalanceDiffers, x.String(), key); err != nil {
				return err
			}
		}
		if !ended {
			return nil
		}
		return payout.WakePaused(ctx, tx)
	})
}
