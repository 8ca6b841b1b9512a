package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/chain/network"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	bitcoinrail "github.com/stipend/stipend/internal/payout/bitcoin"
	evmrail "github.com/stipend/stipend/internal/payout/evm"
)

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
	app.Storage
}

// Run prints the state of the switch, the outputs by state and the transactions that spent coins of the wallet unknown to
// the service.
func (c PayoutsStatusCmd) Run(ctx context.Context, std Streams) error {
	return withDB(ctx, c.Storage, func(ctx context.Context, d *db.DB) error {
		return d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
			why, err := payout.Paused(ctx, tx)
			if err != nil {
				return err
			}
			counts, err := payout.Counts(ctx, tx)
			if err != nil {
				return err
			}
			var strangers []chain.UnknownSpend
			for _, name := range append([]string{app.BitcoinChain}, network.Names(network.EVM)...) {
				some, err := chain.UnknownSpends(ctx, tx, name)
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
	app.Storage
	Reason string `required:"" help:"Why, for whoever finds them stopped."`
}

// Run sets the switch, for every process on the database.
func (c PayoutsPauseCmd) Run(ctx context.Context, std Streams) error {
	if strings.TrimSpace(c.Reason) == "" {
		return errors.New("--reason must say something")
	}
	return withDB(ctx, c.Storage, func(ctx context.Context, d *db.DB) error {
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
	app.Storage
}

// Run takes the switch back.
func (c PayoutsResumeCmd) Run(ctx context.Context, std Streams) error {
	return withDB(ctx, c.Storage, func(ctx context.Context, d *db.DB) error {
		err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			return errors.Join(payout.SetPaused(ctx, tx, ""), backoffice.AtTheMachine(ctx, tx, backoffice.Resume, "", "stipend payouts resume"))
		})
		if err == nil {
			fmt.Fprintln(std.Out, "Payouts go on.")
		}
		return err
	})
}

// printPayouts shows whether payouts go out and what waits.
func printPayouts(w io.Writer, why string, counts map[payout.State]int64, strangers []chain.UnknownSpend) {
	if why == "" {
		fmt.Fprintln(w, "Payouts go out.")
	} else {
		fmt.Fprintf(w, "Payouts are paused: %s.\n", why)
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, state := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(t, "%s\t%d\n", state, counts[state])
	}
	_ = t.Flush() // as a failed write to the terminal before it
	if len(strangers) > 0 {
		fmt.Fprintln(w, "Transactions that spent coins of the wallet and are not known here:")
	}
	for _, s := range strangers {
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
}

// manyRows bounds what a command lists.
const manyRows = 10_000

// PayoutsQueuedCmd lists what waits.
type PayoutsQueuedCmd struct {
	app.Storage
}

// Run prints queued outputs.
func (c PayoutsQueuedCmd) Run(ctx context.Context, std Streams) error {
	return withDB(ctx, c.Storage, func(ctx context.Context, d *db.DB) error {
		return d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
			all, err := payout.ListQueued(ctx, tx, manyRows)
			if err != nil {
				return err
			}
			t := tabwriter.NewWriter(std.Out, 0, 4, 2, ' ', 0)
			fmt.Fprintln(t, "OUTPUT\tAMOUNT\tASSET\tRAIL\tADDRESS\tPAYROLL\tCOMPANY")
			for _, o := range all {
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", o.ID, o.Amount, o.Amount.Asset(), o.Rail, dash(o.Address), dash(o.PayrollID), o.CompanyID)
			}
			return t.Flush()
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
	Network string `default:"bitcoin" help:"Where the transaction is: bitcoin (default), ethereum, base, polygon or arbitrum."`
}

// Help is the long form of the help.
func (PayoutsPaidCmd) Help() string {
	return `It believes the chain, not you: payouts must be paused, the watcher must have seen the transaction spend coins of the wallet, or a nonce of
the paying account, with six confirmations (on Polygon and the like as many more as their blocks come faster), and the transaction must pay
the output's amount to the output's address, by an output of its own that paid nobody else. Then the output is fulfilled, and the books say
so. A Bitcoin node needs txindex=1. What a bank paid: stipend bank paid.`
}

// Run asks the node and marks.
func (c PayoutsPaidCmd) Run(ctx context.Context, std Streams) error {
	return withDB(ctx, c.Storage, func(ctx context.Context, d *db.DB) error {
		var source interface {
			Tx(ctx context.Context, txid string) (chain.Tx, error)
		}
		var err error
		mark := func(ctx context.Context, tx *db.Tx, t chain.Tx) (payout.Output, error) {
			return bitcoinrail.MarkPaid(ctx, tx, app.BitcoinChain, c.Output, t)
		}
		if c.Network == app.BitcoinChain {
			source, err = c.node(d)
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
		var o payout.Output
		err = d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			o, err = mark(ctx, tx, t)
			return err
		})
		if err == nil {
			fmt.Fprintf(std.Out, "%s was paid %s %s by %s, output %d.\n", o.ID, o.Amount, o.Amount.Asset(), o.TxID, o.Vout)
		}
		return err
	})
}
