package app_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/web/webtest"
)

// A person accepts an invitation with a passkey instead of a password, and signs in with it. Passkeys need JavaScript:
// without it, the invitation offers the password alone.
func TestAPasskeyAtTheInvitationInABrowser(t *testing.T) {
	t.Parallel()
	o := openCompanyBrowser(t, dbtest.SQLite(t))
	base := strings.Replace(o.s.Ready().BaseURL, "127.0.0.1", "localhost", 1) // a passkey belongs to a host name
	b := webtest.Start(t)
	for who, look := range map[string]webtest.Look{
		"phone@payee.example": {Width: 390}, "desktop@payee.example": {Width: 1440},
		"plain@payee.example": {Width: 390, NoScript: true},
	} {
		o.Submit(o.Get("/invitations"), "/invitations", "email", who)
		p := &flow{T: t, Page: b.Open(base+o.mailed(who, "/invitation/"), look), base: base, look: look}
		if look.NoScript {
			if text := p.Text(); strings.Contains(text, "passkey") || !strings.Contains(text, "Accept invitation") {
				t.Errorf("without JavaScript:\n%s", text)
			}
			continue
		}
		p.Authenticator()
		p.shows("Accept and use a passkey")
		passkey := "button[name=passkey]"
		p.fillProfile()
		p.set("city", "")
		p.Send(passkey)
		p.holds("first_name", "Ada", "city")
		p.set("city", "New York")
		p.Send(passkey)
		p.shows("No passkeys yet")
		p.Send("form[action$='/passkeys/begin'] button")
		p.shows("Your device then creates the passkey.")
		p.Send("main button")
		p.shows("My device")
		p.at("/account/payments")
		p.shows("Tell us where to pay you")
		p.at("/account")
		p.Send("form[action='/sign-out'] button")
		p.Send("form[action='/sign-in/passkey'] button")
		p.shows("Your device asks for your fingerprint")
		p.Send("main button")
		p.shows("Your pay")
		p.Do(chromedp.Navigate("about:blank"))
		p.Close()
	}
}
