package lightning_test

import (
	"context"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/lightning/lightningtest"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	rail "github.com/stipend/stipend/internal/payout/lightning"
	"github.com/stipend/stipend/internal/payout/payouttest"
	"github.com/stipend/stipend/internal/testkit"
)

// outside is a node that pays over a connection that can be lost, and the node of a payee.
type outside struct {
	payer, payee *lightningtest.Node
	connection   payouttest.Connection
	lightning.Payer
}

func newOutside(f *payouttest.Fixture) *outside {
	o := &outside{payer: lightningtest.Start(f.T), payee: lightningtest.Start(f.T)}
	o.payer.Connect(o.payee)
	o.payer.Fund(1_000_000)
	now := func() time.Time {
		at, err := f.DB.Now(context.Background())
		f.Must(err)
		return at
	}
	o.payer.SetClock(now)
	o.payee.SetClock(now)
	o.Payer = testkit.Must(lightning.NewClient(o.payer.Options()))
	return o
}

func (o *outside) Pay(ctx context.Context, in lightning.PaymentParams) (p lightning.Payment, err error) {
	lost := o.connection.Send(func() error {
		p, err = o.Payer.Pay(ctx, in)
		return nil
	})
	if lost != nil {
		return lightning.Payment{}, lost
	}
	return p, err
}

func (o *outside) TrackPayment(ctx context.Context, h lightning.Hash) (p lightning.Payment, err error) {
	if o.connection != payouttest.Fine {
		return p, context.DeadlineExceeded
	}
	return o.Payer.TrackPayment(ctx, h)
}

// invoice returns an invoice of the payee, 0 for one without an amount.
func (o *outside) invoice(sats int64) string {
	return testkit.Must(o.payee.NewRequest(sats, 30*24*time.Hour))
}

// Invoice resolves every Lightning address to the payee.
func (o *outside) Invoice(_ context.Context, _ string, sats int64) (string, error) {
	return o.payee.NewRequest(sats, time.Hour)
}

func (o *outside) rail(f *payouttest.Fixture) *rail.Rail {
	return testkit.Must(rail.New(rail.Config{Node: o, Network: "regtest", Resolver: o, Log: f.Log}))
}

func sats(n int64) money.Amount { return money.New(money.BTC, n) }

// The Lightning rail keeps the contract of payout.Rail.
func TestRail(t *testing.T) {
	payouttest.Run(t, func(f *payouttest.Fixture) payouttest.Outside {
		o := newOutside(f)
		return payouttest.Outside{
			Rail:      o.rail(f),
			Output:    func() payout.Output { return payout.Output{Amount: sats(2_000), Address: o.invoice(0)} },
			Unpayable: func() payout.Output { return payout.Output{Amount: sats(2_000), Address: o.invoice(1_999)} },
			Set:       func(c payouttest.Connection) { o.connection = c },
			Advance:   func() {},
			Executed:  func(out payout.Output) int { return o.payee.PaidFor(out.Address) },
		}
	})
}
