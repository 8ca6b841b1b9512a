package job

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/db"
)

var jobRows = db.BulkInsert("jobs", "company_id", "job_id", "kind", "payload", "run_at")

func insert(tx *db.Tx, companyID, kind string, payload []byte, at time.Time) {
	jobRows.Add(tx, []any{companyID, tx.NewID("job"), kind, string(payload), db.Micros(at)})
}

// claim leases the jobs that have been due longest, for each kind at most as many as there are free slots. If two
// runners select the same row, the UPDATE of the second finds that the row is no longer due.
func claim(ctx context.Context, tx *db.Tx, kinds []string, room []int) ([]Job, error) {
	args := []any{db.Micros(tx.Now().Add(lease)), db.Micros(tx.Now())}
	var due strings.Builder
	for i, kind := range kinds {
		if i > 0 {
			due.WriteString(" UNION ALL ")
		}
		fmt.Fprintf(&due, `SELECT company_id, job_id FROM (SELECT company_id, job_id FROM jobs
			WHERE dead_at = 0 AND run_at <= $2 AND kind = $%d ORDER BY run_at LIMIT $%d) AS kind%d`, 2*i+3, 2*i+4, i)
		args = append(args, kind, int64(room[i]))
	}
	rows, err := tx.Query(ctx, `UPDATE jobs SET run_at = $1, attempt = attempt + 1
		WHERE dead_at = 0 AND run_at <= $2 AND (company_id, job_id) IN (`+due.String()+`)
		RETURNING company_id, job_id, kind, payload, attempt`, args...)
	return db.Collect(rows, err, func(r *db.Rows) (j Job, err error) {
		var payload string
		err = r.Scan(&j.CompanyID, &j.ID, &j.Kind, &payload, &j.Attempt)
		j.Payload = []byte(payload)
		return j, err
	})
}

// completeAll deletes jobs and returns those whose lease this runner still held. Another runner has taken over the
// rest.
func completeAll(ctx context.Context, tx *db.Tx, jobs []Job) (mine []Job, err error) {
	statements, deleted := make([]db.Statement, len(jobs)), make([]int64, len(jobs))
	for i, j := range jobs {
		statements[i] = db.Statement{
			Query:   "DELETE FROM jobs WHERE company_id = $1 AND job_id = $2 AND attempt = $3",
			Args:    []any{j.CompanyID, j.ID, j.Attempt},
			Changed: &deleted[i],
		}
	}
	if err := tx.Batch(ctx, statements); err != nil {
		return nil, err
	}
	for i, j := range jobs {
		if deleted[i] == 1 {
			mine = append(mine, j)
		}
	}
	return mine, nil
}

func postpone(ctx context.Context, tx *db.Tx, j Job, to time.Time, dead bool, lastError string) error {
	if len(lastError) > 2000 {
		lastError = strings.ToValidUTF8(lastError[:2000], "")
	}
	var deadAt int64
	if dead {
		deadAt = db.Micros(tx.Now())
	}
	_, err := tx.Exec(ctx, `UPDATE jobs SET run_at = $1, dead_at = $2, last_error = $3
		WHERE company_id = $4 AND job_id = $5 AND attempt = $6`,
		db.Micros(to), deadAt, lastError, j.CompanyID, j.ID, j.Attempt)
	return err
}

// Count returns the number of unfinished jobs that are not dead, and the number of dead jobs.
func Count(ctx context.Context, tx *db.Tx) (pending, dead int64, err error) {
	err = tx.QueryRow(ctx, `SELECT COALESCE(SUM(CASE WHEN dead_at = 0 THEN 1 ELSE 0 END), 0),
		COALESCE(SUM(CASE WHEN dead_at <> 0 THEN 1 ELSE 0 END), 0) FROM jobs`).Scan(&pending, &dead)
	return pending, dead, err
}

func waits(ctx context.Context, tx *db.Tx, companyID, kind string, payload []byte) (found bool, err error) {
	err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM jobs WHERE company_id = $1 AND kind = $2 AND payload = $3
		AND dead_at = 0)`, companyID, kind, string(payload)).Scan(&found)
	return found, err
}

// Backlog describes the unfinished jobs of a kind.
type Backlog struct {
	Kind          string
	Waiting, Dead int64
	Due           time.Time // when the oldest job that is not dead was or will be due; zero if there is none
}

// Backlogs returns the backlog of each kind that has jobs.
func Backlogs(ctx context.Context, tx *db.Tx) ([]Backlog, error) {
	rows, err := tx.Query(ctx, `SELECT kind, SUM(CASE WHEN dead_at = 0 THEN 1 ELSE 0 END),
		SUM(CASE WHEN dead_at <> 0 THEN 1 ELSE 0 END), COALESCE(MIN(CASE WHEN dead_at = 0 THEN run_at END), 0)
		FROM jobs GROUP BY kind ORDER BY kind`)
	return db.Collect(rows, err, func(r *db.Rows) (b Backlog, err error) {
		var due int64
		err = r.Scan(&b.Kind, &b.Waiting, &b.Dead, &due)
		if due > 0 {
			b.Due = db.Time(due)
		}
		return b, err
	})
}

// Dead is a job that failed too often. It runs again only if staff retry it.
type Dead struct {
	Job
	LastError string
	Since     time.Time
}

// ListDead lists dead jobs, the oldest first.
func ListDead(ctx context.Context, tx *db.Tx, limit int) ([]Dead, error) {
	rows, err := tx.Query(ctx, `SELECT company_id, job_id, kind, attempt, last_error, dead_at FROM jobs WHERE dead_at <> 0
		ORDER BY dead_at, job_id LIMIT $1`, int64(limit))
	return db.Collect(rows, err, func(r *db.Rows) (d Dead, err error) {
		var since int64
		err = r.Scan(&d.CompanyID, &d.ID, &d.Kind, &d.Attempt, &d.LastError, &since)
		d.Since = db.Time(since)
		return d, err
	})
}

// Retry makes a dead job due again as if it were new, or all dead jobs if id is empty. It returns the number of jobs
// changed.
func Retry(ctx context.Context, tx *db.Tx, id string) (int64, error) {
	tx.Notify(due)
	return tx.Exec(ctx, `UPDATE jobs SET dead_at = 0, attempt = 0, run_at = $1
		WHERE dead_at <> 0 AND ($2 = '' OR job_id = $2)`, db.Micros(tx.Now()), id)
}

func takeLease(ctx context.Context, tx *db.Tx, name, holder string, length time.Duration) (bool, error) {
	n, err := tx.Exec(ctx, `INSERT INTO leases (name, holder, until) VALUES ($1, $2, $3)
		ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
		WHERE leases.holder = excluded.holder OR leases.until < $4`,
		name, holder, db.Micros(tx.Now().Add(length)), db.Micros(tx.Now()))
	return n == 1, err
}

func dropLease(ctx context.Context, tx *db.Tx, name, holder string) error {
	_, err := tx.Exec(ctx, `DELETE FROM leases WHERE name = $1 AND holder = $2`, name, holder)
	return err
}
