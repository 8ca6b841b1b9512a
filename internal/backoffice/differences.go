package backoffice

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payout"
)

// ReconcileSettled compares again if it finds differences, because the jobs of a new block may not have run yet: at
// most reconcileTries times, with pauses of reconcileAgain.
const (
	reconcileAgain = 5 * time.Second
	reconcileTries = 3
)

// ErrDifferences reports that a reconciliation found differences.
var ErrDifferences = errors.New("the ledger differs from the nodes and banks")

// ReconcileSettled is [Reconcile], repeated up to three times while there are differences.
func ReconcileSettled(ctx context.Context, d *db.DB, w Sources) (r Report, err error) {
	for range reconcileTries {
		if r, err = Reconcile(ctx, d, w); err != nil || r.Clean() {
			return r, err
		}
		select {
		case <-ctx.Done():
			return r, ctx.Err()
		case <-time.After(reconcileAgain):
		}
	}
	return r, nil
}

// Respond logs the differences of r. It pauses payouts if the ledger is inconsistent or a coin of the wallet is
// missing, since payouts could spend money that is not there.
func (r Report) Respond(ctx context.Context, d *db.DB, log *slog.Logger) error {
	reason := ""
	for _, diff := range r.Differences {
		log.ErrorContext(ctx, ErrDifferences.Error(),
			"kind", diff.Kind, "object", diff.Object, "ledger", diff.Ledger, "actual", diff.Actual)
		if diff.Kind == CoinMissing || diff.Kind == LedgerInconsistent {
			reason = "reconciliation " + r.ID + " found " + diff.Kind + " " + diff.Object
		}
	}
	if reason == "" {
		return nil
	}
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		if paused, err := payout.Paused(ctx, tx); err != nil || paused != "" {
			return err
		}
		return errors.Join(payout.SetPaused(ctx, tx, reason), RecordCommand(ctx, tx, Pause, r.ID, reason))
	})
}
