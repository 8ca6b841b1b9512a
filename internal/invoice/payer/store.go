package payer

import (
	"cmp"
	"context"
	"errors"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

const columns = "payer_id, company_id, is_company, name, email, company_type, currency, website, details, status, " +
	"version, created_at"

const insertRow = `INSERT INTO payers (owner_id, ` + columns + `, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8,
	$9, $10, $11, $12, $13, $13)`

func values(p Payer) []any {
	return []any{
		p.OwnerID, p.ID, p.CompanyID, p.IsCompany, p.Name, p.Email, p.Type, string(p.Currency), p.Website, p.sealed,
		string(p.Status), p.Version, db.Micros(p.CreatedAt),
	}
}

// Ensure inserts p, without details, unless its owner already has a payer with this ID. It reports whether it
// inserted p. A zero CreatedAt means the transaction's time.
func Ensure(ctx context.Context, tx *db.Tx, p Payer) (bool, error) {
	if p.CreatedAt.IsZero() {
		p.CreatedAt = tx.Now()
	}
	p.Version = 1
	n, err := tx.Exec(ctx, insertRow+" ON CONFLICT (owner_id, payer_id) DO NOTHING", values(p)...)
	return n == 1, err
}

func insert(ctx context.Context, tx *db.Tx, p Payer) error {
	_, err := tx.Exec(ctx, insertRow, values(p)...)
	return err
}

func scan(ownerID string, scan func(...any) error) (Payer, error) {
	p := Payer{OwnerID: ownerID}
	var currency, status string
	var created int64
	err := scan(&p.ID, &p.CompanyID, &p.IsCompany, &p.Name, &p.Email, &p.Type, &currency, &p.Website, &p.sealed, &status,
		&p.Version, &created)
	p.Currency, p.Status, p.CreatedAt = money.Asset(currency), Status(status), db.Time(created)
	return p, err
}

// Get returns a payer of an owner, without details, or ErrNotFound. The payer may be deleted.
func Get(ctx context.Context, tx *db.Tx, ownerID, payerID string) (Payer, error) {
	p, err := scan(ownerID, tx.QueryRow(ctx, "SELECT "+columns+" FROM payers WHERE owner_id = $1 AND payer_id = $2",
		ownerID, payerID).Scan)
	if errors.Is(err, db.ErrNoRows) {
		return Payer{}, ErrNotFound
	}
	return p, err
}

// ByID returns a payer of any owner, for staff, or ErrNotFound.
func ByID(ctx context.Context, tx *db.Tx, payerID string) (Payer, error) {
	var ownerID string
	err := tx.QueryRow(ctx, "SELECT owner_id FROM payers WHERE payer_id = $1", payerID).Scan(&ownerID)
	if errors.Is(err, db.ErrNoRows) {
		return Payer{}, ErrNotFound
	}
	if err != nil {
		return Payer{}, err
	}
	return Get(ctx, tx, ownerID, payerID)
}

// Of returns an owner's payers that are not deleted, newest first, without details.
func Of(ctx context.Context, tx *db.Tx, ownerID string) ([]Payer, error) {
	rows, err := tx.Query(ctx,
		"SELECT "+columns+" FROM payers WHERE owner_id = $1 AND status = 'active' ORDER BY created_at DESC, payer_id DESC",
		ownerID)
	return db.Collect(rows, err, func(r *db.Rows) (Payer, error) { return scan(ownerID, r.Scan) })
}

// update stores the next version of a payer.
func update(ctx context.Context, tx *db.Tx, p *Payer) error {
	n, err := tx.Exec(ctx, `UPDATE payers SET name = $1, email = $2, company_type = $3, currency = $4, website = $5,
		details = $6,
		updated_at = $7, version = version + 1 WHERE owner_id = $8 AND payer_id = $9 AND version = $10 AND status = 'active'`,
		p.Name, p.Email, p.Type, string(p.Currency), p.Website, p.sealed, db.Micros(tx.Now()), p.OwnerID, p.ID, p.Version)
	if err != nil {
		return err
	}
	if n != 1 {
		return db.ErrConflict
	}
	p.Version++
	return nil
}

// remove deletes a payer unless one of its invoices is in a payroll that has not ended. One SQL condition checks the
// number of such invoices and the payer's state, so a concurrent payroll and a deletion cannot both succeed. remove
// returns ErrBusy, or db.ErrConflict if a concurrent transaction deleted the payer.
func remove(ctx context.Context, tx *db.Tx, p *Payer) error {
	n, err := tx.Exec(ctx, `UPDATE payers SET status = 'deleted', updated_at = $1, version = version + 1
		WHERE owner_id = $2 AND payer_id = $3 AND status = 'active' AND being_paid = 0`, db.Micros(tx.Now()), p.OwnerID, p.ID)
	if err != nil {
		return err
	}
	if n == 1 {
		p.Version++
		return nil
	}
	if now, err := Get(ctx, tx, p.OwnerID, p.ID); err != nil || now.Status == Deleted {
		return cmp.Or(err, db.ErrConflict)
	}
	return ErrBusy
}

// Hold increments the number of the payer's invoices in payrolls that have not ended. It returns db.ErrConflict if
// the payer was deleted concurrently.
func Hold(ctx context.Context, tx *db.Tx, ownerID, payerID string) error {
	return tx.ExecOne(ctx, `UPDATE payers SET being_paid = being_paid + 1
		WHERE owner_id = $1 AND payer_id = $2 AND status = 'active'`, ownerID, payerID)
}

// HoldAgain is like [Hold], for an invoice whose payment was returned. The payer may be deleted.
func HoldAgain(ctx context.Context, tx *db.Tx, ownerID, payerID string) error {
	return count(ctx, tx, ownerID, payerID, 1)
}

// Free decrements the number of the payer's invoices in payrolls that have not ended.
func Free(ctx context.Context, tx *db.Tx, ownerID, payerID string) error {
	return count(ctx, tx, ownerID, payerID, -1)
}

func count(ctx context.Context, tx *db.Tx, ownerID, payerID string, by int64) error {
	n, err := tx.Exec(ctx, "UPDATE payers SET being_paid = being_paid + $1 WHERE owner_id = $2 AND payer_id = $3", by,
		ownerID, payerID)
	if err == nil && n != 1 {
		return ErrNotFound
	}
	return err
}
