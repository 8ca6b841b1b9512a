package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/chain/network"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
)

// RestoredCmd prepares a restored database.
type RestoredCmd struct {
	app.Storage
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
	full := app.Config{Storage: c.Storage, Env: c.Env, BitcoinNetwork: c.BitcoinNetwork, BitcoinXPub: c.BitcoinXPub, BitcoinXPrv: c.BitcoinXPrv,
		EVM: app.EVM{EVMXPub: c.EVMXPub, EVMXPrv: c.EVMXPrv}}.Complete()
	if full.BitcoinXPub == "" {
		return errors.New("--bitcoin-xpub is missing: the addresses to watch come from it")
	}
	keys, err := bitcoin.ParseXPub(full.BitcoinXPub, full.BitcoinNetwork)
	if err != nil {
		return fmt.Errorf("--bitcoin-xpub: %w", err)
	}
	return withDB(ctx, c.Storage, func(ctx context.Context, d *db.DB) error {
		var watched int
		err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			if watched, err = chain.RecoverAddresses(ctx, tx, app.BitcoinChain, keys, c.Skip, c.Watch); err != nil {
				return err
			}
			networks, err := chain.ChainsInUse(ctx, tx, network.Names(network.EVM))
			if err != nil {
				return err
			}
			if len(networks) > 0 {
				keys, err := evm.ParseXPub(full.EVMXPub)
				if err != nil {
					return fmt.Errorf("--evm-xpub: %w", err)
				}
				more, err := chain.RecoverAddresses(ctx, tx, app.EVMWallet, keys, c.Skip, c.Watch, networks...)
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
