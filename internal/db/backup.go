package db

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// ErrNotEmbedded is returned by [DB.Backup] for a PostgreSQL database, which is backed up with PostgreSQL's own
// tools.
var ErrNotEmbedded = errors.New("only an SQLite database is backed up this way; for PostgreSQL, see docs/operating.md")

// Backup writes a consistent copy of an SQLite database to a new file at path while other processes use the database.
// It returns an error if the file exists. The copy contains every transaction that was committed before the call and
// none that began later.
func (d *DB) Backup(ctx context.Context, path string) error {
	if d.engine != SQLite {
		return ErrNotEmbedded
	}
	// Only the owner may read the copy.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if _, err := d.writer.ExecContext(ctx, "VACUUM INTO $1", path); err != nil {
		return fmt.Errorf("copy the database: %w", err)
	}
	return nil
}

// CheckFile checks the structure of an SQLite database: pages, indexes and references between tables. On other engines
// it checks nothing.
func (d *DB) CheckFile(ctx context.Context) error {
	if d.engine != SQLite {
		return nil
	}
	var text string
	if err := d.writer.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&text); err != nil {
		return fmt.Errorf("the database file is damaged: %w", err)
	}
	if text != "ok" {
		return fmt.Errorf("the database file is damaged: %s", text)
	}
	rows, err := d.writer.QueryContext(ctx, "PRAGMA foreign_key_check")
	if err != nil {
		return err
	}
	defer rows.Close()
	if rows.Next() {
		return errors.New("the database file is damaged: a row refers to another that is missing")
	}
	return rows.Err()
}

// Sync flushes a file and its directory entry to disk.
func Sync(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("make %s durable: %w", path, err)
	}
	if runtime.GOOS == "windows" { // Windows cannot sync a directory
		return nil
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return fmt.Errorf("make the name of %s durable: %w", path, err)
	}
	return nil
}
