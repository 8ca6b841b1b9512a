package payer

import (
	"context"
	"errors"

	"github.com/stipend/stipend/internal/db"
)

// Ensure writes p unless its company already has a payer with this id, which is then left as it is. It says whether it
// wrote. A zero CreatedAt means the transaction's instant.
func Ensure(ctx context.Context, tx *db.Tx, p Payer) (bool, error) {
	if p.CreatedAt.IsZero() {
		p.CreatedAt = tx.Now()
	}
	n, err := tx.Exec(ctx, `INSERT INTO payers (company_id, payer_id, name, email, status, created_at)
		VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (company_id, payer_id) DO NOTHING`,
		p.CompanyID, p.ID, p.Name, p.Email, string(p.Status), db.Micros(p.CreatedAt))
	return n == 1, err
}

// Get finds a payer of a company, deleted ones included. It returns ErrNotFound.
func Get(ctx context.Context, tx *db.Tx, companyID, payerID string) (Payer, error) {
	p := Payer{CompanyID: companyID, ID: payerID}
	var created int64
	err := tx.QueryRow(ctx, `SELECT name, email, status, created_at FROM payers WHERE company_id = $1 AND payer_id = $2`,
		companyID, payerID).Scan(&p.Name, &p.Email, &p.Status, &created)
	if errors.Is(err, db.ErrNoRows) {
		return Payer{}, ErrNotFound
	}
	p.CreatedAt = db.Time(created)
	return p, err
}
