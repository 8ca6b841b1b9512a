package app

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	netmail "net/mail"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/chain/network"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/replica"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/sandbox"
	"github.com/stipend/stipend/internal/travelrule"
	"github.com/stipend/stipend/internal/webhook/delivery"
)

// Check returns an error that lists all problems of a configuration. Production must not use the sandbox's default
// keys, because they are in the source code.
func (c Config) Check() error {
	c = c.Complete()
	var problems []error
	for _, r := range rules {
		if r.broken(c) {
			problems = append(problems, errors.New(r.problem))
		}
	}
	for _, v := range values {
		if err := v.parse(c); err != nil {
			problems = append(problems, fmt.Errorf("%s%w", v.flag, err))
		}
	}
	problems = append(problems, c.checkURLs()...)
	problems = append(problems, c.checkEVM()...)
	problems = append(problems, c.CheckKeys()...)
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("the configuration for %s is not complete:\n  - %s\n"+
		"(each flag is also an environment variable: --data-key is STIPEND_DATA_KEY; new keys: stipend keys new)",
		c.Env, strings.ReplaceAll(errors.Join(problems...).Error(), "\n", "\n  - "))
}

// rule describes a mistake in a configuration.
type rule struct {
	broken  func(Config) bool
	problem string
}

var rules = []rule{
	{func(c Config) bool { return c.Env != Sandbox && c.Env != Production }, "--env must be sandbox or production"},
	{func(c Config) bool { return len(c.Roles) == 0 }, "--roles must name at least one of api, worker, watcher"},
	{func(c Config) bool { return slices.ContainsFunc(c.Roles, unknownRole) },
		"--roles: no role but api, worker and watcher exists"},

	{func(c Config) bool { return notBps(c.SpreadBps) }, "--spread-bps must be from 0 to 5000"},
	{func(c Config) bool { return notBps(c.FeeBps) }, "--fee-bps must be from 0 to 5000"},
	{func(c Config) bool { return notBps(c.IncomeFeeBps) }, "--income-fee-bps must be from 0 to 5000"},
	{func(c Config) bool { return notBps(c.PremiumBps) }, "--premium-bps must be from 0 to 5000"},
	{func(c Config) bool { return notBps(c.ToleranceBps) }, "--tolerance-bps must be from 0 to 5000"},
	{func(c Config) bool { return c.QuoteValidity < time.Minute }, "--quote-validity must be at least 1m"},
	{func(c Config) bool { return c.MaxConnections < 0 }, "--max-connections must not be negative"},
	{func(c Config) bool { return c.ReadsPerSecond < 0 }, "--reads-per-second must not be negative"},
	{func(c Config) bool { return c.WritesPerSecond < 0 }, "--writes-per-second must not be negative"},
	{func(c Config) bool { return c.SanctionsThreshold < 70 || c.SanctionsThreshold > 100 },
		"--sanctions-threshold must be from 70 to 100"},
	{func(c Config) bool { return c.SanctionsMaxAge < time.Hour }, "--sanctions-max-age must be at least 1h"},

	{func(c Config) bool { return c.Simulated() && c.BlockInterval < 10*time.Millisecond },
		"--block-interval must be at least 10ms"},
	{func(c Config) bool { return c.Simulated() && len(c.BitcoinWitness) > 0 },
		"--bitcoin-witness needs --bitcoin-rpc: no other node has the blocks of a simulated chain"},
	{func(c Config) bool { return c.Env == Sandbox && c.Simulated() && c.BitcoinNetwork != "regtest" },
		"--bitcoin-network needs --bitcoin-rpc: the simulated chain is regtest"},
	{func(c Config) bool {
		return c.SumsubToken != "" && (c.SumsubSecret == "" || c.SumsubWebhookSecret == "")
	},
		"--sumsub-token needs --sumsub-secret and --sumsub-webhook-secret, which sign requests and callbacks"},
	{func(c Config) bool { return c.Has(RoleWorker) && c.MailFrom == "" }, "--mail-from is missing: mails need a sender"},

	{production(func(c Config) bool { return c.Simulated() }),
		"--bitcoin-rpc is missing: production does not run on the simulated chain"},
	{production(func(c Config) bool { return c.BitcoinNetwork == "regtest" }),
		"--bitcoin-network is regtest: production does not run on a chain that anybody can mine"},
	{production(func(c Config) bool { return strings.HasPrefix(c.URL(), "sqlite:") && !c.AllowSQLite }),
		"--database-url is missing: production runs on PostgreSQL, or on SQLite with --allow-sqlite"},
	{production(func(c Config) bool { return c.Has(RoleWorker) && len(c.SanctionsList) == 0 }),
		"--sanctions-list is missing: the worker role pays only payees that were compared with sanctions lists"},
	{production(func(c Config) bool { return c.Has(RoleWorker) && c.SMTPURL == "" }),
		"--smtp-url is missing: the worker role sends mails through it"},
	{production(func(c Config) bool { return c.Has(RoleWorker) && c.BaseURL == "" }),
		"--base-url is missing: mails contain links to it"},
	{production(func(c Config) bool { return plainHTTP(c.BaseURL) || plainHTTP(c.AuthURL) }),
		"--base-url and --auth-url must begin with https://: browsers send no session over plain HTTP"},
	{production(func(c Config) bool { return len(c.EVMSimulated) > 0 }), "--evm-simulated is for sandboxes"},
	{production(func(c Config) bool { return len(c.EVMChainID)+len(c.EVMToken) > 0 }),
		"--evm-chain-id and --evm-token are for sandboxes: production uses the real networks only"},
}

// values are the settings that are checked by parsing them.
var values = []struct {
	flag  string // followed by a colon; "" if the error names the flag
	parse func(Config) error
}{
	{"", func(c Config) error { _, err := c.releaseLimit(); return err }},
	{"", func(c Config) error { _, err := c.velocity(); return err }},
	{"", func(c Config) error { _, err := c.Classes(); return err }},
	{"", func(c Config) error { _, err := c.travelRule(); return err }},
	{"", func(c Config) error { _, err := c.operator(); return err }},
	{"--replicate-to: ", func(c Config) error {
		if c.ReplicateTo == "" {
			return nil
		}
		if !strings.HasPrefix(c.URL(), "sqlite:") {
			return errors.New("only SQLite is copied; for PostgreSQL archive its log, see docs/operating.md")
		}
		return replica.Check(c.ReplicateTo)
	}},
	{"", func(c Config) error { _, err := c.staff(); return err }},
	{"", func(c Config) error {
		_, accounts, err := c.bankDrop()
		if err == nil && c.Has(RoleWorker) {
			_, err = c.bankAPIs(accounts)
		}
		return err
	}},
	{"", func(c Config) error { _, err := c.bankCallbacks(); return err }},
	{"", func(c Config) error { _, err := c.verifier(); return err }},
	{"", func(c Config) error { _, err := c.OpenLightning(); return err }},
	{"--explorer: ", func(c Config) error {
		for network, text := range c.Explorer {
			u, err := url.Parse(text)
			if err != nil || u.Scheme != "https" || u.Host == "" || !strings.Contains(text, "{tx}") {
				return fmt.Errorf("the URL of %s must begin with https:// and contain {tx}", network)
			}
		}
		return nil
	}},
	{"--trusted-proxies: ", func(c Config) error { _, err := prefixes(c.TrustedProxies); return err }},
	{"--webhook-allow: ", func(c Config) error { _, err := c.webhookPolicy(); return err }},
	{"--smtp-url: ", func(c Config) error {
		if !c.Has(RoleWorker) || c.SMTPURL == "" {
			return nil
		}
		_, err := mail.ParseSMTP(c.SMTPURL)
		return err
	}},
	{"", func(c Config) error {
		if !c.Has(RoleWorker) || c.MailFrom == "" {
			return nil
		}
		if _, err := netmail.ParseAddress(c.MailFrom); err != nil {
			return errors.New("--mail-from must be one email address, with or without a name before it in <>")
		}
		return nil
	}},
}

// production returns a condition that holds if broken holds and the configuration is for production.
func production(broken func(Config) bool) func(Config) bool {
	return func(c Config) bool { return c.Env == Production && broken(c) }
}

func unknownRole(r string) bool { return r != RoleAPI && r != RoleWorker && r != RoleWatcher }

func notBps(n int64) bool { return n < 0 || n > 5000 }

// plainHTTP reports whether an address uses HTTP without TLS on another machine.
func plainHTTP(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Scheme == "http" && !loopback(u.Hostname())
}

// loopback reports whether a host is this machine. An empty host, as in the path of a Unix socket, also is.
func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || host == "localhost" || strings.HasPrefix(host, "/") || err == nil && ip.IsLoopback()
}

// Warnings returns warnings about settings that are allowed in production but are probably mistakes. It returns none
// for a sandbox.
func (c Config) Warnings() (all []string) {
	if c.Env != Production {
		return nil
	}
	if host, tls := db.Server(c.URL()); tls != nil && !loopback(host) {
		all = append(all, fmt.Sprintf("%v; set sslmode=verify-full in --database-url", tls))
	}
	host, _, err := net.SplitHostPort(c.MetricsListen)
	if err == nil && (host == "" || host == "0.0.0.0" || host == "::") {
		all = append(all, "metrics are served on all network interfaces; name one in --metrics-listen")
	}
	if c.Has(RoleWorker) && c.Signer == "" {
		all = append(all, "the private keys are in this process and its environment, so somebody who takes it over can "+
			"spend the hot wallets; run stipend signer, and set --signer")
	}
	return all
}

// checkURLs checks the settings that are addresses of HTTP servers.
func (c Config) checkURLs() (problems []error) {
	check := func(flag, text string) {
		if u, err := url.Parse(text); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			problems = append(problems, fmt.Errorf("%s must be an http:// or https:// address", flag))
		}
	}
	for flag, text := range map[string]string{
		"--base-url": c.BaseURL, "--auth-url": c.AuthURL, "--bitcoin-rpc": c.BitcoinRPC,
		"--funding-stripe-url": c.FundingStripeURL,
	} {
		if text != "" {
			check(flag, text)
		}
	}
	for _, text := range c.BitcoinWitness {
		check("--bitcoin-witness", text)
	}
	for name, text := range c.EVMRPC {
		check("--evm-rpc of "+name, text)
	}
	for name, text := range c.EVMWitness {
		check("--evm-witness of "+name, text)
	}
	return problems
}

// checkEVM checks that settings for EVM networks name networks that exist, and that these settings are consistent.
func (c Config) checkEVM() (problems []error) {
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	names := network.Names(network.EVM)
	known := func(flag, name string) {
		if !slices.Contains(names, name) {
			bad("%s: network %q does not exist; want one of %s", flag, name, strings.Join(names, ", "))
		}
	}
	for name := range c.EVMRPC {
		known("--evm-rpc", name)
		if slices.Contains(c.EVMSimulated, name) {
			bad("--evm-simulated: %s has a node already", name)
		}
	}
	for name := range c.EVMWitness {
		if c.EVMRPC[name] == "" {
			bad("--evm-witness: %s has no node of its own, see --evm-rpc", name)
		}
	}
	for _, name := range c.EVMSimulated {
		known("--evm-simulated", name)
	}
	for name := range c.EVMChainID {
		known("--evm-chain-id", name)
	}
	for key, contract := range c.EVMToken {
		name, asset, ok := strings.Cut(key, ".")
		if known("--evm-token", name); !ok || asset != string(money.USDC) && asset != string(money.USDT) {
			bad("--evm-token must be NETWORK.USDC or NETWORK.USDT, not %q", key)
		}
		if _, err := evm.ParseAddress(testToken("", contract).Contract); err != nil {
			bad("--evm-token %s: %w", key, err)
		}
	}
	return problems
}

// CheckKeys returns the problems with the keys. The sandbox's keys are rejected in production, and wherever coins
// have a price.
func (c Config) CheckKeys() []error {
	valuable := c.Env == Production || c.BitcoinNetwork == "bitcoin"
	problems := []error{c.checkDataKey()}
	sandboxPub, _ := bitcoin.PublicKey(sandbox.BitcoinKey())
	pub, _ := bitcoin.PublicKey(c.BitcoinXPrv)
	problems = append(problems, keyPair{
		name: "bitcoin", private: c.BitcoinXPrv, public: c.BitcoinXPub, needsPrivate: c.Has(RoleWorker) && c.Signer == "",
		checkPrivate: func(key string) error { _, err := bitcoin.ParseXPriv(key, c.BitcoinNetwork); return err },
		checkPublic:  func(key string) error { _, err := bitcoin.ParseXPub(key, c.BitcoinNetwork); return err },
		isSandboxs: func(key string) bool {
			return valuable && (bitcoin.SameKey(key, sandbox.BitcoinKey()) || bitcoin.SameKey(key, sandboxPub))
		},
		matches: pub == "" || bitcoin.SameKey(pub, c.BitcoinXPub),
	}.check()...)
	if len(c.EVMRPC)+len(c.EVMSimulated) > 0 {
		sandboxPub, pub := evm.PublicKey(sandbox.EVMKey()), evm.PublicKey(c.EVMXPrv)
		problems = append(problems, keyPair{
			name: "evm", private: c.EVMXPrv, public: c.EVMXPub, needsPrivate: c.Has(RoleWorker) && c.Signer == "",
			checkPrivate: func(key string) error { _, err := evm.ParseXPriv(key); return err },
			checkPublic:  func(key string) error { _, err := evm.ParseXPub(key); return err },
			isSandboxs:   func(key string) bool { return c.Env == Production && evm.PublicKey(key) == sandboxPub },
			matches:      pub == "" || pub == evm.PublicKey(c.EVMXPub),
		}.check()...)
	}
	if _, err := c.client(); err != nil {
		problems = append(problems, fmt.Errorf("--signer: %w", err))
	}
	if c.Signer != "" && (c.BitcoinXPrv != "" || c.EVMXPrv != "") {
		problems = append(problems, errors.New("--signer: remove --bitcoin-xprv and --evm-xprv; the signer has the keys"))
	}
	return slices.DeleteFunc(problems, func(err error) bool { return err == nil })
}

func (c Config) checkDataKey() error {
	switch key, err := ParseDataKey(c.DataKey); {
	case c.DataKey == "":
		return errors.New("--data-key is missing: it encrypts stored secrets")
	case err != nil:
		return fmt.Errorf("--data-key: %w", err)
	case c.Env == Production && bytes.Equal(key, sandbox.DataKey()):
		return errors.New("--data-key is the sandbox's, which is public")
	}
	if _, err := c.Sealer(); err != nil {
		return fmt.Errorf("--decrypt-data-keys: %w", err)
	}
	return nil
}

// keyPair is the key pair of a wallet. The private key signs payouts; addresses are derived from the public key.
type keyPair struct {
	name                      string // in the names of the flags
	private, public           string
	needsPrivate              bool
	checkPrivate, checkPublic func(key string) error
	isSandboxs                func(key string) bool
	matches                   bool // true if the private key belongs to the public key, or is malformed
}

func (k keyPair) check() (problems []error) {
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf("--"+k.name+format, args...)) }
	privateErr := k.checkPrivate(k.private)
	switch {
	case k.private == "" && k.needsPrivate:
		bad("-xprv is missing: the worker role signs payouts with it")
	case k.private == "":
	case privateErr != nil:
		bad("-xprv: %w", privateErr)
	case k.isSandboxs(k.private):
		bad("-xprv is the sandbox's, which is public")
	}
	publicErr := k.checkPublic(k.public)
	switch {
	case k.public == "" && k.private == "":
		bad("-xpub is missing: funding addresses are derived from it")
	case k.public == "":
	case publicErr != nil:
		bad("-xpub: %w", publicErr)
	case k.isSandboxs(k.public):
		bad("-xpub is the sandbox's, which is public")
	case !k.matches:
		bad("-xpub and --%s-xprv are not one pair: money sent to the public key's addresses could not be spent", k.name)
	}
	return problems
}

// releaseLimit parses ReleaseLimit. If the text is empty, it returns the zero amount, which means no limit.
func (c Config) releaseLimit() (money.Amount, error) {
	return parseLimit("release-limit", c.ReleaseLimit)
}

// velocity parses the velocity limits.
func (c Config) velocity() (v approval.Velocity, err error) {
	for _, x := range []struct {
		name, text string
		to         *money.Amount
	}{
		{"velocity-company-day", c.VelocityCompanyDay, &v.CompanyDay},
		{"velocity-company-week", c.VelocityCompanyWeek, &v.CompanyWeek},
		{"velocity-payee-day", c.VelocityPayeeDay, &v.PayeeDay},
		{"velocity-payee-week", c.VelocityPayeeWeek, &v.PayeeWeek},
	} {
		if *x.to, err = parseLimit(x.name, x.text); err != nil {
			return v, err
		}
	}
	return v, nil
}

// travelRule parses the threshold of the travel rule and the operator's identity.
func (c Config) travelRule() (t travelrule.Config, err error) {
	t.VASP = travelrule.VASP{
		Name: strings.TrimSpace(c.TravelRuleName), Street: strings.TrimSpace(c.TravelRuleStreet),
		PostCode: strings.TrimSpace(c.TravelRulePostCode), City: strings.TrimSpace(c.TravelRuleCity),
		Country: strings.TrimSpace(c.TravelRuleCountry), LEI: strings.TrimSpace(c.TravelRuleLEI),
		Registration: strings.TrimSpace(c.TravelRuleRegistration),
	}
	if t.Threshold, err = parseLimit("travel-rule-threshold", c.TravelRuleThreshold); err != nil {
		return t, err
	}
	return t, t.Check()
}

// parseLimit parses a setting that contains an amount. If the text is empty, it returns the zero amount, which means
// no limit.
func parseLimit(name, text string) (money.Amount, error) {
	if text == "" {
		return money.Amount{}, nil
	}
	malformed := fmt.Errorf("--%s %q: want an amount and a currency, such as '50000 USD'", name, text)
	number, symbol, _ := strings.Cut(strings.TrimSpace(text), " ")
	asset, known := money.Lookup(strings.TrimSpace(symbol))
	if !known || asset.IsCrypto() {
		return money.Amount{}, malformed
	}
	a, err := money.Parse(asset, number)
	if err != nil || a.Sign() < 0 {
		return money.Amount{}, errors.Join(malformed, err)
	}
	return a, nil
}

// webhookPolicy returns the policy for the addresses of webhooks. A sandbox may also call its own machine.
func (c Config) webhookPolicy() (delivery.Policy, error) {
	allowed, err := prefixes(c.WebhookAllow)
	return delivery.Policy{Loopback: c.Env == Sandbox, Allowed: allowed}, err
}

// prefixes parses IP networks.
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

// ParseDataKey parses 32 bytes in hex or base64.
func ParseDataKey(text string) ([]byte, error) {
	decoders := []func(string) ([]byte, error){
		hex.DecodeString, base64.StdEncoding.DecodeString, base64.RawURLEncoding.DecodeString,
	}
	for _, decode := range decoders {
		if key, err := decode(text); err == nil && len(key) == 32 {
			return key, nil
		}
	}
	return nil, errors.New("want 32 bytes as hex or base64")
}

// Sealer returns a sealer that uses the keys.
func (k DataKeys) Sealer() (*identity.Sealer, error) {
	var keys [][]byte
	for _, text := range append([]string{k.DataKey}, k.DecryptDataKeys...) {
		key, err := ParseDataKey(text)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return identity.NewSealer(keys...)
}
