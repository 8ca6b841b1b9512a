package kyc

import (
	"context"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/fault"
)

// Erase destroys the key of a subject, and its documents and tax ids with it: copies in backups cannot be read any more either.
// What the law asks to keep for some years is the caller's to know. A subject without documents is fault.NotFoundErr, one
// whose verification is under way ErrProcessing; erasing twice is fine. It cannot be undone.
func Erase(ctx context.Context, tx *db.Tx, subjectID string) error {
	c, err := selectCase(ctx, tx, subjectID)
	if err != nil {
		return err
	}
	switch c.State {
	case Initiated, InReview, Submitted, OwnersPending:
		return ErrProcessing
	}
	known, err := eraseSubject(ctx, tx, subjectID)
	if err != nil {
		return err
	}
	if !known {
		return fault.NotFoundErr
	}
	return nil
}
