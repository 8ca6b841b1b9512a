package payroll

import (
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/country/workday"
)

// Period is the pay period of a payroll: the first and the last day of the work that the payroll pays, such as
// 2026-09-01 and 2026-09-30. The zero Period means none. The period has no effect on when or what the payees are
// paid.
type Period struct{ Start, End string }

// longestPeriod is the largest number of days in a pay period.
const longestPeriod = 366

// days returns the first and the last day of a period.
func (p Period) days() (start, end time.Time, err error) {
	if start, err = workday.Parse(p.Start); err == nil {
		end, err = workday.Parse(p.End)
	}
	return start, end, err
}

// check adds the problems of a period to list.
func (p Period) check(list *apierr.List) {
	for _, f := range []struct{ field, day, other string }{
		{"period_start", p.Start, p.End}, {"period_end", p.End, p.Start},
	} {
		if f.day == "" && f.other != "" {
			list.Add("missing_field", "/"+f.field, "period_start and period_end are set together.")
		} else if _, err := workday.Parse(f.day); f.day != "" && err != nil {
			list.Add("invalid_parameter", "/"+f.field, f.field+" is a day such as 2026-09-30.")
		}
	}
	start, end, err := p.days()
	if err == nil && (end.Before(start) || end.After(start.AddDate(0, 0, longestPeriod-1))) {
		list.Add("invalid_parameter", "/period_end", "period_end is on or after period_start, by at most a year.")
	}
}

// Next returns the period that follows p: as many calendar months if p consists of whole months, else as many days.
// It returns the zero Period if p is zero or invalid.
func (p Period) Next() Period {
	start, end, err := p.days()
	if err != nil {
		return Period{}
	}
	first := end.AddDate(0, 0, 1)
	last := first.AddDate(0, 0, int(end.Sub(start)/(24*time.Hour)))
	if start.Day() == 1 && first.Day() == 1 {
		months := 12*(first.Year()-start.Year()) + int(first.Month()-start.Month())
		last = first.AddDate(0, months, -1)
	}
	return Period{first.Format(time.DateOnly), last.Format(time.DateOnly)}
}
