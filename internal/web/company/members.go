package company

import (
	"context"
	"errors"
	"slices"

	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/platform"
	"github.com/stipend/stipend/internal/web/ui"
)

type membersPage struct {
	Company     string
	SSO         bool // the company can set up single sign-on
	Members     []memberRow
	Invitations []memberInvitationRow
	Fields      []ui.Field
}

type memberRow struct {
	auth.Member
	RoleName string
	Self     bool
	Roles    []ui.Option // roles that the user may assign; empty if none
}

type memberInvitationRow struct {
	auth.Invitation
	RoleName, Until string
}

// by returns the signed-in user as the author of a change to members.
func by(c *ui.Request) auth.Actor {
	return auth.Actor{CompanyID: c.Session.Company.ID, UserID: c.Session.User.ID}
}

// assignableRoles returns the roles that the user may assign.
func assignableRoles(c *ui.Request, now string) []ui.Option {
	var all []ui.Option
	for _, role := range auth.Roles {
		if role != identity.RoleOwner || c.Session.Role == identity.RoleOwner {
			all = append(all, ui.Option{Value: role, Label: c.RoleName(role), Selected: role == now})
		}
	}
	return all
}

// showMembers lists the members and the open invitations.
func showMembers(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	members, err := auth.Members(ctx, tx, c.Session.Company.ID)
	if err != nil {
		return ui.View{}, err
	}
	invited, err := auth.Invitations(ctx, tx, c.Session.Company.ID)
	if err != nil {
		return ui.View{}, err
	}
	p := membersPage{Company: c.Session.Company.Name, SSO: c.SSO != nil && c.Session.Administers()}
	for _, m := range members {
		shown := memberRow{Member: m, RoleName: c.RoleName(m.Role), Self: m.UserID == c.Session.User.ID}
		if c.Session.Administers() && (m.Role != identity.RoleOwner || c.Session.Role == identity.RoleOwner) {
			shown.Roles = assignableRoles(c, m.Role)
		}
		p.Members = append(p.Members, shown)
	}
	if c.Session.Administers() {
		for _, v := range invited {
			p.Invitations = append(p.Invitations, memberInvitationRow{v, c.RoleName(v.Role), c.FormatTime(v.Expires)})
		}
		roles := c.Field(ui.Field{Name: "role", Type: "select", Required: true,
			Options: assignableRoles(c, identity.RoleViewer)})
		if !c.Form.Has("role") {
			roles.Options = assignableRoles(c, identity.RoleViewer)
		}
		p.Fields = []ui.Field{c.Field(ui.Field{Name: "email", Type: "email", Autocomplete: "off", Required: true,
			MaxLength: 254}), roles}
	}
	return ui.View{Template: "members", Title: c.Text("members.title"), Data: p}, nil
}

// inviteMember invites a person to become a member.
func inviteMember(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Redirect: "/settings/members"},
		auth.Invite(ctx, tx, c.Sealer, by(c), c.Form.Get("email"), c.Form.Get("role"), c.Language.Tag)
}

// revokeMemberInvitation revokes an invitation.
func revokeMemberInvitation(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Redirect: "/settings/members"}, auth.Withdraw(ctx, tx, by(c), c.HTTP.PathValue("id"))
}

// setRole changes the role of a member.
func setRole(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Redirect: "/settings/members"},
		auth.SetRole(ctx, tx, by(c), c.HTTP.PathValue("user"), c.Form.Get("role"))
}

// removeMember removes a member.
func removeMember(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Redirect: "/settings/members"}, auth.RemoveMember(ctx, tx, by(c), c.HTTP.PathValue("user"))
}

// leaveCompany removes the user from the company.
func leaveCompany(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Redirect: "/sign-in", Cookie: c.SessionCookie("")}, auth.RemoveMember(ctx, tx, by(c), c.Session.User.ID)
}

// joinPage shows an invitation to become a member.
type joinPage struct {
	Company, Role, Email, Until string
	Path                        string
	As                          string     // the signed-in user, if that is not the invited one
	SSO                         string     // path of single sign-on, if the company requires it of this address
	Known                       bool       // the invited email has an account
	Mine                        bool       // the invited user is signed in
	Fields                      []ui.Field // for a new account
}

// invited returns the invitation, whether its email has an account, and whether that user is signed in.
func invited(ctx context.Context, c *ui.Request, tx *db.Tx) (v auth.Invitation, known, mine bool, err error) {
	if v, err = auth.FindInvitation(ctx, tx, c.HTTP.PathValue("token")); err != nil {
		return v, false, false, err
	}
	u, err := identity.UserByEmail(ctx, tx, v.Email)
	if err != nil {
		return v, false, false, err
	}
	signedIn, err := c.FindSession(ctx, tx)
	return v, u.ID != "", signedIn && c.Session.User.ID == u.ID, err
}

// showJoin renders an invitation to become a member.
func showJoin(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	v, known, mine, err := invited(ctx, c, tx)
	if err != nil {
		return ui.View{}, err
	}
	company, err := identity.CompanyByID(ctx, tx, v.CompanyID)
	if err != nil {
		return ui.View{}, err
	}
	p := joinPage{Company: company.Name, Role: c.RoleName(v.Role), Email: v.Email, Until: c.FormatTime(v.Expires),
		Path: "/join/" + c.HTTP.PathValue("token"), Known: known, Mine: mine}
	required, err := requiresSSO(ctx, tx, v.CompanyID, v.Email)
	if err != nil {
		return ui.View{}, err
	}
	if required {
		p.SSO = ui.SSOPath("/overview")
		return ui.View{Template: "join", Title: c.Text("join.title", company.Name), Data: p}, nil
	}
	if c.Session != nil && !mine {
		p.As = c.Session.User.Email
	}
	if !known {
		p.Fields = []ui.Field{
			c.Field(ui.Field{Name: "first_name", Autocomplete: "given-name", Required: true, MaxLength: 100}),
			c.Field(ui.Field{Name: "last_name", Autocomplete: "family-name", Required: true, MaxLength: 100}),
			c.NewPasswordField(),
		}
	}
	return ui.View{Template: "join", Title: c.Text("join.title", company.Name), Data: p}, nil
}

// join makes the invited person a member, with their existing account or a new one.
func join(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	token := c.HTTP.PathValue("token")
	var v auth.Invitation
	known, mine := false, false
	err := c.DB.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		v, known, mine, err = invited(ctx, c, tx)
		return err
	})
	switch {
	case err != nil:
		return ui.View{}, err
	case known && !mine:
		return ui.View{Redirect: ui.SignInPath("/join/" + token)}, nil
	case mine && !c.HasFormToken():
		return ui.View{}, ui.ErrFormToken
	}
	n := auth.Newcomer{FirstName: c.Form.Get("first_name"), LastName: c.Form.Get("last_name")}
	if !known {
		n, err = n.Check()
		if n.PasswordHash, err = c.NewPassword(ctx, v.Email, err); err != nil {
			return ui.View{}, err
		}
	}
	done := ui.View{Redirect: "/overview"}
	err = c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		u, err := auth.Join(ctx, tx, c.Sealer, token, n)
		if err != nil {
			return err
		}
		if _, _, connected, err := platform.Of(ctx, tx, v.CompanyID); err != nil {
			return err
		} else if connected {
			done.Redirect = platform.LinkPath
		}
		c.Author = u.ID
		if mine {
			s := *c.Session
			s.Members = append(slices.Clone(s.Members), identity.Member{CompanyID: v.CompanyID, UserID: u.ID, Role: v.Role})
			return session.ActFor(ctx, tx, s, v.CompanyID)
		}
		started, err := session.Start(ctx, tx, u.ID)
		done.Cookie = c.SessionCookie(started)
		return errors.Join(err, session.End(ctx, tx, c.SessionToken()))
	})
	return done, err
}
