package identity

import (
	"context"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
)

// ErrEmailSignsIn is returned if a company or app tries to change the email address with which a person signs in.
// That would let it take over the person's account.
var ErrEmailSignsIn = apierr.New(apierr.Conflict, "invalid_state",
	"This person signs in with this email address. Only they can change it, on their account page.")

// ProfileChanges contains the fields of a profile to change. A nil field stays unchanged. Required fields cannot be
// emptied.
type ProfileChanges struct {
	Email, FirstName, LastName, Country             *string
	PhoneNumber, PhoneCountry, DateOfBirth          *string
	StreetAddress, StreetAddress2, City, State, Zip *string
}

// apply returns the changed profile, and the names of the fields that must not be empty: the changed fields, and
// those that a new country may require.
func (c ProfileChanges) apply(p Profile) (changed Profile, sent []string) {
	for _, m := range []struct {
		name string
		from *string
		to   *string
	}{
		{"email", c.Email, &p.Email}, {"first_name", c.FirstName, &p.FirstName}, {"last_name", c.LastName, &p.LastName},
		{"phone_number", c.PhoneNumber, &p.PhoneNumber}, {"phone_country", c.PhoneCountry, &p.PhoneCountry},
		{"date_of_birth", c.DateOfBirth, &p.DateOfBirth}, {"street_address", c.StreetAddress, &p.StreetAddress},
		{"street_address_2", c.StreetAddress2, &p.StreetAddress2}, {"city", c.City, &p.City}, {"state", c.State, &p.State},
		{"zip", c.Zip, &p.Zip}, {"country", c.Country, &p.Country},
	} {
		if m.from == nil {
			continue
		}
		*m.to = *m.from
		if m.name != "street_address_2" {
			sent = append(sent, m.name)
		}
	}
	if c.Country != nil && p.StreetAddress != "" {
		sent = append(sent, "state", "zip")
	}
	return p, sent
}

// UpdateUser changes a user for whom the principal may act (see [ActingUser]) and returns the result. If any field is
// invalid, it changes nothing. It returns ErrUserExists if another user of the company has the email address, and
// ErrEmailSignsIn if the person signs in with the current address.
func UpdateUser(ctx context.Context, tx *db.Tx, s *Sealer, by Principal, id string, c ProfileChanges) (User, error) {
	if by.ForCompany() {
		company, err := CompanyByID(ctx, tx, by.CompanyID)
		if err != nil {
			return User{}, err
		}
		if err := company.Active(); err != nil {
			return User{}, err
		}
	}
	for {
		u, done, err := updateUser(ctx, tx, s, by, id, c)
		if done || err != nil {
			return u, err
		}
		// A concurrent transaction changed the user. Read the user again.
	}
}

func updateUser(ctx context.Context, tx *db.Tx, s *Sealer, by Principal, id string,
	c ProfileChanges) (u User, done bool, err error) {
	old, err := ActingUser(ctx, tx, by, id)
	if err != nil {
		return User{}, false, err
	}
	if old, err = old.Open(s); err != nil {
		return User{}, false, err
	}
	changed, sent := c.apply(old.Profile)
	var problems apierr.List
	u = old
	u.Profile = changed.Check(&problems, tx.Now(), sent...)
	if err := problems.Err(); err != nil {
		return User{}, false, err
	}
	if u.Profile == old.Profile {
		return u, true, nil
	}
	if u.Email != old.Email && old.signsIn {
		return User{}, false, ErrEmailSignsIn.At("body", "/email")
	}
	u.Complete, u.Version = u.Profile.Complete(), old.Version+1
	if u.sealed, err = u.Details.Seal(s, userDetails(u.ID)); err != nil {
		return User{}, false, err
	}
	if done, err = replaceUser(ctx, tx, u); !done || err != nil {
		return User{}, false, err
	}
	if EmailKey(u.Email) != EmailKey(old.Email) {
		if err := setCompanyUserEmail(ctx, tx, u); err != nil {
			return User{}, false, err
		}
	}
	// The history entry has no company: a company's history entries with this ID belong to the worker, whose versions
	// are counted separately.
	db.History(tx, "", u.ID, u.Version, "", "", "profile: "+strings.Join(c.names(), ", "))
	return u, true, nil
}

// names returns the names of the fields to change. The history stores only the names, because the values are personal
// data.
func (c ProfileChanges) names() []string {
	_, sent := c.apply(Profile{})
	if c.StreetAddress2 != nil {
		sent = append(sent, "street_address_2")
	}
	return sent
}
