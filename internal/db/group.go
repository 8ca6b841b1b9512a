package db

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
)

// writeOrder is the order in which a transaction writes its groups; a group's position is that of its first table.
// Because every transaction takes its locks in this order, transactions do not deadlock. A table comes after the
// tables that its rows refer to. Tables with rows for which many transactions compete come last.
var writeOrder = []string{
	"chain_addresses",
	"payrolls",
	"quotes",
	"outputs",
	"payments",
	"claim_rate_limits", // counts the claims that are not written yet
	"claims",
	"lightning_invoices",
	"metadata_values",
	"ledger_journals",
	"history",
	"destination_changes",
	"mails",
	"idempotency",
	"jobs",
	"webhook_deliveries",
	"webhook_endpoints", // reads webhook_deliveries
	"recipient_counts",  // concurrent transactions of the same company compete for its row
	"settings",          // tests only
}

// preCommit is the position in the write order of groups that are written only at the commit.
const preCommit = math.MaxInt

// Group writes rows in bulk. Write functions add items to the transaction's buffer. The items of all functions that
// share the transaction are written together: at the commit, or before the first statement that names one of the
// group's tables, so that a transaction sees its own writes. Create each group once, in a package variable.
type Group[T any] struct {
	order  int
	tables []string
	write  func(context.Context, *Tx, []T) error
}

// NewGroup returns a group whose items are stored in the named tables by write. The first table's position in
// writeOrder is the group's position. Statements that write executes do not cause other groups to be written; items
// that write adds to other groups are written after it returns.
func NewGroup[T any](write func(ctx context.Context, tx *Tx, items []T) error, tables ...string) *Group[T] {
	order := slices.Index(writeOrder, tables[0])
	if order < 0 {
		panic(fmt.Sprintf("db: table %s is not in writeOrder", tables[0]))
	}
	return &Group[T]{order, tables, write}
}

// PreCommit returns a group that is written directly before the commit, after all other groups. Statements of the
// transaction do not see its rows. The function write must not add items to other groups. If write calls only
// [Tx.Queue], its statements are sent to PostgreSQL together with the commit, so the locks that they take are held
// only during the commit.
func PreCommit[T any](write func(ctx context.Context, tx *Tx, items []T) error) *Group[T] {
	return &Group[T]{preCommit, nil, write}
}

// BulkInsert returns a group that inserts rows into a table. An item is a row: the values of the columns.
func BulkInsert(table string, columns ...string) *Group[[]any] {
	return NewGroup(func(ctx context.Context, tx *Tx, rows [][]any) error {
		return tx.Insert(ctx, table, columns, rows)
	}, table)
}

// Add adds an item to the transaction's buffer.
func (g *Group[T]) Add(tx *Tx, item T) {
	if tx.buffers == nil {
		tx.buffers = map[any]buffer{}
	}
	b, ok := tx.buffers[g].(*items[T])
	if !ok {
		b = &items[T]{group: g}
		tx.buffers[g] = b
	}
	b.all = append(b.all, item)
	if tx.flushing {
		tx.execs++ // the item is perhaps not of the current function, so it cannot be removed
	}
}

// Buffered returns the group's items that are not written yet, including those of other functions that share the
// transaction.
func (g *Group[T]) Buffered(tx *Tx) []T {
	if b, ok := tx.buffers[g].(*items[T]); ok {
		return b.all
	}
	return nil
}

// items holds the buffered items of a group.
type items[T any] struct {
	group *Group[T]
	all   []T
}

// buffer is an items value of any type.
type buffer interface {
	order() int
	len() int
	truncate(n int)
	names(query string) bool
	write(ctx context.Context, tx *Tx) error
}

func (b *items[T]) order() int     { return b.group.order }
func (b *items[T]) len() int       { return len(b.all) }
func (b *items[T]) truncate(n int) { b.all = b.all[:n] }

// names reports whether a statement names one of the group's tables.
func (b *items[T]) names(query string) bool {
	return slices.ContainsFunc(b.group.tables, func(table string) bool { return hasWord(query, table) })
}

func (b *items[T]) write(ctx context.Context, tx *Tx) error {
	all := b.all
	b.all = nil
	return b.group.write(ctx, tx, all)
}

// hasWord reports whether text contains word as a whole identifier, not as part of a longer one.
func hasWord(text, word string) bool {
	part := func(c byte) bool {
		return c == '_' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z'
	}
	for at := 0; ; {
		i := strings.Index(text[at:], word)
		if i < 0 {
			return false
		}
		start, end := at+i, at+i+len(word)
		if (start == 0 || !part(text[start-1])) && (end == len(text) || !part(text[end])) {
			return true
		}
		at = end
	}
}

type storedOnly struct{}

// StoredOnly returns a context for statements that must read only stored rows: buffered rows are not written before
// them. Its callers count the buffered items themselves (see [Group.Buffered]).
func StoredOnly(ctx context.Context) context.Context {
	return context.WithValue(ctx, storedOnly{}, true)
}

// writeNamed writes the groups whose tables a statement names, and all groups before them in writeOrder.
func (t *Tx) writeNamed(ctx context.Context, query string) error {
	if t.flushing || len(t.buffers) == 0 || t.failed != nil {
		return t.failed
	}
	last := -1
	for _, b := range t.buffers {
		if b.len() > 0 && b.order() != preCommit && b.order() > last && b.names(query) {
			last = b.order()
		}
	}
	if last < 0 || ctx.Value(storedOnly{}) != nil {
		return nil
	}
	return t.flush(ctx, last+1)
}

// flush writes the groups whose position is less than before, in order. Writing a group that contains only items of
// earlier functions does not count as a change by the current function. After an error the transaction can only be
// rolled back, because rows may be missing.
func (t *Tx) flush(ctx context.Context, before int) error {
	if t.flushing {
		return nil
	}
	t.flushing = true
	defer func() { t.flushing = false }()
	for {
		var first buffer
		for _, b := range t.buffers {
			if b.len() > 0 && b.order() < before && (first == nil || b.order() < first.order()) {
				first = b
			}
		}
		if first == nil {
			return nil
		}
		if first.len() > t.before[first] {
			t.execs++
		}
		delete(t.before, first)
		if t.failed = first.write(ctx, t); t.failed != nil {
			return t.failed
		}
	}
}

// finish writes all buffered items. Items of PreCommit groups are written last.
func (t *Tx) finish(ctx context.Context) error {
	if t.failed != nil {
		return t.failed
	}
	if err := t.flush(ctx, preCommit); err != nil {
		return err
	}
	if err := t.conn.settle(ctx); err != nil {
		return err
	}
	for _, b := range t.buffers {
		if b.len() > 0 {
			if err := b.write(ctx, t); err != nil {
				return err
			}
		}
	}
	return nil
}

// mark records which buffered items exist before a function runs, for rewind.
func (t *Tx) mark() {
	t.began, t.before = t.execs, make(map[buffer]int, len(t.buffers))
	for _, b := range t.buffers {
		t.before[b] = b.len()
	}
}

// rewind removes the items that the current function added. It may only be called if none of them was written.
func (t *Tx) rewind() {
	for _, b := range t.buffers {
		b.truncate(t.before[b])
	}
}
