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

// What authenticators everywhere take: six digits of HMAC-SHA-1, for steps of 30 seconds.
const (
	step   = 30 * time.Second
	digits = otp.DigitsSix
)

// drift is by how many steps a person's clock may differ from ours, as RFC 6238 advises.
const drift = 1

// recoveryCodes is how many recovery codes a person gets at a time.
const recoveryCodes = 10

// What this package refuses people with.
var (
	ErrFactorExists = apierr.New(apierr.Conflict, "invalid_state", "You have an authenticator already. Remove it first.")
	ErrNoFactor     = apierr.New(apierr.Conflict, "invalid_state", "You have no authenticator.")
)

// Enrolment is an authenticator that is being set up.
type Enrolment struct {
	Key string // base32, to be typed in
	URI string // otpauth://…, to be scanned
}

// HasFactor says whether a person must show a second factor to sign in.
func HasFactor(ctx context.Context, tx *db.Tx, userID string) (bool, error) {
	f, err := selectFactor(ctx, tx, userID)
	return err == nil && f.confirmed, absent(err)
}

// Enrol begins to set up an authenticator, anew if one was begun. Nothing is asked of the person until [Confirm].
func Enrol(ctx context.Context, tx *db.Tx, s *identity.Sealer, u identity.User) error {
	if has, err := HasFactor(ctx, tx, u.ID); err != nil || has {
		return cmp.Or(err, error(ErrFactorExists))
	}
	key, err := totp.Generate(totp.GenerateOpts{Issuer: issuer, AccountName: u.Email, Digits: digits})
	if err != nil {
		return err
	}
	sealed, err := s.Seal(secretOf(u.ID), []byte(key.Secret()))
	if err != nil {
		return err
	}
	return upsertFactor(ctx, tx, u.ID, sealed)
}

// issuer is what an authenticator calls us.
const issuer = "Stipend"

func secretOf(userID string) identity.Place {
	return identity.Place{Table: "second_factors", Column: "secret", Row: userID}
}

// Enrolling shows the authenticator that is being set up, or says apierr.NotFoundErr.
func Enrolling(ctx context.Context, tx *db.Tx, s *identity.Sealer, u identity.User) (Enrolment, error) {
	f, err := selectFactor(ctx, tx, u.ID)
	if err != nil {
		return Enrolment{}, err
	}
	if f.confirmed {
		return Enrolment{}, apierr.NotFoundErr
	}
	secret, err := s.Open(secretOf(u.ID), f.secret)
	if err != nil {
		return Enrolment{}, err
	}
	raw, err := base32Secret.DecodeString(string(secret))
	if err != nil {
		return Enrolment{}, err
	}
	key, err := totp.Generate(totp.GenerateOpts{Issuer: issuer, AccountName: u.Email, Digits: digits, Secret: raw})
	if err != nil {
		return Enrolment{}, err
	}
	return Enrolment{Key: key.Secret(), URI: key.URL()}, nil
}

// Confirm ends the setting up with the first code and returns the recovery codes, of which only digests are kept. A wrong
// code is ok false. at is the time on the wall, which is what authenticators go by, and not that of the transaction, which a
// sandbox moves.
func Confirm(ctx context.Context, tx *db.Tx, s *identity.Sealer, u Person, code string, at time.Time) (codes []string, ok bool, err error) {
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

// Verify takes a code of the person's authenticator or, once, one of their recovery codes. at is the time on the wall. It
// says false for a code that is wrong or was taken before.
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
	return true, u.notify(ctx, tx, mail.RecoveryUsed)
}

// factor is an authenticator as it is stored.
type factor struct {
	secret    string // sealed
	confirmed bool
}

// match finds the step that a code belongs to.
func (f factor) match(s *identity.Sealer, userID, code string, at time.Time) (found int64, ok bool, err error) {
	secret, err := s.Open(secretOf(userID), f.secret)
	if err != nil {
		return 0, false, err
	}
	return MatchCode(string(secret), code, at)
}

// NewSecret makes the secret of an authenticator, base32, and the address by which one takes it in.
func NewSecret(issuer, name string) (secret, uri string, err error) {
	key, err := totp.Generate(totp.GenerateOpts{Issuer: issuer, AccountName: name, Digits: digits})
	if err != nil {
		return "", "", err
	}
	return key.Secret(), key.URL(), nil
}

// MatchCode says whether a code is one of an authenticator's at a time, and of which step. Who takes it must see to it that neither
// the step, nor one before it, is taken again.
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
			found, ok = n, true // all are tried, so that the time does not tell which it was
		}
	}
	return found, ok, nil
}

// RecoveryLeft is how many recovery codes a person has not used.
func RecoveryLeft(ctx context.Context, tx *db.Tx, userID string) (int64, error) {
	return countRecoveryCodes(ctx, tx, userID)
}

// RenewRecovery replaces a person's recovery codes by new ones and returns them.
func RenewRecovery(ctx context.Context, tx *db.Tx, u Person) ([]string, error) {
	if has, err := HasFactor(ctx, tx, u.ID); err != nil || !has {
		return nil, cmp.Or(err, error(ErrNoFactor))
	}
	codes, err := newRecoveryCodes(ctx, tx, u.ID)
	if err != nil {
		return nil, err
	}
	return codes, u.notify(ctx, tx, mail.RecoveryRenewed)
}

// Remove takes a person's authenticator and recovery codes away: their password is enough from now on.
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

// Erase deletes what is known of how a person comes in, and the links and invitations that wait for the address that they had.
func Erase(ctx context.Context, tx *db.Tx, userID, email string) error {
	err := errors.Join(deleteFactor(ctx, tx, userID), deleteRecoveryCodes(ctx, tx, userID), deletePasskeys(ctx, tx, userID))
	if email == "" || err != nil {
		return err
	}
	return errors.Join(deleteLinks(ctx, tx, ToSignUp, email), deleteLinks(ctx, tx, ToReset, email), deleteInvitationsOf(ctx, tx, email))
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

// absent is nil for what is merely not there.
func absent(err error) error {
	if errors.Is(err, apierr.NotFoundErr) {
		return nil
	}
	return err
}
