package web

import (
	"context"
	"errors"
	"slices"

	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

type membersPage struct {
	Company     string
	Members     []memberShown
	Invitations []invitedShown
	Fields      []field
}

type memberShown struct {
	auth.Member
	RoleName string
	Self     bool
	Roles    []option // that the reader may give them; none: they may change nothing
}

type invitedShown struct {
	auth.Invitation
	RoleName, Until string
}

// by is who is signed in, as somebody who changes members.
func (c *call) by() auth.By {
	return auth.By{CompanyID: c.session.Company.ID, UserID: c.session.User.ID, Role: c.session.Role}
}

// rolesToGive are those that the reader may give.
func (c *call) rolesToGive(now string) []option {
	var all []option
	for _, role := range auth.Roles {
		if role != identity.RoleOwner || c.session.Role == identity.RoleOwner {
			all = append(all, option{Value: role, Label: c.role(role), Selected: role == now})
		}
	}
	return all
}

// showMembers lists who acts for the company, and who is asked to.
func showMembers(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	members, err := auth.Members(ctx, tx, c.session.Company.ID)
	if err != nil {
		return view{}, err
	}
	invited, err := auth.Invitations(ctx, tx, c.session.Company.ID)
	if err != nil {
		return view{}, err
	}
	p := membersPage{Company: c.session.Company.Name}
	for _, m := range members {
		shown := memberShown{Member: m, RoleName: c.role(m.Role), Self: m.UserID == c.session.User.ID}
		if c.session.Administers() && (m.Role != identity.RoleOwner || c.session.Role == identity.RoleOwner) {
			shown.Roles = c.rolesToGive(m.Role)
		}
		p.Members = append(p.Members, shown)
	}
	if c.session.Administers() {
		for _, v := range invited {
			p.Invitations = append(p.Invitations, invitedShown{v, c.role(v.Role), when(v.Expires)})
		}
		roles := c.field(field{Name: "role", Type: "select", Required: true, Options: c.rolesToGive(identity.RoleViewer)})
		if !c.form.Has("role") {
			roles.Options = c.rolesToGive(identity.RoleViewer)
		}
		p.Fields = []field{c.field(field{Name: "email", Type: "email", Autocomplete: "off", Required: true, Most: 254}), roles}
	}
	return view{page: "members", title: c.text("members.title"), data: p}, nil
}

// inviteMember asks somebody to act for the company, too.
func inviteMember(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	return view{redirect: "/settings/members"}, auth.Invite(ctx, tx, c.Sealer, c.by(), c.form.Get("email"), c.form.Get("role"), c.lang.tag)
}

// withdrawMember takes an invitation back.
func withdrawMember(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	return view{redirect: "/settings/members"}, auth.Withdraw(ctx, tx, c.by(), c.r.PathValue("id"))
}

// setRole makes a member something else.
func setRole(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	return view{redirect: "/settings/members"}, auth.SetRole(ctx, tx, c.by(), c.r.PathValue("user"), c.form.Get("role"))
}

// removeMember ends somebody's membership.
func removeMember(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	return view{redirect: "/settings/members"}, auth.RemoveMember(ctx, tx, c.by(), c.r.PathValue("user"))
}

// leaveCompany ends the reader's own.
func leaveCompany(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	return view{redirect: "/sign-in", cookie: c.cookie("")}, auth.RemoveMember(ctx, tx, c.by(), c.session.User.ID)
}

// joinPage is what the reader of an invitation to be a member sees.
type joinPage struct {
	Company, Role, Email, Until string
	Path                        string
	As                          string  // who is signed in, when that is not who is invited
	Known                       bool    // who is invited has an account
	Mine                        bool    // and it is the reader's
	Fields                      []field // for who has none
}

// invited is what a link invites to, and whether the reader is who it went to.
func (c *call) invited(ctx context.Context, tx *db.Tx) (v auth.Invitation, known, mine bool, err error) {
	if v, err = auth.FindInvitation(ctx, tx, c.r.PathValue("token")); err != nil {
		return v, false, false, err
	}
	u, err := identity.UserByEmail(ctx, tx, v.Email)
	if err != nil {
		return v, false, false, err
	}
	signedIn, err := c.find(ctx, tx)
	return v, u.ID != "", signedIn && c.session.User.ID == u.ID, err
}

// showJoin says who asks whom to act for which company.
func showJoin(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	v, known, mine, err := c.invited(ctx, tx)
	if err != nil {
		return view{}, err
	}
	company, err := identity.CompanyByID(ctx, tx, v.CompanyID)
	if err != nil {
		return view{}, err
	}
	p := joinPage{Company: company.Name, Role: c.role(v.Role), Email: v.Email, Until: when(v.Expires), Path: "/join/" + c.r.PathValue("token"), Known: known, Mine: mine}
	if c.session != nil && !mine {
		p.As = c.session.User.Email
	}
	if !known {
		p.Fields = []field{
			c.field(field{Name: "first_name", Autocomplete: "given-name", Required: true, Most: 100}),
			c.field(field{Name: "last_name", Autocomplete: "family-name", Required: true, Most: 100}),
			c.newPasswordField(),
		}
	}
	return view{page: "join", title: c.text("join.title", company.Name), data: p}, nil
}

// join makes the reader a member: with the account that they are signed in to, or with one that is made for them.
func join(ctx context.Context, _ *db.Tx, c *call) (view, error) {
	token := c.r.PathValue("token")
	var v auth.Invitation
	known, mine := false, false
	err := c.DB.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		v, known, mine, err = c.invited(ctx, tx)
		return err
	})
	switch {
	case err != nil:
		return view{}, err
	case known && !mine:
		return view{redirect: signInPath("/join/" + token)}, nil
	case mine && !c.proven():
		return view{}, errFormToken
	}
	n := auth.Newcomer{FirstName: c.form.Get("first_name"), LastName: c.form.Get("last_name")}
	if !known {
		n, err = n.Check()
		if n.PasswordHash, err = c.newPassword(ctx, v.Email, err); err != nil {
			return view{}, err
		}
	}
	done := view{redirect: "/account"}
	err = c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		u, err := auth.Join(ctx, tx, c.Sealer, token, n)
		if err != nil {
			return err
		}
		if mine {
			s := *c.session
			s.Members = append(slices.Clone(s.Members), identity.Member{CompanyID: v.CompanyID, UserID: u.ID, Role: v.Role})
			return session.ActFor(ctx, tx, s, v.CompanyID)
		}
		started, err := session.Start(ctx, tx, u.ID)
		done.cookie = c.cookie(started)
		return errors.Join(err, session.End(ctx, tx, c.token()))
	})
	return done, err
}
