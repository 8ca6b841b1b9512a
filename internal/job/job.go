// Package job runs what a committed change asks for: later, at least once, on any instance.
//
// A job is a row, inserted by the transaction that needs it. A runner claims due rows by moving run_at past
// a lease (one guarded statement, so two runners never hold one job), runs the handler, and deletes the row:
// for a [TxHandler] in the transaction of the effect itself, for a [NetHandler] afterwards. Jobs that work inside a transaction
// share one, and what they ask for follows in it, so that a chain of them is one commit; when one of them fails, each has a
// transaction of its own and is followed later. A failed job comes back with growing delay, and is parked for a person after maxAttempts; it is never dropped.
// One that waits for what comes back by itself, a price or a list ([ErrWaits], apierr.Unavailable), is never parked.
//
// Handlers are level-triggered: a job says which object to look at, not what happened to it, so running one
// twice, late or out of order is harmless.
package job

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
)

// New is a job to insert.
type New struct {
	CompanyID string
	Kind      string
	Payload   any       // written as JSON
	RunAt     time.Time // zero: at once
}

// Job is a claimed job.
type Job struct {
	CompanyID, ID, Kind string
	Attempt             int // 1 at the first run
	Payload             []byte
}

// Decode reads the payload.
func (j Job) Decode(v any) error {
	if err := json.Unmarshal(j.Payload, v); err != nil {
		return fmt.Errorf("job %s %s: %w", j.Kind, j.ID, err)
	}
	return nil
}

// TxHandler works inside one transaction, in which the job is completed too, and other jobs may be.
type TxHandler func(ctx context.Context, tx *db.Tx, j Job) error

// AllHandler is a TxHandler for all jobs of its kind that share a transaction, so that it reads and writes for all of them at once.
type AllHandler func(ctx context.Context, tx *db.Tx, jobs []Job) error

// NetHandler may talk to the network; it opens its own transactions, and may run again after a crash.
type NetHandler func(ctx context.Context, d *db.DB, j Job) error

// Entry is the handler of a kind: one of the three.
type Entry struct {
	Tx  TxHandler
	All AllHandler
	Net NetHandler
}

// run runs jobs of the kind inside a transaction.
func (e Entry) run(ctx context.Context, tx *db.Tx, jobs []Job) error {
	if e.All != nil {
		return e.All(ctx, tx, jobs)
	}
	for _, j := range jobs {
		if err := e.Tx(ctx, tx, j); err != nil {
			return err
		}
	}
	return nil
}

// handlers is how many of them there are.
func (e Entry) handlers() (n int) {
	for _, there := range []bool{e.Tx != nil, e.All != nil, e.Net != nil} {
		if there {
			n++
		}
	}
	return n
}

// Table maps each kind to its handler.
type Table map[string]Entry

// Periodic is work that belongs to no object and runs on one instance at a time.
type Periodic struct {
	Name  string
	Every time.Duration
	Run   func(ctx context.Context) error
}

const (
	lease       = 45 * time.Second
	alone       = lease - 5*time.Second // for a job that has a transaction of its own
	claimSize   = 64
	parallel    = 32
	shared      = 32 // jobs of one transaction
	pollEvery   = 250 * time.Millisecond
	maxAttempts = 20
	maxBackoff  = time.Hour
)

// due is the notice that a job is to be run at once.
const due = "job.due"

// ErrWaits is why a job fails until something comes back by itself.
var ErrWaits = errors.New("it comes back by itself")

func waits(err error) bool {
	f, is := apierr.As(err)
	return is && f.Kind == apierr.Unavailable || errors.Is(err, ErrWaits)
}

// Enqueue inserts a job; it starts to exist when the transaction commits.
func Enqueue(tx *db.Tx, n New) {
	payload, err := json.Marshal(n.Payload)
	if err != nil {
		panic(fmt.Sprintf("job %s: payload: %v", n.Kind, err)) // payloads are our own plain structs
	}
	at := n.RunAt
	if at.IsZero() {
		at = tx.Now()
	}
	insert(tx, n.CompanyID, n.Kind, payload, at)
	if !at.After(tx.Now()) {
		tx.Notify(due)
	}
}

// Runner runs the jobs of a database.
type Runner struct {
	d        *db.DB
	table    Table
	kinds    []string
	periodic []Periodic
	log      *slog.Logger
	holder   string
	wake     chan struct{}
}

// NewRunner makes a runner. Jobs of kinds that are not in the table are left alone: a newer version of the
// program may know them.
func NewRunner(d *db.DB, table Table, periodic []Periodic, log *slog.Logger) *Runner {
	r := &Runner{d: d, table: table, periodic: periodic, log: log, holder: rand.Text(), wake: make(chan struct{}, 1)}
	for kind, e := range table {
		if e.handlers() != 1 {
			panic("job: " + kind + " needs exactly one handler")
		}
		r.kinds = append(r.kinds, kind)
	}
	d.OnNotice(due, func() {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	})
	return r
}

// Run works until ctx ends, then finishes the jobs that it has begun.
func (r *Runner) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, p := range r.periodic {
		wg.Go(func() { r.runPeriodic(ctx, p) })
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		n, err := r.runDue(ctx)
		if n > 0 {
			continue // what went wrong with a job is logged and postponed with it
		}
		if err != nil && ctx.Err() == nil {
			r.log.Error("jobs cannot be claimed", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-r.wake:
		case <-tick.C:
		}
	}
	wg.Wait()
}

// Drain runs what is due until nothing is. It returns the first error of a job, after running the others, so
// that tests see it; the failed job waits for its next attempt as always.
func (r *Runner) Drain(ctx context.Context) error {
	var first error
	for {
		n, err := r.runDue(ctx)
		if first == nil {
			first = err
		}
		if n == 0 {
			return first
		}
	}
}

// runDue claims due jobs and runs them, several at once. It says how many there were.
func (r *Runner) runDue(ctx context.Context) (int, error) {
	var jobs []Job
	err := r.d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		jobs, err = claim(ctx, tx, r.kinds)
		return err
	})
	if err != nil {
		return 0, err
	}
	// What is begun is finished, also when the runner is told to stop.
	ctx = context.WithoutCancel(ctx)
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		first error
		slots = make(chan struct{}, parallel)
	)
	run := func(jobs []Job) {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := r.runAll(ctx, jobs); err != nil {
				mu.Lock()
				if first == nil {
					first = err
				}
				mu.Unlock()
			}
		})
	}
	var inside []Job
	for i, j := range jobs {
		if r.table[j.Kind].Net == nil {
			inside = append(inside, j)
		} else {
			run(jobs[i : i+1])
		}
	}
	// Jobs about one object are neighbours in this order, and so in one transaction rather than in two that wait for each other.
	slices.SortFunc(inside, func(a, b Job) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.CompanyID, b.CompanyID), bytes.Compare(a.Payload, b.Payload), cmp.Compare(a.ID, b.ID))
	})
	for some := range slices.Chunk(inside, shared) {
		run(some)
	}
	wg.Wait()
	return len(jobs), first
}

// runAll runs jobs that work inside a transaction in one or, when that fails, one by one: so a bad one never spoils its neighbours. It returns the
// first error.
func (r *Runner) runAll(ctx context.Context, jobs []Job) (first error) {
	if r.table[jobs[0].Kind].Net == nil {
		followed, err := r.together(ctx, jobs)
		if err == nil {
			return nil
		}
		if len(jobs) == 1 && !followed {
			return r.failed(ctx, jobs[0], err)
		}
	}
	for _, j := range jobs {
		if err := r.runOne(ctx, j); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// together completes jobs and runs their handlers, and those of the jobs that they ask for, in one transaction. When it fails,
// followed says that it was at work on the latter.
func (r *Runner) together(ctx context.Context, jobs []Job) (followed bool, err error) {
	limit := lease / 3
	if len(jobs) == 1 {
		limit = alone
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer recoverTo(&err)
	err = r.d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		followed = false // this may run more than once
		mine, err := completeAll(ctx, tx, jobs)
		if err != nil {
			return err
		}
		var todo []Job
		for _, j := range jobs {
			if mine[j.ID] { // or another runner took it over when the lease ran out
				todo = append(todo, j)
			}
		}
		return r.chain(ctx, tx, todo, &followed)
	})
	return followed, err
}

// chain runs jobs, then those that they asked for, stage by stage. A kind runs in one stage: what asks for itself again has its
// turn later, so that a transaction ends.
func (r *Runner) chain(ctx context.Context, tx *db.Tx, todo []Job, followed *bool) error {
	ran := map[string]bool{}
	for len(todo) > 0 {
		mark := len(tx.Deferred(jobRows))
		for _, jobs := range byKind(todo) {
			ran[jobs[0].Kind] = true
			if err := r.table[jobs[0].Kind].run(ctx, tx, jobs); err != nil {
				return err
			}
		}
		if err := tx.FlushBefore(ctx, jobRows); err != nil { // which may ask for more; and what follows finds it as if it were committed
			return err
		}
		todo = todo[:0]
		takeNew(tx, mark, func(j Job) bool {
			if e, known := r.table[j.Kind]; !known || e.Net != nil || ran[j.Kind] || len(todo) == shared {
				return false
			}
			todo = append(todo, j)
			return true
		})
		*followed = *followed || len(todo) > 0
	}
	return nil
}

// byKind keeps the order of the jobs of a kind, and that in which the kinds appear.
func byKind(jobs []Job) (all [][]Job) {
	place := map[string]int{}
	for _, j := range jobs {
		i, there := place[j.Kind]
		if !there {
			i = len(all)
			place[j.Kind], all = i, append(all, nil)
		}
		all[i] = append(all[i], j)
	}
	return all
}

// recoverTo makes an error of a panic.
func recoverTo(err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
	}
}

func (r *Runner) runOne(ctx context.Context, j Job) error {
	ctx, cancel := context.WithTimeout(ctx, alone)
	defer cancel()
	if err := r.handle(ctx, j); err != nil {
		return r.failed(ctx, j, err)
	}
	return nil
}

// failed postpones a job, and returns why.
func (r *Runner) failed(ctx context.Context, j Job, err error) error {
	level := slog.LevelWarn
	park := j.Attempt >= maxAttempts && !waits(err)
	if park {
		level = slog.LevelError
	}
	r.log.Log(ctx, level, "job failed", "kind", j.Kind, "job_id", j.ID, "company_id", j.CompanyID, "attempt", j.Attempt, "error", err)
	delay := min(time.Second<<min(j.Attempt-1, 30), maxBackoff)
	delay += mathrand.N(delay/4 + 1) //nolint:gosec // jitter, not a secret
	why := err.Error()
	err = fmt.Errorf("job %s %s: %w", j.Kind, j.ID, err)
	return errors.Join(err, r.d.Write(context.WithoutCancel(ctx), func(ctx context.Context, tx *db.Tx) error {
		return postpone(ctx, tx, j, tx.Now().Add(delay), park, why)
	}))
}

func (r *Runner) handle(ctx context.Context, j Job) (err error) {
	defer recoverTo(&err)
	e := r.table[j.Kind]
	if e.Net != nil {
		if err := e.Net(ctx, r.d, j); err != nil {
			return err
		}
	}
	return r.d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		mine, err := complete(ctx, tx, j)
		if err != nil || !mine {
			return err // another runner took it over when the lease ran out
		}
		if e.Net != nil {
			return nil
		}
		return e.run(ctx, tx, []Job{j})
	})
}

// runPeriodic runs p each Every on the one instance that holds its lease.
func (r *Runner) runPeriodic(ctx context.Context, p Periodic) {
	tick := time.NewTicker(p.Every)
	defer tick.Stop()
	for {
		if held, err := Lease(ctx, r.d, "periodic."+p.Name, r.holder, p.Every+30*time.Second); err != nil {
			r.logPeriodic(ctx, p, err)
		} else if held {
			r.logPeriodic(ctx, p, p.Run(ctx))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (r *Runner) logPeriodic(ctx context.Context, p Periodic, err error) {
	if err != nil && ctx.Err() == nil {
		r.log.Warn("periodic work failed", "name", p.Name, "error", err)
	}
}

// Lease takes or prolongs the named lease for holder and says whether holder has it.
func Lease(ctx context.Context, d *db.DB, name, holder string, forHow time.Duration) (held bool, err error) {
	err = d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		held, err = takeLease(ctx, tx, name, holder, forHow)
		return err
	})
	return held, err
}
