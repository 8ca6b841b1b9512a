// Package metadata stores a partner's own data about objects: keys with text values.
//
// The row of an object contains its metadata as JSON, so that reading the object also reads its metadata. The rows of
// this package serve to find objects by a key and its value. A package that stores an object must call [Index] in the
// same transaction.
package metadata

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
)

// Limits of metadata: number of keys, and lengths in characters.
const (
	maxKeys  = 50
	maxKey   = 40
	maxValue = 500
)

// Check adds the problems of metadata, at a JSON pointer, to a list.
func Check(list *apierr.List, pointer string, all map[string]string) {
	if len(all) > maxKeys {
		list.Add("invalid_parameter", pointer, fmt.Sprintf("Metadata can have at most %d keys.", maxKeys))
	}
	for key, value := range all {
		if key == "" || utf8.RuneCountInString(key) > maxKey || utf8.RuneCountInString(value) > maxValue {
			list.Add("invalid_parameter", pointer, fmt.Sprintf(
				"The names in metadata have 1 to %d characters, the values at most %d.", maxKey, maxValue))
			return
		}
	}
}

// Text returns metadata in the stored form: JSON with sorted keys, or "" if there are none.
func Text(all map[string]string) string {
	if len(all) == 0 {
		return ""
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic("metadata: texts have a JSON form: " + err.Error())
	}
	return string(text)
}

// Parse returns metadata from the form that [Text] returns. It returns nil if there are none.
func Parse(text string) (all map[string]string, err error) {
	if text == "" {
		return nil, nil
	}
	return all, json.Unmarshal([]byte(text), &all)
}

// Index makes a new object findable by its metadata. The owner is a company or user.
func Index(tx *db.Tx, ownerID, objectID string, all map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(all)) {
		insert(tx, ownerID, objectID, key, all[key])
	}
}

// Replace updates the index after an object's metadata have changed from before to after.
func Replace(ctx context.Context, tx *db.Tx, ownerID, objectID string, before, after map[string]string) error {
	if maps.Equal(before, after) {
		return nil
	}
	if len(before) > 0 {
		if err := Remove(ctx, tx, ownerID, []string{objectID}); err != nil {
			return err
		}
	}
	Index(tx, ownerID, objectID, after)
	return nil
}
