package db_test

import (
	"context"
	"errors"
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
				l := &db.List{Columns: "key", Table: "settings", ID: "key", Page: db.Page{Number: page, PerPage: 2}}
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

// A page that begins after a row has the rows after it, whatever was added since.
func TestAListIsReadAfterARow(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		add := func(id string, at int64) {
			t.Helper()
			if err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				return tx.Insert(ctx, "security_events", []string{"company_id", "at", "event_id", "category", "action", "path",
					"user_id", "staff_id", "outcome", "address", "network", "agent"},
					[][]any{{id[:1], at, id, "sign_in", "", "", "", "", "", "", "", ""}})
			}); err != nil {
				t.Fatal(err)
			}
		}
		read := func(after string) (got []string, total int64, err error) {
			t.Helper()
			return got, total, d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
				l := &db.List{Columns: "event_id", Table: "security_events", ID: "event_id", Time: "at",
					Page: db.Page{PerPage: 2, After: after}}
				l.Where("company_id = ?", "a")
				l.Where("category = ?", "sign_in")
				got, total, err = db.ReadPage(ctx, tx, l, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
				return err
			})
		}
		for i, at := range []int64{5, 7, 7, 6} {
			add(fmt.Sprint("a", i), at)
		}
		add("b9", 7)
		for after, want := range map[string]string{"": "[a2 a1] 4", "a1": "[a3 a0] 4", "a3": "[a0] 4", "a0": "[] 4"} {
			got, total, err := read(after)
			if text := fmt.Sprint(got, " ", total); text != want || err != nil {
				t.Errorf("after %q: %s, want %s, %v", after, text, want, err)
			}
		}
		add("a4", 8)
		if got, total, err := read("a1"); fmt.Sprint(got, " ", total) != "[a3 a0] 5" || err != nil {
			t.Errorf("after a row was added: %v of %d, %v", got, total, err)
		}
		for _, after := range []string{"b9", "nothing"} {
			if _, _, err := read(after); !errors.Is(err, db.ErrAfter) {
				t.Errorf("after %s: %v", after, err)
			}
		}
	})
}
