package db

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"strings"
)

// insertRows returns how many rows one SQLite statement inserts into a table with the given number of columns. The
// result is a power of two.
func insertRows(columns int) int {
	n := 16
	for n > 1 && n*columns > maxInsertBinds {
		n /= 2
	}
	return n
}

const maxInsertBinds = 128

// sqliteConn is an SQLite connection that prepares each statement once, because parsing a small statement costs more
// than executing it. Only one transaction uses it at a time, so it has no lock.
type sqliteConn struct {
	c         *sql.Conn
	prepared  map[string]*sql.Stmt
	intercept Intercept // may be nil
}

const maxStatements = 500

func (c sqliteConn) statement(ctx context.Context, query string) (*sql.Stmt, error) {
	if s, ok := c.prepared[query]; ok {
		return s, nil
	}
	s, err := c.c.PrepareContext(ctx, sqliteText(query))
	if err != nil {
		return nil, err
	}
	if len(c.prepared) >= maxStatements {
		for text, old := range c.prepared {
			_ = old.Close()
			delete(c.prepared, text)
			break
		}
	}
	c.prepared[query] = s
	return s, nil
}

// close closes the prepared statements and then the connection: as long as a statement is open, SQLite keeps the
// connection's files and memory.
func (c sqliteConn) close() (err error) {
	for _, s := range c.prepared {
		err = errors.Join(err, s.Close())
	}
	return errors.Join(err, c.c.Close())
}

// sqliteText rewrites the placeholders of a query for SQLite, which treats $1 as a name and would assign arguments in
// order of appearance. Placeholders in ascending order become plain "?", because the driver's time for numbered
// placeholders is quadratic. "LIMIT $n" becomes an expression, because SQLite parses a statement again at each
// execution if its limit is only a placeholder.
func sqliteText(query string) string {
	query = strings.ReplaceAll(query, "LIMIT $", "LIMIT 0+$")
	if text := plainBinds(query); text != "" {
		return text
	}
	return strings.ReplaceAll(query, "$", "?")
}

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

// intercepted executes a statement by calling run, through the [Intercept] if there is one.
func (c sqliteConn) intercepted(ctx context.Context, query string, run func() error) error {
	if c.intercept == nil {
		return run()
	}
	return c.intercept(ctx, query, run)
}

func (c sqliteConn) exec(ctx context.Context, query string, args []any) (changed int64, err error) {
	err = c.intercepted(ctx, query, func() (err error) {
		changed, err = c.execute(ctx, query, args)
		return err
	})
	return changed, err
}

func (c sqliteConn) execute(ctx context.Context, query string, args []any) (int64, error) {
	s, err := c.statement(ctx, query)
	if err != nil {
		return 0, err
	}
	result, err := s.ExecContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (c sqliteConn) query(ctx context.Context, query string, args []any) (*Rows, error) {
	var rows *sql.Rows
	if err := c.intercepted(ctx, query, func() error {
		s, err := c.statement(ctx, query)
		if err == nil {
			rows, err = s.QueryContext(ctx, args...) //nolint:sqlclosecheck // the caller reads and closes the rows
		}
		return err
	}); err != nil {
		if rows != nil {
			_ = rows.Close()
		}
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

// insert splits the rows among small statements, because the driver's cost per placeholder grows with their number.
func (c sqliteConn) insert(ctx context.Context, table string, columns []string, rows [][]any) error {
	for _, n := range Chunks(len(rows), insertRows(len(columns))) {
		if _, err := c.exec(ctx, insertStatement(table, columns, n), flatten(rows[:n], len(columns))); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}
