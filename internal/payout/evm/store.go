package evm

import (
	"context"

	"github.com/stipend/stipend/internal/db"
)

// lockNonce returns the next nonce of an account, locked for the rest of the transaction. used reports whether one
// was stored before.
func lockNonce(ctx context.Context, tx *db.Tx, chainName, account string) (next uint64, used bool, err error) {
	var n int64
	err = tx.QueryRow(ctx, `INSERT INTO payout_nonces (chain, account, next) VALUES ($1, $2, -1)
		ON CONFLICT (chain, account) DO UPDATE SET next = payout_nonces.next RETURNING next`, chainName, account).Scan(&n)
	return uint64(max(n, 0)), n >= 0, err
}

func setNonce(ctx context.Context, tx *db.Tx, chainName, account string, next uint64) error {
	return tx.Queue(ctx, `UPDATE payout_nonces SET next = $3 WHERE chain = $1 AND account = $2`, chainName, account,
		int64(next))
}
