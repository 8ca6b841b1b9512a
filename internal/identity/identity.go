// Package identity owns who somebody is and what they may do: companies, people, the members who sign in for a
// company, its apps, their API keys and access tokens, and the [Principal] that a credential stands for.
//
// Of a token only the SHA-256 digest is stored, of a password only its argon2id hash; both are shown or sent once
// and never again. Personal data that is not needed for searching is stored through the [Sealer], which the packages of
// payees use too. The package knows nothing of HTTP: it is given a scheme and a credential, not a request.
package identity

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/alexedwards/argon2id"
	"golang.org/x/text/unicode/norm"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
)

// What callers of this package are refused with.
var (
	ErrInvalidToken = apierr.New(apierr.Unauthorized, "invalid_token", "The credential is missing, unknown, expired, revoked, sent with the wrong scheme, or belongs to the other environment.")
	ErrFrozen       = apierr.New(apierr.Forbidden, "company_frozen", "This company is frozen. Reading works, changes do not. Ask support.")
	ErrRedirectURI  = apierr.New(apierr.Invalid, "redirect_uri_invalid", "A redirect address is an absolute https address without fragment, user name or wildcard; a sandbox app may also use http on localhost.")
	ErrEmailTaken   = apierr.New(apierr.Conflict, "invalid_state", "Another user already signs in with this email address.")
	// ErrUserExists carries the id of the company's user that has the address, as Meta "user_id".
	ErrUserExists   = apierr.New(apierr.Conflict, "user_exists", "This company already has a user with this email address.")
	ErrUserRequired = apierr.New(apierr.Invalid, "missing_field", "An API key acts for many users: name one in user_id.")
)

// Kind says what sort of credential a principal showed.
type Kind string

// The kinds of principals.
const (
	KindAPIKey  Kind = "api_key"
	KindOAuth   Kind = "oauth_token"
	KindSession Kind = "session"
)

// Principal is who acts. Its zero value may do nothing.
type Principal struct {
	Kind      Kind
	ID        string // of the credential: the key, the token or the session
	AppID     string // "" for a session
	CompanyID string // the company it acts for, "" for a user without one
	UserID    string // the user it acts for, "" for an API key
	Scopes    Scopes
	LastUsed  time.Time // zero when never used before; see Touch
}

// Has says whether the principal holds a scope.
func (p Principal) Has(scope Scope) bool { return p.Scopes.Has(scope) }

// Company resolves the company a request names: its own when none is named, apierr.NotFoundErr when it is another's.
func (p Principal) Company(requested string) (string, error) {
	if p.CompanyID == "" || requested != "" && requested != p.CompanyID {
		return "", apierr.NotFoundErr
	}
	return p.CompanyID, nil
}

// Company is a company's account and contract.
type Company struct {
	ID, Name, Email, Website, Country string
	Status                            string // active, frozen or closed
	KYBStatus                         string
	FundingMethod                     string // crypto, wallet, or the id of one wallet
	FeeBps                            int64  // of the paid volume
	PremiumBps                        int64  // in place of FeeBps for a premium payment
	ToleranceBps                      int64  // how much too little still counts as paid, at most 500
	Version                           int64
	Created                           time.Time
}

// The states of a company.
const (
	CompanyActive = "active"
	CompanyFrozen = "frozen"
	CompanyClosed = "closed"
)

// Active is nil unless the company is frozen or closed, then ErrFrozen. Whoever changes something for a company asks.
func (c Company) Active() error {
	if c.Status != CompanyActive {
		return ErrFrozen
	}
	return nil
}

// NewCompany is what a company starts with. Fees that are 0 are 0: the contract is the caller's to give.
type NewCompany struct {
	Name, Email, Website, Country    string
	FundingMethod                    string // "" means crypto
	KYBStatus                        string // "" means not_started
	FeeBps, PremiumBps, ToleranceBps int64
}

// CreateCompany opens a company's account.
func CreateCompany(ctx context.Context, tx *db.Tx, n NewCompany) (Company, error) {
	var problems apierr.List
	c := Company{
		ID: tx.NewID("com"), Status: CompanyActive, KYBStatus: n.KYBStatus, FundingMethod: n.FundingMethod,
		FeeBps: n.FeeBps, PremiumBps: n.PremiumBps, ToleranceBps: n.ToleranceBps, Version: 1, Created: tx.Now(),
	}
	c.Name = Line(&problems, "/name", n.Name, 1, 200)
	c.Website = Line(&problems, "/website", n.Website, 0, 300)
	c.Email = Email(&problems, "/email", n.Email, false)
	c.Country = Country(&problems, "/country", n.Country, true)
	if c.FundingMethod == "" {
		c.FundingMethod = "crypto"
	}
	if c.KYBStatus == "" {
		c.KYBStatus = "not_started"
	}
	for _, b := range []struct {
		pointer    string
		value, max int64
	}{{"/fee_bps", c.FeeBps, 10_000}, {"/premium_bps", c.PremiumBps, 10_000}, {"/tolerance_bps", c.ToleranceBps, 500}} {
		if b.value < 0 || b.value > b.max {
			problems.Add("invalid_parameter", b.pointer, fmt.Sprintf("This is in hundredths of a percent, from 0 to %d.", b.max))
		}
	}
	if err := problems.Err(); err != nil {
		return Company{}, err
	}
	return c, insertCompany(ctx, tx, c)
}

// CompanyKey is for who knows before a transaction that it will ask for a company.
func CompanyKey(id string) db.Ahead { return companies.Key(id) }

// CompanyByID reads a company, or says apierr.NotFoundErr.
func CompanyByID(ctx context.Context, tx *db.Tx, id string) (Company, error) {
	return selectCompany(ctx, tx, id)
}

// User is a person with an account of their own. Details are empty until [User.Open].
type User struct {
	ID string
	Profile
	Complete     bool   // the profile has what paying needs
	CompanyID    string // that created the user, "" for those who came by themselves
	KYCStatus    string // not_started, pending, in_review, approved, resubmission_required, rejected, expired
	Version      int64
	Created      time.Time
	signsIn      bool // with the email address
	passwordHash string
	sealed       string // the details
}

// The states of a person's verification.
const (
	KYCNotStarted = "not_started"
	KYCApproved   = "approved"
)

// KYBApproved is the state of a company that is verified.
const KYBApproved = "approved"

// Open returns the user with the details that are sealed at rest.
func (u User) Open(s *Sealer) (User, error) {
	if u.sealed == "" { // erased
		return u, nil
	}
	var err error
	u.Details, err = OpenDetails(s, userDetails(u.ID), u.sealed)
	return u, err
}

// ActingUser is the user that a request means: the one whose session or token it carries, who need not be named; with
// an API key, or somebody signed in who acts for a company (whose role the pages look at), a user that the company created. A company may not act for those who only accepted its invitation: their
// profile and their destinations are theirs. Anybody else is apierr.NotFoundErr, and a key that names nobody
// ErrUserRequired.
func ActingUser(ctx context.Context, tx *db.Tx, by Principal, requested string) (User, error) {
	switch {
	case by.UserID != "" && (requested == "" || requested == by.UserID):
		return selectUser(ctx, tx, "user_id", by.UserID)
	case by.Kind == KindSession && by.CompanyID != "":
		return selectCompanyUser(ctx, tx, by.CompanyID, requested)
	case by.UserID != "" || by.CompanyID == "":
		return User{}, apierr.NotFoundErr
	case requested == "":
		return User{}, ErrUserRequired
	}
	return selectCompanyUser(ctx, tx, by.CompanyID, requested)
}

// Name is how the person is addressed.
func (u User) Name() string { return strings.TrimSpace(u.FirstName + " " + u.LastName) }

// NewUser is what a user starts with.
type NewUser struct {
	Profile
	CompanyID string // that creates the user and may act for them, "" for a person who comes by themselves
	Password  string // "" for a person who does not sign in; at least 12 characters otherwise
	// PasswordHash stands for Password where the hash was made before, by HashPassword.
	PasswordHash string
}

// CreateUser makes a user. A user of a company does not sign in with their address, so companies that know the same
// person have a record each and none learns of another's; within a company a second one is ErrUserExists. An address
// that somebody else signs in with is ErrEmailTaken.
//
// Hashing a password takes some 50 ms on purpose, within the transaction: the account pages hash first and use NewUser
// only for people without one.
func CreateUser(ctx context.Context, tx *db.Tx, s *Sealer, n NewUser) (User, error) {
	var problems apierr.List
	u := User{ID: tx.NewID("usr"), CompanyID: n.CompanyID, KYCStatus: KYCNotStarted, Version: 1, Created: tx.Now(), signsIn: n.CompanyID == ""}
	u.Profile = n.Profile.Check(&problems, tx.Now(), "email")
	if n.Password != "" {
		CheckNewPassword(&problems, "/password", n.Password, n.Email)
	}
	if err := problems.Err(); err != nil {
		return User{}, err
	}
	u.passwordHash = n.PasswordHash
	if n.Password != "" {
		hash, err := HashPassword(n.Password)
		if err != nil {
			return User{}, err
		}
		u.passwordHash = hash
	}
	u.Complete = u.Profile.Complete()
	var err error
	if u.sealed, err = u.Details.Seal(s, userDetails(u.ID)); err != nil {
		return User{}, err
	}
	if u.CompanyID != "" {
		if err := insertCompanyUser(ctx, tx, u); err != nil {
			return User{}, err
		}
	}
	return u, insertUser(ctx, tx, u)
}

// EmailKey is the form in which addresses are compared. No address has the empty one.
func EmailKey(email string) string { return emailKey(email) }

func emailKey(email string) string { return strings.ToLower(norm.NFC.String(email)) }

func userDetails(userID string) Place { return Place{"users", "details", userID} }

// GetUser reads a user with the sealed details, or says apierr.NotFoundErr. With a nil sealer the details stay empty.
func GetUser(ctx context.Context, tx *db.Tx, s *Sealer, id string) (User, error) {
	u, err := selectUser(ctx, tx, "user_id", id)
	if err != nil || s == nil {
		return u, err
	}
	return u.Open(s)
}

// UserByEmail finds the user who signs in with an address. For an unknown one it returns a user without id, whose
// CheckPassword fails after the same work as a wrong password takes, so that answers do not tell who has an account.
func UserByEmail(ctx context.Context, tx *db.Tx, email string) (User, error) {
	u, err := selectUser(ctx, tx, "sign_in_key", emailKey(strings.TrimSpace(email)))
	if errors.Is(err, apierr.NotFoundErr) {
		return User{}, nil
	}
	return u, err
}

var nobodysHash = sync.OnceValues(func() (string, error) {
	return argon2id.CreateHash("nobody has this password", argon2id.DefaultParams)
})

// CheckPassword says whether it is the user's password. It takes some 50 ms: call it outside a transaction.
func (u User) CheckPassword(password string) (bool, error) {
	if u.ID == "" {
		return CheckHash("", password)
	}
	return CheckHash(u.passwordHash, password)
}

// CheckHash says whether a password is that of a hash of HashPassword. That of "" is nobody's, which takes as long to find out.
func CheckHash(hash, password string) (bool, error) {
	known := hash != ""
	if !known {
		h, err := nobodysHash()
		if err != nil {
			return false, err
		}
		hash = h
	}
	same, err := argon2id.ComparePasswordAndHash(password, hash)
	return same && known, err
}

// Member is a user's standing in a company they sign in for.
type Member struct{ CompanyID, UserID, Role string }

// The roles of members. A viewer, and who has a role that is unknown here, may look and change nothing.
const (
	RoleOwner     = "owner"
	RoleAdmin     = "admin"
	RoleDeveloper = "developer"
	RoleViewer    = "viewer"
)

// Manages says whether a role may change what programs may do for a company: its apps, keys and webhooks, and grants to apps
// of others.
func Manages(role string) bool {
	return role == RoleOwner || role == RoleAdmin || role == RoleDeveloper
}

// Administers says whether a role may change who acts for a company, and approve that its money moves.
func Administers(role string) bool { return role == RoleOwner || role == RoleAdmin }

// DeleteMember ends a membership. Sessions and grants are the caller's to end.
func DeleteMember(ctx context.Context, tx *db.Tx, companyID, userID string) error {
	return deleteMember(ctx, tx, companyID, userID)
}

// RevokeGrants takes back what a user has allowed apps to do for a company.
func RevokeGrants(ctx context.Context, tx *db.Tx, companyID, userID string) error {
	return revokeGrants(ctx, tx, companyID, userID)
}

// NextCompanyVersion gives the company's next version to a change of what belongs to it, and keeps other such changes waiting until
// the commit.
func NextCompanyVersion(ctx context.Context, tx *db.Tx, companyID string) (int64, error) {
	return nextVersion(ctx, tx, companyID)
}

// AddMember lets a user act for a company by signing in. Adding one again changes the role.
func AddMember(ctx context.Context, tx *db.Tx, m Member) error { return upsertMember(ctx, tx, m) }

// Administrators are the user ids of a company's members in a role that [Administers].
func Administrators(ctx context.Context, tx *db.Tx, companyID string) ([]string, error) {
	return selectAdministrators(ctx, tx, companyID)
}

// Memberships are the companies a user signs in for, oldest first.
func Memberships(ctx context.Context, tx *db.Tx, userID string) ([]Member, error) {
	return selectMemberships(ctx, tx, userID)
}

// App is an authentication app that a company registered.
type App struct {
	CompanyID, ID, Name, ClientID, RedirectURI string
	Scopes                                     Scopes
	Created                                    time.Time
	secretDigest                               string
}

// NewApp is what an app is registered with.
type NewApp struct {
	CompanyID, Name string
	RedirectURI     string // "" for an app that only has API keys
	Scopes          Scopes
}

// CreateApp registers an app and returns its client secret, which is not kept.
func CreateApp(ctx context.Context, tx *db.Tx, env Environment, n NewApp) (app App, secret string, err error) {
	var problems apierr.List
	name := norm.NFKC.String(Line(&problems, "/name", n.Name, 1, 100))
	if err := problems.Err(); err != nil {
		return App{}, "", err
	}
	publisher, err := CompanyByID(ctx, tx, n.CompanyID)
	if err != nil {
		return App{}, "", err
	}
	checkAppName(&problems, name, publisher)
	taken, err := likeAnother(ctx, tx, n.CompanyID, skeleton(name), true)
	if err != nil {
		return App{}, "", err
	}
	if taken {
		problems.Add(CodeTaken, "/name", "A verified company has an app whose name looks like this one.")
	}
	if err := problems.Err(); err != nil {
		return App{}, "", err
	}
	if n.RedirectURI != "" && !redirectAllowed(n.RedirectURI, env) {
		return App{}, "", ErrRedirectURI.At("body", "/redirect_uri")
	}
	secret = newToken(secretToken, env)
	app = App{
		CompanyID: n.CompanyID, ID: tx.NewID("app"), Name: name, ClientID: tx.NewID("cli"), RedirectURI: n.RedirectURI,
		Scopes: n.Scopes, Created: tx.Now(), secretDigest: digest(secret),
	}
	return app, secret, insertApp(ctx, tx, app)
}

// AppByClientID finds an active app, or says apierr.NotFoundErr.
func AppByClientID(ctx context.Context, tx *db.Tx, clientID string) (App, error) {
	return selectApp(ctx, tx, clientID)
}

// CheckSecret says whether it is the app's client secret.
func (a App) CheckSecret(secret string) bool {
	return a.secretDigest != "" && sameDigest(digest(secret), a.secretDigest)
}

// redirectAllowed refuses what could hand a code to somebody else.
func redirectAllowed(text string, env Environment) bool {
	u, err := url.Parse(text)
	if err != nil || len(text) > 500 || u.Host == "" || u.User != nil || u.Fragment != "" || strings.ContainsAny(text, "#*\\ ") {
		return false
	}
	host := u.Hostname()
	ip, _ := netip.ParseAddr(host)
	local := host == "localhost" || strings.HasSuffix(host, ".localhost") || ip.IsLoopback()
	switch u.Scheme {
	case "https":
		return !local || env == Sandbox
	case "http":
		return local && env == Sandbox
	}
	return false
}

// NewAPIKey is what a key is made with.
type NewAPIKey struct {
	CompanyID, AppID string
	Expires          time.Time // zero: until it is revoked
	Token            string    // "" makes a random one; tests and demonstrations may bring their own of the same form
}

// CreateAPIKey makes a key of an app and returns it. It is not kept: whoever loses it makes another.
func CreateAPIKey(ctx context.Context, tx *db.Tx, env Environment, n NewAPIKey) (keyID, token string, err error) {
	token = n.Token
	if token == "" {
		token = newToken(keyToken, env)
	}
	if !wellFormed(token, keyToken, env) {
		return "", "", errors.New("identity: not an API key of this environment")
	}
	keyID = tx.NewID("key")
	return keyID, token, insertAPIKey(ctx, tx, keyID, token, n)
}

// NoticeRevoked is the notice, in the process that did it, that a credential stands for less than before. Whatever revokes
// one, narrows an app or closes a company gives it, so that what a process remembers of credentials for a moment is forgotten.
const NoticeRevoked = "identity.revoked"

// RevokeAPIKey ends a key at once. Ending one twice is fine; another company's key is apierr.NotFoundErr.
func RevokeAPIKey(ctx context.Context, tx *db.Tx, companyID, keyID string) error {
	return revoke(ctx, tx, "api_keys", "key_id", companyID, keyID)
}

// The lifetime of access tokens.
const (
	TokenLife = 365 * 24 * time.Hour
	TokenIdle = 90 * 24 * time.Hour // a token that is not used this long ends
)

// NewAccessToken is what a user granted an app.
type NewAccessToken struct {
	CompanyID, AppID, UserID string
	Scopes                   Scopes
}

// CreateAccessToken makes a bearer token for a user's grant and returns it. It is not kept.
func CreateAccessToken(ctx context.Context, tx *db.Tx, env Environment, n NewAccessToken) (tokenID, token string, err error) {
	tokenID, token = tx.NewID("tok"), newToken(accessToken, env)
	return tokenID, token, insertAccessToken(ctx, tx, tokenID, token, n)
}

// RevokeAccessToken ends a token at once. Ending one twice is fine; another company's token is apierr.NotFoundErr.
func RevokeAccessToken(ctx context.Context, tx *db.Tx, companyID, tokenID string) error {
	return revoke(ctx, tx, "access_tokens", "token_id", companyID, tokenID)
}

// RevokeToken ends an access token, given as itself, if it is one of the app's. Anything else is left alone.
func RevokeToken(ctx context.Context, tx *db.Tx, env Environment, appID, token string) error {
	if !wellFormed(token, accessToken, env) {
		return nil
	}
	return revokeToken(ctx, tx, appID, digest(token))
}

// Authenticate finds who a credential stands for. The scheme and what follows it come from the Authorization
// header: "Basic" with an API key (raw, or base64 of the key and a colon), "Bearer" with an access token.
// Anything else is ErrInvalidToken, with no hint at which of its reasons.
func Authenticate(ctx context.Context, tx *db.Tx, scheme, credential string, env Environment) (Principal, error) {
	switch {
	case strings.EqualFold(scheme, "Basic"):
		token := basicToken(credential)
		if !wellFormed(token, keyToken, env) {
			return Principal{}, ErrInvalidToken
		}
		return selectAPIKey(ctx, tx, digest(token))
	case strings.EqualFold(scheme, "Bearer"):
		if !wellFormed(credential, accessToken, env) {
			return Principal{}, ErrInvalidToken
		}
		return selectAccessToken(ctx, tx, digest(credential))
	}
	return Principal{}, ErrInvalidToken
}

// touchEvery keeps busy credentials from writing a row at every request.
const touchEvery = time.Minute

// NeedsTouch says whether the last use on record is old enough to be written anew.
func (p Principal) NeedsTouch(now time.Time) bool {
	return p.Kind != KindSession && now.Sub(p.LastUsed) >= touchEvery
}

// Touch records that a credential was used now. It needs a transaction that may write; without it an access token
// looks idle.
func Touch(ctx context.Context, tx *db.Tx, p Principal) error {
	switch p.Kind {
	case KindAPIKey:
		return touch(ctx, tx, "api_keys", "key_id", p)
	case KindOAuth:
		return touch(ctx, tx, "access_tokens", "token_id", p)
	default: // a session is kept alive by its own package
		return nil
	}
}
