package company

import (
	"context"
	"slices"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/securitylog"
	"github.com/stipend/stipend/internal/web/ui"
)

const securityPath = "/settings/security"

// showSecurityLog lists who submitted which form for the company, from where, and the outcome.
func showSecurityLog(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	f := securitylog.Filter{Page: c.Page()}
	if category := securitylog.Category(c.Query("area")); slices.Contains(securitylog.Categories, category) {
		f.Category = category
	}
	all, total, err := securitylog.List(ctx, tx, c.Session.Company.ID, f)
	if err != nil {
		return ui.View{}, err
	}
	users := make([]string, len(all))
	for i, e := range all {
		users[i] = e.UserID
	}
	names, err := memberNames(ctx, c, tx, users...)
	if err != nil {
		return ui.View{}, err
	}
	categories := make([]string, len(securitylog.Categories))
	for i, category := range securitylog.Categories {
		categories[i] = string(category)
	}
	t := ui.Table{Caption: c.Text("security.title"), Empty: c.Empty("security.none"), Heads: c.Columns("request.at|d",
		"security.who|a", "security.what|c", "security.from|e", "request.outcome|b")}
	for i, e := range all {
		what := ui.Cell{Text: c.Word("security.category", string(e.Category)), Lines: []ui.Cell{ui.CodeCell(e.Path)}}
		from := ui.Cell{Text: e.Address, Lines: []ui.Cell{{Text: e.Agent}}}
		outcome := ui.Cell{Text: c.Text("request.outcome.succeeded")}
		if e.Outcome != "" {
			outcome = ui.Cell{Text: e.Outcome, Warn: true}
		}
		t.Rows = append(t.Rows, []ui.Cell{c.TimeCell(e.At), {Text: names[i]}, what, from, outcome})
	}
	return ui.View{Template: "security", Title: c.Text("security.title"), Data: struct {
		Filters ui.Filters
		Table   ui.Table
		Pager   ui.Pager
	}{
		c.FilterBar(securityPath,
			c.Filter(ui.Field{Name: "area", Type: "select", Options: c.Choices("security.category", categories...)})),
		t, c.Pager(f.Page, total),
	}}, nil
}
