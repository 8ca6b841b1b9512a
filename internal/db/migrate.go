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

//go:embed migrations/*.sql migrations/sqlite/*.sql migrations/postgres/*.sql
var migrations embed.FS

// Migrations returns the embedded migration files. Those in the directories sqlite and postgres are for one engine
// only.
func Migrations() fs.FS {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		panic(err) // the directory is part of the program
	}
	return sub
}

// engineMigrations presents the files for both engines and those for one engine as one directory.
type engineMigrations struct {
	fs.FS
	engine Engine
}

// Open opens a file for both engines, or else one for this engine.
func (m engineMigrations) Open(name string) (fs.File, error) {
	f, err := m.FS.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return m.FS.Open(m.engine.String() + "/" + name)
	}
	return f, err
}

// ReadDir lists the files for both engines and those for this engine.
func (m engineMigrations) ReadDir(name string) ([]fs.DirEntry, error) {
	common, err := fs.ReadDir(m.FS, name)
	own, ownErr := fs.ReadDir(m.FS, m.engine.String())
	return append(common, own...), errors.Join(err, ownErr)
}

// Errors of a schema that the program cannot use.
var (
	// ErrSchema means that the schema is older than the program, or that there is none.
	ErrSchema = errors.New("the database does not have this version's tables; " +
		"check the database URL, then run `stipend migrate`")
	// ErrNewer means that a newer version of the program has migrated the database.
	ErrNewer = errors.New("a newer version of Stipend has migrated this database; start that version, or restore a backup")
)

// Migrate brings the schema to this program's version. It only goes forward; running it again, or from several
// processes at once, is harmless. It returns ErrNewer if the schema is newer than the program.
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

// CheckSchema returns nil if the schema is this program's, else ErrSchema or ErrNewer.
func (d *DB) CheckSchema(ctx context.Context) error {
	return d.withMigrations(func(p *goose.Provider) error {
		switch pending, err := p.HasPending(ctx); {
		case err != nil:
			return fmt.Errorf("read the schema version: %w", err)
		case pending:
			return ErrSchema
		}
		return notNewer(ctx, p)
	})
}

func notNewer(ctx context.Context, p *goose.Provider) error {
	schema, program, err := p.GetVersions(ctx)
	if err == nil && schema > program {
		err = fmt.Errorf("%w (schema version %04d, this program %04d)", ErrNewer, schema, program)
	}
	return err
}

func (d *DB) withMigrations(f func(*goose.Provider) error) error {
	dialect, conn := goose.DialectSQLite3, d.writer
	var options []goose.ProviderOption
	if d.engine == Postgres {
		dialect, conn = goose.DialectPostgres, stdlib.OpenDBFromPool(d.pool)
		defer func(c *sql.DB) { _ = c.Close() }(conn)
		locker, err := lock.NewPostgresSessionLocker() // one process migrates at a time
		if err != nil {
			return err
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	p, err := goose.NewProvider(dialect, conn, engineMigrations{Migrations(), d.engine}, options...)
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	return f(p)
}
