package kyc

import (
	"context"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
)

// ErrLegalHold is returned for data that must not be erased because of a legal hold.
var ErrLegalHold = apierr.New(apierr.Conflict, "invalid_state",
	"This person or company has a legal hold. Release the hold before you erase their data.")

// Hold is a legal hold on a person, a recipient or a company. While it exists, [Erase] does not erase data of that
// subject. A hold on a company also covers its owners and the payees whom it pays or has paid.
type Hold struct {
	SubjectID string
	By        string // name of the member of staff who placed the hold
	Reason    string
	At        time.Time
}

// PlaceHold stores a legal hold. It returns false if the subject already has one.
func PlaceHold(ctx context.Context, tx *db.Tx, h Hold) (bool, error) { return insertHold(ctx, tx, h) }

// ReleaseHold deletes a legal hold. It returns false if there is none.
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
