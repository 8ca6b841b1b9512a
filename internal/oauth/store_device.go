package oauth

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

// States of a device code.
const (
	devicePending = "pending"
	deviceAllowed = "allowed"
	deviceDenied  = "denied"
	deviceUsed    = "used"
)

// device is a row of device_codes.
type device struct {
	digest, appID, state, companyID, userID, grantID string
	scopes                                           identity.Scopes
	poll                                             time.Duration
	polled, expires                                  time.Time
}

func insertDevice(ctx context.Context, tx *db.Tx, d Device, appID string, scopes identity.Scopes) error {
	return tx.Insert(ctx, "device_codes", []string{"digest", "user_digest", "app_id", "scopes", "state", "company_id",
		"user_id", "poll_seconds", "polled_at", "grant_id", "expires_at", "created_at"},
		[][]any{{identity.Digest(d.Code), identity.Digest(strings.ReplaceAll(d.UserCode, "-", "")), appID, scopes.String(),
			devicePending, "", "", int64(d.Poll / time.Second), int64(0), "", db.Micros(tx.Now().Add(d.Life)),
			db.Micros(tx.Now())}})
}

const selectDevice = `SELECT digest, app_id, state, company_id, user_id, grant_id, scopes, poll_seconds, polled_at,
	expires_at FROM device_codes WHERE `

// deviceByCode locks and returns the row of a device code. The second result reports whether it exists.
func deviceByCode(ctx context.Context, tx *db.Tx, digest string) (device, bool, error) {
	if _, err := tx.Exec(ctx, "UPDATE device_codes SET state = state WHERE digest = $1", digest); err != nil {
		return device{}, false, err
	}
	return scanDevice(tx.QueryRow(ctx, selectDevice+"digest = $1", digest))
}

// deviceByUserCode returns the row of a user code. The second result reports whether it exists.
func deviceByUserCode(ctx context.Context, tx *db.Tx, digest string) (device, bool, error) {
	return scanDevice(tx.QueryRow(ctx, selectDevice+"user_digest = $1", digest))
}

func scanDevice(row db.Row) (d device, known bool, err error) {
	var scopes string
	var seconds, polled, expires int64
	err = row.Scan(&d.digest, &d.appID, &d.state, &d.companyID, &d.userID, &d.grantID, &scopes, &seconds, &polled,
		&expires)
	if errors.Is(err, db.ErrNoRows) {
		return d, false, nil
	}
	d.scopes, _ = identity.ParseScopes(scopes)
	d.poll, d.polled, d.expires = time.Duration(seconds)*time.Second, db.Time(polled), db.Time(expires)
	return d, err == nil, err
}

// answerDevice stores a person's answer. It returns false if there already is an answer.
func answerDevice(ctx context.Context, tx *db.Tx, digest, state, companyID, userID string,
	scopes identity.Scopes) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE device_codes SET state = $1, company_id = $2, user_id = $3, scopes = $4
		WHERE digest = $5 AND state = 'pending' AND expires_at > $6`,
		state, companyID, userID, scopes.String(), digest, db.Micros(tx.Now()))
	return n == 1, err
}

// touchDevice stores that a device polled now, and how long it must wait before it polls again.
func touchDevice(ctx context.Context, tx *db.Tx, digest string, poll time.Duration) error {
	_, err := tx.Exec(ctx, "UPDATE device_codes SET polled_at = $1, poll_seconds = $2 WHERE digest = $3",
		db.Micros(tx.Now()), int64(poll/time.Second), digest)
	return err
}

// useDevice stores the consent of an allowed device and marks the device as used. It returns true only for the first
// use.
func useDevice(ctx context.Context, tx *db.Tx, digest, grantID string) (bool, error) {
	n, err := tx.Exec(ctx, "UPDATE device_codes SET state = 'used', grant_id = $1 WHERE digest = $2 AND state = 'allowed'",
		grantID, digest)
	return n == 1, err
}
