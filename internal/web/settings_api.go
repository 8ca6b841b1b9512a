package web

import (
	"context"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/oauth"
)

// secretPage shows what is not kept.
type secretPage struct {
	Values []option // by what they are called
	Back   string
}

// shownOnce is a page instead of a redirect: where it led, the secret could not be shown.
func (c *call) shownOnce(back string, pairs ...string) view {
	p := secretPage{Back: back}
	for i := 0; i+1 < len(pairs); i += 2 {
		p.Values = append(p.Values, option{Label: c.text(pairs[i]), Value: pairs[i+1]})
	}
	return view{page: "secret", title: c.text("secret.title"), data: p}
}

type appsPage struct {
	Company string
	Apps    []identity.App
	Fields  []field
	Scopes  []scopeChoices
	Problem said // with the scopes
}

// scopeChoices are the scopes of one gravity, to choose from.
type scopeChoices struct {
	Title   string
	Choices []option
}

// showApps lists the apps of the company, and asks for another.
func showApps(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	apps, err := identity.Apps(ctx, tx, c.session.Company.ID)
	if err != nil {
		return view{}, err
	}
	p := appsPage{Company: c.session.Company.Name, Apps: apps, Fields: []field{
		c.field(field{Name: "name", Required: true, Most: 100}),
		c.field(field{Name: "redirect_uri", Type: "url", Most: 500}),
	}}
	for _, g := range []oauth.Group{oauth.See, oauth.Change, oauth.MoveMoney} {
		choices := scopeChoices{Title: c.text("scopes." + string(g))}
		for _, s := range identity.AllScopes().List() {
			if oauth.GroupOf(s) == g {
				choices.Choices = append(choices.Choices, option{Value: s, Label: c.text("scope." + s), Selected: slices.Contains(c.form["scopes"], s)})
			}
		}
		p.Scopes = append(p.Scopes, choices)
	}
	for _, w := range c.problems() {
		if w.Name == "scopes" {
			p.Problem = w.said
		}
	}
	return view{page: "apps", title: c.text("apps.title"), data: p}, nil
}

// registerApp makes an app and shows its client secret.
func registerApp(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	var scopes identity.Scopes
	for _, name := range c.form["scopes"] {
		set, known := identity.ParseScopes(name)
		if !known {
			return view{}, errForm
		}
		scopes |= set
	}
	if scopes == 0 {
		var problems apierr.List
		problems.Add("missing_field", "/scopes", "Choose at least one.")
		return view{}, problems.Err()
	}
	if err := c.session.Company.Active(); err != nil {
		return view{}, err
	}
	app, secret, err := identity.CreateApp(ctx, tx, c.Env, identity.NewApp{
		CompanyID: c.session.Company.ID, Name: c.form.Get("name"), RedirectURI: c.form.Get("redirect_uri"), Scopes: scopes,
	})
	if err != nil {
		return view{}, err
	}
	return c.shownOnce(appPath(app.ID), "app.client_id", app.ClientID, "app.client_secret", secret), auth.Tell(ctx, tx, tx.NewID("evt"), app.CompanyID, mail.SecretMade, app.Name)
}

func appPath(id string) string { return "/settings/api/" + id }

type appPage struct {
	App    identity.App
	Path   string
	Groups []scopeGroup
	Keys   []keyShown
	Since  string
}

type keyShown struct {
	ID, Hint, Created, LastUsed, Ended, Ends string
	Works                                    bool
}

// showApp is one app with its keys.
func showApp(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	app, err := identity.AppByID(ctx, tx, c.session.Company.ID, c.r.PathValue("app"))
	if err != nil {
		return view{}, err
	}
	keys, err := identity.APIKeys(ctx, tx, app.CompanyID, app.ID)
	if err != nil {
		return view{}, err
	}
	p := appPage{App: app, Path: appPath(app.ID), Groups: c.scopeGroups(app.Scopes), Since: app.Created.UTC().Format(time.DateOnly)}
	for _, k := range keys {
		shown := keyShown{ID: k.ID, Hint: k.Hint, Created: when(k.Created), LastUsed: when(k.LastUsed), Works: k.Works(tx.Now()), Ended: when(k.Revoked)}
		switch {
		case shown.Works:
			shown.Ends = when(k.Expires)
		case shown.Ended == "":
			shown.Ended = when(k.Expires)
		}
		p.Keys = append(p.Keys, shown)
	}
	return view{page: "app", title: app.Name, data: p}, nil
}

// issueKey is the self authorization of an app: the company lets its own program act for it.
func issueKey(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	token, err := identity.AuthorizeOwn(ctx, tx, c.Env, c.session.Company.ID, c.r.PathValue("app"))
	return c.keyShown(ctx, tx, token, err)
}

// rotateKey replaces a key.
func rotateKey(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	token, err := identity.RotateAPIKey(ctx, tx, c.Env, c.session.Company.ID, c.r.PathValue("app"), c.r.PathValue("key"))
	return c.keyShown(ctx, tx, token, err)
}

func (c *call) keyShown(ctx context.Context, tx *db.Tx, token string, err error) (view, error) {
	if err == nil {
		err = c.session.Company.Active()
	}
	if err == nil {
		err = c.tellOfApp(ctx, tx, mail.KeyMade)
	}
	if err != nil {
		return view{}, err
	}
	return c.shownOnce(appPath(c.r.PathValue("app")), "app.key", token), nil
}

// revokeKey ends a key at once.
func revokeKey(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	return view{redirect: appPath(c.r.PathValue("app"))}, identity.RevokeAPIKey(ctx, tx, c.session.Company.ID, c.r.PathValue("key"))
}

// rotateSecret replaces the client secret of an app.
func rotateSecret(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	secret, err := identity.RotateSecret(ctx, tx, c.Env, c.session.Company.ID, c.r.PathValue("app"))
	if err != nil {
		return view{}, err
	}
	return c.shownOnce(appPath(c.r.PathValue("app")), "app.client_secret", secret), c.tellOfApp(ctx, tx, mail.SecretMade)
}

// tellOfApp writes to those who answer for the company that an app of its got another key or secret.
func (c *call) tellOfApp(ctx context.Context, tx *db.Tx, change string) error {
	app, err := identity.AppByID(ctx, tx, c.session.Company.ID, c.r.PathValue("app"))
	if err != nil {
		return err
	}
	return auth.Tell(ctx, tx, tx.NewID("evt"), app.CompanyID, change, app.Name)
}
