package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
)

// NodeFlags is the node that a command asks.
type NodeFlags struct {
	BitcoinRPC     string `name:"bitcoin-rpc" env:"STIPEND_BITCOIN_RPC" placeholder:"URL" help:"Bitcoin Core node, http://user:password@host:port. Default: the simulated chain."`
	BitcoinNetwork string `default:"bitcoin" enum:"bitcoin,testnet,signet,regtest" env:"STIPEND_BITCOIN_NETWORK" placeholder:"NET" help:"The node's network (${default})."`
	BitcoinCookie  string `name:"bitcoin-cookie" env:"STIPEND_BITCOIN_COOKIE" placeholder:"FILE" help:"The node's cookie file, in place of a user and password in the URL."`
}

// node is the Bitcoin node, or the chain that the database simulates.
func (c NodeFlags) node(d *db.DB) (chain.UTXOSource, error) {
	if c.BitcoinRPC == "" {
		return bitcoinsim.New(d), nil
	}
	return bitcoin.NewClient(bitcoin.Options{URL: c.BitcoinRPC, CookieFile: c.BitcoinCookie, Network: c.BitcoinNetwork})
}

// EVMNodeFlags are the nodes of networks of accounts that a command asks.
type EVMNodeFlags struct {
	Env        string            `default:"sandbox" enum:"sandbox,production" env:"STIPEND_ENV" placeholder:"ENV" help:"sandbox (default) or production."`
	EVMRPC     map[string]string `name:"evm-rpc" env:"STIPEND_EVM_RPC" mapsep:";" placeholder:"NETWORK=URL" help:"Nodes of networks of accounts, as serve has them. Default in a sandbox: the simulated network."`
	EVMChainID map[string]uint64 `name:"evm-chain-id" env:"STIPEND_EVM_CHAIN_ID" mapsep:";" placeholder:"NETWORK=N" help:"Chain id of a test network, as serve has it."`
	EVMToken   map[string]string `name:"evm-token" env:"STIPEND_EVM_TOKEN" mapsep:";" placeholder:"NETWORK.ASSET=ADDRESS" help:"Contract of a token on a test network, as serve has it."`
}

func (c EVMNodeFlags) networks(d *db.DB) ([]app.EVMChain, error) {
	return app.Config{Env: c.Env, EVM: app.EVM{EVMRPC: c.EVMRPC, EVMChainID: c.EVMChainID, EVMToken: c.EVMToken}}.Complete().OpenEVM(d)
}

// network is the node of one.
func (c EVMNodeFlags) network(d *db.DB, name string) (evm.Node, error) {
	all, err := c.networks(d)
	for _, a := range all {
		if a.Network.Name == name {
			return a.Node, nil
		}
	}
	return nil, errors.Join(err, fmt.Errorf("--evm-rpc: there is no node of %q", name))
}

// ReconcileCmd compares the books with the world.
type ReconcileCmd struct {
	app.Storage
	NodeFlags
	BankAccountsFlag
	LndURL          string `env:"STIPEND_LND_URL" placeholder:"URL" help:"The Lightning node, as serve has it. Default: none is asked."`
	LndMacaroonFile string `env:"STIPEND_LND_MACAROON_FILE" placeholder:"FILE" help:"Its macaroon, with offchain:read and onchain:read."`
	LndTLSCertFile  string `env:"STIPEND_LND_TLS_CERT_FILE" placeholder:"FILE" help:"Its certificate."`
	JSON            bool   `name:"json" help:"The report as JSON."`
	EVMNodeFlags
}

// Help is the long form of the help.
func (ReconcileCmd) Help() string {
	return `Each coin that the books rest on is asked for at the node, each deposit and payout is looked for in the chain, and what the coins are
worth is compared with the hot wallet's account. On each network of accounts, what all of our accounts held at the newest block up to which
everything is booked is compared with account 1006. Account 1020 is compared with the bank's statements that were taken in: each booking,
the sequence of the statements, the balances. Workers do the same every hour. The report is kept; operators read it at
/operations/reconciliation. What is booked while the command runs may differ for seconds, so it looks three times.`
}

// Run prints the report and returns app.ErrDifferences when anything differs.
func (c ReconcileCmd) Run(ctx context.Context, std Streams) error {
	return withDB(ctx, c.Storage, func(ctx context.Context, d *db.DB) error {
		node, err := c.node(d)
		if err != nil {
			return err
		}
		w := backoffice.World{Chain: app.BitcoinChain, Node: node}
		if w.Banks, err = c.accounts(); err != nil {
			return err
		}
		if c.LndURL != "" {
			service, err := app.Config{Roles: []string{app.RoleWorker}, BitcoinNetwork: c.BitcoinNetwork, LndURL: c.LndURL, LndMacaroonFile: c.LndMacaroonFile, LndTLSCertFile: c.LndTLSCertFile}.OpenLightning()
			if err != nil {
				return err
			}
			w.Channels = service.Client
		}
		networks, err := c.networks(d)
		if err != nil {
			return err
		}
		for _, a := range networks {
			w.Accounts = append(w.Accounts, a.Node)
		}
		r, err := app.Reconcile(ctx, d, w)
		if err != nil {
			return err
		}
		if c.JSON {
			out := json.NewEncoder(std.Out)
			out.SetIndent("", "  ")
			if err := out.Encode(r); err != nil || r.Clean() {
				return err
			}
			return app.ErrDifferences
		}
		return PrintReconciliation(std.Out, r)
	})
}

// PrintReconciliation prints a report and returns app.ErrDifferences when anything differs.
func PrintReconciliation(w io.Writer, r backoffice.Report) error {
	fmt.Fprintf(w, "%s: %d coins and accounts, %s, up to block %d.\n", r.ID, r.Coins, r.Total, r.Height)
	if !r.Clean() {
		t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
		fmt.Fprintln(t, "DIFFERENCE\tOBJECT\tBOOKS\tWORLD")
		for _, d := range r.Differences {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", d.Kind, d.Object, d.Books, d.World)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	for _, text := range r.NotCompared {
		fmt.Fprintf(w, "not compared: %s\n", text)
	}
	if !r.Clean() {
		return app.ErrDifferences
	}
	fmt.Fprintln(w, "Nothing differs.")
	return nil
}
