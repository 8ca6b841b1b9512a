package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"text/tabwriter"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/receivable/deposit"
)

// LedgerCmd groups the commands for the ledger.
type LedgerCmd struct {
	Suspense LedgerSuspenseCmd `cmd:"" help:"List unexpected deposits (account 2500)."`
	Check    LedgerCheckCmd    `cmd:"" help:"Check that the ledger balances, and print the trial balance."`
}

// LedgerCheckCmd checks the ledger.
type LedgerCheckCmd struct{ app.Storage }

// Help returns the details of the help.
func (LedgerCheckCmd) Help() string {
	return `It checks every journal and every guarded balance. The exit code is 1 if anything is wrong. An account whose
balance is not the sum of its lines is frozen, and payouts of its asset stop, until a check finds it right again.`
}

// Run prints the trial balance. It returns ledger.ErrWrong if the ledger does not balance.
func (l LedgerCheckCmd) Run(ctx context.Context, std Streams) error {
	return withDB(ctx, l.Storage, func(ctx context.Context, d *db.DB) error { return checkLedger(ctx, std, d) })
}

func checkLedger(ctx context.Context, std Streams, d *db.DB) error {
	bar := &progress{w: std.Err}
	defer bar.end()
	bar.count(0, 2, "checks done: the balances are next")
	if err := backoffice.CheckBalances(ctx, d, slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	return d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
		bar.count(1, 2, "checks done: the journals are next")
		report, err := ledger.Check(ctx, tx)
		bar.end()
		if err != nil {
			return err
		}
		return printReport(std.Out, report)
	})
}

// printReport prints a trial balance and its problems. It returns ledger.ErrWrong if there is a problem.
func printReport(w io.Writer, r ledger.Report) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "CODE\tASSET\tDEBIT\tCREDIT\t  ACCOUNT")
	for _, l := range r.Trial {
		debit, credit := "", ""
		switch l.Debit.Sign() {
		case 1:
			debit = l.Debit.String()
		case -1:
			credit = l.Debit.Neg().String()
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t  %s\n", l.Code, l.Debit.Asset(), debit, credit, l.Code.Name())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "%d journals, %d lines\n", r.Journals, r.Lines)
	for _, p := range r.Problems {
		fmt.Fprintf(w, "WRONG: %s\n", p)
	}
	if len(r.Problems) > 0 {
		return ledger.ErrWrong
	}
	fmt.Fprintln(w, "The ledger balances.")
	return nil
}

// LedgerSuspenseCmd lists unexpected deposits.
type LedgerSuspenseCmd struct{ app.Storage }

// Run prints deposits in suspense.
func (c LedgerSuspenseCmd) Run(ctx context.Context, std Streams) error {
	return readDB(ctx, c.Storage, func(ctx context.Context, tx *db.Tx) error {
		all, err := deposit.UnknownToAll(ctx, tx, manyRows)
		if err != nil {
			return err
		}
		return table(std.Out, "DEPOSIT\tASSET\tAMOUNT\tFIRST SEEN\tADDRESS\tTRANSACTION\tCOMPANY", func(row func(...any)) {
			for _, p := range all {
				company := p.CompanyID
				if company == chain.UnassignedCompany {
					company = "unknown"
				}
				row(p.ID, p.Amount.Asset(), p.Amount, p.FirstSeen.Format("2006-01-02 15:04"), p.Address,
					fmt.Sprintf("%s:%d", p.TxID, p.Vout), company)
			}
		})
	})
}
