package company

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/web/ui"
)

const approvalsPath = "/settings/approvals"

var errLimit = apierr.New(apierr.Invalid, "invalid_parameter", "This takes an amount of zero or more, such as 5000 or 5000.00.")

type approvalsPage struct {
	Limit    string // "" is none
	Changes  bool   // the reader may change it
	Proposal proposalShown
	Fields   []ui.Field
}

type proposalShown struct {
	ID, Limit, By string // the ID is "" where nobody proposes anything, the Limit is "" to have none
	Own           bool
}

// showApprovals says above which total a payroll needs a second person, and what somebody proposes instead.
func showApprovals(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	limit, err := approval.LimitOf(ctx, tx, c.Session.Principal())
	if err != nil {
		return ui.View{}, err
	}
	p := approvalsPage{Limit: c.FormatMoney(limit.Amount), Changes: c.Session.Administers()}
	if asked := limit.Proposal; asked.ID != "" {
		names, err := memberNames(ctx, c, tx, asked.By)
		if err != nil {
			return ui.View{}, err
		}
		p.Proposal = proposalShown{ID: asked.ID, Limit: c.FormatMoney(asked.Amount), By: names[0], Own: asked.By == c.Session.User.ID}
	}
	if p.Changes {
		amount, currency := ui.Field{Name: "limit", Required: true, Most: 30}, ui.Field{Name: "limit_currency", Type: "select"}
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

// memberNames are the names of members, in the order of their ids; who is none any more has their id.
func memberNames(ctx context.Context, c *ui.Request, tx *db.Tx, ids ...string) ([]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	members, err := auth.Members(ctx, tx, c.Session.Company.ID)
	names := slices.Clone(ids)
	for _, m := range members {
		if i := slices.Index(ids, m.UserID); i >= 0 {
			names[i] = cmp.Or(m.Name, m.Email)
		}
	}
	return names, err
}

// setLimit changes the limit, or proposes the change to a second person.
func setLimit(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	currency := money.Asset(c.Form.Get("limit_currency"))
	if !slices.Contains(money.All(), currency) || currency.IsCrypto() {
		return ui.View{}, errLimit.At("body", "/limit_currency")
	}
	amount, err := money.Parse(currency, strings.TrimSpace(c.Form.Get("limit")))
	if err != nil {
		return ui.View{}, errLimit.At("body", "/limit")
	}
	return ui.View{Redirect: approvalsPath}, approval.SetLimit(ctx, tx, c.Session.Principal(), amount)
}

// removeLimit proposes to a second person that there be none.
func removeLimit(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Redirect: approvalsPath}, approval.SetLimit(ctx, tx, c.Session.Principal(), money.Amount{})
}

// answerLimit agrees to a proposal, or ends it.
func answerLimit(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Redirect: approvalsPath},
		approval.AnswerLimit(ctx, tx, c.Session.Principal(), c.Form.Get("proposal"), c.Form.Get("answer") == "yes")
}

// approvalShown is how far the approval of a payroll has come, for who reads its page.
type approvalShown struct {
	Status   string // "" where none is asked for
	Names    []string
	Waits    bool
	Decides  bool // the reader may decline it
	Approves bool // and approve it
}

func approvalOf(ctx context.Context, c *ui.Request, tx *db.Tx, p payroll.Payroll) (v approvalShown, err error) {
	if p.Approval.Needed == 0 {
		return v, nil
	}
	me := c.Session.User.ID
	v.Status = c.Text("approval.status", c.FormatCount(int64(len(p.Approval.By))), c.FormatCount(p.Approval.Needed))
	v.Waits = p.State == payroll.OnHold && p.HoldReason == payroll.ReasonApproval
	v.Decides = v.Waits && c.Session.Administers()
	v.Approves = v.Decides && p.CreatedBy != me && !slices.Contains(p.Approval.By, me)
	v.Names, err = memberNames(ctx, c, tx, p.Approval.By...)
	return v, err
}

// approvePayroll is the reader's word that a payroll may be paid.
func approvePayroll(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	p, err := c.Payroll.Approve(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"))
	return ui.View{Redirect: payrollPath(p.ID)}, err
}

// declinePayroll ends a payroll that waits for an approval.
func declinePayroll(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	p, err := c.Payroll.Decline(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"))
	return ui.View{Redirect: payrollPath(p.ID)}, err
}
