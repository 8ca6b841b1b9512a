package auth

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/url"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/auth/sso"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/securitylog"
	"github.com/stipend/stipend/internal/web/ui"
)

// showSSO asks for the email address, by whose domain the company's provider is found.
func showSSO(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	signedIn, err := c.FindSession(ctx, tx)
	if err != nil {
		return ui.View{}, err
	}
	field := ui.Field{Name: "email", Type: "email", Autocomplete: "username", Required: true, MaxLength: 254}
	if signedIn {
		field.Value = c.Session.User.Email
	}
	return ui.View{Template: "sso_sign_in", Title: c.Text("sso.title"), FormScheme: c.FormSchemeOf(),
		Data: signInPage{Next: c.Next(), Fields: []ui.Field{c.Field(field)}}}, nil
}

// beginSSO sends a person to the provider of the company that owns the domain of their address. It does not reveal
// whether the address has an account.
func beginSSO(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	var ready sso.Ready
	if err := c.DB.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		ready, err = c.SSO.For(ctx, tx, c.Form.Get("email"))
		return err
	}); err != nil {
		return ui.View{}, err
	}
	token := ""
	if err := c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		token, err = sso.Begin(ctx, tx, ready.CompanyID, cmp.Or(c.Next(), "/overview"))
		return err
	}); err != nil {
		return ui.View{}, err
	}
	to, err := c.SSO.Client.AuthURL(ctx, ready.Provider, c.SSORedirectURL(ready.CompanyID), token)
	if err != nil {
		logSSO(c, ready.CompanyID, err)
		return ui.View{}, sso.ErrProvider.At("body", "/email")
	}
	return ui.View{External: to, Cookie: c.SSOCookie(token)}, nil
}

// finishSSO signs in the person whom the provider sends back.
func finishSSO(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	if err := c.LimitAnonymous(); err != nil {
		return ui.View{}, err
	}
	companyID := c.HTTP.PathValue("company")
	var ready sso.Ready
	next := ""
	if err := c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		next, ready, err = c.SSO.Take(ctx, tx, companyID, c.SSOToken())
		return err
	}); err != nil {
		return ui.View{}, err
	}
	who, err := c.SSO.Client.Finish(ctx, ready.Provider, c.SSORedirectURL(companyID), c.SSOToken(), c.HTTP.URL.Query())
	if err != nil {
		return ui.View{}, refuseSSO(c, companyID, err)
	}
	token, to := "", ""
	err = c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		u, err := c.SSO.SignIn(ctx, tx, companyID, who)
		if err != nil {
			return err
		}
		if token, to, err = startSSO(ctx, tx, u, companyID, next); err != nil {
			return err
		}
		return errors.Join(session.End(ctx, tx, c.SessionToken()), recordSSO(ctx, c, tx, companyID, u.ID, ""))
	})
	if err != nil {
		return ui.View{}, refuseSSO(c, companyID, err)
	}
	return ui.View{Redirect: to, Cookie: c.SessionCookie(token)}, nil
}

// startSSO starts the session of a person whom the provider has authenticated. A person with an authenticator or a
// passkey presents it next: the provider replaces the password only.
func startSSO(ctx context.Context, tx *db.Tx, u identity.User, companyID, next string) (token, to string, err error) {
	has, err := auth.HasFactor(ctx, tx, u.ID)
	if err != nil {
		return "", "", err
	}
	token, err = session.StartSSO(ctx, tx, u.ID, companyID, has)
	if has {
		next = "/sign-in/code?" + url.Values{"next": {next}}.Encode()
	}
	return token, next, err
}

// refuseSSO logs why a sign-in failed, adds it to the company's security log and returns the error for the person: the
// error itself if it was made for people, else one that does not say which check failed.
func refuseSSO(c *ui.Request, companyID string, err error) error {
	f, ok := apierr.As(err)
	if !ok {
		f = sso.ErrFailed
	}
	logSSO(c, companyID, err)
	if other := c.DB.Write(context.WithoutCancel(c.HTTP.Context()), func(ctx context.Context, tx *db.Tx) error {
		return recordSSO(ctx, c, tx, companyID, "", f.Code)
	}); other != nil {
		return other
	}
	return f
}

func logSSO(c *ui.Request, companyID string, err error) {
	c.Log.Warn("single sign-on failed", slog.String("request_id", c.ID), slog.String("company_id", companyID),
		slog.String("error", err.Error()))
}

// recordSSO adds a sign-in, or a refused one, to the company's security log.
func recordSSO(ctx context.Context, c *ui.Request, tx *db.Tx, companyID, userID, outcome string) error {
	return securitylog.Record(ctx, tx, securitylog.Event{Action: "GET " + ui.SSOPage + "/{company}/callback",
		Path: c.HTTP.URL.Path, UserID: userID, Outcome: outcome, Address: c.RemoteAddr().Unmap().String(),
		Network: session.Network(c.RemoteAddr()).String(), Agent: c.HTTP.UserAgent()}, companyID)
}
