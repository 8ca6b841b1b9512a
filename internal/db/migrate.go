package db

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations are the embedded files, for the tests about them.
func Migrations() fs.FS {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		panic(err) // the directory is part of the program
	}
	return sub
}

// Alone is in a migration that older programs cannot live with: what they write or read would be wrong. Every other one only adds what
// they overlook, so that they may go on beside newer ones.
const Alone = "-- +stipend Alone"

// What stands between a program and a schema.
var (
	// ErrSchema means that the database was not brought to this program's schema.
	ErrSchema = errors.New("the database does not have this program's tables; run `stipend migrate` on it first, if it is the right one")
	// ErrNewer means that a newer program has migrated the database. Nobody knows whether an older one can work with that.
	ErrNewer = errors.New("a newer version of Stipend has migrated this database; start that version, since this one does not know the schema")
	// ErrServed means that a migration waits until older programs have stopped.
	ErrServed = errors.New("processes of an older version serve this database, and cannot work with what this version makes of it; stop them all, then start this one")
)

// Migrate brings the schema up to this program's. Forward only; running it twice, or from several processes
// at once, is harmless. It returns ErrNewer when the schema is ahead of the program, and ErrServed when a migration that must be alone
// finds processes that have joined (see Join).
func (d *DB) Migrate(ctx context.Context) error {
	return d.withMigrations(func(p *goose.Provider) error {
		if err := notNewer(ctx, p); err != nil {
			return err
		}
		if _, err := p.Up(ctx); err != nil {
			return fmt.Errorf("migrate: %w", err)
		}
		return nil
	})
}

// CheckSchema is nil when the schema is this program's, else ErrSchema or ErrNewer.
func (d *DB) CheckSchema(ctx context.Context) error {
	return d.withMigrations(func(p *goose.Provider) error {
		switch pending, err := p.HasPending(ctx); {
		case err != nil:
			return fmt.Errorf("read the schema's version: %w", err)
		case pending:
			return ErrSchema
		}
		return notNewer(ctx, p)
	})
}

func notNewer(ctx context.Context, p *goose.Provider) error {
	has, knows, err := p.GetVersions(ctx)
	if err == nil && has > knows {
		err = fmt.Errorf("%w (it is at %04d, this version at %04d)", ErrNewer, has, knows)
	}
	return err
}

// presence is what all that serve a database share, and what a migration takes that must be alone: the number of a lock on PostgreSQL.
const presence int64 = 7310027612019042417

// Join says that this process serves the database, until it is closed: no migration that must be alone begins meanwhile. Whoever has joined
// already only sees to it that this still holds, since a lost connection takes it along. On SQLite one process serves at a time.
func (d *DB) Join(ctx context.Context) error {
	if d.engine != Postgres {
		return nil
	}
	d.joining.Lock()
	defer d.joining.Unlock()
	if d.joined != nil && d.joined.Ping(ctx) == nil {
		return nil
	}
	d.leave(ctx)
	conn, err := pgx.ConnectConfig(ctx, d.pool.Config().ConnConfig.Copy())
	if err != nil {
		return classify(err)
	}
	d.joined = conn
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock_shared($1)", presence); err != nil {
		d.leave(ctx)
		return classify(err)
	}
	if err := d.CheckSchema(ctx); err != nil { // somebody may have migrated since
		d.leave(ctx)
		return err
	}
	return nil
}

func (d *DB) leave(ctx context.Context) {
	if d.joined != nil {
		_ = d.joined.Close(ctx) // whatever it says, the server lets go of its lock
		d.joined = nil
	}
}

func (d *DB) withMigrations(f func(*goose.Provider) error) error {
	dialect, conn := goose.DialectSQLite3, d.writer
	var options []goose.ProviderOption
	if d.engine == Postgres {
		dialect, conn = goose.DialectPostgres, stdlib.OpenDBFromPool(d.pool)
		one, err := lock.NewPostgresSessionLocker()
		if err != nil {
			return err
		}
		last, err := lastAlone()
		if err != nil {
			return err
		}
		options = append(options, goose.WithSessionLocker(&locker{SessionLocker: one, alone: last}))
		defer func(c *sql.DB) { _ = c.Close() }(conn)
	}
	p, err := goose.NewProvider(dialect, conn, Migrations(), options...)
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	return f(p)
}

// lastAlone is the number of the last migration that must be alone, 0 without one.
func lastAlone() (number int64, err error) {
	files, err := fs.ReadDir(Migrations(), ".")
	for _, f := range files {
		text, failed := fs.ReadFile(Migrations(), f.Name())
		if failed != nil {
			return 0, failed
		}
		if strings.Contains(string(text), Alone) {
			if number, err = goose.NumericComponent(f.Name()); err != nil {
				return 0, err
			}
		}
	}
	return number, err
}

// locker lets one process migrate at a time, and one that must be alone only where nobody serves.
type locker struct {
	lock.SessionLocker
	alone int64
	held  bool // nobody joins
}

func (l *locker) SessionLock(ctx context.Context, conn *sql.Conn) error {
	if err := l.SessionLocker.SessionLock(ctx, conn); err != nil {
		return err
	}
	err := l.takeAlone(ctx, conn)
	if err != nil {
		err = errors.Join(err, l.SessionLocker.SessionUnlock(context.WithoutCancel(ctx), conn))
	}
	return err
}

// takeAlone keeps those who serve from joining, and fails where some have, while a migration is due that must be alone. The lock ends with
// SessionUnlock.
func (l *locker) takeAlone(ctx context.Context, conn *sql.Conn) error {
	due := false
	err := conn.QueryRowContext(ctx, "SELECT COALESCE(MAX(version_id), 0) < $1 FROM goose_db_version", l.alone).Scan(&due)
	if err != nil || !due {
		return err
	}
	if err := conn.QueryRowContext(ctx, "SELECT pg_try_advisory_lock($1)", presence).Scan(&l.held); err != nil {
		return err
	}
	if !l.held {
		return ErrServed
	}
	return nil
}

func (l *locker) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	var err error
	if l.held {
		_, err = conn.ExecContext(ctx, "SELECT pg_advisory_unlock($1)", presence)
		l.held = false
	}
	return errors.Join(err, l.SessionLocker.SessionUnlock(ctx, conn))
}
