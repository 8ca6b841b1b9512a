package job_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/testkit"
)

// A leader's work ends when another holder takes its expired lease, and begins again when the lease is free.
func TestLeaderWorksWhileItHoldsTheLease(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		ctx, stop := context.WithCancel(t.Context())
		begun, ended, reports := make(chan bool), make(chan error, 1), make(chan error, 10)
		done := make(chan bool)
		go func() {
			defer close(done)
			job.Leader{
				DB: d, Name: "leader", Holder: "a", Length: 30 * time.Millisecond, Pause: time.Millisecond,
				Report: func(err error) { reports <- err },
			}.Run(ctx, func(ctx context.Context) error {
				begun <- true
				<-ctx.Done()
				ended <- ctx.Err()
				return errors.New("the work ended")
			})
		}()
		lease := func(holder string, length time.Duration) bool {
			held, err := job.Lease(ctx, d, "leader", holder, length)
			testkit.Check(t, err)
			return held
		}
		<-begun
		if lease("b", time.Hour) {
			t.Error("another holder got the lease of a leader at work")
		}
		clock.Advance(time.Minute) // the lease expires before the leader renews it
		for !lease("b", time.Hour) {
			clock.Advance(time.Minute)
		}
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the work of a leader that lost its lease ended with %v", err)
		}
		if err := <-reports; err == nil || err.Error() != "the work ended" {
			t.Errorf("reported %v", err)
		}
		clock.Advance(2 * time.Hour)
		<-begun
		stop()
		<-done
		if held, err := job.Lease(t.Context(), d, "leader", "b", time.Hour); err != nil || !held {
			t.Errorf("a leader that ended kept its lease: %v", err)
		}
	})
}
