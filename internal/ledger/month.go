package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

// settleFor is how long after its end a month is closed: transactions that began in it are committed by then.
const settleFor = time.Hour

// monthOf returns the beginning of the month of a time.
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

// ClosePeriods closes every past month of every company, each in a transaction of its own. A closed month does not change.
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
	last := monthOf(now.Add(-settleFor))
	for _, u := range open {
		for month := u.from; month.Before(last); month = month.AddDate(0, 1, 0) {
			if err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return closeMonth(ctx, tx, u.company, month) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// unclosed is a company with the first month of it that may have to be closed.
type unclosed struct {
	company string
	from    time.Time
}

// CheckClosings verifies the last two closed months of every company: their balances are those of their lines, and add up to 0 in each
// asset. It returns what is wrong.
func CheckClosings(ctx context.Context, tx *db.Tx) ([]string, error) {
	since := monthOf(monthOf(tx.Now()).AddDate(0, 0, -1)).AddDate(0, -1, 0)
	return changedMonths(ctx, tx, since)
}

func (m *Month) set(text string) (err error) {
	if m.Begin, err = time.Parse(monthLayout, text); err != nil {
		return errors.Join(fmt.Errorf("ledger: month %q", text), err)
	}
	m.End = m.Begin.AddDate(0, 1, 0)
	return nil
}
