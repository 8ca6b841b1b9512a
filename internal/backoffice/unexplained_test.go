package backoffice_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/testkit"
)

// Payouts stay paused while an unknown transaction may have paid queued outputs. Staff can declare that it paid none.
// The declaration is stored, and does not cover transactions that are found later.
func TestPayoutsResumeOnlyWhenUnknownTransactionsAreExplained(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		write := func(f func(ctx context.Context, tx *db.Tx) error) error { return d.Write(t.Context(), f) }
		resume := func(ids ...string) error {
			return write(func(ctx context.Context, tx *db.Tx) error { return backoffice.ResumePayouts(ctx, tx, ids...) })
		}
		paused := func() (why string) {
			testkit.Check(t, d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
				why, err = payout.Paused(ctx, tx)
				return err
			}))
			return why
		}
		spend := func(coin, txid string) {
			testkit.Check(t, write(func(ctx context.Context, tx *db.Tx) error {
				_, err := tx.Exec(ctx, `INSERT INTO chain_outputs (chain, txid, vout, company_id, object_id, address, branch,
					idx, amount, own, coinbase, state, height, block_hash, first_seen, want_confirmations, confirmed, replaced_by,
					depth, spend_state, reserved_by, spent_by, spent_height) VALUES ('bitcoin', $1, 0, '', '', 'a', 0, 0, 1000,
					FALSE, FALSE, 'mined', 1, 'b', 0, 1, TRUE, '', 0, 'spent', '', $2, 2)`, coin, txid)
				return errors.Join(err, payout.SetPaused(ctx, tx, "unknown transaction"))
			}))
		}
		spend("coin1", "sweep")
		if err := resume(); !errors.Is(err, backoffice.ErrUnexplained) || paused() == "" {
			t.Errorf("payouts resume with an unknown transaction: %v", err)
		}
		if err := resume("other"); err == nil || paused() == "" {
			t.Error("a transaction that is not unknown is declared to be no payout")
		}
		testkit.Check(t, resume("sweep"))
		if paused() != "" {
			t.Error("payouts are paused although the unknown transaction is declared")
		}
		testkit.Check(t, resume()) // the declaration is stored
		spend("coin2", "payment")
		if err := resume(); !errors.Is(err, backoffice.ErrUnexplained) || paused() == "" {
			t.Errorf("payouts resume with a second unknown transaction: %v", err)
		}
	})
}
