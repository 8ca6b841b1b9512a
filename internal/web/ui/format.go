package ui

import "time"

// FormatTimestamp formats a time in RFC 3339, or returns "" for the zero time.
func FormatTimestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// RoleName returns the name of a member's role in the reader's language.
func (c *Request) RoleName(role string) string {
	if c.HasText("role." + role) {
		return c.Text("role." + role)
	}
	return role
}
