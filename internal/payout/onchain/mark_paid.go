package onchain

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
)

// ReasonFound is the history's reason of an output that was paid by a transaction unknown to this database.
const ReasonFound = "found_on_chain"

// Why an output cannot be marked as paid.
var (
	ErrNotQueued = errors.New("there is no such output in the queue for the chain; " +
		"only a queued output can have been paid without this database knowing")
	ErrNoPayment = errors.New("the transaction does not pay this output")
)

// Unknown is how MarkPaid treats a chain's transactions.
type Unknown struct {
	Rail   payout.RailName
	Chain  string
	Native money.Asset
	Depth  int64 // confirmations that the transaction needs
	// Fee returns what the transaction cost; spent is what it spent of the wallet.
	Fee func(t chain.Tx, spent chain.UnknownSpend) int64
}

// MarkPaid marks a queued output as paid by a transaction that spent of the wallet and that this database does not know: it was
// restored from a backup, or another server took its place. t is the transaction as a node shows it. Payouts must be paused. The
// watcher must have seen it in a block that is deep enough, and one of its outputs must pay exactly the amount to exactly the
// address and be no other output's payment. It posts the payment and, with the first output, the fee, and settles the output.
func MarkPaid(ctx context.Context, tx *db.Tx, u Unknown, outputID string, t chain.Tx) (payout.Output, chain.UnknownSpend, error) {
	fail := func(err error) (payout.Output, chain.UnknownSpend, error) {
		return payout.Output{}, chain.UnknownSpend{}, err
	}
	if err := payout.RequirePaused(ctx, tx); err != nil {
		return fail(err)
	}
	o, err := payout.GetQueued(ctx, tx, u.Rail, outputID)
	if errors.Is(err, db.ErrNoRows) {
		err = ErrNotQueued
	}
	if err != nil {
		return fail(err)
	}
	spent, err := unknownSpend(ctx, tx, u.Chain, t.ID, u.Depth)
	if err != nil {
		return fail(err)
	}
	taken, err := payout.PaidBy(ctx, tx, t.ID)
	if err != nil {
		return fail(err)
	}
	asset := o.Amount.Asset()
	i := slices.IndexFunc(t.Outputs, func(out chain.Output) bool {
		return out.Address == o.Address && (out.Asset == asset || out.Asset == "" && asset == money.BTC) &&
			out.Amount == o.Amount.Units() && !taken[out.Vout]
	})
	if i < 0 || t.Failed {
		return fail(fmt.Errorf("%w: want %s %s to %s, not yet counted as another output's payment", ErrNoPayment, o.Amount, asset, o.Address))
	}
	o.TxID, o.Vout = t.ID, t.Outputs[i].Vout
	if err := payout.MarkPaid(ctx, tx, o, ReasonFound); err != nil {
		return fail(err)
	}
	code, dim := ledger.WalletOf(asset, u.Chain)
	lines := []ledger.Line{ledger.Debit(ledger.OutputPayable, o.ID, o.Amount), ledger.Credit(code, dim, o.Amount)}
	if len(taken) == 0 { // the fee, once
		fee := money.New(u.Native, u.Fee(t, spent))
		code, dim := ledger.WalletOf(u.Native, u.Chain)
		lines = append(lines, ledger.Debit(ledger.NetworkFee, Source, fee), ledger.Credit(code, dim, fee))
	}
	if err := ledger.Post(tx, ledger.Journal{
		CompanyID: o.CompanyID, SourceType: "output", SourceID: o.ID, Purpose: "found", Lines: lines,
	}); err != nil {
		return fail(err)
	}
	return o, spent, explained(ctx, tx, u.Chain, t, o, taken)
}

// explained has the watcher treat the transaction as known once each of its outputs is the wallet's or an output's payment.
func explained(ctx context.Context, tx *db.Tx, chainName string, t chain.Tx, o payout.Output, taken map[uint32]bool) error {
	taken[o.Vout] = true
	for _, out := range t.Outputs {
		own, err := chain.IsOwnAddress(ctx, tx, chainName, out.Address)
		if err != nil || !own && !taken[out.Vout] {
			return err
		}
	}
	return chain.WatchTx(ctx, tx, chainName, t.ID, o.CompanyID, "", chain.DefaultConfirmations)
}

// unknownSpend returns an unknown transaction that the watcher has seen spend of the wallet, once it is deep enough in the chain.
func unknownSpend(ctx context.Context, tx *db.Tx, chainName, txid string, depth int64) (chain.UnknownSpend, error) {
	all, err := chain.UnknownSpends(ctx, tx, chainName)
	if err != nil {
		return chain.UnknownSpend{}, err
	}
	i := slices.IndexFunc(all, func(s chain.UnknownSpend) bool { return s.TxID == txid })
	if i < 0 {
		return chain.UnknownSpend{}, fmt.Errorf("%w: the watcher has seen no unknown transaction %s that spends coins of the wallet",
			ErrNoPayment, txid)
	}
	tip, _, err := chain.Tip(ctx, tx, chainName)
	if err != nil {
		return chain.UnknownSpend{}, err
	}
	if s := all[i]; s.Height == 0 || tip-s.Height+1 < depth {
		return s, fmt.Errorf("%w for good yet: it needs %d confirmations", ErrNoPayment, depth)
	}
	return all[i], nil
}
