package webhook

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
)

// What it costs to place events does not grow with those that have been placed, also where the database has not learnt yet how many
// there are. PostgreSQL counts the rows that a transaction reads.
func TestPlacedEventsAreNotRead(t *testing.T) {
	d := dbtest.Open(t, db.Options{URL: dbtest.Postgres(t)})
	const placed, fresh, most = 20_000, 100, 1000
	write := func(f func(context.Context, *db.Tx) error) {
		t.Helper()
		if err := d.Write(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	write(func(ctx context.Context, tx *db.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO events (company_id, event_id, object_id, sequence, name, data, created_at, position)
			SELECT 'com_1', 'old_' || i, 'prl_' || i % 1000, i, 'payroll.status_update', '{}', CAST($1 AS BIGINT), i FROM generate_series(1, CAST($2 AS BIGINT)) AS i`,
			db.Micros(tx.Now()), int64(placed))
		return err
	})
	for _, limit := range []int{fresh, fresh + 1} { // with and without a look for what comes before
		write(func(_ context.Context, tx *db.Tx) error {
			for i := range fresh {
				if err := Emit(tx, Event{CompanyID: "com_1", Name: "payroll.created", ObjectID: fmt.Sprintf("prl_%d", i), Sequence: int64(placed + limit)}); err != nil {
					return err
				}
			}
			return nil
		})
		write(func(ctx context.Context, tx *db.Tx) error {
			events, err := Place(ctx, tx, limit)
			if err != nil {
				return err
			}
			var read int64
			if err := tx.QueryRow(ctx, "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'events'").Scan(&read); err != nil {
				return err
			}
			if read > most || len(events) != fresh {
				t.Errorf("to place %d events %d were read of %d", len(events), read, placed)
			}
			return nil
		})
	}
}

// SQLite counts no rows; it says which of them it would look for and by which index.
func TestPlacedEventsAreNotReadBySQLite(t *testing.T) {
	d := dbtest.Open(t, db.Options{URL: dbtest.SQLite(t)})
	if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		for _, q := range []struct {
			query string
			args  []any
			find  string
		}{
			{oldestNew, []any{int64(1)}, "SCAN events USING INDEX events_new"}, // which has no others
			{earlier, []any{int64(1)}, "SEARCH e USING INDEX events_once (company_id=? AND object_id=?)"},
			{place, []any{"com_1", "evt_1", int64(1)}, "SEARCH events USING INDEX sqlite_autoindex_events_1 (company_id=? AND event_id=?)"},
		} {
			rows, err := tx.Query(ctx, "EXPLAIN QUERY PLAN "+q.query, q.args...)
			plan, err := db.Collect(rows, err, func(r *db.Rows) (line string, err error) {
				var id, parent, unused int64
				return line, r.Scan(&id, &parent, &unused, &line)
			})
			if err != nil {
				return err
			}
			if !slices.Contains(plan, q.find) {
				t.Errorf("%s: %q", q.query, plan)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
