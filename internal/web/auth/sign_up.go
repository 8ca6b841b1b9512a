package auth

import (
	"context"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/web/ui"
)

// formPage is a page that asks for a few things, and where they are sent.
type formPage struct {
	Path   string
	Lead   string
	Fields []ui.Field
	Send   string
}

func renderFormPage(c *ui.Request, title string, p formPage) ui.View {
	return ui.View{Template: "asked", Title: c.Text(title), Data: p}
}

// emailField asks for an address that is an account's, or becomes one.
func emailField(c *ui.Request) ui.Field {
	return c.Field(ui.Field{Name: "email", Type: "email", Autocomplete: "username", Required: true, Most: 254})
}

// showSignUp asks for the address of a new account.
func showSignUp(_ context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	return renderFormPage(c, "sign_up.title", formPage{Path: "/sign-up", Lead: c.Text("sign_up.lead"), Fields: []ui.Field{emailField(c)}, Send: c.Text("sign_up.send")}), nil
}

// askSignUp writes to the address.
func askSignUp(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Redirect: "/sign-up/sent"}, askLink(ctx, c, auth.ToSignUp)
}

// showReset asks whose password was forgotten.
func showReset(_ context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	return renderFormPage(c, "reset.title", formPage{Path: "/password", Lead: c.Text("reset.lead"), Fields: []ui.Field{emailField(c)}, Send: c.Text("reset.send")}), nil
}

// askReset writes to the address, if it is an account's.
func askReset(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Redirect: "/password/sent"}, askLink(ctx, c, auth.ToReset)
}

// askLink has a link sent to the address of the form. It is the same work and the same answer for every address.
func askLink(ctx context.Context, c *ui.Request, p auth.Purpose) error {
	allowed := false
	err := c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		send, ok, err := session.AttemptMail(ctx, tx, c.Form.Get("email"), c.RemoteAddr())
		if allowed = ok; err != nil || !send {
			return err
		}
		return auth.Ask(ctx, tx, p, c.Form.Get("email"), c.Language.Tag)
	})
	if err == nil && !allowed {
		err = ui.ErrAttempts.At("body", "")
	}
	return err
}

type sentPage struct {
	Text   string
	Outbox bool // whether the mail can be read here
}

func showSignUpSent(_ context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	return sent(c, "sent.sign_up"), nil
}

func showResetSent(_ context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	return sent(c, "sent.reset"), nil
}

func sent(c *ui.Request, text string) ui.View {
	return ui.View{Template: "sent", Title: c.Text("sent.title"), Data: sentPage{Text: c.Text(text), Outbox: c.OnThisMachine()}}
}

// showBusiness asks the reader of a link who they are and what their company is.
func showBusiness(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	token := c.HTTP.PathValue("token")
	email, err := auth.Find(ctx, tx, auth.ToSignUp, token)
	if err != nil {
		return ui.View{}, err
	}
	return renderFormPage(c, "business.title", formPage{Path: "/sign-up/" + token, Lead: c.Text("business.lead", email), Send: c.Text("business.send"), Fields: []ui.Field{
		c.Field(ui.Field{Name: "first_name", Autocomplete: "given-name", Required: true, Most: 100}),
		c.Field(ui.Field{Name: "last_name", Autocomplete: "family-name", Required: true, Most: 100}),
		c.Field(ui.Field{Name: "company_name", Autocomplete: "organization", Required: true, Most: 200}),
		c.Field(ui.Field{Name: "country", Type: "select", Autocomplete: "country", Required: true, Options: c.Countries()}),
		c.Field(ui.Field{Name: "website", Type: "url", Autocomplete: "url", Most: 300}),
		c.NewPasswordField(),
	}}), nil
}

// signUp makes the account and signs its owner in.
func signUp(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	token := c.HTTP.PathValue("token")
	email, err := addressOf(ctx, c, auth.ToSignUp, token)
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
		if err := session.End(ctx, tx, c.SessionToken()); err != nil {
			return err
		}
		started, err = session.Start(ctx, tx, u.ID)
		return err
	})
	return ui.View{Redirect: "/account", Cookie: c.SessionCookie(started)}, err
}

func addressOf(ctx context.Context, c *ui.Request, p auth.Purpose, token string) (email string, err error) {
	err = c.DB.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		email, err = auth.Find(ctx, tx, p, token)
		return err
	})
	return email, err
}

// showNewPassword asks the reader of a link for their new password.
func showNewPassword(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	token := c.HTTP.PathValue("token")
	email, err := auth.Find(ctx, tx, auth.ToReset, token)
	if err != nil {
		return ui.View{}, err
	}
	return renderFormPage(c, "reset.new.title", formPage{
		Path: "/password/" + token, Lead: c.Text("reset.new.lead", email), Fields: []ui.Field{c.NewPasswordField()}, Send: c.Text("reset.new.send"),
	}), nil
}

// setPassword sets the password by a link. The reader signs in with it then, and shows their second factor as ever.
func setPassword(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	token := c.HTTP.PathValue("token")
	email, err := addressOf(ctx, c, auth.ToReset, token)
	if err != nil {
		return ui.View{}, err
	}
	hash, err := c.NewPassword(ctx, email, nil)
	if err != nil {
		return ui.View{}, err
	}
	return ui.View{Redirect: "/sign-in", Cookie: c.SessionCookie("")}, c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		return auth.SetPassword(ctx, tx, token, hash, c.Language.Tag)
	})
}

// showPassword asks who is signed in for their password, old and new.
func showPassword(_ context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	return renderFormPage(c, "password.title", formPage{Path: "/account/password", Lead: c.Text("password.why"), Send: c.Text("reset.new.send"), Fields: []ui.Field{
		c.Field(ui.Field{Name: "password", Type: "password", Autocomplete: "current-password", Required: true, Most: identity.MaxPassword}),
		c.NewPasswordField(),
	}}), nil
}

// changePassword sets another password for who is signed in and knows the old one.
func changePassword(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	email := c.Session.User.Email
	var problems apierr.List
	identity.CheckNewPassword(&problems, "/new_password", c.Form.Get("new_password"), email)
	if err := problems.Err(); err != nil {
		return ui.View{}, err
	}
	// The old one first: its tries are counted, and what is refused makes no work.
	if _, err := signsIn(ctx, c, email, c.Form.Get("password")); err != nil {
		return ui.View{}, err
	}
	hash, err := c.HashNewPassword(ctx)
	if err != nil {
		return ui.View{}, err
	}
	return ui.View{Redirect: "/account"}, c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := session.Succeeded(ctx, tx, email, c.RemoteAddr()); err != nil {
			return err
		}
		return auth.ChangePassword(ctx, tx, person(c), *c.Session, hash)
	})
}
