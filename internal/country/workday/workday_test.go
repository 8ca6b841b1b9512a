package workday

import (
	"slices"
	"testing"
	"time"
	_ "time/tzdata"
)

func day(t *testing.T, text string) time.Time {
	t.Helper()
	d, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestRulesAvoidWeekendsAndHolidays(t *testing.T) {
	for _, c := range []struct {
		calendar, day string
		rule          Rule
		want          string
	}{
		{"US", "2026-07-03", Before, "2026-07-02"}, // Independence Day is a Saturday, observed on Friday
		{"US", "2026-11-26", After, "2026-11-27"},  // Thanksgiving
		{"DE", "2026-05-01", Before, "2026-04-30"},
		{"DE", "2026-05-01", After, "2026-05-04"},
		{"DE", "2026-05-01", None, "2026-05-01"},
		{"GB", "2026-12-25", After, "2026-12-29"}, // Boxing Day is a Saturday, observed on Monday
		{"FR", "2026-07-14", Before, "2026-07-13"},
		{"US", "2026-07-14", Before, "2026-07-14"},
		{Weekdays, "2026-12-25", After, "2026-12-25"},
		{"XX", "2026-10-31", Before, "2026-10-30"},
	} {
		if got := c.rule.Apply(c.calendar, day(t, c.day)); !got.Equal(day(t, c.want)) {
			t.Errorf("%s %s %s: %s, want %s", c.calendar, c.rule, c.day, got.Format(time.DateOnly), c.want)
		}
	}
}

// In every calendar and year, a rule ends on a working day, at most twelve days away.
func TestEveryDayIsNearAWorkingDay(t *testing.T) {
	all := Calendars()
	if !slices.Contains(all, "US") || all[len(all)-1] != Weekdays {
		t.Errorf("%v", all)
	}
	for _, calendar := range all {
		for d := day(t, "2026-01-01"); d.Year() < 2029; d = d.AddDate(0, 0, 1) {
			before, after := Before.Apply(calendar, d), After.Apply(calendar, d)
			if !Is(calendar, before) || !Is(calendar, after) || d.Sub(before) > 12*24*time.Hour ||
				after.Sub(d) > 12*24*time.Hour || before.After(d) || after.Before(d) || Is(calendar, d) != before.Equal(after) {
				t.Errorf("%s %s: %s and %s", calendar, d.Format(time.DateOnly), before, after)
			}
		}
	}
}

// A day begins on that day in every zone, also where the clock skips midnight, and days do not overlap.
func TestDaysBeginOnTheirDay(t *testing.T) {
	for _, name := range []string{"UTC", "America/New_York", "Africa/Cairo", "America/Santiago", "Asia/Beirut",
		"Pacific/Apia", "Asia/Kathmandu"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for d := day(t, "2023-01-01"); d.Year() < 2028; d = d.AddDate(0, 0, 1) {
			begins := Begins(d, zone)
			if !On(begins, zone).Equal(d) || On(begins.Add(-time.Nanosecond), zone).Equal(d) {
				t.Errorf("%s: %s begins at %s", name, d.Format(time.DateOnly), begins)
			}
		}
	}
}
