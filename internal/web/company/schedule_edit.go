package company

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/country/workday"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/payroll/schedule"
	"github.com/stipend/stipend/internal/web/ui"
)

type editSchedulePage struct {
	Path, Version string
	Fields, Payee []ui.Field
}

// changeable returns the schedule of the URL and its version, if it has not ended.
func changeable(ctx context.Context, tx *db.Tx, c *ui.Request) (schedule.Schedule, string, error) {
	n, err := schedule.Get(ctx, tx, c.Session.Principal(), "", c.HTTP.PathValue("id"))
	if err == nil && n.State == schedule.Ended {
		err = apierr.NotFoundErr
	}
	return n, strconv.FormatInt(n.Version, 10), err
}

// showEditSchedule renders the form that changes a schedule and adds a payee to it.
func showEditSchedule(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	n, version, err := changeable(ctx, tx, c)
	if err != nil {
		return ui.View{}, err
	}
	calendar := ui.Field{Name: "calendar", Type: "select", Value: n.Calendar.Country}
	calendar.Options = []ui.Option{{Value: workday.Weekdays, Label: c.Text("calendar.weekdays")}}
	for _, o := range c.Countries() {
		if workday.Known(o.Value) {
			calendar.Options = append(calendar.Options, o)
		}
	}
	asset := string(scheduleCurrency(&n))
	p := editSchedulePage{Path: schedulePath(n.ID) + "/edit", Version: cmp.Or(c.Form.Get("version"), version),
		Fields: []ui.Field{
			c.Field(ui.Field{Name: "schedule_name", MaxLength: 100, Required: true, Value: n.Name}),
			c.Field(ui.Field{Name: "end_date", Type: "date", Value: schedule.Text(n.Recurrence.End)}),
			c.Field(ui.Field{Name: "days_ahead", MaxLength: 2, InputMode: "numeric",
				Value: strconv.Itoa(n.Calendar.DaysAhead)}),
			workingDayField(c, n.Calendar.Rule), c.Field(calendar),
			c.Field(ui.Field{Name: "time_zone", MaxLength: 64, Value: n.Calendar.Zone.String()}),
		},
		Payee: []ui.Field{
			c.Field(ui.Field{Name: "schedule_payee", MaxLength: 254}),
			c.Field(ui.Field{Name: "schedule_amount", MaxLength: 30, InputMode: "decimal",
				Label: c.Text("schedule.amount", asset)}),
		}}
	return ui.View{Template: "schedule_edit", Title: c.Text("schedule.edit"), Crumbs: append(scheduleCrumbs(c),
		c.LinkCell(n.Name, schedulePath(n.ID))), Data: p}, nil
}

// editSchedule changes a schedule. Payrolls that exist stay as they are.
func editSchedule(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	n, version, err := changeable(ctx, tx, c)
	if err != nil {
		return ui.View{}, err
	}
	if c.Form.Get("version") != version {
		return ui.View{}, ui.FormConflict(schedule.ErrChanged)
	}
	value := func(name string) *string {
		text := strings.TrimSpace(c.Form.Get(name))
		return &text
	}
	rule := workday.Rule(c.Form.Get("working_day"))
	changes := schedule.Changes{Name: value("schedule_name"), EndDate: value("end_date"), WorkingDay: &rule,
		Calendar: value("calendar"), TimeZone: value("time_zone"), Version: &n.Version}
	var list apierr.List
	if ahead, err := strconv.Atoi(cmp.Or(*value("days_ahead"), "0")); err != nil {
		list.Add("invalid_parameter", "/days_ahead", "Enter a number of days from 0 to 28.")
	} else {
		changes.DaysAhead = &ahead
	}
	who, amount := *value("schedule_payee"), *value("schedule_amount")
	if who != "" || amount != "" {
		r, err := namedPayee(ctx, tx, c, who, &list)
		if err != nil {
			return ui.View{}, err
		}
		added := payroll.Payee{UserID: r.ID}
		if r.Type == payee.TypeCompany {
			added = payroll.Payee{CompanyID: r.ID}
		}
		if r.ID != "" && slices.ContainsFunc(n.ToPay, func(p payroll.Payee) bool {
			return p.UserID == r.ID || p.CompanyID == r.ID
		}) {
			list.Add("already_scheduled", "/schedule_payee",
				"This payee is already in the schedule. Change their amount in the next run and save it for all later runs.")
		}
		added.SetAmount(c.PlainAmount(amount, scheduleCurrency(&n)))
		changes.ToPay = append(slices.Clone(n.ToPay), added)
	}
	if err := list.Err(); err != nil {
		return ui.View{}, err
	}
	_, err = c.Schedules.Update(ctx, tx, c.Session.Principal(), "", n.ID, changes)
	last := fmt.Sprintf("/to_pay/%d/", len(n.ToPay))
	return ui.View{Redirect: schedulePath(n.ID)}, ui.RenameFields(ui.FormConflict(err), func(pointer string) string {
		rest, ofAdded := strings.CutPrefix(pointer, last)
		switch {
		case pointer == "/name":
			return "/schedule_name"
		case ofAdded && strings.Contains(rest, "amount"):
			return "/schedule_amount"
		case ofAdded:
			return "/schedule_payee"
		}
		return pointer
	})
}

// namedPayee returns the active payee with an email address or, if only one has it, with a name. Otherwise it adds a
// problem to list.
func namedPayee(ctx context.Context, tx *db.Tx, c *ui.Request, who string, list *apierr.List) (
	found payee.Recipient, err error) {
	some, err := payee.List(ctx, tx, c.Session.Principal(), payee.ListParams{Search: who, Status: payee.Active,
		Page: db.Page{PerPage: payee.MaxPerPage}})
	if err != nil {
		return found, err
	}
	matches := 0
	for _, r := range some.Items {
		if mail.Valid(who) && strings.EqualFold(r.Email, who) || strings.EqualFold(r.Name, who) {
			found = r
			matches++
		}
	}
	if matches != 1 || who == "" {
		list.Add("invalid_parameter", "/schedule_payee",
			"Enter the full name or the email address of one person in your list who has a destination.")
	}
	return found, nil
}
