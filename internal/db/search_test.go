package db_test

import (
	"context"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
)

// A text is found in any case of its letters, also of those that are not ASCII, and its other characters are literal.
func TestTextIsFoundInAnyCase(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		for _, w := range []struct {
			column, text     string
			contains, begins bool
		}{
			{"Übersetzung", "übersetzung", true, true}, {"übersetzung", "ÜBERSETZUNG", true, true},
			{"Neue Übersetzung", "übers", true, false}, {"ΟΔΟΣ", "οδός", false, false}, {"ΟΔΟΣ", "οδο", true, true},
			{"Ёлка", "ёлк", true, true}, {"Übersetzung", "ubersetzung", false, false}, {"INV-001", "inv-0", true, true},
			{"100% [a*b?]", "% [A*B?]", true, false}, {"100", "1%", false, false}, {"aab", "a*b", false, false},
			{"axb", "a.b", false, false}, {"axb", "a?b", false, false}, {"a_b", "A_B", true, true}, {"axb", "a_b", false, false},
			{`a\b^c$(d)|{e}+-]/"'`, `A\B^C$(D)|{E}+-]/"'`, true, true}, {"***=a", "***=A", true, true},
			{"日本語", "本", true, false}, {"a", "", true, true}, {"(?i)x", "(?I)X", true, true},
		} {
			for _, begins := range []bool{false, true} {
				var found bool
				if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
					operator, pattern := tx.Contains(w.text)
					if begins {
						operator, pattern = tx.Begins(w.text)
					}
					return tx.QueryRow(ctx, "SELECT CAST($1 AS TEXT) "+operator+" $2", w.column, pattern).Scan(&found)
				}); err != nil {
					t.Fatalf("%q in %q: %v", w.text, w.column, err)
				}
				if want := begins && w.begins || !begins && w.contains; found != want {
					t.Errorf("%q in %q (at its begin: %t): %t, want %t", w.text, w.column, begins, found, want)
				}
			}
		}
	})
}
