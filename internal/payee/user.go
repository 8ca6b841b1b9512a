package payee

import (
	"context"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/webhook"
)

// CreateUser creates a user of the principal's company and makes them a worker of the company, who is pending until
// they have a destination. The company may act for the user; see [identity.ActingUser]. CreateUser returns
// identity.ErrUserExists if the company already has a user with the email address. Users of other companies with the
// same address are independent of this one.
func CreateUser(ctx context.Context, tx *db.Tx, s *identity.Sealer, by identity.Principal,
	p identity.Profile) (identity.User, error) {
	company, err := by.Company("")
	if err != nil {
		return identity.User{}, err
	}
	record, err := identity.CompanyByID(ctx, tx, company)
	if err != nil {
		return identity.User{}, err
	}
	if err := record.Active(); err != nil {
		return identity.User{}, err
	}
	var problems apierr.List
	p = p.Check(&problems, tx.Now(), "email", "phone_number", "phone_country", "first_name", "last_name", "date_of_birth",
		"street_address", "city", "state", "zip", "country")
	if err := problems.Err(); err != nil {
		return identity.User{}, err
	}
	u, err := identity.CreateUser(ctx, tx, s, identity.NewUser{CompanyID: company, Profile: p})
	if err != nil {
		return identity.User{}, err
	}
	if err := webhook.Emit(tx, webhook.UserCreateUser.Event(company, u.ID, u.Version, webhook.UserData{
		UserID: u.ID, CompanyID: company, Email: u.Email, Product: "worker", KYCStatus: u.KYCStatus,
	})); err != nil {
		return identity.User{}, err
	}
	_, err = AddWorker(ctx, tx, company, u.ID, Contractor)
	return u, err
}

// UpdateUser changes the profile of a user for whom the principal may act, and updates the copies in every company
// that pays the user.
func UpdateUser(ctx context.Context, tx *db.Tx, s *identity.Sealer, by identity.Principal, id string,
	c identity.ProfileChanges) (identity.User, error) {
	u, err := identity.UpdateUser(ctx, tx, s, by, id, c)
	if err != nil {
		return identity.User{}, err
	}
	if by.CompanyID != "" {
		if err := refreshWorker(ctx, tx, by.CompanyID, u); err != nil {
			return identity.User{}, err
		}
		Screen(tx, by.CompanyID, u.ID)
	}
	Payable(tx, u.ID, u.ID) // an income may wait for the user's address
	return u, refreshElsewhere(ctx, tx, u.ID, by.CompanyID)
}

// RefreshWorkers enqueues jobs that update the copies of a user's profile in every company that pays the user.
func RefreshWorkers(ctx context.Context, tx *db.Tx, userID string) error {
	return refreshElsewhere(ctx, tx, userID, "")
}

// refreshElsewhere enqueues such a job for each company that pays a user, except the company except. Jobs are used
// because a transaction changes rows of only one company.
func refreshElsewhere(ctx context.Context, tx *db.Tx, userID, except string) error {
	companies, err := companiesOf(ctx, tx, userID, "")
	for _, company := range companies {
		if company != except {
			job.Enqueue(tx, job.New{CompanyID: company, Kind: JobRefresh, Payload: JobPayload{userID}})
		}
	}
	return err
}

// JobRefresh is the kind of job that copies a user's profile to the user's row in one company. Its payload is a
// [JobPayload].
const JobRefresh = "recipient.refresh"

// HandleRefresh is the handler of [JobRefresh]. It copies the parts of a user's profile that companies store.
func HandleRefresh(ctx context.Context, tx *db.Tx, j job.Job) error {
	var payload JobPayload
	if err := j.Decode(&payload); err != nil {
		return err
	}
	u, err := identity.GetUser(ctx, tx, nil, payload.RecipientID)
	if err != nil {
		return err
	}
	Screen(tx, j.CompanyID, u.ID)
	return refreshWorker(ctx, tx, j.CompanyID, u)
}
