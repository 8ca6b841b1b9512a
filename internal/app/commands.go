package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
)

// Streams are where a command reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// CLI is the command line.
type CLI struct {
	Serve   ServeCmd   `cmd:"" help:"Run the service. Without any flag: a whole sandbox on this machine."`
	Demo    DemoCmd    `cmd:"" help:"Show one pay run from creation to the last payout, live, in the terminal."`
	Migrate MigrateCmd `cmd:"" help:"Bring the database's schema up to this program's. serve does it too."`
	Ledger  LedgerCmd  `cmd:"" help:"Examine the books."`
	Keys    KeysCmd    `cmd:"" help:"Make and show keys."`
	Version VersionCmd `cmd:"" help:"Print the version."`
}

// ServeCmd runs the service.
type ServeCmd struct {
	Config
}

// Help is the long form of the help.
func (ServeCmd) Help() string {
	return `The sandbox starts with one company, an API key and three workers, always the same, on a simulated Bitcoin chain that finds
a block each second. Money there is not real, and its keys are public.

Production (--env production) starts only when it has keys, a node and a database of its own; it names everything that is
missing at once. Make keys with: stipend keys new`
}

// Run serves until ctx ends.
func (s ServeCmd) Run(ctx context.Context, std Streams) error {
	service, err := Start(ctx, s.Config, NewLogger(std.Err, s.LogLevel))
	if err != nil {
		return err
	}
	if s.JSON {
		line, err := json.Marshal(service.Ready())
		if err != nil {
			return err
		}
		fmt.Fprintf(std.Out, "%s\n", line)
	} else {
		service.greet(std.Out)
	}
	return service.Wait(ctx)
}

// MigrateCmd migrates.
type MigrateCmd struct {
	Storage
}

// Run migrates the database and says so.
func (m MigrateCmd) Run(ctx context.Context, std Streams) error {
	d, err := db.Open(ctx, db.Options{URL: m.URL()})
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Migrate(ctx); err != nil {
		return err
	}
	fmt.Fprintf(std.Out, "The %s database is up to date.\n", d.Engine())
	return nil
}

// LedgerCmd groups the commands about the books.
type LedgerCmd struct {
	Check LedgerCheckCmd `cmd:"" help:"Prove that the books balance: every journal, every guarded balance. Prints the trial balance; exit code 1 if anything is off."`
}

// LedgerCheckCmd checks the books.
type LedgerCheckCmd struct {
	Storage
}

// Run prints the trial balance and returns ledger.ErrWrong when the books do not agree.
func (l LedgerCheckCmd) Run(ctx context.Context, std Streams) error {
	if l.DatabaseURL == "" {
		// Opening it would create it, and empty books prove nothing.
		if _, err := os.Stat(filepath.Join(l.DataDir, "stipend.db")); err != nil {
			return fmt.Errorf("there are no books here (%w); --data-dir or --database-url says where they are", err)
		}
	}
	d, err := db.Open(ctx, db.Options{URL: l.URL()})
	if err != nil {
		return err
	}
	defer d.Close()
	var report ledger.Report
	err = d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
		report, err = ledger.Check(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	return printReport(std.Out, report)
}

// VersionCmd prints the version.
type VersionCmd struct{}

// Run prints the version of the program, of the interface and of Go.
func (VersionCmd) Run(std Streams) error {
	fmt.Fprintf(std.Out, "stipend %s (interface 2.0, %s, %s/%s)\n", Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return nil
}

// Version is the version that the Go tool stamped into the program.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "devel"
	}
	return info.Main.Version
}
