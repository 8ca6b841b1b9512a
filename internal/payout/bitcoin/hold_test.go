package bitcoin_test

import (
	"context"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payout"
)

// A hold also applies to outputs that are queued again while it lasts.
func TestACorrectedOutputStaysOnHold(t *testing.T) {
	run(t, func(w *fixture) {
		w.fund(5_000_000)
		outs := w.unqueued(1_000_000)
		good := outs[0].Address
		outs[0].Address = "invalid"
		w.queue(outs)
		w.watch()
		w.states(payout.Failed)
		w.write(func(ctx context.Context, tx *db.Tx) error {
			_, err := payout.Hold(ctx, tx, company, payroll)
			return err
		})
		w.write(func(ctx context.Context, tx *db.Tx) error {
			o, err := payout.Get(ctx, tx, company, outs[0].ID)
			if err != nil {
				return err
			}
			o.Address = good
			return payout.Correct(ctx, tx, o)
		})
		w.watch()
		w.states(payout.Queued)
		w.write(func(ctx context.Context, tx *db.Tx) error { return payout.Resume(ctx, tx, company, payroll) })
		w.watch()
		w.states(payout.Sent)
	})
}
