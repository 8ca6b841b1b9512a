package web

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
	Filters  []field
	Payrolls table
	Pager    pager
	Month    field
}

// listPayrolls are the pay runs of the company that the filters choose, the newest first.
func listPayrolls(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	f := payroll.Filter{
		ExternalID: c.query("external_id"), From: c.askedDay("since"), To: c.askedDay("until"), Page: c.page(), PerPage: perPage,
	}
	if status := c.query("status"); slices.Contains(payrollStates, status) {
		f.Status = payroll.State(status)
	}
	if !f.To.IsZero() {
		f.To = f.To.AddDate(0, 0, 1) // the day itself, too
	}
	all, total, err := c.Payroll.List(ctx, tx, c.session.Principal(), "", f)
	if err != nil {
		return view{}, err
	}
	p := payrollsPage{Month: c.filter(field{Name: "month", Type: "month", Required: true, Most: 7}), Payrolls: c.payrollTable(c.text("payrolls.title"), all), Pager: c.pager(f.Page, f.PerPage, total), Filters: []field{
		c.filter(field{Name: "status", Type: "select", Options: c.choices("payroll.state", payrollStates...)}),
		c.filter(field{Name: "since", Type: "date"}),
		c.filter(field{Name: "until", Type: "date"}),
		c.filter(field{Name: "external_id", Most: 255}),
	}}
	return view{page: "payrolls", title: c.text("payrolls.title"), wide: true, data: p}, nil
}

// askedDay is a day in the address, zero without one.
func (c *call) askedDay(name string) time.Time {
	day, err := time.Parse(time.DateOnly, c.query(name))
	if err != nil {
		return time.Time{}
	}
	return day
}

// payrollTable lists pay runs.
func (c *call) payrollTable(caption string, all []payroll.Payroll) table {
	t := table{Caption: caption, Empty: c.text("payrolls.none"), Heads: c.heads(
		"payroll.id", "payroll.created", "payroll.status", "payroll.payees#", "payroll.total#", "field.external_id")}
	for _, p := range all {
		t.Rows = append(t.Rows, []cell{
			c.link(p.ID, payrollPath(p.ID)), c.at(p.CreatedAt), c.payrollState(p.State),
			{Text: c.count(p.Count), Kind: "number"}, c.amount(p.Total), {Text: p.ExternalID},
		})
	}
	return t
}

func (c *call) payrollState(s payroll.State) cell {
	warn := s == payroll.OnHold || s == payroll.ActionRequired || s == payroll.Returned || s == payroll.PartiallyFulfilled
	return cell{Text: c.word("payroll.state", string(s)), Warn: warn}
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
	Payments, Steps        table
	Pager                  pager
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
func showPayroll(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	p, err := c.Payroll.Get(ctx, tx, c.session.Principal(), c.r.PathValue("id"))
	if err != nil {
		return view{}, err
	}
	names, err := payeeNames(ctx, tx, p)
	if err != nil {
		return view{}, err
	}
	to := payrollPath(p.ID)
	v := payrollPage{
		Payroll: p, Path: to, State: c.word("payroll.state", string(p.State)), Means: c.text("payroll.means." + string(p.State)),
		Funding: c.word("payroll.funding", string(p.FundingState)), Created: c.instant(p.CreatedAt), Count: c.count(p.Count),
		Volume: c.money(p.Volume), Fees: c.money(p.Fees), Total: c.money(p.Total), ExternalID: p.ExternalID,
		Fundable: p.FromOutside() && p.State == payroll.Pending, Cancellable: cancellable(p),
		StatementCSV: c.url(to + "/statement.csv"), AsPDF: c.url(to + "/statement.pdf"),
	}
	if p.Escrow.Sign() > 0 {
		v.Escrow = c.money(p.Escrow)
	}
	if !p.Rate.IsZero() {
		v.Rate = c.text("payroll.rate.is", string(p.Rate.Base()), c.number(p.Rate.String()), string(p.Rate.Quote()))
	}
	if p.HoldReason != "" {
		v.HoldReason = c.word("reason", p.HoldReason)
	}
	if v.Approval, err = c.approval(ctx, tx, p); err != nil {
		return view{}, err
	}
	if v.Moved, err = c.movedPayees(ctx, tx, p, names); err != nil {
		return view{}, err
	}
	if n := len(v.Moved); n > movedShown {
		v.Moved, v.MovedMore = v.Moved[:movedShown], c.count(int64(n-movedShown))
	}
	page := c.page()
	first := min((page-1)*paymentsShown, len(p.Payments))
	part := p.Payments[first:min(first+paymentsShown, len(p.Payments))]
	v.Pager = c.pager(page, paymentsShown, p.Count)
	v.Payments = c.paymentTable(part, names)
	v.Steps = c.stepTable(p, part)
	for _, m := range part {
		if m.Reason == payroll.ReasonCoolDown && c.session.Administers() {
			v.Unconfirmed = append(v.Unconfirmed, unconfirmed{to + "/payments/" + m.ID + "/confirm", cmp.Or(names[m.PayeeID], m.PayeeID), c.money(m.Amount)})
		}
	}
	for _, m := range p.Payments {
		v.Incomplete = v.Incomplete || m.State == payroll.ActionRequired || m.State == payroll.Returned
	}
	return view{page: "payroll", title: c.text("payroll.title", p.ID), wide: true, data: v}, nil
}

// movedPayees are those whose money goes elsewhere than their last payment went, in the order in which they are to be paid.
func (c *call) movedPayees(ctx context.Context, tx *db.Tx, p payroll.Payroll, names map[string]string) (all []movedPayee, err error) {
	moved, err := c.Payroll.Moved(ctx, tx, p)
	for _, m := range p.Payments {
		if at, has := moved[m.PayeeID]; has {
			all = append(all, movedPayee{recipientPath(m.PayeeID), cmp.Or(names[m.PayeeID], m.PayeeID), c.instant(at)})
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
func (c *call) paymentTable(part []payroll.Payment, names map[string]string) table {
	t := table{Caption: c.text("payroll.payments"), Heads: c.heads("payment.payee", "payment.amount#", "payroll.status", "payment.outputs")}
	for _, m := range part {
		who := c.link(cmp.Or(names[m.PayeeID], m.PayeeID), recipientPath(m.PayeeID))
		for _, text := range []string{m.Description, m.ExternalPaymentID} {
			if text != "" {
				who.Lines = append(who.Lines, cell{Text: text})
			}
		}
		state := c.payrollState(m.State)
		if m.Reason != "" {
			state.Lines = []cell{{Text: c.word("reason", m.Reason)}}
		}
		var outs cell
		for i, o := range m.Outputs {
			shown := c.output(o)
			if i == 0 {
				outs = shown
			} else {
				outs.Lines = append(outs.Lines, shown)
			}
		}
		t.Rows = append(t.Rows, []cell{who, c.amount(m.Amount), state, outs})
	}
	return t
}

// output is what a destination gets, and how that stands.
func (c *call) output(o payout.Output) cell {
	s := cell{Text: c.text("output.to", c.money(o.Amount), destinationHint(o)), Lines: []cell{{Text: c.word("output.state", string(o.State))}}}
	if !o.Rate.IsZero() {
		s.Lines = append(s.Lines, cell{Text: c.text("payroll.rate.is", string(o.Rate.Base()), c.number(o.Rate.String()), string(o.Rate.Quote()))})
	}
	if o.Reason != "" {
		s.Lines = append(s.Lines, cell{Text: c.word("reason", o.Reason)})
	}
	if o.TxID != "" {
		s.Lines = append(s.Lines, code(o.TxID))
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
func (c *call) stepTable(p payroll.Payroll, part []payroll.Payment) table {
	t := table{Caption: c.text("payroll.timeline"), Heads: c.heads("step.at", "step.what", "step.to", "step.why")}
	number := map[string]int64{}
	for _, m := range part {
		number[m.ID] = m.Position + 1
	}
	steps := slices.Clone(p.Timeline)
	slices.SortStableFunc(steps, func(a, b payroll.Step) int { return a.At.Compare(b.At) })
	for _, s := range steps {
		what := c.text("step.payroll")
		if s.ObjectID != p.ID {
			n, shown := number[s.ObjectID]
			if !shown {
				continue
			}
			what = c.text("step.payment", strconv.FormatInt(n, 10))
		}
		to := c.payrollState(s.To)
		if s.From == s.To {
			to = cell{Text: c.text("step.same")}
		}
		why := ""
		if s.Reason != "" {
			why = c.word("reason", s.Reason)
		}
		t.Rows = append(t.Rows, []cell{c.at(s.At), {Text: what}, to, {Text: why}})
	}
	return t
}

// confirmDestination releases a payment to a new destination.
func confirmDestination(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	p, err := c.Payroll.ConfirmDestination(ctx, tx, c.session.Principal(), c.r.PathValue("id"), c.r.PathValue("payment"))
	return view{redirect: payrollPath(p.ID)}, err
}

// cancelPayroll ends a pay run of which nothing was released.
func cancelPayroll(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	p, err := c.Payroll.Cancel(ctx, tx, c.session.Principal(), c.r.PathValue("id"))
	return view{redirect: payrollPath(p.ID)}, err
}
