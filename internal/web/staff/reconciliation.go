package staff

import (
	"context"

	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/web/ui"
)

// showReconciliation renders the results of the latest reconciliations.
func showReconciliation(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	all, err := backoffice.Reports(ctx, tx, ui.PerPage)
	if err != nil {
		return ui.View{}, err
	}
	p := struct{ Differences, Reports, Rest ui.Table }{
		Differences: ui.Table{Caption: c.Text("reconciliation.differences"), Empty: c.Empty("reconciliation.clean"),
			Heads: c.Columns("step.what|a", "operations.object|e", "reconciliation.books|l", "reconciliation.world|l")},
		Reports: ui.Table{Caption: c.Text("reconciliation.reports"), Empty: c.Empty("operations.empty"),
			Heads: c.Columns("step.at|a", "reconciliation.height#|l", "reconciliation.coins#|l", "reconciliation.total#|l",
				"reconciliation.count#|l")},
		Rest: ui.Table{Caption: c.Text("reconciliation.rest"), Empty: c.Empty("operations.empty"),
			Heads: c.Columns("operations.object|e")},
	}
	for i, r := range all {
		p.Reports.Rows = append(p.Reports.Rows, []ui.Cell{
			c.TimeCell(r.At), {Text: c.FormatCount(r.Height), Kind: "number"}, {Text: c.FormatCount(r.Coins), Kind: "number"},
			{Text: r.Total, Kind: "number"},
			{Text: c.FormatCount(int64(len(r.Differences))), Kind: "number", Warn: !r.Clean()}})
		if i > 0 {
			continue
		}
		for _, d := range r.Differences {
			p.Differences.Rows = append(p.Differences.Rows,
				[]ui.Cell{{Text: c.Word("reconciliation", d.Kind), Warn: true}, ui.CodeCell(d.Object), {Text: d.Ledger},
					{Text: d.Actual}})
		}
		for _, text := range r.NotCompared {
			p.Rest.Rows = append(p.Rest.Rows, []ui.Cell{{Text: text}})
		}
	}
	if len(all) == 0 {
		p.Differences.Empty = c.Empty("reconciliation.never")
	}
	return ui.View{Template: "reconciliation", Title: c.Text("reconciliation.title"), Data: p}, nil
}
