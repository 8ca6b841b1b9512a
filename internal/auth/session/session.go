// Package session owns who is signed in at the pages: sessions, their ends, and how often a password or a code may be tried.
//
// A session is 256 random bits in a cookie, of which the digest is stored. Signing in makes a new one, so nobody can have
// planted it; it ends after 12 hours without use and after seven days in any case, by signing out, or with all others of the
// person. What somebody may do is not stored in it: their memberships are read with it, so a role that is taken away is gone at
// the next request.
//
// Whoever has a second factor gets a session that waits for it, and stands for nobody until it is shown. When it was shown is kept:
// what is grave asks for it anew.
//
// The package knows no cookie and no page. It checks no password either: that takes 50 ms on purpose, so its caller does it
// between two transactions, [Attempt] and [Start].
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

// How long a session lives.
const (
	Idle = 12 * time.Hour     // without use
	Life = 7 * 24 * time.Hour // in any case
	Wait = 10 * time.Minute   // for the second factor, after the password
)

// Fresh is how long a second factor counts for what is grave.
const Fresh = 10 * time.Minute

// FreshSignIn is how long a sign-in counts for making a first second factor.
const FreshSignIn = 5 * time.Minute

// touchEvery keeps a busy reader from writing a row at every page.
const touchEvery = 5 * time.Minute

// How often a password may be tried and be wrong within Window. Of one account it is far more than from one network: else a few
// tries from anywhere would keep its owner out.
const (
	MaxAttempts = 5   // from one network, at whatever accounts
	MaxAgainst  = 100 // at one account, from all networks
	Window      = 15 * time.Minute
)

// Session is somebody who is signed in.
type Session struct {
	ID      string
	User    identity.User
	Company identity.Company  // the one that they act for; without ID when they are no member of any
	Role    string            // in that company
	Members []identity.Member // of which companies they are, oldest first, without closed ones
	Since   time.Time         // when the person signed in
	Factor  time.Time         // when a second factor was shown last, zero for never

	digest   string
	lastUsed time.Time
}

// Principal is what a session stands for: the person, acting for a company. It carries no scopes: the pages decide by role.
func (s Session) Principal() identity.Principal {
	return identity.Principal{Kind: identity.KindSession, ID: s.ID, CompanyID: s.Company.ID, UserID: s.User.ID}
}

// Manages says whether the person may change what belongs to the company.
func (s Session) Manages() bool { return s.Company.ID != "" && identity.Manages(s.Role) }

// Administers says whether the person may change who acts for the company.
func (s Session) Administers() bool { return s.Company.ID != "" && identity.Administers(s.Role) }

// Start signs a user in and returns the token of the new session, which is not kept.
func Start(ctx context.Context, tx *db.Tx, userID string) (token string, err error) {
	token = identity.NewSessionToken()
	return token, insertSession(ctx, tx, row{digest: identity.SessionDigest(token), id: tx.NewID("ses"), userID: userID})
}

// StartWaiting begins a session that waits for a second factor: [FindWaiting] finds it, and [Find] does not.
func StartWaiting(ctx context.Context, tx *db.Tx, userID string) (token string, err error) {
	token = identity.NewSessionToken()
	return token, insertSession(ctx, tx, row{digest: identity.SessionDigest(token), id: tx.NewID("ses"), userID: userID, waits: true})
}

// StartProven signs in a user who has just shown a second factor.
func StartProven(ctx context.Context, tx *db.Tx, userID string) (token string, err error) {
	token = identity.NewSessionToken()
	return token, insertSession(ctx, tx, row{digest: identity.SessionDigest(token), id: tx.NewID("ses"), userID: userID, factorAt: db.Micros(tx.Now())})
}

// FindWaiting is the user whose session waits for a second factor, or apierr.NotFoundErr.
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

// Prove notes that a second factor was shown now.
func Prove(ctx context.Context, tx *db.Tx, s Session) error { return prove(ctx, tx, s.digest) }

// Proven says whether a second factor was shown in this session.
func (s Session) Proven() bool { return !s.Factor.IsZero() }

// ProvenFreshly says whether that was not long ago.
func (s Session) ProvenFreshly(now time.Time) bool { return s.Proven() && now.Sub(s.Factor) < Fresh }

// SignedInFreshly says whether the person signed in not long ago.
func (s Session) SignedInFreshly(now time.Time) bool { return now.Sub(s.Since) < FreshSignIn }

// Find reads the session of a token. Whatever has ended, or never was, is apierr.NotFoundErr.
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

// NeedsTouch says whether the last use on record is old enough to be written anew.
func (s Session) NeedsTouch(now time.Time) bool { return now.Sub(s.lastUsed) >= touchEvery }

// Touch records that a session was used now. One that has ended meanwhile stays ended.
func Touch(ctx context.Context, tx *db.Tx, s Session) error { return touch(ctx, tx, s.digest) }

// ActFor chooses the company that a session acts for, or says apierr.NotFoundErr when the person is no member of it.
func ActFor(ctx context.Context, tx *db.Tx, s Session, companyID string) error {
	for _, m := range s.Members {
		if m.CompanyID == companyID {
			return setCompany(ctx, tx, s.digest, companyID)
		}
	}
	return apierr.NotFoundErr
}

// End signs out. Ending what is no session is fine.
func End(ctx context.Context, tx *db.Tx, token string) error {
	return deleteSession(ctx, tx, identity.SessionDigest(token))
}

// EndAll signs a person out everywhere.
func EndAll(ctx context.Context, tx *db.Tx, userID string) error {
	return deleteSessions(ctx, tx, userID)
}

// EndOthers signs a person out everywhere but here.
func EndOthers(ctx context.Context, tx *db.Tx, s Session) error {
	return deleteOtherSessions(ctx, tx, s.User.ID, s.digest)
}

// Attempt takes one of the tries at a password and finds whose it is; known or not, the answer takes the same work. It says
// false when there were too many, from the network or at the account. Its transaction must be committed either way, and the
// password be checked only after: then no number of requests at once gets more tries than one after another.
func Attempt(ctx context.Context, tx *db.Tx, email string, from netip.Addr) (u identity.User, allowed bool, err error) {
	if allowed, err = AttemptOf(ctx, tx, "", email, from); err != nil || !allowed {
		return identity.User{}, false, err
	}
	u, err = identity.UserByEmail(ctx, tx, email)
	return u, true, err
}

// Succeeded gives back the try that a right password took: only wrong ones count.
func Succeeded(ctx context.Context, tx *db.Tx, email string, from netip.Addr) error {
	return SucceededOf(ctx, tx, "", email, from)
}

// AttemptCode takes one of the tries at a person's one-time codes, and says false when there were too many. Like [Attempt], it is
// committed before the code is looked at, or with it.
func AttemptCode(ctx context.Context, tx *db.Tx, userID string) (allowed bool, err error) {
	n, err := countAttempt(ctx, tx, hash("code "+userID))
	return n <= MaxAttempts, err
}

// AttemptOf takes one of the tries of a kind of accounts that this package does not know, and says false when there were too many,
// from the network or at the account. Like [Attempt], it is committed before what was tried is looked at.
func AttemptOf(ctx context.Context, tx *db.Tx, kind, account string, from netip.Addr) (allowed bool, err error) {
	network, against, err := take(ctx, tx, kind, account, from, MaxAttempts)
	return network <= MaxAttempts && against <= MaxAgainst, err
}

// SucceededOf gives back the try that a right one took.
func SucceededOf(ctx context.Context, tx *db.Tx, kind, account string, from netip.Addr) error {
	if err := returnAttempt(ctx, tx, ofNetwork(kind, from)); err != nil {
		return err
	}
	return returnAttempt(ctx, tx, ofAccount(kind, account))
}

// How many mails may be asked for within Window.
const (
	MaxMails   = 30 // from one network
	MaxMailsTo = 5  // to one address
)

// AttemptMail counts a mail that somebody asks for, to an account's address, without saying who they are. allowed is false when the
// network asked for too many; send, when the account's address has had enough, which the answer must not tell.
func AttemptMail(ctx context.Context, tx *db.Tx, email string, from netip.Addr) (send, allowed bool, err error) {
	network, to, err := take(ctx, tx, "mail ", email, from, MaxMails)
	allowed = network <= MaxMails
	return allowed && to <= MaxMailsTo, allowed, err
}

// CodeSucceeded gives back the try that a right code took.
func CodeSucceeded(ctx context.Context, tx *db.Tx, userID string) error {
	return returnAttempt(ctx, tx, hash("code "+userID))
}

// Network is what counts as one network address: who has one IPv6 address has the 2⁶⁴ beside it.
func Network(from netip.Addr) netip.Addr {
	from = from.Unmap().WithZone("")
	if from.Is6() {
		if p, err := from.Prefix(64); err == nil {
			from = p.Addr()
		}
	}
	return from
}

// take counts an attempt for the network and, unless that has had its most, for the account: who is refused leaves no more rows than
// one, whatever they call themselves. All rows of networks come before all of accounts, so two attempts never wait for each other.
func take(ctx context.Context, tx *db.Tx, kind, account string, from netip.Addr, most int64) (network, against int64, err error) {
	if network, err = countAttempt(ctx, tx, ofNetwork(kind, from)); err != nil || network > most {
		return network, 0, err
	}
	against, err = countAttempt(ctx, tx, ofAccount(kind, account))
	return network, against, err
}

// What an attempt counts for. Kinds of attempts count apart.
func ofNetwork(kind string, from netip.Addr) string {
	return hash(kind + "address " + Network(from).String())
}

func ofAccount(kind, account string) string {
	return hash(kind + "account " + strings.ToLower(norm.NFC.String(strings.TrimSpace(account))))
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Forget deletes sessions and attempts that count for nothing any more.
func Forget(ctx context.Context, d *db.DB) error {
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		return errors.Join(deleteEnded(ctx, tx), deleteAttempts(ctx, tx))
	})
}
