package cli

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/receivable/deposit"
)

// LedgerCmd groups the commands about the books.
type LedgerCmd struct {
	Suspense LedgerSuspenseCmd `cmd:"" help:"List the money that came in and that nobody expected (account 2500)."`
	Check    LedgerCheckCmd    `cmd:"" help:"Prove that the books balance: every journal, every guarded balance. Prints the trial balance; exit code 1 if anything is off."`
}

// LedgerCheckCmd checks the books.
type LedgerCheckCmd struct {
	app.Storage
}

// Run prints the trial balance and returns ledger.ErrWrong when the books do not agree.
func (l LedgerCheckCmd) Run(ctx context.Context, std Streams) error {
	return withDB(ctx, l.Storage, func(ctx context.Context, d *db.DB) error { return checkLedger(ctx, std, d) })
}

func checkLedger(ctx context.Context, std Streams, d *db.DB) error {
	var report ledger.Report
	if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		report, err = ledger.Check(ctx, tx)
		return err
	}); err != nil {
		return err
	}
	return printReport(std.Out, report)
}

// printReport shows a ledger's trial balance and what is wrong with the books. It returns ledger.ErrWrong when anything is.
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
	fmt.Fprintln(w, "The books balance.")
	return nil
}

// LedgerSuspenseCmd lists money that nobody expected.
type LedgerSuspenseCmd struct {
	app.Storage
}

// Run prints deposits in suspense.
func (c LedgerSuspenseCmd) Run(ctx context.Context, std Streams) error {
	return withDB(ctx, c.Storage, func(ctx context.Context, d *db.DB) error {
		return d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
			all, err := deposit.UnknownToAll(ctx, tx, manyRows)
			if err != nil {
				return err
			}
			t := tabwriter.NewWriter(std.Out, 0, 4, 2, ' ', 0)
			fmt.Fprintln(t, "DEPOSIT\tASSET\tAMOUNT\tFIRST SEEN\tADDRESS\tTRANSACTION\tCOMPANY")
			for _, p := range all {
				company := p.CompanyID
				if company == chain.UnassignedCompany {
					company = "nobody remembers"
				}
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s:%d\t%s\n", p.ID, p.Amount.Asset(), p.Amount, p.FirstSeen.Format("2006-01-02 15:04"), p.Address, p.TxID, p.Vout, company)
			}
			return t.Flush()
		})
	})
}
