package ui

import (
	"strconv"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/money"
)

// FormatDay formats a time in UTC, the same in every language. It returns "" for the zero time.
func FormatDay(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04 UTC")
}

// FormatTimestamp formats a time in RFC 3339, or returns "" for the zero time.
func FormatTimestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// FormatMoney formats an amount and its currency for the reader's language. It returns "" for an amount without a
// currency.
func (c *Request) FormatMoney(a money.Amount) string {
	if a.Asset() == "" {
		return ""
	}
	return c.FormatNumber(a.String()) + "\u00a0" + string(a.Asset())
}

// FormatCount formats a whole number for the reader's language.
func (c *Request) FormatCount(n int64) string { return c.FormatNumber(strconv.FormatInt(n, 10)) }

// FormatNumber formats a decimal such as "-1234.50" for the reader's language.
func (c *Request) FormatNumber(plain string) string {
	point, group := ".", ","
	switch c.Language.Tag {
	case "es", "pt":
		point, group = ",", "."
	case "fr":
		point, group = ",", "\u202f"
	}
	sign := ""
	if strings.HasPrefix(plain, "-") {
		sign, plain = "\u2212", plain[1:]
	}
	whole, rest, hasRest := strings.Cut(plain, ".")
	if c.Language.Tag == "es" && len(whole) == 4 {
		group = "" // Spanish does not group four digits
	}
	var b strings.Builder
	for i, digit := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteString(group)
		}
		b.WriteRune(digit)
	}
	if hasRest {
		b.WriteString(point + rest)
	}
	return sign + b.String()
}

// FormatTime formats a time in UTC for the reader's language. It returns "" for the zero time.
func (c *Request) FormatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return c.FormatDate(t) + ", " + t.UTC().Format("15:04") + " UTC"
}

// FormatDate formats a date in UTC for the reader's language.
func (c *Request) FormatDate(t time.Time) string {
	months := strings.Fields(c.Text("time.months"))
	t = t.UTC()
	if c.Language.Tag == "en" {
		return months[t.Month()-1] + " " + strconv.Itoa(t.Day()) + ", " + strconv.Itoa(t.Year())
	}
	return strconv.Itoa(t.Day()) + " " + months[t.Month()-1] + " " + strconv.Itoa(t.Year())
}

// Word returns the text prefix.value, or value with spaces for underscores if there is no such text.
func (c *Request) Word(prefix, value string) string {
	if key := prefix + "." + value; c.HasText(key) {
		return c.Text(key)
	}
	return strings.ReplaceAll(value, "_", " ")
}

// RoleName returns the name of a member's role in the reader's language.
func (c *Request) RoleName(role string) string {
	if c.HasText("role." + role) {
		return c.Text("role." + role)
	}
	return role
}
