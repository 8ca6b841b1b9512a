package app

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	netmail "net/mail"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/sandbox"
	"github.com/stipend/stipend/internal/webhook/delivery"
)

// Environments.
const (
	Sandbox    = "sandbox"
	Production = "production"
)

// Roles that one process can have.
const (
	RoleAPI     = "api"
	RoleWorker  = "worker"
	RoleWatcher = "watcher"
)

// Config is everything that can be set. Every field is a flag and an environment variable; a flag wins. The defaults are a
// whole sandbox: a simulated chain, an embedded database, keys that everybody knows. Production accepts none of those: see
// [Config.Check].
type Config struct {
	Storage

	// Listen is where the interface and the pages are served; port 0 picks a free one. Loopback by default: a service
	// that moves money should be exposed on purpose.
	Listen string `default:"127.0.0.1:8080" env:"STIPEND_LISTEN" group:"Addresses" placeholder:"ADDR" help:"Where the interface is served (${default}); port 0 picks a free one."`
	// MetricsListen is a listener of its own, so that figures are never one proxy rule away from the public. Empty: none.
	MetricsListen string `default:"127.0.0.1:9090" env:"STIPEND_METRICS_LISTEN" group:"Addresses" placeholder:"ADDR" help:"Where Prometheus metrics are served (${default}); empty serves none."`
	// BaseURL is the address that clients use, when it is not the listener's own: behind a proxy, say.
	BaseURL string `env:"STIPEND_BASE_URL" group:"Addresses" placeholder:"URL" help:"Public address of the interface. Default: the listener's own."`
	// AuthURL is the address of the authorization page. It may be another name for the same service.
	AuthURL string `env:"STIPEND_AUTH_URL" group:"Addresses" placeholder:"URL" help:"Public address of the authorization page. Default: the base URL."`

	// MaxConnections bounds what clients that do nothing can hold of the memory. Further ones wait for their turn.
	MaxConnections int `default:"4000" env:"STIPEND_MAX_CONNECTIONS" group:"Addresses" placeholder:"N" help:"Connections that are served at a time (${default}); further ones wait. 0 sets no bound."`

	// TrustedProxies are your own proxies, whose word about a client's address is taken. Nobody else's is.
	TrustedProxies []string `env:"STIPEND_TRUSTED_PROXIES" group:"Addresses" placeholder:"CIDR" help:"Networks of your own proxies, such as 10.2.0.0/24: requests from them are limited by the client's address in X-Forwarded-For. Default: none."`

	// Env is sandbox or production. It is part of every credential: one environment's keys are unknown to the other.
	Env string `default:"sandbox" enum:"sandbox,production" env:"STIPEND_ENV" group:"Service" placeholder:"ENV" help:"sandbox (default) or production."`
	// Roles is what this process does. All processes of a service share one database; only api needs to be reachable, and
	// only worker needs the private key.
	Roles []string `default:"api,worker,watcher" enum:"api,worker,watcher" env:"STIPEND_ROLES" group:"Service" placeholder:"ROLE" help:"What this process does: api serves requests, worker runs jobs and signs payouts, watcher follows the chain. Default: all."`
	// DataKey is 32 bytes, as hex or base64: it encrypts what must be stored and read back, such as webhook secrets.
	DataKey string `env:"STIPEND_DATA_KEY" group:"Service" placeholder:"KEY" help:"32 bytes, hex or base64, that encrypt stored secrets (see: stipend keys new). Better given by environment than as a flag."`
	// JSON prints one line of JSON on stdout once the service is ready, for programs that start it.
	JSON bool `name:"json" env:"STIPEND_JSON" group:"Service" help:"Print one line of JSON on stdout when ready, instead of text."`
	// LogLevel bounds what goes to stderr.
	LogLevel string `default:"info" enum:"debug,info,warn,error" env:"STIPEND_LOG_LEVEL" group:"Service" placeholder:"LEVEL" help:"Least level that is logged to stderr: debug, info (default), warn, error."`

	// WebhookAllow are networks that webhooks may be sent to although they are not public. The sandbox also reaches its own machine.
	WebhookAllow []string `env:"STIPEND_WEBHOOK_ALLOW" group:"Webhooks" placeholder:"CIDR" help:"Networks of your own that webhooks may be sent to, such as 10.1.0.0/16, besides public addresses. Default: none."`

	// SMTPURL is the server that mails are handed to. Empty: a sandbox keeps its mails to be read at /api/sandbox/mails.
	SMTPURL string `name:"smtp-url" env:"STIPEND_SMTP_URL" group:"Mail" placeholder:"URL" help:"Mail server, smtp://user:password@host:587 (STARTTLS) or smtps://user:password@host:465. Default: mails are kept, not sent (sandbox only). Better given by environment than as a flag."`
	// MailFrom is the sender of all mails.
	MailFrom string `env:"STIPEND_MAIL_FROM" group:"Mail" placeholder:"ADDR" help:"Sender of mails: payments@example.com or Example <payments@example.com>."`

	// BitcoinRPC is a Bitcoin Core node with its credentials. Empty: the simulated chain, sandbox only.
	BitcoinRPC string `name:"bitcoin-rpc" env:"STIPEND_BITCOIN_RPC" group:"Bitcoin" placeholder:"URL" help:"Bitcoin Core node, http://user:password@host:port. Default: a simulated chain (sandbox only)."`
	// BitcoinCookie is the file in which a Bitcoin Core node on this machine writes its credentials, anew at each start.
	BitcoinCookie string `env:"STIPEND_BITCOIN_COOKIE" group:"Bitcoin" placeholder:"FILE" help:"Cookie file of a Bitcoin Core node on this machine (.cookie in its data directory), in place of a user and password in the URL."`
	// BitcoinWitness are further nodes, which are only asked whether they have the same blocks.
	BitcoinWitness []string `name:"bitcoin-witness" env:"STIPEND_BITCOIN_WITNESS" group:"Bitcoin" placeholder:"URL" help:"Further Bitcoin nodes, http://user:password@host:port, separated by commas, that are only asked: while one has other blocks nothing is credited, and while one is ahead no price is given. Default: none."`
	// BitcoinNetwork must be the node's. Empty: regtest in the sandbox, bitcoin in production.
	BitcoinNetwork string `enum:",bitcoin,testnet,signet,regtest" env:"STIPEND_BITCOIN_NETWORK" group:"Bitcoin" default:"" placeholder:"NET" help:"bitcoin, testnet, signet or regtest. Default: regtest in the sandbox, bitcoin in production."`
	// BitcoinXPub is the account's public key (BIP 84). It is enough to give out addresses.
	BitcoinXPub string `name:"bitcoin-xpub" env:"STIPEND_BITCOIN_XPUB" group:"Bitcoin" placeholder:"KEY" help:"Public account key (BIP 84) that addresses come from. Default: that of the private key."`
	// BitcoinXPrv is the account's private key. Only a worker needs it, to sign payouts.
	BitcoinXPrv string `name:"bitcoin-xprv" env:"STIPEND_BITCOIN_XPRV" group:"Bitcoin" placeholder:"KEY" help:"Private account key that signs payouts; only the worker role needs it. Better given by environment than as a flag."`
	// BlockInterval is how often the simulated miner finds a block.
	BlockInterval time.Duration `default:"1s" env:"STIPEND_BLOCK_INTERVAL" group:"Bitcoin" placeholder:"DURATION" help:"Time between blocks of the simulated chain (${default})."`
	// PollInterval is how often an idle watcher asks its node for news.
	PollInterval time.Duration `default:"0" env:"STIPEND_POLL_INTERVAL" group:"Bitcoin" placeholder:"DURATION" help:"Time between looks at the chain when it is quiet. Default: 100ms simulated, 2s real."`
	// BlindLimit is how long the chain may go unwatched, for want of a node or of a process that watches, before no price is
	// given any more. The sandbox's clock jumps, so there it is off unless set.
	BlindLimit time.Duration `default:"0" env:"STIPEND_BLIND_LIMIT" group:"Bitcoin" placeholder:"DURATION" help:"How long the chain may go unwatched before quotes are refused. Default: 10m in production, never in the sandbox."`
	// TipLimit is how old the last block may be before the alarm is raised. The sandbox's clock jumps, so there it is off unless set.
	TipLimit time.Duration `default:"0" env:"STIPEND_TIP_LIMIT" group:"Bitcoin" placeholder:"DURATION" help:"How old the last block may grow before the alarm tip_old is raised; on networks whose blocks come faster it is as much shorter as more confirmations are wanted there. Default: 90m in production, never in the sandbox."`

	EVM

	// LndURL switches payments over Lightning on. Every process needs to know; the macaroon is for those that speak to the node.
	LndURL string `env:"STIPEND_LND_URL" group:"Lightning" placeholder:"URL" help:"REST interface of an LND node, https://host:8080, over which claims can be paid too. Default: claims are paid on the chain only."`
	// LndMacaroonFile is the node's token; workers and watchers need it.
	LndMacaroonFile string `env:"STIPEND_LND_MACAROON_FILE" group:"Lightning" placeholder:"FILE" help:"Macaroon with invoices:read, invoices:write, info:read, and for reconciliation offchain:read and onchain:read. Default: none."`
	// LndTLSCertFile is what the node is recognised by.
	LndTLSCertFile string `env:"STIPEND_LND_TLS_CERT_FILE" group:"Lightning" placeholder:"FILE" help:"Certificate of the node, tls.cert; nothing else is trusted then. Default: what the system trusts."`

	// FundingStripeKey switches on funding accounts at Stripe. Empty: the sandbox's own bank, and none in production.
	FundingStripeKey string `env:"STIPEND_FUNDING_STRIPE_KEY" group:"Banking" placeholder:"KEY" help:"Secret key of the Stripe account whose bank transfers become funding accounts. Default: none. Better given by environment than as a flag."`
	// FundingStripeURL is Stripe's interface, or a stand-in for it.
	FundingStripeURL string `default:"https://api.stripe.com" env:"STIPEND_FUNDING_STRIPE_URL" group:"Banking" placeholder:"URL" help:"Where Stripe's interface is (${default})."`
	// FundingStripeCountry is where euro accounts are.
	FundingStripeCountry string `default:"DE" enum:"BE,DE,ES,FR,IE,NL" env:"STIPEND_FUNDING_STRIPE_COUNTRY" group:"Banking" placeholder:"CC" help:"Country of euro funding accounts: BE, DE (default), ES, FR, IE or NL."`

	// BankAccounts is the list of the house's accounts, from which banks pay. Empty: a sandbox's own, and in production payouts to bank
	// accounts wait.
	BankAccounts string `env:"STIPEND_BANK_ACCOUNTS" group:"Banking" placeholder:"FILE" help:"The accounts of the house that bank payouts leave from, as JSON. Default: the sandbox's own; in production payouts to banks wait."`
	// BankDir is where files for the bank are left, and its answers found: one of BankDir and BankSFTP.
	BankDir string `env:"STIPEND_BANK_DIR" group:"Banking" placeholder:"DIR" help:"Directory that is shared with the bank: files in out, answers in in."`
	// BankSFTP is the same on a server.
	BankSFTP            string `env:"STIPEND_BANK_SFTP" group:"Banking" placeholder:"URL" help:"The same on a server of the bank: sftp://user@host:22/directory."`
	BankSFTPKeyFile     string `env:"STIPEND_BANK_SFTP_KEY_FILE" group:"Banking" placeholder:"FILE" help:"Private key of the user, in OpenSSH's format."`
	BankSFTPHostKeyFile string `env:"STIPEND_BANK_SFTP_HOST_KEY_FILE" group:"Banking" placeholder:"FILE" help:"The one key that the server may show: a line of a public key or known_hosts file."`

	// SumsubToken is the app token of the vendor that verifies people and companies, and the rest is what its dashboard shows.
	// Without it the sandbox has a provider of its own, and production verifies nobody.
	SumsubToken         string `env:"STIPEND_SUMSUB_TOKEN" group:"Verification" placeholder:"TOKEN" help:"App token of Sumsub. Default: the sandbox's own provider; in production nobody is verified."`
	SumsubSecret        string `env:"STIPEND_SUMSUB_SECRET" group:"Verification" placeholder:"KEY" help:"Secret key of the app token. Better given by environment than as a flag."`
	SumsubWebhookSecret string `env:"STIPEND_SUMSUB_WEBHOOK_SECRET" group:"Verification" placeholder:"KEY" help:"Secret key of the webhook to BASE_URL/callbacks/verification/sumsub."`
	SumsubPersonLevel   string `default:"basic-kyc-level" env:"STIPEND_SUMSUB_PERSON_LEVEL" group:"Verification" placeholder:"NAME" help:"Verification level of people (${default})."`
	SumsubCompanyLevel  string `default:"basic-kyb-level" env:"STIPEND_SUMSUB_COMPANY_LEVEL" group:"Verification" placeholder:"NAME" help:"Verification level of companies (${default})."`
	SumsubURL           string `env:"STIPEND_SUMSUB_URL" group:"Verification" placeholder:"URL" help:"Address of Sumsub's interface. Default: its own."`

	// SanctionsList are the files of the lists that payees are compared with. Somebody fetches them; the worker reads one again
	// when it has changed. Empty: a sandbox's own list, of invented names.
	SanctionsList []string `env:"STIPEND_SANCTIONS_LIST" group:"Screening" placeholder:"FILE" help:"Sanctions lists that payees and companies are compared with, as published: OFAC's sdn.xml and consolidated.xml, the UN's consolidated list. Default: invented names (sandbox only)."`
	// SanctionsMaxAge is how old a file may grow. With an older one nothing is released: nobody would know of new listings.
	SanctionsMaxAge time.Duration `default:"72h" env:"STIPEND_SANCTIONS_MAX_AGE" group:"Screening" placeholder:"DURATION" help:"How long after a list was last written it is current; nothing is released with an older one (${default})."`
	// SanctionsThreshold is how alike two names must be.
	SanctionsThreshold int `default:"85" env:"STIPEND_SANCTIONS_THRESHOLD" group:"Screening" placeholder:"PERCENT" help:"How alike a name and a listed one must be to be looked at by a person, from 70 to 100 percent (${default})."`

	// QuoteValidity is how long a payroll's price stands.
	QuoteValidity time.Duration `default:"30m" env:"STIPEND_QUOTE_VALIDITY" group:"Prices and limits" placeholder:"DURATION" help:"How long a payroll's quote is valid (${default})."`
	// ClaimValidity is how long a claim's price stands.
	ClaimValidity time.Duration `default:"15m" env:"STIPEND_CLAIM_VALIDITY" group:"Prices and limits" placeholder:"DURATION" help:"How long a claim's quote is valid (${default})."`
	// ClaimsPerMinute and OpenClaims bound one company, so that nobody collects prices and addresses.
	ClaimsPerMinute int `default:"20" env:"STIPEND_CLAIMS_PER_MINUTE" group:"Prices and limits" placeholder:"N" help:"Claims a minute that one company may make (${default}); 0 switches the limit off."`
	OpenClaims      int `default:"2000" env:"STIPEND_OPEN_CLAIMS" group:"Prices and limits" placeholder:"N" help:"Claims of one company that may wait for their payment (${default}); 0 switches the limit off."`
	// CoolDown is how long the money of a payee who was paid before waits after its destination was changed, and how long after it was
	// named a withdrawal's destination serves.
	CoolDown time.Duration `default:"0" env:"STIPEND_COOL_DOWN" group:"Prices and limits" placeholder:"DURATION" help:"How long a payment waits after its payee, paid before, got another destination, and withdrawals to a new one of the company; less than 0 switches it off. Default: 24h in production, off in the sandbox."`
	// ReleaseLimit is above which total nothing leaves without two operators.
	ReleaseLimit string `env:"STIPEND_RELEASE_LIMIT" group:"Prices and limits" placeholder:"AMOUNT" help:"Above this total, such as '50000 USD', no payroll and no withdrawal leaves before one operator has asked for it and another has agreed. Default: none."`
	// SpreadBps is what the price of a quote stands above the market, in hundredths of a percent: it carries the risk of
	// holding the price still for QuoteValidity.
	SpreadBps int64 `default:"0" env:"STIPEND_SPREAD_BPS" group:"Prices and limits" placeholder:"BPS" help:"Spread of a quote over the market price, in hundredths of a percent (${default})."`
	// FeeBps is the fee of a company that has agreed on none.
	FeeBps int64 `default:"100" env:"STIPEND_FEE_BPS" group:"Prices and limits" placeholder:"BPS" help:"Fee of the seeded company, in hundredths of a percent (${default})."`
	// PremiumBps takes the place of FeeBps for a payee marked is_premium.
	PremiumBps int64 `default:"200" env:"STIPEND_PREMIUM_BPS" group:"Prices and limits" placeholder:"BPS" help:"Fee for a premium payee of the seeded company (${default})."`
	// ToleranceBps is the shortfall of a payment that the house absorbs rather than ask for a top-up.
	ToleranceBps int64 `default:"0" env:"STIPEND_TOLERANCE_BPS" group:"Prices and limits" placeholder:"BPS" help:"Shortfall of a funding payment that the house absorbs (${default})."`
	// ReadsPerSecond and WritesPerSecond bound one credential; bursts of ten seconds' worth pass.
	ReadsPerSecond  int `default:"100" env:"STIPEND_READS_PER_SECOND" group:"Prices and limits" placeholder:"N" help:"Reads a second that one credential may sustain (${default}); 0 switches the limit off."`
	WritesPerSecond int `default:"50" env:"STIPEND_WRITES_PER_SECOND" group:"Prices and limits" placeholder:"N" help:"Writes a second that one credential may sustain (${default}); 0 switches the limit off."`
}

// Storage is where the data is; it is all that a command on the database alone needs.
type Storage struct {
	// DataDir holds the embedded database. PostgreSQL leaves it unused.
	DataDir string `default:"stipend-data" env:"STIPEND_DATA_DIR" group:"Storage" placeholder:"DIR" help:"Directory of the embedded database (${default})."`
	// DatabaseURL is PostgreSQL, or a SQLite file. Empty: stipend.db in DataDir.
	DatabaseURL string `env:"STIPEND_DATABASE_URL" group:"Storage" placeholder:"URL" help:"postgres://… or sqlite:/path. Default: SQLite in the data directory."`
	// AllowSQLite lets production run on the embedded database: one machine, no replica, so that must be a decision.
	AllowSQLite bool `name:"allow-sqlite" env:"STIPEND_ALLOW_SQLITE" group:"Storage" help:"Let production run on SQLite: one machine, no replica."`
}

// URL is the address of the database.
func (s Storage) URL() string {
	if s.DatabaseURL != "" {
		return s.DatabaseURL
	}
	return "sqlite:" + filepath.Join(s.DataDir, "stipend.db")
}

// Defaults is the configuration of a sandbox of which nothing was set but, perhaps, the environment.
func Defaults() (Config, error) {
	var c Config
	err := kong.ApplyDefaults(&c)
	return c, err
}

// Has says whether this process has a role.
func (c Config) Has(role string) bool { return slices.Contains(c.Roles, role) }

// Simulated says whether the chain is the built-in one.
func (c Config) Simulated() bool { return c.BitcoinRPC == "" }

// lookEvery is how often what the chain brought, or let pass, is looked for. Of a simulated chain that is after five of its blocks, if they
// come quickly: a quick world is quick in all.
func (c Config) lookEvery() time.Duration {
	const usual = 5 * time.Second
	if c.Simulated() {
		return min(usual, 5*c.BlockInterval)
	}
	return usual
}

// complete fills in what follows from other settings.
func (c Config) Complete() Config {
	if c.BitcoinNetwork == "" {
		c.BitcoinNetwork = "regtest"
		if c.Env == Production {
			c.BitcoinNetwork = "bitcoin"
		}
	}
	if c.BlindLimit <= 0 && c.Env == Production {
		c.BlindLimit = 10 * time.Minute
	}
	if c.TipLimit <= 0 && c.Env == Production {
		c.TipLimit = 90 * time.Minute
	}
	if c.CoolDown == 0 && c.Env == Production {
		c.CoolDown = 24 * time.Hour
	}
	if c.PollInterval <= 0 {
		c.PollInterval = 2 * time.Second
		if c.Simulated() {
			c.PollInterval = 100 * time.Millisecond
		}
	}
	if c.Env == Sandbox {
		switch {
		case len(c.EVMSimulated) == 1 && c.EVMSimulated[0] == "none":
			c.EVMSimulated = nil
		case len(c.EVMSimulated) == 0 && len(c.EVMRPC) == 0:
			c.EVMSimulated = []string{"base"}
		}
		if c.EVMXPrv == "" && c.EVMXPub == "" {
			c.EVMXPrv = sandbox.EVMKey()
		}
		if c.BitcoinXPrv == "" && c.BitcoinXPub == "" {
			c.BitcoinXPrv = sandbox.BitcoinKey()
		}
		if c.DataKey == "" {
			c.DataKey = hex.EncodeToString(sandbox.DataKey())
		}
		if c.MailFrom == "" {
			c.MailFrom = "Stipend <stipend@sandbox.example>"
		}
	}
	if c.BitcoinXPub == "" && c.BitcoinXPrv != "" {
		// A broken private key is Check's to report, in its own words.
		c.BitcoinXPub, _ = neuter(c.BitcoinXPrv)
	}
	if c.EVMXPub == "" && c.EVMXPrv != "" {
		c.EVMXPub = neuterEVM(c.EVMXPrv)
	}
	c.BaseURL = strings.TrimRight(c.BaseURL, "/")
	c.AuthURL = strings.TrimRight(c.AuthURL, "/")
	return c
}

// Check says everything that is wrong with a configuration at once. In production that includes every default of the
// sandbox: a service that handles real money must never run on a key that anybody can read in the source.
func (c Config) Check() error {
	c = c.Complete()
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }

	if c.Env != Sandbox && c.Env != Production {
		bad("--env must be sandbox or production")
	}
	if _, err := c.releaseLimit(); err != nil {
		bad("%w", err)
	}
	if len(c.Roles) == 0 {
		bad("--roles must name at least one of api, worker, watcher")
	}
	for _, r := range c.Roles {
		if r != RoleAPI && r != RoleWorker && r != RoleWatcher {
			bad("--roles: there is no role %q; there are api, worker and watcher", r)
		}
	}
	type address struct{ flag, text string }
	addresses := []address{{"--base-url", c.BaseURL}, {"--auth-url", c.AuthURL}, {"--bitcoin-rpc", c.BitcoinRPC}, {"--funding-stripe-url", c.FundingStripeURL}}
	for _, text := range c.BitcoinWitness {
		addresses = append(addresses, address{"--bitcoin-witness", text})
	}
	if len(c.BitcoinWitness) > 0 && c.Simulated() {
		bad("--bitcoin-witness needs --bitcoin-rpc: no other node has the blocks of a simulated chain")
	}
	for _, u := range addresses {
		if u.text == "" {
			continue
		}
		if parsed, err := url.Parse(u.text); err != nil || parsed.Host == "" || (parsed.Scheme != "http" && parsed.Scheme != "https") {
			bad("%s must be an http:// or https:// address", u.flag)
		}
	}
	for _, n := range []struct {
		flag  string
		value int64
	}{{"--spread-bps", c.SpreadBps}, {"--fee-bps", c.FeeBps}, {"--premium-bps", c.PremiumBps}, {"--tolerance-bps", c.ToleranceBps}} {
		if n.value < 0 || n.value > 5000 {
			bad("%s must be from 0 to 5000", n.flag)
		}
	}
	if c.QuoteValidity < time.Minute {
		bad("--quote-validity must be at least 1m")
	}
	if c.Simulated() && c.BlockInterval < 10*time.Millisecond {
		bad("--block-interval must be at least 10ms")
	}
	if c.MaxConnections < 0 || c.ReadsPerSecond < 0 || c.WritesPerSecond < 0 {
		bad("--max-connections, --reads-per-second and --writes-per-second must not be negative")
	}

	if c.SanctionsThreshold < 70 || c.SanctionsThreshold > 100 {
		bad("--sanctions-threshold must be from 70 to 100")
	}
	if c.SanctionsMaxAge < time.Hour {
		bad("--sanctions-max-age must be at least 1h")
	}
	if c.Env == Production && c.Has(RoleWorker) && len(c.SanctionsList) == 0 {
		bad("--sanctions-list is missing: the worker role pays nobody whom it has not looked for there")
	}
	if c.SumsubToken != "" && (c.SumsubSecret == "" || c.SumsubWebhookSecret == "") {
		bad("--sumsub-token needs --sumsub-secret and --sumsub-webhook-secret: requests and callbacks are signed with them")
	}

	if _, _, err := c.bankDrop(); err != nil {
		bad("%w", err)
	}
	if _, err := c.OpenLightning(); err != nil {
		bad("%w", err)
	}
	problems = append(problems, c.CheckKeys()...)
	problems = append(problems, c.checkEVM()...)
	if _, err := prefixes(c.TrustedProxies); err != nil {
		bad("--trusted-proxies: %w", err)
	}
	if _, err := c.webhookPolicy(); err != nil {
		bad("--webhook-allow: %w", err)
	}
	problems = append(problems, c.checkMail()...)

	if c.Env == Production {
		if c.Simulated() {
			bad("--bitcoin-rpc is missing: production does not run on the simulated chain")
		}
		if c.BitcoinNetwork == "regtest" {
			bad("--bitcoin-network is regtest: production does not run on a chain that anybody can mine")
		}
		if strings.HasPrefix(c.URL(), "sqlite:") && !c.AllowSQLite {
			bad("--database-url is missing: production runs on PostgreSQL, or on SQLite with --allow-sqlite")
		}
	} else if c.Simulated() && c.BitcoinNetwork != "regtest" {
		bad("--bitcoin-network %s needs --bitcoin-rpc: the simulated chain is regtest", c.BitcoinNetwork)
	}
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("the configuration for %s is not complete:\n%w\n(each flag is also an environment variable: --data-key is STIPEND_DATA_KEY; new keys: stipend keys new)",
		c.Env, bullets(problems))
}

// releaseLimit reads ReleaseLimit, which is no limit where it is empty.
func (c Config) releaseLimit() (money.Amount, error) {
	if c.ReleaseLimit == "" {
		return money.Amount{}, nil
	}
	number, symbol, _ := strings.Cut(strings.TrimSpace(c.ReleaseLimit), " ")
	asset, known := money.Lookup(strings.TrimSpace(symbol))
	if !known || asset.IsCrypto() {
		return money.Amount{}, fmt.Errorf("--release-limit %q: say an amount and a currency, such as '50000 USD'", c.ReleaseLimit)
	}
	a, err := money.Parse(asset, number)
	if err != nil || a.Sign() < 0 {
		return money.Amount{}, errors.Join(fmt.Errorf("--release-limit %q: say an amount and a currency, such as '50000 USD'", c.ReleaseLimit), err)
	}
	return a, nil
}

// webhookPolicy says which addresses webhooks may be sent to.
func (c Config) webhookPolicy() (delivery.Policy, error) {
	p := delivery.Policy{Loopback: c.Env == Sandbox}
	var err error
	p.Allowed, err = prefixes(c.WebhookAllow)
	return p, err
}

// prefixes reads networks.
func prefixes(texts []string) (all []netip.Prefix, err error) {
	for _, text := range texts {
		n, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return nil, errors.New("want networks such as 10.1.0.0/16 or fd12:3456::/48")
		}
		all = append(all, n.Masked())
	}
	return all, nil
}

// checkMail is about the worker only: it is the one that writes mails.
func (c Config) checkMail() []error {
	if !c.Has(RoleWorker) {
		return nil
	}
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if c.SMTPURL == "" {
		if c.Env == Production {
			bad("--smtp-url is missing: the worker role sends mails through it")
		}
	} else if _, err := mail.ParseSMTP(c.SMTPURL); err != nil {
		bad("--smtp-url: %w", err)
	}
	if c.MailFrom == "" {
		bad("--mail-from is missing: mails need a sender")
	} else if _, err := netmail.ParseAddress(c.MailFrom); err != nil {
		bad("--mail-from must be one email address, with or without a name before it in <>")
	}
	if c.Env == Production && c.BaseURL == "" {
		bad("--base-url is missing: mails carry links to it")
	}
	return problems
}

func (c Config) CheckKeys() []error {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }

	// A key in real use must be secret: in production, and wherever coins have a price.
	valuable := c.Env == Production || c.BitcoinNetwork == "bitcoin"
	switch key, err := ParseDataKey(c.DataKey); {
	case c.DataKey == "":
		bad("--data-key is missing: it encrypts stored secrets")
	case err != nil:
		bad("--data-key: %w", err)
	case c.Env == Production && bytes.Equal(key, sandbox.DataKey()):
		bad("--data-key is the sandbox's, which everybody knows")
	}
	switch err := checkXPrv(c.BitcoinXPrv, c.BitcoinNetwork); {
	case c.BitcoinXPrv == "":
		if c.Has(RoleWorker) {
			bad("--bitcoin-xprv is missing: the worker role signs payouts with it")
		}
	case err != nil:
		bad("--bitcoin-xprv: %w", err)
	case valuable && sameKey(c.BitcoinXPrv, sandbox.BitcoinKey()):
		bad("--bitcoin-xprv is the sandbox's, which everybody knows")
	}
	sandboxPub, _ := neuter(sandbox.BitcoinKey())
	switch err := checkXPub(c.BitcoinXPub, c.BitcoinNetwork); {
	case c.BitcoinXPub == "":
		if c.BitcoinXPrv == "" {
			bad("--bitcoin-xpub is missing: funding addresses come from it")
		}
	case err != nil:
		bad("--bitcoin-xpub: %w", err)
	case valuable && sameKey(c.BitcoinXPub, sandboxPub):
		bad("--bitcoin-xpub is the sandbox's, which everybody knows")
	case c.BitcoinXPrv != "":
		if of, err := neuter(c.BitcoinXPrv); err == nil && !sameKey(of, c.BitcoinXPub) {
			bad("--bitcoin-xpub and --bitcoin-xprv are not one pair: coins paid to the one's addresses could not be spent by the other")
		}
	}
	return problems
}

// ParseDataKey reads 32 bytes as hex or base64.
func ParseDataKey(text string) ([]byte, error) {
	for _, decode := range []func(string) ([]byte, error){hex.DecodeString, base64.StdEncoding.DecodeString, base64.RawURLEncoding.DecodeString} {
		if key, err := decode(text); err == nil && len(key) == 32 {
			return key, nil
		}
	}
	return nil, errors.New("want 32 bytes as hex or base64")
}

// bullets is a list of errors that reads as one.
type bullets []error

func (b bullets) Error() string {
	lines := make([]string, len(b))
	for i, err := range b {
		lines[i] = "  - " + err.Error()
	}
	return strings.Join(lines, "\n")
}

func (b bullets) Unwrap() []error { return b }
