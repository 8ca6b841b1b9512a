package company

import (
	"context"
	"strings"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/web/ui"
)

type editRecipientPage struct {
	Path   string
	Theirs bool // the person has an account, so name, email address and country are theirs to change
	Fields []ui.Field
}

// showEditRecipient renders the form that changes a recipient.
func showEditRecipient(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	r, err := payee.Get(ctx, tx, c.Session.Principal(), "", c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	p := editRecipientPage{Path: recipientPath(r.ID) + "/edit", Theirs: r.UserID != ""}
	roles := recipientRoles
	if p.Theirs {
		roles = []string{payee.Contractor, payee.Employee}
	} else {
		name := []ui.Field{{Name: "first_name", MaxLength: 100, Value: r.FirstName},
			{Name: "last_name", MaxLength: 100, Value: r.LastName}}
		if r.Type == payee.TypeCompany {
			name = []ui.Field{{Name: "firm", MaxLength: 200, Value: r.Name}}
		}
		for _, f := range name {
			p.Fields = append(p.Fields, c.Field(f))
		}
		p.Fields = append(p.Fields,
			c.CountryField(ui.Field{Name: "country", Label: c.Text("recipient.country"), Required: true, Value: r.Country}),
			c.Field(ui.Field{Name: "email", Type: "email", Label: c.Text("recipient.email"), MaxLength: 254, Value: r.Email}))
	}
	role := ui.Field{Name: "role", Type: "select", Value: r.Role}
	for _, one := range roles {
		role.Options = append(role.Options, ui.Option{Value: one, Label: c.RoleName(one)})
	}
	p.Fields = append(p.Fields, c.Field(role),
		c.Field(ui.Field{Name: "department", MaxLength: 100, Value: r.Department}),
		c.Field(ui.Field{Name: "external_id", MaxLength: 255, Value: r.ExternalID}))
	return ui.View{Template: "recipient_edit", Title: c.Text("recipient.edit.title", r.Name),
		Crumbs: append(peopleCrumbs(c), c.LinkCell(r.Name, recipientPath(r.ID))), Data: p}, nil
}

// editRecipient changes the posted fields of a recipient.
func editRecipient(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	id := c.HTTP.PathValue("id")
	value := func(name string) *string {
		if !c.Form.Has(name) {
			return nil
		}
		text := strings.TrimSpace(c.Form.Get(name))
		return &text
	}
	changes := payee.Changes{Role: value("role"), Department: value("department"), ExternalID: value("external_id"),
		FirstName: value("first_name"), LastName: value("last_name"), Name: value("firm"), Email: value("email"),
		Country: value("country")}
	if changes.Country != nil {
		code := strings.ToUpper(*changes.Country)
		changes.Country = &code
	}
	_, err := payee.Update(ctx, tx, c.Sealer, c.Session.Principal(), "", id, changes)
	return ui.View{Redirect: recipientPath(id)}, ui.RenameField(err, "/name", "/firm")
}
