package db_test

import (
	"context"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
)

func TestAddToSettingReturnsTheSum(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		for _, x := range []struct{ add, sum int64 }{{0, 0}, {1, 1}, {1000, 1001}, {-2, 999}} {
			if err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				sum, err := db.AddToSetting(ctx, tx, "number", x.add)
				if sum != x.sum {
					t.Errorf("the sum is %d, want %d", sum, x.sum)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestHistoryOnceKeepsTheFirstRecordOfAVersion(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		for _, reason := range []string{"first", "second"} {
			if err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				return db.HistoryOnce(ctx, tx, "com_1", "key_1", 7, "", "denied", reason)
			}); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			all, err := db.Changes(ctx, tx, "com_1", "key_1")
			if len(all) != 1 || all[0].Version != 7 || all[0].To != "denied" || all[0].Reason != "first" {
				t.Errorf("history: %+v", all)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	})
}
