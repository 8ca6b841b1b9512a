package web

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/text/collate"
	xlanguage "golang.org/x/text/language"
	"golang.org/x/text/language/display"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/payee"
)

// invitationPage is what the reader of a link sees, in every state of the invitation.
type invitationPage struct {
	Company, Email, Role string
	State                string // of payee.Invitation, "declined", or "asked" for another
	Expires              string
	Path                 string // below which the forms are posted
	Fields               []field
}

func invitationPath(c *call) string { return "/invitation/" + c.r.PathValue("token") }

// showInvitation says who invites to what, and asks for what paying needs to know of a person.
func showInvitation(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	v, err := payee.InvitationByToken(ctx, tx, c.r.PathValue("token"))
	if err != nil {
		return view{}, err
	}
	p := invitationPage{
		Company: v.CompanyName, Email: v.Email, Role: c.text("role." + v.Role), State: v.State, Path: invitationPath(c),
		Expires: v.Expires.UTC().Format("2006-01-02 15:04 UTC"),
	}
	if v.State == payee.InvitationRevoked && v.Reason == payee.ByPerson {
		p.State = "declined"
	}
	if v.State == payee.InvitationSent {
		p.Fields = c.profileFields(identity.Profile{})
	}
	return view{page: "invitation", title: c.text("invitation."+p.State+".title", v.CompanyName), data: p}, nil
}

// showAsked is what follows a request for another invitation.
func showAsked(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	v, err := payee.InvitationByToken(ctx, tx, c.r.PathValue("token"))
	if err != nil {
		return view{}, err
	}
	return view{page: "invitation", title: c.text("invitation.asked.title", v.CompanyName), data: invitationPage{Company: v.CompanyName, State: "asked"}}, nil
}

// profileFields are the inputs for a person's names, birth date and address, with what is known of them.
func (c *call) profileFields(p identity.Profile) []field {
	return []field{
		c.field(field{Name: "first_name", Value: p.FirstName, Autocomplete: "given-name", Required: true, Most: 100}),
		c.field(field{Name: "last_name", Value: p.LastName, Autocomplete: "family-name", Required: true, Most: 100}),
		c.field(field{Name: "date_of_birth", Value: p.DateOfBirth, Type: "date", Autocomplete: "bday", Required: true}),
		c.field(field{Name: "country", Value: p.Country, Type: "select", Autocomplete: "country", Required: true, Options: c.countries()}),
		c.field(field{Name: "street_address", Value: p.StreetAddress, Autocomplete: "address-line1", Required: true, Most: 200}),
		c.field(field{Name: "street_address_2", Value: p.StreetAddress2, Autocomplete: "address-line2", Most: 200}),
		c.field(field{Name: "city", Value: p.City, Autocomplete: "address-level2", Required: true, Most: 100}),
		c.field(field{Name: "state", Value: p.State, Autocomplete: "address-level1", Most: 100}),
		c.field(field{Name: "zip", Value: p.Zip, Autocomplete: "postal-code", Most: 20}),
	}
}

// countries are those of the world by their names in the reader's language, with an empty choice before them.
func (c *call) countries() []option {
	tag := xlanguage.Make(c.lang.tag)
	names := display.Regions(tag)
	var all []option
	for _, code := range identity.Countries() {
		region, err := xlanguage.ParseRegion(code)
		if err != nil {
			continue // a code that the tables of names do not have yet
		}
		all = append(all, option{Value: code, Label: names.Name(region)})
	}
	order := collate.New(tag)
	slices.SortFunc(all, func(a, b option) int { return order.CompareString(a.Label, b.Label) })
	return append([]option{{Value: "", Label: c.text("form.choose")}}, all...)
}

// acceptInvitation takes who the reader is, and makes them a worker of the company. Accepting again shows what was accepted.
func acceptInvitation(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	v, err := payee.InvitationByToken(ctx, tx, c.r.PathValue("token"))
	if err != nil {
		return view{}, err
	}
	if v.State != payee.InvitationSent {
		return view{redirect: invitationPath(c)}, nil
	}
	n := identity.NewUser{Profile: identity.Profile{
		FirstName: c.form.Get("first_name"), LastName: c.form.Get("last_name"), Country: c.form.Get("country"),
		Details: identity.Details{
			DateOfBirth: c.form.Get("date_of_birth"), StreetAddress: c.form.Get("street_address"), StreetAddress2: c.form.Get("street_address_2"),
			City: c.form.Get("city"), State: c.form.Get("state"), Zip: c.form.Get("zip"),
		},
	}}
	// A page asks for all that paying needs at once, where the domain lets some of it follow.
	var problems apierr.List
	n.Profile.Check(&problems, tx.Now(), "first_name", "last_name", "date_of_birth", "country", "street_address", "city", "state", "zip")
	if err := problems.Err(); err != nil {
		return view{}, err
	}
	_, err = payee.AcceptInvitation(ctx, tx, c.Sealer, c.r.PathValue("token"), n)
	return c.answered(err)
}

// declineInvitation is the reader's no.
func declineInvitation(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	return c.answered(payee.DeclineInvitation(ctx, tx, c.r.PathValue("token")))
}

// askForInvitation lets the company know that an expired invitation is missed.
func askForInvitation(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	err := payee.AskAgain(ctx, tx, c.r.PathValue("token"))
	if err == nil {
		return view{redirect: invitationPath(c) + "/asked"}, nil
	}
	return c.answered(err)
}

// answered leads back to the invitation, which shows how it stands now, also when somebody else was faster.
func (c *call) answered(err error) (view, error) {
	if err == nil || errors.Is(err, payee.ErrNotOpen) {
		return view{redirect: invitationPath(c)}, nil
	}
	return view{}, err
}
