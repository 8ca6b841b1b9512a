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

// reasonFound is the history's reason for an output paid by a transaction that the database did not contain.
const reasonFound = "found_on_chain"

// Errors of MarkPaid.
var (
	ErrNotQueued = errors.New("this output is not queued for payout on the chain; " +
		"only queued outputs can be marked as paid")
	ErrNoPayment = errors.New("the transaction does not pay this output")
)

// UnknownPayment has the properties of a chain that MarkPaid requires.
type UnknownPayment struct {
	Rail   payout.RailName
	Chain  string
	Native money.Asset
	Depth  int64 // required confirmations of the transaction
	// Fee returns the fee of the transaction; spent is the amount that it spent from the wallet.
	Fee func(t chain.Tx, spent chain.UnknownSpend) int64
}

// MarkPaid marks a queued output as paid by a transaction t that spent coins of the wallet but is not in the
// database, because the database was restored from an older backup or replaced. Payouts must be paused. The watcher
// must have seen t deep enough in the chain, and one output of t must pay exactly the amount to the address and must
// not pay another queued output. MarkPaid posts the payment. With the first output of t, it also posts the fee.
func MarkPaid(ctx context.Context, tx *db.Tx, u UnknownPayment, outputID string, t chain.Tx) (payout.Output,
	chain.UnknownSpend, error,
) {
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
		return fail(fmt.Errorf("%w: want %s %s to %s, which must not pay another output", ErrNoPayment, o.Amount, asset,
			o.Address))
	}
	o.TxID, o.Vout = t.ID, t.Outputs[i].Vout
	if err := payout.MarkPaid(ctx, tx, o, reasonFound); err != nil {
		return fail(err)
	}
	code, dim := ledger.WalletOf(asset, u.Chain)
	lines := []ledger.Line{ledger.Debit(ledger.OutputPayable, o.ID, o.Amount), ledger.Credit(code, dim, o.Amount)}
	if len(taken) == 0 { // only the transaction's first output posts the fee
		fee := money.New(u.Native, u.Fee(t, spent))
		code, dim := ledger.WalletOf(u.Native, u.Chain)
		lines = append(lines, ledger.Debit(ledger.NetworkFee, Source, fee), ledger.Credit(code, dim, fee))
	}
	if err := ledger.Post(tx, ledger.Journal{
		CompanyID: o.CompanyID, SourceType: "output", SourceID: o.ID, Purpose: "found", Lines: lines,
	}); err != nil {
		return fail(err)
	}
	return o, spent, watchIfExplained(ctx, tx, u.Chain, t, o, taken)
}

// watchIfExplained makes the watcher treat t as known once each of its outputs belongs to the wallet or pays a
// payout.
func watchIfExplained(ctx context.Context, tx *db.Tx, chainName string, t chain.Tx, o payout.Output,
	taken map[uint32]bool,
) error {
	taken[o.Vout] = true
	for _, out := range t.Outputs {
		own, err := chain.IsOwnAddress(ctx, tx, chainName, out.Address)
		if err != nil || !own && !taken[out.Vout] {
			return err
		}
	}
	return chain.WatchTx(ctx, tx, chainName, t.ID, o.CompanyID, "", chain.DefaultConfirmations)
}

// unknownSpend returns an unknown transaction that the watcher saw spend from the wallet. It returns an error if the
// transaction is not deep enough in the chain.
func unknownSpend(ctx context.Context, tx *db.Tx, chainName, txid string, depth int64) (chain.UnknownSpend, error) {
	all, err := chain.UnknownSpends(ctx, tx, chainName)
	if err != nil {
		return chain.UnknownSpend{}, err
	}
	i := slices.IndexFunc(all, func(s chain.UnknownSpend) bool { return s.TxID == txid })
	if i < 0 {
		return chain.UnknownSpend{}, fmt.Errorf("%w: the watcher has not seen the transaction %s spend coins of the wallet",
			ErrNoPayment, txid)
	}
	tip, _, err := chain.Tip(ctx, tx, chainName)
	if err != nil {
		return chain.UnknownSpend{}, err
	}
	if s := all[i]; s.Height == 0 || tip-s.Height+1 < depth {
		return s, fmt.Errorf("%w with enough confirmations yet: it needs %d", ErrNoPayment, depth)
	}
	return all[i], nil
}
