package auth_test

import (
	"context"
	"html"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/oauth"
	"github.com/stipend/stipend/internal/web/pagetest"
	"github.com/stipend/stipend/internal/web/ui"
	"github.com/stipend/stipend/internal/web/ui/texts"
	"github.com/stipend/stipend/internal/web/webtest"
)

func authorizePath(app identity.App, pairs ...string) string {
	v := url.Values{"client_id": {app.ClientID}, "state": {"s&t"}}
	for i := 0; i < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	return "/authorize?" + v.Encode()
}

const redirectURI = "https://app.example.com/back?from=stipend"

func TestConsent(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		x := pagetest.NewFixture(t, d, "admin")
		app, secret := x.CreateApp(redirectURI, identity.CompanyDetail, identity.CompanyWorkersInvite,
			identity.CompanyWorkersPay)
		v := webtest.NewVisitor(t, x.URL)
		path := authorizePath(app, "scope", "c_company_workers_pay c_company_detail", "response_type", "code")

		// The user signs in first and returns.
		page := v.Follow(v.Get(path))
		page = v.Follow(v.Submit(page, "/sign-in", "email", "admin@acme.example", "password", pagetest.Password))
		for _, want := range []string{
			"Allow Books &lt;b&gt; to act for you?", "Unverified", "Zenith", "app.example.com", "admin@acme.example",
			"<option value=\"" + x.Company.ID + "\" selected>Acme",
			"View the company", "It can move money", "Pay people", "365 days", "What it can’t do", `href="/account/apps"`,
			`value="allow"`, `value="deny"`,
		} {
			if page.Status != 200 || !strings.Contains(page.Text, want) {
				t.Errorf("%d, no %q in\n%s", page.Status, want, page.Text)
			}
		}
		if strings.Contains(page.Text, "Invite and add people") ||
			strings.Contains(page.Text, `class="btn ghost" name="decision"`) {
			t.Errorf("scopes that were not requested, or a secondary button:\n%s", page.Text)
		}
		if p := page.Header.Get("Content-Security-Policy"); !strings.Contains(p, "frame-ancestors 'none'") ||
			!strings.Contains(p, "form-action 'self' https:;") || page.Header.Get("Cache-Control") != "no-store" ||
			page.Header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%v", page.Header)
		}
		if q := x.AppRedirect(v.Submit(page, "/authorize", "decision", "deny")); q.Get("error") != "access_denied" ||
			q.Has("code") {
			t.Errorf("%v", q)
		}
		for _, bad := range []struct {
			status int
			pairs  []string
		}{{400, nil}, {403, []string{"decision", "allow", "form_token", "x"}},
			{404, []string{"decision", "allow", "company_id", x.Other.ID}}} {
			if got := v.Submit(page, "/authorize", bad.pairs...); got.Status != bad.status || got.Location() != "" {
				t.Errorf("%v: %d to %q", bad.pairs, got.Status, got.Location())
			}
		}

		if got := v.Get(authorizePath(app, "state", strings.Repeat("s", 2049))); got.Status != 400 || got.Location() != "" {
			t.Errorf("a long state: %d to %q", got.Status, got.Location())
		}

		// The token has the scopes that were shown, not all scopes of the app.
		q := x.AppRedirect(v.Submit(page, "/authorize", "decision", "allow"))
		var token oauth.Token
		x.Write(func(ctx context.Context, tx *db.Tx) (err error) {
			var refusal *oauth.Error
			token, refusal, err = oauth.Exchange(ctx, tx, identity.Sandbox,
				oauth.TokenRequest{GrantType: "authorization_code", Code: q.Get("code"), ClientID: app.ClientID,
					ClientSecret: secret})
			if refusal != nil {
				t.Fatal(refusal)
			}
			return err
		})
		if token.CompanyID != x.Company.ID || token.UserID != x.Users["admin"].ID ||
			token.Scopes.String() != "c_company_detail c_company_workers_pay" {
			t.Errorf("%+v", token)
		}

		// The grant is listed and can be revoked.
		page = v.Get("/account/apps")
		for _, want := range []string{"Books &lt;b&gt;", "<dd>Acme</dd>", "Pay people", "Never"} {
			if !strings.Contains(page.Text, want) {
				t.Errorf("no %q in\n%s", want, page.Text)
			}
		}
		works := func() bool {
			err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				_, err := identity.Authenticate(ctx, tx, "Bearer", token.AccessToken, identity.Sandbox)
				return err
			})
			return err == nil
		}
		if !works() {
			t.Error("the token does not work")
		}
		if got := v.Submit(page, "/account/apps/disconnect"); got.Location() != "/account/apps" || works() {
			t.Errorf("%d; the token works: %v", got.Status, works())
		}
		if page = v.Get("/account/apps"); !strings.Contains(page.Text, "You haven’t connected any apps.") {
			t.Errorf("%s", page.Text)
		}

		// The user can switch to another account and returns.
		page = v.Follow(v.Submit(v.Get(path), "/sign-out"))
		page = v.Follow(v.Submit(page, "/sign-in", "email", "admin@acme.example", "password", pagetest.Password))
		if !strings.Contains(page.Text, "Allow Books") {
			t.Errorf("%s", page.Text)
		}
	})
}

// The page of consent shows the code of the device, so that a person who followed a link sees that it is not theirs.
// Nobody who has not signed in learns whether a code exists.
func TestConsentForADevice(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		x := pagetest.NewFixture(t, d, "admin")
		var device oauth.Device
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			var refusal *oauth.Error
			var err error
			device, refusal, err = oauth.Authorize(ctx, tx, identity.CommandLineClient, "", "c_company_detail")
			if refusal != nil {
				t.Fatal(refusal)
			}
			return err
		})
		path := "/authorize?user_code=" + strings.ToLower(strings.ReplaceAll(device.UserCode, "-", ""))
		stranger := webtest.NewVisitor(t, x.URL)
		for _, code := range []string{device.UserCode, "BBBB-BBBB", "x"} {
			got := stranger.Post("/authorize", url.Values{"user_code": {code}, "decision": {"allow"}})
			want := ui.SignInPath("/authorize?" + url.Values{"user_code": {code}}.Encode())
			if got.Status != 303 || got.Location() != want {
				t.Errorf("%s without sign-in: %d to %q, want %q", code, got.Status, got.Location(), want)
			}
		}
		v := x.SignIn("admin")
		page := v.Get(path)
		for _, want := range []string{"Is this the code on your device?", ">" + device.UserCode + "<"} {
			if page.Status != 200 || !strings.Contains(page.Text, want) {
				t.Errorf("%d, no %q in\n%s", page.Status, want, page.Text)
			}
		}
		app, _ := x.CreateApp(redirectURI, identity.CompanyDetail)
		if other := v.Get(authorizePath(app)); strings.Contains(other.Text, "Is this the code") {
			t.Errorf("an app that is no device:\n%s", other.Text)
		}
		if got := v.Submit(page, "/authorize", "user_code", "BBBB-BBBB", "decision", "allow"); got.Status != 404 {
			t.Errorf("an unknown code after sign-in: %d to %q", got.Status, got.Location())
		}
		if got := v.Submit(page, "/authorize", "decision", "allow"); got.Location() != "/device?done=allowed" {
			t.Errorf("allow: %d to %q\n%s", got.Status, got.Location(), got.Text)
		}
	})
}

// The page names every scope that an app can be granted in the language of the reader.
func TestConsentInEachLanguage(t *testing.T) {
	x := pagetest.NewFixture(t, pagetest.SQLite(t), "admin")
	app, _ := x.CreateApp(redirectURI, identity.GrantableScopes().List()...)
	v := x.SignIn("admin")
	for language, catalog := range texts.Catalogs {
		page := v.Get(authorizePath(app, "lang", language))
		for _, s := range identity.GrantableScopes().List() {
			text, english := catalog["scope."+s], texts.Catalogs["en"]["scope."+s]
			if page.Status != 200 || !strings.Contains(page.Text, html.EscapeString(text)) ||
				language != "en" && text == english {
				t.Errorf("%s, %d: %s is %q", language, page.Status, s, text)
			}
		}
	}
}

// TestConsentWarnsOfSimilarAppNames checks that the page warns if another publisher has an app with a similar name,
// unless this one is verified.
func TestConsentWarnsOfSimilarAppNames(t *testing.T) {
	x := pagetest.NewFixture(t, pagetest.SQLite(t), "owner")
	app, _ := x.CreateApp(redirectURI, identity.CompanyDetail)
	v := x.SignIn("owner")
	const warning = "Another publisher has an app with a very similar name."
	if got := v.Get(authorizePath(app)); got.Status != 200 || strings.Contains(got.Text, warning) {
		t.Fatalf("%d\n%s", got.Status, got.Text)
	}
	if got := v.Submit(v.Get("/settings/api"), "/settings/api", "name", "BOOK5 b", "scopes",
		"c_company_detail"); got.Status != 200 {
		t.Fatalf("%d\n%s", got.Status, got.Text)
	}
	if got := v.Get(authorizePath(app)); !strings.Contains(got.Text, warning) {
		t.Errorf("no warning:\n%s", got.Text)
	}
	x.Write(func(ctx context.Context, tx *db.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE companies SET kyb_status = 'approved' WHERE company_id = $1", x.Other.ID)
		return err
	})
	if got := v.Get(authorizePath(app)); strings.Contains(got.Text, warning) {
		t.Error("a verified publisher gets the warning")
	}
	if got := v.Submit(v.Get("/settings/api"), "/settings/api", "name", "B00KS B", "scopes",
		"c_company_detail"); got.Status != 422 || !strings.Contains(got.Text, `id="name-problem"`) {
		t.Errorf("the name of a verified company's app: %d\n%s", got.Status, got.Text)
	}
}

// TestInvalidAuthorizationRequests checks which errors are sent to the app and which are only shown to the user.
func TestInvalidAuthorizationRequests(t *testing.T) {
	x := pagetest.NewFixture(t, pagetest.SQLite(t), "admin")
	app, _ := x.CreateApp(redirectURI, identity.CompanyDetail)
	v := x.SignIn("admin")
	for code, pairs := range map[string][]string{
		"invalid_scope":             {"scope", "c_company_workers_pay"},
		"unsupported_response_type": {"response_type", "token"},
		"invalid_request":           {"code_challenge", "short", "code_challenge_method", "S256"},
	} {
		if got := webtest.NewVisitor(t, x.URL).Get(authorizePath(app, pairs...)); !strings.HasPrefix(
			got.Location(), "/sign-in?") {
			t.Errorf("without sign-in, redirect to %q", got.Location())
		}
		if q := x.AppRedirect(v.Get(authorizePath(app, pairs...))); q.Get("error") != code {
			t.Errorf("%v, want %s", q, code)
		}
	}
	unknown := app
	unknown.ClientID = "cli_nobody"
	for path, status := range map[string]int{
		authorizePath(unknown): 404,
		"/authorize":           404,
		authorizePath(app, "redirect_uri", "https://app.example.com/back"):                                           422,
		authorizePath(app, "redirect_uri", "https://evil.example/?from=stipend"):                                     422,
		authorizePath(app) + "&state=again":                                                                          400,
		authorizePath(app) + "&redirect_uri=https%3A%2F%2Fevil.example&redirect_uri=" + url.QueryEscape(redirectURI): 400,
	} {
		if got := webtest.NewVisitor(t, x.URL).Get(path); got.Status != status || got.Location() != "" ||
			strings.Contains(got.Text, "https://evil") || !strings.Contains(got.Text, "<h1>") {
			t.Errorf("%s: %d to %q", path, got.Status, got.Location())
		}
	}
}

// TestAnUnknownAppIsNamedAsTheReason checks that the page of a link with an unknown client ID tells what is wrong.
func TestAnUnknownAppIsNamedAsTheReason(t *testing.T) {
	x := pagetest.NewFixture(t, pagetest.SQLite(t), "admin")
	app, _ := x.CreateApp(redirectURI, identity.CompanyDetail)
	app.ClientID = "cli_nobody"
	if got := webtest.NewVisitor(t, x.URL).Get(authorizePath(app)); got.Status != 404 ||
		!got.Contains("names an app that isn’t registered here") {
		t.Errorf("%d\n%s", got.Status, got.Text)
	}
}

// TestViewerCannotGrantCompanyScopes checks that viewers can grant access to their own account only.
func TestViewerCannotGrantCompanyScopes(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		x := pagetest.NewFixture(t, d, "viewer")
		company, _ := x.CreateApp(redirectURI, identity.CompanyDetail)
		v := x.SignIn("viewer")
		page := v.Get(authorizePath(company))
		if strings.Contains(page.Text, `value="allow"`) || !strings.Contains(page.Text, `value="deny"`) ||
			!strings.Contains(page.Text, "your role doesn’t let you authorize it") {
			t.Errorf("%s", page.Text)
		}
		if got := v.Submit(page, "/authorize", "decision", "allow", "company_id", x.Company.ID); got.Status != 403 ||
			x.Count("SELECT COUNT(*) FROM authorization_codes") != 0 {
			t.Errorf("%d to %q", got.Status, got.Location())
		}
		own, _ := x.CreateApp(redirectURI, identity.UserDetail)
		if page = v.Get(authorizePath(own)); strings.Contains(page.Text, "Acme") || !strings.Contains(page.Text, "Only me") {
			t.Errorf("%s", page.Text)
		}
		if q := x.AppRedirect(v.Submit(page, "/authorize", "decision", "allow")); q.Get("code") == "" {
			t.Errorf("%v", q)
		}
	})
}

// TestScopeTextsMatchMails checks that the consent page and the mails describe scopes in the same words.
func TestScopeTextsMatchMails(t *testing.T) {
	for _, s := range identity.AllScopes().List() {
		if got := texts.Catalogs["en"]["scope."+s]; got != oauth.Describe(s) {
			t.Errorf("%s is %q on the page, %q in a mail", s, got, oauth.Describe(s))
		}
	}
}

func TestConsentInABrowser(t *testing.T) {
	x := pagetest.NewFixture(t, pagetest.SQLite(t), "admin")
	app, _ := x.CreateApp(x.URL+"/?app", identity.CompanyDetail, identity.CompanyWorkersInvite, identity.CompanyWorkersPay)
	b := webtest.Start(t)
	address := x.URL + authorizePath(app)
	p := b.Open(address, webtest.Look{Width: 320, NoScript: true})
	p.Fill("#email", "admin@acme.example")
	p.Fill("#password", pagetest.Password)
	p.Send("form:has(#password) button")
	if p.Path() != "/authorize" || !strings.Contains(p.Text(), "It can move money") {
		t.Fatalf("at %s:\n%s", p.Path(), p.Text())
	}
	b.Check(address)
	p.Send("button[value=allow]")
	if at := webtest.Evaluate[string](p, "location.search"); p.Path() != "/" ||
		!strings.Contains(at, "code=stp_sandbox_code_") || !strings.Contains(at, "state=s%26t") {
		t.Errorf("at %s%s", p.Path(), at)
	}
	b.Check(x.URL + "/account/apps")
	for _, query := range []string{"", "?wrong=1&user_code=BCDF-GHJK", "?done=allowed", "?done=denied"} {
		b.Check(x.URL + "/device" + query)
	}
	p.Do(chromedp.Navigate(address))
	p.Send("button[value=deny]")
	if at := webtest.Evaluate[string](p, "location.search"); !strings.Contains(at, "error=access_denied") {
		t.Errorf("at %s", at)
	}
	// Both buttons look the same.
	p.Do(chromedp.Navigate(address))
	const size = `(s => {
		const b = document.querySelector(s), c = getComputedStyle(b);
		return [c.backgroundColor, c.color, c.fontWeight, c.fontSize, b.offsetWidth, b.offsetHeight].join()
	})`
	if allow, deny := webtest.Evaluate[string](p, size+`("button[value=allow]")`),
		webtest.Evaluate[string](p, size+`("button[value=deny]")`); allow != deny {
		t.Errorf("allow is %s, deny %s", allow, deny)
	}
}
