package db

import (
	"context"
	"database/sql"
	"errors"
	"sync"
)

// maxReaders is the maximum number of concurrent read transactions on SQLite.
const maxReaders = 8

// readers is a pool of SQLite connections for read transactions. The pool of package database/sql would parse and
// plan each statement again, which takes longer than executing most of them. The connection used last is reused
// first, because its statements are prepared, and so that no more connections are opened than are in use at the same
// time.
type readers struct {
	from      *sql.DB
	intercept Intercept
	free      chan struct{} // capacity for each further read transaction that may begin

	mu     sync.Mutex
	idle   []sqliteConn // the connection used last is at the end
	closed bool
}

func (p *readers) open(from *sql.DB, intercept Intercept) {
	from.SetMaxOpenConns(maxReaders)
	from.SetMaxIdleConns(-1) // database/sql keeps no idle connections: it closes each one that this pool discards
	p.from, p.free, p.intercept = from, make(chan struct{}, maxReaders), intercept
	for range maxReaders {
		p.free <- struct{}{}
	}
}

// begin waits for a free connection and begins a transaction on it. The caller must call end.
func (p *readers) begin(ctx context.Context) (r sqliteConn, err error) {
	if err := ctx.Err(); err != nil {
		return r, err // checked first, because a select with two ready cases chooses one at random
	}
	select {
	case <-p.free:
	case <-ctx.Done():
		return r, ctx.Err()
	}
	r, err = p.take(ctx)
	if err != nil {
		p.free <- struct{}{}
		return r, err
	}
	if _, err := r.exec(ctx, "BEGIN", nil); err != nil {
		p.end(r)
		return r, err
	}
	return r, nil
}

// take returns the idle connection that was used last, or opens a new one.
func (p *readers) take(ctx context.Context) (sqliteConn, error) {
	p.mu.Lock()
	if last := len(p.idle) - 1; last >= 0 {
		r := p.idle[last]
		p.idle = p.idle[:last]
		p.mu.Unlock()
		return r, nil
	}
	p.mu.Unlock()
	conn, err := p.from.Conn(ctx)
	return sqliteConn{conn, map[string]*sql.Stmt{}, p.intercept}, err
}

// end rolls the transaction back and releases the connection, or closes it if the rollback fails.
func (p *readers) end(r sqliteConn) {
	_, err := r.exec(context.Background(), "ROLLBACK", nil)
	p.mu.Lock()
	if err != nil || p.closed {
		_ = r.close()
	} else {
		p.idle = append(p.idle, r)
	}
	p.mu.Unlock()
	p.free <- struct{}{}
}

// close closes the idle connections. Connections in use are closed when their transactions end.
func (p *readers) close() (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, r := range p.idle {
		err = errors.Join(err, r.close())
	}
	p.idle = nil
	return errors.Join(err, p.from.Close())
}
