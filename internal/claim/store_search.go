package claim

import (
	"context"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

// Found is a claim that a search by staff found.
type Found struct {
	CompanyID, ID, ExternalID string
	State                     State
	Amount                    money.Amount
	CreatedAt                 time.Time
}

// Search returns claims of all companies, newest first, for staff. If amount has an asset, it returns claims of that
// amount; otherwise, claims whose ID, external ID or company ID is text.
func Search(ctx context.Context, tx *db.Tx, text string, amount money.Amount, limit int) ([]Found, error) {
	where, args := "$1 IN (company_id, claim_id, external_id) AND amount >= $2", []any{text, int64(0)}
	if amount.Asset() != "" {
		where, args = "currency = $1 AND amount = $2", []any{string(amount.Asset()), amount.Units()}
	}
	rows, err := tx.Query(ctx, `SELECT company_id, claim_id, external_id, state, currency, amount, created_at
		FROM claims WHERE `+where+" ORDER BY claim_id DESC LIMIT $3", append(args, int64(limit))...)
	return db.Collect(rows, err, func(r *db.Rows) (f Found, err error) {
		var state, currency string
		var units, created int64
		err = r.Scan(&f.CompanyID, &f.ID, &f.ExternalID, &state, &currency, &units, &created)
		f.State, f.Amount, f.CreatedAt = State(state), money.New(money.Asset(currency), units), db.Time(created)
		return f, err
	})
}
