package httpapi

import (
	"context"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/payee"
)

type (
	userCreateInput struct {
		Body userCreateBody
	}

	userCreateBody struct {
		Email          string `json:"email" minLength:"3" maxLength:"254"`
		PhoneNumber    string `json:"phone_number" minLength:"3" maxLength:"40"`
		PhoneCountry   string `json:"phone_country" minLength:"2" maxLength:"2" format:"country" doc:"2-letter ISO code."`
		FirstName      string `json:"first_name" minLength:"1" maxLength:"100"`
		LastName       string `json:"last_name" minLength:"1" maxLength:"100"`
		DateOfBirth    string `json:"date_of_birth" format:"date" doc:"At least 16 years ago."`
		StreetAddress  string `json:"street_address" minLength:"1" maxLength:"200"`
		StreetAddress2 string `json:"street_address_2,omitempty" maxLength:"200"`
		City           string `json:"city" minLength:"1" maxLength:"100"`
		State          string `json:"state" maxLength:"100"`
		Zip            string `json:"zip" maxLength:"20" doc:"May be empty in a country without postal codes."`
		Country        string `json:"country" minLength:"2" maxLength:"2" format:"country" doc:"2-letter ISO code."`
		Product        string `json:"product" enum:"worker"`
	}

	userCreated struct {
		UserID string `json:"user_id"`
	}

	userUpdateInput struct {
		Body userUpdateBody
	}

	// userUpdateBody has pointer fields because an absent field stays unchanged.
	userUpdateBody struct {
		UserID         string  `json:"user_id" minLength:"1" maxLength:"64"`
		Email          *string `json:"email,omitempty" minLength:"3" maxLength:"254"`
		PhoneNumber    *string `json:"phone_number,omitempty" minLength:"3" maxLength:"40"`
		PhoneCountry   *string `json:"phone_country,omitempty" minLength:"2" maxLength:"2" format:"country"`
		FirstName      *string `json:"first_name,omitempty" minLength:"1" maxLength:"100"`
		LastName       *string `json:"last_name,omitempty" minLength:"1" maxLength:"100"`
		DateOfBirth    *string `json:"date_of_birth,omitempty" format:"date" doc:"At least 16 years ago."`
		StreetAddress  *string `json:"street_address,omitempty" minLength:"1" maxLength:"200"`
		StreetAddress2 *string `json:"street_address_2,omitempty" maxLength:"200" doc:"An empty string removes it."`
		City           *string `json:"city,omitempty" minLength:"1" maxLength:"100"`
		State          *string `json:"state,omitempty" maxLength:"100"`
		Zip            *string `json:"zip,omitempty" maxLength:"20"`
		Country        *string `json:"country,omitempty" minLength:"2" maxLength:"2" format:"country"`
	}

	success struct {
		Success bool `json:"success"`
	}

	userGet struct {
		UserID string `query:"user_id" maxLength:"64" doc:"May be absent with a user's own token."`
	}

	userDetail struct {
		UserID          string   `json:"user_id"`
		Email           string   `json:"email"`
		PhoneNumber     string   `json:"phone_number"`
		PhoneCountry    string   `json:"phone_country"`
		FirstName       string   `json:"first_name"`
		LastName        string   `json:"last_name"`
		DateOfBirth     string   `json:"date_of_birth"`
		StreetAddress   string   `json:"street_address"`
		StreetAddress2  string   `json:"street_address_2"`
		City            string   `json:"city"`
		State           string   `json:"state"`
		Zip             string   `json:"zip"`
		Country         string   `json:"country"`
		KYCStatus       kycState `json:"kyc_status"`
		ProfileComplete bool     `json:"profile_complete" doc:"Whether the profile has all fields that payouts require."`
		Created         Time     `json:"created"`
	}
)

func createUser(ctx context.Context, tx *db.Tx, c *request, in *userCreateInput) (*userCreated, error) {
	b := &in.Body
	u, err := payee.CreateUser(ctx, tx, c.Sealer, c.by, identity.Profile{
		Email: b.Email, FirstName: b.FirstName, LastName: b.LastName, Country: b.Country,
		Details: identity.Details{
			PhoneNumber: b.PhoneNumber, PhoneCountry: b.PhoneCountry, DateOfBirth: b.DateOfBirth, StreetAddress: b.StreetAddress,
			StreetAddress2: b.StreetAddress2, City: b.City, State: b.State, Zip: b.Zip,
		},
	})
	if err != nil {
		return nil, err
	}
	return &userCreated{u.ID}, nil
}

func updateUser(ctx context.Context, tx *db.Tx, c *request, in *userUpdateInput) (*success, error) {
	b := &in.Body
	_, err := c.KYC.UpdateUser(ctx, tx, c.by, b.UserID, identity.ProfileChanges{
		Email: b.Email, FirstName: b.FirstName, LastName: b.LastName, Country: b.Country,
		PhoneNumber: b.PhoneNumber, PhoneCountry: b.PhoneCountry, DateOfBirth: b.DateOfBirth, StreetAddress: b.StreetAddress,
		StreetAddress2: b.StreetAddress2, City: b.City, State: b.State, Zip: b.Zip,
	})
	if err != nil {
		return nil, err
	}
	return &success{true}, nil
}

func getUser(ctx context.Context, tx *db.Tx, c *request, in *userGet) (*userDetail, error) {
	u, err := identity.ActingUser(ctx, tx, c.by, in.UserID)
	if err != nil {
		return nil, err
	}
	if u, err = u.Open(c.Sealer); err != nil {
		return nil, err
	}
	return &userDetail{
		UserID: u.ID, Email: u.Email, PhoneNumber: u.PhoneNumber, PhoneCountry: u.PhoneCountry, FirstName: u.FirstName,
		LastName: u.LastName, DateOfBirth: u.DateOfBirth, StreetAddress: u.StreetAddress, StreetAddress2: u.StreetAddress2,
		City: u.City, State: u.State, Zip: u.Zip, Country: u.Country, KYCStatus: kycState(u.KYCStatus),
		ProfileComplete: u.Complete, Created: Time(u.Created),
	}, nil
}
