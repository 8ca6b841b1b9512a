package staff

import (
	"context"
	"log/slog"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth/sso"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/web/ui"
)

// codePath is the page on which staff enter their authenticator's code, after they sign in at the operator's provider.
const codePath = ui.StaffSSOPath + "/code"

// errStaffSSO is returned for a password if the operator permits the provider only.
var errStaffSSO = apierr.New(apierr.Forbidden, "operator_sso_required", "Staff sign in by single sign-on only.")

// beginSSO sends a member of staff to the operator's provider.
func beginSSO(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	if err := c.LimitAnonymous(); err != nil {
		return ui.View{}, err
	}
	token := ""
	if err := c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		token, err = sso.Begin(ctx, tx, "", ui.StaffPath)
		return err
	}); err != nil {
		return ui.View{}, err
	}
	to, err := c.StaffSSO.Client.AuthURL(ctx, c.StaffSSO.Provider, c.StaffSSORedirectURL(), token)
	if err != nil {
		return ui.View{}, refuse(c, err)
	}
	return ui.View{External: to, Cookie: c.SSOCookie(token)}, nil
}

// finishSSO finds the member of staff whom the provider sends back. They enter a code next.
func finishSSO(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	if err := c.LimitAnonymous(); err != nil {
		return ui.View{}, err
	}
	if err := c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		return sso.TakeStaff(ctx, tx, c.SSOToken())
	}); err != nil {
		return ui.View{}, err
	}
	s := c.StaffSSO
	who, err := s.Client.Finish(ctx, s.Provider, c.StaffSSORedirectURL(), c.SSOToken(), c.HTTP.URL.Query())
	if err != nil {
		return ui.View{}, refuse(c, err)
	}
	if !s.Accepts(who.Email) {
		return ui.View{}, refuse(c, sso.ErrFailed)
	}
	token := ""
	err = c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		account := who.Issuer + " " + who.Subject
		o, err := backoffice.ByProvider(ctx, tx, account, who.Email)
		if err != nil {
			return err
		}
		token, err = sso.Await(ctx, tx, sso.Pending{StaffID: o.ID, Account: account})
		return err
	})
	if err != nil {
		return ui.View{}, refuse(c, err)
	}
	return ui.View{Redirect: codePath, Cookie: c.SSOCookie(token)}, nil
}

// refuse logs why a sign-in failed. It does not reveal more to the person, unless the error was made for people.
func refuse(c *ui.Request, err error) error {
	c.Log.Warn("single sign-on of staff failed", slog.String("request_id", c.ID), slog.String("error", err.Error()))
	if f, ok := apierr.As(err); ok && f.Code != apierr.NotFoundErr.Code {
		return f
	}
	return sso.ErrFailed
}

type codePage struct {
	Path, Token string
	Field       ui.Field
}

// showCode asks for the code of the authenticator.
func showCode(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	if _, err := sso.Awaited(ctx, tx, c.SSOToken()); err != nil {
		return ui.View{Redirect: ui.StaffSignInPath}, nil //nolint:nilerr // the sign-in has ended, and begins again
	}
	return ui.View{Template: "operator_code", Title: c.Text("operations.sign_in"), Data: codePage{codePath,
		ui.FormToken(c.SSOToken()), c.Field(ui.Field{Name: "code", Autocomplete: "one-time-code", Required: true,
			MaxLength: 10})}}, nil
}

// signInByCode starts the session of a member of staff whom the provider has authenticated. Wrong codes are limited as
// wrong passwords are.
func signInByCode(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	if !c.HasSSOFormToken() {
		return ui.View{}, ui.ErrFormToken
	}
	var p sso.Pending
	var o backoffice.StaffMember
	allowed := false
	if err := c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		if p, err = sso.Awaited(ctx, tx, c.SSOToken()); err != nil {
			return err
		}
		o, allowed, err = backoffice.AttemptCode(ctx, tx, p.StaffID, c.RemoteAddr())
		return err
	}); err != nil {
		return ui.View{}, err
	}
	if !allowed {
		return ui.View{}, ui.ErrAttempts.At("body", "")
	}
	token, right := "", false
	if err := c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		token, right, err = c.Backoffice.SignInByProvider(ctx, tx, o, p.Account, c.Form.Get("code"), c.Now(),
			c.RemoteAddr())
		if err != nil || !right {
			return err
		}
		return sso.End(ctx, tx, c.SSOToken())
	}); err != nil {
		return ui.View{}, err
	}
	if !right {
		return ui.View{}, errSignIn.At("body", "/code")
	}
	return ui.View{Redirect: ui.StaffPath, Cookie: c.StaffCookie(token)}, nil
}
