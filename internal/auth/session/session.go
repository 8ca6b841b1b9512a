// Package session owns the sessions of the web pages and limits sign-in attempts.
//
// A session token is 256 random bits in a cookie; only its digest is stored. Signing in creates a new session, which
// prevents session fixation. A session ends after 12 hours without use, after seven days, or when the person signs
// out. It stores no permissions: memberships are read at each request, so a revoked role takes effect at the next
// request.
//
// A person with a second factor first gets a session with which they can only present the factor. The time of the
// last factor is stored, because sensitive actions require a recent one.
//
// The package does not depend on cookies or pages. It does not check passwords: a check takes 50 ms by design, so the
// caller does it between two transactions, [Attempt] and [Start].
package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/text/unicode/norm"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

// Lifetimes of a session.
const (
	Idle = 12 * time.Hour     // without use
	Life = 7 * 24 * time.Hour // in total
	Wait = 10 * time.Minute   // of a session that waits for the second factor
)

// Fresh is how long after a second factor sensitive actions do not require another one.
const Fresh = identity.FreshFactor

// FreshSignIn is how long after signing in a person may set up their first second factor.
const FreshSignIn = 5 * time.Minute

// touchEvery is the minimum interval between updates of a session's last use.
const touchEvery = 5 * time.Minute

// Maximum numbers of wrong passwords within Window.
const (
	MaxAttempts = 5   // from one network, for all accounts
	MaxAgainst  = 100 // for one account, from all networks
	Window      = 15 * time.Minute
)

// Session is a signed-in person.
type Session struct {
	ID      string
	User    identity.User
	Company identity.Company  // company for which the person acts; has no ID if there is none
	Role    string            // role in Company
	Members []identity.Member // memberships in companies that are not closed, oldest first
	Since   time.Time         // when the person signed in
	Factor  time.Time         // last presentation of a second factor; zero means never
	SSO     string            // company whose OpenID provider authenticated the person, or ""

	digest   string
	lastUsed time.Time
}

// Principal returns the principal of the session. It has no scopes, because pages check the role instead.
func (s Session) Principal() identity.Principal {
	return identity.Principal{Kind: identity.KindSession, ID: s.ID, CompanyID: s.Company.ID, UserID: s.User.ID}
}

// Manages reports whether the person may change the company's apps, keys and webhooks.
func (s Session) Manages() bool { return s.Company.ID != "" && identity.Manages(s.Role) }

// Administers reports whether the person may change the company's members and approve payments.
func (s Session) Administers() bool { return s.Company.ID != "" && identity.Administers(s.Role) }

// ErrSSORequired is returned if a person tries to sign in without the OpenID provider that their company requires.
var ErrSSORequired = apierr.New(apierr.Forbidden, "sso_required",
	"Your company requires single sign-on. Sign in with single sign-on instead.")

// SSORequired reports whether a person must sign in through the OpenID provider of a company: they are a member, the
// company enforces single sign-on, and their address is in one of its verified domains.
func SSORequired(ctx context.Context, tx *db.Tx, userID string) (bool, error) {
	u, err := identity.GetUser(ctx, tx, nil, userID)
	if err != nil {
		return false, err
	}
	return selectEnforced(ctx, tx, userID, identity.EmailDomain(u.Email))
}

// Start signs a user in and returns the token of the new session, whose digest alone is stored. Like all functions
// that start a session, it returns ErrSSORequired if the user must sign in through a company's OpenID provider.
func Start(ctx context.Context, tx *db.Tx, userID string) (token string, err error) {
	return insertSession(ctx, tx, userID, "", 0, false)
}

// StartSSO signs in a user whom a company's OpenID provider has authenticated. The session acts for that company. If
// waits is true, the user must first present a second factor, as after [StartWaiting].
func StartSSO(ctx context.Context, tx *db.Tx, userID, companyID string, waits bool) (token string, err error) {
	return insertSession(ctx, tx, userID, companyID, 0, waits)
}

// StartWaiting starts a session that waits for a second factor. Only [FindWaiting] accepts its token.
func StartWaiting(ctx context.Context, tx *db.Tx, userID string) (token string, err error) {
	return insertSession(ctx, tx, userID, "", 0, true)
}

// StartProven signs in a user who has just presented a second factor, and ends the session with the token previous.
// If that session belonged to the user and was started through an OpenID provider, the new session also counts as
// started through the provider.
func StartProven(ctx context.Context, tx *db.Tx, userID, previous string) (token string, err error) {
	owner, sso, err := selectSSO(ctx, tx, identity.SessionDigest(previous))
	if err != nil {
		return "", err
	}
	if owner != userID {
		sso = ""
	}
	if err := End(ctx, tx, previous); err != nil {
		return "", err
	}
	return insertSession(ctx, tx, userID, sso, db.Micros(tx.Now()), false)
}

// EndWithoutSSO ends those sessions of a person that were not started through an OpenID provider.
func EndWithoutSSO(ctx context.Context, tx *db.Tx, userID string) error {
	return deleteSessionsWithoutSSO(ctx, tx, userID)
}

// EndSSO ends the sessions that were started through the OpenID provider of a company.
func EndSSO(ctx context.Context, tx *db.Tx, companyID string) error {
	return deleteSSOSessions(ctx, tx, companyID)
}

// FindWaiting returns the user of a session that waits for a second factor, or apierr.NotFoundErr.
func FindWaiting(ctx context.Context, tx *db.Tx, token string) (identity.User, error) {
	digest := identity.SessionDigest(token)
	if digest == "" {
		return identity.User{}, apierr.NotFoundErr
	}
	userID, err := selectWaiting(ctx, tx, digest)
	if err != nil {
		return identity.User{}, err
	}
	return identity.GetUser(ctx, tx, nil, userID)
}

// Prove records that the person has just presented a second factor.
func Prove(ctx context.Context, tx *db.Tx, s Session) error { return prove(ctx, tx, s.digest) }

// Proven reports whether the person has presented a second factor in this session.
func (s Session) Proven() bool { return !s.Factor.IsZero() }

// ProvenFreshly reports whether the person has presented a second factor within [Fresh].
func (s Session) ProvenFreshly(now time.Time) bool { return s.Proven() && now.Sub(s.Factor) < Fresh }

// SignedInFreshly reports whether the person signed in within [FreshSignIn].
func (s Session) SignedInFreshly(now time.Time) bool { return now.Sub(s.Since) < FreshSignIn }

// Find returns the session with a token. It returns apierr.NotFoundErr for an unknown token and an ended session.
func Find(ctx context.Context, tx *db.Tx, token string) (Session, error) {
	digest := identity.SessionDigest(token)
	if digest == "" {
		return Session{}, apierr.NotFoundErr
	}
	s, userID, companyID, err := selectSession(ctx, tx, digest)
	if err != nil {
		return Session{}, err
	}
	if s.User, err = identity.GetUser(ctx, tx, nil, userID); err != nil {
		return Session{}, err
	}
	members, err := identity.Memberships(ctx, tx, userID)
	if err != nil {
		return Session{}, err
	}
	for _, m := range members {
		c, err := identity.CompanyByID(ctx, tx, m.CompanyID)
		if err != nil {
			return Session{}, err
		}
		if c.Status == identity.CompanyClosed {
			continue
		}
		s.Members = append(s.Members, m)
		if s.Company.ID == "" || c.ID == companyID {
			s.Company, s.Role = c, m.Role
		}
	}
	return s, nil
}

// NeedsTouch reports whether the last recorded use is old enough to be updated.
func (s Session) NeedsTouch(now time.Time) bool { return now.Sub(s.lastUsed) >= touchEvery }

// Touch records that the session is used now. It does not revive an ended session.
func Touch(ctx context.Context, tx *db.Tx, s Session) error { return touch(ctx, tx, s.digest) }

// KeepForm encrypts and stores the values of a form that was submitted without the second factor that it requires. A
// session keeps only the latest form.
func KeepForm(ctx context.Context, tx *db.Tx, k *identity.Sealer, s Session, form []byte) error {
	sealed, err := k.Seal(s.keptForm(), form)
	if err != nil {
		return err
	}
	return keepForm(ctx, tx, s.digest, sealed)
}

// KeptForm returns the form that [KeepForm] stored within the last [Fresh], or nil.
func KeptForm(ctx context.Context, tx *db.Tx, k *identity.Sealer, s Session) ([]byte, error) {
	sealed, err := selectKeptForm(ctx, tx, s.digest, db.Micros(tx.Now().Add(-Fresh)))
	if err != nil || sealed == "" {
		return nil, err
	}
	return k.Open(s.keptForm(), sealed)
}

func (s Session) keptForm() identity.SealContext {
	return identity.SealContext{Table: "sessions", Column: "kept_form", Row: s.ID}
}

// ActFor selects the company for which a session acts. It returns apierr.NotFoundErr if the person is not a member.
func ActFor(ctx context.Context, tx *db.Tx, s Session, companyID string) error {
	for _, m := range s.Members {
		if m.CompanyID == companyID {
			return setCompany(ctx, tx, s.digest, companyID)
		}
	}
	return apierr.NotFoundErr
}

// End ends the session with a token. It ignores an unknown token.
func End(ctx context.Context, tx *db.Tx, token string) error {
	return deleteSession(ctx, tx, identity.SessionDigest(token))
}

// EndAll ends all sessions of a person.
func EndAll(ctx context.Context, tx *db.Tx, userID string) error {
	return deleteSessions(ctx, tx, userID)
}

// EndOthers ends all other sessions of the session's person.
func EndOthers(ctx context.Context, tx *db.Tx, s Session) error {
	return deleteOtherSessions(ctx, tx, s.User.ID, s.digest)
}

// Attempt counts an attempt at a password and returns the user with the email address; the user has no ID if the
// address is unknown. allowed is false after too many attempts from the network or for the account. The caller must
// commit the transaction before checking the password, so that concurrent requests do not get additional attempts.
func Attempt(ctx context.Context, tx *db.Tx, email string, from netip.Addr) (u identity.User, allowed bool, err error) {
	if allowed, err = AttemptOf(ctx, tx, "", email, from); err != nil || !allowed {
		return identity.User{}, false, err
	}
	u, err = identity.UserByEmail(ctx, tx, email)
	return u, true, err
}

// Succeeded subtracts an attempt that turned out to have the right password.
func Succeeded(ctx context.Context, tx *db.Tx, email string, from netip.Addr) error {
	return SucceededOf(ctx, tx, "", email, from)
}

// AttemptCode counts an attempt at a person's one-time codes. It returns false after too many attempts. The count
// must be committed before or together with the check of the code.
func AttemptCode(ctx context.Context, tx *db.Tx, userID string) (allowed bool, err error) {
	n, err := countAttempt(ctx, tx, hash("code "+userID))
	return n <= MaxAttempts, err
}

// AttemptOf is like [Attempt], for another kind of account, which the caller looks up. Each kind is counted
// separately.
func AttemptOf(ctx context.Context, tx *db.Tx, kind, account string, from netip.Addr) (allowed bool, err error) {
	network, against, err := take(ctx, tx, kind, account, from, MaxAttempts)
	return network <= MaxAttempts && against <= MaxAgainst, err
}

// SucceededOf subtracts a successful attempt that [AttemptOf] counted.
func SucceededOf(ctx context.Context, tx *db.Tx, kind, account string, from netip.Addr) error {
	if err := returnAttempt(ctx, tx, ofNetwork(kind, from)); err != nil {
		return err
	}
	return returnAttempt(ctx, tx, ofAccount(kind, account))
}

// Maximum numbers of requested mails within Window.
const (
	MaxMails   = 30 // from one network
	MaxMailsTo = 5  // to one address
)

// AttemptMail counts a request, without a sign-in, for a mail to an address. allowed is false if the network has
// requested too many mails. send is false if no mail may be sent; the response must not reveal this.
func AttemptMail(ctx context.Context, tx *db.Tx, email string, from netip.Addr) (send, allowed bool, err error) {
	network, to, err := take(ctx, tx, "mail ", email, from, MaxMails)
	allowed = network <= MaxMails
	return allowed && to <= MaxMailsTo, allowed, err
}

// Unlock deletes the counted attempts at a person's password and one-time codes, so that the person can try again at
// once.
func Unlock(ctx context.Context, tx *db.Tx, userID, email string) error {
	return errors.Join(deleteAttemptsAt(ctx, tx, ofAccount("", email)), deleteAttemptsAt(ctx, tx, hash("code "+userID)))
}

// CodeSucceeded subtracts an attempt that turned out to have a right code.
func CodeSucceeded(ctx context.Context, tx *db.Tx, userID string) error {
	return returnAttempt(ctx, tx, hash("code "+userID))
}

// Network returns the part of a client's address that is rate-limited: the IPv4 address, or the IPv6 /64 prefix.
func Network(from netip.Addr) netip.Addr {
	from = from.Unmap().WithZone("")
	if from.Is6() {
		if p, err := from.Prefix(64); err == nil {
			from = p.Addr()
		}
	}
	return from
}

// take counts an attempt for the network and then, unless the network exceeds most, for the account, so that a
// blocked network adds no rows. The fixed order of the two row locks prevents deadlocks.
func take(ctx context.Context, tx *db.Tx, kind, account string, from netip.Addr,
	most int64) (network, against int64, err error) {
	if network, err = countAttempt(ctx, tx, ofNetwork(kind, from)); err != nil || network > most {
		return network, 0, err
	}
	against, err = countAttempt(ctx, tx, ofAccount(kind, account))
	return network, against, err
}

// ofNetwork returns the key of the attempt counter of a network.
func ofNetwork(kind string, from netip.Addr) string {
	return hash(kind + "address " + Network(from).String())
}

// ofAccount returns the key of the attempt counter of an account.
func ofAccount(kind, account string) string {
	return hash(kind + "account " + strings.ToLower(norm.NFC.String(strings.TrimSpace(account))))
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Forget deletes expired sessions and attempts.
func Forget(ctx context.Context, d *db.DB) error {
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		return errors.Join(deleteEnded(ctx, tx), deleteAttempts(ctx, tx))
	})
}
