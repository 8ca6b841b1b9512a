package db

import (
	"slices"
	"strings"
	"unicode"
)

// A search in any case works the same on both engines and in every locale: LOWER of SQLite, and of PostgreSQL in the
// locale C, changes ASCII letters only. A pattern therefore lists the cases of each letter.

// Contains returns the operator and the pattern by which a text column is compared with a text that it contains, in any
// case of the letters.
func (t *Tx) Contains(text string) (operator, pattern string) {
	if t.db.engine == Postgres {
		return "~", anyCase(text, postgresMeta)
	}
	return "GLOB", "*" + anyCase(text, sqliteMeta) + "*"
}

// Begins returns the operator and the pattern by which a text column is compared with a text that it begins with, in
// any case of the letters.
func (t *Tx) Begins(text string) (operator, pattern string) {
	if t.db.engine == Postgres {
		return "~", "^" + anyCase(text, postgresMeta)
	}
	return "GLOB", anyCase(text, sqliteMeta) + "*"
}

// sqliteMeta and postgresMeta return a character as a pattern that matches only it.
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

// anyCase returns a pattern that matches a text in any case. meta escapes what is not a letter.
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
