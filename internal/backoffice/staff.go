// Package backoffice implements the actions of the operator's staff: pausing and resuming payouts, deciding screening
// matches, releasing payments above the release limit, crediting or returning unexpected money, and comparing the
// ledger with nodes and banks.
//
// Staff are not users of companies. Their accounts are created on the command line, and they sign in with a password
// and an authenticator on separate pages. A session ends after an hour without use, and after eight hours in any
// case. No role or key of a company gives access.
//
// One staff member can stop payouts, immediately. An action that releases stopped money, or moves more than the
// release limit, is requested by one staff member and approved by another. A member's [Role] decides which actions they
// take. Every action has a reason and is stored permanently with its actor and time.
package backoffice

import (
	"context"
	"errors"
	"net/mail"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payroll"
)

// Durations of a session.
const (
	Idle  = time.Hour        // a session ends after this time without use
	Life  = 8 * time.Hour    // a session ends after this time in any case
	Fresh = 15 * time.Minute // a session permits actions for this time after the sign-in, and reading until it ends
)

// attempts is the name under which package session counts the sign-in attempts of staff.
const attempts = "operator"

// Errors that staff see.
var (
	errReason  = apierr.New(apierr.Invalid, "reason_required", "Enter a reason for the audit log.")
	errNothing = apierr.New(apierr.Conflict, "invalid_state", "No change: already in this state.")
	errEmail   = apierr.New(apierr.Invalid, "invalid_parameter", "Enter a valid email address.")
	errTaken   = apierr.New(apierr.Conflict, "user_exists", "A member of staff already has this email address.")
)

// StaffMember is a member of the operator's staff.
type StaffMember struct {
	ID, Name, Email string
	Role            Role
	Created         time.Time

	hash, secret string
	account      string // issuer and subject at the operator's OpenID provider; "" for none
	version      int64
}

// Credentials are the sign-in credentials of a member of staff. They are shown once; only hashes and sealed values
// are stored.
type Credentials struct{ Password, Secret, URI string }

// Session is the session of a member of staff.
type Session struct {
	Member StaffMember
	Since  time.Time

	digest   string
	lastUsed time.Time
}

// MayAct reports whether the session is fresh enough for actions.
func (s Session) MayAct(now time.Time) bool { return now.Sub(s.Since) < Fresh }

// Deps are the dependencies of a Service. All are required; Setup may have no networks.
type Deps struct {
	Sealer       *identity.Sealer
	Payroll      *payroll.Service      // resumes a payroll whose release was approved
	ReleaseLimit approval.ReleaseLimit // a payment above this limit needs two members of staff
	Setup        destination.Setup     // validates the addresses to which deposits are returned
	// Screen reports whether an address is on a sanctions list.
	Screen func(ctx context.Context, tx *db.Tx, companyID, subjectID, address string) (blocked bool, err error)
}

// Service performs the actions of staff.
type Service struct{ deps Deps }

// New returns a Service. It refuses a missing dependency. A zero ReleaseLimit requires a second person for every
// amount.
func New(d Deps) (*Service, error) {
	switch {
	case d.Sealer == nil:
		return nil, errors.New("backoffice: Deps.Sealer is required")
	case d.Payroll == nil:
		return nil, errors.New("backoffice: Deps.Payroll is required")
	case d.Screen == nil:
		return nil, errors.New("backoffice: Deps.Screen is required")
	}
	return &Service{d}, nil
}

func secretContext(id string) identity.SealContext {
	return identity.SealContext{Table: "staff", Column: "secret", Row: id}
}

// Add adds a member of staff with a role. It is for the command line.
func Add(ctx context.Context, tx *db.Tx, s *identity.Sealer, name, email string, role Role) (o StaffMember,
	c Credentials, err error) {
	if !slices.Contains(Roles, role) {
		return o, c, errUnknownRole
	}
	if a, err := mail.ParseAddress(email); err != nil || a.Address != email {
		return o, c, errEmail
	}
	o = StaffMember{ID: tx.NewID("opr"), Name: strings.TrimSpace(name), Email: email, Role: role, Created: tx.Now(),
		version: 1}
	if c, err = o.setCredentials(s); err != nil {
		return o, c, err
	}
	if first, err := insert(ctx, tx, o); err != nil || !first {
		if err == nil {
			err = errTaken
		}
		return o, c, err
	}
	return o, c, record(ctx, tx, StaffMember{}, AuditEntry{
		Action: "operator.add", ObjectID: o.ID, Reason: string(role) + ": " + o.Name + " <" + o.Email + ">",
	})
}

// setCredentials sets a new password and authenticator secret.
func (o *StaffMember) setCredentials(s *identity.Sealer) (c Credentials, err error) {
	c.Password = identity.NewRecoveryCode() // a password of 120 random bits that is easy to type
	if o.hash, err = identity.HashPassword(c.Password); err != nil {
		return c, err
	}
	if c.Secret, c.URI, err = auth.NewSecret("Stipend operations", o.Email); err != nil {
		return c, err
	}
	o.secret, err = s.Seal(secretContext(o.ID), []byte(c.Secret))
	return c, err
}

// Reset gives a member of staff a new password and authenticator, and ends their sessions.
func Reset(ctx context.Context, tx *db.Tx, s *identity.Sealer, email string) (o StaffMember, c Credentials, err error) {
	if o, err = existing(ctx, tx, email); err != nil {
		return o, c, err
	}
	if c, err = o.setCredentials(s); err != nil {
		return o, c, err
	}
	if err := updateCredentials(ctx, tx, o); err != nil {
		return o, c, err
	}
	if err := endSessions(ctx, tx, o.ID); err != nil {
		return o, c, err
	}
	return o, c, RecordCommand(ctx, tx, "operator.reset", o.ID, "on the command line")
}

// existing returns the active member of staff with an email address, or apierr.NotFoundErr.
func existing(ctx context.Context, tx *db.Tx, email string) (StaffMember, error) {
	o, err := byEmail(ctx, tx, email)
	if err == nil && o.ID == "" {
		err = apierr.NotFoundErr
	}
	return o, err
}

// SetRole gives a member of staff another role, from their next request on, and drops their open requests.
func SetRole(ctx context.Context, tx *db.Tx, email string, role Role) error {
	if !slices.Contains(Roles, role) {
		return errUnknownRole
	}
	o, err := existing(ctx, tx, email)
	if err != nil {
		return err
	}
	if o.Role == role {
		return errNothing
	}
	if err := updateRole(ctx, tx, o, role); err != nil {
		return err
	}
	if err := approval.DropRequestsOf(ctx, tx, o.ID); err != nil {
		return err
	}
	return RecordCommand(ctx, tx, "operator.role", o.ID, string(o.Role)+" → "+string(role))
}

// Remove removes a member of staff, ends their sessions and drops their open requests.
func Remove(ctx context.Context, tx *db.Tx, email string) error {
	o, err := existing(ctx, tx, email)
	if err != nil {
		return err
	}
	if err := remove(ctx, tx, o); err != nil {
		return err
	}
	return RecordCommand(ctx, tx, "operator.remove", o.ID, "on the command line")
}

// ReleaseLimit returns the amount above which a second member of staff approves; without an asset there is none.
func (s *Service) ReleaseLimit() money.Amount { return s.deps.ReleaseLimit.Amount() }

// Attempt counts a sign-in attempt and reports whether it is allowed. Commit its transaction in any case, and check
// the password afterwards by [StaffMember.CheckPassword], which takes as long for an unknown address.
func Attempt(ctx context.Context, tx *db.Tx, email string, from netip.Addr) (o StaffMember, allowed bool, err error) {
	if allowed, err = session.AttemptOf(ctx, tx, attempts, email, from); err != nil {
		return o, false, err
	}
	o, err = byEmail(ctx, tx, email)
	return o, allowed, err
}

// CheckPassword reports whether the password is correct. It takes about 50 ms: call it outside a transaction.
func (o StaffMember) CheckPassword(password string) (bool, error) {
	return identity.CheckHash(o.hash, password)
}

// SignIn creates a session after the password was checked, if the code is the authenticator's at the real time at and
// was not used before. If ok is false, the attempt remains counted.
func (s *Service) SignIn(ctx context.Context, tx *db.Tx, o StaffMember, code string, at time.Time, from netip.Addr) (
	token string, ok bool, err error,
) {
	return s.signIn(ctx, tx, o, code, at, from, "")
}

func (s *Service) signIn(ctx context.Context, tx *db.Tx, o StaffMember, code string, at time.Time, from netip.Addr,
	how string) (token string, ok bool, err error) {
	secret, err := s.deps.Sealer.Open(secretContext(o.ID), o.secret)
	if err != nil {
		return "", false, err
	}
	step, ok, err := auth.MatchCode(string(secret), code, at)
	if err != nil || !ok {
		return "", false, err
	}
	if ok, err = takeStep(ctx, tx, o, step); err != nil || !ok {
		return "", false, err
	}
	if err := session.SucceededOf(ctx, tx, attempts, o.Email, from); err != nil {
		return "", false, err
	}
	token = identity.NewSessionToken()
	if err := insertSession(ctx, tx, identity.SessionDigest(token), o.ID); err != nil {
		return "", false, err
	}
	return token, true, record(ctx, tx, o, AuditEntry{Action: SignIn, Reason: how})
}

// errOtherAccount is returned if another account at the operator's OpenID provider has the address of a member of
// staff.
var errOtherAccount = apierr.New(apierr.Forbidden, "sso_other_account",
	"Another account at your provider signed in with this address before. Ask your administrator.")

// ByProvider returns the member of staff with an account at the operator's OpenID provider: the one who has signed in
// with it, or else the one with its email address who has signed in with none. It returns apierr.NotFoundErr if there
// is none.
func ByProvider(ctx context.Context, tx *db.Tx, account, email string) (StaffMember, error) {
	o, err := byAccount(ctx, tx, account)
	if err != nil || o.ID != "" {
		return o, err
	}
	if o, err = existing(ctx, tx, email); err == nil && o.account != "" {
		err = errOtherAccount
	}
	return o, err
}

// AttemptCode counts an attempt at the code of a member of staff whom the provider has authenticated, and reports
// whether it is allowed. Commit its transaction in any case.
func AttemptCode(ctx context.Context, tx *db.Tx, staffID string, from netip.Addr) (o StaffMember, allowed bool,
	err error) {
	if o, err = byID(ctx, tx, staffID); err != nil {
		return o, false, err
	}
	allowed, err = session.AttemptOf(ctx, tx, attempts, o.Email, from)
	return o, allowed, err
}

// SignInByProvider is [Service.SignIn] after the operator's OpenID provider instead of a password. It stores the
// account at the provider, so that no other account can sign in as this member.
func (s *Service) SignInByProvider(ctx context.Context, tx *db.Tx, o StaffMember, account, code string, at time.Time,
	from netip.Addr) (token string, ok bool, err error) {
	token, ok, err = s.signIn(ctx, tx, o, code, at, from, "single sign-on")
	if err != nil || !ok {
		return "", false, err
	}
	return token, true, setAccount(ctx, tx, o, account)
}

// Find returns the session of a token, or apierr.NotFoundErr if there is none or it has ended.
func Find(ctx context.Context, tx *db.Tx, token string) (Session, error) {
	digest := identity.SessionDigest(token)
	if digest == "" {
		return Session{}, apierr.NotFoundErr
	}
	return findSession(ctx, tx, digest)
}

// NeedsTouch reports whether the stored time of the last use needs an update.
func (s Session) NeedsTouch(now time.Time) bool { return now.Sub(s.lastUsed) >= 5*time.Minute }

// End ends a session.
func End(ctx context.Context, tx *db.Tx, token string) error {
	return endSession(ctx, tx, identity.SessionDigest(token))
}

// RecordCommand adds an action on the command line to the audit log.
func RecordCommand(ctx context.Context, tx *db.Tx, action, object, reason string) error {
	return record(ctx, tx, StaffMember{}, AuditEntry{Action: action, ObjectID: object, Reason: reason})
}
