package checkout

import (
	"context"
	"errors"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/invoice"
	"github.com/stipend/stipend/internal/money"
)

const columns = "user_id, invoice_id, claim_id, number, transfer_id, currency, counted"

func scan(read func(...any) error) (p payment, err error) {
	var currency string
	var counted int64
	err = read(&p.UserID, &p.InvoiceID, &p.ClaimID, &p.number, &p.transferID, &currency, &counted)
	p.counted = money.New(money.Asset(currency), counted)
	return p, err
}

func insert(ctx context.Context, tx *db.Tx, p payment) error {
	_, err := tx.Exec(ctx, "INSERT INTO invoice_claims ("+columns+") VALUES "+db.Placeholders(1, 7, 1), p.UserID,
		p.InvoiceID, p.ClaimID, p.number, p.transferID, string(p.counted.Asset()), p.counted.Units())
	if db.IsUnique(err) {
		return db.ErrConflict
	}
	return err
}

// newest returns the last claim of an invoice, or a payment without an ID if there is none.
func newest(ctx context.Context, tx *db.Tx, v invoice.Invoice) (payment, error) {
	p, err := scan(tx.QueryRow(ctx, "SELECT "+columns+` FROM invoice_claims WHERE user_id = $1 AND invoice_id = $2
		ORDER BY number DESC LIMIT 1`, v.UserID, v.ID).Scan)
	if errors.Is(err, db.ErrNoRows) {
		return payment{}, nil
	}
	return p, err
}

// ofInvoice returns the claims of an invoice, oldest first.
func ofInvoice(ctx context.Context, tx *db.Tx, userID, invoiceID string) ([]payment, error) {
	rows, err := tx.Query(ctx, "SELECT "+columns+` FROM invoice_claims WHERE user_id = $1 AND invoice_id = $2
		ORDER BY number`, userID, invoiceID)
	return db.Collect(rows, err, func(r *db.Rows) (payment, error) { return scan(r.Scan) })
}

// lock reads the payment of a claim, and makes other writers of the payment wait until this transaction ends.
func lock(ctx context.Context, tx *db.Tx, userID, claimID string) (payment, error) {
	p, err := scan(tx.QueryRow(ctx, `UPDATE invoice_claims SET counted = counted WHERE user_id = $1 AND claim_id = $2
		RETURNING `+columns, userID, claimID).Scan)
	if errors.Is(err, db.ErrNoRows) {
		return p, errNotFound
	}
	return p, err
}

func update(ctx context.Context, tx *db.Tx, p payment) error {
	return tx.ExecOne(ctx, `UPDATE invoice_claims SET transfer_id = $1, counted = $2
		WHERE user_id = $3 AND claim_id = $4`, p.transferID, p.counted.Units(), p.UserID, p.ClaimID)
}
