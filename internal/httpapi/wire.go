package httpapi

import (
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

// Decimal is a JSON number in decimal notation. It is never converted to binary floating point.
type Decimal string

// amount converts an amount of money to a Decimal.
func amount(a money.Amount) Decimal { return Decimal(a.String()) }

// MarshalJSONTo writes the number. It writes an empty Decimal as 0.
func (d Decimal) MarshalJSONTo(enc *jsontext.Encoder) error {
	if d == "" {
		d = "0"
	}
	return enc.WriteValue(jsontext.Value(d))
}

// UnmarshalJSONFrom reads a number and stores it without an exponent. It ignores values of other types.
func (d *Decimal) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	t, err := dec.ReadToken()
	if err == nil && t.Kind() == '0' {
		plain, _ := plainNumber(t.String())
		*d = Decimal(plain)
	}
	return err
}

// Schema returns the type's schema in the contract.
func (Decimal) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: "number", Format: "decimal"}
}

// maxDigits is the maximum number of digits of a number, checked before the number is parsed. The largest amount of
// any asset has 19 digits.
const maxDigits = 40

// plainNumber returns a JSON number without an exponent. It returns false if the result would have more than
// maxDigits digits.
func plainNumber(text string) (string, bool) {
	i := strings.IndexAny(text, "eE")
	if i < 0 {
		return text, len(text) <= maxDigits
	}
	exponent, err := strconv.Atoi(text[i+1:])
	if err != nil || i > maxDigits || exponent > maxDigits || exponent < -maxDigits {
		return "", false
	}
	digits, sign := text[:i], ""
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	whole, fraction, _ := strings.Cut(digits, ".")
	point := len(whole) + exponent
	digits = whole + fraction
	if point <= 0 {
		digits = strings.Repeat("0", 1-point) + digits
		point = 1
	}
	if point > len(digits) {
		digits += strings.Repeat("0", point-len(digits))
	}
	whole = strings.TrimLeft(digits[:point-1], "0") + digits[point-1:point]
	if fraction = digits[point:]; fraction != "" {
		whole += "." + fraction
	}
	return sign + whole, len(whole) <= maxDigits
}

// Time is written as RFC 3339 in UTC, in whole seconds or milliseconds.
type Time time.Time

// MarshalJSONTo writes the time.
func (t Time) MarshalJSONTo(enc *jsontext.Encoder) error {
	layout := "2006-01-02T15:04:05Z"
	u := time.Time(t).UTC().Truncate(time.Millisecond)
	if u.Nanosecond() != 0 {
		layout = "2006-01-02T15:04:05.000Z"
	}
	return enc.WriteToken(jsontext.String(u.Format(layout)))
}

// Schema returns the type's schema in the contract.
func (Time) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: "string", Format: "date-time"}
}

// paging is embedded in the inputs of lists that are read by page number.
type paging struct {
	Page    int `query:"page" default:"1" minimum:"1" doc:"Page number, from 1."`
	PerPage int `query:"per_page" default:"20" minimum:"1" doc:"At most 100; larger values mean 100."`
}

// cursorPaging is embedded in the inputs of lists that are read by page number or by cursor.
type cursorPaging struct {
	paging
	Cursor string `query:"cursor" maxLength:"100" doc:"next_cursor of the page before; page is ignored."`
}

// maxPerPage is the maximum page size.
const maxPerPage = 100

// page returns the page to read. It limits the page number to more pages than any list has.
func (p paging) page() db.Page {
	return db.Page{Number: min(p.Page, 1_000_000_000), PerPage: min(p.PerPage, maxPerPage)}
}

func (p cursorPaging) page() db.Page {
	page := p.paging.page()
	page.After = p.Cursor
	return page
}

// meta describes the position of a page in its list.
type meta struct {
	Page       int    `json:"page"`
	Total      int64  `json:"total"`
	Pages      int    `json:"pages"`
	HasPrev    bool   `json:"has_prev"`
	HasNext    bool   `json:"has_next"`
	PrevNum    int    `json:"prev_num" doc:"0 on the first page, and on a page that is read by cursor."`
	NextNum    int    `json:"next_num" doc:"0 on the last page, and on a page that is read by cursor."`
	PerPage    int    `json:"per_page"`
	NextCursor string `json:"next_cursor"`
}

// meta returns the position of the page in a list of total items.
func (p paging) meta(total int64) meta {
	size := int64(p.page().PerPage)
	m := meta{Page: p.Page, Total: total, Pages: int((total + size - 1) / size), PerPage: int(size)}
	if m.Page > 1 {
		m.HasPrev, m.PrevNum = true, m.Page-1
	}
	if m.Page < m.Pages {
		m.HasNext, m.NextNum = true, m.Page+1
	}
	return m
}

// metaOf returns the position of the page in a list of total items. The function id returns the ID of an item, for
// the next cursor.
func metaOf[T any](p cursorPaging, total int64, items []T, id func(T) string) meta {
	m := p.meta(total)
	if p.Cursor != "" { // the last page may be full, so the page after it can be empty
		m.Page, m.PrevNum, m.NextNum, m.HasPrev, m.HasNext = 0, 0, 0, true, len(items) == m.PerPage
	}
	if m.HasNext && len(items) > 0 {
		m.NextCursor = id(items[len(items)-1])
	}
	return m
}
