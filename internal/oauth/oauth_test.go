package oauth_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/oauth"
	"github.com/stipend/stipend/internal/testkit"
)

const redirectURI = "https://app.example/cb?x=1"

var (
	verifier  = strings.Repeat("v", 43)
	challenge = func() string {
		sum := sha256.Sum256([]byte(verifier))
		return base64.RawURLEncoding.EncodeToString(sum[:])
	}()
)

type fixture struct {
	*testing.T
	d                  *db.DB
	clock              *dbtest.Clock
	app, other         identity.App
	secret, rival      string
	user               identity.User
	company, stranger  identity.Company
	publisher, noOAuth string // publisher: company of the apps; noOAuth: client ID of an app without redirect URI
}

func run(t *testing.T, f func(x *fixture)) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) { f(newFixture(t, d, clock)) })
}

func newFixture(t *testing.T, d *db.DB, clock *dbtest.Clock) *fixture {
	t.Helper()
	x := &fixture{T: t, d: d, clock: clock}
	sealer, err := identity.NewSealer(make([]byte, 32))
	testkit.Check(t, err)
	x.write(func(ctx context.Context, tx *db.Tx) (err error) {
		create := func(name string) (c identity.Company) {
			if err == nil {
				c, err = identity.CreateCompany(ctx, tx, identity.NewCompany{Name: name, Country: "US"})
			}
			return c
		}
		publisher := create("Publisher")
		x.company, x.stranger, x.publisher = create("Acme"), create("Stranger"), publisher.ID
		app := func(name, uri string) (a identity.App, secret string) {
			if err == nil {
				a, secret, err = identity.CreateApp(ctx, tx, identity.Sandbox, identity.NewApp{CompanyID: publisher.ID,
					Name: name, RedirectURI: uri, Scopes: identity.NewScopes(identity.UserDetail, identity.CompanyDetail)})
			}
			return a, secret
		}
		x.app, x.secret = app("Alpha", redirectURI)
		x.other, x.rival = app("Omega", redirectURI)
		keys, _ := app("Keys", "")
		x.noOAuth = keys.ClientID
		if err != nil {
			return err
		}
		x.user, err = identity.CreateUser(ctx, tx, sealer, identity.NewUser{Profile: identity.Profile{
			Email: "ada@example.com", FirstName: "Ada"}})
		if err != nil {
			return err
		}
		return identity.AddMember(ctx, tx, identity.Member{CompanyID: x.company.ID, UserID: x.user.ID,
			Role: identity.RoleOwner})
	})
	return x
}

func (x *fixture) write(fn func(ctx context.Context, tx *db.Tx) error) {
	x.Helper()
	dbtest.Write(x, x.d, fn)
}

// check runs Check for valid parameters with some changed.
func (x *fixture) check(change func(p *oauth.Params)) (r oauth.Request, err error) {
	p := oauth.Params{ClientID: x.app.ClientID, State: "state", ResponseType: "code", Challenge: challenge, Method: "S256"}
	change(&p)
	_ = x.d.Read(x.Context(), func(ctx context.Context, tx *db.Tx) error {
		r, err = oauth.Check(ctx, tx, p)
		return nil
	})
	return r, err
}

// grant returns a code for valid parameters with some changed.
func (x *fixture) grant(change func(p *oauth.Params)) (code string) {
	x.Helper()
	r, err := x.check(change)
	testkit.Check(x, err)
	x.write(func(ctx context.Context, tx *db.Tx) (err error) {
		code, err = oauth.Grant(ctx, tx, identity.Sandbox, x.user, x.company.ID, r)
		return err
	})
	return code
}

// exchange runs Exchange for valid parameters with some changed, and returns the token or the code of the error.
func (x *fixture) exchange(code string, change func(r *oauth.TokenRequest)) (token oauth.Token, failure string) {
	x.Helper()
	r := oauth.TokenRequest{GrantType: "authorization_code", Code: code, ClientID: x.app.ClientID, ClientSecret: x.secret,
		Verifier: verifier}
	change(&r)
	x.write(func(ctx context.Context, tx *db.Tx) (err error) {
		var e *oauth.Error
		if token, e, err = oauth.Exchange(ctx, tx, identity.Sandbox, r); e != nil {
			failure = e.Code
		}
		return err
	})
	return token, failure
}

func (x *fixture) works(token string) bool {
	return x.d.Read(x.Context(), func(ctx context.Context, tx *db.Tx) error {
		_, err := identity.Authenticate(ctx, tx, "Bearer", token, identity.Sandbox)
		return err
	}) == nil
}

func asIs[T any](*T) {}

func TestCheck(t *testing.T) {
	run(t, func(x *fixture) {
		for name, c := range map[string]struct {
			change func(p *oauth.Params)
			app    string // expected error code for the app
			user   error  // expected error for the user
		}{
			"valid":                     {asIs[oauth.Params], "", nil},
			"without optional values":   {func(p *oauth.Params) { p.ResponseType, p.Challenge, p.Method = "", "", "" }, "", nil},
			"registered redirect URI":   {func(p *oauth.Params) { p.RedirectURI = redirectURI }, "", nil},
			"fewer scopes":              {func(p *oauth.Params) { p.Scope = identity.UserDetail }, "", nil},
			"unknown client":            {func(p *oauth.Params) { p.ClientID = "cli_x" }, "", oauth.ErrClient},
			"app without redirect URI":  {func(p *oauth.Params) { p.ClientID = x.noOAuth }, "", oauth.ErrClient},
			"other redirect URI":        {func(p *oauth.Params) { p.RedirectURI = redirectURI + "/" }, "", oauth.ErrRedirectURI},
			"no state":                  {func(p *oauth.Params) { p.State = "" }, "invalid_request", nil},
			"other response type":       {func(p *oauth.Params) { p.ResponseType = "token" }, "unsupported_response_type", nil},
			"unknown scope":             {func(p *oauth.Params) { p.Scope = "everything" }, "invalid_scope", nil},
			"unregistered scope":        {func(p *oauth.Params) { p.Scope = identity.UserCreate }, "invalid_scope", nil},
			"empty scope":               {func(p *oauth.Params) { p.Scope = " " }, "invalid_scope", nil},
			"plain challenge method":    {func(p *oauth.Params) { p.Method = "plain" }, "invalid_request", nil},
			"challenge without method":  {func(p *oauth.Params) { p.Method = "" }, "invalid_request", nil},
			"method without challenge":  {func(p *oauth.Params) { p.Challenge = "" }, "invalid_request", nil},
			"challenge of wrong length": {func(p *oauth.Params) { p.Challenge = challenge[:42] }, "invalid_request", nil},
		} {
			_, err := x.check(c.change)
			var e *oauth.Error
			switch {
			case c.user != nil:
				if !errors.Is(err, c.user) {
					t.Errorf("%s: got %v, want %v", name, err, c.user)
				}
			case c.app != "":
				if !errors.As(err, &e) || e.Code != c.app {
					t.Errorf("%s: got %v, want %s", name, err, c.app)
				}
			case err != nil:
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, uri := range []string{
			"https://app.example/cb", redirectURI + "&a=b", "https://app.example:443/cb?x=1", "http://app.example/cb?x=1",
			"https://app.example/CB?x=1", "https://x@app.example/cb?x=1", "https://a.app.example/cb?x=1",
			"https://app.example/x/../cb?x=1", "https://app.example/%63b?x=1", "//evil.example", "javascript:alert(1)",
		} {
			if _, err := x.check(func(p *oauth.Params) { p.RedirectURI = uri }); !errors.Is(err, oauth.ErrRedirectURI) {
				t.Errorf("redirect to %s: %v", uri, err)
			}
		}
		r, _ := x.check(asIs[oauth.Params])
		if got := r.Granted("https://iss", "c&d"); got != redirectURI+"&code=c%26d&iss=https%3A%2F%2Fiss&state=state" {
			t.Errorf("Granted: %s", got)
		}
		u, err := url.Parse(r.Refused("https://iss", oauth.ErrDenied))
		if q := u.Query(); err != nil || q.Get("error") != "access_denied" || q.Get("state") != "state" || q.Get("x") != "1" {
			t.Errorf("Refused: %s %v", u, err)
		}
	})
}

func TestGrantNeedsAMemberWithARole(t *testing.T) {
	run(t, func(x *fixture) {
		r, err := x.check(asIs[oauth.Params])
		testkit.Check(t, err)
		for role, want := range map[string]error{identity.RoleOwner: nil, identity.RoleAdmin: nil,
			identity.RoleDeveloper: nil, identity.RoleViewer: oauth.ErrRole, "unknown": oauth.ErrRole} {
			err := x.d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				m := identity.Member{CompanyID: x.company.ID, UserID: x.user.ID, Role: role}
				if err := identity.AddMember(ctx, tx, m); err != nil {
					return err
				}
				_, err := oauth.Grant(ctx, tx, identity.Sandbox, x.user, x.company.ID, r)
				return err
			})
			if !errors.Is(err, want) {
				t.Errorf("%s: got %v, want %v", role, err, want)
			}
		}
		for company, want := range map[string]error{x.stranger.ID: apierr.NotFoundErr, "": nil} {
			err := x.d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				_, err := oauth.Grant(ctx, tx, identity.Sandbox, x.user, company, r)
				return err
			})
			if !errors.Is(err, want) {
				t.Errorf("company %q: got %v, want %v", company, err, want)
			}
		}
	})
}

// A token for a company works as long as its user manages the company, even if nothing revoked it.
func TestTokenNeedsAManagingMember(t *testing.T) {
	run(t, func(x *fixture) {
		token, _ := x.exchange(x.grant(asIs[oauth.Params]), asIs[oauth.TokenRequest])
		for _, c := range []struct {
			role  string
			works bool
		}{{identity.RoleOwner, true}, {identity.RoleViewer, false}, {identity.RoleDeveloper, true}} {
			x.write(func(ctx context.Context, tx *db.Tx) error {
				return identity.AddMember(ctx, tx, identity.Member{CompanyID: x.company.ID, UserID: x.user.ID, Role: c.role})
			})
			if x.works(token.AccessToken) != c.works {
				t.Errorf("the token of a member with the role %s: works is %t, want %t", c.role, !c.works, c.works)
			}
		}
		x.write(func(ctx context.Context, tx *db.Tx) error {
			return identity.DeleteMember(ctx, tx, x.company.ID, x.user.ID)
		})
		if x.works(token.AccessToken) {
			t.Error("the token of a removed member works")
		}
	})
}

// A member who is removed by a concurrent transaction cannot authorize an app. SQLite has one writer at a time.
func TestGrantReadsTheRoleUnderALock(t *testing.T) {
	clock, url := dbtest.NewClock(), dbtest.Postgres(t)
	x := newFixture(t, dbtest.Open(t, db.Options{URL: url, Clock: clock.Now}), clock)
	r, err := x.check(asIs[oauth.Params])
	testkit.Check(t, err)
	removed, granted := dbtest.Interleave(t, url, func(ctx context.Context, tx *db.Tx) error {
		if _, _, err := auth.Lock(ctx, tx, x.company.ID); err != nil {
			return err
		}
		return identity.DeleteMember(ctx, tx, x.company.ID, x.user.ID)
	}, func(ctx context.Context, tx *db.Tx) error {
		_, err := oauth.Grant(ctx, tx, identity.Sandbox, x.user, x.company.ID, r)
		return err
	})
	if removed != nil || !errors.Is(granted, apierr.NotFoundErr) {
		t.Errorf("removed: %v; granted: %v, want %v", removed, granted, apierr.NotFoundErr)
	}
}

func TestExchange(t *testing.T) {
	run(t, func(x *fixture) {
		for _, c := range []struct {
			name    string
			change  func(r *oauth.TokenRequest)
			failure string
		}{
			{"valid", asIs[oauth.TokenRequest], ""},
			{"registered redirect URI", func(r *oauth.TokenRequest) { r.RedirectURI = redirectURI }, ""},
			{"unknown client", func(r *oauth.TokenRequest) { r.ClientID = "cli_x" }, "invalid_client"},
			{"wrong secret", func(r *oauth.TokenRequest) { r.ClientSecret += "x" }, "invalid_client"},
			{"other grant type", func(r *oauth.TokenRequest) { r.GrantType = "password" }, "unsupported_grant_type"},
			{"no code", func(r *oauth.TokenRequest) { r.Code = "" }, "invalid_request"},
			{"malformed code", func(r *oauth.TokenRequest) { r.Code = "x" }, "invalid_grant"},
			{"other redirect URI", func(r *oauth.TokenRequest) { r.RedirectURI = "https://evil.example" }, "invalid_grant"},
			{"wrong verifier", func(r *oauth.TokenRequest) { r.Verifier = strings.Repeat("w", 43) }, "invalid_grant"},
			{"no verifier", func(r *oauth.TokenRequest) { r.Verifier = "" }, "invalid_grant"},
			{"short verifier", func(r *oauth.TokenRequest) { r.Verifier = verifier[1:] }, "invalid_grant"},
			{"another app", func(r *oauth.TokenRequest) { r.ClientID, r.ClientSecret = x.other.ClientID, x.rival },
				"invalid_grant"},
		} {
			token, failure := x.exchange(x.grant(asIs[oauth.Params]), c.change)
			if failure != c.failure || (failure == "") != x.works(token.AccessToken) {
				t.Errorf("%s: %+v %q, want %q", c.name, token, failure, c.failure)
			}
			if failure == "" && (token.UserID != x.user.ID || token.CompanyID != x.company.ID || token.Scopes != x.app.Scopes) {
				t.Errorf("%s: %+v", c.name, token)
			}
		}

		code := x.grant(asIs[oauth.Params])
		x.clock.Advance(oauth.CodeLife)
		if _, failure := x.exchange(code, asIs[oauth.TokenRequest]); failure != "invalid_grant" {
			t.Errorf("an expired code: %q", failure)
		}

		// An attacker removes the challenge from the link that the user opens.
		code = x.grant(func(p *oauth.Params) { p.Challenge, p.Method = "", "" })
		if _, failure := x.exchange(code, asIs[oauth.TokenRequest]); failure != "invalid_grant" {
			t.Errorf("a verifier without a challenge: %q", failure)
		}
		code = x.grant(func(p *oauth.Params) { p.Challenge, p.Method = "", "" })
		if _, failure := x.exchange(code, func(r *oauth.TokenRequest) { r.Verifier = "" }); failure != "" {
			t.Errorf("neither verifier nor challenge: %q", failure)
		}

		// A second use of a code, by either app, revokes the token of the first use.
		for name, change := range map[string]func(r *oauth.TokenRequest){
			"the same app": asIs[oauth.TokenRequest],
			"another app":  func(r *oauth.TokenRequest) { r.ClientID, r.ClientSecret = x.other.ClientID, x.rival },
		} {
			code = x.grant(asIs[oauth.Params])
			token, _ := x.exchange(code, asIs[oauth.TokenRequest])
			if !x.works(token.AccessToken) {
				t.Fatalf("%s: the token does not work", name)
			}
			if _, failure := x.exchange(code, change); failure != "invalid_grant" || x.works(token.AccessToken) {
				t.Errorf("%s: a second use: %q, and the token works: %v", name, failure, x.works(token.AccessToken))
			}
		}
	})
}

// If two concurrent exchanges have the same code, one gets a token, which the other revokes.
func TestConcurrentExchangesRevokeTheToken(t *testing.T) {
	run(t, func(x *fixture) {
		for range 4 {
			code := x.grant(asIs[oauth.Params])
			var tokens [2]oauth.Token
			var failures [2]string
			var all sync.WaitGroup
			for i := range tokens {
				all.Go(func() { tokens[i], failures[i] = x.exchange(code, asIs[oauth.TokenRequest]) })
			}
			all.Wait()
			slices.Sort(failures[:])
			if failures != [2]string{"", "invalid_grant"} || x.works(tokens[0].AccessToken) || x.works(tokens[1].AccessToken) {
				t.Errorf("%q %+v", failures, tokens)
			}
		}
	})
}

// A refresh token works once, for its app, until it expires, and as long as the user manages the company. A second use
// revokes the consent, also if two uses are concurrent.
func TestRefresh(t *testing.T) {
	run(t, func(x *fixture) {
		refresh := func(token oauth.Token, change func(r *oauth.TokenRequest)) (oauth.Token, string) {
			x.Helper()
			return x.exchange("", func(r *oauth.TokenRequest) {
				r.GrantType, r.RefreshToken = "refresh_token", token.RefreshToken
				change(r)
			})
		}
		first := func() oauth.Token {
			x.Helper()
			token, _ := x.exchange(x.grant(asIs[oauth.Params]), asIs[oauth.TokenRequest])
			return token
		}
		refused := func(what string, token oauth.Token, change func(r *oauth.TokenRequest)) {
			x.Helper()
			if got, failure := refresh(token, change); failure != "invalid_grant" || got.AccessToken != "" {
				t.Errorf("%s: %q %+v", what, failure, got)
			}
		}
		role := func(role string) {
			x.write(func(ctx context.Context, tx *db.Tx) error {
				return identity.AddMember(ctx, tx, identity.Member{CompanyID: x.company.ID, UserID: x.user.ID, Role: role})
			})
		}

		token := first()
		next, failure := refresh(token, func(r *oauth.TokenRequest) { r.Scope = identity.CompanyDetail })
		if failure != "" || next.Scopes.String() != identity.CompanyDetail || !x.works(next.AccessToken) {
			t.Fatalf("fewer scopes: %q %+v", failure, next)
		}
		if next, failure = refresh(next, asIs[oauth.TokenRequest]); failure != "" || next.Scopes != x.app.Scopes ||
			next.UserID != x.user.ID || next.CompanyID != x.company.ID {
			t.Fatalf("all scopes: %q %+v", failure, next)
		}
		role(identity.RoleViewer)
		refused("a user who lost the role", next, asIs[oauth.TokenRequest])
		role(identity.RoleDeveloper)
		if next, failure = refresh(next, asIs[oauth.TokenRequest]); failure != "" {
			t.Errorf("a user who has a role again: %q", failure)
		}
		refused("a second use", token, asIs[oauth.TokenRequest])
		refused("the last token after a second use", next, asIs[oauth.TokenRequest])
		if x.works(next.AccessToken) || x.works(token.AccessToken) {
			t.Error("a token works after a second use")
		}

		stolen := first()
		refused("another app", stolen, func(r *oauth.TokenRequest) { r.ClientID, r.ClientSecret = x.other.ClientID, x.rival })
		if x.works(stolen.AccessToken) {
			t.Error("a token works although its refresh token leaked")
		}

		var failures [2]string
		var all sync.WaitGroup
		token = first()
		for i := range failures {
			all.Go(func() { _, failures[i] = refresh(token, asIs[oauth.TokenRequest]) })
		}
		all.Wait()
		slices.Sort(failures[:])
		if failures != [2]string{"", "invalid_grant"} || x.works(token.AccessToken) {
			t.Errorf("two concurrent uses: %q", failures)
		}

		token = first()
		x.clock.Advance(identity.TokenIdle)
		refused("an expired token", token, asIs[oauth.TokenRequest])
	})
}

// A pushed request replaces the parameters in the URL, for its app and for ten minutes.
func TestPushedRequests(t *testing.T) {
	run(t, func(x *fixture) {
		var reference string
		x.write(func(ctx context.Context, tx *db.Tx) (err error) {
			p := oauth.Params{ClientID: x.app.ClientID, State: "pushed", Scope: identity.UserDetail}
			reference, _, err = oauth.Push(ctx, tx, x.secret, p)
			return err
		})
		pushed := func(p *oauth.Params) { p.RequestURI, p.Scope = reference, identity.CompanyDetail }
		r, err := x.check(pushed)
		if err != nil || r.State != "pushed" || r.Scopes.String() != identity.UserDetail {
			t.Errorf("%+v %v", r, err)
		}
		if _, err := x.check(func(p *oauth.Params) { pushed(p); p.ClientID = x.other.ClientID }); !errors.Is(err,
			oauth.ErrRequestURI) {
			t.Errorf("the request of another app: %v", err)
		}
		x.clock.Advance(oauth.PushedLife)
		if _, err := x.check(pushed); !errors.Is(err, oauth.ErrRequestURI) {
			t.Errorf("an expired request: %v", err)
		}
	})
}

func TestRevokeAndConnections(t *testing.T) {
	run(t, func(x *fixture) {
		token, _ := x.exchange(x.grant(func(p *oauth.Params) { p.Scope = identity.UserDetail }), asIs[oauth.TokenRequest])
		granted := x.clock.Now()
		x.clock.Advance(time.Hour)
		second, _ := x.exchange(x.grant(func(p *oauth.Params) { p.Scope = identity.CompanyDetail }), asIs[oauth.TokenRequest])
		connections := func() (all []oauth.Connection) {
			x.write(func(ctx context.Context, tx *db.Tx) (err error) {
				all, err = oauth.Connections(ctx, tx, x.user.ID)
				return err
			})
			return all
		}
		if all := connections(); len(all) != 1 || all[0].AppID != x.app.ID || all[0].Scopes != x.app.Scopes ||
			!all[0].GrantedAt.Equal(granted) || !all[0].LastUsed.IsZero() {
			t.Errorf("%+v", all)
		}
		revoke := func(id, secret, token string) (e *oauth.Error) {
			x.write(func(ctx context.Context, tx *db.Tx) (err error) {
				e, err = oauth.Revoke(ctx, tx, identity.Sandbox, id, secret, token)
				return err
			})
			return e
		}
		if e := revoke(x.app.ClientID, "x", token.AccessToken); e == nil || e.Code != "invalid_client" {
			t.Errorf("a wrong secret: %v", e)
		}
		if e := revoke(x.other.ClientID, x.rival, token.AccessToken); e != nil || !x.works(token.AccessToken) {
			t.Errorf("another app revokes the token: %v", e)
		}
		for range 2 {
			if e := revoke(x.app.ClientID, x.secret, token.AccessToken); e != nil || x.works(token.AccessToken) {
				t.Errorf("the token works after Revoke: %v", e)
			}
		}
		unused := x.grant(asIs[oauth.Params])
		x.write(func(ctx context.Context, tx *db.Tx) error {
			return oauth.Disconnect(ctx, tx, x.user.ID, x.app.ID, x.company.ID)
		})
		if x.works(second.AccessToken) || len(connections()) != 0 {
			t.Error("the app is connected after Disconnect")
		}
		if _, failure := x.exchange(unused, asIs[oauth.TokenRequest]); failure != "invalid_grant" {
			t.Errorf("an unused code after Disconnect: %q", failure)
		}
	})
}

func TestEveryScopeHasATextAndAGroup(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range identity.AllScopes().List() {
		if text := oauth.Describe(s); text == s || seen[text] || oauth.GroupOf(s) == "" {
			t.Errorf("%s: %q, group %q", s, text, oauth.GroupOf(s))
		} else {
			seen[text] = true
		}
		if company := strings.HasPrefix(s, "c_"); company != oauth.CompanyScopes().Has(s) {
			t.Errorf("%s in CompanyScopes: %v", s, !company)
		}
	}
}

func TestParseBasic(t *testing.T) {
	encode := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	for credential, want := range map[string][2]string{
		encode("cli_1:secret"):    {"cli_1", "secret"},
		encode("a%3Ab:c%2Bd+e"):   {"a:b", "c+d e"},
		encode("cli_1:se:cret"):   {"cli_1", "se:cret"},
		encode("cli_1"):           {},
		encode("cli%1:secret"):    {},
		encode("cli_1:secret%zz"): {},
		"not base64!":             {},
	} {
		id, secret, ok := oauth.ParseBasic(credential)
		if got := [2]string{id, secret}; ok != (want[0] != "") || ok && got != want {
			t.Errorf("%q: %q %v", credential, got, ok)
		}
	}
}

func TestValuesOmitEmptyFields(t *testing.T) {
	v := oauth.Params{ClientID: "cli_1", State: "s", Challenge: "c", Method: "S256"}.Values()
	if got := slices.Sorted(maps.Keys(v)); !slices.Equal(got,
		[]string{"client_id", "code_challenge", "code_challenge_method", "state"}) {
		t.Errorf("%v", v)
	}
}
