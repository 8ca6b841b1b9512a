package payout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
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
	o, err := queued(ctx, tx, RailBitcoin, outputID)
	if err != nil {
		return Output{}, err
	}
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
	return o, explained(ctx, tx, chainName, t, o, taken)
}

// FoundByAccount is Found on a network of accounts: the transaction has a nonce of the paying account, and its one payment is of the
// very amount and asset to the very address. What it cost is booked with it.
func FoundByAccount(ctx context.Context, tx *db.Tx, n evm.Network, outputID string, t chain.Tx) (Output, error) {
	switch why, err := Paused(ctx, tx); {
	case err != nil:
		return Output{}, err
	case why == "":
		return Output{}, ErrNotPaused
	}
	o, err := queued(ctx, tx, Rail(n.Name), outputID)
	if err != nil {
		return Output{}, err
	}
	s, err := unknown(ctx, tx, n.Name, t.ID, chain.DefaultConfirmations*max(n.Pace, 1))
	if err != nil {
		return Output{}, err
	}
	taken, err := paidBy(ctx, tx, t.ID)
	if err != nil {
		return Output{}, err
	}
	i := slices.IndexFunc(t.Outputs, func(out chain.Output) bool {
		return out.Address == o.Address && out.Asset == o.Amount.Asset() && out.Amount == o.Amount.Units() && !taken[out.Vout]
	})
	if i < 0 || t.Failed {
		return Output{}, fmt.Errorf("%w: want %s %s to %s, which no other output of this service was paid by", ErrNoPayment, o.Amount, o.Amount.Asset(), o.Address)
	}
	o.TxID, o.Vout = t.ID, t.Outputs[i].Vout
	if err := markFound(ctx, tx, o); err != nil {
		return Output{}, err
	}
	code, dim := ledger.WalletOf(o.Amount.Asset(), n.Name)
	lines := []ledger.Line{ledger.Debit(ledger.OutputPayable, o.ID, o.Amount), ledger.Credit(code, dim, o.Amount)}
	if len(taken) == 0 { // what it cost, once
		fee := money.New(n.Native, t.Fee)
		code, dim := ledger.WalletOf(n.Native, n.Name)
		lines = append(lines, ledger.Debit(ledger.NetworkFee, source, fee), ledger.Credit(code, dim, fee))
	}
	if err := ledger.Post(tx, ledger.Journal{CompanyID: o.CompanyID, SourceType: "output", SourceID: o.ID, Purpose: "found", Lines: lines}); err != nil {
		return Output{}, err
	}
	changed(tx, []Output{o})
	account, number, _ := strings.Cut(s.Nonce, "/")
	nonce, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return Output{}, fmt.Errorf("payout: the nonce %q: %w", s.Nonce, err)
	}
	next, _, err := lockNonce(ctx, tx, n.Name, account)
	if err == nil && next <= nonce {
		err = setNonce(ctx, tx, n.Name, account, nonce+1)
	}
	if err != nil {
		return Output{}, err
	}
	return o, explained(ctx, tx, n.Name, t, o, taken)
}

// queued is an output that waits to be paid by a rail.
func queued(ctx context.Context, tx *db.Tx, rail Rail, outputID string) (Output, error) {
	some, err := selectOutputs(ctx, tx, "output_id = $1 AND rail = $2 AND state = 'queued'", outputID, string(rail))
	if err == nil && len(some) != 1 {
		err = ErrNotQueued
	}
	if err != nil {
		return Output{}, err
	}
	return some[0], nil
}

// explained has a transaction be a stranger no more once its last output is somebody's.
func explained(ctx context.Context, tx *db.Tx, chainName string, t chain.Tx, o Output, taken map[uint32]bool) error {
	taken[o.Vout] = true
	for _, out := range t.Outputs {
		own, err := chain.IsOwn(ctx, tx, chainName, out.Address)
		if err != nil || !own && !taken[out.Vout] {
			return err
		}
	}
	return chain.WatchTx(ctx, tx, chainName, t.ID, o.CompanyID, "", chain.DefaultConfirmations)
}

// spentUnknown is what an unknown transaction spent of the wallet, once it lies deep enough in the chain.
func spentUnknown(ctx context.Context, tx *db.Tx, chainName, txid string) (amount int64, err error) {
	s, err := unknown(ctx, tx, chainName, txid, chain.DefaultConfirmations)
	return s.Amount, err
}

// unknown is a transaction that the watcher has seen spend of the wallet and that nobody here made, once it lies deep enough.
func unknown(ctx context.Context, tx *db.Tx, chainName, txid string, depth int64) (chain.Stranger, error) {
	strangers, err := chain.Strangers(ctx, tx, chainName)
	if err != nil {
		return chain.Stranger{}, err
	}
	i := slices.IndexFunc(strangers, func(s chain.Stranger) bool { return s.TxID == txid })
	if i < 0 {
		return chain.Stranger{}, fmt.Errorf("%w: the watcher has seen no unknown transaction %s that spends coins of the wallet", ErrNoPayment, txid)
	}
	tip, _, err := chain.Tip(ctx, tx, chainName)
	if err != nil {
		return chain.Stranger{}, err
	}
	if s := strangers[i]; s.Height == 0 || tip-s.Height+1 < depth {
		return s, fmt.Errorf("%w for good yet: it needs %d confirmations", ErrNoPayment, depth)
	}
	return strangers[i], nil
}
