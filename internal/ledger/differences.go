package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/offering"
)

// Difference is a guarded account whose stored balance is not the sum of its lines. Such an account is frozen: until
// [FindDifferences] finds it correct again, nothing is posted to it, and no payout of its asset is sent.
type Difference struct {
	CompanyID string
	Code      Code
	Dim       string
	Balance   money.Amount // the stored balance
	Lines     money.Amount // the sum of the lines, credits less debits
	Found     time.Time
}

// String describes the difference for staff.
func (x Difference) String() string {
	return fmt.Sprintf("balance of account %s %s of company %s is not the sum of its lines: %s instead of %s %s",
		x.Code, x.Dim, x.CompanyID, x.Balance, x.Lines, x.Balance.Asset())
}

func (x Difference) key() balanceKey {
	return balanceKey{x.CompanyID, x.Code, x.Dim, x.Balance.Asset()}
}

// FindDifferences compares every guarded balance with its lines. It freezes the accounts that differ, and ends the
// freeze of accounts that are correct again. It returns the accounts that it froze, and whether it ended any freeze.
func FindDifferences(ctx context.Context, d *db.DB) (frozen []Difference, ended bool, err error) {
	var wrong []Difference
	if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		wrong, err = compareBalances(ctx, tx)
		return err
	}); err != nil {
		return nil, false, err
	}
	err = d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		frozen, ended = nil, false
		known, err := Differences(ctx, tx)
		if err != nil {
			return err
		}
		before := map[balanceKey]bool{}
		for _, x := range known {
			before[x.key()] = true
		}
		for _, x := range wrong {
			if before[x.key()] {
				delete(before, x.key())
				continue
			}
			x.Found = tx.Now()
			if err := insertDifference(ctx, tx, x); err != nil {
				return err
			}
			frozen = append(frozen, x)
		}
		if len(wrong) == maxDifferences {
			return nil // other accounts may be wrong too
		}
		for k := range before {
			ended = true
			if err := deleteDifference(ctx, tx, k); err != nil {
				return err
			}
		}
		return nil
	})
	return frozen, ended, err
}

// StoppedAssets returns the assets whose payouts are stopped, because staff stopped the asset or an account in the
// asset is frozen.
func StoppedAssets(ctx context.Context, tx *db.Tx) (map[money.Asset]bool, error) {
	stopped, err := offering.Stopped(ctx, tx)
	if err != nil {
		return nil, err
	}
	all, err := Differences(ctx, tx)
	for _, x := range all {
		stopped[x.Balance.Asset()] = true
	}
	return stopped, err
}
