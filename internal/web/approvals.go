package web

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payroll"
)

const approvalsPath = "/settings/approvals"

var errLimit = apierr.New(apierr.Invalid, "invalid_parameter", "This takes an amount of zero or more, such as 5000 or 5000.00.")

type approvalsPage struct {
	Limit    string // "" is none
	Changes  bool   // the reader may change it
	Proposal proposalShown
	Fields   []field
}

type proposalShown struct {
	ID, Limit, By string // the ID is "" where nobody proposes anything, the Limit is "" to have none
	Own           bool
}

// showApprovals says above which total a payroll needs a second person, and what somebody proposes instead.
func showApprovals(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	limit, err := c.Payroll.LimitOf(ctx, tx, c.session.Principal())
	if err != nil {
		return view{}, err
	}
	p := approvalsPage{Limit: c.money(limit.Amount), Changes: c.session.Administers()}
	if asked := limit.Proposal; asked.ID != "" {
		names, err := c.memberNames(ctx, tx, asked.By)
		if err != nil {
			return view{}, err
		}
		p.Proposal = proposalShown{ID: asked.ID, Limit: c.money(asked.Amount), By: names[0], Own: asked.By == c.session.User.ID}
	}
	if p.Changes {
		amount, currency := field{Name: "limit", Required: true, Most: 30}, field{Name: "limit_currency", Type: "select"}
		currency.Value = cmp.Or(string(limit.Amount.Asset()), string(money.USD))
		for _, a := range money.All() {
			if !a.IsCrypto() {
				currency.Options = append(currency.Options, option{Value: string(a), Label: string(a)})
			}
		}
		p.Fields = []field{c.field(amount), c.field(currency)}
	}
	return view{page: "approvals", title: c.text("approvals.title"), data: p}, nil
}

// memberNames are the names of members, in the order of their ids; who is none any more has their id.
func (c *call) memberNames(ctx context.Context, tx *db.Tx, ids ...string) ([]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	members, err := auth.Members(ctx, tx, c.session.Company.ID)
	names := slices.Clone(ids)
	for _, m := range members {
		if i := slices.Index(ids, m.UserID); i >= 0 {
			names[i] = cmp.Or(m.Name, m.Email)
		}
	}
	return names, err
}

// setLimit changes the limit, or proposes the change to a second person.
func setLimit(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	currency := money.Asset(c.form.Get("limit_currency"))
	if !slices.Contains(money.All(), currency) || currency.IsCrypto() {
		return view{}, errLimit.At("body", "/limit_currency")
	}
	amount, err := money.Parse(currency, strings.TrimSpace(c.form.Get("limit")))
	if err != nil {
		return view{}, errLimit.At("body", "/limit")
	}
	return view{redirect: approvalsPath}, c.Payroll.SetLimit(ctx, tx, c.session.Principal(), amount)
}

// removeLimit proposes to a second person that there be none.
func removeLimit(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	return view{redirect: approvalsPath}, c.Payroll.SetLimit(ctx, tx, c.session.Principal(), money.Amount{})
}

// answerLimit agrees to a proposal, or ends it.
func answerLimit(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	return view{redirect: approvalsPath},
		c.Payroll.AnswerLimit(ctx, tx, c.session.Principal(), c.form.Get("proposal"), c.form.Get("answer") == "yes")
}

// approvalShown is how far the approval of a payroll has come, for who reads its page.
type approvalShown struct {
	Status   string // "" where none is asked for
	Names    []string
	Waits    bool
	Decides  bool // the reader may decline it
	Approves bool // and approve it
}

func (c *call) approval(ctx context.Context, tx *db.Tx, p payroll.Payroll) (v approvalShown, err error) {
	if p.Approval.Needed == 0 {
		return v, nil
	}
	me := c.session.User.ID
	v.Status = c.text("approval.status", c.count(int64(len(p.Approval.By))), c.count(p.Approval.Needed))
	v.Waits = p.State == payroll.OnHold && p.HoldReason == payroll.ReasonApproval
	v.Decides = v.Waits && c.session.Administers()
	v.Approves = v.Decides && p.CreatedBy != me && !slices.Contains(p.Approval.By, me)
	v.Names, err = c.memberNames(ctx, tx, p.Approval.By...)
	return v, err
}

// approvePayroll is the reader's word that a payroll may be paid.
func approvePayroll(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	p, err := c.Payroll.Approve(ctx, tx, c.session.Principal(), c.r.PathValue("id"))
	return view{redirect: payrollPath(p.ID)}, err
}

// declinePayroll ends a payroll that waits for an approval.
func declinePayroll(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	p, err := c.Payroll.Decline(ctx, tx, c.session.Principal(), c.r.PathValue("id"))
	return view{redirect: payrollPath(p.ID)}, err
}
