package httpapi

import (
	"context"
	"slices"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/withdrawal"
)

// Types of objects that members approve.
const (
	approvePayroll    = "payroll"
	approveWithdrawal = "withdrawal"
	approveRefund     = "refund"
)

// maxApprovals is the maximum number of objects of each type in the list of approvals.
const maxApprovals = 100

var (
	errPersonOnly = apierr.New(apierr.Forbidden, "role_required",
		"Only a person can present a second factor. Use an access token that the person granted to the app.")
	errCode = apierr.New(apierr.Invalid, "code_wrong",
		"The code is wrong, was used before or has expired. Enter the newest code of the authenticator.").At("body", "/code")
	errCodes = apierr.New(apierr.RateLimited, "rate_limited",
		"Too many wrong codes. Wait 15 minutes, then try again.")
)

type (
	secondFactorInput struct{ Body secondFactorBody }

	secondFactorBody struct {
		Code string `json:"code" minLength:"6" maxLength:"40" doc:"Of the authenticator, or a recovery code."`
	}

	secondFactorAnswer struct {
		ValidTo Time `json:"valid_to" doc:"Until when the token may approve."`
	}

	approvalList struct {
		CompanyID string `query:"company_id"`
	}

	approvalAll struct {
		Data []pendingApproval `json:"data" doc:"What waits for an approval, at most 100 objects of each type."`
	}

	pendingApproval struct {
		Type          string   `json:"type" enum:"payroll,withdrawal,refund"`
		ObjectID      string   `json:"object_id"`
		ClaimID       string   `json:"claim_id" doc:"The claim of a refund; empty for others."`
		Currency      string   `json:"currency"`
		Amount        Decimal  `json:"amount" doc:"What would be paid, without fees."`
		CreatedBy     string   `json:"created_by" doc:"A member, or empty if a program created it."`
		Required      int64    `json:"approvals_required" doc:"Number of members who must approve." example:"1"`
		ApprovedBy    []string `json:"approved_by" doc:"IDs of members."`
		ContentDigest string   `json:"content_digest" doc:"Digest of what a payroll pays and where to; for others empty."`
		Created       Time     `json:"created"`
	}

	approvalInput struct{ Body approvalBody }

	approvalBody struct {
		ApprovalTarget

		ContentDigest string `json:"content_digest,omitempty" maxLength:"128" doc:"As the list of approvals returned it."`
	}

	declineInput struct{ Body declineBody }

	declineBody struct{ ApprovalTarget }

	// ApprovalTarget identifies the object that a member approves or declines. It is exported because the contract omits
	// the fields of unexported embedded types.
	ApprovalTarget struct {
		CompanyID string `json:"company_id,omitempty" maxLength:"64"`
		Type      string `json:"type" enum:"payroll,withdrawal,refund"`
		ObjectID  string `json:"object_id" maxLength:"64"`
		ClaimID   string `json:"claim_id,omitempty" maxLength:"64" doc:"The claim of a refund."`
	}

	approvalAnswer struct {
		Type     string `json:"type" enum:"payroll,withdrawal,refund"`
		ObjectID string `json:"object_id"`
		Waits    bool   `json:"waits" doc:"Whether another member must approve it."`
	}
)

// proveSecondFactor checks a second-factor code. It counts a wrong code in a separate transaction, because the
// transaction of the rejected request is rolled back.
func proveSecondFactor(ctx context.Context, c *request, in *secondFactorInput) error {
	if c.by.Kind != identity.KindOAuth {
		return errPersonOnly
	}
	var refusal error
	err := c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		refusal = nil
		u, err := identity.GetUser(ctx, tx, c.Sealer, c.by.UserID)
		if err != nil {
			return err
		}
		if allowed, err := session.AttemptCode(ctx, tx, u.ID); err != nil || !allowed {
			refusal = errCodes
			return err
		}
		right, err := auth.Verify(ctx, tx, c.Sealer, auth.Person{User: u, Language: u.Locale.Language}, in.Body.Code, c.Now())
		if err != nil || !right {
			refusal = errCode
			return err
		}
		if err := session.CodeSucceeded(ctx, tx, u.ID); err != nil {
			return err
		}
		return identity.ProveToken(ctx, tx, c.by)
	})
	if err == nil {
		err = refusal
	}
	return err
}

func showSecondFactor(ctx context.Context, tx *db.Tx, c *request, _ *secondFactorInput) (*secondFactorAnswer, error) {
	proven, err := identity.TokenProvenAt(ctx, tx, c.by)
	return &secondFactorAnswer{Time(proven.Add(identity.FreshFactor))}, err
}

func listApprovals(ctx context.Context, tx *db.Tx, c *request, _ *approvalList) (*approvalAll, error) {
	out := &approvalAll{Data: []pendingApproval{}}
	add := func(p pendingApproval, s approval.Subject, a money.Amount, err error) error {
		if err != nil {
			return err
		}
		progress, err := approval.ProgressOf(ctx, tx, s)
		p.ObjectID, p.CreatedBy, p.Required, p.ApprovedBy = s.ID, s.Creator, progress.Needed, append([]string{},
			progress.By...)
		p.Currency, p.Amount = string(a.Asset()), amount(a)
		out.Data = append(out.Data, p)
		return err
	}
	payrolls, _, err := c.Payroll.List(ctx, tx, c.by, c.company, payroll.Filter{Status: payroll.OnHold,
		Page: db.Page{PerPage: maxApprovals}})
	if err != nil {
		return nil, err
	}
	for _, p := range payrolls {
		if p.HoldReason != payroll.ReasonApproval {
			continue
		}
		content, err := c.Payroll.Content(ctx, tx, p)
		if err := add(pendingApproval{Type: approvePayroll, ContentDigest: content, Created: Time(p.CreatedAt)},
			approval.Subject{CompanyID: c.company, ID: p.ID, Creator: p.CreatedBy}, p.Total, err); err != nil {
			return nil, err
		}
	}
	withdrawals, err := withdrawal.ListAwaitingApproval(ctx, tx, c.company, maxApprovals)
	if err != nil {
		return nil, err
	}
	for _, w := range withdrawals {
		if err := add(pendingApproval{Type: approveWithdrawal, Created: Time(w.CreatedAt)},
			approval.Subject{CompanyID: c.company, ID: w.ID, Creator: w.CreatedBy}, w.Amount, nil); err != nil {
			return nil, err
		}
	}
	refunds, err := claim.AwaitingApproval(ctx, tx, c.by, maxApprovals)
	if err != nil {
		return nil, err
	}
	for _, r := range refunds {
		if err := add(pendingApproval{Type: approveRefund, ClaimID: r.ClaimID, Created: Time(r.CreatedAt)},
			approval.Subject{CompanyID: c.company, ID: r.ID, Creator: r.CreatedBy}, r.Value, nil); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func approve(ctx context.Context, tx *db.Tx, c *request, in *approvalInput) (*approvalAnswer, error) {
	b, out := in.Body, &approvalAnswer{Type: in.Body.Type, ObjectID: in.Body.ObjectID}
	switch b.Type {
	case approvePayroll:
		p, err := c.Payroll.Approve(ctx, tx, c.by, b.ObjectID, b.ContentDigest)
		out.Waits = p.State == payroll.OnHold
		return out, err
	case approveWithdrawal:
		w, err := c.Withdrawal.Approve(ctx, tx, c.by, b.ObjectID)
		if err != nil {
			return nil, err
		}
		progress, err := approval.ProgressOf(ctx, tx, approval.Subject{CompanyID: c.company, ID: w.ID, Creator: w.CreatedBy})
		out.Waits = !progress.Complete()
		return out, err
	}
	if err := c.Claim.ApproveRefund(ctx, tx, c.by, b.ClaimID, b.ObjectID); err != nil {
		return nil, err
	}
	waiting, err := claim.AwaitingApproval(ctx, tx, c.by, maxApprovals)
	out.Waits = slices.ContainsFunc(waiting, func(r claim.Refund) bool { return r.ID == b.ObjectID })
	return out, err
}

func decline(ctx context.Context, tx *db.Tx, c *request, in *declineInput) (*approvalAnswer, error) {
	b, out := in.Body, &approvalAnswer{Type: in.Body.Type, ObjectID: in.Body.ObjectID}
	var err error
	switch b.Type {
	case approvePayroll:
		_, err = c.Payroll.Decline(ctx, tx, c.by, b.ObjectID)
	case approveWithdrawal:
		_, err = c.Withdrawal.Decline(ctx, tx, c.by, b.ObjectID)
	default:
		err = c.Claim.DeclineRefund(ctx, tx, c.by, b.ClaimID, b.ObjectID)
	}
	return out, err
}
