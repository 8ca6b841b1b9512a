package kyc

import (
	"context"
	"errors"

	"github.com/stipend/stipend/internal/db"
)

// selectSubjectKey is "" for a subject without one, and ErrErased for one whose key was destroyed.
func selectSubjectKey(ctx context.Context, tx *db.Tx, subjectID string) (wrapped string, err error) {
	err = tx.QueryRow(ctx, "SELECT wrapped_key FROM subjects WHERE subject_id = $1", subjectID).Scan(&wrapped)
	switch {
	case errors.Is(err, db.ErrNoRows):
		return "", nil
	case err == nil && wrapped == "":
		return "", ErrErased
	}
	return wrapped, err
}

func insertSubject(ctx context.Context, tx *db.Tx, subjectID, wrapped string) (string, error) {
	_, err := tx.Exec(ctx, `INSERT INTO subjects (subject_id, wrapped_key, files, bytes, created_at, erased_at)
		VALUES ($1, $2, 0, 0, $3, 0) ON CONFLICT (subject_id) DO NOTHING`, subjectID, wrapped, db.Micros(tx.Now()))
	if err != nil {
		return "", err
	}
	return selectSubjectKey(ctx, tx, subjectID)
}

// insertDocument takes the place of an earlier document and counts both. The count is the guard: it also makes two uploads
// for one subject wait for each other.
func insertDocument(ctx context.Context, tx *db.Tx, subjectID, id string, u Upload, img Image) error {
	size := int64(len(img.JPEG))
	n, err := tx.Exec(ctx, `UPDATE subjects SET files = files + 1, bytes = bytes + $2
		WHERE subject_id = $1 AND erased_at = 0 AND bytes + $2 <= $3`, subjectID, size, int64(maxBytes))
	if err != nil {
		return err
	}
	if n == 0 {
		return ErrDocumentLimit
	}
	replaced, err := tx.Exec(ctx, `UPDATE documents SET state = 'replaced'
		WHERE subject_id = $1 AND doc_type = $2 AND category = $3 AND issuing_country = $4 AND state = 'current'`,
		subjectID, u.DocType, u.Category, u.IssuingCountry)
	if err != nil {
		return err
	}
	n, err = tx.Exec(ctx, "UPDATE subjects SET files = files - $2 WHERE subject_id = $1 AND files - $2 <= $3", subjectID, replaced, int64(maxFiles))
	if err != nil {
		return err
	}
	if n == 0 {
		return ErrDocumentLimit
	}
	return tx.Insert(ctx, "documents", []string{"subject_id", "document_id", "doc_type", "category", "issuing_country", "state", "bytes", "width", "height", "created_at"},
		[][]any{{subjectID, id, u.DocType, u.Category, u.IssuingCountry, "current", size, int64(img.Width), int64(img.Height), db.Micros(tx.Now())}})
}

// insertChunks writes row by row: a statement of many such rows would hold them all once more.
func insertChunks(ctx context.Context, tx *db.Tx, subjectID, documentID string, chunks [][]byte) error {
	for n, sealed := range chunks {
		_, err := tx.Exec(ctx, "INSERT INTO document_chunks (subject_id, document_id, n, sealed) VALUES ($1, $2, $3, $4)", subjectID, documentID, int64(n), sealed)
		if err != nil {
			return err
		}
	}
	return nil
}

func selectDocuments(ctx context.Context, tx *db.Tx, subjectID string) ([]Document, error) {
	rows, err := tx.Query(ctx, `SELECT document_id, doc_type, category, issuing_country FROM documents
		WHERE subject_id = $1 AND state = 'current' ORDER BY created_at, document_id`, subjectID)
	return db.Collect(rows, err, func(r *db.Rows) (d Document, err error) {
		return d, r.Scan(&d.ID, &d.DocType, &d.Category, &d.IssuingCountry)
	})
}

func upsertTaxID(ctx context.Context, tx *db.Tx, subjectID, countryCode, kind string, sealed []byte) error {
	_, err := tx.Exec(ctx, `INSERT INTO tax_ids (subject_id, issuing_country, tax_id_type, sealed, created_at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (subject_id, issuing_country) DO UPDATE SET tax_id_type = excluded.tax_id_type, sealed = excluded.sealed, created_at = excluded.created_at`,
		subjectID, countryCode, kind, sealed, db.Micros(tx.Now()))
	return err
}

// taxID is a stored tax id.
type taxID struct {
	country, kind string
	sealed        []byte
}

func selectTaxIDs(ctx context.Context, tx *db.Tx, subjectID string) ([]taxID, error) {
	rows, err := tx.Query(ctx, "SELECT issuing_country, tax_id_type, sealed FROM tax_ids WHERE subject_id = $1 ORDER BY created_at, issuing_country", subjectID)
	return db.Collect(rows, err, func(r *db.Rows) (t taxID, err error) {
		return t, r.Scan(&t.country, &t.kind, &t.sealed)
	})
}
