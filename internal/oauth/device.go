package oauth

import (
	"context"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

const (
	// DeviceLife is the time within which a person must answer the request of a device.
	DeviceLife = 10 * time.Minute
	// DevicePage is the path of the page where a person enters the code that a device shows.
	DevicePage = "/device"
	// DeviceGrant is the grant type with which a device requests its tokens.
	DeviceGrant = "urn:ietf:params:oauth:grant-type:device_code"
	// DevicePoll is the time that a device must wait between two polls. Each poll that comes too early increases it by
	// the same amount.
	DevicePoll = 5 * time.Second
)

// Errors that a device receives while it polls.
var (
	errPending = &Error{"authorization_pending", "The person has not answered yet. Ask again later."}
	errSlower  = &Error{"slow_down", "The device asks too often. Wait five seconds longer between two requests."}
	errExpired = &Error{"expired_token", "Nobody answered in time. Begin again."}
	errDevice  = &Error{"invalid_grant", "The device_code is unknown, already used, or was made for another client."}
)

// ErrUserCode is returned if a person enters a code that no device shows.
var ErrUserCode = apierr.New(apierr.NotFound, "not_found",
	"No device shows this code, or it has expired. Compare it with the code on your device.")

// Device is a device that waits for a person's answer.
type Device struct {
	Code, UserCode string
	Life, Poll     time.Duration
}

// Authorize starts the sign-in of a device for an app. scope contains scopes separated by spaces, or "" for all
// scopes of the app. The app of the stipend program itself is created if necessary.
func Authorize(ctx context.Context, tx *db.Tx, clientID, clientSecret, scope string) (Device, *Error, error) {
	if clientID == identity.CommandLineClient {
		if _, err := identity.CommandLineApp(ctx, tx, CompanyScopes()); err != nil {
			return Device{}, nil, err
		}
	}
	app, refusal, err := client(ctx, tx, clientID, clientSecret)
	if err != nil || refusal != nil {
		return Device{}, refusal, err
	}
	scopes := app.Scopes & identity.GrantableScopes()
	if scope != "" {
		requested, known := identity.ParseScopes(scope)
		if !known || requested == 0 || !requested.Within(scopes) {
			return Device{}, errScope, nil
		}
		scopes = requested
	}
	d := Device{identity.NewDeviceCode(), identity.NewUserCode(), DeviceLife, DevicePoll}
	return d, nil, insertDevice(ctx, tx, d, app.ID, scopes)
}

// checkDevice returns the request of the device that shows a code, or ErrUserCode.
func checkDevice(ctx context.Context, tx *db.Tx, typed string) (Request, error) {
	code := identity.UserCode(typed)
	if code == "" {
		return Request{}, ErrUserCode
	}
	d, known, err := deviceByUserCode(ctx, tx, identity.Digest(code))
	if err != nil {
		return Request{}, err
	}
	if !known || d.state != devicePending || !tx.Now().Before(d.expires) {
		return Request{}, ErrUserCode
	}
	app, err := identity.AppWithID(ctx, tx, d.appID)
	if err != nil {
		return Request{}, err
	}
	return Request{App: app, Scopes: d.scopes & app.Scopes, Device: true, device: d.digest}, nil
}

// Answer records a person's answer to the request of a device. companyID is the company for which the app may act, or
// "" for the person alone. Answer returns the errors of [Grant], and ErrUserCode if the request has already been
// answered.
func Answer(ctx context.Context, tx *db.Tx, u identity.User, companyID string, r Request, allow bool) error {
	state := deviceDenied
	if allow {
		if err := consented(ctx, tx, u, companyID, r, r.device); err != nil {
			return err
		}
		state = deviceAllowed
	}
	first, err := answerDevice(ctx, tx, r.device, state, companyID, u.ID, r.Scopes)
	if err == nil && !first {
		return ErrUserCode
	}
	return err
}

// polled returns the tokens for a device, or an *Error if the device must wait. If a device polls again with a used
// code, polled revokes the consent, because another device has the code.
func polled(ctx context.Context, tx *db.Tx, env identity.Environment, app identity.App, code, key string) (
	Token, *Error, error) {
	d, known, err := deviceByCode(ctx, tx, identity.Digest(code))
	switch {
	case err != nil:
		return Token{}, nil, err
	case !known || d.appID != app.ID:
		return Token{}, errDevice, nil
	case d.state == deviceUsed:
		return Token{}, errDevice, identity.RevokeGrant(ctx, tx, d.companyID, d.grantID)
	case !tx.Now().Before(d.expires):
		return Token{}, errExpired, nil
	case d.state == deviceDenied:
		return Token{}, ErrDenied, nil
	case d.state == devicePending:
		early := tx.Now().Before(d.polled.Add(d.poll))
		if early {
			d.poll += DevicePoll
		}
		if err := touchDevice(ctx, tx, d.digest, d.poll); err != nil || !early {
			return Token{}, errPending, err
		}
		return Token{}, errSlower, nil
	}
	g, err := identity.CreateGrant(ctx, tx, identity.Grant{CompanyID: d.companyID, AppID: app.ID, UserID: d.userID,
		Scopes: d.scopes & app.Scopes})
	if err != nil {
		return Token{}, nil, err
	}
	first, err := useDevice(ctx, tx, d.digest, g.ID)
	if err != nil {
		return Token{}, nil, err
	}
	if !first {
		return Token{}, nil, db.ErrConflict // another poll got the tokens; the transaction runs again and finds them
	}
	t, err := issue(ctx, tx, env, g, g.Scopes, key)
	return t, nil, err
}
