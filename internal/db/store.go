package db

import (
	"context"
	"errors"
)

var historyRows = BulkInsert("history", "company_id", "object_id", "version", "from_state", "to_state", "reason", "at")

// History notes a change of state of an object, once per version.
func History(tx *Tx, companyID, objectID string, version int64, from, to, reason string) {
	historyRows.Add(tx, []any{companyID, objectID, version, from, to, reason, Micros(tx.Now())})
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

// timeline is how often a PostgreSQL server was replaced by its standby, or restored, in hexadecimal: the first part of the
// name of the file that it writes its log to.
const timeline = "SELECT SUBSTR(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"

const settingTimeline = "db.timeline"

// Replaced says, once, that another server has taken over since it was last asked: a standby that was promoted, or a backup. It
// may lack what the old one had committed last. Where the server does not tell, and on SQLite, nothing was ever replaced.
func Replaced(ctx context.Context, tx *Tx) (bool, error) {
	if !tx.db.timelines {
		return false, nil
	}
	var now string
	if err := tx.QueryRow(ctx, timeline).Scan(&now); err != nil {
		return false, err
	}
	noted, err := Setting(ctx, tx, settingTimeline)
	if err != nil || noted == now {
		return false, err
	}
	return noted != "", SetSetting(ctx, tx, settingTimeline, now)
}
