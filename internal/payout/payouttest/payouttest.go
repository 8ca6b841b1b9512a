// Package payouttest has the test suites of rails: [Run] for a whole rail, from the queue to the confirmation, and
// [RunNodes] for broadcasting transactions. A test of a rail supplies a real or simulated network or bank, and a
// function that breaks the connection to it. [Fixture] is a database with a rail, for the rail's own tests.
package payouttest

import (
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
)

// Outside is a rail with the network or bank behind it.
type Outside struct {
	Rail payout.Rail
	// Output returns an output that the rail can pay.
	Output func() payout.Output
	// Unpayable returns an output that the rail can never pay.
	Unpayable func() payout.Output
	// Set sets the state of the connection.
	Set func(Connection)
	// Advance makes the network or bank confirm the payments that it received: it mines a block, or the bank answers.
	// The suite then runs the rail's jobs.
	Advance func()
	// Revert undoes the last confirmation: the block leaves the chain, or the bank returns the payment. The output then
	// has the state Reverted. Revert is nil if confirmations are final.
	Revert   func(o payout.Output)
	Reverted payout.State
	// Executed returns the number of payments of the output that the network or bank accepted.
	Executed func(o payout.Output) int
}

// scene is the state of one test case.
type scene struct {
	Outside
	*Fixture
}

// Run checks the contract of payout.Rail, on every database, with a new network or bank for each case.
func Run(t *testing.T, open func(f *Fixture) Outside) {
	for name, check := range map[string]func(s *scene){
		"an output is prepared once and nothing is sent before it is stored": (*scene).preparedOnce,
		"an output is paid once and confirmed":                               (*scene).confirmed,
		"an unknown outcome never pays twice":                                (*scene).unknownOutcome,
		"a reverted confirmation changes the output":                         (*scene).reverted,
		"an output that can never be paid blocks no other":                   (*scene).failsAlone,
		"nothing is sent while payouts are paused":                           (*scene).paused,
		"an output on hold stays queued":                                     (*scene).onHold,
	} {
		t.Run(name, func(t *testing.T) {
			RunFixture(t, func(f *Fixture) {
				s := &scene{open(f), f}
				s.Start(s.Rail, nil)
				check(s)
			})
		})
	}
}

// run runs the jobs that are due and the rail's periodic work.
func (s *scene) run() {
	s.Helper()
	s.Drain()
	for _, p := range s.Rails.Periodic(s.DB) {
		s.Must(p.Run(s.Context()))
	}
	s.Drain()
}

// confirm advances the clock and makes the network or bank confirm the payments that it received.
func (s *scene) confirm() {
	s.Helper()
	for range 3 {
		s.Clock.Advance(time.Hour)
		s.run()
		s.Advance()
		s.run()
	}
}

func (s *scene) prepare() error { return s.Rail.Prepare(s.Context(), s.DB, Company) }

func (s *scene) add(o payout.Output) payout.Output {
	s.Helper()
	o.Rail = s.Rail.Name()
	return s.Queue(o)[0]
}

// want checks the state of an output and the number of its payments that were accepted.
func (s *scene) want(o payout.Output, state payout.State, executed int) payout.Output {
	s.Helper()
	got := s.Want(o.ID, state, "")
	if n := s.Executed(got); n != executed {
		s.Fatalf("output %s is %s (%s) and was paid %d times; want %d", o.ID, got.State, got.Reason, n, executed)
	}
	return got
}

func (s *scene) owed(o payout.Output) money.Amount {
	s.Helper()
	return s.Balance(ledger.OutputPayable, o.ID, o.Amount.Asset())
}

func (s *scene) preparedOnce() {
	a, b := s.add(s.Output()), s.add(s.Outside.Output())
	var g errgroup.Group
	for range 2 {
		g.Go(s.prepare)
	}
	if err := g.Wait(); err != nil { // not a failure of the test: either call may lose the race
		s.Logf("prepared concurrently: %v", err)
	}
	s.Must(s.prepare())
	first := []payout.Output{s.want(a, payout.Prepared, 0), s.want(b, payout.Prepared, 0)}
	s.Must(s.prepare())
	for i, o := range []payout.Output{a, b} {
		again := s.want(o, payout.Prepared, 0)
		if again.BatchID == "" || again.BatchID != first[i].BatchID || again.Version != first[i].Version {
			s.Errorf("prepared again: %+v, before %+v", again, first[i])
		}
		if owed := s.owed(o); !owed.IsZero() {
			s.Errorf("%s is still owed to an output that is prepared", owed)
		}
	}
	s.confirm()
	s.want(a, payout.Fulfilled, 1)
	s.want(b, payout.Fulfilled, 1)
}

func (s *scene) confirmed() {
	o := s.add(s.Output())
	s.run()
	s.confirm()
	s.want(o, payout.Fulfilled, 1)
	for range 2 { // repetitions do not pay again
		s.Must(s.prepare())
		s.confirm()
	}
	s.want(o, payout.Fulfilled, 1)
}

func (s *scene) unknownOutcome() {
	for _, lost := range []Connection{LostAfter, LostBefore} {
		o := s.add(s.Output())
		s.Must(s.prepare())
		s.Set(lost)
		for range 2 {
			_ = s.Runner.Drain(s.Context()) // a job may fail and is retried
			if got := s.Load(o.ID); got.State != payout.UnknownOutcome && got.State != payout.Prepared {
				s.Fatalf("output is %s without an answer", got.State)
			}
			s.Clock.Advance(time.Minute)
		}
		s.Set(Fine)
		s.confirm()
		s.want(o, payout.Fulfilled, 1)
	}
}

func (s *scene) reverted() {
	o := s.add(s.Output())
	s.run()
	s.confirm()
	if s.Revert == nil {
		s.want(o, payout.Fulfilled, 1)
		return
	}
	s.Revert(s.want(o, payout.Fulfilled, 1))
	s.run()
	after := s.want(o, s.Reverted, 1)
	if s.Reverted == payout.Returned {
		if owed := s.owed(o); owed != o.Amount {
			s.Errorf("%s is owed of a returned output, want %s", owed, o.Amount)
		}
		return
	}
	s.confirm()
	if again := s.want(o, payout.Fulfilled, 1); again.TxID != after.TxID {
		s.Errorf("paid by %s, and again by %s", after.TxID, again.TxID)
	}
}

func (s *scene) failsAlone() {
	bad, good := s.add(s.Unpayable()), s.add(s.Output())
	s.run()
	s.confirm()
	s.want(good, payout.Fulfilled, 1)
	if got := s.want(bad, payout.Failed, 0); got.Reason == "" {
		s.Error("an output failed without a reason")
	}
	if owed := s.owed(bad); owed != bad.Amount {
		s.Errorf("%s is owed to a failed output, want %s", owed, bad.Amount)
	}
}

func (s *scene) paused() {
	s.Pause("a test")
	queued := s.add(s.Output())
	s.confirm()
	s.want(queued, payout.Queued, 0)
	s.Pause("")
	s.Must(s.prepare())
	s.want(queued, payout.Prepared, 0)
	s.Pause("a test")
	s.confirm()
	s.want(queued, payout.Prepared, 0)
	s.Pause("")
	s.confirm()
	s.want(queued, payout.Fulfilled, 1)
}

func (s *scene) onHold() {
	o := s.add(s.Output())
	if n := s.Hold(); n != 1 {
		s.Errorf("%d outputs are on hold, want 1", n)
	}
	s.confirm()
	s.want(o, payout.Queued, 0)
	s.Resume()
	s.confirm()
	s.want(o, payout.Fulfilled, 1)
}
