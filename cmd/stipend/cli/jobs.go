package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
)

// JobsCmd groups the commands for dead jobs.
type JobsCmd struct {
	List  JobsListCmd  `cmd:"" help:"List dead jobs: they failed too often and run again only on request."`
	Retry JobsRetryCmd `cmd:"" help:"Retry dead jobs."`
}

// JobsListCmd lists dead jobs.
type JobsListCmd struct {
	app.Storage
	Limit int `default:"100" help:"Maximum number of jobs (${default})."`
}

// Run prints the jobs.
func (c JobsListCmd) Run(ctx context.Context, std Streams) error {
	return readDB(ctx, c.Storage, func(ctx context.Context, tx *db.Tx) error {
		dead, err := job.ListDead(ctx, tx, c.Limit)
		for _, p := range dead {
			fmt.Fprintf(std.Out, "%s  %s  %-20s of %s, %d attempts: %s\n",
				p.Since.UTC().Format(time.RFC3339), p.ID, p.Kind, p.CompanyID, p.Attempt, p.LastError)
		}
		return err
	})
}

// JobsRetryCmd retries dead jobs.
type JobsRetryCmd struct {
	app.Storage
	Job string `arg:"" optional:"" help:"The job: job_…. Default: all dead jobs."`
}

// Run makes the jobs due now.
func (c JobsRetryCmd) Run(ctx context.Context, std Streams) error {
	return writeDB(ctx, c.Storage, std, func(ctx context.Context, tx *db.Tx) (string, error) {
		n, err := job.Retry(ctx, tx, c.Job)
		switch {
		case err != nil:
			return "", err
		case n > 0:
			err = backoffice.RecordCommand(ctx, tx, backoffice.RetryJob, c.Job, "stipend jobs retry")
		case c.Job != "":
			err = errors.New("there is no such dead job")
		}
		return fmt.Sprintf("%d jobs are due again.", n), err
	})
}
