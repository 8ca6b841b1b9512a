package oauth_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/oauth"
	"github.com/stipend/stipend/internal/testkit"
)

// device begins the sign-in of a device.
func (x *fixture) device(clientID, secret, scope string) (d oauth.Device, failure string) {
	x.Helper()
	x.write(func(ctx context.Context, tx *db.Tx) (err error) {
		var e *oauth.Error
		if d, e, err = oauth.Authorize(ctx, tx, clientID, secret, scope); e != nil {
			failure = e.Code
		}
		return err
	})
	return d, failure
}

// poll asks for the tokens of a device of the program stipend.
func (x *fixture) poll(code string) (oauth.Token, string) {
	x.Helper()
	return x.exchange("", func(r *oauth.TokenRequest) {
		*r = oauth.TokenRequest{GrantType: oauth.DeviceGrant, DeviceCode: code, ClientID: identity.CommandLineClient}
	})
}

// answer answers a device that shows a code, as the fixture's user, for the company with the ID.
func (x *fixture) answer(typed, company string, allow bool) error {
	x.Helper()
	r, err := x.check(func(p *oauth.Params) { *p = oauth.Params{UserCode: typed} })
	if err != nil {
		return err
	}
	return x.d.Write(x.Context(), func(ctx context.Context, tx *db.Tx) error {
		return oauth.Answer(ctx, tx, x.user, company, r, allow)
	})
}

// A device polls until a person has typed its code and allowed it, and gets its tokens once, with the scopes that the
// person saw. It is slowed down if it asks too often.
func TestADeviceSignsIn(t *testing.T) {
	run(t, func(x *fixture) {
		const scopes = "c_company_detail c_company_propose"
		d, _ := x.device(identity.CommandLineClient, "", scopes)
		if _, failure := x.poll(d.Code); failure != "authorization_pending" {
			t.Errorf("the first poll: %s", failure)
		}
		if _, failure := x.poll(d.Code); failure != "slow_down" {
			t.Errorf("an early poll: %s", failure)
		}
		x.clock.Advance(oauth.DevicePoll)
		if _, failure := x.poll(d.Code); failure != "slow_down" {
			t.Errorf("a poll after five of ten seconds: %s", failure)
		}
		x.clock.Advance(4 * oauth.DevicePoll)
		if _, failure := x.poll(d.Code); failure != "authorization_pending" {
			t.Errorf("a slow poll: %s", failure)
		}
		typed := " " + strings.ToLower(strings.ReplaceAll(d.UserCode, "-", " "))
		if err := x.answer(typed, x.stranger.ID, true); err == nil {
			t.Error("a person allows it for a company of others")
		}
		testkit.Check(t, x.answer(typed, x.company.ID, true))
		if err := x.answer(typed, x.company.ID, false); !errors.Is(err, oauth.ErrUserCode) {
			t.Errorf("a second answer: %v", err)
		}
		token, failure := x.poll(d.Code)
		if failure != "" || token.Scopes.String() != scopes || token.CompanyID != x.company.ID ||
			!x.works(token.AccessToken) {
			t.Fatalf("%s %+v", failure, token)
		}
		next, failure := x.exchange("", func(r *oauth.TokenRequest) {
			*r = oauth.TokenRequest{GrantType: "refresh_token", RefreshToken: token.RefreshToken,
				ClientID: identity.CommandLineClient}
		})
		if failure != "" || !x.works(next.AccessToken) {
			t.Errorf("refresh: %s", failure)
		}
		if _, failure := x.poll(d.Code); failure != "invalid_grant" || x.works(next.AccessToken) {
			t.Errorf("a used code: %s; the token works: %v", failure, x.works(next.AccessToken))
		}
	})
}

// Nobody gets tokens for a code that was refused, has expired, is another client's, or is guessed; concurrent polls get
// them once.
func TestWhatDevicesAreRefused(t *testing.T) {
	run(t, func(x *fixture) {
		for name, at := range map[string][3]string{
			"an unknown client":      {"cli_none", "", ""},
			"a wrong secret":         {x.app.ClientID, "wrong", ""},
			"no secret":              {x.app.ClientID, "", ""},
			"a secret for stipend":   {identity.CommandLineClient, "x", ""},
			"scopes of a person":     {identity.CommandLineClient, "", "u_user_detail"},
			"scopes it did not have": {x.app.ClientID, x.secret, "c_company_workers_pay"},
		} {
			if _, failure := x.device(at[0], at[1], at[2]); failure != "invalid_client" && failure != "invalid_scope" {
				t.Errorf("%s: %q", name, failure)
			}
		}
		denied, _ := x.device(identity.CommandLineClient, "", "")
		testkit.Check(t, x.answer(denied.UserCode, "", false))
		if _, failure := x.poll(denied.Code); failure != "access_denied" {
			t.Errorf("refused: %s", failure)
		}
		theirs, _ := x.device(x.app.ClientID, x.secret, "")
		testkit.Check(t, x.answer(theirs.UserCode, x.company.ID, true))
		if _, failure := x.poll(theirs.Code); failure != "invalid_grant" {
			t.Errorf("another client's: %s", failure)
		}
		for _, typed := range []string{"", "x", "BCDF-GHJK", strings.Repeat("B", 9), theirs.UserCode} {
			if err := x.answer(typed, x.company.ID, true); err == nil {
				t.Errorf("%q was answered", typed)
			}
		}
		late, _ := x.device(identity.CommandLineClient, "", "")
		x.clock.Advance(oauth.DeviceLife)
		if err := x.answer(late.UserCode, x.company.ID, true); !errors.Is(err, oauth.ErrUserCode) {
			t.Errorf("an expired code: %v", err)
		}
		if _, failure := x.poll(late.Code); failure != "expired_token" {
			t.Errorf("expired: %s", failure)
		}

		d, _ := x.device(identity.CommandLineClient, "", "")
		testkit.Check(t, x.answer(d.UserCode, x.company.ID, true))
		outcomes := make([]string, 5)
		var all sync.WaitGroup
		for i := range outcomes {
			all.Go(func() { _, outcomes[i] = x.poll(d.Code) })
		}
		all.Wait()
		got := 0
		for _, failure := range outcomes {
			if failure == "" {
				got++
			} else if failure != "invalid_grant" {
				t.Errorf("a concurrent poll: %s", failure)
			}
		}
		if got != 1 {
			t.Errorf("%d concurrent polls got tokens", got)
		}
		x.clock.Advance(31 * 24 * time.Hour)
		testkit.Check(t, oauth.Forget(t.Context(), x.d))
		if _, failure := x.poll(d.Code); failure != "invalid_grant" {
			t.Errorf("a forgotten code: %s", failure)
		}
	})
}

// A device that a person allowed gets no tokens if the person's access is revoked before it polls. Devices that were
// allowed for another company or app are not affected, unless the account is erased.
func TestRevokingStopsAnAllowedDevice(t *testing.T) {
	for name, at := range map[string]struct {
		revoke             func(ctx context.Context, tx *db.Tx, x *fixture) error
		elsewhere, another string // what a device of the other company and one of the other app get
	}{
		"disconnected": {func(ctx context.Context, tx *db.Tx, x *fixture) error {
			return oauth.Disconnect(ctx, tx, x.user.ID, x.app.ID, x.company.ID)
		}, "", ""},
		"removed from the company": {func(ctx context.Context, tx *db.Tx, x *fixture) error {
			return identity.RevokeGrants(ctx, tx, x.company.ID, x.user.ID)
		}, "", "invalid_grant"},
		"erased": {func(ctx context.Context, tx *db.Tx, x *fixture) error {
			_, err := identity.EraseUser(ctx, tx, x.user.ID)
			return err
		}, "invalid_grant", "invalid_grant"},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(x *fixture) {
				x.write(func(ctx context.Context, tx *db.Tx) error {
					return identity.AddMember(ctx, tx, identity.Member{CompanyID: x.stranger.ID, UserID: x.user.ID,
						Role: identity.RoleOwner})
				})
				polls := func(app identity.App, secret, company string) func() string {
					d, _ := x.device(app.ClientID, secret, "c_company_detail")
					testkit.Check(t, x.answer(d.UserCode, company, true))
					return func() string {
						_, failure := x.exchange("", func(r *oauth.TokenRequest) {
							*r = oauth.TokenRequest{GrantType: oauth.DeviceGrant, DeviceCode: d.Code, ClientID: app.ClientID,
								ClientSecret: secret}
						})
						return failure
					}
				}
				stopped := polls(x.app, x.secret, x.company.ID)
				elsewhere, another := polls(x.app, x.secret, x.stranger.ID), polls(x.other, x.rival, x.company.ID)
				x.write(func(ctx context.Context, tx *db.Tx) error { return at.revoke(ctx, tx, x) })
				if got := stopped(); got != "invalid_grant" {
					t.Errorf("the device gets %q", got)
				}
				if got := elsewhere(); got != at.elsewhere {
					t.Errorf("a device of another company gets %q, want %q", got, at.elsewhere)
				}
				if got := another(); got != at.another {
					t.Errorf("a device of another app gets %q, want %q", got, at.another)
				}
			})
		})
	}
}

// Codes of devices that got no tokens are deleted when they expire. Used codes are kept, so that a second poll revokes
// the tokens.
func TestExpiredDeviceCodesAreDeleted(t *testing.T) {
	run(t, func(x *fixture) {
		used, _ := x.device(identity.CommandLineClient, "", "c_company_detail")
		testkit.Check(t, x.answer(used.UserCode, x.company.ID, true))
		token, failure := x.poll(used.Code)
		if failure != "" {
			t.Fatal(failure)
		}
		rows := func() (n int) {
			dbtest.Read(t, x.d, func(ctx context.Context, tx *db.Tx) error {
				return tx.QueryRow(ctx, "SELECT COUNT(*) FROM device_codes").Scan(&n)
			})
			return n
		}
		x.device(identity.CommandLineClient, "", "")
		denied, _ := x.device(identity.CommandLineClient, "", "")
		testkit.Check(t, x.answer(denied.UserCode, "", false))
		testkit.Check(t, oauth.Forget(t.Context(), x.d))
		if got := rows(); got != 3 {
			t.Errorf("%d codes before they expire, want 3", got)
		}
		x.clock.Advance(oauth.DeviceLife + time.Second)
		testkit.Check(t, oauth.Forget(t.Context(), x.d))
		if got := rows(); got != 1 {
			t.Errorf("%d codes after they expired, want 1", got)
		}
		if _, failure := x.poll(used.Code); failure != "invalid_grant" || x.works(token.AccessToken) {
			t.Errorf("a used code: %s; the token works: %v", failure, x.works(token.AccessToken))
		}
	})
}
