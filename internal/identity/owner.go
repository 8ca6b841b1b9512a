package identity

import (
	"context"
	"strings"

	"github.com/stipend/stipend/internal/db"
)

// Owner is the user or the company that an object belongs to, such as a payer or funding account. Its ID is the
// tenant in rows and in the ledger.
type Owner struct {
	ID        string // usr_… or com_…
	CompanyID string // the company itself, or the one that keeps the user's record; "" for a person with an account
	User      User   // the zero User when the company itself is the owner
	Company   Company
}

// IsUser reports whether an ID is that of a user.
func IsUser(id string) bool { return strings.HasPrefix(id, "usr_") }

// ActingOwner returns the owner that a request refers to: the user of [ActingUser] or, with a credential of the company
// that names no user, the company.
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

// ChangingOwner is ActingOwner for changes. It returns ErrFrozen while the company is frozen.
func ChangingOwner(ctx context.Context, tx *db.Tx, by Principal, requestedUserID string) (Owner, error) {
	o, err := ActingOwner(ctx, tx, by, requestedUserID)
	if err != nil || o.CompanyID == "" {
		return o, err
	}
	return o, o.Company.Active()
}
