package deposit

import (
	"context"
	"strings"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

// At returns a company's deposits made by a transaction or to an address, newest first.
func At(ctx context.Context, tx *db.Tx, companyID, txid, address string, limit int) ([]Deposit, error) {
	return search(ctx, tx, "company_id = $1 AND (txid = $2 AND txid <> '' OR address = $3 AND address <> '')", limit,
		companyID, txid, address)
}

// Matching returns deposits of a company whose transaction ID or address contains a text, ignoring case, newest
// first. It reads all deposits of the company. The text must not contain characters that are special in LIKE.
func Matching(ctx context.Context, tx *db.Tx, companyID, text string, limit int) ([]Deposit, error) {
	return search(ctx, tx, "company_id = $1 AND (LOWER(txid) LIKE $2 OR LOWER(address) LIKE $3)", limit, companyID,
		"%"+strings.ToLower(text)+"%", "%"+strings.ToLower(text)+"%")
}

// OfAmount returns the deposits of all companies with an amount, newest first, for staff. It reads the whole table.
func OfAmount(ctx context.Context, tx *db.Tx, amount money.Amount, limit int) ([]Deposit, error) {
	return search(ctx, tx, "asset = $1 AND amount = $2 AND company_id <> $3", limit, string(amount.Asset()),
		amount.Units(), "")
}

// search returns deposits that meet a condition with three parameters.
func search(ctx context.Context, tx *db.Tx, where string, limit int, args ...any) ([]Deposit, error) {
	rows, err := tx.Query(ctx, "SELECT "+columns+" FROM deposits WHERE "+where+
		" ORDER BY first_seen DESC, deposit_id LIMIT $4", append(args, int64(limit))...)
	return db.Collect(rows, err, func(r *db.Rows) (Deposit, error) { return scan(r) })
}
