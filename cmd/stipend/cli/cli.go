// Package cli is the command line of the program: its commands, their flags, and what they print.
//
// It holds no rule of the business. A command on the database opens it, calls one function of the package that owns the data,
// and prints the result; serve and demo start a service; listen and trigger are clients of one.
package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/alecthomas/kong"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/db"
)

// Streams are where a command reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// CLI is the command line.
type CLI struct {
	Serve       ServeCmd         `cmd:"" help:"Run the service. Without any flag: a whole sandbox on this machine."`
	Demo        DemoCmd          `cmd:"" help:"Show one pay run from creation to the last payout, live, in the terminal."`
	Listen      ListenCmd        `cmd:"" help:"Forward a sandbox's events to a program on this machine, signed like webhooks."`
	Trigger     TriggerCmd       `cmd:"" help:"Make an event happen in a sandbox, for real. Without a name: lists the events."`
	Migrate     MigrateCmd       `cmd:"" help:"Bring the database's schema up to this program's. serve does it too."`
	Ledger      LedgerCmd        `cmd:"" help:"Examine the books."`
	Jobs        JobsCmd          `cmd:"" help:"Dead jobs: list and retry them."`
	Bank        BankCmd          `cmd:"" help:"Payouts by bank: files in doubt, answers that need a person."`
	Payouts     PayoutsCmd       `cmd:"" help:"Stop all payouts, let them go on, see how they stand."`
	Transfers   TransfersCmd     `cmd:"" help:"Money that came in at the bank: read its statements, and decide whose it is where they do not say."`
	FX          FXCmd            `cmd:"" name:"fx" help:"What the house owns of each asset, and what may be exchanged into it."`
	Reconcile   ReconcileCmd     `cmd:"" help:"Compare the books with the chain and name each difference; exit code 1 if there is any."`
	Companies   CompaniesCmd     `cmd:"" help:"Freeze a company, so that it changes nothing and nothing of its payrolls leaves, and end that."`
	Operators   OperatorsCmd     `cmd:"" help:"The house's own people: add, list, reset, remove. They sign in at /operations."`
	Screening   ScreeningCmd     `cmd:"" help:"Sanctions lists: how current they are, whom they hold up, and what was decided."`
	Restored    RestoredCmd      `cmd:"" help:"Make a database that was restored from a backup safe to serve again."`
	Erase       EraseCmd         `cmd:"" help:"Destroy the documents and tax ids of a person or company for good, and whatever names a person."`
	Keys        KeysCmd          `cmd:"" help:"Make and show keys."`
	VersionFlag kong.VersionFlag `name:"version" help:"Print the version."`
	Version     VersionCmd       `cmd:"" help:"Print the version."`
}

// withDB opens a database that exists and has this program's schema.
func withDB(ctx context.Context, s app.Storage, f func(context.Context, *db.DB) error) error {
	if s.DatabaseURL == "" {
		// Opening it would create it, and an empty database tells nothing.
		if _, err := os.Stat(filepath.Join(s.DataDir, "stipend.db")); err != nil {
			return fmt.Errorf("there is no database here (%w); --data-dir or --database-url says where it is", err)
		}
	}
	d, err := db.Open(ctx, db.Options{URL: s.URL()})
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.CheckSchema(ctx); err != nil {
		return err
	}
	return f(ctx, d)
}
