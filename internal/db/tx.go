package db

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrNoRows is returned by [Row.Scan] if the query returned no row.
var ErrNoRows = errors.New("db: no rows")

var errReadOnly = errors.New("db: a write in a read-only transaction")

// Tx is a transaction. It is the only way to read and write rows, and the only source of times and IDs. Its
// statements see the rows that the transaction has written, including rows still buffered in a [Group]. It must not
// be used concurrently.
type Tx struct {
	db       *DB
	conn     conn
	now      time.Time
	readOnly bool
	execs    int              // number of executed statements, also of earlier functions, that may have changed rows
	began    int              // the value of execs when the current function began
	buffers  map[any]buffer   // buffered items by group
	before   map[buffer]int   // number of items in each buffer that earlier functions added
	flushing bool             // reports whether a group is being written
	failed   error            // error of a group that could not be written: the transaction must not commit
	notices  []string         // topics to notify after the commit
	loaded   map[Prefetch]any // values read by loaders
}

// Statement is a statement for [Tx.Batch].
type Statement struct {
	Query   string
	Args    []any
	Row     func(*Rows) error // called for each row; nil if the statement returns none
	Changed *int64            // if not nil, set to the number of rows that the statement changed
}

// CollectInto returns a statement that appends the rows it reads to a slice.
func CollectInto[T any](into *[]T, scan func(*Rows) (T, error), query string, args ...any) Statement {
	return Statement{Query: query, Args: args, Row: func(r *Rows) error {
		v, err := scan(r)
		*into = append(*into, v)
		return err
	}}
}

// start sets the transaction's time and reads the values that its functions named with a [Prefetch].
func (t *Tx) start(ctx context.Context, prefetch []Prefetch) error {
	t.now = t.db.opt.Clock().UTC().Truncate(time.Microsecond)
	statements := t.prefetch(prefetch)
	if t.db.opt.AdjustableClock {
		statements = append(statements, Statement{
			Query: "SELECT value FROM settings WHERE key = $1", Args: []any{clockOffset}, Row: func(r *Rows) error {
				var offset string
				if err := r.Scan(&offset); err != nil {
					return err
				}
				micros, err := strconv.ParseInt(offset, 10, 64)
				if err != nil {
					return fmt.Errorf("settings.%s: %w", clockOffset, err)
				}
				t.now = t.now.Add(time.Duration(micros) * time.Microsecond)
				return nil
			}})
	}
	return t.Batch(ctx, statements)
}

// Now returns the time of the transaction: UTC, in whole microseconds. It is the same throughout the transaction.
func (t *Tx) Now() time.Time { return t.now }

// Engine returns the kind of database. Only the few statements that differ between engines need it.
func (t *Tx) Engine() Engine { return t.db.engine }

var idEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// NewID returns a new ID: the prefix, "_", and 26 characters that sort by time (48 bits of milliseconds and 80 random
// bits).
func (t *Tx) NewID(prefix string) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(t.now.UnixMilli())<<16)
	if _, err := rand.Read(b[6:]); err != nil {
		panic(err) // crypto/rand never fails on a supported system
	}
	return prefix + "_" + idEncoding.EncodeToString(b[:])
}

// prepare prepares the transaction for a statement: it applies the guard (see [ForCompany]), rejects a write in a
// read-only transaction, and first writes the buffered rows of the tables that the statement names.
func (t *Tx) prepare(ctx context.Context, query string, args []any, writes bool) error {
	if !t.flushing { // buffered rows may be those of other functions, which had other contexts
		if err := guard(ctx, query, args); err != nil {
			return err
		}
	}
	if writes && t.readOnly {
		return errReadOnly
	}
	if err := t.writeNamed(ctx, query); err != nil {
		return err
	}
	if writes && !t.flushing {
		t.execs++
	}
	return nil
}

// Exec executes a statement and returns the number of rows that it changed.
func (t *Tx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	if err := t.prepare(ctx, query, args, true); err != nil {
		return 0, err
	}
	return t.conn.exec(ctx, query, args)
}

// ExecOne executes a statement that must change exactly one row, and returns [ErrConflict] if it does not. On
// PostgreSQL a later statement or the commit may return the error instead; in any case the transaction does not
// commit.
func (t *Tx) ExecOne(ctx context.Context, query string, args ...any) error {
	if err := t.prepare(ctx, query, args, true); err != nil {
		return err
	}
	return t.conn.execOne(ctx, query, args)
}

// Queue executes a statement without waiting for its result. On PostgreSQL the statement is sent with a later
// statement or the commit, which returns its error.
func (t *Tx) Queue(ctx context.Context, query string, args ...any) error {
	if err := t.prepare(ctx, query, args, true); err != nil {
		return err
	}
	return t.conn.queue(ctx, query, args)
}

// Batch executes statements in order, in one round trip on PostgreSQL. Each statement sees the changes of the earlier
// ones.
func (t *Tx) Batch(ctx context.Context, statements []Statement) error {
	for _, s := range statements {
		if err := t.prepare(ctx, s.Query, s.Args, s.Row == nil || !t.readOnly && returnsChanges(s.Query)); err != nil {
			return err
		}
	}
	if len(statements) == 0 {
		return nil
	}
	return t.conn.batch(ctx, statements)
}

// Query executes a statement that returns rows. Close the rows before the next statement.
func (t *Tx) Query(ctx context.Context, query string, args ...any) (*Rows, error) {
	if err := t.prepare(ctx, query, args, !t.readOnly && returnsChanges(query)); err != nil {
		return nil, err
	}
	return t.conn.query(ctx, query, args)
}

// QueryRow executes a statement that returns at most one row. Its error is returned by [Row.Scan].
func (t *Tx) QueryRow(ctx context.Context, query string, args ...any) Row {
	rows, err := t.Query(ctx, query, args...)
	return Row{rows, err}
}

// Insert inserts rows in as few statements as the engine allows. Later statements see the rows. On PostgreSQL a later
// statement or the commit may report a violated constraint.
func (t *Tx) Insert(ctx context.Context, table string, columns []string, rows [][]any) error {
	if len(rows) == 0 {
		return nil
	}
	if err := t.prepare(ctx, table, nil, true); err != nil {
		return err
	}
	if !t.flushing {
		if err := guardInsert(ctx, table, columns, rows); err != nil {
			return err
		}
	}
	return t.conn.insert(ctx, table, columns, rows)
}

// Notify makes the commit call the functions that [DB.OnNotice] registered for a topic in this process.
func (t *Tx) Notify(topic string) {
	if !slices.Contains(t.notices, topic) {
		t.notices = append(t.notices, topic)
	}
}

// Lock acquires a PostgreSQL advisory lock with the given number, which is held until the transaction ends
// (pg_advisory_xact_lock). On SQLite it does nothing, because only one transaction writes at a time.
func (t *Tx) Lock(ctx context.Context, number int64) error {
	if t.db.engine == SQLite {
		return nil
	}
	return t.Queue(ctx, "SELECT pg_advisory_xact_lock($1)", number)
}

// Renew replaces the snapshot of a read-only transaction on PostgreSQL, so that later statements see what was
// committed in the meantime. It does nothing in a transaction that writes, where each statement sees the latest
// commits, and on SQLite.
func (t *Tx) Renew(ctx context.Context) error {
	if t.db.engine == SQLite || !t.readOnly {
		return nil
	}
	if err := t.conn.queue(ctx, "COMMIT", nil); err != nil {
		return err
	}
	return t.conn.queue(ctx, beginSnapshot, nil)
}

// returnsChanges reports whether a statement that returns rows also changes rows (UPDATE … RETURNING).
func returnsChanges(query string) bool {
	q := strings.TrimLeft(query, " \t\n")
	return !strings.HasPrefix(q, "SELECT") || strings.Contains(q, "RETURNING")
}

// conn is a transaction of one engine.
type conn interface {
	exec(ctx context.Context, query string, args []any) (int64, error)
	execOne(ctx context.Context, query string, args []any) error
	queue(ctx context.Context, query string, args []any) error
	batch(ctx context.Context, statements []Statement) error
	query(ctx context.Context, query string, args []any) (*Rows, error)
	insert(ctx context.Context, table string, columns []string, rows [][]any) error
	settle(ctx context.Context) error // checks the results of all execOne calls
}

// Row is the result of [Tx.QueryRow].
type Row struct {
	rows *Rows
	err  error
}

// Scan copies the columns of the first row into dest. It returns [ErrNoRows] if there is none.
func (r Row) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return ErrNoRows
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	for r.rows.Next() { // executes a statement with RETURNING to its end, which reading only the first row would not
	}
	return r.rows.Err()
}

// Rows is the result of [Tx.Query].
type Rows struct {
	sql   *sql.Rows
	pgx   pgx.Rows
	batch pgx.BatchResults // closed together with the rows; nil if there is none
}

// Next prepares the next row for Scan. It returns false at the end or after an error.
func (r *Rows) Next() bool {
	if r.pgx != nil {
		return r.pgx.Next()
	}
	return r.sql.Next()
}

// Scan copies the columns of the current row into dest.
func (r *Rows) Scan(dest ...any) error {
	if r.pgx != nil {
		return r.pgx.Scan(dest...)
	}
	return r.sql.Scan(dest...)
}

// Err returns the error that ended the iteration, if any.
func (r *Rows) Err() error {
	if r.pgx != nil {
		return r.pgx.Err()
	}
	return r.sql.Err()
}

// Close closes the rows. It may be called more than once.
func (r *Rows) Close() { // errors of closing are also returned by Err
	if r.pgx == nil {
		_ = r.sql.Close()
		return
	}
	r.pgx.Close()
	if r.batch != nil {
		_ = r.batch.Close()
	}
}

// Collect reads all rows of a query and returns what scan returned for each.
func Collect[T any](rows *Rows, err error, scan func(*Rows) (T, error)) (all []T, _ error) {
	err = eachRow(rows, err, func(r *Rows) error {
		v, err := scan(r)
		all = append(all, v)
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// eachRow calls f for each row of a query.
func eachRow(rows *Rows, err error, f func(*Rows) error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
