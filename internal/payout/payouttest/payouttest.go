// Package payouttest has the test suites of rails: [Run] for a whole rail, from the queue to the confirmation, and
// [RunNodes] for broadcasting transactions. A test of a rail supplies a real or simulated network or bank, and a
// function that breaks the connection to it.
package payouttest

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
)

// Connection is the state of the connection to the network or bank.
type Connection int

// Connections that a test can set.
const (
	Fine       Connection = iota
	LostBefore            // requests do not arrive
	LostAfter             // requests arrive, but their answers are lost
)

// Outside is a rail with the network or bank behind it.
type Outside struct {
	Rail payout.Rail
	// Output returns an output that the rail can pay. The suite sets its company, payroll and payment.
	Output func() payout.Output
	// Unpayable returns an output that the rail can never pay.
	Unpayable func() payout.Output
	// Set sets the state of the connection.
	Set func(Connection)
	// Advance makes the network or bank confirm what it received: it mines a block, or the bank answers. The suite then
	// runs the rail's jobs.
	Advance func()
	// Revert undoes the last confirmation: the block leaves the chain, or the bank returns the payment. The output then
	// has the state Reverted.
	Revert   func(o payout.Output)
	Reverted payout.State
	// Executed returns the number of payments of the output that the network or bank accepted.
	Executed func(o payout.Output) int
}

const (
	company = "com_1"
	payroll = "prl_1"
)

// scene is the state of one case.
type scene struct {
	Outside
	t      *testing.T
	d      *db.DB
	clock  *dbtest.Clock
	rails  *payout.Rails
	runner *job.Runner
	added  int
}

// Run checks the contract of payout.Rail, on every database, with a new network or bank for each case.
func Run(t *testing.T, open func(t *testing.T, d *db.DB, clock *dbtest.Clock) Outside) {
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
			dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
				s := &scene{Outside: open(t, d, clock), t: t, d: d, clock: clock}
				var err error
				s.rails, err = payout.New(s.Rail)
				s.must(err)
				table := s.rails.Jobs()
				nothing := job.Entry{Tx: func(context.Context, *db.Tx, job.Job) error { return nil }}
				table[payout.JobChanged], table[chain.JobOutput] = nothing, nothing
				s.runner = job.NewRunner(d, table, nil, slog.New(slog.NewTextHandler(io.Discard, nil)))
				check(s)
				s.must(d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
					report, err := ledger.Check(ctx, tx)
					if len(report.Problems) > 0 {
						t.Errorf("ledger: %v", report.Problems)
					}
					return err
				}))
			})
		})
	}
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// run runs the jobs that are due and the rail's periodic work.
func (s *scene) run() {
	s.t.Helper()
	s.must(s.runner.Drain(s.t.Context()))
	for _, p := range s.rails.Periodic(s.d) {
		s.must(p.Run(s.t.Context()))
	}
	s.must(s.runner.Drain(s.t.Context()))
}

// confirm lets time pass and the network or bank confirm what it received.
func (s *scene) confirm() {
	s.t.Helper()
	for range 3 {
		s.clock.Advance(time.Hour)
		s.run()
		s.Advance()
		s.run()
	}
}

// add queues an output and posts the amount owed for it, as a release does.
func (s *scene) add(o payout.Output) payout.Output {
	s.t.Helper()
	s.added++
	o.CompanyID, o.PayrollID, o.PaymentID, o.Rail, o.Input = company, payroll, fmt.Sprintf("pmt_%d", s.added),
		s.Rail.Name(), o.Amount
	outs := []payout.Output{o}
	s.must(s.d.Write(s.t.Context(), func(_ context.Context, tx *db.Tx) error {
		outs[0] = o
		if err := payout.Add(tx, outs); err != nil {
			return err
		}
		return ledger.Post(tx, ledger.Journal{CompanyID: company, SourceType: "test", SourceID: outs[0].ID, Purpose: "owe",
			Lines: []ledger.Line{
				ledger.Debit(ledger.FXPosition, "", o.Amount), ledger.Credit(ledger.OutputPayable, outs[0].ID, o.Amount),
			}})
	}))
	return outs[0]
}

func (s *scene) get(o payout.Output) payout.Output {
	s.t.Helper()
	s.must(s.d.Read(s.t.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
		o, err = payout.Get(ctx, tx, o.CompanyID, o.ID)
		return err
	}))
	return o
}

// want checks the state of an output and the number of its payments that were accepted.
func (s *scene) want(o payout.Output, state payout.State, executed int) payout.Output {
	s.t.Helper()
	got := s.get(o)
	if n := s.Executed(got); got.State != state || n != executed {
		s.t.Fatalf("output %s is %s (%s) and was paid %d times; want %s and %d", o.ID, got.State, got.Reason, n, state,
			executed)
	}
	return got
}

func (s *scene) owed(o payout.Output) money.Amount {
	s.t.Helper()
	var owed money.Amount
	s.must(s.d.Read(s.t.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
		owed, err = ledger.Balance(ctx, tx, o.CompanyID, ledger.OutputPayable, o.ID, o.Amount.Asset())
		return err
	}))
	return owed
}

func (s *scene) preparedOnce() {
	a, b := s.add(s.Output()), s.add(s.Output())
	var g errgroup.Group
	for range 2 {
		g.Go(func() error { return s.Rail.Prepare(s.t.Context(), s.d, company) })
	}
	if err := g.Wait(); err != nil { // one of two concurrent calls may fail
		s.t.Logf("prepared concurrently: %v", err)
	}
	s.must(s.Rail.Prepare(s.t.Context(), s.d, company))
	first := []payout.Output{s.want(a, payout.Prepared, 0), s.want(b, payout.Prepared, 0)}
	s.must(s.Rail.Prepare(s.t.Context(), s.d, company))
	for i, o := range []payout.Output{a, b} {
		again := s.want(o, payout.Prepared, 0)
		if again.BatchID == "" || again.BatchID != first[i].BatchID || again.Version != first[i].Version {
			s.t.Errorf("prepared again: %+v, before %+v", again, first[i])
		}
		if owed := s.owed(o); !owed.IsZero() {
			s.t.Errorf("%s is still owed to an output that is prepared", owed)
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
		s.must(s.Rail.Prepare(s.t.Context(), s.d, company))
		s.confirm()
	}
	s.want(o, payout.Fulfilled, 1)
}

func (s *scene) unknownOutcome() {
	for _, lost := range []Connection{LostAfter, LostBefore} {
		o := s.add(s.Output())
		s.must(s.Rail.Prepare(s.t.Context(), s.d, company))
		s.Set(lost)
		for range 2 {
			_ = s.runner.Drain(s.t.Context()) // a job may fail and is retried
			if got := s.get(o); got.State != payout.UnknownOutcome && got.State != payout.Prepared {
				s.t.Fatalf("output is %s without an answer", got.State)
			}
			s.clock.Advance(time.Minute)
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
	before := s.want(o, payout.Fulfilled, 1)
	s.Revert(before)
	s.run()
	after := s.want(o, s.Reverted, 1)
	if s.Reverted == payout.Returned {
		if owed := s.owed(o); owed != o.Amount {
			s.t.Errorf("%s is owed of a returned output, want %s", owed, o.Amount)
		}
		return
	}
	s.confirm()
	if again := s.want(o, payout.Fulfilled, 1); again.TxID != after.TxID {
		s.t.Errorf("paid by %s, and again by %s", after.TxID, again.TxID)
	}
}

func (s *scene) failsAlone() {
	bad, good := s.add(s.Unpayable()), s.add(s.Output())
	s.run()
	s.confirm()
	s.want(good, payout.Fulfilled, 1)
	if got := s.want(bad, payout.Failed, 0); got.Reason == "" {
		s.t.Error("an output failed without a reason")
	}
	if owed := s.owed(bad); owed != bad.Amount {
		s.t.Errorf("%s is owed to a failed output, want %s", owed, bad.Amount)
	}
}

func (s *scene) pause(why string) {
	s.t.Helper()
	s.must(s.d.Write(s.t.Context(), func(ctx context.Context, tx *db.Tx) error { return payout.SetPaused(ctx, tx, why) }))
}

func (s *scene) paused() {
	s.pause("a test")
	queued := s.add(s.Output())
	s.confirm()
	s.want(queued, payout.Queued, 0)
	s.pause("")
	s.must(s.Rail.Prepare(s.t.Context(), s.d, company))
	s.want(queued, payout.Prepared, 0)
	s.pause("a test")
	s.confirm()
	s.want(queued, payout.Prepared, 0)
	s.pause("")
	s.confirm()
	s.want(queued, payout.Fulfilled, 1)
}

func (s *scene) onHold() {
	o := s.add(s.Output())
	s.must(s.d.Write(s.t.Context(), func(ctx context.Context, tx *db.Tx) error {
		n, err := payout.Hold(ctx, tx, company, payroll)
		if err == nil && n != 1 {
			err = fmt.Errorf("%d outputs are on hold, want 1", n)
		}
		return err
	}))
	s.confirm()
	s.want(o, payout.Queued, 0)
	s.must(s.d.Write(s.t.Context(), func(ctx context.Context,
		tx *db.Tx) error {
		return payout.Resume(ctx, tx, company, payroll)
	}))
	s.confirm()
	s.want(o, payout.Fulfilled, 1)
}
