package auth_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/auth/sso"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/testkit/idp"
	"github.com/stipend/stipend/internal/web/pagetest"
	"github.com/stipend/stipend/internal/web/ui"
	"github.com/stipend/stipend/internal/web/webtest"
)

// ssoSite is a site whose company has set up an OpenID provider for the domain acme.example.
type ssoSite struct {
	*pagetest.Fixture
	op    *idp.Provider
	admin *webtest.Visitor // signed in by password
}

// newSSOSite sets up single sign-on on the company's page.
func newSSOSite(t *testing.T, d *db.DB, accounts ...idp.User) ssoSite {
	t.Helper()
	x := pagetest.NewFixture(t, d, "owner", "admin", "viewer").Reopen()
	x.Server.SeededCompanies = []string{x.Company.ID, x.Other.ID}
	op := idp.Start(t, []string{x.Server.SSORedirectURL(x.Company.ID)}, accounts...)
	s := ssoSite{x, op, x.SignIn("admin")}
	page := s.admin.Get("/settings/sso")
	if !strings.Contains(page.Text, x.Server.SSORedirectURL(x.Company.ID)) {
		t.Fatalf("no redirect URI on\n%s", page.Text)
	}
	got := s.admin.Submit(page, "/settings/sso", "issuer", op.Issuer, "client_id", idp.ClientID,
		"client_secret", idp.ClientSecret)
	s.to(got, "/settings/sso")
	got = s.admin.Submit(s.admin.Get("/settings/sso"), "/settings/sso/domains", "domain", "@ACME.example")
	s.to(got, "/settings/sso")
	return s
}

// verify proves the domain.
func (s ssoSite) verify() {
	s.Helper()
	got := s.admin.Submit(s.admin.Get("/settings/sso"), "/settings/sso/domains/acme.example/verify")
	s.to(got, "/settings/sso")
}

func (s ssoSite) to(got webtest.Visit, path string) {
	s.Helper()
	if got.Status != 303 || got.Location() != path {
		s.Fatalf("%d to %q, want %q\n%s", got.Status, got.Location(), path, got.PlainText())
	}
}

// begin enters an address, and returns the answer.
func (s ssoSite) begin(v *webtest.Visitor, email string) webtest.Visit {
	s.Helper()
	return v.Submit(v.Get("/sign-in/sso?next=/settings/members"), "/sign-in/sso", "email", email)
}

// signIn signs an account in at the provider, and returns the visitor and the answer of the last page.
func (s ssoSite) signIn(email, subject string) (*webtest.Visitor, webtest.Visit) {
	s.Helper()
	v := webtest.NewVisitor(s, s.URL)
	got := s.begin(v, email)
	if got.Status != 303 || !strings.HasPrefix(got.Location(), s.op.Issuer) {
		s.Fatalf("%d to %q\n%s", got.Status, got.Location(), got.PlainText())
	}
	return v, v.Get(s.op.SignIn(got.Location(), subject))
}

func (s ssoSite) refused(got webtest.Visit, code string) {
	s.Helper()
	if got.Status < 400 || !strings.Contains(got.Text, code) {
		s.Errorf("%d, want %q\n%s", got.Status, code, got.PlainText())
	}
}

func TestMembersSignInByTheirCompanysProvider(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		s := newSSOSite(t, d, idp.User{Subject: "1", Email: "admin@acme.example"},
			idp.User{Subject: "2", Email: "viewer@acme.example"}, idp.User{Subject: "3", Email: "eve@acme.example"},
			idp.User{Subject: "4", Email: "admin@zenith.example"}, idp.User{Subject: "5", Email: "admin@acme.example"},
			idp.User{Subject: "6", Email: "owner@acme.example", Unverified: true},
			idp.User{Subject: "7", Email: "new@acme.example", First: "Grace", Last: "Hopper"})
		v := webtest.NewVisitor(t, s.URL)
		const unknown = "No company has set up single sign-on"
		if got := s.begin(v, "admin@acme.example"); got.Status != 422 || !got.Contains(unknown) {
			t.Errorf("before the domain is verified: %d\n%s", got.Status, got.PlainText())
		}
		s.verify()
		if got := s.begin(v, "somebody@zenith.example"); got.Status != 422 || !got.Contains(unknown) {
			t.Errorf("in another domain: %d\n%s", got.Status, got.PlainText())
		}
		if got := s.begin(v, "nobody@acme.example"); got.Status != 303 { // whether the address has an account is not revealed
			t.Errorf("without an account: %d", got.Status)
		}

		admin, got := s.signIn("admin@acme.example", "1")
		s.to(got, "/settings/members")
		if page := admin.Follow(got); !page.Contains("admin@acme.example") {
			t.Errorf("signed in as\n%s", page.PlainText())
		}
		if got := admin.Get("/sign-in/sso/" + s.Company.ID + "/callback?code=x&state=y"); got.Status != 403 {
			t.Errorf("an attempt was used twice: %d", got.Status)
		}
		_, got = s.signIn("viewer@acme.example", "2")
		s.to(got, "/settings/members")

		// Who the provider knows is not enough.
		_, got = s.signIn("eve@acme.example", "3")
		s.refused(got, "You are not a member of this company")
		_, got = s.signIn("admin@acme.example", "4") // the account has an address of another domain
		s.refused(got, "Single sign-on failed")
		_, got = s.signIn("admin@acme.example", "5") // another account has the address now
		s.refused(got, "Another account at your provider")
		_, got = s.signIn("owner@acme.example", "6")
		s.refused(got, "hasn’t confirmed that your email address is verified")
		if n := s.Count("SELECT COUNT(*) FROM sso_identities"); n != 2 {
			t.Errorf("%d accounts at the provider are stored", n)
		}

		// A browser that did not begin the sign-in cannot end it.
		begun := s.begin(v, "admin@acme.example")
		back := s.op.SignIn(begun.Location(), "1")
		s.refused(webtest.NewVisitor(t, s.URL).Get(back), "Single sign-on failed")
		foreign := strings.Replace(back, s.Company.ID, s.Other.ID, 1)
		s.refused(v.Get(foreign), "Single sign-on failed")

		// An administrator forgets the old account.
		got = s.admin.Submit(s.admin.Get("/settings/sso"), "/settings/sso/members/"+s.Users["admin"].ID+"/unlink")
		s.to(got, "/settings/sso")
		_, got = s.signIn("admin@acme.example", "5")
		s.to(got, "/settings/members")

		// An invited person becomes a member without a password.
		got = s.admin.Submit(s.admin.Get("/settings/members"), "/settings/members", "email", "new@acme.example", "role",
			"developer")
		s.to(got, "/settings/members")
		_, got = s.signIn("new@acme.example", "7")
		s.to(got, "/settings/members")
		if n := s.Count(`SELECT COUNT(*) FROM members m JOIN users u ON u.user_id = m.user_id
			WHERE u.email = 'new@acme.example' AND u.first_name = 'Grace' AND m.role = 'developer'`); n != 1 {
			t.Error("the invited person is no member")
		}

		log := s.admin.Get("/settings/security")
		if n := s.Count(`SELECT COUNT(*) FROM security_events WHERE category = 'sign_in' AND company_id <> ''
			AND path LIKE '/sign-in/sso/%' AND outcome = ''`); n != 4 {
			t.Errorf("%d sign-ins are in the log", n)
		}
		for _, want := range []string{"/sign-in/sso/" + s.Company.ID + "/callback", "sso_other_account",
			"sso_no_member", "sso_email_unverified"} {
			if !strings.Contains(log.Text, want) {
				t.Errorf("the security log has no %s", want)
			}
		}
		s.CheckCompanyMails("office@acme.example", "Single sign-on for Acme was changed", "domain acme.example verified")
		if logs := s.Logs.String(); strings.Contains(logs, idp.ClientSecret) || strings.Contains(logs, "@acme.example") {
			t.Errorf("the log contains secrets or addresses:\n%s", logs)
		}
		if n := s.Count("SELECT COUNT(*) FROM sso_connections WHERE client_secret LIKE '%" + idp.ClientSecret +
			"%'"); n != 0 {
			t.Error("the client secret is stored in clear")
		}
	})
}

func TestACompanyRequiresSingleSignOn(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		s := newSSOSite(t, d, idp.User{Subject: "1", Email: "admin@acme.example"},
			idp.User{Subject: "7", Email: "new@acme.example", First: "Grace", Last: "Hopper"})
		s.verify()
		if page := s.admin.Get("/settings/sso"); strings.Contains(page.Text, `value="yes"`) {
			t.Error("who has not signed in by the provider can require it")
		}
		token := pagetest.Find(t, s.admin.Get("/settings/sso"), `name="form_token" value="(\w+)"`)
		got := s.admin.Post("/settings/sso/enforce", url.Values{"form_token": {token}, "enforced": {"yes"}})
		s.refused(got, "Sign in with single sign-on first")

		viewer := s.SignIn("viewer")
		admin, _ := s.signIn("admin@acme.example", "1")
		s.to(admin.Submit(admin.Get("/settings/sso"), "/settings/sso/enforce", "enforced", "yes"), "/settings/sso")
		if pagetest.SignedIn(viewer) || pagetest.SignedIn(s.admin) || !pagetest.SignedIn(admin) {
			t.Error("sessions by password remain, or the one by the provider ended")
		}
		byPassword := func(email string) webtest.Visit {
			v := webtest.NewVisitor(t, s.URL)
			return v.Submit(v.Get("/sign-in"), "/sign-in", "email", email, "password", pagetest.Password)
		}
		const required = "Your company requires single sign-on"
		if got := byPassword("viewer@acme.example"); got.Status < 400 || !got.Contains(required) {
			t.Errorf("by password: %d\n%s", got.Status, got.PlainText())
		}
		v := webtest.NewVisitor(t, s.URL)
		if got := v.Submit(v.Get("/sign-in"), "/sign-in", "email", "viewer@acme.example", "password",
			"a wrong password"); got.Contains(required) {
			t.Error("a wrong password reveals that the address has an account")
		}
		if got := admin.Submit(admin.Get("/account/email"), "/account/email", "new_email", "admin@elsewhere.example"); !got.
			Contains("Ask an administrator to change it") {
			t.Errorf("a new address: %d\n%s", got.Status, got.PlainText())
		}

		// An invited newcomer gets no password.
		s.to(admin.Submit(admin.Get("/settings/members"), "/settings/members", "email", "new@acme.example", "role",
			"viewer"), "/settings/members")
		link := s.MailedLink("new@acme.example", "member_invited")
		page := v.Get(link)
		if strings.Contains(page.Text, "password") || !strings.Contains(page.Text, `href="/sign-in/sso?next=`) {
			t.Errorf("the invitation\n%s", page.Text)
		}
		got = v.Post(link, url.Values{"first_name": {"G"}, "last_name": {"H"}, "new_password": {"an unrelated long phrase"}})
		s.refused(got, required)
		if n := s.Count("SELECT COUNT(*) FROM users WHERE email = 'new@acme.example'"); n != 0 {
			t.Error("a refused newcomer has an account")
		}
		_, got = s.signIn("new@acme.example", "7")
		s.to(got, "/settings/members")

		// The operator helps a company whose provider is gone.
		s.Write(func(ctx context.Context, tx *db.Tx) error { return sso.Unrequire(ctx, tx, s.Company.ID) })
		if got := byPassword("viewer@acme.example"); got.Status != 303 {
			t.Errorf("after the operator ended it: %d\n%s", got.Status, got.PlainText())
		}
		// Without the provider, its sessions end.
		s.to(admin.Submit(admin.Get("/settings/sso"), "/settings/sso/remove"), "/settings/sso")
		if pagetest.SignedIn(admin) {
			t.Error("a session of the removed provider remains")
		}
		if got := byPassword("admin@acme.example"); got.Status != 303 {
			t.Errorf("after the removal: %d", got.Status)
		}
	})
}

// The provider replaces the password only: the second factor remains.
func TestTheSecondFactorFollowsSingleSignOn(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		s := newSSOSite(t, d, idp.User{Subject: "1", Email: "admin@acme.example"})
		s.verify()
		app, _ := s.Enroll(s.admin, "/account")
		v, got := s.signIn("admin@acme.example", "1")
		if got.Location() != "/sign-in/code?next=%2Fsettings%2Fmembers" || pagetest.SignedIn(v) {
			t.Fatalf("%d to %q", got.Status, got.Location())
		}
		s.to(v.Submit(v.Follow(got), "/sign-in/code", "code", app.Code()), "/settings/members")
		s.to(v.Submit(v.Get("/settings/sso"), "/settings/sso/enforce", "enforced", "yes"), "/settings/sso")
		if !pagetest.SignedIn(v) {
			t.Error("the session does not count as one by the provider after the code")
		}
	})
}

// TestSSOInABrowser signs a member in by a provider at another origin: the content security policy lets the form lead
// there and back, and nothing else is loaded from the provider.
func TestSSOInABrowser(t *testing.T) {
	t.Parallel()
	testkit.NotQuick(t, "Chromium")
	s := newSSOSite(t, pagetest.SQLite(t), idp.User{Subject: "1", Email: "admin@acme.example"})
	s.verify()
	for _, look := range []webtest.Look{{}, {Width: 320, NoScript: true}} {
		p := webtest.Start(t).Open(s.URL+"/sign-in/sso?next=/settings/members", look)
		if !look.NoScript {
			p.Audit()
		}
		p.Fill("#email", "admin@acme.example")
		p.Send("main button")
		if at := webtest.Evaluate[string](p, "location.origin"); at != s.op.Issuer {
			t.Fatalf("%s: at %s, want the provider %s:\n%s", look, at, s.op.Issuer, p.Text())
		}
		p.Fill("#username", "1")
		p.Fill("#password", idp.Password)
		p.Send("button")
		if at := p.Path(); at != "/settings/members" || !strings.Contains(p.Text(), "admin@acme.example") {
			t.Fatalf("%s: at %s:\n%s", look, at, p.Text())
		}
		p.Quiet(strings.TrimPrefix(s.op.Issuer, "http://"))
	}
}

// TestSSOSettingsAreRefused checks the forms of the settings.
func TestSSOSettingsAreRefused(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		s := newSSOSite(t, d)
		s.verify()
		page := s.admin.Get("/settings/sso")
		for name, c := range map[string]struct {
			pairs []string
			want  string
		}{
			"no provider there": {[]string{"issuer", "http://127.0.0.1:1"}, "could not be read"},
			"with parameters":   {[]string{"issuer", s.op.Issuer + "/?a=b"}, "without parameters"},
			"no client":         {[]string{"client_id", ""}, "required"},
		} {
			if got := s.admin.Submit(page, "/settings/sso", c.pairs...); got.Status != 422 || !got.Contains(c.want) {
				t.Errorf("%s: %d\n%s", name, got.Status, got.PlainText())
			}
		}
		for _, domain := range []string{"", "acme", "a b.example", "https://acme.example", "-a.example", "1.2.3.4"} {
			if got := s.admin.Submit(page, "/settings/sso/domains", "domain", domain); got.Status != 422 {
				t.Errorf("%q: %d", domain, got.Status)
			}
		}
		s.to(s.admin.Submit(page, "/settings/sso/domains", "domain", "acme-mail.com"), "/settings/sso")
		got := s.admin.Submit(s.admin.Get("/settings/sso"), "/settings/sso/domains/acme-mail.com/verify")
		s.refused(got, "The DNS record was not found")
		if got := s.SignIn("viewer").Get("/settings/sso"); got.Status != 403 {
			t.Errorf("a viewer sees the settings: %d", got.Status)
		}
		// Another company cannot take the domain.
		s.Write(func(ctx context.Context, tx *db.Tx) error {
			return s.AddMember(ctx, tx, s.Other, "owner", identity.RoleOwner)
		})
		by := auth.Actor{CompanyID: s.Other.ID, UserID: s.Users["owner"].ID}
		err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			if err := s.Server.SSO.AddDomain(ctx, tx, by, "acme.example"); err != nil {
				return err
			}
			return s.Server.SSO.VerifyDomain(ctx, tx, by, "acme.example")
		})
		if err == nil || !strings.Contains(err.Error(), "Another company") {
			t.Errorf("another company verifies the domain: %v", err)
		}
		// The secret remains if the field is empty.
		s.to(s.admin.Submit(s.admin.Get("/settings/sso"), "/settings/sso", "client_id", idp.ClientID), "/settings/sso")
	})
}

// TestStaffSignInByTheOperatorsProvider signs staff in by the provider and the code of their authenticator.
func TestStaffSignInByTheOperatorsProvider(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		op := idp.Start(t, nil, idp.User{Subject: "1", Email: "grace@staff.example"},
			idp.User{Subject: "2", Email: "eve@staff.example"}, idp.User{Subject: "3", Email: "grace@acme.example"},
			idp.User{Subject: "4", Email: "grace@staff.example"})
		x := pagetest.NewFixture(t, d, "owner")
		x.OwnURL = true
		staff, err := sso.NewStaff(sso.Staff{Client: &sso.Client{HTTP: &http.Client{}, Now: time.Now},
			Provider: sso.Provider{Issuer: op.Issuer, ClientID: idp.ClientID, ClientSecret: idp.ClientSecret},
			Domains:  []string{"staff.example"}, Only: true})
		if err != nil {
			t.Fatal(err)
		}
		pagetest.OpenSite(t, x.Site, ui.Deps{DB: d, Env: identity.Sandbox, StaffSSO: staff})
		op.Register(x.Server.StaffSSORedirectURL())
		var made backoffice.Credentials
		x.Write(func(ctx context.Context, tx *db.Tx) (err error) {
			_, made, err = backoffice.Add(ctx, tx, x.Server.Sealer, "Grace", "grace@staff.example", backoffice.Finance)
			return err
		})
		app := pagetest.NewAuthenticator(x, made.Secret)
		signIn := func(subject string) (*webtest.Visitor, webtest.Visit) {
			v := webtest.NewVisitor(t, x.URL)
			page := v.Get("/operations/sign-in")
			if strings.Contains(page.Text, "<form") || !strings.Contains(page.Text, `href="/operations/sign-in/sso"`) {
				t.Fatalf("the sign-in page\n%s", page.Text)
			}
			return v, v.Get(op.SignIn(v.Get("/operations/sign-in/sso").Location(), subject))
		}
		for _, subject := range []string{"2", "3"} { // no member of staff, and another domain
			if _, got := signIn(subject); got.Status != 403 {
				t.Errorf("account %s: %d to %q", subject, got.Status, got.Location())
			}
		}
		v, got := signIn("1")
		if got.Location() != "/operations/sign-in/sso/code" {
			t.Fatalf("%d to %q\n%s", got.Status, got.Location(), got.PlainText())
		}
		page := v.Follow(got)
		if got := v.Get("/operations"); got.Location() != "/operations/sign-in" {
			t.Errorf("without the code: %d to %q", got.Status, got.Location())
		}
		if got := v.Submit(page, "/operations/sign-in/sso/code", "code", "000000"); got.Status != 422 {
			t.Errorf("a wrong code: %d", got.Status)
		}
		code := app.Code()
		if got := webtest.NewVisitor(t, x.URL).Post("/operations/sign-in/sso/code", url.Values{"code": {code}}); got.
			Status != 403 {
			t.Errorf("a code without the provider: %d", got.Status)
		}
		if got := v.Submit(page, "/operations/sign-in/sso/code", "code", code); got.Location() != "/operations" {
			t.Fatalf("%d to %q\n%s", got.Status, got.Location(), got.PlainText())
		}
		if got := v.Get("/operations/companies"); got.Status != 200 {
			t.Errorf("signed in: %d", got.Status)
		}
		if n := x.Count(`SELECT COUNT(*) FROM staff_actions WHERE action = 'sign_in' AND reason = 'single sign-on'`); n != 1 {
			t.Errorf("%d sign-ins in the audit log", n)
		}
		if _, got := signIn("4"); got.Status != 403 {
			t.Errorf("another account with the address: %d", got.Status)
		}
		if got := v.Post("/operations/sign-in", url.Values{"email": {"grace@staff.example"}, "password": {made.Password},
			"code": {app.Code()}}); got.Status != 403 {
			t.Errorf("by password: %d", got.Status)
		}
		if _, err := sso.NewStaff(sso.Staff{Client: staff.Client, Provider: staff.Provider}); err == nil {
			t.Error("a provider for staff of every domain is accepted")
		}
	})
}

// TestSSOPagesInABrowser audits the pages of single sign-on.
func TestSSOPagesInABrowser(t *testing.T) {
	s := newSSOSite(t, pagetest.SQLite(t), idp.User{Subject: "1", Email: "admin@acme.example"})
	b := webtest.Start(t)
	p := b.Open(s.URL+"/sign-in", webtest.Look{Width: 320})
	p.Fill("#email", "admin@acme.example")
	p.Fill("#password", pagetest.Password)
	p.Send("form:has(#password) button")
	for _, verified := range []bool{false, true} {
		if verified {
			s.verify()
		}
		for _, path := range []string{"/settings/sso", "/sign-in/sso"} {
			for _, look := range []webtest.Look{{Width: 320}, {Dark: true}} {
				p := b.Open(s.URL+path, look)
				if p.Path() != path {
					t.Errorf("at %s instead of %s", p.Path(), path)
				}
				p.Audit()
				p.Close()
			}
		}
	}
}
