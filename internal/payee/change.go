package payee

import (
	"cmp"
	"context"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/metadata"
	"github.com/stipend/stipend/internal/screening"
	"github.com/stipend/stipend/internal/webhook"
)

// Changes contains the new values of a recipient's members. A nil member stays unchanged; an empty text clears the
// member.
type Changes struct {
	ExternalID, Role, Department, VendorType, Name  *string
	Email, FirstName, LastName, Country             *string
	PhoneNumber, PhoneCountry, DateOfBirth          *string
	StreetAddress, StreetAddress2, City, State, Zip *string

	Metadata *map[string]string // replaces all metadata
}

// personal returns the changes of members that belong to the account of a worker with a login.
func (c *Changes) personal() map[string]*string {
	return map[string]*string{
		"/name": c.Name, "/email": c.Email, "/first_name": c.FirstName, "/last_name": c.LastName, "/country": c.Country,
		"/phone_number": c.PhoneNumber, "/phone_country": c.PhoneCountry, "/date_of_birth": c.DateOfBirth,
		"/street_address":   c.StreetAddress,
		"/street_address_2": c.StreetAddress2, "/city": c.City, "/state": c.State, "/zip": c.Zip,
	}
}

func set(to *string, from *string) {
	if from != nil {
		*to = *from
	}
}

// on returns all details of a recipient with the changes applied.
func (c *Changes) on(r Recipient, d identity.Details) CreateParams {
	p := CreateParams{
		ExternalID: r.ExternalID, Type: r.Type, Role: r.Role, Department: r.Department, VendorType: r.VendorType,
		Name: r.Name, Metadata: r.Metadata,
		Profile: identity.Profile{Email: r.Email, FirstName: r.FirstName, LastName: r.LastName, Country: r.Country,
			Details: d},
	}
	derived := r.Type == TypeUser && r.Name == strings.TrimSpace(r.FirstName+" "+r.LastName)
	if derived && c.Name == nil {
		p.Name = "" // a person's name is made from the first and last name
	}
	set(&p.ExternalID, c.ExternalID)
	if c.Metadata != nil {
		p.Metadata = *c.Metadata
	}
	set(&p.Role, c.Role)
	set(&p.Department, c.Department)
	set(&p.VendorType, c.VendorType)
	set(&p.Name, c.Name)
	set(&p.Email, c.Email)
	set(&p.FirstName, c.FirstName)
	set(&p.LastName, c.LastName)
	set(&p.Country, c.Country)
	set(&p.PhoneNumber, c.PhoneNumber)
	set(&p.PhoneCountry, c.PhoneCountry)
	set(&p.DateOfBirth, c.DateOfBirth)
	set(&p.StreetAddress, c.StreetAddress)
	set(&p.StreetAddress2, c.StreetAddress2)
	set(&p.City, c.City)
	set(&p.State, c.State)
	set(&p.Zip, c.Zip)
	return p
}

// Update changes a recipient of the principal's company. The result must satisfy the rules of [Create], and
// violations are returned as the same errors. For a worker with a login, a company can change only the role,
// department, vendor type, external ID and metadata; everything else belongs to the worker.
func Update(ctx context.Context, tx *db.Tx, s *identity.Sealer, by identity.Principal, companyID, id string,
	c Changes) (Recipient, error) {
	if err := mayChange(ctx, tx, by, companyID); err != nil {
		return Recipient{}, err
	}
	for {
		r, err := Get(ctx, tx, by, companyID, id)
		if err != nil {
			return Recipient{}, err
		}
		next, details, err := c.check(ctx, tx, s, by, r)
		if err != nil {
			return Recipient{}, err
		}
		changed, done, err := update(ctx, tx, r, next, details)
		if done {
			err = metadata.Replace(ctx, tx, r.CompanyID, r.ID, r.Metadata, changed.Metadata)
		}
		if done && changed.Name != r.Name {
			Screen(tx, r.CompanyID, r.ID)
		}
		if err != nil || done {
			return changed, err
		}
		// A concurrent transaction changed the recipient. Read the recipient again, because the changes may no longer be
		// valid.
	}
}

// check returns the changed recipient and its encrypted details.
func (c *Changes) check(ctx context.Context, tx *db.Tx, s *identity.Sealer, by identity.Principal,
	r Recipient) (next Recipient, details string, err error) {
	next = r
	if r.UserID != "" {
		var problems apierr.List
		for _, pointer := range []string{"/name", "/email", "/first_name", "/last_name", "/country", "/phone_number",
			"/phone_country",
			"/date_of_birth", "/street_address", "/street_address_2", "/city", "/state", "/zip"} {
			if c.personal()[pointer] != nil {
				problems.Add("invalid_parameter", pointer, "This worker has an account of their own, and this is theirs to change.")
			}
		}
		set(&next.Role, c.Role)
		set(&next.ExternalID, c.ExternalID)
		set(&next.Department, c.Department)
		set(&next.VendorType, c.VendorType)
		if c.Metadata != nil {
			next.Metadata = *c.Metadata
			metadata.Check(&problems, "/metadata", next.Metadata)
		}
		next.Role = either(&problems, "/role", next.Role, Contractor, Employee)
		next.ExternalID = externalID(&problems, next.ExternalID)
		next.Department = identity.Line(&problems, "/department", next.Department, 0, 100)
		next.VendorType = identity.Line(&problems, "/vendor_type", next.VendorType, 0, 100)
		if err = problems.Err(); err == nil {
			err = freeExternalID(ctx, tx, next)
		}
		return next, "", err
	}
	old, err := Personal(ctx, tx, s, by, r.CompanyID, r.ID)
	if err != nil {
		return Recipient{}, "", err
	}
	checked, profile, err := c.on(r, old).check(tx.Now())
	if err != nil {
		return Recipient{}, "", err
	}
	next.Role, next.Name, next.FirstName, next.LastName = checked.Role, checked.Name, checked.FirstName, checked.LastName
	next.Metadata = checked.Metadata
	next.Email, next.Country, next.ExternalID, next.Department, next.VendorType = checked.Email, checked.Country,
		checked.ExternalID, checked.Department, checked.VendorType
	if err := freeExternalID(ctx, tx, next); err != nil {
		return Recipient{}, "", err
	}
	details, err = profile.Details.Seal(s, detailsOf(next))
	return next, details, err
}

// mayChange returns an error for principals of other companies, and while the company is frozen.
func mayChange(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string) error {
	company, err := by.Company(companyID)
	if err != nil {
		return err
	}
	record, err := identity.CompanyByID(ctx, tx, company)
	if err != nil {
		return err
	}
	return record.Active()
}

// Deactivate makes a recipient inactive, so that they are not paid. Repeating the call has no effect.
func Deactivate(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, id string) (Recipient, error) {
	return move(ctx, tx, by, companyID, id, true, deactivate)
}

// Reactivate makes an inactive recipient payable again: active at once if the allocations of their destinations total
// 100, otherwise pending. Repeating the call has no effect. Reactivate returns screening.ErrUnderReview for a
// recipient under review.
func Reactivate(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, id string) (Recipient, error) {
	return move(ctx, tx, by, companyID, id, false, func(ctx context.Context, tx *db.Tx, r Recipient) (Recipient, bool,
		error) {
		if blocked, err := screening.Blocked(ctx, tx, r.CompanyID, r.ID); err != nil || blocked {
			return Recipient{}, false, cmp.Or(err, error(screening.ErrUnderReview))
		}
		return reactivate(ctx, tx, r)
	})
}

// move deactivates or reactivates a recipient. If a concurrent transaction changed the recipient's state, move reads
// the recipient again and repeats the change.
func move(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, id string, inactive bool,
	guard func(context.Context, *db.Tx, Recipient) (Recipient, bool, error)) (Recipient, error) {
	if err := mayChange(ctx, tx, by, companyID); err != nil {
		return Recipient{}, err
	}
	for {
		old, err := Get(ctx, tx, by, companyID, id)
		if err != nil || (old.Status == Inactive) == inactive {
			return old, err
		}
		r, moved, err := guard(ctx, tx, old)
		if err != nil {
			return Recipient{}, err
		}
		if moved {
			db.History(tx, r.CompanyID, r.ID, r.Version, old.Status, r.Status, "by the company")
			if !inactive {
				Payable(tx, r.CompanyID, r.ID)
			}
			return r, emit(ctx, tx, webhook.RecipientStatusUpdate, r)
		}
	}
}
