package auth

import (
	"context"
	"errors"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/mail"
)

// A person changes the email address with which they sign in by opening a link at both addresses: the old one shows
// that the owner of the account agrees, and the new one that the address is theirs. A new request replaces the last
// one.

// EmailChangeLife is the time in which both links must be opened.
const EmailChangeLife = 24 * time.Hour

// emailChangePeriod is the shortest time between two requests.
const emailChangePeriod = 5 * time.Minute

// Errors returned to callers.
var (
	ErrSameEmail = apierr.New(apierr.Invalid, "same_email", "This is the address of your account already.")
	ErrEmailSoon = apierr.New(apierr.Conflict, "email_change_open",
		"We sent links a moment ago. Open them, or try again in 5 minutes.")
)

// EmailChange is a requested change of an account's email address.
type EmailChange struct {
	UserID, Address  string // Address is the new address
	OldDone, NewDone bool   // the link at the address was opened
	Mine             bool   // the link by which the change was found was opened
	old              string
}

// RequestEmailChange mails a link to the old and to the new address of a signed-in person.
func RequestEmailChange(ctx context.Context, tx *db.Tx, s *identity.Sealer, p Person, address string) error {
	var problems apierr.List
	address = identity.Email(&problems, "/new_email", address, true)
	if err := problems.Err(); err != nil {
		return err
	}
	if !mail.Valid(address) {
		return mail.ErrAddress.At("body", "/new_email")
	}
	if identity.EmailKey(address) == identity.EmailKey(p.Email) {
		return ErrSameEmail.At("body", "/new_email")
	}
	oldToken, newToken := identity.NewLinkToken(), identity.NewLinkToken()
	expires := tx.Now().Add(EmailChangeLife)
	if err := upsertEmailChange(ctx, tx, EmailChange{UserID: p.ID, Address: address, old: p.Email},
		identity.LinkDigest(oldToken), identity.LinkDigest(newToken), expires); err != nil {
		return err
	}
	for to, token := range map[string]string{p.Email: oldToken, address: newToken} {
		if err := mail.Enqueue(ctx, tx, mail.Message{To: to, Template: mail.EmailChange, Language: p.Language, Sealer: s,
			Key: tx.NewID("evt"), Data: mail.EmailChangeData{Name: p.FirstName, Address: address, Token: token,
				Expires: expires}}); err != nil {
			return err
		}
	}
	return nil
}

// FindEmailChange returns the change to which a link belongs. It returns apierr.NotFoundErr for a link that is unknown,
// replaced or expired, and after the change.
func FindEmailChange(ctx context.Context, tx *db.Tx, token string) (EmailChange, error) {
	digest := identity.LinkDigest(token)
	if digest == "" {
		return EmailChange{}, apierr.NotFoundErr
	}
	return selectEmailChange(ctx, tx, digest)
}

// ConfirmEmailChange records that a link was opened. Once both were, it changes the address, ends links to reset the
// password by the old address, and notifies both; done reports that. It returns identity.ErrEmailTaken if someone else
// signs in with the address.
func ConfirmEmailChange(ctx context.Context, tx *db.Tx, token, language string) (c EmailChange, done bool, err error) {
	if c, err = FindEmailChange(ctx, tx, token); err != nil {
		return c, false, err
	}
	if c, err = confirmEmailChange(ctx, tx, c, identity.LinkDigest(token)); err != nil || !c.OldDone || !c.NewDone {
		return c, false, err
	}
	if err := identity.ChangeSignInEmail(ctx, tx, c.UserID, c.old, c.Address); err != nil {
		return c, false, err
	}
	if err := errors.Join(deleteEmailChange(ctx, tx, c.UserID), deleteLinks(ctx, tx, ToReset, c.old)); err != nil {
		return c, false, err
	}
	u, err := identity.GetUser(ctx, tx, nil, c.UserID)
	if err != nil {
		return c, false, err
	}
	for _, to := range []string{c.old, c.Address} {
		u.Email = to
		if err := (Person{u, language}).notify(ctx, tx, mail.EmailChanged); err != nil {
			return c, false, err
		}
	}
	return c, true, nil
}
