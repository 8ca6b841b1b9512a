// Package schedule creates payrolls that repeat: weekly, every second week, twice a month or monthly.
//
// A schedule has a [Recurrence], which gives a day for each run, and a [Calendar], which gives the pay date of a run
// and the time at which its payroll is created, some days before the pay date. [Service.RunDue] creates a payroll for
// each run, in order. If it cannot create the payroll (for example because the balance is too low or a payee cannot
// be paid), the run waits, RunDue tries again every hour, and owners and administrators get a mail.
//
//	schedule: active ⇄ paused, both → ended
//	run:      planned ⇄ skipped;  planned → created;  planned ⇄ waiting;  waiting → created, skipped
//
// Invariants:
//
//   - A schedule stores the day of its next run. Creating that run's payroll, storing the run and storing the next day
//     is one transaction, guarded by the schedule's version, and a run has one row for its day. So no run is made
//     twice or missed after a crash, in several worker processes, or when the clock changes.
//   - The next day never moves back.
//   - A member who changes what another member entered removes the creator, so that neither of them alone can approve
//     the payrolls.
package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/country/workday"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/webhook"
)

// State is the state of a schedule.
type State string

// States of a schedule.
const (
	Active State = "active"
	Paused State = "paused" // no payrolls are created
	Ended  State = "ended"  // no further run exists, or the company ended the schedule
)

// RunState is the state of a run.
type RunState string

// States of a run.
const (
	Planned RunState = "planned"
	Skipped RunState = "skipped"
	Waiting RunState = "waiting" // its payroll cannot be created yet; its reason says why
	Created RunState = "created" // its payroll exists
)

const (
	// MaxDaysAhead is the largest number of days between the creation of a payroll and its pay date.
	MaxDaysAhead = 28
	// Upcoming is the number of further runs that Get returns.
	Upcoming = 6

	maxName      = 100
	reasonPaused = "paused"
)

// Errors that a caller sees.
var (
	ErrNotFound = apierr.New(apierr.NotFound, "not_found", "There is no such schedule.")
	ErrEnded    = apierr.New(apierr.Conflict, "invalid_state", "The schedule has ended and cannot be changed.")
	ErrRun      = apierr.New(apierr.Conflict, "invalid_state",
		"The run is over: its payroll exists, or it was skipped. Change the payroll instead.")
	// ErrChanged is returned only for changes that name the version they are based on.
	ErrChanged = apierr.New(apierr.Conflict, "schedule_changed",
		"The schedule has changed since you opened this page. Open it again, then enter your changes.")
	errNoRun = apierr.New(apierr.NotFound, "not_found", "The schedule has no run on this day.")
)

// Schedule is a schedule as stored.
type Schedule struct {
	CompanyID, ID        string
	Name                 string
	State                State
	Recurrence           Recurrence
	Calendar             Calendar
	Terms                Terms
	ToPay                []payroll.Payee
	Next                 time.Time // day of the next run; zero if the schedule has ended
	CreatedBy            string    // member who entered all contents; "" if an API client or several members did
	Version              int64
	CreatedAt, UpdatedAt time.Time

	Runs []Run // set by Get only: the last stored runs and the next runs, oldest first

	nextAt time.Time // time at which to create the next payroll, or to try again
}

// Terms are the parameters of the payrolls that all runs share.
type Terms struct {
	Currency        string `json:"currency,omitempty"`
	FundingMethod   string `json:"funding_method,omitempty"`
	FundingCurrency string `json:"funding_currency,omitempty"`
	FundingNetwork  string `json:"funding_network,omitempty"`
}

// Run is one run of a schedule. A planned run that was not changed is not stored.
type Run struct {
	ID        string // "" if the run is not stored
	Day       time.Time
	PayDate   time.Time
	State     RunState
	Reason    string          // error code: why the run waits or was skipped
	PayrollID string          // "" before its payroll is created
	ToPay     []payroll.Payee // nil to pay the payees of the schedule
	ChangedBy string          // member who changed ToPay
	Version   int64
}

// Params describes a schedule to create. Empty fields have the defaults of a payroll.
type Params struct {
	CompanyID, Name    string
	Frequency          Frequency
	StartDate, EndDate string // such as 2026-09-30; EndDate may be ""
	Days               []int
	WorkingDay         workday.Rule // "" is workday.Before
	Calendar, TimeZone string
	DaysAhead          int
	Terms              Terms
	ToPay              []payroll.Payee
	Key                string // idempotency key of a form, "" for none
}

// Changes are changes to a schedule. Nil members stay unchanged.
type Changes struct {
	State     *State
	Name      *string
	EndDate   *string // "" removes the end date
	DaysAhead *int
	ToPay     []payroll.Payee
	Version   *int64 // version of the schedule that the changes are based on; nil skips the check

	WorkingDay         *workday.Rule
	Calendar, TimeZone *string
}

// RunChanges are the changes to a run.
type RunChanges struct {
	State               RunState        // Planned or Skipped
	ToPay               []payroll.Payee // nil to pay the payees of the schedule
	Version, RunVersion *int64          // versions that the changes are based on; nil skips the check
}

// Service creates the payrolls of schedules.
type Service struct {
	payroll *payroll.Service
}

// New returns a Service. It returns an error if the payroll service is missing.
func New(p *payroll.Service) (*Service, error) {
	if p == nil {
		return nil, errors.New("schedule: the payroll service is required")
	}
	return &Service{p}, nil
}

// Create creates a schedule. Its payees and terms must currently meet the rules of a payroll; each run checks them
// again.
func (s *Service) Create(ctx context.Context, tx *db.Tx, by identity.Principal, p Params) (Schedule, error) {
	company, err := by.Company(p.CompanyID)
	if err != nil {
		return Schedule{}, err
	}
	if p.Key != "" {
		if made, err := byKey(ctx, tx, company, p.Key); err == nil || !errors.Is(err, ErrNotFound) {
			return made, err
		}
	}
	c, err := identity.CompanyByID(ctx, tx, company)
	if err != nil {
		return Schedule{}, err
	}
	if err := c.Active(); err != nil {
		return Schedule{}, err
	}
	n := Schedule{
		CompanyID: company, ID: tx.NewID("sch"), Name: strings.TrimSpace(p.Name), State: Active, Terms: p.Terms,
		ToPay: p.ToPay, CreatedBy: approval.CreatorOf(by), Version: 1, CreatedAt: tx.Now(), UpdatedAt: tx.Now(),
		Recurrence: Recurrence{Frequency: p.Frequency, Days: p.Days},
		Calendar: Calendar{
			Rule: cmp.Or(p.WorkingDay, workday.Before), Country: cmp.Or(p.Calendar, workday.CalendarOf(c.Country)),
			DaysAhead: p.DaysAhead,
		},
	}
	var list apierr.List
	n.setDays(p, tx.Now(), &list)
	n.check(&list)
	if err := list.Err(); err != nil {
		return n, err
	}
	if err := s.checkPayable(ctx, tx, by, &n, n.ToPay); err != nil {
		return n, err
	}
	if !n.plan(n.Recurrence.Start) {
		list.Add("invalid_parameter", "/end_date", "The schedule has no run until end_date.")
		return n, list.Err()
	}
	if err := insert(ctx, tx, &n, p.Key); err != nil {
		return n, err
	}
	db.History(tx, company, n.ID, 1, "", string(n.State), "created")
	return n, n.emit(tx, webhook.ScheduleCreated, "")
}

// setDays parses the days, time zone and calendar of a new schedule.
func (n *Schedule) setDays(p Params, now time.Time, list *apierr.List) {
	n.setCalendar(Changes{TimeZone: &p.TimeZone}, list)
	var err error
	today := workday.On(now, n.Calendar.Zone)
	n.Recurrence.Start, err = workday.Parse(p.StartDate)
	if err != nil || n.Recurrence.Start.Before(today) || n.Recurrence.Start.After(today.AddDate(2, 0, 0)) {
		list.Add("invalid_parameter", "/start_date", "start_date is a day such as 2026-09-30, from today on.")
	}
	n.setEnd(p.EndDate, list)
	n.Recurrence.check(list)
}

// setCalendar applies the changes to the calendar, and adds their problems to list.
func (n *Schedule) setCalendar(c Changes, list *apierr.List) {
	if c.TimeZone != nil {
		zone, err := payroll.Zone(*c.TimeZone)
		if err != nil {
			zone = time.UTC
			list.Add("invalid_parameter", "/time_zone",
				"time_zone is the IANA name of a time zone, such as America/New_York.")
		}
		n.Calendar.Zone = zone
	}
	if c.WorkingDay != nil {
		n.Calendar.Rule = *c.WorkingDay
	}
	if !n.Calendar.Rule.Known() {
		list.Add("invalid_parameter", "/working_day", "working_day is none, before or after.")
	}
	if c.Calendar != nil {
		n.Calendar.Country = *c.Calendar
	}
	if !workday.Known(n.Calendar.Country) {
		list.Add("invalid_parameter", "/calendar",
			"calendar is weekdays or the code of a country whose public holidays the service knows, such as US.")
	}
}

func (n *Schedule) setEnd(text string, list *apierr.List) {
	n.Recurrence.End = time.Time{}
	if text == "" {
		return
	}
	var err error
	if n.Recurrence.End, err = workday.Parse(text); err != nil {
		list.Add("invalid_parameter", "/end_date", "end_date is a day such as 2026-09-30.")
	}
}

// check adds to list the problems of the members that can be changed.
func (n *Schedule) check(list *apierr.List) {
	if n.Name == "" || len(n.Name) > maxName {
		list.Add("invalid_parameter", "/name", "name has 1 to 100 characters.")
	}
	if n.Calendar.DaysAhead < 0 || n.Calendar.DaysAhead > MaxDaysAhead {
		list.Add("invalid_parameter", "/days_ahead", "days_ahead is from 0 to 28.")
	}
}

// checkPayable returns the problems of a payroll with these payees if it were created now, except a low balance.
func (s *Service) checkPayable(ctx context.Context, tx *db.Tx, by identity.Principal, n *Schedule,
	to []payroll.Payee) error {
	params := n.params(to)
	params.PayDay = payroll.PayDay{Date: workday.On(tx.Now(), n.Calendar.Zone).Format(time.DateOnly),
		TimeZone: n.Calendar.Zone.String()}
	v, err := s.payroll.Preview(ctx, tx, by, params)
	if err != nil {
		return err
	}
	var list apierr.List
	for i, it := range to {
		if it.InvoiceID != "" || it.ExternalPaymentID != "" {
			list.Add("invalid_parameter", fmt.Sprintf("/to_pay/%d/invoice_id", i),
				"Leave out invoice_id and external_payment_id, which are paid once.")
		}
	}
	for _, f := range v.Blockers {
		if f.Code != payroll.ErrNoFunds.Code && f.Code != "rate_unavailable" {
			list.AddField(f)
		}
	}
	return list.Err()
}

// params returns the parameters of a payroll of the schedule, without a pay date.
func (n *Schedule) params(to []payroll.Payee) payroll.CreateParams {
	return payroll.CreateParams{
		CompanyID: n.CompanyID, ToPay: to, Currency: n.Terms.Currency, FundingMethod: n.Terms.FundingMethod,
		FundingCurrency: n.Terms.FundingCurrency, FundingNetwork: n.Terms.FundingNetwork,
	}
}

// plan sets the next run to the first one on or after a day. It reports false if there is none.
func (n *Schedule) plan(day time.Time) bool {
	next, ok := n.Recurrence.OnOrAfter(day)
	if !ok {
		n.Next, n.nextAt = time.Time{}, time.Time{}
		return false
	}
	n.Next, n.nextAt = next, n.Calendar.CreatedAt(next)
	return true
}

// checkVersion returns ErrChanged if a change is based on another version than the current one.
func checkVersion(wanted *int64, current int64) error {
	if wanted != nil && *wanted != current {
		return ErrChanged
	}
	return nil
}

// Update changes a schedule. Payrolls that exist stay unchanged. When a schedule is resumed, runs whose pay date has
// passed are skipped. Update returns ErrChanged if the schedule's version is not the one that the changes are based
// on.
func (s *Service) Update(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, id string, c Changes) (
	Schedule, error) {
	n, err := lockOwn(ctx, tx, by, companyID, id)
	if err != nil {
		return n, err
	}
	if err := checkVersion(c.Version, n.Version); err != nil {
		return n, err
	}
	from := n.State
	if from == Ended {
		if c.State != nil && *c.State == Ended {
			return n, nil
		}
		return n, ErrEnded
	}
	var list apierr.List
	if c.Name != nil {
		n.Name = strings.TrimSpace(*c.Name)
	}
	if c.DaysAhead != nil {
		n.Calendar.DaysAhead = *c.DaysAhead
	}
	if c.EndDate != nil {
		n.setEnd(*c.EndDate, &list)
		n.Recurrence.check(&list)
	}
	n.setCalendar(c, &list)
	n.check(&list)
	if err := list.Err(); err != nil {
		return n, err
	}
	if c.ToPay != nil {
		if err := s.checkPayable(ctx, tx, by, &n, c.ToPay); err != nil {
			return n, err
		}
		n.ToPay = c.ToPay
		if n.CreatedBy != approval.CreatorOf(by) {
			n.CreatedBy = ""
		}
	}
	if c.State != nil {
		n.State = *c.State
	}
	if n.State == Active && from == Paused {
		if err := n.skipPast(ctx, tx); err != nil {
			return n, err
		}
	}
	if !n.plan(n.Next) {
		n.State = Ended
	}
	return n, n.step(ctx, tx, from, webhook.ScheduleStatusUpdate)
}

// skipPast skips the runs whose pay date has passed.
func (n *Schedule) skipPast(ctx context.Context, tx *db.Tx) error {
	today := workday.On(tx.Now(), n.Calendar.Zone)
	for day, ok := n.Recurrence.OnOrAfter(n.Next); ok && n.Calendar.PayDate(day).Before(today); day,
		ok = n.Recurrence.OnOrAfter(n.Next) {
		r, err := n.run(ctx, tx, day)
		if err != nil {
			return err
		}
		r.State, r.Reason = Skipped, reasonPaused
		if err := n.save(ctx, tx, &r); err != nil {
			return err
		}
		n.Next = day.AddDate(0, 0, 1)
	}
	return nil
}

// ChangeRun skips a run, undoes a skip, or changes a run's payees. It returns ErrChanged if the version of the
// schedule or run is not the one that the changes are based on.
func (s *Service) ChangeRun(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, id, on string,
	c RunChanges) (Schedule, Run, error) {
	n, err := lockOwn(ctx, tx, by, companyID, id)
	if err != nil {
		return n, Run{}, err
	}
	if err := checkVersion(c.Version, n.Version); err != nil {
		return n, Run{}, err
	}
	if n.State == Ended {
		return n, Run{}, ErrEnded
	}
	day, err := workday.Parse(on)
	if err != nil {
		return n, Run{}, errNoRun
	}
	if next, ok := n.Recurrence.OnOrAfter(day); !ok || !next.Equal(day) {
		return n, Run{}, errNoRun
	}
	if day.Before(n.Next) {
		return n, Run{}, ErrRun
	}
	r, err := n.run(ctx, tx, day)
	if err != nil {
		return n, r, err
	}
	if err := checkVersion(c.RunVersion, r.Version); err != nil {
		return n, r, err
	}
	if c.ToPay != nil {
		if err := s.checkPayable(ctx, tx, by, &n, c.ToPay); err != nil {
			return n, r, err
		}
		r.ChangedBy = approval.CreatorOf(by)
	}
	r.ToPay = c.ToPay
	r.PayDate = n.Calendar.PayDate(day) // the calendar may have changed since the run was skipped
	if c.State == Planned || c.State == Skipped {
		r.State, r.Reason = c.State, ""
	}
	if err := n.save(ctx, tx, &r); err != nil {
		return n, r, err
	}
	if day.Equal(n.Next) { // a run that waits is tried at once
		n.nextAt = n.Calendar.CreatedAt(day)
		return n, r, n.touch(ctx, tx)
	}
	return n, r, nil
}

// Get returns a schedule with its last and next runs.
func Get(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, id string) (Schedule, error) {
	company, err := by.Company(companyID)
	if err != nil {
		return Schedule{}, err
	}
	n, err := find(ctx, tx, company, id)
	if err != nil {
		return n, err
	}
	stored, err := n.stored(ctx, tx)
	if err != nil {
		return n, err
	}
	for _, r := range stored {
		if n.Next.IsZero() || r.Day.Before(n.Next) {
			n.Runs = append(n.Runs, r)
		}
	}
	for day, ok, i := n.Next, !n.Next.IsZero(), 0; ok && i < Upcoming; i++ {
		r := Run{Day: day, PayDate: n.Calendar.PayDate(day), State: Planned}
		if at := slices.IndexFunc(stored, func(r Run) bool { return r.Day.Equal(day) }); at >= 0 {
			r = stored[at]
		}
		n.Runs = append(n.Runs, r)
		day, ok = n.Recurrence.OnOrAfter(day.AddDate(0, 0, 1))
	}
	return n, nil
}

// List returns a page of the company's schedules, newest first, and their total number.
func List(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string, page db.Page) ([]Schedule,
	int64, error) {
	company, err := by.Company(companyID)
	if err != nil {
		return nil, 0, err
	}
	return list(ctx, tx, company, page)
}

func lockOwn(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, id string) (Schedule, error) {
	company, err := by.Company(companyID)
	if err != nil {
		return Schedule{}, err
	}
	return lock(ctx, tx, company, id)
}

// step stores the next version of a schedule, and emits its event.
func (n *Schedule) step(ctx context.Context, tx *db.Tx, from State, event webhook.Type[webhook.ScheduleData]) error {
	if n.State == Ended {
		n.Next, n.nextAt = time.Time{}, time.Time{}
	}
	if err := n.touch(ctx, tx); err != nil {
		return err
	}
	db.History(tx, n.CompanyID, n.ID, n.Version, string(from), string(n.State), "changed")
	return n.emit(tx, event, from)
}

func (n *Schedule) emit(tx *db.Tx, event webhook.Type[webhook.ScheduleData], from State) error {
	d := webhook.ScheduleData{ScheduleID: n.ID, CompanyID: n.CompanyID, Name: n.Name, Status: string(n.State),
		Frequency: string(n.Recurrence.Frequency), NextRun: Text(n.Next)}
	if !n.Next.IsZero() {
		d.NextPayDate = Text(n.Calendar.PayDate(n.Next))
	}
	if from != n.State {
		d.PreviousStatus = string(from)
	}
	return webhook.Emit(tx, event.Event(n.CompanyID, n.ID, n.Version, d))
}

// save stores the next version of a run, and emits its event.
func (n *Schedule) save(ctx context.Context, tx *db.Tx, r *Run) error {
	if r.ID == "" {
		r.ID = tx.NewID("run")
	}
	r.Version++
	if err := n.saveRun(ctx, tx, r); err != nil {
		return err
	}
	return webhook.Emit(tx, webhook.ScheduleRunUpdate.Event(n.CompanyID, r.ID, r.Version, webhook.ScheduleRunData{
		RunID: r.ID, ScheduleID: n.ID, CompanyID: n.CompanyID, Day: Text(r.Day), PayDate: Text(r.PayDate),
		Status: string(r.State), Reason: r.Reason, PayrollID: r.PayrollID,
	}))
}

// Text returns a day as text, "" for the zero time.
func Text(day time.Time) string {
	if day.IsZero() {
		return ""
	}
	return day.Format(time.DateOnly)
}
