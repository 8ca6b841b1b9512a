package company

import (
	"context"
	"slices"

	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/auth/sso"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/web/ui"
)

const ssoPath = "/settings/sso"

type ssoPage struct {
	Path, RedirectURL string
	Connection        sso.Connection
	Record            string // value of the DNS record
	Fields            []ui.Field
	Domains           []ssoDomain
	Domain            ui.Field
	CanEnforce        bool // the user has signed in by the provider
	Linked            []ssoMember
}

type ssoDomain struct {
	Name, RecordName string
	Verified         bool
	State            ui.Cell
}

type ssoMember struct{ UserID, Name string }

// showSSO renders the company's OpenID provider, its domains, and whether members must use it.
func showSSO(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	company := c.Session.Company.ID
	n, err := sso.Find(ctx, tx, company)
	if err != nil {
		return ui.View{}, err
	}
	p := ssoPage{Path: ssoPath, RedirectURL: c.SSORedirectURL(company), Connection: n, Record: company,
		CanEnforce: c.Session.SSO == company, Fields: []ui.Field{
			c.Field(ui.Field{Name: "issuer", Type: "url", Required: true, MaxLength: 300, Value: n.Issuer}),
			c.Field(ui.Field{Name: "client_id", Required: true, MaxLength: 500, Value: n.ClientID}),
			c.Field(ui.Field{Name: "client_secret", Type: "password", Autocomplete: "off", Required: n.Issuer == "",
				MaxLength: 1000}),
		}, Domain: c.Field(ui.Field{Name: "domain", Required: true, MaxLength: 253})}
	if n.Issuer != "" {
		p.Fields[2].Hint = c.Text("sso.secret.kept")
	}
	for _, d := range n.Domains {
		state := ui.Cell{Text: c.Text("sso.domain.waits"), Warn: true}
		if d.Verified {
			state = ui.Cell{Text: c.Text("sso.domain.verified")}
		}
		p.Domains = append(p.Domains, ssoDomain{d.Name, sso.RecordPrefix + d.Name, d.Verified, state})
	}
	linked, err := sso.Linked(ctx, tx, company)
	if err != nil {
		return ui.View{}, err
	}
	members, err := auth.Members(ctx, tx, company)
	if err != nil {
		return ui.View{}, err
	}
	for _, m := range members {
		if slices.Contains(linked, m.UserID) {
			p.Linked = append(p.Linked, ssoMember{m.UserID, m.Name})
		}
	}
	return ui.View{Template: "sso", Title: c.Text("sso.title"), Lead: c.Text("sso.settings.lead"), Data: p}, nil
}

// connectSSO stores the provider after a request to it.
func connectSSO(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	kept := false
	if err := c.DB.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
		n, err := sso.Find(ctx, tx, c.Session.Company.ID)
		kept = n.Issuer != ""
		return err
	}); err != nil {
		return ui.View{}, err
	}
	p, err := c.SSO.Validate(ctx, sso.Provider{Issuer: c.Form.Get("issuer"), ClientID: c.Form.Get("client_id"),
		ClientSecret: c.Form.Get("client_secret")}, kept)
	if err != nil {
		return ui.View{}, err
	}
	return ui.View{Redirect: ssoPath}, c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		return c.SSO.Connect(ctx, tx, by(c), p)
	})
}

func disconnectSSO(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Redirect: ssoPath}, c.SSO.Disconnect(ctx, tx, by(c))
}

func addSSODomain(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Redirect: ssoPath}, c.SSO.AddDomain(ctx, tx, by(c), c.Form.Get("domain"))
}

// verifySSODomain looks for the DNS record of a domain.
func verifySSODomain(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	name := c.HTTP.PathValue("domain")
	if err := c.SSO.Proven(ctx, c.Session.Company.ID, name); err != nil {
		return ui.View{}, ui.FormConflict(err)
	}
	err := c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		return c.SSO.VerifyDomain(ctx, tx, by(c), name)
	})
	return ui.View{Redirect: ssoPath}, ui.FormConflict(err)
}

func removeSSODomain(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Redirect: ssoPath}, c.SSO.RemoveDomain(ctx, tx, by(c), c.HTTP.PathValue("domain"))
}

// enforceSSO requires single sign-on of the members, or no longer requires it.
func enforceSSO(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	err := c.SSO.Enforce(ctx, tx, by(c), *c.Session, c.Form.Get("enforced") == "yes")
	return ui.View{Redirect: ssoPath}, ui.FormConflict(err)
}

func unlinkSSO(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Redirect: ssoPath}, c.SSO.Unlink(ctx, tx, by(c), c.HTTP.PathValue("user"))
}

// requiresSSO reports whether a company requires single sign-on of people with an address.
func requiresSSO(ctx context.Context, tx *db.Tx, companyID, email string) (bool, error) {
	n, err := sso.Find(ctx, tx, companyID)
	domain := identity.EmailDomain(email)
	return n.Enforced && slices.Contains(n.Domains, sso.Domain{Name: domain, Verified: true}), err
}
