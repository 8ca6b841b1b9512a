package web

import (
	"context"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/invoice/payer"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
)

const personPath = "/account/verification"

type personPage struct {
	State, Means     string
	Reasons, Missing []string
	Documents        table
	Papers, Face     []field // what a picture is of; the face has a camera of its own
	Number           []field // of a tax id
	FileProblem      said
	FaceProblem      said
	Profile, Payer   []field // asked for while they are missing
	Startable        bool
}

// alone is the reader as themselves, whomever they act for at other pages.
func (c *call) alone() identity.Principal {
	by := c.session.Principal()
	by.CompanyID = ""
	return by
}

// showPerson is how far the verification of the reader is, what they have handed in, and what is missing.
func showPerson(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	at, err := c.KYC.StandingOf(ctx, tx, c.alone(), "")
	if err != nil {
		return view{}, err
	}
	p := personPage{State: c.word("kyc.state", at.State.Public()), Means: c.text("kyc.means." + at.State.Public())}
	for _, r := range at.Reasons {
		p.Reasons = append(p.Reasons, c.reason(r))
	}
	p.Documents = table{Caption: c.text("documents.title"), Empty: c.text("documents.none"), Heads: c.heads("field.doc_type", "recipient.country")}
	for _, d := range at.Documents {
		p.Documents.Rows = append(p.Documents.Rows, []cell{{Text: c.word("paper", d.DocType)}, {Text: d.IssuingCountry}})
	}
	if !at.Open() {
		return view{page: "person", title: c.text("kyc.title"), wide: true, data: p}, nil
	}
	for _, m := range at.Missing {
		p.Missing = append(p.Missing, c.lack(m))
	}
	p.Startable = len(at.Missing) == 0
	home := at.User.Country
	if slices.ContainsFunc(at.Missing, func(m string) bool { return slices.Contains(profileNames, m) }) {
		p.Profile = c.profileFields(at.User.Profile)
	}
	if slices.Contains(at.Missing, "payer") {
		p.Payer = []field{
			c.field(field{Name: "payer_name", Required: true, Most: 200}),
			c.field(field{Name: "company_type", Type: "select", Options: []option{{Value: payer.Employer, Label: c.text("payer.employer")}, {Value: payer.Client, Label: c.text("payer.client")}}}),
			c.field(field{Name: "payroll_invoice_currency", Type: "select", Options: []option{{Value: string(money.USD), Label: "USD"}, {Value: string(money.EUR), Label: "EUR"}}}),
		}
	}
	var papers, numbers []option
	for _, n := range at.Needs {
		switch n.DocType {
		case kyc.Selfie:
			p.Face = []field{c.field(field{Name: "issuing_country", Label: c.text("recipient.country"), Type: "hidden", Value: home})}
		case kyc.TaxID:
			for _, kind := range n.TaxIDTypes {
				numbers = append(numbers, option{Value: kind, Label: strings.ToUpper(kind)})
			}
		default:
			papers = append(papers, option{Value: n.DocType, Label: c.word("paper", n.DocType)})
		}
	}
	if len(papers) > 0 {
		p.Papers = []field{
			c.field(field{Name: "doc_type", Type: "select", Options: papers}),
			c.field(field{Name: "category", Type: "select", Options: []option{{Value: kyc.Front, Label: c.text("paper.front")}, {Value: kyc.Back, Label: c.text("paper.back")}}}),
			c.field(field{Name: "issuing_country", Required: true, Most: 2, Hint: c.text("recipient.country.hint"), Value: home}),
		}
	}
	if len(numbers) > 0 {
		p.Number = []field{
			c.field(field{Name: "tax_id_type", Type: "select", Options: numbers}),
			c.field(field{Name: "tax_id", Label: c.text("bank.tax_id"), Required: true, Most: 64, Autocomplete: "off"}),
		}
	}
	for _, w := range c.problems() {
		switch w.Name {
		case "image":
			p.FileProblem = w.said
		case "face":
			p.FaceProblem = w.said
		}
	}
	return view{page: "person", title: c.text("kyc.title"), wide: true, data: p}, nil
}

// profileNames are the members of a profile that a verification may lack.
var profileNames = []string{"first_name", "last_name", "date_of_birth", "country", "street_address", "city"}

// tellOfOneself notes who the reader is.
func tellOfOneself(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	value := func(name string) *string {
		text := strings.TrimSpace(c.form.Get(name))
		return &text
	}
	_, err := payee.UpdateUser(ctx, tx, c.Sealer, c.alone(), "", identity.ProfileChanges{
		FirstName: value("first_name"), LastName: value("last_name"), DateOfBirth: value("date_of_birth"), Country: value("country"),
		StreetAddress: value("street_address"), StreetAddress2: value("street_address_2"), City: value("city"), State: value("state"), Zip: value("zip"),
	})
	return view{redirect: personPath}, atTop(err)
}

// tellOfPayer notes who pays the reader, in which currency: that decides what must be handed in.
func tellOfPayer(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	name, kind, currency := c.form.Get("payer_name"), c.form.Get("company_type"), c.form.Get("payroll_invoice_currency")
	_, err := payer.Create(ctx, tx, c.Sealer, c.alone(), "", payer.Changes{Name: &name, Type: &kind, Currency: &currency})
	if f, ok := apierr.As(err); ok && len(f.Fields) > 0 {
		return view{}, renamed(f, func(pointer string) string {
			if pointer == "/name" {
				return "/payer_name"
			}
			return pointer
		})
	}
	return view{redirect: personPath}, atTop(err)
}

// reason says why something was not accepted. What nobody has put into words for people is not theirs to read: who screens must
// not warn.
func (c *call) reason(code string) string {
	if key := "kyc.reason." + code; c.has(key) {
		return c.text(key)
	}
	return c.text("kyc.reason.other")
}

// lack says what a verification still needs. One side of a document that is there is named with it.
func (c *call) lack(name string) string {
	if c.has("kyc.missing." + name) {
		return c.text("kyc.missing." + name)
	}
	for _, side := range []string{kyc.Front, kyc.Back} {
		if paper, ok := strings.CutSuffix(name, "_"+side); ok {
			return c.text("kyc.missing.side", c.word("paper", paper), c.text("paper."+side))
		}
	}
	return c.word("paper", name)
}

// handInOwn keeps a picture of a document of the reader, or of their face, or their tax id.
func handInOwn(ctx context.Context, _ *db.Tx, c *call) (view, error) {
	input := "image"
	u := kyc.Upload{DocType: c.form.Get("doc_type"), Category: c.form.Get("category"), IssuingCountry: strings.ToUpper(strings.TrimSpace(c.form.Get("issuing_country")))}
	switch u.DocType {
	case kyc.TaxID:
		u.TaxID, u.TaxIDType = strings.TrimSpace(c.form.Get("tax_id")), c.form.Get("tax_id_type")
	case kyc.Selfie:
		input = "face"
		fallthrough
	default:
		image, err := c.picture(input)
		if err != nil {
			return view{}, err
		}
		if image == "" {
			return view{}, apierr.New(apierr.Invalid, "no_file", "Choose a picture.").At("body", "/"+input)
		}
		u.Base64 = image
	}
	by := c.alone()
	picture, err := c.KYC.Read(ctx, c.DB, by, "", u)
	if err == nil {
		err = c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return c.KYC.Store(ctx, tx, by, "", u, picture) })
	}
	if f, ok := apierr.As(err); ok && len(f.Fields) > 0 {
		return view{}, renamed(f, func(pointer string) string {
			if pointer == "/base64_image" {
				return "/" + input
			}
			return pointer
		})
	}
	if f, ok := apierr.As(err); ok && slices.Contains([]string{kyc.ErrImage.Code, kyc.ErrTooLarge.Code}, f.Code) {
		return view{}, f.At("body", "/"+input)
	}
	return view{redirect: personPath}, atTop(err)
}

// startOwn has the reader verified.
func startOwn(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	_, err := c.KYC.Initiate(ctx, tx, c.alone(), "")
	if f, ok := apierr.As(err); ok && f.Kind != apierr.NotFound {
		return view{}, (&apierr.Fault{Kind: f.Kind, Code: f.Code, Detail: f.Detail}).At("body", "")
	}
	return view{redirect: personPath}, err
}
