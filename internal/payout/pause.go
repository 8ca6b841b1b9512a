package payout

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
)

// ErrNotPaused reports that payouts must be paused first.
var ErrNotPaused = errors.New("payouts are not paused; pause them first, so that no worker pays the output now")

// RequirePaused returns ErrNotPaused unless payouts are paused.
func RequirePaused(ctx context.Context, tx *db.Tx) error {
	why, err := Paused(ctx, tx)
	if err == nil && why == "" {
		err = ErrNotPaused
	}
	return err
}

// PayoutsAllowed returns the reason why no payout of some assets may be sent, or "". A rail calls it in the
// transaction that prepares or sends a payout. PayoutsAllowed also pauses payouts if the database server was replaced
// since the last call: the new server may lack payments, so staff must first compare the database with networks and
// banks.
func PayoutsAllowed(ctx context.Context, tx *db.Tx, log *slog.Logger, assets ...money.Asset) (why string, err error) {
	switch replaced, err := db.Replaced(ctx, tx); {
	case err != nil:
		return "", err
	case replaced:
		log.ErrorContext(ctx, "the database server was replaced; payouts are paused")
		why = "the database server was replaced; before resuming, check which payouts it does not contain"
		return why, SetPaused(ctx, tx, why)
	}
	if why, err = Paused(ctx, tx); err != nil || why != "" {
		return why, err
	}
	stopped, err := ledger.StoppedAssets(ctx, tx)
	for _, a := range assets {
		if stopped[a] {
			return "payouts in " + string(a) + " are stopped, by staff or because a balance is not the sum of its lines", err
		}
	}
	return "", err
}

// SetPaused stops all payouts, of every company and process, for the given reason. An empty reason resumes payouts
// and enqueues every queue that waits because of the pause. Transactions already broadcast cannot be stopped.
func SetPaused(ctx context.Context, tx *db.Tx, why string) error {
	if err := db.SetSetting(ctx, tx, settingPaused, why); err != nil || why != "" {
		return err
	}
	return WakePaused(ctx, tx)
}

// WakePaused enqueues every queue that waits because its payouts were paused.
func WakePaused(ctx context.Context, tx *db.Tx) error {
	waiting, err := queuesWaiting(ctx, tx, WaitPaused)
	for _, q := range waiting {
		EnqueuePrepare(tx, q.companyID, q.rail, time.Time{})
	}
	return err
}
