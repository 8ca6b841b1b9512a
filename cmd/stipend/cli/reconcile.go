package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
)

// NodeFlags contains the flags for the Bitcoin node to which a command connects.
type NodeFlags struct {
	BitcoinRPC     string `name:"bitcoin-rpc"`
	BitcoinNetwork string `default:"" enum:",bitcoin,testnet,signet,regtest" help:"Default: that of the stored addresses."`
	BitcoinCookie  string
	BitcoinCAFile  string `name:"bitcoin-ca-file"`
}

func (c NodeFlags) node(ctx context.Context, d *db.DB) (interface {
	chain.Source
	chain.UTXOSource
}, error) {
	if c.BitcoinRPC == "" {
		return bitcoinsim.New(d), nil
	}
	if c.BitcoinNetwork == "" {
		var address string
		if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			address, err = chain.AnyAddress(ctx, tx, app.BitcoinChain)
			return err
		}); err != nil {
			return nil, err
		}
		networks := bitcoin.NetworksOf(address)
		if len(networks) != 1 {
			return nil, errors.New("--bitcoin-network is missing: the stored addresses do not tell the network")
		}
		c.BitcoinNetwork = networks[0]
	}
	return bitcoin.NewClient(bitcoin.Options{URL: c.BitcoinRPC, CookieFile: c.BitcoinCookie, CAFile: c.BitcoinCAFile,
		Network: c.BitcoinNetwork})
}

// EVMNodeFlags contains the flags for the nodes of EVM networks to which a command connects.
type EVMNodeFlags struct {
	Env        string            `default:"sandbox" enum:"sandbox,production"`
	EVMRPC     map[string]string `name:"evm-rpc" mapsep:";"`
	EVMChainID map[string]uint64 `name:"evm-chain-id" mapsep:";"`
	EVMToken   map[string]string `name:"evm-token" mapsep:";"`
}

func (c EVMNodeFlags) networks(d *db.DB) ([]app.EVMChain, error) {
	var config app.Config
	config.Env, config.EVMRPC, config.EVMChainID, config.EVMToken = c.Env, c.EVMRPC, c.EVMChainID, c.EVMToken
	return config.Complete().OpenEVM(d)
}

// network returns the node of a network.
func (c EVMNodeFlags) network(d *db.DB, name string) (evm.Node, error) {
	all, err := c.networks(d)
	for _, a := range all {
		if a.Network.Name == name {
			return a.Node, nil
		}
	}
	return nil, errors.Join(err, fmt.Errorf("--evm-rpc names no node of %q", name))
}

// ReconcileCmd compares the ledger with nodes and banks.
type ReconcileCmd struct {
	app.Storage
	NodeFlags
	EVMNodeFlags
	BankAccountsFlag
	app.Lightning
	JSON bool `name:"json" env:"-" help:"Print JSON."`
}

// Help returns the details of the help.
func (ReconcileCmd) Help() string {
	return `It compares the ledger with the coins of the wallet, those with the node, coin by coin, the accounts on
EVM networks with their nodes, and the bank accounts with the imported statements. It changes nothing but
stores its report. The node needs no wallet.`
}

// Run prints the report. It returns backoffice.ErrDifferences if there are differences.
func (c ReconcileCmd) Run(ctx context.Context, std Streams) error {
	return withDB(ctx, c.Storage, func(ctx context.Context, d *db.DB) error {
		w, err := c.sources(ctx, d)
		if err != nil {
			return err
		}
		r, err := backoffice.ReconcileSettled(ctx, d, w)
		if err != nil {
			return err
		}
		if c.JSON {
			out := json.NewEncoder(std.Out)
			out.SetIndent("", "  ")
			if err := out.Encode(r); err != nil || r.Clean() {
				return err
			}
			return backoffice.ErrDifferences
		}
		return PrintReconciliation(std.Out, r)
	})
}

// sources returns the nodes and bank accounts with which the ledger is compared.
func (c ReconcileCmd) sources(ctx context.Context, d *db.DB) (w backoffice.Sources, err error) {
	w.Chain = app.BitcoinChain
	if w.Node, err = c.node(ctx, d); err != nil {
		return w, err
	}
	if w.Banks, err = c.accounts(); err != nil {
		return w, err
	}
	if c.LndURL != "" && c.LndURL != app.SimulatedLnd {
		config := app.Config{Lightning: c.Lightning}
		config.Roles, config.BitcoinNetwork = []string{app.RoleWorker}, c.BitcoinNetwork
		service, err := config.OpenLightning()
		if err != nil {
			return w, err
		}
		w.Channels = service.Client
	}
	networks, err := c.networks(d)
	for _, a := range networks {
		w.Accounts = append(w.Accounts, a.Node)
	}
	return w, err
}

// PrintReconciliation prints a report. It returns backoffice.ErrDifferences if the report contains differences.
func PrintReconciliation(w io.Writer, r backoffice.Report) error {
	fmt.Fprintf(w, "%s: %d coins and accounts, %s, up to block %d.\n", r.ID, r.Coins, r.Total, r.Height)
	if !r.Clean() {
		if err := table(w, "DIFFERENCE\tOBJECT\tLEDGER\tOUTSIDE", func(row func(...any)) {
			for _, d := range r.Differences {
				row(d.Kind, d.Object, d.Ledger, d.Actual)
			}
		}); err != nil {
			return err
		}
	}
	for _, text := range r.NotCompared {
		fmt.Fprintf(w, "not compared: %s\n", text)
	}
	if !r.Clean() {
		return backoffice.ErrDifferences
	}
	fmt.Fprintln(w, "Nothing differs.")
	return nil
}
