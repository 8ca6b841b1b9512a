package job

import (
	"context"
	"time"

	"github.com/stipend/stipend/internal/db"
)

var jobRows = db.InsertGroup(100, "jobs", "company_id", "job_id", "kind", "payload", "run_at")

func insert(tx *db.Tx, companyID, kind string, payload []byte, at time.Time) {
	tx.Defer(jobRows, []any{companyID, tx.NewID("job"), kind, string(payload), db.Micros(at)})
}

// takeNew takes those jobs that are to be run at once, and that taken wants, out of what the transaction has asked for since mark.
func takeNew(tx *db.Tx, mark int, taken func(Job) bool) {
	for _, item := range tx.Take(jobRows, mark) {
		row := item.([]any)
		j := Job{CompanyID: row[0].(string), ID: row[1].(string), Kind: row[2].(string), Payload: []byte(row[3].(string)), Attempt: 1}
		if row[4].(int64) > db.Micros(tx.Now()) || !taken(j) {
			tx.Defer(jobRows, row)
		}
	}
}

// claim leases due jobs. Two runners that pick the same row meet in the UPDATE: the second finds run_at moved.
func claim(ctx context.Context, tx *db.Tx, kinds []string) ([]Job, error) {
	args := []any{db.Micros(tx.Now().Add(lease)), db.Micros(tx.Now()), claimSize}
	for _, k := range kinds {
		args = append(args, k)
	}
	rows, err := tx.Query(ctx, `UPDATE jobs SET run_at = $1, attempt = attempt + 1
		WHERE parked = FALSE AND run_at <= $2 AND (company_id, job_id) IN (
			SELECT company_id, job_id FROM jobs WHERE parked = FALSE AND run_at <= $2 AND kind IN `+
		db.Placeholders(1, len(kinds), 4)+` ORDER BY run_at LIMIT $3)
		RETURNING company_id, job_id, kind, payload, attempt`, args...)
	return db.Collect(rows, err, func(r *db.Rows) (j Job, err error) {
		var payload string
		err = r.Scan(&j.CompanyID, &j.ID, &j.Kind, &payload, &j.Attempt)
		j.Payload = []byte(payload)
		return j, err
	})
}

const completion = "DELETE FROM jobs WHERE company_id = $1 AND job_id = $2 AND attempt = $3"

func complete(ctx context.Context, tx *db.Tx, j Job) (mine bool, err error) {
	n, err := tx.Exec(ctx, completion, j.CompanyID, j.ID, j.Attempt)
	return n == 1, err
}

// completeAll is complete for many jobs: it says by their ids which of them were this runner's.
func completeAll(ctx context.Context, tx *db.Tx, jobs []Job) (map[string]bool, error) {
	all := make([]*db.Statement, len(jobs))
	for i, j := range jobs {
		all[i] = &db.Statement{Query: completion, Args: []any{j.CompanyID, j.ID, j.Attempt}}
	}
	err := tx.ExecAll(ctx, all)
	mine := make(map[string]bool, len(jobs))
	for i, j := range jobs {
		mine[j.ID] = all[i].Changed == 1
	}
	return mine, err
}

func postpone(ctx context.Context, tx *db.Tx, j Job, to time.Time, park bool, why string) error {
	if len(why) > 2000 {
		why = why[:2000]
	}
	_, err := tx.Exec(ctx, `UPDATE jobs SET run_at = $1, parked = $2, last_error = $3
		WHERE company_id = $4 AND job_id = $5 AND attempt = $6`, db.Micros(to), park, why, j.CompanyID, j.ID, j.Attempt)
	return err
}

// Waiting counts the jobs that are not done and those parked for a person.
func Waiting(ctx context.Context, tx *db.Tx) (due, parked int64, err error) {
	err = tx.QueryRow(ctx, `SELECT COALESCE(SUM(CASE WHEN parked = FALSE THEN 1 ELSE 0 END), 0),
		COALESCE(SUM(CASE WHEN parked = TRUE THEN 1 ELSE 0 END), 0) FROM jobs`).Scan(&due, &parked)
	return due, parked, err
}

// Parked is a job that waits for a person.
type Parked struct {
	Job
	Why   string    // its last error
	Since time.Time // about
}

// ListParked lists the jobs that are parked, the oldest first.
func ListParked(ctx context.Context, tx *db.Tx, limit int) ([]Parked, error) {
	rows, err := tx.Query(ctx, "SELECT company_id, job_id, kind, attempt, last_error, run_at FROM jobs WHERE parked = TRUE ORDER BY run_at, job_id LIMIT $1", int64(limit))
	return db.Collect(rows, err, func(r *db.Rows) (p Parked, err error) {
		var since int64
		err = r.Scan(&p.CompanyID, &p.ID, &p.Kind, &p.Attempt, &p.Why, &since)
		p.Since = db.Time(since)
		return p, err
	})
}

// Retry has a parked job run again as if it were new, or all of them with "". It says how many.
func Retry(ctx context.Context, tx *db.Tx, id string) (int64, error) {
	tx.Notify(due)
	return tx.Exec(ctx, "UPDATE jobs SET parked = FALSE, attempt = 0, run_at = $1 WHERE parked = TRUE AND ($2 = '' OR job_id = $2)", db.Micros(tx.Now()), id)
}

func takeLease(ctx context.Context, tx *db.Tx, name, holder string, forHow time.Duration) (bool, error) {
	n, err := tx.Exec(ctx, `INSERT INTO leases (name, holder, until) VALUES ($1, $2, $3)
		ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
		WHERE leases.holder = excluded.holder OR leases.until < $4`,
		name, holder, db.Micros(tx.Now().Add(forHow)), db.Micros(tx.Now()))
	return n == 1, err
}
