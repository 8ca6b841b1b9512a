package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	bitcoinrail "github.com/stipend/stipend/internal/payout/bitcoin"
	evmrail "github.com/stipend/stipend/internal/payout/evm"
	"github.com/stipend/stipend/internal/payout/onchain"
	"github.com/stipend/stipend/internal/signer"
)

// manyRows is the maximum number of rows that a command prints.
const manyRows = 10_000

// PayoutsCmd groups the commands for payouts.
type PayoutsCmd struct {
	Status  PayoutsStatusCmd  `cmd:"" help:"Show whether payouts are paused and why, and what is queued."`
	Pause   PayoutsPauseCmd   `cmd:"" help:"Pause all payouts of all companies at once."`
	Resume  PayoutsResumeCmd  `cmd:"" help:"Resume payouts."`
	Queued  PayoutsQueuedCmd  `cmd:"" help:"List queued outputs."`
	Held    PayoutsHeldCmd    `cmd:"" help:"List the payouts that the signer refuses, and why."`
	Approve PayoutsApproveCmd `cmd:"" help:"Pass approvals by passkeys of such payouts on to the signer."`
	Paid    PayoutsPaidCmd    `cmd:"" help:"After a restore: mark an output as paid by an unknown transaction."`
}

// PayoutsStatusCmd shows the state of payouts.
type PayoutsStatusCmd struct{ app.Storage }

// Run prints whether payouts are paused, the number of outputs by state, and transactions that spent coins of the
// wallet but are unknown to the service.
func (c PayoutsStatusCmd) Run(ctx context.Context, std Streams) error {
	return readDB(ctx, c.Storage, func(ctx context.Context, tx *db.Tx) error {
		reason, err := payout.Paused(ctx, tx)
		if err != nil {
			return err
		}
		counts, err := payout.Counts(ctx, tx)
		if err != nil {
			return err
		}
		unknown, err := backoffice.UnexplainedSpends(ctx, tx)
		if err != nil {
			return err
		}
		return printPayouts(std.Out, reason, counts, unknown)
	})
}

func printPayouts(w io.Writer, reason string, counts map[payout.State]int64, unknown []chain.UnknownSpend) error {
	if reason == "" {
		fmt.Fprintln(w, "Payouts are not paused.")
	} else {
		fmt.Fprintf(w, "Payouts are paused: %s.\n", reason)
	}
	if err := table(w, "", func(row func(...any)) {
		for _, state := range slices.Sorted(maps.Keys(counts)) {
			row(state, counts[state])
		}
	}); err != nil {
		return err
	}
	if len(unknown) > 0 {
		fmt.Fprintln(w, "Transactions that spent coins of the wallet and are not known here:")
	}
	for _, s := range unknown {
		where := "in the mempool"
		if s.Height > 0 {
			where = fmt.Sprintf("in block %d", s.Height)
		}
		spent := fmt.Sprintf("%d coins of %s BTC", s.Coins, money.New(money.BTC, s.Amount))
		if s.Nonce != "" {
			spent = fmt.Sprintf("nonce %s on %s", s.Nonce, s.Chain)
		}
		fmt.Fprintf(w, "  %s %s, %s\n", s.TxID, where, spent)
	}
	return nil
}

// PayoutsPauseCmd pauses payouts.
type PayoutsPauseCmd struct {
	app.Storage
	Reason string `required:"" help:"Reason, for others who find them paused."`
}

// Run pauses payouts in every process that uses the database.
func (c PayoutsPauseCmd) Run(ctx context.Context, std Streams) error {
	if err := required("--reason", c.Reason); err != nil {
		return err
	}
	return writeDB(ctx, c.Storage, std, func(ctx context.Context, tx *db.Tx) (string, error) {
		return "Payouts are paused. Payouts that were broadcast or sent to a bank cannot be stopped.", errors.Join(
			payout.SetPaused(ctx, tx, c.Reason), backoffice.RecordCommand(ctx, tx, backoffice.Pause, "", c.Reason))
	})
}

// PayoutsResumeCmd resumes payouts.
type PayoutsResumeCmd struct {
	app.Storage
	NotPayouts []string `placeholder:"TXID,..." help:"Unknown transactions that paid no queued output, as you verified."`
}

// Help returns the details of the help.
func (PayoutsResumeCmd) Help() string {
	return `It refuses while a transaction spent coins of the wallet that the database does not know: after a restore it
paid outputs that are queued again. Mark these outputs first with: stipend payouts paid. If the transaction
paid none, for example because you transferred coins with another wallet, name it with --not-payouts.`
}

// Run resumes payouts.
func (c PayoutsResumeCmd) Run(ctx context.Context, std Streams) error {
	note := strings.TrimSpace("stipend payouts resume " + strings.Join(c.NotPayouts, " "))
	return writeDB(ctx, c.Storage, std, func(ctx context.Context, tx *db.Tx) (string, error) {
		if err := backoffice.ResumePayouts(ctx, tx, c.NotPayouts...); err != nil {
			return "", err
		}
		return "Payouts are resumed.", backoffice.RecordCommand(ctx, tx, backoffice.Resume, "", note)
	})
}

// PayoutsQueuedCmd lists queued outputs.
type PayoutsQueuedCmd struct{ app.Storage }

// Run prints the outputs.
func (c PayoutsQueuedCmd) Run(ctx context.Context, std Streams) error {
	return readDB(ctx, c.Storage, func(ctx context.Context, tx *db.Tx) error {
		all, err := payout.ListQueued(ctx, tx, manyRows)
		if err != nil {
			return err
		}
		return table(std.Out, "OUTPUT\tAMOUNT\tASSET\tRAIL\tADDRESS\tPAYROLL\tCOMPANY", func(row func(...any)) {
			for _, o := range all {
				row(o.ID, o.Amount, o.Amount.Asset(), o.Rail, dash(o.Address), dash(o.PayrollID), o.CompanyID)
			}
		})
	})
}

// PayoutsPaidCmd marks an output as paid.
type PayoutsPaidCmd struct {
	app.Storage
	NodeFlags
	EVMNodeFlags
	Output  string `arg:"" help:"Id of the output (out_…), from: stipend payouts queued."`
	TxID    string `name:"txid" required:"" help:"Transaction that paid it, from: stipend payouts status."`
	Network string `default:"bitcoin" help:"Network of the transaction: bitcoin (default), base, ethereum, …"`
}

// Help returns the details of the help.
func (PayoutsPaidCmd) Help() string {
	return `It checks the chain. Payouts must be paused. The watcher must have seen the transaction spend coins of the
wallet, or a nonce of the hot wallet, with six confirmations (more on networks with faster blocks). The
transaction must pay the output's amount to the output's address, by an output that pays nothing else.
Then the output is fulfilled and posted. A Bitcoin node needs txindex=1. For payments by bank: stipend
bank paid.`
}

// Run marks the output.
func (c PayoutsPaidCmd) Run(ctx context.Context, std Streams) error {
	return withDB(ctx, c.Storage, func(ctx context.Context, d *db.DB) error {
		var source interface {
			Tx(ctx context.Context, txid string) (chain.Tx, error)
		}
		mark := func(ctx context.Context, tx *db.Tx, t chain.Tx) (payout.Output, error) {
			return bitcoinrail.MarkPaid(ctx, tx, app.BitcoinChain, c.Output, t)
		}
		var err error
		if c.Network == app.BitcoinChain {
			source, err = c.node(ctx, d)
		} else {
			var node evm.Node
			node, err = c.network(d, c.Network)
			source, mark = node, func(ctx context.Context, tx *db.Tx, t chain.Tx) (payout.Output, error) {
				return evmrail.MarkPaid(ctx, tx, node.Spec(), c.Output, t)
			}
		}
		if err != nil {
			return err
		}
		t, err := source.Tx(ctx, c.TxID)
		if err != nil {
			return fmt.Errorf("transaction %s: %w", c.TxID, err)
		}
		return write(ctx, d, std, func(ctx context.Context, tx *db.Tx) (string, error) {
			o, err := mark(ctx, tx, t)
			if err == nil {
				err = backoffice.RecordCommand(ctx, tx, "payouts.paid", o.ID, "paid by transaction "+o.TxID)
			}
			return fmt.Sprintf("%s was paid %s %s by %s, output %d.", o.ID, o.Amount, o.Amount.Asset(), o.TxID, o.Vout), err
		})
	})
}

// PayoutsHeldCmd lists payouts that the signer refuses.
type PayoutsHeldCmd struct{ app.Storage }

// Run prints the payouts that the signer does not sign yet.
func (c PayoutsHeldCmd) Run(ctx context.Context, std Streams) error {
	return readDB(ctx, c.Storage, func(ctx context.Context, tx *db.Tx) error {
		held, err := onchain.AllHeld(ctx, tx, manyRows)
		if err != nil {
			return err
		}
		if len(held) == 0 {
			fmt.Fprintln(std.Out, "No payouts are refused by the signer.")
			return nil
		}
		return table(std.Out, "OUTPUT\tCOMPANY\tAMOUNT\tADDRESS\tAPPROVALS\tREASON", func(row func(...any)) {
			for _, h := range held {
				amount := money.New(h.Payment.Asset, h.Payment.Units)
				row(h.OutputID, h.CompanyID, amount.String()+" "+string(h.Payment.Asset), h.Payment.Address, len(h.Approvals),
					h.Verdict.Detail)
			}
		})
	})
}

// PayoutsApproveCmd stores approvals, which only the signer verifies.
type PayoutsApproveCmd struct {
	app.Storage
	File string `arg:"" help:"Approvals as lines of JSON (- for stdin): see docs/custody.md."`
}

// Run stores the approvals and requests the payouts again.
func (c PayoutsApproveCmd) Run(ctx context.Context, std Streams) error {
	from := std.In
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return err
		}
		defer f.Close()
		from = f
	}
	var approvals []signer.Approval
	lines := json.NewDecoder(from)
	for lines.More() {
		var a signer.Approval
		if err := lines.Decode(&a); err != nil {
			return fmt.Errorf("this is not an approval: %w", err)
		}
		approvals = append(approvals, a)
	}
	return writeDB(ctx, c.Storage, std, func(ctx context.Context, tx *db.Tx) (string, error) {
		for _, a := range approvals {
			if err := onchain.Approve(ctx, tx, a); err != nil {
				return "", err
			}
		}
		return fmt.Sprintf("%d approvals are stored. The signer verifies them with its next decision.", len(approvals)), nil
	})
}
