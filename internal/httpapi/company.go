package httpapi

import (
	"context"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/requestlog"
	"github.com/stipend/stipend/internal/securitylog"
)

type (
	companyGet struct {
		Body      companyRefBody // clients also send company_id in the body
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
		cursorPaging
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

	memberList struct {
		CompanyID string `query:"company_id"`
	}

	memberAll struct {
		Data        []memberDetail     `json:"data" doc:"The members, oldest first."`
		Invitations []memberInvitation `json:"invitations" doc:"Open invitations to become a member."`
	}

	memberInviteInput struct{ Body memberInviteBody }

	memberInviteBody struct {
		CompanyID string `json:"company_id,omitempty" maxLength:"64"`
		Email     string `json:"email" maxLength:"254" doc:"Address of the person." example:"grace@example.com"`
		Role      string `json:"role" enum:"owner,admin,developer,viewer" doc:"What the person may do as a member."`
		Language  string `json:"language,omitempty" maxLength:"20" doc:"Of the mail." example:"en"`
	}

	memberRoleInput struct{ Body memberRoleBody }

	memberRoleBody struct {
		CompanyID string `json:"company_id,omitempty" maxLength:"64"`
		UserID    string `json:"user_id" maxLength:"64" doc:"ID of the member."`
		Role      string `json:"role" enum:"owner,admin,developer,viewer" doc:"What the member may do."`
	}

	memberRemoveInput struct{ Body memberRemoveBody }

	memberRemoveBody struct {
		CompanyID string `json:"company_id,omitempty" maxLength:"64"`
		UserID    string `json:"user_id" maxLength:"64" doc:"ID of the member."`
	}

	memberRevokeInput struct{ Body memberRevokeBody }

	memberRevokeBody struct {
		CompanyID    string `json:"company_id,omitempty" maxLength:"64"`
		InvitationID string `json:"invitation_id" maxLength:"64" doc:"ID of the invitation."`
	}

	memberDetail struct {
		UserID       string `json:"user_id" doc:"ID of the member." example:"usr_06gf58g6w28xgvfnbjvbc8gg88"`
		Name         string `json:"name" example:"Ada Byron"`
		Email        string `json:"email" example:"ada@example.com"`
		Role         string `json:"role" enum:"owner,admin,developer,viewer" doc:"What the member may do."`
		SecondFactor bool   `json:"second_factor" doc:"Whether the member has a second factor."`
	}

	memberInvitation struct {
		InvitationID string `json:"invitation_id" example:"mbi_06gf58g6w28xgvfnbjvbc8gg88"`
		Email        string `json:"email" example:"grace@example.com"`
		Role         string `json:"role" enum:"owner,admin,developer,viewer" doc:"What the person may do as a member."`
		ExpiresAt    Time   `json:"expires_at" doc:"Until when it can be accepted, UTC."`
	}

	requestList struct {
		CompanyID string    `query:"company_id"`
		Outcome   string    `query:"outcome" enum:"succeeded,refused,failed,replayed" doc:"Only requests that ended so."`
		Route     string    `query:"route" maxLength:"255" doc:"Only requests of this operation, by its path."`
		RequestID string    `query:"request_id" maxLength:"128" doc:"Only the requests with this ID."`
		AppID     string    `query:"app_id" maxLength:"64" doc:"Only requests of this app."`
		To        time.Time `query:"to" doc:"Only requests before this time."`
		After     string    `query:"after" maxLength:"64" doc:"Continue a list: next of the page before."`
		Limit     int       `query:"limit" minimum:"1" maximum:"100" default:"20" doc:"Maximum number of entries."`
	}

	loggedRequests struct {
		Data []loggedRequest `json:"data" doc:"Requests, newest first."`
		Next string          `json:"next" doc:"Value of after for the next page; empty at the end." example:"\"\""`
	}

	loggedRequest struct {
		Reference      string `json:"reference" doc:"Identifies the entry." example:"gk2v7m3s1c-rql_1"`
		At             Time   `json:"at" doc:"When the request arrived, UTC."`
		RequestID      string `json:"request_id" doc:"X-Request-Id of the request." example:"1f0c3c0b9a2e4b7d"`
		Method         string `json:"method" doc:"HTTP method." example:"POST"`
		Route          string `json:"route" doc:"Path of the operation." example:"/api/company/payroll/create"`
		Path           string `json:"path" doc:"Path and query, with … for hidden values." example:"/api/company"`
		Status         int    `json:"status" doc:"HTTP status of the response." example:"200"`
		Code           string `json:"code" doc:"Error code of the response; empty for none." example:"\"\""`
		AppID          string `json:"app_id" doc:"App of the credential." example:"app_06gf58g6w0aychq170kks701q0"`
		Credential     string `json:"credential" doc:"ID of the API key or token." example:"key_06gf58g6w0aychq170kks701q0"`
		Took           int64  `json:"took_us" doc:"Time that the request took, in microseconds." example:"1520"`
		IdempotencyKey string `json:"idempotency_key" doc:"Idempotency-Key, shortened; empty for none." example:"\"\""`
		Replayed       bool   `json:"replayed" doc:"The response is that of an earlier request with the same key."`
		Body           string `json:"body" doc:"JSON, with … for hidden values; long ones are cut." example:"\"\""`
		Answer         string `json:"answer" doc:"JSON, with … for hidden values; long ones are cut." example:"\"\""`
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
	if !c.by.ForCompany() {
		return out, nil
	}
	for _, w := range o.Owners {
		out.UBOs = append(out.UBOs, ownerDetail{
			w.ID, w.FirstName, w.LastName, hundredths(w.OwnershipBps), w.Control, kycState(w.KYCStatus),
		})
	}
	return out, nil
}

func listMembers(ctx context.Context, tx *db.Tx, c *request, _ *memberList) (*memberAll, error) {
	members, err := auth.Members(ctx, tx, c.company)
	if err != nil {
		return nil, err
	}
	invited, err := auth.Invitations(ctx, tx, c.company)
	out := &memberAll{Data: make([]memberDetail, len(members)), Invitations: make([]memberInvitation, len(invited))}
	for i, m := range members {
		out.Data[i] = memberDetail{m.UserID, m.Name, m.Email, m.Role, m.Factor}
	}
	for i, v := range invited {
		out.Invitations[i] = memberInvitation{v.ID, v.Email, v.Role, Time(v.Expires)}
	}
	return out, err
}

// changeMembers calls change on behalf of the user to whom the access token belongs, and returns the company's
// members after the change.
func changeMembers(ctx context.Context, tx *db.Tx, c *request, change func(auth.Actor) error) (*memberAll, error) {
	if c.by.Kind != identity.KindOAuth {
		return nil, auth.ErrRole.Detailf("Only a person can change members. Use an access token that the person granted " +
			"to the app.")
	}
	if err := identity.RequireProven(ctx, tx, c.by); err != nil {
		return nil, err
	}
	if err := change(auth.Actor{CompanyID: c.company, UserID: c.by.UserID}); err != nil {
		return nil, err
	}
	return listMembers(ctx, tx, c, nil)
}

func inviteMember(ctx context.Context, tx *db.Tx, c *request, in *memberInviteInput) (*memberAll, error) {
	return changeMembers(ctx, tx, c, func(by auth.Actor) error {
		return auth.Invite(ctx, tx, c.Sealer, by, in.Body.Email, in.Body.Role, in.Body.Language)
	})
}

func setMemberRole(ctx context.Context, tx *db.Tx, c *request, in *memberRoleInput) (*memberAll, error) {
	return changeMembers(ctx, tx, c, func(by auth.Actor) error {
		return auth.SetRole(ctx, tx, by, in.Body.UserID, in.Body.Role)
	})
}

func removeMember(ctx context.Context, tx *db.Tx, c *request, in *memberRemoveInput) (*memberAll, error) {
	return changeMembers(ctx, tx, c, func(by auth.Actor) error {
		return auth.RemoveMember(ctx, tx, by, in.Body.UserID)
	})
}

func revokeMemberInvitation(ctx context.Context, tx *db.Tx, c *request, in *memberRevokeInput) (*memberAll, error) {
	return changeMembers(ctx, tx, c, func(by auth.Actor) error {
		return auth.Withdraw(ctx, tx, by, in.Body.InvitationID)
	})
}

func listRequests(ctx context.Context, tx *db.Tx, c *request, in *requestList) (*loggedRequests, error) {
	all, next, err := requestlog.List(ctx, tx, c.company, requestlog.Filter{
		Outcome: in.Outcome, Route: in.Route, RequestID: in.RequestID, AppID: in.AppID, To: in.To,
		After: in.After, Limit: in.Limit,
	})
	if err != nil {
		return nil, err
	}
	out := &loggedRequests{Data: make([]loggedRequest, len(all)), Next: next}
	for i, r := range all {
		out.Data[i] = loggedRequest{
			Reference: r.Ref, At: Time(r.At), RequestID: r.RequestID, Method: r.Method, Route: r.Route, Path: r.Path,
			Status: r.Status, Code: r.Code, AppID: r.AppID, Credential: r.Credential, Took: r.Took.Microseconds(),
			IdempotencyKey: r.IdempotencyKey, Replayed: r.Replayed, Body: r.Body, Answer: r.Answer,
		}
	}
	return out, nil
}

func listSecurityEvents(ctx context.Context, tx *db.Tx, c *request, in *securityEventList) (*securityEventPage, error) {
	all, total, err := securitylog.List(ctx, tx, c.company, securitylog.Filter{
		Category: securitylog.Category(in.Category), UserID: in.UserID, Page: in.page(),
	})
	if err != nil {
		return nil, err
	}
	out := &securityEventPage{Data: make([]securityEvent, len(all)), Meta: metaOf(in.cursorPaging, total, all,
		func(x securitylog.Event) string { return x.ID })}
	for i, e := range all {
		out.Data[i] = securityEvent{
			EventID: e.ID, At: Time(e.At), Category: string(e.Category), Action: e.Action, Path: e.Path, UserID: e.UserID,
			Outcome: e.Outcome, Address: e.Address, Agent: e.Agent,
		}
	}
	return out, nil
}
