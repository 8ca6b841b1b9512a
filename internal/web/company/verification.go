// Package company serves the pages of a company: payrolls, people, wallets, invoices and settings.
package company

import (
	"context"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/web/ui"
)

// ImageFormLimit is the maximum size in bytes of a form with an image of up to 10 MiB.
const ImageFormLimit = 12 << 20

// Document types of a company and of its owners.
var (
	companyPapers = []string{"certificate_of_incorporation", "articles_of_association", "shareholder_register",
		kyc.ProofOfAddress, "bank_statement", "tax_certificate", "other"}
	ownerPapers = []string{kyc.Passport, kyc.Selfie, kyc.ProofOfAddress}
)

type companyPage struct {
	Means            string
	Documents        ui.Table
	File             ui.Field // an image
	Reasons, Missing []string
	Profile          []ui.Field
	Upload           []ui.Field
	Owners           []ownerRow
	Owner            []ui.Field
	Saved            bool // the profile is stored
	Changeable       bool
	Startable        bool
}

type ownerRow struct {
	ID, Name, Part, State string
	Startable             bool
}

// showCompany renders the company's verification: its status, the missing items and the forms to add them.
func showCompany(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	company := c.Session.Company
	o, err := c.KYC.OnboardingOf(ctx, tx, company.ID)
	if err != nil {
		return ui.View{}, err
	}
	state := string(o.State)
	if state == "" {
		state = "not_started"
	}
	p := companyPage{
		Means: c.Text("kyb.means"), File: c.ImageField("image", "environment"),
		Changeable: state == "not_started" || o.State == kyc.Draft || o.State == kyc.DocumentsPending ||
			o.State == kyc.MoreInfo || o.State == kyc.Resubmission,
	}
	p.Startable = p.Changeable && state != "not_started" && len(o.Missing) == 0
	for _, r := range o.Reasons {
		p.Reasons = append(p.Reasons, c.Reason(r))
	}
	for _, m := range o.Missing {
		p.Missing = append(p.Missing, c.Word("kyb.missing", m))
	}
	known := o.Profile
	p.Saved = known.Name != ""
	if known.Name == "" {
		known.Name, known.Email, known.Website, known.Country = company.Name, company.Email, company.Website, company.Country
	}
	p.Profile = []ui.Field{
		c.Field(ui.Field{Name: "name", Label: c.Text("kyb.name"), Required: true, MaxLength: 200, Value: known.Name}),
		c.CountryField(ui.Field{Name: "country", Label: c.Text("recipient.country"), Required: true, Value: known.Country}),
		c.Field(ui.Field{Name: "registration_number", MaxLength: 64, Value: known.RegistrationNumber}),
		c.Field(ui.Field{Name: "incorporation_date", Type: "date", Value: known.IncorporationDate}),
		c.Field(ui.Field{Name: "lei", MaxLength: 20, Value: known.LEI}),
		c.Field(ui.Field{Name: "street_address", MaxLength: 200, Value: known.StreetAddress}),
		c.Field(ui.Field{Name: "city", MaxLength: 100, Value: known.City}),
		c.Field(ui.Field{Name: "state", MaxLength: 100, Value: known.State}),
		c.Field(ui.Field{Name: "zip", MaxLength: 20, Value: known.Zip}),
		c.Field(ui.Field{Name: "email", Type: "email", Label: c.Text("recipient.email"), MaxLength: 254, Value: known.Email}),
		c.Field(ui.Field{Name: "website", Type: "url", MaxLength: 300, Value: known.Website}),
		c.Field(ui.Field{Name: "about", MaxLength: 500, Value: known.Description}),
	}
	p.Documents = ui.Table{Caption: c.Text("documents.title"), Empty: c.Empty("documents.none"),
		Heads: c.Columns("field.doc_type", "recipient.country")}
	for _, d := range o.Documents {
		p.Documents.Rows = append(p.Documents.Rows, []ui.Cell{
			{Text: c.Word("document", d.DocType)}, {Text: d.IssuingCountry}})
	}
	whose := []ui.Option{{Value: "", Label: company.Name}}
	for _, owner := range o.Owners {
		name := strings.TrimSpace(owner.FirstName + " " + owner.LastName)
		whose = append(whose, ui.Option{Value: owner.ID, Label: name})
		p.Owners = append(p.Owners, ownerRow{
			// hundredths of a percent
			ID: owner.ID, Name: name, Part: c.FormatNumber(money.New(money.USD, owner.OwnershipBps).String()) + "\u00a0%",
			State: c.Word("kyc.state", owner.KYCStatus), Startable: owner.KYCStatus == "not_started" ||
				owner.KYCStatus == string(kyc.Resubmission),
		})
	}
	var kinds []ui.Option
	for _, kind := range append(append([]string{}, companyPapers...), ownerPapers[:2]...) {
		kinds = append(kinds, ui.Option{Value: kind, Label: c.Word("document", kind)})
	}
	p.Upload = []ui.Field{
		c.Field(ui.Field{Name: "whose", Type: "select", Options: whose}),
		c.Field(ui.Field{Name: "doc_type", Type: "select", Options: kinds}),
		c.CountryField(ui.Field{Name: "issuing_country", Required: true, Value: company.Country}),
	}
	p.Owner = []ui.Field{
		c.Field(ui.Field{Name: "first_name", Required: true, MaxLength: 100}),
		c.Field(ui.Field{Name: "last_name", Required: true, MaxLength: 100}),
		c.Field(ui.Field{Name: "date_of_birth", Type: "date", Required: true}),
		c.CountryField(ui.Field{Name: "owner_country", Required: true}),
		c.Field(ui.Field{Name: "ownership_percentage", Required: true, MaxLength: 6}),
		c.Field(ui.Field{Name: "control", Type: "select",
			Options: []ui.Option{{Value: "", Label: c.Text("kyb.no")}, {Value: "yes", Label: c.Text("kyb.yes")}}}),
	}
	return ui.View{Template: "company", Title: c.Text("kyb.title"), State: c.StateCell("kyb.state", state), Data: p}, nil
}

// saveCompany stores the company's profile.
func saveCompany(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	value := func(name string) string { return strings.TrimSpace(c.Form.Get(name)) }
	_, err := c.KYC.Onboard(ctx, tx, c.Session.Principal(), "", kyc.CompanyProfile{
		Name: value("name"), Email: value("email"), Website: value("website"), Country: strings.ToUpper(value("country")),
		RegistrationNumber: value("registration_number"), IncorporationDate: value("incorporation_date"),
		StreetAddress: value("street_address"),
		City:          value("city"), State: value("state"), Zip: value("zip"), Description: value("about"),
		LEI: value("lei"),
	})
	return ui.View{Redirect: ui.CompanyPath}, ui.FormError(err)
}

// addOwner adds a person who owns or controls the company.
func addOwner(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	value := func(name string) string { return strings.TrimSpace(c.Form.Get(name)) }
	o := kyc.Owner{Control: value("control") == "yes", OwnershipBps: -1}
	// two decimals, like hundredths of a percent
	if part, err := money.Parse(money.USD, value("ownership_percentage")); err == nil {
		o.OwnershipBps = part.Units()
	}
	o.FirstName, o.LastName, o.DateOfBirth, o.Country = value("first_name"), value("last_name"), value("date_of_birth"),
		strings.ToUpper(value("owner_country"))
	_, err := c.KYC.AddOwner(ctx, tx, c.Session.Principal(), "", o)
	return ui.View{Redirect: ui.CompanyPath}, ui.FormError(ui.RenameField(err, "/country", "/owner_country"))
}

// uploadDocument stores a document of the company or of one of its owners.
func uploadDocument(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	image, err := c.Picture("image")
	if err != nil {
		return ui.View{}, err
	}
	if image == "" {
		return ui.View{}, apierr.New(apierr.Invalid, "no_file", "Choose an image file.").At("body", "/image")
	}
	u := kyc.Upload{
		DocType: c.Form.Get("doc_type"), Category: kyc.Front,
		IssuingCountry: strings.ToUpper(strings.TrimSpace(c.Form.Get("issuing_country"))),
		Base64:         image,
	}
	whose := c.Form.Get("whose")
	by := c.Session.Principal()
	picture, err := c.KYC.ReadFor(ctx, c.DB, by, "", whose, u)
	if err == nil {
		err = c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			return c.KYC.StoreFor(ctx, tx, by, "", whose, u, picture)
		})
	}
	return ui.View{Redirect: ui.CompanyPath}, ImageFormError(err, "image")
}

// ImageFormError returns an error of an uploaded image as a problem of the form, at the field of the image.
func ImageFormError(err error, field string) error {
	err = ui.RenameField(err, "/base64_image", "/"+field)
	if f, ok := apierr.As(err); ok && len(f.Fields) == 0 &&
		(f.Code == kyc.ErrImage.Code || f.Code == kyc.ErrTooLarge.Code) {
		return f.At("body", "/"+field)
	}
	return ui.FormError(err)
}

// startVerification submits the verification of the company or of one of its owners.
func startVerification(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	by := c.Session.Principal()
	var err error
	if whose := c.Form.Get("whose"); whose != "" {
		_, err = c.KYC.InitiateOwner(ctx, tx, by, "", whose)
	} else {
		_, err = c.KYC.InitiateCompany(ctx, tx, by, "")
	}
	return ui.View{Redirect: ui.CompanyPath}, ui.WholeFormError(err)
}
