package db

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// pgConn is a transaction on PostgreSQL. A round trip costs more than a row, so what answers nothing waits and travels with
// the next statement that answers, or with the commit: BEGIN, inserts, and what nobody needs the count of.
type pgConn struct {
	c       *pgxpool.Conn
	waiting *pgx.Batch
	refused map[int]func(error) error // what the error of a statement that waits means, by its place
	single  map[int]error             // what it means that a statement that waits does not change one row, by its place
	broken  error                     // that meaning once it is so: whatever comes then, nothing may be committed
}

// waitForConnection is how long a transaction waits for one. Whoever waits longer is better told to come back: a queue that
// nobody leaves only grows.
const waitForConnection = 2 * time.Second

func beginPostgres(ctx context.Context, pool *pgxpool.Pool, begin string) (*pgConn, error) {
	short, cancel := context.WithTimeout(ctx, waitForConnection)
	defer cancel()
	c, err := pool.Acquire(short)
	if err != nil && ctx.Err() == nil && short.Err() != nil {
		return nil, fmt.Errorf("%w (no database connection became free)", ErrRetryLater)
	}
	if err != nil {
		return nil, err
	}
	p := &pgConn{c: c, waiting: &pgx.Batch{}}
	p.waiting.Queue(begin)
	return p, nil
}

// flush sends what waits. All but the last few statements have answered well when it returns without an error.
func (p *pgConn) flush(ctx context.Context, unread int) (results pgx.BatchResults, err error) {
	if p.broken != nil {
		return nil, p.broken
	}
	results, n, refused, single := p.c.SendBatch(ctx, p.waiting), p.waiting.Len(), p.refused, p.single
	p.waiting, p.refused, p.single = &pgx.Batch{}, nil, nil
	for i := range n - unread {
		tag, err := results.Exec()
		if err != nil {
			_ = results.Close() // the same error
			if explain := refused[i]; explain != nil {
				err = explain(err)
			}
			return nil, err
		}
		if instead := single[i]; instead != nil && tag.RowsAffected() != 1 {
			_ = results.Close() // nothing of it counts any more
			p.broken = instead
			return nil, instead
		}
	}
	return results, nil
}

// send sends what waits and gives the tag of its last statement.
func (p *pgConn) send(ctx context.Context) (tag pgconn.CommandTag, err error) {
	results, err := p.flush(ctx, 1)
	if err != nil {
		return tag, err
	}
	tag, err = results.Exec()
	if closed := results.Close(); err == nil {
		err = closed
	}
	return tag, err
}

func (p *pgConn) commit(ctx context.Context) error {
	p.waiting.Queue("COMMIT")
	tag, err := p.send(ctx)
	if err == nil && tag.String() == "ROLLBACK" {
		err = pgx.ErrTxCommitRollback
	}
	return err
}

// end gives the connection back, and takes back what is not committed.
func (p *pgConn) end(ctx context.Context) {
	if p.c.Conn().PgConn().TxStatus() != 'I' {
		_, _ = p.c.Exec(context.WithoutCancel(ctx), "ROLLBACK") // if that fails, the pool drops the connection
	}
	p.c.Release()
}

func (p *pgConn) exec(ctx context.Context, query string, args []any) (int64, error) {
	p.waiting.Queue(query, args...)
	tag, err := p.send(ctx)
	return tag.RowsAffected(), err
}

// mostWaiting bounds what travels at once, so that neither side waits for the other to read.
const mostWaiting = 256

func (p *pgConn) execAll(ctx context.Context, all []*Statement) error {
	for some := range slices.Chunk(all, mostWaiting) {
		for _, s := range some {
			p.waiting.Queue(s.Query, s.Args...)
		}
		results, err := p.flush(ctx, len(some))
		if err != nil {
			return err
		}
		for i := 0; i < len(some) && err == nil; i++ {
			var tag pgconn.CommandTag
			tag, err = results.Exec()
			some[i].Changed = tag.RowsAffected()
		}
		if closed := results.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *pgConn) query(ctx context.Context, query string, args []any) (*Rows, error) {
	if p.waiting.Len() == 0 && p.broken == nil {
		rows, err := p.c.Query(ctx, query, args...)
		return &Rows{pgx: rows}, err
	}
	p.waiting.Queue(query, args...)
	results, err := p.flush(ctx, 1)
	if err != nil {
		return nil, err
	}
	rows, err := results.Query()
	if err != nil {
		_ = results.Close()
		return nil, err
	}
	return &Rows{pgx: rows, batch: results}, nil
}

func (p *pgConn) ask(ctx context.Context, all []Question) error {
	for some := range slices.Chunk(all, mostWaiting) {
		for _, q := range some {
			p.waiting.Queue(q.Query, q.Args...)
		}
		results, err := p.flush(ctx, len(some))
		if err != nil {
			return err
		}
		for i := 0; i < len(some) && err == nil; i++ {
			rows, failed := results.Query()
			err = some[i].read(&Rows{pgx: rows}, failed)
		}
		if closed := results.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *pgConn) later(_ context.Context, refused func(error) error, query string, args []any) error {
	if refused != nil {
		if p.refused == nil {
			p.refused = map[int]func(error) error{}
		}
		p.refused[p.waiting.Len()] = refused
	}
	p.waiting.Queue(query, args...)
	return nil
}

func (p *pgConn) one(_ context.Context, instead error, query string, args []any) error {
	if p.single == nil {
		p.single = map[int]error{}
	}
	p.single[p.waiting.Len()] = instead
	p.waiting.Queue(query, args...)
	return nil
}

// settle reads the counts before the commit is sent: it must not travel with what may forbid it.
func (p *pgConn) settle(ctx context.Context) error {
	if p.broken != nil {
		return p.broken
	}
	if len(p.single) == 0 {
		return nil
	}
	results, err := p.flush(ctx, 0)
	if err != nil {
		return err
	}
	return results.Close()
}

// insert is one statement, with an array for each column, which waits; so a violation shows with a later statement or the commit.
// Very many rows go by COPY, which does not wait, but costs less for each.
func (p *pgConn) insert(ctx context.Context, table string, columns []string, rows [][]any) error {
	if len(rows) > 2000 {
		if p.waiting.Len() > 0 {
			results, err := p.flush(ctx, 0)
			if err == nil {
				err = results.Close()
			}
			if err != nil {
				return err
			}
		}
		_, err := p.c.CopyFrom(ctx, pgx.Identifier{table}, columns, pgx.CopyFromRows(rows))
		return err
	}
	if len(rows) > 1 {
		if types, arrays := transpose(rows); arrays != nil {
			p.waiting.Queue("INSERT INTO "+table+" ("+strings.Join(columns, ", ")+") SELECT * FROM "+unnest(types, 1), arrays...)
			return nil
		}
	}
	for _, n := range Chunks(len(rows), 64) {
		p.waiting.Queue(insertStatement(table, columns, n), flatten(rows[:n], len(columns))...)
		rows = rows[n:]
	}
	return nil
}

// transpose makes an array of each column, with its type; nil when a column is not all strings, all int64s or all bools.
func transpose(rows [][]any) (types []string, arrays []any) {
	width := len(rows[0])
	types, arrays = make([]string, width), make([]any, width)
	for c := range width {
		var ok bool
		switch rows[0][c].(type) {
		case string:
			types[c] = "text"
			arrays[c], ok = column[string](rows, c)
		case int64:
			types[c] = "bigint"
			arrays[c], ok = column[int64](rows, c)
		case bool:
			types[c] = "boolean"
			arrays[c], ok = column[bool](rows, c)
		}
		if !ok {
			return nil, nil
		}
	}
	return types, arrays
}

func column[T any](rows [][]any, c int) ([]T, bool) {
	all := make([]T, len(rows))
	for i, r := range rows {
		v, ok := r[c].(T)
		if !ok {
			return nil, false
		}
		all[i] = v
	}
	return all, true
}

func unnest(types []string, first int) string {
	var b strings.Builder
	b.WriteString("unnest(")
	for i, t := range types {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('$')
		b.WriteString(strconv.Itoa(first + i))
		b.WriteString("::")
		b.WriteString(t)
		b.WriteString("[]")
	}
	b.WriteByte(')')
	return b.String()
}
