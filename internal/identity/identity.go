// Package identity owns companies, users, the members who sign in for a company, and a company's apps with their API
// keys and access tokens. It determines the [Principal] of each credential.
//
// Only SHA-256 digests of tokens and argon2id hashes of passwords are stored, so a token is shown only once. Personal
// data that is not searched is encrypted with the [Sealer]. The package does not depend on HTTP.
package identity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/alexedwards/argon2id"
	"golang.org/x/text/unicode/norm"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
)

// Errors that callers may receive.
var (
	ErrInvalidToken = apierr.New(apierr.Unauthorized, "invalid_token", "The credential is missing, unknown, expired, "+
		"revoked, sent with the wrong scheme, or belongs to the other environment.")
	errKeyAsBearer = ErrInvalidToken.Detailf("This is an API key, sent as Bearer. Send it as HTTP Basic: the key is the " +
		"user name, and the password is empty (curl -u KEY:).")
	errTokenAsBasic = ErrInvalidToken.Detailf("This is an access token, sent as Basic. Send it as Authorization: Bearer.")
	ErrFrozen       = apierr.New(apierr.Forbidden, "company_frozen",
		"This company is frozen: it can read but not change data. Contact support.")
	ErrRedirectURI = apierr.New(apierr.Invalid, "redirect_uri_invalid",
		"The redirect URI must be an absolute https URL without fragment, user name or wildcard. A sandbox app may also "+
			"use http on localhost.")
	ErrEmailTaken = apierr.New(apierr.Conflict, "invalid_state",
		"Another user already signs in with this email address.")
	// ErrUserExists contains the ID of the existing user as Meta "user_id".
	ErrPasswordChanged = apierr.New(apierr.Unauthorized, "sign_in_failed",
		"The password has just been changed. Sign in with the new one.")
	ErrUserExists = apierr.New(apierr.Conflict, "user_exists",
		"This company already has a user with this email address.")
	ErrUserRequired = apierr.New(apierr.Invalid, "missing_field", "An API key acts for many users. Set user_id.")
)

// Kind is the kind of a principal's credential.
type Kind string

// The kinds of credentials.
const (
	KindAPIKey Kind = "api_key"
	KindOAuth  Kind = "oauth_token"
	// KindPlatform is a token with which a platform acts for a company that it created.
	KindPlatform Kind = "platform_token"
	KindSession  Kind = "session"
	KindLink     Kind = "link" // a link in a mail to a payee without an account
)

// Principal is an authenticated caller. The zero value has no permissions.
type Principal struct {
	Kind      Kind
	ID        string // ID of the credential: the key, token or session
	AppID     string // "" for a session
	CompanyID string // company for which the principal acts; "" for a user without one
	UserID    string // user for whom the principal acts; "" for an API key or platform token
	Scopes    Scopes
	ProofKey  string    // thumbprint of the key with which each request must be proved (RFC 9449), or ""
	LastUsed  time.Time // last recorded use of the credential, or zero; see Touch
}

// Has reports whether the principal has a scope.
func (p Principal) Has(scope Scope) bool { return p.Scopes.Has(scope) }

// ForCompany reports whether a program uses the credential to act for the company itself, rather than for a person.
func (p Principal) ForCompany() bool { return p.Kind == KindAPIKey || p.Kind == KindPlatform }

// ErrNotProven is returned if the person has not recently presented a second factor with their access token.
var ErrNotProven = apierr.New(apierr.Forbidden, "second_factor_required",
	"Send a code of your authenticator to POST /api/user/second-factor first. It is valid for 10 minutes.")

// FreshFactor is how long after a second factor sensitive actions do not require another one.
const FreshFactor = 10 * time.Minute

// Company returns the company to which a request refers, which is the principal's own company if the request names
// none. It returns apierr.NotFoundErr if the request names another company.
func (p Principal) Company(requested string) (string, error) {
	if p.CompanyID == "" || requested != "" && requested != p.CompanyID {
		return "", apierr.NotFoundErr
	}
	return p.CompanyID, nil
}

// Company is a company and the terms of its contract.
type Company struct {
	ID, Name, Email, Website, Country string
	Status                            string // active, frozen or closed
	KYBStatus                         string
	FundingMethod                     string // crypto, wallet, or the ID of a wallet
	FeeBps                            int64  // the operator's fee, in basis points of the paid amount
	PremiumBps                        int64  // fee for premium payments, instead of FeeBps
	ToleranceBps                      int64  // largest shortfall, in basis points, that counts as paid; at most 500
	PlatformID                        string // company of the platform that created the company; "" for none
	PlatformFeeBps                    int64  // the platform's fee on payrolls, in addition to FeeBps
	Version                           int64
	Created                           time.Time
}

// States of a company.
const (
	CompanyActive = "active"
	CompanyFrozen = "frozen"
	CompanyClosed = "closed"
)

// Active returns ErrFrozen unless the company is active. Every function that changes a company's data must call it.
func (c Company) Active() error {
	if c.Status != CompanyActive {
		return ErrFrozen
	}
	return nil
}

// NewCompany contains the initial data of a company. Fees of 0 are valid, because the caller sets the terms.
type NewCompany struct {
	Name, Email, Website, Country    string
	FundingMethod                    string // "" means crypto
	KYBStatus                        string // "" means not_started
	FeeBps, PremiumBps, ToleranceBps int64
	PlatformID                       string // company of the platform that creates the company; "" for none
	PlatformFeeBps                   int64
}

// MaxPlatformFeeBps is the maximum fee of a platform, in basis points of the paid amount.
const MaxPlatformFeeBps = 1000

// Check normalizes the data and adds its problems.
func (n *NewCompany) Check(problems *apierr.List) {
	n.Name = Line(problems, "/name", n.Name, 1, 200)
	n.Website = Line(problems, "/website", n.Website, 0, 300)
	n.Email = Email(problems, "/email", n.Email, false)
	n.Country = Country(problems, "/country", n.Country, true)
}

// CreateCompany creates a company.
func CreateCompany(ctx context.Context, tx *db.Tx, n NewCompany) (Company, error) {
	var problems apierr.List
	c := Company{
		ID: tx.NewID("com"), Status: CompanyActive, KYBStatus: n.KYBStatus, FundingMethod: n.FundingMethod,
		FeeBps: n.FeeBps, PremiumBps: n.PremiumBps, ToleranceBps: n.ToleranceBps, Version: 1, Created: tx.Now(),
		PlatformID: n.PlatformID, PlatformFeeBps: n.PlatformFeeBps,
	}
	n.Check(&problems)
	c.Name, c.Website, c.Email, c.Country = n.Name, n.Website, n.Email, n.Country
	if c.FundingMethod == "" {
		c.FundingMethod = "crypto"
	}
	if c.KYBStatus == "" {
		c.KYBStatus = "not_started"
	}
	for _, b := range []struct {
		pointer    string
		value, max int64
	}{{"/fee_bps", c.FeeBps, 10_000}, {"/premium_bps", c.PremiumBps, 10_000}, {"/tolerance_bps", c.ToleranceBps, 500},
		{"/platform_fee_bps", c.PlatformFeeBps, MaxPlatformFeeBps}} {
		if b.value < 0 || b.value > b.max {
			problems.Add("invalid_parameter", b.pointer,
				fmt.Sprintf("The value is in hundredths of a percent and must be from 0 to %d.", b.max))
		}
	}
	if err := problems.Err(); err != nil {
		return Company{}, err
	}
	return c, insertCompany(ctx, tx, c)
}

// CompanyKey returns a [db.Prefetch] of the company with an ID.
func CompanyKey(id string) db.Prefetch { return companies.Prefetch(id) }

// User is a person with an account or a company's record of a person. Details are empty until [User.Open].
type User struct {
	ID string
	Profile
	Complete     bool   // the profile has all data that payouts require
	CompanyID    string // company that created the user; "" for a user who signed up
	KYCStatus    string // not_started, pending, in_review, approved, resubmission_required, rejected, expired
	Locale       Locale
	Version      int64
	Created      time.Time
	Closed       bool // reports whether the operator closed the account
	signsIn      bool // reports whether the user signs in with the email address and a password
	passwordHash string
	sealed       string // encrypted Details
}

// Locale is how pages and mails are written for a user. If a field is empty, the browser or the language determines
// it.
type Locale struct {
	Language     string // BCP 47 tag of one of the pages' languages
	TimeZone     string // name in the IANA time zone database
	NumberFormat string // one of NumberFormats
}

// NumberFormats are the number formats from which a user can choose, named by the separators of digit groups and
// decimals.
var NumberFormats = []string{"comma_point", "point_comma", "space_comma", "apostrophe_point"}

// States of a person's verification.
const (
	KYCNotStarted = "not_started"
	KYCApproved   = "approved"
)

// KYBApproved is the state of a verified company.
const KYBApproved = "approved"

// Open returns the user with decrypted Details.
func (u User) Open(s *Sealer) (User, error) {
	if u.sealed == "" { // the personal data was erased
		return u, nil
	}
	var err error
	u.Details, err = OpenDetails(s, userDetails(u.ID), u.sealed)
	return u, err
}

// ActingUser returns the user for whom a request acts. A session or token without a company acts for its own user,
// whose ID may be omitted. An API key, or a session that acts for a company, acts for a user that the company
// created; a company cannot act for people who only accepted its invitation. The pages check the role of a session.
// ActingUser returns apierr.NotFoundErr for any other user, and ErrUserRequired if an API key names no user.
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

// Name returns the person's full name.
func (u User) Name() string { return strings.TrimSpace(u.FirstName + " " + u.LastName) }

// NewUser contains the initial data of a user.
type NewUser struct {
	Profile
	CompanyID string // company that creates the user and may act for them; "" at sign-up
	Password  string // at least 12 characters; "" for a person who does not sign in
	// PasswordHash is the result of [HashPassword]. The caller sets either PasswordHash or Password.
	PasswordHash string
}

// CreateUser creates a user. A user that a company creates does not sign in with the email address, so companies that
// know the same person have separate records and do not learn of each other. CreateUser returns ErrUserExists if the
// company already has a user with the address, and ErrEmailTaken at a sign-up if someone already signs in with the
// address.
//
// Hashing a password takes about 50 ms by design, so pages hash it before the transaction and pass PasswordHash.
func CreateUser(ctx context.Context, tx *db.Tx, s *Sealer, n NewUser) (User, error) {
	var problems apierr.List
	u := User{ID: tx.NewID("usr"), CompanyID: n.CompanyID, KYCStatus: KYCNotStarted, Version: 1, Created: tx.Now(),
		signsIn: n.CompanyID == ""}
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

// EmailKey returns the normalized form in which email addresses are compared. It is empty only for an empty address.
func EmailKey(email string) string { return strings.ToLower(norm.NFC.String(email)) }

// EmailDomain returns the part of an email address after the last @, in lower case, or "".
func EmailDomain(email string) string {
	if at := strings.LastIndexByte(email, '@'); at >= 0 {
		return EmailKey(strings.TrimSpace(email[at+1:]))
	}
	return ""
}

func userDetails(userID string) SealContext { return SealContext{"users", "details", userID} }

// GetUser returns a user, or apierr.NotFoundErr. If s is nil, the Details stay empty.
func GetUser(ctx context.Context, tx *db.Tx, s *Sealer, id string) (User, error) {
	u, err := selectUser(ctx, tx, "user_id", id)
	if err != nil || s == nil {
		return u, err
	}
	return u.Open(s)
}

// UserByEmail returns the user who signs in with an email address. For an unknown address it returns a user without
// an ID. [User.CheckPassword] of that user fails after the same work as for a wrong password, so that response times
// do not reveal who has an account.
func UserByEmail(ctx context.Context, tx *db.Tx, email string) (User, error) {
	u, err := selectUser(ctx, tx, "sign_in_key", EmailKey(strings.TrimSpace(email)))
	if errors.Is(err, apierr.NotFoundErr) {
		return User{}, nil
	}
	return u, err
}

var dummyHash = sync.OnceValues(func() (string, error) {
	return argon2id.CreateHash("no user has this password", argon2id.DefaultParams)
})

// CheckPassword reports whether password is the user's password. It takes about 50 ms by design; call it outside a
// transaction.
func (u User) CheckPassword(password string) (bool, error) {
	if u.ID == "" {
		return CheckHash("", password)
	}
	return CheckHash(u.passwordHash, password)
}

// CheckHash reports whether a password matches a hash from [HashPassword]. An empty hash matches no password, and
// takes the same time to check.
func CheckHash(hash, password string) (bool, error) {
	known := hash != ""
	if !known {
		h, err := dummyHash()
		if err != nil {
			return false, err
		}
		hash = h
	}
	same, err := argon2id.ComparePasswordAndHash(password, hash)
	return same && known, err
}

// Member is a user's membership in a company.
type Member struct{ CompanyID, UserID, Role string }

// Roles of members. Viewers, and members with an unknown role, may only read.
const (
	RoleOwner     = "owner"
	RoleAdmin     = "admin"
	RoleDeveloper = "developer"
	RoleViewer    = "viewer"
)

// Manages reports whether a role may change a company's apps, keys, webhooks and grants to other apps.
func Manages(role string) bool {
	return role == RoleOwner || role == RoleAdmin || role == RoleDeveloper
}

// Administers reports whether a role may change a company's members and approve payments.
func Administers(role string) bool { return role == RoleOwner || role == RoleAdmin }

// App is an application registered by a company.
type App struct {
	CompanyID, ID, Name, ClientID, RedirectURI string
	Scopes                                     Scopes
	Created                                    time.Time
	DPoP                                       bool // reports whether only tokens bound to a key of the app are valid
	secretDigest                               string
}

// NewApp contains the data of an app to register.
type NewApp struct {
	CompanyID, Name string
	RedirectURI     string // "" for an app that uses only API keys
	Scopes          Scopes
}

// CreateApp registers an app and returns its client secret, whose digest alone is stored.
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
	CheckName(&problems, "/name", name, publisher)
	taken, err := nameTaken(ctx, tx, n.CompanyID, skeleton(name), true)
	if err != nil {
		return App{}, "", err
	}
	if taken {
		problems.Add(CodeTaken, "/name", "The name looks like that of a verified company's app. Choose another one.")
	}
	if err := problems.Err(); err != nil {
		return App{}, "", err
	}
	if n.RedirectURI != "" && !RedirectAllowed(n.RedirectURI, env) {
		return App{}, "", ErrRedirectURI.At("body", "/redirect_uri")
	}
	secret = newToken(secretToken, env)
	app = App{
		CompanyID: n.CompanyID, ID: tx.NewID("app"), Name: name, ClientID: tx.NewID("cli"), RedirectURI: n.RedirectURI,
		Scopes: n.Scopes, Created: tx.Now(), secretDigest: Digest(secret),
	}
	return app, secret, insertApp(ctx, tx, app)
}

// CheckSecret reports whether the secret is the app's client secret.
func (a App) CheckSecret(secret string) bool {
	return a.secretDigest != "" && sameDigest(Digest(secret), a.secretDigest)
}

// RedirectAllowed reports whether an app may register a redirect URI: it must be absolute and use https, or in the
// sandbox http on localhost, so that the authorization code does not leak to third parties.
func RedirectAllowed(text string, env Environment) bool {
	u, err := url.Parse(text)
	if err != nil || len(text) > 500 || u.Host == "" || u.User != nil || u.Fragment != "" ||
		strings.ContainsAny(text, "#*\\ ") {
		return false
	}
	host := u.Hostname()
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return false
		}
	}
	if host != strings.ToLower(host) { // browsers send the host in lower case, so the URI would never match
		return false
	}
	ip, _ := netip.ParseAddr(host)
	local := host == "localhost" || strings.HasSuffix(host, ".localhost") || ip.IsLoopback()
	switch u.Scheme {
	case "https":
		return !local && !ip.IsPrivate() && !ip.IsLinkLocalUnicast() && !ip.IsUnspecified() || env == Sandbox
	case "http":
		return local && env == Sandbox
	}
	return false
}

// NewAPIKey contains the data of an API key to create.
type NewAPIKey struct {
	CompanyID, AppID string
	Expires          time.Time // zero means never
	Token            string    // "" generates a random key; tests and demonstrations may set one
}

// CreateAPIKey creates an API key of an app and returns it. Only the key's digest is stored.
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

// NoticeRevoked is the topic of the notice in this process that a credential was revoked or restricted. Every such
// change sends the notice, so that caches of credentials are cleared.
const NoticeRevoked = "identity.revoked"

// RevokeAPIKey revokes a key at once. Repeating the call has no effect. It returns apierr.NotFoundErr for another
// company's key.
func RevokeAPIKey(ctx context.Context, tx *db.Tx, companyID, keyID string) error {
	return revoke(ctx, tx, "api_keys", "key_id", companyID, keyID)
}

// Lifetimes of access tokens.
const (
	TokenLife = 365 * 24 * time.Hour // also of a consent
	TokenIdle = 90 * 24 * time.Hour  // a token that is not used for this long expires
)

// Grant is a user's consent that an app act for the user or, if CompanyID is set, for the company. A Grant without a
// UserID is the consent of a company to the platform that created it.
type Grant struct {
	CompanyID, ID, AppID, UserID string
	Scopes                       Scopes
	Expires                      time.Time
}

// CreateGrant stores a consent and returns it with its ID. The consent expires after TokenLife, except a consent to a
// platform, which lasts until it is revoked.
func CreateGrant(ctx context.Context, tx *db.Tx, g Grant) (Grant, error) {
	g.ID, g.Expires = tx.NewID("gra"), tx.Now().Add(TokenLife)
	if g.UserID == "" {
		g.Expires = time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC)
	}
	return g, insertGrant(ctx, tx, g)
}

// NewAccessToken contains the data of an access token.
type NewAccessToken struct {
	CompanyID, AppID, UserID string
	Scopes                   Scopes
	GrantID                  string        // ID of the consent; "" stores a new consent
	Life                     time.Duration // 0 means TokenLife
	ProofKey                 string        // thumbprint of the key to which the token is bound, or ""
}

// CreateAccessToken creates an access token and returns it. Only the token's digest is stored.
func CreateAccessToken(ctx context.Context, tx *db.Tx, env Environment,
	n NewAccessToken) (tokenID, token string, err error) {
	if n.GrantID == "" {
		g, err := CreateGrant(ctx, tx, Grant{CompanyID: n.CompanyID, AppID: n.AppID, UserID: n.UserID, Scopes: n.Scopes})
		if err != nil {
			return "", "", err
		}
		n.GrantID = g.ID
	}
	n.Life = cmp.Or(n.Life, TokenLife)
	tokenID, token = tx.NewID("tok"), newToken(accessToken, env)
	return tokenID, token, insertAccessToken(ctx, tx, tokenID, token, n)
}

// RevokeToken revokes an access token if it belongs to the app. It ignores any other token.
func RevokeToken(ctx context.Context, tx *db.Tx, env Environment, appID, token string) error {
	if !wellFormed(token, accessToken, env) {
		return nil
	}
	return revokeToken(ctx, tx, appID, Digest(token))
}

// ProofScheme is the Authorization scheme of access tokens that are bound to a key.
const ProofScheme = "DPoP"

// Authenticate returns the principal of a credential. The scheme and the credential come from the Authorization
// header: "Basic" with an API key (as it is, or base64 of the key and a colon), "Bearer" with an access token, or
// [ProofScheme] with an access token that is bound to a key, whose proof the caller must check. Authenticate returns
// ErrInvalidToken for every rejected credential. The error's detail reveals only what is visible in the request: that
// a well-formed credential was sent with the scheme for another kind.
func Authenticate(ctx context.Context, tx *db.Tx, scheme, credential string, env Environment) (Principal, error) {
	switch {
	case strings.EqualFold(scheme, "Basic"):
		token := basicToken(credential)
		switch {
		case wellFormed(token, accessToken, env):
			return Principal{}, errTokenAsBasic
		case !wellFormed(token, keyToken, env):
			return Principal{}, ErrInvalidToken
		}
		return selectAPIKey(ctx, tx, Digest(token))
	case strings.EqualFold(scheme, "Bearer"), strings.EqualFold(scheme, ProofScheme):
		switch {
		case wellFormed(credential, keyToken, env):
			return Principal{}, errKeyAsBearer
		case !wellFormed(credential, accessToken, env):
			return Principal{}, ErrInvalidToken
		}
		p, err := selectAccessToken(ctx, tx, Digest(credential))
		if err == nil && (p.ProofKey != "") != strings.EqualFold(scheme, ProofScheme) {
			return Principal{}, ErrInvalidToken
		}
		return p, err
	}
	return Principal{}, ErrInvalidToken
}

// touchEvery is the minimum interval between updates of a credential's last use.
const touchEvery = time.Minute

// NeedsTouch reports whether the last recorded use is old enough to be updated.
func (p Principal) NeedsTouch(now time.Time) bool {
	return p.Kind != KindSession && now.Sub(p.LastUsed) >= touchEvery
}

// Touch records that the credential was just used. An access token that was not used for TokenIdle expires.
func Touch(ctx context.Context, tx *db.Tx, p Principal) error {
	switch p.Kind {
	case KindAPIKey:
		return touch(ctx, tx, "api_keys", "key_id", p)
	case KindOAuth, KindPlatform:
		return touch(ctx, tx, "access_tokens", "token_id", p)
	default: // package session records the use of a session
		return nil
	}
}
