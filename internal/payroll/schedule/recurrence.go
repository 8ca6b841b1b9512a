package schedule

import (
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/country/workday"
)

// Frequency is how often a schedule runs.
type Frequency string

// Frequencies.
const (
	Weekly      Frequency = "weekly"
	Biweekly    Frequency = "biweekly"    // every second week
	Semimonthly Frequency = "semimonthly" // on two days of each month
	Monthly     Frequency = "monthly"     // on one day of each month
)

// Frequencies lists all frequencies.
var Frequencies = []Frequency{Weekly, Biweekly, Semimonthly, Monthly}

// Recurrence determines the days of a schedule's runs, before the working-day rule applies.
type Recurrence struct {
	Frequency Frequency
	Start     time.Time // first possible day of a run; weekly and biweekly schedules run on it first
	End       time.Time // last possible day of a run; zero for none
	Days      []int     // days of the month; in a shorter month, its last day. Empty for weekly and biweekly schedules.
}

// check adds the problems of a recurrence to list.
func (r Recurrence) check(list *apierr.List) {
	days := len(r.Days)
	switch r.Frequency {
	case Weekly, Biweekly:
		if days > 0 {
			list.Add("invalid_parameter", "/days", "Leave days out: a weekly schedule runs on the weekday of start_date.")
		}
	case Monthly:
		if days != 1 || r.Days[0] < 1 || r.Days[0] > 31 {
			list.Add("invalid_parameter", "/days", "days of a monthly schedule is one day of the month, from 1 to 31.")
		}
	case Semimonthly:
		if days != 2 || r.Days[0] < 1 || r.Days[0] > 27 || r.Days[1] <= r.Days[0] || r.Days[1] > 31 {
			list.Add("invalid_parameter", "/days",
				"days of a semimonthly schedule is two days of the month in order, the first from 1 to 27.")
		}
	default:
		list.Add("invalid_parameter", "/frequency", "frequency is weekly, biweekly, semimonthly or monthly.")
	}
	if !r.End.IsZero() && r.End.Before(r.Start) {
		list.Add("invalid_parameter", "/end_date", "end_date must not be before start_date.")
	}
}

// OnOrAfter returns the first day of the recurrence on or after a day. ok is false if there is no such day.
func (r Recurrence) OnOrAfter(day time.Time) (next time.Time, ok bool) {
	if day.Before(r.Start) {
		day = r.Start
	}
	switch r.Frequency {
	case Weekly, Biweekly:
		length := 7
		if r.Frequency == Biweekly {
			length = 14
		}
		passed := int(day.Sub(r.Start) / (24 * time.Hour))
		next = r.Start.AddDate(0, 0, (passed+length-1)/length*length)
	default:
		for month := time.Date(day.Year(), day.Month(), 1, 0, 0, 0, 0, time.UTC); next.IsZero(); month = month.AddDate(0, 1,
			0) {
			last := month.AddDate(0, 1, -1).Day()
			for _, d := range r.Days {
				if at := month.AddDate(0, 0, min(d, last)-1); !at.Before(day) {
					next = at
					break
				}
			}
		}
	}
	return next, r.End.IsZero() || !next.After(r.End)
}

// Calendar determines when the payroll of a run is created and when it is paid.
type Calendar struct {
	Rule      workday.Rule
	Country   string // one of workday.Calendars
	Zone      *time.Location
	DaysAhead int // days between the creation of a payroll and its pay date
}

// PayDate returns the day on which the run of a day is paid.
func (c Calendar) PayDate(day time.Time) time.Time { return c.Rule.Apply(c.Country, day) }

// CreatedAt returns the time at which the payroll of the run of a day is created.
func (c Calendar) CreatedAt(day time.Time) time.Time {
	return workday.Begins(c.PayDate(day).AddDate(0, 0, -c.DaysAhead), c.Zone)
}
