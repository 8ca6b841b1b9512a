package httpapi

import (
	"context"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/securitylog"
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
		LEI           string          `json:"lei" doc:"Legal entity identifier, or empty."`
		FundingMethod string          `json:"funding_method"`
		Created       Time            `json:"created"`
		KYBState      onboardingState `json:"kyb_state"`
		Missing       []string        `json:"missing" doc:"Fields and documents that are still missing."`
		Documents     []documentItem  `json:"documents"`
		UBOs          []ownerDetail   `json:"ubos"`
	}

	securityEventList struct {
		CompanyID string `query:"company_id"`
		Category  string `query:"category" enum:",sign_in,credentials,members,access,money,staff,settings"`
		UserID    string `query:"user_id" maxLength:"64" doc:"ID of a member."`
		paging
	}

	securityEventPage struct {
		Data []securityEvent `json:"data" doc:"Events of the page, newest first."`
		Meta meta            `json:"meta"`
	}

	securityEvent struct {
		EventID  string `json:"event_id" example:"sev_06gf58g6w2qkhv375vsd8b2pm4"`
		At       Time   `json:"at" doc:"When the form was submitted."`
		Category string `json:"category" enum:"sign_in,credentials,members,access,money,staff,settings"`
		Action   string `json:"action" doc:"Method and route of the form." example:"POST /settings/members"`
		Path     string `json:"path" doc:"Path of the form, with the IDs of objects." example:"/settings/members"`
		UserID   string `json:"user_id" doc:"ID of the member, or empty."`
		Outcome  string `json:"outcome" doc:"Error code, or empty if the form succeeded." example:""`
		Address  string `json:"address" doc:"IP address of the client." example:"192.0.2.10"`
		Agent    string `json:"agent" doc:"User-Agent of the client." example:"Mozilla/5.0"`
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
		LEI: o.Profile.LEI, KYBState: onboardingState(o.State), Missing: append([]string{}, o.Missing...),
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

func listSecurityEvents(ctx context.Context, tx *db.Tx, c *request, in *securityEventList) (*securityEventPage, error) {
	all, total, err := securitylog.List(ctx, tx, c.company, securitylog.Filter{
		Category: securitylog.Category(in.Category), UserID: in.UserID, Page: in.number(), PerPage: in.size(),
	})
	if err != nil {
		return nil, err
	}
	out := &securityEventPage{Data: make([]securityEvent, len(all)), Meta: in.meta(total)}
	for i, e := range all {
		out.Data[i] = securityEvent{
			EventID: e.ID, At: Time(e.At), Category: string(e.Category), Action: e.Action, Path: e.Path, UserID: e.UserID,
			Outcome: e.Outcome, Address: e.Address, Agent: e.Agent,
		}
	}
	return out, nil
}
