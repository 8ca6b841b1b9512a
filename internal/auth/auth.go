// Package auth owns sign-up, password reset, second factors, passkeys and membership rules of the pages.
//
// Sign-up of a business and password reset use a link in a mail. The second factor is an authenticator app (RFC
// 6238) with recovery codes. Passkeys (WebAuthn) are stored as public keys. Package identity stores the members;
// this package decides who may become and remain one, and in which role.
//
// A request for a link does not reveal whether an account exists: a job looks that up after the response. A link
// works once, for the address it was sent to, and only its digest is stored.
//
// Authenticator secrets are encrypted at rest; of recovery codes only digests are stored. A one-time code is
// accepted once: its time step is stored, and neither it nor an older one is accepted again. Package session limits
// the attempts, because their count must be committed whatever the outcome.
//
// The package does not depend on pages or cookies.
package auth

import (
	"context"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/mail"
)

// Person is the owner of an account and their language.
type Person struct {
	identity.User
	Language string // BCP 47
}

// notify sends the person a mail about a change of how they sign in.
func (p Person) notify(ctx context.Context, tx *db.Tx, change string) error {
	return mail.Enqueue(ctx, tx, mail.Message{
		To: p.Email, Template: mail.AccountChanged, Language: p.Language, Key: tx.NewID("evt"),
		Data: mail.AccountChangedData{Name: p.FirstName, Change: change, At: tx.Now()},
	})
}
