package roster_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/payee/roster"
)

const company = "com_1"

// put writes recipients as their package does; change says what to alter in the n-th.
func put(ctx context.Context, tx *db.Tx, companyID string, from, to int, status string) error {
	for i := from; i < to; i++ {
		id := fmt.Sprintf("rec_%06d", i)
		_, err := tx.Exec(ctx, `INSERT INTO recipients (company_id, recipient_id, relationship_id, user_id, recipient_type, role, status,
				name, name_key, first_name, last_name, email, email_key, country, external_id, department, vendor_type,
				details, onboarded, version, created_at, updated_at)
			VALUES ($1, $2, '', '', 'user', 'contractor', $3, $4, $4, '', '', $5, $5, 'US', '', '', '', '', FALSE, 1, $6, 0)
			ON CONFLICT (company_id, recipient_id) DO UPDATE SET status = excluded.status`,
			companyID, id, status, fmt.Sprint("name ", i%7), fmt.Sprint(i, "@example.com"), int64(i))
		if err != nil {
			return err
		}
		roster.Changed(tx, companyID, id)
	}
	return nil
}

func write(t *testing.T, d *db.DB, fn func(context.Context, *db.Tx) error) {
	t.Helper()
	if err := d.Write(t.Context(), fn); err != nil {
		t.Error(err)
	}
}

// count asks for all of a status, and compares with what the database counts in the same snapshot.
func count(t *testing.T, d *db.DB, companyID, status string) (total int) {
	t.Helper()
	err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		var want int
		if err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM recipients WHERE company_id = $1 AND status = $2", companyID, status).Scan(&want); err != nil {
			return err
		}
		ids, n, err := roster.Find(ctx, tx, companyID, roster.Query{Status: status, Limit: 1 << 20})
		if n != want || len(ids) != want || !slices.IsSorted(ids) {
			t.Errorf("%s: %d in the list, %d ids, %d in the database", status, n, len(ids), want)
		}
		total = n
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return total
}

// Two processes on one database: what one writes the other lists, at once, also after many changes have been folded.
func TestProcessesAgree(t *testing.T) {
	dbtest.RunURL(t, func(t *testing.T, url string) {
		one, two := dbtest.Open(t, db.Options{URL: url}), dbtest.Open(t, db.Options{URL: url})
		write(t, one, func(ctx context.Context, tx *db.Tx) error { return put(ctx, tx, "com_2", 0, 5, "active") })
		total := 0
		for i := range 8 {
			write(t, one, func(ctx context.Context, tx *db.Tx) error { return put(ctx, tx, company, i*400, i*400+400, "pending") })
			if total += 400; count(t, two, company, "pending") != total || count(t, one, company, "pending") != total {
				t.Fatalf("after %d", total)
			}
		}
		write(t, two, func(ctx context.Context, tx *db.Tx) error { return put(ctx, tx, company, 100, 200, "inactive") })
		if n := count(t, one, company, "inactive"); n != 100 {
			t.Errorf("%d are inactive", n)
		}
		if n := count(t, two, "com_2", "pending"); n != 0 {
			t.Errorf("another company has %d", n)
		}
	})
}

// Readers and writers at once: every reader sees exactly its snapshot.
func TestReadersSeeTheirSnapshot(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				for i := range 15 {
					from := w*1000 + i*20
					write(t, d, func(ctx context.Context, tx *db.Tx) error { return put(ctx, tx, company, from, from+20, "pending") })
					write(t, d, func(ctx context.Context, tx *db.Tx) error { return put(ctx, tx, company, from, from+10, "active") })
				}
			})
		}
		for range 4 {
			wg.Go(func() {
				for range 30 {
					count(t, d, company, "pending")
				}
			})
		}
		wg.Wait()
		if a, p := count(t, d, company, "active"), count(t, d, company, "pending"); a != 600 || p != 600 {
			t.Errorf("%d active, %d pending", a, p)
		}
	})
}

// What is not committed is seen by its own transaction at most, and leaves no trace.
func TestUncommittedChangesStayOut(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			if err := put(ctx, tx, company, 0, 10, "pending"); err != nil {
				return err
			}
			if err := tx.Flush(ctx); err != nil {
				return err
			}
			if _, n, err := roster.Find(ctx, tx, company, roster.Query{Limit: 5}); n != 10 || err != nil {
				t.Errorf("its own transaction sees %d %v", n, err)
			}
			return context.Canceled
		})
		if err == nil {
			t.Fatal("committed")
		}
		if n := count(t, d, company, "pending"); n != 0 {
			t.Errorf("%d are seen", n)
		}
	})
}
