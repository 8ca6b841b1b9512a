package identity

import (
	"context"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
)

// MaxKeys is how many keys of an app may work at once: the one in use, and the one that replaces it.
const MaxKeys = 2

// KeyOverlap is how long a key goes on working after it was rotated.
const KeyOverlap = 24 * time.Hour

// ErrKeyLimit keeps forgotten keys from piling up.
var ErrKeyLimit = apierr.New(apierr.Conflict, "key_limit_reached", "Two keys of this app work already. Revoke one first.")

// APIKey is a key as it can be shown after it was made.
type APIKey struct {
	ID, AppID, Hint string    // the hint is its last four characters
	Created         time.Time // the others are zero for never
	Expires         time.Time
	Revoked         time.Time
	LastUsed        time.Time
}

// Works says whether the key is neither revoked nor expired.
func (k APIKey) Works(now time.Time) bool {
	return k.Revoked.IsZero() && (k.Expires.IsZero() || now.Before(k.Expires))
}

// Apps are the apps of a company, oldest first.
func Apps(ctx context.Context, tx *db.Tx, companyID string) ([]App, error) {
	return selectApps(ctx, tx, companyID, "")
}

// AppByID reads an app of a company, or says apierr.NotFoundErr.
func AppByID(ctx context.Context, tx *db.Tx, companyID, appID string) (App, error) {
	all, err := selectApps(ctx, tx, companyID, appID)
	if err != nil || len(all) == 0 {
		return App{}, notFound(err)
	}
	return all[0], nil
}

func notFound(err error) error {
	if err == nil {
		return apierr.NotFoundErr
	}
	return err
}

// APIKeys are the keys of an app, newest first, with those that have ended.
func APIKeys(ctx context.Context, tx *db.Tx, companyID, appID string) ([]APIKey, error) {
	return selectAPIKeys(ctx, tx, companyID, appID)
}

// AuthorizeOwn lets a company's own app act for it, and returns the API key, which is not kept. More than MaxKeys at once are
// ErrKeyLimit.
func AuthorizeOwn(ctx context.Context, tx *db.Tx, env Environment, companyID, appID string) (token string, err error) {
	if err := lockApp(ctx, tx, companyID, appID); err != nil {
		return "", err
	}
	keys, err := selectAPIKeys(ctx, tx, companyID, appID)
	if err != nil {
		return "", err
	}
	working := 0
	for _, k := range keys {
		if k.Works(tx.Now()) {
			working++
		}
	}
	if working >= MaxKeys {
		return "", ErrKeyLimit
	}
	_, token, err = CreateAPIKey(ctx, tx, env, NewAPIKey{CompanyID: companyID, AppID: appID})
	return token, err
}

// RotateAPIKey replaces a key by a new one, which it returns. The old one works for KeyOverlap longer, so that programs can be
// told the new one meanwhile. A key that does not work any more is apierr.NotFoundErr.
func RotateAPIKey(ctx context.Context, tx *db.Tx, env Environment, companyID, appID, keyID string) (token string, err error) {
	if token, err = AuthorizeOwn(ctx, tx, env, companyID, appID); err != nil {
		return "", err
	}
	return token, endAPIKey(ctx, tx, companyID, appID, keyID, tx.Now().Add(KeyOverlap))
}

// RotateSecret gives an app a new client secret and returns it. The old one stops at once: codes are exchanged within a minute,
// and tokens that were given go on working.
func RotateSecret(ctx context.Context, tx *db.Tx, env Environment, companyID, appID string) (secret string, err error) {
	secret = newToken(secretToken, env)
	return secret, setSecret(ctx, tx, companyID, appID, digest(secret))
}
