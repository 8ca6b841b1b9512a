// Package backoffice owns the house's own people and what they do: stop and resume payouts, decide about sanctions hits, release what is
// above the house's limit.
//
// An operator is nobody's member. They are made at the machine, sign in by password and authenticator together at pages of their own,
// and have a session of their own kind, which ends after an hour without use and after eight hours in any case. Nothing that a company
// gives, role or key, leads there.
//
// What stops money one operator does alone, at once. What lets money go that was stopped, or is above the house's limit, one asks for
// and another one agrees to. Every act has a reason, and is kept with who did it and when, for good.
package backoffice

import (
	"context"
	"errors"
	"net/mail"
	"net/netip"
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

// How long a session lives.
const (
	Idle = time.Hour
	Life = 8 * time.Hour
	// Fresh is how long after signing in an operator may act. Looking takes the whole session.
	Fresh = 15 * time.Minute
)

// attempts names operators where tries are counted.
const attempts = "operator"

// What is refused.
var (
	errReason  = apierr.New(apierr.Invalid, "reason_required", "Say why, for whoever examines it.")
	errNothing = apierr.New(apierr.Conflict, "invalid_state", "There is nothing to do: it is so already.")
	errEmail   = apierr.New(apierr.Invalid, "invalid_parameter", "This is no email address.")
	errTaken   = apierr.New(apierr.Conflict, "user_exists", "An operator has this address already.")
)

// Operator is one of the house's own people.
type Operator struct {
	ID, Name, Email string
	Created         time.Time

	hash, secret string
	version      int64
}

// Credentials are what a new operator signs in with. They are shown once and kept nowhere.
type Credentials struct{ Password, Secret, URI string }

// Session is an operator who is signed in.
type Session struct {
	Operator Operator
	Since    time.Time

	digest   string
	lastUsed time.Time
}

// Acts says whether the operator signed in lately enough to act.
func (s Session) Acts(now time.Time) bool { return now.Sub(s.Since) < Fresh }

// Deps are what a Service needs. All are required, except that Setup may have no networks.
type Deps struct {
	Sealer       *identity.Sealer
	Payroll      *payroll.Service      // resumed when its release is approved
	ReleaseLimit approval.ReleaseLimit // above it, one member of staff requests and another approves
	Setup        destination.Setup     // tells which addresses can be paid
	// Screen reports whether an address is on a sanctions list.
	Screen func(ctx context.Context, tx *db.Tx, companyID, subjectID, address string) (blocked bool, err error)
}

// Service does what staff do.
type Service struct{ deps Deps }

// New returns a Service. It refuses a missing dependency, and above all a missing guard. A zero ReleaseLimit requires a second person
// for every amount.
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

func place(id string) identity.Place {
	return identity.Place{Table: "staff", Column: "secret", Row: id}
}

// Add makes an operator. It is for the machine, not for pages.
func Add(ctx context.Context, tx *db.Tx, s *identity.Sealer, name, email string) (o Operator, c Credentials, err error) {
	if a, err := mail.ParseAddress(email); err != nil || a.Address != email {
		return o, c, errEmail
	}
	o = Operator{ID: tx.NewID("opr"), Name: strings.TrimSpace(name), Email: email, Created: tx.Now(), version: 1}
	if c, err = o.arm(s); err != nil {
		return o, c, err
	}
	if first, err := insert(ctx, tx, o); err != nil || !first {
		if err == nil {
			err = errTaken
		}
		return o, c, err
	}
	return o, c, note(ctx, tx, Operator{}, Act{Action: "operator.add", ObjectID: o.ID, Reason: o.Name + " <" + o.Email + ">"})
}

// arm gives an operator a password and an authenticator.
func (o *Operator) arm(s *identity.Sealer) (c Credentials, err error) {
	c.Password = identity.NewRecoveryCode() // 80 random bits that can be typed
	if o.hash, err = identity.HashPassword(c.Password); err != nil {
		return c, err
	}
	if c.Secret, c.URI, err = auth.NewSecret("Stipend operations", o.Email); err != nil {
		return c, err
	}
	o.secret, err = s.Seal(place(o.ID), []byte(c.Secret))
	return c, err
}

// Reset gives an operator another password and authenticator, and ends their sessions.
func Reset(ctx context.Context, tx *db.Tx, s *identity.Sealer, email string) (o Operator, c Credentials, err error) {
	if o, err = byEmail(ctx, tx, email); err != nil || o.ID == "" {
		if err == nil {
			err = apierr.NotFoundErr
		}
		return o, c, err
	}
	if c, err = o.arm(s); err != nil {
		return o, c, err
	}
	if err := rearm(ctx, tx, o); err != nil {
		return o, c, err
	}
	if err := endSessions(ctx, tx, o.ID); err != nil {
		return o, c, err
	}
	return o, c, note(ctx, tx, Operator{}, Act{Action: "operator.reset", ObjectID: o.ID, Reason: "at the machine"})
}

// Remove ends an operator and their sessions. What they asked for, and nobody has agreed to, is dropped.
func Remove(ctx context.Context, tx *db.Tx, email string) error {
	o, err := byEmail(ctx, tx, email)
	if err != nil {
		return err
	}
	if o.ID == "" {
		return apierr.NotFoundErr
	}
	if err := remove(ctx, tx, o); err != nil {
		return err
	}
	return note(ctx, tx, Operator{}, Act{Action: "operator.remove", ObjectID: o.ID, Reason: "at the machine"})
}

// List is every operator, by address.
func List(ctx context.Context, tx *db.Tx) ([]Operator, error) { return list(ctx, tx) }

// ReleaseLimit returns the amount above which a second member of staff approves; without an asset there is none.
func (s *Service) ReleaseLimit() money.Amount { return s.deps.ReleaseLimit.Amount() }

// Attempt takes one of the tries at signing in. Its transaction must be committed whatever comes of it, and the password be checked
// only after, by [Operator.CheckPassword]: somebody unknown takes as long.
func Attempt(ctx context.Context, tx *db.Tx, email string, from netip.Addr) (o Operator, allowed bool, err error) {
	if allowed, err = session.AttemptOf(ctx, tx, attempts, email, from); err != nil {
		return o, false, err
	}
	o, err = byEmail(ctx, tx, email)
	return o, allowed, err
}

// CheckPassword says whether it is the operator's. It takes some 50 ms: call it outside a transaction.
func (o Operator) CheckPassword(password string) (bool, error) {
	return identity.CheckHash(o.hash, password)
}

// SignIn begins a session of an operator whose password was right, when the code is their authenticator's and was not taken before. at
// is the time on the wall. Without ok the try stays counted.
func (s *Service) SignIn(ctx context.Context, tx *db.Tx, o Operator, code string, at time.Time, from netip.Addr) (token string, ok bool, err error) {
	secret, err := s.deps.Sealer.Open(place(o.ID), o.secret)
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
	return token, true, note(ctx, tx, o, Act{Action: "sign_in"})
}

// Find reads the session of a token. Whatever has ended, or never was, is apierr.NotFoundErr.
func Find(ctx context.Context, tx *db.Tx, token string) (Session, error) {
	digest := identity.SessionDigest(token)
	if digest == "" {
		return Session{}, apierr.NotFoundErr
	}
	return findSession(ctx, tx, digest)
}

// NeedsTouch says whether the last use on record is old enough to be written anew.
func (s Session) NeedsTouch(now time.Time) bool { return now.Sub(s.lastUsed) >= 5*time.Minute }

// Touch records that a session was used now.
func Touch(ctx context.Context, tx *db.Tx, s Session) error { return touch(ctx, tx, s.digest) }

// End signs out.
func End(ctx context.Context, tx *db.Tx, token string) error {
	return endSession(ctx, tx, identity.SessionDigest(token))
}

// Act is one thing that an operator did.
type Act struct {
	ID                                  string
	At                                  time.Time
	OperatorID, Name                    string // the ID is "" for somebody at the machine
	Action, CompanyID, ObjectID, Reason string
}

// Acts pages what was done, newest first, and says how many acts there are.
func Acts(ctx context.Context, tx *db.Tx, page, perPage int) ([]Act, int64, error) {
	return acts(ctx, tx, perPage, int64(max(page, 1)-1)*int64(perPage))
}

// AtTheMachine keeps what somebody did at the machine itself.
func AtTheMachine(ctx context.Context, tx *db.Tx, action, object, reason string) error {
	return note(ctx, tx, Operator{}, Act{Action: action, ObjectID: object, Reason: reason})
}
