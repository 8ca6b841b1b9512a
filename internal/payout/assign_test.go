package payout

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
)

// PostgreSQL finds the outputs of Assign by their keys, even if its statistics were made when the queue was empty. It
// does not compare every queued output with every row.
func TestAssignLooksOutputsUpByKey(t *testing.T) {
	d := dbtest.Open(t, db.Options{URL: dbtest.Postgres(t)})
	const paid, queued = 2_000, 500
	fill := func(ctx context.Context, tx *db.Tx, prefix string, n int64, state State) error {
		_, err := tx.Exec(ctx, `INSERT INTO outputs (`+outputColumns+`)
			SELECT 'com_1', CAST($1 AS TEXT) || i, 'prl_1', 'pmt_' || i, 'dst_1', 'bank', 'EUR', 1, 'EUR', 1, '', '{}',
				CAST($2 AS TEXT), '', FALSE, '', '', 0, 1, i, i, '', ''
			FROM generate_series(1, CAST($3 AS BIGINT)) AS i`, prefix, string(state), n)
		return err
	}
	if err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		if err := fill(ctx, tx, "old_", paid, Fulfilled); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "ANALYZE outputs"); err != nil {
			return err
		}
		if err := fill(ctx, tx, "out_", queued, Queued); err != nil {
			return err
		}
		rows := make([][]any, queued)
		for i := range rows {
			rows[i] = []any{"com_1", "out_" + strconv.Itoa(i+1), int64(1), int64(i)}
		}
		for values, args := range db.BindRows(tx, rows, 4) {
			lines, err := tx.Query(ctx, "EXPLAIN "+assignStatement(values), append([]any{"bfl_1", "", int64(1)}, args...)...)
			plan, err := db.Collect(lines, err, func(r *db.Rows) (line string, err error) { return line, r.Scan(&line) })
			if err != nil {
				return err
			}
			if text := strings.Join(plan, "\n"); strings.Contains(text, "Join Filter") ||
				strings.Contains(text, "outputs_queue") {
				t.Errorf("PostgreSQL's plan:\n%s", text)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
