package evm

import (
	"context"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/onchain"
)

// The signer may refuse a transaction although it permitted the payment before the nonce was assigned, because its
// policy changed or other payments used up a limit. Such a transaction ends, and its nonce is free. Later nonces may
// have been assigned already, and a network mines the transactions of an account in the order of their nonces. So the
// next transaction of the account gets the free nonce. If there is no such transaction for a while, a filling
// transaction uses the nonce: it transfers the smallest amount from the hot wallet to itself and pays only its fee.

// fillAfter is the number of Retry intervals after which a free nonce is filled.
const fillAfter = 2

// fill sends a filling transaction with the lowest free nonce of the hot wallet, if later transactions wait for that
// nonce.
func (r *Rail) fill(ctx context.Context, d *db.DB) error {
	var needed bool
	if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		needed, err = r.mustFill(ctx, tx)
		return err
	}); err != nil || !needed {
		return err
	}
	hot, err := evm.ParseAddress(r.hot)
	if err != nil {
		return err
	}
	call, err := r.network.TransferCall(hot, r.native(1))
	if err != nil {
		return err
	}
	s, err := r.node.State(ctx, r.hot)
	if err != nil {
		return err
	}
	estimates, err := r.node.Estimate(ctx, r.hot, []evm.Call{call})
	if err != nil {
		return err
	}
	if ok, err := r.PermitsFee(ctx, maxCost(estimates[0], maxPrice(s))); err != nil || !ok {
		return err
	}
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		p, why, err := r.lockHotWallet(ctx, tx, s)
		if err != nil || why != "" {
			return err
		}
		if needed, err := r.mustFill(ctx, tx); err != nil || !needed {
			return err
		}
		fee := maxCost(estimates[0], p.price)
		if estimates[0].Verdict != evm.WillSucceed || p.available[r.network.Native] <= fee {
			r.Log.ErrorContext(ctx, "the hot wallet cannot pay the gas of a transaction that others wait for; fund it",
				"account", r.hot, "required", r.native(fee).String())
			return nil
		}
		b := r.NewBatch(tx, ledger.Operator, r.network.Native, 0, fee, onchain.PurposeFill)
		b.Account, b.Nonce, b.Change = r.hot, p.take(), r.hot
		signer := chain.WalletCoin{Address: r.hot, Branch: chain.Change}
		id, err := r.sign(ctx, tx, &b, call, gasLimit(estimates[0].Gas), p, signer, nil)
		if err != nil {
			return err
		}
		payout.EnqueueSend(tx, b.CompanyID, r.Name(), tx.Now(), id)
		return p.save(ctx, tx)
	})
}

// mustFill reports whether transactions of the hot wallet wait for its lowest free nonce, and the nonce has been free
// for long enough.
func (r *Rail) mustFill(ctx context.Context, tx *db.Tx) (bool, error) {
	nonce, ok, err := freeSince(ctx, tx, r.Chain, r.hot, tx.Now().Add(-fillAfter*r.Retry))
	if err != nil || !ok {
		return false, err
	}
	return r.Blocked(ctx, tx, r.hot, nonce)
}
