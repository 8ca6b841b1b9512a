package company

import (
	"context"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/proposal"
	"github.com/stipend/stipend/internal/web/ui"
)

// proposalCard is what a page says about the proposal itself.
type proposalCard struct {
	Path, App, Note, Made, Ends string
	Shown                       string // digest of what the page shows
	Open, Confirms              bool
}

// proposalPage shows a proposed claim, or a proposal that cannot be confirmed.
type proposalPage struct {
	Proposal proposalCard
	Amount   string
	Facts    []ui.Cell // of a claim: text and value
	Items    ui.Table
	Result   string // path of what was created, "" for none
}

// showProposal renders what a proposal would create, or what became of it.
func showProposal(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	n, err := c.Proposals.Get(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	app, err := identity.ReachOf(ctx, tx, n.CompanyID, n.AppID, identity.CompanyPropose)
	if err != nil {
		return ui.View{}, err
	}
	card := proposalCard{Path: proposal.Path + n.ID, App: app.App, Note: n.Note, Made: c.FormatTime(n.CreatedAt),
		Ends: c.FormatTime(n.ExpiresAt), Open: n.State == proposal.Open,
		Confirms: n.State == proposal.Open && app.Allowed}
	if card.Open && !app.Allowed {
		c.Problem = wholePage(proposal.ErrDisconnected)
	}
	view := ui.View{Template: "proposal", Title: c.Text("proposal.title." + string(n.Kind)),
		State: c.StateCell("proposal.state", string(n.State))}
	if card.Open && n.Kind == proposal.Payroll {
		shown, err := previewProposal(ctx, c, tx, n, card)
		f, isFault := apierr.As(err)
		if err == nil || !isFault {
			shown.Title, shown.State = view.Title, view.State
			return shown, err
		}
		c.Problem, card.Confirms = wholePage(f), false
	}
	p := proposalPage{Proposal: card, Amount: c.FormatMoney(n.Amount)}
	switch {
	case n.ObjectID != "" && n.Kind == proposal.Payroll:
		p.Result = payrollPath(n.ObjectID)
	case n.ObjectID != "":
		p.Result = claimPath(n.ObjectID)
	}
	if card.Open && n.Kind == proposal.Claim {
		content, err := c.Proposals.Content(n)
		if f, ok := apierr.As(err); ok {
			c.Problem, p.Proposal.Confirms = wholePage(f), false
		} else if err != nil {
			return ui.View{}, err
		} else {
			p.addClaim(c, *content.Claim)
		}
	}
	view.Data = p
	return view, nil
}

// wholePage returns a problem without a field as one of the whole page.
func wholePage(f *apierr.Fault) *apierr.Fault {
	if len(f.Fields) == 0 {
		return f.At("body", "")
	}
	return f
}

// previewProposal renders a proposed payroll as the page of a new payroll does.
func previewProposal(ctx context.Context, c *ui.Request, tx *db.Tx, n proposal.Proposal, card proposalCard) (ui.View,
	error) {
	content, err := c.Proposals.Content(n)
	if err != nil {
		return ui.View{}, err
	}
	v, err := c.Payroll.Preview(ctx, tx, c.Session.Principal(), *content.Payroll)
	if err != nil {
		return ui.View{}, err
	}
	if len(v.Blockers) > 0 {
		return ui.View{}, blockerProblems(v.Blockers, func(int, string) string { return "" })
	}
	if card.Shown, err = proposal.Shown(n, v); err != nil {
		return ui.View{}, err
	}
	p := previewOf(c, v, proposal.MaxPayees)
	p.Proposal = &card
	return ui.View{Template: "payroll_preview", Data: p}, nil
}

// addClaim adds the terms of a proposed claim.
func (p *proposalPage) addClaim(c *ui.Request, t claim.CreateParams) {
	add := func(key, value string) {
		if value != "" {
			p.Facts = append(p.Facts, ui.Cell{Text: c.Text(key), Lines: []ui.Cell{{Text: value}}})
		}
	}
	add("proposal.payer", t.PayerID)
	add("proposal.about", t.Description)
	add("field.external_id", t.ExternalID)
	add("proposal.asset", t.Funding)
	add("proposal.receipt", t.Email)
	if t.ExpiresIn > 0 {
		add("proposal.valid", c.FormatCount(int64(t.ExpiresIn/time.Minute)))
	}
	add("proposal.return", t.ReturnURL+t.RedirectURL)
	p.Items = ui.Table{Caption: c.Text("checkout.items"),
		Heads: c.Columns("invoice.line", "invoice.quantity#", "payment.amount#")}
	for _, it := range t.Items {
		amount, err := money.Parse(money.Asset(t.Currency), it.AmountText)
		if err != nil {
			continue // it was checked when it was proposed
		}
		p.Items.Rows = append(p.Items.Rows, []ui.Cell{{Text: it.Description},
			{Text: c.FormatCount(max(it.Quantity, 1)), Kind: "number"}, c.AmountCell(amount)})
	}
}

// confirmProposal creates what was proposed, in the user's name. Posting the form twice creates it once.
func confirmProposal(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	n, err := c.Proposals.Confirm(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"), c.Form.Get("shown"))
	if err != nil {
		return ui.View{}, ui.FormConflict(err)
	}
	if n.Kind == proposal.Claim {
		return ui.View{Redirect: claimPath(n.ObjectID)}, nil
	}
	return ui.View{Redirect: payrollPath(n.ObjectID)}, nil
}

// declineProposal ends a proposal.
func declineProposal(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	n, err := c.Proposals.Decline(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"))
	return ui.View{Redirect: proposal.Path + n.ID}, ui.FormConflict(err)
}

// proposalTasks returns the proposals that wait for a member's answer.
func proposalTasks(ctx context.Context, c *ui.Request, tx *db.Tx, most int) (all []ui.Task, err error) {
	if !c.Session.Manages() {
		return nil, nil
	}
	open, _, err := c.Proposals.List(ctx, tx, c.Session.Principal(), proposal.Open, db.Page{PerPage: most})
	for _, n := range open {
		all = append(all, c.Task("violet", "send", c.Text("attention.proposal."+string(n.Kind), c.FormatMoney(n.Amount)),
			"attention.review", proposal.Path+n.ID))
	}
	return all, err
}
