package app

import (
	"encoding/hex"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/sandbox"
	"github.com/stipend/stipend/internal/signer"
)

// Environments.
const (
	Sandbox    = "sandbox"
	Production = "production"
)

// Roles that a process can have.
const (
	RoleAPI     = "api"     // serves requests
	RoleWorker  = "worker"  // runs jobs and signs payouts
	RoleWatcher = "watcher" // follows the chains
)

// Config is the configuration of a process. Each field is a flag and an environment variable, which the table
// settings describes; the flag takes precedence. The defaults configure a complete sandbox with a simulated chain,
// SQLite and public keys. Production rejects them: see [Config.Check].
type Config struct {
	Storage
	Replication  `group:"Storage"`
	Addresses    `group:"Addresses"`
	Operator     `group:"Operator"`
	StaffSSO     `group:"Single sign-on of staff"`
	Process      `group:"Service"`
	Webhooks     `group:"Webhooks"`
	Mail         `group:"Mail"`
	Bitcoin      `group:"Bitcoin"`
	EVM          `group:"EVM networks"`
	Custody      `group:"Signer"`
	Lightning    `group:"Lightning"`
	Banking      `group:"Banking"`
	Verification `group:"Verification"`
	Screening    `group:"Screening"`
	Limits       `group:"Prices and limits"`
	Retention    `group:"Data retention"`
}

// Storage is the location of the data. A command that only opens the database needs no other settings.
type Storage struct {
	DataDir     string `group:"Storage" default:"stipend-data"`
	DatabaseURL string `group:"Storage"`
	AllowSQLite bool   `group:"Storage" name:"allow-sqlite"`
}

// Replication configures the continuous copy of an embedded database.
type Replication struct {
	ReplicateTo string
}

// Addresses are the addresses on which the service listens, and at which clients reach it.
type Addresses struct {
	Listen          string `default:"127.0.0.1:8080"`
	MetricsListen   string `default:"127.0.0.1:9090"`
	BaseURL         string
	AuthURL         string
	MaxConnections  int `default:"4000"`
	TrustedProxies  []string
	Explorer        map[string]string `name:"explorer" mapsep:";"`
	SecurityContact string
}

// Operator describes how the operator presents the service.
type Operator struct {
	OperatorName string
	OperatorLogo string
	Languages    []string
	LegalTexts   string
}

// StaffSSO configures the operator's OpenID provider, through which staff sign in.
type StaffSSO struct {
	StaffSSOIssuer       string   `name:"staff-sso-issuer"`
	StaffSSOClientID     string   `name:"staff-sso-client-id"`
	StaffSSOClientSecret string   `name:"staff-sso-client-secret"`
	StaffSSODomains      []string `name:"staff-sso-domains"`
	StaffSSOOnly         bool     `name:"staff-sso-only"`
}

// DataKeys are the keys that encrypt stored secrets. DataKey encrypts and decrypts; the other keys only decrypt,
// until they have been replaced.
type DataKeys struct {
	DataKey         string
	DecryptDataKeys []string
}

// Process describes the process itself.
type Process struct {
	Env   string   `default:"sandbox" enum:"sandbox,production"`
	Roles []string `default:"api,worker,watcher" enum:"api,worker,watcher"`
	DataKeys
	JSON     bool   `name:"json"`
	LogLevel string `default:"info" enum:"debug,info,warn,error"`

	OTLPEndpoint string `name:"otlp-endpoint" env:"OTEL_EXPORTER_OTLP_ENDPOINT"`
}

// Webhooks configures the delivery of webhooks.
type Webhooks struct {
	WebhookAllow []string
}

// Mail configures outgoing mail.
type Mail struct {
	SMTPURL  string `name:"smtp-url"`
	MailFrom string
}

// Bitcoin configures the Bitcoin chain and the wallet on it.
type Bitcoin struct {
	BitcoinRPC     string `name:"bitcoin-rpc"`
	BitcoinCookie  string
	BitcoinCAFile  string        `name:"bitcoin-ca-file"`
	BitcoinWitness []string      `name:"bitcoin-witness"`
	BitcoinNetwork string        `enum:",bitcoin,testnet,signet,regtest" default:""`
	BitcoinXPub    string        `name:"bitcoin-xpub"`
	BitcoinXPrv    string        `name:"bitcoin-xprv"`
	BlockInterval  time.Duration `default:"1s"`
	PollInterval   time.Duration `default:"0"`
	BlindLimit     time.Duration `default:"0"`
	TipLimit       time.Duration `default:"0"`
}

// EVM configures the EVM networks. By default, production has none, and a sandbox simulates one.
type EVM struct {
	EVMRPC       map[string]string `name:"evm-rpc" mapsep:";"`
	EVMWitness   map[string]string `name:"evm-witness" mapsep:";"`
	EVMSimulated []string          `name:"evm-simulated"`
	EVMXPub      string            `name:"evm-xpub"`
	EVMXPrv      string            `name:"evm-xprv"`
	EVMChainID   map[string]uint64 `name:"evm-chain-id" mapsep:";"`
	EVMToken     map[string]string `name:"evm-token" mapsep:";"`
}

// Custody configures the signer, a process that holds the private keys. Without a signer, the worker process holds
// them.
type Custody struct {
	Signer         string
	SignerCertFile string
	SignerKeyFile  string
	SignerCAFile   string `name:"signer-ca-file"`
}

// client returns the client of the signer, or nil if this process holds the keys.
func (c Custody) client() (*signer.Client, error) {
	if c.Signer == "" {
		return nil, nil
	}
	return signer.NewClient(c.Signer, signer.TLSFiles{Cert: c.SignerCertFile, Key: c.SignerKeyFile, CA: c.SignerCAFile})
}

// SimulatedLnd is the value of LndURL that simulates a Lightning node in a sandbox.
const SimulatedLnd = "simulated"

// Lightning configures a Lightning node.
type Lightning struct {
	LndURL          string
	LndMacaroonFile string
	LndTLSCertFile  string
	LndPayouts      bool
	LndMaxFeeBps    int64         `default:"30"`
	LndMinPayment   int64         `default:"1000"`
	LndMaxPayment   int64         `default:"10000000"`
	LndTimeout      time.Duration `default:"60s"`
}

// PaysLightning reports whether payees can be paid over Lightning.
func (l Lightning) PaysLightning() bool {
	return l.LndURL == SimulatedLnd || l.LndURL != "" && l.LndPayouts
}

// Banking configures virtual accounts and payouts by bank.
type Banking struct {
	FundingStripeKey     string
	FundingStripeURL     string `default:"https://api.stripe.com"`
	FundingStripeCountry string `default:"DE" enum:"BE,DE,ES,FR,IE,NL"`

	IncreaseKey           string
	IncreaseURL           string `default:"https://api.increase.com"`
	IncreaseWebhookSecret string
	ColumnKey             string
	ColumnURL             string `default:"https://api.column.com"`
	ColumnWebhookSecret   string
	WiseToken             string
	WiseURL               string `default:"https://api.wise.com"`
	WiseWebhookKeyFile    string

	ModulrKey     string
	ModulrSecret  string
	ModulrAccount string
	ModulrURL     string `default:"https://api.modulrfinance.com/api"`

	AccountChecks string `default:"warn" enum:"ignore,warn,block"`
	Prenotes      bool

	BankAccounts        string
	BankDir             string
	BankSFTP            string
	BankSFTPKeyFile     string
	BankSFTPHostKeyFile string
}

// Verification configures the provider that verifies people and companies.
type Verification struct {
	SumsubToken         string
	SumsubSecret        string
	SumsubWebhookSecret string
	SumsubPersonLevel   string `default:"basic-kyc-level"`
	SumsubCompanyLevel  string `default:"basic-kyb-level"`
	SumsubURL           string
}

// Screening configures the screening against sanctions lists.
type Screening struct {
	SanctionsList      []string
	SanctionsMaxAge    time.Duration `default:"72h"`
	SanctionsThreshold int           `default:"85"`
}

// Velocity contains the velocity limits, each an amount with its currency.
type Velocity struct {
	VelocityCompanyDay  string
	VelocityCompanyWeek string
	VelocityPayeeDay    string
	VelocityPayeeWeek   string
}

// TravelRule configures the records of large payouts of crypto assets, and the operator's identity in these records.
type TravelRule struct {
	TravelRuleThreshold    string
	TravelRuleName         string
	TravelRuleStreet       string
	TravelRulePostCode     string
	TravelRuleCity         string
	TravelRuleCountry      string
	TravelRuleLEI          string
	TravelRuleRegistration string
}

// Limits configures prices, and limits of amounts, time and requests.
type Limits struct {
	QuoteValidity   time.Duration `default:"30m"`
	ClaimValidity   time.Duration `default:"15m"`
	ClaimsPerMinute int           `default:"20"`
	OpenClaims      int           `default:"2000"`
	CoolDown        time.Duration `default:"0"`
	ReleaseLimit    string
	Velocity
	TravelRule
	SpreadBps       int64 `default:"0"`
	FeeBps          int64 `default:"100"`
	IncomeFeeBps    int64 `default:"100"`
	PremiumBps      int64 `default:"200"`
	ToleranceBps    int64 `default:"0"`
	ReadsPerSecond  int   `default:"100"`
	WritesPerSecond int   `default:"50"`
}

// URL returns the URL of the database.
func (s Storage) URL() string {
	if s.DatabaseURL != "" {
		return s.DatabaseURL
	}
	return "sqlite:" + filepath.Join(s.DataDir, "stipend.db")
}

// Defaults returns the configuration of a sandbox in which only environment variables are set.
func Defaults() (Config, error) {
	var c Config
	err := kong.ApplyDefaults(&c, DescribeSettings())
	return c, err
}

// Has reports whether the process has a role.
func (c Config) Has(role string) bool { return slices.Contains(c.Roles, role) }

// Simulated reports whether the Bitcoin chain is simulated.
func (c Config) Simulated() bool { return c.BitcoinRPC == "" }

// checkInterval returns the interval between checks for confirmed and expired payments: 5 s, or five block intervals
// of a simulated chain if that is shorter.
func (c Config) checkInterval() time.Duration {
	const usual = 5 * time.Second
	if c.Simulated() {
		return min(usual, 5*c.BlockInterval)
	}
	return usual
}

// Complete returns c with values for settings whose defaults depend on other settings.
func (c Config) Complete() Config {
	if c.PollInterval <= 0 {
		c.PollInterval = 2 * time.Second
		if c.Simulated() {
			c.PollInterval = 100 * time.Millisecond
		}
	}
	if c.Env == Production {
		c.completeProduction()
	}
	if c.Env == Sandbox {
		c.completeSandbox()
	}
	if c.BitcoinNetwork == "" {
		c.BitcoinNetwork = "regtest"
	}
	if c.BitcoinXPub == "" {
		c.BitcoinXPub, _ = bitcoin.PublicKey(c.BitcoinXPrv) // Check reports a malformed private key
	}
	if c.EVMXPub == "" {
		c.EVMXPub = evm.PublicKey(c.EVMXPrv)
	}
	c.BaseURL = strings.TrimRight(c.BaseURL, "/")
	c.AuthURL = strings.TrimRight(c.AuthURL, "/")
	return c
}

func (c *Config) completeProduction() {
	setDefault(&c.BitcoinNetwork, "bitcoin")
	setDefault(&c.CoolDown, 24*time.Hour)
	c.BlindLimit, c.TipLimit = max(c.BlindLimit, 0), max(c.TipLimit, 0)
	setDefault(&c.BlindLimit, 10*time.Minute)
	setDefault(&c.TipLimit, 90*time.Minute)
}

func (c *Config) completeSandbox() {
	switch {
	case len(c.EVMSimulated) == 1 && c.EVMSimulated[0] == "none":
		c.EVMSimulated = nil
	case len(c.EVMSimulated) == 0 && len(c.EVMRPC) == 0:
		c.EVMSimulated = []string{"base"}
	}
	if c.EVMXPub == "" && c.Signer == "" {
		setDefault(&c.EVMXPrv, sandbox.EVMKey())
	}
	if c.BitcoinXPub == "" && c.Signer == "" {
		setDefault(&c.BitcoinXPrv, sandbox.BitcoinKey())
	}
	setDefault(&c.DataKey, hex.EncodeToString(sandbox.DataKey()))
	setDefault(&c.MailFrom, "Stipend <stipend@sandbox.example>")
}

// setDefault sets *v to value if it is zero.
func setDefault[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}
