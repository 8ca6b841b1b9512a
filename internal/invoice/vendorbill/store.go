package vendorbill

import (
	"context"
	"errors"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
)

func insert(ctx context.Context, tx *db.Tx, d Document) error {
	_, err := tx.Exec(ctx, `INSERT INTO vendor_documents (company_id, document_id, media_type, bytes, sha256, payroll_id,
		payment_id, version, created_at)
		VALUES ($1, $2, $3, $4, $5, '', '', $6, $7)`, d.CompanyID, d.ID, d.MediaType, d.Bytes, d.SHA256, d.version,
		db.Micros(tx.Now()))
	return err
}

func insertChunk(ctx context.Context, tx *db.Tx, d Document, n int, sealed string) error {
	_, err := tx.Exec(ctx,
		"INSERT INTO vendor_document_chunks (company_id, document_id, n, sealed) VALUES ($1, $2, $3, $4)", d.CompanyID, d.ID,
		int64(n), sealed)
	return err
}

func find(ctx context.Context, tx *db.Tx, companyID, id string) (Document, error) {
	d := Document{CompanyID: companyID, ID: id}
	err := tx.QueryRow(ctx,
		"SELECT media_type, bytes, sha256, payroll_id, version FROM vendor_documents WHERE company_id = $1 AND document_id "+
			"= $2",
		companyID, id).Scan(&d.MediaType, &d.Bytes, &d.SHA256, &d.PayrollID, &d.version)
	if errors.Is(err, db.ErrNoRows) {
		return Document{}, apierr.NotFoundErr
	}
	return d, err
}

// ofPayroll returns the documents of a payroll by payment ID.
func ofPayroll(ctx context.Context, tx *db.Tx, companyID, payrollID string) (map[string]Document, error) {
	all := map[string]Document{}
	rows, err := tx.Query(ctx, `SELECT document_id, media_type, bytes, sha256, payment_id, version FROM vendor_documents
		WHERE company_id = $1 AND payroll_id = $2 AND payroll_id <> ''`, companyID, payrollID)
	_, err = db.Collect(rows, err, func(r *db.Rows) (payment string, err error) {
		d := Document{CompanyID: companyID, PayrollID: payrollID}
		err = r.Scan(&d.ID, &d.MediaType, &d.Bytes, &d.SHA256, &payment, &d.version)
		all[payment] = d
		return payment, err
	})
	return all, err
}

// assign assigns a document to a payroll. It returns false if the document has changed since it was read.
func assign(ctx context.Context, tx *db.Tx, d Document, payrollID, paymentID string) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE vendor_documents SET payroll_id = $1, payment_id = $2, version = version + 1
		WHERE company_id = $3 AND document_id = $4 AND version = $5`, payrollID, paymentID, d.CompanyID, d.ID, d.version)
	return n == 1, err
}

// chunksOf returns the sealed pieces of a document, in order.
func chunksOf(ctx context.Context, tx *db.Tx, d Document) ([]string, error) {
	rows, err := tx.Query(ctx, `SELECT sealed FROM vendor_document_chunks WHERE company_id = $1 AND document_id = $2
		ORDER BY n`, d.CompanyID, d.ID)
	return db.Collect(rows, err, func(r *db.Rows) (text string, err error) { return text, r.Scan(&text) })
}
