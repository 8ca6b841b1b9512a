package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
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
		var n int64 // rows that were read
		count := func(f func(context.Context, *db.Tx) error) {
			write(func(ctx context.Context, tx *db.Tx) error {
				read := func() (n int64) { // the counter includes the rows that earlier transactions of the connection read
					testkit.Check(t, tx.QueryRow(ctx, `SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables
						WHERE relname = 'events'`).Scan(&n))
					return n
				}
				before := read()
				testkit.Check(t, f(ctx, tx))
				n += read() - before
				return nil
			})
		}
		count(func(ctx context.Context, tx *db.Tx) error {
			var rows [][]any
			for i := range fresh {
				rows = append(rows, []any{"com_1", tx.NewID("evt"), fmt.Sprintf("prl_%d", i), old + round + 1,
					"payroll.created", data, db.Micros(tx.Now())})
			}
			return insertEvents(ctx, tx, rows)
		})
		count(func(ctx context.Context, tx *db.Tx) error {
			found, err := anyWaiting(ctx, tx)
			testkit.Check(t, err)
			events, err := Next(ctx, tx, fresh+1)
			if len(events) != fresh || !found {
				t.Errorf("%d new events were read, want %d", len(events), fresh)
			}
			return err
		})
		if n > most {
			t.Errorf("storing and reading %d events read %d of %d earlier events", fresh, n, old)
		}
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
			{nextEvents, []any{int64(1), int64(9), int64(1)},
				"SEARCH events USING INDEX events_in_order (position>? AND position<?)"},
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

// Storing and routing events of people does not read the consents of others, even before the database has statistics.
func TestConsentsOfOthersAreNotRead(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		const others, most = 5000, 300
		dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error {
			var rows [][]any
			for i := range others {
				id := fmt.Sprint(i)
				rows = append(rows, []any{"", "gra_" + id, "app_1", "usr_" + id, identity.UserBankDetails, int64(1) << 60,
					int64(0), int64(0)})
			}
			return tx.Insert(ctx, "app_grants", []string{"company_id", "grant_id", "app_id", "user_id", "scopes",
				"expires_at", "revoked_at", "created_at"}, rows)
		})
		var users []string
		for i := range 200 {
			users = append(users, fmt.Sprint("usr_new_", i))
		}
		for range 7 { // PostgreSQL caches the plan at the sixth execution
			dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error {
				var before, after int64
				read := func(n *int64) error {
					if d.Engine() != db.Postgres {
						return nil
					}
					return tx.QueryRow(ctx, `SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables
						WHERE relname = 'app_grants'`).Scan(n)
				}
				testkit.Check(t, read(&before))
				found, err := selectReaders(ctx, tx, users)
				testkit.Check(t, err)
				connections, err := ConnectionsOf(ctx, tx, users...)
				testkit.Check(t, errors.Join(err, read(&after)))
				if len(found)+len(connections) != 0 || after-before > most {
					t.Errorf("%d consents were read of others, %v, %v", after-before, found, connections)
				}
				return nil
			})
		}
		if d.Engine() != db.SQLite {
			return
		}
		dbtest.Read(t, d, func(ctx context.Context, tx *db.Tx) error {
			rows, err := tx.Query(ctx, "EXPLAIN QUERY PLAN "+fmt.Sprintf(selectAmong, "VALUES ($2)"), int64(1), "usr_1")
			plan, err := db.Collect(rows, err, func(r *db.Rows) (line string, err error) {
				var id, parent, unused int64
				return line, r.Scan(&id, &parent, &unused, &line)
			})
			if !slices.Contains(plan, "SEARCH g USING INDEX app_grants_of_user (user_id=?)") {
				t.Errorf("%q", plan)
			}
			return err
		})
	})
}

// A transaction that has taken positions, or is about to, holds back the events with greater ones until it ends, and
// no other transaction waits for it.
func TestEventsWithLowerPositionsComeFirst(t *testing.T) {
	url := dbtest.Postgres(t) // SQLite has one transaction that writes
	d, other := dbtest.Open(t, db.Options{URL: url}), dbtest.Open(t, db.Options{URL: url})
	emit := func(d *db.DB, object string) {
		t.Helper()
		dbtest.Write(t, d, func(_ context.Context, tx *db.Tx) error {
			return Emit(tx, PayrollCreated.Event("com_1", object, 1, PayrollCreated.Example))
		})
	}
	want := func(when string, want ...string) {
		t.Helper()
		var listed, next []string
		for _, newest := range []bool{false, true} {
			dbtest.Read(t, d, func(ctx context.Context, tx *db.Tx) error {
				events, _, err := List(ctx, tx, ListParams{CompanyID: "com_1", Newest: newest, Limit: 100})
				if newest {
					slices.Reverse(events)
				}
				listed = nil
				for _, e := range events {
					listed = append(listed, e.ObjectID)
				}
				return err
			})
			if !slices.Equal(listed, want) {
				t.Errorf("%s, newest first %t: %v are listed, want %v", when, newest, listed, want)
			}
		}
		dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error {
			after := int64(0)
			events, err := selectNext(ctx, tx, after, 100)
			for _, e := range events {
				next = append(next, e.ObjectID)
			}
			return err
		})
		if !slices.Equal(next, want) {
			t.Errorf("%s: %v are next, want %v", when, next, want)
		}
	}
	emit(d, "prl_first")
	undone := errors.New("undone")
	for i, end := range []error{nil, undone, nil} {
		slow := fmt.Sprintf("prl_slow_%d", i)
		var before []string
		dbtest.Read(t, d, func(ctx context.Context, tx *db.Tx) error {
			events, _, err := List(ctx, tx, ListParams{CompanyID: "com_1", Limit: 100})
			for _, e := range events {
				before = append(before, e.ObjectID)
			}
			return err
		})
		stop := func(ctx context.Context, tx *db.Tx) { // sends the queued statements
			var one int64
			testkit.Check(t, tx.QueryRow(ctx, "SELECT 1").Scan(&one))
		}
		err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			want("before", before...)
			testkit.Check(t, tx.Queue(ctx, announce, positionLock))
			stop(ctx, tx)
			want("announced", before...)
			emit(other, slow+"_a")
			want("announced, another commits", before...)
			text, err := json.Marshal(PayrollCreated.Example)
			testkit.Check(t, err)
			testkit.Check(t, insertEvents(ctx, tx, [][]any{{"com_1", slow, slow, int64(1), "payroll.created", string(text),
				db.Micros(tx.Now())}}))
			stop(ctx, tx)
			emit(other, slow+"_b")
			want("positions taken, another commits", before...)
			return end
		})
		if !errors.Is(err, end) {
			t.Error(err)
		}
		after := append(before, slow+"_a", slow, slow+"_b")
		if end != nil {
			after = append(before, slow+"_a", slow+"_b")
		}
		want("ended", after...)
	}
}

// The locks contain the lower half of a position.
func TestPositionsBeyondTheLowerHalf(t *testing.T) {
	d := dbtest.Open(t, db.Options{URL: dbtest.Postgres(t)})
	for _, last := range []int64{1<<31 - 1, 1<<32 - 2, 1<<32 - 1, 1 << 32, 1<<40 + 1<<31} {
		dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error {
			if _, err := tx.Exec(ctx, "SELECT setval('event_positions_position_seq', $1)", last); err != nil {
				return err
			}
			testkit.Check(t, tx.Queue(ctx, announce, positionLock))
			for range 3 {
				var taken int64
				testkit.Check(t, tx.QueryRow(ctx, "SELECT nextval('event_positions_position_seq')").Scan(&taken))
			}
			if got, err := settled(ctx, tx); err != nil || got != last {
				t.Errorf("events are settled up to %d, want %d: %v", got, last, err)
			}
			return nil
		})
		dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error {
			if got, err := settled(ctx, tx); err != nil || got != last+3 {
				t.Errorf("events are settled up to %d, want %d: %v", got, last+3, err)
			}
			return nil
		})
	}
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
