package httpapi

import (
	"context"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/invoice/payer"
)

type (
	payerCreateInput struct{ Body payerCreateBody }

	payerCreateBody struct {
		UserID         string   `json:"user_id,omitempty" minLength:"1" maxLength:"64"`
		Name           *string  `json:"name" maxLength:"200"`
		Email          *string  `json:"email,omitempty" maxLength:"254"`
		CompanyType    *string  `json:"company_type" enum:"employer,client"`
		Currency       *string  `json:"payroll_invoice_currency" enum:"EUR,USD"`
		Website        *string  `json:"website,omitempty" maxLength:"300"`
		Occupation     *string  `json:"occupation,omitempty" maxLength:"100" doc:"For an employer."`
		PaymentAmount  *Decimal `json:"payment_amount,omitempty" doc:"For an employer, in payroll_invoice_currency."`
		StreetAddress  *string  `json:"street_address,omitempty" maxLength:"200"`
		StreetAddress2 *string  `json:"street_address_2,omitempty" maxLength:"200"`
		City           *string  `json:"city,omitempty" maxLength:"100"`
		Region         *string  `json:"region,omitempty" maxLength:"100"`
		Zip            *string  `json:"zip,omitempty" maxLength:"20"`
		Country        *string  `json:"country,omitempty" maxLength:"2" format:"country" doc:"2-letter ISO code."`
		IsCompany      bool     `json:"is_company,omitempty"`
	}

	payerUpdateInput struct{ Body payerUpdateBody }

	payerUpdateBody struct {
		UserID            string   `json:"user_id,omitempty" minLength:"1" maxLength:"64"`
		ExternalCompanyID string   `json:"external_company_id" maxLength:"64"`
		Name              *string  `json:"name,omitempty" maxLength:"200"`
		Email             *string  `json:"email,omitempty" maxLength:"254"`
		CompanyType       *string  `json:"company_type,omitempty" enum:"employer,client"`
		Currency          *string  `json:"payroll_invoice_currency,omitempty" enum:"EUR,USD"`
		Website           *string  `json:"website,omitempty" maxLength:"300"`
		Occupation        *string  `json:"occupation,omitempty" maxLength:"100"`
		PaymentAmount     *Decimal `json:"payment_amount,omitempty"`
		StreetAddress     *string  `json:"street_address,omitempty" maxLength:"200"`
		StreetAddress2    *string  `json:"street_address_2,omitempty" maxLength:"200"`
		City              *string  `json:"city,omitempty" maxLength:"100"`
		Region            *string  `json:"region,omitempty" maxLength:"100"`
		Zip               *string  `json:"zip,omitempty" maxLength:"20"`
		Country           *string  `json:"country,omitempty" maxLength:"2" format:"country"`
	}

	payerRefInput struct{ Body payerRefBody }

	payerRefBody struct {
		UserID            string `json:"user_id,omitempty" minLength:"1" maxLength:"64"`
		ExternalCompanyID string `json:"external_company_id" maxLength:"64"`
	}

	payerGet struct {
		UserID            string `query:"user_id" maxLength:"64"`
		ExternalCompanyID string `query:"external_company_id" required:"true" maxLength:"64"`
	}

	payerQuery struct {
		UserID string `query:"user_id" maxLength:"64"`
	}

	payerDeleted struct {
		ExternalCompanyID string `json:"external_company_id"`
	}

	payerList struct {
		Payers []payerDetail `json:"payers"`
	}

	payerDetail struct {
		ExternalCompanyID string   `json:"external_company_id"`
		Name              string   `json:"name"`
		Email             string   `json:"email"`
		CompanyType       string   `json:"company_type" enum:"employer,client"`
		Currency          string   `json:"payroll_invoice_currency"`
		Website           string   `json:"website"`
		Occupation        string   `json:"occupation"`
		PaymentAmount     *Decimal `json:"payment_amount,omitzero" doc:"Absent if not set."`
		StreetAddress     string   `json:"street_address"`
		StreetAddress2    string   `json:"street_address_2"`
		City              string   `json:"city"`
		Region            string   `json:"region"`
		Zip               string   `json:"zip"`
		Country           string   `json:"country"`
		IsCompany         bool     `json:"is_company"`
		Status            string   `json:"status" enum:"active,deleted"`
		Created           Time     `json:"created"`
	}
)

func createPayer(ctx context.Context, tx *db.Tx, c *request, in *payerCreateInput) (*payerDetail, error) {
	b := &in.Body
	p, err := payer.Create(ctx, tx, c.Sealer, c.by, b.UserID, payer.Changes{
		Name: b.Name, Email: b.Email, Type: b.CompanyType, Currency: b.Currency, Website: b.Website,
		Occupation: b.Occupation, PaymentAmount: (*string)(b.PaymentAmount), StreetAddress: b.StreetAddress,
		StreetAddress2: b.StreetAddress2, City: b.City, Region: b.Region, Zip: b.Zip, Country: b.Country,
		IsCompany: b.IsCompany,
	})
	return showPayer(p), err
}

func updatePayer(ctx context.Context, tx *db.Tx, c *request, in *payerUpdateInput) (*payerDetail, error) {
	b := &in.Body
	p, err := payer.Update(ctx, tx, c.Sealer, c.by, b.UserID, b.ExternalCompanyID, payer.Changes{
		Name: b.Name, Email: b.Email, Type: b.CompanyType, Currency: b.Currency, Website: b.Website,
		Occupation: b.Occupation, PaymentAmount: (*string)(b.PaymentAmount), StreetAddress: b.StreetAddress,
		StreetAddress2: b.StreetAddress2, City: b.City, Region: b.Region, Zip: b.Zip, Country: b.Country,
	})
	return showPayer(p), err
}

func getPayer(ctx context.Context, tx *db.Tx, c *request, in *payerGet) (*payerDetail, error) {
	p, err := payer.Detail(ctx, tx, c.Sealer, c.by, in.UserID, in.ExternalCompanyID)
	return showPayer(p), err
}

func listPayers(ctx context.Context, tx *db.Tx, c *request, in *payerQuery) (*payerList, error) {
	all, err := payer.List(ctx, tx, c.Sealer, c.by, in.UserID)
	if err != nil {
		return nil, err
	}
	out := &payerList{make([]payerDetail, len(all))}
	for i, p := range all {
		out.Payers[i] = *showPayer(p)
	}
	return out, nil
}

func deletePayer(ctx context.Context, tx *db.Tx, c *request, in *payerRefInput) (*payerDeleted, error) {
	if err := payer.Delete(ctx, tx, c.by, in.Body.UserID, in.Body.ExternalCompanyID); err != nil {
		return nil, err
	}
	return &payerDeleted{in.Body.ExternalCompanyID}, nil
}

func showPayer(p payer.Payer) *payerDetail {
	d := &payerDetail{
		ExternalCompanyID: p.ID, Name: p.Name, Email: p.Email, CompanyType: p.Type, Currency: string(p.Currency),
		Website: p.Website, Occupation: p.Occupation, StreetAddress: p.StreetAddress, StreetAddress2: p.StreetAddress2,
		City: p.City, Region: p.Region, Zip: p.Zip, Country: p.Country, IsCompany: p.IsCompany, Status: string(p.Status),
		Created: Time(p.CreatedAt),
	}
	if p.PaymentAmount != "" {
		d.PaymentAmount = (*Decimal)(&p.PaymentAmount)
	}
	return d
}
