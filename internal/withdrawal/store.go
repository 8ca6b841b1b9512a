package withdrawal

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

const destinationColumns = "destination_id, asset, label, snapshot, status, created_by, ready_at, version, created_at"

func insertDestination(ctx context.Context, tx *db.Tx, d Destination) error {
	snapshot, err := d.snapshot()
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "INSERT INTO company_destinations (company_id, "+destinationColumns+`, updated_at)
		VALUES ($1, $2, $3, $4, $5, 'active', $6, $7, $8, $9, $9)`,
		d.CompanyID, d.ID, string(d.To.Symbol), d.Label, string(snapshot), d.CreatedBy, db.Micros(d.ReadyAt), d.version,
		db.Micros(d.CreatedAt))
	return err
}

func scanDestination(companyID string, scan func(...any) error) (Destination, error) {
	d := Destination{CompanyID: companyID}
	var asset, snapshot, status string
	var ready, created int64
	if err := scan(&d.ID, &asset, &d.Label, &snapshot, &status, &d.CreatedBy, &ready, &d.version, &created); err != nil {
		return Destination{}, err
	}
	d.Removed, d.ReadyAt, d.CreatedAt = status == "removed", db.Time(ready), db.Time(created)
	return d, json.Unmarshal([]byte(snapshot), &d.To)
}

// findDestination returns a destination of a company, even a removed one, or a Destination without an ID if it does
// not exist.
func findDestination(ctx context.Context, tx *db.Tx, companyID, id string) (Destination, error) {
	d, err := scanDestination(companyID, tx.QueryRow(ctx, "SELECT "+destinationColumns+
		" FROM company_destinations WHERE company_id = $1 AND destination_id = $2", companyID, id).Scan)
	if errors.Is(err, db.ErrNoRows) {
		return Destination{}, nil
	}
	return d, err
}

func destinations(ctx context.Context, tx *db.Tx, companyID string) ([]Destination, error) {
	rows, err := tx.Query(ctx, "SELECT "+destinationColumns+` FROM company_destinations
		WHERE company_id = $1 AND status = 'active' ORDER BY created_at, destination_id`, companyID)
	return db.Collect(rows, err, func(r *db.Rows) (Destination, error) { return scanDestination(companyID, r.Scan) })
}

func removeDestination(ctx context.Context, tx *db.Tx, d Destination) error {
	n, err := tx.Exec(ctx, `UPDATE company_destinations SET status = 'removed', version = version + 1, updated_at = $4
		WHERE company_id = $1 AND destination_id = $2 AND version = $3 AND status = 'active'`,
		d.CompanyID, d.ID, d.version, db.Micros(tx.Now()))
	if err == nil && n != 1 {
		return db.ErrConflict
	}
	return err
}

const columns = `withdrawal_id, destination_id, asset, amount, status, reason, output_id, tx_hash, external_id,
	request_key, created_by, version, created_at, updated_at`

func insert(ctx context.Context, tx *db.Tx, w Withdrawal) error {
	n, err := tx.Exec(ctx, "INSERT INTO withdrawals (company_id, "+columns+`)
		VALUES ($1, $2, $3, $4, $5, $6, '', $7, '', $8, $9, $10, $11, $12, $12) ON CONFLICT DO NOTHING`,
		w.CompanyID, w.ID, w.Destination.ID, string(w.Amount.Asset()), w.Amount.Units(), string(w.State), w.outputID,
		w.ExternalID, w.key, w.CreatedBy, w.Version, db.Micros(w.CreatedAt))
	if err == nil && n != 1 {
		return db.ErrConflict // a concurrent request used the same key or external ID
	}
	return err
}

func scan(companyID string, scan func(...any) error) (Withdrawal, error) {
	w := Withdrawal{CompanyID: companyID}
	var asset, state string
	var amount, created, updated int64
	err := scan(&w.ID, &w.Destination.ID, &asset, &amount, &state, &w.Reason, &w.outputID, &w.TxHash, &w.ExternalID,
		&w.key, &w.CreatedBy, &w.Version, &created, &updated)
	w.Amount, w.State = money.New(money.Asset(asset), amount), State(state)
	w.CreatedAt, w.UpdatedAt = db.Time(created), db.Time(updated)
	return w, err
}

// one scans a withdrawal and reads its destination. It returns ErrNotFound if there is no row.
func one(ctx context.Context, tx *db.Tx, companyID string, row db.Row) (w Withdrawal, err error) {
	if w, err = scan(companyID, row.Scan); err != nil {
		if errors.Is(err, db.ErrNoRows) {
			err = ErrNotFound
		}
		return Withdrawal{}, err
	}
	w.Destination, err = findDestination(ctx, tx, companyID, w.Destination.ID)
	return w, err
}

func find(ctx context.Context, tx *db.Tx, companyID, id string) (Withdrawal, error) {
	return one(ctx, tx, companyID, tx.QueryRow(ctx, "SELECT "+columns+
		" FROM withdrawals WHERE company_id = $1 AND withdrawal_id = $2", companyID, id))
}

// lock reads a withdrawal and locks its row until the transaction ends.
func lock(ctx context.Context, tx *db.Tx, companyID, id string) (Withdrawal, error) {
	return one(ctx, tx, companyID, tx.QueryRow(ctx, `UPDATE withdrawals SET version = version
		WHERE company_id = $1 AND withdrawal_id = $2 RETURNING `+columns, companyID, id))
}

// selectWhere returns a company's withdrawals that meet a condition. It loads only the IDs of their destinations.
func selectWhere(ctx context.Context, tx *db.Tx, companyID, where string, args ...any) ([]Withdrawal, error) {
	rows, err := tx.Query(ctx, "SELECT "+columns+" FROM withdrawals WHERE company_id = $1 AND "+where,
		append([]any{companyID}, args...)...)
	return db.Collect(rows, err, func(r *db.Rows) (Withdrawal, error) { return scan(companyID, r.Scan) })
}

// missing turns ErrNotFound into a Withdrawal without an ID.
func missing(w Withdrawal, err error) (Withdrawal, error) {
	if errors.Is(err, ErrNotFound) {
		return Withdrawal{}, nil
	}
	return w, err
}

func byKey(ctx context.Context, tx *db.Tx, companyID, key string) (Withdrawal, error) {
	return missing(one(ctx, tx, companyID, tx.QueryRow(ctx, "SELECT "+columns+
		" FROM withdrawals WHERE company_id = $1 AND request_key = $2 AND request_key <> ''", companyID, key)))
}

func byExternalID(ctx context.Context, tx *db.Tx, companyID, externalID string) (Withdrawal, error) {
	return missing(one(ctx, tx, companyID, tx.QueryRow(ctx, "SELECT "+columns+
		" FROM withdrawals WHERE company_id = $1 AND external_id = $2 AND external_id <> ''", companyID, externalID)))
}

// ListAwaitingApproval returns withdrawals of a company that wait for an approval, oldest first.
func ListAwaitingApproval(ctx context.Context, tx *db.Tx, companyID string, limit int) ([]Withdrawal, error) {
	return selectWhere(ctx, tx, companyID, "status = 'awaiting_approval' ORDER BY created_at, withdrawal_id LIMIT $2",
		int64(limit))
}

func list(ctx context.Context, tx *db.Tx, companyID string, page db.Page) (some []Withdrawal, total int64, err error) {
	l := &db.List{Columns: columns, Table: "withdrawals", ID: "withdrawal_id", Time: "created_at", Page: page}
	l.Where("company_id = ?", companyID)
	some, total, err = db.ReadPage(ctx, tx, l, func(r *db.Rows) (Withdrawal, error) {
		return scan(companyID, r.Scan)
	})
	if err != nil {
		return nil, 0, err
	}
	known := map[string]Destination{}
	for i := range some {
		w := &some[i]
		if _, ok := known[w.Destination.ID]; !ok {
			if known[w.Destination.ID], err = findDestination(ctx, tx, companyID, w.Destination.ID); err != nil {
				return nil, 0, err
			}
		}
		w.Destination = known[w.Destination.ID]
	}
	return some, total, nil
}

// update stores a withdrawal. It fails if the withdrawal's state or version has changed since it was read.
func update(ctx context.Context, tx *db.Tx, w *Withdrawal, from State) error {
	n, err := tx.Exec(ctx, `UPDATE withdrawals
		SET status = $4, reason = $5, tx_hash = $6, version = version + 1, updated_at = $7
		WHERE company_id = $1 AND withdrawal_id = $2 AND version = $3 AND status = $8`,
		w.CompanyID, w.ID, w.Version, string(w.State), w.Reason, w.TxHash, db.Micros(tx.Now()), string(from))
	if err == nil && n != 1 {
		return db.ErrConflict
	}
	w.Version++
	w.UpdatedAt = tx.Now()
	return err
}

// ListHeld returns the withdrawals of all companies that are on hold, the longest hold first. It is for staff. Only
// the IDs of their destinations are set.
func ListHeld(ctx context.Context, tx *db.Tx, limit int) ([]Withdrawal, error) {
	rows, err := tx.Query(ctx, "SELECT company_id, "+columns+` FROM withdrawals WHERE status = 'on_hold'
		ORDER BY updated_at, withdrawal_id LIMIT $1`, int64(limit))
	return db.Collect(rows, err, func(r *db.Rows) (w Withdrawal, err error) {
		var company string
		w, err = scan("", func(dest ...any) error { return r.Scan(append([]any{&company}, dest...)...) })
		w.CompanyID = company
		return w, err
	})
}

// unsentOutputs returns the IDs of the outputs of a company's withdrawals that are being processed.
func unsentOutputs(ctx context.Context, tx *db.Tx, companyID string) ([]string, error) {
	rows, err := tx.Query(ctx, `SELECT output_id FROM withdrawals WHERE company_id = $1 AND status = 'processing'
		AND output_id <> '' ORDER BY output_id`, companyID)
	return db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
}

// heldOutputs returns the IDs of the outputs of a company's withdrawals that are on hold.
func heldOutputs(ctx context.Context, tx *db.Tx, companyID string) ([]string, error) {
	rows, err := tx.Query(ctx, `SELECT o.output_id FROM withdrawals w JOIN outputs o ON o.company_id = w.company_id
			AND o.output_id = w.output_id
		WHERE w.company_id = $1 AND w.output_id <> '' AND o.on_hold ORDER BY o.output_id`, companyID)
	return db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
}

// AwaitsRelease reports whether a withdrawal is on hold until two staff members approve it.
func AwaitsRelease(ctx context.Context, tx *db.Tx, companyID, id string) (bool, error) {
	var n int64
	err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM withdrawals
		WHERE company_id = $1 AND withdrawal_id = $2 AND status = 'on_hold' AND reason = $3`,
		companyID, id, ReasonRelease).Scan(&n)
	return n == 1, err
}
