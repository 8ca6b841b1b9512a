package virtualaccount

import (
	"context"
	"errors"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

const columns = `owner_id, account_id, company_id, currency, provider, status, reason, details, number_key,
	provider_ref, cursor, terms_version, terms_at, version, created_at`

// insert inserts an account. It returns false if the owner already has an account in this currency; a unique index
// decides between concurrent requests.
func insert(ctx context.Context, tx *db.Tx, a Account) (bool, error) {
	n, err := tx.Exec(ctx, `INSERT INTO funding_accounts (`+columns+`, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, '', '', '', '', '', '', 0, $7, $8, $8) ON CONFLICT DO NOTHING`,
		a.OwnerID, a.ID, a.CompanyID, string(a.Currency), a.Provider, string(a.State), a.Version, db.Micros(a.CreatedAt))
	return n == 1, err
}

func scan(scan func(...any) error) (a Account, err error) {
	var currency, state string
	var terms, created int64
	err = scan(&a.OwnerID, &a.ID, &a.CompanyID, &currency, &a.Provider, &state, &a.Reason, &a.sealed, &a.numberKey,
		&a.providerRef, &a.cursor,
		&a.TermsVersion, &terms, &a.Version, &created)
	a.Currency, a.State, a.CreatedAt = money.Asset(currency), State(state), db.Time(created)
	if a.TermsVersion != "" {
		a.termsAt = db.Time(terms)
	}
	return a, err
}

func one(row db.Row) (Account, error) {
	a, err := scan(row.Scan)
	if errors.Is(err, db.ErrNoRows) {
		return Account{}, ErrNotFound
	}
	return a, err
}

func find(ctx context.Context, tx *db.Tx, ownerID, id string) (Account, error) {
	return one(tx.QueryRow(ctx, "SELECT "+columns+" FROM funding_accounts WHERE owner_id = $1 AND account_id = $2",
		ownerID, id))
}

func byCurrency(ctx context.Context, tx *db.Tx, ownerID string, c money.Asset) (Account, error) {
	return one(tx.QueryRow(ctx,
		"SELECT "+columns+" FROM funding_accounts WHERE owner_id = $1 AND currency = $2 AND status <> 'closed'", ownerID,
		string(c)))
}

// byID and byNumber return an account of any owner, because a bank reports the number that received money, not the
// owner.
func byID(ctx context.Context, tx *db.Tx, id string) (Account, error) {
	return one(tx.QueryRow(ctx, "SELECT "+columns+" FROM funding_accounts WHERE account_id = $1", id))
}

func byNumber(ctx context.Context, tx *db.Tx, key string) (Account, error) {
	return one(tx.QueryRow(ctx, "SELECT "+columns+" FROM funding_accounts WHERE number_key = $1 AND number_key <> ''",
		key))
}

func byOwner(ctx context.Context, tx *db.Tx, ownerID string) ([]Account, error) {
	rows, err := tx.Query(ctx, "SELECT "+columns+` FROM funding_accounts WHERE owner_id = $1
		ORDER BY CASE WHEN status = 'closed' THEN 1 ELSE 0 END, currency, account_id`, ownerID)
	return db.Collect(rows, err, func(r *db.Rows) (Account, error) { return scan(r.Scan) })
}

// openAccounts returns up to 100 active or suspended accounts whose ID follows after.
func openAccounts(ctx context.Context, tx *db.Tx, after string) ([]Account, error) {
	rows, err := tx.Query(ctx, "SELECT "+columns+` FROM funding_accounts
		WHERE account_id > $1 AND status IN ('active', 'suspended')
		ORDER BY account_id LIMIT 100`, after)
	return db.Collect(rows, err, func(r *db.Rows) (Account, error) { return scan(r.Scan) })
}

// update stores the mutable fields of an account as its next version. It returns db.ErrConflict if the version or
// state has changed.
func update(ctx context.Context, tx *db.Tx, a *Account, from State) error {
	var terms int64
	if !a.termsAt.IsZero() {
		terms = db.Micros(a.termsAt)
	}
	n, err := tx.Exec(ctx, `UPDATE funding_accounts SET status = $1, reason = $2, details = $3, number_key = $4,
		provider_ref = $5, terms_version = $6, terms_at = $7, updated_at = $8, version = version + 1
		WHERE owner_id = $9 AND account_id = $10 AND version = $11 AND status = $12`,
		string(a.State), a.Reason, a.sealed, a.numberKey, a.providerRef, a.TermsVersion, terms, db.Micros(tx.Now()),
		a.OwnerID, a.ID, a.Version, string(from))
	if err != nil {
		return err
	}
	if n != 1 {
		return db.ErrConflict
	}
	a.Version++
	return nil
}

func setCursor(ctx context.Context, tx *db.Tx, a Account, cursor string) error {
	_, err := tx.Exec(ctx, "UPDATE funding_accounts SET cursor = $1 WHERE owner_id = $2 AND account_id = $3", cursor,
		a.OwnerID, a.ID)
	return err
}

// insertReceipt stores a receipt. It returns false if the account already has a receipt with the same reference.
func insertReceipt(ctx context.Context, tx *db.Tx, a Account, id string, r Receipt) (bool, error) {
	amount, reversed := r.Amount, r.Amount.Sign() < 0
	if reversed {
		amount = amount.Neg()
	}
	n, err := tx.Exec(ctx, `INSERT INTO funding_receipts
			(owner_id, account_id, reference, receipt_id, currency, amount, reversed, received_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING`,
		a.OwnerID, a.ID, r.Reference, id, string(a.Currency), amount.Units(), reversed, db.Micros(tx.Now()))
	return n == 1, err
}

// receipt returns the ID and amount of a stored receipt; the amount is negative for a reversal.
func receipt(ctx context.Context, tx *db.Tx, a Account, reference string) (id string, units int64, err error) {
	err = tx.QueryRow(ctx, `SELECT receipt_id, CASE WHEN reversed THEN -amount ELSE amount END FROM funding_receipts
		WHERE owner_id = $1 AND account_id = $2 AND reference = $3`, a.OwnerID, a.ID, reference).Scan(&id, &units)
	return id, units, err
}
