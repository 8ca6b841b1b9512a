// Package auth owns sign-up, password reset, second factors, passkeys, and the rules for members of companies.
//
// Signing up a business and resetting a password require a link from a mail. The second factor is an authenticator
// app (RFC 6238) with recovery codes. Passkeys (WebAuthn) are stored as public keys. Package identity stores members;
// this package checks who may add, change and remove them.
//
// The response to a request for a link does not reveal whether an account exists, because a job looks up the account
// after the response. A link works once, for the address to which it was sent, and only its digest is stored.
//
// Authenticator secrets are stored encrypted, recovery codes as digests. A one-time code is accepted once: its time
// step is stored, and neither that step nor an earlier one is accepted again. Package session limits the attempts,
// because their count must be committed even if the attempt fails.
//
// The package does not depend on pages or cookies.
package auth

import (
	"context"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/mail"
)

// Person is a user together with the language of their mails.
type Person struct {
	identity.User
	Language string // BCP 47 language tag
}

// notify enqueues a mail that informs the person about a change of their credentials. The change is one of the values
// in [mail.AccountChangedData].
func (p Person) notify(ctx context.Context, tx *db.Tx, change string) error {
	return mail.Enqueue(ctx, tx, mail.Message{
		To: p.Email, Template: mail.AccountChanged, Language: p.Language, Key: tx.NewID("evt"),
		Data: mail.AccountChangedData{Name: p.FirstName, Change: change, At: tx.Now()},
	})
}
