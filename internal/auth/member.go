package auth

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/mail"
)

// joinLife is how long an invitation to be a member works.
const joinLife = 7 * 24 * time.Hour

// MaxInvitations is how many invitations of a company may be open at once: each is a mail to somebody who asked for none.
const MaxInvitations = 50

// What members are refused with.
var (
	ErrLastOwner   = apierr.New(apierr.Conflict, "last_owner", "A company has at least one owner. Make somebody else an owner first.")
	ErrOwnersOnly  = apierr.New(apierr.Forbidden, "role_required", "Only an owner makes somebody an owner, or changes one.")
	ErrMember      = apierr.New(apierr.Conflict, "invalid_state", "This person is a member already.")
	ErrTooMany     = apierr.New(apierr.Conflict, "invitation_limit_reached", "Fifty invitations wait for an answer. Withdraw one first.")
	errUnknownRole = apierr.New(apierr.Invalid, "invalid_parameter", "This takes owner, admin, developer or viewer.")
)

// Roles are what a member may be, from who may most to who may least.
var Roles = []string{identity.RoleOwner, identity.RoleAdmin, identity.RoleDeveloper, identity.RoleViewer}

// By is who changes the members of a company.
type By struct{ CompanyID, UserID, Role string }

// may says whether somebody may make a member of one role one of another; "" stands for no member.
func (b By) may(from, to string) error {
	if b.Role == identity.RoleOwner || b.Role == identity.RoleAdmin && from != identity.RoleOwner && to != identity.RoleOwner {
		return nil
	}
	return ErrOwnersOnly
}

func isRole(role string) error {
	if slices.Contains(Roles, role) {
		return nil
	}
	return errUnknownRole.At("body", "/role")
}

// Member is somebody who acts for a company.
type Member struct {
	UserID, Name, Email, Role string
	Factor                    bool // whether they have a second factor
}

// Members are those of a company, oldest first.
func Members(ctx context.Context, tx *db.Tx, companyID string) ([]Member, error) {
	return selectMembers(ctx, tx, companyID)
}

// Administrators are the addresses to which news for whoever runs a company goes, each with a name: the company's own, and those of the
// members who administer it.
func Administrators(ctx context.Context, tx *db.Tx, company identity.Company) (map[string]string, error) {
	members, err := selectMembers(ctx, tx, company.ID)
	if err != nil {
		return nil, err
	}
	to := map[string]string{}
	add := func(address, name string) {
		if mail.Valid(address) {
			to[address] = name
		}
	}
	add(company.Email, company.Name)
	for _, m := range members {
		if identity.Administers(m.Role) {
			add(m.Email, m.Name)
		}
	}
	return to, nil
}

// Invitation lets somebody become a member, by a link in a mail.
type Invitation struct {
	CompanyID, ID, Email, Role string
	Expires                    time.Time
}

// Invitations are those of a company that wait for an answer, oldest first.
func Invitations(ctx context.Context, tx *db.Tx, companyID string) ([]Invitation, error) {
	return selectInvitations(ctx, tx, companyID)
}

// Invite asks somebody by mail to become a member. Whether they have an account makes no difference that can be seen. A second
// invitation of an address replaces the first.
func Invite(ctx context.Context, tx *db.Tx, s *identity.Sealer, by By, email, role, language string) error {
	var problems apierr.List
	email = identity.Email(&problems, "/email", email, true)
	if err := problems.Err(); err != nil {
		return err
	}
	if !mail.Valid(email) {
		return mail.ErrAddress.At("body", "/email")
	}
	if err := cmp.Or(isRole(role), by.may("", role)); err != nil {
		return err
	}
	c, err := identity.CompanyByID(ctx, tx, by.CompanyID)
	if err != nil {
		return err
	}
	if err := c.Active(); err != nil {
		return err
	}
	version, members, err := lock(ctx, tx, by.CompanyID)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(members, func(m Member) bool { return identity.EmailKey(m.Email) == identity.EmailKey(email) }) {
		return ErrMember.At("body", "/email")
	}
	if err := deleteInvitations(ctx, tx, by.CompanyID, email); err != nil {
		return err
	}
	open, err := selectInvitations(ctx, tx, by.CompanyID)
	if err != nil {
		return err
	}
	if len(open) >= MaxInvitations {
		return ErrTooMany
	}
	token := identity.NewLinkToken()
	v := Invitation{CompanyID: by.CompanyID, ID: tx.NewID("mbi"), Email: email, Role: role, Expires: tx.Now().Add(joinLife)}
	if err := insertInvitation(ctx, tx, v, identity.LinkDigest(token), by.UserID); err != nil {
		return err
	}
	note(tx, by.CompanyID, version, "invited "+v.ID+" as "+role+" by "+by.UserID)
	return mail.Enqueue(ctx, tx, mail.Message{
		CompanyID: by.CompanyID, To: email, Template: mail.MemberInvited, Language: language, Key: v.ID, Sealer: s,
		Data: mail.MemberInvitedData{Company: c.Name, Role: role, Token: token, Expires: v.Expires},
	})
}

// Withdraw ends an invitation that was not answered.
func Withdraw(ctx context.Context, tx *db.Tx, by By, id string) error {
	return deleteInvitation(ctx, tx, by.CompanyID, id)
}

// FindInvitation is the one of a link, or apierr.NotFoundErr.
func FindInvitation(ctx context.Context, tx *db.Tx, token string) (Invitation, error) {
	digest := identity.LinkDigest(token)
	if digest == "" {
		return Invitation{}, apierr.NotFoundErr
	}
	return selectInvitation(ctx, tx, digest)
}

// Newcomer is somebody who is invited and has no account.
type Newcomer struct{ FirstName, LastName, PasswordHash string }

// Check normalises what somebody typed in, and says what is wrong with it.
func (n Newcomer) Check() (Newcomer, error) {
	var problems apierr.List
	n.FirstName = identity.Line(&problems, "/first_name", n.FirstName, 1, 100)
	n.LastName = identity.Line(&problems, "/last_name", n.LastName, 1, 100)
	return n, problems.Err()
}

// Join makes the user whose address was invited a member: who has no account gets one, of what the newcomer says. Who is a member
// already stays what they are.
func Join(ctx context.Context, tx *db.Tx, s *identity.Sealer, token string, n Newcomer) (identity.User, error) {
	v, err := FindInvitation(ctx, tx, token)
	if err != nil {
		return identity.User{}, err
	}
	if err := deleteInvitation(ctx, tx, v.CompanyID, v.ID); err != nil {
		return identity.User{}, err
	}
	c, err := identity.CompanyByID(ctx, tx, v.CompanyID)
	if err != nil {
		return identity.User{}, err
	}
	if err := c.Active(); err != nil {
		return identity.User{}, err
	}
	version, members, err := lock(ctx, tx, v.CompanyID)
	if err != nil {
		return identity.User{}, err
	}
	u, err := identity.UserByEmail(ctx, tx, v.Email)
	if err != nil {
		return u, err
	}
	switch {
	case u.ID != "" && n.PasswordHash != "": // they got an account in this moment, and are to sign in to it
		return u, identity.ErrEmailTaken
	case u.ID == "":
		u, err = identity.CreateUser(ctx, tx, s, identity.NewUser{
			Profile: identity.Profile{Email: v.Email, FirstName: n.FirstName, LastName: n.LastName}, PasswordHash: n.PasswordHash,
		})
		if err != nil {
			return u, err
		}
	}
	if slices.ContainsFunc(members, func(m Member) bool { return m.UserID == u.ID }) {
		return u, nil
	}
	note(tx, v.CompanyID, version, "joined: "+u.ID+" as "+v.Role)
	if err := identity.AddMember(ctx, tx, identity.Member{CompanyID: v.CompanyID, UserID: u.ID, Role: v.Role}); err != nil {
		return u, err
	}
	return u, Tell(ctx, tx, tx.NewID("evt"), v.CompanyID, mail.MemberJoined, v.Email+": "+v.Role)
}

// SetRole makes a member something else. The invitations that they sent end: what they may say is another now. Who may not manage any more loses the apps that they allowed to act for the company.
func SetRole(ctx context.Context, tx *db.Tx, by By, userID, role string) error {
	if err := isRole(role); err != nil {
		return err
	}
	version, m, err := changing(ctx, tx, by, userID, role)
	if err != nil || m.Role == role {
		return err
	}
	note(tx, by.CompanyID, version, strings.Join([]string{userID, "from", m.Role, "to", role, "by", by.UserID}, " "))
	if err := deleteInvitationsBy(ctx, tx, by.CompanyID, userID); err != nil {
		return err
	}
	if !identity.Manages(role) {
		if err := identity.RevokeGrants(ctx, tx, by.CompanyID, userID); err != nil {
			return err
		}
	}
	if err := identity.AddMember(ctx, tx, identity.Member{CompanyID: by.CompanyID, UserID: userID, Role: role}); err != nil {
		return err
	}
	return Tell(ctx, tx, tx.NewID("evt"), by.CompanyID, mail.RoleChanged, m.Email+": "+m.Role+" → "+role)
}

// RemoveMember ends a membership, another's or one's own: their sessions end, and so do the apps that they allowed to act for the
// company, and the invitations that they sent. Its API keys are the company's and stay.
func RemoveMember(ctx context.Context, tx *db.Tx, by By, userID string) error {
	version, m, err := changing(ctx, tx, by, userID, "")
	if err != nil {
		return err
	}
	note(tx, by.CompanyID, version, strings.Join([]string{userID, "removed from", m.Role, "by", by.UserID}, " "))
	return errors.Join(identity.DeleteMember(ctx, tx, by.CompanyID, userID), identity.RevokeGrants(ctx, tx, by.CompanyID, userID),
		deleteInvitationsBy(ctx, tx, by.CompanyID, userID), session.EndAll(ctx, tx, userID))
}

// changing is a member who may be changed so.
func changing(ctx context.Context, tx *db.Tx, by By, userID, to string) (version int64, m Member, err error) {
	version, members, err := lock(ctx, tx, by.CompanyID)
	if err != nil {
		return 0, m, err
	}
	i := slices.IndexFunc(members, func(m Member) bool { return m.UserID == userID })
	if i < 0 {
		return 0, m, apierr.NotFoundErr
	}
	m = members[i]
	leaves := userID == by.UserID && to == "" // everybody may
	if err := by.may(m.Role, to); err != nil && !leaves {
		return 0, m, err
	}
	owners := slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return m.Role != identity.RoleOwner })
	if m.Role == identity.RoleOwner && to != identity.RoleOwner && len(owners) == 1 {
		return 0, m, ErrLastOwner
	}
	return version, m, nil
}

// lock keeps others from changing the members until the commit, and gives the change the company's next version.
func lock(ctx context.Context, tx *db.Tx, companyID string) (version int64, members []Member, err error) {
	if version, err = identity.NextCompanyVersion(ctx, tx, companyID); err != nil {
		return 0, nil, err
	}
	members, err = selectMembers(ctx, tx, companyID)
	return version, members, err
}

// note writes a change of the members into the company's history.
func note(tx *db.Tx, companyID string, version int64, what string) {
	db.History(tx, companyID, companyID, version, "", "", "members: "+what)
}
