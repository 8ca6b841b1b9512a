package company

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/country/workday"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/payroll/schedule"
	"github.com/stipend/stipend/internal/web/ui"
)

const schedulesPath = "/schedules"

func schedulePath(id string) string { return schedulesPath + "/" + id }

func scheduleCrumbs(c *ui.Request) []ui.Cell {
	return append(payrollCrumbs(c), c.LinkCell(c.Text("schedules.title"), schedulesPath))
}

type schedulesPage struct {
	Schedules ui.Table
	Pager     ui.Pager
}

// listSchedules lists the company's schedules, newest first.
func listSchedules(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	page := c.PageNumber()
	all, total, err := schedule.List(ctx, tx, c.Session.Principal(), "", db.Page{Number: page, PerPage: ui.PerPage})
	if err != nil {
		return ui.View{}, err
	}
	p := schedulesPage{Pager: c.Pager(db.Page{Number: page, PerPage: ui.PerPage}, total), Schedules: ui.Table{
		Caption: c.Text("schedules.title"), Empty: c.EmptyStep("calendar", "schedules.none",
			c.Session.Manages(), "payrolls.new", "/payrolls/new"),
		Heads: c.Columns("field.schedule_name|a", "payroll.status|c", "field.frequency|e", "payroll.payees#|hide",
			"schedule.next|d"),
	}}
	for _, n := range all {
		next := ui.Cell{}
		if !n.Next.IsZero() {
			next.Text = schedule.Text(n.Calendar.PayDate(n.Next))
			next.ISO = next.Text
		}
		p.Schedules.Rows = append(p.Schedules.Rows, []ui.Cell{
			c.LinkCell(n.Name, schedulePath(n.ID)), c.StateCell("schedule.state", string(n.State)), {Text: rhythm(c, &n)},
			{Text: c.FormatCount(int64(len(n.ToPay))), Kind: "number"}, next,
		})
	}
	return ui.View{Template: "schedules", Title: c.Text("schedules.title"), Crumbs: payrollCrumbs(c), Data: p}, nil
}

// rhythm describes how often a schedule runs.
func rhythm(c *ui.Request, n *schedule.Schedule) string {
	text := c.Text("frequency." + string(n.Recurrence.Frequency))
	var days []string
	for _, d := range n.Recurrence.Days {
		days = append(days, strconv.Itoa(d))
	}
	if len(days) > 0 {
		text += " (" + strings.Join(days, ", ") + ")"
	}
	return text
}

type newSchedulePage struct {
	Draft, Key string
	Fields     []ui.Field
	Proof      string
}

// showNewSchedule renders the form that makes a schedule of the draft of a payroll.
func showNewSchedule(_ context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	if _, err := readDraft(c); err != nil {
		return ui.View{}, err
	}
	p := newSchedulePage{Draft: c.Form.Get("draft"), Key: cmp.Or(c.Form.Get("schedule_key"), uuid.NewString())}
	frequencies := make([]string, len(schedule.Frequencies))
	for i, f := range schedule.Frequencies {
		frequencies[i] = string(f)
	}
	options := c.Choices("frequency", frequencies...)
	p.Fields = []ui.Field{
		c.Field(ui.Field{Name: "schedule_name", MaxLength: 100, Required: true}),
		c.Field(ui.Field{Name: "frequency", Type: "select", Value: string(schedule.Monthly),
			Options: slices.DeleteFunc(options, func(o ui.Option) bool { return o.Value == "" })}),
		c.Field(ui.Field{Name: "start_date", Type: "date", Required: true}),
		c.Field(ui.Field{Name: "days", MaxLength: 10}),
		workingDayField(c, workday.Before),
		timeZoneField(c),
		c.Field(ui.Field{Name: "days_ahead", MaxLength: 2, Value: "3", InputMode: "numeric"}),
		c.Field(ui.Field{Name: "end_date", Type: "date"}),
	}
	if !hasFreshFactor(c) {
		p.Proof = c.URL(ui.ProofPath(schedulesPath))
	}
	return ui.View{Template: "schedule_new", Title: c.Text("schedules.new"), Crumbs: scheduleCrumbs(c), Data: p}, nil
}

// createSchedule creates a schedule from the draft of a payroll. Posting the form twice creates one schedule. It checks
// the second factor itself, because a redirect would lose the draft.
func createSchedule(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	d, err := readDraft(c)
	if err != nil {
		return ui.View{}, err
	}
	if !hasFreshFactor(c) {
		return ui.View{}, errFactorFirst.At("body", "")
	}
	terms := d.params()
	p := schedule.Params{
		Name: c.Form.Get("schedule_name"), Frequency: schedule.Frequency(c.Form.Get("frequency")),
		StartDate: c.Form.Get("start_date"), EndDate: c.Form.Get("end_date"),
		WorkingDay: workday.Rule(c.Form.Get("working_day")), TimeZone: strings.TrimSpace(c.Form.Get("time_zone")),
		ToPay: terms.ToPay, Key: c.Form.Get("schedule_key"),
		Terms: schedule.Terms{Currency: terms.Currency, FundingMethod: terms.FundingMethod,
			FundingCurrency: terms.FundingCurrency, FundingNetwork: terms.FundingNetwork},
	}
	var list apierr.List
	for _, text := range strings.FieldsFunc(c.Form.Get("days"), func(r rune) bool { return r == ',' || r == ' ' }) {
		day, err := strconv.Atoi(text)
		if err != nil {
			list.Add("invalid_parameter", "/days", "Enter numbers of days, such as 15, 31.")
			break
		}
		p.Days = append(p.Days, day)
	}
	if p.DaysAhead, err = strconv.Atoi(cmp.Or(strings.TrimSpace(c.Form.Get("days_ahead")), "0")); err != nil {
		list.Add("invalid_parameter", "/days_ahead", "Enter a number of days from 0 to 28.")
	}
	if err := list.Err(); err != nil {
		return ui.View{}, err
	}
	n, err := c.Schedules.Create(ctx, tx, c.Session.Principal(), p)
	if err != nil {
		return ui.View{}, ui.FormError(ui.RenameField(err, "/name", "/schedule_name"))
	}
	return ui.View{Redirect: schedulePath(n.ID)}, nil
}

type schedulePage struct {
	Path, Rhythm, WorkingDay, Zone, Ahead, Until string
	Payees                                       ui.Table
	More                                         string // says that only some payees are listed
	Runs                                         []runView
	Active, Paused                               bool
	Large                                        bool // a run has more payees than a form has fields
}

type runView struct {
	Day, PayDate, Path string
	State              ui.Cell
	Why                string
	Payroll            string // path of its payroll
	Changed            bool
	Open, Skipped      bool // what can be done about it
}

// showSchedule shows a schedule with its payees and runs.
func showSchedule(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	n, err := schedule.Get(ctx, tx, c.Session.Principal(), "", c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	p := schedulePage{
		Path: schedulePath(n.ID), Rhythm: rhythm(c, &n), Zone: n.Calendar.Zone.String(),
		WorkingDay: c.Text("working_day."+string(n.Calendar.Rule)) + " (" + n.Calendar.Country + ")",
		Ahead:      c.FormatCount(int64(n.Calendar.DaysAhead)), Until: schedule.Text(n.Recurrence.End),
		Active: n.State == schedule.Active, Paused: n.State == schedule.Paused,
		Large: len(n.ToPay) > maxPayeeInputs,
	}
	names, err := scheduledNames(ctx, tx, &n, n.ToPay)
	if err != nil {
		return ui.View{}, err
	}
	p.Payees = ui.Table{Caption: c.Text("payroll.payments"), Heads: c.Columns("payment.payee|a", "payment.amount#|b")}
	for i, to := range n.ToPay[:min(len(n.ToPay), maxPreviewPayments)] {
		who := ui.Cell{Text: names[i], Kind: "person"}
		if to.Description != "" {
			who.Lines = []ui.Cell{{Text: to.Description}}
		}
		asset := cmp.Or(money.Asset(to.ReceiveCurrency), scheduleCurrency(&n))
		amount, err := money.Parse(asset, cmp.Or(to.ReceiveText, to.AmountText))
		if err != nil {
			return ui.View{}, err
		}
		p.Payees.Rows = append(p.Payees.Rows, []ui.Cell{who, c.AmountCell(amount)})
	}
	if len(n.ToPay) > maxPreviewPayments {
		p.More = c.Text("preview.more", c.FormatCount(maxPreviewPayments), c.FormatCount(int64(len(n.ToPay))))
	}
	for _, r := range n.Runs {
		v := runView{Day: schedule.Text(r.Day), PayDate: schedule.Text(r.PayDate),
			State: c.StateCell("run.state", string(r.State)), Changed: r.ToPay != nil}
		v.Path = p.Path + "/runs/" + v.Day
		if r.Reason != "" {
			v.Why = c.Localize(r.Reason, c.Text("run.waits")).Text
		}
		if r.PayrollID != "" {
			v.Payroll = payrollPath(r.PayrollID)
		}
		if !n.Next.IsZero() && !r.Day.Before(n.Next) {
			v.Open, v.Skipped = r.State != schedule.Skipped, r.State == schedule.Skipped
		}
		p.Runs = append(p.Runs, v)
	}
	return ui.View{Template: "schedule", Title: n.Name, State: c.StateCell("schedule.state", string(n.State)),
		Crumbs: scheduleCrumbs(c), Data: p}, nil
}

func scheduleCurrency(n *schedule.Schedule) money.Asset {
	return money.Asset(cmp.Or(n.Terms.Currency, string(money.USD)))
}

// scheduledNames returns the names of payees, in their order.
func scheduledNames(ctx context.Context, tx *db.Tx, n *schedule.Schedule, to []payroll.Payee) ([]string, error) {
	ids := make([]string, len(to))
	for i, p := range to {
		ids[i] = cmp.Or(p.UserID, p.CompanyID)
	}
	unique := slices.Clone(ids)
	slices.Sort(unique)
	known, err := payee.Payees(ctx, tx, n.CompanyID, slices.Compact(unique))
	for i, id := range ids {
		ids[i] = cmp.Or(known[id].Name, id)
	}
	return ids, err
}

// changeSchedule pauses, resumes or ends a schedule.
func changeSchedule(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	state := schedule.State(c.Form.Get("state"))
	if state != schedule.Active && state != schedule.Paused && state != schedule.Ended {
		return ui.View{}, ui.ErrForm
	}
	id := c.HTTP.PathValue("id")
	_, err := c.Schedules.Update(ctx, tx, c.Session.Principal(), "", id, schedule.Changes{State: &state})
	return ui.View{Redirect: schedulePath(id)}, ui.FormConflict(err)
}

type runPage struct {
	Path, Lead, Version string
	Payees              []payeeFields
}

// showRun renders the form that changes the amounts of a run.
func showRun(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	n, r, to, err := findRun(ctx, tx, c)
	if err != nil {
		return ui.View{}, err
	}
	day := c.HTTP.PathValue("day")
	names, err := scheduledNames(ctx, tx, &n, to)
	if err != nil {
		return ui.View{}, err
	}
	p := runPage{Path: schedulePath(n.ID) + "/runs/" + day, Lead: c.Text("run.lead", string(scheduleCurrency(&n))),
		Version: cmp.Or(c.Form.Get("version"), runVersion(&n, &r))}
	c.Labels = map[string]string{}
	for i := range to {
		c.Labels[amountName(i)] = names[i]
	}
	for i, it := range to {
		label := c.Text("new.amount", names[i])
		if it.ReceiveCurrency != "" {
			label = c.Text("new.receive", names[i], it.ReceiveCurrency)
		}
		p.Payees = append(p.Payees, payeeFields{ID: amountName(i), Name: names[i], Amount: c.Field(ui.Field{
			Name: amountName(i), Label: label, MaxLength: 30, InputMode: "decimal",
			Value: cmp.Or(it.ReceiveText, it.AmountText)})})
	}
	return ui.View{Template: "schedule_run", Title: c.Text("run.title", day), Crumbs: append(scheduleCrumbs(c),
		c.LinkCell(n.Name, schedulePath(n.ID))), Data: p}, nil
}

func amountName(i int) string { return "amount." + strconv.Itoa(i) }

// runVersion returns the version of a schedule and a run in a form.
func runVersion(n *schedule.Schedule, r *schedule.Run) string {
	return fmt.Sprintf("%d.%d", n.Version, r.Version)
}

// findRun returns the schedule and the run of the URL, and the payees of the run. A run of more payees than a form has
// fields cannot be changed on a page.
func findRun(ctx context.Context, tx *db.Tx, c *ui.Request) (n schedule.Schedule, r schedule.Run, to []payroll.Payee,
	err error) {
	if n, err = schedule.Get(ctx, tx, c.Session.Principal(), "", c.HTTP.PathValue("id")); err != nil {
		return n, r, nil, err
	}
	at := slices.IndexFunc(n.Runs, func(r schedule.Run) bool {
		return schedule.Text(r.Day) == c.HTTP.PathValue("day") && !n.Next.IsZero() && !r.Day.Before(n.Next)
	})
	if at < 0 || len(n.ToPay) > maxPayeeInputs {
		return n, r, nil, apierr.NotFoundErr
	}
	if r = n.Runs[at]; r.ToPay != nil {
		return n, r, r.ToPay, nil
	}
	return n, r, n.ToPay, nil
}

// changeRun skips a run, plans it again, or changes its amounts: of this run, or of this and all later ones.
func changeRun(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	id, day, by := c.HTTP.PathValue("id"), c.HTTP.PathValue("day"), c.Session.Principal()
	var err error
	switch c.Form.Get("act") {
	case "skip":
		_, _, err = c.Schedules.ChangeRun(ctx, tx, by, "", id, day, schedule.RunChanges{State: schedule.Skipped})
	case "plan":
		_, _, err = c.Schedules.ChangeRun(ctx, tx, by, "", id, day, schedule.RunChanges{State: schedule.Planned})
	case "this", "all":
		err = changeAmounts(ctx, tx, c, c.Form.Get("act") == "all")
	default:
		err = ui.ErrForm
	}
	return ui.View{Redirect: schedulePath(id)}, ui.FormConflict(err)
}

// changeAmounts stores the posted amounts of a run. A payee without an amount is left out.
func changeAmounts(ctx context.Context, tx *db.Tx, c *ui.Request, all bool) error {
	n, r, to, err := findRun(ctx, tx, c)
	if err != nil {
		return err
	}
	if c.Form.Get("version") != runVersion(&n, &r) { // the fields are numbered by the payees that the form showed
		return schedule.ErrChanged
	}
	var kept []payroll.Payee
	var fields []string // of kept
	for i, it := range to {
		text := strings.TrimSpace(c.Form.Get(amountName(i)))
		if text == "" {
			continue
		}
		it.SetAmount(c.PlainAmount(text, cmp.Or(money.Asset(it.ReceiveCurrency), scheduleCurrency(&n))))
		kept, fields = append(kept, it), append(fields, amountName(i))
	}
	if len(kept) == 0 {
		return errNobody.At("body", "")
	}
	by := c.Session.Principal()
	this := schedule.RunChanges{State: schedule.Planned, ToPay: kept, Version: &n.Version, RunVersion: &r.Version}
	if all {
		this.ToPay = nil // the run pays what the schedule does
		n, err = c.Schedules.Update(ctx, tx, by, "", n.ID, schedule.Changes{ToPay: kept, Version: this.Version})
	}
	if err == nil {
		_, _, err = c.Schedules.ChangeRun(ctx, tx, by, "", n.ID, c.HTTP.PathValue("day"), this)
	}
	return ui.RenameFields(err, func(pointer string) string {
		var i int
		if k, _ := fmt.Sscanf(pointer, "/to_pay/%d/", &i); k == 1 && i < len(fields) {
			return "/" + fields[i]
		}
		return ""
	})
}
