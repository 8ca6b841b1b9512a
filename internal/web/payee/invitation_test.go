package payee_test

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/web/pagetest"
	"github.com/stipend/stipend/internal/web/webtest"
)

var ada = url.Values{
	"first_name": {"Ada"}, "last_name": {"Lovelace"}, "date_of_birth": {"1990-12-10"}, "country": {"GB"},
	"street_address": {"12 St James's Square"},
	"city":           {"London"}, "zip": {"SW1Y 4JH"}, "new_password": {"seven tiny purple boats"},
}

func TestInvitationIsAccepted(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		h, x := pagetest.Open(t, d, identity.Sandbox), pagetest.NewInviter(t, d)
		path := x.Invite("ada@example.com")
		got := h.Do("GET", path, "")
		for _, want := range []string{"Acme &lt;i&gt;&amp; Co&lt;/i&gt; invites you", "ada@example.com", "Valid until",
			`autocomplete="bday"`, `<option value="DE">Germany`} {
			if got.Status != 200 || !strings.Contains(got.Text, want) {
				t.Errorf("%d, no %q in\n%s", got.Status, want, got.Text)
			}
		}
		if got.Header.Get("Cache-Control") != "no-store" || got.Header.Get("X-Robots-Tag") != "noindex" ||
			got.Header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%v", got.Header)
		}
		if got := h.Do("GET", path+"?lang=fr", ""); !strings.Contains(got.Text, `<option value="DE">Allemagne`) ||
			!strings.Contains(got.Text, `action="`+path+`/accept?lang=fr"`) {
			t.Errorf("in French:\n%s", got.Text)
		}

		// All problems are shown at once, at the fields, and nothing is stored.
		got = h.Do("POST", path+"/accept?lang=es", url.Values{
			"first_name": {"Ada"}, "country": {"XX"}, "date_of_birth": {"2999-01-01"}, "role": {"employee"}}.Encode())
		for _, want := range []string{"last_name-problem", "date_of_birth-problem", "country-problem",
			"street_address-problem", "city-problem", "new_password-problem", `value="Ada"`, "Elige un país"} {
			if got.Status != 422 || !strings.Contains(got.Text, want) {
				t.Errorf("%d, no %q in\n%s", got.Status, want, got.Text)
			}
		}
		if v := x.State("ada@example.com"); v.State != payee.InvitationSent || x.Count("SELECT COUNT(*) FROM users") != 0 {
			t.Errorf("a rejected form left %+v", v)
		}

		// Accepting signs the person in, once: a link that was used starts no session.
		for i, to := range []string{"/account/payments", path} {
			if got := h.Do("POST", path+"/accept", ada.Encode(), "Sec-Fetch-Site", "same-origin"); got.Status != 303 ||
				got.Header.Get("Location") != to || (got.Header.Get("Set-Cookie") == "") != (i == 1) {
				t.Fatalf("%d to %q\n%s", got.Status, got.Header.Get("Location"), got.Text)
			}
		}
		v := x.State("ada@example.com")
		if v.State != payee.InvitationAccepted || x.Count(
			"SELECT COUNT(*) FROM users WHERE first_name = 'Ada' AND complete") != 1 ||
			x.Count("SELECT COUNT(*) FROM recipients") != 1 {
			t.Errorf("%+v", v)
		}
		if got := h.Do("GET", path, ""); got.Status != 200 || !strings.Contains(got.Text, "Invitation accepted") ||
			strings.Contains(got.Text, "<form") || strings.Contains(got.Text, "%!") {
			t.Errorf("%d\n%s", got.Status, got.Text)
		}
		if got := h.Do("POST", path+"/decline", "", "Content-Type", "application/x-www-form-urlencoded"); got.Status != 303 ||
			x.State("ada@example.com").State != payee.InvitationAccepted {
			t.Errorf("declined after accepting: %d", got.Status)
		}
		h.Close()
		if token := strings.TrimPrefix(path, "/invitation/"); strings.Contains(h.Logs.String(), token) ||
			strings.Contains(h.Logs.String(), "Lovelace") {
			t.Errorf("the log holds a token or a name:\n%s", h.Logs.String())
		}
	})
}

func TestInvitationIsDeclinedRevokedOrUnknown(t *testing.T) {
	d := pagetest.SQLite(t)
	h, x := pagetest.Open(t, d, identity.Sandbox), pagetest.NewInviter(t, d)
	path := x.Invite("ada@example.com")
	if got := h.Do("POST", path+"/decline", "", "Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site",
		"cross-site"); got.Status != 403 || x.State("ada@example.com").State != payee.InvitationSent {
		t.Errorf("another site declined: %d", got.Status)
	}
	if got := h.Do("POST", path+"/decline", "", "Content-Type", "application/x-www-form-urlencoded"); got.Status != 303 {
		t.Fatalf("%d\n%s", got.Status, got.Text)
	}
	if got := h.Do("GET", path, ""); !strings.Contains(got.Text, "Invitation declined") ||
		strings.Contains(got.Text, "<form") {
		t.Errorf("%s", got.Text)
	}
	if got := h.Do("POST", path+"/accept", ada.Encode()); got.Status != 303 || x.Count("SELECT COUNT(*) FROM users") != 0 {
		t.Errorf("accepted after declining: %d", got.Status)
	}

	gone := x.Invite("eve@example.com")
	x.Write(func(ctx context.Context, tx *db.Tx) error {
		_, err := payee.Revoke(ctx, tx, x.By, "", "eve@example.com")
		return err
	})
	if got := h.Do("GET", gone, ""); !strings.Contains(got.Text, "Invitation revoked") ||
		strings.Contains(got.Text, "<form") {
		t.Errorf("%s", got.Text)
	}
	for _, tail := range []string{"", "/accept", "/decline", "/ask", "/asked"} {
		method, form := "POST", ada.Encode()
		if tail == "" || tail == "/asked" {
			method, form = "GET", ""
		}
		if got := h.Do(method, "/invitation/stp_link_nothing"+tail, form); got.Status != 404 {
			t.Errorf("unknown link%s: %d", tail, got.Status)
		}
	}
}

func TestExpiredInvitationCanBeRequestedAgain(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		h, x := pagetest.Open(t, d, identity.Sandbox), pagetest.NewInviter(t, d)
		path := x.Invite("ada@example.com")
		ask := func() pagetest.Response {
			return h.Do("POST", path+"/ask", "", "Content-Type", "application/x-www-form-urlencoded")
		}
		const asked = "SELECT COUNT(*) FROM mails WHERE template = 'invitation_requested'"
		if got := ask(); got.Header.Get("Location") != path || x.Count(asked) != 0 {
			t.Errorf("requested before it expired: %d", got.Status)
		}
		clock.Advance(15 * 24 * time.Hour)
		if got := h.Do("GET", path, ""); !strings.Contains(got.Text, "Invitation expired") ||
			!strings.Contains(got.Text, path+"/ask") || strings.Contains(got.Text, "first_name") {
			t.Errorf("%s", got.Text)
		}
		for range 3 {
			if got := ask(); got.Status != 303 || got.Header.Get("Location") != path+"/asked" {
				t.Fatalf("%d to %q", got.Status, got.Header.Get("Location"))
			}
		}
		if n := x.Count(asked + " AND address = 'office@acme.example' AND data LIKE '%ada@example.com%'"); n != 1 {
			t.Errorf("the company got %d mails", n)
		}
		if got := h.Do("GET", path+"/asked", ""); got.Status != 200 || !strings.Contains(got.Text, "We’ve let Acme") {
			t.Errorf("%d\n%s", got.Status, got.Text)
		}
	})
}

func TestInvitationInABrowser(t *testing.T) {
	d := pagetest.SQLite(t)
	h, x := pagetest.Open(t, d, identity.Sandbox), pagetest.NewInviter(t, d)
	path := x.Invite("ada@example.com")
	b := webtest.Start(t)
	b.Check(h.URL + path)

	// On a small dark screen, first with mistakes and then correctly.
	p := b.Open(h.URL+path, webtest.Look{Width: 320, Dark: true})
	p.Fill("#first_name", "Ada")
	p.Send("main form button")
	p.Audit()
	if text := p.Text(); !strings.Contains(text, "This field is required.") {
		t.Errorf("no problems are shown:\n%s", text)
	}
	for name, value := range ada {
		p.Do(chromedp.SetValue("#"+name, value[0]))
	}
	p.Send("main form button")
	p.Audit()
	if text := p.Text(); p.Path() != "/account/payments" || !strings.Contains(text, "Tell us where to pay you") {
		t.Errorf("at %s:\n%s", p.Path(), text)
	}

	// Without JavaScript.
	no := x.Invite("eve@example.com")
	p = b.Open(h.URL+no, webtest.Look{NoScript: true})
	p.Send("form[action$='/decline'] button")
	if text := p.Text(); p.Path() != no || !strings.Contains(text, "Invitation declined") {
		t.Errorf("at %s:\n%s", p.Path(), text)
	}
}

// A person with an account accepts without entering anything, and signs in as before: the mailbox alone opens no
// account.
func TestAPersonWithAnAccountAccepts(t *testing.T) {
	d := pagetest.SQLite(t)
	h, x := pagetest.Open(t, d, identity.Sandbox), pagetest.NewInviter(t, d)
	sealer, err := identity.NewSealer(make([]byte, 32))
	testkit.Check(t, err)
	x.Write(func(ctx context.Context, tx *db.Tx) error {
		_, err := identity.CreateUser(ctx, tx, sealer, identity.NewUser{Profile: identity.Profile{
			Email: "ada@example.com", FirstName: "Ada", LastName: "Lovelace"},
			PasswordHash: testkit.PasswordHash(t, pagetest.Password)})
		return err
	})
	path := x.Invite("ada@example.com")
	if got := h.Do("GET", path, ""); !strings.Contains(got.Text, "already have a Stipend account") ||
		strings.Contains(got.Text, "new_password") {
		t.Errorf("%s", got.Text)
	}
	other := url.Values{"first_name": {"Eve"}, "new_password": {"another long password"}}
	got := h.Do("POST", path+"/accept", other.Encode())
	if !strings.HasPrefix(got.Header.Get("Location"), "/sign-in") || got.Header.Get("Set-Cookie") != "" ||
		x.Count("SELECT COUNT(*) FROM users WHERE first_name = 'Ada'") != 1 ||
		x.State("ada@example.com").State != payee.InvitationAccepted {
		t.Errorf("%d to %q, cookie %q", got.Status, got.Header.Get("Location"), got.Header.Get("Set-Cookie"))
	}
}
