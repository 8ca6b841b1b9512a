package app_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stipend/stipend/cmd/stipend/cli"
	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/testkit"
)

// Behind a trusted proxy, the rate limits count the client that the proxy names. They ignore addresses that the
// client could have written itself.
func TestLimitsCountClientsBehindTrustedProxies(t *testing.T) {
	ask := func(d *apiClient, forwarded ...string) int {
		d.Helper()
		req, err := http.NewRequestWithContext(d.Context(), http.MethodPost, d.s.Ready().BaseURL+"/oauth2/token",
			strings.NewReader("grant_type=authorization_code"))
		testkit.Check(d, err)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header["X-Forwarded-For"] = forwarded
		res, err := http.DefaultClient.Do(req)
		testkit.Check(d, err)
		res.Body.Close()
		return res.StatusCode
	}
	behind := newAPIClient(t, boot(t, dbtest.SQLite(t), func(c *app.Config) {
		c.TrustedProxies = []string{"127.0.0.0/8",
			"::1/128", "10.2.0.0/16"}
	}))
	for i := range 30 {
		if got := ask(behind, fmt.Sprintf("6.6.6.%d, 1.2.3.4", i)); got == http.StatusTooManyRequests {
			t.Fatalf("the limit refuses request %d", i)
		}
	}
	for _, same := range [][]string{{"1.2.3.4"}, {"8.8.8.8, 1.2.3.4"}, {"8.8.8.8", "1.2.3.4"}, {"1.2.3.4, 10.2.0.7"},
		{"1.2.3.4:5678"}, {"nonsense, 1.2.3.4"}, {"::ffff:1.2.3.4"}} {
		if got := ask(behind, same...); got != http.StatusTooManyRequests {
			t.Errorf("%q counts as another client: got status %d, want 429", same, got)
		}
	}
	for _, other := range [][]string{{"1.2.3.5"}, {"1.2.3.4, 1.2.3.5"}, {"1.2.3.4, nonsense"}, nil, {"[2001:db8::1]"}} {
		if got := ask(behind, other...); got == http.StatusTooManyRequests {
			t.Errorf("%q counts as the same client", other)
		}
	}
	alone := newAPIClient(t, boot(t, dbtest.SQLite(t)))
	for i := range 31 {
		if got := ask(alone, fmt.Sprintf("6.6.6.%d", i)); (got == http.StatusTooManyRequests) != (i == 30) {
			t.Errorf("without a proxy, request %d: got status %d", i, got)
		}
	}
}

// With a public URL, every page and endpoint refuses requests for other hosts. The health checks answer for any host.
func TestOnlyItsOwnHostIsServed(t *testing.T) {
	s := boot(t, dbtest.SQLite(t), func(c *app.Config) {
		c.BaseURL, c.AuthURL = "https://pay.example.com", "https://login.example.com:8443"
	})
	get := func(host, path string) *httptest.ResponseRecorder {
		t.Helper()
		req := httptest.NewRequest(http.MethodGet, path, nil)
		req.Host = host
		w := httptest.NewRecorder()
		s.Servers()[0].Handler.ServeHTTP(w, req)
		return w
	}
	for _, path := range []string{"/api/currencies", "/sign-in", "/", "/docs", "/nothing"} {
		for _, host := range []string{"evil.example", "pay.example.com.evil.example", "login.example.com",
			"pay.example.com:8080", ""} {
			if w := get(host, path); w.Code != http.StatusMisdirectedRequest || !strings.Contains(w.Body.String(),
				`"misdirected"`) || strings.Contains(w.Body.String(), "evil") {
				t.Errorf("%s at %q: %d %.200s", path, host, w.Code, w.Body)
			}
		}
		for _, host := range []string{"pay.example.com", "PAY.example.com:443", "login.example.com:8443"} {
			if w := get(host, path); w.Code == http.StatusMisdirectedRequest {
				t.Errorf("the service refuses %s at the host %q", path, host)
			}
		}
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if w := get("10.0.0.7:8080", path); w.Code != http.StatusOK {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// Two services can't share one embedded database, because they wouldn't see each other's notifications. Commands can
// run beside the service.
func TestAnEmbeddedDatabaseIsServedOnce(t *testing.T) {
	url := dbtest.SQLite(t)
	s := boot(t, url)
	c := defaults(t)
	c.DatabaseURL, c.Listen, c.MetricsListen = url, "127.0.0.1:0", ""
	if second, err := app.Start(t.Context(), c, testLogger(t.Output(), "error")); err == nil ||
		!strings.Contains(err.Error(), "another process serves "+strings.TrimPrefix(url, "sqlite:")) {
		t.Errorf("start a second process: %v %v", second, err)
	}
	var out bytes.Buffer
	for _, run := range []func() error{
		func() error { return cli.LedgerCheckCmd{Storage: c.Storage}.Run(t.Context(), cli.Streams{Out: &out}) },
		func() error {
			return cli.PayoutsPauseCmd{Storage: c.Storage, Reason: "a test"}.Run(t.Context(), cli.Streams{Out: &out})
		},
		func() error {
			return cli.ScreeningStatusCmd{Storage: c.Storage}.Run(t.Context(), cli.Streams{Out: &out})
		},
	} {
		if err := run(); err != nil {
			t.Errorf("a command beside the service: %v", err)
		}
	}
	if err := (cli.MigrateCmd{Storage: c.Storage}).Run(t.Context(), cli.Streams{Out: &out}); err == nil ||
		!strings.Contains(err.Error(), "another process serves") {
		t.Errorf("migrate while the service runs: %v", err)
	}
	if !strings.Contains(out.String(), "sandbox, published") {
		t.Errorf("%s", out.String())
	}
	testkit.Check(t, s.Stop(t.Context()))
	if err := (cli.MigrateCmd{Storage: c.Storage}).Run(t.Context(), cli.Streams{Out: &out}); err != nil {
		t.Errorf("migrate after the service stopped: %v", err)
	}
	boot(t, url)
	other := defaults(t)
	other.DataDir = filepath.Join(t.TempDir(), "new", "directory")
	other.Listen, other.MetricsListen = "127.0.0.1:0", ""
	fresh, err := app.Start(t.Context(), other, testLogger(t.Output(), "error"))
	testkit.Check(t, err)
	if err := fresh.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}
