package bankreceipt

import (
	"context"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

// Search returns transfers, newest first, for staff. If amount has an asset, it returns transfers of that amount;
// otherwise, transfers whose ID, bank's reference or account is text, or whose payer's name or message contains text.
func Search(ctx context.Context, tx *db.Tx, text string, amount money.Amount, limit int) ([]Transfer, error) {
	if amount.Asset() != "" {
		return selectTransfers(ctx, tx, "currency = $1 AND amount = $2 ORDER BY created_at DESC, transfer_id LIMIT $3",
			string(amount.Asset()), amount.Units(), int64(limit))
	}
	is, pattern := tx.Contains(text)
	return selectTransfers(ctx, tx, `transfer_id = $1 OR debtor_account = $1
		OR transfer_id IN (SELECT transfer_id FROM transfer_references WHERE name = $1)
		OR debtor `+is+" $2 OR lines "+is+` $2
		ORDER BY created_at DESC, transfer_id LIMIT $3`, text, pattern, int64(limit))
}
