package db

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// List selects a page of the rows of a table that meet all its conditions.
type List struct {
	Columns, Table, Order string
	Page, PerPage         int // the first page is 1

	where []string
	args  []any
}

// Where adds a condition. Each "?" in it is a placeholder for a value.
func (l *List) Where(condition string, values ...any) {
	for _, value := range values {
		l.args = append(l.args, value)
		condition = strings.Replace(condition, "?", fmt.Sprintf("$%d", len(l.args)), 1)
	}
	l.where = append(l.where, condition)
}

// Created limits the rows to those created at or after from and before to. A zero time is no limit.
func (l *List) Created(from, to time.Time) {
	if !from.IsZero() {
		l.Where("created_at >= ?", Micros(from))
	}
	if !to.IsZero() {
		l.Where("created_at < ?", Micros(to))
	}
}

// ReadPage returns the rows of the page and the number of rows on all pages.
func ReadPage[T any](ctx context.Context, tx *Tx, l *List, scan func(*Rows) (T, error)) (
	found []T, total int64, err error) {
	from := " FROM " + l.Table + " WHERE " + strings.Join(l.where, " AND ")
	if err := tx.QueryRow(ctx, "SELECT COUNT(*)"+from, l.args...).Scan(&total); err != nil {
		return nil, 0, err
	}
	page := fmt.Sprintf(" ORDER BY %s LIMIT $%d OFFSET $%d", l.Order, len(l.args)+1, len(l.args)+2)
	args := append(l.args, int64(l.PerPage), int64(l.Page-1)*int64(l.PerPage))
	rows, err := tx.Query(ctx, "SELECT "+l.Columns+from+page, args...)
	found, err = Collect(rows, err, scan)
	return found, total, err
}

var likeEscaper = strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`)

// EscapeLike returns a text as a pattern that LIKE ... ESCAPE '\' matches literally.
func EscapeLike(text string) string { return likeEscaper.Replace(text) }
