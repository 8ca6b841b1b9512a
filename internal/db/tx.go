package db

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrNoRows is what Scan of a QueryRow says when there is none.
var ErrNoRows = errors.New("db: no rows")

// Tx is a transaction: the only way to the rows, the only clock and the only source of ids.
type Tx struct {
	db       *DB
	conn     conn
	now      time.Time
	readOnly bool
	execs    int            // statements that changed rows, so that a failed function is known to have left traces
	began    int            // how many of them there were when the function at work began
	buffers  map[any]buffer // by group
	flushing bool           // a group is being written
	notices  []string
	looked   map[Ahead]any // what lookups found
}

// start fixes the instant of the transaction, and looks up what is known ahead.
func (t *Tx) start(ctx context.Context, ahead []Ahead) error {
	t.now = t.db.opt.Clock().UTC().Truncate(time.Microsecond)
	questions := t.questions(ahead)
	if t.db.opt.AdjustableClock {
		questions = append(questions, Question{"SELECT value FROM settings WHERE key = $1", []any{clockOffset}, func(r *Rows) error {
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
	return t.Ask(ctx, questions)
}

const clockOffset = "clock_offset"

// AdvanceClock moves the instants of all later transactions of an adjustable clock forward.
func (t *Tx) AdvanceClock(ctx context.Context, by time.Duration) error {
	if !t.db.opt.AdjustableClock {
		return errors.New("db: this clock is not adjustable")
	}
	_, err := t.Exec(ctx, `INSERT INTO settings (key, value) VALUES ($1, $2)
		ON CONFLICT (key) DO UPDATE SET value = CAST(CAST(settings.value AS BIGINT) + CAST(excluded.value AS BIGINT) AS TEXT)`,
		clockOffset, strconv.FormatInt(by.Microseconds(), 10))
	return err
}

// Now is the instant of the transaction, UTC, in whole microseconds.
func (t *Tx) Now() time.Time { return t.now }

// ReadOnly says that the transaction is that of Read: a snapshot of what is committed, in which nothing can be written.
func (t *Tx) ReadOnly() bool { return t.readOnly }

// Memo is what this process remembers about the database under a key, made at its first use. It lives as long as the DB,
// is shared by all its transactions, and outlives those that fail: only what is committed may enter it.
func (t *Tx) Memo(key any, first func() any) any {
	if v, ok := t.db.memo.Load(key); ok {
		return v
	}
	v, _ := t.db.memo.LoadOrStore(key, first())
	return v
}

// Engine says which database this is, for the few statements that must differ.
func (t *Tx) Engine() Engine { return t.db.engine }

var idEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// NewID makes an id: the prefix, "_", and 26 characters that sort by time: 48 bits of milliseconds and
// 80 random bits.
func (t *Tx) NewID(prefix string) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(t.now.UnixMilli())<<16)
	if _, err := rand.Read(b[6:]); err != nil {
		panic(err) // crypto/rand never fails on a supported system
	}
	return prefix + "_" + idEncoding.EncodeToString(b[:])
}

// Exec runs a statement and says how many rows it changed.
func (t *Tx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	if t.readOnly {
		return 0, errors.New("db: a write in a read-only transaction")
	}
	if err := t.writeNamed(ctx, query); err != nil {
		return 0, err
	}
	t.execs++
	return t.conn.exec(ctx, query, args)
}

// Later runs a statement that changes rows and whose count nobody needs. On PostgreSQL it may travel with a later statement or
// the commit, and what is against it shows there; refused, if not nil, says what its error means.
func (t *Tx) Later(ctx context.Context, refused func(error) error, query string, args ...any) error {
	if t.readOnly {
		return errors.New("db: a write in a read-only transaction")
	}
	if err := t.writeNamed(ctx, query); err != nil {
		return err
	}
	t.execs++
	return t.conn.later(ctx, refused, query, args)
}

// One runs a statement that has to change one row, and answers instead when it does not. On PostgreSQL it may travel with a later
// statement; what is against it then shows there, or before the commit, and nothing is committed.
func (t *Tx) One(ctx context.Context, instead error, query string, args ...any) error {
	if t.readOnly {
		return errors.New("db: a write in a read-only transaction")
	}
	if err := t.writeNamed(ctx, query); err != nil {
		return err
	}
	t.execs++
	return t.conn.one(ctx, instead, query, args)
}

// Statement is a statement with its arguments, and how many rows it changed once it has run.
type Statement struct {
	Query   string
	Args    []any
	Changed int64
}

// ExecAll runs statements in their order, each seeing what those before it did: on PostgreSQL in one round trip.
func (t *Tx) ExecAll(ctx context.Context, all []*Statement) error {
	if t.readOnly {
		return errors.New("db: a write in a read-only transaction")
	}
	for _, s := range all {
		if err := t.writeNamed(ctx, s.Query); err != nil {
			return err
		}
	}
	t.execs += len(all)
	return t.conn.execAll(ctx, all)
}

// Query runs a statement that returns rows. Close them before the next statement.
func (t *Tx) Query(ctx context.Context, query string, args ...any) (*Rows, error) {
	if err := t.writeNamed(ctx, query); err != nil {
		return nil, err
	}
	if !t.readOnly && returnsChanges(query) {
		t.execs++
	}
	return t.conn.query(ctx, query, args)
}

// QueryRow runs a statement for its first row.
func (t *Tx) QueryRow(ctx context.Context, query string, args ...any) Row {
	rows, err := t.Query(ctx, query, args...)
	return Row{rows, err}
}

// returnsChanges tells UPDATE … RETURNING from SELECT.
func returnsChanges(query string) bool {
	q := strings.TrimLeft(query, " \t\n")
	return !strings.HasPrefix(q, "SELECT") || strings.Contains(q, "RETURNING")
}

// Row is the first row of a query.
type Row struct {
	rows *Rows
	err  error
}

// Scan reads the row, or says ErrNoRows.
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
	// Reading on to the end is what tells a statement with RETURNING that it is finished.
	for r.rows.Next() {
	}
	return r.rows.Err()
}

// Rows are the rows of a query.
type Rows struct {
	sql   *sql.Rows
	pgx   pgx.Rows
	batch pgx.BatchResults // that the rows are the end of, or nil
}

// Next goes to the next row.
func (r *Rows) Next() bool {
	if r.pgx != nil {
		return r.pgx.Next()
	}
	return r.sql.Next()
}

// Scan reads the columns of the row.
func (r *Rows) Scan(dest ...any) error {
	if r.pgx != nil {
		return r.pgx.Scan(dest...)
	}
	return r.sql.Scan(dest...)
}

// Err is what ended the rows, if not their end.
func (r *Rows) Err() error {
	if r.pgx != nil {
		return r.pgx.Err()
	}
	return r.sql.Err()
}

// Close ends the query. Closing twice is fine.
func (r *Rows) Close() {
	if r.pgx != nil {
		r.pgx.Close()
		if r.batch != nil {
			_ = r.batch.Close() // what went wrong is in Err
		}
		return
	}
	_ = r.sql.Close() // what went wrong is in Err
}

// Collect reads all rows of a query with scan, which gets each row in turn.
func Collect[T any](rows *Rows, err error, scan func(*Rows) (T, error)) ([]T, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}

// Insert writes rows in as few statements as the engine allows. Later statements see them; on PostgreSQL one of those, or the
// commit, may be what tells that a constraint is against them.
func (t *Tx) Insert(ctx context.Context, table string, columns []string, rows [][]any) error {
	if len(rows) == 0 {
		return nil
	}
	if t.readOnly {
		return errors.New("db: a write in a read-only transaction")
	}
	t.execs++
	return t.conn.insert(ctx, table, columns, rows)
}

// Placeholders writes n groups of width binds, counting from start: "($1,$2),($3,$4)".
func Placeholders(n, width, start int) string {
	var b strings.Builder
	b.Grow(n * width * 6)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('(')
		for j := range width {
			if j > 0 {
				b.WriteByte(',')
			}
			b.WriteByte('$')
			b.WriteString(strconv.Itoa(start + i*width + j))
		}
		b.WriteByte(')')
	}
	return b.String()
}

// inLengths are the few lengths of an IN list on SQLite, so that few statement texts exist and stay prepared. Its driver takes
// time by the square of the number of binds.
var inLengths = []int{1, 8, 64}

// In is what follows IN for any number of ids: it yields the text, with binds counted from first, and its arguments. On
// PostgreSQL that is one array, whatever its length, so that one plan by the index serves all; on SQLite it is lists, and one
// that is shorter than its text is filled up with its last id.
func (t *Tx) In(ids []string, first int) iter.Seq2[string, []any] {
	return func(yield func(string, []any) bool) {
		if t.db.engine == Postgres {
			if len(ids) > 0 {
				yield("(SELECT unnest($"+strconv.Itoa(first)+"::text[]))", []any{ids})
			}
			return
		}
		for ids := range slices.Chunk(ids, inLengths[len(inLengths)-1]) {
			length := inLengths[slices.IndexFunc(inLengths, func(n int) bool { return n >= len(ids) })]
			args := make([]any, length)
			for i := range args {
				args[i] = ids[min(i, len(ids)-1)]
			}
			if !yield(Placeholders(1, length, first), args) {
				return
			}
		}
	}
}

// Values is a table of rows for a statement that works on many at once: it yields the text of a query that gives them, with
// binds counted from first, and its arguments. On PostgreSQL that is one query with an array for each column, whatever the
// number of rows; on SQLite it is lists of values, each for a statement of its own. A column holds strings, int64s or bools.
func (t *Tx) Values(rows [][]any, first int) iter.Seq2[string, []any] {
	return func(yield func(string, []any) bool) {
		if len(rows) == 0 {
			return
		}
		if t.db.engine == Postgres {
			types, arrays := transpose(rows)
			if arrays == nil {
				panic("db: a column of Values is not of one type: string, int64 or bool")
			}
			yield("SELECT * FROM "+unnest(types, first), arrays)
			return
		}
		width := len(rows[0])
		for _, n := range Chunks(len(rows), insertRows(width)) {
			if !yield("VALUES "+Placeholders(n, width, first), flatten(rows[:n], width)) {
				return
			}
			rows = rows[n:]
		}
	}
}

// Notify tells the listeners of a topic in this process, once the transaction is committed, that there is news.
func (t *Tx) Notify(topic string) {
	if !slices.Contains(t.notices, topic) {
		t.notices = append(t.notices, topic)
	}
}

// Lock takes an advisory lock on a number until the transaction ends (pg_advisory_xact_lock). In a [PreCommit] group it makes
// transactions commit one at a time and holds others up for the commit only. On SQLite one transaction writes at a time anyway.
func (t *Tx) Lock(ctx context.Context, number int64) error {
	if t.db.engine == SQLite {
		return nil
	}
	return t.Later(ctx, nil, "SELECT pg_advisory_xact_lock($1)", number)
}

// conn is what differs between the engines.
type conn interface {
	exec(ctx context.Context, query string, args []any) (int64, error)
	execAll(ctx context.Context, all []*Statement) error
	query(ctx context.Context, query string, args []any) (*Rows, error)
	ask(ctx context.Context, all []Question) error
	later(ctx context.Context, refused func(error) error, query string, args []any) error
	one(ctx context.Context, instead error, query string, args []any) error
	settle(ctx context.Context) error // what one was called for is certain
	insert(ctx context.Context, table string, columns []string, rows [][]any) error
}

// insertText is one of the few texts that insert n rows; writing it costs about as much as running it.
type insertText struct {
	table, columns string
	n              int
}

var insertTexts sync.Map // insertText → statement

func insertStatement(table string, columns []string, n int) string {
	key := insertText{table, strings.Join(columns, ", "), n}
	if text, ok := insertTexts.Load(key); ok {
		return text.(string)
	}
	text := "INSERT INTO " + table + " (" + key.columns + ") VALUES " + Placeholders(n, len(columns), 1)
	insertTexts.Store(key, text)
	return text
}

// Chunks cuts n rows into powers of two, so that few statement texts exist and stay prepared.
func Chunks(n, most int) []int {
	var sizes []int
	for n > 0 {
		size := most
		for size > n {
			size /= 2
		}
		sizes = append(sizes, size)
		n -= size
	}
	return sizes
}

func flatten(rows [][]any, width int) []any {
	args := make([]any, 0, len(rows)*width)
	for _, r := range rows {
		args = append(args, r...)
	}
	return args
}
