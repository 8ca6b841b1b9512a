package httpapi

import (
	"context"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/platform"
)

type (
	platformCreateInput struct{ Body platformCreateBody }

	platformCreateBody struct {
		Name       string `json:"name" minLength:"1" maxLength:"200" doc:"Name of the company."`
		Country    string `json:"country" maxLength:"2" format:"country" doc:"Country of the company, 2-letter ISO code."`
		Email      string `json:"email,omitempty" maxLength:"254" doc:"Address of the company."`
		Website    string `json:"website,omitempty" maxLength:"300"`
		OwnerEmail string `json:"owner_email" minLength:"1" maxLength:"254" doc:"The first owner, who is invited."`
		Language   string `json:"language,omitempty" enum:",en,es,pt,fr" doc:"Of the invitation. Default: the country's."`
		ExternalID string `json:"external_id,omitempty" maxLength:"255" doc:"Your reference, unique per app."`
		ReturnURL  string `json:"return_url,omitempty" maxLength:"500" doc:"Where the onboarding pages return to."`
		FeeBps     int64  `json:"fee_bps,omitempty" minimum:"0" maximum:"1000" doc:"Your fee on payrolls, in 1/100 percent."`
	}

	platformList struct {
		Status     string `query:"status" enum:"connected,disconnected"`
		KYBStatus  string `query:"kyb_status" maxLength:"40" doc:"Only companies in this state of verification."`
		ExternalID string `query:"external_id" maxLength:"255" doc:"Only the company with this reference."`
		cursorPaging
	}

	platformGet struct {
		Company string `path:"company" doc:"ID of the company." example:"com_06gf58g6w1v5s708fp7tx3xdw0"`
	}

	platformPage struct {
		Data []platformCompany `json:"data" doc:"Companies of the page."`
		Meta meta              `json:"meta"`
	}

	platformCompany struct {
		CompanyID  string   `json:"company_id"`
		ExternalID string   `json:"external_id" doc:"Your reference, or empty."`
		Name       string   `json:"name"`
		Country    string   `json:"country"`
		Status     string   `json:"status" enum:"connected,disconnected" doc:"Whether you can act for it."`
		KYBStatus  kybState `json:"kyb_status"`
		FeeBps     int64    `json:"fee_bps" doc:"Your fee on payrolls, in 1/100 percent." example:"50"`
		ReturnURL  string   `json:"return_url" doc:"Where the onboarding pages return to, or empty." example:"\"\""`
		Created    Time     `json:"created"`
	}

	platformFeeInput struct {
		Company string `path:"company" doc:"ID of the company." example:"com_06gf58g6w1v5s708fp7tx3xdw0"`
		Body    platformFeeBody
	}

	platformFeeBody struct {
		FeeBps int64 `json:"fee_bps" minimum:"0" maximum:"1000" doc:"Fee in 1/100 percent of the paid amount." example:"50"`
	}

	platformInviteInput struct {
		Company string `path:"company" doc:"ID of the company." example:"com_06gf58g6w1v5s708fp7tx3xdw0"`
		Body    platformInviteBody
	}

	platformInviteBody struct {
		OwnerEmail string `json:"owner_email" minLength:"1" maxLength:"254" doc:"Address of the first owner."`
		Language   string `json:"language,omitempty" enum:",en,es,pt,fr" doc:"Of the invitation. Default: the country's."`
	}

	platformInvitation struct {
		OwnerEmail string `json:"owner_email" example:"ada@acme.example" doc:"Address of the owner, who is invited."`
		ExpiresAt  Time   `json:"expires_at" doc:"Until when the invitation can be accepted, UTC."`
	}

	platformTokenInput struct {
		Company string `path:"company" doc:"ID of the company." example:"com_06gf58g6w1v5s708fp7tx3xdw0"`
		Body    platformTokenBody
	}

	platformTokenBody struct {
		Scope string `json:"scope,omitempty" maxLength:"1000" doc:"Scopes, separated by spaces. Default: all of the app."`
	}

	platformToken struct {
		AccessToken string `json:"access_token" doc:"Send it as Authorization: Bearer."`
		TokenType   string `json:"token_type" enum:"Bearer"`
		ExpiresIn   int64  `json:"expires_in" doc:"Seconds." example:"3600"`
		Scope       string `json:"scope" doc:"Scopes, separated by spaces." example:"c_company_detail"`
		CompanyID   string `json:"company_id"`
	}

	onboardingLinkInput struct {
		Company string `path:"company" doc:"ID of the company." example:"com_06gf58g6w1v5s708fp7tx3xdw0"`
		Body    onboardingLinkBody
	}

	onboardingLinkBody struct {
		ReturnURL string `json:"return_url,omitempty" maxLength:"500" doc:"Default: that of the company."`
	}

	onboardingLink struct {
		URL       string `json:"url" doc:"Redirect the person to it." example:"https://pay.example.com/onboarding/stp_link_…"`
		ExpiresAt Time   `json:"expires_at" doc:"Until when the link works, UTC."`
	}
)

func platformDetail(c platform.Company) *platformCompany {
	return &platformCompany{
		CompanyID: c.ID, ExternalID: c.ExternalID, Name: c.Name, Country: c.Country, Status: c.State,
		KYBStatus: kybState(c.KYBStatus), FeeBps: c.PlatformFeeBps, ReturnURL: c.ReturnURL, Created: Time(c.Created),
	}
}

func createPlatformCompany(ctx context.Context, tx *db.Tx, c *request, in *platformCreateInput) (*platformCompany,
	error) {
	b := &in.Body
	made, err := c.Platforms.Create(ctx, tx, c.by, platform.NewCompany{
		Name: b.Name, Country: b.Country, Email: b.Email, Website: b.Website, OwnerEmail: b.OwnerEmail, Language: b.Language,
		ExternalID: b.ExternalID, ReturnURL: b.ReturnURL, FeeBps: b.FeeBps,
	})
	return platformDetail(made), err
}

func listPlatformCompanies(ctx context.Context, tx *db.Tx, c *request, in *platformList) (*platformPage, error) {
	all, total, err := c.Platforms.List(ctx, tx, c.by, platform.Filter{
		State: in.Status, ExternalID: in.ExternalID, KYBStatus: in.KYBStatus, Page: in.page(),
	})
	out := &platformPage{Data: make([]platformCompany, len(all)), Meta: metaOf(in.cursorPaging, total, all,
		func(x platform.Company) string { return x.ID })}
	for i, one := range all {
		out.Data[i] = *platformDetail(one)
	}
	return out, err
}

func getPlatformCompany(ctx context.Context, tx *db.Tx, c *request, in *platformGet) (*platformCompany, error) {
	one, err := c.Platforms.Get(ctx, tx, c.by, in.Company)
	return platformDetail(one), err
}

func setPlatformFee(ctx context.Context, tx *db.Tx, c *request, in *platformFeeInput) (*platformCompany, error) {
	one, err := c.Platforms.SetFee(ctx, tx, c.by, in.Company, in.Body.FeeBps)
	return platformDetail(one), err
}

func invitePlatformOwner(ctx context.Context, tx *db.Tx, c *request, in *platformInviteInput) (*platformInvitation,
	error) {
	v, err := c.Platforms.Invite(ctx, tx, c.by, in.Company, in.Body.OwnerEmail, in.Body.Language)
	return &platformInvitation{v.Email, Time(v.Expires)}, err
}

func createPlatformToken(ctx context.Context, tx *db.Tx, c *request, in *platformTokenInput) (*platformToken, error) {
	t, err := c.Platforms.IssueToken(ctx, tx, c.by, in.Company, in.Body.Scope)
	return &platformToken{t.Token, "Bearer", int64(t.Life.Seconds()), t.Scopes.String(), in.Company}, err
}

func createOnboardingLink(ctx context.Context, tx *db.Tx, c *request, in *onboardingLinkInput) (*onboardingLink,
	error) {
	url, expires, err := c.Platforms.Link(ctx, tx, c.by, in.Company, in.Body.ReturnURL)
	return &onboardingLink{url, Time(expires)}, err
}
