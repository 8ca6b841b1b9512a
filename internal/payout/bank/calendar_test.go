package bank

import (
	"strings"
	"testing"
	"time"

	"github.com/rickar/cal/v2"
	"github.com/rickar/cal/v2/ecb"
	"github.com/rickar/cal/v2/gb"
	"github.com/rickar/cal/v2/us"

	"github.com/stipend/stipend/internal/payout/bank/nacha"
	"github.com/stipend/stipend/internal/testkit"
)

// The calendars agree for 40 years with those of a third-party library.
func TestCalendarsAgreeWithAThirdPartyLibrary(t *testing.T) {
	federal := []*cal.Holiday{}
	for _, h := range us.Holidays {
		if h == us.NewYear || h == us.IndependenceDay || h == us.ChristmasDay || h == us.VeteransDay || h == us.Juneteenth {
			c := h.Clone(nil)
			c.Observed = []cal.AltDay{{Day: time.Sunday, Offset: 1}} // a holiday on a Saturday is not observed on Friday
			h = c
		}
		federal = append(federal, h)
	}
	for c, holidays := range map[Calendar][]*cal.Holiday{FederalReserve: federal, Target: ecb.Holidays,
		England: gb.Holidays, Weekdays: nil} {
		theirs := cal.NewBusinessCalendar()
		theirs.AddHoliday(holidays...)
		for day := time.Date(2022, 1, 1, 12, 0, 0, 0, time.UTC); day.Year() < 2062; day = day.AddDate(0, 0, 1) {
			if h := day.Format(time.DateOnly); c == England &&
				(h == "2022-06-02" || h == "2022-06-03" || h == "2022-05-30" || h == "2022-09-19" || h == "2023-05-08") {
				continue // bank holidays of one year only
			}
			if c.isBusinessDay(day) != theirs.IsWorkday(day) {
				t.Errorf("%s: %s is open: %v", c, day.Format("Mon 2006-01-02"), c.isBusinessDay(day))
			}
		}
	}
}

const accountsJSON = `[
	{"id":"eur","currency":"EUR","format":"pain.001","name":"Example","number":"DE89370400440532013000",
		"town":"Berlin","country":"DE","calendar":"target","cut_off":"15:00","zone":"Europe/Berlin"},
	{"id":"usd","currency":"USD","format":"nacha","name":"Example","number":"987654321","company_id":"1234567890",
		"routing":"091400606","calendar":"us","cut_off":"17:30","zone":"America/New_York"}]`

func TestFilesAreExecutedOnBusinessDays(t *testing.T) {
	accounts := testkit.Must(ReadAccounts(strings.NewReader(accountsJSON)))
	for _, c := range []struct{ account, now, want string }{
		{"eur", "2026-03-02T13:59:59Z", "2026-03-02"}, // 14:59 in Berlin, a Monday
		{"eur", "2026-03-02T14:00:00Z", "2026-03-03"},
		{"eur", "2026-03-06T15:00:00Z", "2026-03-09"}, // Friday evening
		{"eur", "2026-03-07T08:00:00Z", "2026-03-09"}, // a Saturday
		{"eur", "2026-04-02T14:00:00Z", "2026-04-07"}, // before Easter, in summer time
		{"eur", "2026-12-24T23:30:00Z", "2026-12-28"}, // in Berlin it is already December 25th
		{"usd", "2026-03-02T22:29:00Z", "2026-03-03"}, // sent on Monday, credited on Tuesday
		{"usd", "2026-03-02T22:30:00Z", "2026-03-04"},
		{"usd", "2026-07-02T12:00:00Z", "2026-07-03"}, // July 4th is a Saturday, so Friday is no holiday
		{"usd", "2026-11-25T12:00:00Z", "2026-11-27"}, // Thanksgiving is the 26th
	} {
		for _, a := range accounts {
			now := testkit.Must(time.Parse(time.RFC3339, c.now))
			if got := a.executionDay(now).Format(time.DateOnly); a.ID == c.account && got != c.want {
				t.Errorf("%s at %s is executed on %s, want %s", c.account, c.now, got, c.want)
			}
		}
	}
}

func TestFindReference(t *testing.T) {
	for text, want := range map[string]Reference{
		"S0000012":                       {File: 12},
		"SEPA CT S0000012P00003 payroll": {File: 12, Position: 3},
		"ref:S0000012B00002/x":           {File: 12, Part: 2},
		"S0000012 for S0000012P00004":    {File: 12, Position: 4},
		"XS0000012":                      {},
		"S00000123":                      {},
		"s0000012":                       {},
		"S0000012P0003":                  {},
		"":                               {},
		"NOTPROVIDED":                    {},
		"S9999999P99999":                 {File: 9999999, Position: 99999},
	} {
		if got, ok := FindReference("", text); got != want || ok != (want != Reference{}) {
			t.Errorf("%q refers to %+v", text, got)
		}
	}
	if PaymentReference(12, 3) != "S0000012P00003" || FileReference(12) != "S0000012" {
		t.Error("references have the wrong format")
	}
}

// A payment arrives on the same day if it is within the limit and the bank has a deadline ahead.
func TestACHPaymentsSettleInTheNextWindow(t *testing.T) {
	with := func(deadlines, zone string) ([]Account, error) {
		return ReadAccounts(strings.NewReader(`[{"id":"usd","currency":"USD","format":"nacha","name":"Example",
			"number":"987654321","company_id":"1234567890","routing":"091400606","calendar":"us","cut_off":"17:30",
			"zone":"` + zone + `","same_day":` + deadlines + `}]`))
	}
	chicago := testkit.Must(with(`["09:00","","15:15"]`, "America/Chicago"))[0]
	for _, c := range []struct {
		now   string
		cents int64
		want  string
	}{
		{"2026-03-02T14:59:59Z", 100, "2026-03-02 SD1300"}, // 08:59 in Chicago, a Monday
		{"2026-03-02T15:00:00Z", 100, "2026-03-02 SD1800"}, // the bank does not offer the second window
		{"2026-03-02T15:00:00Z", nacha.SameDayMaxCents, "2026-03-02 SD1800"},
		{"2026-03-02T15:00:00Z", nacha.SameDayMaxCents + 1, "2026-03-03 "},
		{"2026-03-02T21:15:00Z", 100, "2026-03-03 "},
		{"2026-03-07T15:00:00Z", 100, "2026-03-10 "}, // a Saturday: sent on Monday
		{"2026-11-26T15:00:00Z", 100, "2026-11-30 "}, // Thanksgiving: sent on Friday
	} {
		day, window := chicago.settlement(testkit.Must(time.Parse(time.RFC3339, c.now)), c.cents)
		if got := day.Format(time.DateOnly) + " " + window; got != c.want {
			t.Errorf("%s, %d cents: %q, want %q", c.now, c.cents, got, c.want)
		}
	}
	// In some weeks of the year only New York has summer time: the window closes an hour earlier in London.
	london := testkit.Must(with(`["15:30","","21:45"]`, "Europe/London"))[0]
	for now, want := range map[string]string{
		"2026-01-15T15:29:00Z": "2026-01-15 SD1300", "2026-01-15T15:30:00Z": "2026-01-15 SD1800",
		"2026-07-15T14:29:00Z": "2026-07-15 SD1300", "2026-07-15T14:30:00Z": "2026-07-15 SD1800",
		"2026-03-16T14:29:00Z": "2026-03-16 SD1300", "2026-03-16T14:30:00Z": "2026-03-16 SD1800",
		"2026-10-27T14:29:00Z": "2026-10-27 SD1300", "2026-10-27T14:30:00Z": "2026-10-27 SD1800",
		"2026-03-16T20:44:00Z": "2026-03-16 SD1800", "2026-03-16T20:45:00Z": "2026-03-18 ",
	} {
		day, window := london.settlement(testkit.Must(time.Parse(time.RFC3339, now)), 100)
		if got := day.Format(time.DateOnly) + " " + window; got != want {
			t.Errorf("%s in London: %q, want %q", now, got, want)
		}
	}
	// A zone without summer time has to be early enough for both halves of the year.
	if _, err := with(`["08:30"]`, "America/Phoenix"); err == nil || !strings.Contains(err.Error(), "July") {
		t.Errorf("Phoenix: %v", err)
	}
	if _, err := with(`["07:30"]`, "America/Phoenix"); err != nil {
		t.Error(err)
	}
	for deadlines, want := range map[string]string{
		`["09:31"]`: "after 10:30 in New York", `["","","15:46"]`: "after 16:45 in New York",
		`["","","","12:00"]`: "4 deadlines", `["noon"]`: "not a time of day", `["00:00"]`: "after 10:30",
	} {
		if _, err := with(deadlines, "America/Chicago"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", deadlines, err, want)
		}
	}
	if _, err := with(`["","","16:45"]`, "America/New_York"); err != nil {
		t.Error(err)
	}
}

// A bank sends the statement of a business day on the next one. One that makes none on days without entries has more
// time.
func TestStatementsAreLate(t *testing.T) {
	read := func(text string) Account { return testkit.Must(ReadAccounts(strings.NewReader(text)))[0] }
	slow := read(strings.Replace(accountsJSON, `"zone":"Europe/Berlin"`, `"zone":"Europe/Berlin","statement_days":3`, 1))
	for _, c := range []struct {
		account           Account
		newest, now, want string
	}{
		{read(accountsJSON), "2026-03-02", "2026-03-04T10:59:59Z", ""}, // a Monday; 11:59 in Berlin on Wednesday
		{read(accountsJSON), "2026-03-02", "2026-03-04T11:00:00Z", "2026-03-03"},
		{read(accountsJSON), "2026-03-05", "2026-03-09T10:59:59Z", ""}, // a Thursday; Friday's statement on Monday
		{read(accountsJSON), "2026-03-05", "2026-03-09T11:00:00Z", "2026-03-06"},
		{read(accountsJSON), "2026-04-01", "2026-04-07T10:00:00Z", "2026-04-02"}, // Easter
		{slow, "2026-03-02", "2026-03-06T10:59:59Z", ""},
		{slow, "2026-03-02", "2026-03-06T11:00:00Z", "2026-03-03"},
		{read(accountsJSON), "", "2026-03-04T11:00:00Z", ""},
		{Account{}, "2026-03-02", "2026-03-04T11:00:00Z", ""},
	} {
		if got := c.account.LateStatement(c.newest, testkit.Must(time.Parse(time.RFC3339, c.now))); got != c.want {
			t.Errorf("%s at %s: %q, want %q", c.newest, c.now, got, c.want)
		}
	}
}
