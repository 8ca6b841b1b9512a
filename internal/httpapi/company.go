package httpapi

import (
	"context"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

type (
	companyGet struct {
		Body      companyRefBody // clients send the company here too
		CompanyID string         `query:"company_id"`
	}

	companyRefBody struct {
		CompanyID string `json:"company_id,omitempty" maxLength:"64"`
	}

	companyDetail struct {
		CompanyID     string          `json:"company_id"`
		Name          string          `json:"name"`
		Email         string          `json:"email"`
		Website       string          `json:"website"`
		Country       string          `json:"country"`
		Status        string          `json:"status" enum:"active,frozen,closed"`
		KYBStatus     kybState        `json:"kyb_status"`
		FundingMethod string          `json:"funding_method"`
		Created       Time            `json:"created"`
		KYBState      onboardingState `json:"kyb_state"`
		Missing       []string        `json:"missing" doc:"Fields and documents that are still missing."`
		Documents     []documentItem  `json:"documents"`
		UBOs          []ownerDetail   `json:"ubos"`
	}

	ownerDetail struct {
		UBOID               string   `json:"ubo_id"`
		FirstName           string   `json:"first_name"`
		LastName            string   `json:"last_name"`
		OwnershipPercentage Decimal  `json:"ownership_percentage"`
		ControlPerson       bool     `json:"control_person"`
		KYCStatus           kycState `json:"kyc_status"`
	}
)

func getCompany(ctx context.Context, tx *db.Tx, c *request, in *companyGet) (*companyDetail, error) {
	if in.Body.CompanyID != "" && in.Body.CompanyID != c.company {
		return nil, apierr.NotFoundErr
	}
	r, err := identity.CompanyByID(ctx, tx, c.company)
	if err != nil {
		return nil, err
	}
	o, err := c.KYC.OnboardingOf(ctx, tx, r.ID)
	if err != nil {
		return nil, err
	}
	out := &companyDetail{
		CompanyID: r.ID, Name: r.Name, Email: r.Email, Website: r.Website, Country: r.Country, Status: r.Status,
		KYBStatus: kybState(r.KYBStatus), FundingMethod: r.FundingMethod, Created: Time(r.Created),
		KYBState: onboardingState(o.State), Missing: append([]string{}, o.Missing...),
		Documents: make([]documentItem, len(o.Documents)), UBOs: []ownerDetail{},
	}
	for i, d := range o.Documents {
		out.Documents[i] = documentItem(d)
	}
	if c.by.Kind != identity.KindAPIKey {
		return out, nil
	}
	for _, w := range o.Owners {
		out.UBOs = append(out.UBOs, ownerDetail{
			w.ID, w.FirstName, w.LastName, hundredths(w.OwnershipBps), w.Control, kycState(w.KYCStatus),
		})
	}
	return out, nil
}
