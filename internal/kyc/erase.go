package kyc

import (
	"context"
	"errors"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/virtualaccount"
)

// What an erasure is refused with, beside ErrProcessing.
var (
	ErrUnpaid = apierr.New(apierr.Conflict, "invalid_state",
		"A pay run of this person is not at its end. Settle or cancel it first.")
	ErrAccount = apierr.New(apierr.Conflict, "invalid_state",
		"This person has a funding account that is not closed at its bank. Close it first.")
	ErrRetention = apierr.New(apierr.Conflict, "invalid_state", "The law still asks to keep who was paid here.")
)

// Erase destroys the key of a subject, and its documents and tax ids with it: copies in backups cannot be read any
// more either. Of a user it also empties everything that names them (profile, recipients, invitations, mails) or lets
// them in, and where they are paid; their ledger and payments stay, under the id alone.
//
// It refuses while a verification, a funding account or a pay run is open, and within so many years of the last pay
// run that pays the user. A subject that is nobody is apierr.NotFoundErr; erasing twice is fine. It cannot be undone.
// It returns the ids and addresses under which a user was known, by which packages above find what they keep.
func Erase(ctx context.Context, tx *db.Tx, subjectID string, years int) (known []string, err error) {
	c, err := selectCase(ctx, tx, subjectID)
	if err != nil {
		return nil, err
	}
	switch c.State {
	case Initiated, InReview, Submitted, OwnersPending:
		return nil, ErrProcessing
	}
	found, err := eraseSubject(ctx, tx, subjectID)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(subjectID, "usr_") {
		if !found {
			return nil, apierr.NotFoundErr
		}
		return nil, nil
	}
	return eraseUser(ctx, tx, subjectID, years)
}

func eraseUser(ctx context.Context, tx *db.Tx, userID string, years int) (known []string, err error) {
	switch open, err := virtualaccount.HasOpen(ctx, tx, userID); {
	case err != nil:
		return nil, err
	case open:
		return nil, ErrAccount
	}
	user, err := identity.EraseUser(ctx, tx, userID)
	if err != nil {
		return nil, err
	}
	companies, known, err := payee.Erase(ctx, tx, userID, user.Email)
	if err != nil {
		return nil, err
	}
	for _, company := range companies {
		open, last, err := payroll.CountOpenPayments(ctx, tx, company, userID)
		switch {
		case err != nil:
			return nil, err
		case open > 0:
			return nil, ErrUnpaid
		case !last.IsZero() && last.AddDate(years, 0, 0).After(tx.Now()):
			return nil, ErrRetention
		}
	}
	if user.Email != "" {
		if err := mail.Erase(ctx, tx, user.Email); err != nil {
			return nil, err
		}
	}
	known = append(known, userID, user.Email)
	return known, errors.Join(destination.Erase(ctx, tx, userID), session.EndAll(ctx, tx, userID),
		auth.Erase(ctx, tx, userID, user.Email))
}
