package auth

import (
	"context"
	"errors"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/web/ui"
)

// formPage is a page with one form.
type formPage struct {
	Path   string
	Lead   string
	Fields []ui.Field
	Send   string
}

func renderFormPage(c *ui.Request, title string, p formPage) ui.View {
	return ui.View{Template: "form_page", Title: c.Text(title), Data: p}
}

// emailField returns the field for the email address of an account.
func emailField(c *ui.Request) ui.Field {
	return c.Field(ui.Field{Name: "email", Type: "email", Autocomplete: "username", Required: true, MaxLength: 254})
}

// showSignUp renders the form for the email address of a new account.
func showSignUp(_ context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	return renderFormPage(c, "sign_up.title", formPage{
		Path: "/sign-up", Lead: c.Text("sign_up.lead"), Fields: []ui.Field{emailField(c)}, Send: c.Text("sign_up.send")}), nil
}

// sendSignUpLink emails a sign-up link.
func sendSignUpLink(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Redirect: "/sign-up/sent"}, sendLink(ctx, c, auth.ToSignUp)
}

// showReset renders the form that requests a password reset.
func showReset(_ context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	return renderFormPage(c, "reset.title", formPage{
		Path: "/password", Lead: c.Text("reset.lead"), Fields: []ui.Field{emailField(c)}, Send: c.Text("reset.send")}), nil
}

// sendResetLink emails a reset link if the address belongs to an account.
func sendResetLink(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Redirect: "/password/sent"}, sendLink(ctx, c, auth.ToReset)
}

// sendLink requests a link for the email address of the form. Known and unknown addresses get the same response
// after the same work.
func sendLink(ctx context.Context, c *ui.Request, p auth.Purpose) error {
	allowed := false
	err := c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		send, ok, err := session.AttemptMail(ctx, tx, c.Form.Get("email"), c.RemoteAddr())
		if allowed = ok; err != nil || !send {
			return err
		}
		return auth.RequestLink(ctx, tx, p, c.Form.Get("email"), c.Language.Tag)
	})
	if err == nil && !allowed {
		err = ui.ErrAttempts.At("body", "")
	}
	return err
}

type sentPage struct {
	Text   string
	Outbox bool // the reader may open the sandbox outbox
}

func showSignUpSent(_ context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	return sent(c, "sent.sign_up"), nil
}

func showResetSent(_ context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	return sent(c, "sent.reset"), nil
}

func sent(c *ui.Request, text string) ui.View {
	return ui.View{Template: "sent", Title: c.Text("sent.title"),
		Data: sentPage{Text: c.Text(text), Outbox: c.OnThisMachine()}}
}

// showBusiness renders the form for the owner and the company, at the link from the sign-up email.
func showBusiness(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	token := c.HTTP.PathValue("token")
	email, err := auth.Find(ctx, tx, auth.ToSignUp, token)
	if err != nil {
		return ui.View{}, err
	}
	return renderFormPage(c, "business.title", formPage{
		Path: "/sign-up/" + token, Lead: c.Text("business.lead", email), Send: c.Text("business.send"), Fields: []ui.Field{
			c.Field(ui.Field{Name: "first_name", Autocomplete: "given-name", Required: true, MaxLength: 100}),
			c.Field(ui.Field{Name: "last_name", Autocomplete: "family-name", Required: true, MaxLength: 100}),
			c.Field(ui.Field{Name: "company_name", Autocomplete: "organization", Required: true, MaxLength: 200}),
			c.Field(ui.Field{Name: "country", Type: "select", Autocomplete: "country", Required: true, Options: c.Countries()}),
			c.Field(ui.Field{Name: "website", Type: "url", Autocomplete: "url", MaxLength: 300}),
			c.NewPasswordField(),
		}}), nil
}

// signUp creates the user and the company, and signs the user in.
func signUp(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	token := c.HTTP.PathValue("token")
	email, err := emailOf(ctx, c, auth.ToSignUp, token)
	if err != nil {
		return ui.View{}, err
	}
	b := auth.Business{
		FirstName: c.Form.Get("first_name"), LastName: c.Form.Get("last_name"), CompanyName: c.Form.Get("company_name"),
		Country: c.Form.Get("country"), Website: c.Form.Get("website"),
	}
	b, err = b.Check()
	if b.PasswordHash, err = c.NewPassword(ctx, email, err); err != nil {
		return ui.View{}, err
	}
	var started string
	err = c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		u, _, err := auth.SignUp(ctx, tx, c.Sealer, token, b, c.Contract)
		if err != nil {
			return err
		}
		c.Author = u.ID
		if err := session.End(ctx, tx, c.SessionToken()); err != nil {
			return err
		}
		started, err = session.Start(ctx, tx, u.ID)
		return err
	})
	return ui.View{Redirect: "/overview", Cookie: c.SessionCookie(started)}, err
}

func emailOf(ctx context.Context, c *ui.Request, p auth.Purpose, token string) (email string, err error) {
	err = c.DB.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		email, err = auth.Find(ctx, tx, p, token)
		return err
	})
	return email, err
}

// showNewPassword renders the form for a new password, at the link from the reset email.
func showNewPassword(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	token := c.HTTP.PathValue("token")
	email, err := auth.Find(ctx, tx, auth.ToReset, token)
	if err != nil {
		return ui.View{}, err
	}
	return renderFormPage(c, "reset.new.title", formPage{
		Path: "/password/" + token, Lead: c.Text("reset.new.lead", email), Fields: []ui.Field{c.NewPasswordField()},
		Send: c.Text("reset.new.send"),
	}), nil
}

// setPassword sets the password at the link from the reset email. The user then signs in with it and with the
// second factor.
func setPassword(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	token := c.HTTP.PathValue("token")
	email, err := emailOf(ctx, c, auth.ToReset, token)
	if err != nil {
		return ui.View{}, err
	}
	hash, err := c.NewPassword(ctx, email, nil)
	if err != nil {
		return ui.View{}, err
	}
	return ui.View{Redirect: "/sign-in", Cookie: c.SessionCookie("")},
		c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			u, err := auth.SetPassword(ctx, tx, token, hash, c.Language.Tag)
			c.Author = u.ID
			return err
		})
}

// showPassword renders the form that changes the password.
func showPassword(_ context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	return renderFormPage(c, "password.title", formPage{
		Path: "/account/password", Lead: c.Text("password.why"), Send: c.Text("reset.new.send"), Fields: []ui.Field{
			c.Field(ui.Field{Name: "password", Type: "password", Autocomplete: "current-password", Required: true,
				MaxLength: identity.MaxPassword}),
			c.NewPasswordField(),
		}}), nil
}

// changePassword sets a new password for a user who enters the current one.
func changePassword(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	email := c.Session.User.Email
	var problems apierr.List
	identity.CheckNewPassword(&problems, "/new_password", c.Form.Get("new_password"), email)
	if err := problems.Err(); err != nil {
		return ui.View{}, err
	}
	// Check the current password first: attempts are limited, and hashing the new one is expensive.
	u, err := checkPassword(ctx, c, email, c.Form.Get("password"))
	if err != nil {
		return ui.View{}, err
	}
	hash, err := c.HashNewPassword(ctx)
	if err != nil {
		return ui.View{}, err
	}
	return ui.View{Redirect: "/account"}, c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		err := errors.Join(session.Succeeded(ctx, tx, email, c.RemoteAddr()), identity.LockPassword(ctx, tx, u))
		if err != nil {
			return err
		}
		return auth.ChangePassword(ctx, tx, signedInUser(c), *c.Session, hash)
	})
}
