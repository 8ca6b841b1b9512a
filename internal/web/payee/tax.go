package payee

import (
	"cmp"
	"context"
	"strings"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/kyc"
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
}

// showTax renders the person's tax form. ?form= opens a form, prefilled from the profile.
func showTax(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	now, err := c.KYC.TaxFormOf(ctx, tx, self(c), "")
	if err != nil {
		return ui.View{}, err
	}
	status := now.Status(tx.Now())
	p := taxPage{W9: c.URL(taxPath + "?form=" + kyc.FormW9), W8: c.URL(taxPath + "?form=" + kyc.FormW8BEN)}
	view := ui.View{Template: "tax", Title: c.Text("tax.title"), Lead: c.Text("tax.lead"),
		State: c.StateCell("tax.status", status)}
	if status != kyc.FormMissing {
		p.Facts = [][2]string{{c.Text("tax.form"), c.Text("tax.form." + now.Form)}, {c.Text("tax.name"), now.Name},
			{c.Text("bank.tax_id"), cmp.Or(now.Masked(), "–")}, {c.Text("tax.signed"), c.FormatDate(now.SignedAt)}}
		if !now.ExpiresAt.IsZero() {
			p.Facts = append(p.Facts, [2]string{c.Text("tax.last_day"), c.FormatDate(now.ExpiresAt.AddDate(0, 0, -1))})
		}
	}
	p.Form = cmp.Or(c.Form.Get("form"), c.Query("form"))
	if p.Form != kyc.FormW9 && p.Form != kyc.FormW8BEN {
		p.Form = ""
	}
	if p.Form != "" {
		u, err := identity.GetUser(ctx, tx, c.Sealer, c.Session.User.ID)
		if err != nil {
			return ui.View{}, err
		}
		p.Fields, p.Certify = taxFields(c, p.Form, u), c.Text("tax.certify."+p.Form)
	}
	view.Data = p
	return view, nil
}

// taxFields are the fields of a tax form, with the values of the profile.
func taxFields(c *ui.Request, form string, u identity.User) []ui.Field {
	text := func(name, value string, required bool, limit int) ui.Field {
		return c.Field(ui.Field{Name: name, Value: value, Required: required, MaxLength: limit})
	}
	choices := func(prefix string, values ...string) (all []ui.Option) {
		for _, v := range values {
			all = append(all, ui.Option{Value: v, Label: c.Text(prefix + v)})
		}
		return all
	}
	all := []ui.Field{c.Field(ui.Field{Name: "name", Label: c.Text("tax.name"), Value: u.Name(), Required: true,
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

// signTax stores the tax form that the person certified.
func signTax(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	f := c.Form
	_, err := c.KYC.SignTaxForm(ctx, tx, self(c), "", kyc.TaxForm{Form: f.Get("form"), Name: f.Get("name"),
		BusinessName: f.Get("business_name"), Classification: f.Get("classification"), TaxID: f.Get("tax_id"),
		TaxIDType: f.Get("tax_id_type"), DateOfBirth: f.Get("date_of_birth"), Country: f.Get("country"),
		StreetAddress: f.Get("street_address"), City: f.Get("city"), State: f.Get("state"), Zip: f.Get("zip"),
	}, f.Get("certified") == "yes")
	return ui.View{Redirect: taxPath}, ui.FormError(err)
}
