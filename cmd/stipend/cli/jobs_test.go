package cli_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stipend/stipend/cmd/stipend/cli"
	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/testkit"
)

// Dead jobs are listed with their error and retried by a command, which is audited.
func TestParkedJobsAtTheMachine(t *testing.T) {
	dbtest.RunURL(t, func(t *testing.T, url string) {
		d := dbtest.Open(t, db.Options{URL: url})
		testkit.Check(t, d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			return tx.Insert(ctx, "jobs", []string{"company_id", "job_id", "kind", "payload", "run_at", "attempt", "dead_at",
				"last_error"}, [][]any{
				{"com_1", "job_stuck", "mail.send", "{}", int64(1e15), int64(20), int64(1e15), "smtp: 451"},
				{"com_1", "job_other", "kyc.check", "{}", int64(2e15), int64(9), int64(2e15), "no answer"},
				{"com_1", "job_going", "kyc.check", "{}", int64(1e15), int64(2), int64(0), ""},
			})
		}))
		at := app.Storage{DatabaseURL: url}
		lists := func(want string) {
			t.Helper()
			var out bytes.Buffer
			if err := (cli.JobsListCmd{Storage: at, Limit: 10}).Run(t.Context(), cli.Streams{Out: &out}); err != nil ||
				out.String() != want {
				t.Errorf("%q, want %q, %v", out.String(), want, err)
			}
		}
		retries := func(id, want string) {
			t.Helper()
			var out bytes.Buffer
			if err := (cli.JobsRetryCmd{Storage: at, Job: id}).Run(t.Context(),
				cli.Streams{Out: &out}); (err == nil) != (want != "") || out.String() != want {
				t.Errorf("%q, want %q, %v", out.String(), want, err)
			}
		}
		stuck := "2001-09-09T01:46:40Z  job_stuck  mail.send            of com_1, 20 attempts: smtp: 451\n"
		other := "2033-05-18T03:33:20Z  job_other  kyc.check            of com_1, 9 attempts: no answer\n"
		lists(stuck + other)
		retries("job_stuck", "1 jobs are due again.\n")
		retries("job_stuck", "")
		retries("job_going", "")
		lists(other)
		retries("", "1 jobs are due again.\n")
		lists("")
		var acts []string
		if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
			rows, err := tx.Query(ctx, "SELECT action || ' ' || object_id FROM staff_actions ORDER BY sequence")
			acts, err = db.Collect(rows, err, func(r *db.Rows) (act string, err error) { return act, r.Scan(&act) })
			return err
		}); err != nil || strings.Join(acts, ", ") != "jobs.retry job_stuck, jobs.retry " {
			t.Errorf("%q, %v", acts, err)
		}
	})
}
