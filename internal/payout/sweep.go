package payout

import (
	"context"
	"errors"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
)

// sweepsAtOnce bounds the addresses that one look brings in.
const sweepsAtOnce = 50

// Sweep brings confirmed deposits from their addresses to the account that pays. A token needs gas where it lies: the first look
// sends it there, a later one moves the token. Native coins are moved when they are worth several times what that costs. It is
// level-triggered: what a look leaves, the next one finds.
func (e *Engine) Sweep(ctx context.Context, d *db.DB) error {
	var coins []chain.WalletCoin
	var paused string
	if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		if paused, err = Paused(ctx, tx); err != nil {
			return err
		}
		coins, err = chain.Coins(ctx, tx, e.c.Chain)
		return err
	}); err != nil || paused != "" {
		return err
	}
	type spot struct {
		address string
		asset   money.Asset
	}
	lying := map[spot][]chain.WalletCoin{}
	var order []spot
	for _, c := range coins {
		at := spot{c.Address, c.Asset}
		if c.Branch != chain.External || c.Unconfirmed > 0 || len(order) == sweepsAtOnce && lying[at] == nil {
			continue
		}
		if lying[at] == nil {
			order = append(order, at)
		}
		lying[at] = append(lying[at], c)
	}
	var failed []error
	for _, at := range order {
		failed = append(failed, e.sweep(ctx, d, at.asset, lying[at]))
	}
	return errors.Join(failed...)
}

func (e *Engine) sweep(ctx context.Context, d *db.DB, asset money.Asset, coins []chain.WalletCoin) error {
	from := coins[0].Address
	native := e.acc.network.Native
	to, err := evm.ParseAddress(e.acc.hot)
	if err != nil {
		return err
	}
	here, err := e.acc.node.State(ctx, from)
	if err != nil {
		return err
	}
	amount := here.Holds[asset]
	if amount <= 0 || here.BaseFee+here.Tip > e.c.MaxFeeRate {
		return nil
	}
	try := amount
	if asset == native {
		try = 1 // what it costs does not depend on how much
	}
	call, err := e.acc.network.Pay(to, money.New(asset, try))
	if err != nil {
		return err
	}
	estimates, err := e.acc.node.Estimate(ctx, from, []evm.Call{call})
	if err != nil {
		return err
	}
	if why := estimates[0].Refusal; estimates[0].Verdict != evm.Payable {
		return errors.New("payout: a deposit at " + from + " cannot be moved: " + why)
	}
	gas, price := limit(estimates[0].Gas), 2*here.BaseFee+here.Tip
	fee := most(estimates[0], price)
	if asset == native {
		if amount < 4*fee {
			return nil
		}
		amount -= fee
		if call, err = e.acc.network.Pay(to, money.New(asset, amount)); err != nil {
			return err
		}
	} else if short := fee - here.Holds[native]; short > 0 {
		return e.sendGas(ctx, d, from, short+fee/2)
	}
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		next, _, err := lockNonce(ctx, tx, e.c.Chain, from)
		if err != nil {
			return err
		}
		if under, err := busy(ctx, tx, e.c.Chain, from); err != nil || under {
			return err
		}
		b := Batch{CompanyID: ledger.House, ID: tx.NewID("pob"), Chain: e.c.Chain, State: Prepared, Value: amount, Fee: fee, Version: 1, Asset: asset,
			Purpose: purposeSweep, account: from, nonce: max(next, here.Nonce), change: e.acc.hot}
		points := make([]chain.Outpoint, len(coins))
		for i, c := range coins {
			points[i] = c.Outpoint
		}
		if err := chain.Reserve(ctx, tx, e.c.Chain, points, b.ID); err != nil {
			return err
		}
		by := chain.WalletCoin{Address: from, Branch: coins[0].Branch, Index: coins[0].Index}
		if err := e.signAccount(ctx, tx, &b, call, gas, purse{price: price, tip: here.Tip}, by, nil); err != nil {
			return err
		}
		send(tx, b.CompanyID, tx.Now(), b.TxID)
		return setNonce(ctx, tx, e.c.Chain, from, b.nonce+1)
	})
}

// sendGas sends what a sweep will cost to where the deposit is, unless that is under way.
func (e *Engine) sendGas(ctx context.Context, d *db.DB, address string, units int64) error {
	to, err := evm.ParseAddress(address)
	if err != nil {
		return err
	}
	call, err := e.acc.network.Pay(to, e.native(units))
	if err != nil {
		return err
	}
	s, err := e.acc.node.State(ctx, e.acc.hot)
	if err != nil {
		return err
	}
	estimates, err := e.acc.node.Estimate(ctx, e.acc.hot, []evm.Call{call})
	if err != nil {
		return err
	}
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		if under, err := busy(ctx, tx, e.c.Chain, address); err != nil || under {
			return err
		}
		p, why, err := e.open(ctx, tx, s)
		if err != nil || why != "" {
			return err
		}
		gas := limit(estimates[0].Gas)
		fee := most(estimates[0], p.price)
		if estimates[0].Verdict != evm.Payable || p.left[e.acc.network.Native] < units+fee {
			e.c.Log.ErrorContext(ctx, "the paying account lacks coins for gas", "account", e.acc.hot, "wanted", e.native(units+fee).String())
			return nil
		}
		b := Batch{CompanyID: ledger.House, ID: tx.NewID("pob"), Chain: e.c.Chain, State: Prepared, Value: units, Fee: fee, Version: 1,
			Asset: e.acc.network.Native, Purpose: purposeGas, account: e.acc.hot, nonce: p.next, change: address}
		by := chain.WalletCoin{Address: e.acc.hot, Branch: chain.Change}
		if err := e.signAccount(ctx, tx, &b, call, gas, p, by, nil); err != nil {
			return err
		}
		send(tx, b.CompanyID, tx.Now(), b.TxID)
		return setNonce(ctx, tx, e.c.Chain, e.acc.hot, p.next+1)
	})
}
