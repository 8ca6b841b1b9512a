package lightning

import (
	"context"
	"errors"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

const columns = `company_id, invoice_id, object_id, quote_id, state, version, amount, memo, expires_at, hash, preimage,
	node_id, request, paid, settle_index, settled_at, created_at`

var rows = db.BulkInsert("lightning_invoices", "company_id", "invoice_id", "object_id", "quote_id", "state", "version",
	"amount", "memo",
	"expires_at", "hash", "preimage", "node_id", "request", "paid", "settle_index", "settled_at", "created_at")

func insert(tx *db.Tx, i Invoice) {
	rows.Add(tx, []any{i.CompanyID, i.ID, i.ObjectID, i.QuoteID, string(i.State), i.Version, i.Amount.Units(), i.Memo,
		db.Micros(i.ExpiresAt),
		i.Hash, i.preimage, i.NodeID, i.Request, i.Paid.Units(), int64(0), int64(0), db.Micros(tx.Now())})
}

// update stores the fields of an invoice that may change. It returns false if the invoice's version has changed.
func update(ctx context.Context, tx *db.Tx, i Invoice) (bool, error) {
	settled := int64(0)
	if !i.SettledAt.IsZero() {
		settled = db.Micros(i.SettledAt)
	}
	n, err := tx.Exec(ctx, `UPDATE lightning_invoices
		SET state = $1, preimage = $2, node_id = $3, request = $4, paid = $5, settle_index = $6,
		settled_at = $7, version = version + 1 WHERE company_id = $8 AND invoice_id = $9 AND version = $10`,
		string(i.State), i.preimage, i.NodeID, i.Request, i.Paid.Units(), int64(i.settleIndex), settled, i.CompanyID, i.ID,
		i.Version)
	return n == 1, err
}

// Get returns an invoice, or db.ErrNoRows.
func Get(ctx context.Context, tx *db.Tx, companyID, id string) (Invoice, error) {
	return scan(tx.QueryRow(ctx, "SELECT "+columns+" FROM lightning_invoices WHERE company_id = $1 AND invoice_id = $2",
		companyID, id))
}

// ForObject returns all invoices of an object, the oldest first.
func ForObject(ctx context.Context, tx *db.Tx, companyID, objectID string) ([]Invoice, error) {
	r, err := tx.Query(ctx, "SELECT "+columns+` FROM lightning_invoices
		WHERE company_id = $1 AND object_id = $2 ORDER BY created_at, invoice_id`, companyID, objectID)
	return db.Collect(r, err, func(r *db.Rows) (Invoice, error) { return scan(r) })
}

// byHash returns the invoice with a payment hash, or db.ErrNoRows if the service did not create it.
func byHash(ctx context.Context, tx *db.Tx, hash string) (Invoice, error) {
	return scan(tx.QueryRow(ctx, "SELECT "+columns+" FROM lightning_invoices WHERE hash = $1", hash))
}

// IsOwn reports whether the service created the invoice with a payment hash.
func IsOwn(ctx context.Context, tx *db.Tx, h Hash) (bool, error) {
	_, err := byHash(ctx, tx, h.String())
	if errors.Is(err, db.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// payable returns invoices whose ID follows after, up to limit, that may have been paid without a record of it.
func payable(ctx context.Context, tx *db.Tx, after string, limit int) ([]Invoice, error) {
	r, err := tx.Query(ctx, "SELECT "+columns+` FROM lightning_invoices WHERE state IN ('open', 'ending')
		AND invoice_id > $1
		ORDER BY invoice_id LIMIT $2`, after, limit)
	return db.Collect(r, err, func(r *db.Rows) (Invoice, error) { return scan(r) })
}

// loadCursor returns the settle index of the node's last recorded payment, or 0.
func loadCursor(ctx context.Context, tx *db.Tx, nodeID string) (uint64, error) {
	var index int64
	err := tx.QueryRow(ctx, "SELECT settle_index FROM lightning_cursors WHERE node_id = $1", nodeID).Scan(&index)
	if errors.Is(err, db.ErrNoRows) {
		return 0, nil
	}
	return uint64(index), err
}

// advanceCursor raises the cursor to an index. It never lowers the cursor.
func advanceCursor(ctx context.Context, tx *db.Tx, nodeID string, index uint64) error {
	_, err := tx.Exec(ctx, `INSERT INTO lightning_cursors (node_id, settle_index) VALUES ($1, $2)
		ON CONFLICT (node_id) DO UPDATE SET settle_index = excluded.settle_index
			WHERE lightning_cursors.settle_index < excluded.settle_index`,
		nodeID, int64(index))
	return err
}

func scan(r interface{ Scan(dest ...any) error }) (Invoice, error) {
	var i Invoice
	var state string
	var amount, paid, expires, index, settled, created int64
	err := r.Scan(&i.CompanyID, &i.ID, &i.ObjectID, &i.QuoteID, &state, &i.Version, &amount, &i.Memo, &expires, &i.Hash,
		&i.preimage,
		&i.NodeID, &i.Request, &paid, &index, &settled, &created)
	i.State, i.Amount, i.Paid = State(state), money.New(money.BTC, amount), money.New(money.BTC, paid)
	i.ExpiresAt, i.settleIndex, i.SettledAt = db.Time(expires), uint64(index), time.Time{}
	if settled != 0 {
		i.SettledAt = db.Time(settled)
	}
	return i, err
}
