package lightning_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	rail "github.com/stipend/stipend/internal/payout/lightning"
	"github.com/stipend/stipend/internal/payout/payouttest"
)

// scene is a fixture with a rail and its node.
type scene struct {
	*payouttest.Fixture
	*outside
	r *rail.Rail
}

func run(t *testing.T, check func(s *scene)) {
	t.Helper()
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		s := &scene{Fixture: f, outside: newOutside(f)}
		s.r = s.rail(f)
		s.Start(s.r, nil)
		check(s)
	})
}

// pay queues an output of 20,000 satoshis.
func (s *scene) pay(to string) payout.Output {
	s.Helper()
	return s.Queue(payout.Output{Rail: payout.RailLightning, Amount: sats(20_000), Address: to})[0]
}

// later lets time pass and runs the jobs.
func (s *scene) later(by time.Duration) {
	s.Helper()
	s.Clock.Advance(by)
	s.Must(s.r.Periodic(s.DB)[0].Run(s.Context()))
	s.Drain()
}

// paymentOf returns the payment of an output that did not fail.
func (s *scene) paymentOf(o payout.Output) (p rail.Payment) {
	s.Helper()
	s.Read(func(ctx context.Context, tx *db.Tx) error {
		all, err := rail.ForOutputs(ctx, tx, o.CompanyID, []string{o.ID})
		p = all[o.ID]
		return err
	})
	return p
}

func (s *scene) owed(o payout.Output) money.Amount {
	return s.Balance(ledger.OutputPayable, o.ID, money.BTC)
}

// The books contain the amount and the fee, rounded up, and the payment has its proof.
func TestAPaymentIsBookedWithItsFeeAndProof(t *testing.T) {
	run(t, func(s *scene) {
		o := s.pay("ana@wallet.example")
		s.Drain()
		paid := s.Want(o.ID, payout.Fulfilled, "")
		p := s.paymentOf(o)
		proof, err := lightning.ParseHash(p.Preimage)
		if err != nil || paid.TxID != p.Hash || paid.Proof != p.Preimage || proof.String() == p.Hash || p.Fee != 2 {
			t.Errorf("%+v, %v", p, err)
		}
		if got := s.Balance(ledger.ChannelBalance, "", money.BTC); got != sats(-2) { // the test owed it from there
			t.Errorf("account 1001 is %s", got)
		}
		if got := s.Balance(ledger.NetworkFee, rail.Source, money.BTC); got != sats(2) {
			t.Errorf("fees are %s", got)
		}
		if got := s.Balance(ledger.InTransit, p.ID, money.BTC); !got.IsZero() {
			t.Errorf("%s is in transit", got)
		}
	})
}

// A payment that its payee holds is sent. When it fails, the output gets another invoice, and fails in the end.
func TestAPaymentWithoutARouteFailsInTheEndAndIsOwedAgain(t *testing.T) {
	run(t, func(s *scene) {
		s.payer.FailPayments(lightning.FailureNoRoute)
		o := s.pay("ana@wallet.example")
		s.Drain()
		s.later(time.Hour)
		s.Want(o.ID, payout.Failed, rail.ReasonNoRoute)
		if s.owed(o) != o.Amount {
			t.Errorf("%s is owed", s.owed(o))
		}
		s.payer.FailPayments("")
		fixed := s.Load(o.ID)
		fixed.Address = s.invoice(0)
		s.Write(func(ctx context.Context, tx *db.Tx) error { return payout.Correct(ctx, tx, fixed) })
		s.Drain()
		s.Want(o.ID, payout.Fulfilled, "")
		if s.payee.PaidFor(fixed.Address) != 1 || s.payer.Succeeded() != 1 {
			t.Errorf("paid %d times", s.payer.Succeeded())
		}
	})
}

// An output whose payment is on its way is neither repeated nor failed.
func TestAHeldPaymentIsFollowed(t *testing.T) {
	run(t, func(s *scene) {
		s.payer.HoldPayments()
		o := s.pay(s.invoice(20_000))
		s.Drain()
		for range 3 {
			s.later(time.Hour)
			s.Want(o.ID, payout.Sent, "")
		}
		s.payer.ReleasePayments("")
		s.later(time.Hour)
		s.Want(o.ID, payout.Fulfilled, "")
		if n := s.payer.Succeeded(); n != 1 {
			t.Errorf("%d payments", n)
		}
	})
}

// late is a connection that delivers the first call to pay later.
type late struct {
	*outside
	call *lightning.PaymentParams
}

func (l *late) Pay(ctx context.Context, in lightning.PaymentParams) (lightning.Payment, error) {
	if l.call == nil {
		l.call = &in
		return lightning.Payment{}, errors.New("connection reset")
	}
	return l.outside.Pay(ctx, in)
}

// A call whose answer was lost may reach the node after a later call of the same payment has failed. The output gets
// no other payment before that is impossible.
func TestALateCallNeverPaysTwice(t *testing.T) {
	payouttest.RunFixture(t, func(f *payouttest.Fixture) {
		node := &late{outside: newOutside(f)}
		r, err := rail.New(rail.Config{Node: node, Network: "regtest", Resolver: node, Log: f.Log})
		f.Start(r, err)
		s := &scene{f, node.outside, r}
		s.payer.FailPayments(lightning.FailureNoRoute)
		o := s.pay("ana@wallet.example")
		s.Drain()
		s.later(2 * time.Minute) // the second call is answered: no route
		s.Want(o.ID, payout.UnknownOutcome, "")
		s.payer.FailPayments("")
		if p, err := node.outside.Pay(t.Context(), *node.call); err != nil || p.State != lightning.PaymentSucceeded {
			t.Fatalf("the first call: %+v, %v", p, err)
		}
		s.later(time.Hour)
		s.later(time.Hour)
		s.Want(o.ID, payout.Fulfilled, "")
		if n := s.payer.Succeeded(); n != 1 {
			t.Errorf("%d payments", n)
		}
	})
}

// A process that is killed after any of its writes leaves a state from which another one pays exactly once.
func TestAPaymentIsMadeOnceWhereverTheProgramIsKilled(t *testing.T) {
	for name, kill := range map[string]payouttest.Connection{
		"before the node has the call": payouttest.LostBefore, "after it has paid": payouttest.LostAfter,
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(s *scene) {
				o := s.pay("ana@wallet.example")
				s.Must(s.r.Prepare(s.Context(), s.DB, payouttest.Company))
				s.Want(o.ID, payout.Prepared, "")
				id := s.Load(o.ID).BatchID
				s.connection = kill
				_ = s.r.Send(s.Context(), s.DB, payouttest.Company, []string{id})
				s.Want(o.ID, payout.UnknownOutcome, "")
				s.connection = payouttest.Fine
				var g errgroup.Group
				for range 2 { // two other processes
					other := s.rail(s.Fixture)
					g.Go(func() error { return other.Send(s.Context(), s.DB, payouttest.Company, []string{id}) })
				}
				s.Must(g.Wait())
				s.later(time.Hour)
				s.Want(o.ID, payout.Fulfilled, "")
				if n := s.payer.Succeeded(); n != 1 {
					t.Errorf("%d payments", n)
				}
			})
		})
	}
}

// Two processes prepare and send concurrently.
func TestTwoProcessesPayOnce(t *testing.T) {
	run(t, func(s *scene) {
		var outs []payout.Output
		for range 5 {
			outs = append(outs, s.pay("ana@wallet.example"))
		}
		var g errgroup.Group
		for range 2 {
			other := s.rail(s.Fixture)
			g.Go(func() error { return other.Prepare(s.Context(), s.DB, payouttest.Company) })
		}
		s.Must(g.Wait())
		for range 2 {
			other := s.rail(s.Fixture)
			for _, o := range outs {
				id := s.Load(o.ID).BatchID
				g.Go(func() error { return other.Send(s.Context(), s.DB, payouttest.Company, []string{id}) })
			}
		}
		s.Must(g.Wait())
		s.later(time.Hour)
		for _, o := range outs {
			s.Want(o.ID, payout.Fulfilled, "")
		}
		if n := s.payer.Succeeded(); n != len(outs) {
			t.Errorf("%d payments of %d outputs", n, len(outs))
		}
	})
}

// An invoice is paid for one output only, in full, and while it is valid.
func TestAnInvoiceIsPaidForOneOutput(t *testing.T) {
	run(t, func(s *scene) {
		once := s.invoice(20_000)
		first := s.pay(once)
		s.Clock.Advance(time.Second)
		second := s.pay(once)
		s.Drain()
		s.later(time.Minute)
		s.Want(first.ID, payout.Fulfilled, "")
		s.Want(second.ID, payout.Failed, rail.ReasonInvoiceUsed)

		other := s.pay(s.invoice(19_999))
		old := s.invoice(0)
		s.Clock.Advance(31 * 24 * time.Hour)
		expired, nonsense := s.pay(old), s.pay("lnbcrt1nonsense")
		s.Drain()
		s.Want(other.ID, payout.Failed, rail.ReasonInvoiceAmount)
		s.Want(expired.ID, payout.Failed, rail.ReasonInvoiceExpired)
		s.Want(nonsense.ID, payout.Failed, payout.ReasonBadAddress)
		if n := s.payer.Succeeded(); n != 1 {
			t.Errorf("%d payments", n)
		}
	})
}

// An invoice that expires before the node has the call is never paid: the node refuses it.
func TestAnInvoiceThatExpiresInDoubtIsOwedAgain(t *testing.T) {
	run(t, func(s *scene) {
		s.connection = payouttest.LostBefore
		o := s.pay(s.invoice(20_000))
		s.Drain()
		s.Want(o.ID, payout.UnknownOutcome, "")
		s.Clock.Advance(31 * 24 * time.Hour)
		s.connection = payouttest.Fine
		s.later(time.Hour)
		s.Want(o.ID, payout.Failed, rail.ReasonInvoiceExpired)
		if s.owed(o) != o.Amount || s.payer.Succeeded() != 0 {
			t.Errorf("%s is owed, %d payments", s.owed(o), s.payer.Succeeded())
		}
	})
}

// If the node cannot tell what became of a payment, staff records it as paid with its preimage, or as not paid once the
// node cannot start it any more. The output is paid once in any case.
func TestStaffDecidesWhatTheNodeDoesNotTell(t *testing.T) {
	run(t, func(s *scene) {
		decide := func(want error, how func(ctx context.Context, tx *db.Tx) error) {
			t.Helper()
			if err := s.DB.Write(s.Context(), how); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
		paid := func(o payout.Output, preimage string, fee int64) func(ctx context.Context, tx *db.Tx) error {
			return func(ctx context.Context, tx *db.Tx) error {
				return rail.MarkPaid(ctx, tx, o.CompanyID, o.ID, preimage, fee)
			}
		}
		failed := func(o payout.Output) func(ctx context.Context, tx *db.Tx) error {
			return func(ctx context.Context, tx *db.Tx) error { return rail.MarkFailed(ctx, tx, o.CompanyID, o.ID) }
		}
		s.connection = payouttest.LostAfter
		first := s.pay(s.invoice(20_000))
		s.Drain()
		s.Want(first.ID, payout.UnknownOutcome, "")
		hash, err := lightning.ParseHash(s.paymentOf(first).Hash)
		s.Must(err)
		known, err := s.Payer.TrackPayment(s.Context(), hash)
		s.Must(err)
		decide(rail.ErrPreimage, paid(first, hash.String(), 2))
		decide(rail.ErrPreimage, paid(first, "", 2))
		decide(rail.ErrFee, paid(first, known.Preimage, 1_000))
		decide(rail.ErrMayStart, failed(first))
		decide(nil, paid(first, known.Preimage, 2))
		decide(rail.ErrDecided, paid(first, known.Preimage, 2))
		decide(rail.ErrDecided, failed(first))
		if got := s.Want(first.ID, payout.Fulfilled, ""); got.Proof != known.Preimage {
			t.Errorf("%+v", got)
		}

		s.connection = payouttest.LostBefore
		second := s.pay("ana@wallet.example")
		s.Drain()
		s.Clock.Advance(2 * time.Hour)
		decide(nil, failed(second))
		s.Want(second.ID, payout.Queued, rail.ReasonInvoiceExpired)
		s.connection = payouttest.Fine
		s.later(time.Hour)
		s.Want(first.ID, payout.Fulfilled, "")
		s.Want(second.ID, payout.Fulfilled, "")
		if s.payer.Succeeded() != 2 || s.Balance(ledger.NetworkFee, rail.Source, money.BTC) != sats(4) {
			t.Errorf("%d payments, fees of %s", s.payer.Succeeded(), s.Balance(ledger.NetworkFee, rail.Source, money.BTC))
		}
	})
}

// Payments wait while the channels have too little, and while the node does not answer.
func TestPaymentsWaitForTheNode(t *testing.T) {
	run(t, func(s *scene) {
		s.payer.RemoveFunds(985_000)
		o := s.pay("ana@wallet.example")
		s.Drain()
		s.Want(o.ID, payout.Queued, "")
		if got := s.Delays(); len(got) != 1 || got[0] != "insufficient_funds 1 0.00020000 BTC lightning" {
			t.Errorf("%q", got)
		}
		s.payer.Stop()
		s.later(time.Hour)
		s.Want(o.ID, payout.Queued, "")
		s.Must(s.payer.Restart())
		s.payer.Fund(100_000)
		s.later(time.Hour)
		s.Want(o.ID, payout.Fulfilled, "")
	})
}

// A payment is followed only at the node that has it.
func TestAnotherNodeIsNotAskedForAPayment(t *testing.T) {
	run(t, func(s *scene) {
		s.connection = payouttest.LostAfter
		o := s.pay("ana@wallet.example")
		s.Drain()
		other := newOutside(s.Fixture)
		r := other.rail(s.Fixture)
		id := s.Load(o.ID).BatchID
		s.Clock.Advance(40 * 24 * time.Hour)
		s.Must(r.Send(s.Context(), s.DB, payouttest.Company, []string{id}))
		s.Want(o.ID, payout.UnknownOutcome, "")
		s.connection = payouttest.Fine
		s.later(time.Hour)
		s.Want(o.ID, payout.Fulfilled, "")
	})
}

// A payee whose invoice ends the route at an expensive channel of their own gets little: small payments are not made,
// and the fee is limited.
func TestTheFeeThatAPayeeCanTakeIsLimited(t *testing.T) {
	run(t, func(s *scene) {
		queue := func(n int64) payout.Output {
			return s.Queue(payout.Output{Rail: payout.RailLightning, Amount: sats(n), Address: s.invoice(n)})[0]
		}
		small, least, large := queue(999), queue(1_000), queue(100_000)
		s.Drain()
		s.Want(small.ID, payout.Failed, rail.ReasonAmountTooSmall)
		for o, want := range map[string]int64{least.ID: 10, large.ID: 300} {
			paid := s.Want(o, payout.Fulfilled, "")
			if got := s.paymentOf(paid).MaxFee; got != want {
				t.Errorf("the largest fee of %s is %d satoshis, want %d", paid.Amount, got, want)
			}
		}
	})
}

// erring is a node whose first call to pay returns an error.
type erring struct {
	*outside
	err error
}

func (e *erring) Pay(ctx context.Context, in lightning.PaymentParams) (lightning.Payment, error) {
	if err := e.err; err != nil {
		e.err = nil
		return lightning.Payment{}, err
	}
	return e.outside.Pay(ctx, in)
}

// Only an error that refuses the request proves that there will be no payment. After any other error the outcome is
// unknown, and the same invoice is paid later.
func TestOnlyARefusalFailsAnOutput(t *testing.T) {
	for _, c := range []struct {
		err     lightning.Error
		refused bool
	}{
		{lightning.Error{Code: 1, Message: "context canceled"}, false},
		{lightning.Error{Code: 2, Message: "server is shutting down"}, false},
		{lightning.Error{Code: 4, Message: "context deadline exceeded"}, false},
		{lightning.Error{Code: 13, Message: "internal error"}, false},
		{lightning.Error{Code: 14, Message: "transport is closing"}, false},
		{lightning.Error{Code: 2, Message: "self-payments not allowed"}, true},
		{lightning.Error{Code: 2, Message: "invoice expired. Valid until 2026-01-01"}, true},
		{lightning.Error{Code: 3, Message: "proto: syntax error"}, true},
	} {
		t.Run(c.err.Message, func(t *testing.T) {
			payouttest.RunFixture(t, func(f *payouttest.Fixture) {
				node := &erring{newOutside(f), &c.err}
				r, err := rail.New(rail.Config{Node: node, Network: "regtest", Resolver: node, Log: f.Log})
				f.Start(r, err)
				s := &scene{f, node.outside, r}
				o := s.pay(s.invoice(20_000))
				s.Must(r.Prepare(s.Context(), s.DB, payouttest.Company))
				id := s.Load(o.ID).BatchID
				node.err = &c.err
				s.Must(r.Send(s.Context(), s.DB, payouttest.Company, []string{id}))
				if c.refused {
					s.Want(o.ID, payout.Failed, rail.ReasonRefused)
					return
				}
				s.Want(o.ID, payout.UnknownOutcome, "")
				s.later(time.Hour)
				s.Want(o.ID, payout.Fulfilled, "")
			})
		})
	}
}

// A node that refuses calls because of its macaroon fails no output.
func TestAMacaroonWithoutPermissionFailsNoOutput(t *testing.T) {
	run(t, func(s *scene) {
		o := s.pay(s.invoice(0))
		s.Must(s.r.Prepare(s.Context(), s.DB, payouttest.Company))
		s.payer.Lock()
		s.Drain()
		s.Want(o.ID, payout.UnknownOutcome, "")
		s.payer.Unlock()
		s.later(time.Hour)
		s.Want(o.ID, payout.Fulfilled, "")
	})
}

func TestNewRefusesMissingDependencies(t *testing.T) {
	if _, err := rail.New(rail.Config{}); err == nil {
		t.Error("no error")
	}
}
