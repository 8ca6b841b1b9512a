package ui

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/money"
)

// Table is a table with headings. In narrow windows, CSS shows each row as a list of headings and values.
type Table struct {
	Caption string
	Heads   []Column
	Rows    [][]Cell
	Empty   Empty // shown if there are no rows
	Pager   Pager
}

// Empty is what a list shows while it has no rows: a title, a sentence about what appears in it, and a button that
// leads to the next step. Everything but the title may be absent.
type Empty struct{ Icon, Title, Why, Do, Path string }

// Empty returns the empty state of a list. The key is that of its title; the key followed by ".why" is that of its
// sentence, if there is one.
func (c *Request) Empty(key string) Empty {
	e := Empty{Icon: "inbox", Title: c.Text(key)}
	if c.HasText(key + ".why") {
		e.Why = c.Text(key + ".why")
	}
	return e
}

// EmptyStep returns an empty state with an icon and a button to path, whose text has the key do. The button is left
// out unless the reader may take the step.
func (c *Request) EmptyStep(icon, key string, may bool, do, path string) Empty {
	e := c.Empty(key)
	e.Icon = icon
	if may {
		e.Do, e.Path = c.Text(do), c.URL(path)
	}
	return e
}

// EmptyList returns the empty state of a list with filters: e if none is active, else a way back to the whole list.
func (c *Request) EmptyList(f Filters, e Empty) Empty {
	if !f.Active() {
		return e
	}
	return c.EmptyStep("search", "list.none", true, "list.clear", f.Path)
}

// List reports whether the columns have places in a narrow window. Otherwise each row is shown as a list of headings
// and values.
func (t Table) List() bool {
	return len(t.Heads) > 0 && t.Heads[0].Class != ""
}

// TakesFocus reports whether the container of the table takes the keyboard's focus, to be scrolled: in a list, the
// links of the rows take it, if there are any.
func (t Table) TakesFocus() bool {
	linked := func(row []Cell) bool { return slices.ContainsFunc(row, Cell.takesFocus) }
	return !t.List() || !slices.ContainsFunc(t.Rows, linked)
}

// takesFocus reports whether the cell has a link, a button or a box to tick.
func (c Cell) takesFocus() bool {
	return c.Path != "" || c.Copy != "" || c.Kind == "tick" || slices.ContainsFunc(c.Lines, Cell.takesFocus)
}

// WithoutColumn returns the table without a column.
func (t Table) WithoutColumn(i int) Table {
	t.Heads = slices.Delete(t.Heads, i, i+1)
	for n, row := range t.Rows {
		t.Rows[n] = slices.Delete(row, i, i+1)
	}
	return t
}

// Column is a column heading. Number aligns the column to the right. Class places it in a narrow window: "a" is the
// name and "b" the amount in the first line, "c" the state and "d" the time in the second, "e" a line of its own, "l"
// one with the heading before the value, and "hide" leaves it out.
// Sort is the URL of the list sorted by the column, "" if it cannot be. Sorted is "ascending" or "descending" if it is.
type Column struct {
	Text   string
	Number bool
	Class  string
	Sort   string
	Sorted string
}

// sortField is the URL parameter with the key of the column by which a list is sorted, after "-" if it falls.
const sortField = "sort"

// Sortable returns headings by which the list can be sorted. keys has the key of each column, "" for none.
func (c *Request) Sortable(heads []Column, keys ...string) []Column {
	key, descending := c.SortedBy(keys...)
	for i, k := range keys {
		if k == "" {
			continue
		}
		query, next := c.HTTP.URL.Query(), k
		if k == key {
			heads[i].Sorted = "descending"
			if !descending {
				heads[i].Sorted, next = "ascending", "-"+k
			}
		}
		query.Del("page")
		query.Set(sortField, next)
		heads[i].Sort = "?" + query.Encode()
	}
	return heads
}

// SortedBy returns the key of the column by which the reader sorts a list, and whether it falls. It returns "" for a
// key that is none of keys.
func (c *Request) SortedBy(keys ...string) (key string, descending bool) {
	key, descending = strings.CutPrefix(c.Query(sortField), "-")
	if key == "" || !slices.Contains(keys, key) {
		return "", false
	}
	return key, descending
}

// Cell is one value of a row.
type Cell struct {
	Text  string
	Path  string // link target; "" for no link
	Kind  string // "money", "number", "code", "id", "person", "strong", "tick" or ""
	Tone  string // color of a badge; "" for no badge
	Icon  string // icon of a badge
	ISO   string // machine-readable form of the time in Text
	Lines []Cell // further lines, below
	Warn  bool   // needs attention

	// Copy is the label of a button that copies Text, or "" for no button. Copied is the announcement after copying.
	// ID is the element ID of the text.
	Copy, Copied, ID string
}

// Columns returns columns headed by the texts of the given keys. A key that ends in "#" is a numeric column. "|" and
// the class of the column may follow.
func (c *Request) Columns(keys ...string) (all []Column) {
	for _, key := range keys {
		key, class, _ := strings.Cut(key, "|")
		name, number := strings.CutSuffix(key, "#")
		all = append(all, Column{Text: c.Text(name), Number: number, Class: class})
	}
	return all
}

// LinkCell returns a cell with a link to a path of these pages.
func (c *Request) LinkCell(text, path string) Cell { return Cell{Text: text, Path: c.URL(path)} }

// CodeCell returns a cell in monospace, for identifiers.
func CodeCell(text string) Cell { return Cell{Text: text, Kind: "code"} }

// ExplorerLines returns a link to a transaction in the block explorer of its network, nil if there is none.
func (c *Request) ExplorerLines(network, txid string) []Cell {
	template := c.Explorers[network]
	if template == "" || txid == "" {
		return nil
	}
	return []Cell{{Text: c.Text("explorer.view"), Path: strings.ReplaceAll(template, "{tx}", url.PathEscape(txid))}}
}

// AmountCell returns a cell with an amount and its currency.
func (c *Request) AmountCell(a money.Amount) Cell {
	return Cell{Text: c.FormatMoney(a), Kind: "money"}
}

// TimeCell returns a cell with a time, empty for the zero time.
func (c *Request) TimeCell(t time.Time) Cell {
	if t.IsZero() {
		return Cell{}
	}
	return Cell{Text: c.FormatTime(t), ISO: t.UTC().Format(time.RFC3339)}
}
