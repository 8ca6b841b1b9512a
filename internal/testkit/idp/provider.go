// Package idp contains OpenID providers for tests: one that is implemented independently of this project, and one
// that tests can make break the rules.
package idp

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
)

// Registration of the client at the providers of this package.
const (
	ClientID     = "stipend"
	ClientSecret = "a-client-secret"
)

// User is an account at a provider.
type User struct {
	Subject, Email, First, Last string
	Unverified                  bool // reports whether the email address is unverified
}

// Password is the password of every account.
const Password = "verysecure"

// users adapts accounts to the provider's storage.
type users map[string]*storage.User

func (u users) GetUserByID(id string) *storage.User { return u[id] }

func (u users) GetUserByUsername(name string) *storage.User {
	for _, one := range u {
		if one.Username == name {
			return one
		}
	}
	return nil
}

func (u users) ExampleClientID() string { return storage.ServiceUserID }

// Provider is a running OpenID provider whose implementation is independent of this project.
type Provider struct {
	t       testing.TB
	Issuer  string
	users   users
	clients map[string]*storage.Client
}

// Start starts a provider with the given accounts, for a client with the given redirect URIs. It stops when the test
// ends.
func Start(t testing.TB, redirectURIs []string, accounts ...User) *Provider {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	p := &Provider{t: t, Issuer: "http://" + server.Listener.Addr().String(), users: users{},
		clients: map[string]*storage.Client{}}
	p.Put(accounts...)
	p.Register(redirectURIs...)
	server.Config.Handler = exampleop.SetupServer(p.Issuer, storage.NewStorageWithClients(p.users, p.clients),
		slog.New(slog.DiscardHandler), false)
	server.Start()
	t.Cleanup(server.Close)
	return p
}

// Register replaces the redirect URIs of the client. Call it while no request is running.
func (p *Provider) Register(redirectURIs ...string) {
	p.clients[ClientID] = storage.WebClient(ClientID, ClientSecret, redirectURIs...)
}

// Put adds accounts and replaces accounts with the same subject. Call it while no request is running.
func (p *Provider) Put(accounts ...User) {
	for _, a := range accounts {
		p.users[a.Subject] = &storage.User{ID: a.Subject, Username: a.Subject, Password: Password, FirstName: a.First,
			LastName: a.Last, Email: a.Email, EmailVerified: !a.Unverified}
	}
}

// authRequest matches the ID of the sign-in in the provider's HTML form.
var authRequest = regexp.MustCompile(`name="id" value="([^"]+)"`)

// SignIn signs in with an account at the authorization URL, as a person does in a browser. It returns the URL to
// which the provider redirects the person.
func (p *Provider) SignIn(authURL, subject string) string {
	p.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		p.t.Fatal(err)
	}
	back := ""
	c := &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if !strings.HasPrefix(r.URL.String(), p.Issuer) {
			back = r.URL.String()
			return http.ErrUseLastResponse
		}
		return nil
	}}
	page := p.read(c, http.MethodGet, authURL, nil)
	id := authRequest.FindStringSubmatch(page)
	if id == nil {
		p.t.Fatalf("the provider has no form for %s:\n%s", authURL, page)
	}
	page = p.read(c, http.MethodPost, p.Issuer+"/login/username", url.Values{"id": {id[1]}, "username": {subject},
		"password": {Password}})
	if back == "" {
		p.t.Fatalf("the provider did not lead back:\n%s", page)
	}
	return back
}

func (p *Provider) read(c *http.Client, method, address string, form url.Values) string {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, address, strings.NewReader(form.Encode()))
	if err != nil {
		p.t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	got, err := c.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}
