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
	WalletFlags
	EVMXPub   string `name:"evm-xpub" help:"Public account key on EVM networks, if any was used."`
	EVMXPrv   string `name:"evm-xprv" help:"Private account key, instead of the public one."`
	Skip      int64  `default:"100000" help:"Addresses to skip: more than were given out since the backup (${default})."`
	SkipFiles int64  `default:"1000" help:"Numbers of bank files to skip: more than were used since then (${default})."`
	Watch     int64  `default:"1000" help:"Skipped addresses to watch (${default}); deriving many takes a while."`
}

// Help returns the details of the help.
func (RestoredCmd) Help() string {
	return `Run it on a restored database before any process serves it. It pauses payouts, because the database does
not know which were made since the backup. It skips addresses, because the database does not know which
were given out since. It watches the first of them, so that money sent there is found: stipend ledger
suspense lists it. Then start the service, wait until it has caught up with the chain, compare, and resume
payouts: docs/operating.md, Backup and restore.`
}

func (c RestoredCmd) check() error {
	switch {
	case c.Skip < 1 || c.Skip > 100_000_000:
		return errors.New("--skip must be from 1 to 100000000 addresses")
	case c.Watch < 0 || c.Watch > min(c.Skip, 1_000_000):
		return errors.New("--watch must be from 0 to 1000000 addresses, and not more than --skip")
	case c.SkipFiles < 1 || c.SkipFiles > 1_000_000:
		return errors.New("--skip-files must be from 1 to 1000000 files")
	}
	return nil
}

// Run prepares the database in one transaction.
func (c RestoredCmd) Run(ctx context.Context, std Streams) error {
	if err := c.check(); err != nil {
		return err
	}
	full := c.config()
	full.EVMXPub, full.EVMXPrv = c.EVMXPub, c.EVMXPrv
	full = full.Complete()
	if full.BitcoinXPub == "" {
		return errors.New("--bitcoin-xpub is missing: the addresses to watch are derived from it")
	}
	keys, err := bitcoin.ParseXPub(full.BitcoinXPub, full.BitcoinNetwork)
	if err != nil {
		return fmt.Errorf("--bitcoin-xpub: %w", err)
	}
	return writeDB(ctx, c.Storage, std, func(ctx context.Context, tx *db.Tx) (string, error) {
		watched, err := chain.RecoverAddresses(ctx, tx, app.BitcoinChain, keys, c.Skip, c.Watch)
		if err != nil {
			return "", err
		}
		onEVM, err := c.watchEVM(ctx, tx, full.EVMXPub)
		if err != nil {
			return "", err
		}
		if err := bank.SkipNumbers(ctx, tx, c.SkipFiles); err != nil {
			return "", err
		}
		return fmt.Sprintf("Payouts are paused. The next %d addresses are skipped, and %d of them are watched. "+
				"Now start the service.", c.Skip, watched+onEVM),
			payout.SetPaused(ctx, tx, "the database was restored from a backup; find the payouts made since, then resume")
	})
}

// watchEVM skips and watches addresses on the EVM networks in use, and returns the number of watched ones.
func (c RestoredCmd) watchEVM(ctx context.Context, tx *db.Tx, xpub string) (watched int, err error) {
	networks, err := chain.ChainsInUse(ctx, tx, network.Names(network.EVM))
	if err != nil || len(networks) == 0 {
		return 0, err
	}
	keys, err := evm.ParseXPub(xpub)
	if err != nil {
		return 0, fmt.Errorf("--evm-xpub: %w", err)
	}
	return chain.RecoverAddresses(ctx, tx, app.EVMWallet, keys, c.Skip, c.Watch, networks...)
}
