package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/bankreceipt"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payout/bank"
)

// TransfersCmd groups the commands about money that came in at the bank.
type TransfersCmd struct {
	Import   TransfersImportCmd   `cmd:"" help:"Read statements (camt.053) and notifications (camt.054) of the bank, and book what is new."`
	List     TransfersListCmd     `cmd:"" help:"List what waits in suspense because nothing says whose it is."`
	Assign   TransfersAssignCmd   `cmd:"" help:"Say whose a transfer in suspense is."`
	SendBack TransfersSendBackCmd `cmd:"" help:"Book that the bank sends a transfer in suspense back."`
}

// BankAccountsFlag are the house's accounts, for a command.
type BankAccountsFlag struct {
	BankAccounts string `env:"STIPEND_BANK_ACCOUNTS" placeholder:"FILE" help:"The accounts of the house, as serve has them. Default: the sandbox's."`
}

func (b BankAccountsFlag) accounts() ([]bank.Account, error) {
	return app.Config{Env: app.Sandbox, BankAccounts: b.BankAccounts}.OperatorBankAccounts()
}

// TransfersImportCmd reads files of the bank.
type TransfersImportCmd struct {
	app.Storage
	BankAccountsFlag
	Files []string `arg:"" help:"The files; - is the standard input."`
}

// Run books each file. One that cannot be read does not keep the others; what was booked before it broke off stays, and reading it
// again goes on from there.
func (c TransfersImportCmd) Run(ctx context.Context, std Streams) error {
	accounts, err := c.accounts()
	if err != nil {
		return err
	}
	return withDB(ctx, c.Storage, func(ctx context.Context, d *db.DB) error {
		var problems []error
		for _, name := range c.Files {
			if err := importFile(ctx, d, std, name, accounts); err != nil {
				problems = append(problems, fmt.Errorf("%s: %w", name, plain(err)))
			}
		}
		return errors.Join(problems...)
	})
}

func importFile(ctx context.Context, d *db.DB, std Streams, name string, accounts []bank.Account) error {
	in := std.In
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }() // it was read only
		in = f
	}
	s, err := bankreceipt.Import(ctx, d, in, accounts)
	fmt.Fprintf(std.Out, "%s: %d credited, %d in suspense, %d gone back; %d known before, %d of no concern.\n",
		name, s.Credited, s.Suspense, s.Returned, s.Known, s.Others)
	for _, p := range s.Problems {
		fmt.Fprintf(std.Out, "NOT READ: %s\n", p)
	}
	if err == nil && len(s.Problems) > 0 {
		err = errors.New("some bookings could not be read")
	}
	return err
}

// TransfersListCmd lists transfers.
type TransfersListCmd struct {
	app.Storage
	All   bool `help:"The latest of all of them, whatever became of them."`
	Limit int  `default:"100" help:"At most so many (${default})."`
}

// Run prints them.
func (c TransfersListCmd) Run(ctx context.Context, std Streams) error {
	return withDB(ctx, c.Storage, func(ctx context.Context, d *db.DB) error {
		return d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
			all, err := bankreceipt.List(ctx, tx, c.All, c.Limit)
			if err != nil {
				return err
			}
			if len(all) == 0 {
				fmt.Fprintln(std.Out, "Nothing is in suspense.")
				return nil
			}
			w := tabwriter.NewWriter(std.Out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "TRANSFER\tBOOKED\tAMOUNT\tSTATE\tOWNER\tFROM\tWORDS")
			for _, t := range all {
				fmt.Fprintf(w, "%s\t%s\t%s %s\t%s (%s)\t%s\t%s %s\t%s\n", t.ID, t.BookedOn, t.Amount, t.Amount.Asset(), t.State, t.Reason, dash(t.OwnerID),
					oneLine(t.Debtor), t.DebtorAccount, oneLine(strings.Join(t.Lines, " / ")))
			}
			return w.Flush()
		})
	})
}

func dash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

// oneLine is foreign text for a terminal: without control characters.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
}

// TransfersAssignCmd decides whose a transfer is.
type TransfersAssignCmd struct {
	app.Storage
	ID string `arg:"" help:"The transfer."`
	To string `required:"" help:"Id of whose it is, or what it pays: a company (com_…), user (usr_…), payer (pyr_…), open invoice (inv_…) or payroll (prl_…)."`
}

// Run books it.
func (c TransfersAssignCmd) Run(ctx context.Context, std Streams) error {
	return withDB(ctx, c.Storage, func(ctx context.Context, d *db.DB) error {
		return plain(d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			t, err := bankreceipt.Assign(ctx, tx, c.ID, c.To)
			if err == nil {
				fmt.Fprintf(std.Out, "%s %s are credited to %s.\n", t.Amount, t.Amount.Asset(), t.OwnerID)
			}
			return err
		}))
	})
}

// TransfersSendBackCmd books a return.
type TransfersSendBackCmd struct {
	app.Storage
	ID string `arg:"" help:"The transfer."`
}

// Run books it.
func (c TransfersSendBackCmd) Run(ctx context.Context, std Streams) error {
	return withDB(ctx, c.Storage, func(ctx context.Context, d *db.DB) error {
		return plain(d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			t, err := bankreceipt.SendBack(ctx, tx, c.ID)
			if err == nil {
				fmt.Fprintf(std.Out, "%s %s are booked as gone back. Have the bank send them, if it has not yet.\n", t.Amount, t.Amount.Asset())
			}
			return err
		}))
	})
}
