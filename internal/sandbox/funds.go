package sandbox

import (
	"context"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
	"github.com/stipend/stipend/internal/sandbox/evmsim"
	"github.com/stipend/stipend/internal/sandbox/lightningsim"
	"github.com/stipend/stipend/internal/treasury"
)

const (
	operatorCoins = 10 * 100_000_000 // satoshis that the operator of a new sandbox owns

	// Gas is the initial balance of the hot wallet of a simulated EVM network, in gwei.
	Gas = 100_000_000_000

	operatorTokens = 250_000 * 1_000_000 // units of each stablecoin that the operator of a new sandbox owns on a network
)

// FundOperator sends bitcoin on the simulated chain to the operator of a new sandbox, and mines the blocks that
// confirm it, so that payees can be paid in bitcoin no matter how a payroll is funded. Later calls do nothing.
func FundOperator(ctx context.Context, d *db.DB, c *bitcoinsim.Chain, pool *chain.Pool) error {
	var address string
	err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		address = ""
		existing, err := treasury.ExistingOperatorAddress(ctx, tx)
		if err != nil || existing != "" {
			return err
		}
		address, err = treasury.OperatorAddress(ctx, tx, pool)
		return err
	})
	if err != nil || address == "" {
		return err
	}
	if _, err = c.Pay(ctx, address, operatorCoins); err != nil {
		return err
	}
	return c.Mine(ctx, chain.DefaultConfirmations)
}

// FundChannels records the initial channel balance of the simulated Lightning node as the operator's money. Later
// calls do nothing.
func FundChannels(ctx context.Context, d *db.DB) error {
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		_, err := treasury.Deposit(ctx, tx, treasury.Booking{
			Place: treasury.Place{Kind: treasury.PlaceLightning}, Reference: "sandbox",
		}, money.New(money.BTC, lightningsim.Funds))
		return err
	})
}

// FundHotWallet sends coins for gas, and stablecoins of the operator, to the hot wallet of a simulated EVM network,
// so that payees can be paid in stablecoins no matter how a payroll is funded. Later calls do nothing.
func FundHotWallet(ctx context.Context, d *db.DB, c *evmsim.Chain, hot string) error {
	setting := "sandbox.gas." + c.Network()
	var given string
	if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		given, err = db.Setting(ctx, tx, setting)
		return err
	}); err != nil || given != "" {
		return err
	}
	funds := []money.Amount{money.New(c.Spec().Native, Gas)}
	for _, token := range c.Spec().Tokens {
		funds = append(funds, money.New(token.Asset, operatorTokens))
	}
	for _, x := range funds {
		if _, err := c.Pay(ctx, hot, x); err != nil {
			return err
		}
	}
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return db.SetSetting(ctx, tx, setting, hot) })
}
