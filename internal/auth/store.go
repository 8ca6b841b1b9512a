package auth

import (
	"context"
	"encoding/base32"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

// base32Secret is the encoding of authenticator secrets.
var base32Secret = base32.StdEncoding.WithPadding(base32.NoPadding)

// missing maps db.ErrNoRows to apierr.NotFoundErr.
func missing(err error) error {
	if errors.Is(err, db.ErrNoRows) {
		return apierr.NotFoundErr
	}
	return err
}

func selectFactor(ctx context.Context, tx *db.Tx, userID string) (f factor, err error) {
	err = tx.QueryRow(ctx, "SELECT secret, confirmed_at <> 0 FROM second_factors WHERE user_id = $1",
		userID).Scan(&f.secret, &f.confirmed)
	return f, missing(err)
}

// upsertFactor stores an authenticator. It never replaces a confirmed one.
func upsertFactor(ctx context.Context, tx *db.Tx, userID, sealed string) error {
	n, err := tx.Exec(ctx, `INSERT INTO second_factors (user_id, secret, last_step, created_at, confirmed_at)
		VALUES ($1, $2, 0, $3, 0)
		ON CONFLICT (user_id) DO UPDATE SET secret = excluded.secret, last_step = 0, created_at = excluded.created_at
		WHERE second_factors.confirmed_at = 0`, userID, sealed, db.Micros(tx.Now()))
	if err == nil && n == 0 {
		return ErrFactorExists
	}
	return err
}

func confirmFactor(ctx context.Context, tx *db.Tx, userID string, step int64) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE second_factors SET confirmed_at = $2, last_step = $3
		WHERE user_id = $1 AND confirmed_at = 0`, userID, db.Micros(tx.Now()), step)
	return n == 1, err
}

// takeStep stores a time step. It returns false if that step or a later one was already used.
func takeStep(ctx context.Context, tx *db.Tx, userID string, step int64) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE second_factors SET last_step = $2
		WHERE user_id = $1 AND last_step < $2 AND confirmed_at <> 0`, userID, step)
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
	n, err := tx.Exec(ctx, "UPDATE recovery_codes SET used_at = $3 WHERE user_id = $1 AND digest = $2 AND used_at = 0",
		userID, digest, db.Micros(tx.Now()))
	return n == 1, err
}

// RecoveryLeft returns the number of unused recovery codes.
func RecoveryLeft(ctx context.Context, tx *db.Tx, userID string) (n int64, err error) {
	err = tx.QueryRow(ctx, "SELECT COUNT(*) FROM recovery_codes WHERE user_id = $1 AND used_at = 0", userID).Scan(&n)
	return n, err
}

func deleteRecoveryCodes(ctx context.Context, tx *db.Tx, userID string) error {
	_, err := tx.Exec(ctx, "DELETE FROM recovery_codes WHERE user_id = $1", userID)
	return err
}

// replaceLink stores a link and deletes earlier links with the same purpose and address.
func replaceLink(ctx context.Context, tx *db.Tx, l link) error {
	if err := deleteLinks(ctx, tx, l.purpose, l.email); err != nil {
		return err
	}
	return tx.Insert(ctx, "email_tokens", []string{"digest", "purpose", "email", "email_key", "created_at", "expires_at"},
		[][]any{{l.digest, string(l.purpose), l.email, identity.EmailKey(l.email), db.Micros(tx.Now()),
			db.Micros(l.expires)}})
}

func selectLink(ctx context.Context, tx *db.Tx, p Purpose, digest string) (email string, err error) {
	err = tx.QueryRow(ctx, "SELECT email FROM email_tokens WHERE digest = $1 AND purpose = $2 AND expires_at > $3",
		digest, string(p), db.Micros(tx.Now())).Scan(&email)
	return email, missing(err)
}

// takeLink deletes a link, so that it works once, and returns its address.
func takeLink(ctx context.Context, tx *db.Tx, p Purpose, digest string) (email string, err error) {
	err = tx.QueryRow(ctx, `DELETE FROM email_tokens
		WHERE digest = $1 AND purpose = $2 AND expires_at > $3 RETURNING email`,
		digest, string(p), db.Micros(tx.Now())).Scan(&email)
	return email, missing(err)
}

func deleteLinks(ctx context.Context, tx *db.Tx, p Purpose, email string) error {
	_, err := tx.Exec(ctx, "DELETE FROM email_tokens WHERE email_key = $1 AND purpose = $2", identity.EmailKey(email),
		string(p))
	return err
}

func deleteEndedLinks(ctx context.Context, tx *db.Tx) error {
	_, err := tx.Exec(ctx, "DELETE FROM email_tokens WHERE expires_at <= $1", db.Micros(tx.Now()))
	return err
}

// Members returns the members of a company, oldest first.
func Members(ctx context.Context, tx *db.Tx, companyID string) ([]Member, error) {
	rows, err := tx.Query(ctx, `SELECT m.user_id, u.first_name, u.last_name, u.email, m.role,
		COALESCE(f.confirmed_at, 0) <> 0
		FROM members m JOIN users u ON u.user_id = m.user_id LEFT JOIN second_factors f ON f.user_id = m.user_id
		WHERE m.company_id = $1 ORDER BY m.created_at, m.user_id`, companyID)
	return db.Collect(rows, err, func(r *db.Rows) (m Member, err error) {
		var first, last string
		err = r.Scan(&m.UserID, &first, &last, &m.Email, &m.Role, &m.Factor)
		m.Name = strings.TrimSpace(first + " " + last)
		return m, err
	})
}

func insertInvitation(ctx context.Context, tx *db.Tx, v Invitation, digest, by string) error {
	return tx.Insert(ctx, "member_invitations", []string{"company_id", "invitation_id", "digest", "email", "email_key",
		"role", "invited_by", "created_at", "expires_at"},
		[][]any{{v.CompanyID, v.ID, digest, v.Email, identity.EmailKey(v.Email), v.Role, by, db.Micros(tx.Now()),
			db.Micros(v.Expires)}})
}

// Invitations returns the open invitations of a company, oldest first.
func Invitations(ctx context.Context, tx *db.Tx, companyID string) ([]Invitation, error) {
	rows, err := tx.Query(ctx, `SELECT invitation_id, email, role, expires_at FROM member_invitations
		WHERE company_id = $1 AND expires_at > $2 ORDER BY created_at, invitation_id`, companyID, db.Micros(tx.Now()))
	return db.Collect(rows, err, func(r *db.Rows) (Invitation, error) {
		v := Invitation{CompanyID: companyID}
		var expires int64
		err := r.Scan(&v.ID, &v.Email, &v.Role, &expires)
		v.Expires = db.Time(expires)
		return v, err
	})
}

func selectInvitation(ctx context.Context, tx *db.Tx, digest string) (v Invitation, err error) {
	var expires int64
	err = tx.QueryRow(ctx, `SELECT company_id, invitation_id, email, role, expires_at FROM member_invitations
		WHERE digest = $1 AND expires_at > $2`,
		digest, db.Micros(tx.Now())).Scan(&v.CompanyID, &v.ID, &v.Email, &v.Role, &expires)
	v.Expires = db.Time(expires)
	return v, missing(err)
}

// deleteInvitation deletes an open invitation, so that it works only once. It returns apierr.NotFoundErr if there is
// none.
func deleteInvitation(ctx context.Context, tx *db.Tx, companyID, id string) error {
	return changed(tx.Exec(ctx, `DELETE FROM member_invitations
		WHERE company_id = $1 AND invitation_id = $2 AND expires_at > $3`, companyID, id, db.Micros(tx.Now())))
}

// deleteInvitations deletes a company's invitations to an address, and all its expired invitations.
func deleteInvitations(ctx context.Context, tx *db.Tx, companyID, email string) error {
	_, err := tx.Exec(ctx, "DELETE FROM member_invitations WHERE company_id = $1 AND (email_key = $2 OR expires_at <= $3)",
		companyID, identity.EmailKey(email), db.Micros(tx.Now()))
	return err
}

// deleteInvitationsBy deletes the invitations that a member sent.
func deleteInvitationsBy(ctx context.Context, tx *db.Tx, companyID, userID string) error {
	_, err := tx.Exec(ctx, "DELETE FROM member_invitations WHERE company_id = $1 AND invited_by = $2", companyID, userID)
	return err
}

// deleteInvitationsOf deletes all companies' invitations to an address.
func deleteInvitationsOf(ctx context.Context, tx *db.Tx, email string) error {
	_, err := tx.Exec(ctx, "DELETE FROM member_invitations WHERE email_key = $1", identity.EmailKey(email))
	return err
}

// Passkeys returns a person's passkeys, oldest first.
func Passkeys(ctx context.Context, tx *db.Tx, userID string) ([]Passkey, error) {
	rows, err := tx.Query(ctx, `SELECT passkey_id, name, data, created_at, last_used_at FROM passkeys
		WHERE user_id = $1 ORDER BY created_at, passkey_id`, userID)
	return db.Collect(rows, err, func(r *db.Rows) (k Passkey, err error) {
		var data string
		var created, used int64
		if err := r.Scan(&k.ID, &k.Name, &data, &created, &used); err != nil {
			return k, err
		}
		k.Created = db.Time(created)
		if used != 0 {
			k.LastUsed = db.Time(used)
		}
		return k, json.Unmarshal([]byte(data), &k.stored)
	})
}

// insertPasskey stores a passkey. It returns false if the credential is already registered.
func insertPasskey(ctx context.Context, tx *db.Tx, userID string, k Passkey) (bool, error) {
	data, err := json.Marshal(k.stored)
	if err != nil {
		return false, err
	}
	n, err := tx.Exec(ctx, `INSERT INTO passkeys (user_id, passkey_id, credential_id, name, data, created_at, last_used_at)
		VALUES ($1, $2, $3, $4, $5, $6, 0) ON CONFLICT DO NOTHING`, userID, k.ID, credentialID(k.stored), k.Name,
		string(data), db.Micros(tx.Now()))
	return n == 1, err
}

// usePasskey stores the signature counter of a passkey. A counter that does not increase reveals a clone.
func usePasskey(ctx context.Context, tx *db.Tx, userID string, c webauthn.Credential) error {
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "UPDATE passkeys SET data = $3, last_used_at = $4 WHERE user_id = $1 AND credential_id = $2",
		userID, credentialID(c), string(data), db.Micros(tx.Now()))
	return err
}

func updatePasskey(ctx context.Context, tx *db.Tx, userID, id, name string) error {
	n, err := tx.Exec(ctx, "UPDATE passkeys SET name = $3 WHERE user_id = $1 AND passkey_id = $2", userID, id, name)
	return changed(n, err)
}

func deletePasskey(ctx context.Context, tx *db.Tx, userID, id string) error {
	n, err := tx.Exec(ctx, "DELETE FROM passkeys WHERE user_id = $1 AND passkey_id = $2", userID, id)
	return changed(n, err)
}

// deletePasskeys deletes a person's passkeys and open challenges.
func deletePasskeys(ctx context.Context, tx *db.Tx, userID string) error {
	if _, err := tx.Exec(ctx, "DELETE FROM passkeys WHERE user_id = $1", userID); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, "DELETE FROM passkey_challenges WHERE user_id = $1", userID)
	return err
}

// changed returns apierr.NotFoundErr if no row was changed.
func changed(n int64, err error) error {
	if err == nil && n == 0 {
		return apierr.NotFoundErr
	}
	return err
}

func insertChallenge(ctx context.Context, tx *db.Tx, digest, userID, data string) error {
	return tx.Insert(ctx, "passkey_challenges", []string{"digest", "user_id", "data", "expires_at"},
		[][]any{{digest, userID, data, db.Micros(tx.Now().Add(challengeLife))}})
}

func deleteChallenge(ctx context.Context, tx *db.Tx, digest string) (userID, data string, err error) {
	err = tx.QueryRow(ctx, "DELETE FROM passkey_challenges WHERE digest = $1 AND expires_at > $2 RETURNING user_id, data",
		digest, db.Micros(tx.Now())).Scan(&userID, &data)
	return userID, data, missing(err)
}

func deleteEndedChallenges(ctx context.Context, tx *db.Tx) error {
	_, err := tx.Exec(ctx, "DELETE FROM passkey_challenges WHERE expires_at <= $1", db.Micros(tx.Now()))
	return err
}

// upsertEmailChange stores a requested change. It returns ErrEmailSoon if the last request is less than
// emailChangePeriod ago.
func upsertEmailChange(ctx context.Context, tx *db.Tx, c EmailChange, oldDigest, newDigest string,
	expires time.Time) error {
	n, err := tx.Exec(ctx, `INSERT INTO email_changes (user_id, old_email, new_email, old_digest, new_digest, old_done,
			new_done, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, FALSE, FALSE, $6, $7)
		ON CONFLICT (user_id) DO UPDATE SET old_email = excluded.old_email, new_email = excluded.new_email,
			old_digest = excluded.old_digest, new_digest = excluded.new_digest, old_done = FALSE, new_done = FALSE,
			created_at = excluded.created_at, expires_at = excluded.expires_at
		WHERE email_changes.created_at <= $8`, c.UserID, c.old, c.Address, oldDigest, newDigest, db.Micros(tx.Now()),
		db.Micros(expires), db.Micros(tx.Now().Add(-emailChangePeriod)))
	if err == nil && n == 0 {
		return ErrEmailSoon.At("body", "/new_email")
	}
	return err
}

func selectEmailChange(ctx context.Context, tx *db.Tx, digest string) (c EmailChange, err error) {
	var byOld bool
	err = tx.QueryRow(ctx, `SELECT user_id, old_email, new_email, old_done, new_done, old_digest = $1 FROM email_changes
		WHERE (old_digest = $1 OR new_digest = $1) AND expires_at > $2`, digest, db.Micros(tx.Now())).Scan(
		&c.UserID, &c.old, &c.Address, &c.OldDone, &c.NewDone, &byOld)
	c.Mine = byOld && c.OldDone || !byOld && c.NewDone
	return c, missing(err)
}

// confirmEmailChange stores that the link with a digest was opened, and locks the row until the commit.
func confirmEmailChange(ctx context.Context, tx *db.Tx, c EmailChange, digest string) (EmailChange, error) {
	err := tx.QueryRow(ctx, `UPDATE email_changes SET old_done = old_done OR old_digest = $2,
			new_done = new_done OR new_digest = $2
		WHERE user_id = $1 AND (old_digest = $2 OR new_digest = $2) AND expires_at > $3
		RETURNING old_done, new_done`, c.UserID, digest, db.Micros(tx.Now())).Scan(&c.OldDone, &c.NewDone)
	c.Mine = true
	return c, missing(err)
}

func deleteEmailChange(ctx context.Context, tx *db.Tx, userID string) error {
	_, err := tx.Exec(ctx, "DELETE FROM email_changes WHERE user_id = $1", userID)
	return err
}

func deleteEndedEmailChanges(ctx context.Context, tx *db.Tx) error {
	_, err := tx.Exec(ctx, "DELETE FROM email_changes WHERE expires_at <= $1", db.Micros(tx.Now()))
	return err
}
