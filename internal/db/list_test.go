package db_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
)

// A page contains only rows that meet all conditions. The total counts all pages. Pages after the last one are empty.
func TestAListIsReadPageByPage(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		if err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			for i := range 7 {
				if err := db.SetSetting(ctx, tx, fmt.Sprint("list.", i), fmt.Sprint(i%2)); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for page, want := range [][]string{1: {"list.5", "list.3"}, 2: {"list.1"}, 3: nil} {
			if page == 0 {
				continue
			}
			if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				l := &db.List{Columns: "key", Table: "settings", Order: "key DESC", Page: page, PerPage: 2}
				l.Where("key LIKE ? AND key <> ?", "list.%", "list.0")
				l.Where("value = ?", "1")
				got, total, err := db.ReadPage(ctx, tx, l, func(r *db.Rows) (key string, err error) { return key, r.Scan(&key) })
				if diff := cmp.Diff(want, got); diff != "" || total != 3 {
					t.Errorf("page %d of %d rows (-want +got):\n%s", page, total, diff)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
	})
}
