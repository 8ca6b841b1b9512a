package db_test

import (
	"context"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
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
