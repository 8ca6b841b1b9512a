// Package job runs background work requested by a committed transaction, at least once, on any instance of the
// service.
//
// A job is a row, inserted by the transaction that needs the work. A [Runner] leases due jobs by setting run_at to a
// later time, in a guarded statement, so that two runners never lease the same job. It then runs the handler and
// deletes the row: in the same transaction as the handler's changes for a [TxHandler] or [BatchHandler], or after the
// handler for a [NetHandler].
//
// A runner starts jobs whenever slots are free. Each kind of job has separate slots ([Entry].Limit), so that a slow
// job delays only jobs of its kind. Jobs of one kind share a transaction if their handler allows it; if that
// transaction fails, each job runs in a separate transaction.
//
// A failed job is retried with increasing delays. After maxAttempts it is marked as dead; it is never dropped, and
// staff can retry it. A job that fails because of a temporary condition ([ErrRetryLater], apierr.Unavailable) is
// retried without limit.
//
// Handlers are level-triggered: a job names the object to examine, not what happened to the object, so running a job
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
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
)

// New describes a job to insert.
type New struct {
	CompanyID string
	Kind      string
	Payload   any       // encoded as JSON
	RunAt     time.Time // zero: immediately
}

// Job is a claimed job.
type Job struct {
	CompanyID, ID, Kind string
	Attempt             int // number of the attempt, starting at 1
	Payload             []byte
}

// Decode unmarshals the payload into v.
func (j Job) Decode(v any) error {
	if err := json.Unmarshal(j.Payload, v); err != nil {
		return fmt.Errorf("job %s %s: %w", j.Kind, j.ID, err)
	}
	return nil
}

// TxHandler handles one job, in the transaction that deletes the job. Other jobs of the same kind may share the
// transaction.
type TxHandler func(ctx context.Context, tx *db.Tx, j Job) error

// BatchHandler handles all jobs of its kind that share a transaction, so that it can read and write the rows of all
// jobs at once.
type BatchHandler func(ctx context.Context, tx *db.Tx, jobs []Job) error

// NetHandler handles one job and may use the network. It opens its own transactions, and runs again if the process
// dies before the job is deleted.
type NetHandler func(ctx context.Context, d *db.DB, j Job) error

// Entry registers the handler of a kind of job: exactly one of Tx, Batch and Net.
type Entry struct {
	Tx    TxHandler
	Batch BatchHandler
	Net   NetHandler

	// Limit is the maximum number of concurrent transactions per process for Tx and Batch, each with up to batchSize
	// jobs, or the maximum number of concurrent jobs for Net. Zero means defaultTransactions or defaultNetwork.
	Limit int
}

func (e Entry) limit() int {
	switch {
	case e.Limit > 0:
		return e.Limit
	case e.Net != nil:
		return defaultNetwork
	default:
		return defaultTransactions
	}
}

// jobsPerSlot returns how many jobs of the kind run in one slot.
func (e Entry) jobsPerSlot() int {
	if e.Net != nil {
		return 1
	}
	return batchSize
}

// run runs jobs of the kind in the given transaction.
func (e Entry) run(ctx context.Context, tx *db.Tx, jobs []Job) error {
	if e.Batch != nil {
		return e.Batch(ctx, tx, jobs)
	}
	for _, j := range jobs {
		if err := e.Tx(ctx, tx, j); err != nil {
			return err
		}
	}
	return nil
}

// handlers returns the number of handlers that are set.
func (e Entry) handlers() (n int) {
	for _, set := range []bool{e.Tx != nil, e.Batch != nil, e.Net != nil} {
		if set {
			n++
		}
	}
	return n
}

// Table maps each kind of job to its handler.
type Table map[string]Entry

// Periodic is recurring work that concerns no particular object and runs on one instance at a time. It runs at each
// interval, and when the database's clock has been advanced by at least the interval.
type Periodic struct {
	Name    string
	Every   time.Duration
	Timeout time.Duration // time limit of one run; zero means defaultTimeout
	Run     func(ctx context.Context) error
}

const (
	lease         = 45 * time.Second
	singleTimeout = lease - 5*time.Second // time limit of a job that runs in a separate transaction
	batchTimeout  = lease / 3             // time limit of jobs that share a transaction
	batchSize     = 32
	pollEvery     = 250 * time.Millisecond
	maxAttempts   = 20
	maxBackoff    = time.Hour

	defaultTransactions = 1 // with more, two transactions of a process could process the same object concurrently
	defaultNetwork      = 8

	defaultTimeout = 10 * time.Minute
	leaseMargin    = 30 * time.Second // how much longer than the interval the lease of periodic work lasts
	renewEvery     = leaseMargin / 3
	releaseTimeout = 5 * time.Second
)

// due is the topic of the notices that wake the runners of this process.
const due = "job.due"

// ErrRetryLater marks an error as temporary: the job is retried no matter how often it fails.
var ErrRetryLater = errors.New("retry later")

// errLeaseLost ends periodic work whose lease another instance has taken.
var errLeaseLost = errors.New("another instance has taken the lease")

func isRetryLater(err error) bool {
	f, is := apierr.As(err)
	return is && f.Kind == apierr.Unavailable || errors.Is(err, ErrRetryLater)
}

// Enqueue inserts a job, which exists once the transaction commits.
func Enqueue(tx *db.Tx, n New) {
	payload := n.encode()
	at := n.RunAt
	if at.IsZero() {
		at = tx.Now()
	}
	insert(tx, n.CompanyID, n.Kind, payload, at)
	if !at.After(tx.Now()) {
		tx.Notify(due)
	}
}

// Waits reports whether a job with the company, kind and payload of n is stored and not dead.
func Waits(ctx context.Context, tx *db.Tx, n New) (bool, error) {
	return waits(ctx, tx, n.CompanyID, n.Kind, n.encode())
}

// encode returns the stored form of the payload.
func (n New) encode() []byte {
	payload, err := json.Marshal(n.Payload)
	if err != nil {
		panic(fmt.Sprintf("job %s: payload: %v", n.Kind, err)) // payloads are plain structs of this program
	}
	return payload
}

// Runner runs the jobs of a database.
type Runner struct {
	d        *db.DB
	table    Table
	kinds    []string // kinds in a fixed order, so that the text of the claim statement is always the same
	periodic []Periodic
	log      *slog.Logger
	holder   string
	wake     chan struct{}
	advanced []chan struct{} // signaled when the database's clock was advanced
	observe  Observer
	ticks    func(time.Duration) (ticks <-chan time.Time, stop func()) // returns a ticker; tests replace it
}

// Observer is called before jobs of a kind run in one transaction. It returns a function that is called with the
// outcome: "succeeded", "failed", or "split" if several jobs failed together and will run one by one.
type Observer func(ctx context.Context, kind string, jobs int) (context.Context, func(outcome string))

var observeNothing Observer = func(ctx context.Context, _ string, _ int) (context.Context, func(string)) {
	return ctx, func(string) {}
}

// NewRunner returns a runner. It does not lease jobs of kinds that the table lacks, because a newer version of the
// program may know them. It accepts at most one observer.
func NewRunner(d *db.DB, table Table, periodic []Periodic, log *slog.Logger, observers ...Observer) *Runner {
	observe := observeNothing
	if len(observers) > 0 {
		observe = observers[0]
	}
	r := &Runner{
		d: d, table: table, periodic: periodic, log: log,
		holder: rand.Text(), wake: make(chan struct{}, 1), ticks: newTicker,
		observe: observe,
	}
	for kind, e := range table {
		if e.handlers() != 1 {
			panic("job: " + kind + " needs exactly one handler")
		}
		r.kinds = append(r.kinds, kind)
	}
	slices.Sort(r.kinds)
	d.OnNotice(due, func() { signal(r.wake) })
	for range periodic {
		r.advanced = append(r.advanced, make(chan struct{}, 1))
	}
	d.OnNotice(db.NoticeClock, func() {
		signal(r.wake)
		for _, c := range r.advanced {
			signal(c)
		}
	})
	return r
}

func newTicker(every time.Duration) (ticks <-chan time.Time, stop func()) {
	t := time.NewTicker(every)
	return t.C, t.Stop
}

// signal wakes the reader of a channel that buffers one signal.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run runs jobs and periodic work until ctx is done, then finishes the jobs that it has started.
func (r *Runner) Run(ctx context.Context) {
	var periodic sync.WaitGroup
	for i, p := range r.periodic {
		periodic.Go(func() { r.runPeriodic(ctx, p, r.advanced[i]) })
	}
	s := newSlots(r.table)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		if _, err := r.fill(ctx, s); err != nil && ctx.Err() == nil {
			r.log.Error("jobs cannot be claimed", "error", err)
		}
		r.await(ctx, s, tick.C)
	}
	s.work.Wait()
	periodic.Wait()
}

// await returns when jobs may have to be started: jobs were enqueued, a slot became free for a kind that has due
// jobs, or the polling interval has passed.
func (r *Runner) await(ctx context.Context, s *slots, tick <-chan time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
			return
		case <-tick:
			return
		case <-s.freed:
			if s.awaited() {
				return
			}
		}
	}
}

// Drain runs due jobs until none are left. It is for tests and benchmarks. If a job fails, Drain runs the others and
// returns the first error; failed jobs are retried later as usual.
func (r *Runner) Drain(ctx context.Context) error {
	s := newSlots(r.table)
	for {
		idle := s.idle()
		n, err := r.fill(ctx, s)
		switch {
		case err != nil:
			s.work.Wait()
			return errors.Join(s.firstError(), err)
		case n > 0:
		case idle:
			return s.firstError()
		default:
			<-s.freed
		}
	}
}

// slots counts, for each kind, the running work that one call of Run or Drain has started.
type slots struct {
	table Table
	spawn Spawn // starts the work of a slot in a goroutine
	work  sync.WaitGroup
	freed chan struct{} // signaled whenever a slot becomes free

	mu      sync.Mutex
	running map[string]int
	waiting map[string]bool // kinds that may have more due jobs than there were free slots
	err     error           // first error of a job
}

func newSlots(table Table) *slots {
	s := &slots{table: table, freed: make(chan struct{}, 1), running: map[string]int{}, waiting: map[string]bool{}}
	s.spawn = func(ctx context.Context, label string, work func(context.Context)) {
		s.work.Go(func() { work(db.WithLabel(ctx, label)) })
	}
	return s
}

// room returns how many jobs of a kind can be started.
func (s *slots) room(kind string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.table[kind]
	free := e.limit() - s.running[kind]
	if free == 0 {
		s.waiting[kind] = true
	}
	return free * e.jobsPerSlot()
}

// claimed records whether a kind may have more due jobs than the n that were leased, when there was room for room
// jobs.
func (s *slots) claimed(kind string, n, room int) {
	if room > 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.waiting[kind] = n == room
	}
}

// awaited reports whether a kind that may have due jobs has a free slot.
func (s *slots) awaited() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for kind, waiting := range s.waiting {
		if waiting && s.running[kind] < s.table[kind].limit() {
			return true
		}
	}
	return false
}

func (s *slots) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.running {
		if n > 0 {
			return false
		}
	}
	return true
}

func (s *slots) firstError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// start runs f in a slot of a kind. The label identifies the work; see [db.WithLabel].
func (s *slots) start(ctx context.Context, kind, label string, f func(context.Context) error) {
	s.mu.Lock()
	s.running[kind]++
	s.mu.Unlock()
	s.spawn(ctx, label, func(ctx context.Context) {
		err := f(ctx)
		s.mu.Lock()
		s.running[kind]--
		if s.err == nil {
			s.err = err
		}
		s.mu.Unlock()
		signal(s.freed)
	})
}

// fill leases due jobs for the free slots and starts them. It returns the number of jobs started.
func (r *Runner) fill(ctx context.Context, s *slots) (int, error) {
	room, total := make([]int, len(r.kinds)), 0
	for i, kind := range r.kinds {
		room[i] = s.room(kind)
		total += room[i]
	}
	if total == 0 {
		return 0, nil
	}
	var jobs []Job
	if err := r.d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		jobs, err = claim(ctx, tx, r.kinds, room)
		return err
	}); err != nil {
		return 0, err
	}
	byKind := map[string][]Job{}
	for _, j := range jobs {
		byKind[j.Kind] = append(byKind[j.Kind], j)
	}
	ctx = context.WithoutCancel(ctx) // jobs that have started are finished even if the runner stops
	for i, kind := range r.kinds {
		mine := byKind[kind]
		s.claimed(kind, len(mine), room[i])
		// This order places jobs of one object next to each other, so that they share a transaction instead of running in
		// two and waiting for each other.
		slices.SortFunc(mine, func(a, b Job) int {
			return cmp.Or(cmp.Compare(a.CompanyID, b.CompanyID), bytes.Compare(a.Payload, b.Payload), cmp.Compare(a.ID, b.ID))
		})
		for batch := range slices.Chunk(mine, r.table[kind].jobsPerSlot()) {
			s.start(ctx, kind, kind+" "+batch[0].ID, func(ctx context.Context) error { return r.runBatch(ctx, batch) })
		}
	}
	return len(jobs), nil
}

// runBatch runs jobs of one kind in one transaction. If the transaction fails, or the kind uses the network, it runs
// the jobs one by one, so that a failing job does not affect the others. It returns the first error.
func (r *Runner) runBatch(ctx context.Context, jobs []Job) (first error) {
	net := r.table[jobs[0].Kind].Net
	if net == nil && len(jobs) > 1 {
		traced, end := r.observe(ctx, jobs[0].Kind, len(jobs))
		if r.runInTx(traced, jobs, batchTimeout) == nil {
			end("succeeded")
			return nil
		}
		end("split")
	}
	for i, j := range jobs {
		var err error
		outcome := "succeeded"
		ctx, end := r.observe(ctx, j.Kind, 1)
		if net == nil {
			err = r.runInTx(ctx, jobs[i:i+1], singleTimeout)
		} else {
			err = r.runNet(ctx, net, j)
		}
		if err != nil {
			outcome, err = "failed", r.failed(ctx, j, err)
		}
		end(outcome)
		if first == nil {
			first = err
		}
	}
	return first
}

// runInTx deletes jobs of one kind and runs their handler, in one transaction.
func (r *Runner) runInTx(ctx context.Context, jobs []Job, timeout time.Duration) (err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	defer recoverTo(&err)
	return r.d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		mine, err := completeAll(ctx, tx, jobs)
		if err != nil || len(mine) == 0 {
			return err
		}
		return r.table[jobs[0].Kind].run(ctx, tx, mine)
	})
}

func (r *Runner) runNet(ctx context.Context, handle NetHandler, j Job) (err error) {
	ctx, cancel := context.WithTimeout(ctx, singleTimeout)
	defer cancel()
	defer recoverTo(&err)
	if err := handle(ctx, r.d, j); err != nil {
		return err
	}
	return r.d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		_, err := completeAll(ctx, tx, []Job{j})
		return err
	})
}

// recoverTo turns a panic into an error.
func recoverTo(err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
	}
}

// failed schedules the next attempt of a failed job, or marks the job as dead. It returns err with the job's name
// added.
func (r *Runner) failed(ctx context.Context, j Job, err error) error {
	level := slog.LevelWarn
	dead := j.Attempt >= maxAttempts && !isRetryLater(err)
	if dead {
		level = slog.LevelError
	}
	r.log.Log(ctx, level, "job failed",
		"kind", j.Kind, "job_id", j.ID, "company_id", j.CompanyID, "attempt", j.Attempt, "error", err)
	delay := min(time.Second<<min(j.Attempt-1, 30), maxBackoff)
	delay += db.Jitter(delay/4 + 1)
	lastError := err.Error()
	err = fmt.Errorf("job %s %s: %w", j.Kind, j.ID, err)
	return errors.Join(err, r.d.Write(context.WithoutCancel(ctx), func(ctx context.Context, tx *db.Tx) error {
		return postpone(ctx, tx, j, tx.Now().Add(delay), dead, lastError)
	}))
}

// runPeriodic runs p at each interval on the instance that holds its lease. A signal on advanced means that the
// interval may have passed on the database's clock.
func (r *Runner) runPeriodic(ctx context.Context, p Periodic, advanced <-chan struct{}) {
	next, stop := r.ticks(p.Every)
	defer stop()
	var last time.Time // the last run, by the database's clock
	for {
		if now, err := r.d.Now(ctx); err == nil {
			last = now
		}
		if err := r.runLeased(ctx, p); err != nil && ctx.Err() == nil {
			r.log.Warn("periodic work failed", "name", p.Name, "error", err)
		}
		for due := false; !due; {
			select {
			case <-ctx.Done():
				return
			case <-next:
				due = true
			case <-advanced:
				now, err := r.d.Now(ctx)
				due = err == nil && now.Sub(last) >= p.Every
			}
		}
	}
}

// runLeased runs p once if this runner obtains the lease of p, and renews the lease until p ends or its time limit is
// reached. The lease lasts for the interval after the run, so that no other instance runs p before then.
func (r *Runner) runLeased(ctx context.Context, p Periodic) (err error) {
	defer func() {
		if ctx.Err() != nil { // the run ended unfinished, so another process should be able to start it at once
			err = errors.Join(err, release(ctx, r.d, "periodic."+p.Name, r.holder))
		}
	}()
	renew := func() (bool, error) {
		return Lease(ctx, r.d, "periodic."+p.Name, r.holder, p.Every+leaseMargin)
	}
	if held, err := renew(); err != nil || !held {
		return err
	}
	timed, cancel := context.WithTimeout(ctx, cmp.Or(p.Timeout, defaultTimeout))
	defer cancel()
	run, lost := context.WithCancelCause(timed)
	var renewal sync.WaitGroup
	renewal.Go(func() {
		tick, stop := r.ticks(renewEvery)
		defer stop()
		for {
			select {
			case <-run.Done():
				return
			case <-tick:
			}
			if held, err := renew(); err != nil {
				r.log.Warn("a lease cannot be renewed", "name", p.Name, "error", err)
			} else if !held {
				lost(errLeaseLost)
			}
		}
	})
	defer renewal.Wait()
	defer lost(nil)
	defer recoverTo(&err)
	return p.Run(run)
}

// Lease obtains or renews the named lease for holder, and reports whether holder has it.
func Lease(ctx context.Context, d *db.DB, name, holder string, length time.Duration) (held bool, err error) {
	err = d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		held, err = takeLease(ctx, tx, name, holder, length)
		return err
	})
	return held, err
}

// release ends the named lease if holder has it, so that another process need not wait until the lease expires. It
// works although ctx is done.
func release(ctx context.Context, d *db.DB, name, holder string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		return dropLease(ctx, tx, name, holder)
	})
}
