package ui

import (
	"strconv"

	"github.com/stipend/stipend/internal/db"
)

// Pager holds the links to the next and previous page of a list.
type Pager struct {
	Range                  string // such as "1 to 20 of 45"
	Earlier, Later         string // relative URLs; "" at an end of the list
	EarlierText, LaterText string
}

// PerPage is the number of rows on a page of a list.
const PerPage = 20

// PageNumber returns the requested page of a list, starting at 1.
func (c *Request) PageNumber() int {
	n, err := strconv.Atoi(c.HTTP.URL.Query().Get("page"))
	if err != nil || n < 1 || n > 1_000_000 {
		return 1
	}
	return n
}

// Page returns the requested page of a list, of PerPage rows.
func (c *Request) Page() db.Page { return db.Page{Number: c.PageNumber(), PerPage: PerPage} }

// Pager returns the links around a page of a list of total rows. They keep the filters.
func (c *Request) Pager(p db.Page, total int64) Pager {
	page, size := max(p.Number, 1), p.PerPage
	to := func(n int) string {
		q := c.HTTP.URL.Query()
		q.Set("page", strconv.Itoa(n))
		return "?" + q.Encode()
	}
	first := int64(page-1)*int64(size) + 1
	last := min(int64(page)*int64(size), total)
	links := Pager{EarlierText: c.Text("list.earlier"), LaterText: c.Text("list.later")}
	if first <= last {
		links.Range = c.Text("list.part", c.FormatCount(first), c.FormatCount(last), c.FormatCount(total))
	}
	if page > 1 {
		links.Earlier = to(page - 1)
	}
	if last < total && first <= last {
		links.Later = to(page + 1)
	}
	return links
}
