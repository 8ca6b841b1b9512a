package banktest

import (
	"context"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/payouttest"
)

// CheckReversals fails the test unless an ACH payment is reversed exactly once by the bank even though the first
// answer is lost, and the return of the reversal is recorded. set sets the state of the connection, made returns the
// number of reversals at the bank, and giveBack makes the payee's bank return the transfers that have a reference.
func (b *Branch) CheckReversals(set func(payouttest.Connection), made func() int, giveBack func(reference string) int) {
	b.Helper()
	now, err := b.DB.Now(b.Context())
	b.Must(err)
	for now.Weekday() != time.Monday { // so that five banking days follow
		now = now.AddDate(0, 0, 1)
	}
	b.Clock.Set(time.Date(now.Year(), now.Month(), now.Day(), 15, 0, 0, 0, time.UTC))
	o := b.Queue(b.To("101050001", 100_00))[0]
	b.Work(2)
	b.Want(o.ID, payout.Fulfilled, "")
	payment := b.Reference(o)
	b.Write(func(ctx context.Context, tx *db.Tx) error {
		return bank.Reverse(ctx, tx, payment, bank.ReversalDuplicate)
	})
	set(payouttest.LostAfter)
	b.Work(1)
	set(payouttest.Fine)
	b.Work(2)
	if n := made(); n != 1 {
		b.Errorf("%d reversals at the bank, want 1", n)
	}
	b.wantReversal(payment, "ordered")
	b.Want(o.ID, payout.Fulfilled, "")
	if n := giveBack("S0000002"); n != 1 {
		b.Fatalf("%d transfers were returned", n)
	}
	b.Clock.Advance(24 * time.Hour)
	b.Work(1)
	b.wantReversal(payment, "returned R02")
	b.Want(o.ID, payout.Fulfilled, "")
}

func (b *Branch) wantReversal(payment, want string) {
	b.Helper()
	b.Read(func(ctx context.Context, tx *db.Tx) error {
		all, err := bank.Reversals(ctx, tx, 10)
		if len(all) != 1 || all[0].Payment != payment || strings.TrimSpace(all[0].State+" "+all[0].Code) != want {
			b.Errorf("%+v, want the reversal of %s to be %s", all, payment, want)
		}
		return err
	})
}
