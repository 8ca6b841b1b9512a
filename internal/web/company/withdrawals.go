package company

import (
	"cmp"
	"context"
	"errors"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/web/ui"
	"github.com/stipend/stipend/internal/withdrawal"
)

const (
	withdrawalsPath  = "/wallets/withdrawals"
	destinationsPath = "/wallets/destinations"
)

func withdrawalPath(id string) string { return withdrawalsPath + "/" + id }

type withdrawalsPage struct {
	List         ui.Table
	Fields       []ui.Field // for a new withdrawal; empty if not possible
	Changes      bool
	Destinations []destinationRow
}

type destinationRow struct {
	ID, Hint, Ready string
	Cooling         bool
	Wallet          string // page about who hosts the wallet, or ""
}

// showWithdrawals lists the withdrawals and destinations, and renders the form for a new withdrawal.
func showWithdrawals(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	by := c.Session.Principal()
	all, total, err := withdrawal.List(ctx, tx, by, "", c.Page())
	if err != nil {
		return ui.View{}, err
	}
	p := withdrawalsPage{Changes: c.Session.Administers(),
		List: ui.Table{
			Caption: c.Text("withdrawals.title"), Pager: c.Pager(c.Page(), total), Empty: c.Empty("withdrawals.none"),
			Heads: c.Columns("withdrawal.to|a", "payroll.status|c", "step.at#|d", "payment.amount#|b"),
		}}
	for _, w := range all {
		p.List.Rows = append(p.List.Rows, []ui.Cell{c.LinkCell(w.Destination.Hint(), withdrawalPath(w.ID)),
			withdrawalState(c, w), c.TimeCell(w.CreatedAt), c.AmountCell(w.Amount)})
	}
	to, err := withdrawal.Destinations(ctx, tx, by, "")
	if err != nil {
		return ui.View{}, err
	}
	var options []ui.Option
	for _, d := range to {
		shown := destinationRow{ID: d.ID, Hint: d.Hint(), Ready: c.FormatTime(d.ReadyAt),
			Cooling: tx.Now().Before(d.ReadyAt)}
		if asksHosting(c, d.To) {
			shown.Wallet = hostingPath("/wallets", d.ID)
		}
		p.Destinations = append(p.Destinations, shown)
		if !shown.Cooling {
			options = append(options, ui.Option{Value: d.ID, Label: d.Hint()})
		}
	}
	if p.Changes && len(options) > 0 {
		c.Labels = withLabel(c.Labels, "amount", c.Text("payment.amount"))
		c.Labels = withLabel(c.Labels, "destination_id", c.Text("withdrawal.to"))
		p.Fields = []ui.Field{
			c.Field(ui.Field{Name: "destination_id", Label: c.Text("withdrawal.to"), Type: "select", Options: options}),
			c.Field(ui.Field{Name: "amount", Label: c.Text("payment.amount"), Required: true, MaxLength: 40}),
		}
	}
	return ui.View{Template: "withdrawals", Title: c.Text("withdrawals.title"), Data: p}, nil
}

func withdrawalState(c *ui.Request, w withdrawal.Withdrawal) ui.Cell {
	state := c.StateCell("withdrawal.state", string(w.State))
	if w.Reason != "" {
		state.Lines = []ui.Cell{{Text: c.Word("reason", w.Reason)}}
	}
	return state
}

// postedWithdrawal returns the withdrawal in the posted form.
func postedWithdrawal(c *ui.Request) withdrawal.Params {
	return withdrawal.Params{DestinationID: c.Form.Get("destination_id"), AmountText: c.Form.Get("amount"),
		Key: c.Form.Get("key")}
}

type withdrawalCheck struct {
	Amount, To, Left, Plain, Destination, Key string
	Approval                                  bool
}

// checkWithdrawal shows a withdrawal for confirmation. It reads the amount as the user wrote it; the form that confirms
// the withdrawal has the amount as a plain decimal.
func checkWithdrawal(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	p := postedWithdrawal(c)
	to, err := withdrawal.DestinationOf(ctx, tx, c.Session.Company.ID, p.DestinationID)
	if err != nil && !errors.Is(err, apierr.NotFoundErr) {
		return ui.View{}, err
	}
	p.AmountText = c.PlainAmount(p.AmountText, to.To.Symbol)
	w, err := c.Withdrawals.Check(ctx, tx, c.Session.Principal(), p)
	if err != nil {
		return ui.View{}, ui.FormConflict(err)
	}
	balance, err := ledger.Balance(ctx, tx, w.CompanyID, ledger.CompanyFunds, "", w.Amount.Asset())
	if err != nil {
		return ui.View{}, err
	}
	left, err := balance.Sub(w.Amount)
	if err != nil {
		return ui.View{}, err
	}
	return ui.View{Template: "withdrawal_check", Title: c.Text("withdrawal.check"), Data: withdrawalCheck{
		Amount: c.FormatMoney(w.Amount), To: w.Destination.Hint(), Left: c.FormatMoney(left), Plain: w.Amount.String(),
		Destination: w.Destination.ID,
		Key:         cmp.Or(c.Form.Get("key"), c.ID), Approval: w.Approval.Needed > 0,
	}}, nil
}

// createWithdrawal creates the confirmed withdrawal. Posting the form twice creates one.
func createWithdrawal(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	p := postedWithdrawal(c)
	if p.Key == "" || len(p.Key) > 64 {
		return ui.View{}, ui.ErrForm
	}
	w, err := c.Withdrawals.Create(ctx, tx, c.Session.Principal(), p)
	return ui.View{Redirect: withdrawalPath(w.ID)}, ui.FormConflict(err)
}

type withdrawalPage struct {
	Path, ID, Amount, To, TxHash, Created, By string
	Approval                                  approvalStatus
	Cancellable                               bool
	Steps                                     ui.Table
}

// showWithdrawal renders a withdrawal with its history.
func showWithdrawal(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	w, err := withdrawal.Get(ctx, tx, c.Session.Principal(), "", c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	p := withdrawalPage{
		Path: withdrawalPath(w.ID), ID: w.ID, Amount: c.FormatMoney(w.Amount), To: w.Destination.Hint(), TxHash: w.TxHash,
		Created: c.FormatTime(w.CreatedAt),
	}
	names, err := memberNames(ctx, c, tx, append([]string{w.CreatedBy}, w.Approval.By...)...)
	if err != nil {
		return ui.View{}, err
	}
	p.By = cmp.Or(names[0], c.Text("withdrawal.program"))
	administers := c.Session.Administers()
	switch w.State {
	case withdrawal.AwaitingApproval:
		p.Approval = approvalStatus{Status: c.Text("approval.status", c.FormatCount(int64(len(w.Approval.By))),
			c.FormatCount(w.Approval.Needed)), Names: names[1:], Waits: true, Decides: administers}
		if err := p.Approval.mayApprove(ctx, c, tx, w.CreatedBy, w.Approval.By); err != nil {
			return ui.View{}, err
		}
		p.Cancellable = administers
	case withdrawal.Pending, withdrawal.OnHold:
		p.Cancellable = administers
	}
	changes, err := db.Changes(ctx, tx, w.CompanyID, w.ID)
	if err != nil {
		return ui.View{}, err
	}
	p.Steps = ui.Table{Caption: c.Text("payroll.timeline"), Heads: c.Columns("step.at", "step.to")}
	for _, h := range changes {
		p.Steps.Rows = append(p.Steps.Rows, []ui.Cell{c.TimeCell(db.Time(h.At)), {Text: c.Word("withdrawal.state", h.To)}})
	}
	return ui.View{Template: "withdrawal", Title: c.Text("withdrawal.title", w.ID), Data: p}, nil
}

// approveWithdrawal records the user's approval of a withdrawal.
func approveWithdrawal(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	id := c.HTTP.PathValue("id")
	_, err := c.Withdrawals.Approve(ctx, tx, c.Session.Principal(), id)
	return ui.View{Redirect: withdrawalPath(id)}, err
}

// declineWithdrawal declines and cancels a withdrawal that needs approval.
func declineWithdrawal(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	id := c.HTTP.PathValue("id")
	_, err := c.Withdrawals.Decline(ctx, tx, c.Session.Principal(), id)
	return ui.View{Redirect: withdrawalPath(id)}, err
}

// cancelWithdrawal cancels a withdrawal that has not been sent.
func cancelWithdrawal(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	id := c.HTTP.PathValue("id")
	_, err := c.Withdrawals.Cancel(ctx, tx, c.Session.Principal(), "", id)
	return ui.View{Redirect: withdrawalPath(id)}, err
}

// showNewOwnDestination renders the form for a destination of the company's withdrawals.
func showNewOwnDestination(_ context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	p := destinationPage{Path: "/wallets", Back: withdrawalsPath, Name: c.Text("withdrawals.title"),
		Symbol: formOrQuery(c, "symbol"), Rail: formOrQuery(c, dataPrefix+railKey)}
	v, err := askDestination(c, p, c.Text("withdrawal.destination.new"), c.Session.Company.Country,
		func(symbol string) (destination.Requirement, error) {
			return c.Withdrawals.Setup.RequiredByCompany(symbol, c.Session.Company.Country)
		})
	if p, ok := v.Data.(destinationPage); ok && p.Asks {
		p.Fields = append([]ui.Field{c.Field(ui.Field{Name: "label", Label: c.Text("withdrawal.label"), MaxLength: 40})},
			p.Fields...)
		c.Labels = withLabel(c.Labels, "label", c.Text("withdrawal.label"))
		v.Data = p
	}
	return v, err
}

// createOwnDestination adds a destination for the company's withdrawals.
func createOwnDestination(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	data, err := destinationData(c)
	if err != nil {
		return ui.View{}, err
	}
	_, err = c.Withdrawals.AddDestination(ctx, tx, c.Session.Principal(), c.Form.Get("label"), c.Form.Get("symbol"), data)
	return ui.View{Redirect: withdrawalsPath}, destinationFormError(err)
}

// removeOwnDestination removes a destination of the company's withdrawals.
func removeOwnDestination(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Redirect: withdrawalsPath}, c.Withdrawals.RemoveDestination(
		ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"))
}
