package app_test

import (
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/stipend/stipend/cmd/stipend/cli"
	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/lightning/lightningtest"
	"github.com/stipend/stipend/internal/sandbox"
	"github.com/stipend/stipend/internal/testkit"
)

func defaults(t *testing.T) app.Config {
	t.Helper()
	c, err := app.Defaults()
	testkit.Check(t, err)
	return c
}

// A sandbox needs no settings.
func TestSandboxDefaultsAreComplete(t *testing.T) {
	if err := defaults(t).Check(); err != nil {
		t.Error(err)
	}
}

// Production refuses to start with the sandbox's defaults, and one error names every missing setting.
func TestProductionNamesEverythingMissing(t *testing.T) {
	c := defaults(t)
	c.Env = app.Production
	err := c.Check()
	if err == nil {
		t.Fatal("production started on the sandbox's defaults")
	}
	for _, flag := range []string{"--data-key", "--bitcoin-xprv", "--bitcoin-xpub", "--bitcoin-rpc", "--database-url",
		"--smtp-url", "--mail-from", "--base-url", "--sanctions-list"} {
		if !strings.Contains(err.Error(), flag+" is missing") {
			t.Errorf("the error does not name %s:\n%v", flag, err)
		}
	}
}

// production returns complete production settings.
func production(t *testing.T) app.Config {
	t.Helper()
	c := defaults(t)
	c.Env = app.Production
	c.DatabaseURL = "postgres://db/stipend"
	c.BitcoinRPC = "http://user:password@127.0.0.1:8332"
	c.DataKey = strings.Repeat("ab", 32)
	c.SMTPURL, c.MailFrom, c.BaseURL = "smtp://stipend:password@mail.example.com", "payments@example.com",
		"https://pay.example.com"
	c.SanctionsList = []string{"/var/lib/stipend/sdn.xml"}
	var err error
	if c.BitcoinXPrv, err = newKey(t, "bitcoin"); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestProductionRefusesSandboxKeysUnderAnyName(t *testing.T) {
	if err := production(t).Check(); err != nil {
		t.Fatalf("complete production settings: %v", err)
	}
	sandboxPub, err := publicKey(sandbox.BitcoinKey())
	testkit.Check(t, err)
	other, err := newKey(t, "bitcoin")
	testkit.Check(t, err)
	otherPub, err := publicKey(other)
	testkit.Check(t, err)
	for name, tt := range map[string]struct {
		change func(*app.Config)
		want   string
	}{
		"data key": {func(c *app.Config) { c.DataKey = hex.EncodeToString(sandbox.DataKey()) },
			"--data-key is the sandbox's"},
		"data key too short": {func(c *app.Config) { c.DataKey = "abcd" }, "want 32 bytes"},
		"private key, testnet": {func(c *app.Config) {
			c.BitcoinXPrv, c.BitcoinNetwork = sandbox.BitcoinKey(),
				"testnet"
		}, "--bitcoin-xprv is the sandbox's"},
		"public key, testnet": {func(c *app.Config) {
			c.BitcoinXPrv, c.BitcoinXPub, c.BitcoinNetwork = "", sandboxPub,
				"testnet"
		}, "--bitcoin-xpub is the sandbox's"},
		"private key, wrong net": {func(c *app.Config) { c.BitcoinXPrv = sandbox.BitcoinKey() },
			"not one of network bitcoin"},
		"keys that are no pair": {func(c *app.Config) { c.BitcoinXPub = otherPub }, "not one pair"},
		"worker without its key": {func(c *app.Config) { c.BitcoinXPrv, c.BitcoinXPub = "", otherPub },
			"--bitcoin-xprv is missing"},
		"simulated chain":          {func(c *app.Config) { c.BitcoinRPC = "" }, "--bitcoin-rpc is missing"},
		"regtest":                  {func(c *app.Config) { c.BitcoinNetwork = "regtest" }, "a chain that anybody can mine"},
		"SQLite":                   {func(c *app.Config) { c.DatabaseURL = "" }, "--database-url is missing"},
		"mail server of no scheme": {func(c *app.Config) { c.SMTPURL = "mail.example.com:587" }, "--smtp-url: want smtp"},
		"two senders": {func(c *app.Config) { c.MailFrom = "a@example.com, b@example.com" },
			"--mail-from must be one"},
		"witness of no address": {func(c *app.Config) { c.BitcoinWitness = []string{"127.0.0.1:8332"} },
			"--bitcoin-witness must be"},
		"witness, simulated chain": {func(c *app.Config) {
			c.BitcoinRPC, c.BitcoinWitness = "",
				[]string{"http://127.0.0.1:8332"}
		}, "--bitcoin-witness needs --bitcoin-rpc"},
		"witness of no network": {func(c *app.Config) {
			c.EVMWitness = map[string]string{
				"base": "http://127.0.0.1:8545"}
		}, "--evm-witness: base has no node"},
		"role that does not exist": {func(c *app.Config) { c.Roles = []string{"cook"} }, "no role"},
	} {
		t.Run(name, func(t *testing.T) {
			c := production(t)
			tt.change(&c)
			if err := c.Check(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error that contains %q", err, tt.want)
			}
		})
	}

	sqlite := production(t)
	sqlite.DatabaseURL, sqlite.AllowSQLite = "", true
	if err := sqlite.Check(); err != nil {
		t.Errorf("SQLite with the flag that allows it: %v", err)
	}
	faces := production(t)
	faces.BitcoinXPrv, faces.BitcoinXPub, faces.Roles = "", otherPub, []string{app.RoleAPI, app.RoleWatcher}
	if err := faces.Check(); err != nil {
		t.Errorf("a process without the worker role needs no private key: %v", err)
	}
}

// Errors about the configuration never contain a key, because they go to logs and terminals.
func TestRefusalsKeepSecrets(t *testing.T) {
	c := production(t)
	secret := c.BitcoinXPrv
	c.BitcoinNetwork, c.DataKey = "signet", "my secret data key"
	err := c.Check()
	if err == nil {
		t.Fatal("a key of another network was accepted")
	}
	if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), c.DataKey) {
		t.Errorf("the error contains a secret: %v", err)
	}
}

// Every setting is a flag and an environment variable of the same name, and has a help text. Flags override
// environment variables.
func TestEverySettingIsAFlagAndAnEnvironmentVariable(t *testing.T) {
	var commands cli.CLI
	parser, err := kong.New(&commands, cli.Options()...)
	testkit.Check(t, err)
	i := slices.IndexFunc(parser.Model.Children, func(n *kong.Node) bool { return n.Name == "serve" })
	for _, f := range parser.Model.Children[i].Flags {
		want := "STIPEND_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if f.Name == "otlp-endpoint" {
			want = "OTEL_EXPORTER_OTLP_ENDPOINT" // the name that OpenTelemetry specifies
		}
		if len(f.Envs) != 1 || f.Envs[0] != want || f.Help == "" {
			t.Errorf("--%s: environment %v, want %s; help %q", f.Name, f.Envs, want, f.Help)
		}
	}
	t.Setenv("STIPEND_LISTEN", "127.0.0.1:1")
	t.Setenv("STIPEND_ROLES", "api,worker")
	if _, err := parser.Parse([]string{"serve", "--listen", "127.0.0.1:2", "--json"}); err != nil {
		t.Fatal(err)
	}
	if c := commands.Serve.Config; c.Listen != "127.0.0.1:2" || !c.JSON || len(c.Roles) != 2 || c.Has(app.RoleWatcher) {
		t.Errorf("parsed %+v", c)
	}
}

// Production accepts the settings that keys new prints.
func TestNewKeysAreProductionKeys(t *testing.T) {
	var out strings.Builder
	testkit.Check(t, (cli.KeysNewCmd{Network: "bitcoin"}).Run(cli.Streams{Out: &out}))
	set := map[string]string{}
	for line := range strings.Lines(out.String()) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
			set[name] = value
		}
	}
	c := production(t)
	c.BitcoinXPub, c.BitcoinXPrv, c.DataKey = set["STIPEND_BITCOIN_XPUB"], set["STIPEND_BITCOIN_XPRV"],
		set["STIPEND_DATA_KEY"]
	c.EVMRPC = map[string]string{"ethereum": "http://127.0.0.1:8545"}
	c.EVMXPub, c.EVMXPrv = set["STIPEND_EVM_XPUB"], set["STIPEND_EVM_XPRV"]
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	var shown strings.Builder
	if err := (cli.KeysShowCmd{Config: c}).Run(cli.Streams{Out: &shown, Err: &shown}); err != nil ||
		!strings.Contains(shown.String(), "EVM public key "+c.EVMXPub) || strings.Contains(shown.String(), c.EVMXPrv) {
		t.Errorf("%v\n%s", err, shown.String())
	}
	d, err := bitcoin.ParseXPub(c.BitcoinXPub, "bitcoin")
	testkit.Check(t, err)
	if a, err := d.Address(0, 0); err != nil || !strings.HasPrefix(a, "bc1q") {
		t.Errorf("first address %q, %v", a, err)
	}
}

// Lightning's settings must be complete. A process that does not connect to a node does not need the files that the
// settings name.
func TestLightningIsSetUpWhole(t *testing.T) {
	node := lightningtest.Start(t)
	whole := func() app.Config {
		c := defaults(t)
		c.LndURL, c.LndMacaroonFile, c.LndTLSCertFile = node.URL(), file(t, "m", node.Macaroon), file(t, "c",
			node.Certificate)
		return c
	}
	if err := whole().Check(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*app.Config){
		"--lnd-url is missing":           func(c *app.Config) { c.LndURL = "" },
		"--lnd-macaroon-file is missing": func(c *app.Config) { c.LndMacaroonFile = "" },
		"--lnd-macaroon-file: open":      func(c *app.Config) { c.LndMacaroonFile += "x" },
		"--lnd-tls-cert-file: open":      func(c *app.Config) { c.LndTLSCertFile += "x" },
		"certificate is not PEM":         func(c *app.Config) { c.LndTLSCertFile = c.LndMacaroonFile },
		"must be like https://":          func(c *app.Config) { c.LndURL = "http" + strings.TrimPrefix(c.LndURL, "https") },
	} {
		c := whole()
		change(&c)
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	c := whole()
	c.Roles, c.LndMacaroonFile, c.LndTLSCertFile = []string{app.RoleAPI}, "", ""
	if err := c.Check(); err != nil {
		t.Errorf("a process that only serves requests: %v", err)
	}
}

// The service checks real chains at its usual interval. It does the same for a simulated chain, unless blocks come
// quickly.
func TestAQuickWorldIsQuickInAll(t *testing.T) {
	for _, c := range []struct {
		rpc          string
		blocks, want time.Duration
	}{
		{"http://127.0.0.1:18443", 10 * time.Millisecond, 5 * time.Second},
		{"", time.Hour, 5 * time.Second},
		{"", time.Second, 5 * time.Second},
		{"", 200 * time.Millisecond, time.Second},
	} {
		config := app.Config{Bitcoin: app.Bitcoin{BitcoinRPC: c.rpc, BlockInterval: c.blocks}}
		if got := config.CheckInterval(); got != c.want {
			t.Errorf("with a block every %s at %q: %s, want %s", c.blocks, c.rpc, got, c.want)
		}
	}
}

// newKey returns the private key of a new account.
func newKey(t *testing.T, network string) (string, error) {
	t.Helper()
	var out strings.Builder
	err := cli.KeysNewCmd{Network: network}.Run(cli.Streams{Out: &out})
	_, key, _ := strings.Cut(out.String(), "STIPEND_BITCOIN_XPRV=")
	key, _, _ = strings.Cut(key, "\n")
	return key, err
}

// publicKey returns the public key of a private key.
func publicKey(key string) (string, error) {
	for _, network := range []string{"bitcoin", "regtest"} {
		if s, err := bitcoin.ParseXPriv(key, network); err == nil {
			return s.Deriver().XPub(), nil
		}
	}
	return "", errors.New("not a private key")
}

// Accounts with an API need its key and no directory; accounts that are paid from by files need a directory.
func TestAccountsWithAnAPINeedItsKey(t *testing.T) {
	const byAPI = `{"id":"usd","currency":"USD","format":"increase","name":"Example","number":"account_1"}`
	const byFile = `{"id":"eur","currency":"EUR","format":"pain.001","name":"Example","number":"DE89370400440532013000",
		"town":"Berlin","country":"DE","calendar":"target","cut_off":"15:00","zone":"Europe/Berlin"}`
	const byWise = `{"id":"wise","currency":"EUR","format":"wise","name":"Example","number":"64","profile":"101"}`
	for name, tt := range map[string]struct{ accounts, key, want string }{
		"a key":              {byAPI, "secret", ""},
		"another bank's key": {strings.Replace(byAPI, "increase", "column", 1), "secret", "--column-key is missing"},
		"no key":             {byAPI, "", "--increase-key is missing"},
		"Wise without token": {byWise, "secret", "--wise-token is missing"},
		"a file account too": {byAPI + "," + byFile, "secret", "--bank-dir"},
		"another currency":   {strings.Replace(byAPI, "USD", "EUR", 1), "secret", "must be in USD"},
		"a bad limit": {strings.Replace(byAPI, `"name"`, `"instant_limit":"much","name"`, 1), "secret",
			"instant_limit"},
	} {
		t.Run(name, func(t *testing.T) {
			c := production(t)
			c.BankAccounts, c.IncreaseKey = filepath.Join(t.TempDir(), "accounts.json"), tt.key
			testkit.Check(t, os.WriteFile(c.BankAccounts, []byte("["+tt.accounts+"]"), 0o600))
			err := c.Check()
			if tt.want == "" {
				testkit.Check(t, err)
			} else if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	for want, set := range map[string]func(c *app.Config){
		"":                   func(c *app.Config) { c.ModulrKey, c.ModulrSecret, c.ModulrAccount = "k", "s", "A123AAA4" },
		"--modulr-key needs": func(c *app.Config) { c.ModulrKey, c.ModulrSecret = "k", "s" },
	} {
		c := production(t)
		set(&c)
		if err := c.Check(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("Modulr: %v, want %q", err, want)
		}
	}
	c := production(t)
	c.WiseWebhookKeyFile = filepath.Join(t.TempDir(), "missing.pem")
	if err := c.Check(); err == nil || !strings.Contains(err.Error(), "--wise-webhook-key-file") {
		t.Errorf("a missing key: %v", err)
	}
}

// Production refuses public addresses of plain HTTP, and warns of connections that others can read.
func TestProductionProtectsConnections(t *testing.T) {
	for address, allowed := range map[string]bool{
		"http://pay.example.com": false, "https://pay.example.com": true, "http://127.0.0.1:8080": true,
		"http://localhost:8080": true, "http://10.0.0.1": false,
	} {
		c := production(t)
		c.BaseURL, c.AuthURL = address, address
		if err := c.Check(); (err == nil) != allowed {
			t.Errorf("--base-url %s: %v", address, err)
		}
	}
	c := production(t)
	c.Signer = "unix:/run/stipend/signer.sock" // without a signer there is one more warning
	for _, tt := range []struct{ database, metrics, want string }{
		{"postgres://db.example.com/stipend?sslmode=disable", "127.0.0.1:9090", "not encrypted"},
		{"postgres://db.example.com/stipend?sslmode=require", "127.0.0.1:9090", "not verified"},
		{"postgres://db.example.com/stipend?sslmode=verify-full", "127.0.0.1:9090", ""},
		{"postgres://db.example.com/stipend", "127.0.0.1:9090", "not encrypted"},
		{"postgres://localhost/stipend?sslmode=disable", "10.0.0.1:9090", ""},
		{"postgres:///stipend?host=/run/postgresql&sslmode=disable", "", ""},
		{"postgres://localhost/stipend", ":9090", "all network interfaces"},
		{"postgres://localhost/stipend", "[::]:9090", "all network interfaces"},
	} {
		c.DatabaseURL, c.MetricsListen = tt.database, tt.metrics
		if got := strings.Join(c.Warnings(), "; "); !strings.Contains(got, tt.want) || (tt.want == "") != (got == "") {
			t.Errorf("%s and %s: warns %q, want %q", tt.database, tt.metrics, got, tt.want)
		}
	}
}

// TestOperatorSettingsAreChecked checks the operator's name, logo, languages and legal texts.
func TestOperatorSettingsAreChecked(t *testing.T) {
	dir := t.TempDir()
	logo := filepath.Join(dir, "logo.svg")
	testkit.Check(t, os.WriteFile(logo, []byte("<svg/>"), 0o600))
	empty := filepath.Join(dir, "empty.png")
	testkit.Check(t, os.WriteFile(empty, nil, 0o600))
	texts := filepath.Join(dir, "legal")
	testkit.Check(t, os.Mkdir(texts, 0o700))
	testkit.Check(t, os.WriteFile(filepath.Join(texts, "terms.en.md"), []byte("Version: 1\nHello\n"), 0o600))
	for name, c := range map[string]struct {
		operator app.Operator
		want     string // of the error; "" for none
	}{
		"all": {app.Operator{OperatorName: "Harbor Pay", OperatorLogo: logo, Languages: []string{"fr", "en"},
			LegalTexts: texts}, ""},
		"markup":            {app.Operator{OperatorName: "<b>"}, "--operator-name"},
		"a template":        {app.Operator{OperatorName: "{{.Company}}"}, "--operator-name"},
		"no such file":      {app.Operator{OperatorLogo: filepath.Join(dir, "none.svg")}, "--operator-logo"},
		"an empty file":     {app.Operator{OperatorLogo: empty}, "--operator-logo"},
		"another type":      {app.Operator{OperatorLogo: filepath.Join(texts, "terms.en.md")}, "--operator-logo"},
		"a language":        {app.Operator{Languages: []string{"en", "xx"}}, "--languages"},
		"no texts":          {app.Operator{LegalTexts: filepath.Join(dir, "none")}, "--legal-texts"},
		"other files there": {app.Operator{LegalTexts: dir}, "--legal-texts"},
	} {
		config := defaults(t)
		config.Operator = c.operator
		err := config.Check()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	complete := app.StaffSSO{StaffSSOIssuer: "https://login.example.com", StaffSSOClientID: "a", StaffSSOClientSecret: "b",
		StaffSSODomains: []string{"example.com"}, StaffSSOOnly: true}
	for name, c := range map[string]struct {
		change func(*app.StaffSSO)
		want   string
	}{
		"all":        {func(*app.StaffSSO) {}, ""},
		"no issuer":  {func(s *app.StaffSSO) { s.StaffSSOIssuer = "" }, "--staff-sso-only"},
		"no client":  {func(s *app.StaffSSO) { s.StaffSSOClientID = "" }, "--staff-sso-client-id"},
		"no secret":  {func(s *app.StaffSSO) { s.StaffSSOClientSecret = "" }, "--staff-sso-client-secret"},
		"any domain": {func(s *app.StaffSSO) { s.StaffSSODomains = nil }, "--staff-sso-domains"},
	} {
		config := defaults(t)
		config.StaffSSO = complete
		c.change(&config.StaffSSO)
		err := config.Check()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("single sign-on of staff, %s: %v, want %q", name, err, c.want)
		}
	}
	travel := app.TravelRule{TravelRuleThreshold: "1000 EUR", TravelRuleName: "Example GmbH",
		TravelRuleStreet: "Unter den Linden 1", TravelRuleCity: "Berlin", TravelRuleCountry: "DE",
		TravelRuleLEI: "529900T8BM49AURSDO55"}
	for name, c := range map[string]struct {
		change func(*app.TravelRule)
		want   string
	}{
		"complete":     {func(*app.TravelRule) {}, ""},
		"off":          {func(r *app.TravelRule) { *r = app.TravelRule{} }, ""},
		"a register":   {func(r *app.TravelRule) { r.TravelRuleLEI, r.TravelRuleRegistration = "", "RA000585/01" }, ""},
		"no currency":  {func(r *app.TravelRule) { r.TravelRuleThreshold = "1000" }, "--travel-rule-threshold"},
		"crypto":       {func(r *app.TravelRule) { r.TravelRuleThreshold = "1 BTC" }, "--travel-rule-threshold"},
		"no name":      {func(r *app.TravelRule) { r.TravelRuleName = "" }, "--travel-rule-name"},
		"no street":    {func(r *app.TravelRule) { r.TravelRuleStreet = "" }, "--travel-rule-street"},
		"no city":      {func(r *app.TravelRule) { r.TravelRuleCity = "" }, "--travel-rule-city"},
		"no country":   {func(r *app.TravelRule) { r.TravelRuleCountry = "" }, "--travel-rule-country"},
		"no such land": {func(r *app.TravelRule) { r.TravelRuleCountry = "XX" }, "--travel-rule-country"},
		"no ID":        {func(r *app.TravelRule) { r.TravelRuleLEI = "" }, "--travel-rule-lei"},
		"wrong LEI":    {func(r *app.TravelRule) { r.TravelRuleLEI = "529900T8BM49AURSDO56" }, "--travel-rule-lei"},
		"two IDs":      {func(r *app.TravelRule) { r.TravelRuleRegistration = "RA000585/01" }, "--travel-rule-registration"},
		"no register": {func(r *app.TravelRule) { r.TravelRuleLEI, r.TravelRuleRegistration = "", "01234567" },
			"--travel-rule-registration"},
	} {
		config := defaults(t)
		config.TravelRule = travel
		c.change(&config.TravelRule)
		err := config.Check()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("travel rule, %s: %v, want %q", name, err, c.want)
		}
	}
	for _, limit := range []string{"20000", "20000 BTC", "-1 USD", "x USD"} {
		config := defaults(t)
		config.VelocityPayeeWeek = limit
		if err := config.Check(); err == nil || !strings.Contains(err.Error(), "--velocity-payee-week") {
			t.Errorf("%q: %v", limit, err)
		}
	}
}
