package payroll

import (
	"context"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

// Found is a payroll that a search by staff found.
type Found struct {
	CompanyID, ID, ExternalID string
	State                     State
	Total                     money.Amount
	CreatedAt                 time.Time
}

// Search returns payrolls of all companies, newest first, for staff. If amount has an asset, it returns payrolls with
// that total; otherwise, payrolls whose ID, external ID or company ID is text.
func Search(ctx context.Context, tx *db.Tx, text string, amount money.Amount, limit int) ([]Found, error) {
	where, args := "$1 IN (company_id, payroll_id, external_id) AND total >= $2", []any{text, int64(0)}
	if amount.Asset() != "" {
		where, args = "currency = $1 AND total = $2", []any{string(amount.Asset()), amount.Units()}
	}
	rows, err := tx.Query(ctx, `SELECT company_id, payroll_id, external_id, state, currency, total, created_at
		FROM payrolls WHERE `+where+" ORDER BY payroll_id DESC LIMIT $3", append(args, int64(limit))...)
	return db.Collect(rows, err, func(r *db.Rows) (f Found, err error) {
		var state, currency string
		var total, created int64
		err = r.Scan(&f.CompanyID, &f.ID, &f.ExternalID, &state, &currency, &total, &created)
		f.State, f.Total, f.CreatedAt = State(state), money.New(money.Asset(currency), total), db.Time(created)
		return f, err
	})
}
