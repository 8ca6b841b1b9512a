package app_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/pquerna/otp/totp"

	"github.com/stipend/stipend/internal/app"

	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/oauth"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/platform"
	"github.com/stipend/stipend/internal/sandbox"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/testkit/apiscript"
	"github.com/stipend/stipend/internal/testkit/fixture"
)

// TestAPIScripts runs the scripts in testdata/api, which describe the API one request at a time. The seeded company
// sends each request unless the step names another caller. Afterwards a company and a user who own nothing call every
// operation and open every page with the objects that the scripts created.
func TestAPIScripts(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, url string) {
		t.Cleanup(func() { rotateDataKey(t, url) }) // after the service has stopped
		s := start(t, url, func(c *app.Config) {
			c.ReadsPerSecond, c.WritesPerSecond, c.ClaimsPerMinute = 0, 0, 0
			c.TrustedProxies, c.LndURL = []string{"127.0.0.1/32", "::1/128"}, app.SimulatedLnd
		})
		d := &scriptClient{apiClient: newAPIClient(t, s), companies: map[string]string{}, ids: objectIDs{}}
		receiver := httptest.NewServer(d)
		t.Cleanup(receiver.Close)
		scans, err := os.ReadFile("../kyc/testdata/65-scans.jpeg")
		testkit.Check(t, err)
		apiscript.Run(t, apiscript.Service{
			BaseURL: s.Ready().BaseURL,
			Variables: map[string]string{
				"company": d.seed.CompanyID, "api_key": d.seed.APIKey, "payer": d.seed.PayerID,
				"worker1": d.seed.Workers[0].UserID, "worker2": d.seed.Workers[1].UserID,
				"recipient": d.seed.Recipients[0].RecipientID, "admin": sandbox.SeedID("usr", "admin"),
				"client": d.seed.ClientID, "secret": d.seed.ClientSecret, "callback": d.seed.RedirectURI,
				"base_url": s.Ready().BaseURL, "auth_url": s.Ready().AuthURL, "receiver": receiver.URL,
				"person": person, "scan": pixel, "scans65": base64.StdEncoding.EncodeToString(scans),
			},
			Authorization: d.authorization,
			Stored:        func() any { return d.stored() },
			Rows:          func(table string) int64 { return d.count("SELECT COUNT(*) FROM " + table) },
			Set:           d.set,
			Responded:     d.ids.collect,
		}, "testdata/api/*.txt")
		d.checkLedgerBalances()
		t.Run("objects of others", func(t *testing.T) { d.ids.checkOperations(t, d) })
		t.Run("pages of others", func(t *testing.T) { d.ids.checkPages(t, d) })
	})
}

// person has the members of a user, except the address.
const person = `{"first_name": "Ada", "last_name": "Lovelace", "phone_number": "+4930901820", "phone_country": "DE",
	"date_of_birth": "1990-12-10", "street_address": "1 Example Street", "city": "Berlin", "state": "BE", "zip": "10115",
	"country": "DE", "product": "worker"}`

// scriptClient does for scripts what the API cannot do. It also receives webhooks: a GET of a path returns the last
// webhook that was sent there.
type scriptClient struct {
	*apiClient
	companies map[string]string // Authorization headers by script and name
	ids       objectIDs         // of the objects in the responses

	mu   sync.Mutex
	sent map[string]received
}

type received struct {
	header http.Header
	body   string
	count  int
}

// authorization returns the Authorization header of a caller. An empty name is the seeded API key. Other names are a
// caller without credentials, another company, a key or the administrator's token with scopes, a user's token with
// scopes or all of them, perhaps for a company, or the header itself.
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
		company, scopes := d.seed.CompanyID, strings.Fields(rest)
		if strings.HasPrefix(rest, "com_") {
			company, scopes = scopes[0], scopes[1:]
		}
		return d.key(t, company, scopes...)
	case "user":
		words := strings.Fields(rest)
		return d.userToken(t, words[0], words[1:])
	}
	return name
}

// key returns the Authorization header of a new API key of a company.
func (d *scriptClient) key(t *testing.T, companyID string, scopes ...identity.Scope) (auth string) {
	d.write(t, func(ctx context.Context, tx *db.Tx) error {
		app, _, err := identity.CreateApp(ctx, tx, identity.Sandbox, identity.NewApp{CompanyID: companyID,
			Name: "Key of " + companyID, Scopes: identity.NewScopes(scopes...)})
		if err != nil {
			return err
		}
		_, key, err := identity.CreateAPIKey(ctx, tx, identity.Sandbox, identity.NewAPIKey{CompanyID: companyID,
			AppID: app.ID})
		auth = "Basic " + key
		return err
	})
	return auth
}

// userToken returns the Authorization header of a user, signed in through an app of their company. Without scopes the
// token has all.
func (d *scriptClient) userToken(t *testing.T, userID string, scopes []identity.Scope) (auth string) {
	of := ""
	if len(scopes) > 0 && strings.HasPrefix(scopes[0], "com_") {
		of, scopes = scopes[0], scopes[1:]
	}
	if len(scopes) == 0 {
		scopes = identity.AllScopes().List()
	}
	d.write(t, func(ctx context.Context, tx *db.Tx) error {
		user, err := identity.GetUser(ctx, tx, d.s.Sealer(), userID)
		if err != nil {
			return err
		}
		company := cmp.Or(of, user.CompanyID, d.seed.CompanyID)
		app, _, err := identity.CreateApp(ctx, tx, identity.Sandbox, identity.NewApp{CompanyID: company,
			Name: "Token of " + userID, Scopes: identity.AllScopes()})
		if err != nil {
			return err
		}
		if err := fixture.AddManager(ctx, tx, company, userID); err != nil {
			return err
		}
		_, token, err := identity.CreateAccessToken(ctx, tx, identity.Sandbox, identity.NewAccessToken{
			CompanyID: company, AppID: app.ID, UserID: userID, Scopes: identity.NewScopes(scopes...)})
		auth = "Bearer " + token
		return err
	})
	return auth
}

func (d *scriptClient) write(t *testing.T, f func(context.Context, *db.Tx) error) {
	t.Helper()
	testkit.Check(t, d.s.DB().Write(t.Context(), f))
}

// stored counts the rows that requests write, and their versions.
func (d *scriptClient) stored() string {
	query := "SELECT ''"
	for _, table := range []string{
		"users", "company_users", "recipients", "destination_owners", "destinations", "destination_changes", "invitations",
		"mails WHERE template <> 'payment_sent'", "webhook_endpoints", "claims", "withdrawals",
		// Jobs emit events about states, also those of earlier scripts.
		"events WHERE name NOT LIKE '%status%' AND name <> 'distribution.checked' AND " +
			"(name LIKE 'user.%' OR name LIKE 'recipient.%' OR name LIKE 'distribution.%' OR name LIKE 'invoice.%')",
		"payers", "invoices", "vendor_documents", "vendor_document_chunks", "funding_accounts", "funding_receipts", "wallets",
		"subjects", "documents", "document_chunks", "tax_ids", "verifications", "owners", "company_profiles", "idempotency",
	} {
		query += " || ' ' || (SELECT CAST(COUNT(*) AS TEXT) FROM " + table + ")"
	}
	for _, table := range []string{"users", "recipients", "destination_owners", "payers", "invoices", "vendor_documents",
		"verifications"} {
		query += " || ' ' || (SELECT CAST(COALESCE(SUM(version), 0) AS TEXT) FROM " + table + ")"
	}
	var text string
	d.read(func(ctx context.Context, tx *db.Tx) error { return tx.QueryRow(ctx, query).Scan(&text) })
	return fmt.Sprint(d.effects(), text)
}

// set does what a step "set" names:
//
//	set $user user ada@example.com                a user who signs in and has no company
//	set $app app                                  an app of the company: its client ID, and $app_secret
//	set $code code CLIENT [verifier=V] [scope=S]  the authorization code with which the administrator allows an app
//	set $header basic ID SECRET                   the header of HTTP Basic
//	set $text upper TEXT                          the text in capital letters
//	set $id correction OWNER MEMBER VALUE         a correction that the bank asks for the owner's first destination
//	set $text text VALUE                          the value
//	set $day day 20                               the date in 20 days
//	set $deposit credit COMPANY 100.00 USD        a deposit to the company's balance
//	set $verified verified COMPANY                the company is verified
//	set $frozen frozen COMPANY                    the company is frozen
//	set $owner disconnects COMPANY                an owner, who disconnects the company's platform
//	set $limit limit COMPANY 100.00 USD           the company's payments above a limit wait for an approval
//	set $ada administrator COMPANY [new] [owner]  an administrator for long or newly, or an owner, with an authenticator:
//	                                              $ada_code is a code of it, $ada_spare a recovery code; and $ada_email
func (d *scriptClient) set(t *testing.T, name, what string, set func(name, value string)) {
	words := strings.Fields(what)
	switch words[0] {
	case "basic":
		set(name, "Basic "+base64.StdEncoding.EncodeToString([]byte(strings.Join(append(words[1:], "")[:2], ":"))))
		return
	case "upper":
		set(name, strings.ToUpper(words[1]))
		return
	case "owned": // waits until the operator owns a part of an asset
		asset := money.Asset(words[1])
		eventually(t, 60*time.Second, "the operator owns "+words[1], func() bool { return d.owned(asset).Sign() > 0 })
		set(name, d.owned(asset).String())
		return
	}
	d.write(t, func(ctx context.Context, tx *db.Tx) error {
		switch words[0] {
		case "user":
			u, err := identity.CreateUser(ctx, tx, d.s.Sealer(), identity.NewUser{Profile: identity.Profile{
				Email: words[1], FirstName: "Free", LastName: "Agent", Country: "US"}})
			set(name, u.ID)
			return err
		case "worker":
			_, err := payee.AddWorker(ctx, tx, words[1], words[2], payee.Contractor)
			set(name, words[2])
			return err
		case "app":
			scopes := words[1:]
			if len(scopes) == 0 {
				scopes = []identity.Scope{identity.CompanyDetail}
			}
			a, secret, err := identity.CreateApp(ctx, tx, identity.Sandbox, identity.NewApp{CompanyID: d.seed.CompanyID,
				Name: "Books", RedirectURI: d.seed.RedirectURI, Scopes: identity.NewScopes(scopes...)})
			set(name, a.ClientID)
			set(name+"_secret", secret)
			return err
		case "code":
			p := oauth.Params{ClientID: words[1], State: "s"}
			consenting, company := sandbox.SeedID("usr", "admin"), d.seed.CompanyID
			for _, word := range words[2:] {
				switch name, value, _ := strings.Cut(word, "="); name {
				case "verifier":
					sum := sha256.Sum256([]byte(value))
					p.Challenge, p.Method = base64.RawURLEncoding.EncodeToString(sum[:]), "S256"
				case "scope":
					p.Scope = strings.ReplaceAll(value, "+", " ")
				case "user": // without a company
					consenting, company = value, ""
				case "redirect":
					p.RedirectURI, p.ResponseType = value, "code"
				}
			}
			r, err := oauth.Check(ctx, tx, p)
			if err != nil {
				return err
			}
			u, err := identity.GetUser(ctx, tx, d.s.Sealer(), consenting)
			if err != nil {
				return err
			}
			code, err := oauth.Grant(ctx, tx, identity.Sandbox, u, company, r)
			set(name, code)
			return err
		case "text":
			set(name, strings.TrimSpace(strings.TrimPrefix(what, "text")))
			return nil
		case "day":
			days, err := strconv.Atoi(words[1])
			set(name, tx.Now().AddDate(0, 0, days).Format(time.DateOnly))
			return err
		case "credit":
			a, err := money.Parse(money.Asset(words[3]), words[2])
			if err != nil {
				return err
			}
			id := tx.NewID("dep")
			set(name, id)
			return ledger.Post(tx, ledger.Journal{CompanyID: words[1], SourceType: "bank_deposit", SourceID: id,
				Purpose: "credit",
				Lines:   []ledger.Line{ledger.Debit(ledger.Bank, "", a), ledger.Credit(ledger.CompanyFunds, "", a)}})
		case "disconnects":
			u, err := identity.CreateUser(ctx, tx, d.s.Sealer(), identity.NewUser{Profile: identity.Profile{
				Email: words[1] + "@example.com", FirstName: "Own", LastName: "Er", Country: "US"}})
			if err != nil {
				return err
			}
			set(name, u.ID)
			err = identity.AddMember(ctx, tx, identity.Member{CompanyID: words[1], UserID: u.ID, Role: identity.RoleOwner})
			if err != nil {
				return err
			}
			return platform.Disconnect(ctx, tx, auth.Actor{CompanyID: words[1], UserID: u.ID})
		case "frozen":
			_, err := tx.Exec(ctx, "UPDATE companies SET status = 'frozen' WHERE company_id = $1", words[1])
			return err
		case "verified":
			_, err := tx.Exec(ctx, "UPDATE companies SET kyb_status = 'approved' WHERE company_id = $1", words[1])
			return err
		case "administrator":
			role := identity.RoleAdmin
			if words[len(words)-1] == identity.RoleOwner {
				role = identity.RoleOwner
			}
			u, err := identity.CreateUser(ctx, tx, d.s.Sealer(), identity.NewUser{Profile: identity.Profile{
				Email: name + "-" + strings.ReplaceAll(words[1], "_", "-") + "@example.com", FirstName: "Old",
				LastName: "Hand", Country: "US"}})
			if err != nil {
				return err
			}
			set(name, u.ID)
			if err := identity.AddMember(ctx, tx, identity.Member{CompanyID: words[1], UserID: u.ID,
				Role: role}); err != nil {
				return err
			}
			if words[len(words)-1] != "new" {
				if _, err := tx.Exec(ctx, "UPDATE members SET role_since = 0 WHERE user_id = $1", u.ID); err != nil {
					return err
				}
			}
			if err := auth.Enroll(ctx, tx, d.s.Sealer(), u); err != nil {
				return err
			}
			made, err := auth.PendingEnrollment(ctx, tx, d.s.Sealer(), u, "Stipend")
			if err != nil {
				return err
			}
			before := time.Now().Add(-time.Minute)
			old, err := totp.GenerateCode(made.Key, before)
			if err != nil {
				return err
			}
			spare, _, err := auth.Confirm(ctx, tx, d.s.Sealer(), auth.Person{User: u, Language: "en"}, old, before)
			if err != nil {
				return err
			}
			code, err := totp.GenerateCode(made.Key, time.Now())
			set(name+"_code", code)
			set(name+"_spare", spare[0])
			set(name+"_email", u.Email)
			return err
		case "limit":
			a, err := money.Parse(money.Asset(words[3]), words[2])
			if err != nil {
				return err
			}
			_, err = tx.Exec(ctx, `INSERT INTO approval_limits (company_id, currency, amount, proposal_id, proposed_by,
				proposed_currency, proposed_amount, set_at, updated_at) VALUES ($1, $2, $3, '', '', '', 0, 0, 0)`, words[1],
				words[3], a.Units())
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

// ServeHTTP receives a webhook, or returns the last one that was sent to a path: how many there were, its ID, its
// body, and whether the secret in the header Secret verifies its signature.
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
	verifier, err := standardwebhooks.NewWebhook(r.Header.Get("Secret"))
	if err == nil {
		err = verifier.VerifyIgnoringTimestamp([]byte(got.body), got.header)
	}
	_ = json.NewEncoder(w).Encode(object{
		"count": got.count, "id": got.header.Get("webhook-id"), "body": got.body, "verified": err == nil,
	})
}
