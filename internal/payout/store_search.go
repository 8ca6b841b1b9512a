package payout

import (
	"context"
	"strings"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

// Search returns outputs of all companies, newest first, for staff. If amount has an asset, it returns the outputs of
// that amount; otherwise, outputs whose ID, transaction ID or address is text. It reads the whole table.
func Search(ctx context.Context, tx *db.Tx, text string, amount money.Amount, limit int) ([]Output, error) {
	if amount.Asset() != "" {
		return selectOutputs(ctx, tx, "asset = $1 AND amount = $2 ORDER BY queued_at DESC, output_id LIMIT $3",
			string(amount.Asset()), amount.Units(), int64(limit))
	}
	return selectOutputs(ctx, tx, `output_id = $1 OR txid IN ($1, $2) OR address IN ($1, $2)
		ORDER BY queued_at DESC, output_id LIMIT $3`, text, strings.ToLower(text), int64(limit))
}
