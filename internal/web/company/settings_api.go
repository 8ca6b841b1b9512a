package company

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
	"github.com/stipend/stipend/internal/platform"
	"github.com/stipend/stipend/internal/web/ui"
)

// secretPage shows secrets that are not stored and cannot be shown again.
type secretPage struct {
	Lead   string      // how to keep the values
	Note   string      // above the values; "" for none
	Values []ui.Option // with labels
	Back   string
}

// showSecret renders secrets in the response to the form itself, because a redirect could not show them.
func showSecret(c *ui.Request, back string, pairs ...string) ui.View {
	p := secretPage{Back: back, Lead: c.Text("secret.lead")}
	for i := 0; i+1 < len(pairs); i += 2 {
		p.Values = append(p.Values, ui.Option{Label: c.Text(pairs[i]), Value: pairs[i+1]})
	}
	return ui.View{Template: "secret", Title: c.Text("secret.title"), Data: p}
}

type appsPage struct {
	Company  string
	Platform string // name of the connected platform, "" for none
	Apps     []appRow
	Presets  []preset
	Name     ui.Field
	OAuth    []ui.Field // for apps that act for others
	Open     bool       // the permissions and the fields in OAuth are shown
	Scopes   []scopeChoices
	Problem  ui.LocalizedText // of the scopes
}

// appRow is an app with the number of its valid keys and the last day on which one was used, "" for never.
type appRow struct{ Name, Path, Keys, Created, Used string }

// newAppRow returns the row of an app.
func newAppRow(ctx context.Context, c *ui.Request, tx *db.Tx, app identity.App) (appRow, error) {
	keys, err := identity.APIKeys(ctx, tx, app.CompanyID, app.ID)
	if err != nil {
		return appRow{}, err
	}
	valid, used := int64(0), time.Time{}
	for _, k := range keys {
		if k.Active(tx.Now()) {
			valid++
		}
		if k.LastUsed.After(used) {
			used = k.LastUsed
		}
	}
	row := appRow{Name: app.Name, Path: appPath(app.ID), Keys: c.Plural("apps.keys", valid, c.FormatCount(valid)),
		Created: c.FormatTime(app.Created)}
	if !used.IsZero() {
		row.Used = c.FormatTime(used)
	}
	return row, nil
}

// scopeChoices are the scopes of one risk level.
type scopeChoices struct {
	Title   string
	Choices []ui.Option
}

// preset is a choice of permissions for a purpose, which fills in the form.
type preset struct {
	ID, Icon, Title, Lead, Path string
	Chosen                      bool
	scopes                      func(identity.Scope) bool
}

// presets returns the presets. The one that the URL names is chosen.
func presets(c *ui.Request) []preset {
	among := func(some ...identity.Scope) func(identity.Scope) bool {
		return func(s identity.Scope) bool { return slices.Contains(some, s) }
	}
	all := []preset{
		{ID: "payroll", Icon: "send", scopes: among(identity.CompanyDetail, identity.CompanyWorkerList,
			identity.CompanyWorkerInvitationsList, identity.CompanyWorkersInvite, identity.CompanyWorkersPay)},
		{ID: "checkout", Icon: "arrow-down-left", scopes: among(identity.CompanyDetail, identity.CompanyWorkersPay)},
		{ID: "read", Icon: "eye", scopes: func(s identity.Scope) bool { return oauth.GroupOf(s) == oauth.See }},
		{ID: "all", Icon: "check-check", scopes: func(identity.Scope) bool { return true }},
	}
	for i := range all {
		p := &all[i]
		p.Title, p.Lead = c.Text("preset."+p.ID), c.Text("preset."+p.ID+".lead")
		p.Path, p.Chosen = c.URL(ui.KeysPath+"?preset="+p.ID+"#new"), c.Query("preset") == p.ID
	}
	return all
}

// showApps lists the company's apps and renders the form for a new one.
func showApps(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	apps, err := identity.Apps(ctx, tx, c.Session.Company.ID)
	if err != nil {
		return ui.View{}, err
	}
	chosen, name := preset{scopes: func(identity.Scope) bool { return false }}, ui.Field{Name: "name", Required: true,
		MaxLength: 100}
	p := appsPage{Company: c.Session.Company.Name, Presets: presets(c)}
	for _, app := range apps {
		row, err := newAppRow(ctx, c, tx, app)
		if err != nil {
			return ui.View{}, err
		}
		p.Apps = append(p.Apps, row)
	}
	_, app, _, err := platform.Of(ctx, tx, c.Session.Company.ID)
	if err != nil {
		return ui.View{}, err
	}
	p.Platform = app.Name
	for _, one := range p.Presets {
		if one.Chosen {
			chosen, name.Value = one, one.Title
		}
	}
	p.Name = c.Field(name)
	p.OAuth = []ui.Field{c.Field(ui.Field{Name: "redirect_uri", Type: "url", MaxLength: 500})}
	p.Open = chosen.ID == "" && c.Form != nil
	for _, g := range []oauth.Group{oauth.See, oauth.Change, oauth.MoveMoney} {
		choices := scopeChoices{Title: c.Text("scopes." + string(g))}
		for _, s := range identity.AllScopes().List() {
			if oauth.GroupOf(s) == g {
				choices.Choices = append(choices.Choices, ui.Option{
					Value: s, Label: c.Text("scope." + s), Selected: slices.Contains(c.Form["scopes"], s) ||
						c.Form == nil && chosen.scopes(s)})
			}
		}
		p.Scopes = append(p.Scopes, choices)
	}
	for _, w := range c.Problems() {
		if w.Name == "scopes" {
			p.Problem = w.LocalizedText
		}
	}
	return ui.View{Template: "apps", Title: c.Text("apps.title"), Data: p}, nil
}

// registerApp creates an app, with an API key if the form asks for one, and shows its secrets.
func registerApp(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	var scopes identity.Scopes
	for _, name := range c.Form["scopes"] {
		set, known := identity.ParseScopes(name)
		if !known {
			return ui.View{}, ui.ErrForm
		}
		scopes |= set
	}
	if scopes == 0 {
		var problems apierr.List
		problems.Add("missing_field", "/scopes", "Choose at least one.")
		return ui.View{}, problems.Err()
	}
	if err := c.Session.Company.Active(); err != nil {
		return ui.View{}, err
	}
	app, secret, err := identity.CreateApp(ctx, tx, c.Env, identity.NewApp{
		CompanyID: c.Session.Company.ID, Name: c.Form.Get("name"), RedirectURI: c.Form.Get("redirect_uri"), Scopes: scopes,
	})
	if err != nil {
		return ui.View{}, err
	}
	secrets := []string{"app.client_id", app.ClientID, "app.client_secret", secret}
	if c.Form.Has("key") {
		token, err := identity.IssueAPIKey(ctx, tx, c.Env, app.CompanyID, app.ID)
		if err != nil {
			return ui.View{}, err
		}
		secrets = append([]string{"app.key", token}, secrets...)
		err = auth.NotifyAdministrators(ctx, tx, tx.NewID("evt"), app.CompanyID, mail.KeyCreated, app.Name)
		if err != nil {
			return ui.View{}, err
		}
	}
	return showSecret(c, appPath(app.ID), secrets...),
		auth.NotifyAdministrators(ctx, tx, tx.NewID("evt"), app.CompanyID, mail.SecretCreated, app.Name)
}

func appPath(id string) string { return ui.KeysPath + "/" + id }

type appPage struct {
	App    identity.App
	Path   string
	Groups []ui.ScopeGroup
	Keys   []keyRow
	Since  string
}

type keyRow struct {
	ID, Hint, Created, LastUsed, Ended, Ends string
	Works                                    bool
}

// showApp renders an app with its keys.
func showApp(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	app, err := identity.AppByID(ctx, tx, c.Session.Company.ID, c.HTTP.PathValue("app"))
	if err != nil {
		return ui.View{}, err
	}
	keys, err := identity.APIKeys(ctx, tx, app.CompanyID, app.ID)
	if err != nil {
		return ui.View{}, err
	}
	p := appPage{App: app, Path: appPath(app.ID), Groups: c.ScopeGroups(app.Scopes),
		Since: app.Created.UTC().Format(time.DateOnly)}
	for _, k := range keys {
		shown := keyRow{ID: k.ID, Hint: k.Hint, Created: c.FormatTime(k.Created), LastUsed: c.FormatTime(k.LastUsed),
			Works: k.Active(tx.Now()), Ended: c.FormatTime(k.Revoked)}
		switch {
		case shown.Works:
			shown.Ends = c.FormatTime(k.Expires)
		case shown.Ended == "":
			shown.Ended = c.FormatTime(k.Expires)
		}
		p.Keys = append(p.Keys, shown)
	}
	return ui.View{Template: "app", Title: app.Name, Data: p}, nil
}

// issueKey creates an API key, with which the company's own software acts for it.
func issueKey(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	token, err := identity.IssueAPIKey(ctx, tx, c.Env, c.Session.Company.ID, c.HTTP.PathValue("app"))
	return showNewKey(ctx, c, tx, token, err)
}

// rotateKey replaces an API key.
func rotateKey(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	token, err := identity.RotateAPIKey(ctx, tx, c.Env, c.Session.Company.ID, c.HTTP.PathValue("app"),
		c.HTTP.PathValue("key"))
	return showNewKey(ctx, c, tx, token, err)
}

func showNewKey(ctx context.Context, c *ui.Request, tx *db.Tx, token string, err error) (ui.View, error) {
	if err == nil {
		err = c.Session.Company.Active()
	}
	if err == nil {
		err = notifyOfApp(ctx, c, tx, mail.KeyCreated)
	}
	if err != nil {
		return ui.View{}, err
	}
	return showSecret(c, appPath(c.HTTP.PathValue("app")), "app.key", token), nil
}

// revokeKey revokes an API key with immediate effect.
func revokeKey(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Redirect: appPath(c.HTTP.PathValue("app"))},
		identity.RevokeAPIKey(ctx, tx, c.Session.Company.ID, c.HTTP.PathValue("key"))
}

// rotateSecret replaces the client secret of an app.
func rotateSecret(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	secret, err := identity.RotateSecret(ctx, tx, c.Env, c.Session.Company.ID, c.HTTP.PathValue("app"))
	if err != nil {
		return ui.View{}, err
	}
	return showSecret(c, appPath(c.HTTP.PathValue("app")), "app.client_secret", secret),
		notifyOfApp(ctx, c, tx, mail.SecretCreated)
}

// requireDPoP makes only tokens of an app valid that are bound to its key, or ends that.
func requireDPoP(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Redirect: appPath(c.HTTP.PathValue("app"))},
		identity.SetDPoP(ctx, tx, c.Session.Company.ID, c.HTTP.PathValue("app"), c.Form.Has("require"))
}

// notifyOfApp emails the owners and administrators that an app has a new key or secret.
func notifyOfApp(ctx context.Context, c *ui.Request, tx *db.Tx, change string) error {
	app, err := identity.AppByID(ctx, tx, c.Session.Company.ID, c.HTTP.PathValue("app"))
	if err != nil {
		return err
	}
	return auth.NotifyAdministrators(ctx, tx, tx.NewID("evt"), app.CompanyID, change, app.Name)
}
