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

// A Rail pays outputs through one network or channel: Bitcoin, one EVM network, Lightning, banks. It owns its tables
// of batches or files, and changes the table outputs only through functions of this package. A new rail is a new
// package and one more argument of [New] in package app. Package payouttest has the suite that every rail passes.
//
// A rail must keep this order to be safe at any crash: commit the complete instructions, send them, record the
// answer.
type Rail interface {
	// Name returns the rail's name, as stored in outputs.rail. It never changes.
	Name() RailName

	// Prepare prepares the outputs at the head of the company's queue that can be paid now. In one transaction it stores
	// the complete instructions with their external identity, posts their journal, assigns the outputs (state prepared)
	// and enqueues Send. Nothing is sent before that commit, and an output is in one batch at a time.
	//
	// An output that can never be paid fails, with a reason; an output that cannot be paid now stays queued. Neither
	// blocks outputs that do not depend on it. Prepare stores nothing while [PayoutsAllowed] returns a reason. It may
	// run repeatedly and concurrently.
	Prepare(ctx context.Context, d *db.DB, companyID string) error

	// Send transmits stored instructions, identified by ids, and records the answer. It may run repeatedly: the bytes
	// are always the same and carry their external identity, so that they are executed at most once. Only a definite
	// acceptance changes an output to sent; any other answer makes its outcome unknown, and Send is repeated later.
	// Instructions that were never accepted are not sent while payouts are paused.
	Send(ctx context.Context, d *db.DB, companyID string, ids []string) error

	// Jobs returns handlers that follow sent instructions until they are confirmed, returned, or proven never to be
	// paid, and that update the outputs. Several rails may handle the same kind of job: each rail gets every job and
	// ignores the jobs of other rails.
	Jobs() job.Table

	// Periodic returns the rail's periodic work, such as reading fee rates and answers.
	Periodic(d *db.DB) []job.Periodic
}

// Rails dispatches jobs to rails by name. Create it with New.
type Rails struct{ rails map[RailName]Rail }

// New returns a dispatcher to the rails. It needs at least one rail, and the names must differ.
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

// Jobs returns the handlers of all rails. If this process lacks a rail, the outputs of that rail stay queued, and so
// do their jobs.
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

// both returns an entry that runs a job through a and then b. Both must have the same form of handler.
func both(a, b job.Entry) job.Entry {
	switch {
	case a.Tx != nil && b.Tx != nil:
		return job.Entry{Limit: max(a.Limit, b.Limit), Tx: func(ctx context.Context, tx *db.Tx, j job.Job) error {
			if err := a.Tx(ctx, tx, j); err != nil {
				return err
			}
			return b.Tx(ctx, tx, j)
		}}
	case a.Batch != nil && b.Batch != nil:
		return job.Entry{Limit: max(a.Limit, b.Limit), Batch: func(ctx context.Context, tx *db.Tx, jobs []job.Job) error {
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

// JobPrepare returns the kind of the job that prepares a company's queue for a rail. Each rail has its own kinds and
// limits, so that a node or bank that hangs delays only its own rail.
func JobPrepare(rail RailName) string { return "payout.prepare." + string(rail) }

// JobSend returns the kind of the job that sends stored instructions of a rail.
func JobSend(rail RailName) string { return "payout.send." + string(rail) }

type sendJob struct {
	IDs []string `json:"ids"`
}

// EnqueuePrepare enqueues a job that prepares a company's queue for a rail, at the given time; zero means now.
func EnqueuePrepare(tx *db.Tx, companyID string, rail RailName, at time.Time) {
	job.Enqueue(tx, job.New{CompanyID: companyID, Kind: JobPrepare(rail), RunAt: at})
}

// sendsPerJob is the number of instructions that one job sends.
const sendsPerJob = 50

// EnqueueSend enqueues jobs that send stored instructions, at the given time; zero means now.
func EnqueueSend(tx *db.Tx, companyID string, rail RailName, at time.Time, ids ...string) {
	for some := range slices.Chunk(ids, sendsPerJob) {
		job.Enqueue(tx, job.New{CompanyID: companyID, Kind: JobSend(rail), Payload: sendJob{some}, RunAt: at})
	}
}

// Outcome is the result of one attempt to send instructions.
type Outcome int

// Outcomes.
const (
	Unknown  Outcome = iota // for example a timeout, a broken connection or an invalid answer
	Accepted                // the network or bank received the instructions
	Refused                 // the network or bank refused this attempt; an earlier attempt may have succeeded
)

func (o Outcome) String() string {
	switch o {
	case Accepted:
		return "accepted"
	case Refused:
		return "refused"
	case Unknown:
		return "unknown"
	}
	return fmt.Sprintf("outcome %d", int(o))
}

// Answer is the outcome of one attempt, with the text of the network or bank for the log and for staff.
type Answer struct {
	Outcome Outcome
	Reason  string
}

// Backoff returns the delay after a number of failed attempts. It starts at first, doubles with each attempt, and is
// at most one hour.
func Backoff(first time.Duration, attempts int64) time.Duration {
	return min(first<<min(attempts, 20), time.Hour)
}
