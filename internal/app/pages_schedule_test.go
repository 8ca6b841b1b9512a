package app_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/web/webtest"
)

// A member repeats a payroll from its preview, changes and skips runs, and pauses and ends the schedule, without
// JavaScript. Problems are shown at their fields. The pages are accessible on a phone and on a wide screen.
func TestSchedulePagesInABrowser(t *testing.T) {
	t.Parallel()
	o := openCompanyBrowser(t, dbtest.SQLite(t))
	ada := o.d.seed.Workers[0].UserID
	o.says(o.Get("/payrolls"), `href="/schedules"`)
	o.says(o.Get("/schedules"), "No schedules yet")
	preview := o.says(o.Submit(o.Get("/payrolls/new"), "/payrolls/new", "amount."+ada, "600.00", "note."+ada, "Wages"),
		"Repeat this payroll")
	form := o.says(o.Submit(preview, "/schedules/new"), "Twice a month", "Days of the month")
	start := time.Now().UTC().AddDate(0, 0, 10).Format(time.DateOnly)
	for _, c := range []struct{ field, value string }{
		{"schedule_name", ""}, {"days", "15"}, {"days_ahead", "many"}, {"start_date", "2001-01-01"}, {"time_zone", "Mars"},
	} {
		got := o.Submit(form, "/schedules", "start_date", start, "schedule_name", "Wages", "frequency", "weekly",
			c.field, c.value)
		if got.Status != http.StatusUnprocessableEntity || !strings.Contains(got.Text, `id="`+c.field+`-problem"`) {
			t.Fatalf("%s %q: %d\n%s", c.field, c.value, got.Status, got.Text)
		}
	}
	terms := []string{"schedule_name", "Wages <b>", "frequency", "weekly", "start_date", start, "working_day", "none",
		"days_ahead", "1"}
	made, again := o.Submit(form, "/schedules", terms...), o.Submit(form, "/schedules", terms...)
	if made.Location() == "" || made.Location() != again.Location() || o.d.count("SELECT COUNT(*) FROM schedules") != 1 {
		t.Fatalf("%d to %q, then to %q\n%s", made.Status, made.Location(), again.Location(), made.Text)
	}
	at := made.Location()
	o.says(o.Get("/schedules"), "Wages &lt;b&gt;", "Weekly", start, "Active")
	page := o.says(o.Get(at), "Ada Lovelace", "600.00\u00a0USD", "Planned", start)
	run := at + "/runs/" + start
	o.says(o.Follow(o.Submit(page, run, "act", "skip")), "Skipped", "Undo skip")
	o.says(o.Follow(o.Submit(o.Get(at), run, "act", "plan")), "Planned")
	amounts := o.says(o.Get(run), `value="600.00"`, "Ada Lovelace")
	if got := o.Submit(amounts, run, "amount.0", "12.345", "act", "this"); got.Status != http.StatusUnprocessableEntity ||
		!strings.Contains(got.Text, `id="amount.0-problem"`) || !strings.Contains(got.Text, `value="12.345"`) {
		t.Errorf("%d\n%s", got.Status, got.Text)
	}
	o.says(o.Follow(o.Submit(amounts, run, "amount.0", "700", "act", "this")), "changed", "600.00\u00a0USD")
	if got := o.Submit(amounts, run, "amount.0", "1", "act", "all"); got.Status != http.StatusConflict || // an old form
		!strings.Contains(got.Text, "This schedule has changed since you opened this page.") {
		t.Errorf("%d\n%s", got.Status, got.Text)
	}
	o.says(o.Follow(o.Submit(o.Get(run), run, "amount.0", "650", "act", "all")), "650.00\u00a0USD")
	edit := o.says(o.Get(at+"/edit"), "Wages &lt;b&gt;", "Public holidays")
	o.Get(at + "?lang=de")
	for _, c := range []struct{ field, value, at, says string }{
		{"schedule_name", "", "schedule_name", "Geben Sie einen Namen"},
		{"end_date", "soon", "end_date", "mindestens eine Ausführung"},
		{"days_ahead", "29", "days_ahead", "von 0 bis 28"},
		{"time_zone", "Mars", "time_zone", "Namen einer Zeitzone"},
		{"calendar", "XX", "calendar", "Wählen Sie einen Kalender"},
		{"schedule_payee", "Nobody", "schedule_payee", "den vollständigen Namen"},
		{"schedule_payee", "Grace Hopper", "schedule_amount", ""},
		{"schedule_payee", "Ada Lovelace", "schedule_payee", "Dieser Empfänger ist schon im Zeitplan."},
	} {
		got := o.Submit(edit, at+"/edit", c.field, c.value)
		if got.Status != http.StatusUnprocessableEntity || !strings.Contains(got.Text, `id="`+c.at+`-problem"`) ||
			!strings.Contains(got.Text, c.says) {
			t.Errorf("%s %q: %d\n%s", c.field, c.value, got.Status, got.Text)
		}
	}
	o.Get(at + "?lang=en")
	until := time.Now().UTC().AddDate(0, 0, 100).Format(time.DateOnly)
	o.says(o.Follow(o.Submit(edit, at+"/edit", "schedule_name", "Pay", "end_date", until, "days_ahead", "2", "working_day",
		"after", "calendar", "FR", "time_zone", "Europe/Paris", "schedule_payee", "Grace Hopper", "schedule_amount",
		"12.50")),
		"Pay", until, "(FR)", "Europe/Paris", "650.00\u00a0USD", "Grace Hopper", "12.50\u00a0USD")
	if got := o.Submit(edit, at+"/edit"); got.Status != http.StatusConflict || // an old form
		!strings.Contains(got.Text, "This schedule has changed since you opened this page.") {
		t.Errorf("%d\n%s", got.Status, got.Text)
	}
	b := webtest.Start(t)
	admin := o.d.seed.Admin
	phone := b.Open(o.s.Ready().BaseURL+at, webtest.Look{Width: 390})
	phone.Fill("#email", admin.Email)
	phone.Fill("#password", admin.Password)
	phone.Send("form:has(#password) button")
	phone.Audit()
	for _, path := range []string{at, "/schedules", run} {
		wide := b.Open(o.s.Ready().BaseURL+path, webtest.Look{Width: 1440})
		wide.Audit()
		wide.Close()
		b.Check(o.s.Ready().BaseURL + path)
	}
	edited := o.d.create(pays("", "30", ada)).PayrollID
	change := "/payrolls/" + edited + "/edit"
	o.says(o.Get("/payrolls/"+edited), `href="`+change+`"`)
	form = o.Get(change)
	amount := regexp.MustCompile(`amount\.pmt_\w+`).FindString(form.Text)
	if got := o.Submit(form, change, amount, "-5"); got.Status != http.StatusUnprocessableEntity ||
		!strings.Contains(got.Text, `id="`+amount+`-problem"`) {
		t.Errorf("%d\n%s", got.Status, got.Text)
	}
	o.says(o.Follow(o.Submit(form, change, amount, "40", "external_id", "changed")), "40.40\u00a0USD", "changed")
	// A form that was opened before the change names other payments.
	if got := o.Submit(form, change, amount, "50"); got.Status != http.StatusUnprocessableEntity {
		t.Errorf("%d\n%s", got.Status, got.Text)
	}
	b.Check(o.s.Ready().BaseURL + change)
	o.says(o.Follow(o.Submit(o.Get(at), at, "state", "paused")), "Paused", "Resume")
	o.says(o.Follow(o.Submit(o.Get(at), at, "state", "active")), "Active")
	o.says(o.Follow(o.Submit(o.Get(at), at, "state", "ended")), "Ended")
}
