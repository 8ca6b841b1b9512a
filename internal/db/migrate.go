package db

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

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

// ReadDir lists the files for both engines and those for this engine, in the order of their names: goose takes the last
// one as the version of the program.
func (m engineMigrations) ReadDir(name string) ([]fs.DirEntry, error) {
	common, err := fs.ReadDir(m.FS, name)
	own, ownErr := fs.ReadDir(m.FS, m.engine.String())
	all := append(common, own...)
	slices.SortFunc(all, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return all, errors.Join(err, ownErr)
}

// Errors of a schema that the program cannot use.
var (
	// ErrSchema means that the schema is older than the program, or that there is none.
	ErrSchema = errors.New("the database does not have this version's tables; " +
		"check the database URL, then run `stipend migrate`")
	// ErrNewer means that a newer version of the program has migrated the database in a way that this one cannot use.
	ErrNewer = errors.New("a newer version of Stipend has migrated this database; start that version, or restore a backup")
)

// Compatible is the line of a migration after which older versions of the program can still use the schema, because it
// only adds what they need not know: tables, indexes, and columns with a default. Without this line they refuse it.
const Compatible = "-- Compatible: older versions can use this schema"

// requiredKey is the setting with the schema version that a program must know at least to use the database: the newest
// migration without the line [Compatible].
const requiredKey = "schema.required"

// Migrate brings the schema to this program's version. It only goes forward; running it again, or from several
// processes at once, is harmless. A newer schema is left as it is: Migrate returns nil if this program can use it, and
// ErrNewer otherwise.
func (d *DB) Migrate(ctx context.Context) error { return d.migrate(ctx, Migrations()) }

func (d *DB) migrate(ctx context.Context, files fs.FS) error {
	return d.withMigrations(files, func(p *goose.Provider) error {
		schema, program, err := p.GetVersions(ctx)
		if err != nil {
			return fmt.Errorf("read the schema version: %w", err)
		}
		if schema > program {
			return d.checkNewer(ctx, schema, program)
		}
		_, required, err := versions(files, d.engine)
		if err != nil {
			return err
		}
		if schema > 0 && schema < required { // before the change, so that older processes notice it first
			if err := d.require(ctx, required); err != nil {
				return err
			}
		}
		if _, err := p.Up(ctx); err != nil {
			return fmt.Errorf("migrate: %w", err)
		}
		return d.require(ctx, required)
	})
}

// CheckSchema returns nil if this program can use the schema, else ErrSchema or ErrNewer.
func (d *DB) CheckSchema(ctx context.Context) error { return d.checkSchema(ctx, Migrations()) }

func (d *DB) checkSchema(ctx context.Context, files fs.FS) error {
	return d.withMigrations(files, func(p *goose.Provider) error {
		switch schema, program, err := p.GetVersions(ctx); {
		case err != nil:
			return fmt.Errorf("read the schema version: %w", err)
		case schema < program:
			return ErrSchema
		default:
			return d.checkNewer(ctx, schema, program)
		}
	})
}

// CheckRequired returns ErrNewer if a newer version of the program has migrated the database in a way that this one
// cannot use. A process that runs calls it from time to time.
func (d *DB) CheckRequired(ctx context.Context) error {
	program, _, err := versions(Migrations(), d.engine)
	if err != nil {
		return err
	}
	return d.checkNewer(ctx, program, program)
}

// checkNewer returns ErrNewer if the program cannot use a schema, which may be newer than the program.
func (d *DB) checkNewer(ctx context.Context, schema, program int64) error {
	var text string
	if err := d.Read(ctx, func(ctx context.Context, tx *Tx) (err error) {
		text, err = Setting(ctx, tx, requiredKey)
		return err
	}); err != nil {
		return fmt.Errorf("read which version the schema requires: %w", err)
	}
	required, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		required = schema // nothing says that an older program can use it
	}
	if required > program {
		return fmt.Errorf("%w (it requires the schema version %04d; this program knows %04d)", ErrNewer, required, program)
	}
	return nil
}

// require stores the version that a program must know at least, unless a higher one is stored.
func (d *DB) require(ctx context.Context, version int64) error {
	return d.Write(ctx, func(ctx context.Context, tx *Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO settings (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE
			SET value = excluded.value WHERE CAST(settings.value AS BIGINT) < CAST(excluded.value AS BIGINT)`,
			requiredKey, strconv.FormatInt(version, 10))
		return err
	})
}

// versions returns the numbers of the newest migration, and of the newest one without the line [Compatible].
func versions(files fs.FS, engine Engine) (newest, required int64, err error) {
	m := engineMigrations{files, engine}
	entries, err := m.ReadDir(".")
	if err != nil {
		return 0, 0, err
	}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		number, err := goose.NumericComponent(e.Name())
		if err != nil {
			return 0, 0, err
		}
		text, err := fs.ReadFile(m, e.Name())
		if err != nil {
			return 0, 0, err
		}
		newest = max(newest, number)
		if !strings.Contains("\n"+string(text), "\n"+Compatible+"\n") {
			required = max(required, number)
		}
	}
	return newest, required, nil
}

func (d *DB) withMigrations(files fs.FS, f func(*goose.Provider) error) error {
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
	p, err := goose.NewProvider(dialect, conn, engineMigrations{files, d.engine}, options...)
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	return f(p)
}
