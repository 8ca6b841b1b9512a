package httpapi

import (
	"context"

	"github.com/stipend/stipend/internal/db"
)

// credentialDetail describes the caller's credential and its permissions.
type credentialDetail struct {
	Kind      string   `json:"kind" enum:"api_key,oauth_token,platform_token" doc:"Kind of the credential."`
	CompanyID string   `json:"company_id,omitempty" doc:"ID of the company that the credential acts for."`
	UserID    string   `json:"user_id,omitempty" doc:"ID of the user who authorized the app. Absent for the others."`
	Scopes    []string `json:"scopes" doc:"The scopes of the credential." example:"[\"c_company_detail\"]"`
}

func getCredential(_ context.Context, _ *db.Tx, c *request, _ *none) (*credentialDetail, error) {
	return &credentialDetail{string(c.by.Kind), c.by.CompanyID, c.by.UserID, c.by.Scopes.List()}, nil
}
