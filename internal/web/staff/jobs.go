package staff

import (
	"context"

	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/web/ui"
)

type jobsPage struct {
	Table ui.Table
	IDs   []string
}

// showJobs lists the dead jobs.
func showJobs(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	dead, err := job.ListDead(ctx, tx, backoffice.MostItems)
	if err != nil {
		return ui.View{}, err
	}
	p := jobsPage{Table: ui.Table{Caption: c.Text("operations.jobs"), Empty: c.Empty("operations.empty"),
		Heads: c.Columns("operations.since|d", "operations.object|a", "operations.company|e",
			"operations.jobs.attempts#|b", "step.why|c")}}
	for _, j := range dead {
		id := ui.CodeCell(j.ID)
		id.Lines = []ui.Cell{ui.CodeCell(j.Kind)}
		p.Table.Rows = append(p.Table.Rows, []ui.Cell{
			c.TimeCell(j.Since), id, ui.CodeCell(j.CompanyID), {Text: c.FormatCount(int64(j.Attempt)), Kind: "number"},
			{Text: j.LastError}})
		p.IDs = append(p.IDs, j.ID)
	}
	return ui.View{Template: "operations_jobs", Title: c.Text("operations.jobs"), Data: p}, nil
}

// retryJob retries a dead job.
func retryJob(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	err := c.Backoffice.RetryJob(ctx, tx, *c.Staff, c.HTTP.PathValue("id"), c.Form.Get("reason"))
	return ui.View{Redirect: ui.StaffJobsPath}, ui.FormConflict(err)
}
