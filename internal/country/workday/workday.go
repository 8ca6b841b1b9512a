// Package workday finds working days by the public holidays of a country, and the times at which days begin in a time
// zone.
//
// A day is a [time.Time] at midnight UTC, as [Parse] returns it.
package workday

import (
	"slices"
	"time"

	"github.com/rickar/cal/v2"
	"github.com/rickar/cal/v2/ar"
	"github.com/rickar/cal/v2/at"
	"github.com/rickar/cal/v2/au"
	"github.com/rickar/cal/v2/be"
	"github.com/rickar/cal/v2/bg"
	"github.com/rickar/cal/v2/br"
	"github.com/rickar/cal/v2/ca"
	"github.com/rickar/cal/v2/ch"
	"github.com/rickar/cal/v2/cz"
	"github.com/rickar/cal/v2/de"
	"github.com/rickar/cal/v2/dk"
	"github.com/rickar/cal/v2/es"
	"github.com/rickar/cal/v2/fi"
	"github.com/rickar/cal/v2/fr"
	"github.com/rickar/cal/v2/gb"
	"github.com/rickar/cal/v2/gr"
	"github.com/rickar/cal/v2/hr"
	"github.com/rickar/cal/v2/ie"
	"github.com/rickar/cal/v2/is"
	"github.com/rickar/cal/v2/it"
	"github.com/rickar/cal/v2/jp"
	"github.com/rickar/cal/v2/lt"
	"github.com/rickar/cal/v2/lu"
	"github.com/rickar/cal/v2/lv"
	"github.com/rickar/cal/v2/mx"
	"github.com/rickar/cal/v2/nl"
	"github.com/rickar/cal/v2/no"
	"github.com/rickar/cal/v2/nz"
	"github.com/rickar/cal/v2/pl"
	"github.com/rickar/cal/v2/ro"
	"github.com/rickar/cal/v2/se"
	"github.com/rickar/cal/v2/si"
	"github.com/rickar/cal/v2/sk"
	"github.com/rickar/cal/v2/ua"
	"github.com/rickar/cal/v2/us"
	"github.com/rickar/cal/v2/za"
)

// Weekdays is the calendar without public holidays. Its working days are Monday to Friday.
const Weekdays = "weekdays"

// A Rule determines the day that takes the place of a day that is not a working day.
type Rule string

// The rules.
const (
	None   Rule = "none"   // the same day
	Before Rule = "before" // the last working day before the day
	After  Rule = "after"  // the first working day after the day
)

// calendars contains the public holidays of countries, by country code.
var calendars = func() map[string]*cal.BusinessCalendar {
	cal.DefaultLoc = time.UTC // in a zone whose clock changes at midnight, a day could begin on the day before
	all := map[string]*cal.BusinessCalendar{Weekdays: cal.NewBusinessCalendar()}
	for country, holidays := range map[string][]*cal.Holiday{
		"AR": ar.Holidays, "AT": at.Holidays, "AU": au.HolidaysNSW, "BE": be.Holidays, "BG": bg.Holidays, "BR": br.Holidays,
		"CA": ca.Holidays, "CH": ch.Holidays, "CZ": cz.Holidays, "DE": de.Holidays, "DK": dk.Holidays, "ES": es.Holidays,
		"FI": fi.Holidays, "FR": fr.Holidays, "GB": gb.Holidays, "GR": gr.Holidays, "HR": hr.Holidays, "IE": ie.Holidays,
		"IS": is.Holidays, "IT": it.Holidays, "JP": jp.Holidays, "LT": lt.Holidays, "LU": lu.Holidays, "LV": lv.Holidays,
		"MX": mx.Holidays, "NL": nl.Holidays, "NO": no.Holidays, "NZ": nz.Holidays, "PL": pl.Holidays, "RO": ro.Holidays,
		"SE": se.Holidays, "SI": si.Holidays, "SK": sk.Holidays, "UA": ua.Holidays, "US": us.Holidays, "ZA": za.Holidays,
	} {
		all[country] = cal.NewBusinessCalendar()
		all[country].AddHoliday(holidays...)
	}
	return all
}()

// Calendars returns the sorted codes of the countries whose public holidays are known, followed by [Weekdays].
func Calendars() []string {
	codes := make([]string, 0, len(calendars))
	for code := range calendars {
		codes = append(codes, code)
	}
	slices.Sort(codes)
	return codes
}

// CalendarOf returns the calendar of a country. If its public holidays are not known, it returns [Weekdays].
func CalendarOf(country string) string {
	if Known(country) {
		return country
	}
	return Weekdays
}

// Known reports whether a calendar exists.
func Known(calendar string) bool { return calendars[calendar] != nil }

// Is reports whether a day is a working day of a calendar. The working days of an unknown calendar are Monday to
// Friday.
func Is(calendar string, day time.Time) bool {
	c := calendars[calendar]
	if c == nil {
		c = calendars[Weekdays]
	}
	return c.IsWorkday(day)
}

// Known reports whether r is one of the defined rules.
func (r Rule) Known() bool { return r == None || r == Before || r == After }

// Apply returns the working day on which an event takes place that falls on day, according to the rule.
func (r Rule) Apply(calendar string, day time.Time) time.Time {
	step := map[Rule]int{Before: -1, After: 1}[r]
	for step != 0 && !Is(calendar, day) {
		day = day.AddDate(0, 0, step)
	}
	return day
}

// Parse parses a day such as 2026-09-30.
func Parse(text string) (time.Time, error) { return time.Parse(time.DateOnly, text) }

// On returns the day in a time zone at a given time.
func On(t time.Time, zone *time.Location) time.Time {
	y, m, d := t.In(zone).Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
}

// Begins returns the time at which a day begins in a time zone. This is midnight or, where the clock skips midnight,
// the first time after it.
func Begins(day time.Time, zone *time.Location) time.Time {
	y, m, d := day.Date()
	t := time.Date(y, m, d, 0, 0, 0, 0, zone)
	for t.Day() != d {
		t = t.Add(time.Hour)
	}
	return t
}
