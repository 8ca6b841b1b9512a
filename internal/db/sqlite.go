package db

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
	"sync"
)

// insertRows returns how many rows one statement inserts into a table with a number of columns on SQLite: a power of
// two.
func insertRows(columns int) int {
	n := 16
	for n > 1 && n*columns > maxInsertBinds {
		n /= 2
	}
	return n
}

const maxInsertBinds = 128

// sqlRunner executes statements on a connection.
type sqlRunner interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

type sqliteConn struct{ r sqlRunner }

var sqliteTexts sync.Map // query with $1 → the same with ?1

// sqliteText rewrites the placeholders of a query for SQLite, which takes $1 for a name and would assign arguments in
// order of appearance. Placeholders in ascending order become plain "?", because the driver's time for numbered ones
// is quadratic.
func sqliteText(query string) string {
	if t, ok := sqliteTexts.Load(query); ok {
		return t.(string)
	}
	text := plainBinds(query)
	if text == "" {
		text = strings.ReplaceAll(query, "$", "?")
	}
	if len(query) < maxCachedText {
		sqliteTexts.Store(query, text)
	}
	return text
}

// maxCachedText is the length above which the text of a query is not cached. An insert of 64 rows into the widest
// table is shorter.
const maxCachedText = 1 << 15

// plainBinds returns the query with "?" for each placeholder, or "" if the placeholders are not numbered 1, 2, 3 and
// so on.
func plainBinds(query string) string {
	var b strings.Builder
	b.Grow(len(query))
	next := 1
	for {
		i := strings.IndexByte(query, '$')
		if i < 0 {
			b.WriteString(query)
			return b.String()
		}
		b.WriteString(query[:i])
		b.WriteByte('?')
		query = query[i+1:]
		digits := 0
		for digits < len(query) && query[digits] >= '0' && query[digits] <= '9' {
			digits++
		}
		if query[:digits] != strconv.Itoa(next) {
			return ""
		}
		next++
		query = query[digits:]
	}
}

func (c sqliteConn) exec(ctx context.Context, query string, args []any) (int64, error) {
	res, err := c.r.ExecContext(ctx, sqliteText(query), args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (c sqliteConn) query(ctx context.Context, query string, args []any) (*Rows, error) {
	rows, err := c.r.QueryContext(ctx, sqliteText(query), args...)
	if err != nil {
		return nil, err
	}
	return &Rows{sql: rows}, nil
}

func (c sqliteConn) batch(ctx context.Context, statements []Statement) error {
	for _, s := range statements {
		if s.Row != nil {
			rows, err := c.query(ctx, s.Query, s.Args)
			if err := eachRow(rows, err, s.Row); err != nil {
				return err
			}
			continue
		}
		n, err := c.exec(ctx, s.Query, s.Args)
		if err != nil {
			return err
		}
		if s.Changed != nil {
			*s.Changed = n
		}
	}
	return nil
}

func (c sqliteConn) queue(ctx context.Context, query string, args []any) error {
	_, err := c.exec(ctx, query, args)
	return err
}

func (c sqliteConn) execOne(ctx context.Context, query string, args []any) error {
	n, err := c.exec(ctx, query, args)
	if err == nil && n != 1 {
		err = ErrConflict
	}
	return err
}

func (c sqliteConn) settle(context.Context) error { return nil }

// insert uses statements of few rows, because the driver's cost per placeholder grows with their number.
func (c sqliteConn) insert(ctx context.Context, table string, columns []string, rows [][]any) error {
	for _, n := range Chunks(len(rows), insertRows(len(columns))) {
		if _, err := c.exec(ctx, insertStatement(table, columns, n), flatten(rows[:n], len(columns))); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}
