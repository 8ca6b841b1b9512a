package db

import (
	"context"
	"errors"
	"strconv"
	"time"
)

var historyRows = BulkInsert("history", "company_id", "object_id", "version", "from_state", "to_state", "reason", "at")

// History records a change of an object's state, whose version is the object's version after the change. An object
// has one record per version.
func History(tx *Tx, companyID, objectID string, version int64, from, to, reason string) {
	historyRows.Add(tx, []any{companyID, objectID, version, from, to, reason, Micros(tx.Now())})
}

// HistoryOnce records a change like [History] does, unless the object already has a record with that version.
func HistoryOnce(ctx context.Context, tx *Tx, companyID, objectID string, version int64, from, to, reason string,
) error {
	_, err := tx.Exec(ctx, `INSERT INTO history (company_id, object_id, version, from_state, to_state, reason, at)
		VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING`,
		companyID, objectID, version, from, to, reason, Micros(tx.Now()))
	return err
}

// Change is one row of an object's history.
type Change struct {
	Version          int64
	From, To, Reason string
	At               int64 // microseconds
}

// Changes returns an object's history, oldest first.
func Changes(ctx context.Context, tx *Tx, companyID, objectID string) ([]Change, error) {
	rows, err := tx.Query(ctx, `SELECT version, from_state, to_state, reason, at FROM history
		WHERE company_id = $1 AND object_id = $2 ORDER BY version`, companyID, objectID)
	return Collect(rows, err, func(r *Rows) (c Change, err error) {
		return c, r.Scan(&c.Version, &c.From, &c.To, &c.Reason, &c.At)
	})
}

// Setting returns the value of a setting, or "" if it was never set.
func Setting(ctx context.Context, tx *Tx, key string) (string, error) {
	var value string
	err := tx.QueryRow(ctx, "SELECT value FROM settings WHERE key = $1", key).Scan(&value)
	if errors.Is(err, ErrNoRows) {
		return "", nil
	}
	return value, err
}

// SetSetting stores the value of a setting.
func SetSetting(ctx context.Context, tx *Tx, key, value string) error {
	_, err := tx.Exec(ctx, `INSERT INTO settings (key, value) VALUES ($1, $2)
		ON CONFLICT (key) DO UPDATE SET value = excluded.value`, key, value)
	return err
}

// ChangeSetting changes the value of a setting to the value to, if its current value is from. Otherwise it changes
// nothing and returns false.
func ChangeSetting(ctx context.Context, tx *Tx, key, from, to string) (bool, error) {
	n, err := tx.Exec(ctx, "UPDATE settings SET value = $3 WHERE key = $1 AND value = $2", key, from, to)
	return n == 1, err
}

// AddToSetting adds n to the number in a setting and returns the sum. A setting that was never set counts as 0.
// Concurrent calls for the same setting wait until the transaction ends.
func AddToSetting(ctx context.Context, tx *Tx, key string, n int64) (sum int64, err error) {
	var value string
	if err := tx.QueryRow(ctx, `INSERT INTO settings (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE
		SET value = CAST(CAST(settings.value AS BIGINT) + CAST(excluded.value AS BIGINT) AS TEXT) RETURNING value`,
		key, strconv.FormatInt(n, 10)).Scan(&value); err != nil {
		return 0, err
	}
	return strconv.ParseInt(value, 10, 64)
}

const clockOffset = "clock_offset"

// NoticeClock is the topic of the notice that [AdvanceClock] sends within this process.
const NoticeClock = "db.clock"

// AdvanceClock advances the time of all later transactions. It returns an error unless the clock is adjustable.
func AdvanceClock(ctx context.Context, tx *Tx, by time.Duration) error {
	if !tx.db.opt.AdjustableClock {
		return errors.New("db: this clock is not adjustable")
	}
	tx.Notify(NoticeClock)
	_, err := AddToSetting(ctx, tx, clockOffset, by.Microseconds())
	return err
}

// timeline selects the server's timeline ID in hexadecimal: the first 8 characters of the name of its current WAL
// file. PostgreSQL increments the ID when a standby is promoted or a backup is restored.
const timeline = "SELECT SUBSTR(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"

const settingTimeline = "db.timeline"

// Replaced reports whether the database server was replaced since the previous call: a standby was promoted, or a
// backup was restored. The new server may lack the last commits of the old one. The first call stores the server's
// timeline and returns false. Replaced always returns false on SQLite, and if the server does not reveal its
// timeline.
func Replaced(ctx context.Context, tx *Tx) (bool, error) {
	if !tx.db.hasTimelines {
		return false, nil
	}
	var now string
	if err := tx.QueryRow(ctx, timeline).Scan(&now); err != nil {
		return false, err
	}
	last, err := Setting(ctx, tx, settingTimeline)
	if err != nil || last == now {
		return false, err
	}
	return last != "", SetSetting(ctx, tx, settingTimeline, now)
}
