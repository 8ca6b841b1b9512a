package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/network"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/httpapi"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/payout"
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
	service, err := Start(ctx, s.Config, newLogger(std.Err, s.LogLevel))
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
	data, err := takeData(m.URL())
	if err != nil {
		return err
	}
	if data != nil {
		defer data.Close()
	}
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
	Suspense LedgerSuspenseCmd `cmd:"" help:"List the money that came in and that nobody expected (account 2500)."`
	Check    LedgerCheckCmd    `cmd:"" help:"Prove that the books balance: every journal, every guarded balance. Prints the trial balance; exit code 1 if anything is off."`
}

// LedgerCheckCmd checks the books.
type LedgerCheckCmd struct {
	Storage
}

// Run prints the trial balance and returns ledger.ErrWrong when the books do not agree.
func (l LedgerCheckCmd) Run(ctx context.Context, std Streams) error {
	return l.withDB(ctx, func(ctx context.Context, d *db.DB) error {
		var report ledger.Report
		err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			report, err = ledger.Check(ctx, tx)
			return err
		})
		if err != nil {
			return err
		}
		return printReport(std.Out, report)
	})
}

// withDB opens a database that exists and has this program's schema.
func (s Storage) withDB(ctx context.Context, f func(context.Context, *db.DB) error) error {
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

// PayoutsCmd groups the commands about outgoing money.
type PayoutsCmd struct {
	Status PayoutsStatusCmd `cmd:"" help:"Say whether payouts are paused and why, and what waits."`
	Pause  PayoutsPauseCmd  `cmd:"" help:"Stop all payouts of all companies, at once and until they are resumed."`
	Resume PayoutsResumeCmd `cmd:"" help:"Let payouts go on."`
	Queued PayoutsQueuedCmd `cmd:"" help:"List the outputs that wait to be paid."`
	Paid   PayoutsPaidCmd   `cmd:"" help:"Mark an output as paid by a transaction that this database does not know, after a restore."`
}

// PayoutsStatusCmd says how payouts stand.
type PayoutsStatusCmd struct {
	Storage
}

// Run prints the state of the switch, the outputs by state and the transactions that spent coins of the wallet unknown to
// the service.
func (c PayoutsStatusCmd) Run(ctx context.Context, std Streams) error {
	return c.withDB(ctx, func(ctx context.Context, d *db.DB) error {
		return d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
			why, err := payout.Paused(ctx, tx)
			if err != nil {
				return err
			}
			counts, err := payout.Counts(ctx, tx)
			if err != nil {
				return err
			}
			var strangers []chain.Stranger
			for _, name := range append([]string{chainName}, network.Names(network.EVM)...) {
				some, err := chain.Strangers(ctx, tx, name)
				if err != nil {
					return err
				}
				strangers = append(strangers, some...)
			}
			printPayouts(std.Out, why, counts, strangers)
			return nil
		})
	})
}

// PayoutsPauseCmd stops payouts.
type PayoutsPauseCmd struct {
	Storage
	Reason string `required:"" help:"Why, for whoever finds them stopped."`
}

// Run sets the switch, for every process on the database.
func (c PayoutsPauseCmd) Run(ctx context.Context, std Streams) error {
	if strings.TrimSpace(c.Reason) == "" {
		return errors.New("--reason must say something")
	}
	return c.withDB(ctx, func(ctx context.Context, d *db.DB) error {
		err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			return errors.Join(payout.SetPaused(ctx, tx, c.Reason), backoffice.AtTheMachine(ctx, tx, "payouts.pause", "", c.Reason))
		})
		if err == nil {
			fmt.Fprintln(std.Out, "Payouts are paused. Nothing new leaves; what is broadcast already cannot be called back.")
		}
		return err
	})
}

// PayoutsResumeCmd lets payouts go on.
type PayoutsResumeCmd struct {
	Storage
}

// Run takes the switch back.
func (c PayoutsResumeCmd) Run(ctx context.Context, std Streams) error {
	return c.withDB(ctx, func(ctx context.Context, d *db.DB) error {
		err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			return errors.Join(payout.SetPaused(ctx, tx, ""), backoffice.AtTheMachine(ctx, tx, backoffice.Resume, "", "stipend payouts resume"))
		})
		if err == nil {
			fmt.Fprintln(std.Out, "Payouts go on.")
		}
		return err
	})
}

// EraseCmd destroys what a subject handed in.
type EraseCmd struct {
	Storage
	Subject string `arg:"" help:"Id of the user (usr_…), owner (ubo_…) or company (com_…)."`
	Years   int    `default:"5" help:"For how many years after the last pay run a user is kept (${default}): the law's number."`
}

// Help is the long form of the help.
func (EraseCmd) Help() string {
	return `It destroys the key of the subject, so that copies in backups cannot be read any more either. Of a user it
also empties the profile, the companies' copies of it, their mails and destinations; ledger and payments keep the id alone. It
refuses while a verification or a pay run of theirs is open, and before --years have passed since the last one. It cannot be undone.`
}

// erase forgets a subject, and the answers kept for repeated requests that name it.
func erase(ctx context.Context, tx *db.Tx, subject string, years int) error {
	known, err := kyc.Erase(ctx, tx, subject, years)
	if err != nil {
		return err
	}
	return httpapi.ForgetAnswers(ctx, tx, known)
}

// Run erases in one transaction.
func (c EraseCmd) Run(ctx context.Context, std Streams) error {
	return c.withDB(ctx, func(ctx context.Context, d *db.DB) error {
		err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return erase(ctx, tx, c.Subject, c.Years) })
		if err == nil {
			fmt.Fprintln(std.Out, "Erased for good.")
		}
		return err
	})
}

// VersionCmd prints the version.
type VersionCmd struct{}

// Run prints the version of the program, of the interface and of Go.
func (VersionCmd) Run(std Streams) error {
	fmt.Fprintln(std.Out, About())
	return nil
}

// About is the version of the program, of the interface and of Go.
func About() string {
	return fmt.Sprintf("stipend %s (interface 2.0, %s, %s/%s)", Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// Version is the version that the Go tool stamped into the program.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "devel"
	}
	return info.Main.Version
}
