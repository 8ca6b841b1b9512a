// Package oauth implements the authorization code flow of OAuth 2.0 (RFC 6749) with PKCE (RFC 7636), issuer
// identification (RFC 9207), the device flow (RFC 8628), refresh and revocation of tokens (RFC 7009), pushed
// authorization requests (RFC 9126) and resource indicators (RFC 8707), following RFC 9700.
//
//	app → (Push →) user's browser → Check → user agrees → Grant → code → app → Exchange → access and refresh token
//
// Invariants:
//
//   - A code is sent only to the redirect URI that the app registered, compared byte for byte. No response is
//     redirected before that URI has been checked.
//   - A code expires after 60 seconds and works once, for its app. A second exchange, or an exchange by another app,
//     means that the code leaked: the consent is revoked, and after a second exchange the app's administrators get an
//     email.
//   - A refresh token works once, for its app, and is replaced by a new one. A second use also revokes the consent.
//   - An access token with scopes to move money, or to change where money goes, is valid for an hour. A refreshed token
//     has the rights that the user has at the time of the refresh.
//   - A device gets tokens once, and only after a signed-in person has typed its code, seen the app and the scopes, and
//     allowed them. The code of a device lives ten minutes. A device that polls too fast must then poll more slowly.
//   - A token that was requested with a DPoP proof (RFC 9449) is bound to the key of the proof, and works only with
//     further proofs of that key. An app can require this of all its tokens.
//   - Only digests of codes and tokens are stored.
//   - A token has only scopes that its app registered and that the user was shown.
//
// The package does not depend on HTTP and renders no pages.
package oauth

import (
	"cmp"
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

const (
	// CodeLife is the time within which an app must exchange a code.
	CodeLife = 60 * time.Second
	// PushedLife is the time within which a user must answer a pushed request.
	PushedLife = 10 * time.Minute
	// MoneyLife is the lifetime of access tokens with scopes that move money.
	MoneyLife = time.Hour
	// requestURIs is the prefix of the references to pushed requests.
	requestURIs = "urn:ietf:params:oauth:request_uri:"
)

// Error is an error response of RFC 6749, section 4.1.2.1 or 5.2. The transaction must be committed even if a
// function returns an *Error.
type Error struct {
	Code        string
	Description string
}

func (e *Error) Error() string { return e.Code + ": " + e.Description }

// Errors for apps.
var (
	errClient = &Error{"invalid_client", "The client_id or the client_secret is wrong."}
	errGrant  = &Error{"invalid_grant",
		"The code is unknown, expired, already used, or was made for another client."}
	errRedirect  = &Error{"invalid_grant", "The redirect_uri is not the registered one."}
	errVerifier  = &Error{"invalid_grant", "The code_verifier does not match the code_challenge."}
	errGrantType = &Error{"unsupported_grant_type",
		"The grant_type must be authorization_code, refresh_token or " + DeviceGrant + "."}
	errNoCode    = &Error{"invalid_request", "The code is missing."}
	errNoRefresh = &Error{"invalid_request", "The refresh_token is missing."}
	errRefresh   = &Error{"invalid_grant",
		"The refresh_token is unknown, expired, revoked or already used, or the user has lost access. Ask the user again."}
	errTarget       = &Error{"invalid_target", "The resource must be the address of this service, without a fragment."}
	errNested       = &Error{"invalid_request", "A pushed request cannot contain a request_uri."}
	errTooLong      = &Error{"invalid_request", "A parameter is longer than 2,048 bytes."}
	errPushed       = &Error{"invalid_request", "The redirect_uri is not the registered one."}
	errNoState      = &Error{"invalid_request", "The state is missing. It is required to prevent forged responses."}
	errResponseType = &Error{"unsupported_response_type", "The response_type must be code."}
	errScope        = &Error{"invalid_scope", "The scope is unknown or exceeds the scopes that the app registered."}
	errChallenge    = &Error{"invalid_request",
		"The code_challenge must be 43 characters of base64url, with code_challenge_method=S256."}
	errThumbprint = &Error{"invalid_request",
		"The dpop_jkt must be the SHA-256 thumbprint of a key, in base64url."}
	// ErrDenied is the response if the user denies the request.
	ErrDenied = &Error{"access_denied", "The user denied the request."}
)

// Errors for users. They are not sent to the app, because the app or its redirect URI is not valid.
var (
	ErrClient = apierr.New(apierr.NotFound, "not_found",
		"No app has this client ID. Contact the app that sent you here.")
	ErrRole = apierr.New(apierr.Forbidden, "role_required",
		"Your role in this company does not permit authorizing apps. Ask an owner or administrator.")
	ErrRequestURI = apierr.New(apierr.NotFound, "not_found",
		"This link has expired. Return to the app and try again.")
	ErrRedirectURI = apierr.New(apierr.Invalid, "redirect_uri_invalid",
		"The redirect address of this link is not the one that the app registered. Contact the app that sent you here.")
)

// Params contains the parameters of an authorization request.
type Params struct {
	ClientID, State string
	ResponseType    string // "" means code
	RedirectURI     string // "" means the registered redirect URI
	Scope           string // "" means all scopes that the app registered
	Challenge       string // PKCE code challenge
	Method          string // PKCE method
	Resource        string // service for which the token is requested, or ""
	ProofKey        string // thumbprint of the key that must exchange the code, or ""
	RequestURI      string // reference to a pushed request; if set, only ClientID counts
	UserCode        string // code that a device shows; if set, no other field counts

	// Base is the address of the service. It is not a parameter of the request.
	Base string
}

// MaxParam is the maximum length of a parameter of an authorization request, in bytes.
const MaxParam = 2048

// ParseParams returns the parameters of an authorization request.
func ParseParams(v url.Values) Params {
	return Params{
		ClientID: v.Get("client_id"), State: v.Get("state"), ResponseType: v.Get("response_type"),
		RedirectURI: v.Get("redirect_uri"), Scope: v.Get("scope"), Challenge: v.Get("code_challenge"),
		Method: v.Get("code_challenge_method"), Resource: v.Get("resource"), RequestURI: v.Get("request_uri"),
		ProofKey: v.Get("dpop_jkt"),
		UserCode: v.Get("user_code"),
	}
}

// Values encodes the authorization request as URL query parameters, omitting empty fields.
func (p Params) Values() url.Values {
	v := url.Values{}
	for name, value := range map[string]string{
		"client_id": p.ClientID, "state": p.State, "response_type": p.ResponseType, "redirect_uri": p.RedirectURI,
		"scope": p.Scope, "code_challenge": p.Challenge, "code_challenge_method": p.Method, "resource": p.Resource,
		"request_uri": p.RequestURI, "user_code": p.UserCode, "dpop_jkt": p.ProofKey,
	} {
		if value != "" {
			v.Set(name, value)
		}
	}
	return v
}

// Request is a valid authorization request.
type Request struct {
	App       identity.App
	State     string
	Scopes    identity.Scopes
	Device    bool // a device waits for the answer, so there is no redirect
	challenge string
	proofKey  string
	device    string // digest of the device code
}

// Check validates an authorization request. The caller must show ErrClient and ErrRedirectURI to the user. It must
// send any *Error to the app, by redirecting to [Request.Refused] of the returned Request.
func Check(ctx context.Context, tx *db.Tx, p Params) (Request, error) {
	if p.UserCode != "" {
		return checkDevice(ctx, tx, p.UserCode)
	}
	app, err := identity.AppByClientID(ctx, tx, p.ClientID)
	if errors.Is(err, apierr.NotFoundErr) || err == nil && app.RedirectURI == "" {
		return Request{}, ErrClient
	}
	if err != nil {
		return Request{}, err
	}
	if p.RequestURI != "" {
		pushed, known, err := selectPushed(ctx, tx, p.ClientID, p.RequestURI)
		if err != nil || !known {
			return Request{}, cmp.Or[error](err, ErrRequestURI)
		}
		base := p.Base
		p = ParseParams(pushed)
		p.Base = base
	}
	if p.RedirectURI != "" && p.RedirectURI != app.RedirectURI {
		return Request{}, ErrRedirectURI
	}
	r := Request{App: app, State: p.State, Scopes: app.Scopes & identity.GrantableScopes(), challenge: p.Challenge,
		proofKey: p.ProofKey}
	if p.Scope != "" {
		requested, known := identity.ParseScopes(p.Scope)
		if !known || !requested.Within(r.Scopes) || requested == 0 {
			return r, errScope
		}
		r.Scopes = requested
	}
	switch {
	case !isTarget(p.Base, p.Resource):
		return r, errTarget
	case p.State == "":
		return r, errNoState
	case p.ResponseType != "" && p.ResponseType != "code":
		return r, errResponseType
	case p.Challenge == "" && p.Method != "", p.Challenge != "" && (p.Method != "S256" || !isDigest(p.Challenge)):
		return r, errChallenge
	case p.ProofKey != "" && !isDigest(p.ProofKey):
		return r, errThumbprint
	}
	return r, nil
}

// isTarget reports whether a resource is empty or is a URL of this service. base is the address of the service.
func isTarget(base, resource string) bool {
	rest, ok := strings.CutPrefix(resource, base)
	return resource == "" || ok && base != "" && (rest == "" || rest[0] == '/') && !strings.Contains(rest, "#")
}

// Push stores an authorization request of an app. It returns a reference to the request, which the app must pass to
// /authorize within PushedLife.
func Push(ctx context.Context, tx *db.Tx, clientSecret string, p Params) (requestURI string, _ *Error, err error) {
	if _, refusal, err := client(ctx, tx, p.ClientID, clientSecret); err != nil || refusal != nil {
		return "", refusal, err
	}
	if p.RequestURI != "" {
		return "", errNested, nil
	}
	for _, value := range p.Values() {
		if len(value[0]) > MaxParam {
			return "", errTooLong, nil
		}
	}
	var refusal *Error
	checked, err := Check(ctx, tx, p)
	switch {
	case errors.As(err, &refusal):
		return "", refusal, nil
	case errors.Is(err, ErrRedirectURI), errors.Is(err, ErrClient):
		return "", errPushed, nil
	case err != nil:
		return "", nil, err
	}
	p.Scope = checked.Scopes.String() // excludes scopes that the app registers later
	requestURI = requestURIs + identity.NewRequestReference()
	return requestURI, nil, insertPushed(ctx, tx, requestURI, p)
}

// isDigest reports whether a PKCE challenge is a SHA-256 digest in base64url.
func isDigest(challenge string) bool {
	b, err := base64.RawURLEncoding.DecodeString(challenge)
	return err == nil && len(b) == sha256.Size
}

// Granted returns the redirect URL that sends an authorization code to the app.
func (r Request) Granted(issuer, code string) string {
	return r.back(url.Values{"code": {code}, "iss": {issuer}})
}

// Refused returns the redirect URL that sends an error to the app.
func (r Request) Refused(issuer string, e *Error) string {
	return r.back(url.Values{"error": {e.Code}, "error_description": {e.Description}, "iss": {issuer}})
}

// back returns the registered redirect URI with additional parameters and the state.
func (r Request) back(v url.Values) string {
	if r.State != "" {
		v.Set("state", r.State)
	}
	u, err := url.Parse(r.App.RedirectURI)
	if err != nil {
		panic("oauth: invalid registered redirect URI: " + err.Error())
	}
	// Parsing and encoding could change the registered query, so it is copied byte for byte.
	if u.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += v.Encode()
	return u.String()
}

// Grant records a user's consent and returns an authorization code. companyID is the company for which the app may
// act, or "" for the user alone. Grant returns apierr.NotFoundErr if the user is not a member of the company, and
// ErrRole if the user's role may not authorize apps.
func Grant(ctx context.Context, tx *db.Tx, env identity.Environment, u identity.User, companyID string,
	r Request) (code string, err error) {
	g := grant{companyID: companyID, appID: r.App.ID, userID: u.ID, scopes: r.Scopes, challenge: r.challenge,
		proofKey: r.proofKey}
	code = identity.NewAuthorizationCode(env)
	if err := insertCode(ctx, tx, code, g); err != nil {
		return "", err
	}
	return code, consented(ctx, tx, u, companyID, r, identity.Digest(code))
}

// consented checks that a user may authorize an app for a company, or for themselves if companyID is empty. It
// records the consent in the company's history and mails the user. key identifies the consent.
func consented(ctx context.Context, tx *db.Tx, u identity.User, companyID string, r Request, key string) error {
	data := mail.AppConnectedData{Name: u.FirstName, App: r.App.Name, At: tx.Now()}
	if companyID != "" {
		version, members, err := auth.Lock(ctx, tx, companyID)
		if err != nil {
			return err
		}
		switch role := members.Role(u.ID); {
		case role == "":
			return apierr.NotFoundErr
		case !identity.Manages(role):
			return ErrRole
		}
		db.History(tx, companyID, companyID, version, "", "", "apps: "+u.ID+" connected "+r.App.ID)
		c, err := identity.CompanyByID(ctx, tx, companyID)
		if err != nil {
			return err
		}
		data.Company = c.Name
	}
	for _, s := range r.Scopes.List() {
		data.Scopes = append(data.Scopes, Describe(s))
	}
	return mail.Enqueue(ctx, tx, mail.Message{
		CompanyID: companyID, To: u.Email, Template: mail.AppConnected, Data: data, Key: key,
	})
}

// TokenRequest contains the parameters of a token request.
type TokenRequest struct {
	GrantType, Code        string
	RefreshToken           string
	DeviceCode             string
	Scope                  string // for a refresh: some of the consent's scopes, or "" for all
	Resource, Base         string // as in Params
	ClientID, ClientSecret string
	RedirectURI            string // if not empty, it must be the registered one
	Verifier               string // PKCE code verifier
	ProofKey               string // thumbprint of the key of the request's verified DPoP proof, or ""
}

// Token is the result of a token request.
type Token struct {
	AccessToken  string
	RefreshToken string
	UserID       string
	CompanyID    string
	Scopes       identity.Scopes
	Life         time.Duration
	Bound        bool // reports whether the token is bound to the key of the request's proof
}

// Exchange returns tokens for a code or a refresh token, or an *Error. The transaction must be committed in both
// cases, because a misuse of a code or token revokes the consent.
func Exchange(ctx context.Context, tx *db.Tx, env identity.Environment, r TokenRequest) (Token, *Error, error) {
	app, refusal, err := client(ctx, tx, r.ClientID, r.ClientSecret)
	switch {
	case err != nil || refusal != nil:
		return Token{}, refusal, err
	case !isTarget(r.Base, r.Resource):
		return Token{}, errTarget, nil
	case app.DPoP && r.ProofKey == "":
		return Token{}, errProof, nil
	case r.GrantType == "refresh_token":
		return refreshed(ctx, tx, env, app, r)
	case r.GrantType == DeviceGrant:
		return polled(ctx, tx, env, app, r.DeviceCode, r.ProofKey)
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
		// useCode waited until a concurrent exchange was committed, so selectCode now returns the consent of that exchange.
		if g, _, err = selectCode(ctx, tx, digest); err == nil && g.grantID != "" {
			err = identity.RevokeGrant(ctx, tx, g.companyID, g.grantID)
		}
		if err == nil && g.appID == app.ID {
			err = auth.NotifyAdministrators(ctx, tx, digest, app.CompanyID, mail.CodeReplayed, app.Name)
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
	case g.proofKey != "" && g.proofKey != r.ProofKey:
		return Token{}, errProof, nil
	}
	consent, err := identity.CreateGrant(ctx, tx, identity.Grant{
		CompanyID: g.companyID, AppID: app.ID, UserID: g.userID,
		Scopes: g.scopes & app.Scopes, // the app's scopes may have been reduced since the consent
	})
	if err != nil {
		return Token{}, nil, err
	}
	if err := setGrant(ctx, tx, g.companyID, digest, consent.ID); err != nil {
		return Token{}, nil, err
	}
	t, err := issue(ctx, tx, env, consent, consent.Scopes, r.ProofKey)
	return t, nil, err
}

// refreshed replaces a refresh token and returns new tokens.
func refreshed(ctx context.Context, tx *db.Tx, env identity.Environment, app identity.App, r TokenRequest) (
	Token, *Error, error) {
	if r.RefreshToken == "" {
		return Token{}, errNoRefresh, nil
	}
	requested, known := identity.ParseScopes(r.Scope)
	if !known {
		return Token{}, errScope, nil
	}
	digest := identity.RefreshDigest(env, r.RefreshToken)
	old, known, err := selectRefresh(ctx, tx, digest)
	if err != nil || !known {
		return Token{}, errRefresh, err
	}
	if old.appID != app.ID {
		return Token{}, errRefresh, identity.RevokeGrant(ctx, tx, old.companyID, old.grantID)
	}
	g, err := identity.GrantByID(ctx, tx, old.companyID, old.grantID)
	switch {
	case errors.Is(err, apierr.NotFoundErr) || err == nil && (g.Scopes == 0 || !tx.Now().Before(old.expires)):
		return Token{}, errRefresh, nil
	case err != nil:
		return Token{}, nil, err
	case !requested.Within(g.Scopes):
		return Token{}, errScope, nil
	case old.proofKey != "" && app.Public() && old.proofKey != r.ProofKey:
		return Token{}, errProof, nil
	}
	first, err := useRefresh(ctx, tx, old.companyID, digest)
	if err == nil && !first {
		return Token{}, errRefresh, errors.Join(
			identity.RevokeGrant(ctx, tx, old.companyID, old.grantID),
			auth.NotifyAdministrators(ctx, tx, digest, app.CompanyID, mail.RefreshReplayed, app.Name),
		)
	}
	if err != nil {
		return Token{}, nil, err
	}
	if requested == 0 {
		requested = g.Scopes
	}
	t, err := issue(ctx, tx, env, g, requested, r.ProofKey)
	return t, nil, err
}

// issue creates an access token with the given scopes, and a refresh token, for a consent. If key is not empty, the
// access token is bound to that key, and for a public client the refresh token, too.
func issue(ctx context.Context, tx *db.Tx, env identity.Environment, g identity.Grant, scopes identity.Scopes,
	key string) (t Token, err error) {
	t = Token{
		UserID: g.UserID, CompanyID: g.CompanyID, Scopes: scopes, Life: g.Expires.Sub(tx.Now()),
		RefreshToken: identity.NewRefreshToken(env), Bound: key != "",
	}
	for _, s := range scopes.List() {
		if GroupOf(s) == MoveMoney {
			t.Life = min(t.Life, MoneyLife)
		}
	}
	_, t.AccessToken, err = identity.CreateAccessToken(ctx, tx, env, identity.NewAccessToken{
		CompanyID: g.CompanyID, AppID: g.AppID, UserID: g.UserID, Scopes: scopes, GrantID: g.ID, Life: t.Life,
		ProofKey: key,
	})
	if err != nil {
		return Token{}, err
	}
	expires := tx.Now().Add(identity.TokenIdle)
	if g.Expires.Before(expires) {
		expires = g.Expires
	}
	return t, insertRefresh(ctx, tx, t.RefreshToken, g, key, expires)
}

// proves reports whether a PKCE verifier matches the stored challenge. A verifier without a stored challenge is
// rejected, because an attacker may have removed the challenge from the authorization request.
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

// client returns the app with a client ID and secret, or errClient. A public client has no secret.
func client(ctx context.Context, tx *db.Tx, id, secret string) (identity.App, *Error, error) {
	app, err := identity.AppByClientID(ctx, tx, id)
	if errors.Is(err, apierr.NotFoundErr) || err == nil && !app.CheckSecret(secret) && (!app.Public() || secret != "") {
		return app, errClient, nil
	}
	return app, nil, err
}

// Revoke revokes an access token of the client, or the whole consent if it is given a refresh token (RFC 7009). It
// ignores an unknown token and another client's token.
func Revoke(ctx context.Context, tx *db.Tx, env identity.Environment, clientID, clientSecret,
	token string) (*Error, error) {
	app, refusal, err := client(ctx, tx, clientID, clientSecret)
	if err != nil || refusal != nil {
		return refusal, err
	}
	if digest := identity.RefreshDigest(env, token); digest != "" {
		r, known, err := selectRefresh(ctx, tx, digest)
		if err != nil || !known || r.appID != app.ID {
			return nil, err
		}
		return nil, identity.RevokeGrant(ctx, tx, r.companyID, r.grantID)
	}
	return nil, identity.RevokeToken(ctx, tx, env, app.ID, token)
}

// Connection is an app that may act for a user.
type Connection struct {
	AppID     string
	App       string
	CompanyID string // "" if the app may act for the user alone
	Scopes    identity.Scopes
	GrantedAt time.Time // time of the first consent
	LastUsed  time.Time // time of the last use; zero means never
}

// Describe returns an English description of what a scope permits, for the user who is asked to grant it.
func Describe(s identity.Scope) string {
	if w, ok := scopeTexts[s]; ok {
		return w.text
	}
	return s
}

// Group classifies scopes by risk.
type Group string

// The groups, from lowest to highest risk.
const (
	See       Group = "see"
	Change    Group = "change"
	MoveMoney Group = "move_money"
)

// CompanyScopes returns the scopes that require a company.
func CompanyScopes() identity.Scopes {
	return identity.NewScopes(identity.CompanyDetail, identity.CompanyWorkerList, identity.CompanyWorkerInvitationsList,
		identity.CompanyWorkersInvite, identity.CompanyWorkersPay, identity.CompanyPropose,
		identity.CompanyApprove, identity.CompanyMembers)
}

// GroupOf returns the group of a scope.
func GroupOf(s identity.Scope) Group { return scopeTexts[s].group }

var scopeTexts = map[identity.Scope]struct {
	group Group
	text  string
}{
	identity.CompanyDetail:                {See, "View the company, its wallets and its events"},
	identity.CompanyWorkerList:            {See, "View the people it pays"},
	identity.CompanyWorkerInvitationsList: {See, "View invitations"},
	identity.CompanyWorkersInvite:         {MoveMoney, "Invite and add people, and change where they’re paid"},
	identity.CompanyWorkersPay:            {MoveMoney, "Pay people: create and cancel payrolls and checkout claims"},
	identity.CompanyPropose: {Change, "View payrolls and checkout claims, and propose new ones, which a member " +
		"confirms"},
	identity.CompanyApprove: {MoveMoney, "Approve payrolls, withdrawals and refunds in your name, after you " +
		"enter a code"},
	identity.CompanyMembers: {MoveMoney, "Invite and remove members, and change their roles, after you " +
		"enter a code"},
	identity.UserCreate:             {Change, "Add users"},
	identity.UserUpdate:             {Change, "Change your profile"},
	identity.UserDetail:             {See, "View your profile"},
	identity.UserUpdateDoc:          {Change, "Upload your documents"},
	identity.UserDocumentList:       {See, "List the documents you’ve uploaded"},
	identity.UserKYCInitiate:        {Change, "Submit your identity for verification"},
	identity.UserPayerCreate:        {Change, "Add payers"},
	identity.UserPayerUpdate:        {Change, "Change and delete payers"},
	identity.UserPayerDetail:        {See, "View a payer"},
	identity.UserPayerList:          {See, "List your payers"},
	identity.UserInvoiceCreate:      {Change, "Create invoices"},
	identity.UserInvoiceDelete:      {Change, "Delete invoices"},
	identity.UserInvoiceDetail:      {See, "View an invoice"},
	identity.UserInvoiceList:        {See, "List your invoices"},
	identity.UserDistributionCreate: {MoveMoney, "Add destinations where you’re paid"},
	identity.UserDistributionUpdate: {MoveMoney, "Change where you’re paid"},
	identity.UserDistributionDetail: {See, "View one of your destinations"},
	identity.UserDistributionList:   {See, "List your destinations"},
	identity.UserBankDetails:        {Change, "Open and view your account for receiving money"},
	identity.PlatformCompanies:      {MoveMoney, "Create companies and act for them"},
}

// Forget deletes codes older than 30 days (until then a second use is detected), expired unused device codes, access
// tokens that expired 30 days ago, and expired refresh tokens and pushed requests.
func Forget(ctx context.Context, d *db.DB) error {
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		before := tx.Now().Add(-30 * 24 * time.Hour)
		return errors.Join(deleteOld(ctx, tx, before), identity.ForgetAccessTokens(ctx, tx, before))
	})
}

// ParseBasic returns the client ID and secret in a Basic Authorization header, which are form-encoded as in RFC 6749,
// section 2.3.1.
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
