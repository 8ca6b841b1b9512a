package web

import (
	"context"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/money"
)

// imageFormLimit bounds a form with an image of at most 10 MiB.
const imageFormLimit = 12 << 20

// What can be handed in for a company, and for somebody who owns it.
var (
	companyPapers = []string{"certificate_of_incorporation", "articles_of_association", "shareholder_register", kyc.ProofOfAddress, "bank_statement", "tax_certificate", "other"}
	ownerPapers   = []string{kyc.Passport, kyc.Selfie, kyc.ProofOfAddress}
)

const companyPath = "/company/verification"

type companyPage struct {
	State, Means     string
	Reasons, Missing []string
	Profile          []field
	Documents        table
	Upload           []field
	FileProblem      said
	Owners           []ownerShown
	Owner            []field
	Changeable       bool
	Startable        bool
}

type ownerShown struct {
	ID, Name, Part, State string
	Startable             bool
}

// showCompany is how far the verification of the company is, and what it still lacks.
func showCompany(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	company := c.session.Company
	o, err := c.KYC.OnboardingOf(ctx, tx, company.ID)
	if err != nil {
		return view{}, err
	}
	state := string(o.State)
	if state == "" {
		state = "not_started"
	}
	p := companyPage{
		State: c.word("kyb.state", state), Means: c.text("kyb.means"),
		Changeable: state == "not_started" || o.State == kyc.Draft || o.State == kyc.DocumentsPending || o.State == kyc.MoreInfo || o.State == kyc.Resubmission,
	}
	p.Startable = p.Changeable && state != "not_started" && len(o.Missing) == 0
	for _, r := range o.Reasons {
		p.Reasons = append(p.Reasons, c.reason(r))
	}
	for _, m := range o.Missing {
		p.Missing = append(p.Missing, c.word("kyb.missing", m))
	}
	known := o.Profile
	if known.Name == "" {
		known.Name, known.Email, known.Website, known.Country = company.Name, company.Email, company.Website, company.Country
	}
	p.Profile = []field{
		c.field(field{Name: "name", Label: c.text("kyb.name"), Required: true, Most: 200, Value: known.Name}),
		c.field(field{Name: "country", Label: c.text("recipient.country"), Hint: c.text("recipient.country.hint"), Required: true, Most: 2, Value: known.Country}),
		c.field(field{Name: "registration_number", Most: 64, Value: known.RegistrationNumber}),
		c.field(field{Name: "incorporation_date", Type: "date", Value: known.IncorporationDate}),
		c.field(field{Name: "street_address", Most: 200, Value: known.StreetAddress}),
		c.field(field{Name: "city", Most: 100, Value: known.City}),
		c.field(field{Name: "state", Most: 100, Value: known.State}),
		c.field(field{Name: "zip", Most: 20, Value: known.Zip}),
		c.field(field{Name: "email", Type: "email", Label: c.text("recipient.email"), Most: 254, Value: known.Email}),
		c.field(field{Name: "website", Type: "url", Most: 300, Value: known.Website}),
		c.field(field{Name: "about", Most: 500, Value: known.Description}),
	}
	p.Documents = table{Caption: c.text("documents.title"), Empty: c.text("documents.none"), Heads: c.heads("field.doc_type", "recipient.country")}
	for _, d := range o.Documents {
		p.Documents.Rows = append(p.Documents.Rows, []cell{{Text: c.word("document", d.DocType)}, {Text: d.IssuingCountry}})
	}
	whose := []option{{Value: "", Label: company.Name}}
	for _, owner := range o.Owners {
		name := strings.TrimSpace(owner.FirstName + " " + owner.LastName)
		whose = append(whose, option{Value: owner.ID, Label: name})
		p.Owners = append(p.Owners, ownerShown{
			ID: owner.ID, Name: name, Part: c.number(money.New(money.USD, owner.OwnershipBps).String()) + "\u00a0%", // hundredths of a percent
			State: c.word("kyc.state", owner.KYCStatus), Startable: owner.KYCStatus == "not_started" || owner.KYCStatus == string(kyc.Resubmission),
		})
	}
	var kinds []option
	for _, kind := range append(append([]string{}, companyPapers...), ownerPapers[:2]...) {
		kinds = append(kinds, option{Value: kind, Label: c.word("document", kind)})
	}
	p.Upload = []field{
		c.field(field{Name: "whose", Type: "select", Options: whose}),
		c.field(field{Name: "doc_type", Type: "select", Options: kinds}),
		c.field(field{Name: "issuing_country", Required: true, Most: 2, Hint: c.text("recipient.country.hint"), Value: company.Country}),
	}
	for _, w := range c.problems() {
		if w.Name == "image" {
			p.FileProblem = w.said
		}
	}
	p.Owner = []field{
		c.field(field{Name: "first_name", Required: true, Most: 100}),
		c.field(field{Name: "last_name", Required: true, Most: 100}),
		c.field(field{Name: "date_of_birth", Type: "date", Required: true}),
		c.field(field{Name: "owner_country", Hint: c.text("recipient.country.hint"), Required: true, Most: 2}),
		c.field(field{Name: "ownership_percentage", Required: true, Most: 6}),
		c.field(field{Name: "control", Type: "select", Options: []option{{Value: "", Label: c.text("kyb.no")}, {Value: "yes", Label: c.text("kyb.yes")}}}),
	}
	return view{page: "company", title: c.text("kyb.title"), wide: true, data: p}, nil
}

// tellOfCompany notes what the company says of itself.
func tellOfCompany(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	value := func(name string) string { return strings.TrimSpace(c.form.Get(name)) }
	_, err := c.KYC.Onboard(ctx, tx, c.session.Principal(), "", kyc.CompanyProfile{
		Name: value("name"), Email: value("email"), Website: value("website"), Country: strings.ToUpper(value("country")),
		RegistrationNumber: value("registration_number"), IncorporationDate: value("incorporation_date"), StreetAddress: value("street_address"),
		City: value("city"), State: value("state"), Zip: value("zip"), Description: value("about"),
	})
	return view{redirect: companyPath}, atTop(err)
}

// atTop puts a refusal without a place at the top of its form.
func atTop(err error) error {
	if f, ok := apierr.As(err); ok && len(f.Fields) == 0 && f.Kind != apierr.NotFound && f.Kind != apierr.Unavailable {
		return f.At("body", "")
	}
	return err
}

// addOwner notes somebody who owns or directs the company.
func addOwner(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	value := func(name string) string { return strings.TrimSpace(c.form.Get(name)) }
	o := kyc.Owner{Control: value("control") == "yes", OwnershipBps: -1}
	if part, err := money.Parse(money.USD, value("ownership_percentage")); err == nil { // two decimals, like hundredths of a percent
		o.OwnershipBps = part.Units()
	}
	o.FirstName, o.LastName, o.DateOfBirth, o.Country = value("first_name"), value("last_name"), value("date_of_birth"), strings.ToUpper(value("owner_country"))
	_, err := c.KYC.AddOwner(ctx, tx, c.session.Principal(), "", o)
	if f, ok := apierr.As(err); ok && len(f.Fields) > 0 {
		return view{}, renamed(f, func(pointer string) string {
			if pointer == "/country" {
				return "/owner_country"
			}
			return pointer
		})
	}
	return view{redirect: companyPath}, atTop(err)
}

// handIn keeps a picture of a document of the company, or of one of its owners.
func handIn(ctx context.Context, _ *db.Tx, c *call) (view, error) {
	image, err := c.picture("image")
	if err != nil {
		return view{}, err
	}
	if image == "" {
		return view{}, apierr.New(apierr.Invalid, "no_file", "Choose a picture.").At("body", "/image")
	}
	u := kyc.Upload{
		DocType: c.form.Get("doc_type"), Category: kyc.Front, IssuingCountry: strings.ToUpper(strings.TrimSpace(c.form.Get("issuing_country"))),
		Base64: image,
	}
	whose := c.form.Get("whose")
	by := c.session.Principal()
	picture, err := c.KYC.ReadFor(ctx, c.DB, by, "", whose, u)
	if err == nil {
		err = c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			return c.KYC.StoreFor(ctx, tx, by, "", whose, u, picture)
		})
	}
	if f, ok := apierr.As(err); ok && len(f.Fields) > 0 {
		return view{}, renamed(f, func(pointer string) string {
			if pointer == "/base64_image" {
				return "/image"
			}
			return pointer
		})
	}
	if f, ok := apierr.As(err); ok && (f.Code == kyc.ErrImage.Code || f.Code == kyc.ErrTooLarge.Code) {
		return view{}, f.At("body", "/image")
	}
	return view{redirect: companyPath}, atTop(err)
}

// startVerification has the company verified, or one of its owners.
func startVerification(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	by := c.session.Principal()
	var err error
	if whose := c.form.Get("whose"); whose != "" {
		_, err = c.KYC.InitiateOwner(ctx, tx, by, "", whose)
	} else {
		_, err = c.KYC.InitiateCompany(ctx, tx, by, "")
	}
	if f, ok := apierr.As(err); ok && f.Kind != apierr.NotFound {
		return view{}, (&apierr.Fault{Kind: f.Kind, Code: f.Code, Detail: f.Detail}).At("body", "")
	}
	return view{redirect: companyPath}, err
}
