package auth_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/web/pagetest"
	"github.com/stipend/stipend/internal/web/webtest"
)

// An address is changed once both addresses have confirmed it, in either order.
func TestTheEmailAddressIsConfirmedAtBothAddresses(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		x := pagetest.NewFixture(t, d, identity.RoleOwner, identity.RoleAdmin)
		owner := x.SignIn(identity.RoleOwner)
		const was, is = "owner@acme.example", "new@acme.example"
		request := func(address string) webtest.Visit {
			return owner.Submit(owner.Get("/account/email"), "/account/email", "new_email", address)
		}
		for _, address := range []string{"", "nonsense", "OWNER@acme.example"} {
			if got := request(address); got.Status != 422 || !strings.Contains(got.Text, "new_email-problem") {
				t.Errorf("%q: %d\n%s", address, got.Status, got.Text)
			}
		}
		if got := request(is); got.Location() != "/account" {
			t.Fatalf("%d\n%s", got.Status, got.Text)
		}
		if got := request("other@acme.example"); got.Status != 409 {
			t.Errorf("a second request at once: %d", got.Status)
		}
		v := webtest.NewVisitor(t, x.URL)
		email := func(address string) int64 {
			return x.Count("SELECT COUNT(*) FROM users WHERE email = '" + address + "' AND sign_in_key = '" + address + "'")
		}
		links := []string{x.MailedLink(was, mail.EmailChange), x.MailedLink(is, mail.EmailChange)}
		if got := v.Submit(v.Get(links[1]), links[1]); got.Location() != links[1] || email(was) != 1 {
			t.Errorf("%d to %q", got.Status, got.Location())
		}
		if got := v.Get(links[1]); !got.Contains("other address") || strings.Contains(got.Text, "<form") {
			t.Errorf("%s", got.Text)
		}
		if got := v.Submit(v.Get(links[0]), links[0]); got.Location() != "/email/changed" || email(is) != 1 {
			t.Errorf("%d to %q\n%s", got.Status, got.Location(), got.Text)
		}
		for _, link := range links {
			if got := v.Get(link); got.Status != 404 {
				t.Errorf("a used link: %d", got.Status)
			}
		}
		if x.Count("SELECT COUNT(*) FROM mails WHERE template = 'account_changed'") != 2 {
			t.Error("not both addresses are notified")
		}

		// An address that someone else signs in with is refused, and links expire.
		clock.Advance(time.Hour)
		request("admin@acme.example")
		links = []string{x.MailedLink(is, mail.EmailChange), x.MailedLink("admin@acme.example", mail.EmailChange)}
		v.Submit(v.Get(links[0]), links[0])
		if got := v.Submit(v.Get(links[1]), links[1]); got.Status != 409 || email(is) != 1 {
			t.Errorf("%d to %q", got.Status, got.Location())
		}
		clock.Advance(25 * time.Hour)
		if got := v.Get(links[1]); got.Status != 404 {
			t.Errorf("an expired link: %d", got.Status)
		}
	})
}
