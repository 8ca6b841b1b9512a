package auth_test

import (
	"context"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/web/pagetest"
	"github.com/stipend/stipend/internal/web/ui"
	"github.com/stipend/stipend/internal/web/webtest"
)

// TestPasskeyIsRequiredToAddAuthenticator checks that the password alone is not enough to add an authenticator next
// to a passkey.
func TestPasskeyIsRequiredToAddAuthenticator(t *testing.T) {
	x := pagetest.NewFixture(t, pagetest.SQLite(t), "admin").RequireFactor()
	v := x.SignIn("admin")
	page := v.Submit(v.Get("/account/factor"), "/account/factor/begin")
	page = v.Follow(page)
	phone := pagetest.NewAuthenticator(x, pagetest.Find(t, page, `<code>([A-Z2-7]{32})</code>`))
	x.Write(func(ctx context.Context, tx *db.Tx) error {
		return tx.Insert(ctx, "passkeys", []string{"user_id", "passkey_id", "credential_id", "name", "data", "created_at",
			"last_used_at"},
			[][]any{{x.Users["admin"].ID, "psk_1", "one", "Phone", "{}", int64(1), int64(0)}})
	})
	for what, got := range map[string]webtest.Visit{
		"begin":   v.Submit(v.Get("/account/factor"), "/account/factor/begin"),
		"confirm": v.Submit(page, "/account/factor/confirm", "code", phone.Code()),
	} {
		if got.Location() != "/account/proof?next=%2Faccount%2Ffactor%3Fresume%3D1" {
			t.Errorf("%s: %d to %q", what, got.Status, got.Location())
		}
	}
	if strings.Contains(v.Get("/account/factor").Text, phone.Key) {
		t.Error("the key of an authenticator is shown without the passkey")
	}
	if n := x.Count("SELECT COUNT(*) FROM second_factors WHERE confirmed_at <> 0"); n != 0 {
		t.Errorf("%d authenticators", n)
	}
}

// TestFirstFactorNeedsRecentPassword checks that an open browser is not enough to set up a second factor, which
// would lock the user out.
func TestFirstFactorNeedsRecentPassword(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		x := pagetest.NewFixture(t, d, "admin").RequireFactor()
		v := x.SignIn("admin")
		clock.Advance(session.FreshSignIn)
		const proof, key = "/account/proof?next=%2Faccount%2Ffactor%3Fresume%3D1", `<code>([A-Z2-7]{32})</code>`
		got := v.Submit(v.Get("/account/factor"), "/account/factor/begin")
		if got.Location() != proof || x.Count("SELECT COUNT(*) FROM second_factors") != 0 {
			t.Fatalf("%d to %q", got.Status, got.Location())
		}
		if got := v.Post("/account/passkeys/begin", url.Values{
			"form_token": {ui.FormToken(v.Cookie("stipend_session"))}}); !strings.HasPrefix(got.Location(), "/account/proof?") {
			t.Errorf("a passkey: %d to %q", got.Status, got.Location())
		}
		page := v.Follow(got)
		if got := v.Submit(page, "/account/proof", "password", "not the password"); got.Status != 422 {
			t.Errorf("a wrong password: %d", got.Status)
		}
		before := v.Cookie("stipend_session")
		if got := v.Submit(page, "/account/proof", "password",
			pagetest.Password); got.Location() != "/account/factor?resume=1" || v.Cookie("stipend_session") == before {
			t.Fatalf("%d to %q\n%s", got.Status, got.Location(), got.Text)
		}
		page = v.Follow(v.Submit(v.Get("/account/factor"), "/account/factor/begin"))
		phone := pagetest.NewAuthenticator(x, pagetest.Find(t, page, key))

		// The same applies to viewing or confirming an unfinished setup.
		clock.Advance(session.FreshSignIn)
		if strings.Contains(v.Get("/account/factor").Text, phone.Key) {
			t.Error("the key is shown without a recent password")
		}
		got = v.Submit(page, "/account/factor/confirm", "code", phone.Code())
		if got.Location() != proof || x.Count("SELECT COUNT(*) FROM second_factors WHERE confirmed_at <> 0") != 0 {
			t.Fatalf("%d to %q", got.Status, got.Location())
		}
		v.Submit(v.Follow(got), "/account/proof", "password", pagetest.Password)
		if got := v.Submit(v.Get("/account/factor"), "/account/factor/confirm", "code", phone.Code()); got.Status != 200 ||
			len(pagetest.RecoveryCode.FindAllString(got.Text, -1)) != 10 {
			t.Errorf("%d\n%s", got.Status, got.Text)
		}
	})
}

// TestKeysNeedASecondFactor checks that creating API keys leads to the setup of a second factor and back.
func TestKeysNeedASecondFactor(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		x := pagetest.NewFixture(t, d, "admin").RequireFactor()
		v := x.SignIn("admin")
		register := []string{"name", "Books", "scopes", "c_company_detail"}
		page := v.Get("/settings/api")
		got := v.Submit(page, "/settings/api", register...)
		if got.Status != 303 || got.Location() != "/account/proof?next=%2Fsettings%2Fapi%3Fresume%3D1" ||
			x.Count("SELECT COUNT(*) FROM apps") != 0 {
			t.Fatalf("%d to %q", got.Status, got.Location())
		}
		if page := v.Follow(got); !strings.Contains(page.Text, "Turn on two-step sign-in first") {
			t.Errorf("%s", page.Text)
		}
		phone, codes := x.Enroll(v, "/settings/api")
		made := v.Submit(v.Get("/settings/api"), "/settings/api", register...)
		path := pagetest.Find(t, made, `href="(/settings/api/app_\w+)"`)

		w, ask := x.EnterPassword("admin")
		if pagetest.SignedIn(w) || w.Get("/settings/api").Status != 303 {
			t.Fatal("signed in with the password alone")
		}
		before := w.Cookie("stipend_session")
		got = w.Submit(ask, "/sign-in/code", "code", phone.Code())
		if got.Status != 303 || got.Location() != "/settings/api" || !pagetest.SignedIn(w) ||
			w.Cookie("stipend_session") == before {
			t.Errorf("%d to %q\n%s", got.Status, got.Location(), got.Text)
		}
		pagetest.Find(t, w.Submit(w.Get(path), path+"/keys"), pagetest.TokenText)

		// After ten minutes, the factor must be proven again.
		clock.Advance(session.Fresh)
		if got := w.Submit(w.Get(path), path+"/keys"); !strings.HasPrefix(got.Location(), "/account/proof?") {
			t.Errorf("a key with an old proof: %d to %q", got.Status, got.Location())
		}
		if got := w.Submit(w.Get("/settings/webhooks"), "/settings/webhooks", "url",
			"https://hooks.example.com/"); !strings.HasPrefix(got.Location(), "/account/proof?") {
			t.Errorf("a webhook endpoint with an old proof: %d to %q", got.Status, got.Location())
		}
		if got := w.Submit(w.Get("/account/factor"),
			"/account/factor/remove"); got.Location() != "/account/proof?next=%2Faccount%2Ffactor%3Fresume%3D1" {
			t.Fatalf("%d to %q", got.Status, got.Location())
		}
		proof := w.Get("/account/proof?next=/account/factor")
		if got := w.Submit(proof, "/account/proof", "code", phone.Code()); got.Location() != "/account/factor" {
			t.Fatalf("%d\n%s", got.Status, got.Text)
		}
		renewed := pagetest.RecoveryCode.FindStringSubmatch(
			w.Submit(w.Get("/account/factor"), "/account/factor/recovery").Text)
		u, ask := x.EnterPassword("admin")
		if got := u.Submit(ask, "/sign-in/code", "code", codes[0]); got.Status != 422 {
			t.Errorf("a replaced recovery code works: %d", got.Status)
		}
		if got := u.Submit(ask, "/sign-in/code", "code", strings.ToUpper(renewed[1])); got.Status != 303 ||
			!pagetest.SignedIn(u) {
			t.Errorf("the new recovery code does not work: %d", got.Status)
		}
		w.Submit(w.Get("/account/factor"), "/account/factor/remove")
		x.SignIn("admin")
		if got := u.Submit(u.Get("/account/factor"), "/account/factor/begin"); got.Location() != "/account/factor" {
			t.Errorf("%d", got.Status)
		}
		if n := x.Count("SELECT COUNT(*) FROM mails WHERE template = 'account_changed'"); n != 4 {
			t.Errorf("%d mails, want one each for added, renewed, used, removed", n)
		}
		x.Site.Close()
		for _, text := range append(codes, phone.Key, renewed[1]) {
			if strings.Contains(x.Logs.String(), text) {
				t.Errorf("%s is in the log", text)
			}
			if n := x.Count("SELECT COUNT(*) FROM second_factors WHERE secret LIKE '%" + text + "%'"); n != 0 {
				t.Error("the secret is stored unencrypted")
			}
		}
	})
}

// TestOlderSessionsMustProveTheFactor checks that sessions from before the setup of the factor must prove it, too.
func TestOlderSessionsMustProveTheFactor(t *testing.T) {
	x := pagetest.NewFixture(t, pagetest.SQLite(t), "admin").RequireFactor()
	old, v := x.SignIn("admin"), x.SignIn("admin")
	phone, _ := x.Enroll(v, "/settings/webhooks")
	got := old.Submit(old.Get("/settings/webhooks"), "/settings/webhooks", "url", "https://hooks.example.com/")
	page := old.Follow(got)
	if !strings.Contains(page.Text, `action="/account/proof"`) || x.Count("SELECT COUNT(*) FROM webhook_endpoints") != 0 {
		t.Fatalf("%d to %q\n%s", got.Status, got.Location(), page.Text)
	}
	if got := old.Submit(page, "/account/proof", "code", phone.Code()); got.Location() != "/settings/webhooks?resume=1" {
		t.Errorf("%d to %q", got.Status, got.Location())
	}
	page = old.Get("/settings/webhooks?resume=1")
	if !page.Contains("Nothing has been saved yet") || !page.Contains(`value="https://hooks.example.com/"`) {
		t.Errorf("the form is not kept:\n%s", page.Text)
	}
	if n := x.Count("SELECT COUNT(*) FROM sessions WHERE kept_form LIKE '%hooks.example.com%'"); n != 0 {
		t.Error("the form is stored unencrypted")
	}
	if v.Get("/settings/webhooks?resume=1").Contains("hooks.example.com/") || old.Get("/settings/api?resume=1").Contains(
		"Nothing has been saved yet") {
		t.Error("the form is shown in another session or on another page")
	}
	if got := old.Submit(page, "/settings/webhooks"); got.Status != 200 {
		t.Errorf("%d", got.Status)
	}
}

// TestCodeAttemptsAreLimited checks that a code works once and near its time, and that none works for a while after
// five wrong ones.
func TestCodeAttemptsAreLimited(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		x := pagetest.NewFixture(t, d, "admin")
		phone, codes := x.Enroll(x.SignIn("admin"), "/account")
		try := func(code string) int {
			t.Helper()
			v, page := x.EnterPassword("admin")
			got := v.Submit(page, "/sign-in/code", "code", code)
			if (got.Status == 303) != pagetest.SignedIn(v) {
				t.Errorf("%d, but signed in: %v", got.Status, pagetest.SignedIn(v))
			}
			return got.Status
		}
		code := phone.Code()
		if got := try(code[:3] + " " + code[3:]); got != 303 {
			t.Fatalf("the right one: %d", got)
		}
		if got := try(code); got != 422 {
			t.Errorf("a second time: %d", got)
		}
		late := phone.Code()
		x.ClockOffset.Add(int64(61 * time.Second))
		if got := try(late); got != 422 {
			t.Errorf("a minute late: %d", got)
		}
		if got := try(codes[3]); got != 303 {
			t.Errorf("a recovery code: %d", got)
		}
		if got := try(codes[3]); got != 422 {
			t.Errorf("a recovery code again: %d", got)
		}
		for _, wrong := range []string{"", "12345"} {
			if got := try(wrong); got != 422 {
				t.Errorf("%q: %d", wrong, got)
			}
		}
		if got := try(phone.Code()); got != 429 {
			t.Errorf("the sixth try: %d", got)
		}
		if got := try(codes[4]); got != 429 {
			t.Errorf("a recovery code after too many: %d", got)
		}
		clock.Advance(session.Window)
		if got := try(phone.Code()); got != 303 {
			t.Errorf("a quarter of an hour later: %d", got)
		}
		// The step after the password expires after ten minutes, and its form belongs to one session.
		v, page := x.EnterPassword("admin")
		if got := v.Post("/sign-in/code", url.Values{"code": {phone.Code()}}); got.Status != 403 {
			t.Errorf("a form without a token: %d", got.Status)
		}
		clock.Advance(session.Wait)
		if got := v.Submit(page, "/sign-in/code", "code", phone.Code()); !strings.HasPrefix(got.Location(), "/sign-in?") ||
			pagetest.SignedIn(v) {
			t.Errorf("%d to %q", got.Status, got.Location())
		}
		if err := session.Forget(t.Context(), d); err != nil ||
			x.Count("SELECT COUNT(*) FROM sessions WHERE awaits_factor = TRUE") != 0 {
			t.Errorf("expired sessions are kept: %v", err)
		}
	})
}

// TestConsentToMoveMoneyNeedsASecondFactor checks the second factor for scopes that move money.
func TestConsentToMoveMoneyNeedsASecondFactor(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		x := pagetest.NewFixture(t, d, "owner").RequireFactor()
		app, _ := x.CreateApp(redirectURI, identity.CompanyDetail, identity.CompanyWorkersPay, identity.CompanyWorkersInvite,
			identity.UserUpdate)
		v := x.SignIn("owner")
		if got := v.Get(authorizePath(app, "scope", "c_company_detail")); got.Status != 200 {
			t.Errorf("read access: %d to %q", got.Status, got.Location())
		}
		// they change destinations and profiles
		for _, scope := range []string{identity.CompanyWorkersInvite, identity.UserUpdate} {
			if got := v.Get(authorizePath(app, "scope", scope)); !strings.HasPrefix(
				got.Location(), "/account/proof?next=%2Fauthorize") {
				t.Errorf("%s: %d to %q", scope, got.Status, got.Location())
			}
		}
		path := authorizePath(app)
		got := v.Get(path)
		if got.Status != 303 || !strings.HasPrefix(got.Location(), "/account/proof?next=%2Fauthorize") {
			t.Fatalf("%d to %q", got.Status, got.Location())
		}
		x.Enroll(v, "/account")
		page := v.Follow(v.Get(path))
		clock.Advance(session.Fresh)
		if got := v.Get(authorizePath(app, "scope", identity.UserUpdate)); got.Status != 200 {
			t.Errorf("with an old proof, to change a profile: %d to %q", got.Status, got.Location())
		}
		if got := v.Get(authorizePath(app, "scope", identity.CompanyWorkersInvite)); !strings.HasPrefix(
			got.Location(), "/account/proof?") {
			t.Errorf("with an old proof, to change destinations: %d to %q", got.Status, got.Location())
		}
		got = v.Submit(page, "/authorize", "decision", "allow")
		if got.Status != 303 || !strings.HasPrefix(got.Location(), "/account/proof?next=%2Fauthorize") ||
			x.Count("SELECT COUNT(*) FROM authorization_codes") != 0 {
			t.Errorf("an old proof: %d to %q", got.Status, got.Location())
		}
		if got := v.Submit(page, "/authorize", "decision", "deny"); x.AppRedirect(got).Get("error") != "access_denied" {
			t.Errorf("to deny: %q", got.Location())
		}
	})
}

func TestFactorPagesInABrowser(t *testing.T) {
	x := pagetest.NewFixture(t, pagetest.SQLite(t), "admin").RequireFactor()
	b := webtest.Start(t)
	p := b.Open(x.URL+"/settings/api", webtest.Look{NoScript: true})
	p.Fill("#email", "admin@acme.example")
	p.Fill("#password", pagetest.Password)
	p.Send("form:has(#password) button")
	b.Check(x.URL + "/account/factor")
	p = b.Open(x.URL+"/account/factor?next=/settings/api", webtest.Look{NoScript: true})
	p.Send("main button")
	phone := pagetest.NewAuthenticator(x, regexp.MustCompile(`[A-Z2-7]{32}`).FindString(p.Text()))
	b.Open(x.URL+"/account/factor", webtest.Look{Width: 320}).Audit()
	p.Fill("#code", phone.Code())
	p.Send("main button")
	if text := p.Text(); len(regexp.MustCompile(`(?m)^\w{4}(?:-\w{4}){5}$`).FindAllString(text, -1)) != 10 {
		t.Errorf("at %s:\n%s", p.Path(), text)
	}
	b.Check(x.URL + "/account/proof")
	p = b.Open(x.URL+"/account/factor", webtest.Look{Width: 320})
	p.Audit()
	p.Send(`form[action="/account/factor/recovery"] button`)
	p.Audit()
}

// TestMoneyNeedsAFreshFactor checks that creating or approving a payroll and changing the limit need a fresh second
// factor. A payroll's draft is not lost: the response is its page and no redirect.
func TestMoneyNeedsAFreshFactor(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		x := pagetest.NewFixture(t, d, "owner")
		pagetest.OpenSite(t, x.Site, ui.Deps{DB: d, Env: identity.Sandbox, Payroll: pagetest.PayrollService(t, d)})
		v := x.SignIn("owner")
		phone, _ := x.Enroll(v, "/overview")
		post := func(path string, pairs ...string) webtest.Visit {
			form := url.Values{"form_token": {ui.FormToken(v.Cookie("stipend_session"))}}
			for i := 0; i < len(pairs); i += 2 {
				form.Set(pairs[i], pairs[i+1])
			}
			return v.Post(path, form)
		}
		confirm := []string{"draft", `{"items":[]}`, "key", "k", "seen", "1.00"}
		if got := post("/payrolls", confirm...); got.Status != 422 {
			t.Errorf("freshly proven: %d to %q\n%s", got.Status, got.Location(), got.Text)
		}
		clock.Advance(session.Fresh)
		if got := post("/payrolls", confirm...); got.Status != 403 || got.Location() != "" {
			t.Errorf("%d to %q\n%s", got.Status, got.Location(), got.Text)
		}
		for path, page := range map[string]string{
			"/payrolls/prl_1/approve": "/payrolls/prl_1", "/payrolls/prl_1/decline": "/payrolls/prl_1",
			"/payrolls/prl_1/payments/spr_1/confirm": "/payrolls/prl_1",
			"/settings/approvals":                    "/settings/approvals", "/settings/approvals/remove": "/settings/approvals",
			"/settings/approvals/answer": "/settings/approvals",
		} {
			if got := post(path); got.Status != 303 || got.Location() != ui.ProofPath(page+"?resume=1") {
				t.Errorf("%s: %d to %q", path, got.Status, got.Location())
			}
		}
		v.Submit(v.Get(ui.ProofPath("/payrolls")), "/account/proof", "code", phone.Code())
		if got := post("/payrolls/prl_1/approve"); got.Status != 404 {
			t.Errorf("%d to %q", got.Status, got.Location())
		}
	})
}
