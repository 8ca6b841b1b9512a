// Package offering has the switch of each asset: whether the operator offers it, accepts nothing new in it, or has
// stopped it.
//
// An asset is offered unless staff has switched it. While nothing new is accepted, no payroll is funded in it and no
// claim accepts it; what exists is completed, and companies can add destinations and withdraw what they have. While it
// is stopped, no payout in it is sent either, also none of a withdrawal. Received money is always recorded.
package offering

import (
	"context"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

// State is the switch of an asset.
type State string

// The states of an asset.
const (
	Offered State = "offered"
	StopNew State = "stop_new" // no new payrolls or claims; what exists is completed
	StopAll State = "stop_all" // no new payrolls or claims, and no payout is sent
)

// States lists all states.
var States = []State{Offered, StopNew, StopAll}

// ErrStopped is returned for something new in an asset that is not offered. It has the code of a missing price, because
// clients do the same about both: try later, or use another currency.
var ErrStopped = apierr.New(apierr.Unavailable, "rate_unavailable",
	"The operator accepts nothing new in this currency at the moment. Use another currency, or try later.")

// Key returns the prefetch key of an asset's state.
func Key(a money.Asset) db.Prefetch { return switches.Prefetch(a) }

// Of returns the state of an asset.
func Of(ctx context.Context, tx *db.Tx, a money.Asset) (State, error) {
	s, found, err := switches.Get(ctx, tx, a)
	if !found {
		s = Offered
	}
	return s, err
}

// Check returns ErrStopped, with the currency, if something new in an asset cannot be created.
func Check(ctx context.Context, tx *db.Tx, a money.Asset) error {
	switch s, err := Of(ctx, tx, a); {
	case err != nil:
		return err
	case s != Offered:
		return ErrStopped.Set("currency", string(a))
	}
	return nil
}

// Stopped returns the assets in which no payout is sent.
func Stopped(ctx context.Context, tx *db.Tx) (map[money.Asset]bool, error) {
	all, err := All(ctx, tx)
	stopped := map[money.Asset]bool{}
	for a, s := range all {
		if s == StopAll {
			stopped[a] = true
		}
	}
	return stopped, err
}

// Set changes the state of an asset. The caller resumes payouts that waited.
func Set(ctx context.Context, tx *db.Tx, a money.Asset, s State) error {
	return db.SetSetting(ctx, tx, prefix+string(a), string(s))
}

// Change changes the state of an asset that was switched, and reports false if it is not from. The caller resumes
// payouts that waited.
func Change(ctx context.Context, tx *db.Tx, a money.Asset, from, to State) (bool, error) {
	return db.ChangeSetting(ctx, tx, prefix+string(a), string(from), string(to))
}
