package web

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/oauth"
)

var (
	errRepeated = apierr.New(apierr.BadRequest, "invalid_request", "The link that sent you here says the same thing twice, so nothing was done.")
	errDecision = apierr.New(apierr.BadRequest, "malformed_form", "The form says neither yes nor no.")
)

// when shows an instant, in one form for every language.
func when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04 UTC")
}

// consentPage is what an app asks for, as its user sees it.
type consentPage struct {
	App, Publisher, Website, Registered string
	Verified                            bool   // the publisher, as a company
	Alike                               bool   // another publisher has an app of nearly the same name
	Back                                string // the host that gets the answer
	Email                               string
	Companies                           []option // for which the user may allow it
	Groups                              []scopeGroup
	Ask                                 []option // what was asked, for the answer
	Again                               string   // this page, for another account
}

// scopeGroup are scopes of one gravity, in words.
type scopeGroup struct {
	Name, Title string
	Scopes      []string
}

// askNames are the parameters of an ask (RFC 6749, section 4.1.1).
var askNames = []string{"client_id", "state", "response_type", "redirect_uri", "scope", "code_challenge", "code_challenge_method"}

// ask reads what an app sent its user with, from the address or, with the answer, from the form. None may come twice.
func (c *call) ask() (oauth.Ask, error) {
	v := c.form
	if v == nil {
		v = c.r.URL.Query()
	}
	for _, name := range askNames {
		if len(v[name]) > 1 {
			return oauth.Ask{}, errRepeated
		}
	}
	return oauth.Ask{
		ClientID: v.Get("client_id"), State: v.Get("state"), ResponseType: v.Get("response_type"), RedirectURI: v.Get("redirect_uri"),
		Scope: v.Get("scope"), Challenge: v.Get("code_challenge"), Method: v.Get("code_challenge_method"),
	}, nil
}

// issuer is the name that this service goes by in OAuth.
func (s *server) issuer() string { return cmp.Or(s.AuthURL, s.BaseURL) }

// asked checks what an app asks. A refusal that the app may hear is the view that leads back to it; what it may not is an error,
// and so a page that leads nowhere.
func (c *call) asked(ctx context.Context, tx *db.Tx) (oauth.Ask, oauth.Request, *view, error) {
	ask, err := c.ask()
	if err != nil {
		return ask, oauth.Request{}, nil, err
	}
	r, err := oauth.Check(ctx, tx, ask)
	var refusal *oauth.Error
	if errors.As(err, &refusal) {
		return ask, r, &view{away: r.Refused(c.issuer(), refusal)}, nil
	}
	return ask, r, nil, err
}

// showConsent asks a user whether an app may act for them. Whoever is not signed in does that first: no link leads a
// stranger on to an app's page (RFC 9700, section 4.11.2).
func showConsent(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	ask, r, back, err := c.asked(ctx, tx)
	if err != nil {
		return view{}, err
	}
	if signedIn, err := c.find(ctx, tx); err != nil || !signedIn {
		return view{redirect: c.signInFirst()}, err
	}
	if back != nil {
		return *back, nil
	}
	if may, err := c.mayAllow(ctx, tx, c.session.Company.ID, r.Scopes); err != nil || !may {
		return view{redirect: c.factorFirst()}, err
	}
	publisher, err := identity.CompanyByID(ctx, tx, r.App.CompanyID)
	if err != nil {
		return view{}, err
	}
	to, err := url.Parse(r.App.RedirectURI)
	if err != nil {
		return view{}, err
	}
	p := consentPage{
		App: r.App.Name, Publisher: publisher.Name, Website: publisher.Website, Verified: publisher.KYBStatus == identity.KYBApproved,
		Registered: r.App.Created.UTC().Format(time.DateOnly), Back: to.Host, Email: c.session.User.Email,
		Groups: c.scopeGroups(r.Scopes), Again: c.r.URL.RequestURI(),
	}
	if p.Alike, err = identity.LooksLikeAnother(ctx, tx, r.App); err != nil {
		return view{}, err
	}
	if p.Companies, err = c.grantsFor(ctx, tx, r.Scopes); err != nil {
		return view{}, err
	}
	// The answer is to what was shown: an app that is given more meanwhile gets no more by it.
	ask.Scope = r.Scopes.String()
	for name, value := range ask.Values() {
		p.Ask = append(p.Ask, option{Value: value[0], Label: name})
	}
	slices.SortFunc(p.Ask, func(a, b option) int { return cmp.Compare(a.Label, b.Label) })
	// Browsers hold the app's address, and whatever that leads on to, against the page's form.
	return view{page: "authorize", title: c.text("authorize.title", r.App.Name), data: p, formsTo: to.Scheme}, nil
}

// grantsFor are the companies for which the reader may allow an app something, and the reader alone where that means anything.
func (c *call) grantsFor(ctx context.Context, tx *db.Tx, asked identity.Scopes) ([]option, error) {
	var all []option
	for _, m := range c.session.Members {
		if !identity.Manages(m.Role) {
			continue
		}
		company, err := identity.CompanyByID(ctx, tx, m.CompanyID)
		if err != nil {
			return nil, err
		}
		all = append(all, option{Value: company.ID, Label: company.Name, Selected: company.ID == c.session.Company.ID})
	}
	if asked&^oauth.CompanyScopes() != 0 {
		all = append(all, option{Value: "", Label: c.text("authorize.alone")})
	}
	return all, nil
}

// scopeGroups are scopes in plain words, from harmless to grave.
func (c *call) scopeGroups(scopes identity.Scopes) []scopeGroup {
	var all []scopeGroup
	for _, g := range []oauth.Group{oauth.See, oauth.Change, oauth.MoveMoney} {
		group := scopeGroup{Name: string(g), Title: c.text("scopes." + string(g))}
		for _, s := range scopes.List() {
			if oauth.GroupOf(s) == g {
				group.Scopes = append(group.Scopes, c.text("scope."+s))
			}
		}
		if len(group.Scopes) > 0 {
			all = append(all, group)
		}
	}
	return all
}

// decide takes the user's yes or no back to the app.
func decide(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	ask, r, back, err := c.asked(ctx, tx)
	if err != nil {
		return view{}, err
	}
	if signedIn, err := c.find(ctx, tx); err != nil || !signedIn {
		return view{redirect: signInPath("/authorize?" + ask.Values().Encode())}, err
	}
	if !c.proven() {
		return view{}, errFormToken
	}
	if back != nil {
		return *back, nil
	}
	switch c.form.Get("decision") {
	case "deny":
		return view{away: r.Refused(c.issuer(), oauth.ErrDenied)}, nil
	case "allow":
		if may, err := c.mayAllow(ctx, tx, c.form.Get("company_id"), r.Scopes); err != nil || !may {
			return view{redirect: proofPath("/authorize?" + ask.Values().Encode())}, err
		}
		code, err := oauth.Grant(ctx, tx, c.Env, c.session.User, c.form.Get("company_id"), r)
		if err != nil {
			return view{}, err
		}
		return view{away: r.Granted(c.issuer(), code)}, nil
	default:
		return view{}, errDecision
	}
}

// connectedApp is an app that may act for the reader.
type connectedApp struct {
	ID, Name, CompanyID, Company string
	Groups                       []scopeGroup
	Granted, LastUsed            string
}

// showConnected lists the apps that may act for the reader.
func showConnected(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	connections, err := oauth.Connections(ctx, tx, c.session.User.ID)
	if err != nil {
		return view{}, err
	}
	var all []connectedApp
	for _, k := range connections {
		a := connectedApp{ID: k.AppID, Name: k.App, CompanyID: k.CompanyID, Groups: c.scopeGroups(k.Scopes), Granted: when(k.GrantedAt), LastUsed: when(k.LastUsed)}
		if k.CompanyID != "" {
			company, err := identity.CompanyByID(ctx, tx, k.CompanyID)
			if err != nil {
				return view{}, err
			}
			a.Company = company.Name
		}
		all = append(all, a)
	}
	return view{page: "connected", title: c.text("connected.title"), data: all}, nil
}

// disconnect takes back all that the reader has allowed an app for a company.
func disconnect(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	return view{redirect: "/account/apps"}, oauth.Disconnect(ctx, tx, c.session.User.ID, c.form.Get("app_id"), c.form.Get("company_id"))
}
