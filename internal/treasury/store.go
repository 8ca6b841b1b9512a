package treasury

import (
	"context"
	"errors"
	"math"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

// unbounded is stored for a missing bound.
const unbounded = math.MaxInt64

func bound(a money.Asset, units int64) money.Amount {
	if units == unbounded {
		return money.Amount{}
	}
	return money.New(a, units)
}

func unitsOf(bound money.Amount) int64 {
	if bound.Asset() == "" {
		return unbounded
	}
	return bound.Units()
}

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
	err = tx.QueryRow(ctx, `INSERT INTO fx_limits (asset, least, upper, most, version, updated_at) VALUES ($1, $2, $3, $4, 1, $5)
		ON CONFLICT (asset) DO UPDATE SET least = excluded.least, upper = excluded.upper, most = excluded.most,
			version = fx_limits.version + 1, updated_at = excluded.updated_at
		RETURNING version`, string(l.Asset), l.Least.Units(), unitsOf(l.Upper), unitsOf(l.Most), db.Micros(tx.Now())).Scan(&version)
	return version, err
}

// insertBooking stores a booking, and returns the one that was stored under its id before, empty for none.
func insertBooking(ctx context.Context, tx *db.Tx, id, entered string) (before string, err error) {
	n, err := tx.Exec(ctx, "INSERT INTO fx_bookings (booking_id, entered_amount, booked_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
		id, entered, db.Micros(tx.Now()))
	if err != nil || n == 1 {
		return "", err
	}
	err = tx.QueryRow(ctx, "SELECT entered_amount FROM fx_bookings WHERE booking_id = $1", id).Scan(&before)
	if errors.Is(err, db.ErrNoRows) {
		return "", nil
	}
	return before, err
}
