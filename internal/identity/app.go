package identity

import (
	"context"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
)

// MaxKeys is the maximum number of valid keys per app: the current one and its replacement.
const MaxKeys = 2

// KeyOverlap is how long a key remains valid after it was rotated.
const KeyOverlap = 24 * time.Hour

// ErrKeyLimit is returned when an app has MaxKeys valid keys.
var ErrKeyLimit = apierr.New(apierr.Conflict, "key_limit_reached",
	"This app already has two active API keys. Revoke one first.")

// APIKey describes an API key without its value.
type APIKey struct {
	ID, AppID, Hint            string // Hint is the last four characters of the key
	Created                    time.Time
	Expires, Revoked, LastUsed time.Time // times; zero means never
}

// Active reports whether the key is neither revoked nor expired.
func (k APIKey) Active(now time.Time) bool {
	return k.Revoked.IsZero() && (k.Expires.IsZero() || now.Before(k.Expires))
}

// Apps returns the apps of a company, oldest first.
func Apps(ctx context.Context, tx *db.Tx, companyID string) ([]App, error) {
	return selectApps(ctx, tx, companyID, "")
}

// CommandLineClient is the client ID of the program stipend itself, which every installation knows. It is a public
// client: it has no secret and no redirect URI, and signs people in by the device flow only.
const CommandLineClient = "stipend-cli"

// CommandLineApp stores the app of CommandLineClient with the given scopes, unless it is stored, and returns it. No
// company owns it.
func CommandLineApp(ctx context.Context, tx *db.Tx, scopes Scopes) (App, error) {
	if err := upsertCommandLine(ctx, tx, scopes); err != nil {
		return App{}, err
	}
	return AppByClientID(ctx, tx, CommandLineClient)
}

// Public reports whether the app is a client without a secret.
func (a App) Public() bool { return a.CompanyID == "" && a.ClientID == CommandLineClient }

// AppByID returns an app of a company, or apierr.NotFoundErr.
func AppByID(ctx context.Context, tx *db.Tx, companyID, appID string) (App, error) {
	all, err := selectApps(ctx, tx, companyID, appID)
	if err := changed(int64(len(all)), err); err != nil {
		return App{}, err
	}
	return all[0], nil
}

// Reach describes whether an app still acts for a company.
type Reach struct {
	App     string // name of the app
	Allowed bool   // it has a valid API key of the company, or a consent in effect, with the scope
}

// ReachOf returns the reach of an app, which may be another company's, with a scope. It returns apierr.NotFoundErr for
// an unknown app.
func ReachOf(ctx context.Context, tx *db.Tx, companyID, appID string, scope Scope) (Reach, error) {
	owner, name, scopes, err := selectReach(ctx, tx, appID)
	r := Reach{App: name}
	if err != nil || !scopes.Has(scope) {
		return r, err
	}
	if owner == companyID {
		keys, err := APIKeys(ctx, tx, companyID, appID)
		if err != nil {
			return r, err
		}
		for _, k := range keys {
			r.Allowed = r.Allowed || k.Active(tx.Now())
		}
	}
	granted, err := grantedScopes(ctx, tx, companyID, appID)
	r.Allowed = r.Allowed || granted.Has(scope)
	return r, err
}

// IssueAPIKey creates an API key of a company's app and returns it. The key itself is not stored. It returns
// ErrKeyLimit if the app has MaxKeys valid keys.
func IssueAPIKey(ctx context.Context, tx *db.Tx, env Environment, companyID, appID string) (token string, err error) {
	if err := lockApp(ctx, tx, companyID, appID); err != nil {
		return "", err
	}
	keys, err := APIKeys(ctx, tx, companyID, appID)
	if err != nil {
		return "", err
	}
	active := 0
	for _, k := range keys {
		if k.Active(tx.Now()) {
			active++
		}
	}
	if active >= MaxKeys {
		return "", ErrKeyLimit
	}
	_, token, err = CreateAPIKey(ctx, tx, env, NewAPIKey{CompanyID: companyID, AppID: appID})
	return token, err
}

// RotateAPIKey returns a new key that replaces another one, which remains valid for KeyOverlap. An invalid key is
// apierr.NotFoundErr.
func RotateAPIKey(ctx context.Context, tx *db.Tx, env Environment,
	companyID, appID, keyID string) (token string, err error) {
	if token, err = IssueAPIKey(ctx, tx, env, companyID, appID); err != nil {
		return "", err
	}
	return token, endAPIKey(ctx, tx, companyID, appID, keyID, tx.Now().Add(KeyOverlap))
}

// RotateSecret replaces the client secret of an app and returns the new one. The old one becomes invalid at once;
// issued tokens remain valid.
func RotateSecret(ctx context.Context, tx *db.Tx, env Environment, companyID, appID string) (secret string, err error) {
	secret = newToken(secretToken, env)
	return secret, setSecret(ctx, tx, companyID, appID, Digest(secret))
}
