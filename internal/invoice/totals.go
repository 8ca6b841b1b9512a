package invoice

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/metadata"
	"github.com/stipend/stipend/internal/money"
)

// This file computes an invoice's amounts and validates it. Its functions are pure.

const (
	quantityPlaces = 3
	percentPlaces  = 2
)

// fill sets the invoice's members and amounts from a request. Its error lists all problems.
func (v *Invoice) fill(p CreateParams, now time.Time) error {
	var list apierr.List
	if p.Number != "" {
		v.Number = identity.Line(&list, "/number", p.Number, 1, 40)
	}
	if p.Currency != "" && p.Currency != string(v.Currency) {
		list.Add("currency_not_supported", "/currency",
			"This payer is invoiced in "+string(v.Currency)+", its payroll_invoice_currency.")
	}
	v.dates(p, now, &list)
	metadata.Check(&list, "/metadata", p.Metadata)
	v.Notes = paragraph(&list, "/notes", p.Notes, 2000)
	switch n := len(p.Items); {
	case n == 0:
		list.Add("missing_field", "/items", "An invoice has at least one line.")
	case n > MaxItems:
		list.Add("invalid_parameter", "/items", fmt.Sprintf("An invoice has at most %d lines.", MaxItems))
	default:
		if err := v.price(p.Items, &list); err != nil {
			return err
		}
	}
	return list.Err()
}

func (v *Invoice) dates(p CreateParams, now time.Time, list *apierr.List) {
	issued, ok := date(list, "/issue_date", p.IssueDate, now)
	due, okDue := date(list, "/due_date", p.DueDate, issued.Add(dueAfter))
	v.IssueDate, v.DueDate = issued.Format(time.DateOnly), due.Format(time.DateOnly)
	switch {
	case ok && issued.After(now.AddDate(1, 0, 0)):
		list.Add("invalid_parameter", "/issue_date", "An invoice is issued within the next year.")
	case !ok || !okDue:
	case v.DueDate < v.IssueDate:
		list.Add("invalid_parameter", "/due_date", "An invoice is due on its issue date or later.")
	case due.After(now.AddDate(latestYear, 0, 0)):
		list.Add("invalid_parameter", "/due_date", fmt.Sprintf("An invoice is due within %d years.", latestYear))
	}
}

func date(list *apierr.List, pointer, text string, otherwise time.Time) (time.Time, bool) {
	if text == "" {
		return otherwise.UTC(), true
	}
	t, err := time.Parse(time.DateOnly, text)
	if err != nil || t.Year() < 2000 {
		list.Add("invalid_parameter", pointer, "This is a date such as 2026-01-31.")
		return otherwise.UTC(), false
	}
	return t, true
}

// paragraph reads a text of several lines.
func paragraph(list *apierr.List, pointer, text string, most int) string {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	var problems apierr.List
	for i := range lines {
		lines[i] = identity.Line(&problems, pointer, lines[i], 0, most)
	}
	joined := strings.TrimSpace(strings.Join(lines, "\n"))
	if !problems.Empty() || len([]rune(joined)) > most {
		list.Add("invalid_parameter", pointer,
			fmt.Sprintf("This is text of at most %d characters, without control characters.", most))
		return ""
	}
	return joined
}

// Preview returns the lines and totals of an unfinished invoice, and stores nothing. An incomplete line counts as
// zero and has no amount.
func Preview(currency money.Asset, items []Item) (Invoice, error) {
	v, items := Invoice{Currency: currency}, slices.Clone(items)
	for i := range items {
		items[i].Description = cmp.Or(strings.TrimSpace(items[i].Description), "-") // the user may enter it last
	}
	var unfinished apierr.List
	if err := v.price(items, &unfinished); err != nil {
		return v, err
	}
	var err error
	v.Total, err = v.Subtotal.Add(v.Tax)
	return v, unfinished.AddErr(err, "/items")
}

// price computes every line and the sums. Each line and its tax are rounded once, half to even.
func (v *Invoice) price(items []Item, list *apierr.List) error {
	v.Subtotal, v.Tax = money.Zero(v.Currency), money.Zero(v.Currency)
	v.Items = make([]Item, len(items))
	for i, it := range items {
		at := func(member string) string { return fmt.Sprintf("/items/%d/%s", i, member) }
		before := len(list.Fields())
		it.Description = identity.Line(list, at("description"), it.Description, 1, 500)
		quantity := int64(1000)
		if it.Quantity != "" {
			quantity = fraction(list, at("quantity"), it.Quantity, quantityPlaces, 1, 1_000_000_000)
		}
		rate := fraction(list, at("tax_rate"), it.TaxRate, percentPlaces, 0, 10_000)
		unit, err := money.Parse(v.Currency, it.UnitPrice)
		if err == nil && unit.Sign() <= 0 {
			err = money.ErrNotPositive
		}
		if err := list.AddErr(err, at("unit_price")); err != nil {
			return err
		}
		if len(list.Fields()) > before {
			continue
		}
		if err := list.AddErr(v.add(&it, unit, quantity, rate), at("unit_price")); err != nil {
			return err
		}
		it.Quantity, it.UnitPrice, it.TaxRate = decimal(quantity, quantityPlaces), unit.String(), decimal(rate, percentPlaces)
		v.Items[i] = it
	}
	if !list.Empty() {
		return nil
	}
	if v.Subtotal.Sign() <= 0 {
		list.Add(money.ErrNotPositive.Code, "/items", "The invoice comes to nothing.")
		return nil
	}
	var err error
	v.Total, err = v.Subtotal.Add(v.Tax)
	return list.AddErr(err, "/items")
}

// add computes the net amount and the tax of one line and adds them to the totals.
func (v *Invoice) add(it *Item, unit money.Amount, quantity, rate int64) error {
	net, err := unit.Fraction(quantity, 1000, money.HalfEven)
	if err != nil {
		return err
	}
	tax, err := net.Fraction(rate, 10_000, money.HalfEven)
	if err != nil {
		return err
	}
	it.Amount = net.String()
	if v.Subtotal, err = v.Subtotal.Add(net); err != nil {
		return err
	}
	v.Tax, err = v.Tax.Add(tax)
	return err
}

// fraction reads a decimal, with at most places decimals and within limits, as an integer number of units of the last
// decimal. "" is 0.
func fraction(list *apierr.List, pointer, text string, places int, least, most int64) int64 {
	whole, part, _ := strings.Cut(text, ".")
	part = strings.TrimRight(part, "0")
	n := int64(0)
	var err error
	if len(part) <= places {
		n, err = strconv.ParseInt(whole+part+strings.Repeat("0", places-len(part)), 10, 64)
	}
	if text == "" {
		n, err = 0, nil
	}
	if err != nil || len(part) > places || n < least || n > most {
		list.Add("invalid_parameter", pointer, fmt.Sprintf("This is a number from %s to %s with at most %d decimals.",
			decimal(least, places), decimal(most, places), places))
		return 0
	}
	return n
}

// decimal formats an integer number of units of the last decimal as a decimal, without trailing zeros.
func decimal(n int64, places int) string {
	text := strconv.FormatInt(n, 10)
	if len(text) <= places {
		text = strings.Repeat("0", places+1-len(text)) + text
	}
	whole, part := text[:len(text)-places], strings.TrimRight(text[len(text)-places:], "0")
	if part == "" {
		return whole
	}
	return whole + "." + part
}
