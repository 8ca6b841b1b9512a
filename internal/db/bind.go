package db

import (
	"context"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Placeholders returns n groups of placeholders, width in each, numbered from start: "($1,$2),($3,$4)" for n = 2,
// width = 2 and start = 1.
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

// listLengths are the only lengths of an IN list on SQLite. Using few lengths keeps the number of prepared statements
// small. They are short because the driver's time grows with the square of the number of placeholders.
var listLengths = []int{1, 8, 64}

// BindList yields the right side of an SQL IN for any number of IDs: the text, with placeholders numbered from first,
// and the arguments. On PostgreSQL it yields once, with a single array of all IDs, so that one plan serves any
// number. On SQLite it yields one list of at most 64 placeholders per statement that the caller must execute, and
// pads a short list by repeating its last ID.
func BindList(tx *Tx, ids []string, first int) iter.Seq2[string, []any] {
	return func(yield func(string, []any) bool) {
		if tx.db.engine == Postgres {
			if len(ids) > 0 {
				yield("(SELECT unnest($"+strconv.Itoa(first)+"::text[]))", []any{ids})
			}
			return
		}
		BindKeys(ids, first)(yield)
	}
}

// BindKeys is like [BindList], for an indexed column of a large table in which most of the values have no row. On
// both engines it yields lists of at most 64 placeholders. It passes no array to PostgreSQL, because the planner does
// not know the length of an array: it would plan the statement anew each time or read the whole table.
func BindKeys(ids []string, first int) iter.Seq2[string, []any] {
	return func(yield func(string, []any) bool) {
		for ids := range slices.Chunk(ids, listLengths[len(listLengths)-1]) {
			length := listLengths[slices.IndexFunc(listLengths, func(n int) bool { return n >= len(ids) })]
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

// EachIn runs a query for a list of values, in as few statements as the engine allows, and calls row for each row of
// the results. The query contains %s in place of the right side of IN, and args are its other arguments.
func EachIn(ctx context.Context, tx *Tx, values []string, query string, args []any, row func(*Rows) error) error {
	for in, list := range BindList(tx, values, len(args)+1) {
		rows, err := tx.Query(ctx, strings.Replace(query, "%s", in, 1), slices.Concat(args, list)...)
		_, err = Collect(rows, err, func(r *Rows) (none struct{}, err error) { return none, row(r) })
		if err != nil {
			return err
		}
	}
	return nil
}

// BindRows yields the text of a query that returns the given rows, and its arguments, for use in a statement that
// changes many rows at once. Placeholders are numbered from first. On PostgreSQL it yields once, with an array for
// each column. On SQLite it yields one VALUES list per statement that the caller must execute. Each column must
// contain only strings, only int64s or only bools.
func BindRows(tx *Tx, rows [][]any, first int) iter.Seq2[string, []any] {
	return func(yield func(string, []any) bool) {
		if len(rows) == 0 {
			return
		}
		if tx.db.engine == Postgres {
			types, arrays := transpose(rows)
			if arrays == nil {
				panic("db: a column of BindRows has values that are not all strings, int64s or bools")
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

// Chunks splits n into powers of two, each no greater than most. Using few sizes keeps the number of prepared
// statements small.
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

// insertKey identifies the text of a statement that inserts n rows.
type insertKey struct {
	table, columns string
	n              int
}

// insertTexts caches the texts of INSERT statements, because building a text takes about as long as executing it.
var insertTexts sync.Map // insertKey → string

func insertStatement(table string, columns []string, n int) string {
	key := insertKey{table, strings.Join(columns, ", "), n}
	if text, ok := insertTexts.Load(key); ok {
		return text.(string)
	}
	text := "INSERT INTO " + table + " (" + key.columns + ") VALUES " + Placeholders(n, len(columns), 1)
	insertTexts.Store(key, text)
	return text
}
