package httpapi

import (
	"cmp"
	"context"

	"github.com/stipend/stipend/internal/country/workday"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/payroll/schedule"
)

type (
	scheduleCreateInput struct{ Body scheduleTerms }

	scheduleTerms struct {
		CompanyID       string      `json:"company_id,omitempty" maxLength:"64"`
		Name            string      `json:"name" minLength:"1" maxLength:"100" example:"Salaries"`
		Frequency       string      `json:"frequency" enum:"weekly,biweekly,semimonthly,monthly" example:"monthly"`
		StartDate       string      `json:"start_date" maxLength:"10" format:"date" example:"2026-10-01"`
		EndDate         string      `json:"end_date,omitempty" maxLength:"10" example:"2027-09-30"`
		Days            []int       `json:"days,omitempty" maxItems:"2"`
		WorkingDay      string      `json:"working_day,omitempty" enum:"none,before,after" example:"before"`
		Calendar        string      `json:"calendar,omitempty" maxLength:"8" example:"DE"`
		TimeZone        string      `json:"time_zone,omitempty" maxLength:"64" example:"Europe/Berlin"`
		DaysAhead       int         `json:"days_ahead,omitempty" minimum:"0" maximum:"28" example:"3"`
		Currency        string      `json:"currency,omitempty" minLength:"1" maxLength:"10" doc:"Currency of amount_fiat."`
		FundingMethod   string      `json:"funding_method,omitempty" minLength:"1" maxLength:"64"`
		FundingCurrency string      `json:"funding_currency,omitempty" minLength:"1" maxLength:"10"`
		FundingNetwork  string      `json:"funding_network,omitempty" minLength:"1" maxLength:"20"`
		ToPay           []toPayItem `json:"to_pay" minItems:"1" maxItems:"10000"`
	}

	scheduleUpdateInput struct{ Body scheduleUpdateBody }

	scheduleUpdateBody struct {
		CompanyID  string      `json:"company_id,omitempty" maxLength:"64"`
		ScheduleID string      `json:"schedule_id" maxLength:"64"`
		Status     string      `json:"status,omitempty" enum:"active,paused,ended" example:"paused"`
		Name       *string     `json:"name,omitempty" minLength:"1" maxLength:"100" example:"Salaries"`
		EndDate    *string     `json:"end_date,omitempty" maxLength:"10" example:"2027-09-30"`
		DaysAhead  *int        `json:"days_ahead,omitempty" minimum:"0" maximum:"28" example:"3"`
		ToPay      []toPayItem `json:"to_pay,omitempty" minItems:"1" maxItems:"10000"`

		WorkingDay *string `json:"working_day,omitempty" enum:"before,after,none" example:"before"`
		Calendar   *string `json:"calendar,omitempty" maxLength:"8" example:"DE"`
		TimeZone   *string `json:"time_zone,omitempty" maxLength:"64" example:"Europe/Berlin"`
	}

	scheduleRunInput struct{ Body scheduleRunBody }

	scheduleRunBody struct {
		CompanyID  string      `json:"company_id,omitempty" maxLength:"64"`
		ScheduleID string      `json:"schedule_id" maxLength:"64"`
		Day        string      `json:"day" maxLength:"10" example:"2026-10-31"`
		Status     string      `json:"status" enum:"planned,skipped" example:"skipped"`
		ToPay      []toPayItem `json:"to_pay,omitempty" minItems:"1" maxItems:"10000"`
	}

	scheduleList struct {
		CompanyID string `query:"company_id"`
		cursorPaging
	}

	schedulePage struct {
		Data []ScheduleSummary `json:"data" doc:"Schedules of the page."`
		Meta meta              `json:"meta"`
	}

	scheduleGet struct {
		ScheduleID string `path:"schedule_id"`
		CompanyID  string `query:"company_id"`
	}

	// ScheduleSummary is exported because the contract omits the fields of unexported embedded types.
	ScheduleSummary struct {
		ScheduleID  string `json:"schedule_id"`
		CompanyID   string `json:"company_id"`
		Name        string `json:"name" example:"Salaries"`
		Status      string `json:"status" enum:"active,paused,ended"`
		Frequency   string `json:"frequency" enum:"weekly,biweekly,semimonthly,monthly"`
		Payees      int    `json:"payees"`
		NextRun     string `json:"next_run" example:"2026-10-31"`
		NextPayDate string `json:"next_pay_date" example:"2026-10-30"`
		Created     Time   `json:"created"`
		Updated     Time   `json:"updated"`
	}

	scheduleDetail struct {
		ScheduleSummary
		StartDate     string          `json:"start_date" doc:"First possible day of a run." example:"2026-10-01"`
		EndDate       string          `json:"end_date" doc:"Last possible day of a run, or empty." example:"2027-09-30"`
		Days          []int           `json:"days" doc:"Days of the month; empty for weekly schedules."`
		WorkingDay    string          `json:"working_day" doc:"Rule for other days." enum:"none,before,after"`
		Calendar      string          `json:"calendar" doc:"Country of the public holidays, or weekdays." example:"DE"`
		TimeZone      string          `json:"time_zone" doc:"Time zone of the days." example:"Europe/Berlin"`
		DaysAhead     int             `json:"days_ahead" doc:"From the creation of a payroll to its pay date." example:"3"`
		Currency      string          `json:"currency" doc:"Currency of the payrolls; empty for USD."`
		FundingMethod string          `json:"funding_method" doc:"Empty for the company's default."`
		ToPay         []schedulePayee `json:"to_pay" doc:"Payees and amounts of each run."`
		Runs          []scheduleRun   `json:"runs"`
	}

	schedulePayee struct {
		UserID      string  `json:"user_id"`
		CompanyID   string  `json:"company_id" doc:"A recipient that is a company, or the paying company; may be empty."`
		AmountFiat  Decimal `json:"amount_fiat"`
		Receive     Decimal `json:"receive_amount"`
		In          string  `json:"receive_currency"`
		Description string  `json:"description"`
		Category    string  `json:"category" doc:"Your own category of the payment." example:"salary"`
	}

	scheduleRun struct {
		RunID     string `json:"run_id" example:"run_06gf58g6w0aychq170kks701q0"`
		Day       string `json:"day" example:"2026-10-31"`
		PayDate   string `json:"pay_date" example:"2026-10-30"`
		Status    string `json:"status" enum:"planned,skipped,waiting,created"`
		Reason    string `json:"reason" example:"insufficient_balance"`
		PayrollID string `json:"payroll_id"`
		Changed   bool   `json:"changed"`
	}

	scheduleRunChanged struct {
		ScheduleID string      `json:"schedule_id"`
		Run        scheduleRun `json:"run"`
	}
)

func createSchedule(ctx context.Context, tx *db.Tx, c *request, in *scheduleCreateInput) (*scheduleDetail, error) {
	b := &in.Body
	n, err := c.Schedule.Create(ctx, tx, c.by, schedule.Params{
		CompanyID: c.company, Name: b.Name, Frequency: schedule.Frequency(b.Frequency), StartDate: b.StartDate,
		EndDate: b.EndDate, Days: b.Days, WorkingDay: workday.Rule(b.WorkingDay), Calendar: b.Calendar, TimeZone: b.TimeZone,
		DaysAhead: b.DaysAhead, ToPay: payees(b.ToPay),
		Terms: schedule.Terms{Currency: b.Currency, FundingMethod: b.FundingMethod, FundingCurrency: b.FundingCurrency,
			FundingNetwork: b.FundingNetwork},
	})
	if err != nil {
		return nil, err
	}
	return readSchedule(ctx, tx, c, n.ID)
}

func updateSchedule(ctx context.Context, tx *db.Tx, c *request, in *scheduleUpdateInput) (*scheduleDetail, error) {
	b := &in.Body
	changes := schedule.Changes{Name: b.Name, EndDate: b.EndDate, DaysAhead: b.DaysAhead, ToPay: payeesOrNil(b.ToPay),
		Calendar: b.Calendar, TimeZone: b.TimeZone}
	if b.WorkingDay != nil {
		changes.WorkingDay = new(workday.Rule(*b.WorkingDay))
	}
	if b.Status != "" {
		state := schedule.State(b.Status)
		changes.State = &state
	}
	if _, err := c.Schedule.Update(ctx, tx, c.by, c.company, b.ScheduleID, changes); err != nil {
		return nil, err
	}
	return readSchedule(ctx, tx, c, b.ScheduleID)
}

func payeesOrNil(items []toPayItem) []payroll.Payee {
	if len(items) == 0 {
		return nil
	}
	return payees(items)
}

func changeScheduleRun(ctx context.Context, tx *db.Tx, c *request, in *scheduleRunInput) (*scheduleRunChanged, error) {
	b := &in.Body
	n, r, err := c.Schedule.ChangeRun(ctx, tx, c.by, c.company, b.ScheduleID, b.Day,
		schedule.RunChanges{State: schedule.RunState(b.Status), ToPay: payeesOrNil(b.ToPay)})
	if err != nil {
		return nil, err
	}
	return &scheduleRunChanged{n.ID, showRun(r)}, nil
}

func listSchedules(ctx context.Context, tx *db.Tx, c *request, in *scheduleList) (*schedulePage, error) {
	all, total, err := schedule.List(ctx, tx, c.by, c.company, in.page())
	if err != nil {
		return nil, err
	}
	out := &schedulePage{Data: make([]ScheduleSummary, len(all)), Meta: metaOf(in.cursorPaging, total, all,
		func(x schedule.Schedule) string { return x.ID })}
	for i := range all {
		out.Data[i] = summarizeSchedule(&all[i])
	}
	return out, nil
}

func getSchedule(ctx context.Context, tx *db.Tx, c *request, in *scheduleGet) (*scheduleDetail, error) {
	return readSchedule(ctx, tx, c, in.ScheduleID)
}

func readSchedule(ctx context.Context, tx *db.Tx, c *request, id string) (*scheduleDetail, error) {
	n, err := schedule.Get(ctx, tx, c.by, c.company, id)
	if err != nil {
		return nil, err
	}
	out := &scheduleDetail{
		ScheduleSummary: summarizeSchedule(&n), StartDate: schedule.Text(n.Recurrence.Start),
		EndDate: schedule.Text(n.Recurrence.End), Days: append([]int{}, n.Recurrence.Days...),
		WorkingDay: string(n.Calendar.Rule), Calendar: n.Calendar.Country, TimeZone: n.Calendar.Zone.String(),
		DaysAhead: n.Calendar.DaysAhead, Currency: n.Terms.Currency, FundingMethod: n.Terms.FundingMethod,
		ToPay: make([]schedulePayee, len(n.ToPay)), Runs: make([]scheduleRun, len(n.Runs)),
	}
	for i, p := range n.ToPay {
		out.ToPay[i] = schedulePayee{
			UserID: p.UserID, CompanyID: p.CompanyID, AmountFiat: Decimal(cmp.Or(p.AmountText, "0")),
			Receive: Decimal(cmp.Or(p.ReceiveText, "0")), In: p.ReceiveCurrency, Description: p.Description,
			Category: p.Category,
		}
	}
	for i, r := range n.Runs {
		out.Runs[i] = showRun(r)
	}
	return out, nil
}

func summarizeSchedule(n *schedule.Schedule) ScheduleSummary {
	s := ScheduleSummary{
		ScheduleID: n.ID, CompanyID: n.CompanyID, Name: n.Name, Status: string(n.State),
		Frequency: string(n.Recurrence.Frequency), Payees: len(n.ToPay), NextRun: schedule.Text(n.Next),
		Created: Time(n.CreatedAt), Updated: Time(n.UpdatedAt),
	}
	if !n.Next.IsZero() {
		s.NextPayDate = schedule.Text(n.Calendar.PayDate(n.Next))
	}
	return s
}

func showRun(r schedule.Run) scheduleRun {
	return scheduleRun{r.ID, schedule.Text(r.Day), schedule.Text(r.PayDate), string(r.State), r.Reason, r.PayrollID,
		r.ToPay != nil}
}
