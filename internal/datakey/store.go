package datakey

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stipend/stipend/internal/db"
)

// value is a stored value that is to be encrypted again.
type value struct {
	key  []any // primary key of its row
	text string
	row  string // row to which the value is bound, if the column names one
}

// page is a part of a table, in the order of its primary key.
type page struct {
	rows   int // number of rows that were read; 0 for the rest of a table
	values []value
	last   []any // key after which the next page begins; nil at the end
}

// isNumber reports whether a column of a primary key is a BIGINT. Other columns are TEXT.
func isNumber(column string) bool { return column == "n" || column == "position" }

// after returns the condition for rows that come after a key. Placeholders are numbered from first.
func (c Column) after(key []any, operator string, first int) string {
	if key == nil {
		return "TRUE"
	}
	keys := strings.Fields(c.Keys)
	return "(" + strings.Join(keys, ", ") + ") " + operator + " (" + binds(len(keys), first) + ")"
}

func binds(n, first int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("$%d", first+i)
	}
	return strings.Join(all, ", ")
}

// typed converts the parts of a key to the types of their columns.
func (c Column) typed(key []string) (values []any, err error) {
	if key == nil {
		return nil, nil
	}
	for i, name := range strings.Fields(c.Keys) {
		if !isNumber(name) {
			values = append(values, key[i])
			continue
		}
		n, err := strconv.ParseInt(key[i], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("datakey: the key of %s: %w", c.Table, err)
		}
		values = append(values, n)
	}
	return values, nil
}

// scanKey returns pointers into which a key is scanned, and a function that returns the scanned key.
func (c Column) scanKey() (into []any, key func() []any) {
	names := strings.Fields(c.Keys)
	into = make([]any, len(names))
	for i, name := range names {
		if isNumber(name) {
			into[i] = new(int64)
		} else {
			into[i] = new(string)
		}
	}
	return into, func() []any {
		values := make([]any, len(into))
		for i, p := range into {
			switch p := p.(type) {
			case *int64:
				values[i] = *p
			case *string:
				values[i] = *p
			}
		}
		return values
	}
}

// page returns the page after a key: the values that one of the named keys encrypts, and the key at which the page
// ends. It reads the end first, so that a page without such values does not read the whole table.
func (c Column) page(ctx context.Context, tx *db.Tx, names, after []string) (p page, err error) {
	key, err := c.typed(after)
	if err != nil {
		return p, err
	}
	keys := strings.Join(strings.Fields(c.Keys), ", ")
	into, scanned := c.scanKey()
	switch err := tx.QueryRow(ctx, fmt.Sprintf("SELECT %s FROM %s WHERE %s ORDER BY %s LIMIT 1 OFFSET %d", keys, c.Table,
		c.after(key, ">", 1), keys, pageRows-1), key...).Scan(into...); {
	case err == nil:
		p.last, p.rows = scanned(), pageRows
	case !errors.Is(err, db.ErrNoRows):
		return p, err
	}
	args := slices.Concat(key, p.last)
	filter := make([]string, len(names))
	for i, name := range names {
		args = append(args, "%v1."+name+".%")
		filter[i] = fmt.Sprintf("%s LIKE $%d", c.Name, len(args))
	}
	row := c.Row
	if row == Snapshot {
		row = "''"
	}
	rows, err := tx.Query(ctx, fmt.Sprintf("SELECT %s, %s, %s FROM %s WHERE %s AND %s AND (%s) ORDER BY %s", keys, c.Name,
		row, c.Table, c.after(key, ">", 1), c.after(p.last, "<=", 1+len(key)), strings.Join(filter, " OR "), keys), args...)
	p.values, err = db.Collect(rows, err, func(r *db.Rows) (v value, err error) {
		into, scanned := c.scanKey()
		err = r.Scan(append(into, &v.text, &v.row)...)
		v.key = scanned()
		return v, err
	})
	return p, err
}

// replace stores the new form of a value, unless the value has changed since it was read, and returns the number of
// changed rows. This statement may change tables of other packages only because the decrypted value stays the same.
func (c Column) replace(ctx context.Context, tx *db.Tx, v value, text string) (int64, error) {
	names := strings.Fields(c.Keys)
	return tx.Exec(ctx, fmt.Sprintf("UPDATE %s SET %s = $1 WHERE %s = $2 AND (%s) = (%s)", c.Table, c.Name, c.Name,
		strings.Join(names, ", "), binds(len(names), 3)), append([]any{text, v.text}, v.key...)...)
}

// Search returns those columns of the whole database that contain values encrypted with a key other than the named
// one. It reads each row once, and each column in a separate transaction.
func Search(ctx context.Context, d *db.DB, key string) (found []Left, err error) {
	return found, eachSealed(ctx, d, func(table, column, text string) {
		n := otherKeys(text, key)
		if n == 0 {
			return
		}
		if last := len(found) - 1; last >= 0 && found[last].Table == table && found[last].Column == column {
			found[last].Values += n
		} else {
			found = append(found, Left{Table: table, Column: column, Values: n})
		}
	})
}

// Unlisted returns the columns with encrypted values that [Columns] does not list, as table.column.
func Unlisted(ctx context.Context, d *db.DB) (names []string, err error) {
	known := map[string]bool{}
	for _, c := range Columns {
		known[c.Table+"."+c.Name] = true
	}
	return names, eachSealed(ctx, d, func(table, column, text string) {
		name := table + "." + column
		if !known[name] && sealedText.MatchString(text) {
			known[name] = true
			names = append(names, name)
		}
	})
}

// eachSealed calls f for each text that may contain encrypted values, in all tables.
func eachSealed(ctx context.Context, d *db.DB, f func(table, column, text string)) error {
	var columns [][2]string
	if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		query := `SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c
			WHERE m.type = 'table' AND c.type = 'TEXT' ORDER BY m.name, c.cid`
		if tx.Engine() == db.Postgres {
			query = `SELECT CAST(table_name AS TEXT), CAST(column_name AS TEXT) FROM information_schema.columns
				WHERE table_schema = current_schema() AND data_type = 'text' ORDER BY table_name, ordinal_position`
		}
		rows, err := tx.Query(ctx, query)
		columns, err = db.Collect(rows, err, func(r *db.Rows) (c [2]string, err error) { return c, r.Scan(&c[0], &c[1]) })
		return err
	}); err != nil {
		return err
	}
	for _, c := range columns {
		if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
			rows, err := tx.Query(ctx, fmt.Sprintf("SELECT %s FROM %s WHERE %s LIKE $1", c[1], c[0], c[1]),
				"%v1.________.%")
			_, err = db.Collect(rows, err, func(r *db.Rows) (none struct{}, err error) {
				var text string
				if err := r.Scan(&text); err != nil {
					return none, err
				}
				f(c[0], c[1], text)
				return none, nil
			})
			return err
		}); err != nil {
			return fmt.Errorf("search %s.%s: %w", c[0], c[1], err)
		}
	}
	return nil
}
