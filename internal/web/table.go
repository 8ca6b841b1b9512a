package web

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/money"
)

// table is rows under headings. Where a window is too narrow for columns, each row is a list of headings and values.
type table struct {
	Caption string
	Heads   []head
	Rows    [][]cell
	Empty   string // is said when there are no rows
}

type head struct {
	Text   string
	Number bool
}

// cell is one value of a row.
type cell struct {
	Text  string
	Path  string // where it leads, "" for nowhere
	Kind  string // "number" and "code" look so
	ISO   string // an instant that Text tells, for programs
	Lines []cell // more of it, below
	Warn  bool   // somebody should look at it

	Copy, Copied, ID string // the button that copies Text, what is said then, and the button's id; "" for no button
}

// heads names columns by keys; a key that ends in "#" is a column of numbers.
func (c *call) heads(keys ...string) (all []head) {
	for _, key := range keys {
		name, number := strings.CutSuffix(key, "#")
		all = append(all, head{c.text(name), number})
	}
	return all
}

// link is a value that leads to a path of this face.
func (c *call) link(text, path string) cell { return cell{Text: text, Path: c.url(path)} }

func code(text string) cell { return cell{Text: text, Kind: "code"} }

// money is an amount as the reader's language writes it, with its currency.
func (c *call) money(a money.Amount) string {
	if a.Asset() == "" {
		return ""
	}
	return c.number(a.String()) + "\u00a0" + string(a.Asset())
}

func (c *call) amount(a money.Amount) cell { return cell{Text: c.money(a), Kind: "number"} }

func (c *call) count(n int64) string { return c.number(strconv.FormatInt(n, 10)) }

// number writes a plain decimal as the reader's language does.
func (c *call) number(plain string) string {
	point, group := ".", ","
	switch c.lang.tag {
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
	if c.lang.tag == "es" && len(whole) == 4 {
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

// instant is an instant in the reader's language, "" for none. All times are UTC, and say so.
func (c *call) instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return c.day(t) + ", " + t.UTC().Format("15:04") + " UTC"
}

func (c *call) day(t time.Time) string {
	months := strings.Fields(c.text("time.months"))
	t = t.UTC()
	return strconv.Itoa(t.Day()) + " " + months[t.Month()-1] + " " + strconv.Itoa(t.Year())
}

func (c *call) at(t time.Time) cell {
	if t.IsZero() {
		return cell{}
	}
	return cell{Text: c.instant(t), ISO: t.UTC().Format(time.RFC3339)}
}

// pager leads through the pages of a list.
type pager struct {
	Told                   string // which part is shown
	Earlier, Later         string // paths, "" at an end
	EarlierText, LaterText string
}

// perPage is how many rows of a list a page shows.
const perPage = 20

// page is the page of a list that was asked for, from 1.
func (c *call) page() int {
	n, err := strconv.Atoi(c.r.URL.Query().Get("page"))
	if err != nil || n < 1 || n > 1_000_000 {
		return 1
	}
	return n
}

// pager leads to the neighbours of a page among total rows, and keeps the filters.
func (c *call) pager(page, size int, total int64) pager {
	to := func(n int) string {
		q := c.r.URL.Query()
		q.Set("page", strconv.Itoa(n))
		return "?" + q.Encode()
	}
	first := int64(page-1)*int64(size) + 1
	last := min(int64(page)*int64(size), total)
	p := pager{EarlierText: c.text("list.earlier"), LaterText: c.text("list.later")}
	if first <= last {
		p.Told = c.text("list.part", c.count(first), c.count(last), c.count(total))
	}
	if page > 1 {
		p.Earlier = to(page - 1)
	}
	if last < total && first <= last {
		p.Later = to(page + 1)
	}
	return p
}

// query is a parameter of the address, cut to a sane length.
func (c *call) query(name string) string {
	text := strings.TrimSpace(c.r.URL.Query().Get(name))
	return text[:min(len(text), 255)]
}

// filter is an input that chooses part of a list: its value is the address's own.
func (c *call) filter(f field) field {
	was := c.form
	c.form = url.Values{f.Name: {c.query(f.Name)}}
	f = c.field(f)
	c.form = was
	return f
}

// choices are the options of a select whose labels are texts: prefix and value make the key. The first is "all of them".
func (c *call) choices(prefix string, values ...string) []option {
	all := []option{{Value: "", Label: c.text("list.all")}}
	for _, v := range values {
		all = append(all, option{Value: v, Label: c.word(prefix, v)})
	}
	return all
}

// word says a value of the domain in the reader's language, or as it is where nobody has translated it.
func (c *call) word(prefix, value string) string {
	if key := prefix + "." + value; c.has(key) {
		return c.text(key)
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
	{"overview.title", "/overview"}, {"payrolls.title", "/payrolls"}, {"recipients.title", "/recipients"}, {"invoices.title", "/invoices"}, {"wallets.title", "/wallets"}, {"kyb.title", companyPath},
}

// Sections is the menu of whoever acts for a company.
func (s shown) Sections() (all []section) {
	if s.c.session == nil || s.c.session.Company.ID == "" {
		return nil
	}
	for _, it := range sections {
		at := s.c.r.URL.Path
		all = append(all, section{s.T(it.key), s.URL(it.path), at == it.path || strings.HasPrefix(at, it.path+"/")})
	}
	return all
}
