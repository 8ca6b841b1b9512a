package web

import (
	"cmp"
	"context"
	"slices"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/withdrawal"
)

const (
	withdrawalsPath  = "/wallets/withdrawals"
	destinationsPath = "/wallets/destinations"
)

func withdrawalPath(id string) string { return withdrawalsPath + "/" + id }

type withdrawalsPage struct {
	List         table
	Pager        pager
	Fields       []field // of a new one, none where it cannot be asked for
	Changes      bool
	Destinations []destinationShown
}

type destinationShown struct {
	ID, Hint, Ready string
	Cooling         bool
}

// showWithdrawals is what the company has taken out, where it can take money to, and the form for more.
func showWithdrawals(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	by := c.session.Principal()
	all, total, err := withdrawal.List(ctx, tx, by, "", c.page(), perPage)
	if err != nil {
		return view{}, err
	}
	p := withdrawalsPage{Changes: c.session.Administers(), Pager: c.pager(c.page(), perPage, total), List: table{
		Caption: c.text("withdrawals.title"), Empty: c.text("withdrawals.none"), Heads: c.heads("step.at", "payment.amount#", "withdrawal.to", "payroll.status"),
	}}
	for _, w := range all {
		at := c.at(w.CreatedAt)
		at.Lines = []cell{c.link(w.ID, withdrawalPath(w.ID))}
		p.List.Rows = append(p.List.Rows, []cell{at, c.amount(w.Amount), {Text: w.Destination.Hint()}, c.withdrawalState(w)})
	}
	to, err := withdrawal.Destinations(ctx, tx, by, "")
	if err != nil {
		return view{}, err
	}
	var options []option
	for _, d := range to {
		shown := destinationShown{ID: d.ID, Hint: d.Hint(), Ready: c.instant(d.ReadyAt), Cooling: tx.Now().Before(d.ReadyAt)}
		p.Destinations = append(p.Destinations, shown)
		if !shown.Cooling {
			options = append(options, option{Value: d.ID, Label: d.Hint()})
		}
	}
	if p.Changes && len(options) > 0 {
		c.labels = merged(c.labels, "amount", c.text("payment.amount"))
		c.labels = merged(c.labels, "destination_id", c.text("withdrawal.to"))
		p.Fields = []field{
			c.field(field{Name: "destination_id", Label: c.text("withdrawal.to"), Type: "select", Options: options}),
			c.field(field{Name: "amount", Label: c.text("payment.amount"), Required: true, Most: 40}),
		}
	}
	return view{page: "withdrawals", title: c.text("withdrawals.title"), wide: true, data: p}, nil
}

func (c *call) withdrawalState(w withdrawal.Withdrawal) cell {
	state := cell{Text: c.word("withdrawal.state", string(w.State))}
	if w.Reason != "" {
		state.Lines = []cell{{Text: c.word("reason", w.Reason)}}
	}
	return state
}

// wanted is the withdrawal that a form asks for.
func (c *call) wanted() withdrawal.Params {
	return withdrawal.Params{DestinationID: c.form.Get("destination_id"), AmountText: c.form.Get("amount"), Key: c.form.Get("key")}
}

type withdrawalCheck struct {
	Amount, To, Left, Plain, Destination, Key string
	Approval                                  bool
}

// checkWithdrawal shows once more what would leave, before it does.
func checkWithdrawal(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	w, err := c.Withdrawals.Check(ctx, tx, c.session.Principal(), c.wanted())
	if err != nil {
		return view{}, atForm(err)
	}
	balance, err := ledger.Balance(ctx, tx, w.CompanyID, ledger.CompanyFunds, "", w.Amount.Asset())
	if err != nil {
		return view{}, err
	}
	left, err := balance.Sub(w.Amount)
	if err != nil {
		return view{}, err
	}
	return view{page: "withdrawal_check", title: c.text("withdrawal.check"), data: withdrawalCheck{
		Amount: c.money(w.Amount), To: w.Destination.Hint(), Left: c.money(left), Plain: c.form.Get("amount"), Destination: w.Destination.ID,
		Key: cmp.Or(c.form.Get("key"), c.id), Approval: w.Approval.Needed > 0,
	}}, nil
}

// createWithdrawal takes money out. Sent twice, it is the same withdrawal.
func createWithdrawal(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	p := c.wanted()
	if p.Key == "" || len(p.Key) > 64 {
		return view{}, errForm
	}
	w, err := c.Withdrawals.Create(ctx, tx, c.session.Principal(), p)
	return view{redirect: withdrawalPath(w.ID)}, atForm(err)
}

// atForm has a refusal that names no field stand above its form.
func atForm(err error) error {
	if f, ok := apierr.As(err); ok && len(f.Fields) == 0 && (f.Kind == apierr.Conflict || f.Kind == apierr.Invalid) {
		return f.At("body", "")
	}
	return err
}

type withdrawalShown struct {
	Path, ID, Amount, To, TxHash, Created, By string
	State                                     cell
	Approval                                  approvalShown
	Cancellable                               bool
	Steps                                     table
}

// showWithdrawal is one withdrawal and what became of it.
func showWithdrawal(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	w, err := withdrawal.Get(ctx, tx, c.session.Principal(), "", c.r.PathValue("id"))
	if err != nil {
		return view{}, err
	}
	p := withdrawalShown{
		Path: withdrawalPath(w.ID), ID: w.ID, Amount: c.money(w.Amount), To: w.Destination.Hint(), TxHash: w.TxHash, Created: c.instant(w.CreatedAt),
		State: c.withdrawalState(w),
	}
	names, err := c.memberNames(ctx, tx, append([]string{w.CreatedBy}, w.Approval.By...)...)
	if err != nil {
		return view{}, err
	}
	p.By = cmp.Or(names[0], c.text("withdrawal.program"))
	administers := c.session.Administers()
	switch w.State {
	case withdrawal.AwaitingApproval:
		me := c.session.User.ID
		p.Approval = approvalShown{Status: c.text("approval.status", c.count(int64(len(w.Approval.By))), c.count(w.Approval.Needed)), Names: names[1:], Waits: true, Decides: administers}
		p.Approval.Approves = administers && w.CreatedBy != me && !slices.Contains(w.Approval.By, me)
		p.Cancellable = administers
	case withdrawal.Pending, withdrawal.OnHold:
		p.Cancellable = administers
	}
	changes, err := db.Changes(ctx, tx, w.CompanyID, w.ID)
	if err != nil {
		return view{}, err
	}
	p.Steps = table{Caption: c.text("payroll.timeline"), Heads: c.heads("step.at", "step.to")}
	for _, h := range changes {
		p.Steps.Rows = append(p.Steps.Rows, []cell{c.at(db.Time(h.At)), {Text: c.word("withdrawal.state", h.To)}})
	}
	return view{page: "withdrawal", title: c.text("withdrawal.title", w.ID), wide: true, data: p}, nil
}

// approveWithdrawal is the reader's word that a withdrawal may go.
func approveWithdrawal(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	id := c.r.PathValue("id")
	_, err := c.Withdrawals.Approve(ctx, tx, c.session.Principal(), id)
	return view{redirect: withdrawalPath(id)}, err
}

// declineWithdrawal ends a withdrawal that waits for an approval.
func declineWithdrawal(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	id := c.r.PathValue("id")
	_, err := c.Withdrawals.Decline(ctx, tx, c.session.Principal(), id)
	return view{redirect: withdrawalPath(id)}, err
}

// cancelWithdrawal ends a withdrawal that has not gone.
func cancelWithdrawal(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	id := c.r.PathValue("id")
	_, err := c.Withdrawals.Cancel(ctx, tx, c.session.Principal(), "", id)
	return view{redirect: withdrawalPath(id)}, err
}

// showNewOwnDestination asks where the company takes its money to.
func showNewOwnDestination(_ context.Context, _ *db.Tx, c *call) (view, error) {
	p := destinationPage{Path: "/wallets", Back: withdrawalsPath, Name: c.text("withdrawals.title"), Symbol: c.chosen("symbol"), Rail: c.chosen(dataPrefix + railKey)}
	v, err := c.askDestination(p, c.text("withdrawal.destination.new"), c.session.Company.Country, func(symbol string) (destination.Requirement, error) {
		return c.Withdrawals.Setup.RequiredIn(symbol, c.session.Company.Country)
	})
	if p, ok := v.data.(destinationPage); ok && p.Asks {
		p.Fields = append([]field{c.field(field{Name: "label", Label: c.text("withdrawal.label"), Most: 40})}, p.Fields...)
		c.labels = merged(c.labels, "label", c.text("withdrawal.label"))
		v.data = p
	}
	return v, err
}

// createOwnDestination adds a destination of the company's own.
func createOwnDestination(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	data, err := c.destinationData()
	if err != nil {
		return view{}, err
	}
	_, err = c.Withdrawals.AddDestination(ctx, tx, c.session.Principal(), c.form.Get("label"), c.form.Get("symbol"), data)
	return view{redirect: withdrawalsPath}, atDestination(err)
}

// removeOwnDestination takes one out of use.
func removeOwnDestination(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	return view{redirect: withdrawalsPath}, c.Withdrawals.RemoveDestination(ctx, tx, c.session.Principal(), c.r.PathValue("id"))
}
