package staff

import (
	"cmp"
	"context"

	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/web/ui"
)

// showAuditLog lists the actions of staff.
func showAuditLog(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	all, total, err := backoffice.AuditLog(ctx, tx, c.PageNumber(), ui.PerPage)
	if err != nil {
		return ui.View{}, err
	}
	t := ui.Table{Caption: c.Text("operations.acts"), Empty: c.Text("operations.empty"),
		Heads: c.Columns("step.at", "operations.who", "step.what", "operations.object", "step.why")}
	for _, a := range all {
		who := ui.Cell{Text: cmp.Or(a.Name, c.Text("operations.machine"))}
		object := ui.CodeCell(a.ObjectID)
		if a.CompanyID != "" {
			object.Lines = []ui.Cell{ui.CodeCell(a.CompanyID)}
		}
		why := ui.Cell{Text: a.Reason}
		if a.Code != "" {
			why.Lines = []ui.Cell{{Text: c.Word("operations.code", a.Code)}}
		}
		t.Rows = append(t.Rows, []ui.Cell{c.TimeCell(a.At), who, {Text: c.Word("operations.act", a.Action)}, object, why})
	}
	return ui.View{Template: "operations_acts", Title: c.Text("operations.acts"), Data: struct {
		Table ui.Table
		Pager ui.Pager
	}{t, c.Pager(c.Page(), total)}}, nil
}
