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
)

func enqueue(t *testing.T, d *db.DB, n int, kind string) {
	t.Helper()
	err := d.Write(context.Background(), func(_ context.Context, tx *db.Tx) error {
		for range n {
			job.Enqueue(tx, job.New{CompanyID: "com_1", Kind: kind, Payload: map[string]string{"id": "x"}})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
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
				if err := job.NewRunner(d, table, nil, slog.New(slog.DiscardHandler)).Drain(context.Background()); err != nil {
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

func TestAFailedJobLeavesNothingAndComesBack(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		enqueue(t, d, 1, "flaky")
		broken := errors.New("broken")
		runs := 0
		r := job.NewRunner(d, job.Table{"flaky": {Tx: func(ctx context.Context, tx *db.Tx, j job.Job) error {
			runs++
			if err := db.SetSetting(ctx, tx, "flaky", "done"); err != nil {
				return err
			}
			if j.Attempt < 3 {
				return broken
			}
			return nil
		}}}, nil, slog.New(slog.DiscardHandler))
		for i, wantErr := range []error{broken, broken, nil, nil} {
			if err := r.Drain(context.Background()); !errors.Is(err, wantErr) {
				t.Fatalf("round %d: %v", i, err)
			}
			clock.Advance(time.Minute)
		}
		if runs != 3 {
			t.Errorf("%d runs", runs)
		}
		err := d.Read(context.Background(), func(ctx context.Context, tx *db.Tx) error {
			due, parked, err := job.Waiting(ctx, tx)
			if due != 0 || parked != 0 {
				t.Errorf("%d due, %d parked", due, parked)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// A job that always fails is parked, and a person has it run again. One that waits for what comes back by itself is not.
func TestAHopelessJobIsParkedNotDropped(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		table, broken := job.Table{}, true
		for kind, err := range map[string]error{"hopeless": errors.New("always"), "price": apierr.New(apierr.Unavailable, "rate_unavailable", "No price."),
			"list": fmt.Errorf("no list: %w", job.ErrWaits)} {
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
			_ = r.Drain(context.Background()) // it fails, that is the case
			clock.Advance(2 * time.Hour)
		}
		stand := func(due, parked int64) {
			t.Helper()
			if err := d.Read(context.Background(), func(ctx context.Context, tx *db.Tx) error {
				gotDue, gotParked, err := job.Waiting(ctx, tx)
				if gotDue != due || gotParked != parked {
					t.Errorf("%d due, %d parked; want %d and %d", gotDue, gotParked, due, parked)
				}
				list, failed := job.ListParked(ctx, tx, 10)
				if int64(len(list)) != parked || parked > 0 && (list[0].Kind != "hopeless" || !strings.Contains(list[0].Why, "always")) {
					t.Errorf("%+v", list)
				}
				return errors.Join(err, failed)
			}); err != nil {
				t.Fatal(err)
			}
		}
		stand(2, 1)
		retry := func(id string, want int64) {
			t.Helper()
			if err := d.Write(context.Background(), func(ctx context.Context, tx *db.Tx) error {
				n, err := job.Retry(ctx, tx, id)
				if n != want {
					t.Errorf("%d of %q run again, want %d", n, id, want)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		retry("job_none", 0)
		retry("", 1)
		stand(3, 0)
		broken = false
		if err := r.Drain(context.Background()); err != nil {
			t.Error(err)
		}
		stand(0, 0)
	})
}

func TestALeaseHasOneHolder(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		take := func(holder string) bool {
			held, err := job.Lease(context.Background(), d, "watcher", holder, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			return held
		}
		if !take("a") || take("b") || !take("a") {
			t.Error("the lease is not exclusive")
		}
		clock.Advance(2 * time.Minute)
		if !take("b") || take("a") {
			t.Error("a lease that ran out was not taken over")
		}
	})
}

func TestABadJobDoesNotSpoilThoseThatShareItsTransaction(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, _ *dbtest.Clock) {
		enqueue(t, d, 40, "good")
		enqueue(t, d, 1, "bad")
		broken := errors.New("broken")
		write := func(result error) job.Entry {
			return job.Entry{Tx: func(ctx context.Context, tx *db.Tx, j job.Job) error {
				return errors.Join(db.SetSetting(ctx, tx, j.ID, j.Kind), result)
			}}
		}
		r := job.NewRunner(d, job.Table{"good": write(nil), "bad": write(broken)}, nil, slog.New(slog.DiscardHandler))
		if err := r.Drain(context.Background()); !errors.Is(err, broken) {
			t.Error(err)
		}
		err := d.Read(context.Background(), func(ctx context.Context, tx *db.Tx) error {
			var good, bad int64
			err := tx.QueryRow(ctx, "SELECT SUM(CASE WHEN value = 'good' THEN 1 ELSE 0 END), SUM(CASE WHEN value = 'bad' THEN 1 ELSE 0 END) FROM settings").Scan(&good, &bad)
			if good != 40 || bad != 0 {
				t.Errorf("%d good jobs and %d bad ones left what they wrote", good, bad)
			}
			due, parked, waiting := job.Waiting(ctx, tx)
			if due != 1 || parked != 0 {
				t.Errorf("%d due, %d parked", due, parked)
			}
			return errors.Join(err, waiting)
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// A handler of many is given those of its kind that share a transaction. When it fails with them, each is tried alone.
func TestJobsOfAKindAreHandledTogether(t *testing.T) {
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
		r := job.NewRunner(d, job.Table{"many": {All: write}}, nil, slog.New(slog.DiscardHandler))
		if err := d.Write(t.Context(), func(_ context.Context, tx *db.Tx) error {
			for range 5 {
				job.Enqueue(tx, job.New{CompanyID: "com_1", Kind: "many", Payload: "good"})
			}
			job.Enqueue(tx, job.New{CompanyID: "com_1", Kind: "many", Payload: "bad"})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		want := func(done int64) {
			t.Helper()
			if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				var n int64
				err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM history").Scan(&n)
				if n != done {
					t.Errorf("%d jobs left what they wrote, want %d", n, done)
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
			t.Errorf("%d jobs at most were handled together, want 6", most)
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

// What a job asks for is done in its transaction. When that fails, the job itself is done all the same, and what it asked for comes
// back on its own.
func TestAChainIsOneTransactionUnlessItFails(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		broken := errors.New("broken")
		fail := false
		runs := map[string]int{}
		then := func(next string) job.Entry {
			return job.Entry{Tx: func(ctx context.Context, tx *db.Tx, j job.Job) error {
				runs[j.Kind]++
				db.History(tx, j.CompanyID, j.Kind, int64(runs[j.Kind]), "", j.Kind, "")
				if next != "" {
					job.Enqueue(tx, job.New{CompanyID: "com_1", Kind: next, Payload: map[string]string{"id": "x"}})
				}
				if j.Kind == "third" {
					var before int64
					if err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM history WHERE object_id = 'second'").Scan(&before); err != nil || before == 0 {
						return errors.Join(err, errors.New("what asked for it has left nothing"))
					}
					if fail {
						return broken
					}
				}
				return nil
			}}
		}
		r := job.NewRunner(d, job.Table{"first": then("second"), "second": then("third"), "third": then("")}, nil, slog.New(slog.DiscardHandler))
		commits := 0
		d.OnNotice("job.due", func() { commits++ })
		enqueue(t, d, 1, "first")
		commits = 0
		if err := r.Drain(t.Context()); err != nil || runs["second"] != 1 || runs["third"] != 1 {
			t.Errorf("%v, %v", runs, err)
		}
		if commits != 1 {
			t.Errorf("%d commits of jobs that were asked for, want 1", commits)
		}
		fail = true
		enqueue(t, d, 1, "first")
		if err := r.Drain(t.Context()); !errors.Is(err, broken) {
			t.Errorf("%v", err)
		}
		fail = false
		clock.Advance(time.Minute)
		if err := r.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			var done [3]int64
			for i, kind := range []string{"first", "second", "third"} {
				if err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM history WHERE object_id = $1", kind).Scan(&done[i]); err != nil {
					return err
				}
			}
			if done != [3]int64{2, 2, 2} {
				t.Errorf("done %v, want each twice", done)
			}
			due, parked, err := job.Waiting(ctx, tx)
			if due != 0 || parked != 0 {
				t.Errorf("%d due, %d parked", due, parked)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	})
}
