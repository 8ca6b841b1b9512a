package schedule

import (
	"math/rand/v2"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/country/workday"
	"github.com/stipend/stipend/internal/payroll"
)

func date(t *testing.T, text string) time.Time {
	t.Helper()
	d, err := workday.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestRecurrence(t *testing.T) {
	for _, c := range []struct {
		r    Recurrence
		want []string
	}{
		{Recurrence{Frequency: Weekly, Start: date(t, "2026-12-25")}, []string{"2026-12-25", "2027-01-01", "2027-01-08"}},
		{Recurrence{Frequency: Biweekly, Start: date(t, "2026-12-25")}, []string{"2026-12-25", "2027-01-08", "2027-01-22"}},
		{Recurrence{Frequency: Monthly, Start: date(t, "2027-12-31"), Days: []int{31}},
			[]string{"2027-12-31", "2028-01-31", "2028-02-29", "2028-03-31", "2028-04-30"}},
		{Recurrence{Frequency: Semimonthly, Start: date(t, "2027-01-20"), Days: []int{15, 30}},
			[]string{"2027-01-30", "2027-02-15", "2027-02-28", "2027-03-15", "2027-03-30"}},
		{Recurrence{Frequency: Semimonthly, Start: date(t, "2027-02-01"), End: date(t, "2027-02-28"), Days: []int{27, 31}},
			[]string{"2027-02-27", "2027-02-28"}},
	} {
		day, ok := c.r.OnOrAfter(time.Time{})
		for _, want := range c.want {
			if !ok || Text(day) != want {
				t.Errorf("%s %v: %s %t, want %s", c.r.Frequency, c.r.Days, Text(day), ok, want)
			}
			day, ok = c.r.OnOrAfter(day.AddDate(0, 0, 1))
		}
		if !c.r.End.IsZero() && ok {
			t.Errorf("%s goes on after its end, on %s", c.r.Frequency, Text(day))
		}
	}
}

// For random schedules in every calendar, the days increase, none is left out, and asking from any day between two of
// them gives the later one. Pay dates and creation times never decrease, and a payroll is created before the end of its
// pay date.
func TestDaysOfARecurrenceIncreaseAndNoneIsLeftOut(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	zones := []string{"UTC", "America/New_York", "Africa/Cairo", "America/Santiago", "Pacific/Apia", "Pacific/Kiritimati"}
	calendars := workday.Calendars()
	perMonth := map[Frequency][2]int{Weekly: {4, 5}, Biweekly: {2, 3}, Semimonthly: {2, 2}, Monthly: {1, 1}}
	for range 150 {
		zone, err := payroll.Zone(zones[random.IntN(len(zones))])
		if err != nil {
			t.Fatal(err)
		}
		r := Recurrence{Frequency: Frequencies[random.IntN(4)],
			Start: date(t, "2026-01-01").AddDate(0, 0, random.IntN(800))}
		switch r.Frequency {
		case Monthly:
			r.Days = []int{1 + random.IntN(31)}
		case Semimonthly:
			first := 1 + random.IntN(27)
			r.Days = []int{first, first + 1 + random.IntN(31-first)}
		case Weekly, Biweekly:
		}
		var list apierr.List
		if r.check(&list); !list.Empty() {
			t.Fatal(r, list.Err())
		}
		c := Calendar{Rule: []workday.Rule{workday.None, workday.Before, workday.After}[random.IntN(3)],
			Country: calendars[random.IntN(len(calendars))], Zone: zone, DaysAhead: random.IntN(MaxDaysAhead + 1)}
		months := map[string]int{}
		day, _ := r.OnOrAfter(time.Time{})
		last := day
		for last.Before(day.AddDate(1, 0, 0)) {
			months[last.Format("2006-01")]++
			next, ok := r.OnOrAfter(last.AddDate(0, 0, 1))
			between := last.AddDate(0, 0, 1+random.IntN(int(next.Sub(last)/(24*time.Hour))))
			if got, _ := r.OnOrAfter(between); !ok || !next.After(last) || !got.Equal(next) {
				t.Fatalf("%+v: after %s comes %s, and from %s %s", r, Text(last), Text(next), Text(between), Text(got))
			}
			if c.PayDate(next).Before(c.PayDate(last)) || c.CreatedAt(next).Before(c.CreatedAt(last)) ||
				!workday.On(c.CreatedAt(next), zone).Equal(c.PayDate(next).AddDate(0, 0, -c.DaysAhead)) {
				t.Fatalf("%+v %+v: %s and %s", r, c, Text(last), Text(next))
			}
			last = next
		}
		delete(months, day.Format("2006-01"))
		delete(months, last.AddDate(0, 0, -1).Format("2006-01"))
		delete(months, last.Format("2006-01"))
		for month, n := range months {
			if n < perMonth[r.Frequency][0] || n > perMonth[r.Frequency][1] {
				t.Errorf("%+v has %d days in %s", r, n, month)
			}
		}
	}
}

func TestRecurrencesAreChecked(t *testing.T) {
	start := date(t, "2026-01-01")
	for _, r := range []Recurrence{
		{Frequency: "daily", Start: start},
		{Frequency: Weekly, Start: start, Days: []int{1}},
		{Frequency: Monthly, Start: start},
		{Frequency: Monthly, Start: start, Days: []int{32}},
		{Frequency: Monthly, Start: start, Days: []int{1, 15}},
		{Frequency: Semimonthly, Start: start, Days: []int{15, 15}},
		{Frequency: Semimonthly, Start: start, Days: []int{28, 31}}, // one day in February
		{Frequency: Weekly, Start: start, End: start.AddDate(0, 0, -1)},
	} {
		var list apierr.List
		if r.check(&list); list.Empty() {
			t.Errorf("%+v is accepted", r)
		}
	}
}
