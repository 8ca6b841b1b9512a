package kyc

import (
	"context"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
)

// ErrLegalHold means that data must not be erased while a legal hold exists.
var ErrLegalHold = apierr.New(apierr.Conflict, "invalid_state",
	"This person or company has a legal hold. Release the hold before you erase their data.")

// Hold is a legal hold on a person, a recipient or a company. While it exists, [Erase] erases nothing about the
// subject; a hold on a company also covers its owners and the payees that it pays or has paid.
type Hold struct {
	SubjectID string
	By        string // name of the member of staff who placed it
	Reason    string
	At        time.Time
}

// PlaceHold stores a legal hold. It reports false if the subject has one.
func PlaceHold(ctx context.Context, tx *db.Tx, h Hold) (bool, error) { return insertHold(ctx, tx, h) }

// ReleaseHold deletes a legal hold. It reports false if there is none.
func ReleaseHold(ctx context.Context, tx *db.Tx, subjectID string) (bool, error) {
	return deleteHold(ctx, tx, subjectID)
}

// checkHolds returns ErrLegalHold if one of the subjects has a legal hold.
func checkHolds(ctx context.Context, tx *db.Tx, subjectIDs ...string) error {
	held, err := selectHolds(ctx, tx, subjectIDs...)
	if err == nil && len(held) > 0 {
		err = ErrLegalHold
	}
	return err
}
