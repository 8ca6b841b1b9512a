package ui

import (
	"time"
)

// FormatTimestamp is an instant for programs, "" for none.
func FormatTimestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
