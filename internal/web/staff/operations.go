// Package staff serves the pages of the operator's staff, and the sandbox pages that stand in for a mailbox and for
// the verification provider.
package staff

import (
	"context"

	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/web/ui"
)

type operationsPage struct {
	Name, Role, Why string // Why is the reason for the pause of payouts, "" if they are not paused
	Asked           bool   // a request to resume payouts is open
	Requests        []requestRow
	Alarms          []string  // of chains
	Figures         []ui.Cell // labels in Text and values in ID
	Queues          ui.Table
	Frozen          []identity.Company
	Limit           string
	// the sign-in is recent enough to act
	Acts bool
}

type requestRow struct {
	ID, What, Company, Object, Target, Reason, By, At string
	Own, May                                          bool // whose request it is, and whether the reader's role permits it
}

// showOperations renders the start page of staff: payouts, open requests, frozen companies and the sizes of the
// queues.
func showOperations(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	p := operationsPage{Name: c.Staff.Member.Name, Role: c.Word("operations.role", string(c.Staff.Member.Role)),
		Limit: c.FormatMoney(c.Backoffice.ReleaseLimit()), Acts: c.Staff.MayAct(c.Time)}
	var err error
	if p.Why, err = payout.Paused(ctx, tx); err != nil {
		return ui.View{}, err
	}
	if p.Alarms, err = chainAlarms(ctx, tx, c); err != nil {
		return ui.View{}, err
	}
	open, err := backoffice.Requests(ctx, tx)
	if err != nil {
		return ui.View{}, err
	}
	for _, r := range open {
		p.Asked = p.Asked || r.Action == backoffice.Resume
		p.Requests = append(p.Requests, requestRow{
			ID: r.ID, What: c.Word("operations.act", r.Action), Company: r.CompanyID, Object: r.ObjectID, Target: r.Target,
			Reason: r.Reason, By: r.Name, At: c.FormatTime(r.RequestedAt),
			Own: r.RequestedBy == c.Staff.Member.ID, May: c.Staff.Member.May(r.Action),
		})
	}
	if p.Frozen, err = identity.FrozenCompanies(ctx, tx); err != nil {
		return ui.View{}, err
	}
	p.Queues = ui.Table{Caption: c.Text("operations.queues"),
		Heads: c.Columns("operations.queue|a", "operations.count#|b", "operations.oldest|c",
			"operations.worth#|d")}
	waiting, sum := 0, money.Zero(money.USD)
	for _, name := range backoffice.Queues {
		if !c.Staff.Member.MayRead(name) {
			continue
		}
		items, err := backoffice.Queue(ctx, tx, name)
		if err != nil {
			return ui.View{}, err
		}
		total, err := sortItems(ctx, tx, c, items)
		if err != nil {
			return ui.View{}, err
		}
		count, oldest, worth := countOf(c, items), ui.Cell{}, ui.Cell{Kind: "number"}
		if len(items) > 0 {
			oldest = c.TimeCell(items[0].Since)
		}
		if total.Sign() != 0 {
			worth = c.AmountCell(total)
		}
		waiting += len(items)
		if sum, err = sum.Add(total); err != nil {
			return ui.View{}, err
		}
		p.Queues.Rows = append(p.Queues.Rows, []ui.Cell{
			c.LinkCell(c.Text("operations.queue."+name), ui.StaffPath+"/queues/"+name),
			{Text: count, Kind: "number", Warn: len(items) > 0}, oldest, worth})
	}
	p.Figures = []ui.Cell{
		{Text: c.Text("operations.count"), ID: c.FormatCount(int64(waiting)), Warn: waiting > 0},
		{Text: c.Text("operations.worth"), ID: c.FormatNumber(sum.String())},
		{Text: c.Text("operations.requests"), ID: c.FormatCount(int64(len(p.Requests)))},
		{Text: c.Text("operations.frozen"), ID: c.FormatCount(int64(len(p.Frozen)))},
	}
	return ui.View{Template: "operations", Title: c.Text("operations.title"), Data: p}, nil
}

// chainAlarms describes the alarms of the watched chains.
func chainAlarms(ctx context.Context, tx *db.Tx, c *ui.Request) (all []string, err error) {
	standings, err := chain.LoadHealth(ctx, tx)
	if err != nil {
		return nil, err
	}
	followed := []string{c.Payroll.ChainName}
	for _, n := range c.Payroll.Accounts.Networks {
		followed = append(followed, n.Name)
	}
	for _, name := range followed {
		for _, a := range standings[name].Alarms {
			all = append(all, c.Text("operations.chain."+string(a), name))
		}
	}
	return all, nil
}

// pausePayouts pauses all payouts.
func pausePayouts(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Redirect: ui.StaffPath}, c.Backoffice.Pause(ctx, tx, *c.Staff, c.Form.Get("reason"))
}

// freezeCompany freezes a company, so that it can change nothing and none of its payouts are sent.
func freezeCompany(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	err := c.Backoffice.Freeze(ctx, tx, *c.Staff, c.Form.Get("company_id"), c.Form.Get("reason"))
	return ui.View{Redirect: ui.StaffPath}, ui.FormConflict(err)
}

// createRequest creates a request that a second staff member must approve.
func createRequest(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	err := c.Backoffice.RequestAction(ctx, tx, *c.Staff, c.Form.Get("action"), c.Form.Get("company_id"),
		c.Form.Get("object_id"), c.Form.Get("reason"))
	return ui.View{Redirect: ui.StaffPath}, ui.FormConflict(err)
}

// answerRequest approves or drops a request of another staff member.
func answerRequest(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	err := c.Backoffice.Answer(ctx, tx, *c.Staff, c.HTTP.PathValue("id"), c.Form.Get("answer") == "yes",
		c.Form.Get("reason"))
	return ui.View{Redirect: ui.StaffPath}, ui.FormConflict(err)
}
