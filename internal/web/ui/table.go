package ui

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/money"
)

// Table is rows under headings. Where a window is too narrow for columns, each row is a list of headings and values.
type Table struct {
	Caption string
	Heads   []Column
	Rows    [][]Cell
	Empty   string // is said when there are no rows
}

// Column is the head of a column. Number aligns it to the right.
type Column struct {
	Text   string
	Number bool
}

// Cell is one value of a row.
type Cell struct {
	Text  string
	Path  string // where it leads, "" for nowhere
	Kind  string // "number" and "code" look so
	ISO   string // an instant that Text tells, for programs
	Lines []Cell // more of it, below
	Warn  bool   // somebody should look at it

	Copy, Copied, ID string // the button that copies Text, what is said then, and the button's id; "" for no button
}

// Columns names columns by keys; a key that ends in "#" is a column of numbers.
func (c *Request) Columns(keys ...string) (all []Column) {
	for _, key := range keys {
		name, number := strings.CutSuffix(key, "#")
		all = append(all, Column{c.Text(name), number})
	}
	return all
}

// LinkCell is a value that leads to a path of this face.
func (c *Request) LinkCell(text, path string) Cell { return Cell{Text: text, Path: c.URL(path)} }

// CodeCell returns a cell in monospace, for identifiers.
func CodeCell(text string) Cell { return Cell{Text: text, Kind: "code"} }

// FormatMoney is an amount as the reader's language writes it, with its currency.
func (c *Request) FormatMoney(a money.Amount) string {
	if a.Asset() == "" {
		return ""
	}
	return c.FormatNumber(a.String()) + "\u00a0" + string(a.Asset())
}

// AmountCell returns a cell with an amount and its currency.
func (c *Request) AmountCell(a money.Amount) Cell {
	return Cell{Text: c.FormatMoney(a), Kind: "number"}
}

// FormatCount formats a whole number for the reader's language.
func (c *Request) FormatCount(n int64) string { return c.FormatNumber(strconv.FormatInt(n, 10)) }

// FormatNumber writes a plain decimal as the reader's language does.
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
		group = "" // Spanish groups from five digits on
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

// FormatTime is an instant in the reader's language, "" for none. All times are UTC, and say so.
func (c *Request) FormatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return c.FormatDate(t) + ", " + t.UTC().Format("15:04") + " UTC"
}

// FormatDate formats a day in the reader's language.
func (c *Request) FormatDate(t time.Time) string {
	months := strings.Fields(c.Text("time.months"))
	t = t.UTC()
	return strconv.Itoa(t.Day()) + " " + months[t.Month()-1] + " " + strconv.Itoa(t.Year())
}

// TimeCell returns a cell with a time, empty for the zero time.
func (c *Request) TimeCell(t time.Time) Cell {
	if t.IsZero() {
		return Cell{}
	}
	return Cell{Text: c.FormatTime(t), ISO: t.UTC().Format(time.RFC3339)}
}

// Pager leads through the pages of a list.
type Pager struct {
	Told                   string // which part is shown
	Earlier, Later         string // paths, "" at an end
	EarlierText, LaterText string
}

// PerPage is how many rows of a list a page shows.
const PerPage = 20

// PageNumber is the page of a list that was asked for, from 1.
func (c *Request) PageNumber() int {
	n, err := strconv.Atoi(c.HTTP.URL.Query().Get("page"))
	if err != nil || n < 1 || n > 1_000_000 {
		return 1
	}
	return n
}

// Pager leads to the neighbours of a page among total rows, and keeps the filters.
func (c *Request) Pager(page, size int, total int64) Pager {
	to := func(n int) string {
		q := c.HTTP.URL.Query()
		q.Set("page", strconv.Itoa(n))
		return "?" + q.Encode()
	}
	first := int64(page-1)*int64(size) + 1
	last := min(int64(page)*int64(size), total)
	p := Pager{EarlierText: c.Text("list.earlier"), LaterText: c.Text("list.later")}
	if first <= last {
		p.Told = c.Text("list.part", c.FormatCount(first), c.FormatCount(last), c.FormatCount(total))
	}
	if page > 1 {
		p.Earlier = to(page - 1)
	}
	if last < total && first <= last {
		p.Later = to(page + 1)
	}
	return p
}

// Query is a parameter of the address, cut to a sane length.
func (c *Request) Query(name string) string {
	text := strings.TrimSpace(c.HTTP.URL.Query().Get(name))
	return text[:min(len(text), 255)]
}

// Filter is an input that chooses part of a list: its value is the address's own.
func (c *Request) Filter(f Field) Field {
	was := c.Form
	c.Form = url.Values{f.Name: {c.Query(f.Name)}}
	f = c.Field(f)
	c.Form = was
	return f
}

// Choices are the options of a select whose labels are texts: prefix and value make the key. The first is "all of them".
func (c *Request) Choices(prefix string, values ...string) []Option {
	all := []Option{{Value: "", Label: c.Text("list.all")}}
	for _, v := range values {
		all = append(all, Option{Value: v, Label: c.Word(prefix, v)})
	}
	return all
}

// Word says a value of the domain in the reader's language, or as it is where nobody has translated it.
func (c *Request) Word(prefix, value string) string {
	if key := prefix + "." + value; c.HasText(key) {
		return c.Text(key)
	}
	return strings.ReplaceAll(value, "_", " ")
}

// section is a part of the company's pages, for the menu.
type section struct {
	Label, Path string
	Here        bool
}

// sections are the parts of the company's pages.
var sections = []struct{ key, path string }{
	{"overview.title", "/overview"}, {"payrolls.title", "/payrolls"}, {"recipients.title", "/recipients"}, {"invoices.title", "/invoices"}, {"wallets.title", "/wallets"}, {"kyb.title", CompanyPath},
}

// Sections is the menu of whoever acts for a company.
func (s PageData) Sections() (all []section) {
	if s.request.Session == nil || s.request.Session.Company.ID == "" {
		return nil
	}
	for _, it := range sections {
		at := s.request.HTTP.URL.Path
		all = append(all, section{s.T(it.key), s.URL(it.path), at == it.path || strings.HasPrefix(at, it.path+"/")})
	}
	return all
}
