// Package oauth lets a user allow an app to act for them: the authorization code flow of OAuth 2.0 (RFC 6749) with PKCE
// (RFC 7636), issuer identification (RFC 9207) and revocation (RFC 7009), as RFC 9700 asks for it.
//
//	app → user's browser → Check → the user agrees → Grant → code → app → Exchange → access token
//
// What holds:
//
//   - A code goes to the one address that its app registered, byte by byte. Before that address is known to be right nothing is
//     redirected anywhere.
//   - A code lives 60 seconds and works once, for the app that it was made for. A second exchange, or one by another app, means
//     that the code leaked: what the first one gave is taken back, and of a second one who answers for the app gets a mail.
//   - Of codes and tokens only digests are stored.
//   - A token carries at most what its app registered and what the user saw when they agreed.
//
// The package knows nothing of HTTP and shows no page.
package oauth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/mail"
)

// CodeLife is how long a code can be exchanged.
const CodeLife = 60 * time.Second

// Error is an answer of RFC 6749, section 4.1.2.1 or 5.2. It is a result, not a failure: what led to it is committed.
type Error struct {
	Code        string
	Description string
}

func (e *Error) Error() string { return e.Code + ": " + e.Description }

// What an app may be told.
var (
	errClient       = &Error{"invalid_client", "The client id or the client secret is wrong."}
	errGrant        = &Error{"invalid_grant", "The code is unknown, expired, already used, or was made for another client."}
	errRedirect     = &Error{"invalid_grant", "The redirect_uri is not the registered one."}
	errVerifier     = &Error{"invalid_grant", "The code_verifier does not match the code_challenge."}
	errGrantType    = &Error{"unsupported_grant_type", "The grant_type is authorization_code."}
	errNoCode       = &Error{"invalid_request", "The code is missing."}
	errNoState      = &Error{"invalid_request", "The state is missing: it protects the user from a forged answer."}
	errResponseType = &Error{"unsupported_response_type", "The response_type is code."}
	errScope        = &Error{"invalid_scope", "The scope asks for more than the app is registered for, or for something unknown."}
	errChallenge    = &Error{"invalid_request", "A code_challenge has 43 characters of base64url and comes with code_challenge_method=S256."}
	// ErrDenied is that the user did not agree.
	ErrDenied = &Error{"access_denied", "The user did not agree."}
)

// What a person is told on a page, because the app cannot be: it is unknown, or its address is.
var (
	ErrClient      = apierr.New(apierr.NotFound, "not_found", "No app has this client id. Ask whoever sent you here.")
	ErrRole        = apierr.New(apierr.Forbidden, "role_required", "Your role in this company does not allow you to let an app act for it. Ask an owner or administrator.")
	ErrRedirectURI = apierr.New(apierr.Invalid, "redirect_uri_invalid", "The link that sent you here names another address than the app registered, so nothing was sent there.")
)

// Ask is what an app sends a user's browser with.
type Ask struct {
	ClientID, State string
	ResponseType    string // "" means code
	RedirectURI     string // "" means the registered one
	Scope           string // "" means all that the app registered
	Challenge       string // of PKCE
	Method          string // of the challenge
}

// Values are the ask as parameters of an address; what is empty is left out.
func (a Ask) Values() url.Values {
	v := url.Values{}
	for name, value := range map[string]string{
		"client_id": a.ClientID, "state": a.State, "response_type": a.ResponseType, "redirect_uri": a.RedirectURI, "scope": a.Scope,
		"code_challenge": a.Challenge, "code_challenge_method": a.Method,
	} {
		if value != "" {
			v.Set(name, value)
		}
	}
	return v
}

// Request is an ask that was found right.
type Request struct {
	App       identity.App
	State     string
	Scopes    identity.Scopes
	challenge string
}

// Check examines an ask. ErrClient and ErrRedirectURI are for the user's eyes; an *Error goes back to the app, by the request
// that is returned with it.
func Check(ctx context.Context, tx *db.Tx, a Ask) (Request, error) {
	app, err := identity.AppByClientID(ctx, tx, a.ClientID)
	if errors.Is(err, apierr.NotFoundErr) || err == nil && app.RedirectURI == "" {
		return Request{}, ErrClient
	}
	if err != nil {
		return Request{}, err
	}
	if a.RedirectURI != "" && a.RedirectURI != app.RedirectURI {
		return Request{}, ErrRedirectURI
	}
	r := Request{App: app, State: a.State, Scopes: app.Scopes, challenge: a.Challenge}
	if a.Scope != "" {
		asked, known := identity.ParseScopes(a.Scope)
		if !known || !asked.Within(app.Scopes) || asked == 0 {
			return r, errScope
		}
		r.Scopes = asked
	}
	switch {
	case a.State == "":
		return r, errNoState
	case a.ResponseType != "" && a.ResponseType != "code":
		return r, errResponseType
	case a.Challenge == "" && a.Method != "", a.Challenge != "" && (a.Method != "S256" || !isDigest(a.Challenge)):
		return r, errChallenge
	}
	return r, nil
}

func isDigest(challenge string) bool {
	b, err := base64.RawURLEncoding.DecodeString(challenge)
	return err == nil && len(b) == sha256.Size
}

// Granted is the address of the app with its code.
func (r Request) Granted(issuer, code string) string {
	return r.back(url.Values{"code": {code}, "iss": {issuer}})
}

// Refused is the address of the app with an error.
func (r Request) Refused(issuer string, e *Error) string {
	return r.back(url.Values{"error": {e.Code}, "error_description": {e.Description}, "iss": {issuer}})
}

func (r Request) back(v url.Values) string {
	if r.State != "" {
		v.Set("state", r.State)
	}
	u, err := url.Parse(r.App.RedirectURI)
	if err != nil {
		panic("oauth: a registered address is none: " + err.Error())
	}
	// The registered query stays as it is, to the byte.
	if u.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += v.Encode()
	return u.String()
}

// Grant notes that a user agrees and gives the code. companyID is the company for which the user agrees; apierr.NotFoundErr
// says that they are no member of it, ErrRole that they may not agree for it. "" is the user alone.
func Grant(ctx context.Context, tx *db.Tx, env identity.Environment, u identity.User, companyID string, r Request) (code string, err error) {
	g := grant{companyID: companyID, appID: r.App.ID, userID: u.ID, scopes: r.Scopes, challenge: r.challenge}
	told := mail.AppConnectedData{Name: u.FirstName, App: r.App.Name, At: tx.Now()}
	if companyID != "" {
		role, err := roleIn(ctx, tx, u.ID, companyID)
		switch {
		case err != nil:
			return "", err
		case role == "":
			return "", apierr.NotFoundErr
		case !identity.Manages(role):
			return "", ErrRole
		}
		c, err := identity.CompanyByID(ctx, tx, companyID)
		if err != nil {
			return "", err
		}
		told.Company = c.Name
	}
	for _, s := range r.Scopes.List() {
		told.Scopes = append(told.Scopes, Words(s))
	}
	code = identity.NewAuthorizationCode(env)
	if err := insertCode(ctx, tx, code, g); err != nil {
		return "", err
	}
	err = mail.Enqueue(ctx, tx, mail.Message{
		CompanyID: companyID, To: u.Email, Template: mail.AppConnected, Data: told, Key: identity.Digest(code),
	})
	return code, err
}

// roleIn is "" for somebody who is no member.
func roleIn(ctx context.Context, tx *db.Tx, userID, companyID string) (string, error) {
	all, err := identity.Memberships(ctx, tx, userID)
	for _, m := range all {
		if m.CompanyID == companyID {
			return m.Role, err
		}
	}
	return "", err
}

// TokenRequest is what an app sends to exchange a code.
type TokenRequest struct {
	GrantType, Code        string
	ClientID, ClientSecret string
	RedirectURI            string // the registered one, or ""
	Verifier               string // of PKCE
}

// Token is what a code is exchanged for.
type Token struct {
	AccessToken string
	UserID      string
	CompanyID   string
	Scopes      identity.Scopes
	Life        time.Duration
}

// Exchange gives a token for a code, or says with a *Error why not. The *Error's transaction must be committed: a code that
// was misused is burnt by it.
func Exchange(ctx context.Context, tx *db.Tx, env identity.Environment, r TokenRequest) (Token, *Error, error) {
	app, refusal, err := client(ctx, tx, r.ClientID, r.ClientSecret)
	switch {
	case err != nil || refusal != nil:
		return Token{}, refusal, err
	case r.GrantType != "authorization_code":
		return Token{}, errGrantType, nil
	case r.Code == "":
		return Token{}, errNoCode, nil
	}
	digest := identity.CodeDigest(env, r.Code)
	g, known, err := selectCode(ctx, tx, digest)
	if err != nil || !known {
		return Token{}, errGrant, err
	}
	first, err := useCode(ctx, tx, g.companyID, digest)
	if err != nil {
		return Token{}, nil, err
	}
	if !first || g.appID != app.ID {
		// Whoever used it first has committed by now, so this reads the token that they were given, also where they came at the same moment.
		if g, _, err = selectCode(ctx, tx, digest); err == nil && g.tokenID != "" {
			err = identity.RevokeAccessToken(ctx, tx, g.companyID, g.tokenID)
		}
		if err == nil && g.appID == app.ID {
			err = auth.Tell(ctx, tx, digest, app.CompanyID, mail.CodeReplayed, app.Name)
		}
		return Token{}, errGrant, err
	}
	switch {
	case !tx.Now().Before(g.expires):
		return Token{}, errGrant, nil
	case r.RedirectURI != "" && r.RedirectURI != app.RedirectURI:
		return Token{}, errRedirect, nil
	case !g.proves(r.Verifier):
		return Token{}, errVerifier, nil
	}
	scopes := g.scopes & app.Scopes // an app that was narrowed meanwhile gets no more than it has
	id, token, err := identity.CreateAccessToken(ctx, tx, env, identity.NewAccessToken{CompanyID: g.companyID, AppID: app.ID, UserID: g.userID, Scopes: scopes})
	if err != nil {
		return Token{}, nil, err
	}
	if err := setToken(ctx, tx, g.companyID, digest, id); err != nil {
		return Token{}, nil, err
	}
	return Token{AccessToken: token, UserID: g.userID, CompanyID: g.companyID, Scopes: scopes, Life: identity.TokenLife}, nil, nil
}

// proves says whether a verifier belongs to the challenge. One without a challenge proves that somebody stripped the
// challenge from the user's link.
func (g grant) proves(verifier string) bool {
	if g.challenge == "" || verifier == "" {
		return g.challenge == verifier
	}
	if len(verifier) < 43 || len(verifier) > 128 {
		return false
	}
	sum := sha256.Sum256([]byte(verifier))
	return subtle.ConstantTimeCompare([]byte(base64.RawURLEncoding.EncodeToString(sum[:])), []byte(g.challenge)) == 1
}

// client finds who asks and makes sure of it.
func client(ctx context.Context, tx *db.Tx, id, secret string) (identity.App, *Error, error) {
	app, err := identity.AppByClientID(ctx, tx, id)
	if errors.Is(err, apierr.NotFoundErr) {
		return app, errClient, nil
	}
	if err == nil && !app.CheckSecret(secret) {
		return app, errClient, nil
	}
	return app, nil, err
}

// Revoke ends an access token of the client (RFC 7009). A token that is unknown, or another client's, is none of its
// business and no error.
func Revoke(ctx context.Context, tx *db.Tx, env identity.Environment, clientID, clientSecret, token string) (*Error, error) {
	app, refusal, err := client(ctx, tx, clientID, clientSecret)
	if err != nil || refusal != nil {
		return refusal, err
	}
	return nil, identity.RevokeToken(ctx, tx, env, app.ID, token)
}

// Connection is an app that may act for a user at present.
type Connection struct {
	AppID     string
	App       string
	CompanyID string // for which it may, "" for the user alone
	Scopes    identity.Scopes
	GrantedAt time.Time // the first time
	LastUsed  time.Time // zero when never
}

// Connections are the apps that may act for a user, newest first.
func Connections(ctx context.Context, tx *db.Tx, userID string) ([]Connection, error) {
	return connections(ctx, tx, userID)
}

// Disconnect ends everything that a user has allowed an app for a company, or for themselves with "". Nothing to end is fine.
func Disconnect(ctx context.Context, tx *db.Tx, userID, appID, companyID string) error {
	return disconnect(ctx, tx, userID, appID, companyID)
}

// Words say what a scope allows, to the person who grants it, in English. What sees, what changes and what moves money is
// told apart by [Group].
func Words(s identity.Scope) string {
	if w, ok := words[s]; ok {
		return w.text
	}
	return s
}

// Group is what a scope is about.
type Group string

// The groups, from harmless to grave.
const (
	See       Group = "see"
	Change    Group = "change"
	MoveMoney Group = "move_money"
)

// CompanyScopes are those that mean nothing without a company.
func CompanyScopes() identity.Scopes {
	return identity.NewScopes(identity.CompanyDetail, identity.CompanyWorkerList, identity.CompanyWorkerInvitationsList,
		identity.CompanyWorkersInvite, identity.CompanyWorkersPay)
}

// GroupOf says what a scope is about.
func GroupOf(s identity.Scope) Group { return words[s].group }

var words = map[identity.Scope]struct {
	group Group
	text  string
}{
	identity.CompanyDetail:                {See, "See the company, its wallets and its events"},
	identity.CompanyWorkerList:            {See, "See workers and recipients"},
	identity.CompanyWorkerInvitationsList: {See, "See invitations"},
	identity.CompanyWorkersInvite:         {MoveMoney, "Invite workers, add recipients and change where they are paid"},
	identity.CompanyWorkersPay:            {MoveMoney, "Pay people: create and cancel pay runs and checkout claims"},
	identity.UserCreate:                   {Change, "Add users"},
	identity.UserUpdate:                   {Change, "Change your profile"},
	identity.UserDetail:                   {See, "See your profile"},
	identity.UserUpdateDoc:                {Change, "Upload your documents"},
	identity.UserDocumentList:             {See, "See which documents you have uploaded"},
	identity.UserKYCInitiate:              {Change, "Have your identity verified"},
	identity.UserPayerCreate:              {Change, "Add payers"},
	identity.UserPayerUpdate:              {Change, "Change and delete payers"},
	identity.UserPayerDetail:              {See, "See a payer"},
	identity.UserPayerList:                {See, "See your payers"},
	identity.UserInvoiceCreate:            {Change, "Write invoices"},
	identity.UserInvoiceDelete:            {Change, "Delete invoices"},
	identity.UserInvoiceDetail:            {See, "See an invoice"},
	identity.UserInvoiceList:              {See, "See your invoices"},
	identity.UserDistributionCreate:       {MoveMoney, "Add places where you are paid"},
	identity.UserDistributionUpdate:       {MoveMoney, "Change where you are paid"},
	identity.UserDistributionDetail:       {See, "See a place where you are paid"},
	identity.UserDistributionList:         {See, "See where you are paid"},
	identity.UserBankDetails:              {Change, "Open and see your account for receiving money"},
}

// ForgetCodes deletes the codes that can do nothing any more, not even tell of a leak in time.
func ForgetCodes(ctx context.Context, d *db.DB) error {
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		return deleteCodes(ctx, tx, tx.Now().Add(-30*24*time.Hour))
	})
}

// ParseBasic reads the client id and secret of an Authorization header of the Basic scheme: form-encoded, as RFC 6749, section
// 2.3.1 has it.
func ParseBasic(credential string) (id, secret string, ok bool) {
	b, err := base64.StdEncoding.DecodeString(credential)
	if err != nil {
		return "", "", false
	}
	id, secret, ok = strings.Cut(string(b), ":")
	if !ok {
		return "", "", false
	}
	if id, err = url.QueryUnescape(id); err != nil {
		return "", "", false
	}
	secret, err = url.QueryUnescape(secret)
	return id, secret, err == nil
}
