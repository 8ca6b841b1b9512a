package bank

import (
	"context"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

const reversalColumns = `company_id, file_id, position, payment, reason, state, code, number, amount, collected,
	approved_at`

func scanReversal(scan func(...any) error) (v Reversal, err error) {
	var position, amount, at int64
	err = scan(&v.CompanyID, &v.FileID, &position, &v.Payment, &v.Reason, &v.State, &v.Code, &v.Number, &amount,
		&v.collected, &at)
	v.Position, v.Amount, v.At = int(position), money.New(money.USD, amount), db.Time(at)
	return v, err
}

func insertReversal(ctx context.Context, tx *db.Tx, v Reversal) error {
	return tx.Insert(ctx, "bank_reversals", []string{"company_id", "file_id", "position", "payment", "reason", "state",
		"code", "number", "amount", "collected", "approved_at"}, [][]any{{v.CompanyID, v.FileID, int64(v.Position),
		v.Payment, v.Reason, v.State, "", int64(0), v.Amount.Units(), false, db.Micros(tx.Now())}})
}

// storeReversal stores a reversal that was read in the same transaction.
func storeReversal(ctx context.Context, tx *db.Tx, v Reversal) error {
	return tx.ExecOne(ctx, `UPDATE bank_reversals SET state = $4, code = $5, number = $6, collected = $7
		WHERE company_id = $1 AND file_id = $2 AND position = $3`, v.CompanyID, v.FileID, int64(v.Position), v.State, v.Code,
		v.Number, v.collected)
}

// reversalOf returns the reversal of a payment, or db.ErrNoRows.
func reversalOf(ctx context.Context, tx *db.Tx, fileID string, position int) (Reversal, error) {
	return scanReversal(tx.QueryRow(ctx, "SELECT "+reversalColumns+` FROM bank_reversals
		WHERE file_id = $1 AND position = $2`, fileID, int64(position)).Scan)
}

// findReversal returns the reversal whose file has a number, or db.ErrNoRows.
func findReversal(ctx context.Context, tx *db.Tx, number int64) (Reversal, error) {
	return scanReversal(tx.QueryRow(ctx, "SELECT "+reversalColumns+" FROM bank_reversals WHERE number = $1 AND number > 0",
		number).Scan)
}

// reversalByNumber returns the reversal whose file has a number, locked for the rest of the transaction, or
// db.ErrNoRows.
func reversalByNumber(ctx context.Context, tx *db.Tx, number int64) (Reversal, error) {
	return scanReversal(tx.QueryRow(ctx, `UPDATE bank_reversals SET state = state WHERE number = $1 AND number > 0
		RETURNING `+reversalColumns, number).Scan)
}

// maxReversals is the largest number of reversals that are processed at a time.
const maxReversals = 100

func reversalsIn(ctx context.Context, tx *db.Tx, state string) ([]Reversal, error) {
	rows, err := tx.Query(ctx, "SELECT "+reversalColumns+` FROM bank_reversals WHERE state = $1
		ORDER BY approved_at, payment LIMIT $2`, state, int64(maxReversals))
	return db.Collect(rows, err, func(r *db.Rows) (Reversal, error) { return scanReversal(r.Scan) })
}

// UnconfirmedReversal is a reversal whose money has not come back, with its settlement day.
type UnconfirmedReversal struct {
	Reversal
	Settles string // such as 2026-03-02
}

// UnconfirmedReversals returns the reversals of all companies that were written to a file and whose money has not
// come back, ordered by settlement day.
func UnconfirmedReversals(ctx context.Context, tx *db.Tx) ([]UnconfirmedReversal, error) {
	rows, err := tx.Query(ctx, `SELECT r.company_id, r.file_id, r.position, r.payment, r.reason, r.state, r.code, r.number,
			r.amount, r.collected, r.approved_at, f.execute_on
		FROM bank_reversals r JOIN bank_files f ON f.number = r.number
		WHERE r.state = 'ordered' AND r.number > 0 ORDER BY f.execute_on, r.number`)
	return db.Collect(rows, err, func(r *db.Rows) (u UnconfirmedReversal, err error) {
		u.Reversal, err = scanReversal(func(into ...any) error { return r.Scan(append(into, &u.Settles)...) })
		return u, err
	})
}

// Reversals returns reversals of all companies, newest first.
func Reversals(ctx context.Context, tx *db.Tx, limit int) ([]Reversal, error) {
	rows, err := tx.Query(ctx, "SELECT "+reversalColumns+` FROM bank_reversals
		ORDER BY approved_at DESC, payment LIMIT $1`, int64(limit))
	return db.Collect(rows, err, func(r *db.Rows) (Reversal, error) { return scanReversal(r.Scan) })
}
