package db

import (
	"context"
	"database/sql"
	"errors"
	"sync"
)

// maxReaders is the number of concurrent read transactions on SQLite.
const maxReaders = 8

// reader is a connection for read transactions, with its prepared statements. It is opened at its first use.
type reader struct {
	conn       *sql.Conn
	statements statementCache
}

// readers is a pool of SQLite connections for read transactions. The pool of package sql would parse and plan every
// statement again, which takes longer than executing most of them.
type readers struct {
	from *sql.DB
	idle chan *reader

	mu     sync.Mutex
	closed bool
}

func (p *readers) open(from *sql.DB) {
	from.SetMaxOpenConns(maxReaders)
	from.SetMaxIdleConns(-1) // connections that this pool discards are closed
	p.from, p.idle = from, make(chan *reader, maxReaders)
	for range maxReaders {
		p.idle <- &reader{}
	}
}

// begin waits for a free connection and begins a transaction on it. The caller must call end.
func (p *readers) begin(ctx context.Context) (*reader, error) {
	var r *reader
	select {
	case r = <-p.idle:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if r.conn == nil {
		conn, err := p.from.Conn(ctx)
		if err != nil {
			p.idle <- r
			return nil, err
		}
		r.conn, r.statements = conn, statementCache{}
	}
	if _, err := r.conn.ExecContext(ctx, "BEGIN"); err != nil {
		p.end(r)
		return nil, err
	}
	return r, nil
}

// end rolls the transaction back and releases the connection, or closes it if the rollback fails.
func (p *readers) end(r *reader) {
	_, err := r.conn.ExecContext(context.Background(), "ROLLBACK")
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil || p.closed {
		_ = r.close()
	}
	p.idle <- r
}

func (r *reader) close() (err error) {
	if r.conn != nil {
		err = errors.Join(r.statements.close(), r.conn.Close())
	}
	r.conn, r.statements = nil, nil
	return err
}

// close closes the idle connections. The others are closed when their transactions end.
func (p *readers) close() (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for range len(p.idle) {
		r := <-p.idle
		err = errors.Join(err, r.close())
		p.idle <- r
	}
	return errors.Join(err, p.from.Close())
}
