// Package identity owns companies, users, the members who sign in for a company, and a company's apps with their API
// keys and access tokens. It maps each credential to its [Principal].
//
// Tokens are stored only as SHA-256 digests and passwords only as argon2id hashes. A token is shown once.
// Personal data that is not searched is encrypted with the [Sealer]. The package does not depend on HTTP.
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

// Errors that callers may see.
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
	// ErrUserExists has the ID of the existing user in Meta "user_id".
	ErrPasswordChanged = apierr.New(apierr.Unauthorized, "sign_in_failed",
		"The password has just been changed. Sign in with the new one.")
	ErrUserExists = apierr.New(apierr.Conflict, "user_exists",
		"This company already has a user with this email address.")
	ErrUserRequired = apierr.New(apierr.Invalid, "missing_field", "An API key acts for many users. Set user_id.")
)

// Kind is the kind of a principal's credential.
type Kind string

// The kinds of principals.
const (
	KindAPIKey Kind = "api_key"
	KindOAuth  Kind = "oauth_token"
	// KindPlatform is a token with which a platform acts for a company that it created.
	KindPlatform Kind = "platform_token"
	KindSession  Kind = "session"
	KindLink     Kind = "link" // a link in a mail to a payee without an account
)

// Principal is the authenticated caller. Its zero value has no permissions.
type Principal struct {
	Kind      Kind
	ID        string // ID of the credential: the key, token or session
	AppID     string // "" for a session
	CompanyID string // the company it acts for, "" for a user without one
	UserID    string // the user it acts for, "" for an API key and a platform's token
	Scopes    Scopes
	ProofKey  string    // thumbprint of the key whose proof each request needs, "" for none (RFC 9449)
	LastUsed  time.Time // last recorded use of the credential; zero before the first; see Touch
}

// Has reports whether the principal has a scope.
func (p Principal) Has(scope Scope) bool { return p.Scopes.Has(scope) }

// ForCompany reports whether the credential is a program's that acts for the company itself, not for a person.
func (p Principal) ForCompany() bool { return p.Kind == KindAPIKey || p.Kind == KindPlatform }

// ErrNotProven is returned if a person has not presented a second factor with an access token lately.
var ErrNotProven = apierr.New(apierr.Forbidden, "second_factor_required",
	"Send a code of your authenticator to POST /api/user/second-factor first. It is valid for 10 minutes.")

// FreshFactor is the time after a second factor during which sensitive actions need no further one.
const FreshFactor = 10 * time.Minute

// Company returns the company that a request refers to: the principal's own if none is named. It returns
// apierr.NotFoundErr for another one.
func (p Principal) Company(requested string) (string, error) {
	if p.CompanyID == "" || requested != "" && requested != p.CompanyID {
		return "", apierr.NotFoundErr
	}
	return p.CompanyID, nil
}

// Company is a company and its contract terms.
type Company struct {
	ID, Name, Email, Website, Country string
	Status                            string // active, frozen or closed
	KYBStatus                         string
	FundingMethod                     string // crypto, wallet, or the ID of one wallet
	FeeBps                            int64  // fee in basis points of the paid amount
	PremiumBps                        int64  // replaces FeeBps for a premium payment
	ToleranceBps                      int64  // an underpayment up to this many basis points counts as paid; at most 500
	PlatformID                        string // company of the connected platform that created it; "" for none
	PlatformFeeBps                    int64  // the platform's fee on payrolls on top of FeeBps; at most MaxPlatformFeeBps
	Version                           int64
	Created                           time.Time
}

// The states of a company.
const (
	CompanyActive = "active"
	CompanyFrozen = "frozen"
	CompanyClosed = "closed"
)

// Active returns ErrFrozen unless the company is active. Every change for a company must check it.
func (c Company) Active() error {
	if c.Status != CompanyActive {
		return ErrFrozen
	}
	return nil
}

// NewCompany contains the initial data of a company. Fees of 0 are valid: the caller sets the contract terms.
type NewCompany struct {
	Name, Email, Website, Country    string
	FundingMethod                    string // "" means crypto
	KYBStatus                        string // "" means not_started
	FeeBps, PremiumBps, ToleranceBps int64
	PlatformID                       string // company of the platform that creates it, "" for none
	PlatformFeeBps                   int64
}

// MaxPlatformFeeBps is the largest fee of a platform, in basis points of the paid amount.
const MaxPlatformFeeBps = 1000

// Check normalizes the details and records their problems.
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

// CompanyKey returns the prefetch key of a company.
func CompanyKey(id string) db.Prefetch { return companies.Prefetch(id) }

// User is a person with an account. Details are empty until [User.Open].
type User struct {
	ID string
	Profile
	Complete     bool   // the profile has all fields that payouts require
	CompanyID    string // ID of the company that created the user; "" for a user who signed up
	KYCStatus    string // not_started, pending, in_review, approved, resubmission_required, rejected, expired
	Locale       Locale
	Version      int64
	Created      time.Time
	Closed       bool // the operator closed the account
	signsIn      bool // whether the user signs in with the email address and a password
	passwordHash string
	sealed       string // the encrypted details
}

// Locale is how pages and mails are written for a user. An empty field leaves the choice to the browser or language.
type Locale struct {
	Language     string // BCP 47 tag of a language of the pages
	TimeZone     string // name in the IANA time zone database
	NumberFormat string // one of NumberFormats
}

// NumberFormats are the separators of groups of digits and of decimals that a user can choose.
var NumberFormats = []string{"comma_point", "point_comma", "space_comma", "apostrophe_point"}

// The states of a person's verification.
const (
	KYCNotStarted = "not_started"
	KYCApproved   = "approved"
)

// KYBApproved is the state of a verified company.
const KYBApproved = "approved"

// Open returns the user with decrypted details.
func (u User) Open(s *Sealer) (User, error) {
	if u.sealed == "" { // the personal data was erased
		return u, nil
	}
	var err error
	u.Details, err = OpenDetails(s, userDetails(u.ID), u.sealed)
	return u, err
}

// ActingUser returns the user that a request refers to. A session or token refers to its own user, whose ID may be
// omitted. An API key, or a session that acts for a company, refers to a user that the company created; a company
// cannot act for people who only accepted its invitation. The pages check the role of a session. Any other user is
// apierr.NotFoundErr, and an API key without a user ErrUserRequired.
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
	CompanyID string // company that creates the user and may act for them; "" for a person who signs up
	Password  string // "" for a person who does not sign in; at least 12 characters otherwise
	// PasswordHash is the result of HashPassword. The caller sets either it or Password.
	PasswordHash string
}

// CreateUser creates a user. A user that a company creates does not sign in with the address, so companies that
// know the same person have separate records and do not learn of each other. A second user with the same address in
// a company is ErrUserExists; an address that someone signs in with is ErrEmailTaken.
//
// Hashing a password takes about 50 ms by design. Pages hash before the transaction and pass PasswordHash.
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

// EmailKey returns the normalized form in which email addresses are compared. It is empty only for an empty
// address.
func EmailKey(email string) string { return strings.ToLower(norm.NFC.String(email)) }

// EmailDomain returns the part of an email address after the last @, in lower case, or "".
func EmailDomain(email string) string {
	if at := strings.LastIndexByte(email, '@'); at >= 0 {
		return EmailKey(strings.TrimSpace(email[at+1:]))
	}
	return ""
}

func userDetails(userID string) SealContext { return SealContext{"users", "details", userID} }

// GetUser returns a user, or apierr.NotFoundErr. Without a sealer the details stay empty.
func GetUser(ctx context.Context, tx *db.Tx, s *Sealer, id string) (User, error) {
	u, err := selectUser(ctx, tx, "user_id", id)
	if err != nil || s == nil {
		return u, err
	}
	return u.Open(s)
}

// UserByEmail returns the user who signs in with an address. For an unknown one it returns a user without ID, whose
// CheckPassword fails after the same work as a wrong password, so that response times do not reveal who has an
// account.
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

// CheckPassword reports whether the password is the user's. It takes about 50 ms: call it outside a transaction.
func (u User) CheckPassword(password string) (bool, error) {
	if u.ID == "" {
		return CheckHash("", password)
	}
	return CheckHash(u.passwordHash, password)
}

// CheckHash reports whether a password matches a hash of HashPassword. An empty hash matches nothing and takes the
// same time.
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

// The roles of members. A viewer, and a member with an unknown role, may only read.
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
	DPoP                                       bool // only tokens that are bound to a key of the app are valid
	secretDigest                               string
}

// NewApp contains the data of an app to register.
type NewApp struct {
	CompanyID, Name string
	RedirectURI     string // "" for an app that only has API keys
	Scopes          Scopes
}

// CreateApp registers an app and returns its client secret, which is not stored.
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

// RedirectAllowed reports whether a URI may be redirected to: it is absolute and https, or in the sandbox http on
// localhost, so that it does not leak to a third party.
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
	Token            string    // "" generates a random key; tests and demonstrations may set a well-formed one
}

// CreateAPIKey creates an API key of an app and returns it. The key itself is not stored.
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

// NoticeRevoked is the in-process notice that a credential was revoked or restricted. Every change of that kind
// sends it, so that caches of credentials are cleared.
const NoticeRevoked = "identity.revoked"

// RevokeAPIKey revokes a key at once. It is idempotent; another company's key is apierr.NotFoundErr.
func RevokeAPIKey(ctx context.Context, tx *db.Tx, companyID, keyID string) error {
	return revoke(ctx, tx, "api_keys", "key_id", companyID, keyID)
}

// The lifetime of access tokens.
const (
	TokenLife = 365 * 24 * time.Hour // also of a consent
	TokenIdle = 90 * 24 * time.Hour  // a token that is not used for this long expires
)

// Grant is a user's consent to an app, which may act for the user or, with a CompanyID, for the company. Without a
// UserID it is the consent of a company to the platform that created it.
type Grant struct {
	CompanyID, ID, AppID, UserID string
	Scopes                       Scopes
	Expires                      time.Time
}

// CreateGrant stores a consent, which expires after TokenLife, and returns it with its ID. That to a platform lasts
// until it is revoked.
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
	GrantID                  string        // the consent; "" stores a new one
	Life                     time.Duration // 0 means TokenLife
	ProofKey                 string        // thumbprint of the key that the token is bound to; "" for none
}

// CreateAccessToken creates an access token and returns it. The token itself is not stored.
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

// RevokeToken revokes an access token if it belongs to the app. It ignores any other.
func RevokeToken(ctx context.Context, tx *db.Tx, env Environment, appID, token string) error {
	if !wellFormed(token, accessToken, env) {
		return nil
	}
	return revokeToken(ctx, tx, appID, Digest(token))
}

// ProofScheme is the scheme of access tokens that are bound to a key.
const ProofScheme = "DPoP"

// Authenticate returns the principal of a credential. Scheme and credential come from the Authorization header:
// "Basic" with an API key (raw, or base64 of the key and a colon), "Bearer" with an access token, or ProofScheme with
// one that is bound to a key: then the caller must check the proof. Every rejected credential is ErrInvalidToken.
// The detail says only what the caller can see: that a well-formed credential has the scheme of the other kind.
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

// Touch records that a credential was used now. An access token that is never touched expires as idle.
func Touch(ctx context.Context, tx *db.Tx, p Principal) error {
	switch p.Kind {
	case KindAPIKey:
		return touch(ctx, tx, "api_keys", "key_id", p)
	case KindOAuth, KindPlatform:
		return touch(ctx, tx, "access_tokens", "token_id", p)
	default: // a session: package session records its use
		return nil
	}
}
