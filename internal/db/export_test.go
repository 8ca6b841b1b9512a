package db

import (
	"context"
	"errors"
	"io/fs"
	"strconv"
	"strings"
)

// Queued returns the number of writes that wait for a committer.
func (d *DB) Queued() int { return len(d.queue) }

// MigrateAs migrates the schema as a version of the program with other migrations does, and checks it.
func (d *DB) MigrateAs(ctx context.Context, files fs.FS) error {
	return errors.Join(d.migrate(ctx, files), d.checkSchema(ctx, files))
}

// RestrictionOf returns the placeholders that a statement restricts its tables to, or the table that is open.
func RestrictionOf(query string) string {
	r := parseRestriction(query)
	if r.open != "" {
		return r.open
	}
	all := make([]string, len(r.companies))
	for i, n := range r.companies {
		all[i] = "$" + strconv.Itoa(n)
	}
	return strings.Join(all, " ")
}

// Guard checks a statement.
var Guard = guard
