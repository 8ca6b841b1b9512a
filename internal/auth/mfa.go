package auth

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/hotp"
	"github.com/pquerna/otp/totp"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/mail"
)

// Parameters that every authenticator app supports: six digits, HMAC-SHA-1, time steps of 30 seconds.
const (
	step   = 30 * time.Second
	digits = otp.DigitsSix
)

// drift is the number of time steps by which a device's clock may be wrong, as RFC 6238 recommends.
const drift = 1

// recoveryCodes is the number of recovery codes per person.
const recoveryCodes = 10

// Errors for users.
var (
	ErrFactorExists = apierr.New(apierr.Conflict, "invalid_state", "You already have an authenticator. Remove it first.")
	ErrNoFactor     = apierr.New(apierr.Conflict, "invalid_state", "You have no authenticator. Set one up first.")
)

// Enrollment is an authenticator that is being set up.
type Enrollment struct {
	Key string // base32, to type into an app
	URI string // otpauth://…, to show as a QR code
}

// HasFactor reports whether a person must present a second factor to sign in.
func HasFactor(ctx context.Context, tx *db.Tx, userID string) (bool, error) {
	f, err := selectFactor(ctx, tx, userID)
	return err == nil && f.confirmed, absent(err)
}

// Enroll starts the setup of an authenticator and replaces one that was not confirmed. The authenticator takes effect
// with [Confirm].
func Enroll(ctx context.Context, tx *db.Tx, s *identity.Sealer, u identity.User) error {
	if has, err := HasFactor(ctx, tx, u.ID); err != nil || has {
		return cmp.Or(err, error(ErrFactorExists))
	}
	// Only the secret of the key is stored. PendingEnrollment sets the issuer.
	key, err := totp.Generate(totp.GenerateOpts{Issuer: "Stipend", AccountName: u.Email, Digits: digits})
	if err != nil {
		return err
	}
	sealed, err := s.Seal(secretOf(u.ID), []byte(key.Secret()))
	if err != nil {
		return err
	}
	return upsertFactor(ctx, tx, u.ID, sealed)
}

func secretOf(userID string) identity.SealContext {
	return identity.SealContext{Table: "second_factors", Column: "secret", Row: userID}
}

// PendingEnrollment returns the authenticator that is being set up, or apierr.NotFoundErr. The issuer is the name of
// the service that the authenticator app displays.
func PendingEnrollment(ctx context.Context, tx *db.Tx, s *identity.Sealer, u identity.User, issuer string) (Enrollment,
	error) {
	f, err := selectFactor(ctx, tx, u.ID)
	if err != nil {
		return Enrollment{}, err
	}
	if f.confirmed {
		return Enrollment{}, apierr.NotFoundErr
	}
	secret, err := s.Open(secretOf(u.ID), f.secret)
	if err != nil {
		return Enrollment{}, err
	}
	raw, err := base32Secret.DecodeString(string(secret))
	if err != nil {
		return Enrollment{}, err
	}
	key, err := totp.Generate(totp.GenerateOpts{Issuer: issuer, AccountName: u.Email, Digits: digits, Secret: raw})
	if err != nil {
		return Enrollment{}, err
	}
	return Enrollment{Key: key.Secret(), URI: key.URL()}, nil
}

// Confirm completes the setup of an authenticator with its first code, and returns the recovery codes, which are
// stored only as digests. It returns false for a wrong code. at must be the real time, which authenticators use; a
// sandbox can change the time of transactions.
func Confirm(ctx context.Context, tx *db.Tx, s *identity.Sealer, u Person, code string,
	at time.Time) (codes []string, ok bool, err error) {
	f, err := selectFactor(ctx, tx, u.ID)
	switch {
	case errors.Is(err, apierr.NotFoundErr):
		return nil, false, ErrNoFactor
	case err != nil:
		return nil, false, err
	case f.confirmed:
		return nil, false, ErrFactorExists
	}
	taken, ok, err := f.match(s, u.ID, code, at)
	if err != nil || !ok {
		return nil, false, err
	}
	if ok, err = confirmFactor(ctx, tx, u.ID, taken); err != nil || !ok {
		return nil, false, err
	}
	if codes, err = newRecoveryCodes(ctx, tx, u.ID); err != nil {
		return nil, false, err
	}
	return codes, true, u.notify(ctx, tx, mail.FactorAdded)
}

// Verify checks a code of the person's authenticator, or one of their recovery codes. Each code works once. Verify
// returns false for a code that is wrong or was used before. at must be the real time.
func Verify(ctx context.Context, tx *db.Tx, s *identity.Sealer, u Person, code string, at time.Time) (bool, error) {
	f, err := selectFactor(ctx, tx, u.ID)
	if err != nil || !f.confirmed {
		return false, absent(err)
	}
	taken, ok, err := f.match(s, u.ID, code, at)
	if err != nil {
		return false, err
	}
	if ok {
		return takeStep(ctx, tx, u.ID, taken)
	}
	used, err := useRecoveryCode(ctx, tx, u.ID, identity.RecoveryDigest(u.ID, code))
	if err != nil || !used {
		return false, err
	}
	return true, u.notify(ctx, tx, mail.RecoveryCodeUsed)
}

// factor is a stored authenticator.
type factor struct {
	secret    string // encrypted
	confirmed bool
}

// match returns the time step of a code, like [MatchCode].
func (f factor) match(s *identity.Sealer, userID, code string, at time.Time) (found int64, ok bool, err error) {
	secret, err := s.Open(secretOf(userID), f.secret)
	if err != nil {
		return 0, false, err
	}
	return MatchCode(string(secret), code, at)
}

// NewSecret returns a new authenticator secret in base32 and its otpauth URI.
func NewSecret(issuer, name string) (secret, uri string, err error) {
	key, err := totp.Generate(totp.GenerateOpts{Issuer: issuer, AccountName: name, Digits: digits})
	if err != nil {
		return "", "", err
	}
	return key.Secret(), key.URL(), nil
}

// MatchCode returns the time step in which a code is valid at the given time. It returns false for a wrong code. The
// caller must ensure that neither this step nor an earlier one is accepted again.
func MatchCode(secret, code string, at time.Time) (found int64, ok bool, err error) {
	code = strings.Map(func(r rune) rune {
		if r == ' ' || r == '-' {
			return -1
		}
		return r
	}, code)
	if len(code) != digits.Length() {
		return 0, false, nil
	}
	now := at.Unix() / int64(step/time.Second)
	for n := now - drift; n <= now+drift; n++ {
		same, err := hotp.ValidateCustom(code, uint64(n), secret, hotp.ValidateOpts{Digits: digits})
		if err != nil {
			return 0, false, err
		}
		if same {
			found, ok = n, true // continues, so that the duration does not reveal the step
		}
	}
	return found, ok, nil
}

// RenewRecovery replaces a person's recovery codes and returns the new ones.
func RenewRecovery(ctx context.Context, tx *db.Tx, u Person) ([]string, error) {
	if has, err := HasFactor(ctx, tx, u.ID); err != nil || !has {
		return nil, cmp.Or(err, error(ErrNoFactor))
	}
	codes, err := newRecoveryCodes(ctx, tx, u.ID)
	if err != nil {
		return nil, err
	}
	return codes, u.notify(ctx, tx, mail.RecoveryCodesReplaced)
}

// Remove deletes a person's authenticator and recovery codes. After that, the password alone suffices to sign in.
func Remove(ctx context.Context, tx *db.Tx, u Person) error {
	has, err := HasFactor(ctx, tx, u.ID)
	if err != nil || !has {
		return err
	}
	if err := errors.Join(deleteFactor(ctx, tx, u.ID), deleteRecoveryCodes(ctx, tx, u.ID)); err != nil {
		return err
	}
	return u.notify(ctx, tx, mail.FactorRemoved)
}

// Erase deletes a person's second factors and passkeys, and the links and invitations sent to their address.
func Erase(ctx context.Context, tx *db.Tx, userID, email string) error {
	err := errors.Join(deleteFactor(ctx, tx, userID), deleteRecoveryCodes(ctx, tx, userID),
		deletePasskeys(ctx, tx, userID), deleteEmailChange(ctx, tx, userID))
	if email == "" || err != nil {
		return err
	}
	return errors.Join(deleteLinks(ctx, tx, ToSignUp, email), deleteLinks(ctx, tx, ToReset, email),
		deleteInvitationsOf(ctx, tx, email))
}

func newRecoveryCodes(ctx context.Context, tx *db.Tx, userID string) ([]string, error) {
	codes := make([]string, recoveryCodes)
	digests := make([]string, recoveryCodes)
	for i := range codes {
		codes[i] = identity.NewRecoveryCode()
		digests[i] = identity.RecoveryDigest(userID, codes[i])
	}
	if err := deleteRecoveryCodes(ctx, tx, userID); err != nil {
		return nil, err
	}
	return codes, insertRecoveryCodes(ctx, tx, userID, digests)
}

// absent returns nil for apierr.NotFoundErr, and other errors unchanged.
func absent(err error) error {
	if errors.Is(err, apierr.NotFoundErr) {
		return nil
	}
	return err
}
