// Package staff has the pages of the operator's staff, and the sandbox's pages that play outside parties.
package staff

import (
	"cmp"
	"context"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/screening"
	"github.com/stipend/stipend/internal/web/ui"
)

// showOperatorSignIn asks an operator for everything at once.
func showOperatorSignIn(_ context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Template: "operator_sign_in", Title: c.Text("operations.sign_in"), Data: []ui.Field{
		c.Field(ui.Field{Name: "email", Type: "email", Autocomplete: "username", Required: true, Most: 254}),
		c.Field(ui.Field{Name: "password", Type: "password", Autocomplete: "current-password", Required: true, Most: 1024}),
		c.Field(ui.Field{Name: "code", Autocomplete: "one-time-code", Required: true, Most: 10}),
	}}, nil
}

// signInOperator takes password and code together. What of it was wrong is not told.
func signInOperator(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	email, password, code := c.Form.Get("email"), c.Form.Get("password"), c.Form.Get("code")
	if email == "" || password == "" || code == "" {
		return ui.View{}, errOperator.At("body", "")
	}
	var o backoffice.Operator
	allowed := false
	if err := c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		o, allowed, err = backoffice.Attempt(ctx, tx, email, c.RemoteAddr())
		return err
	}); err != nil {
		return ui.View{}, err
	}
	if !allowed {
		return ui.View{}, ui.ErrAttempts.At("body", "")
	}
	right := false
	if err := ui.Hash(ctx, c.StaffPasswordSlots, func() (err error) {
		right, err = o.CheckPassword(password)
		return err
	}); err != nil {
		return ui.View{}, err
	}
	token := ""
	if right {
		if err := c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			token, right, err = c.Operators.SignIn(ctx, tx, o, code, c.Now(), c.RemoteAddr())
			return err
		}); err != nil {
			return ui.View{}, err
		}
	}
	if !right {
		return ui.View{}, errOperator.At("body", "")
	}
	return ui.View{Redirect: ui.StaffPath, Cookie: c.StaffCookie(token)}, nil
}

var errOperator = apierr.New(apierr.Invalid, "operator_sign_in_failed", "Something of this is wrong, or the code was used already.")

func signOutOperator(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Redirect: ui.StaffSignInPath, Cookie: c.StaffCookie("")}, backoffice.End(ctx, tx, c.StaffToken())
}

type operationsPage struct {
	Name, Why string // why payouts are paused, "" while they are not
	Asked     bool   // somebody asks that they go on
	Requests  []requestShown
	Alarms    []string // of the chains
	Queues    ui.Table
	Frozen    []identity.Company
	Limit     string
	Acts      bool
}

type requestShown struct {
	ID, What, Company, Object, Target, Reason, By, At string
	Own                                               bool
}

// showOperations is how the house stands: the switch, what others ask for, how long the queues are.
func showOperations(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	p := operationsPage{Name: c.Staff.Operator.Name, Limit: c.FormatMoney(c.Operators.ReleaseLimit()), Acts: c.Staff.Acts(c.Time)}
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
		p.Requests = append(p.Requests, requestShown{
			ID: r.ID, What: c.Word("operations.act", r.Action), Company: r.CompanyID, Object: r.ObjectID, Target: r.Target, Reason: r.Reason, By: r.Name, At: c.FormatTime(r.RequestedAt),
			Own: r.RequestedBy == c.Staff.Operator.ID,
		})
	}
	if p.Frozen, err = identity.FrozenCompanies(ctx, tx); err != nil {
		return ui.View{}, err
	}
	p.Queues = ui.Table{Caption: c.Text("operations.queues"), Heads: c.Columns("operations.queue", "operations.count#", "operations.oldest")}
	for _, name := range backoffice.Queues {
		items, err := backoffice.Queue(ctx, tx, name)
		if err != nil {
			return ui.View{}, err
		}
		count, oldest := c.FormatCount(int64(len(items))), ui.Cell{}
		if len(items) >= backoffice.MostItems {
			count = "≥ " + count
		}
		if len(items) > 0 {
			oldest = c.TimeCell(items[0].Since)
		}
		p.Queues.Rows = append(p.Queues.Rows, []ui.Cell{c.LinkCell(c.Text("operations.queue."+name), ui.StaffPath+"/queues/"+name), {Text: count, Kind: "number", Warn: len(items) > 0}, oldest})
	}
	return ui.View{Template: "operations", Title: c.Text("operations.title"), Wide: true, Data: p}, nil
}

// chainAlarms is what is wrong with the chains that are followed.
func chainAlarms(ctx context.Context, tx *db.Tx, c *ui.Request) (all []string, err error) {
	standings, err := chain.Standings(ctx, tx)
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

// pausePayouts stops all payouts.
func pausePayouts(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Redirect: ui.StaffPath}, c.Operators.Pause(ctx, tx, *c.Staff, c.Form.Get("reason"))
}

// freezeCompany stops a company.
func freezeCompany(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	err := c.Operators.Freeze(ctx, tx, *c.Staff, c.Form.Get("company_id"), c.Form.Get("reason"))
	return ui.View{Redirect: ui.StaffPath}, ui.FormConflict(err)
}

// askOperator asks another operator for something.
func askOperator(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	err := c.Operators.Ask(ctx, tx, *c.Staff, c.Form.Get("action"), c.Form.Get("company_id"), c.Form.Get("object_id"), c.Form.Get("reason"))
	return ui.View{Redirect: ui.StaffPath}, ui.FormConflict(err)
}

// answerOperator agrees to what another operator asks for, or drops it.
func answerOperator(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	err := c.Operators.Answer(ctx, tx, *c.Staff, c.HTTP.PathValue("id"), c.Form.Get("answer") == "yes", c.Form.Get("reason"))
	return ui.View{Redirect: ui.StaffPath}, ui.FormConflict(err)
}

type queuePage struct {
	Name  string
	Items ui.Table
	Do    []itemShown // those that something can be done about
	Acts  bool
}

type itemShown struct {
	Company, Object, Of, What, Reason, Amount, Since string
	Release, Hit, Transfer, Deposit, Debt            bool
}

// showQueue is one queue.
func showQueue(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	name := cmp.Or(c.HTTP.PathValue("queue"), c.Form.Get("queue"))
	items, err := backoffice.Queue(ctx, tx, name)
	if err != nil {
		return ui.View{}, err
	}
	p := queuePage{Name: name, Acts: c.Staff.Acts(c.Time), Items: ui.Table{Caption: c.Text("operations.queue." + name), Empty: c.Text("operations.empty"),
		Heads: c.Columns("operations.since", "operations.object", "operations.company", "payment.amount#", "step.why")}}
	for _, i := range items {
		why := ui.Cell{Text: c.Word("reason", i.Reason)}
		if i.State != "" {
			why.Lines = append(why.Lines, ui.Cell{Text: c.Word("output.state", i.State)})
		}
		if i.Detail != "" {
			why.Lines = append(why.Lines, ui.CodeCell(i.Detail))
		}
		object := ui.CodeCell(i.ObjectID)
		if i.OfID != "" {
			object.Lines = []ui.Cell{ui.CodeCell(i.OfID)}
		}
		amount := ui.Cell{Kind: "number"}
		if i.Amount.Asset() != "" {
			amount = c.AmountCell(i.Amount)
		}
		p.Items.Rows = append(p.Items.Rows, []ui.Cell{c.TimeCell(i.Since), object, ui.CodeCell(i.CompanyID), amount, why})
		transfer := name == backoffice.Suspense && strings.HasPrefix(i.ObjectID, "trf_")
		deposit := name == backoffice.Suspense && strings.HasPrefix(i.ObjectID, "dep_")
		debt := name == backoffice.Debts && i.Amount.Sign() > 0
		if name == backoffice.Hits || name == backoffice.Releases || transfer || deposit || debt {
			p.Do = append(p.Do, itemShown{
				Company: i.CompanyID, Object: i.ObjectID, Of: i.OfID, What: i.Detail, Reason: i.Reason, Amount: c.FormatMoney(i.Amount), Since: c.FormatTime(i.Since),
				Release: name == backoffice.Releases, Hit: name == backoffice.Hits, Transfer: transfer, Deposit: deposit, Debt: debt,
			})
		}
	}
	return ui.View{Template: "operations_queue", Title: c.Text("operations.queue." + name), Wide: true, Data: p}, nil
}

// decideHit clears or confirms what screening found.
func decideHit(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	to := screening.Cleared
	if c.Form.Get("answer") != "clear" {
		to = screening.Confirmed
	}
	err := c.Operators.DecideHit(ctx, tx, *c.Staff, c.HTTP.PathValue("id"), to, c.Form.Get("reason"))
	return ui.View{Redirect: ui.StaffPath + "/queues/" + backoffice.Hits}, ui.FormConflict(err)
}

// decideTransfer credits a transfer that nobody was found for, or has the bank send it back.
func decideTransfer(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	to := ""
	if c.Form.Get("answer") != "back" {
		if to = strings.TrimSpace(c.Form.Get("to")); to == "" {
			return ui.View{}, errNoTarget.At("body", "")
		}
	}
	err := c.Operators.DecideTransfer(ctx, tx, *c.Staff, c.HTTP.PathValue("id"), to, c.Form.Get("reason"))
	return ui.View{Redirect: ui.StaffPath + "/queues/" + backoffice.Suspense}, ui.FormConflict(err)
}

// decideDeposit credits coins that nobody expected, or sends them back.
func decideDeposit(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	to := strings.TrimSpace(c.Form.Get("to"))
	if to == "" {
		return ui.View{}, errNoTarget.At("body", "")
	}
	action := backoffice.CreditDeposit
	if c.Form.Get("answer") == "back" {
		action = backoffice.ReturnDeposit
	}
	err := c.Operators.DecideDeposit(ctx, tx, *c.Staff, action, c.Form.Get("company_id"), c.HTTP.PathValue("id"), to, c.Form.Get("reason"))
	return ui.View{Redirect: ui.StaffPath + "/queues/" + backoffice.Suspense}, ui.FormConflict(err)
}

// writeOffDebt asks another operator to agree that what a company owes is written off.
func writeOffDebt(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	err := c.Operators.AskWriteOff(ctx, tx, *c.Staff, c.Form.Get("company_id"), c.Form.Get("object_id"), c.Form.Get("amount"), c.Form.Get("reason"))
	return ui.View{Redirect: ui.StaffPath}, ui.FormConflict(err)
}

var errNoTarget = apierr.New(apierr.Invalid, "target_required", "Name whose the money is, or what it pays.")

// showPosition is the hedging report: what the house owns of each asset, and what to buy or sell.
func showPosition(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	report, err := c.Payroll.FX.Hedging(ctx, tx)
	if err != nil {
		return ui.View{}, err
	}
	waiting, err := payroll.WaitingForConversion(ctx, tx)
	if err != nil {
		return ui.View{}, err
	}
	p := struct {
		Result            string
		Unpriced          string
		Position, Waiting ui.Table
	}{
		Result: c.FormatMoney(report.Result),
		Position: ui.Table{Caption: c.Text("position.title"), Empty: c.Text("operations.empty"), Heads: c.Columns("wallet.currency", "position.at_hand#", "position.away#", "position.worth#",
			"position.least#", "position.upper#", "position.most#", "position.room#", "position.todo")},
		Waiting: ui.Table{Caption: c.Text("position.waiting"), Empty: c.Text("operations.empty"), Heads: c.Columns("operations.object", "operations.company", "operations.count#")},
	}
	maybe := func(x money.Amount) ui.Cell {
		if x.Asset() == "" {
			return ui.Cell{Text: "–", Kind: "number"}
		}
		return c.AmountCell(x)
	}
	for _, a := range report.Positions {
		least, todo := a.Least, ui.Cell{Text: "–"}
		switch {
		case !a.Bounded:
			least = money.Amount{}
		case a.Hedge.Sign() > 0:
			todo = ui.Cell{Text: c.Text("position.bring", c.FormatMoney(a.Hedge)), Warn: true}
		case a.Hedge.Sign() < 0:
			todo = ui.Cell{Text: c.Text("position.sell", c.FormatMoney(a.Hedge.Neg())), Warn: true}
		}
		p.Position.Rows = append(p.Position.Rows, []ui.Cell{{Text: string(a.Asset)}, c.AmountCell(a.AtHand), c.AmountCell(a.Away), maybe(a.Value), maybe(least), maybe(a.Upper), maybe(a.Most), maybe(a.Room), todo})
	}
	var unpriced []string
	for _, a := range report.Unpriced {
		unpriced = append(unpriced, string(a))
	}
	p.Unpriced = strings.Join(unpriced, ", ")
	for _, t := range waiting {
		p.Waiting.Rows = append(p.Waiting.Rows, []ui.Cell{ui.CodeCell(t.PayrollID), ui.CodeCell(t.CompanyID), {Text: c.FormatCount(t.Payments), Kind: "number"}})
	}
	return ui.View{Template: "position", Title: c.Text("position.title"), Wide: true, Data: p}, nil
}

type jobsPage struct {
	Table ui.Table
	IDs   []string
}

// showJobs lists the dead jobs.
func showJobs(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	dead, err := job.ListDead(ctx, tx, backoffice.MostItems)
	if err != nil {
		return ui.View{}, err
	}
	p := jobsPage{Table: ui.Table{Caption: c.Text("operations.jobs"), Empty: c.Text("operations.empty"),
		Heads: c.Columns("operations.since", "operations.object", "operations.company", "operations.jobs.attempts#", "step.why")}}
	for _, j := range dead {
		id := ui.CodeCell(j.ID)
		id.Lines = []ui.Cell{ui.CodeCell(j.Kind)}
		p.Table.Rows = append(p.Table.Rows, []ui.Cell{c.TimeCell(j.Since), id, ui.CodeCell(j.CompanyID), {Text: c.FormatCount(int64(j.Attempt)), Kind: "number"}, {Text: j.LastError}})
		p.IDs = append(p.IDs, j.ID)
	}
	return ui.View{Template: "operations_jobs", Title: c.Text("operations.jobs"), Wide: true, Data: p}, nil
}

// retryJob retries a dead job.
func retryJob(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	err := c.Operators.RetryJob(ctx, tx, *c.Staff, c.HTTP.PathValue("id"), c.Form.Get("reason"))
	return ui.View{Redirect: ui.StaffJobsPath}, ui.FormConflict(err)
}

// showActs is what operators did.
func showActs(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	all, total, err := backoffice.Acts(ctx, tx, c.PageNumber(), ui.PerPage)
	if err != nil {
		return ui.View{}, err
	}
	t := ui.Table{Caption: c.Text("operations.acts"), Empty: c.Text("operations.empty"), Heads: c.Columns("step.at", "operations.who", "step.what", "operations.object", "step.why")}
	for _, a := range all {
		who := ui.Cell{Text: cmp.Or(a.Name, c.Text("operations.machine"))}
		object := ui.CodeCell(a.ObjectID)
		if a.CompanyID != "" {
			object.Lines = []ui.Cell{ui.CodeCell(a.CompanyID)}
		}
		t.Rows = append(t.Rows, []ui.Cell{c.TimeCell(a.At), who, {Text: c.Word("operations.act", a.Action)}, object, {Text: a.Reason}})
	}
	return ui.View{Template: "operations_acts", Title: c.Text("operations.acts"), Wide: true, Data: struct {
		Table ui.Table
		Pager ui.Pager
	}{t, c.Pager(c.PageNumber(), ui.PerPage, total)}}, nil
}

// showReconciliation is what the last comparisons of the books with the world found.
func showReconciliation(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	all, err := backoffice.Reports(ctx, tx, ui.PerPage)
	if err != nil {
		return ui.View{}, err
	}
	p := struct{ Differences, Reports, Rest ui.Table }{
		Differences: ui.Table{Caption: c.Text("reconciliation.differences"), Empty: c.Text("reconciliation.clean"), Heads: c.Columns("step.what", "operations.object", "reconciliation.books", "reconciliation.world")},
		Reports:     ui.Table{Caption: c.Text("reconciliation.reports"), Empty: c.Text("operations.empty"), Heads: c.Columns("step.at", "reconciliation.height#", "reconciliation.coins#", "reconciliation.total#", "reconciliation.count#")},
		Rest:        ui.Table{Caption: c.Text("reconciliation.rest"), Empty: c.Text("operations.empty"), Heads: c.Columns("operations.object")},
	}
	for i, r := range all {
		p.Reports.Rows = append(p.Reports.Rows, []ui.Cell{c.TimeCell(r.At), {Text: c.FormatCount(r.Height), Kind: "number"}, {Text: c.FormatCount(r.Coins), Kind: "number"}, {Text: r.Total, Kind: "number"},
			{Text: c.FormatCount(int64(len(r.Differences))), Kind: "number", Warn: !r.Clean()}})
		if i > 0 {
			continue
		}
		for _, d := range r.Differences {
			p.Differences.Rows = append(p.Differences.Rows, []ui.Cell{{Text: c.Word("reconciliation", d.Kind), Warn: true}, ui.CodeCell(d.Object), {Text: d.Books}, {Text: d.World}})
		}
		for _, text := range r.NotCompared {
			p.Rest.Rows = append(p.Rest.Rows, []ui.Cell{{Text: text}})
		}
	}
	if len(all) == 0 {
		p.Differences.Empty = c.Text("reconciliation.never")
	}
	return ui.View{Template: "reconciliation", Title: c.Text("reconciliation.title"), Wide: true, Data: p}, nil
}
