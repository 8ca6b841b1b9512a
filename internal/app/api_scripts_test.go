package app_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/oauth"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/sandbox"
	"github.com/stipend/stipend/internal/testkit/apiscript"
)

// TestAPIScripts runs the scripts in testdata/api, which describe the API one request at a time. The seeded company
// sends each request unless the step names another caller.
func TestAPIScripts(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, url string) {
		s := start(t, url, func(c *app.Config) { c.ReadsPerSecond, c.WritesPerSecond, c.ClaimsPerMinute = 0, 0, 0 })
		d := &scriptClient{apiClient: newAPIClient(t, s), companies: map[string]string{}}
		receiver := httptest.NewServer(d)
		t.Cleanup(receiver.Close)
		apiscript.Run(t, apiscript.Service{
			BaseURL: s.Ready().BaseURL,
			Variables: map[string]string{
				"company": d.seed.CompanyID, "api_key": d.seed.APIKey, "payer": d.seed.PayerID,
				"worker1": d.seed.Workers[0].UserID, "worker2": d.seed.Workers[1].UserID,
				"recipient": d.seed.Recipients[0].RecipientID, "admin": sandbox.SeedID("usr", "admin"),
				"client": d.seed.ClientID, "secret": d.seed.ClientSecret, "callback": d.seed.RedirectURI,
				"base_url": s.Ready().BaseURL, "auth_url": s.Ready().AuthURL, "receiver": receiver.URL,
			},
			Authorization: d.authorization,
			Stored:        func() any { return d.stored() },
			Rows:          func(table string) int64 { return d.count("SELECT COUNT(*) FROM " + table) },
			Set:           d.set,
		}, "testdata/api/*.txt")
		d.checkLedgerBalances()
	})
}

// scriptClient does for scripts what the API cannot do. It also receives webhooks: a GET of a path returns the last
// webhook that was sent there.
type scriptClient struct {
	*apiClient
	companies map[string]string // Authorization headers by script and name

	mu   sync.Mutex
	sent map[string]received
}

type received struct {
	header http.Header
	body   string
	count  int
}

// authorization returns the Authorization header of a caller. An empty name is the seeded API key. Other names are a
// caller without credentials, another company, a key or the administrator's token with scopes, a user's token with all
// scopes, or the header itself.
func (d *scriptClient) authorization(t *testing.T, name string) string {
	word, rest, _ := strings.Cut(name, " ")
	switch word {
	case "":
		return "Basic " + d.seed.APIKey
	case "nobody":
		return ""
	case "stranger", "company":
		of := t.Name() + " " + name
		if d.companies[of] == "" {
			_, other := d.stranger()
			d.companies[of] = other.auth
		}
		return d.companies[of]
	case "token":
		return d.token(strings.Fields(rest)...)
	case "key":
		return d.key(t, strings.Fields(rest)...)
	case "user":
		return d.tokenOf(rest, identity.AllScopes().List()...)
	}
	return name
}

// key returns the Authorization header of a new API key of the seeded company.
func (d *scriptClient) key(t *testing.T, scopes ...identity.Scope) (auth string) {
	d.write(t, func(ctx context.Context, tx *db.Tx) error {
		app, _, err := identity.CreateApp(ctx, tx, identity.Sandbox, identity.NewApp{CompanyID: d.seed.CompanyID,
			Name: "Key", Scopes: identity.NewScopes(scopes...)})
		if err != nil {
			return err
		}
		_, key, err := identity.CreateAPIKey(ctx, tx, identity.Sandbox, identity.NewAPIKey{CompanyID: d.seed.CompanyID,
			AppID: app.ID})
		auth = "Basic " + key
		return err
	})
	return auth
}

func (d *scriptClient) write(t *testing.T, f func(context.Context, *db.Tx) error) {
	t.Helper()
	if err := d.s.DB().Write(t.Context(), f); err != nil {
		t.Fatal(err)
	}
}

// stored counts the rows that requests of people and payees write, and their versions.
func (d *scriptClient) stored() string {
	text := fmt.Sprint(d.effects())
	for _, table := range []string{
		"users", "company_users", "recipients", "destination_owners", "destinations", "destination_changes", "invitations",
		"mails WHERE template <> 'payment_sent'", "webhook_endpoints", "claims", "withdrawals",
		"events WHERE name LIKE 'user.%' OR name LIKE 'recipient.%' OR name LIKE 'distribution.%'",
	} {
		text += fmt.Sprint(" ", d.count("SELECT COUNT(*) FROM "+table))
	}
	for _, table := range []string{"users", "recipients", "destination_owners"} {
		text += fmt.Sprint(" ", d.count("SELECT CAST(COALESCE(SUM(version), 0) AS BIGINT) FROM "+table))
	}
	return text
}

// set does what a step "set" names:
//
//	set $user user ada@example.com                a user who signs in and has no company
//	set $app app                                  an app of the company: its client ID, and $app_secret
//	set $code code CLIENT [verifier=V] [scope=S]  the authorization code with which the administrator allows an app
//	set $id correction OWNER MEMBER VALUE         a correction that the bank asks for the owner's first destination
func (d *scriptClient) set(t *testing.T, name, what string, set func(name, value string)) {
	words := strings.Fields(what)
	d.write(t, func(ctx context.Context, tx *db.Tx) error {
		switch words[0] {
		case "user":
			u, err := identity.CreateUser(ctx, tx, d.s.Sealer(), identity.NewUser{Profile: identity.Profile{
				Email: words[1], FirstName: "Free", LastName: "Agent", Country: "US"}})
			set(name, u.ID)
			return err
		case "app":
			a, secret, err := identity.CreateApp(ctx, tx, identity.Sandbox, identity.NewApp{CompanyID: d.seed.CompanyID,
				Name: "Books", RedirectURI: d.seed.RedirectURI, Scopes: identity.NewScopes(identity.CompanyDetail)})
			set(name, a.ClientID)
			set(name+"_secret", secret)
			return err
		case "code":
			p := oauth.Params{ClientID: words[1], State: "s"}
			for _, word := range words[2:] {
				switch name, value, _ := strings.Cut(word, "="); name {
				case "verifier":
					sum := sha256.Sum256([]byte(value))
					p.Challenge, p.Method = base64.RawURLEncoding.EncodeToString(sum[:]), "S256"
				case "scope":
					p.Scope = value
				case "redirect":
					p.RedirectURI, p.ResponseType = value, "code"
				}
			}
			r, err := oauth.Check(ctx, tx, p)
			if err != nil {
				return err
			}
			admin, err := identity.GetUser(ctx, tx, d.s.Sealer(), sandbox.SeedID("usr", "admin"))
			if err != nil {
				return err
			}
			code, err := oauth.Grant(ctx, tx, identity.Sandbox, admin, d.seed.CompanyID, r)
			set(name, code)
			return err
		case "correction":
			first := func() (destination.Destination, error) {
				all, err := destination.ForOwners(ctx, tx, words[1:2])
				if err != nil || len(all[words[1]]) == 0 {
					return destination.Destination{}, fmt.Errorf("%s has no destination (%w)", words[1], err)
				}
				return all[words[1]][0], nil
			}
			was, err := first()
			if err != nil {
				return err
			}
			if err := destination.AskCorrection(ctx, tx, destination.Setup{Sealer: d.s.Sealer()}, destination.Asked{
				CompanyID: d.seed.CompanyID, Was: was, Code: "C01", Reason: "account number",
				Members: map[string]string{words[2]: words[3]},
			}); err != nil {
				return err
			}
			is, err := first()
			set(name, is.Correction.ID)
			return err
		}
		return fmt.Errorf("nothing is known to set as %q", what)
	})
}

// ServeHTTP receives a webhook, or returns the last one that was sent to a path: how many there were, its ID, its body,
// and whether a secret verifies its signature.
func (d *scriptClient) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	got := d.sent[r.URL.Path]
	if r.Method == http.MethodPost {
		body, _ := io.ReadAll(r.Body)
		if d.sent == nil {
			d.sent = map[string]received{}
		}
		d.sent[r.URL.Path] = received{r.Header.Clone(), string(body), got.count + 1}
		_, _ = io.WriteString(w, "thanks")
		return
	}
	verifier, err := standardwebhooks.NewWebhook(r.URL.Query().Get("secret"))
	if err == nil {
		err = verifier.Verify([]byte(got.body), got.header)
	}
	_ = json.NewEncoder(w).Encode(object{
		"count": got.count, "id": got.header.Get("webhook-id"), "body": got.body, "verified": err == nil,
	})
}
