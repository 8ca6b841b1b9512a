package app_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/testkit"
)

// Pages and the contract are compressed for clients that accept it, and equal to what others receive.
func TestCompression(t *testing.T) {
	t.Parallel()
	s := boot(t, dbtest.SQLite(t))
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	fetch := func(path, accept string) (coding, vary, body string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.Ready().BaseURL+path, nil)
		testkit.Check(t, err)
		r.Header.Set("Accept-Encoding", accept)
		res, err := client.Do(r)
		testkit.Check(t, err)
		defer res.Body.Close()
		in := io.Reader(res.Body)
		if coding = res.Header.Get("Content-Encoding"); coding == "gzip" {
			in, err = gzip.NewReader(res.Body)
			testkit.Check(t, err)
		}
		text, err := io.ReadAll(in)
		testkit.Check(t, err)
		return coding, strings.Join(res.Header.Values("Vary"), ", "), string(text)
	}
	for _, path := range []string{"/", "/docs", "/sign-in", "/docs/quickstart.md", "/openapi.json", "/openapi.yaml"} {
		plain, _, want := fetch(path, "identity")
		coding, vary, got := fetch(path, "gzip")
		if plain != "" || coding != "gzip" || !strings.Contains(vary, "Accept-Encoding") {
			t.Errorf("%s: %q, and %q with Vary %q", path, plain, coding, vary)
		}
		if path != "/sign-in" && got != want { // the form's token differs
			t.Errorf("%s differs when it is compressed", path)
		}
	}
	if coding, _, _ := fetch("/api/currencies", "gzip"); coding != "" {
		t.Errorf("a response of the API is compressed: %s", coding)
	}
}

// Search engines read nothing of a sandbox. security.txt exists once an operator has a contact.
func TestRobotsAndSecurityContact(t *testing.T) {
	t.Parallel()
	s := boot(t, dbtest.SQLite(t), func(c *app.Config) { c.SecurityContact = "mailto:security@pay.example" })
	if status, text := get(t, s.Ready().BaseURL+"/robots.txt"); status != 200 || text != "User-agent: *\nDisallow: /\n" {
		t.Errorf("%d %s", status, text)
	}
	status, text := get(t, s.Ready().BaseURL+"/.well-known/security.txt")
	if status != 200 || !strings.HasPrefix(text, "Contact: mailto:security@pay.example\nExpires: 20") {
		t.Errorf("%d %s", status, text)
	}
	other := boot(t, dbtest.SQLite(t))
	if status, _ := get(t, other.Ready().BaseURL+"/.well-known/security.txt"); status != 404 {
		t.Errorf("without a contact: %d", status)
	}
}
