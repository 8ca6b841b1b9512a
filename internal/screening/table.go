package screening

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// isTable reports whether a file begins with the header row of a table of targets.
func isTable(r *bufio.Reader) bool {
	head, _ := r.Peek(64) // fewer bytes if the file is shorter
	return bytes.HasPrefix(bytes.ReplaceAll(bytes.TrimPrefix(head, []byte("\ufeff")), []byte(`"`), nil), []byte("id,"))
}

// readTable reads a table of targets (targets.simple.csv), with one row for each person or organization and aliases
// separated by semicolons. The programs of an entry are its datasets, such as a dataset of politically exposed
// persons.
func (l *List) readTable(r io.Reader) error {
	l.Name = "Targets"
	rows := csv.NewReader(r)
	head, err := rows.Read()
	if err != nil {
		return err
	}
	head[0] = strings.Trim(head[0], "\ufeff\"")
	column := func(row []string, name string) string {
		if i := slices.Index(head, name); i >= 0 {
			return strings.TrimSpace(row[i])
		}
		return ""
	}
	for _, name := range []string{"id", "schema", "name", "aliases"} {
		if !slices.Contains(head, name) {
			return fmt.Errorf("the table of targets has no column %q", name)
		}
	}
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		e := Entry{ID: "Targets " + column(row, "id"), Person: column(row, "schema") == "Person"}
		if about := cmp.Or(column(row, "program_ids"), column(row, "sanctions"), column(row, "dataset")); about != "" {
			e.Programs = strings.Split(about, ";")
		}
		e.addName(column(row, "name"))
		for alias := range strings.SplitSeq(column(row, "aliases"), ";") {
			e.addName(alias)
		}
		if err := l.add(e); err != nil {
			return err
		}
		if changed := column(row, "last_change"); len(changed) >= len(time.DateOnly) {
			at, err := time.Parse(time.DateOnly, changed[:len(time.DateOnly)])
			if err != nil {
				return fmt.Errorf("last_change: %w", err)
			}
			if at.After(l.Published) {
				l.Published = at
			}
		}
	}
}
