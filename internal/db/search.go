package db

import (
	"slices"
	"strings"
	"unicode"
)

// A case-insensitive search gives the same result on both engines and in every locale: LOWER changes only ASCII
// letters on SQLite, and on PostgreSQL in the locale C. A pattern therefore lists both cases of each letter.

// Contains returns the operator and the pattern that match a text column containing text, ignoring case.
func (t *Tx) Contains(text string) (operator, pattern string) {
	if t.db.engine == Postgres {
		return "~", anyCase(text, postgresMeta)
	}
	return "GLOB", "*" + anyCase(text, sqliteMeta) + "*"
}

// Begins returns the operator and the pattern that match a text column beginning with text, ignoring case.
func (t *Tx) Begins(text string) (operator, pattern string) {
	if t.db.engine == Postgres {
		return "~", "^" + anyCase(text, postgresMeta)
	}
	return "GLOB", anyCase(text, sqliteMeta) + "*"
}

// sqliteMeta and postgresMeta return a pattern that matches only the given character.
func sqliteMeta(r rune) string {
	if strings.ContainsRune("*?[", r) {
		return "[" + string(r) + "]"
	}
	return string(r)
}

func postgresMeta(r rune) string {
	if r < unicode.MaxASCII && !unicode.IsLetter(r) && !unicode.IsDigit(r) && r > ' ' {
		return `\` + string(r)
	}
	return string(r)
}

// anyCase returns a pattern that matches a text in any case. The function meta escapes characters other than letters.
func anyCase(text string, meta func(rune) string) string {
	var b strings.Builder
	for _, r := range text {
		cases := []rune{r}
		for c := unicode.SimpleFold(r); c != r; c = unicode.SimpleFold(c) {
			cases = append(cases, c)
		}
		if len(cases) == 1 {
			b.WriteString(meta(r))
			continue
		}
		slices.Sort(cases)
		b.WriteString("[" + string(cases) + "]")
	}
	return b.String()
}
