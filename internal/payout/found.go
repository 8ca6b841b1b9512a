package payout

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
)

// ReasonFound is the history's reason of an output that was paid by a transaction of which the database did not know.
const ReasonFound = "found_on_chain"

// What stands in the way of Found.
var (
	ErrNotPaused = errors.New("payouts go on; pause them first, so that nobody pays the output meanwhile")
	ErrNotQueued = errors.New("there is no such output in the queue for the chain; only one that waits there can have been paid unknown to this database")
	ErrNoPayment = errors.New("the transaction does not pay this output")
)

// Found marks a queued output as paid by a transaction that spent coins of the wallet and that this database does not know: it
// was restored from a backup, or another server took its place. t is the transaction as a node shows it. The watcher must have
// seen it in a block, with as many blocks upon it as the wallet wants of a stranger; one of its outputs must pay the very amount
// to the very address, and be no other output's payment. The books then say what the chain says, and the payment is settled.
func Found(ctx context.Context, tx *db.Tx, chainName, outputID string, t chain.Tx) (Output, error) {
	switch why, err := Paused(ctx, tx); {
	case err != nil:
		return Output{}, err
	case why == "":
		return Output{}, ErrNotPaused
	}
	some, err := selectOutputs(ctx, tx, "output_id = $1 AND rail = 'bitcoin' AND state = 'queued'", outputID)
	if err != nil {
		return Output{}, err
	}
	if len(some) != 1 {
		return Output{}, ErrNotQueued
	}
	o := some[0]
	coins, err := spentUnknown(ctx, tx, chainName, t.ID)
	if err != nil {
		return Output{}, err
	}
	taken, err := paidBy(ctx, tx, t.ID)
	if err != nil {
		return Output{}, err
	}
	i := slices.IndexFunc(t.Outputs, func(out chain.Output) bool {
		return out.Address == o.Address && out.Amount == o.Amount.Units() && !taken[out.Vout]
	})
	if i < 0 {
		return Output{}, fmt.Errorf("%w: want %s BTC to %s, which no other output of this service was paid by", ErrNoPayment, o.Amount, o.Address)
	}
	o.TxID, o.Vout = t.ID, t.Outputs[i].Vout
	if err := markFound(ctx, tx, o); err != nil {
		return Output{}, err
	}
	lines := []ledger.Line{ledger.Debit(ledger.OutputPayable, o.ID, o.Amount), ledger.Credit(ledger.HotWallet, walletDim, o.Amount)}
	if len(taken) == 0 { // the miner's fee, once
		fee := coins
		for _, out := range t.Outputs {
			fee -= out.Amount
		}
		lines = append(lines, ledger.Debit(ledger.NetworkFee, source, sats(fee)), ledger.Credit(ledger.HotWallet, walletDim, sats(fee)))
	}
	if err := ledger.Post(tx, ledger.Journal{CompanyID: o.CompanyID, SourceType: "output", SourceID: o.ID, Purpose: "found", Lines: lines}); err != nil {
		return Output{}, err
	}
	changed(tx, []Output{o})
	// With its last output explained, the transaction is no stranger any more.
	taken[o.Vout] = true
	for _, out := range t.Outputs {
		own, err := chain.IsOwn(ctx, tx, chainName, out.Address)
		if err != nil {
			return Output{}, err
		}
		if !own && !taken[out.Vout] {
			return o, nil
		}
	}
	return o, chain.WatchTx(ctx, tx, chainName, t.ID, o.CompanyID, "", chain.DefaultConfirmations)
}

// spentUnknown is what an unknown transaction spent of the wallet, once it lies deep enough in the chain.
func spentUnknown(ctx context.Context, tx *db.Tx, chainName, txid string) (amount int64, err error) {
	strangers, err := chain.Strangers(ctx, tx, chainName)
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(strangers, func(s chain.Stranger) bool { return s.TxID == txid })
	if i < 0 {
		return 0, fmt.Errorf("%w: the watcher has seen no unknown transaction %s that spends coins of the wallet", ErrNoPayment, txid)
	}
	tip, _, err := chain.Tip(ctx, tx, chainName)
	if err != nil {
		return 0, err
	}
	if s := strangers[i]; s.Height == 0 || tip-s.Height+1 < chain.DefaultConfirmations {
		return 0, fmt.Errorf("%w for good yet: it needs %d confirmations", ErrNoPayment, chain.DefaultConfirmations)
	}
	return strangers[i].Amount, nil
}
