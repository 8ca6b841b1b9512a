package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/backoffice"
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
	RecoveryFlags
}

// RecoveryFlags contains the flags for the keys whose addresses are skipped in a restored database, and for the
// number of addresses.
type RecoveryFlags struct {
	WalletFlags
	EVMXPub   string `name:"evm-xpub" help:"Public account key on EVM networks, if any was used."`
	EVMXPrv   string `name:"evm-xprv" help:"Private account key, instead of the public one."`
	Skip      int64  `default:"100000" help:"Addresses to skip: more than were given out since the backup (${default})."`
	SkipFiles int64  `default:"1000" help:"Numbers of bank files to skip: more than were used since then (${default})."`
	Watch     int64  `default:"1000" help:"Skipped addresses to watch (${default}); deriving many takes a while."`
}

// Help returns the details of the help.
func (RestoredCmd) Help() string {
	return `Run it on a restored database before any process serves it; stipend restore does it by itself. It pauses
payouts, because the database does not know which were made since the backup. It skips addresses, because the
database does not know which were given out since. It watches the first of them, so that money sent there is
found: stipend ledger suspense lists it. It prints what to do next.`
}

// recoveryKeys contains the keys of the wallets of a restored database.
type recoveryKeys struct {
	bitcoin *bitcoin.Deriver
	evm     string // public key; "" if there is none
}

// keys checks the flags and returns the keys.
func (c RecoveryFlags) keys() (keys recoveryKeys, err error) {
	switch {
	case c.Skip < 1 || c.Skip > 100_000_000:
		return keys, errors.New("--skip must be from 1 to 100000000 addresses")
	case c.Watch < 0 || c.Watch > min(c.Skip, 1_000_000):
		return keys, errors.New("--watch must be from 0 to 1000000 addresses, and not more than --skip")
	case c.SkipFiles < 1 || c.SkipFiles > 1_000_000:
		return keys, errors.New("--skip-files must be from 1 to 1000000 files")
	}
	full := c.config()
	full.EVMXPub, full.EVMXPrv = c.EVMXPub, c.EVMXPrv
	full = full.Complete()
	if full.BitcoinXPub == "" {
		return keys, errors.New("--bitcoin-xpub is missing: the addresses to watch are derived from it")
	}
	if keys.bitcoin, err = bitcoin.ParseXPub(full.BitcoinXPub, full.BitcoinNetwork); err != nil {
		return keys, fmt.Errorf("--bitcoin-xpub: %w", err)
	}
	keys.evm = full.EVMXPub
	return keys, nil
}

// Run prepares the database and prints what to do next.
func (c RestoredCmd) Run(ctx context.Context, std Streams) error {
	keys, err := c.keys()
	if err != nil {
		return err
	}
	return writeDB(ctx, c.Storage, std, func(ctx context.Context, tx *db.Tx) (string, error) {
		return c.prepare(ctx, tx, keys)
	})
}

// prepare pauses payouts and skips addresses and numbers. It returns a text that describes what it did and what to do
// next.
func (c RecoveryFlags) prepare(ctx context.Context, tx *db.Tx, keys recoveryKeys) (string, error) {
	watched, err := chain.RecoverAddresses(ctx, tx, app.BitcoinChain, keys.bitcoin, c.Skip, c.Watch)
	if err != nil {
		return "", err
	}
	onEVM, err := c.watchEVM(ctx, tx, keys.evm)
	if err != nil {
		return "", err
	}
	if err := bank.SkipNumbers(ctx, tx, c.SkipFiles); err != nil {
		return "", err
	}
	if err := payout.SetPaused(ctx, tx,
		"the database was restored from a backup; find the payouts made since, then resume"); err != nil {
		return "", err
	}
	if err := backoffice.RecordCommand(ctx, tx, "database.restored", "", "stipend restored"); err != nil {
		return "", err
	}
	queued, err := payout.Counts(ctx, tx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(recoverySteps, c.Skip, watched+onEVM, queued[payout.Queued]), nil
}

const recoverySteps = `Payouts are paused. The next %d addresses are skipped.
%d addresses that may have been given out are watched.

What to do next (docs/operating.md, Backup and restore):
  1. Start the service. It reads the chain from the time of the backup and pays nothing.
  2. Mark what was paid since the backup. %d outputs were queued in it; more may be once payrolls are funded again.
       stipend payouts status     lists payments of the wallet that the database does not know
       stipend payouts queued     lists the outputs that they may have paid
       stipend payouts paid       marks an output as paid by one of them
       stipend bank paid          marks an output as paid in a bank file
  3. Find the owners of money that arrived since: stipend ledger suspense
  4. Check the ledger: stipend ledger check
  5. Resume payouts: stipend payouts resume`

// watchEVM skips and watches addresses on the EVM networks in use, and returns the number of watched addresses.
func (c RecoveryFlags) watchEVM(ctx context.Context, tx *db.Tx, xpub string) (watched int, err error) {
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
