package auth

import (
	"context"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/web/ui"
)

// showEmail renders the form for a new email address of the account.
func showEmail(_ context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	return renderFormPage(c, "email.title", formPage{Path: "/account/email",
		Lead: c.Text("email.lead", c.Session.User.Email), Send: c.Text("email.send"), Fields: []ui.Field{
			c.Field(ui.Field{Name: "new_email", Type: "email", Autocomplete: "email", Required: true, MaxLength: 254})}}), nil
}

// errEmailSSO prevents a member from leaving the single sign-on that the company requires.
var errEmailSSO = apierr.New(apierr.Conflict, "sso_email",
	"Your company requires single sign-on with this address. Ask an administrator to change it.")

// requestEmail mails a link to the old and the new address.
func requestEmail(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	required, err := session.SSORequired(ctx, tx, c.Session.User.ID)
	if err == nil && required {
		err = errEmailSSO.At("body", "/new_email")
	}
	if err != nil {
		return ui.View{}, err
	}
	return ui.View{Redirect: "/account"}, auth.RequestEmailChange(ctx, tx, c.Sealer, signedInUser(c),
		c.Form.Get("new_email"))
}

// emailPage is what the owner of an address sees at the link.
type emailPage struct {
	Path, Address string
	Step          string // "confirm", "wait" for the other address, or "done"
}

// showEmailLink asks the owner of an address to confirm a change, or says that the other address must confirm too.
func showEmailLink(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	change, err := auth.FindEmailChange(ctx, tx, c.HTTP.PathValue("token"))
	if err != nil {
		return ui.View{}, err
	}
	p := emailPage{Step: "confirm", Path: "/email/" + c.HTTP.PathValue("token"), Address: change.Address}
	if change.Mine {
		p.Step = "wait"
	}
	return ui.View{Template: "email_change", Title: c.Text("email.title"), Data: p}, nil
}

// confirmEmail records that the owner of an address agrees, and changes the address once both have.
func confirmEmail(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	token := c.HTTP.PathValue("token")
	change, done, err := auth.ConfirmEmailChange(ctx, tx, token, c.Language.Tag)
	if err != nil {
		return ui.View{}, ui.FormError(err)
	}
	if !done {
		return ui.View{Redirect: "/email/" + token}, nil
	}
	return ui.View{Redirect: "/email/changed"}, payee.RefreshWorkers(ctx, tx, change.UserID)
}

// showEmailChanged confirms that the address was changed.
func showEmailChanged(_ context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Template: "email_change", Title: c.Text("email.changed.title"), Data: emailPage{Step: "done"}}, nil
}
