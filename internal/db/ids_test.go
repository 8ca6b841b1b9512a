package db_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
)

// Ids of things that are made together sort in their order and come in runs, which no other id is of.
func TestIDsComeInRuns(t *testing.T) {
	d := dbtest.Open(t, db.Options{URL: dbtest.SQLite(t)})
	if err := d.Write(t.Context(), func(_ context.Context, tx *db.Tx) error {
		runs := map[string]int{}
		for range 50 {
			ids := tx.NewIDs("pmt", 2*db.RunLength+1)
			for _, id := range append(ids, tx.NewID("pmt")) {
				if len(id) != len("pmt_")+26 {
					t.Errorf("an id is %s", id)
				}
				runs[db.RunOf(id)]++
			}
			if !slices.IsSorted(ids) || len(slices.Compact(slices.Clone(ids))) != len(ids) {
				t.Errorf("ids made together are %v", ids)
			}
		}
		var lengths []int
		for _, n := range runs {
			lengths = append(lengths, n)
		}
		slices.Sort(lengths)
		if len(lengths) != 200 || lengths[99] != 1 || lengths[100] != db.RunLength {
			t.Errorf("the runs have %v", lengths)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
