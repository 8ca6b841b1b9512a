package app

import (
	"cmp"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/stipend/stipend/internal/chain/network"
)

// setting describes a flag: the placeholder of its value, and its help.
type setting struct{ placeholder, help string }

// settings describes every field of Config by the name of its flag. Flags of other commands with the same names have
// the same meaning.
var settings = map[string]setting{
	"data-dir":     {"DIR", "Directory of the embedded database (${default})."},
	"database-url": {"URL", "postgres://… or sqlite:/path. Default: SQLite in the data directory."},
	"allow-sqlite": {"", "Let production run on SQLite: one machine, no replica."},

	"replicate-to": {"URL", "Where an SQLite database is copied continuously: file:///directory, or s3://bucket/path " +
		"with the parameters endpoint and region, and AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. Default: nowhere."},

	"keep": {"CLASS=DAYS,...", "How long classes of data are stored, such as mails=30,security_events=730. stipend " +
		"retention lists the classes and their periods."},

	"listen": {"ADDR", "Where the API and the pages are served (${default}); port 0 picks a free one."},
	"metrics-listen": {"ADDR", "Where Prometheus metrics, /healthz and /readyz are served (${default}), apart from the " +
		"API so that metrics do not become public by accident; empty serves none."},
	"base-url":        {"URL", "Public address of the API, for example behind a proxy. Default: the listener's own."},
	"auth-url":        {"URL", "Public address of the authorization page. Default: the base URL."},
	"max-connections": {"N", "Connections served at a time (${default}); further ones wait; 0: no limit."},
	"explorer": {"NETWORK=URL", "Block explorer to which the pages link transactions of a network (bitcoin, testnet, " +
		"base, …): an https URL with {tx}, such as bitcoin=https://explorer.example/tx/{tx}; several separated by ;. It " +
		"learns who looks at which transaction. Default: no links."},
	"operator-name": {"NAME", "Name of the service on pages, in documents and mails. Default: Stipend."},
	"operator-logo": {"FILE", "Logo beside that name, an SVG or a PNG of at most 256 KiB. Default: the mark of Stipend."},
	"languages":     {"TAGS", "Languages of the pages, the default first, such as en,es. Default: all of them."},
	"legal-texts": {"DIR", "Directory with terms.en.md, privacy.en.md and other languages, which users accept. Each " +
		"file begins with a line such as 'Version: 2026-07-01'. Default: none."},
	"staff-sso-issuer": {"URL", "Issuer of the OpenID provider by which staff sign in, such as " +
		"https://login.example.com. Default: staff sign in by password."},
	"staff-sso-client-id":     {"ID", "Client ID at that provider."},
	"staff-sso-client-secret": {"SECRET", "Client secret at that provider. Set it by environment."},
	"staff-sso-domains":       {"DOMAIN", "Domains of the email addresses of staff, such as example.com."},
	"staff-sso-only":          {"", "Refuse passwords of staff."},
	"security-contact": {"URL", "Where to report vulnerabilities, such as mailto:security@example.com, for " +
		"/.well-known/security.txt. Default: no such file."},
	"trusted-proxies": {"CIDR", "Networks of your own proxies, such as 10.2.0.0/24. Requests from them are limited by " +
		"the client's address in X-Forwarded-For. Default: none."},

	"env": {"ENV", "sandbox (default) or production. Credentials of one are not valid in the other."},
	"roles": {"ROLE", "What this process does: api serves requests, worker runs jobs and signs payouts, watcher " +
		"follows the chains. Default: all."},
	"data-key": {"KEY", "32 bytes, hex or base64, that encrypt stored secrets (see: stipend keys new). Set it by " +
		"environment."},
	"decrypt-data-keys": {"KEY", "Further data keys, separated by commas, that only decrypt, during a rotation (see: " +
		"stipend datakey). Set it by environment. Default: none."},
	"json":      {"", "Print one line of JSON on stdout when ready, instead of text."},
	"log-level": {"LEVEL", "Lowest level that is logged to stderr: debug, info (default), warn, error."},

	"otlp-endpoint": {"URL", "Where traces are sent by OTLP over HTTP, such as http://127.0.0.1:4318. " +
		"Default: none are made."},

	"webhook-allow": {"CIDR", "Private networks that webhooks may be sent to, such as 10.1.0.0/16. Default: none."},

	"smtp-url": {"URL", "Mail server, smtp://user:password@host:587 (STARTTLS) or smtps://user:password@host:465. " +
		"Default: mails are stored, not sent (sandbox only). Set it by environment."},
	"mail-from": {"ADDR", "Sender of mails: payments@example.com or Example <payments@example.com>."},

	"bitcoin-rpc": {"URL", "Bitcoin Core node, http://user:password@host:port. Default: simulated (sandbox only)."},
	"bitcoin-cookie": {"FILE", "Cookie file of a Bitcoin Core node on this machine (.cookie in its data directory), " +
		"instead of a user and password in the URL."},
	"bitcoin-ca-file": {"FILE", "Certificates in PEM that Bitcoin nodes with https:// are verified with, such as " +
		"btcd's rpc.cert. Default: those that the system trusts."},
	"bitcoin-witness": {"URL", "Further Bitcoin nodes, http://user:password@host:port, separated by commas, that only " +
		"confirm blocks: nothing is credited while one has other blocks, and no price is given while one is ahead. " +
		"Default: none."},
	"bitcoin-network": {"NET", "bitcoin (production's default), testnet, signet or regtest (the sandbox's)."},
	"bitcoin-xpub":    {"KEY", "Public account key (BIP 84) of the addresses. Default: that of the private key."},
	"bitcoin-xprv":    {"KEY", "Private account key that signs payouts; only workers need it. Set it by environment."},
	"block-interval":  {"DURATION", "Time between blocks of the simulated chain (${default})."},
	"poll-interval":   {"DURATION", "Time between requests to an idle chain's node. Default: 100ms simulated, 2s real."},
	"blind-limit": {"DURATION", "How long a chain may go unwatched before quotes are refused. Default: 10m in " +
		"production, never in the sandbox."},
	"tip-limit": {"DURATION", "Age of the last block at which the alarm tip_old is raised; less on networks with " +
		"faster blocks, in proportion to the confirmations required. Default: 90m in production, never in the sandbox."},

	"evm-rpc": {"NETWORK=URL", "JSON-RPC of a node, by network: " + network.List(network.EVM) + ", such as " +
		"base=http://127.0.0.1:8545; separate several by semicolons. Networks without a node are not offered."},
	"evm-witness": {"NETWORK=URL", "JSON-RPC of a second node, by network, that only confirms blocks, like " +
		"--bitcoin-witness. Default: none."},
	"evm-simulated": {"NETWORK", "Networks that a sandbox simulates: " + network.List(network.EVM) + ", or none. " +
		"Default: base, unless a node is set."},
	"evm-xpub": {"KEY", "Public account key (BIP 44, m/44'/60'/0') that addresses are derived from, the same on every " +
		"network. Default: that of the private key."},
	"evm-xprv":     {"KEY", "Private account key that signs payouts; only workers need it. Set it by environment."},
	"evm-chain-id": {"NETWORK=N", "Chain id of a test network that a sandbox uses instead, such as base=84532."},
	"evm-token": {"NETWORK.ASSET=ADDRESS", "Contract of a token on a test network, such as base.USDC=0x…; a token " +
		"without a contract is not offered there. For x402, with the name and version of its EIP-712 domain: 0x…/USDC/2."},

	"signer": {"ADDRESS", "Signer that holds the private keys, unix:PATH or HOST:PORT with mutual TLS: see stipend " +
		"signer. Default: the private keys are in the worker process."},
	"signer-cert-file": {"FILE", "Certificate of this service for mutual TLS with the signer."},
	"signer-key-file":  {"FILE", "Private key of that certificate."},
	"signer-ca-file":   {"FILE", "Certificate authority of the signer's certificate."},

	"lnd-url": {"URL", "REST API of an LND node, https://host:8080, over which claims can be paid too; " +
		"`simulated` in a sandbox simulates one. Default: claims are paid on chain only."},
	"lnd-macaroon-file": {"FILE", "Macaroon with invoices:read, invoices:write, info:read, and for reconciliation " +
		"offchain:read and onchain:read. Default: none."},
	"lnd-tls-cert-file": {"FILE", "Certificate of the node, tls.cert. Default: the system's certificate authorities."},
	"lnd-payouts": {"", "Also pay payees over Lightning, for which the macaroon needs offchain:read and offchain:write. " +
		"Default: no; a simulated node pays."},
	"lnd-max-fee-bps": {"N", "Largest fee of a Lightning payment in basis points of its amount (${default}); " +
		"10 satoshis are always accepted."},
	"lnd-min-payment": {"SATS", "Least Lightning payment in satoshis (${default})."},
	"lnd-max-payment": {"SATS", "Largest Lightning payment in satoshis (${default})."},
	"lnd-timeout":     {"DURATION", "Time in which the node looks for routes of a payment (${default})."},

	"funding-stripe-key": {"KEY", "Secret key of the Stripe account whose bank transfers become virtual accounts. " +
		"Default: none. Set it by environment."},
	"funding-stripe-url":     {"URL", "Address of Stripe's API (${default})."},
	"funding-stripe-country": {"CC", "Country of virtual accounts in euros: BE, DE (default), ES, FR, IE or NL."},
	"bank-accounts": {"FILE", "The operator's bank accounts that payouts are made from, as JSON. Default: the " +
		"sandbox's own; in production payouts to banks wait."},
	"increase-key": {"KEY", "API key of Increase, for accounts with the format increase. Set it by environment."},
	"column-key": {"KEY", "API key of Column, for accounts with the format column; a test_ key is its sandbox. Set it " +
		"by environment."},
	"column-url":   {"URL", "Address of Column's API (${default})."},
	"increase-url": {"URL", "Address of Increase's API (${default}); https://sandbox.increase.com is its sandbox."},
	"wise-token":   {"TOKEN", "API token of Wise, for accounts with the format wise. Set it by environment."},
	"wise-url":     {"URL", "Address of Wise's API (${default}); https://api.wise-sandbox.com is its sandbox."},
	"wise-webhook-key-file": {"FILE", "Wise's public key, in PEM, that signs webhooks to BASE_URL/callbacks/bank/wise. " +
		"Default: webhooks are refused."},
	"increase-webhook-secret": {"KEY", "Secret of Increase's event subscription to BASE_URL/callbacks/bank/increase. " +
		"Default: webhooks are refused. Set it by environment."},
	"column-webhook-secret": {"KEY", "Secret of Column's webhook endpoint BASE_URL/callbacks/bank/column. Default: " +
		"webhooks are refused. Set it by environment."},
	"modulr-key": {"KEY", "API key of Modulr, which compares the names of payees with those of the holders of accounts " +
		"in SEPA (Verification of Payee). Default: only banks that report it on payments do. Set it by environment."},
	"modulr-secret":  {"KEY", "Secret of the API key of Modulr. Set it by environment."},
	"modulr-account": {"ID", "The operator's account at Modulr for which names are compared, such as A123AAA4."},
	"modulr-url": {"URL", "Address of Modulr's API (${default}); https://api-sandbox.modulrfinance.com/api-sandbox is " +
		"its sandbox."},
	"bank-dir":           {"DIR", "Directory that is shared with the bank: payment files in out, the bank's files in in."},
	"bank-sftp":          {"URL", "The same on a server of the bank: sftp://user@host:22/directory."},
	"bank-sftp-key-file": {"FILE", "Private key of the SFTP user, in OpenSSH's format."},
	"bank-sftp-host-key-file": {"FILE", "The only host key that is accepted from the SFTP server: one line of a public " +
		"key or known_hosts file."},

	"sumsub-token":          {"TOKEN", "App token of Sumsub. Default: the sandbox's provider; in production, none."},
	"sumsub-secret":         {"KEY", "Secret key of the app token. Set it by environment."},
	"sumsub-webhook-secret": {"KEY", "Secret key of the webhook to BASE_URL/callbacks/verification/sumsub."},
	"sumsub-person-level":   {"NAME", "Verification level of people (${default})."},
	"sumsub-company-level":  {"NAME", "Verification level of companies (${default})."},
	"sumsub-url":            {"URL", "Address of Sumsub's API. Default: its public one."},

	"sanctions-list": {"FILE", "Sanctions lists that payees and companies are compared with, as published: OFAC's " +
		"sdn.xml and consolidated.xml, the UN's consolidated list. A changed file is read again. Default: invented " +
		"names (sandbox only)."},
	"sanctions-max-age": {"DURATION", "Age of a list after which nothing is released (${default})."},
	"sanctions-threshold": {"PERCENT", "Similarity from which on a name and a listed one are a match that a person " +
		"reviews, from 70 to 100 percent (${default})."},

	"quote-validity":    {"DURATION", "How long a payroll's quote is valid (${default})."},
	"claim-validity":    {"DURATION", "How long a claim's quote is valid (${default})."},
	"claims-per-minute": {"N", "Number of claims that one company may create per minute (${default}); 0 sets no limit."},
	"open-claims":       {"N", "Number of unpaid claims that one company may have (${default}); 0 sets no limit."},
	"cool-down": {"DURATION", "How long payments wait after the destination of a payee who was paid before was " +
		"changed, and withdrawals to a new destination of the company; below 0 switches it off. Default: 24h in " +
		"production, off in the sandbox."},
	"account-checks": {"ignore|warn|block", "What a bank account means that was not checked or did not pass: nothing, a " +
		"warning to approvers, or that payments wait until it passes or a member confirms it (${default})."},
	"prenotes": {"", "Send a prenote, at Column a cent, to each new ACH account. Payments wait three banking days."},
	"release-limit": {"AMOUNT", "Total, such as '50000 USD', above which a payroll, withdrawal or income needs two " +
		"members of staff: one requests its release, another approves it. Default: none."},
	"velocity-company-day": {"AMOUNT", "Total, such as '200000 USD', above which what a company pays out in a day needs " +
		"two members of staff, as above --release-limit. Default: none."},
	"velocity-company-week": {"AMOUNT", "The same for seven days."},
	"velocity-payee-day": {"AMOUNT", "Total, such as '20000 USD', above which what one payee is paid in a day, " +
		"whichever companies pay, needs two members of staff. Default: none."},
	"velocity-payee-week": {"AMOUNT", "The same for seven days."},
	"travel-rule-threshold": {"AMOUNT", "Value, such as '1000 EUR', from which on a payout of crypto assets needs a " +
		"record of who sends and who receives it (IVMS101), and self-hosted wallets a proof. Default: no records."},
	"travel-rule-name":      {"NAME", "Legal name of the operator in these records."},
	"travel-rule-street":    {"TEXT", "Street and number of the operator's address."},
	"travel-rule-post-code": {"TEXT", "Its post code."},
	"travel-rule-city":      {"TEXT", "Its town."},
	"travel-rule-country":   {"COUNTRY", "Its country, such as DE."},
	"travel-rule-lei":       {"LEI", "Legal entity identifier of the operator."},
	"travel-rule-registration": {"TEXT", "Instead of an LEI, the operator's number in a register, after the register's " +
		"code by GLEIF, such as RA000585/01234567."},
	"spread-bps": {"BPS", "Spread of a quote over the market price, in hundredths of a percent (${default}). It pays " +
		"for the risk of a fixed price."},
	"fee-bps":           {"BPS", "Fee of the seeded company, in hundredths of a percent (${default})."},
	"income-fee-bps":    {"BPS", "Fee of money that people receive, in hundredths of a percent (${default})."},
	"premium-bps":       {"BPS", "Fee for a premium payee of the seeded company, instead of its fee (${default})."},
	"tolerance-bps":     {"BPS", "Shortfall of a funding payment that the operator absorbs (${default})."},
	"reads-per-second":  {"N", "Reads per second that one credential may sustain (${default}); 0 sets no limit."},
	"writes-per-second": {"N", "Writes per second that one credential may sustain (${default}); 0 sets no limit."},
}

// DescribeSettings returns a kong option that sets the environment variable, placeholder and help of these flags in
// every command. Tags of a flag take precedence; env:"-" means no environment variable.
func DescribeSettings() kong.Option {
	var visit func(*kong.Node)
	visit = func(n *kong.Node) {
		for _, flag := range n.Flags {
			describe(flag)
		}
		for _, child := range n.Children {
			visit(child)
		}
	}
	return kong.PostBuild(func(k *kong.Kong) error {
		visit(k.Model.Node)
		return nil
	})
}

func describe(flag *kong.Flag) {
	s, ok := settings[flag.Name]
	if !ok {
		return
	}
	if len(flag.Envs) == 0 {
		flag.Envs = []string{"STIPEND_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))}
	} else if flag.Envs[0] == "-" {
		flag.Envs = nil
	}
	flag.Tag.Envs = flag.Envs
	flag.PlaceHolder = cmp.Or(flag.PlaceHolder, s.placeholder)
	flag.Help = cmp.Or(flag.Help, s.help)
}
