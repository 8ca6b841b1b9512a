package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/chain/sim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payout"
)

const (
	// reconcileEvery is how often a worker compares.
	reconcileEvery = time.Hour
	// reconcileAgain and reconcileTries are for what differs because work is under way: a block came, and its jobs have not run.
	reconcileAgain = 5 * time.Second
	reconcileTries = 3
)

// errDiffers is a comparison that found differences.
var errDiffers = errors.New("the books and the world differ")

// reconcile compares until nothing differs, or what does has stayed.
func reconcile(ctx context.Context, d *db.DB, w backoffice.World) (r backoffice.Report, err error) {
	for range reconcileTries {
		if r, err = backoffice.Reconcile(ctx, d, w); err != nil || r.Clean() {
			return r, err
		}
		select {
		case <-ctx.Done():
			return r, ctx.Err()
		case <-time.After(reconcileAgain):
		}
	}
	return r, nil
}

// reconcileNow compares, where the node can be asked for coins.
func (s *Service) reconcileNow(ctx context.Context) error {
	node, ok := s.source.(chain.Keeper)
	if !ok {
		return nil
	}
	w := backoffice.World{Chain: chainName, Node: node}
	for _, a := range s.evms {
		w.Accounts = append(w.Accounts, a.node)
	}
	if s.lightning != nil {
		w.Channels = s.lightning.Client
	}
	var err error
	if w.Banks, err = s.cfg.houseAccounts(); err != nil {
		return err
	}
	r, err := reconcile(ctx, s.db, w)
	if err != nil {
		return err
	}
	return s.judge(ctx, r)
}

// judge tells the log of what differs, and pauses payouts where a coin that we count on is not there, or the books
// contradict themselves: what would be paid with cannot be trusted then.
func (s *Service) judge(ctx context.Context, r backoffice.Report) error {
	stop := ""
	for _, d := range r.Differences {
		s.log.ErrorContext(ctx, "the books and the world differ", "kind", d.Kind, "object", d.Object, "books", d.Books, "world", d.World)
		if d.Kind == backoffice.CoinMissing || d.Kind == backoffice.BooksWrong {
			stop = "reconciliation " + r.ID + " found " + d.Kind + " " + d.Object
		}
	}
	if stop == "" {
		return nil
	}
	return s.db.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		if why, err := payout.Paused(ctx, tx); err != nil || why != "" {
			return err
		}
		return errors.Join(payout.SetPaused(ctx, tx, stop), backoffice.AtTheMachine(ctx, tx, "payouts.pause", r.ID, stop))
	})
}

// asked is the node that a command asks.
type asked struct {
	BitcoinRPC     string `name:"bitcoin-rpc" env:"STIPEND_BITCOIN_RPC" placeholder:"URL" help:"Bitcoin Core node, http://user:password@host:port. Default: the simulated chain."`
	BitcoinNetwork string `default:"bitcoin" enum:"bitcoin,testnet,signet,regtest" env:"STIPEND_BITCOIN_NETWORK" placeholder:"NET" help:"The node's network (${default})."`
	BitcoinCookie  string `name:"bitcoin-cookie" env:"STIPEND_BITCOIN_COOKIE" placeholder:"FILE" help:"The node's cookie file, in place of a user and password in the URL."`
}

// node is the Bitcoin node, or the chain that the database simulates.
func (c asked) node(d *db.DB) (chain.Keeper, error) {
	if c.BitcoinRPC == "" {
		return sim.New(d), nil
	}
	return newClient(c.BitcoinRPC, c.BitcoinCookie, c.BitcoinNetwork)
}

// askedNetworks are the nodes of networks of accounts that a command asks.
type askedNetworks struct {
	Env        string            `default:"sandbox" enum:"sandbox,production" env:"STIPEND_ENV" placeholder:"ENV" help:"sandbox (default) or production."`
	EVMRPC     map[string]string `name:"evm-rpc" env:"STIPEND_EVM_RPC" mapsep:";" placeholder:"NETWORK=URL" help:"Nodes of networks of accounts, as serve has them. Default in a sandbox: the simulated network."`
	EVMChainID map[string]uint64 `name:"evm-chain-id" env:"STIPEND_EVM_CHAIN_ID" mapsep:";" placeholder:"NETWORK=N" help:"Chain id of a test network, as serve has it."`
	EVMToken   map[string]string `name:"evm-token" env:"STIPEND_EVM_TOKEN" mapsep:";" placeholder:"NETWORK.ASSET=ADDRESS" help:"Contract of a token on a test network, as serve has it."`
}

func (c askedNetworks) networks(d *db.DB) ([]accountChain, error) {
	return Config{Env: c.Env, EVM: EVM{EVMRPC: c.EVMRPC, EVMChainID: c.EVMChainID, EVMToken: c.EVMToken}}.complete().openNetworks(d)
}

// network is the node of one.
func (c askedNetworks) network(d *db.DB, name string) (evm.Node, error) {
	all, err := c.networks(d)
	for _, a := range all {
		if a.network.Name == name {
			return a.node, nil
		}
	}
	return nil, errors.Join(err, fmt.Errorf("--evm-rpc: there is no node of %q", name))
}

// ReconcileCmd compares the books with the world.
type ReconcileCmd struct {
	Storage
	asked
	banks
	LndURL          string `env:"STIPEND_LND_URL" placeholder:"URL" help:"The Lightning node, as serve has it. Default: none is asked."`
	LndMacaroonFile string `env:"STIPEND_LND_MACAROON_FILE" placeholder:"FILE" help:"Its macaroon, with offchain:read and onchain:read."`
	LndTLSCertFile  string `env:"STIPEND_LND_TLS_CERT_FILE" placeholder:"FILE" help:"Its certificate."`
	JSON            bool   `name:"json" help:"The report as JSON."`
	askedNetworks
}

// Help is the long form of the help.
func (ReconcileCmd) Help() string {
	return `Each coin that the books rest on is asked for at the node, each deposit and payout is looked for in the chain, and what the coins are
worth is compared with the hot wallet's account. On each network of accounts, what all of our accounts held at the newest block up to which
everything is booked is compared with account 1006. Account 1020 is compared with the bank's statements that were taken in: each booking,
the sequence of the statements, the balances. Workers do the same every hour. The report is kept; operators read it at
/operations/reconciliation. What is booked while the command runs may differ for seconds, so it looks three times.`
}

// Run prints the report and returns errDiffers when anything differs.
func (c ReconcileCmd) Run(ctx context.Context, std Streams) error {
	return c.withDB(ctx, func(ctx context.Context, d *db.DB) error {
		node, err := c.node(d)
		if err != nil {
			return err
		}
		w := backoffice.World{Chain: chainName, Node: node}
		if w.Banks, err = c.accounts(); err != nil {
			return err
		}
		if c.LndURL != "" {
			service, err := Config{Roles: []string{RoleWorker}, BitcoinNetwork: c.BitcoinNetwork, LndURL: c.LndURL, LndMacaroonFile: c.LndMacaroonFile, LndTLSCertFile: c.LndTLSCertFile}.lightning()
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
			w.Accounts = append(w.Accounts, a.node)
		}
		r, err := reconcile(ctx, d, w)
		if err != nil {
			return err
		}
		if c.JSON {
			out := json.NewEncoder(std.Out)
			out.SetIndent("", "  ")
			if err := out.Encode(r); err != nil || r.Clean() {
				return err
			}
			return errDiffers
		}
		return printReconciliation(std.Out, r)
	})
}

func printReconciliation(w io.Writer, r backoffice.Report) error {
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
		return errDiffers
	}
	fmt.Fprintln(w, "Nothing differs.")
	return nil
}
