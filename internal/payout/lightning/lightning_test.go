package lightning_test

import (
	"context"
	"errors"
	"strings"
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

// markFailed records as two members of staff do that the payment of an output was not made.
func (s *scene) markFailed(o payout.Output, want error) {
	s.Helper()
	hash := s.paymentOf(o).Hash
	err := s.DB.Write(s.Context(), func(ctx context.Context, tx *db.Tx) error {
		return rail.MarkFailed(ctx, tx, o.CompanyID, o.ID, hash)
	})
	if !errors.Is(err, want) {
		s.Errorf("marked as not made: %v, want %v", err, want)
	}
}

// markPaid records that the payment of an output was made.
func (s *scene) markPaid(o payout.Output, preimage string, fee int64, want error) {
	s.Helper()
	err := s.DB.Write(s.Context(), func(ctx context.Context, tx *db.Tx) error {
		return rail.MarkPaid(ctx, tx, o.CompanyID, o.ID, preimage, fee)
	})
	if !errors.Is(err, want) {
		s.Errorf("marked as paid: %v, want %v", err, want)
	}
}

// lost returns the outputs that staff is asked to decide.
func (s *scene) lost() (all []payout.Output) {
	s.Helper()
	s.Read(func(ctx context.Context, tx *db.Tx) (err error) {
		all, err = rail.Lost(ctx, tx, 10)
		return err
	})
	return all
}

// settle lets the time pass after which nothing of the payment of an output is on its way.
func (s *scene) settle(o payout.Output) {
	s.Helper()
	s.Clock.Advance(s.paymentOf(o).ExpiresAt.Sub(s.Clock.Now()) + 21*24*time.Hour + 3*time.Minute)
}

// If the node cannot tell what became of a payment, staff records it as paid with its preimage.
func TestStaffRecordsAPaymentByItsPreimage(t *testing.T) {
	run(t, func(s *scene) {
		s.connection = payouttest.LostAfter
		o := s.pay(s.invoice(20_000))
		s.Drain()
		s.Want(o.ID, payout.UnknownOutcome, "")
		hash, err := lightning.ParseHash(s.paymentOf(o).Hash)
		s.Must(err)
		known, err := s.Payer.TrackPayment(s.Context(), hash)
		s.Must(err)
		s.markPaid(o, hash.String(), 2, rail.ErrPreimage)
		s.markPaid(o, "", 2, rail.ErrPreimage)
		s.markPaid(o, known.Preimage, 1_000, rail.ErrFee)
		s.markFailed(o, rail.ErrMayBePaid)
		s.markPaid(o, known.Preimage, 2, nil)
		s.markPaid(o, known.Preimage, 2, rail.ErrDecided)
		s.markFailed(o, rail.ErrDecided)
		if got := s.Want(o.ID, payout.Fulfilled, ""); got.Proof != known.Preimage || s.payer.Succeeded() != 1 {
			t.Errorf("%+v, %d payments", got, s.payer.Succeeded())
		}
	})
}

// A payment that its payee held and then took is not paid again, whether the service has asked the node since or not.
func TestStaffCannotFailAPaymentThatTheNodeMakes(t *testing.T) {
	run(t, func(s *scene) {
		s.payer.HoldPayments()
		o := s.pay("ana@wallet.example")
		s.Drain()
		s.Want(o.ID, payout.Sent, "")
		s.Clock.Advance(2 * time.Hour) // the invoice has expired
		s.markFailed(o, rail.ErrInFlight)
		if got := s.lost(); len(got) != 0 {
			t.Errorf("staff is asked to decide %+v", got)
		}
		s.payer.Stop() // the node does not answer any more
		s.later(time.Hour)
		if got := s.lost(); len(got) != 1 || got[0].ID != o.ID {
			t.Errorf("staff is asked to decide %+v", got)
		}
		s.markFailed(o, rail.ErrMayBePaid)
		s.settle(o)
		s.markFailed(o, nil)
		s.markFailed(o, rail.ErrDeclared)
		s.Drain()
		s.Want(o.ID, payout.Sent, "") // it has not been silent for long since
		s.Must(s.payer.Restart())
		s.later(time.Hour)
		s.Want(o.ID, payout.Sent, "")
		s.markFailed(o, rail.ErrInFlight) // the decision was dropped
		s.payer.ReleasePayments(lightning.FailureTimeout)
		s.later(time.Hour)
		s.Want(o.ID, payout.Fulfilled, "") // by another invoice

		s.payer.HoldPayments()
		second := s.pay("ana@wallet.example")
		s.Drain()
		s.payer.ReleasePayments("") // the payee takes it, and the service does not know yet
		s.payer.Stop()
		s.later(time.Hour)
		s.settle(second)
		s.markFailed(second, nil)
		s.Must(s.payer.Restart())
		s.Drain()
		s.later(time.Hour)
		s.Want(second.ID, payout.Fulfilled, "")
		if n := s.payer.Succeeded(); n != 2 {
			t.Errorf("%d payments of two outputs", n)
		}
	})
}

// A payment that the node has lost, or whose node is gone, is not made again before nothing of it can be on its way.
func TestStaffDecidesWhatTheNodeDoesNotTell(t *testing.T) {
	for name, silence := range map[string]func(s *scene, another *outside){
		"the node has lost it":     func(s *scene, _ *outside) { s.payer.Forget() },
		"the node does not answer": func(s *scene, _ *outside) { s.connection = payouttest.LostBefore },
		"the node is another one":  func(s *scene, another *outside) { s.Payer = another.Payer },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(s *scene) {
				another := newOutside(s.Fixture)
				another.payer.Connect(s.payee)
				s.payer.HoldPayments()
				o := s.pay("ana@wallet.example")
				s.Drain()
				s.Want(o.ID, payout.Sent, "")
				s.payer.ReleasePayments(lightning.FailureTimeout) // the service does not learn it
				silence(s, another)
				s.later(2 * time.Hour)
				s.markFailed(o, rail.ErrMayBePaid)
				s.settle(o)
				s.Drain()
				s.Want(o.ID, payout.Sent, "")
				s.markFailed(o, nil)
				s.Drain()
				s.later(25 * time.Hour)
				s.connection = payouttest.Fine
				s.later(10 * time.Minute)
				s.Want(o.ID, payout.Fulfilled, "")
				if n := s.payer.Succeeded() + another.payer.Succeeded(); n != 1 {
					t.Errorf("%d payments", n)
				}
			})
		})
	}
}

// A decision is about one payment, not about a later one of the same output.
func TestADecisionIsAboutOnePayment(t *testing.T) {
	run(t, func(s *scene) {
		s.payer.FailPayments(lightning.FailureNoRoute)
		o := s.pay("ana@wallet.example")
		s.Must(s.r.Prepare(s.Context(), s.DB, payouttest.Company))
		first := s.paymentOf(o).Hash
		s.Must(s.r.Send(s.Context(), s.DB, payouttest.Company, []string{s.Load(o.ID).BatchID}))
		s.Want(o.ID, payout.Queued, rail.ReasonNoRoute)
		s.payer.FailPayments("")
		s.payer.HoldPayments()
		s.later(time.Minute)
		s.Want(o.ID, payout.Sent, "")
		s.payer.Forget()
		s.settle(o)
		s.Drain()
		err := s.DB.Write(s.Context(), func(ctx context.Context, tx *db.Tx) error {
			return rail.MarkFailed(ctx, tx, o.CompanyID, o.ID, first)
		})
		if !errors.Is(err, rail.ErrDecided) {
			t.Errorf("the decision about the first payment fails the second one: %v", err)
		}
		s.markFailed(o, nil)
	})
}

// If the node reports that a payment was made although staff had decided that it was not, payouts stop, and the loss is
// booked once.
func TestALateSuccessPausesPayouts(t *testing.T) {
	run(t, func(s *scene) {
		s.payer.HoldPayments()
		o := s.pay("ana@wallet.example")
		s.Drain()
		id := s.paymentOf(o).ID
		s.payer.ReleasePayments("")
		s.payer.Forget()
		s.settle(o)
		s.Drain()
		s.markFailed(o, nil)
		s.Drain()
		s.later(time.Hour)
		s.Want(o.ID, payout.Fulfilled, "") // by another payment
		watch := func() (why string) {
			s.Must(s.r.Periodic(s.DB)[1].Run(s.Context()))
			s.Read(func(ctx context.Context, tx *db.Tx) (err error) {
				why, err = payout.Paused(ctx, tx)
				return err
			})
			return why
		}
		if why := watch(); why != "" {
			t.Errorf("payouts are paused: %s", why)
		}
		s.payer.Remember()
		for range 2 {
			if why := watch(); !strings.Contains(why, "may have been paid twice") {
				t.Errorf("payouts are paused: %q", why)
			}
		}
		if got := s.Balance(ledger.ReorgLoss, id, money.BTC); got != sats(20_000) {
			t.Errorf("the loss is %s", got)
		}
		if got := s.Balance(ledger.ChannelBalance, "", money.BTC); got != sats(-20_004) {
			t.Errorf("account 1001 is %s", got)
		}
	})
}

// The routes of a payment are locked for at most two weeks, so the time after which staff may decide is long enough.
func TestTheLockTimeOfAPaymentIsLimited(t *testing.T) {
	run(t, func(s *scene) {
		o := s.pay("ana@wallet.example")
		s.Drain()
		s.Want(o.ID, payout.Fulfilled, "")
		if got := s.payer.MaxBlocks(); got != 2016 {
			t.Errorf("a route is locked for up to %d blocks", got)
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
