package treasury

import (
	"context"
	"errors"
	"math"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

// unbounded is the stored value of a bound that is not set.
const unbounded = math.MaxInt64

// bound returns a stored bound, the zero Amount if it is not set.
func bound(a money.Asset, units int64) money.Amount {
	if units == unbounded {
		return money.Amount{}
	}
	return money.New(a, units)
}

// unitsOf returns the stored value of a bound.
func unitsOf(bound money.Amount) int64 {
	if bound.Asset() == "" {
		return unbounded
	}
	return bound.Units()
}

// loadLimits returns the limits that were set.
func loadLimits(ctx context.Context, tx *db.Tx) (map[money.Asset]Limit, error) {
	rows, err := tx.Query(ctx, "SELECT asset, least, upper, most FROM fx_limits")
	all, err := db.Collect(rows, err, func(r *db.Rows) (Limit, error) {
		var asset string
		var least, upper, most int64
		err := r.Scan(&asset, &least, &upper, &most)
		a := money.Asset(asset)
		return Limit{Asset: a, Least: money.New(a, least), Upper: bound(a, upper), Most: bound(a, most)}, err
	})
	limits := make(map[money.Asset]Limit, len(all))
	for _, l := range all {
		limits[l.Asset] = l
	}
	return limits, err
}

// saveLimit stores a limit and returns the version of its row.
func saveLimit(ctx context.Context, tx *db.Tx, l Limit) (version int64, err error) {
	err = tx.QueryRow(ctx, `INSERT INTO fx_limits (asset, least, upper, most, version, updated_at)
		VALUES ($1, $2, $3, $4, 1, $5)
		ON CONFLICT (asset) DO UPDATE SET least = excluded.least, upper = excluded.upper, most = excluded.most,
			version = fx_limits.version + 1, updated_at = excluded.updated_at
		RETURNING version`, string(l.Asset), l.Least.Units(), unitsOf(l.Upper), unitsOf(l.Most), db.Micros(tx.Now())).
		Scan(&version)
	return version, err
}

// insertBooking stores a booking, unless one is stored under the same ID: then it returns that one's content.
func insertBooking(ctx context.Context, tx *db.Tx, id, entered string) (before string, err error) {
	n, err := tx.Exec(ctx, `INSERT INTO fx_bookings (booking_id, entered_amount, booked_at) VALUES ($1, $2, $3)
		ON CONFLICT DO NOTHING`, id, entered, db.Micros(tx.Now()))
	if err != nil || n == 1 {
		return "", err
	}
	err = tx.QueryRow(ctx, "SELECT entered_amount FROM fx_bookings WHERE booking_id = $1", id).Scan(&before)
	if errors.Is(err, db.ErrNoRows) {
		return "", nil
	}
	return before, err
}
