package db

import (
	"context"
	"database/sql"
	"errors"
	"sync"
)

// maxReaders is how many read an embedded database at once.
const maxReaders = 8

// reader is a connection that reads, with its prepared statements. A new one has no connection yet.
type reader struct {
	conn       *sql.Conn
	statements statementCache
}

// readers are the connections that read an embedded database. They are kept here and not by package sql, which would have every
// statement parsed and planned again: that takes longer than most of them take to run.
type readers struct {
	from *sql.DB
	idle chan *reader

	mu     sync.Mutex
	closed bool
}

func (p *readers) open(from *sql.DB) {
	from.SetMaxOpenConns(maxReaders)
	from.SetMaxIdleConns(-1) // what is given up here is closed
	p.from, p.idle = from, make(chan *reader, maxReaders)
	for range maxReaders {
		p.idle <- &reader{}
	}
}

// begin takes a connection, when one is free, and begins a transaction on it. Whoever got one must end it.
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

// end undoes the transaction and gives the connection back. One that cannot be used again is replaced when it is wanted.
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

// close closes what nobody uses; the others close when their transactions end.
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
