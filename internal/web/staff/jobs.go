package staff

import (
	"context"

	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/web/ui"
)

// deadJob is a job that failed too often.
type deadJob struct {
	ID, Kind, Error, Attempts string
	Since, Company            ui.Cell
}

// showJobs lists the dead jobs.
func showJobs(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	dead, err := job.ListDead(ctx, tx, backoffice.MostItems)
	if err != nil {
		return ui.View{}, err
	}
	p := struct {
		Jobs  []deadJob
		Empty ui.Empty
	}{Empty: c.EmptyStep("circle-check", "operations.jobs.none", true, "operations.queue.back", ui.StaffPath)}
	for _, j := range dead {
		company, err := companyCell(ctx, tx, c, j.CompanyID)
		if err != nil {
			return ui.View{}, err
		}
		p.Jobs = append(p.Jobs, deadJob{ID: j.ID, Kind: j.Kind, Error: j.LastError,
			Attempts: c.FormatCount(int64(j.Attempt)), Since: c.TimeCell(j.Since), Company: company})
	}
	return ui.View{Template: "operations_jobs", Title: c.Text("operations.jobs"), Lead: c.Text("operations.jobs.lead"),
		Data: p}, nil
}

// retryJob retries a dead job.
func retryJob(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	err := c.Backoffice.RetryJob(ctx, tx, *c.Staff, c.HTTP.PathValue("id"), c.Form.Get("reason"))
	return ui.View{Redirect: ui.StaffJobsPath}, ui.FormConflict(err)
}
