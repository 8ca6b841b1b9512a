package treasury

import (
	"context"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
)

// OperatorObject is the ID of the object to which the operator's own deposits and payouts belong.
const OperatorObject = "fx_bitcoin"

const settingOperatorAddress = "fx.address.bitcoin"

// OperatorAddress returns the Bitcoin address to which the operator sends its own coins. The first call takes it from
// the pool.
func OperatorAddress(ctx context.Context, tx *db.Tx, pool *chain.Pool) (string, error) {
	address, err := ExistingOperatorAddress(ctx, tx)
	if err != nil || address != "" {
		return address, err
	}
	if address, err = pool.NewAddress(ctx, tx, ledger.Operator, OperatorObject); err != nil {
		return "", err
	}
	return address, db.SetSetting(ctx, tx, settingOperatorAddress, address)
}

// ExistingOperatorAddress returns the address that OperatorAddress took from the pool, "" before its first call.
func ExistingOperatorAddress(ctx context.Context, tx *db.Tx) (string, error) {
	return db.Setting(ctx, tx, settingOperatorAddress)
}
