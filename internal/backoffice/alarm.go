package backoffice

import (
	"context"
	"log/slog"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/payout"
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
