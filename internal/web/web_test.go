package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/testkit/allow"
	"github.com/stipend/stipend/internal/web/ui"
	"github.com/stipend/stipend/internal/web/webtest"
	"github.com/stipend/stipend/internal/webhook/delivery"
	"github.com/stipend/stipend/internal/withdrawal"
)

// site is a running server with the pages.
type site struct {
	*testing.T
	url         string
	log         strings.Builder // read only after close
	close       func()
	server      *ui.Server
	ownURL      bool         // BaseURL is set, to localhost
	clockOffset atomic.Int64 // offset of the clock in nanoseconds
}

// now returns the time of Deps.Now.
func (h *site) now() time.Time { return time.Now().Add(time.Duration(h.clockOffset.Load())) }

// open serves the pages and the extra routes.
func open(t *testing.T, d *db.DB, env identity.Environment, extra ...ui.Route) *site {
	t.Helper()
	return openWithKYCService(t, d, env, nil, extra...)
}

// openWithKYCService is open with verification pages.
func openWithKYCService(t *testing.T, d *db.DB, env identity.Environment, verify *kyc.Service,
	extra ...ui.Route) *site {
	t.Helper()
	return openSite(t, &site{T: t}, ui.Deps{DB: d, Env: env, KYC: verify}, extra...)
}

// openSite serves the pages with the given dependencies and defaults for the others.
func openSite(t *testing.T, h *site, deps ui.Deps, extra ...ui.Route) *site {
	t.Helper()
	sealer, err := identity.NewSealer(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	deps.Sealer, deps.Webhooks, deps.Now, deps.Log = sealer, delivery.Setup{Sealer: sealer}, h.now,
		slog.New(slog.NewTextHandler(&h.log, nil))
	if deps.Backoffice, err = backoffice.New(backoffice.Deps{
		Sealer: sealer, Payroll: &payroll.Service{}, ReleaseLimit: approval.NewReleaseLimit(money.Amount{}),
		Screen: allow.Address,
	}); err != nil {
		t.Fatal(err)
	}
	if deps.Withdrawals, err = withdrawal.New(withdrawal.Config{
		Setup: destination.Setup{Sealer: sealer, BitcoinNetwork: "regtest", Chain: "regtest"},
	}, withdrawal.Guards{Screen: allow.Subjects[destination.ScreeningSubject],
		ReleaseApproved: allow.Release}); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(nil)
	address := "http://" + s.Listener.Addr().String()
	if h.ownURL {
		_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
		address = "http://localhost:" + port
		deps.BaseURL = address
	}
	h.server = ui.New(deps, append(Routes(), extra...))
	s.Config.Handler = h.server
	s.Start()
	t.Cleanup(s.Close)
	h.url, h.close = address, s.Close
	return h
}

func sqlite(t *testing.T) *db.DB {
	t.Helper()
	return dbtest.Open(t, db.Options{URL: dbtest.SQLite(t)})
}

type response struct {
	status int
	header http.Header
	text   string
}

// do sends a request as a browser does and does not follow redirects. Headers are pairs of name and value.
func (h *site) do(method, path, form string, headers ...string) response {
	h.Helper()
	r, err := http.NewRequestWithContext(h.Context(), method, h.url+path, strings.NewReader(form))
	if err != nil {
		h.Fatal(err)
	}
	if form != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	got, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		h.Fatal(err)
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	if err != nil {
		h.Fatal(err)
	}
	return response{got.StatusCode, got.Header, string(body)}
}

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
	h := open(t, sqlite(t), identity.Production)
	for _, path := range []string{"/", "/nowhere", "/static/nothing.css"} {
		got := h.do("GET", path, "")
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; " +
				"form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
			"Referrer-Policy":        "no-referrer",
			"X-Content-Type-Options": "nosniff",
			"Content-Type":           "text/html; charset=utf-8",
		} {
			if got.header.Get(name) != want {
				t.Errorf("%s: %s is %q", path, name, got.header.Get(name))
			}
		}
		if !strings.HasPrefix(got.header.Get("X-Request-Id"), "req_") ||
			regexp.MustCompile(`(?i)<script|style=|\bon\w+=|(src|href)="(https?:)?//`).MatchString(got.text) {
			t.Errorf("%s: %v\n%s", path, got.header, got.text)
		}
	}
}

func TestSandboxBanner(t *testing.T) {
	const banner = "No real money moves here"
	for env, want := range map[identity.Environment]bool{identity.Sandbox: true, identity.Production: false} {
		h := open(t, sqlite(t), env)
		for _, path := range []string{"/", "/nowhere"} {
			if got := h.do("GET", path, ""); strings.Contains(got.text, banner) != want {
				t.Errorf("%s %s: banner %v\n%s", env, path, !want, got.text)
			}
		}
	}
}

func TestErrorPages(t *testing.T) {
	h := open(t, sqlite(t), identity.Sandbox, formRoutes()...)
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
		got := h.do(c.method, c.path, c.form, c.headers...)
		id := got.header.Get("X-Request-Id")
		if got.status != c.status || !strings.Contains(got.text, "<code>"+c.code+"</code>") ||
			!strings.Contains(got.text, id) || !strings.Contains(got.text, "<h1>") {
			t.Errorf("%s: %d %s", name, got.status, got.text)
		}
		if strings.Contains(got.text, "secret") {
			t.Errorf("%s reveals internals:\n%s", name, got.text)
		}
		if got.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s can be cached: %v", name, got.header)
		}
	}
	if got := h.do("DELETE", "/", ""); got.header.Get("Allow") != "GET" {
		t.Errorf("Allow %q", got.header.Get("Allow"))
	}
	if got := h.do("GET", "/test", ""); strings.Contains(got.text, "stored: x") {
		t.Error("a rejected form was stored")
	}
	if got := h.do("POST", "//evil.example/../test", "test_day=x", "Sec-Fetch-Site", "cross-site"); got.status != 403 ||
		strings.Contains(got.text, "evil.example") {
		t.Errorf("the form redirects to another site: %d\n%s", got.status, got.text)
	}
}

func TestFormShowsItsProblems(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		h := open(t, d, identity.Sandbox, formRoutes()...)
		if got := h.do("POST", "/test?lang=fr", "test_day=2000-01-01", "Sec-Fetch-Site", "same-origin"); got.status != 303 ||
			got.header.Get("Location") != "/test?lang=fr" {
			t.Errorf("%d to %q", got.status, got.header.Get("Location"))
		}
		if got := h.do("GET", "/test", ""); got.status != 200 || !strings.Contains(got.text, "stored: 2000-01-01") ||
			got.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%d %v\n%s", got.status, got.header, got.text)
		}
		got := h.do("POST", "/test", `test_day=wrong`)
		for _, want := range []string{
			`value="wrong"`, `aria-invalid="true"`, `aria-describedby="test_day-hint test_day-problem"`, `id="test_day-problem"`,
			`href="#test_day"`, "This is no day of the calendar.", "stored: 2000-01-01", "<title>Problem: A form &lt;b&gt;",
		} {
			if got.status != 422 || !strings.Contains(got.text, want) {
				t.Errorf("%d, no %s in\n%s", got.status, want, got.text)
			}
		}
		if got := h.do("POST", "/test?lang=es", `test_day=`); !strings.Contains(got.text, "Rellena este campo.") {
			t.Errorf("not in the reader's language:\n%s", got.text)
		}
		if got := h.do("POST", "/test?lang=es", `test_day=wrong`); !strings.Contains(
			got.text, `lang="en">This is no day of the calendar.`) {
			t.Errorf("English is not marked as such:\n%s", got.text)
		}
		for lang, want := range map[string]string{"en": "A day of an even month is needed.",
			"fr": "Cette valeur n’est pas possible ici"} {
			if got := h.do("POST", "/test?lang="+lang, `test_day=odd`); !strings.Contains(got.text, want) {
				t.Errorf("no %q in\n%s", want, got.text)
			}
		}
		h.close()
		if text := h.log.String(); !strings.Contains(text, "route=/test") || strings.Contains(text, "2000-01-01") {
			t.Errorf("the log contains posted values:\n%s", text)
		}
	})
}

func TestLanguages(t *testing.T) {
	h := open(t, sqlite(t), identity.Sandbox)
	for _, c := range []struct{ path, accept, want string }{
		{"/", "", "en"}, {"/", "es-MX,en;q=0.5", "es"}, {"/", "de,pt-BR;q=0.9,en;q=0.1", "pt"}, {"/", "zz", "en"},
		{"/", ";;;", "en"},
		{"/?lang=fr", "es", "fr"}, {"/?lang=xx", "es", "es"}, {"/?lang=" + url.QueryEscape(`"><script>`), "", "en"},
	} {
		got := h.do("GET", c.path, "", "Accept-Language", c.accept)
		if !strings.Contains(got.text, `<html lang="`+c.want+`">`) || got.header.Get("Content-Language") != c.want ||
			strings.Contains(got.text, "<script>") {
			t.Errorf("%s for %q: %q, want %s", c.path, c.accept, got.header.Get("Content-Language"), c.want)
		}
	}
	if got := h.do("GET", "/nowhere?lang=fr", ""); !strings.Contains(got.text, `href="/?lang=fr"`) ||
		!strings.Contains(got.text, "Cette page n’existe pas") {
		t.Errorf("a link loses the language:\n%s", got.text)
	}
}

var verb = regexp.MustCompile(`%[a-z]`)

func TestCatalogsHaveTheSameKeys(t *testing.T) {
	for key, english := range ui.Catalogs["en"] {
		for _, l := range ui.Languages {
			text := ui.Catalogs[l.Tag][key]
			if text == "" || fmt.Sprint(verb.FindAllString(text, -1)) != fmt.Sprint(verb.FindAllString(english, -1)) {
				t.Errorf("%s in %s: %q, in English %q", key, l.Tag, text, english)
			}
		}
	}
	for _, l := range ui.Languages {
		if len(ui.Catalogs[l.Tag]) != len(ui.Catalogs["en"]) {
			t.Errorf("%d words in %s, %d in English", len(ui.Catalogs[l.Tag]), l.Tag, len(ui.Catalogs["en"]))
		}
	}
}

func TestAssetsAreImmutable(t *testing.T) {
	h := open(t, sqlite(t), identity.Sandbox)
	link := regexp.MustCompile(`href="(/static/style-[0-9a-f]{12}\.css)"`).FindStringSubmatch(h.do("GET", "/", "").text)
	if link == nil {
		t.Fatal("no stylesheet")
	}
	got := h.do("GET", link[1], "")
	if got.status != 200 || !strings.HasPrefix(got.header.Get("Content-Type"), "text/css") ||
		!strings.Contains(got.header.Get("Cache-Control"), "immutable") || !strings.Contains(got.text, ":root") {
		t.Errorf("%d %v", got.status, got.header)
	}
	if head := h.do("HEAD", link[1], ""); head.status != 200 || head.text != "" {
		t.Errorf("HEAD: %d %q", head.status, head.text)
	}
}

func TestPagesInABrowser(t *testing.T) {
	h := open(t, sqlite(t), identity.Sandbox, formRoutes()...)
	b := webtest.Start(t)
	b.Check(h.url + "/")
	b.Check(h.url + "/nowhere")
	b.Check(h.url + "/test")

	// With the keyboard only: the first tab stop skips to the content, and the submitted form shows its problem.
	p := b.Open(h.url+"/test?lang=es", webtest.Look{Width: 320, Dark: true})
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
	p = b.Open(h.url+"/test", webtest.Look{NoScript: true})
	p.Fill("#test_day", "2001-02-03")
	p.Send("button")
	if text := p.Text(); !strings.Contains(text, "stored: 2001-02-03") {
		t.Errorf("at %s:\n%s", p.Path(), text)
	}
}
