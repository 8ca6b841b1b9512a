package texts

import (
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/stipend/stipend/internal/money"
)

// FormatMoney formats an amount and its currency for the reader's language. It returns "" for an amount without a
// currency.
func (r *Reader) FormatMoney(a money.Amount) string {
	if a.Asset() == "" {
		return ""
	}
	text := r.FormatNumber(a.String()) + "\u00a0" + string(a.Asset())
	if r.Language.RightToLeft() {
		text = "\u2066" + text + "\u2069" // money is written from left to right in every language
	}
	return text
}

// FormatCount formats a whole number for the reader's language.
func (r *Reader) FormatCount(n int64) string { return r.FormatNumber(strconv.FormatInt(n, 10)) }

// separators returns the decimal separator and the group separator that the reader chose, or those of the language.
func (r *Reader) separators() (point, group string) {
	switch r.Locale.NumberFormat {
	case "comma_point":
		return ".", ","
	case "point_comma":
		return ",", "."
	case "space_comma":
		return ",", "\u202f"
	case "apostrophe_point":
		return ".", "’"
	}
	switch r.Language.Tag {
	case "es", "pt", "de":
		return ",", "."
	case "fr":
		return ",", "\u202f"
	}
	return ".", ","
}

// symbols are the symbols that people type with amounts.
var symbols = map[money.Asset]string{money.USD: "$", money.EUR: "€", money.GBP: "£"}

// PlainAmount returns an amount that a person typed, such as "1.250,50 €" or "$1,250.50", as a decimal with a point. It
// accepts grouping and both decimal separators, and the code or symbol of the given currency. An amount that could
// mean two numbers, such as 1.250 in a language with a decimal point, is returned with a comma, so that it is refused.
// Any other text is returned unchanged.
func (r *Reader) PlainAmount(typed string, currency money.Asset) string {
	text := strings.Map(func(x rune) rune {
		if unicode.IsSpace(x) || unicode.Is(unicode.Cf, x) || x == '\'' || x == '’' {
			return -1
		}
		return x
	}, strings.ToUpper(typed))
	for _, mark := range []string{string(currency), symbols[currency]} {
		text = strings.TrimSuffix(strings.TrimPrefix(text, mark), mark)
	}
	last := strings.LastIndexAny(text, ".,")
	if last < 0 {
		return text
	}
	whole, rest := text[:last], text[last+1:]
	mark, other := text[last:last+1], strings.Trim(".,", text[last:last+1])
	switch point, group := r.separators(); {
	case strings.Contains(whole, other): // the last one marks the decimals
		whole, ok := ungroup(whole, other)
		if !ok {
			return typed
		}
		return whole + "." + rest
	case strings.Contains(whole, mark): // several of one kind are grouping
		text, ok := ungroup(text, mark)
		if !ok {
			return typed
		}
		return text
	case len(rest) != 3 || strings.Trim(whole, "0") == "" || currency.IsCrypto() && mark == point:
		return whole + "." + rest
	case mark == group:
		return whole + rest
	}
	return whole + "," + rest
}

// ungroup removes a separator, and reports whether it separates groups of three digits.
func ungroup(text, separator string) (string, bool) {
	groups := strings.Split(text, separator)
	for i, g := range groups {
		if i > 0 && len(g) != 3 || g == "" || strings.Trim(g, "0123456789") != "" {
			return "", false
		}
	}
	return strings.Join(groups, ""), len(groups[0]) <= 3
}

// FormatNumber formats a decimal such as "-1234.50" for the reader's language.
func (r *Reader) FormatNumber(plain string) string {
	point, group := r.separators()
	sign := ""
	if strings.HasPrefix(plain, "-") {
		sign, plain = "\u2212", plain[1:]
	}
	whole, rest, hasRest := strings.Cut(plain, ".")
	if r.Language.Tag == "es" && len(whole) == 4 && r.Locale.NumberFormat == "" {
		group = "" // Spanish does not group four digits
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

// FormatTime formats a time for the reader's language, in the reader's time zone, else in UTC. It returns "" for the
// zero time.
func (r *Reader) FormatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	t = t.In(r.zone())
	name, _ := t.Zone()
	if strings.HasPrefix(name, "+") || strings.HasPrefix(name, "-") { // a zone without an abbreviation
		name = "UTC" + name
	}
	return r.formatDay(t) + ", " + t.Format("15:04") + " " + name
}

// zone returns the time zone of the signed-in user, or UTC.
func (r *Reader) zone() *time.Location {
	zone, err := time.LoadLocation(r.Locale.TimeZone) // "" is UTC
	if err != nil {
		return time.UTC
	}
	return zone
}

// FormatDate formats a date in UTC for the reader's language.
func (r *Reader) FormatDate(t time.Time) string { return r.formatDay(t.UTC()) }

func (r *Reader) formatDay(t time.Time) string {
	months := strings.Fields(r.Text("time.months"))
	switch r.Language.Tag {
	case "en":
		return months[t.Month()-1] + " " + strconv.Itoa(t.Day()) + ", " + strconv.Itoa(t.Year())
	case "de":
		return strconv.Itoa(t.Day()) + ". " + months[t.Month()-1] + " " + strconv.Itoa(t.Year())
	}
	return strconv.Itoa(t.Day()) + " " + months[t.Month()-1] + " " + strconv.Itoa(t.Year())
}

// Word returns the text prefix.value, or value with spaces for underscores if there is no such text.
func (r *Reader) Word(prefix, value string) string {
	if key := prefix + "." + value; r.HasText(key) {
		return r.Text(key)
	}
	return strings.ReplaceAll(value, "_", " ")
}

// FormatRate returns an exchange rate, such as "1 BTC = 65,000 USD".
func (r *Reader) FormatRate(rate money.Rate) string {
	return r.Text("payroll.rate.is", string(rate.Base()), r.FormatNumber(rate.String()), string(rate.Quote()))
}
