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

// To change the email address with which they sign in, a person opens a link at both addresses: the link at the old
// address shows that the owner of the account agrees, and the link at the new address that the person can read its
// mail. A new request replaces an earlier one.

// EmailChangeLife is the time within which both links must be opened.
const EmailChangeLife = 24 * time.Hour

// emailChangePeriod is the minimum time between two requests.
const emailChangePeriod = 5 * time.Minute

// Errors that callers receive.
var (
	ErrSameEmail = apierr.New(apierr.Invalid, "same_email", "This is the address of your account already.")
	ErrEmailSoon = apierr.New(apierr.Conflict, "email_change_open",
		"We sent links a moment ago. Open them, or try again in 5 minutes.")
)

// EmailChange is a requested change of an account's email address.
type EmailChange struct {
	UserID, Address  string // the new address
	OldDone, NewDone bool   // the link sent to this address was opened
	Mine             bool   // the link with which the change was found was opened
	old              string
}

// RequestEmailChange mails a link to the old and the new address of a signed-in person.
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

// FindEmailChange returns the change to which a link belongs. It returns apierr.NotFoundErr for a link that is
// unknown, replaced or expired, and once the address has been changed.
func FindEmailChange(ctx context.Context, tx *db.Tx, token string) (EmailChange, error) {
	digest := identity.LinkDigest(token)
	if digest == "" {
		return EmailChange{}, apierr.NotFoundErr
	}
	return selectEmailChange(ctx, tx, digest)
}

// ConfirmEmailChange records that a link was opened. Once both links were opened, it changes the address, deletes
// password reset links sent to the old address, mails both addresses and returns true as done. It returns
// identity.ErrEmailTaken if another person signs in with the new address.
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
