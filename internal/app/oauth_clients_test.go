package app_test

import (
	"bufio"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/oauth2"

	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/sandbox"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/web/webtest"
)

// agree acts as the user's browser. It signs in as the sandbox's administrator if it has not done so, and allows the
// app's request. It returns the URL that the service redirects to.
func agree(t *testing.T, v *webtest.Visitor, admin sandbox.SeedAdmin, address string) string {
	t.Helper()
	page := v.Follow(v.Get(address))
	if strings.Contains(page.Text, `name="password"`) {
		page = v.Follow(v.Submit(page, "/sign-in", "email", admin.Email, "password", admin.Password))
	}
	answer := v.Submit(page, "/authorize", "decision", "allow")
	if answer.Status != http.StatusSeeOther {
		t.Fatalf("allow: %d\n%s", answer.Status, answer.Text)
	}
	return answer.Location()
}

// allowDevice opens the page of a device's code with the browser of a signed-in user, who sees the scopes and allows
// it.
func allowDevice(t *testing.T, v *webtest.Visitor, address string) {
	t.Helper()
	page := v.Get(address)
	form, values := webtest.Form(t, page.Text, "/authorize")
	page = v.Get(form + "?" + values.Encode())
	if !page.Contains("Continue only if you started this") {
		t.Fatalf("%d to %q\n%s", page.Status, page.Location(), page.Text)
	}
	if answer := v.Submit(page, "/authorize", "decision", "allow"); !strings.Contains(answer.Location(), "done=allowed") {
		t.Fatalf("allow: %d to %q\n%s", answer.Status, answer.Location(), answer.Text)
	}
}

// callCompany calls the API with a token as an app does.
func callCompany(t *testing.T, client *http.Client, s *service, token string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.Ready().BaseURL+"/api/company/workers", nil)
	testkit.Check(t, err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	got, err := client.Do(r)
	testkit.Check(t, err)
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	testkit.Check(t, err)
	return got.StatusCode, string(text)
}

// Unmodified third-party clients can connect and refresh their tokens: golang.org/x/oauth2, openid-client, oauth4webapi
// and simple-oauth2. openid-client and oauth4webapi push their authorization requests.
func TestOAuthClientsOfOthers(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, database string) {
		s := boot(t, database)
		seed := s.Ready().Seed
		browser := webtest.NewVisitor(t, s.Ready().AuthURL)
		t.Run("x/oauth2", func(t *testing.T) {
			conf := oauth2.Config{
				ClientID: seed.ClientID, ClientSecret: seed.ClientSecret, RedirectURL: seed.RedirectURI,
				Scopes:   []string{"c_company_worker_list"},
				Endpoint: oauth2.Endpoint{AuthURL: s.Ready().AuthURL + "/authorize", TokenURL: s.Ready().BaseURL + "/oauth2/token"},
			}
			for name, style := range map[string]oauth2.AuthStyle{"it finds out": oauth2.AuthStyleAutoDetect,
				"header": oauth2.AuthStyleInHeader, "body": oauth2.AuthStyleInParams} {
				conf.Endpoint.AuthStyle = style
				verifier := oauth2.GenerateVerifier()
				back, err := url.Parse(agree(t, browser, seed.Admin, conf.AuthCodeURL("state & more",
					oauth2.S256ChallengeOption(verifier))))
				if err != nil || back.Query().Get("state") != "state & more" || !strings.HasPrefix(back.String(),
					seed.RedirectURI+"?") {
					t.Fatalf("%s: %s %v", name, back, err)
				}
				token, err := conf.Exchange(t.Context(), back.Query().Get("code"), oauth2.VerifierOption(verifier))
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if token.Extra("company_id") != seed.CompanyID || token.Extra("user_id") == "" || token.Type() != "Bearer" ||
					token.Expiry.IsZero() {
					t.Errorf("%s: %+v", name, token)
				}
				refreshed, err := conf.TokenSource(t.Context(), &oauth2.Token{RefreshToken: token.RefreshToken}).Token()
				if err != nil || refreshed.AccessToken == token.AccessToken || refreshed.RefreshToken == token.RefreshToken {
					t.Fatalf("%s: refreshed %+v, %v", name, refreshed, err)
				}
				token = refreshed
				if status, body := callCompany(t, conf.Client(t.Context(), token), s, ""); status != 200 || !strings.Contains(body,
					seed.Workers[0].UserID) {
					t.Errorf("%s: %d %s", name, status, body)
				}
			}
		})
		for _, name := range []string{"openid-client", "oauth4webapi", "simple-oauth2"} {
			t.Run(name, func(t *testing.T) { runNodeClient(t, s, browser, name) })
		}
	})
}

// runNodeClient runs a client in Node.js. The client prints the URL to open and reads the URL that the browser was
// redirected to. Then it prints the token.
func runNodeClient(t *testing.T, s *service, browser *webtest.Visitor, name string) {
	modules, err := filepath.Abs("../../.tools/npm/oauth")
	testkit.Check(t, err)
	if _, err := os.Stat(filepath.Join(modules, "node_modules", name)); err != nil {
		t.Fatalf("npm's %s is not installed; run tools/install.sh oauth", name)
	}
	seed := s.Ready().Seed
	node := exec.CommandContext(t.Context(), "node", "testdata/"+name+".mjs", modules, s.Ready().AuthURL, seed.ClientID,
		seed.ClientSecret, seed.RedirectURI)
	node.Stderr = t.Output()
	in, err := node.StdinPipe()
	testkit.Check(t, err)
	out, err := node.StdoutPipe()
	testkit.Check(t, err)
	testkit.Check(t, node.Start())
	lines := bufio.NewScanner(out)
	next := func() string {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("%s ended its output early: %v", name, lines.Err())
		}
		return lines.Text()
	}
	if _, err := io.WriteString(in, agree(t, browser, seed.Admin, next())+"\n"); err != nil {
		t.Fatal(err)
	}
	token, company := next(), next()
	if company != seed.CompanyID {
		t.Errorf("company %q", company)
	}
	if status, body := callCompany(t, http.DefaultClient, s, token); status != 200 || !strings.Contains(body,
		seed.Workers[0].UserID) {
		t.Errorf("%d %s", status, body)
	}
	// The client revokes the token before it ends.
	if _, err := io.WriteString(in, "revoke\n"); err != nil {
		t.Fatal(err)
	}
	if said := next(); said != "revoked" {
		t.Errorf("the client printed %q", said)
	}
	if name == "openid-client" { // it signs in as a device, too
		allowDevice(t, browser, next())
		if status, body := callCompany(t, http.DefaultClient, s, next()); status != http.StatusOK {
			t.Errorf("a device calls: %d %s", status, body)
		}
	}
	testkit.Check(t, node.Wait())
	if status, _ := callCompany(t, http.DefaultClient, s, token); status != http.StatusUnauthorized {
		t.Errorf("a call with a revoked token: %d", status)
	}
}
