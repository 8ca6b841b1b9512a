package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/bankreceipt"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payout/bank"
)

// TransfersCmd groups the commands for received bank transfers.
type TransfersCmd struct {
	Import   TransfersImportCmd   `cmd:"" help:"Import statements (camt.053) and notifications (camt.054) of the bank."`
	List     TransfersListCmd     `cmd:"" help:"List transfers in suspense: their owner is unknown."`
	Assign   TransfersAssignCmd   `cmd:"" help:"Assign a transfer in suspense to its owner."`
	SendBack TransfersSendBackCmd `cmd:"" help:"Post the return of a transfer in suspense."`
}

// BankAccountsFlag contains the flag for the operator's bank accounts.
type BankAccountsFlag struct {
	BankAccounts string
}

func (b BankAccountsFlag) accounts() ([]bank.Account, error) {
	var c app.Config
	c.Env, c.BankAccounts = app.Sandbox, b.BankAccounts
	return c.OperatorBankAccounts()
}

// TransfersImportCmd imports account statements from the bank.
type TransfersImportCmd struct {
	app.Storage
	BankAccountsFlag
	Files []string `arg:"" help:"The files; - is the standard input."`
}

// Run imports each file. An error in one file does not stop the import of the others. Importing a file again has no
// effect, because only new transfers are posted.
func (c TransfersImportCmd) Run(ctx context.Context, std Streams) error {
	accounts, err := c.accounts()
	if err != nil {
		return err
	}
	return withDB(ctx, c.Storage, func(ctx context.Context, d *db.DB) error {
		var problems []error
		for _, name := range c.Files {
			if err := importFile(ctx, d, std, name, accounts); err != nil {
				problems = append(problems, fmt.Errorf("%s: %s", name, Text(err)))
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
		defer func() { _ = f.Close() }()
		in = f
	}
	s, err := bankreceipt.Import(ctx, d, in, accounts)
	fmt.Fprintf(std.Out, "%s: %d credited, %d in suspense, %d returned; %d imported before, %d ignored.\n",
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
	All   bool `help:"The latest of all transfers, in any state."`
	Limit int  `default:"100" help:"Maximum number of transfers (${default})."`
}

// Run prints the transfers.
func (c TransfersListCmd) Run(ctx context.Context, std Streams) error {
	return readDB(ctx, c.Storage, func(ctx context.Context, tx *db.Tx) error {
		all, err := bankreceipt.List(ctx, tx, c.All, c.Limit)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			fmt.Fprintln(std.Out, "Nothing is in suspense.")
			return nil
		}
		return table(std.Out, "TRANSFER\tBOOKED\tAMOUNT\tSTATE\tOWNER\tFROM\tREFERENCE", func(row func(...any)) {
			for _, t := range all {
				row(t.ID, t.BookedOn, fmt.Sprintf("%s %s", t.Amount, t.Amount.Asset()), fmt.Sprintf("%s (%s)", t.State, t.Reason),
					dash(t.OwnerID), oneLine(t.Debtor)+" "+t.DebtorAccount, oneLine(strings.Join(t.Lines, " / ")))
			}
		})
	})
}

// oneLine replaces control characters in a text of unknown origin by spaces.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
}

// TransfersAssignCmd assigns a transfer.
type TransfersAssignCmd struct {
	app.Storage
	ID string `arg:"" help:"Id of the transfer."`
	To string `required:"" help:"Id of its owner (com_…, usr_…, pyr_…) or of what it pays (inv_…, prl_…)."`
}

// Run credits the transfer.
func (c TransfersAssignCmd) Run(ctx context.Context, std Streams) error {
	return writeDB(ctx, c.Storage, std, func(ctx context.Context, tx *db.Tx) (string, error) {
		t, err := bankreceipt.Assign(ctx, tx, c.ID, c.To)
		return fmt.Sprintf("%s %s are credited to %s.", t.Amount, t.Amount.Asset(), t.OwnerID), err
	})
}

// TransfersSendBackCmd posts the return of a transfer.
type TransfersSendBackCmd struct {
	app.Storage
	ID string `arg:"" help:"Id of the transfer."`
}

// Run posts the return.
func (c TransfersSendBackCmd) Run(ctx context.Context, std Streams) error {
	return writeDB(ctx, c.Storage, std, func(ctx context.Context, tx *db.Tx) (string, error) {
		t, err := bankreceipt.SendBack(ctx, tx, c.ID)
		return fmt.Sprintf("%s %s are posted as returned. Order the return at the bank, unless it was made already.",
			t.Amount, t.Amount.Asset()), err
	})
}
