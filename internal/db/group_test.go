package db_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/testkit"
)

func TestATransactionSeesItsBufferedWrites(t *testing.T) {
	settings := db.BulkInsert("settings", "key", "value")
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		count := func(ctx context.Context, tx *db.Tx) (n int64) {
			if err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM settings WHERE key LIKE 'buffered%'").Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			settings.Add(tx, []any{"buffered_1", "a"})
			var n int64
			if err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM leases").Scan(&n); err != nil || len(settings.Buffered(tx)) != 1 {
				t.Errorf("a statement on another table wrote the buffer: %d are left, %v", len(settings.Buffered(tx)), err)
			}
			if n := count(db.StoredOnly(ctx), tx); n != 0 || len(settings.Buffered(tx)) != 1 {
				t.Errorf("a read of stored rows only found %d, and left %d in the buffer", n, len(settings.Buffered(tx)))
			}
			if n := count(ctx, tx); n != 1 || len(settings.Buffered(tx)) != 0 {
				t.Errorf("a read found %d rows, and left %d in the buffer", n, len(settings.Buffered(tx)))
			}
			settings.Add(tx, []any{"buffered_2", "a"})
			if n, err := tx.Exec(ctx, "UPDATE settings SET value = 'b' WHERE key = 'buffered_2'"); n != 1 || err != nil {
				t.Errorf("an update changed %d rows, %v", n, err)
			}
			settings.Add(tx, []any{"buffered_3", "a"})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			if n := count(ctx, tx); n != 3 {
				t.Errorf("%d rows are committed, want 3", n)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	})
}

// If a function fails, everything it wrote is rolled back, even rows in the buffer.
func TestAFailedFunctionLeavesNoBufferedWrites(t *testing.T) {
	settings := db.BulkInsert("settings", "key", "value")
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		for _, read := range []bool{false, true} {
			err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				settings.Add(tx, []any{"refused", "a"})
				if read {
					if v, err := db.Setting(ctx, tx, "refused"); v != "a" || err != nil {
						t.Errorf("it reads %q, %v", v, err)
					}
				}
				return errRefused
			})
			if err == nil {
				t.Fatal("the write did not fail")
			}
		}
		if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			v, err := db.Setting(ctx, tx, "refused")
			if v != "" {
				t.Errorf("it left %q", v)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	})
}

// A function that reads a table writes the rows that others of its transaction have buffered for it. If it then returns
// an error, the others commit and do not run again.
func TestARefusalAfterAReadDoesNotAffectItsTransaction(t *testing.T) {
	settings := db.BulkInsert("settings", "key", "value")
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		one, err := d.WithPool(t.Context(), db.Options{Committers: 1})
		testkit.Check(t, err)
		started, release := make(chan struct{}), make(chan struct{})
		var runs [4]int
		var errs [4]error
		var wg sync.WaitGroup
		for i, fn := range []func(context.Context, *db.Tx) error{
			func(context.Context, *db.Tx) error {
				close(started)
				<-release
				return nil
			},
			func(_ context.Context, tx *db.Tx) error {
				settings.Add(tx, []any{"key_1", "a"})
				return nil
			},
			func(ctx context.Context, tx *db.Tx) error {
				if v, err := db.Setting(ctx, tx, "key_1"); v != "a" || err != nil {
					t.Errorf("it reads %q, %v", v, err)
				}
				settings.Add(tx, []any{"key_2", "a"})
				return errRefused
			},
			func(_ context.Context, tx *db.Tx) error {
				settings.Add(tx, []any{"key_3", "a"})
				return nil
			},
		} {
			wg.Go(func() {
				errs[i] = one.Write(context.Background(), func(ctx context.Context, tx *db.Tx) error {
					runs[i]++
					return fn(ctx, tx)
				})
			})
			if i == 0 {
				<-started
			}
			for one.Queued() < i {
				runtime.Gosched()
			}
		}
		close(release)
		wg.Wait()
		if runs != [4]int{1, 1, 1, 1} || !errors.Is(errs[2], errRefused) || errors.Join(errs[0], errs[1], errs[3]) != nil {
			t.Errorf("the functions ran %v times and returned %v", runs, errs)
		}
		if got := settingKeys(t, d); !slices.Equal(got, []string{"key_1", "key_3"}) {
			t.Errorf("stored %v", got)
		}
	})
}

// If a group cannot be written, the transaction does not commit, even if the function ignores the error.
func TestAGroupThatCannotBeWrittenFailsItsTransaction(t *testing.T) {
	broken := db.NewGroup(func(context.Context, *db.Tx, []string) error { return errRefused }, "settings")
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			if _, err := tx.Exec(ctx, "INSERT INTO settings (key, value) VALUES ('key_1', 'a')"); err != nil {
				return err
			}
			broken.Add(tx, "lost")
			for range 2 {
				if _, err := db.Setting(ctx, tx, "key_1"); !errors.Is(err, errRefused) {
					t.Errorf("a statement after the failure: %v", err)
				}
			}
			return nil
		})
		if !errors.Is(err, errRefused) {
			t.Errorf("the transaction ended with %v", err)
		}
		if got := settingKeys(t, d); len(got) != 0 {
			t.Errorf("stored %v", got)
		}
	})
}
