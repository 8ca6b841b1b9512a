package payouttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/webhook"
)

// Company and Payroll own the outputs of a Fixture.
const (
	Company = "com_1"
	Payroll = "prl_1"
)

// Fixture is a database with one rail and the runner of its jobs.
type Fixture struct {
	*testing.T
	DB     *db.DB
	Clock  *dbtest.Clock
	Log    *slog.Logger
	Rails  *payout.Rails
	Runner *job.Runner

	mu      sync.Mutex
	changed []payout.Changed
}

// RunFixture runs f on every database and then checks the ledger.
func RunFixture(t *testing.T, f func(f *Fixture)) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		fixture := &Fixture{T: t, DB: d, Clock: clock, Log: slog.New(slog.DiscardHandler)}
		f(fixture)
		fixture.CheckLedger()
	})
}

// Start uses a rail and creates the runner of its jobs. It fails the test if err, the error of the rail's constructor,
// is not nil.
func (f *Fixture) Start(rail payout.Rail, err error) {
	f.Helper()
	f.Must(err)
	f.Rails, err = payout.New(rail)
	f.Must(err)
	table := f.Rails.Jobs()
	table[chain.JobOutput] = job.Entry{Tx: func(context.Context, *db.Tx, job.Job) error { return nil }}
	table[payout.JobChanged] = job.Entry{Tx: func(_ context.Context, _ *db.Tx, j job.Job) error {
		var c payout.Changed
		err := j.Decode(&c)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.changed = append(f.changed, c)
		return err
	}}
	f.Runner = job.NewRunner(f.DB, table, nil, f.Log)
}

// Changed returns the payloads of the payout.changed jobs that ran.
func (f *Fixture) Changed() []payout.Changed {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}

// Must fails the test if err is not nil.
func (f *Fixture) Must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// Write runs fn in a database transaction.
func (f *Fixture) Write(fn func(context.Context, *db.Tx) error) {
	f.Helper()
	f.Must(f.DB.Write(f.Context(), fn))
}

// Read runs fn in a database transaction that only reads.
func (f *Fixture) Read(fn func(context.Context, *db.Tx) error) {
	f.Helper()
	f.Must(f.DB.Read(f.Context(), fn))
}

// Drain runs the jobs that are due.
func (f *Fixture) Drain() {
	f.Helper()
	f.Must(f.Runner.Drain(f.Context()))
}

// Queue adds outputs and posts the amounts owed for them, as the release of a payroll does. It sets the company and
// the payroll of outputs without one, and returns the outputs with their IDs.
func (f *Fixture) Queue(outs ...payout.Output) (queued []payout.Output) {
	f.Helper()
	f.Write(func(_ context.Context, tx *db.Tx) error {
		queued = append([]payout.Output{}, outs...)
		for i := range queued {
			o := &queued[i]
			if o.CompanyID == "" {
				o.CompanyID, o.PayrollID = Company, Payroll
			}
			if o.PaymentID == "" {
				o.PaymentID = tx.NewID("pmt")
			}
			if o.Input == (money.Amount{}) {
				o.Input = o.Amount
			}
		}
		if err := payout.Add(tx, queued); err != nil {
			return err
		}
		for _, o := range queued {
			code, dim := ledger.FXPosition, ""
			if o.Amount.Asset().IsCrypto() {
				code, dim = ledger.WalletOf(o.Amount.Asset(), string(o.Rail))
			}
			if err := ledger.Post(tx, ledger.Journal{CompanyID: o.CompanyID, SourceType: "test", SourceID: o.ID, Purpose: "owe",
				Lines: []ledger.Line{
					ledger.Debit(code, dim, o.Amount), ledger.Credit(ledger.OutputPayable, o.ID, o.Amount),
				}}); err != nil {
				return err
			}
		}
		return nil
	})
	return queued
}

// Load returns an output of Company.
func (f *Fixture) Load(id string) (o payout.Output) {
	f.Helper()
	f.Read(func(ctx context.Context, tx *db.Tx) (err error) {
		o, err = payout.Get(ctx, tx, Company, id)
		return err
	})
	return o
}

// Want returns an output of Company and fails the test unless it has the given state and reason. An empty reason is
// not compared.
func (f *Fixture) Want(id string, state payout.State, reason string) payout.Output {
	f.Helper()
	o := f.Load(id)
	if o.State != state || reason != "" && o.Reason != reason {
		f.Fatalf("output %s is %s (%s), want %s (%s)", id, o.State, o.Reason, state, reason)
	}
	return o
}

// Balance returns the balance of Company on a ledger account.
func (f *Fixture) Balance(code ledger.Code, dim string, asset money.Asset) (a money.Amount) {
	f.Helper()
	f.Read(func(ctx context.Context, tx *db.Tx) (err error) {
		a, err = ledger.Balance(ctx, tx, Company, code, dim, asset)
		return err
	})
	return a
}

// CheckLedger fails the test if the ledger has problems.
func (f *Fixture) CheckLedger() {
	f.Helper()
	f.Read(func(ctx context.Context, tx *db.Tx) error {
		report, err := ledger.Check(ctx, tx)
		if len(report.Problems) > 0 {
			f.Errorf("ledger: %v", report.Problems)
		}
		return err
	})
}

// Pause pauses payouts for a reason, or resumes them if it is empty.
func (f *Fixture) Pause(why string) {
	f.Helper()
	f.Write(func(ctx context.Context, tx *db.Tx) error { return payout.SetPaused(ctx, tx, why) })
}

// Paused returns the reason for which payouts are paused, or "".
func (f *Fixture) Paused() (why string) {
	f.Helper()
	f.Read(func(ctx context.Context, tx *db.Tx) (err error) {
		why, err = payout.Paused(ctx, tx)
		return err
	})
	return why
}

// Hold keeps the queued outputs of Payroll from being prepared and returns their number.
func (f *Fixture) Hold() (n int64) {
	f.Helper()
	f.Write(func(ctx context.Context, tx *db.Tx) (err error) {
		n, err = payout.Hold(ctx, tx, Company, Payroll)
		return err
	})
	return n
}

// Resume ends the hold of the outputs of Payroll.
func (f *Fixture) Resume() {
	f.Helper()
	f.Write(func(ctx context.Context, tx *db.Tx) error { return payout.Resume(ctx, tx, Company, Payroll) })
}

// Delays returns the payout.delayed events of Company as texts: the reason, the number of waiting outputs, their
// amount, currency and network.
func (f *Fixture) Delays() (all []string) {
	f.Helper()
	f.Read(func(ctx context.Context, tx *db.Tx) error {
		rows, err := tx.Query(ctx, "SELECT data FROM events WHERE company_id = $1 AND name = $2 ORDER BY sequence", Company,
			webhook.PayoutDelayed.Name)
		all, err = db.Collect(rows, err, func(r *db.Rows) (string, error) {
			var text string
			var d struct {
				Reason, Currency, Network string
				Amount                    json.Number
				Waiting                   int
			}
			err := r.Scan(&text)
			if err == nil {
				err = json.Unmarshal([]byte(text), &d)
			}
			return fmt.Sprintf("%s %d %s %s %s", d.Reason, d.Waiting, d.Amount, d.Currency, d.Network), err
		})
		return err
	})
	return all
}

// Connection is the state of a simulated connection to the network or bank.
type Connection int

// Connections that a test can set.
const (
	Fine       Connection = iota
	LostBefore            // requests do not arrive
	LostAfter             // requests arrive, but their answers are lost
)

// Send makes a request over the connection. It returns an error if the request or its answer is lost.
func (c Connection) Send(request func() error) error {
	if c == LostBefore {
		return errors.New("connection refused")
	}
	if err := request(); err != nil || c != LostAfter {
		return err
	}
	return errors.New("connection reset")
}

// Witness is a second node of a chain. It does not answer while it is down.
type Witness struct {
	chain.Source
	Down bool
}

// Tip implements chain.Source.
func (w *Witness) Tip(ctx context.Context) (int64, string, error) {
	if w.Down {
		return 0, "", errors.New("connection refused")
	}
	return w.Source.Tip(ctx)
}
