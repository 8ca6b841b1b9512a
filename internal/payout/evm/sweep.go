package evm

import (
	"context"
	"errors"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/onchain"
)

// maxSwept is the maximum number of addresses that one call of Sweep sweeps.
const maxSwept = 50

// Sweep transfers confirmed deposits from their addresses to the hot wallet. To transfer a token, an address needs
// gas: one run sends the gas, a later run transfers the token. Native coins are transferred if they are worth several
// times the cost. Sweep is idempotent; each run continues where the last run stopped. It also fills a free nonce that
// blocks later nonces.
func (r *Rail) Sweep(ctx context.Context, d *db.DB) error {
	var coins []chain.WalletCoin
	var paused string
	if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		if paused, err = payout.Paused(ctx, tx); err != nil {
			return err
		}
		coins, err = chain.Coins(ctx, tx, r.Chain)
		return err
	}); err != nil || paused != "" {
		return err
	}
	type deposit struct {
		address string
		asset   money.Asset
	}
	of := map[deposit][]chain.WalletCoin{}
	var order []deposit
	for _, c := range coins {
		at := deposit{c.Address, c.Asset}
		if c.Branch != chain.External || c.Unconfirmed > 0 || len(order) == maxSwept && of[at] == nil {
			continue
		}
		if of[at] == nil {
			order = append(order, at)
		}
		of[at] = append(of[at], c)
	}
	failed := []error{r.fill(ctx, d)}
	for _, at := range order {
		failed = append(failed, r.sweep(ctx, d, at.asset, of[at]))
	}
	return errors.Join(failed...)
}

// sweep transfers the amount of one asset at one address to the hot wallet, or sends the gas for the transfer.
func (r *Rail) sweep(ctx context.Context, d *db.DB, asset money.Asset, coins []chain.WalletCoin) error {
	from, native := coins[0].Address, r.network.Native
	to, err := evm.ParseAddress(r.hot)
	if err != nil {
		return err
	}
	here, err := r.node.State(ctx, from)
	if err != nil {
		return err
	}
	amount := here.Balances[asset]
	if amount <= 0 || here.BaseFee+here.Tip > r.MaxFeeRate {
		return nil
	}
	try := amount
	if asset == native {
		try = 1 // the cost of a native transfer does not depend on the amount
	}
	call, err := r.network.TransferCall(to, money.New(asset, try))
	if err != nil {
		return err
	}
	estimates, err := r.node.Estimate(ctx, from, []evm.Call{call})
	if err != nil {
		return err
	}
	if e := estimates[0]; e.Verdict != evm.WillSucceed {
		return errors.New("evm: cannot sweep the deposit at " + from + ": " + e.Refusal)
	}
	gas, price := gasLimit(estimates[0].Gas), maxPrice(here)
	fee := maxCost(estimates[0], price)
	if asset == native {
		if amount < 4*fee {
			return nil
		}
		amount -= fee
		if call, err = r.network.TransferCall(to, money.New(asset, amount)); err != nil {
			return err
		}
	} else if short := fee - here.Balances[native]; short > 0 {
		return r.sendGas(ctx, d, from, short+fee/2)
	}
	if ok, err := r.PermitsFee(ctx, fee); err != nil || !ok {
		return err
	}
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		free, err := lockNonces(ctx, tx, r.Chain, from)
		if err != nil {
			return err
		}
		if why, err := payout.PayoutsAllowed(ctx, tx, r.Log); err != nil || why != "" {
			return err
		}
		if busy, err := r.Busy(ctx, tx, from); err != nil || busy {
			return err
		}
		b := r.NewBatch(tx, ledger.Operator, asset, amount, fee, onchain.PurposeSweep)
		free.skip(here.Nonce)
		b.Account, b.Nonce, b.Change = from, free.take(), r.hot
		points := make([]chain.Outpoint, len(coins))
		for i, c := range coins {
			points[i] = c.Outpoint
		}
		if err := chain.Reserve(ctx, tx, r.Chain, points, b.ID); err != nil {
			return err
		}
		signer := chain.WalletCoin{Address: from, Branch: coins[0].Branch, Index: coins[0].Index}
		id, err := r.sign(ctx, tx, &b, call, gas, hotWallet{price: price, tip: here.Tip}, signer, nil)
		if err != nil {
			return err
		}
		payout.EnqueueSend(tx, b.CompanyID, r.Name(), tx.Now(), id)
		return free.save(ctx, tx)
	})
}

// sendGas sends the gas for a sweep to the deposit's address, unless an earlier transaction that sends gas is
// unconfirmed.
func (r *Rail) sendGas(ctx context.Context, d *db.DB, address string, units int64) error {
	to, err := evm.ParseAddress(address)
	if err != nil {
		return err
	}
	call, err := r.network.TransferCall(to, r.native(units))
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
		if busy, err := r.Busy(ctx, tx, address); err != nil || busy {
			return err
		}
		p, why, err := r.lockHotWallet(ctx, tx, s)
		if err != nil || why != "" {
			return err
		}
		fee := maxCost(estimates[0], p.price)
		if estimates[0].Verdict != evm.WillSucceed || p.available[r.network.Native] < units+fee {
			r.Log.ErrorContext(ctx, "the hot wallet cannot pay the gas of a sweep; fund it",
				"account", r.hot, "required", r.native(units+fee).String())
			return nil
		}
		b := r.NewBatch(tx, ledger.Operator, r.network.Native, units, fee, onchain.PurposeGas)
		b.Account, b.Nonce, b.Change = r.hot, p.take(), address
		signer := chain.WalletCoin{Address: r.hot, Branch: chain.Change}
		id, err := r.sign(ctx, tx, &b, call, gasLimit(estimates[0].Gas), p, signer, nil)
		if err != nil {
			return err
		}
		payout.EnqueueSend(tx, b.CompanyID, r.Name(), tx.Now(), id)
		return p.save(ctx, tx)
	})
}
