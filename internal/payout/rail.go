package payout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
)

// A Rail pays the outputs of one way out: Bitcoin, one EVM network, the bank. It owns its tables of batches or files and never
// writes the table outputs itself; the functions of this package do. A new kind of rail is a new package and one more argument
// of [New] where the service is wired. Package payouttest has the suite that every rail passes.
//
// A rail keeps this order, whatever crashes: commit the complete instructions, then send them, then record the answer.
type Rail interface {
	// Name returns the value of outputs.rail of the outputs that this rail pays. It never changes.
	Name() RailName

	// Prepare takes what can be paid now from the head of the company's queue. In one transaction it stores the complete
	// instructions with the identity that they have outside, posts their journal, assigns the outputs (state prepared) and
	// enqueues Send. Nothing has left before that commit, and an output is in one batch at a time.
	//
	// An output that can never be paid becomes failed, with a reason; one that cannot be paid now stays queued. Neither holds up
	// outputs that do not depend on it. Prepare stores nothing while [PayoutsAllowed] returns a reason, and may run any number
	// of times, also concurrently.
	Prepare(ctx context.Context, d *db.DB, companyID string) error

	// Send hands stored instructions over, identified by ids, and records the answer. It may run any number of times: the bytes
	// are always the same and carry their own identity, so that the outside executes them at most once. Only a definite answer
	// changes an output to sent; everything else makes it in_doubt and is sent again later. Instructions that were never
	// accepted are not sent while payouts are paused.
	Send(ctx context.Context, d *db.DB, companyID string, ids []string) error

	// Jobs returns the handlers by which the rail follows what it has sent until it is confirmed, proven never to be paid, or
	// returned, and changes its outputs accordingly. A kind may be handled by several rails: each gets every job and ignores
	// those of others.
	Jobs() job.Table

	// Periodic returns the rail's periodic work, such as reading fee rates and answers.
	Periodic(d *db.DB) []job.Periodic
}

// Rails dispatches jobs to rails by name.
type Rails struct{ rails map[RailName]Rail }

// New returns the dispatcher to rails. It needs at least one, and their names must differ.
func New(rails ...Rail) (*Rails, error) {
	all := &Rails{rails: make(map[RailName]Rail, len(rails))}
	for _, r := range rails {
		switch {
		case r == nil:
			return nil, errors.New("payout: a rail is missing")
		case all.rails[r.Name()] != nil:
			return nil, fmt.Errorf("payout: two rails are named %q", r.Name())
		}
		all.rails[r.Name()] = r
	}
	if len(all.rails) == 0 {
		return nil, errors.New("payout: no rail is configured")
	}
	return all, nil
}

// Jobs returns the handlers of all rails. Outputs of a rail that this process does not have stay queued, and so do its jobs.
func (all *Rails) Jobs() job.Table {
	table := job.Table{}
	for _, name := range slices.Sorted(maps.Keys(all.rails)) {
		r := all.rails[name]
		table[JobPrepare(name)] = job.Entry{Net: func(ctx context.Context, d *db.DB, j job.Job) error {
			return r.Prepare(ctx, d, j.CompanyID)
		}, Limit: 4}
		table[JobSend(name)] = job.Entry{Net: func(ctx context.Context, d *db.DB, j job.Job) error {
			var in sendJob
			if err := j.Decode(&in); err != nil {
				return err
			}
			return r.Send(ctx, d, j.CompanyID, in.IDs)
		}, Limit: 8}
		for kind, entry := range r.Jobs() {
			if other, shared := table[kind]; shared {
				entry = both(other, entry)
			}
			table[kind] = entry
		}
	}
	return table
}

// both returns an entry that runs a job through a and then through b, whose handlers are of the same form.
func both(a, b job.Entry) job.Entry {
	switch {
	case a.Tx != nil && b.Tx != nil:
		return job.Entry{Tx: func(ctx context.Context, tx *db.Tx, j job.Job) error {
			if err := a.Tx(ctx, tx, j); err != nil {
				return err
			}
			return b.Tx(ctx, tx, j)
		}}
	case a.Batch != nil && b.Batch != nil:
		return job.Entry{Batch: func(ctx context.Context, tx *db.Tx, jobs []job.Job) error {
			if err := a.Batch(ctx, tx, jobs); err != nil {
				return err
			}
			return b.Batch(ctx, tx, jobs)
		}}
	}
	panic("payout: two rails handle one kind of job differently")
}

// Periodic returns the periodic work of all rails.
func (all *Rails) Periodic(d *db.DB) (work []job.Periodic) {
	for _, name := range slices.Sorted(maps.Keys(all.rails)) {
		work = append(work, all.rails[name].Periodic(d)...)
	}
	return work
}

// JobPrepare returns the kind of the job that prepares a company's queue for a rail. Each rail has job kinds of its own, so that a
// node or bank that hangs delays its own rail only.
func JobPrepare(rail RailName) string { return "payout.prepare." + string(rail) }

// JobSend returns the kind of the job that sends stored instructions of a rail.
func JobSend(rail RailName) string { return "payout.send." + string(rail) }

type sendJob struct {
	IDs []string `json:"ids"`
}

// EnqueuePrepare enqueues a look at a company's queue for a rail, at the given time or, when it is zero, now.
func EnqueuePrepare(tx *db.Tx, companyID string, rail RailName, at time.Time) {
	job.Enqueue(tx, job.New{CompanyID: companyID, Kind: JobPrepare(rail), RunAt: at})
}

// sendsPerJob is how many instructions one job sends.
const sendsPerJob = 50

// EnqueueSend enqueues the sending of stored instructions.
func EnqueueSend(tx *db.Tx, companyID string, rail RailName, at time.Time, ids ...string) {
	for some := range slices.Chunk(ids, sendsPerJob) {
		job.Enqueue(tx, job.New{CompanyID: companyID, Kind: JobSend(rail), Payload: sendJob{some}, RunAt: at})
	}
}

// Outcome is the result of one attempt to hand instructions over.
type Outcome int

// The outcomes.
const (
	Unclear  Outcome = iota // unknown: a timeout, a broken connection, an answer that cannot be read
	Accepted                // the outside has the instructions
	Refused                 // the outside definitely refused this attempt; an earlier one may have got through
)

func (o Outcome) String() string {
	switch o {
	case Accepted:
		return "accepted"
	case Refused:
		return "refused"
	case Unclear:
		return "unclear"
	}
	return fmt.Sprintf("outcome %d", int(o))
}

// Answer is an outcome with the outside's own words, for the log and the operator.
type Answer struct {
	Outcome Outcome
	Reason  string
}

// Backoff returns how long to wait after so many failed attempts, starting with first.
func Backoff(first time.Duration, attempts int64) time.Duration {
	return min(first<<min(attempts, 20), time.Hour)
}
