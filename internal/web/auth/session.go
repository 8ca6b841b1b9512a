// Package auth serves the pages for sign-up, sign-in, consent to apps, and a user's own account.
package auth

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ratelimit"
	"github.com/stipend/stipend/internal/securitylog"
	"github.com/stipend/stipend/internal/web/ui"
	"github.com/stipend/stipend/internal/web/ui/texts"
)

type signInPage struct {
	Next     string
	Fields   []ui.Field
	Passkeys bool // passkeys work at this address
	SSO      bool // companies can set up single sign-on
}

// showSignIn renders the sign-in form, or redirects a signed-in user.
func showSignIn(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	signedIn, err := c.FindSession(ctx, tx)
	if err != nil {
		return ui.View{}, err
	}
	if signedIn && c.Problem == nil {
		to, err := afterSignIn(ctx, tx, c, c.Session.User.ID)
		return ui.View{Redirect: to}, err
	}
	return ui.View{Template: "sign_in", Title: c.Text("sign_in.title"),
		Data: signInPage{Next: c.Next(), Passkeys: passkeys(c) != nil, SSO: c.SSO != nil, Fields: []ui.Field{
			c.Field(ui.Field{Name: "email", Type: "email", Autocomplete: "username", Required: true, MaxLength: 254}),
			c.Field(ui.Field{Name: "password", Type: "password", Autocomplete: "current-password", Required: true,
				MaxLength: 1024}),
		}}}, nil
}

// signIn checks the password outside any transaction, because hashing is slow. An unknown email address takes the
// same time.
func signIn(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	email, password := c.Form.Get("email"), c.Form.Get("password")
	var missing apierr.List
	for _, name := range []string{"email", "password"} {
		if c.Form.Get(name) == "" {
			missing.Add("missing_field", "/"+name, "This field is required.")
		}
	}
	if err := missing.Err(); err != nil {
		return ui.View{}, err
	}
	token, to, err := signInByPassword(ctx, c, email, password)
	if err != nil {
		return ui.View{}, err
	}
	return ui.View{Redirect: to, Cookie: c.SessionCookie(token)}, nil
}

// signInByPassword signs a user in by password: it ends the current session, starts a new one and returns its token and
// the path to continue with.
func signInByPassword(ctx context.Context, c *ui.Request, email, password string) (token, to string, err error) {
	u, err := checkPassword(ctx, c, email, password)
	if err != nil {
		return "", "", err
	}
	err = c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		if err := errors.Join(session.Succeeded(ctx, tx, email, c.RemoteAddr()),
			session.End(ctx, tx, c.SessionToken())); err != nil {
			return err
		}
		token, to, err = startSession(ctx, c, tx, u)
		return err
	})
	if errors.Is(err, session.ErrSSORequired) {
		err = session.ErrSSORequired.At("body", "")
	}
	return token, to, err
}

// startSession starts the session of a user after a correct password, unless the password was changed meanwhile. A user
// with an authenticator must enter a code next.
func startSession(ctx context.Context, c *ui.Request, tx *db.Tx, u identity.User) (token, to string, err error) {
	if err := identity.LockPassword(ctx, tx, u); err != nil {
		return "", "", err
	}
	has, err := auth.HasFactor(ctx, tx, u.ID)
	if err != nil {
		return "", "", err
	}
	if to, err = afterSignIn(ctx, tx, c, u.ID); err != nil {
		return "", "", err
	}
	if !has {
		token, err = session.Start(ctx, tx, u.ID)
		return token, to, err
	}
	token, err = session.StartWaiting(ctx, tx, u.ID)
	return token, "/sign-in/code?" + url.Values{"next": {to}}.Encode(), err
}

// afterSignIn returns the path with which a user continues after signing in: the one that the link to the sign-in page
// names, else the overview of their company, or their own pay if they work for none.
func afterSignIn(ctx context.Context, tx *db.Tx, c *ui.Request, userID string) (string, error) {
	if to := c.Next(); to != "" {
		return to, nil
	}
	companies, err := identity.Memberships(ctx, tx, userID)
	if len(companies) == 0 {
		return ui.PayPath, err
	}
	return "/overview", err
}

// checkPassword returns the user with this email and password. It counts an attempt, which session.Succeeded takes
// back.
func checkPassword(ctx context.Context, c *ui.Request, email, password string) (u identity.User, err error) {
	allowed, known := false, c.Session != nil
	err = c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		if u, allowed, err = session.Attempt(ctx, tx, email, c.RemoteAddr()); err != nil || u.ID == "" || known {
			return err
		}
		known, err = securitylog.KnownNetwork(ctx, tx, u.ID, session.Network(c.RemoteAddr()).String())
		return err
	})
	c.Author = u.ID
	switch {
	case err != nil:
		return u, err
	case !allowed:
		return u, ui.ErrAttempts.At("body", "")
	}
	right := false
	err = c.HashInTurn(ctx, c.Passwords, known, func() (err error) {
		right, err = u.CheckPassword(password)
		return err
	})
	if errors.Is(err, ratelimit.ErrBusy) { // no password was checked
		if err := c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			return session.Succeeded(ctx, tx, email, c.RemoteAddr())
		}); err != nil {
			return u, err
		}
	}
	if err == nil && !right {
		err = ui.ErrSignIn.At("body", "")
	}
	return u, err
}

// signOut ends this session. With the form value next, the user continues there after signing in again.
func signOut(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	to := "/sign-in"
	if c.Form.Get("next") != "" {
		to = ui.SignInPath(c.NextPath())
	}
	return ui.View{Redirect: to, Cookie: c.SessionCookie("")}, session.End(ctx, tx, c.SessionToken())
}

// signOutEverywhere ends all sessions of the user.
func signOutEverywhere(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Redirect: "/sign-in", Cookie: c.SessionCookie("")}, session.EndAll(ctx, tx, c.Session.User.ID)
}

type accountPage struct {
	Verifies                   bool // users can verify their identity
	Name, Email, Company, Role string
	Companies                  []ui.Option
	Locale                     []ui.Field
}

// localeFields returns the fields of the language, the time zone and the number format.
func localeFields(c *ui.Request) []ui.Field {
	languages := []ui.Option{{Label: c.Text("locale.automatic")}}
	for _, l := range texts.Languages {
		languages = append(languages, ui.Option{Value: l.Tag, Label: l.Name})
	}
	formats := []ui.Option{{Label: c.Text("locale.of_language")}}
	examples := map[string]string{"comma_point": "1,234.56", "point_comma": "1.234,56",
		"space_comma": "1\u202f234,56", "apostrophe_point": "1’234.56"}
	for _, f := range identity.NumberFormats {
		formats = append(formats, ui.Option{Value: f, Label: examples[f]})
	}
	own := c.Session.User.Locale
	return []ui.Field{
		c.Field(ui.Field{Name: "language", Type: "select", Options: languages, Value: own.Language}),
		c.Field(ui.Field{Name: "time_zone", MaxLength: 64, Value: cmp.Or(own.TimeZone, "UTC")}),
		c.Field(ui.Field{Name: "number_format", Type: "select", Options: formats, Value: own.NumberFormat}),
	}
}

// changeLocale stores the language, time zone and number format of the user.
func changeLocale(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	l := identity.Locale{Language: c.Form.Get("language"), TimeZone: strings.TrimSpace(c.Form.Get("time_zone")),
		NumberFormat: c.Form.Get("number_format")}
	known := l.Language == "" || slices.ContainsFunc(texts.Languages, func(one struct{ Tag, Name string }) bool {
		return one.Tag == l.Language
	})
	if !known || l.NumberFormat != "" && !slices.Contains(identity.NumberFormats, l.NumberFormat) {
		return ui.View{}, ui.ErrForm
	}
	if _, err := time.LoadLocation(l.TimeZone); err != nil || l.TimeZone == "Local" {
		return ui.View{}, errTimeZone.At("body", "/time_zone")
	}
	if l.TimeZone == "UTC" {
		l.TimeZone = ""
	}
	if c.Language.Explicit = c.Language.Explicit && l.Language != ""; l.Language != "" {
		c.Language.Tag = l.Language
	}
	c.Session.User.Locale, c.Locale = l, l
	v := ui.View{Redirect: "/account", Cookie: c.LanguageCookie(l.Language)}
	return v, identity.SetLocale(ctx, tx, c.Session.User.ID, l)
}

// errTimeZone is returned for a name that is not in the time zone database.
var errTimeZone = apierr.New(apierr.Invalid, "invalid_parameter",
	"Enter the name of a time zone, such as Europe/Berlin.")

// showAccount renders the account page: the user, their companies, and links to the other account pages.
func showAccount(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	s := c.Session
	p := accountPage{Verifies: c.KYC != nil, Name: s.User.Name(), Email: s.User.Email, Company: s.Company.Name,
		Role: c.RoleName(s.Role), Locale: localeFields(c)}
	for _, m := range s.Members {
		company, err := identity.CompanyByID(ctx, tx, m.CompanyID)
		if err != nil {
			return ui.View{}, err
		}
		p.Companies = append(p.Companies, ui.Option{Value: company.ID, Label: company.Name,
			Selected: company.ID == s.Company.ID})
	}
	return ui.View{Template: "account", Title: c.Text("account.title"), Data: p}, nil
}

// actFor selects the company for which the user acts.
func actFor(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Redirect: "/overview"}, session.ActFor(ctx, tx, *c.Session, c.Form.Get("company_id"))
}
