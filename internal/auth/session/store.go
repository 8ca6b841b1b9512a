package session

import (
	"context"
	"errors"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

// insertSession inserts a session with a new token and returns the token. sso is the company whose OpenID provider
// authenticated the user, or "". factorAt is the time of a second factor in microseconds, or 0. waits reports whether
// the session waits for a second factor. insertSession returns ErrSSORequired if the user must sign in through a
// company's provider and did not.
func insertSession(ctx context.Context, tx *db.Tx, userID, sso string, factorAt int64, waits bool) (token string,
	err error) {
	if sso == "" {
		required, err := SSORequired(ctx, tx, userID)
		if err == nil && required {
			err = ErrSSORequired
		}
		if err != nil {
			return "", err
		}
	}
	token = identity.NewSessionToken()
	now := db.Micros(tx.Now())
	return token, tx.Insert(ctx, "sessions", []string{"digest", "session_id", "user_id", "company_id", "created_at",
		"last_used_at", "factor_at", "awaits_factor", "sso_company_id"},
		[][]any{{identity.SessionDigest(token), tx.NewID("ses"), userID, sso, now, now, factorAt, waits, sso}})
}

// selectEnforced reports whether a company that has the user as a member enforces single sign-on for a domain.
func selectEnforced(ctx context.Context, tx *db.Tx, userID, domain string) (bool, error) {
	var n int64
	err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM members m
			JOIN sso_connections s ON s.company_id = m.company_id
			JOIN sso_domains d ON d.company_id = m.company_id
			JOIN companies c ON c.company_id = m.company_id
		WHERE m.user_id = $1 AND d.domain = $2 AND d.verified_at > 0 AND s.enforced = TRUE AND c.status <> $3`,
		userID, domain, identity.CompanyClosed).Scan(&n)
	return n > 0, err
}

// selectSSO returns the user and [Session.SSO] of a session, which may still wait for a second factor.
func selectSSO(ctx context.Context, tx *db.Tx, digest string) (userID, sso string, err error) {
	err = tx.QueryRow(ctx, `SELECT user_id, sso_company_id FROM sessions
		WHERE digest = $1 AND created_at > $2 AND last_used_at > $3`, digest, db.Micros(tx.Now().Add(-Life)),
		db.Micros(tx.Now().Add(-Idle))).Scan(&userID, &sso)
	if errors.Is(err, db.ErrNoRows) {
		return "", "", nil
	}
	return userID, sso, err
}

func deleteSessionsWithoutSSO(ctx context.Context, tx *db.Tx, userID string) error {
	_, err := tx.Exec(ctx, "DELETE FROM sessions WHERE user_id = $1 AND sso_company_id = ''", userID)
	return err
}

func deleteSSOSessions(ctx context.Context, tx *db.Tx, companyID string) error {
	_, err := tx.Exec(ctx, "DELETE FROM sessions WHERE sso_company_id = $1", companyID)
	return err
}

func selectSession(ctx context.Context, tx *db.Tx, digest string) (s Session, userID, companyID string, err error) {
	var created, used, factor int64
	err = tx.QueryRow(ctx, `SELECT session_id, user_id, company_id, created_at, last_used_at, factor_at, sso_company_id
		FROM sessions
		WHERE digest = $1 AND created_at > $2 AND last_used_at > $3 AND awaits_factor = FALSE`,
		digest, db.Micros(tx.Now().Add(-Life)), db.Micros(tx.Now().Add(-Idle))).
		Scan(&s.ID, &userID, &companyID, &created, &used, &factor, &s.SSO)
	s.digest, s.Since, s.lastUsed = digest, db.Time(created), db.Time(used)
	if factor != 0 {
		s.Factor = db.Time(factor)
	}
	return s, userID, companyID, missing(err)
}

func selectWaiting(ctx context.Context, tx *db.Tx, digest string) (userID string, err error) {
	err = tx.QueryRow(ctx, "SELECT user_id FROM sessions WHERE digest = $1 AND created_at > $2 AND awaits_factor = TRUE",
		digest, db.Micros(tx.Now().Add(-Wait))).Scan(&userID)
	return userID, missing(err)
}

// missing maps db.ErrNoRows to apierr.NotFoundErr.
func missing(err error) error {
	if errors.Is(err, db.ErrNoRows) {
		return apierr.NotFoundErr
	}
	return err
}

// prove stores the current time as the time of the second factor, unless a later time is stored.
func prove(ctx context.Context, tx *db.Tx, digest string) error {
	_, err := tx.Exec(ctx, "UPDATE sessions SET factor_at = $1 WHERE digest = $2 AND factor_at < $1", db.Micros(tx.Now()),
		digest)
	return err
}

// touch stores the current time as the time of the last use, unless a later time is stored.
func touch(ctx context.Context, tx *db.Tx, digest string) error {
	_, err := tx.Exec(ctx, "UPDATE sessions SET last_used_at = $1 WHERE digest = $2 AND last_used_at < $1",
		db.Micros(tx.Now()), digest)
	return err
}

// keepForm stores an encrypted form with the session.
func keepForm(ctx context.Context, tx *db.Tx, digest, sealed string) error {
	_, err := tx.Exec(ctx, "UPDATE sessions SET kept_form = $1, kept_at = $2 WHERE digest = $3", sealed,
		db.Micros(tx.Now()), digest)
	return err
}

// selectKeptForm returns the encrypted form if it was stored after since, or "".
func selectKeptForm(ctx context.Context, tx *db.Tx, digest string, since int64) (sealed string, err error) {
	err = tx.QueryRow(ctx, "SELECT kept_form FROM sessions WHERE digest = $1 AND kept_at > $2", digest, since).
		Scan(&sealed)
	if errors.Is(err, db.ErrNoRows) {
		return "", nil
	}
	return sealed, err
}

func setCompany(ctx context.Context, tx *db.Tx, digest, companyID string) error {
	_, err := tx.Exec(ctx, "UPDATE sessions SET company_id = $1 WHERE digest = $2", companyID, digest)
	return err
}

func deleteSession(ctx context.Context, tx *db.Tx, digest string) error {
	_, err := tx.Exec(ctx, "DELETE FROM sessions WHERE digest = $1", digest)
	return err
}

func deleteSessions(ctx context.Context, tx *db.Tx, userID string) error {
	_, err := tx.Exec(ctx, "DELETE FROM sessions WHERE user_id = $1", userID)
	return err
}

func deleteOtherSessions(ctx context.Context, tx *db.Tx, userID, digest string) error {
	_, err := tx.Exec(ctx, "DELETE FROM sessions WHERE user_id = $1 AND digest <> $2", userID, digest)
	return err
}

func deleteEnded(ctx context.Context, tx *db.Tx) error {
	_, err := tx.Exec(ctx, `DELETE FROM sessions
		WHERE created_at <= $1 OR last_used_at <= $2 OR awaits_factor = TRUE AND created_at <= $3`,
		db.Micros(tx.Now().Add(-Life)), db.Micros(tx.Now().Add(-Idle)), db.Micros(tx.Now().Add(-Wait)))
	return err
}

// countAttempt counts an attempt and returns the number of attempts within the window. The first attempt after a
// window has ended starts a new window.
func countAttempt(ctx context.Context, tx *db.Tx, throttle string) (n int64, err error) {
	err = tx.QueryRow(ctx, `INSERT INTO sign_in_attempts (throttle, since_at, attempts) VALUES ($1, $2, 1)
		ON CONFLICT (throttle) DO UPDATE SET
			attempts = CASE WHEN sign_in_attempts.since_at <= $3 THEN 1 ELSE sign_in_attempts.attempts + 1 END,
			since_at = CASE WHEN sign_in_attempts.since_at <= $3 THEN $2 ELSE sign_in_attempts.since_at END
		RETURNING attempts`, throttle, db.Micros(tx.Now()), db.Micros(tx.Now().Add(-Window))).Scan(&n)
	return n, err
}

// returnAttempt subtracts one attempt.
func returnAttempt(ctx context.Context, tx *db.Tx, throttle string) error {
	_, err := tx.Exec(ctx, "UPDATE sign_in_attempts SET attempts = attempts - 1 WHERE throttle = $1 AND attempts > 0",
		throttle)
	return err
}

func deleteAttemptsAt(ctx context.Context, tx *db.Tx, throttle string) error {
	_, err := tx.Exec(ctx, "DELETE FROM sign_in_attempts WHERE throttle = $1", throttle)
	return err
}

func deleteAttempts(ctx context.Context, tx *db.Tx) error {
	_, err := tx.Exec(ctx, "DELETE FROM sign_in_attempts WHERE since_at <= $1", db.Micros(tx.Now().Add(-Window)))
	return err
}
