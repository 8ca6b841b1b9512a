package metadata

import (
	"context"
	"maps"
	"slices"

	"github.com/stipend/stipend/internal/db"
)

var rows = db.BulkInsert("metadata_values", "owner_id", "object_id", "name", "value")

func insert(tx *db.Tx, ownerID, objectID, key, value string) {
	rows.Add(tx, []any{ownerID, objectID, key, value})
}

// Remove removes deleted objects from the index.
func Remove(ctx context.Context, tx *db.Tx, ownerID string, objectIDs []string) error {
	for in, args := range db.BindList(tx, objectIDs, 2) {
		if _, err := tx.Exec(ctx, "DELETE FROM metadata_values WHERE owner_id = $1 AND object_id IN "+in,
			append([]any{ownerID}, args...)...); err != nil {
			return err
		}
	}
	return nil
}

// Conditions calls add with an SQL condition for each key of a filter. id is the column with the ID of an object of
// the owner. Each "?" in a condition is a placeholder for a value.
func Conditions(id, ownerID string, filter map[string]string, add func(condition string, values ...any)) {
	for _, key := range slices.Sorted(maps.Keys(filter)) {
		add(id+" IN (SELECT object_id FROM metadata_values WHERE owner_id = ? AND name = ? AND value = ?)",
			ownerID, key, filter[key])
	}
}
