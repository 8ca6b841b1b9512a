package company

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/web/ui"
)

// paymentsPerPage is the number of payments on a page.
const paymentsPerPage = 100

// payrollStates are the states by which the list can be filtered.
var payrollStates = []string{
	string(payroll.Pending), string(payroll.Received), string(payroll.Released), string(payroll.Fulfilled),
	string(payroll.PartiallyFulfilled),
	string(payroll.OnHold), string(payroll.ExpiredUnfunded), string(payroll.Cancelled),
}

func payrollPath(id string) string { return "/payrolls/" + id }

type payrollsPage struct {
	Filters  []ui.Field
	Payrolls ui.Table
	Pager    ui.Pager
	Month    ui.Field
}

// listPayrolls lists the company's payrolls, newest first.
func listPayrolls(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	f := payroll.Filter{
		ExternalID: c.Query("external_id"), From: queryDate(c, "since"), To: queryDate(c, "until"), Page: c.PageNumber(),
		PerPage: ui.PerPage,
	}
	if status := c.Query("status"); slices.Contains(payrollStates, status) {
		f.Status = payroll.State(status)
	}
	if !f.To.IsZero() {
		f.To = f.To.AddDate(0, 0, 1) // include the whole day
	}
	all, total, err := c.Payroll.List(ctx, tx, c.Session.Principal(), "", f)
	if err != nil {
		return ui.View{}, err
	}
	p := payrollsPage{Month: c.Filter(ui.Field{Name: "month", Type: "month", Required: true, MaxLength: 7}),
		Payrolls: payrollTable(c, c.Text("payrolls.title"), all), Pager: c.Pager(f.Page, f.PerPage, total),
		Filters: []ui.Field{
			c.Filter(ui.Field{Name: "status", Type: "select", Options: c.Choices("payroll.state", payrollStates...)}),
			c.Filter(ui.Field{Name: "since", Type: "date"}),
			c.Filter(ui.Field{Name: "until", Type: "date"}),
			c.Filter(ui.Field{Name: "external_id", MaxLength: 255}),
		}}
	return ui.View{Template: "payrolls", Title: c.Text("payrolls.title"), Wide: true, Data: p}, nil
}

// queryDate returns a date of the URL, or the zero time.
func queryDate(c *ui.Request, name string) time.Time {
	day, err := time.Parse(time.DateOnly, c.Query(name))
	if err != nil {
		return time.Time{}
	}
	return day
}

// payrollTable lists payrolls.
func payrollTable(c *ui.Request, caption string, all []payroll.Payroll) ui.Table {
	t := ui.Table{Caption: caption, Empty: c.Text("payrolls.none"), Heads: c.Columns(
		"payroll.id", "payroll.created", "payroll.status", "payroll.payees#", "payroll.total#", "field.external_id")}
	for _, p := range all {
		t.Rows = append(t.Rows, []ui.Cell{
			c.LinkCell(p.ID, payrollPath(p.ID)), c.TimeCell(p.CreatedAt), payrollState(c, p.State),
			{Text: c.FormatCount(p.Count), Kind: "number"}, c.AmountCell(p.Total), {Text: p.ExternalID},
		})
	}
	return t
}

func payrollState(c *ui.Request, s payroll.State) ui.Cell {
	warn := s == payroll.OnHold || s == payroll.ActionRequired || s == payroll.Returned || s == payroll.PartiallyFulfilled
	return ui.Cell{Text: c.Word("payroll.state", string(s)), Warn: warn}
}

type payrollPage struct {
	Payroll                payroll.Payroll
	Path                   string
	State, Means, Why      string
	Funding                string
	Created, Count         string
	Volume, Fees, Total    string
	Escrow, Rate           string
	Fundable, Cancellable  bool
	Payments, Steps        ui.Table
	Pager                  ui.Pager
	Incomplete             bool // some payments need a fix
	StatementCSV, AsPDF    string
	ExternalID, HoldReason string
	Approval               approvalStatus
	Unconfirmed            []unconfirmed
	Redirected             []redirectedPayee
	RedirectedMore         string // number of further ones, "" for none
}

// redirectedPayee is a payee whose destinations changed since they were last paid.
type redirectedPayee struct{ Path, Payee, At string }

// maxRedirected is the maximum number of redirected payees that the page lists.
const maxRedirected = 20

// unconfirmed is a payment on hold because its payee's destination is new.
type unconfirmed struct{ Path, Payee, Amount string }

// showPayroll renders a payroll with its payments and timeline.
func showPayroll(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	p, err := c.Payroll.Get(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	names, err := payeeNames(ctx, tx, p)
	if err != nil {
		return ui.View{}, err
	}
	to := payrollPath(p.ID)
	v := payrollPage{
		Payroll: p, Path: to, State: c.Word("payroll.state", string(p.State)),
		Means:   c.Text("payroll.means." + string(p.State)),
		Funding: c.Word("payroll.funding", string(p.FundingState)), Created: c.FormatTime(p.CreatedAt),
		Count:  c.FormatCount(p.Count),
		Volume: c.FormatMoney(p.Volume), Fees: c.FormatMoney(p.Fees), Total: c.FormatMoney(p.Total), ExternalID: p.ExternalID,
		Fundable: p.FromOutside() && p.State == payroll.Pending, Cancellable: cancellable(p),
		StatementCSV: c.URL(to + "/statement.csv"), AsPDF: c.URL(to + "/statement.pdf"),
	}
	if p.Escrow.Sign() > 0 {
		v.Escrow = c.FormatMoney(p.Escrow)
	}
	if !p.Rate.IsZero() {
		v.Rate = c.Text("payroll.rate.is", string(p.Rate.Base()), c.FormatNumber(p.Rate.String()), string(p.Rate.Quote()))
	}
	if p.HoldReason != "" {
		v.HoldReason = c.Word("reason", p.HoldReason)
	}
	if v.Approval, err = approvalOf(ctx, c, tx, p); err != nil {
		return ui.View{}, err
	}
	if v.Redirected, err = redirectedPayees(ctx, c, tx, p, names); err != nil {
		return ui.View{}, err
	}
	if n := len(v.Redirected); n > maxRedirected {
		v.Redirected, v.RedirectedMore = v.Redirected[:maxRedirected], c.FormatCount(int64(n-maxRedirected))
	}
	page := c.PageNumber()
	first := min((page-1)*paymentsPerPage, len(p.Payments))
	part := p.Payments[first:min(first+paymentsPerPage, len(p.Payments))]
	v.Pager = c.Pager(page, paymentsPerPage, p.Count)
	v.Payments = paymentTable(c, part, names)
	v.Steps = stepTable(c, p, part)
	for _, m := range part {
		if m.Reason == payroll.ReasonCoolDown && c.Session.Administers() {
			v.Unconfirmed = append(v.Unconfirmed, unconfirmed{
				to + "/payments/" + m.ID + "/confirm", cmp.Or(names[m.PayeeID], m.PayeeID), c.FormatMoney(m.Amount)})
		}
	}
	for _, m := range p.Payments {
		v.Incomplete = v.Incomplete || m.State == payroll.ActionRequired || m.State == payroll.Returned
	}
	return ui.View{Template: "payroll", Title: c.Text("payroll.title", p.ID), Wide: true, Data: v}, nil
}

// redirectedPayees returns the payees of a payroll whose destinations changed since they were last paid, in the order
// of the payments.
func redirectedPayees(ctx context.Context, c *ui.Request, tx *db.Tx, p payroll.Payroll, names map[string]string) (
	all []redirectedPayee, err error) {
	moved, err := c.Payroll.RecentDestinationChanges(ctx, tx, p)
	for _, m := range p.Payments {
		if at, has := moved[m.PayeeID]; has {
			all = append(all, redirectedPayee{recipientPath(m.PayeeID), cmp.Or(names[m.PayeeID], m.PayeeID), c.FormatTime(at)})
			delete(moved, m.PayeeID) // list each payee once
		}
	}
	return all, err
}

// cancellable reports whether the payroll can be canceled.
func cancellable(p payroll.Payroll) bool {
	switch p.State {
	case payroll.Pending, payroll.ExpiredUnfunded:
		return true
	case payroll.Received:
		return !p.FromOutside()
	case payroll.OnHold:
		return p.HoldReason == payroll.ReasonApproval
	}
	return false
}

// payeeNames returns the names of a payroll's payees by ID. Erased payees have none.
func payeeNames(ctx context.Context, tx *db.Tx, p payroll.Payroll) (map[string]string, error) {
	var ids []string
	for _, m := range p.Payments {
		ids = append(ids, m.PayeeID)
	}
	slices.Sort(ids)
	payees, err := payee.Payees(ctx, tx, p.CompanyID, slices.Compact(ids))
	names := map[string]string{}
	for id, who := range payees {
		names[id] = who.Name
	}
	return names, err
}

// paymentTable lists payments with their outputs.
func paymentTable(c *ui.Request, part []payroll.Payment, names map[string]string) ui.Table {
	t := ui.Table{Caption: c.Text("payroll.payments"),
		Heads: c.Columns("payment.payee", "payment.amount#", "payroll.status", "payment.outputs")}
	for _, m := range part {
		who := c.LinkCell(cmp.Or(names[m.PayeeID], m.PayeeID), recipientPath(m.PayeeID))
		for _, text := range []string{m.Description, m.ExternalPaymentID} {
			if text != "" {
				who.Lines = append(who.Lines, ui.Cell{Text: text})
			}
		}
		state := payrollState(c, m.State)
		if m.Reason != "" {
			state.Lines = []ui.Cell{{Text: c.Word("reason", m.Reason)}}
		}
		var outs ui.Cell
		for i, o := range m.Outputs {
			shown := output(c, o)
			if i == 0 {
				outs = shown
			} else {
				outs.Lines = append(outs.Lines, shown)
			}
		}
		t.Rows = append(t.Rows, []ui.Cell{who, c.AmountCell(m.Amount), state, outs})
	}
	return t
}

// output describes what a destination receives, and its state.
func output(c *ui.Request, o payout.Output) ui.Cell {
	s := ui.Cell{Text: c.Text("output.to", c.FormatMoney(o.Amount), destinationHint(o)),
		Lines: []ui.Cell{{Text: c.Word("output.state", string(o.State))}}}
	if !o.Rate.IsZero() {
		s.Lines = append(s.Lines, ui.Cell{Text: c.Text(
			"payroll.rate.is", string(o.Rate.Base()), c.FormatNumber(o.Rate.String()), string(o.Rate.Quote()))})
	}
	if o.Reason != "" {
		s.Lines = append(s.Lines, ui.Cell{Text: c.Word("reason", o.Reason)})
	}
	if o.TxID != "" {
		s.Lines = append(s.Lines, ui.CodeCell(o.TxID))
	}
	return s
}

// destinationHint returns the masked destination as it was at release.
func destinationHint(o payout.Output) string {
	var d destination.Destination
	if json.Unmarshal(o.Destination, &d) != nil {
		return "?"
	}
	return cmp.Or(d.Hint(), string(d.Symbol))
}

// stepTable lists the state changes of a payroll and of the given payments.
func stepTable(c *ui.Request, p payroll.Payroll, part []payroll.Payment) ui.Table {
	t := ui.Table{Caption: c.Text("payroll.timeline"), Heads: c.Columns("step.at", "step.what", "step.to", "step.why")}
	number := map[string]int64{}
	for _, m := range part {
		number[m.ID] = m.Position + 1
	}
	steps := slices.Clone(p.Timeline)
	slices.SortStableFunc(steps, func(a, b payroll.Step) int { return a.At.Compare(b.At) })
	for _, s := range steps {
		what := c.Text("step.payroll")
		if s.ObjectID != p.ID {
			n, shown := number[s.ObjectID]
			if !shown {
				continue
			}
			what = c.Text("step.payment", strconv.FormatInt(n, 10))
		}
		to := payrollState(c, s.To)
		if s.From == s.To {
			to = ui.Cell{Text: c.Text("step.same")}
		}
		why := ""
		if s.Reason != "" {
			why = c.Word("reason", s.Reason)
		}
		t.Rows = append(t.Rows, []ui.Cell{c.TimeCell(s.At), {Text: what}, to, {Text: why}})
	}
	return t
}

// confirmDestination ends the hold of a payment to a new destination.
func confirmDestination(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	p, err := c.Payroll.ConfirmDestination(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"),
		c.HTTP.PathValue("payment"))
	return ui.View{Redirect: payrollPath(p.ID)}, err
}

// cancelPayroll cancels a payroll that has not been released.
func cancelPayroll(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	p, err := c.Payroll.Cancel(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"))
	return ui.View{Redirect: payrollPath(p.ID)}, err
}
