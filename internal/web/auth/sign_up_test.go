package auth_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/web/pagetest"
	"github.com/stipend/stipend/internal/web/ui"
	"github.com/stipend/stipend/internal/web/webtest"
)

var business = []string{"first_name", "Grace", "last_name", "Hopper", "company_name", "Nanosecond Ltd", "country", "US",
	"new_password", "wire of eleven inches"}

func TestBusinessSignsUp(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		x := pagetest.NewFixture(t, d, "admin").Reopen()
		v := webtest.NewVisitor(t, x.URL)
		ask := func(path, address string) webtest.Visit {
			t.Helper()
			return v.Submit(v.Get(path+"?lang=fr"), path, "email", address)
		}
		if got := ask("/sign-up", "nobody"); got.Status != 422 || !strings.Contains(got.Text, "email-problem") {
			t.Errorf("no address: %d\n%s", got.Status, got.Text)
		}
		// Only the mail reveals whether an account exists.
		fresh, known := ask("/sign-up", " Grace@nano.example "), ask("/sign-up", "admin@acme.example")
		if fresh.Status != 303 || known.Status != 303 || fresh.Location() != "/sign-up/sent?lang=fr" ||
			known.Location() != fresh.Location() {
			t.Errorf("%d to %q, %d to %q", fresh.Status, fresh.Location(), known.Status, known.Location())
		}
		if n := x.Count("SELECT COUNT(*) FROM mails") + x.Count("SELECT COUNT(*) FROM email_tokens"); n != 0 {
			t.Errorf("the request does work for only one of them: %d rows", n)
		}
		if got := x.MailsTo("admin@acme.example"); len(got) != 1 || got[0].Template != mail.AccountExists ||
			!strings.Contains(got[0].HTML, `lang="fr"`) {
			t.Errorf("%+v", got)
		}
		first := x.MailedLink("Grace@nano.example", mail.SignUp)
		clock.Advance(time.Second)
		ask("/sign-up", "Grace@nano.example")
		path := x.MailedLink("Grace@nano.example", mail.SignUp)
		if first == path || v.Get(first).Status != 404 ||
			v.Get(strings.Replace(path, "/sign-up/", "/password/", 1)).Status != 404 {
			t.Error("a replaced link, or one for another purpose, works")
		}
		page := v.Get(path)
		for field, value := range map[string]string{"new_password": "short", "company_name": "", "country": "",
			"first_name": " "} {
			wrong := slices.Clone(business)
			wrong[slices.Index(wrong, field)+1] = value
			got := v.Submit(page, path, wrong...)
			if got.Status != 422 || !strings.Contains(got.Text, `id="`+field+`-problem"`) ||
				strings.Contains(got.Text, "inches") {
				t.Errorf("%s: %d\n%s", field, got.Status, got.Text)
			}
		}
		got := v.Submit(page, path, business...)
		if got.Status != 303 || got.Location() != "/overview" {
			t.Fatalf("%d to %q\n%s", got.Status, got.Location(), got.Text)
		}
		if account := v.Get("/account"); !strings.Contains(account.Text, "Nanosecond Ltd") ||
			!strings.Contains(account.Text, "<dd>Propriétaire</dd>") || !strings.Contains(account.Text, "Grace@nano.example") {
			t.Errorf("%s", account.Text)
		}
		if got := v.Submit(page, path, business...); got.Status != 404 ||
			x.Count("SELECT COUNT(*) FROM companies WHERE name = 'Nanosecond Ltd' AND fee_bps = 100 AND status = 'active' "+
				"AND kyb_status = 'not_started'") != 1 {
			t.Errorf("a second time: %d", got.Status)
		}
		// API keys need a second factor from the start.
		if got := v.Submit(v.Get("/settings/api"), "/settings/api", "name", "Books", "scopes",
			"c_company_detail"); !strings.HasPrefix(got.Location(), "/account/proof") {
			t.Errorf("%d to %q", got.Status, got.Location())
		}
		// A link expires.
		ask("/sign-up", "late@nano.example")
		path = x.MailedLink("late@nano.example", mail.SignUp)
		clock.Advance(auth.SignUpLife)
		if got := v.Get(path); got.Status != 404 {
			t.Errorf("after a day: %d", got.Status)
		}
		if err := auth.Forget(t.Context(), d); err != nil || x.Count("SELECT COUNT(*) FROM email_tokens") != 0 {
			t.Errorf("expired links are kept: %v", err)
		}
		x.Site.Close()
		if log := x.Logs.String(); strings.Contains(log, "nano") || strings.Contains(log, "stp_link") ||
			strings.Contains(log, "inches") {
			t.Errorf("the log contains secrets:\n%s", log)
		}
	})
}

func TestPasswordReset(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		x := pagetest.NewFixture(t, d, "admin").Reopen()
		in1 := x.SignIn("admin")
		phone, _ := x.Enroll(in1, "/account")
		v := webtest.NewVisitor(t, x.URL)
		ask := func(address string) webtest.Visit {
			t.Helper()
			return v.Submit(v.Get("/password"), "/password", "email", address)
		}
		known, unknown := ask("admin@acme.example"), ask("nobody@acme.example")
		if known.Status != 303 || known.Location() != "/password/sent" || unknown.Status != known.Status ||
			unknown.Location() != known.Location() {
			t.Errorf("%d to %q, %d to %q", known.Status, known.Location(), unknown.Status, unknown.Location())
		}
		if n := x.Count("SELECT COUNT(*) FROM jobs WHERE kind = 'account.link'"); n != 2 {
			t.Errorf("%d jobs: known and unknown addresses differ", n)
		}
		if got := x.MailsTo("nobody@acme.example"); len(got) != 0 {
			t.Errorf("%+v", got)
		}
		path := x.MailedLink("admin@acme.example", mail.PasswordReset)
		page := v.Get(path)
		if got := v.Submit(page, path, "new_password", "password1234"); got.Status != 422 ||
			!strings.Contains(got.Text, "too common") {
			t.Errorf("a common one: %d\n%s", got.Status, got.Text)
		}
		clock.Advance(auth.ResetLife - time.Second)
		if got := v.Submit(page, path, "new_password", "another good phrase"); got.Status != 303 ||
			got.Location() != "/sign-in" {
			t.Fatalf("%d to %q\n%s", got.Status, got.Location(), got.Text)
		}
		if pagetest.SignedIn(in1) {
			t.Error("still signed in with the old password")
		}
		if got := v.Submit(page, path, "new_password", "yet another phrase"); got.Status != 404 {
			t.Errorf("a second time: %d", got.Status)
		}
		try := func(secret string) webtest.Visit {
			return v.Submit(v.Get("/sign-in"), "/sign-in", "email", "admin@acme.example", "password", secret)
		}
		if got := try(pagetest.Password); got.Status != 422 {
			t.Errorf("the old one: %d", got.Status)
		}
		code := v.Follow(try("another good phrase"))
		if pagetest.SignedIn(v) || v.Submit(code, "/sign-in/code", "code", phone.Code()).Status != 303 ||
			!pagetest.SignedIn(v) {
			t.Error("the second factor is not required, or not accepted")
		}
		if got := x.MailsTo("admin@acme.example"); !slices.ContainsFunc(
			got, func(m mail.StoredMail) bool { return strings.Contains(m.Subject, "Your password was changed") }) {
			t.Error("no mail about the change")
		}
		// A link expires after half an hour, and mails to an address are limited to five in 15 minutes.
		ask("admin@acme.example")
		path = x.MailedLink("admin@acme.example", mail.PasswordReset)
		clock.Advance(auth.ResetLife)
		if got := v.Get(path); got.Status != 404 {
			t.Errorf("half an hour later: %d", got.Status)
		}
		before := len(x.MailsTo("admin@acme.example"))
		for range session.MaxMailsTo + 3 {
			if got := ask("admin@acme.example"); got.Location() != "/password/sent" {
				t.Errorf("%d to %q", got.Status, got.Location())
			}
		}
		if n := len(x.MailsTo("admin@acme.example")) - before; n != session.MaxMailsTo {
			t.Errorf("%d mails", n)
		}
		for range session.MaxMails {
			ask("x" + "@acme.example")
		}
		if got := ask("y@acme.example"); got.Status != 429 {
			t.Errorf("requests of one client are not limited: %d", got.Status)
		}
	})
}

func TestPasswordChange(t *testing.T) {
	x := pagetest.NewFixture(t, pagetest.SQLite(t), "admin")
	v, other := x.SignIn("admin"), x.SignIn("admin")
	page := v.Get("/account/password")
	for pairs, want := range map[[2]string]string{
		{"wrong password", "another good phrase"}: "sign_in_failed",
		{pagetest.Password, "admin@acme.example"}: "new_password-problem",
	} {
		if got := v.Submit(page, "/account/password", "password", pairs[0], "new_password", pairs[1]); got.Status != 422 ||
			!strings.Contains(got.Text, "Incorrect email address or password") && !strings.Contains(got.Text, want) {
			t.Errorf("%s: %d\n%s", want, got.Status, got.Text)
		}
	}
	if got := v.Submit(page, "/account/password", "password", pagetest.Password, "new_password",
		"another good phrase"); got.Status != 303 || !pagetest.SignedIn(v) || pagetest.SignedIn(other) {
		t.Errorf("%d, signed in here: %v, elsewhere: %v", got.Status, pagetest.SignedIn(v), pagetest.SignedIn(other))
	}
	for range session.MaxAttempts {
		v.Submit(page, "/account/password", "password", "wrong password", "new_password", "yet another phrase")
	}
	if got := v.Submit(page, "/account/password", "password", "another good phrase", "new_password",
		"yet another phrase"); got.Status != 429 {
		t.Errorf("attempts by a signed-in user: %d", got.Status)
	}
}

// TestSandboxOutboxAccess checks that members see the mails of their company, and that mails without a company are
// visible on the sandbox's own machine only.
func TestSandboxOutboxAccess(t *testing.T) {
	x := pagetest.NewFixture(t, pagetest.SQLite(t), "admin", "viewer")
	x.Write(func(ctx context.Context, tx *db.Tx) error {
		for _, m := range []struct{ company, name string }{{x.Company.ID, "Ours"}, {x.Other.ID, "Theirs"}, {"", "Nobody's"}} {
			if err := mail.Enqueue(ctx, tx, mail.Message{
				CompanyID: m.company, To: "ada@pay.example", Template: mail.InvitationRequested, Key: m.name,
				Data: mail.InvitationRequestedData{Company: m.name, Email: "ada@pay.example"},
			}); err != nil {
				return err
			}
		}
		return nil
	})
	x.MailsTo("")
	admin, viewer := x.SignIn("admin"), x.SignIn("viewer")
	if got := webtest.NewVisitor(t, x.URL).Get("/sandbox/mails"); got.Status != 303 {
		t.Errorf("without sign-in: %d", got.Status)
	}
	if got := viewer.Get("/sandbox/mails"); got.Status != 403 {
		t.Errorf("a viewer: %d", got.Status)
	}
	if got := admin.Get("/sandbox/mails").Text; !strings.Contains(got, "Ours") || strings.Contains(got, "Theirs") ||
		strings.Contains(got, "Nobody") {
		t.Errorf("%s", got)
	}
	x.Reopen()
	if got := webtest.NewVisitor(t, x.URL).Get("/sandbox/mails").Text; strings.Contains(got, "Ours") ||
		strings.Contains(got, "Theirs") || !strings.Contains(got, "Nobody") {
		t.Errorf("%s", got)
	}
	// Not through a proxy, and not by DNS rebinding.
	for what, header := range map[string][2]string{
		"a proxy": {"X-Forwarded-For", "192.0.2.1"}, "a foreign name": {"Host", "mails.example"}} {
		if got := x.Do("GET", "/sandbox/mails", "", header[0], header[1]); got.Status != 303 {
			t.Errorf("by %s: %d", what, got.Status)
		}
	}
	pagetest.OpenSite(t, x.Site, ui.Deps{DB: x.DB, Env: identity.Production})
	if got := x.Do("GET", "/sandbox/mails", ""); got.Status != 404 {
		t.Errorf("in production: %d", got.Status)
	}
}

// TestSignUpInABrowser signs up without JavaScript.
func TestSignUpInABrowser(t *testing.T) {
	x := pagetest.NewFixture(t, pagetest.SQLite(t)).Reopen()
	b := webtest.Start(t)
	for _, path := range []string{"/sign-up", "/sign-up/sent", "/password"} {
		b.Open(x.URL+path, webtest.Look{Width: 320, Dark: true}).Audit()
	}
	p := b.Open(x.URL+"/sign-in", webtest.Look{NoScript: true})
	p.Send(`a[href="/sign-up"]`)
	p.Fill("#email", "grace@nano.example")
	p.Send("main button")
	x.MailedLink("grace@nano.example", mail.SignUp)
	p.Send(`main a[href="/sandbox/mails"]`)
	b.Open(x.URL+"/sandbox/mails", webtest.Look{Width: 320}).Audit()
	p.Send(`main a[href^="/sign-up/"]`)
	b.Open(x.URL+p.Path(), webtest.Look{Width: 320}).Audit()
	for i := 0; i < len(business); i += 2 {
		if business[i] != "country" {
			p.Fill("#"+business[i], business[i+1])
		}
	}
	p.Fill("#country", "United S")
	p.Send("main button")
	if p.Path() != "/overview" || !strings.Contains(p.Text(), "Nanosecond Ltd") {
		t.Errorf("at %s:\n%s", p.Path(), p.Text())
	}
	b.Open(x.URL+"/account/password", webtest.Look{Width: 320}).Audit()
}
