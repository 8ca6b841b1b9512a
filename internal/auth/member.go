package auth

import (
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

// joinLife is how long a membership invitation is valid.
const joinLife = 7 * 24 * time.Hour

// MaxInvitations is the maximum number of open membership invitations of a company.
const MaxInvitations = 50

// Errors for members.
var (
	ErrLastOwner = apierr.New(apierr.Conflict, "last_owner",
		"A company must have at least one owner. Make another member an owner first.")
	ErrOwnersOnly = apierr.New(apierr.Forbidden, "role_required",
		"Only an owner can add, change or remove an owner. Ask an owner.")
	ErrMember  = apierr.New(apierr.Conflict, "invalid_state", "This person is already a member.")
	ErrTooMany = apierr.New(apierr.Conflict, "invitation_limit_reached",
		"This company has 50 open invitations. Withdraw one first.")
	ErrRole = apierr.New(apierr.Forbidden, "role_required",
		"Your role in this company does not permit this any more. Ask an owner or administrator.")
	errUnknownRole = apierr.New(apierr.Invalid, "invalid_parameter", "The role must be owner, admin, developer or viewer.")
)

// Roles are the roles of members, from most to fewest permissions.
var Roles = []string{identity.RoleOwner, identity.RoleAdmin, identity.RoleDeveloper, identity.RoleViewer}

// Actor is the member who changes the members of a company. The member's role is read when the change is made,
// because the role that a page read earlier may have changed since.
type Actor struct{ CompanyID, UserID string }

// may returns an error if a member with a role may not change another member's role from one role to another. An
// empty role means "not a member". Owners may change every role, and administrators every role except that of owners.
func may(role, from, to string) error {
	switch {
	case role == identity.RoleOwner:
		return nil
	case !identity.Administers(role):
		return ErrRole
	case from == identity.RoleOwner || to == identity.RoleOwner:
		return ErrOwnersOnly
	}
	return nil
}

// checkRole returns an error for an unknown role.
func checkRole(role string) error {
	if slices.Contains(Roles, role) {
		return nil
	}
	return errUnknownRole.At("body", "/role")
}

// Member is a member of a company.
type Member struct {
	UserID, Name, Email, Role string
	Factor                    bool // reports whether the member has a second factor
}

// Administrators returns the email addresses, with names, that receive notices for the administrators of a company:
// the company's address and the addresses of its owners and administrators.
func Administrators(ctx context.Context, tx *db.Tx, company identity.Company) (map[string]string, error) {
	members, err := Members(ctx, tx, company.ID)
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

// Invitation is an invitation to become a member of a company, sent as a link in a mail.
type Invitation struct {
	CompanyID, ID, Email, Role string
	Expires                    time.Time
}

// Invite sends an invitation. Its result does not reveal whether the address has an account. A second invitation to
// an address replaces the first.
func Invite(ctx context.Context, tx *db.Tx, s *identity.Sealer, by Actor, email, role, language string) error {
	email, err := Invitable(email)
	if err != nil {
		return err
	}
	if err := checkRole(role); err != nil {
		return err
	}
	c, err := identity.CompanyByID(ctx, tx, by.CompanyID)
	if err != nil {
		return err
	}
	if err := c.Active(); err != nil {
		return err
	}
	version, members, err := Lock(ctx, tx, by.CompanyID)
	if err != nil {
		return err
	}
	if err := may(members.Role(by.UserID), "", role); err != nil {
		return err
	}
	key := identity.EmailKey(email)
	if slices.ContainsFunc(members, func(m Member) bool { return identity.EmailKey(m.Email) == key }) {
		return ErrMember.At("body", "/email")
	}
	if err := deleteInvitations(ctx, tx, by.CompanyID, email); err != nil {
		return err
	}
	open, err := Invitations(ctx, tx, by.CompanyID)
	if err != nil {
		return err
	}
	if len(open) >= MaxInvitations {
		return ErrTooMany
	}
	_, err = sendInvitation(ctx, tx, s, c, version, email, role, language, by.UserID)
	return err
}

// InviteOwner invites the first owner of a company that a platform created. It replaces an earlier such invitation.
// author is the platform's app. InviteOwner returns ErrMember if the company already has members.
func InviteOwner(ctx context.Context, tx *db.Tx, s *identity.Sealer, companyID, email, language, author string) (
	Invitation, error) {
	email, err := Invitable(email)
	if err != nil {
		return Invitation{}, err
	}
	version, members, err := Lock(ctx, tx, companyID)
	if err != nil {
		return Invitation{}, err
	}
	if len(members) > 0 {
		return Invitation{}, ErrMember.Detailf("The company has members. An owner or administrator invites others.")
	}
	c, err := identity.CompanyByID(ctx, tx, companyID)
	if err != nil {
		return Invitation{}, err
	}
	if err := deleteInvitationsBy(ctx, tx, companyID, author); err != nil {
		return Invitation{}, err
	}
	return sendInvitation(ctx, tx, s, c, version, email, identity.RoleOwner, language, author)
}

// Invitable normalizes an email address, and returns an error if no invitation can be sent to it.
func Invitable(email string) (string, error) {
	var problems apierr.List
	email = identity.Email(&problems, "/email", email, true)
	if err := problems.Err(); err != nil {
		return "", err
	}
	if !mail.Valid(email) {
		return "", mail.ErrAddress.At("body", "/email")
	}
	return email, nil
}

// sendInvitation stores an invitation and mails its link.
func sendInvitation(ctx context.Context, tx *db.Tx, s *identity.Sealer, c identity.Company, version int64, email, role,
	language, author string) (Invitation, error) {
	token := identity.NewLinkToken()
	v := Invitation{CompanyID: c.ID, ID: tx.NewID("mbi"), Email: email, Role: role,
		Expires: tx.Now().Add(joinLife)}
	if err := insertInvitation(ctx, tx, v, identity.LinkDigest(token), author); err != nil {
		return v, err
	}
	record(tx, c.ID, version, "invited "+v.ID+" as "+role+" by "+author)
	return v, mail.Enqueue(ctx, tx, mail.Message{
		CompanyID: c.ID, To: email, Template: mail.MemberInvited, Language: language, Key: v.ID, Sealer: s,
		Data: mail.MemberInvitedData{Company: c.Name, Role: role, Token: token, Expires: v.Expires},
	})
}

// Withdraw deletes an open invitation.
func Withdraw(ctx context.Context, tx *db.Tx, by Actor, id string) error {
	version, members, err := Lock(ctx, tx, by.CompanyID)
	if err != nil {
		return err
	}
	if !identity.Administers(members.Role(by.UserID)) {
		return ErrRole
	}
	record(tx, by.CompanyID, version, "withdrew "+id+" by "+by.UserID)
	return deleteInvitation(ctx, tx, by.CompanyID, id)
}

// FindInvitation returns the invitation for the token of an invitation link, or apierr.NotFoundErr.
func FindInvitation(ctx context.Context, tx *db.Tx, token string) (Invitation, error) {
	digest := identity.LinkDigest(token)
	if digest == "" {
		return Invitation{}, apierr.NotFoundErr
	}
	return selectInvitation(ctx, tx, digest)
}

// Newcomer contains the data of an invited person who has no account.
type Newcomer struct{ FirstName, LastName, PasswordHash string }

// Check normalizes the data and returns its problems.
func (n Newcomer) Check() (Newcomer, error) {
	var problems apierr.List
	n.FirstName = identity.Line(&problems, "/first_name", n.FirstName, 1, 100)
	n.LastName = identity.Line(&problems, "/last_name", n.LastName, 1, 100)
	return n, problems.Err()
}

// Join makes the invited person a member, and creates an account for them if they have none. A person who is already
// a member keeps their role.
func Join(ctx context.Context, tx *db.Tx, s *identity.Sealer, token string, n Newcomer) (identity.User, error) {
	v, err := FindInvitation(ctx, tx, token)
	if err != nil {
		return identity.User{}, err
	}
	return acceptInvitation(ctx, tx, s, v, n)
}

// JoinInvited is like [Join], for a person who has proved that an address is theirs in another way than by the link.
// It returns apierr.NotFoundErr if the company has not invited the address. An account that it creates has no
// password.
func JoinInvited(ctx context.Context, tx *db.Tx, s *identity.Sealer, companyID, email string, n Newcomer) (
	identity.User, error) {
	all, err := Invitations(ctx, tx, companyID)
	if err != nil {
		return identity.User{}, err
	}
	for _, v := range all {
		if identity.EmailKey(v.Email) == identity.EmailKey(email) {
			n.PasswordHash = ""
			return acceptInvitation(ctx, tx, s, v, n)
		}
	}
	return identity.User{}, apierr.NotFoundErr
}

func acceptInvitation(ctx context.Context, tx *db.Tx, s *identity.Sealer, v Invitation, n Newcomer) (identity.User,
	error) {
	version, members, err := Lock(ctx, tx, v.CompanyID)
	if err != nil {
		return identity.User{}, err
	}
	// Removing the member who sent the invitation withdraws it, which may have been committed before the lock was
	// acquired.
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
	u, err := identity.UserByEmail(ctx, tx, v.Email)
	if err != nil {
		return u, err
	}
	switch {
	case u.ID != "" && n.PasswordHash != "": // the account was created in the meantime: the person must sign in to it
		return u, identity.ErrEmailTaken
	case u.ID == "":
		u, err = identity.CreateUser(ctx, tx, s, identity.NewUser{
			Profile:      identity.Profile{Email: v.Email, FirstName: n.FirstName, LastName: n.LastName},
			PasswordHash: n.PasswordHash,
		})
		if err != nil {
			return u, err
		}
	}
	if slices.ContainsFunc(members, func(m Member) bool { return m.UserID == u.ID }) {
		return u, nil
	}
	record(tx, v.CompanyID, version, "joined: "+u.ID+" as "+v.Role)
	err = identity.AddMember(ctx, tx, identity.Member{CompanyID: v.CompanyID, UserID: u.ID, Role: v.Role})
	if err != nil {
		return u, err
	}
	if required, err := session.SSORequired(ctx, tx, u.ID); err != nil {
		return u, err
	} else if required {
		if err := session.EndWithoutSSO(ctx, tx, u.ID); err != nil {
			return u, err
		}
	}
	return u, NotifyAdministrators(ctx, tx, tx.NewID("evt"), v.CompanyID, mail.MemberJoined, v.Email+": "+v.Role)
}

// SetRole changes a member's role and withdraws the invitations that the member sent. If the new role may not manage
// the company, SetRole also revokes the consents to apps that the member gave for the company.
func SetRole(ctx context.Context, tx *db.Tx, by Actor, userID, role string) error {
	if err := checkRole(role); err != nil {
		return err
	}
	version, m, err := changing(ctx, tx, by, userID, role)
	if err != nil || m.Role == role {
		return err
	}
	record(tx, by.CompanyID, version, strings.Join([]string{userID, "from", m.Role, "to", role, "by", by.UserID}, " "))
	if err := deleteInvitationsBy(ctx, tx, by.CompanyID, userID); err != nil {
		return err
	}
	if !identity.Manages(role) {
		if err := identity.RevokeGrants(ctx, tx, by.CompanyID, userID); err != nil {
			return err
		}
	}
	err = identity.AddMember(ctx, tx, identity.Member{CompanyID: by.CompanyID, UserID: userID, Role: role})
	if err != nil {
		return err
	}
	return NotifyAdministrators(ctx, tx, tx.NewID("evt"), by.CompanyID, mail.RoleChanged, m.Email+": "+m.Role+" → "+role)
}

// RemoveMember removes a member, who may be the actor. It also ends the member's sessions, revokes the consents to
// apps that the member gave for the company, and withdraws the invitations that the member sent. API keys belong to
// the company and stay valid.
func RemoveMember(ctx context.Context, tx *db.Tx, by Actor, userID string) error {
	version, m, err := changing(ctx, tx, by, userID, "")
	if err != nil {
		return err
	}
	record(tx, by.CompanyID, version, strings.Join([]string{userID, "removed from", m.Role, "by", by.UserID}, " "))
	return errors.Join(identity.DeleteMember(ctx, tx, by.CompanyID, userID),
		identity.RevokeGrants(ctx, tx, by.CompanyID, userID),
		deleteInvitationsBy(ctx, tx, by.CompanyID, userID), deleteSearches(ctx, tx, by.CompanyID, userID),
		session.EndAll(ctx, tx, userID))
}

// changing locks the members of the company and returns the member to change, with the company's next version. It
// returns an error if the actor may not change the member's role to the role to, where "" means removal.
func changing(ctx context.Context, tx *db.Tx, by Actor, userID, to string) (version int64, m Member, err error) {
	version, members, err := Lock(ctx, tx, by.CompanyID)
	if err != nil {
		return 0, m, err
	}
	i := slices.IndexFunc(members, func(m Member) bool { return m.UserID == userID })
	if i < 0 {
		return 0, m, apierr.NotFoundErr
	}
	m = members[i]
	leaves := userID == by.UserID && to == "" // every member may leave
	if err := may(members.Role(by.UserID), m.Role, to); err != nil && !leaves {
		return 0, m, err
	}
	owners := slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return m.Role != identity.RoleOwner })
	if m.Role == identity.RoleOwner && to != identity.RoleOwner && len(owners) == 1 {
		return 0, m, ErrLastOwner
	}
	return version, m, nil
}

// Team contains the members of a company.
type Team []Member

// Role returns the role of a user, or "" if they are not a member.
func (t Team) Role(userID string) string {
	for _, m := range t {
		if m.UserID == userID {
			return m.Role
		}
	}
	return ""
}

// Lock prevents concurrent changes of a company's members until the commit, and returns the company's next version
// and its members. Changes that depend on a member's role and outlast the transaction must read the role with Lock,
// because a role that was read without the lock may have changed in a concurrent transaction.
func Lock(ctx context.Context, tx *db.Tx, companyID string) (version int64, members Team, err error) {
	if version, err = identity.NextCompanyVersion(ctx, tx, companyID); err != nil {
		return 0, nil, err
	}
	members, err = Members(ctx, tx, companyID)
	return version, members, err
}

// record writes a change of the members to the company's history.
func record(tx *db.Tx, companyID string, version int64, what string) {
	db.History(tx, companyID, companyID, version, "", "", "members: "+what)
}
