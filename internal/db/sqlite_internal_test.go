package db

import (
	"context"
	"testing"
)

func TestSQLiteText(t *testing.T) {
	for query, want := range map[string]string{
		"SELECT a FROM t WHERE b = $1 AND c = $2": "SELECT a FROM t WHERE b = ? AND c = ?",
		"SELECT a FROM t WHERE b = $2 AND c = $1": "SELECT a FROM t WHERE b = ?2 AND c = ?1",
		// SQLite would parse the statement at each execution if the limit were a placeholder alone.
		"SELECT a FROM t ORDER BY a LIMIT $1 OFFSET $2": "SELECT a FROM t ORDER BY a LIMIT 0+? OFFSET ?",
	} {
		if got := sqliteText(query); got != want {
			t.Errorf("%s became %s, want %s", query, got, want)
		}
	}
}

// BenchmarkLimit measures a query whose limit is an argument.
func BenchmarkLimit(b *testing.B) {
	d, err := Open(b.Context(), Options{URL: "sqlite:" + b.TempDir() + "/limit.db"})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	if err := d.Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := d.Read(b.Context(), func(ctx context.Context, tx *Tx) error {
			rows, err := tx.Query(ctx, "SELECT company_id FROM jobs WHERE kind = $1 ORDER BY run_at LIMIT $2", "none", int64(10))
			if err != nil {
				return err
			}
			rows.Close()
			return rows.Err()
		}); err != nil {
			b.Fatal(err)
		}
	}
}
