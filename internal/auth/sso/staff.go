package sso

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

// Staff signs in the operator's staff through the operator's provider. A member of staff then enters an authenticator
// code, as after a password.
type Staff struct {
	Client   *Client
	Provider Provider
	Domains  []string // lowercase domains of email addresses; at least one
	Only     bool     // reports whether passwords are rejected
}

// NewStaff returns s, or an error if it is incomplete.
func NewStaff(s Staff) (*Staff, error) {
	if s.Client == nil || s.Provider.Issuer == "" || s.Provider.ClientID == "" || s.Provider.ClientSecret == "" ||
		len(s.Domains) == 0 {
		return nil, errors.New("sso: staff need an issuer, a client ID, a client secret and a domain")
	}
	return &s, nil
}

// Accepts reports whether an email address is in one of the domains.
func (s *Staff) Accepts(email string) bool {
	return slices.Contains(s.Domains, identity.EmailDomain(email))
}

// Pending is a member of staff whom the provider has authenticated, and who must still enter a code.
type Pending struct {
	StaffID string `json:"staff_id"`
	Account string `json:"account"` // issuer and subject of the account at the provider
}

// TakeStaff deletes a staff sign-in, so that it works once. It returns ErrFailed if there is none.
func TakeStaff(ctx context.Context, tx *db.Tx, token string) error {
	subject, _, err := takeAttempt(ctx, tx, identity.LinkDigest(token), "")
	if err == nil && subject != "" { // this sign-in waits for a code instead
		err = ErrFailed
	}
	return err
}

// Await stores that a member of staff must still enter a code, and returns a token for that step.
func Await(ctx context.Context, tx *db.Tx, p Pending) (token string, err error) {
	text, err := json.Marshal(p)
	if err != nil {
		return "", err
	}
	token = identity.NewLinkToken()
	return token, insertAttempt(ctx, tx, identity.LinkDigest(token), "", string(text), "")
}

// Awaited returns the member of staff to whom a token from [Await] belongs, or ErrFailed. The token stays valid for
// another code.
func Awaited(ctx context.Context, tx *db.Tx, token string) (p Pending, err error) {
	text, err := selectAttempt(ctx, tx, identity.LinkDigest(token))
	if err != nil {
		return p, err
	}
	return p, json.Unmarshal([]byte(text), &p)
}

// End invalidates a token from [Await].
func End(ctx context.Context, tx *db.Tx, token string) error {
	_, _, err := takeAttempt(ctx, tx, identity.LinkDigest(token), "")
	return err
}
