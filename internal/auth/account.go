// Package auth owns how people come to have an account at the pages, and prove that it is theirs: sign-up of a business and
// reset of a password, both by a link in a mail; the authenticator that shows one-time codes (RFC 6238), and the recovery codes
// for the day when it is lost; and passkeys (WebAuthn), of which only public keys are stored. It owns, too, who may become and stay a member of a company, and in which role; the rows of
// members themselves are package identity's.
//
// Whoever asks for a link learns nothing about who has an account: answers and their time are the same, as a job looks it up. A
// link works once, for the address that it went to, and only its digest is stored.
//
// An authenticator's secret is sealed at rest; of recovery codes only digests are stored. A code is taken once: the step that
// it belongs to is noted, and neither it nor an older one is taken again. How often codes may be tried is for package
// session to say, because its count must be committed whatever becomes of the try.
//
// The package knows no page and no cookie.
package auth

import (
	"context"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/mail"
)

// Person is whose account it is, and the language in which they read.
type Person struct {
	identity.User
	Language string // BCP 47
}

// notify tells a person, by mail, what was changed about how they come in.
func (p Person) notify(ctx context.Context, tx *db.Tx, change string) error {
	return mail.Enqueue(ctx, tx, mail.Message{
		To: p.Email, Template: mail.AccountChanged, Language: p.Language, Key: tx.NewID("evt"),
		Data: mail.AccountChangedData{Name: p.FirstName, Change: change, At: tx.Now()},
	})
}
