package auth

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/oauth"
	"github.com/stipend/stipend/internal/web/ui"
)

var (
	errParams = apierr.New(apierr.BadRequest, "invalid_request",
		"The link you followed contains a parameter twice, or one that is too long, so nothing was done.")
	errDecision = apierr.New(apierr.BadRequest, "malformed_form", "The form contains no decision.")
)

// consentPage shows a user what an app asks for.
type consentPage struct {
	App, Publisher, Website, Registered string
	Verified                            bool   // the publisher is a verified company
	Alike                               bool   // another publisher has an app with a similar name
	Back                                string // host of the redirect URL
	Device                              bool   // a device waits for the answer
	Code                                string // that the device must show
	Email                               string
	Companies                           []ui.Option // companies for which the user may allow it
	Groups                              []ui.ScopeGroup
	Ask                                 []ui.Option // authorization request, as hidden form fields
	Again                               string      // this page, for signing in with another account
}

// requestParams are the parameters of an authorization request (RFC 6749, section 4.1.1; RFC 7636).
var requestParams = []string{"client_id", "state", "response_type", "redirect_uri", "scope", "code_challenge",
	"code_challenge_method", "resource", "request_uri", "user_code"}

// readRequest reads the authorization request from the URL or the posted form. A repeated parameter is an error.
func readRequest(c *ui.Request) (oauth.Params, error) {
	v := c.Form
	if v == nil {
		v = c.HTTP.URL.Query()
	}
	for _, name := range requestParams {
		if len(v[name]) > 1 || len(v.Get(name)) > oauth.MaxParam {
			return oauth.Params{}, errParams
		}
	}
	p := oauth.ParseParams(v)
	if p.RequestURI != "" { // further parameters are ignored (RFC 9126)
		p = oauth.Params{ClientID: p.ClientID, RequestURI: p.RequestURI}
	}
	if p.UserCode != "" {
		p = oauth.Params{UserCode: p.UserCode}
	}
	p.Base = c.BaseURL
	return p, nil
}

// issuer returns the issuer identifier of this service in OAuth.
func issuer(s *ui.Server) string { return cmp.Or(s.AuthURL, s.BaseURL) }

// checkRequest validates an authorization request. If the app may learn of the error, checkRequest returns a redirect
// to the app. Otherwise it returns the error, which is shown to the user and not sent anywhere.
func checkRequest(ctx context.Context, c *ui.Request, tx *db.Tx, ask oauth.Params) (oauth.Request, *ui.View, error) {
	r, err := oauth.Check(ctx, tx, ask)
	var refusal *oauth.Error
	if errors.As(err, &refusal) {
		return r, &ui.View{External: r.Refused(issuer(c.Server), refusal)}, nil
	}
	return r, nil, err
}

// errUnknownApp is returned for a client ID of no app.
var errUnknownApp = apierr.New(apierr.NotFound, "unknown_app",
	"The link you followed names an app that isn’t registered here, so nothing was authorized.")

// showConsent asks the user whether an app may act for them. The user signs in first, so that a link cannot be used
// as an open redirector (RFC 9700, section 4.11.2).
func showConsent(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	ask, err := readRequest(c)
	if err != nil {
		return ui.View{}, err
	}
	if c.HTTP.URL.Query().Has("user_code") { // only a person who has signed in learns whether a code exists
		if signedIn, err := c.FindSession(ctx, tx); err != nil || !signedIn {
			return ui.View{Redirect: c.SignInURL()}, err
		}
		if err := c.AnonymousLimiter.Allow(c.Time, session.Network(c.RemoteAddr()).String(), http.Header{}); err != nil {
			return ui.View{}, err
		}
	}
	r, back, err := checkRequest(ctx, c, tx, ask)
	if ask.UserCode != "" && errors.Is(err, oauth.ErrUserCode) {
		return ui.View{Redirect: oauth.DevicePage + "?wrong=1"}, nil
	}
	if ask.UserCode == "" && ask.RequestURI == "" && errors.Is(err, oauth.ErrClient) {
		return ui.View{}, errUnknownApp
	}
	if err != nil {
		return ui.View{}, err
	}
	if signedIn, err := c.FindSession(ctx, tx); err != nil || !signedIn {
		return ui.View{Redirect: c.SignInURL()}, err
	}
	if back != nil {
		return *back, nil
	}
	if may, err := mayGrant(ctx, c, tx, c.Session.Company.ID, r.Scopes); err != nil || !may {
		return ui.View{Redirect: c.ProofURL()}, err
	}
	publisher := identity.Company{Name: c.OperatorName(), KYBStatus: identity.KYBApproved}
	if !r.App.Public() {
		if publisher, err = identity.CompanyByID(ctx, tx, r.App.CompanyID); err != nil {
			return ui.View{}, err
		}
	}
	to, err := url.Parse(r.App.RedirectURI)
	if err != nil {
		return ui.View{}, err
	}
	p := consentPage{
		App: r.App.Name, Publisher: publisher.Name, Website: publisher.Website,
		Verified:   publisher.KYBStatus == identity.KYBApproved,
		Registered: r.App.Created.UTC().Format(time.DateOnly), Back: to.Host, Device: r.Device, Email: c.Session.User.Email,
		Groups: c.ScopeGroups(r.Scopes), Again: c.HTTP.URL.RequestURI(),
	}
	if r.Device {
		p.Code = identity.FormatUserCode(identity.UserCode(ask.UserCode))
	}
	if p.Alike, err = identity.LooksLikeAnother(ctx, tx, r.App); err != nil {
		return ui.View{}, err
	}
	if p.Companies, err = grantOptions(ctx, c, tx, r.Scopes); err != nil {
		return ui.View{}, err
	}
	// The form carries the scopes shown here, so scopes that the app gains in the meantime are not granted. Those of a
	// pushed request are stored.
	if ask.RequestURI == "" {
		ask.Scope = r.Scopes.String()
	}
	for name, value := range ask.Values() {
		p.Ask = append(p.Ask, ui.Option{Value: value[0], Label: name})
	}
	slices.SortFunc(p.Ask, func(a, b ui.Option) int { return cmp.Compare(a.Label, b.Label) })
	// Browsers apply form-action to redirects, too.
	return ui.View{Template: "authorize", Title: c.Text("authorize.title", r.App.Name), Data: p, FormScheme: to.Scheme},
		nil
}

// grantOptions returns the companies for which the user may allow the scopes, and "only me" if a scope applies to
// users.
func grantOptions(ctx context.Context, c *ui.Request, tx *db.Tx, scopes identity.Scopes) ([]ui.Option, error) {
	var all []ui.Option
	for _, m := range c.Session.Members {
		if !identity.Manages(m.Role) {
			continue
		}
		company, err := identity.CompanyByID(ctx, tx, m.CompanyID)
		if err != nil {
			return nil, err
		}
		all = append(all, ui.Option{Value: company.ID, Label: company.Name, Selected: company.ID == c.Session.Company.ID})
	}
	if scopes&^oauth.CompanyScopes() != 0 {
		all = append(all, ui.Option{Value: "", Label: c.Text("authorize.alone")})
	}
	return all, nil
}

// decide redirects to the app with the user's decision. Only a person who has signed in learns whether the app and the
// code of a device exist.
func decide(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	ask, err := readRequest(c)
	if err != nil {
		return ui.View{}, err
	}
	if signedIn, err := c.FindSession(ctx, tx); err != nil || !signedIn {
		return ui.View{Redirect: ui.SignInPath("/authorize?" + ask.Values().Encode())}, err
	}
	if !c.HasFormToken() {
		return ui.View{}, ui.ErrFormToken
	}
	r, back, err := checkRequest(ctx, c, tx, ask)
	if err != nil {
		return ui.View{}, err
	}
	if back != nil {
		return *back, nil
	}
	switch c.Form.Get("decision") {
	case "deny":
		if r.Device {
			return ui.View{Redirect: oauth.DevicePage + "?done=denied"}, oauth.Answer(ctx, tx, c.Session.User, "", r, false)
		}
		return ui.View{External: r.Refused(issuer(c.Server), oauth.ErrDenied)}, nil
	case "allow":
		if may, err := mayGrant(ctx, c, tx, c.Form.Get("company_id"), r.Scopes); err != nil || !may {
			return ui.View{Redirect: ui.ProofPath("/authorize?" + ask.Values().Encode())}, err
		}
		if r.Device {
			return ui.View{Redirect: oauth.DevicePage + "?done=allowed"},
				oauth.Answer(ctx, tx, c.Session.User, c.Form.Get("company_id"), r, true)
		}
		code, err := oauth.Grant(ctx, tx, c.Env, c.Session.User, c.Form.Get("company_id"), r)
		if err != nil {
			return ui.View{}, err
		}
		return ui.View{External: r.Granted(issuer(c.Server), code)}, nil
	default:
		return ui.View{}, errDecision
	}
}

// devicePage asks for the code that a device shows.
type devicePage struct {
	Code          string // as filled in by the device
	Wrong         bool
	Allowed, Done bool
}

// showDevice asks a person for the code of their device, or says that they can return to it.
func showDevice(_ context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	query := c.HTTP.URL.Query()
	p := devicePage{Code: query.Get("user_code"), Wrong: query.Get("wrong") != "", Done: query.Get("done") != "",
		Allowed: query.Get("done") == "allowed"}
	if len(p.Code) > 20 {
		p.Code = ""
	}
	return ui.View{Template: "device", Title: c.Text("device.title"), Data: p}, nil
}

// connectedApp is an app that may act for the user.
type connectedApp struct {
	ID, Name, CompanyID, Company string
	Groups                       []ui.ScopeGroup
	Granted, LastUsed            string
}

// showConnected lists the apps that may act for the user.
func showConnected(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	connections, err := oauth.Connections(ctx, tx, c.Session.User.ID)
	if err != nil {
		return ui.View{}, err
	}
	var all []connectedApp
	for _, k := range connections {
		a := connectedApp{ID: k.AppID, Name: k.App, CompanyID: k.CompanyID, Groups: c.ScopeGroups(k.Scopes),
			Granted: c.FormatTime(k.GrantedAt), LastUsed: c.FormatTime(k.LastUsed)}
		if k.CompanyID != "" {
			company, err := identity.CompanyByID(ctx, tx, k.CompanyID)
			if err != nil {
				return ui.View{}, err
			}
			a.Company = company.Name
		}
		all = append(all, a)
	}
	return ui.View{Template: "connected", Title: c.Text("connected.title"), Data: all}, nil
}

// disconnect revokes all grants of the user to an app for a company.
func disconnect(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Redirect: "/account/apps"}, oauth.Disconnect(
		ctx, tx, c.Session.User.ID, c.Form.Get("app_id"), c.Form.Get("company_id"))
}
