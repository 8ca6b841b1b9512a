package cli

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/bankreceipt"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/sandbox"
)

// BankCmd groups the commands about payouts by bank.
type BankCmd struct {
	Files    BankFilesCmd    `cmd:"" help:"List the files of payments, newest first: those that the bank has not got for certain, or all."`
	Answers  BankAnswersCmd  `cmd:"" help:"List what the bank answered and needs a person, or all of it."`
	Changes  BankChangesCmd  `cmd:"" help:"List what banks ask to be put right before the next payment."`
	Arrived  BankArrivedCmd  `cmd:"" help:"Say that the bank has a file that is in doubt."`
	Paid     BankPaidCmd     `cmd:"" help:"After a restore: say which payment of a file that this database does not know paid an output."`
	CameBack BankCameBackCmd `cmd:"" help:"Say that a payment came back, and how much of it."`
	Resend   BankResendCmd   `cmd:"" help:"Say that the bank has not got a file that is in doubt, and hand the same file over again."`
}

// BankFilesCmd lists files.
type BankFilesCmd struct {
	app.Storage
	All   bool `help:"Also those that the bank has."`
	Limit int  `default:"100" help:"At most so many (${default})."`
}

// Run prints them.
func (c BankFilesCmd) Run(ctx context.Context, std Streams) error {
	return readDB(ctx, c.Storage, func(ctx context.Context, tx *db.Tx) error {
		files, err := bank.List(ctx, tx, !c.All, c.Limit)
		for _, f := range files {
			fmt.Fprintf(std.Out, "%-14s %-9s %6d payments %18s %s  of %s for %s  sha256 %s\n", f.Name, f.State, f.Payments, f.Total, f.Total.Asset(), f.CompanyID, f.Execute, f.Checksum)
		}
		return err
	})
}

// readDB reads from a database that exists.
func readDB(ctx context.Context, s app.Storage, f func(context.Context, *db.Tx) error) error {
	return withDB(ctx, s, func(ctx context.Context, d *db.DB) error { return d.Read(ctx, f) })
}

// BankAnswersCmd lists answers.
type BankAnswersCmd struct {
	app.Storage
	All   bool `help:"Also those without a problem."`
	Limit int  `default:"100" help:"At most so many (${default})."`
}

// Run prints them.
func (c BankAnswersCmd) Run(ctx context.Context, std Streams) error {
	return readDB(ctx, c.Storage, func(ctx context.Context, tx *db.Tx) error {
		answers, err := bank.Answers(ctx, tx, !c.All, c.Limit)
		for _, a := range answers {
			state := "read"
			if !a.Settled {
				state = "waits"
			}
			fmt.Fprintf(std.Out, "%s  %-40s %-22s %s, %d facts\n", a.At.UTC().Format(time.RFC3339), a.Name, a.Kind, state, a.Facts)
			for _, p := range a.Problems {
				fmt.Fprintf(std.Out, "    %s\n", p)
			}
		}
		return err
	})
}

// BankChangesCmd lists what banks ask for.
type BankChangesCmd struct {
	app.Storage
	DataKey string `env:"STIPEND_DATA_KEY" placeholder:"HEX" help:"Key of the stored secrets. Default: the sandbox's."`
	Limit   int    `default:"100" help:"At most so many (${default})."`
}

// Run prints them.
func (c BankChangesCmd) Run(ctx context.Context, std Streams) error {
	if c.DataKey == "" {
		c.DataKey = hex.EncodeToString(sandbox.DataKey())
	}
	key, err := app.ParseDataKey(c.DataKey)
	if err != nil {
		return err
	}
	sealer, err := identity.NewSealer(key)
	if err != nil {
		return err
	}
	return readDB(ctx, c.Storage, func(ctx context.Context, tx *db.Tx) error {
		changes, err := bank.Changes(ctx, tx, c.Limit)
		for _, n := range changes {
			wanted, err := n.CorrectedData(sealer)
			if err != nil {
				return err
			}
			fmt.Fprintf(std.Out, "%s  %s  %s  %s: %s\n", n.At.UTC().Format(time.RFC3339), bank.PaymentReference(n.Number, int(n.Position)), n.OutputID, n.Code, wanted)
		}
		return err
	})
}

// BankArrivedCmd decides that a file arrived.
type BankArrivedCmd struct {
	app.Storage
	File string `arg:"" help:"The file: S0000012, or 12."`
}

// Run decides it.
func (c BankArrivedCmd) Run(ctx context.Context, std Streams) error {
	return decide(ctx, std, c.Storage, c.File, bank.ConfirmReceived, "The bank has %s.\n")
}

// BankPaidCmd marks an output as paid.
type BankPaidCmd struct {
	app.Storage
	Output  string `arg:"" help:"Id of the output (out_…), from: stipend payouts queued."`
	Payment string `arg:"" help:"The payment that paid it, as the bank's file or statement names it: S0000012P00003."`
	Account string `required:"" help:"The house's account that paid, by its id in --bank-accounts."`
}

// Help is the long form of the help.
func (BankPaidCmd) Help() string {
	return `Compare amount, name and account number of the payment with the output first: this believes you. Payouts must be paused, the file must be
unknown to this database, and a payment pays one output. Then the output is fulfilled, the books say so, and reconciliation finds the debit
on the bank's statement by the file's name.`
}

// Run marks it.
func (c BankPaidCmd) Run(ctx context.Context, std Streams) error {
	return withDB(ctx, c.Storage, func(ctx context.Context, d *db.DB) error {
		var o payout.Output
		err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			o, err = bank.MarkPaid(ctx, tx, c.Output, c.Payment, c.Account)
			return errors.Join(err, backoffice.AtTheMachine(ctx, tx, "bank.paid", c.Output, c.Payment))
		})
		if err == nil {
			fmt.Fprintf(std.Out, "%s was paid %s %s by %s.\n", o.ID, o.Amount, o.Amount.Asset(), c.Payment)
		}
		return err
	})
}

// BankResendCmd decides that a file did not arrive.
type BankResendCmd struct {
	app.Storage
	File string `arg:"" help:"The file: S0000012, or 12."`
}

// Help is the long form of the help.
func (BankResendCmd) Help() string {
	return `Ask the bank first. If it has the file after all, its payments are made twice, unless the bank finds that it knows the number.`
}

// Run decides it.
func (c BankResendCmd) Run(ctx context.Context, std Streams) error {
	return decide(ctx, std, c.Storage, c.File, bank.Resend, "%s is handed over again.\n")
}

// BankCameBackCmd decides that a payment came back.
type BankCameBackCmd struct {
	app.Storage
	Payment string `arg:"" help:"The payment: S0000012P00003."`
	Amount  string `arg:"" help:"What came back, in the payment's currency: 4970.00. The rest is the bank's fee."`
}

// Help is the long form of the help.
func (BankCameBackCmd) Help() string {
	return `For a return of which the bank kept more than the account's return_fee: what came waits in suspense (see stipend transfers list). Ask the
bank first: the payee is owed the whole payment again, and all that waits of it leaves suspense. Nothing is booked twice.`
}

// Run decides it.
func (c BankCameBackCmd) Run(ctx context.Context, std Streams) error {
	of, ok := bank.FindReference(c.Payment)
	if !ok || of.Position == 0 {
		return fmt.Errorf("%q is no payment; want S0000012P00003", c.Payment)
	}
	if err := withDB(ctx, c.Storage, func(ctx context.Context, d *db.DB) error {
		return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			f, err := bank.Find(ctx, tx, of.File)
			if err != nil {
				return err
			}
			back, err := money.Parse(f.Total.Asset(), c.Amount)
			if err != nil {
				return err
			}
			return bank.RecordReturn(ctx, tx, of.File, of.Position, back, bankreceipt.ClearParts)
		})
	}); err != nil {
		return err
	}
	fmt.Fprintf(std.Out, "%s came back.\n", bank.PaymentReference(of.File, of.Position))
	return nil
}

func decide(ctx context.Context, std Streams, at app.Storage, file string, how func(context.Context, *db.Tx, int64) error, said string) error {
	number, err := strconv.ParseInt(strings.TrimPrefix(strings.TrimSuffix(strings.TrimSuffix(file, ".xml"), ".ach"), "S"), 10, 64)
	if err != nil {
		return fmt.Errorf("%q is no file; want S0000012, or 12", file)
	}
	if err := withDB(ctx, at, func(ctx context.Context, d *db.DB) error {
		return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return how(ctx, tx, number) })
	}); err != nil {
		return err
	}
	fmt.Fprintf(std.Out, said, bank.FileReference(number))
	return nil
}
