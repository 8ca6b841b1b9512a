package web

import (
	"context"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/web/ui"
	"github.com/stipend/stipend/internal/web/webtest"
)

// authenticator is a user's authenticator app.
type authenticator struct {
	x   *fixture
	key string
}

// code advances the clock by 30 seconds and returns the new code.
func (a authenticator) code() string {
	a.x.Helper()
	a.x.clockOffset.Add(int64(30 * time.Second))
	return a.shown()
}

func (a authenticator) shown() string {
	a.x.Helper()
	code, err := totp.GenerateCode(a.key, a.x.now())
	if err != nil {
		a.x.Fatal(err)
	}
	return code
}

var recoveryCode = regexp.MustCompile(`<code>(\w{4}-\w{4}-\w{4}-\w{4})</code>`)

// enroll sets up an authenticator, and returns it with the recovery codes.
func (x *fixture) enroll(v *webtest.Visitor, next string) (authenticator, []string) {
	x.Helper()
	page := v.Get("/account/factor?" + url.Values{"next": {next}}.Encode())
	page = v.Follow(v.Submit(page, "/account/factor/begin"))
	a := authenticator{x, find(x.T, page, `<code>([A-Z2-7]{32})</code>`)}
	if again := v.Get("/account/factor"); find(x.T, again, `<code>([A-Z2-7]{32})</code>`) != a.key ||
		!strings.Contains(page.Text, `src="data:image/png;base64,`) {
		x.Errorf("the key changes, or has no QR code:\n%s", page.Text)
	}
	if got := v.Submit(page, "/account/factor/confirm", "code", "000000"); got.Status != 422 ||
		!strings.Contains(got.Text, "code-problem") || !strings.Contains(got.Text, a.key) {
		x.Errorf("a wrong first code: %d\n%s", got.Status, got.Text)
	}
	done := v.Submit(page, "/account/factor/confirm", "code", a.code())
	var codes []string
	for _, m := range recoveryCode.FindAllStringSubmatch(done.Text, -1) {
		codes = append(codes, m[1])
	}
	if done.Status != 200 || len(codes) != 10 || !strings.Contains(done.Text, `href="`+next+`"`) {
		x.Fatalf("%d, %d codes, no link to %s:\n%s", done.Status, len(codes), next, done.Text)
	}
	return a, codes
}

// enterPassword is the first step of a sign-in with two steps.
func (x *fixture) enterPassword(role string) (*webtest.Visitor, webtest.Visit) {
	x.Helper()
	v := webtest.NewVisitor(x, x.url)
	got := v.Submit(v.Get("/sign-in?next=/settings/api"), "/sign-in", "email", role+"@acme.example", "password", password)
	if got.Status != 303 || got.Location() != "/sign-in/code?next=%2Fsettings%2Fapi" {
		x.Fatalf("%d to %q", got.Status, got.Location())
	}
	return v, v.Follow(got)
}

// TestPasskeyIsRequiredToAddAuthenticator checks that the password alone is not enough to add an authenticator next
// to a passkey.
func TestPasskeyIsRequiredToAddAuthenticator(t *testing.T) {
	x := newFixture(t, sqlite(t), "admin").requireFactor()
	v := x.signIn("admin")
	page := v.Submit(v.Get("/account/factor"), "/account/factor/begin")
	page = v.Follow(page)
	phone := authenticator{x, find(t, page, `<code>([A-Z2-7]{32})</code>`)}
	x.write(func(ctx context.Context, tx *db.Tx) error {
		return tx.Insert(ctx, "passkeys", []string{"user_id", "passkey_id", "credential_id", "name", "data", "created_at",
			"last_used_at"},
			[][]any{{x.users["admin"].ID, "psk_1", "one", "Phone", "{}", int64(1), int64(0)}})
	})
	for what, got := range map[string]webtest.Visit{
		"begin":   v.Submit(v.Get("/account/factor"), "/account/factor/begin"),
		"confirm": v.Submit(page, "/account/factor/confirm", "code", phone.code()),
	} {
		if got.Location() != "/account/proof?next=%2Faccount%2Ffactor" {
			t.Errorf("%s: %d to %q", what, got.Status, got.Location())
		}
	}
	if strings.Contains(v.Get("/account/factor").Text, phone.key) {
		t.Error("the key of an authenticator is shown without the passkey")
	}
	if n := x.count("SELECT COUNT(*) FROM second_factors WHERE confirmed_at <> 0"); n != 0 {
		t.Errorf("%d authenticators", n)
	}
}

// TestFirstFactorNeedsRecentPassword checks that an open browser is not enough to set up a second factor, which
// would lock the user out.
func TestFirstFactorNeedsRecentPassword(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		x := newFixture(t, d, "admin").requireFactor()
		v := x.signIn("admin")
		clock.Advance(session.FreshSignIn)
		const proof, key = "/account/proof?next=%2Faccount%2Ffactor", `<code>([A-Z2-7]{32})</code>`
		got := v.Submit(v.Get("/account/factor"), "/account/factor/begin")
		if got.Location() != proof || x.count("SELECT COUNT(*) FROM second_factors") != 0 {
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
		if got := v.Submit(page, "/account/proof", "password", password); got.Location() != "/account/factor" ||
			v.Cookie("stipend_session") == before {
			t.Fatalf("%d to %q\n%s", got.Status, got.Location(), got.Text)
		}
		page = v.Follow(v.Submit(v.Get("/account/factor"), "/account/factor/begin"))
		phone := authenticator{x, find(t, page, key)}

		// The same applies to viewing or confirming an unfinished setup.
		clock.Advance(session.FreshSignIn)
		if strings.Contains(v.Get("/account/factor").Text, phone.key) {
			t.Error("the key is shown without a recent password")
		}
		got = v.Submit(page, "/account/factor/confirm", "code", phone.code())
		if got.Location() != proof || x.count("SELECT COUNT(*) FROM second_factors WHERE confirmed_at <> 0") != 0 {
			t.Fatalf("%d to %q", got.Status, got.Location())
		}
		v.Submit(v.Follow(got), "/account/proof", "password", password)
		if got := v.Submit(v.Get("/account/factor"), "/account/factor/confirm", "code", phone.code()); got.Status != 200 ||
			len(recoveryCode.FindAllString(got.Text, -1)) != 10 {
			t.Errorf("%d\n%s", got.Status, got.Text)
		}
	})
}

// TestKeysNeedASecondFactor checks that creating API keys leads to the setup of a second factor and back.
func TestKeysNeedASecondFactor(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		x := newFixture(t, d, "admin").requireFactor()
		v := x.signIn("admin")
		register := []string{"name", "Books", "scopes", "c_company_detail"}
		page := v.Get("/settings/api")
		got := v.Submit(page, "/settings/api", register...)
		if got.Status != 303 || got.Location() != "/account/proof?next=%2Fsettings%2Fapi" ||
			x.count("SELECT COUNT(*) FROM apps") != 0 {
			t.Fatalf("%d to %q", got.Status, got.Location())
		}
		if page := v.Follow(got); !strings.Contains(page.Text, "Turn on two-step sign-in first") {
			t.Errorf("%s", page.Text)
		}
		phone, codes := x.enroll(v, "/settings/api")
		made := v.Submit(v.Get("/settings/api"), "/settings/api", register...)
		path := find(t, made, `href="(/settings/api/app_\w+)"`)

		w, ask := x.enterPassword("admin")
		if signedIn(w) || w.Get("/settings/api").Status != 303 {
			t.Fatal("signed in with the password alone")
		}
		before := w.Cookie("stipend_session")
		got = w.Submit(ask, "/sign-in/code", "code", phone.code())
		if got.Status != 303 || got.Location() != "/settings/api" || !signedIn(w) || w.Cookie("stipend_session") == before {
			t.Errorf("%d to %q\n%s", got.Status, got.Location(), got.Text)
		}
		find(t, w.Submit(w.Get(path), path+"/keys"), tokenText)

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
			"/account/factor/remove"); got.Location() != "/account/proof?next=%2Faccount%2Ffactor" {
			t.Fatalf("%d to %q", got.Status, got.Location())
		}
		proof := w.Get("/account/proof?next=/account/factor")
		if got := w.Submit(proof, "/account/proof", "code", phone.code()); got.Location() != "/account/factor" {
			t.Fatalf("%d\n%s", got.Status, got.Text)
		}
		renewed := recoveryCode.FindStringSubmatch(w.Submit(w.Get("/account/factor"), "/account/factor/recovery").Text)
		u, ask := x.enterPassword("admin")
		if got := u.Submit(ask, "/sign-in/code", "code", codes[0]); got.Status != 422 {
			t.Errorf("a replaced recovery code works: %d", got.Status)
		}
		if got := u.Submit(ask, "/sign-in/code", "code", strings.ToUpper(renewed[1])); got.Status != 303 || !signedIn(u) {
			t.Errorf("the new recovery code does not work: %d", got.Status)
		}
		w.Submit(w.Get("/account/factor"), "/account/factor/remove")
		x.signIn("admin")
		if got := u.Submit(u.Get("/account/factor"), "/account/factor/begin"); got.Location() != "/account/factor" {
			t.Errorf("%d", got.Status)
		}
		if n := x.count("SELECT COUNT(*) FROM mails WHERE template = 'account_changed'"); n != 4 {
			t.Errorf("%d mails, want one each for added, renewed, used, removed", n)
		}
		x.site.close()
		for _, text := range append(codes, phone.key, renewed[1]) {
			if strings.Contains(x.log.String(), text) {
				t.Errorf("%s is in the log", text)
			}
			if n := x.count("SELECT COUNT(*) FROM second_factors WHERE secret LIKE '%" + text + "%'"); n != 0 {
				t.Error("the secret is stored unencrypted")
			}
		}
	})
}

// TestOlderSessionsMustProveTheFactor checks that sessions from before the setup of the factor must prove it, too.
func TestOlderSessionsMustProveTheFactor(t *testing.T) {
	x := newFixture(t, sqlite(t), "admin").requireFactor()
	old, v := x.signIn("admin"), x.signIn("admin")
	phone, _ := x.enroll(v, "/settings/webhooks")
	got := old.Submit(old.Get("/settings/webhooks"), "/settings/webhooks", "url", "https://hooks.example.com/")
	page := old.Follow(got)
	if !strings.Contains(page.Text, `action="/account/proof"`) || x.count("SELECT COUNT(*) FROM webhook_endpoints") != 0 {
		t.Fatalf("%d to %q\n%s", got.Status, got.Location(), page.Text)
	}
	if got := old.Submit(page, "/account/proof", "code", phone.code()); got.Location() != "/settings/webhooks" {
		t.Errorf("%d to %q", got.Status, got.Location())
	}
	if got := old.Submit(old.Get("/settings/webhooks"), "/settings/webhooks", "url",
		"https://hooks.example.com/"); got.Status != 200 {
		t.Errorf("%d", got.Status)
	}
}

// TestCodeAttemptsAreLimited checks that a code works once and near its time, and that none works for a while after
// five wrong ones.
func TestCodeAttemptsAreLimited(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		x := newFixture(t, d, "admin")
		phone, codes := x.enroll(x.signIn("admin"), "/account")
		try := func(code string) int {
			t.Helper()
			v, page := x.enterPassword("admin")
			got := v.Submit(page, "/sign-in/code", "code", code)
			if (got.Status == 303) != signedIn(v) {
				t.Errorf("%d, but signed in: %v", got.Status, signedIn(v))
			}
			return got.Status
		}
		code := phone.code()
		if got := try(code[:3] + " " + code[3:]); got != 303 {
			t.Fatalf("the right one: %d", got)
		}
		if got := try(code); got != 422 {
			t.Errorf("a second time: %d", got)
		}
		late := phone.code()
		x.clockOffset.Add(int64(61 * time.Second))
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
		if got := try(phone.code()); got != 429 {
			t.Errorf("the sixth try: %d", got)
		}
		if got := try(codes[4]); got != 429 {
			t.Errorf("a recovery code after too many: %d", got)
		}
		clock.Advance(session.Window)
		if got := try(phone.code()); got != 303 {
			t.Errorf("a quarter of an hour later: %d", got)
		}
		// The step after the password expires after ten minutes, and its form belongs to one session.
		v, page := x.enterPassword("admin")
		if got := v.Post("/sign-in/code", url.Values{"code": {phone.code()}}); got.Status != 403 {
			t.Errorf("a form without a token: %d", got.Status)
		}
		clock.Advance(session.Wait)
		if got := v.Submit(page, "/sign-in/code", "code", phone.code()); !strings.HasPrefix(got.Location(), "/sign-in?") ||
			signedIn(v) {
			t.Errorf("%d to %q", got.Status, got.Location())
		}
		if err := session.Forget(t.Context(), d); err != nil ||
			x.count("SELECT COUNT(*) FROM sessions WHERE awaits_factor = TRUE") != 0 {
			t.Errorf("expired sessions are kept: %v", err)
		}
	})
}

// TestConsentToMoveMoneyNeedsASecondFactor checks the second factor for scopes that move money.
func TestConsentToMoveMoneyNeedsASecondFactor(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		x := newFixture(t, d, "owner").requireFactor()
		app, _ := x.createApp(redirectURI, identity.CompanyDetail, identity.CompanyWorkersPay, identity.CompanyWorkersInvite,
			identity.UserUpdate)
		v := x.signIn("owner")
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
		x.enroll(v, "/account")
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
			x.count("SELECT COUNT(*) FROM authorization_codes") != 0 {
			t.Errorf("an old proof: %d to %q", got.Status, got.Location())
		}
		if got := v.Submit(page, "/authorize", "decision", "deny"); x.appRedirect(got).Get("error") != "access_denied" {
			t.Errorf("to deny: %q", got.Location())
		}
	})
}

func TestFactorPagesInABrowser(t *testing.T) {
	x := newFixture(t, sqlite(t), "admin").requireFactor()
	b := webtest.Start(t)
	p := b.Open(x.url+"/settings/api", webtest.Look{NoScript: true})
	p.Fill("#email", "admin@acme.example")
	p.Fill("#password", password)
	p.Send("main button")
	b.Check(x.url + "/account/factor")
	p = b.Open(x.url+"/account/factor?next=/settings/api", webtest.Look{NoScript: true})
	p.Send("main button")
	phone := authenticator{x, regexp.MustCompile(`[A-Z2-7]{32}`).FindString(p.Text())}
	b.Open(x.url+"/account/factor", webtest.Look{Width: 320}).Audit()
	p.Fill("#code", phone.code())
	p.Send("main button")
	if text := p.Text(); len(regexp.MustCompile(`(?m)^\w{4}-\w{4}-\w{4}-\w{4}$`).FindAllString(text, -1)) != 10 {
		t.Errorf("at %s:\n%s", p.Path(), text)
	}
	b.Check(x.url + "/account/proof")
	p = b.Open(x.url+"/account/factor", webtest.Look{Width: 320})
	p.Audit()
	p.Send(`form[action="/account/factor/recovery"] button`)
	p.Audit()
}

// TestMoneyNeedsAFreshFactor checks that creating or approving a payroll and changing the limit need a fresh second
// factor. A payroll's draft is not lost: the response is its page and no redirect.
func TestMoneyNeedsAFreshFactor(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		x := newFixture(t, d, "owner")
		openSite(t, x.site, ui.Deps{DB: d, Env: identity.Sandbox, Payroll: payrollService(t, d)})
		v := x.signIn("owner")
		phone, _ := x.enroll(v, "/overview")
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
			if got := post(path); got.Status != 303 || got.Location() != ui.ProofPath(page) {
				t.Errorf("%s: %d to %q", path, got.Status, got.Location())
			}
		}
		v.Submit(v.Get(ui.ProofPath("/payrolls")), "/account/proof", "code", phone.code())
		if got := post("/payrolls/prl_1/approve"); got.Status != 404 {
			t.Errorf("%d to %q", got.Status, got.Location())
		}
	})
}
