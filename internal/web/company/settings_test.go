package company_test

import (
	"context"
	"fmt"
	"html"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/web"
	"github.com/stipend/stipend/internal/web/pagetest"
	"github.com/stipend/stipend/internal/web/ui"
	"github.com/stipend/stipend/internal/web/webtest"
	"github.com/stipend/stipend/internal/webhook"
	"github.com/stipend/stipend/internal/webhook/delivery"
)

func TestAppsAndKeys(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		x := pagetest.NewFixture(t, d, "developer")
		v := x.SignIn("developer")
		page := v.Get("/settings/api")
		for field, pairs := range map[string][]string{
			"scopes":       {"name", "Books"},
			"redirect_uri": {"name", "Books", "scopes", "c_company_detail", "redirect_uri", "http://app.example.com/"},
			"name":         {"scopes", "c_company_detail"},
		} {
			if got := v.Submit(page, "/settings/api", pairs...); got.Status != 422 ||
				!strings.Contains(got.Text, `id="`+field+`-problem"`) {
				t.Errorf("%s: %d\n%s", field, got.Status, got.Text)
			}
		}
		made := v.Submit(page, "/settings/api", "name", "Books", "redirect_uri", "https://app.example.com/back", "scopes",
			"c_company_detail", "scopes", "c_company_workers_pay")
		secret, path := pagetest.Find(t, made, `<code>(stp_sandbox_secret_\w+)</code>`),
			pagetest.Find(t, made, `href="(/settings/api/app_\w+)"`)
		client := pagetest.Find(t, made, `<code>(cli_\w+)</code>`)
		if made.Header.Get("Cache-Control") != "no-store" || strings.Contains(v.Get(path).Text, secret) {
			t.Error("the secret is shown again")
		}
		checks := func(secret string) (ok bool) {
			x.Write(func(ctx context.Context, tx *db.Tx) error {
				app, err := identity.AppByClientID(ctx, tx, client)
				ok = app.CheckSecret(secret) && app.Scopes.String() == "c_company_detail c_company_workers_pay" &&
					app.CompanyID == x.Company.ID
				return err
			})
			return ok
		}
		if !checks(secret) {
			t.Error("the app differs from the request")
		}
		newSecret := pagetest.Find(t, v.Submit(v.Get(path), path+"/secret"), `<code>(stp_sandbox_secret_\w+)</code>`)
		if checks(secret) || !checks(newSecret) {
			t.Error("the secret was not replaced")
		}
		x.CheckCompanyMails("office@acme.example", "A client secret of an app was created")

		first := pagetest.Find(t, v.Submit(v.Get(path), path+"/keys"), pagetest.TokenText)
		page = v.Get(path)
		if !x.Authenticates("Basic", first) || strings.Contains(page.Text, first) ||
			!strings.Contains(page.Text, "…"+first[len(first)-4:]) || !strings.Contains(page.Text, "Never") {
			t.Errorf("%s", page.Text)
		}
		rotate := pagetest.Find(t, page, `action="([^"]*/rotate)"`)
		second := pagetest.Find(t, v.Submit(page, rotate), pagetest.TokenText)
		if !x.Authenticates("Basic", first) || !x.Authenticates("Basic", second) {
			t.Error("the two keys do not overlap")
		}
		x.CheckCompanyMails("office@acme.example", "An API key was created")
		x.CheckCompanyMails("developer@acme.example")
		if n := x.Count("SELECT COUNT(*) FROM mails WHERE template = 'company_changed'"); n != 4 {
			t.Errorf("%d mails of two secrets and two keys", n)
		}
		if got := v.Submit(v.Get(path), path+"/keys"); got.Status != 409 || x.Count("SELECT COUNT(*) FROM api_keys") != 2 {
			t.Errorf("a third key: %d", got.Status)
		}
		clock.Advance(identity.KeyOverlap)
		v = x.SignIn("developer")
		if x.Authenticates("Basic", first) || !x.Authenticates("Basic", second) {
			t.Error("the old key still works, or the new one does not")
		}
		page = v.Get(path)
		if got := v.Submit(page, pagetest.Find(t, page, `action="([^"]*/revoke)"`)); got.Location() != path ||
			x.Authenticates("Basic", second) {
			t.Errorf("%d; the revoked key works", got.Status)
		}
		if !v.Get(path).Contains("Revoked.") || v.Get(path).Contains("Revoked.") {
			t.Error("the result is not confirmed once")
		}
		if _, form := webtest.Form(t, v.Get(path).Text, path+"/keys"); v.Post(rotate, form).Status != 404 {
			t.Error("a revoked key is rotated")
		}
		x.Site.Close()
		for _, text := range []string{first, second, secret, newSecret} {
			if strings.Contains(x.Logs.String(), text) {
				t.Error("a secret is in the log")
			}
		}
	})
}

// A preset chooses the permissions and the name of an app, and one form creates the app with its first key.
func TestAKeyFromAPreset(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		x := pagetest.NewFixture(t, d, "developer")
		v := x.SignIn("developer")
		for name, scopes := range map[string]int{"payroll": 5, "checkout": 2, "read": 11, "all": 28, "unknown": 0} {
			page := v.Get("/settings/api?preset=" + name)
			if got := strings.Count(page.Text, " checked>"); got != scopes {
				t.Errorf("%s chooses %d permissions, not %d", name, got, scopes)
			}
		}
		made := v.Submit(v.Get("/settings/api?preset=checkout"), "/settings/api", "key", "1")
		key := pagetest.Find(t, made, pagetest.TokenText)
		if !x.Authenticates("Basic", key) {
			t.Errorf("%d\n%s", made.Status, made.Text)
		}
		app := v.Get(pagetest.Find(t, made, `href="(/settings/api/app_\w+)"`))
		if !app.Contains("Checkout") || !app.Contains("…"+key[len(key)-4:]) {
			t.Errorf("%s", app.Text)
		}
		x.CheckCompanyMails("office@acme.example", "An API key was created")
	})
}

func TestWebhookSettings(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		x := pagetest.NewFixture(t, d, "owner")
		v := x.SignIn("owner")
		page := v.Get("/settings/webhooks")
		for field, pairs := range map[string][]string{
			"url": {"url", "http://hooks.example.com/"}, "events": {
				"url", "https://hooks.example.com/", "events", "nothing.*"}} {
			if got := v.Submit(page, "/settings/webhooks", pairs...); got.Status != 422 ||
				!strings.Contains(got.Text, `id="`+field+`-problem"`) {
				t.Errorf("%s: %d\n%s", field, got.Status, got.Text)
			}
		}
		made := v.Submit(page, "/settings/webhooks", "url", "https://hooks.example.com/in", "events",
			"payroll.*, webhook.test")
		secret, path := pagetest.Find(t, made, `<code>(whsec_[^<]+)</code>`),
			pagetest.Find(t, made, `href="(/settings/webhooks/whk_\w+)"`)
		page = v.Get(path)
		for _, want := range []string{"https://hooks.example.com/in", "payroll.*, webhook.test",
			"check\"/></svg>Enabled</span>",
			"No deliveries yet"} {
			if !strings.Contains(page.Text, want) || strings.Contains(page.Text, secret) {
				t.Errorf("no %q, or the secret, in\n%s", want, page.Text)
			}
		}
		for range 2 { // the second time changes nothing
			if got := v.Submit(page, path, "url", "https://hooks.example.com/changed?key=k3y", "events",
				""); got.Location() != path {
				t.Fatalf("%d\n%s", got.Status, got.Text)
			}
		}
		x.CheckCompanyMails("owner@acme.example", "https://hooks.example.com/in\n",
			"The URL of a webhook endpoint was changed",
			"https://hooks.example.com/changed\n")
		if n := x.Count("SELECT COUNT(*) FROM mails WHERE template = 'company_changed' AND address = " +
			"'office@acme.example'"); n != 2 {
			t.Errorf("%d mails", n)
		}
		if page = v.Get(path); !strings.Contains(page.Text, "<dd>https://hooks.example.com/changed?key=k3y</dd>") ||
			!strings.Contains(page.Text, "<dd>All</dd>") {
			t.Errorf("%s", page.Text)
		}
		if other := pagetest.Find(t, v.Submit(page, path+"/rotate"), `<code>(whsec_[^<]+)</code>`); other == secret {
			t.Error("the secret did not change")
		}

		// A test event can be resent and is then listed as a delivery.
		v.Submit(page, path+"/test")
		if got := v.Get(path); !got.Contains("Test event sent. Its delivery appears below in a few seconds") {
			t.Errorf("the page does not confirm the test event:\n%s", got.Text)
		}
		var event string
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			placed, err := webhook.Next(ctx, tx, 100)
			for _, p := range placed {
				if p.Name == webhook.WebhookTest.Name {
					event = p.ID
				}
			}
			return err
		})
		_, form := webtest.Form(t, page.Text, path+"/test")
		deliveryPath := path + "/deliveries/" + event
		if got := v.Post(deliveryPath+"/redeliver", form); got.Location() != deliveryPath {
			t.Fatalf("%d\n%s", got.Status, got.Text)
		}
		if page = v.Get(path); !strings.Contains(page.Text, `href="`+deliveryPath+`"`) ||
			!strings.Contains(page.Text, "Pending") {
			t.Errorf("%s", page.Text)
		}
		if page = v.Get(deliveryPath); !strings.Contains(page.Text, event) ||
			!strings.Contains(page.Text, "This is a test") || !strings.Contains(page.Text, "No attempts yet.") {
			t.Errorf("%s", page.Text)
		}

		// Each attempt is shown with its response, and the time of the next one.
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			if _, err := tx.Exec(
				ctx, `INSERT INTO webhook_attempts (company_id, endpoint_id, position, attempt, at, took_ms, url, sent_at,
					http_status, error, response)
				SELECT company_id, endpoint_id, position, 1, created_at, 1234, 'https://hooks.example.com/changed', 1,
					503, 'http_status', 'a <b>crowd</b>' FROM webhook_deliveries`); err != nil {
				return err
			}
			_, err := tx.Exec(ctx,
				"UPDATE webhook_deliveries SET tries = 1, attempts = 1, error = 'http_status', http_status = 503")
			return err
		})
		if page = v.Get(deliveryPath); !strings.Contains(page.Text, "503 (http_status), 1234 ms") ||
			!strings.Contains(page.Text, "a &lt;b&gt;crowd&lt;/b&gt;") ||
			!strings.Contains(page.Text, "https://hooks.example.com/changed") ||
			!strings.Contains(page.Text, "<dt>Next attempt</dt>") {
			t.Errorf("%s", page.Text)
		}
		if page = v.Get(path); !strings.Contains(page.Text, "<code>settlement.created</code>") {
			t.Errorf("the events are not listed:\n%s", page.Text)
		}
		v.Submit(v.Get(path), path+"/disable")
		if page = v.Get(path); !strings.Contains(page.Text, "ban\"/></svg>Disabled</span>") ||
			strings.Contains(page.Text, path+"/test") {
			t.Errorf("%s", page.Text)
		}
		v.Submit(page, path+"/enable")
		if page = v.Get(path); !strings.Contains(page.Text, "check\"/></svg>Enabled</span>") {
			t.Errorf("%s", page.Text)
		}
		if got := v.Submit(page, path+"/delete"); got.Location() != "/settings/webhooks" || v.Get(path).Status != 404 {
			t.Errorf("%d", got.Status)
		}
	})
}

// TestDeliveriesAreFilteredAndResent checks the filters by state, event and time, the paging, and resending a
// range.
func TestDeliveriesAreFilteredAndResent(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		x := pagetest.NewFixture(t, d, "owner")
		v := x.SignIn("owner")
		hook := pagetest.Find(t, v.Submit(v.Get("/settings/webhooks"), "/settings/webhooks", "url",
			"https://hooks.example.com/in"),
			`href="(/settings/webhooks/whk_\w+)"`)
		list, again := hook+"/deliveries", hook+"/redeliver"
		jobs := job.NewRunner(d, job.Table{delivery.JobReplay: {Tx: delivery.HandleReplay}}, nil,
			slog.New(slog.DiscardHandler))
		emit := func(name string, n int) {
			x.Write(func(ctx context.Context, tx *db.Tx) error {
				for i := range n {
					object := fmt.Sprintf("%s-%d", name, i)
					e := webhook.PayrollCreated.Event(x.Company.ID, object, 1, webhook.PayrollCreated.Example)
					if name == webhook.RecipientCreated.Name {
						e = webhook.RecipientCreated.Event(x.Company.ID, object, 1, webhook.RecipientCreated.Example)
					}
					if err := webhook.Emit(tx, e); err != nil {
						return err
					}
				}
				return nil
			})
		}
		emit("payroll.created", 30)
		clock.Advance(time.Hour)
		emit("recipient.created", 2)
		clock.Advance(time.Minute)
		v = x.SignIn("owner")
		shown := func(path string) int {
			got := v.Get(path)
			if got.Status != 200 {
				t.Fatalf("%s: %d\n%s", path, got.Status, got.Text)
			}
			return strings.Count(got.Text, `href="`+list+"/evt_")
		}
		if n := shown(list); n != 0 {
			t.Fatalf("%d before anything was queued", n)
		}

		// Only events of the range are queued.
		page := v.Get(again)
		for field, pairs := range map[string][]string{
			"from": {"from", "yesterday"}, "to": {"from", "2026-01-15T14:00", "to", "2026-01-15T13:00"}} {
			if got := v.Submit(page, again, pairs...); got.Status != 422 ||
				!strings.Contains(got.Text, `id="`+field+`-problem"`) {
				t.Errorf("%s: %d\n%s", field, got.Status, got.Text)
			}
		}
		send := func(pairs ...string) {
			t.Helper()
			if got := v.Submit(page, again, pairs...); got.Location() != list {
				t.Fatalf("%d\n%s", got.Status, got.Text)
			}
			if err := jobs.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		send("from", "2026-01-15T13:00", "to", "2026-01-15T14:00")
		if n := shown(list); n != 2 {
			t.Errorf("%d of 2 in the range", n)
		}
		send("from", "", "to", "")
		if n := shown(list); n != 25 {
			t.Errorf("%d on the first page", n)
		}
		next := pagetest.Find(t, v.Get(list), `href="(`+list+`\?after=evt_\w+)"`)
		if n := shown(next); n != 7 || !strings.Contains(v.Get(next).Text, `href="`+list+`"`) {
			t.Errorf("%d of 7 on the second page, or no link back", n)
		}

		// Delivered events are resent only with "all".
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			_, err := tx.Exec(ctx,
				"UPDATE webhook_deliveries SET state = 'succeeded', next_at = 0 WHERE object_id LIKE 'recipient%'")
			return err
		})
		for query, want := range map[string]int{
			"?status=succeeded": 2, "?events=recipient.*": 2, "?events=payroll.created,+recipient.created": 25,
			"?status=succeeded&events=payroll.*": 0,
			"?from=2026-01-15T13:00":             2, "?to=2026-01-15T13:00": 25, "?status=failed": 0, "?status=nonsense": 25,
		} {
			if n := shown(list + query); n != want {
				t.Errorf("%s: %d, want %d", query, n, want)
			}
		}
		if kept := pagetest.Find(t, v.Get(list+"?events=payroll.*&to=2026-01-15T13:00"),
			`href="(`+list+`\?after=[^"]*)"`); shown(
			html.UnescapeString(kept)) != 5 {
			t.Errorf("the next page forgets the filter: %s", kept)
		}
		for field, query := range map[string]string{"events": "?events=nothing", "from": "?from=soon",
			"to": "?to=31/12/2026"} {
			if got := v.Get(list + query); got.Status != 422 || !strings.Contains(got.Text, `id="`+field+`-problem"`) {
				t.Errorf("%s: %d\n%s", query, got.Status, got.Text)
			}
		}
		send("which", "failed")
		if n := shown(list + "?status=succeeded"); n != 2 {
			t.Errorf("%d delivered events are unchanged, want 2", n)
		}
		send("which", "all")
		if n := shown(list + "?status=succeeded"); n != 0 {
			t.Errorf("%d were not resent", n)
		}
	})
}

// TestSettingsAccess checks that viewers can only read, and that members of other companies cannot even do that.
func TestSettingsAccess(t *testing.T) {
	x := pagetest.NewFixture(t, pagetest.SQLite(t), "admin", "viewer", "stranger")
	x.Write(func(ctx context.Context, tx *db.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE members SET company_id = $1, role = 'owner' WHERE user_id = $2", x.Other.ID,
			x.Users["stranger"].ID)
		return err
	})
	admin := x.SignIn("admin")
	app := pagetest.Find(t, admin.Submit(admin.Get("/settings/api"), "/settings/api", "name", "Books", "scopes",
		"c_company_detail"), `href="(/settings/api/app_\w+)"`)
	hook := pagetest.Find(t, admin.Submit(admin.Get("/settings/webhooks"), "/settings/webhooks", "url",
		"https://hooks.example.com/in"), `href="(/settings/webhooks/whk_\w+)"`)
	admin.Submit(admin.Get(app), app+"/keys")
	viewer, stranger := x.SignIn("viewer"), x.SignIn("stranger")
	for _, path := range []string{"/settings/api", app, "/settings/webhooks", hook} {
		if got := viewer.Get(path); got.Status != 200 || strings.Contains(got.Text, `method="post"`) {
			t.Errorf("a viewer at %s: %d\n%s", path, got.Status, got.Text)
		}
	}
	_, mine := webtest.Form(t, viewer.Get("/account").Text, "/sign-out")
	_, theirs := webtest.Form(t, stranger.Get("/account").Text, "/sign-out")
	for _, path := range []string{app + "/keys", app + "/secret", hook + "/delete", hook + "/rotate", hook + "/disable"} {
		if got := viewer.Post(path, mine); got.Status != 403 {
			t.Errorf("a viewer posts to %s: %d", path, got.Status)
		}
		if got := stranger.Post(path, theirs); got.Status != 404 {
			t.Errorf("another company's member posts to %s: %d", path, got.Status)
		}
	}
	if stranger.Get(app).Status != 404 || stranger.Get(hook).Status != 404 ||
		strings.Contains(stranger.Get("/settings/api").Text, "Books") {
		t.Error("another company's member sees something")
	}
	for _, rt := range web.Routes() {
		least := map[string]ui.Access{"GET": ui.Member, "POST": ui.Manager}[rt.Method]
		if strings.HasSuffix(rt.Path, "/leave") {
			least = ui.Member // every member can leave
		}
		if strings.HasPrefix(rt.Path, "/settings/") && rt.Access < least {
			t.Errorf("%s %s has too little access control", rt.Method, rt.Path)
		}
	}
}

func TestSettingsInABrowser(t *testing.T) {
	x := pagetest.NewFixture(t, pagetest.SQLite(t), "admin")
	b := webtest.Start(t)
	p := b.Open(x.URL+"/settings/api", webtest.Look{NoScript: true})
	p.Fill("#email", "admin@acme.example")
	p.Fill("#password", pagetest.Password)
	p.Send("form:has(#password) button")
	b.Check(x.URL + "/settings/api")
	b.Check(x.URL + "/settings/webhooks")
	v := x.SignIn("admin")
	app := pagetest.Find(t, v.Submit(v.Get("/settings/api"), "/settings/api", "name", "Books", "scopes",
		"c_company_workers_pay"),
		`href="(/settings/api/app_\w+)"`)
	v.Submit(v.Get(app), app+"/keys")
	hook := pagetest.Find(t, v.Submit(v.Get("/settings/webhooks"), "/settings/webhooks", "url",
		"https://hooks.example.com/in"),
		`href="(/settings/webhooks/whk_\w+)"`)
	b.Check(x.URL + app)
	b.Check(x.URL + hook)
	b.Check(x.URL + hook + "/redeliver")
	b.Check(x.URL + hook + "/deliveries?status=failed&events=nothing")
	for _, shown := range []string{"/keys", "/secret"} { // pages that show a secret once
		once := b.Open(x.URL+app, webtest.Look{Width: 320, Dark: true})
		once.Send("form[action='" + app + shown + "'] button")
		if !strings.Contains(once.Text(), "_sandbox_") {
			t.Errorf("no secret at %s:\n%s", once.Path(), once.Text())
		}
		once.Audit()
		once.Close()
	}
	p = b.Open(x.URL+hook+"/redeliver", webtest.Look{NoScript: true})
	p.Send("main button")
	if p.Path() != hook+"/deliveries" {
		t.Errorf("at %s after resending a range", p.Path())
	}
}
