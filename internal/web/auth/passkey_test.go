package auth_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/web/pagetest"
	"github.com/stipend/stipend/internal/web/ui"
	"github.com/stipend/stipend/internal/web/webtest"
)

// TestPasskeysInABrowser creates a passkey, signs in with it, checks that it counts as a second factor and works
// once per challenge, and removes it.
func TestPasskeysInABrowser(t *testing.T) {
	x := pagetest.NewFixture(t, pagetest.SQLite(t), "admin", "viewer").Reopen()
	b := webtest.Start(t)
	p := b.Open(x.URL+"/sign-in", webtest.Look{})
	p.Authenticator()
	p.Fill("#email", "admin@acme.example")
	p.Fill("#password", pagetest.Password)
	p.Send("form:has(#password) button")
	p.Do(chromedp.Navigate(x.URL + "/account/passkeys"))
	p.Audit()
	p.Send(`form[action="/account/passkeys/begin"] button`)
	p.Audit()
	others := x.SignIn("viewer")
	if got := others.Post("/account/passkeys", url.Values{
		"form_token": {ui.FormToken(others.Cookie("stipend_session"))}, "passkey_name": {"Mine"},
		"credential": {webtest.Evaluate[string](p, interceptCredential)},
	}); got.Status != 422 || x.Count("SELECT COUNT(*) FROM passkeys") != 0 {
		t.Errorf("another user's passkey was added: %d", got.Status)
	}
	p.Do(chromedp.Navigate(x.URL + "/account/passkeys"))
	p.Send(`form[action="/account/passkeys/begin"] button`)
	p.Send("main button")
	if p.Path() != "/account/passkeys" || !strings.Contains(p.Text(), "My device") {
		t.Fatalf("at %s:\n%s", p.Path(), p.Text())
	}
	p.Audit()

	p.Do(chromedp.Navigate(x.URL + "/account"))
	p.Send(`form[action="/sign-out"] button`)
	p.Audit()
	p.Send(`form[action="/sign-in/passkey"] button`)
	p.Send("main button")
	if p.Path() != "/overview" {
		t.Fatalf("at %s:\n%s", p.Path(), p.Text())
	}
	if n := x.Count("SELECT COUNT(*) FROM sessions WHERE factor_at <> 0"); n != 1 ||
		x.Count("SELECT COUNT(*) FROM sessions") != 2 {
		t.Errorf("%d sessions with a proven second factor", n)
	}

	// A credential is accepted only once, from whichever client. An invalid credential is never accepted.
	p.Do(chromedp.Navigate(x.URL + "/account"))
	p.Send(`form[action="/sign-out"] button`)
	p.Send(`form[action="/sign-in/passkey"] button`)
	credential := webtest.Evaluate[string](p, interceptCredential)
	v := webtest.NewVisitor(t, x.URL)
	send := func(text string) webtest.Visit {
		t.Helper()
		return v.Post("/sign-in/passkey/answer", url.Values{"credential": {text}})
	}
	for what, text := range map[string]string{"nothing": "",
		"another passkey": strings.Replace(credential, `"id":"`, `"id":"AA`, 1)} {
		if got := send(text); got.Status != 422 || pagetest.SignedIn(v) {
			t.Errorf("%s: %d", what, got.Status)
		}
	}
	if got := send(credential); got.Status != 303 || !pagetest.SignedIn(v) {
		t.Fatalf("the credential: %d\n%s", got.Status, got.Text)
	}
	v = webtest.NewVisitor(t, x.URL)
	if got := send(credential); got.Status != 422 || pagetest.SignedIn(v) {
		t.Errorf("a second time: %d", got.Status)
	}
	p.Do(chromedp.Navigate(x.URL + "/sign-in"))
	p.Send(`form[action="/sign-in/passkey"] button`)
	p.Send("main button")
	p.Do(chromedp.Navigate(x.URL + "/account/passkeys"))
	p.Send(`form[action$="/remove"] button`)
	if !strings.Contains(p.Text(), "No passkeys yet") {
		t.Errorf("at %s:\n%s", p.Path(), p.Text())
	}
	p.Quiet()
}

// interceptCredential returns the credential that the page would post.
const interceptCredential = `new Promise(done => {
	const form = document.querySelector("form[data-passkey]");
	form.submit = () => done(form.elements.credential.value);
	form.requestSubmit();
})`

// TestPasskeyChallengesExpire also checks that there are no passkeys at an IP address.
func TestPasskeyChallengesExpire(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		x := pagetest.NewFixture(t, d, "admin")
		if got := x.Do("POST", "/sign-in/passkey", "next=/account"); got.Status != 409 {
			t.Errorf("without a host name: %d", got.Status)
		}
		x.Reopen()
		if got := x.Do("POST", "/sign-in/passkey", "next=/account"); got.Status != 200 ||
			!strings.Contains(got.Text, "data-passkey=") || !strings.Contains(got.Text, "JavaScript") {
			t.Errorf("%d\n%s", got.Status, got.Text)
		}
		clock.Advance(5 * time.Minute)
		if err := auth.Forget(t.Context(), d); err != nil || x.Count("SELECT COUNT(*) FROM passkey_challenges") != 0 {
			t.Errorf("expired challenges are kept: %v", err)
		}
	})
}
