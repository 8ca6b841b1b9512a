package staff

import (
	"cmp"
	"context"
	"errors"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/web/ui"
)

const auditPath = ui.StaffPath + "/acts"

// companyName returns the name of a company, or "" if there is no such company.
func companyName(ctx context.Context, tx *db.Tx, id string) (string, error) {
	company, err := identity.CompanyByID(ctx, tx, id)
	if errors.Is(err, apierr.NotFoundErr) {
		return "", nil
	}
	return company.Name, err
}

// companyCell returns a link to a company, by its name, above its ID. It is empty without an ID.
func companyCell(ctx context.Context, tx *db.Tx, c *ui.Request, id string) (ui.Cell, error) {
	if id == "" {
		return ui.Cell{}, nil
	}
	name, err := companyName(ctx, tx, id)
	cell := c.LinkCell(cmp.Or(name, id), companiesPath+"/"+id)
	if name != "" {
		cell.Lines = []ui.Cell{ui.CodeCell(id)}
	}
	return cell, err
}

// showAuditLog lists the actions of staff.
func showAuditLog(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	f := backoffice.AuditFilter{Text: c.Query("q"), Action: c.Query("action"), From: c.QueryDate("since"),
		To: c.QueryDate("until"), Page: c.Page()}
	if !f.To.IsZero() {
		f.To = f.To.AddDate(0, 0, 1) // include the whole day
	}
	all, total, err := backoffice.AuditLog(ctx, tx, f)
	if err != nil {
		return ui.View{}, err
	}
	actions, err := backoffice.AuditActions(ctx, tx)
	if err != nil {
		return ui.View{}, err
	}
	t := ui.Table{Caption: c.Text("operations.acts"),
		Heads: c.Columns("step.at|b", "operations.who|c", "security.what|a", "operations.object|e", "step.why|e")}
	for _, a := range all {
		who := ui.Cell{Text: cmp.Or(a.Name, c.Text("operations.machine"))}
		object := ui.CodeCell(a.ObjectID)
		if a.CompanyID != "" {
			name, err := companyName(ctx, tx, a.CompanyID)
			if err != nil {
				return ui.View{}, err
			}
			if name != "" {
				object.Lines = append(object.Lines, c.LinkCell(name, companiesPath+"/"+a.CompanyID))
			}
			if a.CompanyID != a.ObjectID {
				object.Lines = append(object.Lines, ui.CodeCell(a.CompanyID))
			}
		}
		why := ui.Cell{Text: a.Reason}
		if a.Code != "" {
			why.Lines = []ui.Cell{c.StateCell("operations.code", a.Code)}
		}
		t.Rows = append(t.Rows, []ui.Cell{c.TimeCell(a.At), who, {Text: c.Word("operations.act", a.Action),
			Kind: "strong"}, object, why})
	}
	filters := c.FilterBar(auditPath, search(c, "operations.acts.text"),
		c.Filter(ui.Field{Name: "action", Label: c.Text("security.what"), Type: "select",
			Options: c.Choices("operations.act", actions...)}),
		c.Filter(ui.Field{Name: "since", Type: "date"}),
		c.Filter(ui.Field{Name: "until", Type: "date"}))
	t.Empty = c.EmptyList(filters, c.Empty("operations.empty"))
	return ui.View{Template: "operations_list", Title: c.Text("operations.acts"), Lead: c.Text("operations.acts.lead"),
		Data: listPage{Filters: filters, Table: t, Pager: c.Pager(f.Page, total)}}, nil
}
