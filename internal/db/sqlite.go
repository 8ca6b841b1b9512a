package db

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
	"sync"
)

// insertRows is how many rows one statement inserts into a table of so many columns on SQLite: a power of two.
func insertRows(columns int) int {
	n := 16
	for n > 1 && n*columns > maxInsertBinds {
		n /= 2
	}
	return n
}

const maxInsertBinds = 128

// sqlRunner is a *sql.Tx of a reader or the writer's transaction.
type sqlRunner interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

type sqliteConn struct{ r sqlRunner }

var sqliteTexts sync.Map // query with $1 → the same with ?1

// sqliteText numbers binds as SQLite does: it takes $1 for a name and would bind by appearance, swapping arguments in
// silence. Binds that stand in their order anyway become plain ones, since the driver finds numbered ones in quadratic time.
func sqliteText(query string) string {
	if t, ok := sqliteTexts.Load(query); ok {
		return t.(string)
	}
	text := plainBinds(query)
	if text == "" {
		text = strings.ReplaceAll(query, "$", "?")
	}
	if len(query) < maxKeptText {
		sqliteTexts.Store(query, text)
	}
	return text
}

// maxKeptText bounds what is remembered of a query; 64 rows of the widest table fit.
const maxKeptText = 1 << 15

// plainBinds is the query with ? for each bind, or "" when the binds do not count up from 1.
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

func (c sqliteConn) execAll(ctx context.Context, all []*Statement) (err error) {
	for _, s := range all {
		if s.Changed, err = c.exec(ctx, s.Query, s.Args); err != nil {
			return err
		}
	}
	return nil
}

func (c sqliteConn) query(ctx context.Context, query string, args []any) (*Rows, error) {
	rows, err := c.r.QueryContext(ctx, sqliteText(query), args...)
	if err != nil {
		return nil, err
	}
	return &Rows{sql: rows}, nil
}

func (c sqliteConn) ask(ctx context.Context, all []Question) error {
	for _, q := range all {
		if err := q.read(c.query(ctx, q.Query, q.Args)); err != nil {
			return err
		}
	}
	return nil
}

func (c sqliteConn) later(ctx context.Context, refused func(error) error, query string, args []any) error {
	_, err := c.exec(ctx, query, args)
	if err != nil && refused != nil {
		err = refused(err)
	}
	return err
}

func (c sqliteConn) one(ctx context.Context, instead error, query string, args []any) error {
	n, err := c.exec(ctx, query, args)
	if err == nil && n != 1 {
		err = instead
	}
	return err
}

func (c sqliteConn) settle(context.Context) error { return nil }

// insert takes statements of few rows: the driver's cost of a bind grows with their number.
func (c sqliteConn) insert(ctx context.Context, table string, columns []string, rows [][]any) error {
	for _, n := range Chunks(len(rows), insertRows(len(columns))) {
		if _, err := c.exec(ctx, insertStatement(table, columns, n), flatten(rows[:n], len(columns))); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}
