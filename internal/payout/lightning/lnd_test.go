//go:build lnd

package lightning_test

import (
	"context"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/lightning/lndtest"
	"github.com/stipend/stipend/internal/payout"
	rail "github.com/stipend/stipend/internal/payout/lightning"
	"github.com/stipend/stipend/internal/payout/payouttest"
	"github.com/stipend/stipend/internal/testkit"
)

// lndOutside is a pair of LND nodes behind a connection that can be lost.
type lndOutside struct {
	*lndtest.Pair
	connection payouttest.Connection
	lightning.Payer
}

func (o *lndOutside) Pay(ctx context.Context, in lightning.PaymentParams) (p lightning.Payment, err error) {
	lost := o.connection.Send(func() error {
		p, err = o.Payer.Pay(ctx, in)
		return nil
	})
	if lost != nil {
		return lightning.Payment{}, lost
	}
	return p, err
}

func (o *lndOutside) TrackPayment(ctx context.Context, h lightning.Hash) (p lightning.Payment, err error) {
	if o.connection != payouttest.Fine {
		return p, context.DeadlineExceeded
	}
	return o.Payer.TrackPayment(ctx, h)
}

// Invoice resolves every Lightning address to the payee.
func (o *lndOutside) Invoice(_ context.Context, _ string, sats int64) (string, error) {
	return o.NewRequest(sats, time.Hour)
}

// The Lightning rail keeps the contract of payout.Rail on two real LND nodes.
func TestRailOverLND(t *testing.T) {
	pair := lndtest.Start(t)
	payouttest.Run(t, func(f *payouttest.Fixture) payouttest.Outside {
		o := &lndOutside{Pair: pair, Payer: testkit.Must(lightning.NewClient(pair.PayerOptions()))}
		request := func(sats int64) string { return testkit.Must(o.NewRequest(sats, 30*24*time.Hour)) }
		return payouttest.Outside{
			Rail: testkit.Must(rail.New(rail.Config{Node: o, Network: "regtest", Resolver: o, Log: f.Log})),
			Output: func() payout.Output {
				return payout.Output{Amount: sats(2_000), Address: request(0)}
			},
			Unpayable: func() payout.Output { return payout.Output{Amount: sats(2_000), Address: request(1_999)} },
			Set:       func(c payouttest.Connection) { o.connection = c },
			Advance:   func() {},
			Executed:  func(out payout.Output) int { return pair.PaidFor(out.Address) },
		}
	})
}
