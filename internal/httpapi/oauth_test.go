package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/oauth"
	"github.com/stipend/stipend/internal/ratelimit"
)

// consent is a user who authorizes two apps.
type consent struct {
	*fixture
	user                identity.User
	app, other          identity.App
	secret, otherSecret string
}

const callback = "https://app.example.com/back?from=stipend"

func runConsent(t *testing.T, f func(*consent, *dbtest.Clock)) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		c := &consent{fixture: newFixture(t, d, func(own *Deps) {
			own.BaseURL, own.AuthURL = "https://api.example.com", "https://pay.example.com"
		})}
		c.server.tokens = ratelimit.New(1000, 1000)
		sealer, err := identity.NewSealer(make([]byte, 32))
		if err != nil {
			t.Fatal(err)
		}
		c.write(func(ctx context.Context, tx *db.Tx) (err error) {
			if c.user, err = identity.CreateUser(ctx, tx, sealer,
				identity.NewUser{Profile: identity.Profile{Email: "ada@example.com", FirstName: "Ada",
					LastName: "Lovelace"}}); err != nil {
				return err
			}
			if err = identity.AddMember(ctx, tx, identity.Member{CompanyID: c.company, UserID: c.user.ID,
				Role: "admin"}); err != nil {
				return err
			}
			scopes := identity.NewScopes(identity.CompanyDetail, identity.CompanyWorkerList)
			if c.app, c.secret, err = identity.CreateApp(ctx, tx, identity.Sandbox,
				identity.NewApp{CompanyID: c.company, Name: "Books", RedirectURI: callback, Scopes: scopes}); err != nil {
				return err
			}
			c.other, c.otherSecret, err = identity.CreateApp(ctx, tx, identity.Sandbox, identity.NewApp{
				CompanyID: c.company, Name: "Other", RedirectURI: callback, Scopes: scopes,
			})
			return err
		})
		f(c, clock)
	})
}

func (c *consent) write(f func(context.Context, *db.Tx) error) {
	c.t.Helper()
	if err := c.db.Write(c.t.Context(), f); err != nil {
		c.t.Fatal(err)
	}
}

// agree authorizes an app and returns the code.
func (c *consent) agree(change func(*oauth.Params)) (code string) {
	c.t.Helper()
	ask := oauth.Params{ClientID: c.app.ClientID, State: "s"}
	if change != nil {
		change(&ask)
	}
	c.write(func(ctx context.Context, tx *db.Tx) error {
		r, err := oauth.Check(ctx, tx, ask)
		if err != nil {
			return err
		}
		code, err = oauth.Grant(ctx, tx, identity.Sandbox, c.user, c.company, r)
		return err
	})
	return code
}

// post sends name and value pairs as a form, without credentials.
func (c *consent) post(path string, pairs ...string) reply {
	c.t.Helper()
	return c.do("POST", path, values(pairs...).Encode(), "Authorization", "", "Content-Type",
		"application/x-www-form-urlencoded")
}

func values(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		v.Add(pairs[i], pairs[i+1])
	}
	return v
}

func (c *consent) exchange(code string, more ...string) reply {
	c.t.Helper()
	return c.post(exchangePath, append([]string{"grant_type", "authorization_code", "code", code, "client_id",
		c.app.ClientID, "client_secret", c.secret}, more...)...)
}

func (c *consent) token(r reply) (t oauthToken) {
	c.t.Helper()
	if err := json.Unmarshal([]byte(r.text), &t); err != nil || r.status != 200 {
		c.t.Fatalf("%d %s %v", r.status, r.text, err)
	}
	return t
}

func (c *consent) refused(r reply, status int, code string) {
	c.t.Helper()
	var e oauthError
	if err := json.Unmarshal([]byte(r.text), &e); err != nil || r.status != status || string(e.Error) != code ||
		e.Description == "" {
		c.t.Errorf("%d %s; want %d %s", r.status, r.text, status, code)
	}
	if status == 401 && r.header.Get("WWW-Authenticate") == "" {
		c.t.Error("401 without WWW-Authenticate")
	}
}

func (c *consent) works(token string, status int) {
	c.t.Helper()
	if r := c.do("GET", "/list", "", "Authorization", "Bearer "+token); r.status != status {
		c.t.Errorf("the token gets %d %s, want %d", r.status, r.text, status)
	}
}

func TestExchangeCode(t *testing.T) {
	runConsent(t, func(c *consent, _ *dbtest.Clock) {
		as := func(kind, body string, headers ...string) oauthToken {
			t.Helper()
			return c.token(c.do("POST", exchangePath, body, append([]string{"Authorization", "", "Content-Type", kind},
				headers...)...))
		}
		basic := "Basic " +
			base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(c.app.ClientID)+":"+url.QueryEscape(c.secret)))
		object := func(code string) string {
			return `{"grant_type":"authorization_code","code":"` + code + `","client_id":"` + c.app.ClientID +
				`","client_secret":"` + c.secret + `","unknown":1}`
		}
		for name, got := range map[string]oauthToken{
			"form": c.token(c.exchange(c.agree(nil))),
			"json": as("application/json", object(c.agree(nil))),
			"basic": as("application/x-www-form-urlencoded", values("grant_type", "authorization_code", "code",
				c.agree(nil)).Encode(), "Authorization", basic),
			"same redirect": c.token(c.exchange(c.agree(func(a *oauth.Params) {
				a.RedirectURI, a.ResponseType = callback, "code"
			}), "redirect_uri", callback)),
		} {
			if got.TokenType != "Bearer" || got.UserID != c.user.ID || got.CompanyID != c.company ||
				got.Scope != "c_company_detail c_company_worker_list" || got.ExpiresIn != 365*86400 {
				t.Errorf("%s: %+v", name, got)
			}
			c.works(got.AccessToken, 200)
		}
		less := c.token(c.exchange(c.agree(func(a *oauth.Params) { a.Scope = identity.CompanyWorkerList })))
		if less.Scope != identity.CompanyWorkerList {
			t.Errorf("%+v", less)
		}
		c.works(less.AccessToken, 403)
		if r := c.do("GET", "/list?access_token="+less.AccessToken, "", "Authorization", ""); r.status != 401 {
			t.Errorf("a token in an address, which would be in every log: %d %s", r.status, r.text)
		}
		verifier := strings.Repeat("v", 43)
		sum := sha256.Sum256([]byte(verifier))
		pkce := func(a *oauth.Params) { a.Challenge, a.Method = base64.RawURLEncoding.EncodeToString(sum[:]), "S256" }
		c.token(c.exchange(c.agree(pkce), "code_verifier", verifier))
		c.refused(c.exchange(c.agree(pkce)), 400, "invalid_grant")
		c.refused(c.exchange(c.agree(pkce), "code_verifier", strings.Repeat("w", 43)), 400, "invalid_grant")
		// the challenge was removed in transit
		c.refused(c.exchange(c.agree(nil), "code_verifier", verifier), 400, "invalid_grant")
	})
}

// A code that is used twice, or by another client, has leaked: its token is revoked.
func TestLeakedCodeIsRevoked(t *testing.T) {
	runConsent(t, func(c *consent, clock *dbtest.Clock) {
		code := c.agree(nil)
		first := c.token(c.exchange(code))
		c.works(first.AccessToken, 200)
		for range 2 { // the company and its administrator are notified once
			c.refused(c.exchange(code), 400, "invalid_grant")
			c.works(first.AccessToken, 401)
			var mails int64
			if err := c.db.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				return tx.QueryRow(ctx, "SELECT COUNT(*) FROM mails WHERE template = 'company_changed' AND company_id = $1 AND "+
					"data LIKE '%code_replayed%Books%'", c.app.CompanyID).Scan(&mails)
			}); err != nil || mails != 2 {
				t.Errorf("%d mails, %v", mails, err)
			}
		}

		for range 4 { // also if both are concurrent
			code := c.agree(nil)
			var both [2]reply
			var all sync.WaitGroup
			for i := range both {
				all.Go(func() { both[i] = c.exchange(code) })
			}
			all.Wait()
			if both[0].status > both[1].status {
				both[0], both[1] = both[1], both[0]
			}
			c.refused(both[1], 400, "invalid_grant")
			c.works(c.token(both[0]).AccessToken, 401)
		}

		code = c.agree(nil)
		c.refused(c.post(exchangePath, "grant_type", "authorization_code", "code", code, "client_id", c.other.ClientID,
			"client_secret", c.otherSecret), 400, "invalid_grant")
		c.refused(c.exchange(code), 400, "invalid_grant")

		code = c.agree(nil)
		c.refused(c.exchange(code, "redirect_uri", callback+"&x=1"), 400, "invalid_grant")
		code = c.agree(nil)
		c.refused(c.exchange(code[:len(code)-1]+"x"), 400, "invalid_grant")
		c.refused(c.exchange("nonsense"), 400, "invalid_grant")
		clock.Advance(oauth.CodeLife)
		c.refused(c.exchange(code), 400, "invalid_grant")
		if text := c.exchange(code).text; strings.Contains(text, code) || strings.Contains(text, c.secret) {
			t.Errorf("the response repeats a secret: %s", text)
		}
	})
}

func TestTokenRequestErrors(t *testing.T) {
	runConsent(t, func(c *consent, _ *dbtest.Clock) {
		c.refused(c.exchange(c.agree(nil), "client_secret", "x"), 400, "invalid_request") // in the header and in the body
		c.refused(c.post(exchangePath, "grant_type", "authorization_code", "code", "x", "client_id", c.app.ClientID,
			"client_secret", c.otherSecret), 401, "invalid_client")
		c.refused(c.post(exchangePath, "grant_type", "authorization_code", "code", "x", "client_id", "cli_none",
			"client_secret", c.secret), 401, "invalid_client")
		c.refused(c.post(exchangePath, "grant_type", "authorization_code", "code", "x"), 401, "invalid_client")
		c.refused(c.post(exchangePath, "grant_type", "password", "client_id", c.app.ClientID, "client_secret", c.secret), 400,
			"unsupported_grant_type")
		c.refused(c.post(exchangePath, "grant_type", "authorization_code", "client_id", c.app.ClientID, "client_secret",
			c.secret), 400, "invalid_request")
		for body, status := range map[string]int{
			`{"code":1}`: 400, `{"code":"a","code":"b"}`: 400, `[]`: 400, `null`: 400, "": 415,
			strings.Repeat("x", oauthLimit+1): 413,
		} {
			c.refused(c.do("POST", exchangePath, body, "Authorization", ""), status, "invalid_request")
		}
		c.refused(c.do("POST", exchangePath, "a", "Authorization", "", "Content-Type", "text/plain"), 415, "invalid_request")
		c.refused(c.do("POST", exchangePath, "a=b", "Content-Type", "application/x-www-form-urlencoded", "Authorization",
			"Bearer x"), 401, "invalid_client")
		// Credentials in the URL would appear in logs.
		c.refused(c.post(exchangePath+"?client_id="+c.app.ClientID+"&client_secret="+c.secret, "grant_type",
			"authorization_code", "code", c.agree(nil)), 401, "invalid_client")
		if r := c.do("GET", exchangePath, ""); r.status != 405 {
			t.Errorf("%d", r.status)
		}
		c.server.tokens = tokenRequests()
		for range 30 {
			c.exchange("x")
		}
		if r := c.exchange(c.agree(nil)); r.status != 429 || r.header.Get("Retry-After") == "" {
			t.Errorf("the 31st request of a minute: %d %s", r.status, r.text)
		}
		// All addresses of an IPv6 /64 share a limit.
		from := func(address string) int {
			r := httptest.NewRequestWithContext(t.Context(), "POST", exchangePath, strings.NewReader("a=b"))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.RemoteAddr = address
			w := httptest.NewRecorder()
			c.server.ServeHTTP(w, r)
			return w.Code
		}
		now := c.server.Now()
		c.server.Now = func() time.Time { return now } // the limits do not refill
		for i := range 30 {
			if status := from(fmt.Sprintf("[2001:db8::%x]:1024", i)); status != 401 {
				t.Fatalf("%d: %d", i, status)
			}
		}
		if status := from("[2001:db8::ffff]:1024"); status != 429 {
			t.Errorf("the 31st of a network: %d", status)
		}
		if status := from("[2001:db8:1::1]:1024"); status != 401 {
			t.Errorf("another network: %d", status)
		}
	})
}

// An invalid authorization request is answered only to the registered redirect URI.
func TestAuthorizationRequestErrors(t *testing.T) {
	runConsent(t, func(c *consent, _ *dbtest.Clock) {
		check := func(change func(*oauth.Params)) (r oauth.Request, err error) {
			ask := oauth.Params{ClientID: c.app.ClientID, State: "s t"}
			change(&ask)
			_ = c.db.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				r, err = oauth.Check(ctx, tx, ask)
				return nil
			})
			return r, err
		}
		for _, uri := range []string{
			"https://app.example.com/back", callback + "/", callback + "&a=b", "https://app.example.com:443/back?from=stipend",
			"http://app.example.com/back?from=stipend",
			"https://app.example.com/BACK?from=stipend", "https://x@app.example.com/back?from=stipend",
			"https://a.app.example.com/back?from=stipend",
			"https://app.example.com/x/../back?from=stipend", "https://app.example.com/%62ack?from=stipend", "//evil.example",
			"javascript:alert(1)",
		} {
			if _, err := check(func(a *oauth.Params) { a.RedirectURI = uri }); err != oauth.ErrRedirectURI { //nolint:errorlint // unwrapped
				t.Errorf("redirect to %s: %v", uri, err)
			}
		}
		if _, err := check(func(a *oauth.Params) { a.ClientID = "cli_none" }); err != oauth.ErrClient { //nolint:errorlint // unwrapped
			t.Errorf("%v", err)
		}
		for code, change := range map[string]func(*oauth.Params){
			"invalid_scope":             func(a *oauth.Params) { a.Scope = "c_company_detail c_company_workers_pay" },
			"unsupported_response_type": func(a *oauth.Params) { a.ResponseType = "token" },
		} {
			r, err := check(change)
			e, ok := err.(*oauth.Error) //nolint:errorlint // it is a result
			if !ok || e.Code != code {
				t.Fatalf("%v, want %s", err, code)
			}
			u, err := url.Parse(r.Refused("https://pay.example.com", e))
			if q := u.Query(); err != nil || u.Host != "app.example.com" || q.Get("error") != code || q.Get("state") != "s t" ||
				q.Get("iss") != "https://pay.example.com" || q.Get("from") != "stipend" {
				t.Errorf("%s %v", u, err)
			}
		}
		for _, change := range []func(*oauth.Params){
			func(a *oauth.Params) { a.State = "" },
			func(a *oauth.Params) { a.Challenge, a.Method = strings.Repeat("A", 43), "plain" },
			func(a *oauth.Params) { a.Challenge, a.Method = "short", "S256" },
			func(a *oauth.Params) { a.Method = "S256" },
			func(a *oauth.Params) { a.Scope = "nonsense" },
		} {
			if _, err := check(change); err == nil {
				t.Error("a wrong authorization request was accepted")
			}
		}
		stranger := identity.User{ID: "usr_stranger"}
		err := c.db.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			r, err := oauth.Check(ctx, tx, oauth.Params{ClientID: c.app.ClientID, State: "s"})
			if err != nil {
				return err
			}
			_, err = oauth.Grant(ctx, tx, identity.Sandbox, stranger, c.company, r)
			return err
		})
		if err == nil {
			t.Error("a user authorized for another company")
		}
	})
}

func TestRevokeAndConnections(t *testing.T) {
	runConsent(t, func(c *consent, _ *dbtest.Clock) {
		connected := func() (all []oauth.Connection) {
			if err := c.db.Read(t.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
				all, err = oauth.Connections(ctx, tx, c.user.ID)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			return all
		}
		a, b := c.token(c.exchange(c.agree(nil))).AccessToken, c.token(c.exchange(c.agree(nil))).AccessToken
		if all := connected(); len(all) != 1 || all[0].App != "Books" || all[0].CompanyID != c.company {
			t.Errorf("%+v", all)
		}
		revoke := func(token, id, secret string) reply {
			return c.post(revokePath, "token", token, "client_id", id, "client_secret", secret)
		}
		if r := revoke(a, c.other.ClientID, c.otherSecret); r.status != 200 {
			t.Errorf("%d %s", r.status, r.text)
		}
		c.works(a, 200)
		for range 2 {
			if r := revoke(a, c.app.ClientID, c.secret); r.status != 200 {
				t.Errorf("%d %s", r.status, r.text)
			}
		}
		c.works(a, 401)
		c.works(b, 200)
		c.refused(revoke(b, c.app.ClientID, "x"), 401, "invalid_client")
		c.refused(revoke("", c.app.ClientID, c.secret), 400, "invalid_request")
		unused := c.agree(nil)
		c.write(func(ctx context.Context, tx *db.Tx) error {
			return oauth.Disconnect(ctx, tx, c.user.ID, c.app.ID, c.company)
		})
		c.refused(c.exchange(unused), 400, "invalid_grant")
		c.works(b, 401)
		if all := connected(); len(all) != 0 {
			t.Errorf("%+v", all)
		}
	})
}

func TestOAuthMetadata(t *testing.T) {
	runConsent(t, func(c *consent, _ *dbtest.Clock) {
		m, _ := ask[oauthMetadata](c.fixture, "GET", metadataPath, "")
		if m.Issuer != "https://pay.example.com" || m.AuthorizationEndpoint != "https://pay.example.com/authorize" ||
			m.TokenEndpoint != "https://api.example.com/oauth2/token" || len(m.ScopesSupported) != 24 {
			t.Errorf("%+v", m)
		}
	})
}

// Every scope has a description and a group for the consent page.
func TestEveryScopeIsDescribed(t *testing.T) {
	for _, s := range identity.AllScopes().List() {
		if oauth.Describe(s) == s || oauth.GroupOf(s) == "" {
			t.Errorf("%s has no description", s)
		}
	}
}
