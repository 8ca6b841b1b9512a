package db

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// ErrNotEmbedded means that a backup was requested of a database on a server, which has its own tools.
var ErrNotEmbedded = errors.New("only an SQLite database is backed up this way; for PostgreSQL, see docs/operating.md")

// Backup writes a consistent copy of an SQLite database to a file, which must not exist, while other processes use the
// database. It has everything that was committed before the call, and nothing of later transactions.
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

// Sync makes a file and its name durable.
func Sync(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("make %s durable: %w", path, err)
	}
	if runtime.GOOS == "windows" { // has no such operation on directories
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
