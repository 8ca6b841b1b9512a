package job_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/testkit"
)

func enqueue(t *testing.T, d *db.DB, n int, kind string) {
	t.Helper()
	dbtest.Write(t, d, func(_ context.Context, tx *db.Tx) error {
		for range n {
			job.Enqueue(tx, job.New{CompanyID: "com_1", Kind: kind, Payload: map[string]string{"id": "x"}})
		}
		return nil
	})
}

// newRunner returns a runner without periodic work and without a log.
func newRunner(d *db.DB, table job.Table, periodic ...job.Periodic) *job.Runner {
	return job.NewRunner(d, table, periodic, slog.New(slog.DiscardHandler))
}

func TestTwoRunnersRunEachJobOnce(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		enqueue(t, d, 300, "count")
		var runs atomic.Int64
		table := job.Table{"count": {Net: func(context.Context, *db.DB, job.Job) error {
			runs.Add(1)
			return nil
		}}}
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if err := newRunner(d, table).Drain(context.Background()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if runs.Load() != 300 {
			t.Errorf("%d runs of 300 jobs", runs.Load())
		}
	})
}

func TestFailedJobIsRolledBackAndRetried(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		enqueue(t, d, 1, "flaky")
		broken := errors.New("broken")
		runs := 0
		r := newRunner(d, job.Table{"flaky": {Tx: func(ctx context.Context, tx *db.Tx, j job.Job) error {
			runs++
			if err := db.SetSetting(ctx, tx, "flaky", "done"); err != nil {
				return err
			}
			if j.Attempt < 3 {
				return broken
			}
			return nil
		}}})
		for i, wantErr := range []error{broken, broken, nil, nil} {
			if err := r.Drain(context.Background()); !errors.Is(err, wantErr) {
				t.Fatalf("round %d: %v", i, err)
			}
			clock.Advance(time.Minute)
		}
		if runs != 3 {
			t.Errorf("%d runs", runs)
		}
		dbtest.Read(t, d, func(ctx context.Context, tx *db.Tx) error {
			pending, dead, err := job.Count(ctx, tx)
			if pending != 0 || dead != 0 {
				t.Errorf("%d pending, %d dead", pending, dead)
			}
			return err
		})
	})
}

// A job that always fails is dead until it is retried. A job whose error is temporary never dies.
func TestFailingJobDiesAndCanBeRetried(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		table, broken := job.Table{}, true
		for kind, err := range map[string]error{
			"hopeless": errors.New("always"),
			"price":    apierr.New(apierr.Unavailable, "rate_unavailable", "No price."),
			"list":     fmt.Errorf("no list: %w", job.ErrRetryLater),
		} {
			enqueue(t, d, 1, kind)
			table[kind] = job.Entry{Net: func(context.Context, *db.DB, job.Job) error {
				if !broken {
					return nil
				}
				if kind == "hopeless" {
					panic(err)
				}
				return err
			}}
		}
		r := job.NewRunner(d, table, nil, slog.New(slog.DiscardHandler))
		for range 25 {
			_ = r.Drain(context.Background()) // the job fails, as intended
			clock.Advance(2 * time.Hour)
		}
		want := func(pending, dead int64) {
			t.Helper()
			dbtest.Read(t, d, func(ctx context.Context, tx *db.Tx) error {
				gotPending, gotDead, err := job.Count(ctx, tx)
				if gotPending != pending || gotDead != dead {
					t.Errorf("%d pending, %d dead; want %d and %d", gotPending, gotDead, pending, dead)
				}
				list, failed := job.ListDead(ctx, tx, 10)
				if int64(len(list)) != dead ||
					dead > 0 && (list[0].Kind != "hopeless" || !strings.Contains(list[0].LastError, "always")) {
					t.Errorf("%+v", list)
				}
				return errors.Join(err, failed)
			})
		}
		want(2, 1)
		retry := func(id string, want int64) {
			t.Helper()
			dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error {
				n, err := job.Retry(ctx, tx, id)
				if n != want {
					t.Errorf("%d of %q retried, want %d", n, id, want)
				}
				return err
			})
		}
		retry("job_none", 0)
		retry("", 1)
		want(3, 0)
		broken = false
		if err := r.Drain(context.Background()); err != nil {
			t.Error(err)
		}
		want(0, 0)
	})
}

func TestLeaseHasOneHolder(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		take := func(holder string) bool {
			held, err := job.Lease(context.Background(), d, "watcher", holder, time.Minute)
			testkit.Check(t, err)
			return held
		}
		if !take("a") || take("b") || !take("a") {
			t.Error("the lease is not exclusive")
		}
		clock.Advance(2 * time.Minute)
		if !take("b") || take("a") {
			t.Error("an expired lease was not taken over")
		}
	})
}

func TestFailingJobDoesNotAffectJobsOfItsTransaction(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, _ *dbtest.Clock) {
		broken := errors.New("broken")
		dbtest.Write(t, d, func(_ context.Context, tx *db.Tx) error {
			for i := range 41 {
				payload := "good"
				if i == 20 {
					payload = "bad"
				}
				job.Enqueue(tx, job.New{CompanyID: "com_1", Kind: "write", Payload: payload})
			}
			return nil
		})
		r := newRunner(d, job.Table{"write": {Tx: func(ctx context.Context, tx *db.Tx, j job.Job) error {
			var payload string
			err := errors.Join(j.Decode(&payload), db.SetSetting(ctx, tx, j.ID, payload))
			if payload == "bad" {
				return errors.Join(err, broken)
			}
			return err
		}}})
		if err := r.Drain(context.Background()); !errors.Is(err, broken) {
			t.Error(err)
		}
		dbtest.Read(t, d, func(ctx context.Context, tx *db.Tx) error {
			var good, bad int64
			err := tx.QueryRow(ctx, `SELECT SUM(CASE WHEN value = 'good' THEN 1 ELSE 0 END),
				SUM(CASE WHEN value = 'bad' THEN 1 ELSE 0 END) FROM settings`).Scan(&good, &bad)
			if good != 40 || bad != 0 {
				t.Errorf("%d good jobs and %d bad ones committed, want 40 and 0", good, bad)
			}
			pending, dead, failed := job.Count(ctx, tx)
			if pending != 1 || dead != 0 {
				t.Errorf("%d pending, %d dead", pending, dead)
			}
			return errors.Join(err, failed)
		})
	})
}

// A batch handler gets all jobs that share a transaction. When it fails, each job is tried in a transaction of its own.
func TestBatchHandlerGetsAllJobsOfATransaction(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		broken := errors.New("broken")
		fail := true
		var mu sync.Mutex
		most := 0
		write := func(ctx context.Context, tx *db.Tx, jobs []job.Job) error {
			mu.Lock()
			defer mu.Unlock()
			most = max(most, len(jobs))
			for _, j := range jobs {
				if fail && string(j.Payload) == `"bad"` {
					return broken
				}
				db.History(tx, j.CompanyID, j.ID, 1, "", j.Kind, "")
			}
			return nil
		}
		r := newRunner(d, job.Table{"many": {Batch: write}})
		dbtest.Write(t, d, func(_ context.Context, tx *db.Tx) error {
			for range 5 {
				job.Enqueue(tx, job.New{CompanyID: "com_1", Kind: "many", Payload: "good"})
			}
			job.Enqueue(tx, job.New{CompanyID: "com_1", Kind: "many", Payload: "bad"})
			return nil
		})
		want := func(done int64) {
			t.Helper()
			if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				var n int64
				err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM history").Scan(&n)
				if n != done {
					t.Errorf("%d jobs committed, want %d", n, done)
				}
				return err
			}); err != nil {
				t.Error(err)
			}
		}
		if err := r.Drain(t.Context()); !errors.Is(err, broken) {
			t.Errorf("%v", err)
		}
		if most != 6 {
			t.Errorf("at most %d jobs were handled in one batch, want 6", most)
		}
		want(5)
		fail = false
		clock.Advance(time.Minute)
		if err := r.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		want(6)
	})
}

// A job can enqueue another one. If that one fails, the first one is not rolled back.
func TestJobsEnqueuedByJobsRun(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		broken := errors.New("broken")
		fail := true
		then := func(next string) job.Entry {
			return job.Entry{Limit: 1, Tx: func(ctx context.Context, tx *db.Tx, j job.Job) error {
				if next != "" {
					job.Enqueue(tx, job.New{CompanyID: "com_1", Kind: next, Payload: map[string]string{"id": "x"}})
				}
				if j.Kind == "third" && fail {
					return broken
				}
				return db.SetSetting(ctx, tx, j.Kind, "done")
			}}
		}
		want := func(want, wantPending int64) {
			t.Helper()
			if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				var done int64
				err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM settings WHERE value = 'done'").Scan(&done)
				if err != nil || done != want {
					return fmt.Errorf("%d kinds committed, want %d: %w", done, want, err)
				}
				pending, dead, err := job.Count(ctx, tx)
				if pending != wantPending || dead != 0 {
					t.Errorf("%d pending, %d dead", pending, dead)
				}
				return err
			}); err != nil {
				t.Error(err)
			}
		}
		r := newRunner(d, job.Table{"first": then("second"), "second": then("third"), "third": then("")})
		enqueue(t, d, 1, "first")
		if err := r.Drain(t.Context()); !errors.Is(err, broken) {
			t.Errorf("%v", err)
		}
		want(2, 1)
		fail = false
		clock.Advance(time.Minute)
		if err := r.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		want(3, 0)
	})
}

// start runs a runner until the test ends.
func start(t *testing.T, r *job.Runner) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// Hanging jobs occupy only the slots of their kind. Jobs of another kind complete, even one that is enqueued after
// the hanging kind has taken all its slots.
func TestHangingJobsDelayOnlyTheirKind(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		const hanging, releases, limit = 64, 200, 8
		enqueue(t, d, hanging, "hang")
		enqueue(t, d, releases, "payroll.release")
		letGo := make(chan struct{})
		var begun, hung, exceeded atomic.Int64
		var released, occupied, ended sync.WaitGroup
		released.Add(releases + 1)
		occupied.Add(limit)
		ended.Add(hanging)
		start(t, newRunner(d, job.Table{
			"hang": {Limit: limit, Net: func(context.Context, *db.DB, job.Job) error {
				if n := hung.Add(1); n > limit {
					exceeded.Store(n)
				}
				if begun.Add(1) <= limit {
					occupied.Done()
				}
				<-letGo
				hung.Add(-1)
				ended.Done()
				return nil
			}},
			"payroll.release": {Tx: func(context.Context, *db.Tx, job.Job) error {
				released.Done()
				return nil
			}},
		}))
		occupied.Wait()
		enqueue(t, d, 1, "payroll.release")
		released.Wait()
		if n := hung.Load(); n != limit {
			t.Errorf("%d jobs hang at once, want the limit of %d", n, limit)
		}
		close(letGo)
		ended.Wait()
		if n := exceeded.Load(); n > 0 {
			t.Errorf("%d jobs of the kind ran at once, above the limit of %d", n, limit)
		}
	})
}

// Two transactions of one kind never run concurrently in a process. The test needs PostgreSQL, because SQLite has one
// writer anyway.
func TestTransactionsOfAKindRunOneAtATime(t *testing.T) {
	d := dbtest.Open(t, db.Options{URL: dbtest.Postgres(t)})
	const jobs = 40 // more jobs than one transaction takes
	enqueue(t, d, jobs, "decide")
	first, letGo, others := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var calls, running, most atomic.Int64
	var decided sync.WaitGroup
	decided.Add(jobs)
	start(t, newRunner(d, job.Table{
		"decide": {Tx: func(context.Context, *db.Tx, job.Job) error {
			if n := running.Add(1); n > 1 {
				most.Store(n)
			}
			if calls.Add(1) == 1 {
				close(first)
				<-letGo
			}
			running.Add(-1)
			decided.Done()
			return nil
		}},
		"other": {Net: func(context.Context, *db.DB, job.Job) error {
			others <- struct{}{}
			return nil
		}},
	}))
	<-first
	for range 3 { // lets the runner claim jobs while the transaction runs
		enqueue(t, d, 1, "other")
		<-others
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("%d jobs of the kind ran while its first transaction was still running", n-1)
	}
	close(letGo)
	decided.Wait()
	if n := most.Load(); n > 0 {
		t.Errorf("%d transactions of the kind ran at once", n)
	}
}

// A free slot is filled while other jobs of the kind still run.
func TestFreeSlotsAreFilledContinuously(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		enqueue(t, d, 20, "mixed")
		letGo, stuck := make(chan struct{}), make(chan struct{})
		var n atomic.Int64
		var others sync.WaitGroup
		others.Add(19)
		start(t, newRunner(d, job.Table{"mixed": {Limit: 2, Net: func(context.Context, *db.DB, job.Job) error {
			if n.Add(1) == 1 {
				close(stuck)
				<-letGo
				return nil
			}
			others.Done()
			return nil
		}}}))
		<-stuck
		others.Wait() // the other jobs complete in one slot, while the first job occupies the other
		close(letGo)
	})
}

// logged collects log entries.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestPanickingPeriodicWorkIsLoggedAndRunsAgain(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, _ *dbtest.Clock) {
		var log logged
		ran := make(chan int)
		n := 0
		r := job.NewRunner(d, nil, []job.Periodic{{Name: "sweep", Every: time.Hour, Run: func(ctx context.Context) error {
			if _, limited := ctx.Deadline(); !limited {
				t.Error("periodic work has no time limit")
			}
			n++
			ran <- n
			if n == 1 {
				panic("out of cheese")
			}
			return nil
		}}}, slog.New(slog.NewTextHandler(&log, nil)))
		ticks := r.ManualTicks()
		start(t, r)
		if n := <-ran; n != 1 {
			t.Errorf("run %d", n)
		}
		ticks(time.Hour) <- time.Time{}
		if n := <-ran; n != 2 {
			t.Errorf("run %d", n)
		}
		if text := log.String(); !strings.Contains(text, "out of cheese") || !strings.Contains(text, "name=sweep") {
			t.Errorf("the panic is not logged: %s", text)
		}
	})
}

// After the database's clock was advanced by an interval of periodic work, the work runs at once.
func TestPeriodicWorkFollowsTheDatabasesClock(t *testing.T) {
	dbtest.RunURL(t, func(t *testing.T, url string) {
		d := dbtest.Open(t, db.Options{URL: url, AdjustableClock: true})
		hours, days := make(chan bool), make(chan bool)
		each := func(name string, every time.Duration, ran chan bool) job.Periodic {
			return job.Periodic{Name: name, Every: every, Run: func(context.Context) error { ran <- true; return nil }}
		}
		r := newRunner(d, nil, each("hours", time.Hour, hours), each("days", 24*time.Hour, days))
		r.ManualTicks()
		start(t, r)
		<-hours
		<-days
		advance := func(by time.Duration) {
			dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error { return db.AdvanceClock(ctx, tx, by) })
		}
		for range 3 {
			advance(time.Hour)
			<-hours
		}
		select {
		case <-days:
			t.Error("the work of each day ran after some hours")
		default:
		}
		advance(21 * time.Hour)
		<-hours
		<-days
	})
}

// The runner renews the lease of running periodic work, so no other runner starts it. If the lease is lost
// nevertheless, the work is canceled.
func TestLeaseOfPeriodicWorkIsRenewed(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		began, end := make(chan context.Context), make(chan struct{})
		p := job.Periodic{Name: "sweep", Every: time.Hour, Run: func(ctx context.Context) error {
			began <- ctx
			<-end
			return ctx.Err()
		}}
		r := newRunner(d, nil, p)
		ticks := r.ManualTicks()
		start(t, r)
		ctx := <-began
		renewed := func() {
			ticks(job.RenewEvery) <- time.Time{}
			ticks(job.RenewEvery) <- time.Time{} // the runner receives a tick only after the renewal of the previous one
		}
		other := newRunner(d, nil)
		mine := job.Periodic{Name: "sweep", Every: time.Hour, Run: func(context.Context) error {
			t.Error("a second runner runs what the first one still runs")
			return nil
		}}
		for range 3 {
			clock.Advance(time.Hour)
			renewed()
			if err := other.RunLeased(t.Context(), mine); err != nil {
				t.Error(err)
			}
		}
		if ctx.Err() != nil {
			t.Errorf("the work was canceled: %v", context.Cause(ctx))
		}
		clock.Advance(2 * time.Hour)
		ran := false
		mine.Run = func(context.Context) error { ran = true; return nil }
		if err := other.RunLeased(t.Context(), mine); err != nil || !ran {
			t.Errorf("an expired lease was not taken over: %v", err)
		}
		select { // the previous renewal may have detected the loss already
		case ticks(job.RenewEvery) <- time.Time{}:
			<-ctx.Done()
		case <-ctx.Done():
		}
		close(end)
	})
}

// Periodic work that ends because its process stops leaves no lease: the next process runs the work at once.
func TestStoppedPeriodicWorkRunsAtOnceInTheNextProcess(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		began := make(chan bool)
		p := job.Periodic{Name: "sweep", Every: time.Hour, Run: func(ctx context.Context) error {
			began <- true
			<-ctx.Done()
			return ctx.Err()
		}}
		ctx, stop := context.WithCancel(t.Context())
		stopped := make(chan bool)
		go func() {
			newRunner(d, nil, p).Run(ctx)
			close(stopped)
		}()
		<-began
		stop()
		<-stopped
		ran := false
		p.Run = func(context.Context) error { ran = true; return nil }
		if err := newRunner(d, nil).RunLeased(t.Context(), p); err != nil || !ran {
			t.Errorf("the next process did not run the work: %v", err)
		}
	})
}
