package company

import (
	"context"
	"strconv"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/web/ui"
)

var invitationStates = []string{payee.InvitationSent, payee.InvitationAccepted, payee.InvitationExpired,
	payee.InvitationRevoked}

type invitationsPage struct {
	Filters     ui.Filters
	Fields      []ui.Field
	Invitations []invitationRow
	Pager       ui.Pager
}

// invitationRow is a row of the list of invitations.
type invitationRow struct {
	Email, Role, Sent, Expires, Resends string
	State                               ui.Cell
	Again, Open                         bool
}

// listInvitations lists the company's invitations, newest first, and renders the form for a new one.
func listInvitations(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	params := payee.InvitationsParams{Status: queryOneOf(c, "status", invitationStates),
		Page: c.Page()}
	found, err := payee.Invitations(ctx, tx, c.Session.Principal(), params)
	if err != nil {
		return ui.View{}, err
	}
	var p invitationsPage
	for _, v := range found.Items {
		p.Invitations = append(p.Invitations, invitationRow{
			Email: v.Email, Role: c.RoleName(v.Role),
			State: c.StateCell("invitation.state", v.State), Sent: c.FormatTime(v.Sent),
			Expires: c.FormatTime(v.Expires),
			Resends: c.Text("invitations.resends", strconv.Itoa(v.Resends), strconv.Itoa(payee.MaxResends)),
			Again:   (v.State == payee.InvitationSent || v.State == payee.InvitationExpired) && v.Resends < payee.MaxResends,
			Open:    v.State == payee.InvitationSent,
		})
	}
	p.Pager = c.Pager(params.Page, int64(found.Total))
	p.Filters = c.FilterBar("/invitations", c.Filter(ui.Field{Name: "status", Type: "select",
		Options: c.Choices("invitation.state", invitationStates...)}))
	roles := []ui.Option{{Value: payee.Contractor, Label: c.RoleName(payee.Contractor)},
		{Value: payee.Employee, Label: c.RoleName(payee.Employee)}}
	p.Fields = []ui.Field{
		c.Field(ui.Field{Name: "email", Type: "email", Label: c.Text("recipient.email"), Required: true, MaxLength: 254}),
		c.Field(ui.Field{Name: "role", Type: "select", Options: roles}),
	}
	return ui.View{Template: "invitations", Title: c.Text("invitations.title"), Crumbs: peopleCrumbs(c), Data: p}, nil
}

// emailFormError shows an error at the email field.
func emailFormError(err error) error {
	if f, ok := apierr.As(err); ok && len(f.Fields) == 0 && f.Kind != apierr.NotFound && f.Kind != apierr.Unavailable {
		return f.At("body", "/email")
	}
	return err
}

// invite sends an invitation.
func invite(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	_, err := payee.Invite(ctx, tx, c.Sealer, c.Session.Principal(),
		payee.InviteParams{Email: strings.TrimSpace(c.Form.Get("email")), Role: c.Form.Get("role")})
	return ui.View{Redirect: "/invitations"}, emailFormError(err)
}

// resendInvitation sends an invitation again.
func resendInvitation(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	_, err := payee.Resend(ctx, tx, c.Sealer, c.Session.Principal(), "", c.Form.Get("email"))
	return ui.View{Redirect: "/invitations"}, emailFormError(err)
}

// revokeInvitation revokes an invitation.
func revokeInvitation(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	_, err := payee.Revoke(ctx, tx, c.Session.Principal(), "", c.Form.Get("email"))
	return ui.View{Redirect: "/invitations"}, emailFormError(err)
}
