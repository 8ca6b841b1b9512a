package httpapi

import (
	"context"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/proposal"
)

type (
	payrollProposeInput struct{ Body payrollProposeBody }

	payrollProposeBody struct {
		PayrollCreateBody
		Note string `json:"note,omitempty" maxLength:"500" doc:"What the member who reviews it should know."`
	}

	claimProposeInput struct{ Body claimProposeBody }

	claimProposeBody struct {
		ClaimCreateBody
		Note string `json:"note,omitempty" maxLength:"500" doc:"What the member who reviews it should know."`
	}

	proposalRefInput struct{ Body proposalRefBody }

	proposalRefBody struct {
		CompanyID  string `json:"company_id,omitempty" maxLength:"64"`
		ProposalID string `json:"proposal_id" maxLength:"64"`
	}

	proposalGet struct {
		ProposalID string `path:"proposal_id"`
		CompanyID  string `query:"company_id"`
	}

	proposalList struct {
		CompanyID string `query:"company_id"`
		Status    string `query:"status" enum:"open,confirmed,declined,cancelled,expired"`
		cursorPaging
	}

	proposalPage struct {
		Data []proposalDetail `json:"data" doc:"Proposals of the page."`
		Meta meta             `json:"meta"`
	}

	proposalDetail struct {
		ProposalID string  `json:"proposal_id"`
		CompanyID  string  `json:"company_id"`
		Kind       string  `json:"kind" enum:"payroll,claim"`
		Status     string  `json:"status" enum:"open,confirmed,declined,cancelled,expired"`
		Currency   string  `json:"currency"`
		Amount     Decimal `json:"amount" doc:"Amount of the payroll or claim, without fees."`
		Payees     int64   `json:"payees" doc:"Number of payees; 0 for a claim."`
		Note       string  `json:"note" doc:"What the app says about it." example:"\"Bonus for the release\""`
		ReviewURL  string  `json:"review_url" doc:"Page on which a member reviews, confirms or declines it."`
		PayrollID  string  `json:"payroll_id" doc:"The payroll that a member created from it; empty for none."`
		ClaimID    string  `json:"claim_id" doc:"The claim that a member created from it; empty for none."`
		ExpiresAt  Time    `json:"expires_at" doc:"When it ends unless a member has answered, UTC."`
		Created    Time    `json:"created"`
		Updated    Time    `json:"updated"`
	}
)

func (c *request) showProposal(n proposal.Proposal, err error) (*proposalDetail, error) {
	if err != nil {
		return nil, err
	}
	d := &proposalDetail{
		ProposalID: n.ID, CompanyID: n.CompanyID, Kind: string(n.Kind), Status: string(n.State),
		Currency: string(n.Amount.Asset()), Amount: amount(n.Amount), Payees: n.Payees, Note: n.Note,
		ReviewURL: c.BaseURL + proposal.Path + n.ID, ExpiresAt: Time(n.ExpiresAt), Created: Time(n.CreatedAt),
		Updated: Time(n.UpdatedAt),
	}
	if n.Kind == proposal.Payroll {
		d.PayrollID = n.ObjectID
	} else {
		d.ClaimID = n.ObjectID
	}
	return d, nil
}

func proposePayroll(ctx context.Context, tx *db.Tx, c *request, in *payrollProposeInput) (*proposalDetail, error) {
	return c.showProposal(c.Proposals.ProposePayroll(ctx, tx, c.by, in.Body.params(c.company), in.Body.Note))
}

func proposeClaim(ctx context.Context, tx *db.Tx, c *request, in *claimProposeInput) (*proposalDetail, error) {
	return c.showProposal(c.Proposals.ProposeClaim(ctx, tx, c.by, in.Body.params(c.company), in.Body.Note))
}

func cancelProposal(ctx context.Context, tx *db.Tx, c *request, in *proposalRefInput) (*proposalDetail, error) {
	return c.showProposal(c.Proposals.Cancel(ctx, tx, c.by, in.Body.ProposalID))
}

func getProposal(ctx context.Context, tx *db.Tx, c *request, in *proposalGet) (*proposalDetail, error) {
	return c.showProposal(c.Proposals.Get(ctx, tx, c.by, in.ProposalID))
}

func listProposals(ctx context.Context, tx *db.Tx, c *request, in *proposalList) (*proposalPage, error) {
	all, total, err := c.Proposals.List(ctx, tx, c.by, proposal.State(in.Status), in.page())
	if err != nil {
		return nil, err
	}
	out := &proposalPage{Data: make([]proposalDetail, len(all)), Meta: metaOf(in.cursorPaging, total, all,
		func(x proposal.Proposal) string { return x.ID })}
	for i, n := range all {
		shown, err := c.showProposal(n, nil)
		if err != nil {
			return nil, err
		}
		out.Data[i] = *shown
	}
	return out, nil
}
