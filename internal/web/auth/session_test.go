package auth_test

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ratelimit"
	"github.com/stipend/stipend/internal/web/pagetest"
	"github.com/stipend/stipend/internal/web/ui"
	"github.com/stipend/stipend/internal/web/webtest"
)

func TestSignInAndOut(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		x := pagetest.NewFixture(t, d, "admin")
		guest := webtest.NewVisitor(t, x.URL)
		if home := guest.Get("/"); !home.Contains(`href="/sign-in"`) || !home.Contains(`href="/sign-up"`) {
			t.Errorf("the home page offers no sign-in or no sign-up:\n%s", home.Text)
		}
		if got := guest.Submit(guest.Get("/sign-in"), "/sign-in", "email", "admin@acme.example", "password",
			pagetest.Password); got.Location() != "/overview" {
			t.Errorf("after sign-in without a target: %d to %q", got.Status, got.Location())
		}
		v := webtest.NewVisitor(t, x.URL)
		got := v.Get("/account?lang=fr")
		if got.Status != 303 || got.Location() != "/sign-in?next=%2Faccount%3Flang%3Dfr&lang=fr" {
			t.Fatalf("%d to %q", got.Status, got.Location())
		}
		page := v.Follow(got)
		if !strings.Contains(page.Text, "Se connecter") || !strings.Contains(page.Text, `autocomplete="current-password"`) ||
			page.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%v\n%s", page.Header, page.Text)
		}
		got = v.Submit(page, "/sign-in", "email", " Admin@ACME.example ", "password", pagetest.Password)
		if got.Status != 303 || got.Location() != "/account?lang=fr&lang=fr" {
			t.Fatalf("%d to %q\n%s", got.Status, got.Location(), got.Text)
		}
		cookie := got.Header.Get("Set-Cookie")
		if !strings.HasPrefix(cookie, "stipend_session=stp_session_") ||
			!strings.Contains(cookie, "; Path=/; Max-Age=604800; HttpOnly; SameSite=Lax") || strings.Contains(cookie, "Secure") {
			t.Errorf("cookie %s", cookie)
		}
		page = v.Follow(got)
		for _, want := range []string{"admin@acme.example", "Acme", "Administrateur"} {
			if !strings.Contains(page.Text, want) {
				t.Errorf("no %s in\n%s", want, page.Text)
			}
		}
		if got := v.Get("/sign-in?next=/account"); got.Location() != "/account" {
			t.Errorf("a signed-in user gets the sign-in form: %d", got.Status)
		}
		page = v.Get("/account")
		if !strings.Contains(page.Text, "Administrateur") {
			t.Error("the chosen language is not remembered")
		}
		if got := v.Submit(page, "/sign-out"); got.Location() != "/sign-in" ||
			!strings.Contains(got.Header.Get("Set-Cookie"), "Max-Age=0") {
			t.Errorf("%d %v", got.Status, got.Header)
		}
		if pagetest.SignedIn(v) {
			t.Error("still signed in after signing out")
		}

		// Signing out everywhere ends all sessions, and each sign-in starts a new one.
		a, b := x.SignIn("admin"), x.SignIn("admin")
		if a.Cookie("stipend_session") == b.Cookie("stipend_session") {
			t.Error("two sessions with one token")
		}
		a.Submit(a.Get("/account"), "/sign-out/everywhere")
		if pagetest.SignedIn(a) || pagetest.SignedIn(b) {
			t.Error("still signed in somewhere")
		}
		if n := x.Count("SELECT COUNT(*) FROM sessions"); n != 0 {
			t.Errorf("%d sessions are left", n)
		}
		x.Site.Close()
		if log := x.Logs.String(); strings.Contains(log, pagetest.Password) || strings.Contains(log, "stp_session_") ||
			strings.Contains(log, "acme") {
			t.Errorf("the log contains secrets:\n%s", log)
		}
	})
}

// TestAnonymousFormsAreRateLimited checks that forms without sign-in are limited before they read or write
// anything.
func TestAnonymousFormsAreRateLimited(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		x := pagetest.NewFixture(t, d, "admin")
		x.OwnURL = true
		x.RequireFactor()
		x.Server.AnonymousLimiter = ratelimit.New(1e-9, 3) // three requests, practically without refill
		v := webtest.NewVisitor(t, x.URL)
		for i := range 5 {
			got := v.Post("/sign-in/passkey", nil)
			if i < 3 && got.Status != 200 || i >= 3 && (got.Status != 429 || got.Header.Get("Retry-After") == "") {
				t.Errorf("request %d: %d\n%s", i, got.Status, got.Text)
			}
		}
		if n := x.Count("SELECT COUNT(*) FROM passkey_challenges"); n != 3 {
			t.Errorf("%d challenges", n)
		}
		before := x.Count("SELECT COUNT(*) FROM sign_in_attempts")
		for _, path := range []string{"/sign-in", "/sign-up", "/password", "/password/x", "/sign-up/x", "/join/x",
			"/operations/sign-in", "/authorize", "/pay/x/price"} {
			if got := v.Post(path, url.Values{"email": {"admin@acme.example"},
				"password": {pagetest.Password}}); got.Status != 429 {
				t.Errorf("%s: %d", path, got.Status)
			}
		}
		if n := x.Count("SELECT COUNT(*) FROM sign_in_attempts"); n != before {
			t.Errorf("%d rows", n-before)
		}
	})
}

// TestPasswordChangesDoNotBlockSignIns checks that a sign-in that would wait long is refused at once, that attempts
// with a wrong current password are limited before a new one is hashed, and that staff have a queue of their own.
func TestPasswordChangesDoNotBlockSignIns(t *testing.T) {
	x := pagetest.NewFixture(t, pagetest.SQLite(t), "admin")
	v := x.SignIn("admin")
	page := v.Get("/account/password")
	x.Server.Passwords = ratelimit.NewQueue(16)
	occupy := func() (release func()) { // all calls of this network
		end := make(chan struct{})
		var running sync.WaitGroup
		for range 8 {
			started := make(chan struct{})
			running.Go(func() {
				_ = x.Server.Passwords.Do(t.Context(), "127.0.0.1", false, func() error {
					close(started)
					<-end
					return nil
				})
			})
			<-started
		}
		return func() {
			close(end)
			running.Wait()
		}
	}
	release := occupy()
	someone := webtest.NewVisitor(t, x.URL)
	got := someone.Submit(someone.Get("/sign-in"), "/sign-in", "email", "admin@acme.example",
		"password", pagetest.Password)
	if got.Status != 429 || got.Header.Get("Retry-After") != "5" || !strings.Contains(got.Text, "Too many people") {
		t.Errorf("a sign-in while too many wait: %d, Retry-After %q\n%s", got.Status, got.Header.Get("Retry-After"), got.Text)
	}
	x.Write(func(ctx context.Context, tx *db.Tx) error {
		return session.Succeeded(ctx, tx, "admin@acme.example", netip.MustParseAddr("127.0.0.1"))
	})
	release()
	for range session.MaxAttempts {
		if got := v.Submit(page, "/account/password", "password", "wrong password", "new_password",
			"yet another phrase"); got.Status != 422 {
			t.Errorf("%d\n%s", got.Status, got.Text)
		}
	}
	defer occupy()()
	if got := v.Submit(page, "/account/password", "password", "wrong password", "new_password",
		"yet another phrase"); got.Status != 429 || got.Header.Get("Retry-After") != "900" {
		t.Errorf("%d\n%s", got.Status, got.Text)
	}
	o := webtest.NewVisitor(t, x.URL)
	if got := o.Post(ui.StaffSignInPath, url.Values{
		"email": {"o@staff.example"}, "password": {"wrong password"}, "code": {"123456"}}); got.Status != 422 {
		t.Errorf("staff sign-in: %d\n%s", got.Status, got.Text)
	}
}

// TestPasswordAttemptsAreLimited checks that errors do not reveal whether an account exists, and that after five
// wrong passwords even the right one is rejected for a while.
func TestPasswordAttemptsAreLimited(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		x := pagetest.NewFixture(t, d, "admin")
		v := webtest.NewVisitor(t, x.URL)
		try := func(email, secret string) webtest.Visit {
			return v.Submit(v.Get("/sign-in"), "/sign-in", "email", email, "password", secret)
		}
		for range 6 { // correct passwords do not count
			if got := try("admin@acme.example", pagetest.Password); got.Status != 303 {
				t.Fatalf("%d\n%s", got.Status, got.Text)
			}
			v = webtest.NewVisitor(t, x.URL)
		}
		if got := try("", ""); got.Status != 422 || !strings.Contains(got.Text, "email-problem") ||
			!strings.Contains(got.Text, "password-problem") {
			t.Errorf("%d\n%s", got.Status, got.Text)
		}
		body := func(text, email string) string { // without the submitted email
			return strings.ReplaceAll(text, email, "")
		}
		known, unknown := try("admin@acme.example", "wrong password"), try("nobody@acme.example", "wrong password")
		if known.Status != 422 || unknown.Status != 422 ||
			body(known.Text, "admin@acme.example") != body(unknown.Text, "nobody@acme.example") {
			t.Errorf("the responses differ: %d\n%s\n%d\n%s", known.Status, known.Text, unknown.Status, unknown.Text)
		}
		if strings.Contains(known.Text, "wrong password\"") || known.Header.Get("Set-Cookie") != "" {
			t.Errorf("the page repeats the password:\n%s", known.Text)
		}
		// Count attempts directly, because each password check is slow.
		more := func(email string, tries int) {
			x.Write(func(ctx context.Context, tx *db.Tx) error {
				for i := range tries {
					if _, allowed, err := session.Attempt(ctx, tx, email, netip.MustParseAddr("127.0.0.1")); err != nil || !allowed {
						t.Errorf("attempt %d: %v", i, err)
					}
				}
				return nil
			})
		}
		more("nobody@acme.example", 3)
		got := try("admin@acme.example", pagetest.Password)
		if got.Status != 429 || got.Header.Get("Retry-After") != "900" || !strings.Contains(got.Text, "15 minutes") {
			t.Errorf("after five attempts from one address: %d\n%s", got.Status, got.Text)
		}
		clock.Advance(session.Window)
		more("admin@acme.example", 4)
		if got := try("admin@acme.example", pagetest.Password); got.Status != 303 {
			t.Errorf("the fifth attempt, with the right password: %d", got.Status)
		}
		// Attempts from other networks block neither the owner nor staff, up to a high limit.
		elsewhere := func(email string, first, end int) {
			x.Write(func(ctx context.Context, tx *db.Tx) error {
				for i := first; i < end; i++ {
					for range session.MaxAttempts + 1 {
						from := netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
						if _, _, err := session.Attempt(ctx, tx, email, from); err != nil {
							return err
						}
						if _, _, err := backoffice.Attempt(ctx, tx, email, from); err != nil {
							return err
						}
					}
				}
				return nil
			})
		}
		clock.Advance(session.Window)
		const networks = session.MaxAgainst / session.MaxAttempts
		elsewhere("admin@acme.example", 0, networks-1)
		v = webtest.NewVisitor(t, x.URL)
		if got := try("admin@acme.example", pagetest.Password); got.Status != 303 {
			t.Errorf("attempts of others block the owner: %d", got.Status)
		}
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			if _, allowed, err := backoffice.Attempt(ctx, tx, "admin@acme.example",
				netip.MustParseAddr("127.0.0.1")); err != nil || !allowed {
				t.Errorf("attempts of others block staff: %v", err)
			}
			return nil
		})
		elsewhere("admin@acme.example", networks-1, networks)
		v = webtest.NewVisitor(t, x.URL)
		if got := try("admin@acme.example", pagetest.Password); got.Status != 429 {
			t.Errorf("after attempts from very many networks: %d", got.Status)
		}
		// Rejected attempts store nothing, whatever the email.
		clock.Advance(session.Window)
		before := x.Count("SELECT COUNT(*) FROM sign_in_attempts")
		for i := range session.MaxAttempts {
			more(fmt.Sprintf("stranger%d@acme.example", i), 1)
		}
		for i := range 3 {
			try(fmt.Sprintf("refused%d@acme.example", i), "wrong password")
		}
		if n := x.Count("SELECT COUNT(*) FROM sign_in_attempts") - before; n > session.MaxAttempts {
			t.Errorf("%d rows of rejected attempts", n)
		}
		if n := x.Count(`SELECT COUNT(*) FROM sign_in_attempts
			WHERE throttle LIKE '%acme%' OR throttle LIKE '%127.0%'`); n != 0 {
			t.Error("the table reveals which account was tried")
		}
	})
}

func TestSessionsExpire(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		x := pagetest.NewFixture(t, d, "admin")
		idle := x.SignIn("admin")
		clock.Advance(session.Idle - time.Minute)
		if !pagetest.SignedIn(idle) {
			t.Error("the session ended while in use")
		}
		clock.Advance(session.Idle - time.Minute)
		if !pagetest.SignedIn(idle) {
			t.Error("use did not extend the session")
		}
		clock.Advance(session.Idle)
		if pagetest.SignedIn(idle) {
			t.Error("still signed in after 12 idle hours")
		}
		busy := x.SignIn("admin")
		for range 27 { // steps of six hours
			clock.Advance(session.Life / 28)
			if !pagetest.SignedIn(busy) {
				t.Fatal("the session ended while in use")
			}
		}
		clock.Advance(session.Life / 28)
		if pagetest.SignedIn(busy) {
			t.Error("still signed in after seven days")
		}
		if err := session.Forget(t.Context(), d); err != nil || x.Count("SELECT COUNT(*) FROM sessions") != 0 {
			t.Errorf("expired sessions are kept: %v", err)
		}
	})
}

// TestSignInRedirectsToLocalPathsOnly checks that the next parameter cannot redirect to another site.
func TestSignInRedirectsToLocalPathsOnly(t *testing.T) {
	for _, next := range []string{
		"", "x", "//evil.example", "/\\evil.example", "\\/evil.example", "https://evil.example/", "http:evil",
		"javascript:alert(1)", "/\t/evil.example", "/a\r\nSet-Cookie: x=y", "%zz",
		"///evil.example", "https:///evil.example",
	} {
		if got := ui.LocalPath(next); got != "/account" {
			t.Errorf("%q leads to %q", next, got)
		}
	}
	for _, next := range []string{"/account", "/authorize?client_id=a&state=b%26c", "/settings/api"} {
		if got := ui.LocalPath(next); got != next {
			t.Errorf("%q leads to %q", next, got)
		}
	}
}

func TestFormTokenIsChecked(t *testing.T) {
	x := pagetest.NewFixture(t, pagetest.SQLite(t), "admin")
	v, other := x.SignIn("admin"), x.SignIn("admin")
	_, foreign := webtest.Form(t, other.Get("/account").Text, "/sign-out")
	for name, form := range map[string]url.Values{"none": {}, "of another session": foreign} {
		if got := v.Post("/sign-out", form); got.Status != 403 || !strings.Contains(got.Text, "csrf_failed") ||
			!pagetest.SignedIn(v) {
			t.Errorf("token %s: %d", name, got.Status)
		}
	}
	for _, cookie := range []string{"", "x", "stp_session_" + strings.Repeat("0", 52),
		"stp_session_" + strings.Repeat("u", 52)} {
		if got := x.Do("GET", "/account", "", "Cookie", "stipend_session="+cookie); got.Status != 303 {
			t.Errorf("cookie %q is accepted: %d", cookie, got.Status)
		}
	}
}

// TestMembershipChangesApplyImmediately checks that a session acts only for companies that the user currently belongs
// to.
func TestMembershipChangesApplyImmediately(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		x := pagetest.NewFixture(t, d, "admin", "viewer")
		x.Write(func(ctx context.Context, tx *db.Tx) error { return x.AddMember(ctx, tx, x.Other, "admin", "viewer") })
		v := x.SignIn("admin")
		page := v.Get("/account")
		if got := v.Submit(page, "/account/company", "company_id", x.Other.ID); got.Status != 303 {
			t.Fatalf("%d", got.Status)
		}
		if page = v.Get("/account"); !strings.Contains(page.Text, "<dd>Zenith</dd>") ||
			!strings.Contains(page.Text, "<dd>Viewer</dd>") {
			t.Errorf("%s", page.Text)
		}
		alone := x.SignIn("viewer")
		_, form := webtest.Form(t, alone.Get("/account").Text, "/sign-out")
		form.Set("company_id", x.Other.ID)
		if got := alone.Post("/account/company", form); got.Status != 404 {
			t.Errorf("acts for a company without membership: %d", got.Status)
		}
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			_, err := tx.Exec(ctx, "DELETE FROM members WHERE company_id = $1", x.Other.ID)
			return err
		})
		if page = v.Get("/account"); strings.Contains(page.Text, "Zenith") || !strings.Contains(page.Text, "<dd>Acme</dd>") {
			t.Errorf("%s", page.Text)
		}
	})
}

// TestSessionCookieIsSecure checks that the cookie is bound to the host and to HTTPS outside of a local sandbox.
func TestSessionCookieIsSecure(t *testing.T) {
	for name, s := range map[string]*ui.Server{
		"production":       {Deps: ui.Deps{Env: identity.Production}},
		"a public sandbox": {Deps: ui.Deps{Env: identity.Sandbox, BaseURL: "https://sandbox.example.com"}},
	} {
		if k := s.SessionCookie("x").String(); !strings.HasPrefix(k, "__Host-stipend_session=x; Path=/;") ||
			!strings.Contains(k, "; HttpOnly; Secure; SameSite=Lax") || strings.Contains(k, "Domain") {
			t.Errorf("%s: %s", name, k)
		}
	}
}

func TestAccountPagesInABrowser(t *testing.T) {
	x := pagetest.NewFixture(t, pagetest.SQLite(t), "admin")
	b := webtest.Start(t)
	b.Check(x.URL + "/sign-in")
	p := b.Open(x.URL+"/account", webtest.Look{NoScript: true})
	p.Fill("#email", "admin@acme.example")
	p.Fill("#password", pagetest.Password)
	p.Send("form:has(#password) button")
	if p.Path() != "/account" || !strings.Contains(p.Text(), "admin@acme.example") {
		t.Errorf("at %s:\n%s", p.Path(), p.Text())
	}
	b.Check(x.URL + "/account")
}

// A user's language, time zone and number format are kept with the account: they apply in another browser, too.
func TestLocaleIsRememberedPerPerson(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		x := pagetest.NewFixture(t, d, "admin")
		v := x.SignIn("admin")
		page := v.Get("/account")
		for _, problem := range [][]string{{"time_zone", "Europe/Atlantis"}, {"time_zone", "Local"}} {
			if got := v.Submit(page, "/account/locale", problem...); got.Status != 422 ||
				!strings.Contains(got.Text, `id="time_zone-problem"`) {
				t.Errorf("%v: status %d\n%s", problem, got.Status, got.Text)
			}
		}
		for _, wrong := range [][]string{{"language", "xx"}, {"number_format", "roman"}} {
			if got := v.Submit(page, "/account/locale", wrong...); got.Status != 400 {
				t.Errorf("%v: status %d", wrong, got.Status)
			}
		}
		got := v.Submit(page, "/account/locale", "language", "de", "time_zone", "Europe/Berlin", "number_format",
			"apostrophe_point")
		if got.Status != 303 || got.Location() != "/account" {
			t.Fatalf("status %d to %q\n%s", got.Status, got.Location(), got.Text)
		}
		other := x.SignIn("admin")
		account := other.Get("/account").Text
		for _, want := range []string{`<html lang="de">`, "Angemeldet als", `value="Europe/Berlin"`,
			`value="apostrophe_point" selected`} {
			if !strings.Contains(account, want) {
				t.Errorf("no %s in\n%s", want, account)
			}
		}

		// A link in another language changes the pages of its browser only, until the user changes the account there.
		for _, path := range []string{"/account?lang=he", "/account"} {
			if text := other.Get(path).Text; !strings.Contains(text, `<html lang="he" dir="rtl">`) ||
				!strings.Contains(text, `value="de" selected`) || !strings.Contains(text, `value="Europe/Berlin"`) {
				t.Errorf("%s: the language of this browser is not kept, or the account has changed:\n%s", path, text)
			}
		}
		if text := v.Get("/account").Text; !strings.Contains(text, `<html lang="de">`) {
			t.Errorf("a link changed the language of another browser:\n%s", text)
		}
		other.Submit(other.Get("/account"), "/account/locale", "language", "fr")
		if text := other.Get("/account").Text; !strings.Contains(text, `<html lang="fr">`) {
			t.Errorf("the language of the account is not used:\n%s", text)
		}
	})
}
