package web

import (
	"context"
	"net/netip"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

// formPage is a page that asks for a few things, and where they are sent.
type formPage struct {
	Path   string
	Lead   string
	Fields []field
	Send   string
}

func (c *call) formPage(title string, p formPage) view {
	return view{page: "asked", title: c.text(title), data: p}
}

// emailField asks for an address that is an account's, or becomes one.
func (c *call) emailField() field {
	return c.field(field{Name: "email", Type: "email", Autocomplete: "username", Required: true, Most: 254})
}

// newPasswordField asks for a password that is chosen now.
func (c *call) newPasswordField() field {
	return c.field(field{Name: "new_password", Type: "password", Autocomplete: "new-password", Required: true, Most: identity.MaxPassword})
}

// showSignUp asks for the address of a new account.
func showSignUp(_ context.Context, _ *db.Tx, c *call) (view, error) {
	return c.formPage("sign_up.title", formPage{Path: "/sign-up", Lead: c.text("sign_up.lead"), Fields: []field{c.emailField()}, Send: c.text("sign_up.send")}), nil
}

// askSignUp writes to the address.
func askSignUp(ctx context.Context, _ *db.Tx, c *call) (view, error) {
	return view{redirect: "/sign-up/sent"}, c.askLink(ctx, auth.ToSignUp)
}

// showReset asks whose password was forgotten.
func showReset(_ context.Context, _ *db.Tx, c *call) (view, error) {
	return c.formPage("reset.title", formPage{Path: "/password", Lead: c.text("reset.lead"), Fields: []field{c.emailField()}, Send: c.text("reset.send")}), nil
}

// askReset writes to the address, if it is an account's.
func askReset(ctx context.Context, _ *db.Tx, c *call) (view, error) {
	return view{redirect: "/password/sent"}, c.askLink(ctx, auth.ToReset)
}

// askLink has a link sent to the address of the form. It is the same work and the same answer for every address.
func (c *call) askLink(ctx context.Context, p auth.Purpose) error {
	allowed := false
	err := c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		send, ok, err := session.AttemptMail(ctx, tx, c.form.Get("email"), c.from())
		if allowed = ok; err != nil || !send {
			return err
		}
		return auth.Ask(ctx, tx, p, c.form.Get("email"), c.lang.tag)
	})
	if err == nil && !allowed {
		err = errAttempts.At("body", "")
	}
	return err
}

// from is the network address that asks.
func (c *call) from() netip.Addr {
	at, err := netip.ParseAddrPort(c.r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr()
}

type sentPage struct {
	Text   string
	Outbox bool // whether the mail can be read here
}

func showSignUpSent(_ context.Context, _ *db.Tx, c *call) (view, error) {
	return c.sent("sent.sign_up"), nil
}

func showResetSent(_ context.Context, _ *db.Tx, c *call) (view, error) {
	return c.sent("sent.reset"), nil
}

func (c *call) sent(text string) view {
	return view{page: "sent", title: c.text("sent.title"), data: sentPage{Text: c.text(text), Outbox: c.here()}}
}

// showBusiness asks the reader of a link who they are and what their company is.
func showBusiness(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	token := c.r.PathValue("token")
	email, err := auth.Find(ctx, tx, auth.ToSignUp, token)
	if err != nil {
		return view{}, err
	}
	return c.formPage("business.title", formPage{Path: "/sign-up/" + token, Lead: c.text("business.lead", email), Send: c.text("business.send"), Fields: []field{
		c.field(field{Name: "first_name", Autocomplete: "given-name", Required: true, Most: 100}),
		c.field(field{Name: "last_name", Autocomplete: "family-name", Required: true, Most: 100}),
		c.field(field{Name: "company_name", Autocomplete: "organization", Required: true, Most: 200}),
		c.field(field{Name: "country", Type: "select", Autocomplete: "country", Required: true, Options: c.countries()}),
		c.field(field{Name: "website", Type: "url", Autocomplete: "url", Most: 300}),
		c.newPasswordField(),
	}}), nil
}

// signUp makes the account and signs its owner in.
func signUp(ctx context.Context, _ *db.Tx, c *call) (view, error) {
	token := c.r.PathValue("token")
	email, err := c.addressOf(ctx, auth.ToSignUp, token)
	if err != nil {
		return view{}, err
	}
	b := auth.Business{
		FirstName: c.form.Get("first_name"), LastName: c.form.Get("last_name"), CompanyName: c.form.Get("company_name"),
		Country: c.form.Get("country"), Website: c.form.Get("website"),
	}
	b, err = b.Check()
	if b.PasswordHash, err = c.newPassword(ctx, email, err); err != nil {
		return view{}, err
	}
	var started string
	err = c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		u, _, err := auth.SignUp(ctx, tx, c.Sealer, token, b, c.Contract)
		if err != nil {
			return err
		}
		if err := session.End(ctx, tx, c.token()); err != nil {
			return err
		}
		started, err = session.Start(ctx, tx, u.ID)
		return err
	})
	return view{redirect: "/account", cookie: c.cookie(started)}, err
}

func (c *call) addressOf(ctx context.Context, p auth.Purpose, token string) (email string, err error) {
	err = c.DB.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		email, err = auth.Find(ctx, tx, p, token)
		return err
	})
	return email, err
}

// newPassword is the hash of the password that was chosen, unless something is wrong with it or was with the rest of the form.
func (c *call) newPassword(ctx context.Context, email string, rest error) (hash string, err error) {
	var problems apierr.List
	if f, ok := apierr.As(rest); ok {
		for _, field := range f.Fields {
			problems.Add(field.Code, field.Pointer, field.Message)
		}
	} else if rest != nil {
		return "", rest
	}
	identity.CheckNewPassword(&problems, "/new_password", c.form.Get("new_password"), email)
	if err := problems.Err(); err != nil {
		return "", err
	}
	return c.hashNewPassword(ctx)
}

func (c *call) hashNewPassword(ctx context.Context) (hash string, err error) {
	err = hashed(ctx, c.hashing, func() (err error) {
		hash, err = identity.HashPassword(c.form.Get("new_password"))
		return err
	})
	return hash, err
}

// showNewPassword asks the reader of a link for their new password.
func showNewPassword(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	token := c.r.PathValue("token")
	email, err := auth.Find(ctx, tx, auth.ToReset, token)
	if err != nil {
		return view{}, err
	}
	return c.formPage("reset.new.title", formPage{
		Path: "/password/" + token, Lead: c.text("reset.new.lead", email), Fields: []field{c.newPasswordField()}, Send: c.text("reset.new.send"),
	}), nil
}

// setPassword sets the password by a link. The reader signs in with it then, and shows their second factor as ever.
func setPassword(ctx context.Context, _ *db.Tx, c *call) (view, error) {
	token := c.r.PathValue("token")
	email, err := c.addressOf(ctx, auth.ToReset, token)
	if err != nil {
		return view{}, err
	}
	hash, err := c.newPassword(ctx, email, nil)
	if err != nil {
		return view{}, err
	}
	return view{redirect: "/sign-in", cookie: c.cookie("")}, c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		return auth.SetPassword(ctx, tx, token, hash, c.lang.tag)
	})
}

// showPassword asks who is signed in for their password, old and new.
func showPassword(_ context.Context, _ *db.Tx, c *call) (view, error) {
	return c.formPage("password.title", formPage{Path: "/account/password", Lead: c.text("password.why"), Send: c.text("reset.new.send"), Fields: []field{
		c.field(field{Name: "password", Type: "password", Autocomplete: "current-password", Required: true, Most: identity.MaxPassword}),
		c.newPasswordField(),
	}}), nil
}

// changePassword sets another password for who is signed in and knows the old one.
func changePassword(ctx context.Context, _ *db.Tx, c *call) (view, error) {
	email := c.session.User.Email
	var problems apierr.List
	identity.CheckNewPassword(&problems, "/new_password", c.form.Get("new_password"), email)
	if err := problems.Err(); err != nil {
		return view{}, err
	}
	// The old one first: its tries are counted, and what is refused makes no work.
	if _, err := c.signsIn(ctx, email, c.form.Get("password")); err != nil {
		return view{}, err
	}
	hash, err := c.hashNewPassword(ctx)
	if err != nil {
		return view{}, err
	}
	return view{redirect: "/account"}, c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := session.Succeeded(ctx, tx, email, c.from()); err != nil {
			return err
		}
		return auth.ChangePassword(ctx, tx, c.person(), *c.session, hash)
	})
}
