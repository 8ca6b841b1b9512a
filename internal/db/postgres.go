package db

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// pgConn is a transaction on PostgreSQL. A round trip costs more than a row, so a statement without a result is
// queued and sent with the next statement that returns one, or with the commit. BEGIN, inserts, and the statements of
// Queue and ExecOne are queued.
type pgConn struct {
	c       *pgxpool.Conn
	queued  *pgx.Batch
	single  map[int]bool // indexes of the queued statements that must change exactly one row
	aborted error        // set when one of these did not change exactly one row: the transaction must not commit
}

// connectTimeout is the longest time that a transaction waits for a connection. After it, the caller receives an
// error that asks it to retry, so that the number of waiting callers does not grow without bound.
const connectTimeout = 2 * time.Second

// pingTimeout is the time within which an idle connection must respond to a ping to be used.
const pingTimeout = 500 * time.Millisecond

func beginPostgres(ctx context.Context, pool *pgxpool.Pool, begin string) (*pgConn, error) {
	short, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	c, err := pool.Acquire(short)
	if err != nil && ctx.Err() == nil && short.Err() != nil {
		return nil, &unavailable{ErrRetryLater, errConnections}
	}
	if err != nil {
		return nil, err
	}
	p := &pgConn{c: c, queued: &pgx.Batch{}}
	p.queued.Queue(begin)
	return p, nil
}

// flush sends the queued statements and reads all results except the last unread ones, which the caller reads.
func (p *pgConn) flush(ctx context.Context, unread int) (results pgx.BatchResults, err error) {
	if p.aborted != nil {
		return nil, p.aborted
	}
	results, n, single := p.c.SendBatch(ctx, p.queued), p.queued.Len(), p.single
	p.queued, p.single = &pgx.Batch{}, nil
	for i := range n - unread {
		tag, err := results.Exec()
		if err == nil && single[i] && tag.RowsAffected() != 1 {
			p.aborted = ErrConflict
			err = ErrConflict
		}
		if err != nil {
			_ = results.Close() // returns the same error
			return nil, err
		}
	}
	return results, nil
}

// send sends the queued statements and returns the command tag of the last one.
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

// sendAll sends the queued statements and reads all results.
func (p *pgConn) sendAll(ctx context.Context) error {
	results, err := p.flush(ctx, 0)
	if err != nil {
		return err
	}
	return results.Close()
}

func (p *pgConn) commit(ctx context.Context) error {
	p.queued.Queue("COMMIT")
	tag, err := p.send(ctx)
	if err == nil && tag.String() == "ROLLBACK" {
		err = pgx.ErrTxCommitRollback
	}
	return err
}

// end releases the connection. It rolls back a transaction that was not committed.
func (p *pgConn) end(ctx context.Context) {
	if p.c.Conn().PgConn().TxStatus() != 'I' {
		_, _ = p.c.Exec(context.WithoutCancel(ctx), "ROLLBACK") // if it fails, the pool closes the connection
	}
	p.c.Release()
}

func (p *pgConn) exec(ctx context.Context, query string, args []any) (int64, error) {
	p.queued.Queue(query, args...)
	tag, err := p.send(ctx)
	return tag.RowsAffected(), err
}

func (p *pgConn) execOne(_ context.Context, query string, args []any) error {
	if p.single == nil {
		p.single = map[int]bool{}
	}
	p.single[p.queued.Len()] = true
	p.queued.Queue(query, args...)
	return nil
}

func (p *pgConn) queue(_ context.Context, query string, args []any) error {
	p.queued.Queue(query, args...)
	return nil
}

// maxBatchStatements is the maximum number of statements in a round trip. Without a limit, client and server could
// deadlock, each waiting for the other to read.
const maxBatchStatements = 256

func (p *pgConn) batch(ctx context.Context, statements []Statement) error {
	for some := range slices.Chunk(statements, maxBatchStatements) {
		for _, s := range some {
			p.queued.Queue(s.Query, s.Args...)
		}
		results, err := p.flush(ctx, len(some))
		if err != nil {
			return err
		}
		for i := 0; i < len(some) && err == nil; i++ {
			err = some[i].read(results)
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

// read reads the results of the statement.
func (s Statement) read(results pgx.BatchResults) error {
	if s.Row != nil {
		rows, err := results.Query()
		return eachRow(&Rows{pgx: rows}, err, s.Row)
	}
	tag, err := results.Exec()
	if s.Changed != nil {
		*s.Changed = tag.RowsAffected()
	}
	return err
}

func (p *pgConn) query(ctx context.Context, query string, args []any) (*Rows, error) {
	if p.queued.Len() == 0 && p.aborted == nil {
		rows, err := p.c.Query(ctx, query, args...)
		return &Rows{pgx: rows}, err
	}
	p.queued.Queue(query, args...)
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

// settle reads the results of execOne before the commit is sent, because one of them may forbid the commit.
func (p *pgConn) settle(ctx context.Context) error {
	if p.aborted != nil || len(p.single) == 0 {
		return p.aborted
	}
	return p.sendAll(ctx)
}

// copyFrom is the number of rows above which rows are inserted with COPY.
const copyFrom = 2000

// insert queues one statement with an array for each column, so a later statement or the commit reports a violated
// constraint. More than copyFrom rows are sent at once with COPY, which costs less per row.
func (p *pgConn) insert(ctx context.Context, table string, columns []string, rows [][]any) error {
	if len(rows) > copyFrom {
		if p.queued.Len() > 0 {
			if err := p.sendAll(ctx); err != nil {
				return err
			}
		}
		_, err := p.c.CopyFrom(ctx, pgx.Identifier{table}, columns, pgx.CopyFromRows(rows))
		return err
	}
	if len(rows) > 1 {
		if types, arrays := transpose(rows); arrays != nil {
			p.queued.Queue("INSERT INTO "+table+" ("+strings.Join(columns, ", ")+") SELECT * FROM "+unnest(types, 1),
				arrays...)
			return nil
		}
	}
	for _, n := range Chunks(len(rows), 64) {
		p.queued.Queue(insertStatement(table, columns, n), flatten(rows[:n], len(columns))...)
		rows = rows[n:]
	}
	return nil
}

// transpose converts rows to one array per column and returns the arrays with their PostgreSQL types. It returns nil
// if a column contains anything but only strings, only int64s or only bools.
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
