package httpapi

import (
	"context"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/kyc"
)

type (
	taxFormInput struct{ Body taxFormBody }

	taxFormBody struct {
		UserID         string `json:"user_id,omitempty" minLength:"1" maxLength:"64" doc:"Required with an API key."`
		Form           string `json:"form" enum:"w9,w8ben"`
		Name           string `json:"name" minLength:"1" maxLength:"200"`
		BusinessName   string `json:"business_name,omitempty" maxLength:"200"`
		Classification string `json:"classification,omitempty" maxLength:"20"`
		TaxID          string `json:"tax_id,omitempty" maxLength:"64"`
		TaxIDType      string `json:"tax_id_type,omitempty" maxLength:"8"`
		DateOfBirth    string `json:"date_of_birth,omitempty" maxLength:"10"`
		Country        string `json:"country,omitempty" maxLength:"2"`
		StreetAddress  string `json:"street_address" minLength:"1" maxLength:"200"`
		City           string `json:"city" minLength:"1" maxLength:"100"`
		State          string `json:"state,omitempty" maxLength:"100"`
		Zip            string `json:"zip,omitempty" maxLength:"20"`
		Certified      bool   `json:"certified"`
	}

	taxForm struct {
		Form      string `json:"form" enum:",w9,w8ben"`
		Status    string `json:"status" enum:"missing,valid,expired"`
		Name      string `json:"name"`
		TaxID     string `json:"tax_id"`
		Signed    *Time  `json:"signed,omitzero"`
		LastDay   string `json:"last_day"`
		TaxIDType string `json:"tax_id_type"`
	}
)

// showTaxForm returns a tax form for a response. The tax ID is masked except for its last characters.
func (c *request) showTaxForm(tx *db.Tx, t kyc.TaxForm) *taxForm {
	out := &taxForm{Form: t.Form, Status: t.Status(tx.Now()), Name: t.Name, TaxID: t.Masked(), LastDay: t.LastDay(),
		TaxIDType: t.TaxIDType}
	if t.Form != "" {
		at := Time(t.SignedAt)
		out.Signed = &at
	}
	return out
}

func signTaxForm(ctx context.Context, tx *db.Tx, c *request, in *taxFormInput) (*taxForm, error) {
	b := &in.Body
	t, err := c.KYC.SignTaxForm(ctx, tx, c.by, b.UserID, kyc.TaxForm{
		Form: b.Form, Name: b.Name, BusinessName: b.BusinessName, Classification: b.Classification, TaxID: b.TaxID,
		TaxIDType: b.TaxIDType, DateOfBirth: b.DateOfBirth, Country: b.Country, StreetAddress: b.StreetAddress,
		City: b.City, State: b.State, Zip: b.Zip,
	}, b.Certified)
	if err != nil {
		return nil, err
	}
	return c.showTaxForm(tx, t), nil
}

func getTaxForm(ctx context.Context, tx *db.Tx, c *request, in *userGet) (*taxForm, error) {
	t, err := c.KYC.TaxFormOf(ctx, tx, c.by, in.UserID)
	if err != nil {
		return nil, err
	}
	return c.showTaxForm(tx, t), nil
}
