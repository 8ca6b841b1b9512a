package staff

import (
	"context"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/web/ui"
)

type signInPage struct {
	SSO    string     // path of the sign-in by the operator's provider; "" for none
	Fields []ui.Field // none if the provider is the only way
}

// showSignIn renders the sign-in form of staff: email, password and authenticator code together.
func showSignIn(_ context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	p := signInPage{}
	if c.StaffSSO != nil {
		p.SSO = ui.StaffSSOPath
	}
	if c.StaffSSO == nil || !c.StaffSSO.Only {
		p.Fields = []ui.Field{
			c.Field(ui.Field{Name: "email", Type: "email", Autocomplete: "username", Required: true, MaxLength: 254}),
			c.Field(ui.Field{Name: "password", Type: "password", Autocomplete: "current-password", Required: true,
				MaxLength: 1024}),
			c.Field(ui.Field{Name: "code", Autocomplete: "one-time-code", Required: true, MaxLength: 10}),
		}
	}
	return ui.View{Template: "operator_sign_in", Title: c.Text("operations.sign_in"), Data: p}, nil
}

// signIn checks email, password and code together. The error does not say which of them was wrong.
func signIn(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	if c.StaffSSO != nil && c.StaffSSO.Only {
		return ui.View{}, errStaffSSO
	}
	email, password, code := c.Form.Get("email"), c.Form.Get("password"), c.Form.Get("code")
	if email == "" || password == "" || code == "" {
		return ui.View{}, errSignIn.At("body", "")
	}
	var o backoffice.StaffMember
	allowed := false
	if err := c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		o, allowed, err = backoffice.Attempt(ctx, tx, email, c.RemoteAddr())
		return err
	}); err != nil {
		return ui.View{}, err
	}
	if !allowed {
		return ui.View{}, ui.ErrAttempts.At("body", "")
	}
	right := false
	if err := c.HashInTurn(ctx, c.StaffPasswords, false, func() (err error) {
		right, err = o.CheckPassword(password)
		return err
	}); err != nil {
		return ui.View{}, err
	}
	token := ""
	if right {
		if err := c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			token, right, err = c.Backoffice.SignIn(ctx, tx, o, code, c.Now(), c.RemoteAddr())
			return err
		}); err != nil {
			return ui.View{}, err
		}
	}
	if !right {
		return ui.View{}, errSignIn.At("body", "")
	}
	return ui.View{Redirect: ui.StaffPath, Cookie: c.StaffCookie(token)}, nil
}

var errSignIn = apierr.New(apierr.Invalid, "operator_sign_in_failed",
	"Incorrect email, password or code, or the code was already used.")

func signOut(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Redirect: ui.StaffSignInPath, Cookie: c.StaffCookie("")}, backoffice.End(ctx, tx, c.StaffToken())
}
