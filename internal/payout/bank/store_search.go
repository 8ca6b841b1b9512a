package bank

import (
	"context"

	"github.com/stipend/stipend/internal/db"
)

// PaidOutput is the output that a payment of a file, or a bank's transfer, pays.
type PaidOutput struct{ CompanyID, OutputID string }

// FindPaid returns the outputs paid by our payment with a reference such as S0000012P00003, or by the transfer with a
// bank's ID.
func FindPaid(ctx context.Context, tx *db.Tx, text string) ([]PaidOutput, error) {
	where, args := `EXISTS (SELECT 1 FROM bank_transfers t WHERE t.company_id = p.company_id AND t.file_id = p.file_id
		AND t.position = p.position AND t.transfer_id <> '' AND t.transfer_id = $1)`, []any{text}
	if ref, ok := FindReference(text); ok {
		where = `(p.position = $2 OR $2 = 0) AND EXISTS (SELECT 1 FROM bank_files f WHERE f.company_id = p.company_id
			AND f.file_id = p.file_id AND f.number = $1)`
		args = []any{ref.File, int64(ref.Position)}
	}
	rows, err := tx.Query(ctx, "SELECT p.company_id, p.output_id FROM bank_payments p WHERE "+where, args...)
	return db.Collect(rows, err, func(r *db.Rows) (p PaidOutput, err error) {
		return p, r.Scan(&p.CompanyID, &p.OutputID)
	})
}
