package session

import (
	"context"
	"errors"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/fault"
)

func insertSession(ctx context.Context, tx *db.Tx, digest, id, userID string) error {
	now := db.Micros(tx.Now())
	return tx.Insert(ctx, "sessions", []string{"digest", "session_id", "user_id", "company_id", "created_at", "last_used_at"},
		[][]any{{digest, id, userID, "", now, now}})
}

func selectSession(ctx context.Context, tx *db.Tx, digest string) (s Session, userID, companyID string, err error) {
	var used int64
	err = tx.QueryRow(ctx, `SELECT session_id, user_id, company_id, last_used_at FROM sessions
		WHERE digest = $1 AND created_at > $2 AND last_used_at > $3`, digest, db.Micros(tx.Now().Add(-Life)), db.Micros(tx.Now().Add(-Idle))).
		Scan(&s.ID, &userID, &companyID, &used)
	if errors.Is(err, db.ErrNoRows) {
		err = fault.NotFoundErr
	}
	s.digest, s.lastUsed = digest, db.Time(used)
	return s, userID, companyID, err
}

// touch moves the last use forward, never back.
func touch(ctx context.Context, tx *db.Tx, digest string) error {
	_, err := tx.Exec(ctx, "UPDATE sessions SET last_used_at = $1 WHERE digest = $2 AND last_used_at < $1", db.Micros(tx.Now()), digest)
	return err
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

func deleteEnded(ctx context.Context, tx *db.Tx) error {
	_, err := tx.Exec(ctx, "DELETE FROM sessions WHERE created_at <= $1 OR last_used_at <= $2",
		db.Micros(tx.Now().Add(-Life)), db.Micros(tx.Now().Add(-Idle)))
	return err
}

// countAttempt adds one and returns how many there are since the window began. The first one after a window begins the next.
func countAttempt(ctx context.Context, tx *db.Tx, throttle string) (n int64, err error) {
	err = tx.QueryRow(ctx, `INSERT INTO sign_in_attempts (throttle, since_at, attempts) VALUES ($1, $2, 1)
		ON CONFLICT (throttle) DO UPDATE SET
			attempts = CASE WHEN sign_in_attempts.since_at <= $3 THEN 1 ELSE sign_in_attempts.attempts + 1 END,
			since_at = CASE WHEN sign_in_attempts.since_at <= $3 THEN $2 ELSE sign_in_attempts.since_at END
		RETURNING attempts`, throttle, db.Micros(tx.Now()), db.Micros(tx.Now().Add(-Window))).Scan(&n)
	return n, err
}

func returnAttempt(ctx context.Context, tx *db.Tx, throttle string) error {
	_, err := tx.Exec(ctx, "UPDATE sign_in_attempts SET attempts = attempts - 1 WHERE throttle = $1 AND attempts > 0", throttle)
	return err
}

func deleteAttempts(ctx context.Context, tx *db.Tx) error {
	_, err := tx.Exec(ctx, "DELETE FROM sign_in_attempts WHERE since_at <= $1", db.Micros(tx.Now().Add(-Window)))
	return err
}
