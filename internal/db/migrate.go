package db

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

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

// Migrate brings the schema up to this program's. Forward only; running it twice, or from several processes
// at once, is harmless.
func (d *DB) Migrate(ctx context.Context) error {
	return d.withMigrations(func(p *goose.Provider) error {
		if _, err := p.Up(ctx); err != nil {
			return fmt.Errorf("migrate: %w", err)
		}
		return nil
	})
}

// ErrSchema means that the database was not brought to this program's schema.
var ErrSchema = errors.New("the database does not have this program's tables; run `stipend migrate` on it first, if it is the right one")

// CheckSchema is nil when nothing is left to migrate, else ErrSchema.
func (d *DB) CheckSchema(ctx context.Context) error {
	return d.withMigrations(func(p *goose.Provider) error {
		switch pending, err := p.HasPending(ctx); {
		case err != nil:
			return fmt.Errorf("read the schema's version: %w", err)
		case pending:
			return ErrSchema
		}
		return nil
	})
}

func (d *DB) withMigrations(f func(*goose.Provider) error) error {
	dialect, conn := goose.DialectSQLite3, d.writer
	var options []goose.ProviderOption
	if d.engine == Postgres {
		dialect, conn = goose.DialectPostgres, stdlib.OpenDBFromPool(d.pool)
		locker, err := lock.NewPostgresSessionLocker()
		if err != nil {
			return err
		}
		options = append(options, goose.WithSessionLocker(locker))
		defer func(c *sql.DB) { _ = c.Close() }(conn)
	}
	p, err := goose.NewProvider(dialect, conn, Migrations(), options...)
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	return f(p)
}
