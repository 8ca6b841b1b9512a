// Package payee serves the pages of people who are paid: invitations, and their own profile and documents.
package payee

import (
	"context"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/web/company"
	"github.com/stipend/stipend/internal/web/ui"
)

const personPath = "/account/verification"

type personPage struct {
	Means            string
	Reasons, Missing []string
	Documents        ui.Table
	Papers, Face     []ui.Field // Papers are the fields of a document image, Face those of a selfie
	Number           []ui.Field // fields of a tax ID
	Image, Selfie    ui.Field   // image files
	Profile          []ui.Field
	Incomplete       bool       // the profile lacks something, or its form was rejected
	Payer            []ui.Field // shown while it is missing
	Startable        bool
}

// self returns the signed-in user as a principal without a company.
func self(c *ui.Request) identity.Principal {
	by := c.Session.Principal()
	by.CompanyID = ""
	return by
}

// showPerson renders the user's verification: its status, the uploaded documents and the missing items.
func showPerson(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	at, err := c.KYC.StatusOf(ctx, tx, self(c), "")
	if err != nil {
		return ui.View{}, err
	}
	p := personPage{Means: c.Text("kyc.means." + at.State.Public()), Profile: profileFields(c, at.User.Profile),
		Image: c.ImageField("image", "environment"), Selfie: c.ImageField("face", "user")}
	p.Incomplete = slices.ContainsFunc(at.Missing, func(m string) bool { return slices.Contains(profileNames, m) }) ||
		slices.ContainsFunc(p.Profile, func(f ui.Field) bool { return f.Problem.Text != "" })
	p.Selfie.Hint = c.Text("kyc.face.hint")
	view := ui.View{Template: "person", Title: c.Text("kyc.title"), State: c.StateCell("kyc.state", at.State.Public())}
	for _, r := range at.Reasons {
		p.Reasons = append(p.Reasons, c.Reason(r))
	}
	p.Documents = ui.Table{Caption: c.Text("documents.title"), Empty: c.Empty("documents.none"),
		Heads: c.Columns("field.doc_type", "recipient.country")}
	for _, d := range at.Documents {
		p.Documents.Rows = append(p.Documents.Rows, []ui.Cell{{Text: c.Word("paper", d.DocType)}, {Text: d.IssuingCountry}})
	}
	if !at.Open() {
		view.Data = p
		return view, nil
	}
	for _, m := range at.Missing {
		p.Missing = append(p.Missing, missingText(c, m))
	}
	p.Startable = len(at.Missing) == 0
	home := at.User.Country
	if slices.Contains(at.Missing, "payer") {
		p.Payer = payerFields(c)
	}
	var papers, numbers []ui.Option
	for _, n := range at.Needs {
		switch n.DocType {
		case kyc.Selfie:
			p.Face = []ui.Field{c.Field(ui.Field{Name: "issuing_country", Label: c.Text("recipient.country"), Type: "hidden",
				Value: home})}
		case kyc.TaxID:
			for _, kind := range n.TaxIDTypes {
				numbers = append(numbers, ui.Option{Value: kind, Label: strings.ToUpper(kind)})
			}
		default:
			papers = append(papers, ui.Option{Value: n.DocType, Label: c.Word("paper", n.DocType)})
		}
	}
	if len(papers) > 0 {
		p.Papers = []ui.Field{
			c.Field(ui.Field{Name: "doc_type", Type: "select", Options: papers}),
			c.Field(ui.Field{Name: "category", Type: "select",
				Options: []ui.Option{{Value: kyc.Front, Label: c.Text("paper.front")},
					{Value: kyc.Back, Label: c.Text("paper.back")}}}),
			c.CountryField(ui.Field{Name: "issuing_country", Required: true, Value: home}),
		}
	}
	if len(numbers) > 0 {
		p.Number = []ui.Field{
			c.Field(ui.Field{Name: "tax_id_type", Type: "select", Options: numbers}),
			c.Field(ui.Field{Name: "tax_id", Label: c.Text("bank.tax_id"), Required: true, MaxLength: 64, Autocomplete: "off"}),
		}
	}
	view.Data = p
	return view, nil
}

// profileNames are the profile fields that a verification may require.
var profileNames = []string{"first_name", "last_name", "date_of_birth", "country", "street_address", "city"}

// saveProfile stores the user's profile.
func saveProfile(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	value := func(name string) *string {
		text := strings.TrimSpace(c.Form.Get(name))
		return &text
	}
	_, err := c.KYC.UpdateUser(ctx, tx, self(c), "", identity.ProfileChanges{
		FirstName: value("first_name"), LastName: value("last_name"), DateOfBirth: value("date_of_birth"),
		Country:       value("country"),
		StreetAddress: value("street_address"), StreetAddress2: value("street_address_2"), City: value("city"),
		State: value("state"), Zip: value("zip"),
	})
	return ui.View{Redirect: personPath}, ui.FormError(err)
}

// savePayer stores who pays the user in which currency. The currency determines the required documents.
func savePayer(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	_, err := createPayer(ctx, tx, c)
	return ui.View{Redirect: personPath}, err
}

// missingText describes a missing item. For a document with one side uploaded, it names the other side.
func missingText(c *ui.Request, name string) string {
	if c.HasText("kyc.missing." + name) {
		return c.Text("kyc.missing." + name)
	}
	for _, side := range []string{kyc.Front, kyc.Back} {
		if paper, ok := strings.CutSuffix(name, "_"+side); ok {
			return c.Text("kyc.missing.side", c.Word("paper", paper), c.Text("paper."+side))
		}
	}
	return c.Word("paper", name)
}

// uploadOwnDocument stores an ID document, selfie or tax ID of the user.
func uploadOwnDocument(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	input := "image"
	u := kyc.Upload{DocType: c.Form.Get("doc_type"), Category: c.Form.Get("category"),
		IssuingCountry: strings.ToUpper(strings.TrimSpace(c.Form.Get("issuing_country")))}
	switch u.DocType {
	case kyc.TaxID:
		u.TaxID, u.TaxIDType = strings.TrimSpace(c.Form.Get("tax_id")), c.Form.Get("tax_id_type")
	case kyc.Selfie:
		input = "face"
		fallthrough
	default:
		image, err := c.Picture(input)
		if err != nil {
			return ui.View{}, err
		}
		if image == "" {
			return ui.View{}, apierr.New(apierr.Invalid, "no_file", "Choose an image file.").At("body", "/"+input)
		}
		u.Base64 = image
	}
	by := self(c)
	picture, err := c.KYC.Read(ctx, c.DB, by, "", u)
	if err == nil {
		err = c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return c.KYC.Store(ctx, tx, by, "", u, picture) })
	}
	return ui.View{Redirect: personPath}, company.ImageFormError(err, input)
}

// startOwn submits the user's verification.
func startOwn(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	_, err := c.KYC.Initiate(ctx, tx, self(c), "")
	return ui.View{Redirect: personPath}, ui.WholeFormError(err)
}
