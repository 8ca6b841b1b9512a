package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/bankreceipt"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/directdebit"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout/bank"
)

// BankCmd groups the commands for payouts by bank.
type BankCmd struct {
	Files     BankFilesCmd     `cmd:"" help:"List payment files, newest first: unconfirmed ones, or all."`
	Responses BankResponsesCmd `cmd:"" help:"List the bank's responses: those that need a person, or all."`
	Changes   BankChangesCmd   `cmd:"" help:"List corrections that banks request before the next payment."`
	Names     BankNamesCmd     `cmd:"" help:"List what banks say about payees' names: other than a match, or all."`
	Received  BankReceivedCmd  `cmd:"" help:"Record that the bank has a file with an unknown outcome."`
	Resend    BankResendCmd    `cmd:"" help:"Send a file again that the bank does not have."`
	Paid      BankPaidCmd      `cmd:"" help:"After a restore: mark an output as paid by an unknown file."`
	Returned  BankReturnedCmd  `cmd:"" help:"Record that a payment was returned, and how much of it."`
}

// BankFilesCmd lists payment files.
type BankFilesCmd struct {
	app.Storage
	All   bool `help:"Include files that the bank has confirmed."`
	Limit int  `default:"100" help:"Maximum number of files (${default})."`
}

// Run prints the files.
func (c BankFilesCmd) Run(ctx context.Context, std Streams) error {
	return readDB(ctx, c.Storage, func(ctx context.Context, tx *db.Tx) error {
		files, err := bank.List(ctx, tx, !c.All, c.Limit)
		for _, f := range files {
			fmt.Fprintf(std.Out, "%-14s %-9s %6d payments %18s %s  of %s for %s  sha256 %s\n",
				f.Name, f.State, f.Payments, f.Total, f.Total.Asset(), f.CompanyID, f.Execute, f.Checksum)
		}
		return err
	})
}

// BankResponsesCmd lists files that the bank has sent.
type BankResponsesCmd struct {
	app.Storage
	All   bool `help:"Include responses without a problem."`
	Limit int  `default:"100" help:"Maximum number of responses (${default})."`
}

// Run prints the responses and their problems.
func (c BankResponsesCmd) Run(ctx context.Context, std Streams) error {
	return readDB(ctx, c.Storage, func(ctx context.Context, tx *db.Tx) error {
		responses, err := bank.Responses(ctx, tx, !c.All, c.Limit)
		for _, a := range responses {
			state := "read"
			if !a.Settled {
				state = "waits"
			}
			fmt.Fprintf(std.Out, "%s  %-40s %-22s %s, %d facts\n",
				a.At.UTC().Format(time.RFC3339), a.Name, a.Kind, state, a.Facts)
			for _, p := range a.Problems {
				fmt.Fprintf(std.Out, "    %s\n", p)
			}
		}
		return err
	})
}

// BankChangesCmd lists corrections that banks request.
type BankChangesCmd struct {
	app.Storage
	app.DataKeys
	Limit int `default:"100" help:"Maximum number of corrections (${default})."`
}

// Run prints the corrections.
func (c BankChangesCmd) Run(ctx context.Context, std Streams) error {
	sealer, err := newSealer(c.DataKeys)
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
			fmt.Fprintf(std.Out, "%s  %s  %s  %s: %s\n",
				n.At.UTC().Format(time.RFC3339), bank.PaymentReference(n.Number, int(n.Position)), n.OutputID, n.Code, wanted)
		}
		return err
	})
}

// BankNamesCmd lists results of Verification of Payee.
type BankNamesCmd struct {
	app.Storage
	app.DataKeys
	All   bool `help:"Include payees whose name matches."`
	Limit int  `default:"100" help:"Maximum number of results (${default})."`
}

// Run prints the results.
func (c BankNamesCmd) Run(ctx context.Context, std Streams) error {
	sealer, err := newSealer(c.DataKeys)
	if err != nil {
		return err
	}
	return readDB(ctx, c.Storage, func(ctx context.Context, tx *db.Tx) error {
		found, err := destination.NameChecks(ctx, tx, c.All, c.Limit)
		for _, d := range found {
			name, err := d.Holder(sealer)
			if err != nil {
				return err
			}
			fmt.Fprintf(std.Out, "%s  %s  %s  %-12s %s\n",
				d.Check.Checked.UTC().Format(time.RFC3339), d.OwnerID, d.ID, d.Check.Result, name)
		}
		return err
	})
}

// BankReceivedCmd records that the bank has received a file.
type BankReceivedCmd struct {
	app.Storage
	File string `arg:"" help:"The file: S0000012, or D0000012 for a direct debit."`
}

// Run records the receipt.
func (c BankReceivedCmd) Run(ctx context.Context, std Streams) error {
	return changeFile(ctx, std, c.Storage, c.File, "bank.received", "The bank has %s.", bank.ConfirmReceived,
		directdebit.ConfirmReceived)
}

// BankResendCmd sends a file again.
type BankResendCmd struct {
	app.Storage
	File string `arg:"" help:"The file: S0000012, or D0000012 for a direct debit."`
}

// Help returns the details of the help.
func (BankResendCmd) Help() string {
	return `Ask the bank first. If it has the file after all, it may make the payments twice, unless it recognizes the
number.`
}

// Run queues the file to be sent.
func (c BankResendCmd) Run(ctx context.Context, std Streams) error {
	return changeFile(ctx, std, c.Storage, c.File, "bank.resend", "%s is sent again.", bank.Resend, directdebit.Resend)
}

// changeFile changes the state of a file of payments or of a direct debit, and records the action. It prints the text
// done and the name of the file.
func changeFile(
	ctx context.Context, std Streams, at app.Storage, file, action, done string,
	payments, debit func(context.Context, *db.Tx, int64) error,
) error {
	name, change := strings.TrimSuffix(strings.TrimSuffix(file, ".xml"), ".ach"), payments
	number, err := strconv.ParseInt(strings.TrimPrefix(name, "S"), 10, 64)
	reference := bank.FileReference(number)
	if rest, isDebit := strings.CutPrefix(name, "D"); isDebit {
		number, err = strconv.ParseInt(rest, 10, 64)
		reference, change = bank.DebitReference(number), debit
	}
	if err != nil {
		return fmt.Errorf("%q is not a file; want S0000012, or D0000012 for a direct debit", file)
	}
	return writeDB(ctx, at, std, func(ctx context.Context, tx *db.Tx) (string, error) {
		if err := change(ctx, tx, number); err != nil {
			return "", err
		}
		return fmt.Sprintf(done, reference), backoffice.RecordCommand(ctx, tx, action, reference, "")
	})
}

// BankPaidCmd marks an output as paid.
type BankPaidCmd struct {
	app.Storage
	Output  string `arg:"" help:"Id of the output (out_…), from: stipend payouts queued."`
	Payment string `arg:"" help:"The payment in the bank's file or statement: S0000012P00003."`
	Account string `required:"" help:"The operator's account that paid, by its id in --bank-accounts."`
	BankAccountsFlag
}

// Help returns the details of the help.
func (BankPaidCmd) Help() string {
	return `First compare the amount, name and account number of the payment with the output: the command cannot check
them. Payouts must be paused, the file must be unknown to this database, and a payment pays one output.
The command marks the output as fulfilled and posts the payment; reconciliation then finds the debit on
the bank's statement by the file's name.`
}

// Run marks the output.
func (c BankPaidCmd) Run(ctx context.Context, std Streams) error {
	accounts, err := c.accounts()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(accounts, func(a bank.Account) bool { return a.ID == c.Account })
	if i < 0 {
		return fmt.Errorf("--bank-accounts has no account %q", c.Account)
	}
	return writeDB(ctx, c.Storage, std, func(ctx context.Context, tx *db.Tx) (string, error) {
		o, err := bank.MarkPaid(ctx, tx, c.Output, c.Payment, accounts[i])
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%s was paid %s %s by %s.", o.ID, o.Amount, o.Amount.Asset(), c.Payment),
			backoffice.RecordCommand(ctx, tx, "bank.paid", c.Output, c.Payment)
	})
}

// BankReturnedCmd records that a payment was returned.
type BankReturnedCmd struct {
	app.Storage
	Payment string `arg:"" help:"The payment: S0000012P00003."`
	Amount  string `arg:"" help:"The amount returned: 4970.00. The rest is the bank's fee."`
}

// Help returns the details of the help.
func (BankReturnedCmd) Help() string {
	return `Use it if the bank kept more of a return than the account's return_fee: the money received is in suspense
then (see stipend transfers list). Ask the bank first. The whole payment is owed to the payee again, and
its parts leave suspense. Nothing is posted twice.`
}

// Run records the return.
func (c BankReturnedCmd) Run(ctx context.Context, std Streams) error {
	of, ok := bank.FindReference(c.Payment)
	if !ok || of.Position == 0 {
		return fmt.Errorf("%q is not a payment; want S0000012P00003", c.Payment)
	}
	return writeDB(ctx, c.Storage, std, func(ctx context.Context, tx *db.Tx) (string, error) {
		f, err := bank.Find(ctx, tx, of.File)
		if err != nil {
			return "", err
		}
		returned, err := money.Parse(f.Total.Asset(), c.Amount)
		if err != nil {
			return "", err
		}
		return bank.PaymentReference(of.File, of.Position) + " was returned.",
			bank.RecordReturn(ctx, tx, of.File, of.Position, returned, bankreceipt.ClearParts)
	})
}
