package payroll

import (
	"cmp"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/country/workday"
	"github.com/stipend/stipend/internal/identity"
)

// MaxAhead is the largest number of days from now to the pay date of a payroll.
const MaxAhead = 31

// PayDay is the day on which the payees of a payroll are paid. The company funds the payroll before that day, and the
// payroll's quote fixes the amount that the company pays. Payees who are paid in the funding currency receive amounts
// at the rate of the quote; other conversions use the rates of the pay date. A payroll that is funded after its pay
// date is released at once.
type PayDay struct {
	Date       string       // such as 2026-09-30; "" for none
	TimeZone   string       // IANA name; "" is UTC
	WorkingDay workday.Rule // "" is workday.None
	Calendar   string       // one of workday.Calendars; "" is the calendar of the company's country
}

// setPayDay sets the pay date of a plan. It adds problems to list.
func (t *plan) setPayDay(d PayDay, c identity.Company, now time.Time, list *apierr.List) {
	if d.Date == "" {
		if d != (PayDay{}) {
			list.Add("missing_field", "/pay_date", "pay_date is required for time_zone, working_day and calendar.")
		}
		return
	}
	zone, err := Zone(d.TimeZone)
	if err != nil {
		list.Add("invalid_parameter", "/time_zone", "time_zone is the IANA name of a time zone, such as America/New_York.")
		return
	}
	rule, calendar := cmp.Or(d.WorkingDay, workday.None), cmp.Or(d.Calendar, workday.CalendarOf(c.Country))
	if !rule.Known() {
		list.Add("invalid_parameter", "/working_day", "working_day is none, before or after.")
	}
	if !workday.Known(calendar) {
		list.Add("invalid_parameter", "/calendar",
			"calendar is weekdays or the code of a country whose public holidays the service knows, such as US.")
	}
	day, err := workday.Parse(d.Date)
	if err != nil {
		list.Add("invalid_parameter", "/pay_date", "pay_date is a day such as 2026-09-30.")
		return
	}
	today := workday.On(now, zone)
	if day.Before(today) || day.After(today.AddDate(0, 0, MaxAhead)) {
		list.Add("invalid_parameter", "/pay_date", "pay_date must be today or at most 31 days ahead.")
		return
	}
	day = rule.Apply(calendar, day)
	t.payDate, t.releaseAt = day.Format(time.DateOnly), workday.Begins(day, zone)
	// Otherwise the company could wait for the market, and cancel if the fixed rate is bad for it.
	if t.fromBalance() && t.funding != "" && t.funding != t.currency {
		list.Add("currency_not_supported", "/funding_method",
			"From a balance, a payroll with a pay date is paid in its own currency.")
	}
}

// fromBalance reports whether the payroll is paid from a balance of the company.
func (t *plan) fromBalance() bool { return t.method != MethodCrypto && t.method != MethodBank }

// Zone returns a time zone by its IANA name, UTC for "".
func Zone(name string) (*time.Location, error) {
	if name == "Local" { // the time zone of this machine
		name = "-"
	}
	return time.LoadLocation(name)
}
