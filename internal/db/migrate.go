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

// Migrations returns the embedded migration files. Files in the directories sqlite and postgres are for that engine
// only.
func Migrations() fs.FS {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		panic(err) // cannot fail: the directory is embedded in the program
	}
	return sub
}

// engineMigrations presents the files for both engines and the files for one engine as a single directory.
type engineMigrations struct {
	fs.FS
	engine Engine
}

// Open opens a file for both engines, or else a file for this engine.
func (m engineMigrations) Open(name string) (fs.File, error) {
	f, err := m.FS.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return m.FS.Open(m.engine.String() + "/" + name)
	}
	return f, err
}

// ReadDir lists the files for both engines and the files for this engine, sorted by name. Goose takes the last one as
// the version of the program.
func (m engineMigrations) ReadDir(name string) ([]fs.DirEntry, error) {
	common, err := fs.ReadDir(m.FS, name)
	own, ownErr := fs.ReadDir(m.FS, m.engine.String())
	all := append(common, own...)
	slices.SortFunc(all, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return all, errors.Join(err, ownErr)
}

// Errors of a database whose schema this program cannot use.
var (
	// ErrSchema means that the database has no schema, or one that is older than the program.
	ErrSchema = errors.New("the database does not have this version's tables; " +
		"check the database URL, then run `stipend migrate`")
	// ErrNewer means that a newer version of the program has migrated the database to a schema that this version cannot
	// use.
	ErrNewer = errors.New("a newer version of Stipend has migrated this database; start that version, or restore a backup")
)

// Compatible is a line that marks a migration whose schema older versions of the program can still use, because the
// migration only adds tables, indexes, and columns with a default. After a migration without this line, older
// versions refuse to use the database.
const Compatible = "-- Compatible: older versions can use this schema"

// requiredKey is the setting with the lowest schema version that a program must know to use the database: the number
// of the newest applied migration without the line [Compatible].
const requiredKey = "schema.required"

// Migrate brings the schema to this program's version. It can be run again, and from several processes at once, and
// it never migrates to an older version. If the schema is newer than the program, Migrate leaves it unchanged and
// returns nil if this program can use it, or ErrNewer if not.
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
		if schema > 0 && schema < required { // stored before the migration, so that older processes notice it in time
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

// CheckRequired returns ErrNewer if a newer version of the program has migrated the database to a schema that this
// version cannot use. A running process calls it periodically.
func (d *DB) CheckRequired(ctx context.Context) error {
	program, _, err := versions(Migrations(), d.engine)
	if err != nil {
		return err
	}
	return d.checkNewer(ctx, program, program)
}

// checkNewer returns ErrNewer if the schema is newer than the program and the program cannot use it.
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
		required = schema // nothing states that an older program can use the schema
	}
	if required > program {
		return fmt.Errorf("%w (it requires the schema version %04d; this program knows %04d)", ErrNewer, required, program)
	}
	return nil
}

// require stores version as the lowest schema version that a program must know, unless a higher one is stored.
func (d *DB) require(ctx context.Context, version int64) error {
	return d.Write(ctx, func(ctx context.Context, tx *Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO settings (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE
			SET value = excluded.value WHERE CAST(settings.value AS BIGINT) < CAST(excluded.value AS BIGINT)`,
			requiredKey, strconv.FormatInt(version, 10))
		return err
	})
}

// versions returns the number of the newest migration, and of the newest migration without the line [Compatible].
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
