package payee

import (
	"context"
	"errors"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/web/auth"
	"github.com/stipend/stipend/internal/web/ui"
)

// invitationPage shows an invitation in any state to the invited person.
type invitationPage struct {
	Company, Email, Role string
	State                string // state of payee.Invitation, "declined", or "asked" after a request for a new one
	Expires              string
	Path                 string // prefix of the form actions
	Fields               []ui.Field
	Known                bool // the invited email address has an account
	Passkeys             bool // passkeys work at this address
}

func invitationPath(c *ui.Request) string { return "/invitation/" + c.HTTP.PathValue("token") }

// showInvitation renders an invitation and the profile fields that payouts require.
func showInvitation(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	v, err := payee.InvitationByToken(ctx, tx, c.HTTP.PathValue("token"))
	if err != nil {
		return ui.View{}, err
	}
	p := invitationPage{
		Company: v.CompanyName, Email: v.Email, Role: c.Text("role." + v.Role), State: v.State, Path: invitationPath(c),
		Expires: v.Expires.UTC().Format("2006-01-02 15:04 UTC"),
	}
	if v.State == payee.InvitationRevoked && v.Reason == payee.ByPerson {
		p.State = "declined"
	}
	if v.State == payee.InvitationSent {
		u, err := identity.UserByEmail(ctx, tx, v.Email)
		if err != nil {
			return ui.View{}, err
		}
		if p.Known = u.ID != ""; !p.Known {
			p.Fields = append(profileFields(c, identity.Profile{}), c.NewPasswordField())
			p.Passkeys = auth.CanUsePasskeys(c)
		}
	}
	return ui.View{Template: "invitation", Title: c.Text("invitation."+p.State+".title", v.CompanyName), Data: p}, nil
}

// showAsked confirms the request for a new invitation.
func showAsked(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	v, err := payee.InvitationByToken(ctx, tx, c.HTTP.PathValue("token"))
	if err != nil {
		return ui.View{}, err
	}
	return ui.View{Template: "invitation", Title: c.Text("invitation.asked.title", v.CompanyName),
		Data: invitationPage{Company: v.CompanyName, State: "asked"}}, nil
}

// profileFields returns the fields for name, birth date and address, filled from p.
func profileFields(c *ui.Request, p identity.Profile) []ui.Field {
	return []ui.Field{
		c.Field(ui.Field{Name: "first_name", Value: p.FirstName, Autocomplete: "given-name", Required: true, MaxLength: 100}),
		c.Field(ui.Field{Name: "last_name", Value: p.LastName, Autocomplete: "family-name", Required: true, MaxLength: 100}),
		c.Field(ui.Field{Name: "date_of_birth", Value: p.DateOfBirth, Type: "date", Autocomplete: "bday", Required: true}),
		c.Field(ui.Field{Name: "country", Value: p.Country, Type: "select", Autocomplete: "country", Required: true,
			Options: c.Countries()}),
		c.Field(ui.Field{Name: "street_address", Value: p.StreetAddress, Autocomplete: "address-line1", Required: true,
			MaxLength: 200}),
		c.Field(ui.Field{Name: "street_address_2", Value: p.StreetAddress2, Autocomplete: "address-line2", MaxLength: 200}),
		c.Field(ui.Field{Name: "city", Value: p.City, Autocomplete: "address-level2", Required: true, MaxLength: 100}),
		c.Field(ui.Field{Name: "state", Value: p.State, Autocomplete: "address-level1", MaxLength: 100}),
		c.Field(ui.Field{Name: "zip", Value: p.Zip, Autocomplete: "postal-code", MaxLength: 20}),
	}
}

// acceptInvitation accepts an invitation. A person without an account gets one with the posted profile, and is signed
// in. If the invitation was already accepted, the page shows that.
func acceptInvitation(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	token := c.HTTP.PathValue("token")
	var v payee.Invitation
	var known identity.User
	err := c.DB.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		if v, err = payee.InvitationByToken(ctx, tx, token); err != nil {
			return err
		}
		known, err = identity.UserByEmail(ctx, tx, v.Email)
		return err
	})
	if err != nil {
		return ui.View{}, err
	}
	if v.State != payee.InvitationSent {
		return ui.View{Redirect: invitationPath(c)}, nil
	}
	n := identity.NewUser{Profile: known.Profile}
	byPasskey := c.Form.Get("passkey") != "" && auth.CanUsePasskeys(c)
	if known.ID == "" {
		n.Profile = identity.Profile{
			FirstName: c.Form.Get("first_name"), LastName: c.Form.Get("last_name"), Country: c.Form.Get("country"),
			Details: identity.Details{
				DateOfBirth: c.Form.Get("date_of_birth"), StreetAddress: c.Form.Get("street_address"),
				StreetAddress2: c.Form.Get("street_address_2"),
				City:           c.Form.Get("city"), State: c.Form.Get("state"), Zip: c.Form.Get("zip"),
			},
		}
		// The page requires the whole profile, although parts of it could be added later.
		var problems apierr.List
		n.Profile.Check(&problems, c.Now(), "first_name", "last_name", "date_of_birth", "country", "street_address", "city")
		err := problems.Err()
		if !byPasskey {
			n.PasswordHash, err = c.NewPassword(ctx, v.Email, err)
		}
		if err != nil {
			return ui.View{}, err
		}
	}
	var done ui.View
	err = c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		done = ui.View{Redirect: ui.SignInPath(ui.PayPath)}
		id, created, err := payee.AcceptInvitation(ctx, tx, c.Sealer, token, n)
		if err != nil || !created {
			return err
		}
		c.Author = id
		// The link proves the email address of the new account, as a link that sets a first password does.
		started, err := session.Start(ctx, tx, id)
		done = ui.View{Redirect: ui.PayPath, Cookie: c.SessionCookie(started)}
		if byPasskey {
			done.Redirect = "/account/passkeys"
		}
		return errors.Join(err, session.End(ctx, tx, c.SessionToken()))
	})
	if errors.Is(err, payee.ErrNotOpen) {
		return ui.View{Redirect: invitationPath(c)}, nil
	}
	return done, err
}

// declineInvitation declines an invitation.
func declineInvitation(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return answered(c, payee.DeclineInvitation(ctx, tx, c.HTTP.PathValue("token")))
}

// askForInvitation notifies the company that the person wants a new invitation.
func askForInvitation(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	err := payee.AskAgain(ctx, tx, c.HTTP.PathValue("token"))
	if err == nil {
		return ui.View{Redirect: invitationPath(c) + "/asked"}, nil
	}
	return answered(c, err)
}

// answered redirects to the invitation, which shows its current state even after a concurrent answer.
func answered(c *ui.Request, err error) (ui.View, error) {
	if err == nil || errors.Is(err, payee.ErrNotOpen) {
		return ui.View{Redirect: invitationPath(c)}, nil
	}
	return ui.View{}, err
}
