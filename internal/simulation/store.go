package simulation

import (
	"context"
	"math"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/webhook"
)

// agenda contains the times at which the service has work, so that its processes need not poll the database.
type agenda struct {
	d    *db.DB
	seen int // World.commits when the times were read
	jobs time.Time
	hook time.Time
}

// never is later than any time of a run.
var never = time.UnixMicro(math.MaxInt64 / 2)

// read reads the times of the next job and the next delivery, unless nothing was committed since the last read.
func (a *agenda) read(commits int) {
	if a.seen == commits {
		return
	}
	a.seen = commits
	if err := a.d.Read(context.Background(), func(ctx context.Context, tx *db.Tx) error {
		waiting, err := webhook.Waiting(ctx, tx)
		if err != nil {
			return err
		}
		const next = `SELECT COALESCE((SELECT MIN(run_at) FROM jobs WHERE dead_at = 0), 0), COALESCE((SELECT
			MIN(MAX(next_run_at, leased_until)) FROM webhook_endpoints WHERE next_run_at > 0 AND status = 'enabled'), 0)`
		var job, hook int64
		if err := tx.QueryRow(ctx, next).Scan(&job, &hook); err != nil {
			return err
		}
		a.jobs, a.hook = never, never
		if job > 0 {
			a.jobs = db.Time(job)
		}
		if hook > 0 {
			a.hook = db.Time(hook)
		}
		if waiting {
			a.hook = tx.Now()
		}
		return nil
	}); err != nil {
		panic("simulation: the agenda cannot be read: " + err.Error())
	}
}

// eventObjects returns the IDs of the objects of events, by event ID.
func eventObjects(ctx context.Context, d *db.DB) (map[string]string, error) {
	all := map[string]string{}
	err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
		rows, err := tx.Query(ctx, "SELECT event_id, object_id FROM events")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var event, object string
			if err := rows.Scan(&event, &object); err != nil {
				return err
			}
			all[event] = object
		}
		return rows.Err()
	})
	return all, err
}
