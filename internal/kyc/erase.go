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
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/securitylog"
	"github.com/stipend/stipend/internal/virtualaccount"
	"github.com/stipend/stipend/internal/webhook"
)

// Errors of Erase; see also ErrProcessing.
var (
	ErrUnpaid = apierr.New(apierr.Conflict, "invalid_state",
		"This person has unfinished payments. Finish or cancel their payrolls first.")
	ErrAccount = apierr.New(apierr.Conflict, "invalid_state",
		"This person has an open funding account. Close it at its bank first.")
	ErrRetention = apierr.New(apierr.Conflict, "invalid_state",
		"Payment records of this person must still be retained by law. Try again after the retention period.")
)

// Erase deletes the key of a subject with all documents and tax IDs. Without the key, copies in backups are unreadable.
// For a user it also deletes personal data (profile, recipients, invitations, mails, address in events), payout
// destinations and
// credentials; ledger entries and payments remain under the user's ID. Erase cannot be undone.
//
// It returns ErrProcessing, ErrAccount or ErrUnpaid while a verification, funding account or payment is open,
// ErrRetention within the given years after the last payment, and apierr.NotFoundErr for an unknown subject. Erasing
// again is allowed. Erase returns the IDs and addresses of an erased user, for packages that store data under them.
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
	for _, a := range money.All() { // income that waits for something
		if x, err := ledger.Balance(ctx, tx, userID, ledger.CompanyFunds, "", a); err != nil {
			return nil, err
		} else if x.Sign() > 0 {
			return nil, ErrUnpaid
		}
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
		if err := webhook.EraseAddress(ctx, tx, user.Email); err != nil {
			return nil, err
		}
	}
	known = append(known, userID, user.Email)
	return known, errors.Join(destination.Erase(ctx, tx, userID), session.EndAll(ctx, tx, userID),
		auth.Erase(ctx, tx, userID, user.Email), securitylog.Erase(ctx, tx, userID))
}
