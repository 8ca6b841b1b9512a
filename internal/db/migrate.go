package db

import (
	"context"
	"database/sql"
	"embed"
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
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}
