package web

import (
	"context"
	"strconv"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payee"
)

var invitationStates = []string{payee.InvitationSent, payee.InvitationAccepted, payee.InvitationExpired, payee.InvitationRevoked}

type invitationsPage struct {
	Filters     []field
	Fields      []field
	Invitations []invitationShown
	Pager       pager
}

// invitationShown is an invitation with what can still be done with it.
type invitationShown struct {
	Email, Role, State, Sent, Expires, Resends string
	Again, Open                                bool
}

// listInvitations are the company's invitations, the newest first, with a form for another.
func listInvitations(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	params := payee.InvitationsParams{Status: c.among("status", invitationStates), Page: payee.Page{Number: c.page(), PerPage: perPage}}
	found, err := payee.Invitations(ctx, tx, c.session.Principal(), params)
	if err != nil {
		return view{}, err
	}
	var p invitationsPage
	for _, v := range found.Items {
		p.Invitations = append(p.Invitations, invitationShown{
			Email: v.Email, Role: c.role(v.Role), State: c.word("invitation.state", v.State), Sent: c.instant(v.Sent), Expires: c.instant(v.Expires),
			Resends: c.text("invitations.resends", strconv.Itoa(v.Resends), strconv.Itoa(payee.MaxResends)),
			Again:   (v.State == payee.InvitationSent || v.State == payee.InvitationExpired) && v.Resends < payee.MaxResends,
			Open:    v.State == payee.InvitationSent,
		})
	}
	p.Pager = c.pager(params.Page.Number, perPage, int64(found.Total))
	p.Filters = []field{c.filter(field{Name: "status", Type: "select", Options: c.choices("invitation.state", invitationStates...)})}
	roles := []option{{Value: payee.Contractor, Label: c.role(payee.Contractor)}, {Value: payee.Employee, Label: c.role(payee.Employee)}}
	p.Fields = []field{
		c.field(field{Name: "email", Type: "email", Label: c.text("recipient.email"), Required: true, Most: 254}),
		c.field(field{Name: "role", Type: "select", Options: roles}),
	}
	return view{page: "invitations", title: c.text("invitations.title"), wide: true, data: p}, nil
}

// atEmail puts a refusal beside the address.
func atEmail(err error) error {
	if f, ok := apierr.As(err); ok && len(f.Fields) == 0 && f.Kind != apierr.NotFound && f.Kind != apierr.Unavailable {
		return f.At("body", "/email")
	}
	return err
}

// invite sends somebody an invitation.
func invite(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	_, err := payee.Invite(ctx, tx, c.Sealer, c.session.Principal(), payee.InviteParams{Email: strings.TrimSpace(c.form.Get("email")), Role: c.form.Get("role")})
	return view{redirect: "/invitations"}, atEmail(err)
}

// resendInvitation sends one again.
func resendInvitation(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	_, err := payee.Resend(ctx, tx, c.Sealer, c.session.Principal(), "", c.form.Get("email"))
	return view{redirect: "/invitations"}, atEmail(err)
}

// revokeInvitation ends one.
func revokeInvitation(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	_, err := payee.Revoke(ctx, tx, c.session.Principal(), "", c.form.Get("email"))
	return view{redirect: "/invitations"}, atEmail(err)
}
