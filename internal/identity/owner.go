package identity

import (
	"context"

	"github.com/stipend/stipend/internal/db"
)

// Owner is whose things a request is about where they belong to a user or to a company alike: payers, funding accounts.
// The id of either is the tenant in the rows and in the books.
type Owner struct {
	ID        string // usr_… or com_…
	CompanyID string // for which the request acts: it hears of what happens
	User      User   // the zero User when the company itself is the owner
	Company   Company
}

// ActingOwner is the owner that a request means: the user of [ActingUser] or, with an API key that names nobody, the key's
// company itself.
func ActingOwner(ctx context.Context, tx *db.Tx, by Principal, requestedUserID string) (Owner, error) {
	o := Owner{ID: by.CompanyID, CompanyID: by.CompanyID}
	var err error
	if by.Kind != KindAPIKey || requestedUserID != "" {
		if o.User, err = ActingUser(ctx, tx, by, requestedUserID); err != nil {
			return Owner{}, err
		}
		o.ID = o.User.ID
	}
	if o.CompanyID != "" {
		o.Company, err = CompanyByID(ctx, tx, o.CompanyID)
	}
	return o, err
}

// ChangingOwner is ActingOwner for a request that changes something: while the company is frozen, nothing is changed.
func ChangingOwner(ctx context.Context, tx *db.Tx, by Principal, requestedUserID string) (Owner, error) {
	o, err := ActingOwner(ctx, tx, by, requestedUserID)
	if err != nil || o.CompanyID == "" {
		return o, err
	}
	return o, o.Company.Active()
}
