package web

import (
	"context"
	"log/slog"
	netmail "net/mail"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/web/ui"
	"github.com/stipend/stipend/internal/web/webtest"
)

// mailsTo runs the waiting jobs and returns the mails to an address, newest first.
func (x *fixture) mailsTo(address string) []mail.StoredMail {
	x.Helper()
	mailer := &mail.Mailer{From: &netmail.Address{Address: "stipend@pay.example"}, BaseURL: x.url, Sandbox: true,
		Sealer: x.server.Sealer}
	runner := job.NewRunner(x.d, job.Table{auth.JobLink: {Tx: auth.HandleLink(x.server.Sealer)},
		mail.JobSend: {Net: mailer.Send}}, nil, slog.New(slog.DiscardHandler))
	if err := runner.Drain(x.Context()); err != nil {
		x.Fatal(err)
	}
	var mine []mail.StoredMail
	for _, company := range []string{"", x.company.ID} {
		var all []mail.StoredMail
		if err := x.d.Read(x.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
			all, _, err = mail.List(ctx, tx, company, 0, 100)
			return err
		}); err != nil {
			x.Fatal(err)
		}
		for _, m := range all {
			if m.To == address {
				mine = append(mine, m)
			}
		}
	}
	return mine
}

// checkCompanyMails fails unless the address received a mail for each change to the company, or none if changes is
// empty.
func (x *fixture) checkCompanyMails(address string, changes ...string) {
	x.Helper()
	var texts []string
	for _, m := range x.mailsTo(address) {
		if m.Template == mail.CompanyChanged {
			texts = append(texts, m.Text)
		}
	}
	for _, want := range changes {
		if !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, want) }) {
			x.Errorf("%s got no mail with %q, but %q", address, want, texts)
		}
	}
	if len(changes) == 0 && len(texts) > 0 {
		x.Errorf("%s got mails: %q", address, texts)
	}
}

// mailedLink returns the path of the link in the newest mail to an address.
func (x *fixture) mailedLink(address, template string) string {
	x.Helper()
	got := slices.DeleteFunc(x.mailsTo(address), func(m mail.StoredMail) bool { return m.Template != template })
	if len(got) == 0 {
		x.Fatalf("no mail %s to %s", template, address)
	}
	link := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(x.url) + `(/\S+)$`).FindStringSubmatch(got[0].Text)
	if link == nil {
		x.Fatalf("no link in\n%s", got[0].Text)
	}
	return link[1]
}

// reopen serves the site at its own base URL on localhost.
func (x *fixture) reopen() *fixture {
	x.Helper()
	x.ownURL = true
	openSite(x.T, x.site, ui.Deps{DB: x.d, Env: identity.Sandbox, Contract: identity.NewCompany{FeeBps: 100}})
	return x
}

var business = []string{"first_name", "Grace", "last_name", "Hopper", "company_name", "Nanosecond Ltd", "country", "US",
	"new_password", "wire of eleven inches"}

func TestBusinessSignsUp(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		x := newFixture(t, d, "admin").reopen()
		v := webtest.NewVisitor(t, x.url)
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
		if n := x.count("SELECT COUNT(*) FROM mails") + x.count("SELECT COUNT(*) FROM email_tokens"); n != 0 {
			t.Errorf("the request does work for only one of them: %d rows", n)
		}
		if got := x.mailsTo("admin@acme.example"); len(got) != 1 || got[0].Template != mail.AccountExists ||
			!strings.Contains(got[0].HTML, `lang="fr"`) {
			t.Errorf("%+v", got)
		}
		first := x.mailedLink("Grace@nano.example", mail.SignUp)
		clock.Advance(time.Second)
		ask("/sign-up", "Grace@nano.example")
		path := x.mailedLink("Grace@nano.example", mail.SignUp)
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
		if got.Status != 303 || got.Location() != "/account" {
			t.Fatalf("%d to %q\n%s", got.Status, got.Location(), got.Text)
		}
		if account := v.Get("/account"); !strings.Contains(account.Text, "Nanosecond Ltd") ||
			!strings.Contains(account.Text, "<dd>Owner</dd>") || !strings.Contains(account.Text, "Grace@nano.example") {
			t.Errorf("%s", account.Text)
		}
		if got := v.Submit(page, path, business...); got.Status != 404 ||
			x.count("SELECT COUNT(*) FROM companies WHERE name = 'Nanosecond Ltd' AND fee_bps = 100 AND status = 'active' "+
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
		path = x.mailedLink("late@nano.example", mail.SignUp)
		clock.Advance(auth.SignUpLife)
		if got := v.Get(path); got.Status != 404 {
			t.Errorf("after a day: %d", got.Status)
		}
		if err := auth.Forget(t.Context(), d); err != nil || x.count("SELECT COUNT(*) FROM email_tokens") != 0 {
			t.Errorf("expired links are kept: %v", err)
		}
		x.site.close()
		if log := x.log.String(); strings.Contains(log, "nano") || strings.Contains(log, "stp_link") ||
			strings.Contains(log, "inches") {
			t.Errorf("the log contains secrets:\n%s", log)
		}
	})
}

func TestPasswordReset(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		x := newFixture(t, d, "admin").reopen()
		in1 := x.signIn("admin")
		phone, _ := x.enroll(in1, "/account")
		v := webtest.NewVisitor(t, x.url)
		ask := func(address string) webtest.Visit {
			t.Helper()
			return v.Submit(v.Get("/password"), "/password", "email", address)
		}
		known, unknown := ask("admin@acme.example"), ask("nobody@acme.example")
		if known.Status != 303 || known.Location() != "/password/sent" || unknown.Status != known.Status ||
			unknown.Location() != known.Location() {
			t.Errorf("%d to %q, %d to %q", known.Status, known.Location(), unknown.Status, unknown.Location())
		}
		if n := x.count("SELECT COUNT(*) FROM jobs WHERE kind = 'account.link'"); n != 2 {
			t.Errorf("%d jobs: known and unknown addresses differ", n)
		}
		if got := x.mailsTo("nobody@acme.example"); len(got) != 0 {
			t.Errorf("%+v", got)
		}
		path := x.mailedLink("admin@acme.example", mail.PasswordReset)
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
		if signedIn(in1) {
			t.Error("still signed in with the old password")
		}
		if got := v.Submit(page, path, "new_password", "yet another phrase"); got.Status != 404 {
			t.Errorf("a second time: %d", got.Status)
		}
		try := func(password string) webtest.Visit {
			return v.Submit(v.Get("/sign-in"), "/sign-in", "email", "admin@acme.example", "password", password)
		}
		if got := try(password); got.Status != 422 {
			t.Errorf("the old one: %d", got.Status)
		}
		code := v.Follow(try("another good phrase"))
		if signedIn(v) || v.Submit(code, "/sign-in/code", "code", phone.code()).Status != 303 || !signedIn(v) {
			t.Error("the second factor is not required, or not accepted")
		}
		if got := x.mailsTo("admin@acme.example"); !slices.ContainsFunc(
			got, func(m mail.StoredMail) bool { return strings.Contains(m.Subject, "Your password was changed") }) {
			t.Error("no mail about the change")
		}
		// A link expires after half an hour, and mails to an address are limited to five in 15 minutes.
		ask("admin@acme.example")
		path = x.mailedLink("admin@acme.example", mail.PasswordReset)
		clock.Advance(auth.ResetLife)
		if got := v.Get(path); got.Status != 404 {
			t.Errorf("half an hour later: %d", got.Status)
		}
		before := len(x.mailsTo("admin@acme.example"))
		for range session.MaxMailsTo + 3 {
			if got := ask("admin@acme.example"); got.Location() != "/password/sent" {
				t.Errorf("%d to %q", got.Status, got.Location())
			}
		}
		if n := len(x.mailsTo("admin@acme.example")) - before; n != session.MaxMailsTo {
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
	x := newFixture(t, sqlite(t), "admin")
	v, other := x.signIn("admin"), x.signIn("admin")
	page := v.Get("/account/password")
	for pairs, want := range map[[2]string]string{
		{"wrong password", "another good phrase"}: "sign_in_failed", {password, "admin@acme.example"}: "new_password-problem",
	} {
		if got := v.Submit(page, "/account/password", "password", pairs[0], "new_password", pairs[1]); got.Status != 422 ||
			!strings.Contains(got.Text, "Incorrect email address or password") && !strings.Contains(got.Text, want) {
			t.Errorf("%s: %d\n%s", want, got.Status, got.Text)
		}
	}
	if got := v.Submit(page, "/account/password", "password", password, "new_password",
		"another good phrase"); got.Status != 303 || !signedIn(v) || signedIn(other) {
		t.Errorf("%d, signed in here: %v, elsewhere: %v", got.Status, signedIn(v), signedIn(other))
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
	x := newFixture(t, sqlite(t), "admin", "viewer")
	x.write(func(ctx context.Context, tx *db.Tx) error {
		for _, m := range []struct{ company, name string }{{x.company.ID, "Ours"}, {x.other.ID, "Theirs"}, {"", "Nobody's"}} {
			if err := mail.Enqueue(ctx, tx, mail.Message{
				CompanyID: m.company, To: "ada@pay.example", Template: mail.InvitationRequested, Key: m.name,
				Data: mail.InvitationRequestedData{Company: m.name, Email: "ada@pay.example"},
			}); err != nil {
				return err
			}
		}
		return nil
	})
	x.mailsTo("")
	admin, viewer := x.signIn("admin"), x.signIn("viewer")
	if got := webtest.NewVisitor(t, x.url).Get("/sandbox/mails"); got.Status != 303 {
		t.Errorf("without sign-in: %d", got.Status)
	}
	if got := viewer.Get("/sandbox/mails"); got.Status != 403 {
		t.Errorf("a viewer: %d", got.Status)
	}
	if got := admin.Get("/sandbox/mails").Text; !strings.Contains(got, "Ours") || strings.Contains(got, "Theirs") ||
		strings.Contains(got, "Nobody") {
		t.Errorf("%s", got)
	}
	x.reopen()
	if got := webtest.NewVisitor(t, x.url).Get("/sandbox/mails").Text; strings.Contains(got, "Ours") ||
		strings.Contains(got, "Theirs") || !strings.Contains(got, "Nobody") {
		t.Errorf("%s", got)
	}
	// Not through a proxy, and not by DNS rebinding.
	for what, header := range map[string][2]string{
		"a proxy": {"X-Forwarded-For", "192.0.2.1"}, "a foreign name": {"Host", "mails.example"}} {
		if got := x.do("GET", "/sandbox/mails", "", header[0], header[1]); got.status != 303 {
			t.Errorf("by %s: %d", what, got.status)
		}
	}
	openSite(t, x.site, ui.Deps{DB: x.d, Env: identity.Production})
	if got := x.do("GET", "/sandbox/mails", ""); got.status != 404 {
		t.Errorf("in production: %d", got.status)
	}
}

// TestSignUpInABrowser signs up without JavaScript.
func TestSignUpInABrowser(t *testing.T) {
	x := newFixture(t, sqlite(t)).reopen()
	b := webtest.Start(t)
	for _, path := range []string{"/sign-up", "/sign-up/sent", "/password"} {
		b.Open(x.url+path, webtest.Look{Width: 320, Dark: true}).Audit()
	}
	p := b.Open(x.url+"/sign-in", webtest.Look{NoScript: true})
	p.Send(`a[href="/sign-up"]`)
	p.Fill("#email", "grace@nano.example")
	p.Send("main button")
	x.mailedLink("grace@nano.example", mail.SignUp)
	p.Send(`main a[href="/sandbox/mails"]`)
	b.Open(x.url+"/sandbox/mails", webtest.Look{Width: 320}).Audit()
	p.Send(`main a[href^="/sign-up/"]`)
	b.Open(x.url+p.Path(), webtest.Look{Width: 320}).Audit()
	for i := 0; i < len(business); i += 2 {
		if business[i] != "country" {
			p.Fill("#"+business[i], business[i+1])
		}
	}
	p.Fill("#country", "United S")
	p.Send("main button")
	if p.Path() != "/account" || !strings.Contains(p.Text(), "Nanosecond Ltd") {
		t.Errorf("at %s:\n%s", p.Path(), p.Text())
	}
	b.Open(x.url+"/account/password", webtest.Look{Width: 320}).Audit()
}
