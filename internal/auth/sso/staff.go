package sso

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

// Staff signs in the operator's staff by the operator's provider. A member of staff then enters the code of their
// authenticator, as after a password.
type Staff struct {
	Client   *Client
	Provider Provider
	Domains  []string // of email addresses, in lower case; at least one
	Only     bool     // refuses passwords
}

// NewStaff returns s, or an error if it is incomplete.
func NewStaff(s Staff) (*Staff, error) {
	if s.Client == nil || s.Provider.Issuer == "" || s.Provider.ClientID == "" || s.Provider.ClientSecret == "" ||
		len(s.Domains) == 0 {
		return nil, errors.New("sso: staff need an issuer, a client ID, a client secret and a domain")
	}
	return &s, nil
}

// Accepts reports whether an address is in one of the domains.
func (s *Staff) Accepts(email string) bool {
	return slices.Contains(s.Domains, identity.EmailDomain(email))
}

// Pending is a member of staff whom the provider has authenticated and who must still enter a code.
type Pending struct {
	StaffID string `json:"staff_id"`
	Account string `json:"account"` // issuer and subject at the provider
}

// TakeStaff uses up a sign-in of staff at the provider, or returns ErrFailed.
func TakeStaff(ctx context.Context, tx *db.Tx, token string) error {
	subject, _, err := takeAttempt(ctx, tx, identity.LinkDigest(token), "")
	if err == nil && subject != "" { // it waits for a code
		err = ErrFailed
	}
	return err
}

// Await stores that a member of staff must enter a code, and returns the token for it.
func Await(ctx context.Context, tx *db.Tx, p Pending) (token string, err error) {
	text, err := json.Marshal(p)
	if err != nil {
		return "", err
	}
	token = identity.NewLinkToken()
	return token, insertAttempt(ctx, tx, identity.LinkDigest(token), "", string(text), "")
}

// Awaited returns the member of staff of a token of [Await], or ErrFailed. The token remains valid for another code.
func Awaited(ctx context.Context, tx *db.Tx, token string) (p Pending, err error) {
	text, err := selectAttempt(ctx, tx, identity.LinkDigest(token))
	if err != nil {
		return p, err
	}
	return p, json.Unmarshal([]byte(text), &p)
}

// End uses up a token of [Await].
func End(ctx context.Context, tx *db.Tx, token string) error {
	_, _, err := takeAttempt(ctx, tx, identity.LinkDigest(token), "")
	return err
}
