package bank

import (
	"fmt"
	"time"
)

// Calendar identifies the holidays of a country's or region's banks.
type Calendar string

// Calendars.
const (
	FederalReserve Calendar = "us"       // Federal Reserve; applies to ACH and wires
	Target         Calendar = "target"   // TARGET, the euro's settlement system
	England        Calendar = "england"  // England and Wales
	Weekdays       Calendar = "weekdays" // Monday to Friday, for banks without a calendar in this package
)

// isBusinessDay reports whether the banks are open on a day.
func (c Calendar) isBusinessDay(day time.Time) bool {
	if w := day.Weekday(); w == time.Saturday || w == time.Sunday {
		return false
	}
	switch c {
	case FederalReserve:
		return !federalHoliday(day)
	case Target:
		y := day.Year()
		return !on(day, time.January, 1) && !on(day, time.May, 1) && !on(day, time.December, 25) &&
			!on(day, time.December, 26) &&
			!sameDay(day, easter(y).AddDate(0, 0, -2)) && !sameDay(day, easter(y).AddDate(0, 0, 1))
	case England:
		return !englishHoliday(day)
	}
	return true
}

// nextBusinessDay returns the first business day on or after a day.
func (c Calendar) nextBusinessDay(day time.Time) time.Time {
	for !c.isBusinessDay(day) {
		day = day.AddDate(0, 0, 1)
	}
	return day
}

func (c Calendar) check() error {
	switch c {
	case FederalReserve, Target, England, Weekdays:
		return nil
	}
	return fmt.Errorf("unknown calendar %q; use us, target, england or weekdays", string(c))
}

func on(day time.Time, m time.Month, d int) bool { return day.Month() == m && day.Day() == d }

func sameDay(day, other time.Time) bool {
	return day.Year() == other.Year() && day.YearDay() == other.YearDay()
}

// nth reports whether a day is the n-th of its weekday in a month, or the last one for n = -1.
func nth(day time.Time, m time.Month, w time.Weekday, n int) bool {
	if day.Month() != m || day.Weekday() != w {
		return false
	}
	if n < 0 {
		return day.AddDate(0, 0, 7).Month() != m
	}
	return (day.Day()-1)/7+1 == n
}

// federalHoliday reports whether the Federal Reserve is closed because of a holiday. A holiday on a Sunday is
// observed on Monday; a holiday on a Saturday is not observed.
func federalHoliday(day time.Time) bool {
	fixed := func(m time.Month, d int) bool {
		return on(day, m, d) || day.Weekday() == time.Monday && on(day.AddDate(0, 0, -1), m, d)
	}
	return fixed(time.January, 1) || nth(day, time.January, time.Monday, 3) || nth(day, time.February, time.Monday, 3) ||
		nth(day, time.May, time.Monday, -1) || fixed(time.June, 19) || fixed(time.July, 4) ||
		nth(day, time.September, time.Monday, 1) ||
		nth(day, time.October, time.Monday, 2) || fixed(time.November, 11) || nth(day, time.November, time.Thursday, 4) ||
		fixed(time.December, 25)
}

// englishHoliday reports whether banks in England are closed. A holiday on a weekend is observed on the next weekday.
func englishHoliday(day time.Time) bool {
	y := day.Year()
	if sameDay(day, easter(y).AddDate(0, 0, -2)) || sameDay(day, easter(y).AddDate(0, 0, 1)) ||
		nth(day, time.May, time.Monday, 1) ||
		nth(day, time.May, time.Monday, -1) || nth(day, time.August, time.Monday, -1) {
		return true
	}
	if day.Month() == time.January { // New Year's Day is observed on the 1st or the Monday after it
		return day.Day() == 1 || day.Weekday() == time.Monday && day.Day() <= 3
	}
	if day.Month() != time.December || day.Day() < 25 {
		return false
	}
	switch christmas := time.Date(y, time.December, 25, 0, 0, 0, 0, time.UTC).Weekday(); christmas {
	case time.Friday: // Christmas Day is a Friday, so Boxing Day is a Saturday
		return day.Day() == 25 || day.Day() == 28
	case time.Saturday, time.Sunday:
		return day.Day() == 27 || day.Day() == 28 && christmas == time.Saturday || day.Day() == 26 && christmas == time.Sunday
	}
	return day.Day() <= 26
}

// easter returns Easter Sunday of a year of the Gregorian calendar (Butcher's algorithm).
func easter(y int) time.Time {
	a, b, c := y%19, y/100, y%100
	d, e := b/4, b%4
	f := (b + 8) / 25
	g := (b - f + 1) / 3
	h := (19*a + b - d - g + 15) % 30
	i, k := c/4, c%4
	l := (32 + 2*e + 2*i - h - k) % 7
	m := (a + 11*h + 22*l) / 451
	n := h + l - 7*m + 114
	return time.Date(y, time.Month(n/31), n%31+1, 0, 0, 0, 0, time.UTC)
}
