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

// paymentsShown is how many payments of a payroll a page shows.
const paymentsShown = 100

// payrollStates are those that a list can be filtered by.
var payrollStates = []string{
	string(payroll.Pending), string(payroll.Received), string(payroll.Released), string(payroll.Fulfilled), string(payroll.PartiallyFulfilled),
	string(payroll.OnHold), string(payroll.ExpiredUnfunded), string(payroll.Cancelled),
}

func payrollPath(id string) string { return "/payrolls/" + id }

type payrollsPage struct {
	Filters  []ui.Field
	Payrolls ui.Table
	Pager    ui.Pager
	Month    ui.Field
}

// listPayrolls are the pay runs of the company that the filters choose, the newest first.
func listPayrolls(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	f := payroll.Filter{
		ExternalID: c.Query("external_id"), From: askedDay(c, "since"), To: askedDay(c, "until"), Page: c.PageNumber(), PerPage: ui.PerPage,
	}
	if status := c.Query("status"); slices.Contains(payrollStates, status) {
		f.Status = payroll.State(status)
	}
	if !f.To.IsZero() {
		f.To = f.To.AddDate(0, 0, 1) // the day itself, too
	}
	all, total, err := c.Payroll.List(ctx, tx, c.Session.Principal(), "", f)
	if err != nil {
		return ui.View{}, err
	}
	p := payrollsPage{Month: c.Filter(ui.Field{Name: "month", Type: "month", Required: true, Most: 7}), Payrolls: payrollTable(c, c.Text("payrolls.title"), all), Pager: c.Pager(f.Page, f.PerPage, total), Filters: []ui.Field{
		c.Filter(ui.Field{Name: "status", Type: "select", Options: c.Choices("payroll.state", payrollStates...)}),
		c.Filter(ui.Field{Name: "since", Type: "date"}),
		c.Filter(ui.Field{Name: "until", Type: "date"}),
		c.Filter(ui.Field{Name: "external_id", Most: 255}),
	}}
	return ui.View{Template: "payrolls", Title: c.Text("payrolls.title"), Wide: true, Data: p}, nil
}

// askedDay is a day in the address, zero without one.
func askedDay(c *ui.Request, name string) time.Time {
	day, err := time.Parse(time.DateOnly, c.Query(name))
	if err != nil {
		return time.Time{}
	}
	return day
}

// payrollTable lists pay runs.
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
	Incomplete             bool // some payments need somebody
	StatementCSV, AsPDF    string
	ExternalID, HoldReason string
	Approval               approvalShown
	Unconfirmed            []unconfirmed
	Moved                  []movedPayee
	MovedMore              string // how many more there are than are shown
}

// movedPayee is one whose money goes elsewhere than their last payment went.
type movedPayee struct{ Path, Payee, At string }

// movedShown bounds how many of them a page names.
const movedShown = 20

// unconfirmed is a payment that waits because its payee's destination is new.
type unconfirmed struct{ Path, Payee, Amount string }

// showPayroll is one pay run: what it costs, where it stands, and what became of each payment.
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
		Payroll: p, Path: to, State: c.Word("payroll.state", string(p.State)), Means: c.Text("payroll.means." + string(p.State)),
		Funding: c.Word("payroll.funding", string(p.FundingState)), Created: c.FormatTime(p.CreatedAt), Count: c.FormatCount(p.Count),
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
	if v.Moved, err = movedPayees(ctx, c, tx, p, names); err != nil {
		return ui.View{}, err
	}
	if n := len(v.Moved); n > movedShown {
		v.Moved, v.MovedMore = v.Moved[:movedShown], c.FormatCount(int64(n-movedShown))
	}
	page := c.PageNumber()
	first := min((page-1)*paymentsShown, len(p.Payments))
	part := p.Payments[first:min(first+paymentsShown, len(p.Payments))]
	v.Pager = c.Pager(page, paymentsShown, p.Count)
	v.Payments = paymentTable(c, part, names)
	v.Steps = stepTable(c, p, part)
	for _, m := range part {
		if m.Reason == payroll.ReasonCoolDown && c.Session.Administers() {
			v.Unconfirmed = append(v.Unconfirmed, unconfirmed{to + "/payments/" + m.ID + "/confirm", cmp.Or(names[m.PayeeID], m.PayeeID), c.FormatMoney(m.Amount)})
		}
	}
	for _, m := range p.Payments {
		v.Incomplete = v.Incomplete || m.State == payroll.ActionRequired || m.State == payroll.Returned
	}
	return ui.View{Template: "payroll", Title: c.Text("payroll.title", p.ID), Wide: true, Data: v}, nil
}

// movedPayees are those whose money goes elsewhere than their last payment went, in the order in which they are to be paid.
func movedPayees(ctx context.Context, c *ui.Request, tx *db.Tx, p payroll.Payroll, names map[string]string) (all []movedPayee, err error) {
	moved, err := c.Payroll.RecentDestinationChanges(ctx, tx, p)
	for _, m := range p.Payments {
		if at, has := moved[m.PayeeID]; has {
			all = append(all, movedPayee{recipientPath(m.PayeeID), cmp.Or(names[m.PayeeID], m.PayeeID), c.FormatTime(at)})
			delete(moved, m.PayeeID) // who is paid twice is named once
		}
	}
	return all, err
}

// cancellable says whether Cancel would take the payroll.
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

// payeeNames are the names of those whom a payroll pays, by id. Who was erased has none.
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

// paymentTable is a part of a payroll's payments with what went to each destination.
func paymentTable(c *ui.Request, part []payroll.Payment, names map[string]string) ui.Table {
	t := ui.Table{Caption: c.Text("payroll.payments"), Heads: c.Columns("payment.payee", "payment.amount#", "payroll.status", "payment.outputs")}
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

// output is what a destination gets, and how that stands.
func output(c *ui.Request, o payout.Output) ui.Cell {
	s := ui.Cell{Text: c.Text("output.to", c.FormatMoney(o.Amount), destinationHint(o)), Lines: []ui.Cell{{Text: c.Word("output.state", string(o.State))}}}
	if !o.Rate.IsZero() {
		s.Lines = append(s.Lines, ui.Cell{Text: c.Text("payroll.rate.is", string(o.Rate.Base()), c.FormatNumber(o.Rate.String()), string(o.Rate.Quote()))})
	}
	if o.Reason != "" {
		s.Lines = append(s.Lines, ui.Cell{Text: c.Word("reason", o.Reason)})
	}
	if o.TxID != "" {
		s.Lines = append(s.Lines, ui.CodeCell(o.TxID))
	}
	return s
}

// destinationHint tells the destination as it stood at release from others.
func destinationHint(o payout.Output) string {
	var d destination.Distribution
	if json.Unmarshal(o.Destination, &d) != nil {
		return "?"
	}
	return cmp.Or(d.Hint(), string(d.Symbol))
}

// stepTable tells how a payroll, and the payments beside it, came to where they are.
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

// confirmDestination releases a payment to a new destination.
func confirmDestination(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	p, err := c.Payroll.ConfirmDestination(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"), c.HTTP.PathValue("payment"))
	return ui.View{Redirect: payrollPath(p.ID)}, err
}

// cancelPayroll ends a pay run of which nothing was released.
func cancelPayroll(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	p, err := c.Payroll.Cancel(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"))
	return ui.View{Redirect: payrollPath(p.ID)}, err
}
