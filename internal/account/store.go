package account

import (
	"context"
	"encoding/base32"
	"errors"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/fault"
	"github.com/stipend/stipend/internal/identity"
)

// base32Secret is how authenticators write secrets.
var base32Secret = base32.StdEncoding.WithPadding(base32.NoPadding)

func missing(err error) error {
	if errors.Is(err, db.ErrNoRows) {
		return fault.NotFoundErr
	}
	return err
}

func selectFactor(ctx context.Context, tx *db.Tx, userID string) (f factor, err error) {
	err = tx.QueryRow(ctx, "SELECT secret, confirmed_at <> 0 FROM second_factors WHERE user_id = $1", userID).Scan(&f.secret, &f.confirmed)
	return f, missing(err)
}

// upsertFactor never replaces one that is confirmed.
func upsertFactor(ctx context.Context, tx *db.Tx, userID, sealed string) error {
	n, err := tx.Exec(ctx, `INSERT INTO second_factors (user_id, secret, last_step, created_at, confirmed_at) VALUES ($1, $2, 0, $3, 0)
		ON CONFLICT (user_id) DO UPDATE SET secret = excluded.secret, last_step = 0, created_at = excluded.created_at
		WHERE second_factors.confirmed_at = 0`, userID, sealed, db.Micros(tx.Now()))
	if err == nil && n == 0 {
		return ErrFactorExists
	}
	return err
}

func confirmFactor(ctx context.Context, tx *db.Tx, userID string, step int64) (bool, error) {
	n, err := tx.Exec(ctx, "UPDATE second_factors SET confirmed_at = $2, last_step = $3 WHERE user_id = $1 AND confirmed_at = 0",
		userID, db.Micros(tx.Now()), step)
	return n == 1, err
}

// takeStep says whether the step, and none after it, was taken before.
func takeStep(ctx context.Context, tx *db.Tx, userID string, step int64) (bool, error) {
	n, err := tx.Exec(ctx, "UPDATE second_factors SET last_step = $2 WHERE user_id = $1 AND last_step < $2 AND confirmed_at <> 0", userID, step)
	return n == 1, err
}

func deleteFactor(ctx context.Context, tx *db.Tx, userID string) error {
	_, err := tx.Exec(ctx, "DELETE FROM second_factors WHERE user_id = $1", userID)
	return err
}

func insertRecoveryCodes(ctx context.Context, tx *db.Tx, userID string, digests []string) error {
	rows := make([][]any, len(digests))
	for i, d := range digests {
		rows[i] = []any{userID, d, int64(0)}
	}
	return tx.Insert(ctx, "recovery_codes", []string{"user_id", "digest", "used_at"}, rows)
}

func useRecoveryCode(ctx context.Context, tx *db.Tx, userID, digest string) (bool, error) {
	n, err := tx.Exec(ctx, "UPDATE recovery_codes SET used_at = $3 WHERE user_id = $1 AND digest = $2 AND used_at = 0", userID, digest, db.Micros(tx.Now()))
	return n == 1, err
}

func countRecoveryCodes(ctx context.Context, tx *db.Tx, userID string) (n int64, err error) {
	err = tx.QueryRow(ctx, "SELECT COUNT(*) FROM recovery_codes WHERE user_id = $1 AND used_at = 0", userID).Scan(&n)
	return n, err
}

func deleteRecoveryCodes(ctx context.Context, tx *db.Tx, userID string) error {
	_, err := tx.Exec(ctx, "DELETE FROM recovery_codes WHERE user_id = $1", userID)
	return err
}

// replaceLink ends the links of its purpose that the address had.
func replaceLink(ctx context.Context, tx *db.Tx, l link) error {
	if err := deleteLinks(ctx, tx, l.purpose, l.email); err != nil {
		return err
	}
	return tx.Insert(ctx, "account_links", []string{"digest", "purpose", "email", "email_key", "created_at", "expires_at"},
		[][]any{{l.digest, string(l.purpose), l.email, identity.EmailKey(l.email), db.Micros(tx.Now()), db.Micros(l.expires)}})
}

func selectLink(ctx context.Context, tx *db.Tx, p Purpose, digest string) (email string, err error) {
	err = tx.QueryRow(ctx, "SELECT email FROM account_links WHERE digest = $1 AND purpose = $2 AND expires_at > $3",
		digest, string(p), db.Micros(tx.Now())).Scan(&email)
	return email, missing(err)
}

// takeLink deletes a link, so that of two who use it one does.
func takeLink(ctx context.Context, tx *db.Tx, p Purpose, digest string) (email string, err error) {
	err = tx.QueryRow(ctx, "DELETE FROM account_links WHERE digest = $1 AND purpose = $2 AND expires_at > $3 RETURNING email",
		digest, string(p), db.Micros(tx.Now())).Scan(&email)
	return email, missing(err)
}

func deleteLinks(ctx context.Context, tx *db.Tx, p Purpose, email string) error {
	_, err := tx.Exec(ctx, "DELETE FROM account_links WHERE email_key = $1 AND purpose = $2", identity.EmailKey(email), string(p))
	return err
}

func deleteEndedLinks(ctx context.Context, tx *db.Tx) error {
	_, err := tx.Exec(ctx, "DELETE FROM account_links WHERE expires_at <= $1", db.Micros(tx.Now()))
	return err
}
