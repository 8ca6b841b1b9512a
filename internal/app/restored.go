package app

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/chain/network"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	bitcoinrail "github.com/stipend/stipend/internal/payout/bitcoin"
	evmrail "github.com/stipend/stipend/internal/payout/evm"
	"github.com/stipend/stipend/internal/receivable/deposit"
)

// RestoredCmd prepares a restored database.
type RestoredCmd struct {
	Storage
	Env            string `default:"sandbox" enum:"sandbox,production" env:"STIPEND_ENV" placeholder:"ENV" help:"sandbox (default) or production."`
	BitcoinNetwork string `enum:",bitcoin,testnet,signet,regtest" env:"STIPEND_BITCOIN_NETWORK" default:"" placeholder:"NET" help:"bitcoin, testnet, signet or regtest. Default: regtest in the sandbox, bitcoin in production."`
	BitcoinXPub    string `name:"bitcoin-xpub" env:"STIPEND_BITCOIN_XPUB" placeholder:"KEY" help:"Public account key that addresses come from. Default: that of the private key; in a sandbox, the sandbox's."`
	BitcoinXPrv    string `name:"bitcoin-xprv" env:"STIPEND_BITCOIN_XPRV" placeholder:"KEY" help:"Private account key, in place of the public one."`
	EVMXPub        string `name:"evm-xpub" env:"STIPEND_EVM_XPUB" placeholder:"KEY" help:"The same of the networks of accounts. Default: that of the private key; in a sandbox, the sandbox's. Without any, and where none was used, they are left out."`
	EVMXPrv        string `name:"evm-xprv" env:"STIPEND_EVM_XPRV" placeholder:"KEY" help:"Private account key, in place of the public one."`
	Skip           int64  `default:"100000" help:"How many addresses to leave unused: more than were given out since the backup (${default})."`
	SkipFiles      int64  `default:"1000" help:"How many numbers of files for banks to leave unused: more than were made since the backup (${default})."`
	Watch          int64  `default:"1000" help:"How many of them to watch for money all the same: more than were given out since the backup, if you can wait for the keys to be derived (${default})."`
}

// Help is the long form of the help.
func (RestoredCmd) Help() string {
	return `Run it on a restored database before any process serves it. It pauses payouts, because the database does not know what was paid
since the backup; it skips addresses, because it does not know which were given out since; and it watches the first of them, so that
money that was or is paid there is found: stipend ledger suspense lists it. Then start the service, wait until it has followed the chain,
compare, and let payouts go on: docs/operating.md, Backup and restore.`
}

// Run does all of it in one transaction.
func (c RestoredCmd) Run(ctx context.Context, std Streams) error {
	if c.Skip < 1 || c.Skip > 100_000_000 {
		return errors.New("--skip is a number of addresses, from 1 to 100000000")
	}
	if c.Watch < 0 || c.Watch > min(c.Skip, 1_000_000) {
		return errors.New("--watch is a number of addresses, from 0 to 1000000, and not more than --skip")
	}
	if c.SkipFiles < 1 || c.SkipFiles > 1_000_000 {
		return errors.New("--skip-files is a number of files, from 1 to 1000000")
	}
	full := Config{Storage: c.Storage, Env: c.Env, BitcoinNetwork: c.BitcoinNetwork, BitcoinXPub: c.BitcoinXPub, BitcoinXPrv: c.BitcoinXPrv,
		EVM: EVM{EVMXPub: c.EVMXPub, EVMXPrv: c.EVMXPrv}}.complete()
	if full.BitcoinXPub == "" {
		return errors.New("--bitcoin-xpub is missing: the addresses to watch come from it")
	}
	keys, err := bitcoin.ParseXPub(full.BitcoinXPub, full.BitcoinNetwork)
	if err != nil {
		return fmt.Errorf("--bitcoin-xpub: %w", err)
	}
	return c.withDB(ctx, func(ctx context.Context, d *db.DB) error {
		var watched int
		err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			if watched, err = chain.Forgotten(ctx, tx, chainName, keys, c.Skip, c.Watch); err != nil {
				return err
			}
			networks, err := chain.UsedOf(ctx, tx, network.Names(network.EVM))
			if err != nil {
				return err
			}
			if len(networks) > 0 {
				keys, err := evm.ParseXPub(full.EVMXPub)
				if err != nil {
					return fmt.Errorf("--evm-xpub: %w", err)
				}
				more, err := chain.Forgotten(ctx, tx, accountPool, keys, c.Skip, c.Watch, networks...)
				if err != nil {
					return err
				}
				watched += more
			}
			if err := bank.SkipNumbers(ctx, tx, c.SkipFiles); err != nil {
				return err
			}
			return payout.SetPaused(ctx, tx, "the database was restored from a backup; see which payouts left since before they go on")
		})
		if err == nil {
			fmt.Fprintf(std.Out, "Payouts are paused. The next %d addresses stay unused, and %d that may have been given out are watched. Now start the service.\n", c.Skip, watched)
		}
		return err
	})
}

// manyRows bounds what a command lists.
const manyRows = 10_000

// PayoutsQueuedCmd lists what waits.
type PayoutsQueuedCmd struct {
	Storage
}

// Run prints queued outputs.
func (c PayoutsQueuedCmd) Run(ctx context.Context, std Streams) error {
	return c.withDB(ctx, func(ctx context.Context, d *db.DB) error {
		return d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
			all, err := payout.ListQueued(ctx, tx, manyRows)
			if err != nil {
				return err
			}
			t := tabwriter.NewWriter(std.Out, 0, 4, 2, ' ', 0)
			fmt.Fprintln(t, "OUTPUT\tAMOUNT\tASSET\tRAIL\tADDRESS\tPAYROLL\tCOMPANY")
			for _, o := range all {
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", o.ID, o.Amount, o.Amount.Asset(), o.Rail, dash(o.Address), dash(o.PayrollID), o.CompanyID)
			}
			return t.Flush()
		})
	})
}

// PayoutsPaidCmd marks an output as paid.
type PayoutsPaidCmd struct {
	Storage
	asked
	askedNetworks
	Output  string `arg:"" help:"Id of the output (out_…), from: stipend payouts queued."`
	TxID    string `name:"txid" required:"" help:"Transaction that paid it, from: stipend payouts status."`
	Network string `default:"bitcoin" help:"Where the transaction is: bitcoin (default), ethereum, base, polygon or arbitrum."`
}

// Help is the long form of the help.
func (PayoutsPaidCmd) Help() string {
	return `It believes the chain, not you: payouts must be paused, the watcher must have seen the transaction spend coins of the wallet, or a nonce of
the paying account, with six confirmations (on Polygon and the like as many more as their blocks come faster), and the transaction must pay
the output's amount to the output's address, by an output of its own that paid nobody else. Then the output is fulfilled, and the books say
so. A Bitcoin node needs txindex=1. What a bank paid: stipend bank paid.`
}

// Run asks the node and marks.
func (c PayoutsPaidCmd) Run(ctx context.Context, std Streams) error {
	return c.withDB(ctx, func(ctx context.Context, d *db.DB) error {
		var source interface {
			Tx(ctx context.Context, txid string) (chain.Tx, error)
		}
		var err error
		mark := func(ctx context.Context, tx *db.Tx, t chain.Tx) (payout.Output, error) {
			return bitcoinrail.MarkPaid(ctx, tx, chainName, c.Output, t)
		}
		if c.Network == chainName {
			source, err = c.node(d)
		} else {
			var node evm.Node
			node, err = c.network(d, c.Network)
			source, mark = node, func(ctx context.Context, tx *db.Tx, t chain.Tx) (payout.Output, error) {
				return evmrail.MarkPaid(ctx, tx, node.Of(), c.Output, t)
			}
		}
		if err != nil {
			return err
		}
		t, err := source.Tx(ctx, c.TxID)
		if err != nil {
			return fmt.Errorf("transaction %s: %w", c.TxID, err)
		}
		var o payout.Output
		err = d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			o, err = mark(ctx, tx, t)
			return err
		})
		if err == nil {
			fmt.Fprintf(std.Out, "%s was paid %s %s by %s, output %d.\n", o.ID, o.Amount, o.Amount.Asset(), o.TxID, o.Vout)
		}
		return err
	})
}

// LedgerSuspenseCmd lists money that nobody expected.
type LedgerSuspenseCmd struct {
	Storage
}

// Run prints deposits in suspense.
func (c LedgerSuspenseCmd) Run(ctx context.Context, std Streams) error {
	return c.withDB(ctx, func(ctx context.Context, d *db.DB) error {
		return d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
			all, err := deposit.UnknownToAll(ctx, tx, manyRows)
			if err != nil {
				return err
			}
			t := tabwriter.NewWriter(std.Out, 0, 4, 2, ' ', 0)
			fmt.Fprintln(t, "DEPOSIT\tASSET\tAMOUNT\tFIRST SEEN\tADDRESS\tTRANSACTION\tCOMPANY")
			for _, p := range all {
				company := p.CompanyID
				if company == chain.Nobody {
					company = "nobody remembers"
				}
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s:%d\t%s\n", p.ID, p.Amount.Asset(), p.Amount, p.FirstSeen.Format("2006-01-02 15:04"), p.Address, p.TxID, p.Vout, company)
			}
			return t.Flush()
		})
	})
}
