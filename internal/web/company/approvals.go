package company

import (
	"cmp"
	"context"
	"slices"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/web/ui"
	"github.com/stipend/stipend/internal/withdrawal"
)

const approvalsPath = "/settings/approvals"

var errLimit = apierr.New(apierr.Invalid, "invalid_parameter",
	"Enter an amount of zero or more, such as 5000.00.")

// maxWaiting is the maximum number of each kind of payment on the page of approvals.
const maxWaiting = 50

type approvalsPage struct {
	Waiting  []ui.Task
	Limit    string // "" if there is none
	Changes  bool   // the user may change the limit
	Proposal limitProposal
	Fields   []ui.Field
}

// limitProposal is a proposed change of the limit, with an empty ID if there is none. An empty Limit proposes to
// remove it.
type limitProposal struct {
	ID, Limit, By string
	Own           bool
}

// showApprovals renders the approval limit and a proposed change.
func showApprovals(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	limit, err := approval.LimitOf(ctx, tx, c.Session.Principal())
	if err != nil {
		return ui.View{}, err
	}
	p := approvalsPage{Limit: c.FormatMoney(limit.Amount), Changes: c.Session.Administers()}
	if p.Waiting, err = awaitingApproval(ctx, c, tx); err != nil {
		return ui.View{}, err
	}
	if asked := limit.Proposal; asked.ID != "" {
		names, err := memberNames(ctx, c, tx, asked.By)
		if err != nil {
			return ui.View{}, err
		}
		p.Proposal = limitProposal{ID: asked.ID, Limit: c.FormatMoney(asked.Amount), By: names[0],
			Own: asked.By == c.Session.User.ID}
	}
	if p.Changes {
		amount, currency := ui.Field{Name: "limit", Required: true, MaxLength: 30},
			ui.Field{Name: "limit_currency", Type: "select"}
		currency.Value = cmp.Or(string(limit.Amount.Asset()), string(money.USD))
		for _, a := range money.All() {
			if !a.IsCrypto() {
				currency.Options = append(currency.Options, ui.Option{Value: string(a), Label: string(a)})
			}
		}
		p.Fields = []ui.Field{c.Field(amount), c.Field(currency)}
	}
	return ui.View{Template: "approvals", Title: c.Text("approvals.title"), Data: p}, nil
}

// awaitingApproval returns the payrolls, withdrawals and refunds that wait for an approval, and proposals.
func awaitingApproval(ctx context.Context, c *ui.Request, tx *db.Tx) (all []ui.Task, err error) {
	payrolls, _, err := c.Payroll.List(ctx, tx, c.Session.Principal(), "",
		payroll.Filter{Status: payroll.OnHold, Page: db.Page{PerPage: maxWaiting}})
	if err != nil {
		return nil, err
	}
	for _, p := range payrolls {
		if p.HoldReason == payroll.ReasonApproval {
			all = append(all, c.Task("violet", "send", c.Text("approvals.payroll", payrollName(c, p), c.FormatMoney(p.Total)),
				"attention.review", payrollPath(p.ID)))
		}
	}
	withdrawals, err := withdrawalTasks(ctx, c, tx, maxWaiting)
	if err != nil {
		return nil, err
	}
	refunds, err := refundTasks(ctx, c, tx, maxWaiting)
	if err != nil {
		return nil, err
	}
	proposals, err := proposalTasks(ctx, c, tx, maxWaiting)
	return slices.Concat(all, withdrawals, refunds, proposals), err
}

// withdrawalTasks returns the withdrawals that wait for an approval.
func withdrawalTasks(ctx context.Context, c *ui.Request, tx *db.Tx, most int) (all []ui.Task, err error) {
	waiting, err := withdrawal.ListAwaitingApproval(ctx, tx, c.Session.Company.ID, most)
	for _, w := range waiting {
		all = append(all, c.Task("violet", "arrow-up-right", c.Text("attention.withdrawal", c.FormatMoney(w.Amount)),
			"attention.review", withdrawalsPath+"/"+w.ID))
	}
	return all, err
}

// memberNames returns the names of members in the order of their IDs. For a former member it returns the ID.
func memberNames(ctx context.Context, c *ui.Request, tx *db.Tx, ids ...string) ([]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	members, err := auth.Members(ctx, tx, c.Session.Company.ID)
	names := slices.Clone(ids)
	for i, id := range ids {
		if at := slices.IndexFunc(members, func(m auth.Member) bool { return m.UserID == id }); at >= 0 {
			names[i] = cmp.Or(members[at].Name, members[at].Email)
		}
	}
	return names, err
}

// setLimit changes the limit, or proposes a change that a second member must approve.
func setLimit(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	currency := money.Asset(c.Form.Get("limit_currency"))
	if !slices.Contains(money.All(), currency) || currency.IsCrypto() {
		return ui.View{}, errLimit.At("body", "/limit_currency")
	}
	amount, err := money.Parse(currency, c.PlainAmount(c.Form.Get("limit"), currency))
	if err != nil {
		return ui.View{}, errLimit.At("body", "/limit")
	}
	return ui.View{Redirect: approvalsPath}, approval.SetLimit(ctx, tx, c.Session.Principal(), amount)
}

// removeLimit proposes to remove the limit.
func removeLimit(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Redirect: approvalsPath}, approval.SetLimit(ctx, tx, c.Session.Principal(), money.Amount{})
}

// answerLimit approves or discards a proposed change.
func answerLimit(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Redirect: approvalsPath},
		approval.AnswerLimit(ctx, tx, c.Session.Principal(), c.Form.Get("proposal"), c.Form.Get("answer") == "yes")
}

// approvalStatus is the approval status of a payroll or withdrawal.
type approvalStatus struct {
	Status   string // "" if none is required
	Names    []string
	Waits    bool
	Decides  bool   // the user may decline
	Approves bool   // whether the user may approve these items, and not only view them
	New      bool   // whether the user cannot approve them only because their role is new
	Content  string // digest of what the user sees and approves; only of payrolls
}

func approvalOf(ctx context.Context, c *ui.Request, tx *db.Tx, p payroll.Payroll) (v approvalStatus, err error) {
	if p.Approval.Needed == 0 {
		return v, nil
	}
	v.Status = c.Text("approval.status", c.FormatCount(int64(len(p.Approval.By))), c.FormatCount(p.Approval.Needed))
	v.Waits = p.State == payroll.OnHold && p.HoldReason == payroll.ReasonApproval
	v.Decides = v.Waits && c.Session.Administers()
	if err := v.mayApprove(ctx, c, tx, p.CreatedBy, p.Approval.By); err != nil {
		return v, err
	}
	if v.Approves {
		if v.Content, err = c.Payroll.Content(ctx, tx, p); err != nil {
			return v, err
		}
	}
	v.Names, err = memberNames(ctx, c, tx, p.Approval.By...)
	return v, err
}

// mayApprove sets whether the user may approve something that a member created and others have approved.
func (v *approvalStatus) mayApprove(ctx context.Context, c *ui.Request, tx *db.Tx, creator string,
	given []string) error {
	me := c.Session.User.ID
	if !v.Decides || creator == me || slices.Contains(given, me) {
		return nil
	}
	may, err := approval.Approvers(ctx, tx, c.Session.Company.ID)
	v.Approves = slices.Contains(may, me)
	v.New = !v.Approves
	return err
}

// approvePayroll records the user's approval of a payroll.
func approvePayroll(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	p, err := c.Payroll.Approve(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"), c.Form.Get("content"))
	return ui.View{Redirect: payrollPath(p.ID)}, err
}

// declinePayroll declines and cancels a payroll that needs approval.
func declinePayroll(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	p, err := c.Payroll.Decline(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"))
	return ui.View{Redirect: payrollPath(p.ID)}, err
}
