package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stipend/stipend/cmd/stipend/cli"
	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/invoice/payer"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/sandbox"
	"github.com/stipend/stipend/internal/sandbox/apiclient"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/web/webtest"
	stipend "github.com/stipend/stipend/sdk/go"
)

// service is a running service and its configuration.
type service struct {
	*app.Service
	cfg app.Config
}

// testLogger logs warnings to the test.
func testLogger(w io.Writer, level string) *slog.Logger {
	var l slog.Level
	_ = l.UnmarshalText([]byte(level))
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: l}))
}

// boot starts a whole sandbox on a database and stops it when the test ends. A test that mostly waits runs in
// parallel with others (t.Parallel). A test that measures the process must not.
func boot(t *testing.T, url string, change ...func(*app.Config)) *service {
	t.Helper()
	testkit.NotQuick(t, "seconds")
	return start(t, url, change...)
}

// start does the same as boot, and also runs in quick test runs.
func start(t *testing.T, url string, change ...func(*app.Config)) *service {
	t.Helper()
	c := defaults(t)
	c.DatabaseURL, c.Listen, c.MetricsListen = url, "127.0.0.1:0", "127.0.0.1:0"
	c.BlockInterval, c.PollInterval = 200*time.Millisecond, 20*time.Millisecond
	for _, f := range change {
		f(&c)
	}
	t.Cleanup(func() { testkit.Check(t, os.RemoveAll(app.SimulatedBankDir(url))) })
	begin := app.Start
	if c.Simulated() && len(c.BitcoinWitness) > 0 { // only tests have a second node of the simulated chain
		c, begin = c.Complete(), app.StartUnchecked
	}
	s, err := begin(t.Context(), c, testLogger(t.Output(), "warn"))
	testkit.Check(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), app.StopTimeout)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return &service{s, c}
}

// eventually calls ok until it returns true, and fails the test if the deadline passes first.
func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	if !await(t, within, ok) {
		t.Fatalf("not within %s: %s", within, what)
	}
}

// await calls ok until it returns true, and reports whether that happened before the deadline.
func await(t *testing.T, within time.Duration, ok func() bool) bool {
	end := time.NewTimer(within)
	defer end.Stop()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for !ok() {
		select {
		case <-end.C:
			return false
		case <-again.C:
		}
	}
	return true
}

// A company creates a payroll and pays it, and every payee receives their money. The test uses only the public
// interface.
func TestFromCreateToFulfilled(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, url string) {
		s := start(t, url)
		seed := s.Ready().Seed
		client := stipend.New(s.Ready().BaseURL, stipend.APIKey(seed.APIKey))
		created, err := client.Payrolls.Create(t.Context(), &stipend.PayrollCreateParams{
			CompanyID: seed.CompanyID, Currency: "USD", ToPay: []stipend.ToPayItem{
				{UserID: seed.Workers[0].UserID, AmountFiat: "600.00"},
				{UserID: seed.Workers[1].UserID, AmountFiat: "250.50"},
				{CompanyID: seed.Recipients[1].RecipientID, AmountFiat: "49.50"},
			},
		})
		testkit.Check(t, err)
		v, f, sum := created.VolumeInputInInputCurrency, created.Fees, created.TotalInputInInputCurrency
		if v != "900.00" || f != "9.00" || sum != "909.00" {
			t.Errorf("volume %s, fees %s, total %s; want 900.00, 9.00, 909.00", v, f, sum)
		}
		if q := created.Quote; q.FundingAmount != "0.01818000" || !strings.HasPrefix(q.FundingDetails.Address, "bcrt1q") {
			t.Errorf("quote %+v, want 0.01818000 BTC to a regtest address", q)
		}
		deposit := &stipend.SandboxDepositParams{PayrollID: created.PayrollID, Kind: "exact"}
		if _, err := client.Sandbox.Deposit(t.Context(), deposit); err != nil {
			t.Fatal(err)
		}
		var last *stipend.PayrollDetail
		eventually(t, 60*time.Second, "payroll fulfilled", func() bool {
			if last, err = client.Payrolls.Get(t.Context(), created.PayrollID, nil); err != nil {
				t.Fatal(err)
			}
			return last.Status == "fulfilled"
		})
		for _, p := range last.Payments {
			if p.Status != "fulfilled" || len(p.Outputs) != 1 || p.Outputs[0].TxHash == "" {
				t.Errorf("payment %+v, want one fulfilled output with a transaction", p)
			}
		}
		// Every payee who was paid gets an email. Without a mail server, a sandbox stores the emails.
		type kept struct{ Template, To, Text string }
		var sent []kept
		eventually(t, 30*time.Second, "an email for each payment", func() bool {
			var mails struct{ Data []kept }
			api := &apiclient.Client{BaseURL: s.Ready().BaseURL, Key: seed.APIKey}
			testkit.Check(t, api.Get(t.Context(), "/api/sandbox/mails?per_page=100", &mails))
			sent = slices.DeleteFunc(mails.Data, func(m kept) bool { return m.Template != "payment_sent" })
			return len(sent) == len(last.Payments)
		})
		for _, m := range sent {
			if !strings.Contains(m.To, "@") || !strings.Contains(m.Text, "The payment is complete.") || !strings.Contains(m.Text,
				" BTC (bcrt1q") {
				t.Errorf("mail %+v", m)
			}
		}
		report, err := checkLedger(t.Context(), s)
		if err != nil || len(report.Problems) > 0 || report.Journals == 0 {
			t.Errorf("ledger: %+v, %v", report, err)
		}
	})
}

// A running service reports that it is ready, serves its metrics, and stops in an orderly way.
func TestServeAnswersAndStops(t *testing.T) {
	s := boot(t, dbtest.SQLite(t))
	if code, _ := get(t, s.Ready().BaseURL+"/readyz"); code != http.StatusOK {
		t.Errorf("/readyz answers %d", code)
	}
	if code, body := get(t, s.Ready().MetricsURL); code != http.StatusOK || !strings.Contains(body,
		"stipend_jobs_waiting") {
		t.Errorf("/metrics answers %d without the metrics of jobs", code)
	}
	monitoring := strings.TrimSuffix(s.Ready().MetricsURL, "/metrics")
	for path, want := range map[string]string{"/healthz": `{"status":"ok"}`, "/readyz": `{"status":"ready"}`} {
		if code, body := get(t, monitoring+path); code != http.StatusOK || body != want {
			t.Errorf("%s of the metrics answers %d %s", path, code, body)
		}
	}
	// The API and the pages share one address. Each answers its own paths, and unknown paths get a 404.
	for path, want := range map[string]string{
		"/": "<h1>", "/healthz": `{"status":"ok"}`, "/api": `"code":"not_found"`, "/api/nowhere": `"code":"not_found"`,
		"/docs/error-codes": "Error codes",
		"/oauth2/nowhere":   `"code":"not_found"`, "/nowhere": "<code>not_found</code>",
		"//api/company": `"code":"not_found"`, "/./api/company": `"code":"not_found"`, "/API/company": `"code":"not_found"`,
		"/apinowhere": "<code>not_found</code>", "/openapi.json": `"openapi"`,
	} {
		if _, body := get(t, s.Ready().BaseURL+path); !strings.Contains(body, want) {
			t.Errorf("%s answers\n%s\nwant %s", path, body, want)
		}
	}
	for accept, want := range map[string]string{
		"application/json": `"code":"not_found"`, "text/html, application/json": "<code>not_found</code>",
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.Ready().BaseURL+"/nowhere", nil)
		testkit.Check(t, err)
		req.Header.Set("Accept", accept)
		res, err := http.DefaultClient.Do(req)
		testkit.Check(t, err)
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		testkit.Check(t, err)
		if res.StatusCode != http.StatusNotFound || !strings.Contains(string(body), want) {
			t.Errorf("an unknown path answers a client that accepts %s with %d %s", accept, res.StatusCode, body)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Wait(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
	if res, err := http.Get(s.Ready().BaseURL + "/readyz"); err == nil {
		res.Body.Close()
		t.Error("a stopped service still answers")
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	res, err := http.Get(url)
	testkit.Check(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	testkit.Check(t, err)
	return res.StatusCode, string(body)
}

// The line that serve --json prints does not change, because other programs parse it.
func TestReadyLine(t *testing.T) {
	s := start(t, dbtest.SQLite(t))
	line, err := json.Marshal(s.Ready())
	testkit.Check(t, err)
	if bytes.Contains(line, []byte("\n")) {
		t.Error("serve printed more than one line")
	}
	var got map[string]any
	testkit.Check(t, json.Unmarshal(line, &got))
	seed := sandbox.DefaultSeed()
	want := map[string]any{
		"base_url": s.Ready().BaseURL, "auth_url": s.Ready().BaseURL, "metrics_url": s.Ready().MetricsURL,
		"environment": "sandbox",
		"seed": map[string]any{
			"company_id": seed.CompanyID, "api_key": seed.APIKey, "client_id": seed.ClientID, "client_secret": seed.ClientSecret,
			"redirect_uri": seed.RedirectURI, "payer_id": seed.PayerID,
			"admin": map[string]any{"email": seed.Admin.Email, "password": seed.Admin.Password},
			"workers": []any{
				map[string]any{"user_id": seed.Workers[0].UserID, "email": "ada@sandbox.example"},
				map[string]any{"user_id": seed.Workers[1].UserID, "email": "grace@sandbox.example"},
				map[string]any{"user_id": seed.Workers[2].UserID, "email": "edsger@sandbox.example"},
			},
			"recipients": []any{
				map[string]any{"recipient_id": seed.Recipients[0].RecipientID, "recipient_type": "user"},
				map[string]any{"recipient_id": seed.Recipients[1].RecipientID, "recipient_type": "company"},
			},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the ready line changed (-want +got):\n%s", diff)
	}
}

// The seed is the same at every start. Its credentials work, and its payees can be paid.
func TestSeed(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		sealer, err := identity.NewSealer(sandbox.DataKey())
		testkit.Check(t, err)
		c := defaults(t).Complete()
		for range 2 {
			testkit.Check(t, sandbox.WriteSeed(t.Context(), d, sandbox.SeedOptions{
				Sealer: sealer, Setup: destination.Setup{Sealer: sealer, BitcoinNetwork: c.BitcoinNetwork, Chain: app.BitcoinChain},
				FeeBps: c.FeeBps,
			}))
		}
		seed := sandbox.DefaultSeed()
		err = d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			p, err := identity.Authenticate(ctx, tx, "Basic", seed.APIKey, identity.Sandbox)
			if err != nil {
				return err
			}
			if p.CompanyID != seed.CompanyID || p.Scopes != identity.AllScopes() {
				t.Errorf("the API key belongs to %+v", p)
			}
			app, err := identity.AppByClientID(ctx, tx, seed.ClientID)
			if err != nil {
				return err
			}
			if !app.CheckSecret(seed.ClientSecret) || app.RedirectURI != seed.RedirectURI {
				t.Error("the client secret or the redirect address is not the app's")
			}
			admin, err := identity.UserByEmail(ctx, tx, seed.Admin.Email)
			if err != nil {
				return err
			}
			if ok, err := admin.CheckPassword(seed.Admin.Password); err != nil || !ok {
				t.Errorf("the admin cannot sign in: %v", err)
			}
			owners := []string{seed.Recipients[0].RecipientID, seed.Recipients[1].RecipientID}
			for _, w := range seed.Workers {
				owners = append(owners, w.UserID)
			}
			all, err := destination.ForOwners(ctx, tx, owners)
			if err != nil {
				return err
			}
			for _, id := range owners {
				sum, want := 0, 1
				if id == seed.Workers[sandbox.BankWorker].UserID {
					want = 2
				}
				for _, x := range all[id] {
					sum += x.Allocation
				}
				if sum != 100 || len(all[id]) != want {
					t.Errorf("%s has %d destinations that take %d %%, want %d and 100", id, len(all[id]), sum, want)
				}
			}
			_, err = payer.Get(ctx, tx, seed.CompanyID, seed.PayerID)
			return err
		})
		testkit.Check(t, err)
	})
}

// A payment that the sandbox was asked to fail needs action, and does not delay the other payments.
func TestPayoutFailureInTheSandbox(t *testing.T) {
	s := boot(t, dbtest.SQLite(t))
	seed := s.Ready().Seed
	api := &apiclient.Client{BaseURL: s.Ready().BaseURL, Key: seed.APIKey}
	var made createdPayroll
	testkit.Check(t, api.Post(t.Context(), "/api/company/payroll/create", map[string]any{
		"to_pay": []map[string]any{
			{"user_id": seed.Workers[0].UserID, "amount_fiat": 100}, {"user_id": seed.Workers[1].UserID, "amount_fiat": 100},
		},
	}, &made))
	var detail payrollDetail
	path := "/api/company/payrolls/" + made.PayrollID
	testkit.Check(t, api.Get(t.Context(), path, &detail))
	if err := api.Post(t.Context(), "/api/sandbox/payout-failure", map[string]any{"subpayroll_id": detail.Payments[0].ID},
		nil); err != nil {
		t.Fatal(err)
	}
	if err := api.Post(t.Context(), "/api/sandbox/deposit", map[string]any{"payroll_id": made.PayrollID, "kind": "exact"},
		nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, 60*time.Second, "one payment fulfilled, one that needs action", func() bool {
		detail = payrollDetail{}
		testkit.Check(t, api.Get(t.Context(), path, &detail))
		return detail.Payments[0].Status == "action_required" && detail.Payments[1].Status == "fulfilled"
	})
}

// The demo uses the API like any other client, and completes on a service that it starts itself.
func TestDemo(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	cmd := cli.DemoCmd{Payees: 4, Amount: "25.00", DataDir: t.TempDir(), BitcoinNetwork: "regtest",
		Timeout: 2 * time.Minute}
	if err := cmd.Run(t.Context(), cli.Streams{Out: &out}); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{"100.00 USD", "Price    50000", "▀", "confirmed in full", "4 of 4 payments",
		"The ledger balances."} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the demo does not show %q:\n%s", want, out.String())
		}
	}
}

// The operator's legal texts are pages of the service. The terms of funding accounts, which have a path below one of
// them, belong to the API.
func TestLegalTextsOfTheOperatorArePages(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"terms", "privacy"} {
		testkit.Check(t, os.WriteFile(filepath.Join(dir, name+".en.md"), []byte("Version: 2026-07-01\n\nText of "+name+
			".\n"), 0o600))
	}
	s := boot(t, dbtest.SQLite(t), func(c *app.Config) { c.LegalTexts = dir })
	v := webtest.NewVisitor(t, s.Ready().BaseURL)
	for _, name := range []string{"terms", "privacy"} {
		if got := v.Get("/" + name); got.Status != http.StatusOK || !got.Contains("Text of "+name) {
			t.Errorf("/%s: got status %d\n%s", name, got.Status, got.Text)
		}
	}
	if got := v.Get("/terms/funding-account"); got.Status != http.StatusOK || got.Contains("Text of terms") {
		t.Errorf("the terms of funding accounts: got status %d\n%s", got.Status, got.Text)
	}
}
