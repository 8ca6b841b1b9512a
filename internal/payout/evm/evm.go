// Package evm is the rail that pays outputs on one EVM network. What differs from Bitcoin:
//
//   - One transaction pays one output, from the paying account (the hot wallet). Its input is that account's next nonce, which is
//     taken and stored with the bytes: no other payment ever gets it, and a transaction with a higher fee replaces an unconfirmed
//     one at the same nonce only.
//   - What a transaction costs is known with its block. Until then the most that it can cost is booked.
//   - A transaction can be in the chain and have failed. That is proof that nobody was paid: the output fails, and the fee is spent.
//   - Deposits are on addresses of their own and are swept to the paying account first (sweep.go). Tokens need gas for that, which
//     the paying account sends.
//
// Package onchain stores, broadcasts and follows what it signs.
package evm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/onchain"
)

// maxFeeShare is the fee in basis points of the amount paid above which a payout waits.
const maxFeeShare = 300

// Config is what a Rail needs. A limit of zero takes its default; everything else but Witnesses is required.
type Config struct {
	Node      evm.Node
	Signer    *evm.Signer
	Witnesses []chain.Witness // further nodes that are asked for a transaction that Node does not know
	Log       *slog.Logger

	MaxOutputs int           // of each asset that one Prepare takes; 100
	FeeMaxAge  time.Duration // age above which a gas price is not used to raise a fee; 10 min
	BumpAfter  time.Duration // age of an unconfirmed transaction before its fee is raised; 2 min
	NudgeEvery time.Duration // interval between checks of an unconfirmed transaction; 30 s
	Retry      time.Duration // interval between checks of a queue that waits; 30 s
	SweepEvery time.Duration // interval between sweeps of deposits; 5 s
}

// Rail pays outputs on one EVM network. It implements payout.Rail.
type Rail struct {
	*onchain.Carrier
	network    evm.Network
	node       evm.Node
	signer     *evm.Signer
	hot        string // the paying account
	maxOutputs int
	sweepEvery time.Duration
}

var (
	_ payout.Rail    = (*Rail)(nil)
	_ onchain.Family = (*Rail)(nil)
)

// New returns the rail of the node's network. It has the network's watcher follow the paying account, so that a use of its key by
// others is noticed.
func New(ctx context.Context, d *db.DB, c Config) (*Rail, error) {
	if d == nil || c.Node == nil || c.Signer == nil {
		return nil, errors.New("evm: the database, the node or the signer is missing")
	}
	hot, err := c.Signer.Deriver().HotAddress()
	if err != nil {
		return nil, err
	}
	n := c.Node.Spec()
	r := &Rail{
		network: n, node: c.Node, signer: c.Signer, hot: hot,
		maxOutputs: cmp.Or(c.MaxOutputs, 100), sweepEvery: cmp.Or(c.SweepEvery, 5*time.Second),
	}
	log := c.Log
	if log != nil {
		log = log.With("chain", n.Name)
	}
	if r.Carrier, err = onchain.New(onchain.Config{
		Rail: payout.RailName(n.Name), Chain: n.Name, Native: n.Native, Source: c.Node, Witnesses: c.Witnesses, Log: log,
		Confirmations: n.BlocksPerConfirmation,
		ConflictDepth: 6 * n.BlocksPerConfirmation,
		MaxFeeRate:    n.MaxFee,
		FeeMaxAge:     cmp.Or(c.FeeMaxAge, 10*time.Minute),
		BumpAfter:     cmp.Or(c.BumpAfter, 2*time.Minute),
		NudgeEvery:    cmp.Or(c.NudgeEvery, 30*time.Second),
		Retry:         cmp.Or(c.Retry, 30*time.Second),
		FeeEvery:      20 * time.Second,
	}, r); err != nil {
		return nil, err
	}
	return r, d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		return chain.WatchAccount(ctx, tx, r.Chain, r.hot, ledger.Operator)
	})
}

// Periodic implements payout.Rail.
func (r *Rail) Periodic(d *db.DB) []job.Periodic {
	return append(r.Carrier.Periodic(d), job.Periodic{
		Name: "payout.sweep." + r.Chain, Every: r.sweepEvery, Run: func(ctx context.Context) error { return r.Sweep(ctx, d) },
	})
}

// Watch implements onchain.Family: a transaction spends the nonce of its account.
func (r *Rail) Watch(ctx context.Context, tx *db.Tx, b onchain.Batch, txid string) error {
	return chain.WatchNonce(ctx, tx, b.Chain, txid, b.CompanyID, b.ID, r.Confirmations, evm.NonceOutpoint(b.Account, b.Nonce))
}

// Replace implements onchain.Family: it signs the same call with the same nonce and a higher fee. Nodes accept it when both of its
// prices are higher by a tenth.
func (r *Rail) Replace(_ context.Context, _ *db.Tx, b onchain.Batch, old onchain.Transaction, rate int64) (onchain.Transaction, error) {
	signed, _, err := evm.DecodeTx(old.Raw)
	if err != nil {
		return onchain.Transaction{}, err
	}
	if rate > r.MaxFeeRate {
		return onchain.Transaction{}, onchain.ErrFeeTooHigh
	}
	before := evm.GasCost(signed.Gas, signed.MaxFee)
	signed.MaxFee = max(signed.MaxFee+signed.MaxFee/8+1, 2*rate)
	signed.Tip += signed.Tip/8 + 1
	if signed.Nonce != b.Nonce || len(b.Inputs) != 1 {
		return onchain.Transaction{}, fmt.Errorf("evm: transaction %s of batch %s has another nonce", old.TxID, b.ID)
	}
	raw, txid, err := r.signer.Sign(signed, b.Inputs[0].Branch, b.Inputs[0].Index)
	fee := b.Fee + evm.GasCost(signed.Gas, signed.MaxFee) - before
	return onchain.Transaction{TxID: txid, Raw: raw, Fee: fee, Size: old.Size}, err
}

// Underpays implements onchain.Family.
func (r *Rail) Underpays(_ onchain.Batch, t onchain.Transaction, rate int64) bool {
	signed, _, err := evm.DecodeTx(t.Raw)
	return err == nil && rate > signed.MaxFee
}

// Cost implements onchain.Family: what gas costs is known with the block.
func (r *Rail) Cost(_ onchain.Transaction, seen chain.WatchedTx) int64 { return seen.Fee }

func (r *Rail) native(units int64) money.Amount { return money.New(r.network.Native, units) }

// MarkPaid marks a queued output as paid by a transaction that this database does not know, see onchain.MarkPaid. The transaction has
// a nonce of the paying account, which is not used again.
func MarkPaid(ctx context.Context, tx *db.Tx, n evm.Network, outputID string, t chain.Tx) (payout.Output, error) {
	o, spent, err := onchain.MarkPaid(ctx, tx, onchain.Unknown{
		Rail: payout.RailName(n.Name), Chain: n.Name, Native: n.Native, Depth: chain.DefaultConfirmations * n.BlocksPerConfirmation,
		Fee: func(t chain.Tx, _ chain.UnknownSpend) int64 { return t.Fee },
	}, outputID, t)
	if err != nil {
		return o, err
	}
	account, number, _ := strings.Cut(spent.Nonce, "/")
	nonce, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return o, fmt.Errorf("evm: the nonce %q: %w", spent.Nonce, err)
	}
	next, _, err := lockNonce(ctx, tx, n.Name, account)
	if err == nil && next <= nonce {
		err = setNonce(ctx, tx, n.Name, account, nonce+1)
	}
	return o, err
}
