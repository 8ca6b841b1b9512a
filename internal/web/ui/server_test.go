package ui_test

import (
	"context"
	"errors"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/web/pagetest"
	"github.com/stipend/stipend/internal/web/ui"
	"github.com/stipend/stipend/internal/web/webtest"
)

var (
	errWrongDay = apierr.New(apierr.Invalid, "known_to_nobody", "This is no day of the calendar.")
	errOddDay   = apierr.New(apierr.Invalid, "invalid_parameter", "A day of an even month is needed.")
)

// formRoutes returns a page with a form that stores a setting.
func formRoutes() []ui.Route {
	show := func(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
		value, err := db.Setting(ctx, tx, "day")
		return ui.View{Template: "test", Title: "A form <b>", Data: value}, err
	}
	return []ui.Route{
		{Method: "GET", Path: "/test", Access: ui.Anyone, Handler: show},
		{Method: "POST", Path: "/test", Access: ui.Anyone, FormPage: show,
			Handler: func(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
				if err := db.SetSetting(ctx, tx, "day", c.Form.Get("test_day")); err != nil {
					return ui.View{}, err
				}
				switch c.Form.Get("test_day") {
				case "":
					return ui.View{}, errWrongDay.With(apierr.Field{Code: "missing_field", Pointer: "/test_day", Message: "Required."})
				case "wrong":
					return ui.View{}, errWrongDay.At("body", "/test_day")
				case "odd":
					return ui.View{}, errOddDay.At("body", "/test_day")
				case "broken":
					return ui.View{}, errors.New("a secret of the database")
				case "panic":
					panic("a secret of the code")
				}
				return ui.View{Redirect: "/test"}, nil
			}},
	}
}

func TestSecurityHeaders(t *testing.T) {
	h := pagetest.Open(t, pagetest.SQLite(t), identity.Production)
	for _, path := range []string{"/", "/nowhere", "/static/nothing.css"} {
		got := h.Do("GET", path, "")
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; style-src 'self'; font-src 'self'; script-src 'self'; " +
				"img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
			"Referrer-Policy":        "no-referrer",
			"X-Content-Type-Options": "nosniff",
			"Content-Type":           "text/html; charset=utf-8",
		} {
			if got.Header.Get(name) != want {
				t.Errorf("%s: %s is %q", path, name, got.Header.Get(name))
			}
		}
		if !strings.HasPrefix(got.Header.Get("X-Request-Id"), "req_") ||
			regexp.MustCompile(`(?i)<script|style=|\bon\w+=|(src|href)="(https?:)?//`).MatchString(got.Text) {
			t.Errorf("%s: %v\n%s", path, got.Header, got.Text)
		}
	}
}

func TestSandboxBanner(t *testing.T) {
	const banner = "No real money moves here"
	for env, want := range map[identity.Environment]bool{identity.Sandbox: true, identity.Production: false} {
		h := pagetest.Open(t, pagetest.SQLite(t), env)
		for _, path := range []string{"/", "/nowhere"} {
			if got := h.Do("GET", path, ""); strings.Contains(got.Text, banner) != want {
				t.Errorf("%s %s: banner %v\n%s", env, path, !want, got.Text)
			}
		}
	}
}

func TestErrorPages(t *testing.T) {
	h := pagetest.Open(t, pagetest.SQLite(t), identity.Sandbox, formRoutes()...)
	for name, c := range map[string]struct {
		status             int
		code, method, path string
		form               string
		headers            []string
	}{
		"unknown path":   {404, "not_found", "GET", "/nowhere", "", nil},
		"below a page":   {404, "not_found", "GET", "/test/x", "", nil},
		"another method": {405, "method_not_allowed", "DELETE", "/", "", nil},
		"another site":   {403, "cross_origin", "POST", "/test", "test_day=x", []string{"Sec-Fetch-Site", "cross-site"}},
		"a sister site":  {403, "cross_origin", "POST", "/test", "test_day=x", []string{"Sec-Fetch-Site", "same-site"}},
		"another origin": {403, "cross_origin", "POST", "/test", "test_day=x", []string{"Origin", "https://evil.example"}},
		"JSON": {415, "unsupported_media_type", "POST", "/test", "{}",
			[]string{"Content-Type", "application/json"}},
		"too large":       {413, "payload_too_large", "POST", "/test", "test_day=" + strings.Repeat("x", ui.FormLimit), nil},
		"broken form":     {400, "malformed_form", "POST", "/test", "test_day=%zz", nil},
		"an error within": {500, "internal", "POST", "/test", "test_day=broken", nil},
		"a panic":         {500, "internal", "POST", "/test", "test_day=panic", nil},
	} {
		got := h.Do(c.method, c.path, c.form, c.headers...)
		id := got.Header.Get("X-Request-Id")
		if got.Status != c.status || !strings.Contains(got.Text, "<code>"+c.code+"</code>") ||
			!strings.Contains(got.Text, id) || !strings.Contains(got.Text, "<h1>") {
			t.Errorf("%s: %d %s", name, got.Status, got.Text)
		}
		if strings.Contains(got.Text, "secret") {
			t.Errorf("%s reveals internals:\n%s", name, got.Text)
		}
		if got.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s can be cached: %v", name, got.Header)
		}
	}
	if got := h.Do("DELETE", "/", ""); got.Header.Get("Allow") != "GET" {
		t.Errorf("Allow %q", got.Header.Get("Allow"))
	}
	if got := h.Do("GET", "/test", ""); strings.Contains(got.Text, "stored: x") {
		t.Error("a rejected form was stored")
	}
	if got := h.Do("POST", "//evil.example/../test", "test_day=x", "Sec-Fetch-Site", "cross-site"); got.Status != 403 ||
		strings.Contains(got.Text, "evil.example") {
		t.Errorf("the form redirects to another site: %d\n%s", got.Status, got.Text)
	}
}

func TestFormShowsItsProblems(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		h := pagetest.Open(t, d, identity.Sandbox, formRoutes()...)
		if got := h.Do("POST", "/test?lang=fr", "test_day=2000-01-01", "Sec-Fetch-Site", "same-origin"); got.Status != 303 ||
			got.Header.Get("Location") != "/test?lang=fr" {
			t.Errorf("%d to %q", got.Status, got.Header.Get("Location"))
		}
		if got := h.Do("GET", "/test", ""); got.Status != 200 || !strings.Contains(got.Text, "stored: 2000-01-01") ||
			got.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%d %v\n%s", got.Status, got.Header, got.Text)
		}
		got := h.Do("POST", "/test", `test_day=wrong`)
		for _, want := range []string{
			`value="wrong"`, `aria-invalid="true"`, `aria-describedby="test_day-hint test_day-problem"`, `id="test_day-problem"`,
			`href="#test_day"`, "This is no day of the calendar.", "stored: 2000-01-01", "<title>Problem: A form &lt;b&gt;",
		} {
			if got.Status != 422 || !strings.Contains(got.Text, want) {
				t.Errorf("%d, no %s in\n%s", got.Status, want, got.Text)
			}
		}
		if got := h.Do("POST", "/test?lang=es", `test_day=`); !strings.Contains(got.Text, "Completa este campo.") {
			t.Errorf("not in the reader's language:\n%s", got.Text)
		}
		if got := h.Do("POST", "/test?lang=es", `test_day=wrong`); !strings.Contains(
			got.Text, `lang="en">This is no day of the calendar.`) {
			t.Errorf("English is not marked as such:\n%s", got.Text)
		}
		for lang, want := range map[string]string{"en": "A day of an even month is needed.",
			"fr": "Cette valeur n’est pas acceptée ici"} {
			if got := h.Do("POST", "/test?lang="+lang, `test_day=odd`); !strings.Contains(got.Text, want) {
				t.Errorf("no %q in\n%s", want, got.Text)
			}
		}
		h.Close()
		if text := h.Logs.String(); !strings.Contains(text, "route=/test") || strings.Contains(text, "2000-01-01") {
			t.Errorf("the log contains posted values:\n%s", text)
		}
	})
}

func TestLanguages(t *testing.T) {
	h := pagetest.Open(t, pagetest.SQLite(t), identity.Sandbox)
	for _, c := range []struct{ path, accept, want string }{
		{"/", "", "en"}, {"/", "es-MX,en;q=0.5", "es"}, {"/", "ja,pt-BR;q=0.9,en;q=0.1", "pt"},
		{"/", "de-AT", "de"}, {"/", "zz", "en"}, {"/", ";;;", "en"},
		{"/?lang=fr", "es", "fr"}, {"/?lang=xx", "es", "es"}, {"/?lang=" + url.QueryEscape(`"><script>`), "", "en"},
	} {
		got := h.Do("GET", c.path, "", "Accept-Language", c.accept)
		if !strings.Contains(got.Text, `<html lang="`+c.want+`">`) || got.Header.Get("Content-Language") != c.want ||
			strings.Contains(got.Text, "<script>") {
			t.Errorf("%s for %q: %q, want %s", c.path, c.accept, got.Header.Get("Content-Language"), c.want)
		}
	}
	if got := h.Do("GET", "/", "", "Accept-Language", "he-IL"); !strings.Contains(got.Text, `<html lang="he" dir="rtl">`) {
		t.Errorf("Hebrew is not written from right to left:\n%s", got.Text)
	}
	if got := h.Do("GET", "/nowhere?lang=fr", ""); !strings.Contains(got.Text, `href="/?lang=fr"`) ||
		!strings.Contains(got.Text, "Cette page n’existe pas") {
		t.Errorf("a link loses the language:\n%s", got.Text)
	}
}

func TestAssetsAreImmutable(t *testing.T) {
	h := pagetest.Open(t, pagetest.SQLite(t), identity.Sandbox)
	link := regexp.MustCompile(`href="(/static/style-[0-9a-f]{12}\.css)"`).FindStringSubmatch(h.Do("GET", "/", "").Text)
	if link == nil {
		t.Fatal("no stylesheet")
	}
	got := h.Do("GET", link[1], "")
	if got.Status != 200 || !strings.HasPrefix(got.Header.Get("Content-Type"), "text/css") ||
		!strings.Contains(got.Header.Get("Cache-Control"), "immutable") || !strings.Contains(got.Text, ":root") {
		t.Errorf("%d %v", got.Status, got.Header)
	}
	if head := h.Do("HEAD", link[1], ""); head.Status != 200 || head.Text != "" {
		t.Errorf("HEAD: %d %q", head.Status, head.Text)
	}
}

func TestPagesInABrowser(t *testing.T) {
	h := pagetest.Open(t, pagetest.SQLite(t), identity.Sandbox, formRoutes()...)
	b := webtest.Start(t)
	b.Check(h.URL + "/")
	b.Check(h.URL + "/nowhere")
	b.Check(h.URL + "/test")

	// With the keyboard only: the first tab stop skips to the content, and the submitted form shows its problem.
	p := b.Open(h.URL+"/test?lang=es", webtest.Look{Width: 320, Dark: true})
	p.Keys("\t\r")
	if at := webtest.Evaluate[string](p, "location.hash"); at != "#main" {
		t.Errorf("the first tab stop leads to %q", at)
	}
	p.Keys("\twrong")
	p.Send("button")
	if focus := p.Text(); !strings.Contains(focus, "This is no day of the calendar.") || p.Path() != "/test" {
		t.Errorf("at %s:\n%s", p.Path(), focus)
	}
	p.Audit()

	// Without JavaScript.
	p = b.Open(h.URL+"/test", webtest.Look{NoScript: true})
	p.Fill("#test_day", "2001-02-03")
	p.Send("button")
	if text := p.Text(); !strings.Contains(text, "stored: 2001-02-03") {
		t.Errorf("at %s:\n%s", p.Path(), text)
	}
}
