package payout

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/stipend/stipend/internal/db"
)

// ErrNotPaused is returned where payouts must be paused first, so that nothing pays the output meanwhile.
var ErrNotPaused = errors.New("payouts are not paused; pause them first, so that nothing pays the output meanwhile")

// RequirePaused returns ErrNotPaused unless payouts are paused.
func RequirePaused(ctx context.Context, tx *db.Tx) error {
	why, err := Paused(ctx, tx)
	if err == nil && why == "" {
		err = ErrNotPaused
	}
	return err
}

// PayoutsAllowed returns why no payout may leave, or "". A rail calls it in the transaction that lets one leave. It also pauses
// payouts when the database server was replaced since the last call: payments that the old server knew of may then be missing,
// and a person must compare the database with the outside first.
func PayoutsAllowed(ctx context.Context, tx *db.Tx, log *slog.Logger) (why string, err error) {
	switch replaced, err := db.Replaced(ctx, tx); {
	case err != nil:
		return "", err
	case replaced:
		log.ErrorContext(ctx, "the database server was replaced; payouts are paused")
		why = "the database server was replaced by another; check which payouts left without its knowledge before resuming"
		return why, SetPaused(ctx, tx, why)
	}
	return Paused(ctx, tx)
}

// SetPaused stops all payouts, of every company and process, for the given reason. With an empty reason it resumes them and
// enqueues every queue that waited for the pause. What was already broadcast cannot be called back.
func SetPaused(ctx context.Context, tx *db.Tx, why string) error {
	if err := db.SetSetting(ctx, tx, settingPaused, why); err != nil || why != "" {
		return err
	}
	waiting, err := queuesWaiting(ctx, tx, WaitPaused)
	for _, q := range waiting {
		EnqueuePrepare(tx, q.companyID, q.rail, time.Time{})
	}
	return err
}
