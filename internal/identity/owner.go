package identity

import (
	"context"
	"strings"

	"github.com/stipend/stipend/internal/db"
)

// Owner is the user or the company to which an object such as a payer or funding account belongs. In rows and in the
// ledger, its ID takes the place of the company's ID.
type Owner struct {
	ID        string // usr_… or com_…
	CompanyID string // the company itself, or the company that has the user's record; "" for a person with an account
	User      User   // zero if the owner is the company itself
	Company   Company
}

// IsUser reports whether an ID is that of a user.
func IsUser(id string) bool { return strings.HasPrefix(id, "usr_") }

// ActingOwner returns the owner for whom a request acts: the user that [ActingUser] returns, or the company if a
// company's credential names no user.
func ActingOwner(ctx context.Context, tx *db.Tx, by Principal, requestedUserID string) (Owner, error) {
	o := Owner{ID: by.CompanyID, CompanyID: by.CompanyID}
	var err error
	if !by.ForCompany() || requestedUserID != "" {
		if o.User, err = ActingUser(ctx, tx, by, requestedUserID); err != nil {
			return Owner{}, err
		}
		o.ID, o.CompanyID = o.User.ID, o.User.CompanyID
	}
	if o.CompanyID != "" {
		o.Company, err = CompanyByID(ctx, tx, o.CompanyID)
	}
	return o, err
}

// ChangingOwner is like [ActingOwner], for requests that change data. It returns ErrFrozen while the company is
// frozen.
func ChangingOwner(ctx context.Context, tx *db.Tx, by Principal, requestedUserID string) (Owner, error) {
	o, err := ActingOwner(ctx, tx, by, requestedUserID)
	if err != nil || o.CompanyID == "" {
		return o, err
	}
	return o, o.Company.Active()
}
