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
	p := struct {
		Differences, Reports, Rest ui.Table
		Found                      string // how many differences the latest run found; "" for none
		Latest                     ui.Cell
	}{
		Differences: ui.Table{Caption: c.Text("reconciliation.differences"), Empty: c.Empty("reconciliation.clean"),
			Heads: c.Columns("step.what|a", "operations.object|e", "reconciliation.books|l", "reconciliation.world|l")},
		Reports: ui.Table{Caption: c.Text("reconciliation.reports"), Empty: c.Empty("operations.empty"),
			Heads: c.Columns("step.at|a", "reconciliation.height#|l", "reconciliation.coins#|l", "reconciliation.total#|l",
				"reconciliation.count|c")},
		Rest: ui.Table{Caption: c.Text("reconciliation.rest"), Empty: c.Empty("operations.empty"),
			Heads: c.Columns("operations.object|e")},
	}
	for i, r := range all {
		p.Reports.Rows = append(p.Reports.Rows, []ui.Cell{
			c.TimeCell(r.At), {Text: c.FormatCount(r.Height), Kind: "number"}, {Text: c.FormatCount(r.Coins), Kind: "number"},
			{Text: r.Total, Kind: "number"},
			found(c, r)})
		if i > 0 {
			continue
		}
		p.Latest = c.TimeCell(r.At)
		if !r.Clean() {
			p.Found = found(c, r).Text
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
	return ui.View{Template: "reconciliation", Title: c.Text("reconciliation.title"),
		Lead: c.Text("reconciliation.lead"), Data: p}, nil
}

// found returns a badge with the number of differences that a run found.
func found(c *ui.Request, r backoffice.Report) ui.Cell {
	if r.Clean() {
		return ui.Cell{Text: c.Text("reconciliation.clean"), Tone: "green", Icon: "check"}
	}
	n := int64(len(r.Differences))
	return ui.Cell{Text: c.Plural("reconciliation.found", n, c.FormatCount(n)), Tone: "red",
		Icon: "triangle-alert"}
}
