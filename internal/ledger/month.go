package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

// closeDelay is the time between the end of a month and its closing. Transactions that began in the month have
// committed by then.
const closeDelay = time.Hour

// monthOf returns the start of the month of t in UTC.
func monthOf(t time.Time) time.Time {
	t = t.UTC()
	return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
}

const monthLayout = "2006-01"

// Month is the balance of an account of a company at the end of a month.
type Month struct {
	Begin, End time.Time
	Balance    money.Amount
	ClosedAt   time.Time
}

// ClosePeriods stores the closing balances of every past month of every company, each month in its own transaction.
// No journal is posted in a closed month.
func ClosePeriods(ctx context.Context, d *db.DB) error {
	var now time.Time
	var open []unclosed
	if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		now = tx.Now()
		open, err = unclosedOf(ctx, tx)
		return err
	}); err != nil {
		return err
	}
	last := monthOf(now.Add(-closeDelay))
	for _, u := range open {
		for month := u.from; month.Before(last); month = month.AddDate(0, 1, 0) {
			if err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
				return closeMonth(ctx, tx, u.company, month)
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// unclosed is a company with its first month that is not closed.
type unclosed struct {
	company string
	from    time.Time
}

// CheckClosings verifies the last two closed months of every company: each stored balance must be the sum of its
// lines, and the balances of a month must sum to 0 per asset. It returns a description of each difference.
func CheckClosings(ctx context.Context, tx *db.Tx) ([]string, error) {
	since := monthOf(monthOf(tx.Now()).AddDate(0, 0, -1)).AddDate(0, -1, 0)
	return changedMonths(ctx, tx, since)
}

// set sets Begin and End from a month such as 2026-01.
func (m *Month) set(text string) (err error) {
	if m.Begin, err = time.Parse(monthLayout, text); err != nil {
		return errors.Join(fmt.Errorf("ledger: invalid month %q", text), err)
	}
	m.End = m.Begin.AddDate(0, 1, 0)
	return nil
}
