package db_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/testkit"
)

// What statements restrict their tables to: the placeholders of the company, or the table that is open.
func TestWhatStatementsAreRestrictedTo(t *testing.T) {
	for query, want := range map[string]string{
		"SELECT 1": "",
		"SELECT name FROM staff WHERE staff_id = $1":                               "",
		"SELECT state FROM payrolls WHERE company_id = $1":                         "$1",
		"SELECT state FROM payrolls":                                               "payrolls",
		"SELECT state FROM payrolls WHERE payroll_id = $1":                         "payrolls",
		"DELETE FROM history WHERE company_id = CAST($2 AS TEXT)":                  "$2",
		"UPDATE payrolls SET state = $1 WHERE company_id = $2 AND payroll_id = $3": "$2",
		"UPDATE payrolls SET company_id = $1 WHERE payroll_id = $2":                "payrolls",

		// An OR beside the condition, or a NOT before it, leaves the table open.
		"SELECT state FROM payrolls WHERE company_id = $1 OR payroll_id = $2":                  "payrolls",
		"SELECT state FROM payrolls WHERE (company_id = $1) OR payroll_id = $2":                "payrolls",
		"SELECT state FROM payrolls WHERE company_id = $1 AND (state = $2 OR state = $3)":      "$1",
		"SELECT state FROM payrolls WHERE NOT (company_id = $1)":                               "payrolls",
		"SELECT state FROM payrolls WHERE company_id <> $1":                                    "payrolls",
		"SELECT state FROM payrolls WHERE company_id = payroll_id":                             "payrolls",
		"SELECT state FROM payrolls -- WHERE company_id = $1":                                  "payrolls",
		"SELECT ' WHERE company_id = $1' FROM payrolls":                                        "payrolls",
		"SELECT state FROM payrolls WHERE company_id = $1 UNION SELECT state FROM claims":      "claims",
		"SELECT (SELECT COUNT(*) FROM claims) FROM payrolls p WHERE p.company_id = $1":         "claims",
		"SELECT 1 FROM payrolls p, claims c WHERE p.company_id = $1":                           "claims",
		"SELECT 1 FROM payrolls p, claims c WHERE p.company_id = $1 AND c.company_id = $2":     "$1 $2",
		"SELECT state FROM payrolls WHERE EXISTS (SELECT 1 FROM claims WHERE company_id = $1)": "payrolls",

		"SELECT CASE WHEN TRUE AND company_id = $1 THEN 1 END FROM payrolls": "payrolls",

		// Joins and subqueries carry the company on.
		"SELECT 1 FROM payrolls p JOIN payments m ON m.company_id = p.company_id WHERE p.company_id = $1": "$1",
		"SELECT 1 FROM payrolls p JOIN payments m ON m.payroll_id = p.payroll_id WHERE p.company_id = $1": "payments",
		"SELECT 1 FROM payrolls p JOIN payments m USING (company_id, payroll_id) WHERE p.company_id = $1": "$1",
		`SELECT (SELECT COUNT(*) FROM payments m WHERE m.company_id = p.company_id) FROM payrolls p
			WHERE p.company_id = $1`: "$1",
		`WITH some AS (SELECT company_id, payroll_id FROM payrolls WHERE company_id = $1)
			SELECT 1 FROM some s JOIN payments m ON m.company_id = s.company_id`: "$1",
		"SELECT 1 FROM (SELECT * FROM payrolls) p WHERE p.company_id = $1": "$1",
		"DELETE FROM payments WHERE (company_id, payroll_id)" +
			" IN (SELECT company_id, payroll_id FROM payrolls)": "payments",

		// The condition of an outer join restricts only the joined table.
		"SELECT 1 FROM payrolls p LEFT JOIN claims c ON c.company_id = p.company_id WHERE p.company_id = $1": "$1",
		"SELECT 1 FROM payrolls p LEFT JOIN claims c ON c.company_id = $1 WHERE p.company_id = $2":           "$1 $2",
		"SELECT 1 FROM payrolls p LEFT JOIN claims c ON c.company_id = p.company_id AND c.company_id = $1":   "payrolls",
		"SELECT 1 FROM payrolls p LEFT JOIN claims c ON c.company_id = p.company_id AND p.company_id = $1":   "payrolls",
		"SELECT 1 FROM payrolls p FULL OUTER JOIN claims c ON c.company_id = $1 AND p.company_id = $1":       "payrolls",

		// Lists.
		"SELECT 1 FROM payrolls WHERE company_id" +
			" IN ($1,$2)": "$1 $2",
		"SELECT 1 FROM payrolls WHERE company_id IN (SELECT unnest($1::text[]))": "$1",
		"SELECT 1 FROM payrolls WHERE company_id" +
			" IN ($1, 'operator')": "payrolls",
		"SELECT 1 FROM payrolls WHERE company_id = ANY($1)":                "$1",
		"SELECT 1 FROM payrolls WHERE (company_id, payroll_id) = ($3, $1)": "$3",
		"SELECT 1 FROM payrolls WHERE (payroll_id, company_id)" +
			" IN (VALUES ($1,$2),($3,$4))": "$2 $4",
		"SELECT 1 FROM payrolls WHERE (company_id, payroll_id) IN (SELECT * FROM unnest($1::text[],$2::text[]))": "$1",
		"SELECT 1 FROM payrolls WHERE company_id" +
			" IN (SELECT company_id FROM members)": "payrolls",

		// Inserted rows.
		"INSERT INTO payrolls (payroll_id, company_id) VALUES ($1, $2), ($3, $4" +
			")": "$2 $4",
		"INSERT INTO payrolls (payroll_id) VALUES ($1" +
			")": "payrolls",
		"INSERT INTO payrolls (company_id, state)" +
			" SELECT CAST($1 AS TEXT), 'new'": "$1",
		"INSERT INTO payrolls (company_id, state)" +
			" SELECT company_id, state FROM claims WHERE company_id = $1 ON CONFLICT DO NOTHING": "$1",
		"INSERT INTO payrolls (company_id, state)" +
			" SELECT company_id, state FROM claims": "payrolls",
	} {
		if got := db.RestrictionOf(query); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}

// A statement that runs for a company is not executed if it would reach rows of another one: because its condition was
// forgotten, because it names another company, or because it inserts a row of one.
func TestStatementsReachOnlyRowsOfTheirCompany(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		columns := []string{"company_id", "note_id", "name", "sealed", "created_at"}
		row := func(company, id string) [][]any { return [][]any{{company, id, "Ada", "", int64(1)}} }
		dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error {
			return tx.Insert(ctx, "staff_notes", columns, append(row("com_1", "a"), row("com_2", "b")...))
		})
		ids := func(ctx context.Context, query string, args ...any) (all []string, err error) {
			err = d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
				rows, err := tx.Query(ctx, query, args...)
				all, err = db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
				return err
			})
			return all, err
		}
		const forgotten = "SELECT note_id FROM staff_notes ORDER BY note_id"
		const own = "SELECT note_id FROM staff_notes WHERE company_id = $1"
		one, nobody := db.ForCompany(t.Context(), "com_1"), db.ForCompany(t.Context(), "")
		for _, c := range []struct {
			name  string
			ctx   context.Context
			query string
			args  []any
			want  string // "" for an error
		}{
			{"own rows", one, own, []any{"com_1"}, "[a]"},
			{"rows of another company", one, own, []any{"com_2"}, ""},
			{"a forgotten condition", one, forgotten, nil, ""},
			{"no company", nobody, own, []any{"com_1"}, ""},
			{"no company, none asked", nobody, own, []any{""}, ""},
			{"across companies", db.AcrossCompanies(one, "a test"), forgotten, nil, "[a b]"},
			{"for one again", db.ForCompany(db.AcrossCompanies(one, "a test"), "com_1"), forgotten, nil, ""},
			{"the system", t.Context(), forgotten, nil, "[a b]"},
		} {
			got, err := ids(c.ctx, c.query, c.args...)
			if (err == nil) != (c.want != "") || err == nil && fmt.Sprint(got) != c.want {
				t.Errorf("%s: %v, %v, want %s", c.name, got, err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "com_2") {
				t.Errorf("%s: the error names the other company: %v", c.name, err)
			}
		}
		const change = "UPDATE staff_notes SET name = 'Eve' WHERE company_id = $1"
		for name, write := range map[string]func(ctx context.Context, tx *db.Tx) error{
			"Exec": func(ctx context.Context, tx *db.Tx) error {
				_, err := tx.Exec(ctx, change, "com_2")
				return err
			},
			"ExecOne": func(ctx context.Context, tx *db.Tx) error { return tx.ExecOne(ctx, change, "com_2") },
			"Queue":   func(ctx context.Context, tx *db.Tx) error { return tx.Queue(ctx, change, "com_2") },
			"Batch": func(ctx context.Context, tx *db.Tx) error {
				return tx.Batch(ctx, []db.Statement{{Query: change, Args: []any{"com_1"}},
					{Query: change, Args: []any{"com_2"}}})
			},
			"Insert": func(ctx context.Context, tx *db.Tx) error {
				return tx.Insert(ctx, "staff_notes", columns, append(row("com_1", "c"), row("com_2", "d")...))
			},
		} {
			if err := d.Write(one, write); err == nil {
				t.Errorf("%s changed rows of another company", name)
			}
		}
		testkit.Check(t, d.Write(one, func(ctx context.Context, tx *db.Tx) error {
			return tx.ExecOne(ctx, change, "com_1")
		}))
		got, err := ids(t.Context(), "SELECT note_id || ' ' || name FROM staff_notes ORDER BY note_id")
		if err != nil || fmt.Sprint(got) != "[a Eve b Ada]" {
			t.Errorf("afterwards: %v, %v", got, err)
		}
	})
}

// BenchmarkGuard measures the check of a statement whose text was analyzed before, and the analysis.
func BenchmarkGuard(b *testing.B) {
	const query = `SELECT p.payroll_id, p.state, m.payment_id, m.amount FROM payrolls p
		JOIN payments m ON m.company_id = p.company_id AND m.payroll_id = p.payroll_id
		WHERE p.company_id = $1 AND p.state = $2 ORDER BY p.created_at DESC LIMIT 100`
	type key struct{}
	ctx := db.ForCompany(context.WithValue(b.Context(), key{}, 1), "com_1")
	b.Run("check", func(b *testing.B) {
		for b.Loop() {
			testkit.Check(b, db.Guard(ctx, query, []any{"com_1", "pending"}))
		}
	})
	b.Run("analysis", func(b *testing.B) {
		for b.Loop() {
			if db.RestrictionOf(query) != "$1" {
				b.Fatal("not restricted")
			}
		}
	})
}
