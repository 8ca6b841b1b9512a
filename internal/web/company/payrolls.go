package company

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/directdebit"
	"github.com/stipend/stipend/internal/document"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
	"github.com/stipend/stipend/internal/payout/bank/nacha"
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

// payrollSorts are the keys by which the columns of the list are sorted.
var payrollSorts = []string{"name", "", "payees", "total", "created"}

func payrollPath(id string) string { return "/payrolls/" + id }

type payrollsPage struct {
	Filters  ui.Filters
	Payrolls ui.Table
	Pager    ui.Pager
	Month    ui.Field
	Drafts   []savedDraft
}

// listPayrolls lists the company's payrolls, newest first.
func listPayrolls(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	f := payroll.Filter{
		ExternalID: c.Query("external_id"), From: c.QueryDate("since"), To: c.QueryDate("until"), Page: c.Page(),
		Amount: c.PlainAmount(c.Query("amount"), money.USD), Text: c.Query("search"),
	}
	if status := c.Query("status"); slices.Contains(payrollStates, status) {
		f.Status = payroll.State(status)
	}
	if !f.To.IsZero() {
		f.To = f.To.AddDate(0, 0, 1) // include the whole day
	}
	f.Sort, f.Descending = c.SortedBy(payrollSorts...)
	named := strings.TrimSpace(c.Query("payee"))
	if named != "" {
		found, err := payee.List(ctx, tx, c.Session.Principal(), payee.ListParams{Search: named,
			Page: db.Page{Number: 1, PerPage: 100}})
		if err != nil {
			return ui.View{}, err
		}
		for _, r := range found.Items {
			f.PayeeIDs = append(f.PayeeIDs, r.ID)
		}
	}
	var all []payroll.Payroll
	var total int64
	var err error
	if named == "" || len(f.PayeeIDs) > 0 { // else nobody has this name
		all, total, err = c.Payroll.List(ctx, tx, c.Session.Principal(), "", f)
	}
	if fault, ok := apierr.As(err); ok && fault.Kind == apierr.Invalid {
		all, total, err = nil, 0, nil // no payroll has an amount that is not a number
	}
	if err != nil {
		return ui.View{}, err
	}
	p := payrollsPage{Month: c.Filter(ui.Field{Name: "month", Type: "month", Required: true, MaxLength: 7}),
		Payrolls: payrollTable(c, c.Text("payrolls.title"), all), Pager: c.Pager(f.Page, total),
		Filters: c.FilterBar("/payrolls",
			c.Filter(ui.Field{Name: "status", Type: "select", Options: c.Choices("payroll.state", payrollStates...)}),
			c.Filter(ui.Field{Name: "since", Type: "date"}),
			c.Filter(ui.Field{Name: "until", Type: "date"}),
			c.Filter(ui.Field{Name: "external_id", MaxLength: 255}),
			c.Filter(ui.Field{Name: "payee", Label: c.Text("payrolls.payee"), MaxLength: 100}),
			c.Filter(ui.Field{Name: "search", Label: c.Text("payrolls.search"), MaxLength: 100}),
			c.Filter(ui.Field{Name: "amount", Label: c.Text("payment.amount"), MaxLength: 30,
				InputMode: "decimal"}),
		)}
	p.Payrolls.Empty = c.EmptyList(p.Filters, p.Payrolls.Empty)
	p.Payrolls.Heads = c.Sortable(p.Payrolls.Heads, payrollSorts...)
	p.Month.Value = cmp.Or(p.Month.Value, tx.Now().Format("2006-01"))
	if p.Drafts, err = savedDrafts(ctx, tx, c); err != nil {
		return ui.View{}, err
	}
	err = addSearches(ctx, tx, c, &p.Filters)
	return ui.View{Template: "payrolls", Title: c.Text("payrolls.title"), Data: p}, err
}

// payrollTable lists payrolls.
func payrollTable(c *ui.Request, caption string, all []payroll.Payroll) ui.Table {
	t := ui.Table{Caption: caption, Heads: c.Columns(
		"payroll.id|a", "payroll.status|c", "payroll.payees#|hide", "payroll.total#|b", "payroll.created#|d"),
		Empty: c.EmptyStep("send", "payrolls.none", c.Session.Manages(), "payrolls.new", "/payrolls/new")}
	for _, p := range all {
		name := c.LinkCell(payrollName(c, p), payrollPath(p.ID))
		name.Lines = []ui.Cell{{Text: p.ID, Kind: "id"}}
		t.Rows = append(t.Rows, []ui.Cell{
			name, payrollState(c, p), {Text: c.FormatCount(p.Count), Kind: "number"}, c.AmountCell(p.Total),
			c.TimeCell(p.CreatedAt),
		})
	}
	return t
}

// payrollName returns what people call a payroll: the company's reference, else its date.
func payrollName(c *ui.Request, p payroll.Payroll) string {
	return c.Documents().PayrollName(p)
}

// payrollState returns the state of a payroll as a badge.
func payrollState(c *ui.Request, p payroll.Payroll) ui.Cell {
	state := c.StateCell("payroll.state", string(p.State))
	if p.State == payroll.OnHold && p.HoldReason == payroll.ReasonApproval {
		return c.StateCell("payroll.state", "approval_required")
	}
	return state
}

type payrollPage struct {
	Payroll                payroll.Payroll
	Path                   string
	Means                  string
	Funding                ui.Cell
	Created, Count         string
	Volume, Fees, Total    string
	Escrow, Rate, PayDate  string
	Period                 string  // pay period, or ""
	Debit                  ui.Cell // link to the direct debit that funds it; empty if none does
	Fundable, Cancellable  bool
	Payments               ui.Table
	Steps                  []timelineStep
	Milestones             []ui.Cell
	Progress               ui.Progress
	Pager                  ui.Pager
	Incomplete             bool // some payments need a fix
	StatementCSV, AsPDF    string
	ExternalID, HoldReason string
	Approval               approvalStatus
	Unconfirmed            []unconfirmed
	Dearer                 []dearer
	Warnings               []paymentWarning
	MoreWarnings           string // number of further payments with warnings, "" for none
	Paused                 bool   // the operator has paused payouts, and some of this payroll are due
	Maker                  string
	Filters                ui.Filters
	Announcement           string // the state in a sentence, for screen readers
	Now                    string
}

// paymentStates are the states by which the payments of a payroll can be filtered.
var paymentStates = []string{string(payroll.Pending), string(payroll.Received), string(payroll.Released),
	string(payroll.Fulfilled), string(payroll.OnHold), string(payroll.ActionRequired), string(payroll.Returned),
	string(payroll.Cancelled)}

// chosenPayments returns the payments that the filters of the page select.
func chosenPayments(c *ui.Request, all []payroll.Payment, names map[string]string) []payroll.Payment {
	state, text := c.Query("state"), strings.ToLower(strings.TrimSpace(c.Query("search")))
	if state == "" && text == "" {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(m payroll.Payment) bool {
		if state != "" && string(m.State) != state {
			return true
		}
		found := text == ""
		fields := []string{names[m.PayeeID], m.ID, m.PayeeID, m.Description, m.ExternalPaymentID, m.InvoiceID,
			m.Amount.String(), c.FormatNumber(m.Amount.String())}
		for _, o := range m.Outputs {
			fields = append(fields, o.ID, o.TxID)
		}
		for _, field := range fields {
			found = found || strings.Contains(strings.ToLower(field), text)
		}
		return !found
	})
}

// changes reports whether the payroll can still change by itself, so that its page is kept current.
func changes(p payroll.Payroll) bool {
	switch p.State {
	case payroll.Pending, payroll.Received, payroll.Released, payroll.OnHold, payroll.PartiallyFulfilled:
		return true
	}
	return false
}

// paymentWarning is a payment that approvers should check, with the reasons.
type paymentWarning struct {
	Path, Payee, Amount string
	Why                 []string
}

// fewPayments is the number of payments up to which a payroll's page shows no filter.
const fewPayments = 5

// maxPaymentWarnings is the number of payments with warnings that the page lists.
const maxPaymentWarnings = 20

// dearer is a payment that waits because what its payee receives costs more now.
type dearer struct {
	Path, Payee, Receives, Difference, Most string
}

// unconfirmed is a payment on hold because its payee's destination is new.
type unconfirmed struct{ Path, Payee, Amount, Content string }

// showPayroll renders a payroll with its payments and timeline.
func showPayroll(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	p, err := c.Payroll.Get(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	names, err := p.PayeeNames(ctx, tx)
	if err != nil {
		return ui.View{}, err
	}
	to := payrollPath(p.ID)
	v := payrollPage{
		Payroll: p, Path: to, Means: c.Text("payroll.means." + string(p.State)),
		Funding: c.StateCell("payroll.funding", string(p.FundingState)), Created: c.FormatTime(p.CreatedAt),
		Milestones: milestones(c, p), Progress: progress(c, p),
		Count:  c.FormatCount(p.Count),
		Volume: c.FormatMoney(p.Volume), Fees: c.FormatMoney(p.Fees), Total: c.FormatMoney(p.Total), ExternalID: p.ExternalID,
		PayDate: p.PayDate, Period: c.Documents().Period(p.Period),
		Fundable: p.FromOutside() && p.State == payroll.Pending, Cancellable: cancellable(p, c.Time),
		StatementCSV: c.URL(to + "/statement.csv"), AsPDF: c.URL(to + "/statement.pdf"),
	}
	if p.State == payroll.Received && c.Time.Before(p.ReleaseAt) {
		v.Means = c.Text("payroll.means.pay_date", p.PayDate)
	}
	if p.Escrow.Sign() > 0 {
		v.Escrow = c.FormatMoney(p.Escrow)
	}
	if !p.Rate.IsZero() {
		v.Rate = c.FormatRate(p.Rate)
	}
	if p.State == payroll.Received || p.State == payroll.Released || p.State == payroll.OnHold {
		why, err := payout.Paused(ctx, tx)
		if err != nil {
			return ui.View{}, err
		}
		v.Paused = why != ""
	}
	if v.Maker, err = maker(ctx, c, tx, p); err != nil {
		return ui.View{}, err
	}
	if p.FundingMethod == payroll.MethodDebit {
		d, err := directdebit.OfPayroll(ctx, tx, p.CompanyID, p.ID)
		if err != nil {
			return ui.View{}, err
		}
		if p.State == payroll.Pending {
			v.Means = c.Text("payroll.means.debit")
		}
		if d.ID != "" {
			v.Debit = c.LinkCell(c.Text("payroll.debit.is", d.DueOn, c.Word("debit.state", string(d.State))), debitPath(d.ID))
		}
	}
	if v.Paused && p.State == payroll.Released {
		v.Means = ""
	}
	if p.HoldReason != "" {
		v.HoldReason = c.Word("reason", p.HoldReason)
	}
	if v.Approval, err = approvalOf(ctx, c, tx, p); err != nil {
		return ui.View{}, err
	}
	if v.Warnings, err = paymentWarnings(ctx, c, tx, p, names); err != nil {
		return ui.View{}, err
	}
	if n := len(v.Warnings); n > maxPaymentWarnings {
		v.Warnings, v.MoreWarnings = v.Warnings[:maxPaymentWarnings], c.FormatCount(int64(n-maxPaymentWarnings))
	}
	page := c.PageNumber()
	chosen := chosenPayments(c, p.Payments, names)
	first := min((page-1)*paymentsPerPage, len(chosen))
	part := chosen[first:min(first+paymentsPerPage, len(chosen))]
	v.Pager = c.Pager(db.Page{Number: page, PerPage: paymentsPerPage}, int64(len(chosen)))
	if len(p.Payments) > fewPayments || c.Query("search") != "" || c.Query("state") != "" {
		state := c.Filter(ui.Field{Name: "state", Label: c.Text("payroll.status"), Type: "select",
			Options: c.Choices("payment.state", paymentStates...)})
		state.Hint = "" // that of the state of an address, whose field has the same name
		v.Filters = c.FilterBar(to, c.Filter(ui.Field{Name: "search", Label: c.Text("payroll.find"), MaxLength: 100}), state)
	}
	v.Announcement, v.Now = payrollState(c, p).Text+". "+v.Progress.Text, tx.Now().UTC().Format(time.RFC3339)
	if v.Payments, err = paymentTable(ctx, tx, c, part, names); err != nil {
		return ui.View{}, err
	}
	v.Steps = timeline(c, p, part, names)
	for _, m := range part {
		if (m.Reason == payroll.ReasonCoolDown || m.Reason == payroll.ReasonCheck) && c.Session.Administers() {
			content, err := c.Payroll.PaymentContent(ctx, tx, p, m)
			if err != nil {
				return ui.View{}, err
			}
			v.Unconfirmed = append(v.Unconfirmed, unconfirmed{to + "/payments/" + m.ID + "/confirm",
				cmp.Or(names[m.PayeeID], m.PayeeID), c.FormatMoney(m.Amount), content})
		}
	}
	for _, m := range part {
		if m.State != payroll.OnHold || m.Reason != payroll.ReasonPrice || !c.Session.Administers() {
			continue
		}
		left, err := c.Payroll.PriceDifference(ctx, tx, p, m)
		if err != nil {
			return ui.View{}, err
		}
		v.Dearer = append(v.Dearer, dearer{to + "/payments/" + m.ID, cmp.Or(names[m.PayeeID], m.PayeeID),
			c.FormatMoney(m.Receive), c.FormatMoney(left), left.String()})
	}
	for _, m := range p.Payments {
		v.Incomplete = v.Incomplete || m.State == payroll.ActionRequired || m.State == payroll.Returned
	}
	view := ui.View{Template: "payroll", Title: payrollName(c, p), State: payrollState(c, p), Lead: v.Means,
		Crumbs: payrollCrumbs(c), Data: v}
	if changes(p) {
		query := c.HTTP.URL.Query()
		query.Del("lang")
		view.LivePath = c.URL(to + "/live?" + query.Encode())
	}
	return view, nil
}

// paymentWarnings returns the payments that approvers should check. Those that are only the first to their payee are
// last.
func paymentWarnings(ctx context.Context, c *ui.Request, tx *db.Tx, p payroll.Payroll, names map[string]string) (
	[]paymentWarning, error) {
	warnings, err := c.Payroll.Warnings(ctx, tx, p)
	var all, first []paymentWarning
	for _, m := range p.Payments {
		found := warnings[m.ID]
		if len(found) == 0 {
			continue
		}
		w := paymentWarning{Path: recipientPath(m.PayeeID), Payee: cmp.Or(names[m.PayeeID], m.PayeeID),
			Amount: c.FormatMoney(m.Amount)}
		for _, one := range found {
			w.Why = append(w.Why, warningText(c, one))
		}
		if len(found) == 1 && found[0].Code == payroll.WarnFirst {
			first = append(first, w)
		} else {
			all = append(all, w)
		}
	}
	return append(all, first...), err
}

func warningText(c *ui.Request, w payroll.Warning) string {
	switch w.Code {
	case payroll.WarnDestination:
		return c.Text("warning.destination_changed", c.FormatTime(w.Since))
	case payroll.WarnAmount:
		return c.Text("warning.unusual_amount", c.FormatMoney(w.Most))
	case payroll.WarnFrequent:
		return c.Plural("warning.frequent_payments", w.Recent, c.FormatCount(w.Recent))
	case payroll.WarnAccount:
		return c.Word("warning.account", cmp.Or(string(w.Check), "missing"))
	case payroll.WarnFirst:
	}
	return c.Text("warning.first_payment")
}

// cancellable reports whether the payroll can be canceled.
func cancellable(p payroll.Payroll, now time.Time) bool {
	switch p.State {
	case payroll.Pending, payroll.ExpiredUnfunded:
		return true
	case payroll.Received:
		return !p.FromOutside() || p.FundingCurrency == p.Currency && now.Before(p.ReleaseAt)
	case payroll.OnHold:
		return p.HoldReason == payroll.ReasonApproval
	}
	return false
}

// maker returns the name of the member who created a payroll, or says that an app did.
func maker(ctx context.Context, c *ui.Request, tx *db.Tx, p payroll.Payroll) (string, error) {
	if p.CreatedBy == "" {
		return c.Text("payroll.by_app"), nil
	}
	names, err := memberNames(ctx, c, tx, p.CreatedBy)
	if err != nil {
		return "", err
	}
	return names[0], nil
}

// nameChecks returns what banks say about the names of payees, by output ID.
func nameChecks(ctx context.Context, tx *db.Tx, c *ui.Request, part []payroll.Payment) (map[string]string, error) {
	texts, of := map[string]string{}, map[string]destination.Destination{}
	var owners []string
	for _, m := range part {
		for _, o := range m.Outputs {
			if o.Rail != payout.RailBank {
				continue
			}
			var to destination.Destination
			if err := json.Unmarshal(o.Destination, &to); err != nil {
				return nil, err
			}
			of[o.ID], owners = to, append(owners, to.OwnerID)
		}
	}
	slices.Sort(owners)
	current, err := destination.ForOwners(ctx, tx, slices.Compact(owners))
	for id, to := range of {
		for _, d := range current[to.OwnerID] { // as it was at the release
			if d.ID == to.ID && d.SamePlace(to) && d.Check != nil && d.Check.Method == destination.CheckName {
				texts[id] = checkText(c, d)
			}
		}
	}
	return texts, err
}

// paymentTable lists payments with their outputs, or before their release with the destinations that they would go to.
func paymentTable(ctx context.Context, tx *db.Tx, c *ui.Request, part []payroll.Payment,
	names map[string]string) (ui.Table, error) {
	var open []string
	for _, m := range part {
		if len(m.Outputs) == 0 {
			open = append(open, m.PayeeID)
		}
	}
	slices.Sort(open)
	destinations, err := destination.ForOwners(ctx, tx, slices.Compact(open))
	if err != nil {
		return ui.Table{}, err
	}
	verified, err := nameChecks(ctx, tx, c, part)
	if err != nil {
		return ui.Table{}, err
	}
	t := ui.Table{Caption: c.Text("payroll.payments"), Empty: c.Empty("payroll.find.none"),
		Heads: c.Columns("payment.payee|a", "payment.outputs|e", "payroll.status|c", "payment.amount#|b")}
	for _, m := range part {
		who := c.LinkCell(cmp.Or(names[m.PayeeID], m.PayeeID), recipientPath(m.PayeeID))
		who.Kind = "person"
		for _, text := range []string{m.Description, m.ExternalPaymentID} {
			if text != "" {
				who.Lines = append(who.Lines, ui.Cell{Text: text})
			}
		}
		state := c.StateCell("payment.state", string(m.State))
		if m.Reason != "" {
			state.Lines = []ui.Cell{{Text: ReasonText(c, m.Reason)}}
		}
		var outs ui.Cell
		for i, o := range m.Outputs {
			shown := output(c, o)
			if text := verified[o.ID]; text != "" {
				shown.Lines = append(shown.Lines, ui.Cell{Text: text})
			}
			if i == 0 {
				outs = shown
			} else {
				outs.Lines = append(outs.Lines, shown)
			}
		}
		state.Lines = append(state.Lines, replaceLinks(c, m)...)
		if len(m.Outputs) == 0 {
			outs = planned(c, destinations[m.PayeeID])
		}
		t.Rows = append(t.Rows, []ui.Cell{who, outs, state, c.AmountCell(m.Amount)})
	}
	return t, nil
}

// replaceLinks returns links to replace the destinations for which a payment waits. A payee with an account replaces
// their own.
func replaceLinks(c *ui.Request, m payroll.Payment) (all []ui.Cell) {
	if m.State != payroll.ActionRequired && m.State != payroll.Returned || !c.Session.Manages() ||
		!strings.HasPrefix(m.PayeeID, "rec_") {
		return nil
	}
	seen := map[string]bool{}
	for _, o := range m.Outputs {
		if o.State != payout.Returned && o.State != payout.Failed || seen[o.DistributionID] {
			continue
		}
		seen[o.DistributionID] = true
		all = append(all, c.LinkCell(c.Text("payment.replace"), replacePath(recipientPath(m.PayeeID),
			o.DistributionID)))
	}
	return all
}

// planned lists the destinations that share a payment, with their parts.
func planned(c *ui.Request, all []destination.Destination) (s ui.Cell) {
	for _, d := range all {
		if !d.Used() {
			continue
		}
		line := ui.Cell{Text: c.Text("output.share", c.FormatCount(int64(d.Allocation)), DestinationName(d))}
		if d.Fixed.Sign() > 0 {
			line.Text = c.Text("output.to", c.FormatMoney(d.Fixed), DestinationName(d))
		}
		if s.Text == "" {
			s = line
		} else {
			s.Lines = append(s.Lines, line)
		}
	}
	return s
}

// output describes what a destination receives, and its state.
func output(c *ui.Request, o payout.Output) ui.Cell {
	s := ui.Cell{Text: c.Text("output.to", c.FormatMoney(o.Amount), document.DestinationHint(o)),
		Lines: []ui.Cell{{Text: c.Word("output.state", string(o.State))}}}
	if !o.Rate.IsZero() {
		s.Lines = append(s.Lines, ui.Cell{Text: c.FormatRate(o.Rate)})
	}
	if o.Reason != "" {
		s.Lines = append(s.Lines, ui.Cell{Text: ReasonText(c, o.Reason)})
	}
	if o.TxID != "" {
		s.Lines = append(s.Lines, ui.Cell{Text: o.TxID, Kind: "id", ID: "tx-" + o.ID, Copy: c.Text("copy", o.TxID),
			Copied: c.Text("copied", o.TxID)})
	}
	if o.Proof != "" {
		s.Lines = append(s.Lines, ui.Cell{Text: c.Text("output.proof")}, ui.CodeCell(o.Proof))
	}
	return s
}

// ReasonText returns the meaning of a reason. A bank's code is followed by its meaning, in English.
func ReasonText(c *ui.Request, reason string) string {
	text := c.Word("reason", reason)
	if meaning := cmp.Or(iso20022.ReasonText(reason), nacha.ReasonText(reason)); text == reason && meaning != "" {
		return reason + ": " + meaning
	}
	return text
}

// timelineStep is a state change of a payroll or one of its payments.
type timelineStep struct {
	Tone, Text, ISO, At, Why string

	at time.Time
}

// timeline lists the state changes of a payroll and of the given payments, the newest first.
func timeline(c *ui.Request, p payroll.Payroll, part []payroll.Payment, names map[string]string) (all []timelineStep) {
	who := map[string]string{p.ID: c.Text("step.payroll")}
	for _, m := range part {
		who[m.ID] = cmp.Or(names[m.PayeeID], m.PayeeID)
	}
	steps := slices.Clone(p.Timeline)
	slices.SortStableFunc(steps, func(a, b payroll.Step) int { return b.At.Compare(a.At) })
	for _, s := range steps {
		name, shown := who[s.ObjectID]
		if !shown {
			continue
		}
		prefix := "payment.state"
		if s.ObjectID == p.ID {
			prefix = "payroll.state"
		}
		state := c.StateCell(prefix, string(s.To))
		if s.From == s.To {
			state = ui.Cell{Text: c.Text("step.same"), Tone: "gray"}
		}
		step := timelineStep{Tone: state.Tone, Text: name + ": " + state.Text, ISO: ui.FormatTimestamp(s.At),
			At: c.FormatTime(s.At)}
		if s.Reason != "" {
			step.Why = ReasonText(c, s.Reason)
		}
		all = append(all, step)
	}
	return all
}

// payrollCrumbs returns the link to the list of payrolls.
func payrollCrumbs(c *ui.Request) []ui.Cell {
	return []ui.Cell{c.LinkCell(c.Text("payrolls.title"), "/payrolls")}
}

// milestones returns the steps of a payroll from its creation to the last payment. The kind of each is "done", "now",
// "wait" for someone, or "" for not reached.
func milestones(c *ui.Request, p payroll.Payroll) []ui.Cell {
	at := map[payroll.State]int{payroll.Pending: 1, payroll.Received: 2, payroll.OnHold: 2, payroll.Released: 2,
		payroll.PartiallyFulfilled: 2, payroll.Fulfilled: 4}
	now, ok := at[p.State]
	if !ok {
		return nil // canceled or expired
	}
	if p.State == payroll.OnHold && p.Escrow.Sign() == 0 && p.FromOutside() {
		now = 1
	}
	var all []ui.Cell
	for i, key := range []string{"created", "funded", "paying", "paid"} {
		s := ui.Cell{Text: c.Text("milestone." + key)}
		switch {
		case i < now:
			s.Kind = "done"
		case i == now && (p.State == payroll.Pending || p.State == payroll.OnHold || p.State == payroll.PartiallyFulfilled):
			s.Kind = "wait"
		case i == now:
			s.Kind = "now"
		}
		switch i {
		case 0:
			s.Lines = []ui.Cell{{Text: c.FormatTime(p.CreatedAt)}}
		case now:
			s.Lines = []ui.Cell{{Text: payrollState(c, p).Text}}
		}
		all = append(all, s)
	}
	return all
}

// progress returns how much of a payroll has arrived, by amount. It is empty before the payouts start.
func progress(c *ui.Request, p payroll.Payroll) ui.Progress {
	kinds := []ui.Segment{{Kind: "done", Tone: "green", Text: c.Text("progress.arrived")},
		{Kind: "move", Tone: "blue", Text: c.Text("progress.moving")},
		{Kind: "wait", Tone: "amber", Text: c.Text("progress.held")},
		{Kind: "bad", Tone: "red", Text: c.Text("progress.fix")}}
	of := map[payroll.State]int{payroll.Fulfilled: 0, payroll.Released: 1, payroll.Received: 1, payroll.OnHold: 2,
		payroll.ActionRequired: 3, payroll.Returned: 3}
	switch p.State {
	case payroll.Released, payroll.PartiallyFulfilled, payroll.Fulfilled:
	default:
		return ui.Progress{}
	}
	arrived := money.Zero(p.Volume.Asset())
	for _, m := range p.Payments {
		i, ok := of[m.State]
		if !ok {
			continue
		}
		kinds[i].Number++
		kinds[i].Units += m.Amount.Units()
		if i == 0 {
			if sum, err := arrived.Add(m.Amount); err == nil {
				arrived = sum
			}
		}
	}
	return c.NewProgress(c.Text("progress.of", c.FormatMoney(arrived), c.FormatMoney(p.Volume)), kinds)
}

// confirmDestination ends the hold of a payment to a new destination.
func confirmDestination(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	p, err := c.Payroll.ConfirmDestination(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"),
		c.HTTP.PathValue("payment"), c.Form.Get("content"))
	return ui.View{Redirect: payrollPath(p.ID)}, err
}

// payDifference pays the higher price of a payment whose received amount is fixed.
func payDifference(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	id := c.HTTP.PathValue("id")
	_, err := c.Payroll.PayDifference(ctx, tx, c.Session.Principal(), id, c.HTTP.PathValue("payment"), c.Form.Get("most"))
	return ui.View{Redirect: payrollPath(id)}, ui.FormConflict(err)
}

// takeBackPayment cancels a payment that waits for its price.
func takeBackPayment(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	id := c.HTTP.PathValue("id")
	_, err := c.Payroll.TakeBack(ctx, tx, c.Session.Principal(), id, c.HTTP.PathValue("payment"))
	return ui.View{Redirect: payrollPath(id)}, ui.FormConflict(err)
}

// cancelPayroll cancels a payroll that has not been released.
func cancelPayroll(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	p, err := c.Payroll.Cancel(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"))
	return ui.View{Redirect: payrollPath(p.ID)}, err
}
