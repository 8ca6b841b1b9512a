package auth

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/mail"
)

// challengeLife is the time within which a device must respond to a challenge.
const challengeLife = 5 * time.Minute

// maxPasskeys is the maximum number of passkeys per person.
const maxPasskeys = 20

// ErrPasskeys is returned when a person has maxPasskeys passkeys.
var ErrPasskeys = apierr.New(apierr.Conflict, "invalid_state", "You have 20 passkeys. Remove one first.")

// Passkey describes a passkey without its key.
type Passkey struct {
	ID, Name string
	Created  time.Time
	LastUsed time.Time // zero if it was never used
	stored   webauthn.Credential
}

// Relying is the WebAuthn relying party: the service's pages at one origin (WebAuthn, level 3).
type Relying struct{ web *webauthn.WebAuthn }

// NewRelying returns the relying party for an origin, such as https://pay.example.com. The host must not be an IP
// address. Browsers show the name.
func NewRelying(origin, name string) (*Relying, error) {
	u, err := url.Parse(origin)
	if err != nil {
		return nil, err
	}
	web, err := webauthn.New(&webauthn.Config{
		RPID: u.Hostname(), RPDisplayName: name, RPOrigins: []string{u.Scheme + "://" + u.Host},
		AttestationPreference: protocol.PreferNoAttestation,
	})
	return &Relying{web}, err
}

// holder adapts a person with passkeys to the WebAuthn library.
type holder struct {
	identity.User
	keys []Passkey
}

func (h holder) WebAuthnID() []byte          { return []byte(h.ID) }
func (h holder) WebAuthnName() string        { return h.Email }
func (h holder) WebAuthnDisplayName() string { return h.Email }

func (h holder) WebAuthnCredentials() []webauthn.Credential {
	all := make([]webauthn.Credential, len(h.keys))
	for i, k := range h.keys {
		all[i] = k.stored
	}
	return all
}

// BeginPasskey starts the registration of a passkey, and returns the options for the device as JSON.
func (r *Relying) BeginPasskey(ctx context.Context, tx *db.Tx, u identity.User) (string, error) {
	keys, err := Passkeys(ctx, tx, u.ID)
	if err != nil {
		return "", err
	}
	if len(keys) >= maxPasskeys {
		return "", ErrPasskeys
	}
	h := holder{u, keys}
	options, asked, err := r.web.BeginRegistration(h,
		webauthn.WithExclusions(webauthn.Credentials(h.WebAuthnCredentials()).CredentialDescriptors()),
		webauthn.WithAuthenticatorSelection(protocol.AuthenticatorSelection{
			ResidentKey: protocol.ResidentKeyRequirementRequired, RequireResidentKey: protocol.ResidentKeyRequired(),
			UserVerification: protocol.VerificationRequired,
		}))
	if err != nil {
		return "", err
	}
	return challenge(ctx, tx, u.ID, asked, options)
}

// AddPasskey stores the passkey in a device's response. It returns false if the response is malformed or does not
// match the challenge.
func (r *Relying) AddPasskey(ctx context.Context, tx *db.Tx, p Person, name, response string) (bool, error) {
	var problems apierr.List
	name = identity.Line(&problems, "/name", name, 1, 100)
	if err := problems.Err(); err != nil {
		return false, err
	}
	parsed, err := protocol.ParseCredentialCreationResponseBytes([]byte(response))
	if err != nil {
		return false, nil //nolint:nilerr // reported as false
	}
	asked, userID, err := takeChallenge(ctx, tx, parsed.Response.CollectedClientData.Challenge)
	if err != nil || userID != p.ID {
		return false, absent(err)
	}
	credential, err := r.web.CreateCredential(holder{User: p.User}, asked, parsed)
	if err != nil {
		return false, nil //nolint:nilerr // reported as false
	}
	inserted, err := insertPasskey(ctx, tx, p.ID, Passkey{ID: tx.NewID("pky"), Name: name, stored: *credential})
	if err != nil || !inserted {
		return false, err
	}
	return true, p.notify(ctx, tx, mail.PasskeyAdded)
}

// BeginSignIn starts a sign-in with any passkey, and returns the options for the device as JSON.
func (r *Relying) BeginSignIn(ctx context.Context, tx *db.Tx) (string, error) {
	options, asked, err := r.web.BeginDiscoverableLogin(webauthn.WithUserVerification(protocol.VerificationRequired))
	if err != nil {
		return "", err
	}
	return challenge(ctx, tx, "", asked, options)
}

// SignIn returns the user whose passkey signed the challenge. Because the device has verified its user, this counts
// as two factors. SignIn returns false if the response is malformed or does not match the challenge, or if the
// passkey seems to have been cloned.
func (r *Relying) SignIn(ctx context.Context, tx *db.Tx, response string) (u identity.User, ok bool, err error) {
	parsed, err := protocol.ParseCredentialRequestResponseBytes([]byte(response))
	if err != nil {
		return u, false, nil //nolint:nilerr // reported as false
	}
	asked, userID, err := takeChallenge(ctx, tx, parsed.Response.CollectedClientData.Challenge)
	if err != nil || userID != "" {
		return u, false, absent(err)
	}
	var failed error // error of the database, which the library would hide
	found, key, err := r.web.ValidatePasskeyLogin(func(_, handle []byte) (webauthn.User, error) {
		h, err := find(ctx, tx, string(handle))
		if !errors.Is(err, apierr.NotFoundErr) {
			failed = err
		}
		return h, err
	}, asked, parsed)
	if failed != nil {
		return u, false, failed
	}
	if err != nil || key.Authenticator.CloneWarning {
		return u, false, nil //nolint:nilerr // reported as false
	}
	h := found.(holder)
	return h.User, true, usePasskey(ctx, tx, h.ID, *key)
}

func find(ctx context.Context, tx *db.Tx, userID string) (holder, error) {
	u, err := identity.GetUser(ctx, tx, nil, userID)
	if err != nil {
		return holder{}, err
	}
	keys, err := Passkeys(ctx, tx, userID)
	return holder{u, keys}, err
}

// RenamePasskey renames a passkey, or returns apierr.NotFoundErr.
func RenamePasskey(ctx context.Context, tx *db.Tx, userID, id, name string) error {
	var problems apierr.List
	name = identity.Line(&problems, "/name", name, 1, 100)
	if err := problems.Err(); err != nil {
		return err
	}
	return updatePasskey(ctx, tx, userID, id, name)
}

// RemovePasskey deletes a passkey, or returns apierr.NotFoundErr.
func RemovePasskey(ctx context.Context, tx *db.Tx, p Person, id string) error {
	if err := deletePasskey(ctx, tx, p.ID, id); err != nil {
		return err
	}
	return p.notify(ctx, tx, mail.PasskeyRemoved)
}

// challenge stores a challenge until the device responds, and returns the options for the device as JSON.
func challenge(ctx context.Context, tx *db.Tx, userID string, asked *webauthn.SessionData,
	options any) (string, error) {
	data, err := json.Marshal(asked)
	if err != nil {
		return "", err
	}
	if err := insertChallenge(ctx, tx, identity.Digest(asked.Challenge), userID, string(data)); err != nil {
		return "", err
	}
	text, err := json.Marshal(options)
	return string(text), err
}

// takeChallenge returns a stored challenge and deletes it, so that it works only once.
func takeChallenge(ctx context.Context, tx *db.Tx, text string) (asked webauthn.SessionData, userID string, err error) {
	userID, data, err := deleteChallenge(ctx, tx, identity.Digest(text))
	if err != nil {
		return asked, "", err
	}
	return asked, userID, json.Unmarshal([]byte(data), &asked)
}

func credentialID(c webauthn.Credential) string { return base64.RawURLEncoding.EncodeToString(c.ID) }
