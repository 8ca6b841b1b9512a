package db_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
)

func newSettings(asked *atomic.Int64) *db.Loader[string, string] {
	return db.NewLoader(func(tx *db.Tx, keys []string, found func(string, string)) (all []db.Statement) {
		asked.Add(1)
		for in, args := range db.BindList(tx, keys, 1) {
			query := "SELECT key, value FROM settings WHERE key IN " + in
			all = append(all, db.Statement{Query: query, Args: args, Row: func(r *db.Rows) error {
				var key, value string
				err := r.Scan(&key, &value)
				found(key, value)
				return err
			}})
		}
		return all
	})
}

func TestALoaderReadsOnceAndAFunctionSeesItsOwnWrites(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		ctx := context.Background()
		var asked atomic.Int64
		settings := newSettings(&asked)
		must := func(fn func(context.Context, *db.Tx) error, prefetch ...db.Prefetch) {
			t.Helper()
			if err := d.Write(ctx, fn, prefetch...); err != nil {
				t.Fatal(err)
			}
		}
		want := func(ctx context.Context, tx *db.Tx, key, value string, queries int64) error {
			t.Helper()
			got, found, err := settings.Get(ctx, tx, key)
			if got != value || found != (value != "") || asked.Load() != queries {
				t.Errorf("%s is %q (%t) after %d queries, want %q after %d", key, got, found, asked.Load(), value, queries)
			}
			return err
		}
		must(func(ctx context.Context, tx *db.Tx) error { return db.SetSetting(ctx, tx, "a", "old") })
		must(func(ctx context.Context, tx *db.Tx) error {
			for range 2 { // both a found and a missing value
				if err := want(ctx, tx, "a", "old", 1); err != nil {
					return err
				}
				if err := want(ctx, tx, "b", "", 1); err != nil {
					return err
				}
			}
			if err := db.SetSetting(ctx, tx, "b", "new"); err != nil {
				return err
			}
			for range 2 {
				if err := want(ctx, tx, "b", "new", 2); err != nil {
					return err
				}
			}
			return want(ctx, tx, "a", "old", 3)
		}, settings.Prefetch("a"), settings.Prefetch("b"), settings.Prefetch("a"))
		must(func(ctx context.Context, tx *db.Tx) error { return want(ctx, tx, "b", "new", 4) }) // without a prefetch
	})
}

func TestALoaderFindsWhatWasCommittedBefore(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		var asked atomic.Int64
		settings := newSettings(&asked)
		var wg sync.WaitGroup
		for i := range 40 {
			key := fmt.Sprintf("key_%02d", i)
			wg.Go(func() {
				for round := range 5 {
					want := ""
					if round > 0 {
						want = fmt.Sprint(round)
					}
					err := d.Write(context.Background(), func(ctx context.Context, tx *db.Tx) error {
						if got, found, err := settings.Get(ctx, tx, key); err != nil || got != want || found != (want != "") {
							t.Errorf("%s is %q (%t), want %q; %v", key, got, found, want, err)
						}
						return db.SetSetting(ctx, tx, key, fmt.Sprint(round+1))
					}, settings.Prefetch(key))
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
	})
}
