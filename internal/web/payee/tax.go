package payee

import (
	"cmp"
	"context"
	"strings"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/web/ui"
)

const taxPath = accountPath + "/tax"

// taxPage is the person's tax form, and the form in which they certify another one.
type taxPage struct {
	Facts   [][2]string
	Form    string     // the form being filled in, "" for none
	Fields  []ui.Field // of the form
	Certify string     // what the person certifies
	W9, W8  string     // paths of the forms
	Path    string     // form action
	Back    string     // link to the page before, or ""
}

// newTaxPage returns the page at a path that offers the forms, with the fields of the requested one. name and p are the
// proposed values.
func newTaxPage(c *ui.Request, path, name string, p identity.Profile) taxPage {
	t := taxPage{Path: path, W9: c.URL(path + "?form=" + kyc.FormW9), W8: c.URL(path + "?form=" + kyc.FormW8BEN)}
	if form := cmp.Or(c.Form.Get("form"), c.Query("form")); form == kyc.FormW9 || form == kyc.FormW8BEN {
		t.Form, t.Fields, t.Certify = form, taxFields(c, form, name, p), c.Text("tax.certify."+form)
	}
	return t
}

// showTax renders the person's tax form. ?form= opens a form, prefilled from the profile.
func showTax(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	now, err := c.KYC.TaxFormOf(ctx, tx, self(c), "")
	if err != nil {
		return ui.View{}, err
	}
	status := now.Status(tx.Now())
	u, err := identity.GetUser(ctx, tx, c.Sealer, c.Session.User.ID)
	if err != nil {
		return ui.View{}, err
	}
	p := newTaxPage(c, taxPath, u.Name(), u.Profile)
	view := ui.View{Template: "tax", Title: c.Text("tax.title"), Lead: c.Text("tax.lead"),
		State: c.StateCell("tax.status", status)}
	if status != kyc.FormMissing {
		p.Facts = [][2]string{{c.Text("tax.form"), c.Text("tax.form." + now.Form)}, {c.Text("tax.name"), now.Name},
			{c.Text("bank.tax_id"), cmp.Or(now.Masked(), "–")}, {c.Text("tax.signed"), c.FormatDate(now.SignedAt)}}
		if !now.ExpiresAt.IsZero() {
			p.Facts = append(p.Facts, [2]string{c.Text("tax.last_day"), c.FormatDate(now.ExpiresAt.AddDate(0, 0, -1))})
		}
	}
	view.Data = p
	return view, nil
}

// taxFields are the fields of a tax form, with the values of the profile.
func taxFields(c *ui.Request, form, holder string, u identity.Profile) []ui.Field {
	text := func(name, value string, required bool, limit int) ui.Field {
		return c.Field(ui.Field{Name: name, Value: value, Required: required, MaxLength: limit})
	}
	choices := func(prefix string, values ...string) (all []ui.Option) {
		for _, v := range values {
			all = append(all, ui.Option{Value: v, Label: c.Text(prefix + v)})
		}
		return all
	}
	all := []ui.Field{c.Field(ui.Field{Name: "name", Label: c.Text("tax.name"), Value: holder, Required: true,
		MaxLength: 200, Autocomplete: "name"})}
	number := c.Field(ui.Field{Name: "tax_id", Label: c.Text("bank.tax_id"), Required: form == kyc.FormW9, MaxLength: 64,
		Autocomplete: "off"})
	if form == kyc.FormW9 {
		all = append(all, c.Field(ui.Field{Name: "business_name", MaxLength: 200}),
			c.Field(ui.Field{Name: "classification", Type: "select", Value: "individual",
				Options: choices("tax.classification.", kyc.Classifications...)}),
			c.Field(ui.Field{Name: "tax_id_type", Type: "select", Options: choices("tax.id.", "ssn", "itin", "ein")}), number)
	} else {
		all = append(all, number,
			c.Field(ui.Field{Name: "date_of_birth", Type: "date", Value: u.DateOfBirth, Required: true}))
	}
	all = append(all, text("street_address", strings.TrimSpace(u.StreetAddress+" "+u.StreetAddress2), true, 200),
		text("city", u.City, true, 100), text("state", u.State, false, 100), text("zip", u.Zip, false, 20))
	if form == kyc.FormW8BEN {
		all = append(all, c.CountryField(ui.Field{Name: "country", Required: true, Value: u.Country}))
	}
	return append(all, c.Field(ui.Field{Name: "certified", Type: "select", Required: true, Label: c.Text("tax.certified"),
		Options: []ui.Option{{Label: c.Text("tax.certified.no")}, {Value: "yes", Label: c.Text("tax.certified.yes")}}}))
}

// postedTaxForm returns the posted tax form, and whether the person certified it.
func postedTaxForm(c *ui.Request) (t kyc.TaxForm, certified bool) {
	f := c.Form
	return kyc.TaxForm{Form: f.Get("form"), Name: f.Get("name"),
		BusinessName: f.Get("business_name"), Classification: f.Get("classification"), TaxID: f.Get("tax_id"),
		TaxIDType: f.Get("tax_id_type"), DateOfBirth: f.Get("date_of_birth"), Country: f.Get("country"),
		StreetAddress: f.Get("street_address"), City: f.Get("city"), State: f.Get("state"), Zip: f.Get("zip"),
	}, f.Get("certified") == "yes"
}

// signTax stores the tax form that the person certified.
func signTax(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	form, certified := postedTaxForm(c)
	_, err := c.KYC.SignTaxForm(ctx, tx, self(c), "", form, certified)
	return ui.View{Redirect: taxPath}, ui.FormError(err)
}

// showRequestTax renders a tax form that a payee without an account certifies at a link. What is on file is not shown.
func showRequestTax(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	r, err := destination.FindRequest(ctx, tx, c.HTTP.PathValue("token"))
	if err != nil {
		return ui.View{}, err
	}
	p := newTaxPage(c, requestPath(c)+"/tax", r.Owner.Name, identity.Profile{Country: r.Owner.Country})
	p.Back = requestPath(c)
	return ui.View{Template: "tax", Title: c.Text("tax.title"), Lead: c.Text("tax.lead"), Data: p}, nil
}

// signRequestTax stores the tax form of a payee without an account.
func signRequestTax(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	r, err := destination.FindRequest(ctx, tx, c.HTTP.PathValue("token"))
	if err != nil {
		return ui.View{}, err
	}
	form, certified := postedTaxForm(c)
	_, err = c.KYC.SignTaxFormByLink(ctx, tx, r.Owner.ID, form, certified)
	return ui.View{Redirect: requestPath(c)}, ui.FormError(err)
}
