// Package offering has a switch for each asset: the operator offers the asset, accepts nothing new in it, or has
// stopped it.
//
// An asset is offered unless staff have switched it. While nothing new is accepted, no payroll is funded in the asset
// and no claim accepts it; existing payrolls and claims are completed, and companies can add destinations and
// withdraw their money. While the asset is stopped, no payout in it is sent either, including payouts of withdrawals.
// Received money is always recorded.
package offering

import (
	"context"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

// State is the state of an asset's switch.
type State string

// The states of an asset.
const (
	Offered State = "offered"
	StopNew State = "stop_new" // no new payrolls or claims; existing ones are completed
	StopAll State = "stop_all" // no new payrolls or claims, and no payout is sent
)

// States lists all states.
var States = []State{Offered, StopNew, StopAll}

// ErrStopped is returned for a new object in an asset that is not offered. It has the error code of a missing price,
// because clients react to both in the same way: they try again later or use another currency.
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

// Check returns ErrStopped, with the currency, if no new objects in an asset may be created.
func Check(ctx context.Context, tx *db.Tx, a money.Asset) error {
	switch s, err := Of(ctx, tx, a); {
	case err != nil:
		return err
	case s != Offered:
		return ErrStopped.Set("currency", string(a))
	}
	return nil
}

// Stopped returns the assets in which no payouts are sent.
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

// Set changes the state of an asset. The caller must resume payouts that waited.
func Set(ctx context.Context, tx *db.Tx, a money.Asset, s State) error {
	return db.SetSetting(ctx, tx, prefix+string(a), string(s))
}

// Change changes the state of an asset that was switched before. It returns false if the present state is not from.
// The caller must resume payouts that waited.
func Change(ctx context.Context, tx *db.Tx, a money.Asset, from, to State) (bool, error) {
	return db.ChangeSetting(ctx, tx, prefix+string(a), string(from), string(to))
}
