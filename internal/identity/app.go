package identity

import (
	"context"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
)

// MaxKeys is the maximum number of valid keys of an app: the current key and its replacement.
const MaxKeys = 2

// KeyOverlap is how long the old key stays valid after a rotation.
const KeyOverlap = 24 * time.Hour

// ErrKeyLimit is returned if an app already has MaxKeys valid keys.
var ErrKeyLimit = apierr.New(apierr.Conflict, "key_limit_reached",
	"This app already has two active API keys. Revoke one first.")

// APIKey describes an API key without its value.
type APIKey struct {
	ID, AppID, Hint            string // the last four characters of the key
	Created                    time.Time
	Expires, Revoked, LastUsed time.Time // zero means never
}

// Active reports whether the key is neither revoked nor expired.
func (k APIKey) Active(now time.Time) bool {
	return k.Revoked.IsZero() && (k.Expires.IsZero() || now.Before(k.Expires))
}

// Apps returns the apps of a company, oldest first.
func Apps(ctx context.Context, tx *db.Tx, companyID string) ([]App, error) {
	return selectApps(ctx, tx, companyID, "")
}

// CommandLineClient is the client ID of the stipend program itself, which every installation accepts. It is a public
// client: it has no secret and no redirect URI, and can only use the device flow.
const CommandLineClient = "stipend-cli"

// CommandLineApp returns the app of [CommandLineClient], which belongs to no company. It stores the app with the
// given scopes if it is not stored yet.
func CommandLineApp(ctx context.Context, tx *db.Tx, scopes Scopes) (App, error) {
	if err := upsertCommandLine(ctx, tx, scopes); err != nil {
		return App{}, err
	}
	return AppByClientID(ctx, tx, CommandLineClient)
}

// Public reports whether the app is a public OAuth client, which has no secret.
func (a App) Public() bool { return a.CompanyID == "" && a.ClientID == CommandLineClient }

// AppByID returns an app of a company, or apierr.NotFoundErr.
func AppByID(ctx context.Context, tx *db.Tx, companyID, appID string) (App, error) {
	all, err := selectApps(ctx, tx, companyID, appID)
	if err := changed(int64(len(all)), err); err != nil {
		return App{}, err
	}
	return all[0], nil
}

// Reach describes whether an app can still act for a company.
type Reach struct {
	App     string // name of the app
	Allowed bool   // the app has a valid API key or consent with the scope
}

// ReachOf returns whether an app, which may belong to another company, can act for a company with a scope. It returns
// apierr.NotFoundErr for an unknown app.
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

// IssueAPIKey creates an API key of a company's app and returns it. Only the key's digest is stored. It returns
// ErrKeyLimit if the app already has MaxKeys valid keys.
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

// RotateAPIKey creates a key that replaces another one, and returns it. The other key stays valid for KeyOverlap.
// RotateAPIKey returns apierr.NotFoundErr if that key is not valid.
func RotateAPIKey(ctx context.Context, tx *db.Tx, env Environment,
	companyID, appID, keyID string) (token string, err error) {
	if token, err = IssueAPIKey(ctx, tx, env, companyID, appID); err != nil {
		return "", err
	}
	return token, endAPIKey(ctx, tx, companyID, appID, keyID, tx.Now().Add(KeyOverlap))
}

// RotateSecret replaces the client secret of an app and returns the new secret. The old secret is invalid at once;
// issued tokens stay valid.
func RotateSecret(ctx context.Context, tx *db.Tx, env Environment, companyID, appID string) (secret string, err error) {
	secret = newToken(secretToken, env)
	return secret, setSecret(ctx, tx, companyID, appID, Digest(secret))
}
