package httpapi

import (
	"context"
	"strconv"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payee"
)

type (
	inviteInput struct{ Body inviteBody }

	inviteBody struct {
		CompanyID string `json:"company_id,omitempty"`
		Email     string `json:"email" format:"email" maxLength:"254"`
		Role      string `json:"role,omitempty" enum:"contractor,employee" doc:"Default: contractor."`
	}

	inviteManyInput struct{ Body inviteManyBody }

	inviteManyBody struct {
		CompanyID   string      `json:"company_id,omitempty"`
		Invitations []inviteOne `json:"invitations" minItems:"1" maxItems:"100" doc:"The people to invite."`
	}

	inviteOne struct {
		Email string `json:"email" format:"email" maxLength:"254" doc:"Address of the person."`
		Role  string `json:"role,omitempty" enum:"contractor,employee" doc:"Default: contractor."`
	}

	invitedMany struct {
		Invited int             `json:"invited" doc:"How many were invited." example:"1"`
		Results []invitedResult `json:"results" doc:"One result for each address, in the same order."`
	}

	invitedResult struct {
		Email        string `json:"email" doc:"The address as sent." example:"ada@example.com"`
		InvitationID string `json:"invitation_id" doc:"The invitation; empty if the person was not invited."`
		Code         string `json:"code" doc:"Error code if the person was not invited, or empty." example:"\"\""`
		Detail       string `json:"detail" doc:"Why the person was not invited, or empty." example:"\"\""`
	}

	invitedInput struct{ Body invitedBody }

	invitedBody struct {
		CompanyID string `json:"company_id,omitempty"`
		Email     string `json:"email" format:"email" maxLength:"254"`
	}

	invitationItem struct {
		InvitationID string `json:"invitation_id"`
		Email        string `json:"email"`
		Role         string `json:"role" enum:"contractor,employee"`
		Status       string `json:"status" enum:"sent,accepted,expired,revoked"`
		Reason       string `json:"reason" enum:",revoked,declined"`
		ResendCount  int    `json:"resend_count" doc:"3 at most."`
		UserID       string `json:"user_id" doc:"User who accepted."`
		Created      Time   `json:"created"`
		SentAt       Time   `json:"sent_at"`
		ExpiresAt    Time   `json:"expires_at"`
	}

	invitationList struct {
		CompanyID string `query:"company_id"`
		Status    string `query:"status" enum:"sent,accepted,expired,revoked"`
		Email     string `query:"email" maxLength:"254" doc:"The whole address."`
		cursorPaging
	}

	invitationPage struct {
		Data []invitationItem `json:"data"`
		Meta meta             `json:"meta"`
	}
)

func showInvitation(v payee.Invitation) invitationItem {
	return invitationItem{
		InvitationID: v.ID, Email: v.Email, Role: v.Role, Status: v.State, Reason: v.Reason, ResendCount: v.Resends,
		UserID: v.UserID, Created: Time(v.Created), SentAt: Time(v.Sent), ExpiresAt: Time(v.Expires),
	}
}

func invitationOrErr(v payee.Invitation, err error) (*invitationItem, error) {
	if err != nil {
		return nil, err
	}
	out := showInvitation(v)
	return &out, nil
}

func inviteWorker(ctx context.Context, tx *db.Tx, c *request, in *inviteInput) (*invitationItem, error) {
	return invitationOrErr(payee.Invite(ctx, tx, c.Sealer, c.by, payee.InviteParams{
		CompanyID: c.company, Email: in.Body.Email, Role: in.Body.Role,
	}))
}

func inviteWorkers(ctx context.Context, tx *db.Tx, c *request, in *inviteManyInput) (*invitedMany, error) {
	out := &invitedMany{Results: make([]invitedResult, len(in.Body.Invitations))}
	for i, one := range in.Body.Invitations {
		r := &out.Results[i]
		r.Email = one.Email
		v, err := payee.Invite(ctx, tx, c.Sealer, c.by, payee.InviteParams{CompanyID: c.company, Email: one.Email,
			Role: one.Role})
		fault, known := apierr.As(err)
		switch {
		case err == nil:
			r.InvitationID = v.ID
			out.Invited++
		case known && fault.Kind == apierr.Conflict:
			r.Code, r.Detail = fault.Code, fault.Detail
		case known && fault.Kind == apierr.Invalid:
			whole := *fault
			whole.Fields = nil
			return nil, whole.At("body", "/invitations/"+strconv.Itoa(i)+"/email")
		default:
			return nil, err
		}
	}
	return out, nil
}

func resendInvitation(ctx context.Context, tx *db.Tx, c *request, in *invitedInput) (*invitationItem, error) {
	return invitationOrErr(payee.Resend(ctx, tx, c.Sealer, c.by, c.company, in.Body.Email))
}

func revokeInvitation(ctx context.Context, tx *db.Tx, c *request, in *invitedInput) (*invitationItem, error) {
	return invitationOrErr(payee.Revoke(ctx, tx, c.by, c.company, in.Body.Email))
}

func listInvitations(ctx context.Context, tx *db.Tx, c *request, in *invitationList) (*invitationPage, error) {
	found, err := payee.Invitations(ctx, tx, c.by, payee.InvitationsParams{
		CompanyID: c.company, Status: in.Status, Email: in.Email, Page: in.page(),
	})
	if err != nil {
		return nil, err
	}
	out := &invitationPage{Data: make([]invitationItem, len(found.Items)), Meta: metaOf(in.cursorPaging,
		int64(found.Total), found.Items,
		func(x payee.Invitation) string { return x.ID })}
	for i, v := range found.Items {
		out.Data[i] = showInvitation(v)
	}
	return out, nil
}
