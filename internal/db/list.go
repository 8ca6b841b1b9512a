package db

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Page selects one page of a list, either by its number, from 1, or as the page after a given row.
type Page struct {
	Number, PerPage int
	After           string // ID of the row after which the page begins; if not "", Number is ignored
}

// Offset returns the number of rows before the page, or 0 if the page is selected by After. It limits the result to a
// number that a database can skip.
func (p Page) Offset() int64 {
	const most = 1 << 40
	if p.Number <= 1 || p.After != "" {
		return 0
	}
	if p.Number-1 > most/max(p.PerPage, 1) {
		return most
	}
	return int64(p.Number-1) * int64(p.PerPage)
}

// List selects a page of the table rows that meet all its conditions, newest first. The first condition restricts the
// rows to those of one owner, such as a company.
type List struct {
	Columns, Table string
	ID             string // column with the rows' IDs
	Time           string // column with the time that sorts rows before their ID does; "" to sort by ID only
	Order          string // ORDER BY terms that replace the default order; "" for none
	Page           Page

	where []string
	args  []any
	owner int // number of arguments of the first condition
}

// Where adds a condition. Each "?" in the condition is a placeholder for the next value.
func (l *List) Where(condition string, values ...any) {
	for _, value := range values {
		l.args = append(l.args, value)
		condition = strings.Replace(condition, "?", fmt.Sprintf("$%d", len(l.args)), 1)
	}
	if l.where = append(l.where, condition); len(l.where) == 1 {
		l.owner = len(l.args)
	}
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

// ReadPage returns the rows of the page and the total number of rows on all pages.
func ReadPage[T any](ctx context.Context, tx *Tx, l *List, scan func(*Rows) (T, error)) (
	found []T, total int64, err error) {
	from := " FROM " + l.Table + " WHERE " + strings.Join(l.where, " AND ")
	if err := tx.QueryRow(ctx, "SELECT COUNT(*)"+from, l.args...).Scan(&total); err != nil {
		return nil, 0, err
	}
	if l.Page.After != "" {
		if err := l.seek(ctx, tx); err != nil {
			return nil, 0, err
		}
		from = " FROM " + l.Table + " WHERE " + strings.Join(l.where, " AND ")
	}
	order := l.Order
	if order == "" {
		order = l.ID + " DESC"
		if l.Time != "" {
			order = l.Time + " DESC, " + order
		}
	}
	page := fmt.Sprintf(" ORDER BY %s LIMIT $%d OFFSET $%d", order, len(l.args)+1, len(l.args)+2)
	rows, err := tx.Query(ctx, "SELECT "+l.Columns+from+page, append(l.args, int64(l.Page.PerPage), l.Page.Offset())...)
	found, err = Collect(rows, err, scan)
	return found, total, err
}

// seek limits the rows to those after the row with the ID Page.After.
func (l *List) seek(ctx context.Context, tx *Tx) error {
	if l.Order != "" {
		return ErrAfter
	}
	key := l.Time
	if key == "" {
		key = "0"
	}
	var at int64
	err := tx.QueryRow(ctx, fmt.Sprintf("SELECT %s FROM %s WHERE %s AND %s = $%d", key, l.Table, l.where[0], l.ID,
		l.owner+1),
		append(slices.Clone(l.args[:l.owner]), l.Page.After)...).Scan(&at)
	switch {
	case errors.Is(err, ErrNoRows):
		return ErrAfter
	case err != nil:
		return err
	case l.Time == "":
		l.Where(l.ID+" < ?", l.Page.After)
	default:
		l.Where("("+l.Time+", "+l.ID+") < (?, ?)", at, l.Page.After)
	}
	return nil
}

var likeEscaper = strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`)

// EscapeLike escapes a text for use in a pattern of LIKE ... ESCAPE '\', so that the text matches literally.
func EscapeLike(text string) string { return likeEscaper.Replace(text) }
