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

func lookupSettings(asked *atomic.Int64) *db.Loader[string, string] {
	return db.NewLoader(func(tx *db.Tx, keys []string, found func(string, string)) (all []db.Statement) {
		asked.Add(1)
		for in, args := range db.BindList(tx, keys, 1) {
			all = append(all, db.Statement{Query: "SELECT key, value FROM settings WHERE key IN " + in, Args: args, Row: func(r *db.Rows) error {
				var key, value string
				err := r.Scan(&key, &value)
				found(key, value)
				return err
			}})
		}
		return all
	})
}

func TestWhatIsLookedUpAheadIsReadOnceAndAFunctionSeesItsOwnWrites(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		ctx := context.Background()
		var asked atomic.Int64
		settings := lookupSettings(&asked)
		must := func(fn func(context.Context, *db.Tx) error, ahead ...db.Prefetch) {
			t.Helper()
			if err := d.Write(ctx, fn, ahead...); err != nil {
				t.Fatal(err)
			}
		}
		want := func(ctx context.Context, tx *db.Tx, key, value string, questions int64) error {
			t.Helper()
			got, found, err := settings.Get(ctx, tx, key)
			if got != value || found != (value != "") || asked.Load() != questions {
				t.Errorf("%s is %q (%t) after %d questions, want %q after %d", key, got, found, asked.Load(), value, questions)
			}
			return err
		}
		must(func(ctx context.Context, tx *db.Tx) error { return db.SetSetting(ctx, tx, "a", "old") })
		must(func(ctx context.Context, tx *db.Tx) error {
			for range 2 { // found and missing alike
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
		must(func(ctx context.Context, tx *db.Tx) error { return want(ctx, tx, "b", "new", 4) }) // nobody said it ahead
	})
}

func TestFunctionsThatShareATransactionFindWhatWasCommittedBefore(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		var asked atomic.Int64
		settings := lookupSettings(&asked)
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
