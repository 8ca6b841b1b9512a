package db

import (
	"context"
	"errors"
	"io/fs"
)

// Queued returns the number of writes that wait for a committer.
func (d *DB) Queued() int { return len(d.queue) }

// MigrateAs migrates the schema as a version of the program with other migrations does, and checks it.
func (d *DB) MigrateAs(ctx context.Context, files fs.FS) error {
	return errors.Join(d.migrate(ctx, files), d.checkSchema(ctx, files))
}
