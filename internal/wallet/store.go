package wallet

import (
	"context"
	"errors"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

const columns = "wallet_id, currency, status, reason, address, version, created_at"

// insert stores a request for a wallet. It returns false if the company already has a wallet in the currency, apart
// from rejected ones.
func insert(ctx context.Context, tx *db.Tx, w Wallet) (bool, error) {
	n, err := tx.Exec(ctx, `INSERT INTO wallets (company_id, `+columns+`, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8) ON CONFLICT DO NOTHING`,
		w.CompanyID, w.ID, string(w.Currency), string(w.State), w.Reason, w.Address, w.Version, db.Micros(w.CreatedAt))
	return n == 1, err
}

func scan(companyID string, scan func(...any) error) (Wallet, error) {
	w := Wallet{CompanyID: companyID}
	var currency, state string
	var created int64
	err := scan(&w.ID, &currency, &state, &w.Reason, &w.Address, &w.Version, &created)
	w.Currency, w.State, w.CreatedAt = money.Asset(currency), State(state), db.Time(created)
	return w, err
}

func one(companyID string, row db.Row) (Wallet, error) {
	w, err := scan(companyID, row.Scan)
	if errors.Is(err, db.ErrNoRows) {
		return Wallet{}, ErrNotFound
	}
	return w, err
}

func find(ctx context.Context, tx *db.Tx, companyID, id string) (Wallet, error) {
	return one(companyID, tx.QueryRow(ctx, "SELECT "+columns+" FROM wallets WHERE company_id = $1 AND wallet_id = $2",
		companyID, id))
}

func findByCurrency(ctx context.Context, tx *db.Tx, companyID string, a money.Asset) (Wallet, error) {
	return one(companyID, tx.QueryRow(ctx, "SELECT "+columns+` FROM wallets
		WHERE company_id = $1 AND currency = $2 AND status <> 'rejected'`, companyID, string(a)))
}

// list returns the company's requests by currency, oldest first.
func list(ctx context.Context, tx *db.Tx, companyID string) ([]Wallet, error) {
	rows, err := tx.Query(ctx, "SELECT "+columns+` FROM wallets WHERE company_id = $1
		ORDER BY currency, created_at, wallet_id`, companyID)
	return db.Collect(rows, err, func(r *db.Rows) (Wallet, error) { return scan(companyID, r.Scan) })
}

// update stores a wallet's state. It fails if the wallet has changed since it was read.
func update(ctx context.Context, tx *db.Tx, w Wallet, to State, reason string) error {
	n, err := tx.Exec(ctx, `UPDATE wallets
		SET status = $1, reason = $2, address = $3, version = version + 1, updated_at = $4
		WHERE company_id = $5 AND wallet_id = $6 AND version = $7`,
		string(to), reason, w.Address, db.Micros(tx.Now()), w.CompanyID, w.ID, w.Version)
	if err == nil && n != 1 {
		return db.ErrConflict
	}
	return err
}
