// Package cli implements the command line: its commands, their flags and their output.
//
// It contains no business rules. A command on the database opens it, calls one function of the package that owns the
// data, and prints the result. The commands serve and demo start a service. The commands login, payrolls, claims,
// logs, open, listen, trigger and mcp are clients of a service.
package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/alecthomas/kong"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/db"
)

// Streams are the streams from which a command reads and to which it writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// CLI defines the command line: its commands and flags.
type CLI struct {
	Login      LoginCmd      `cmd:"" group:"use" help:"Sign in to an installation with your browser."`
	Logout     LogoutCmd     `cmd:"" group:"use" help:"Sign out, and revoke what login was granted."`
	Payrolls   PayrollsCmd   `cmd:"" group:"use" help:"Create, list and follow payrolls."`
	Claims     ClaimsCmd     `cmd:"" group:"use" help:"Create claims, which payers pay."`
	Open       OpenCmd       `cmd:"" group:"use" help:"Open a page in your browser."`
	Completion CompletionCmd `cmd:"" group:"use" help:"Print the completion for bash, zsh or fish."`
	Man        ManCmd        `cmd:"" group:"use" help:"Print the manual page."`

	Demo    DemoCmd    `cmd:"" group:"build" help:"Show one payroll from creation to the last payout, live."`
	Listen  ListenCmd  `cmd:"" group:"build" help:"Forward a sandbox's events to a program on this machine."`
	Trigger TriggerCmd `cmd:"" group:"build" help:"Make an event happen in a sandbox. Without a name: list the events."`
	Logs    LogsCmd    `cmd:"" group:"build" help:"Follow the log of your API requests."`
	MCP     MCPCmd     `cmd:"" group:"build" name:"mcp" help:"Serve the API to an agent on this machine (MCP over stdio)."`

	Serve     ServeCmd     `cmd:"" group:"run" help:"Run the service. Without flags: a whole sandbox on this machine."`
	Migrate   MigrateCmd   `cmd:"" group:"run" help:"Migrate the database's schema to this program's. serve does it, too."`
	Keys      KeysCmd      `cmd:"" group:"run" help:"Create and show keys."`
	Datakey   DatakeyCmd   `cmd:"" group:"run" help:"Replace the key that encrypts stored secrets."`
	Signer    SignerCmd    `cmd:"" group:"run" help:"Sign in a process of its own, within a policy."`
	Staff     StaffCmd     `cmd:"" group:"run" help:"Accounts of the operator's staff, who sign in at /operations."`
	Audit     AuditCmd     `cmd:"" group:"run" help:"Check and export the audit log of the staff."`
	Backup    BackupCmd    `cmd:"" group:"run" help:"Write an encrypted copy of the embedded database, while it is used."`
	Restore   RestoreCmd   `cmd:"" group:"run" help:"Restore the embedded database; nobody is paid twice."`
	Restored  RestoredCmd  `cmd:"" group:"run" help:"Prepare a PostgreSQL database that was restored from a backup."`
	Jobs      JobsCmd      `cmd:"" group:"run" help:"List and retry dead jobs."`
	Companies CompaniesCmd `cmd:"" group:"run" help:"Freeze and unfreeze companies."`
	Erase     EraseCmd     `cmd:"" group:"run" help:"Erase the personal data of a person or company."`
	Retention RetentionCmd `cmd:"" group:"run" help:"Show how long classes of data are stored, and what is expired."`
	Screening ScreeningCmd `cmd:"" group:"run" help:"Sanctions lists in use, hits and decisions."`

	Ledger    LedgerCmd    `cmd:"" group:"money" help:"Check the ledger, and list money in suspense."`
	Reconcile ReconcileCmd `cmd:"" group:"money" help:"Compare the ledger with nodes and banks."`
	Payouts   PayoutsCmd   `cmd:"" group:"money" help:"Show, pause and resume payouts."`
	Bank      BankCmd      `cmd:"" group:"money" help:"Payouts by bank: files, responses, corrections."`
	Transfers TransfersCmd `cmd:"" group:"money" help:"Bank transfers received: import statements, resolve suspense."`
	Treasury  TreasuryCmd  `cmd:"" group:"money" help:"The operator's own funds, and limits of exchanges into them."`

	VersionFlag kong.VersionFlag `name:"version" help:"Print the version."`
	Version     VersionCmd       `cmd:"" group:"use" help:"Print the version."`
	Complete    CompleteCmd      `cmd:"" hidden:"" help:"Print the words that can follow, for a shell."`
}

// Options returns the parser options that the commands need.
func Options() []kong.Option {
	return []kong.Option{app.DescribeSettings(), kong.ExplicitGroups([]kong.Group{
		{Key: "use", Title: "Use an installation:"},
		{Key: "build", Title: "Build on it:"},
		{Key: "run", Title: "Run an installation:"},
		{Key: "money", Title: "Watch its money:"},
	})}
}

// withDB opens a database, which must exist and have this program's schema, and calls f.
func withDB(ctx context.Context, s app.Storage, f func(context.Context, *db.DB) error) error {
	if s.DatabaseURL == "" {
		// Opening the database would create it.
		if _, err := os.Stat(filepath.Join(s.DataDir, "stipend.db")); err != nil {
			return fmt.Errorf("there is no database here (%w); name one with --data-dir or --database-url", err)
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

// readDB calls f in a transaction that reads from an existing database.
func readDB(ctx context.Context, s app.Storage, f func(context.Context, *db.Tx) error) error {
	return withDB(ctx, s, func(ctx context.Context, d *db.DB) error { return d.Read(ctx, f) })
}

// writeDB calls f in a transaction that writes to an existing database. After the commit, it prints the line that f
// returned.
func writeDB(ctx context.Context, s app.Storage, std Streams, f func(context.Context, *db.Tx) (string, error)) error {
	return withDB(ctx, s, func(ctx context.Context, d *db.DB) error { return write(ctx, d, std, f) })
}

// write is like writeDB, for a database that is already open.
func write(ctx context.Context, d *db.DB, std Streams, f func(context.Context, *db.Tx) (string, error)) error {
	var done string
	if err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		done, err = f(ctx, tx)
		return err
	}); err != nil {
		return err
	}
	fmt.Fprintln(std.Out, done)
	return nil
}

// table prints a header, whose columns are separated by tabs, and rows. The function rows must call row with the
// cells of each row.
func table(w io.Writer, header string, rows func(row func(cells ...any))) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	if header != "" {
		fmt.Fprintln(t, header)
	}
	rows(func(cells ...any) {
		fmt.Fprintf(t, strings.Repeat("%v\t", len(cells)-1)+"%v\n", cells...)
	})
	return t.Flush()
}

// WalletFlags are the flags for the environment and the keys of the Bitcoin wallet, for commands that derive
// addresses.
type WalletFlags struct {
	Env            string `default:"sandbox" enum:"sandbox,production"`
	BitcoinNetwork string `enum:",bitcoin,testnet,signet,regtest" default:""`
	BitcoinXPub    string `name:"bitcoin-xpub"`
	BitcoinXPrv    string `name:"bitcoin-xprv" help:"Private account key, instead of the public one."`
}

// config returns a configuration with the values of the flags.
func (f WalletFlags) config() (c app.Config) {
	c.Env, c.BitcoinNetwork, c.BitcoinXPub, c.BitcoinXPrv = f.Env, f.BitcoinNetwork, f.BitcoinXPub, f.BitcoinXPrv
	return c
}

// Text returns the text of an error. For an error of the API, it returns only the sentence, without the code.
func Text(err error) string {
	text := err.Error()
	if f, ok := apierr.As(err); ok {
		text = strings.Replace(text, f.Error(), f.Detail, 1)
	}
	return text
}

// required returns an error if the value of a flag is blank.
func required(flag, value string) error {
	if strings.TrimSpace(value) == "" {
		return fmt.Errorf("%s must not be blank", flag)
	}
	return nil
}

// dash returns s, or a dash if s is empty.
func dash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}
