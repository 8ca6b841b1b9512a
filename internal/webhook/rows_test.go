package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/testkit"
)

// The cost of storing and reading new events does not grow with the number of earlier events, even before the
// database has statistics. PostgreSQL counts the rows that a transaction reads.
func TestEarlierEventsAreNotRead(t *testing.T) {
	d := dbtest.Open(t, db.Options{URL: dbtest.Postgres(t)})
	const old, fresh, most = 20_000, 100, 300
	payload, err := json.Marshal(PayrollCreated.Example)
	testkit.Check(t, err)
	data := string(payload)
	write := func(f func(context.Context, *db.Tx) error) {
		t.Helper()
		dbtest.Write(t, d, f)
	}
	write(func(ctx context.Context, tx *db.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO events
				(company_id, event_id, object_id, sequence, name, data, created_at, position)
			SELECT 'com_1', 'old_' || i, 'prl_' || i % 1000, i, 'payroll.status_update', $3, CAST($1 AS BIGINT), i
			FROM generate_series(1, CAST($2 AS BIGINT)) AS i`, db.Micros(tx.Now()), int64(old), data)
		if err == nil {
			_, err = tx.Exec(ctx, "SELECT setval('event_positions_position_seq', $1)", int64(old))
		}
		if err == nil {
			_, err = advanceCursor(ctx, tx, 0, old)
		}
		return err
	})
	for round := range int64(7) { // PostgreSQL caches the plan at the sixth execution
		write(func(ctx context.Context, tx *db.Tx) error {
			read := func() (n int64) { // the counter includes the rows that earlier transactions of the connection read
				testkit.Check(t, tx.QueryRow(ctx, `SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables
					WHERE relname = 'events'`).Scan(&n))
				return n
			}
			before := read()
			var rows [][]any
			for i := range fresh {
				rows = append(rows, []any{"com_1", tx.NewID("evt"), fmt.Sprintf("prl_%d", i), old + round + 1,
					"payroll.created", data, db.Micros(tx.Now())})
			}
			if err := insertEvents(ctx, tx, rows); err != nil {
				return err
			}
			found, err := anyWaiting(ctx, tx)
			if err != nil {
				return err
			}
			events, err := Next(ctx, tx, fresh+1)
			if err != nil {
				return err
			}
			if n := read() - before; n > most || len(events) != fresh || !found {
				t.Errorf("storing %d events read %d of %d earlier events", len(events), n, old)
			}
			return nil
		})
	}
}

// SQLite does not count rows, so this test checks the index that the query plan names.
func TestEarlierEventsAreNotReadBySQLite(t *testing.T) {
	d := dbtest.Open(t, db.Options{URL: dbtest.SQLite(t)})
	dbtest.Read(t, d, func(ctx context.Context, tx *db.Tx) error {
		for _, q := range []struct {
			query string
			args  []any
			find  string
		}{
			{nextEvents, []any{int64(1), int64(1)}, "SEARCH events USING INDEX events_in_order (position>?)"},
			{waiting, nil, "SEARCH events USING COVERING INDEX events_in_order (position>?)"},
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
	})
}

// An erased address is replaced in the events of every company, and in no other text.
func TestAnAddressIsErasedFromEvents(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		emit := func(companyID, email string) {
			dbtest.Write(t, d, func(_ context.Context, tx *db.Tx) error {
				id := tx.NewID("usr")
				data := UserCreateUser.Example
				data.Email = email
				return Emit(tx, UserCreateUser.Event(companyID, id, 1, data))
			})
		}
		emit("com_1", "ada@example.com")
		emit("com_2", "ada@example.com")
		emit("com_2", "not-ada@example.com")
		dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error { return EraseAddress(ctx, tx, "ada@example.com") })
		var emails []string
		dbtest.Read(t, d, func(ctx context.Context, tx *db.Tx) error {
			rows, err := tx.Query(ctx, "SELECT data FROM events ORDER BY position")
			texts, err := db.Collect(rows, err, func(r *db.Rows) (text string, err error) { return text, r.Scan(&text) })
			for _, text := range texts {
				var data UserData
				testkit.Check(t, json.Unmarshal([]byte(text), &data))
				emails = append(emails, data.Email)
			}
			return err
		})
		want := []string{"erased@erased.invalid", "erased@erased.invalid", "not-ada@example.com"}
		if !slices.Equal(emails, want) {
			t.Errorf("%v", emails)
		}
	})
}
