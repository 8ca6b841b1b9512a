package kyc

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/auth/sso"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/income"
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

// Errors of Erase; see also ErrProcessing and ErrLegalHold.
var (
	ErrUnpaid = apierr.New(apierr.Conflict, "invalid_state",
		"This person has unfinished payments. Finish or cancel their payrolls first.")
	ErrAccount = apierr.New(apierr.Conflict, "invalid_state",
		"This person has an open funding account. Close it at its bank first.")
	ErrRetention = apierr.New(apierr.Conflict, "invalid_state",
		"Payment records of this person must still be retained by law. Try again after the retention period.")
)

// Erase deletes the key of a subject with all documents and tax IDs. Without the key, copies in backups are
// unreadable. For a user, Erase also deletes personal data (profile, recipients, invitations, mails, the address in
// events), payout destinations and credentials. For a recipient without an account, it deletes the company's record
// of them, mails and destinations. Ledger entries and payments remain under the ID. Erase cannot be undone.
//
// Erase returns ErrLegalHold if there is a legal hold on the subject or on a company to which it belongs;
// ErrProcessing, ErrAccount or ErrUnpaid if a verification, a funding account, or a payment or income is open;
// ErrRetention within the given number of years after the last payment or income; and apierr.NotFoundErr for an
// unknown subject. Erasing a subject again is allowed. Erase returns the IDs and addresses of an erased person, for
// packages that store data under them.
func Erase(ctx context.Context, tx *db.Tx, subjectID string, years int) (known []string, err error) {
	return EraseUnpaidSince(ctx, tx, subjectID, tx.Now().AddDate(-years, 0, 0))
}

// EraseUnpaidSince is like [Erase], except that the last payment or income must not be later than until.
func EraseUnpaidSince(ctx context.Context, tx *db.Tx, subjectID string, until time.Time) (known []string, err error) {
	company, err := companyOfOwner(ctx, tx, subjectID)
	if err := errors.Join(err, checkHolds(ctx, tx, subjectID, company)); err != nil {
		return nil, err
	}
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
	if strings.HasPrefix(subjectID, "rec_") {
		return eraseRecipient(ctx, tx, subjectID, until)
	}
	if !strings.HasPrefix(subjectID, "usr_") {
		if !found {
			return nil, apierr.NotFoundErr
		}
		return nil, nil
	}
	return eraseUser(ctx, tx, subjectID, until)
}

// checkRetention returns ErrUnpaid if a person has open payments or incomes, and ErrRetention if the last one is
// later than until.
func checkRetention(open int64, last, until time.Time) error {
	switch {
	case open > 0:
		return ErrUnpaid
	case last.After(until):
		return ErrRetention
	}
	return nil
}

// checkPayments applies the retention rules to a company's payments to a payee.
func checkPayments(ctx context.Context, tx *db.Tx, companyID, payeeID string, until time.Time) error {
	open, last, err := payroll.CountOpenPayments(ctx, tx, companyID, payeeID)
	return errors.Join(err, checkRetention(open, last, until))
}

// eraseAddress deletes the mails to an address, and the address in events. It does nothing for an empty address.
func eraseAddress(ctx context.Context, tx *db.Tx, address string) error {
	if address == "" {
		return nil
	}
	return errors.Join(mail.Erase(ctx, tx, address), webhook.EraseAddress(ctx, tx, address))
}

func eraseRecipient(ctx context.Context, tx *db.Tx, recipientID string, until time.Time) (known []string, err error) {
	company, address, err := payee.EraseRecipient(ctx, tx, recipientID)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(checkHolds(ctx, tx, company),
		checkPayments(ctx, tx, company, recipientID, until)); err != nil {
		return nil, err
	}
	return []string{recipientID, address}, errors.Join(eraseAddress(ctx, tx, address),
		destination.Erase(ctx, tx, recipientID), destination.EraseRequest(ctx, tx, company, recipientID))
}

func eraseUser(ctx context.Context, tx *db.Tx, userID string, until time.Time) (known []string, err error) {
	switch open, err := virtualaccount.HasOpen(ctx, tx, userID); {
	case err != nil:
		return nil, err
	case open:
		return nil, ErrAccount
	}
	open, last, err := income.CountOpen(ctx, tx, userID)
	if err := errors.Join(err, checkRetention(open, last, until)); err != nil {
		return nil, err
	}
	for _, a := range money.All() { // money may be left in the balance
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
	if err := checkHolds(ctx, tx, companies...); err != nil {
		return nil, err
	}
	for _, company := range companies {
		if err := checkPayments(ctx, tx, company, userID, until); err != nil {
			return nil, err
		}
	}
	if err := eraseAddress(ctx, tx, user.Email); err != nil {
		return nil, err
	}
	known = append(known, userID, user.Email)
	return known, errors.Join(destination.Erase(ctx, tx, userID), session.EndAll(ctx, tx, userID),
		auth.Erase(ctx, tx, userID, user.Email), sso.Erase(ctx, tx, userID), securitylog.Erase(ctx, tx, userID))
}
