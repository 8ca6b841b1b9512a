// Package company has the pages of a company: payrolls, people, wallets, invoices, and settings.
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

// ImageFormLimit bounds a form with an image of at most 10 MiB.
const ImageFormLimit = 12 << 20

// What can be handed in for a company, and for somebody who owns it.
var (
	companyPapers = []string{"certificate_of_incorporation", "articles_of_association", "shareholder_register", kyc.ProofOfAddress, "bank_statement", "tax_certificate", "other"}
	ownerPapers   = []string{kyc.Passport, kyc.Selfie, kyc.ProofOfAddress}
)

type companyPage struct {
	State, Means     string
	Reasons, Missing []string
	Profile          []ui.Field
	Documents        ui.Table
	Upload           []ui.Field
	FileProblem      ui.LocalizedText
	Owners           []ownerShown
	Owner            []ui.Field
	Changeable       bool
	Startable        bool
}

type ownerShown struct {
	ID, Name, Part, State string
	Startable             bool
}

// showCompany is how far the verification of the company is, and what it still lacks.
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
		State: c.Word("kyb.state", state), Means: c.Text("kyb.means"),
		Changeable: state == "not_started" || o.State == kyc.Draft || o.State == kyc.DocumentsPending || o.State == kyc.MoreInfo || o.State == kyc.Resubmission,
	}
	p.Startable = p.Changeable && state != "not_started" && len(o.Missing) == 0
	for _, r := range o.Reasons {
		p.Reasons = append(p.Reasons, c.Reason(r))
	}
	for _, m := range o.Missing {
		p.Missing = append(p.Missing, c.Word("kyb.missing", m))
	}
	known := o.Profile
	if known.Name == "" {
		known.Name, known.Email, known.Website, known.Country = company.Name, company.Email, company.Website, company.Country
	}
	p.Profile = []ui.Field{
		c.Field(ui.Field{Name: "name", Label: c.Text("kyb.name"), Required: true, Most: 200, Value: known.Name}),
		c.Field(ui.Field{Name: "country", Label: c.Text("recipient.country"), Hint: c.Text("recipient.country.hint"), Required: true, Most: 2, Value: known.Country}),
		c.Field(ui.Field{Name: "registration_number", Most: 64, Value: known.RegistrationNumber}),
		c.Field(ui.Field{Name: "incorporation_date", Type: "date", Value: known.IncorporationDate}),
		c.Field(ui.Field{Name: "street_address", Most: 200, Value: known.StreetAddress}),
		c.Field(ui.Field{Name: "city", Most: 100, Value: known.City}),
		c.Field(ui.Field{Name: "state", Most: 100, Value: known.State}),
		c.Field(ui.Field{Name: "zip", Most: 20, Value: known.Zip}),
		c.Field(ui.Field{Name: "email", Type: "email", Label: c.Text("recipient.email"), Most: 254, Value: known.Email}),
		c.Field(ui.Field{Name: "website", Type: "url", Most: 300, Value: known.Website}),
		c.Field(ui.Field{Name: "about", Most: 500, Value: known.Description}),
	}
	p.Documents = ui.Table{Caption: c.Text("documents.title"), Empty: c.Text("documents.none"), Heads: c.Columns("field.doc_type", "recipient.country")}
	for _, d := range o.Documents {
		p.Documents.Rows = append(p.Documents.Rows, []ui.Cell{{Text: c.Word("document", d.DocType)}, {Text: d.IssuingCountry}})
	}
	whose := []ui.Option{{Value: "", Label: company.Name}}
	for _, owner := range o.Owners {
		name := strings.TrimSpace(owner.FirstName + " " + owner.LastName)
		whose = append(whose, ui.Option{Value: owner.ID, Label: name})
		p.Owners = append(p.Owners, ownerShown{
			ID: owner.ID, Name: name, Part: c.FormatNumber(money.New(money.USD, owner.OwnershipBps).String()) + "\u00a0%", // hundredths of a percent
			State: c.Word("kyc.state", owner.KYCStatus), Startable: owner.KYCStatus == "not_started" || owner.KYCStatus == string(kyc.Resubmission),
		})
	}
	var kinds []ui.Option
	for _, kind := range append(append([]string{}, companyPapers...), ownerPapers[:2]...) {
		kinds = append(kinds, ui.Option{Value: kind, Label: c.Word("document", kind)})
	}
	p.Upload = []ui.Field{
		c.Field(ui.Field{Name: "whose", Type: "select", Options: whose}),
		c.Field(ui.Field{Name: "doc_type", Type: "select", Options: kinds}),
		c.Field(ui.Field{Name: "issuing_country", Required: true, Most: 2, Hint: c.Text("recipient.country.hint"), Value: company.Country}),
	}
	for _, w := range c.Problems() {
		if w.Name == "image" {
			p.FileProblem = w.LocalizedText
		}
	}
	p.Owner = []ui.Field{
		c.Field(ui.Field{Name: "first_name", Required: true, Most: 100}),
		c.Field(ui.Field{Name: "last_name", Required: true, Most: 100}),
		c.Field(ui.Field{Name: "date_of_birth", Type: "date", Required: true}),
		c.Field(ui.Field{Name: "owner_country", Hint: c.Text("recipient.country.hint"), Required: true, Most: 2}),
		c.Field(ui.Field{Name: "ownership_percentage", Required: true, Most: 6}),
		c.Field(ui.Field{Name: "control", Type: "select", Options: []ui.Option{{Value: "", Label: c.Text("kyb.no")}, {Value: "yes", Label: c.Text("kyb.yes")}}}),
	}
	return ui.View{Template: "company", Title: c.Text("kyb.title"), Wide: true, Data: p}, nil
}

// saveCompany notes what the company says of itself.
func saveCompany(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	value := func(name string) string { return strings.TrimSpace(c.Form.Get(name)) }
	_, err := c.KYC.Onboard(ctx, tx, c.Session.Principal(), "", kyc.CompanyProfile{
		Name: value("name"), Email: value("email"), Website: value("website"), Country: strings.ToUpper(value("country")),
		RegistrationNumber: value("registration_number"), IncorporationDate: value("incorporation_date"), StreetAddress: value("street_address"),
		City: value("city"), State: value("state"), Zip: value("zip"), Description: value("about"),
	})
	return ui.View{Redirect: ui.CompanyPath}, ui.FormError(err)
}

// addOwner notes somebody who owns or directs the company.
func addOwner(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	value := func(name string) string { return strings.TrimSpace(c.Form.Get(name)) }
	o := kyc.Owner{Control: value("control") == "yes", OwnershipBps: -1}
	if part, err := money.Parse(money.USD, value("ownership_percentage")); err == nil { // two decimals, like hundredths of a percent
		o.OwnershipBps = part.Units()
	}
	o.FirstName, o.LastName, o.DateOfBirth, o.Country = value("first_name"), value("last_name"), value("date_of_birth"), strings.ToUpper(value("owner_country"))
	_, err := c.KYC.AddOwner(ctx, tx, c.Session.Principal(), "", o)
	if f, ok := apierr.As(err); ok && len(f.Fields) > 0 {
		return ui.View{}, ui.RenameFields(f, func(pointer string) string {
			if pointer == "/country" {
				return "/owner_country"
			}
			return pointer
		})
	}
	return ui.View{Redirect: ui.CompanyPath}, ui.FormError(err)
}

// uploadDocument keeps a picture of a document of the company, or of one of its owners.
func uploadDocument(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	image, err := c.Picture("image")
	if err != nil {
		return ui.View{}, err
	}
	if image == "" {
		return ui.View{}, apierr.New(apierr.Invalid, "no_file", "Choose a picture.").At("body", "/image")
	}
	u := kyc.Upload{
		DocType: c.Form.Get("doc_type"), Category: kyc.Front, IssuingCountry: strings.ToUpper(strings.TrimSpace(c.Form.Get("issuing_country"))),
		Base64: image,
	}
	whose := c.Form.Get("whose")
	by := c.Session.Principal()
	picture, err := c.KYC.ReadFor(ctx, c.DB, by, "", whose, u)
	if err == nil {
		err = c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			return c.KYC.StoreFor(ctx, tx, by, "", whose, u, picture)
		})
	}
	if f, ok := apierr.As(err); ok && len(f.Fields) > 0 {
		return ui.View{}, ui.RenameFields(f, func(pointer string) string {
			if pointer == "/base64_image" {
				return "/image"
			}
			return pointer
		})
	}
	if f, ok := apierr.As(err); ok && (f.Code == kyc.ErrImage.Code || f.Code == kyc.ErrTooLarge.Code) {
		return ui.View{}, f.At("body", "/image")
	}
	return ui.View{Redirect: ui.CompanyPath}, ui.FormError(err)
}

// startVerification has the company verified, or one of its owners.
func startVerification(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	by := c.Session.Principal()
	var err error
	if whose := c.Form.Get("whose"); whose != "" {
		_, err = c.KYC.InitiateOwner(ctx, tx, by, "", whose)
	} else {
		_, err = c.KYC.InitiateCompany(ctx, tx, by, "")
	}
	if f, ok := apierr.As(err); ok && f.Kind != apierr.NotFound {
		return ui.View{}, (&apierr.Fault{Kind: f.Kind, Code: f.Code, Detail: f.Detail}).At("body", "")
	}
	return ui.View{Redirect: ui.CompanyPath}, err
}
