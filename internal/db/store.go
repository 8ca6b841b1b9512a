package db

import (
	"context"
	"errors"
)

var historyRows = InsertGroup(90, "history", "company_id", "object_id", "version", "from_state", "to_state", "reason", "at")

// History notes a change of state of an object, once per version.
func History(tx *Tx, companyID, objectID string, version int64, from, to, reason string) {
	tx.Defer(historyRows, []any{companyID, objectID, version, from, to, reason, Micros(tx.Now())})
}

// Change is one row of an object's history.
type Change struct {
	Version          int64
	From, To, Reason string
	At               int64 // microseconds
}

// Changes are an object's history, oldest first.
func Changes(ctx context.Context, tx *Tx, companyID, objectID string) ([]Change, error) {
	rows, err := tx.Query(ctx, `SELECT version, from_state, to_state, reason, at FROM history
		WHERE company_id = $1 AND object_id = $2 ORDER BY version`, companyID, objectID)
	return Collect(rows, err, func(r *Rows) (c Change, err error) {
		return c, r.Scan(&c.Version, &c.From, &c.To, &c.Reason, &c.At)
	})
}

// Setting reads a value of the service's own, "" when it was never set.
func Setting(ctx context.Context, tx *Tx, key string) (string, error) {
	var value string
	err := tx.QueryRow(ctx, "SELECT value FROM settings WHERE key = $1", key).Scan(&value)
	if errors.Is(err, ErrNoRows) {
		return "", nil
	}
	return value, err
}

// SetSetting stores a value of the service's own.
func SetSetting(ctx context.Context, tx *Tx, key, value string) error {
	_, err := tx.Exec(ctx, `INSERT INTO settings (key, value) VALUES ($1, $2)
		ON CONFLICT (key) DO UPDATE SET value = excluded.value`, key, value)
	return err
}
