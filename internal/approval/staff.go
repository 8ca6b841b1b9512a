package approval

import (
	"context"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

// Release is the action of a request to release a payment above the release limit.
const Release = "release"

// Errors of approvals by staff.
var (
	ErrRequester = apierr.New(apierr.Forbidden, "second_person_required",
		"You requested this, so another member of staff has to approve it.")
	ErrAnswered  = apierr.New(apierr.Conflict, "invalid_state", "This request was already answered, or it does not exist.")
	ErrRequested = apierr.New(apierr.Conflict, "invalid_state",
		"This was already requested. Another member of staff has to approve it.")
)

// Request is an action that one staff member requests and another approves.
type Request struct {
	ID, Action, CompanyID, ObjectID string
	Target                          string // second argument of the action, empty for most actions
	Reason                          string
	RequestedBy                     string // ID of the staff member who made the request
	RequestedAt                     time.Time

	version int64
}

// Open stores a request. It returns ErrRequested if there is an open request for the same action on the same object.
func Open(ctx context.Context, tx *db.Tx, r Request) (Request, error) {
	r.ID, r.RequestedAt, r.version = tx.NewID("oprq"), tx.Now(), 1
	first, err := insertRequest(ctx, tx, r)
	if err == nil && !first {
		err = ErrRequested
	}
	return r, err
}

// Answer approves or drops an open request. It returns ErrRequester if the requester tries to approve it, and
// ErrAnswered if it is not open. The caller performs the action of an approved request in the same transaction.
func Answer(ctx context.Context, tx *db.Tx, requestID, staffID string, approve bool) (Request, error) {
	r, err := findRequest(ctx, tx, requestID)
	if err != nil {
		return r, err
	}
	state := "dropped"
	if approve {
		if r.RequestedBy == staffID {
			return r, ErrRequester
		}
		state = "approved"
	}
	return r, answer(ctx, tx, r, state, staffID)
}

// ReleaseLimit is the amount above which a payment needs the approval of two staff members. With the zero
// ReleaseLimit, every payment needs it.
type ReleaseLimit struct {
	limit    money.Amount
	set      bool
	velocity Velocity
}

// NewReleaseLimit returns a ReleaseLimit of an amount. An amount without an asset means no limit.
func NewReleaseLimit(limit money.Amount) ReleaseLimit { return ReleaseLimit{limit: limit, set: true} }

// Amount returns the amount of the limit. An amount without an asset means no limit.
func (l ReleaseLimit) Amount() money.Amount { return l.limit }

// Above reports whether an amount is above the limit.
func (l ReleaseLimit) Above(ctx context.Context, tx *db.Tx, amount money.Amount) (bool, error) {
	if !l.set {
		return true, nil
	}
	return above(ctx, tx, l.limit, amount)
}

// Approved reports whether an amount may be paid for an object of a company or a user: it is within the limit and the
// velocity limits, or two staff members have approved the release. An amount that may be paid counts towards the
// velocity limits.
func (l ReleaseLimit) Approved(ctx context.Context, tx *db.Tx, companyID, objectID string,
	amount money.Amount) (bool, error) {
	over, err := l.Above(ctx, tx, amount)
	if err != nil {
		return false, err
	}
	return l.velocity.of(companyID).allowed(ctx, tx, companyID, objectID, map[string]money.Amount{companyID: amount}, over)
}

// Planned reports whether [ReleaseLimit.Approved] would now allow an amount that will be paid later. The amount is
// not counted until it is paid.
func (l ReleaseLimit) Planned(ctx context.Context, tx *db.Tx, companyID, objectID string,
	amount money.Amount) (bool, error) {
	over, err := l.Above(ctx, tx, amount)
	if err != nil {
		return false, err
	}
	return l.velocity.of(companyID).permit(ctx, tx, companyID, objectID, map[string]money.Amount{companyID: amount}, over)
}

// RevokeRelease ends the requests and approvals of staff to release an object of a company or user, because the
// object has changed. The object no longer counts towards the owner's velocity limits; the next release counts and
// checks it again.
func RevokeRelease(ctx context.Context, tx *db.Tx, companyID, objectID string) error {
	if err := dropRequests(ctx, tx, Release, companyID, objectID); err != nil {
		return err
	}
	return deleteVelocity(ctx, tx, companyID, objectID)
}
