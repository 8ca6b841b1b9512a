package httpapi

import (
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/stipend/stipend/internal/money"
)

// Decimal is a JSON number as decimal text. It is never converted to binary floating point.
type Decimal string

// amount returns an amount of money as a Decimal.
func amount(a money.Amount) Decimal { return Decimal(a.String()) }

// MarshalJSONTo writes the number; empty text is 0.
func (d Decimal) MarshalJSONTo(enc *jsontext.Encoder) error {
	if d == "" {
		d = "0"
	}
	return enc.WriteValue(jsontext.Value(d))
}

// UnmarshalJSONFrom reads a number without an exponent. It ignores any other value.
func (d *Decimal) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	t, err := dec.ReadToken()
	if err == nil && t.Kind() == '0' {
		plain, _ := plainNumber(t.String())
		*d = Decimal(plain)
	}
	return err
}

// Schema returns the schema in the contract.
func (Decimal) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: "number", Format: "decimal"}
}

// maxDigits limits the digits of a number before it is parsed. The largest amount of any asset has 19.
const maxDigits = 40

// plainNumber returns a JSON number without exponent. It reports false for one with more than maxDigits digits.
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

// Schema returns the schema in the contract.
func (Time) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: "string", Format: "date-time"}
}

// paging is embedded in the input of a paged list.
type paging struct {
	Page    int `query:"page" default:"1" minimum:"1" doc:"Page number, from 1."`
	PerPage int `query:"per_page" default:"20" minimum:"1" doc:"At most 100; larger values mean 100."`
}

// maxPerPage is the maximum page size.
const maxPerPage = 100

func (p paging) size() int { return min(p.PerPage, maxPerPage) }

// number returns the number of the page to read. No list has as many pages as its maximum.
func (p paging) number() int { return min(p.Page, 1_000_000_000) }

// meta describes a page of a list.
type meta struct {
	Page    int   `json:"page"`
	Total   int64 `json:"total"`
	Pages   int   `json:"pages"`
	HasPrev bool  `json:"has_prev"`
	HasNext bool  `json:"has_next"`
	PrevNum int   `json:"prev_num" doc:"0 on the first page."`
	NextNum int   `json:"next_num" doc:"0 on the last page."`
	PerPage int   `json:"per_page"`
}

// meta returns the description of a page of a list with total items.
func (p paging) meta(total int64) meta {
	size := int64(p.size())
	m := meta{Page: p.Page, Total: total, Pages: int((total + size - 1) / size), PerPage: p.size()}
	if m.Page > 1 {
		m.HasPrev, m.PrevNum = true, m.Page-1
	}
	if m.Page < m.Pages {
		m.HasNext, m.NextNum = true, m.Page+1
	}
	return m
}
