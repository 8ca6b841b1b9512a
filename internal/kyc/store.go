package kyc

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/db"
)

// selectSubjectKey returns the encrypted key of a subject, "" if the subject has none, or ErrErased if the key was
// deleted.
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

// insertSubject inserts a subject with its encrypted key, unless it exists, and returns the stored key.
func insertSubject(ctx context.Context, tx *db.Tx, subjectID, wrapped string) (string, error) {
	_, err := tx.Exec(ctx, `INSERT INTO subjects (subject_id, wrapped_key, files, bytes, created_at, erased_at)
		VALUES ($1, $2, 0, 0, $3, 0) ON CONFLICT (subject_id) DO NOTHING`, subjectID, wrapped, db.Micros(tx.Now()))
	if err != nil {
		return "", err
	}
	return selectSubjectKey(ctx, tx, subjectID)
}

// insertDocument inserts a document and marks the document that it replaces. A guarded update of the subject enforces
// the limits and locks the subject, so that concurrent uploads run one after another.
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
	n, err = tx.Exec(ctx, "UPDATE subjects SET files = files - $2 WHERE subject_id = $1 AND files - $2 <= $3", subjectID,
		replaced, int64(maxFiles))
	if err != nil {
		return err
	}
	if n == 0 {
		return ErrDocumentLimit
	}
	return tx.Insert(ctx, "documents", []string{"subject_id", "document_id", "doc_type", "category", "issuing_country",
		"state", "bytes", "width", "height", "created_at"},
		[][]any{{subjectID, id, u.DocType, u.Category, u.IssuingCountry, "current", size, int64(img.Width), int64(img.Height),
			db.Micros(tx.Now())}})
}

// insertChunks inserts each chunk with a separate statement, because one statement for all chunks would copy the
// whole image in memory.
func insertChunks(ctx context.Context, tx *db.Tx, subjectID, documentID string, chunks [][]byte) error {
	for n, sealed := range chunks {
		_, err := tx.Exec(ctx, "INSERT INTO document_chunks (subject_id, document_id, n, sealed) VALUES ($1, $2, $3, $4)",
			subjectID, documentID, int64(n), sealed)
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
	_, err := tx.Exec(ctx, `INSERT INTO tax_ids (subject_id, issuing_country, tax_id_type, sealed, created_at)
		VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (subject_id, issuing_country) DO UPDATE SET tax_id_type = excluded.tax_id_type, sealed = excluded.sealed,
		created_at = excluded.created_at`,
		subjectID, countryCode, kind, sealed, db.Micros(tx.Now()))
	return err
}

// taxID is a stored, encrypted tax ID.
type taxID struct {
	country, kind string
	sealed        []byte
}

func selectTaxIDs(ctx context.Context, tx *db.Tx, subjectID string) ([]taxID, error) {
	rows, err := tx.Query(ctx, `SELECT issuing_country, tax_id_type, sealed FROM tax_ids
		WHERE subject_id = $1 ORDER BY created_at, issuing_country`, subjectID)
	return db.Collect(rows, err, func(r *db.Rows) (t taxID, err error) {
		return t, r.Scan(&t.country, &t.kind, &t.sealed)
	})
}

func selectChunks(ctx context.Context, tx *db.Tx, subjectID, documentID string) ([][]byte, error) {
	rows, err := tx.Query(ctx, "SELECT sealed FROM document_chunks WHERE subject_id = $1 AND document_id = $2 ORDER BY n",
		subjectID, documentID)
	return db.Collect(rows, err, func(r *db.Rows) (b []byte, err error) { return b, r.Scan(&b) })
}

// deleteReplaced deletes the replaced documents of a subject.
func deleteReplaced(ctx context.Context, tx *db.Tx, subjectID string) error {
	_, err := tx.Exec(ctx, `DELETE FROM document_chunks WHERE subject_id = $1 AND document_id IN
		(SELECT document_id FROM documents WHERE subject_id = $1 AND state = 'replaced')`, subjectID)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "DELETE FROM documents WHERE subject_id = $1 AND state = 'replaced'", subjectID)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE subjects
		SET bytes = (SELECT COALESCE(SUM(d.bytes), 0) FROM documents d WHERE d.subject_id = $1)
		WHERE subject_id = $1`, subjectID)
	return err
}

// retireCase marks a case as no longer current. It returns false if the case has changed since it was read.
func retireCase(ctx context.Context, tx *db.Tx, c Case) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE verifications SET is_current = FALSE
		WHERE subject_id = $1 AND case_id = $2 AND version = $3 AND is_current = TRUE`, c.SubjectID, c.ID, c.Version)
	return n == 1, err
}

// insertCase inserts the subject's current case. If a concurrent transaction inserts a case first, this statement
// violates the unique index and the transaction runs again.
func insertCase(ctx context.Context, tx *db.Tx, c Case) error {
	now := db.Micros(tx.Now())
	_, err := tx.Exec(ctx, `INSERT INTO verifications (subject_id, case_id, company_id, kind, state, provider,
		provider_ref, reasons, is_current, expires_at, version, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, '', '', TRUE, 0, $7, $8, $8)`,
		c.SubjectID, c.ID, c.CompanyID, c.Kind, string(c.State), c.Provider, c.Version, now)
	return err
}

const caseColumns = "subject_id, case_id, company_id, kind, state, provider, provider_ref, reasons, expires_at, " +
	"version, created_at"

func scanCase(row interface{ Scan(dest ...any) error }) (c Case, err error) {
	var reasons string
	var expires, opened int64
	err = row.Scan(&c.SubjectID, &c.ID, &c.CompanyID, &c.Kind, &c.State, &c.Provider, &c.Ref, &reasons, &expires,
		&c.Version, &opened)
	if errors.Is(err, db.ErrNoRows) {
		return Case{}, nil
	}
	if expires > 0 {
		c.Expires = db.Time(expires)
	}
	c.Reasons, c.Opened = strings.Fields(reasons), db.Time(opened)
	return c, err
}

// selectCase returns the subject's current case, or the zero Case.
func selectCase(ctx context.Context, tx *db.Tx, subjectID string) (Case, error) {
	return scanCase(tx.QueryRow(ctx, "SELECT "+caseColumns+` FROM verifications
		WHERE subject_id = $1 AND is_current = TRUE`, subjectID))
}

// Cases returns all cases of a subject, newest first, for staff.
func Cases(ctx context.Context, tx *db.Tx, subjectID string) ([]Case, error) {
	rows, err := tx.Query(ctx, "SELECT "+caseColumns+` FROM verifications WHERE subject_id = $1
		ORDER BY created_at DESC, case_id DESC`, subjectID)
	return db.Collect(rows, err, func(r *db.Rows) (Case, error) { return scanCase(r) })
}

func selectCaseByRef(ctx context.Context, tx *db.Tx, provider, ref string) (Case, error) {
	return scanCase(tx.QueryRow(ctx, "SELECT "+caseColumns+` FROM verifications
		WHERE provider = $1 AND provider_ref = $2 AND provider_ref <> '' AND is_current = TRUE`, provider, ref))
}

// selectWaiting returns up to 100 cases that wait for a decision. It scans all cases, so only the sandbox uses it.
func selectWaiting(ctx context.Context, tx *db.Tx) ([]Case, error) {
	rows, err := tx.Query(ctx, "SELECT "+caseColumns+` FROM verifications
		WHERE is_current = TRUE AND state IN ('initiated', 'submitted', 'in_review') ORDER BY created_at, case_id LIMIT 100`)
	return db.Collect(rows, err, func(r *db.Rows) (Case, error) { return scanCase(r) })
}

// updateCase updates a case. It returns false if the case has changed since it was read in the state from.
func updateCase(ctx context.Context, tx *db.Tx, c Case, from State) (bool, error) {
	var expires int64
	if !c.Expires.IsZero() {
		expires = db.Micros(c.Expires)
	}
	n, err := tx.Exec(ctx, `UPDATE verifications SET state = $1, provider_ref = $2, reasons = $3, expires_at = $4,
		version = version + 1, updated_at = $5
		WHERE subject_id = $6 AND case_id = $7 AND state = $8 AND version = $9`,
		string(c.State), c.Ref, strings.Join(c.Reasons, " "), expires, db.Micros(tx.Now()), c.SubjectID, c.ID, string(from),
		c.Version)
	return n == 1, err
}

// lockCase locks a case until the commit. It returns false if the case has changed since it was read.
func lockCase(ctx context.Context, tx *db.Tx, c Case) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE verifications SET version = version + 1
		WHERE subject_id = $1 AND case_id = $2 AND state = $3 AND version = $4`,
		c.SubjectID, c.ID, string(c.State), c.Version)
	return n == 1, err
}

// selectExpiring returns up to 100 subjects with an expired approval.
func selectExpiring(ctx context.Context, tx *db.Tx) ([]string, error) {
	rows, err := tx.Query(ctx, `SELECT subject_id FROM verifications
		WHERE state = 'approved' AND expires_at <= $1 AND is_current = TRUE ORDER BY expires_at LIMIT 100`,
		db.Micros(tx.Now()))
	return db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
}

// insertCallback stores the ID of a callback. It returns false if the callback was received before.
func insertCallback(ctx context.Context, tx *db.Tx, provider, id string) (bool, error) {
	n, err := tx.Exec(ctx, `INSERT INTO provider_callbacks (provider, callback_id, received_at)
		VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, provider, id, db.Micros(tx.Now()))
	return n == 1, err
}

// callbacksKept is how long the IDs of callbacks are stored. It is long enough, because older callbacks are rejected.
const callbacksKept = 24 * time.Hour

// ForgetCallbacks deletes the IDs of old callbacks.
func ForgetCallbacks(ctx context.Context, d *db.DB) error {
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM provider_callbacks WHERE received_at <= $1",
			db.Micros(tx.Now().Add(-callbacksKept)))
		return err
	})
}

func upsertCompanyProfile(ctx context.Context, tx *db.Tx, companyID string, sealed []byte) error {
	_, err := tx.Exec(ctx, `INSERT INTO company_profiles (company_id, sealed, updated_at) VALUES ($1, $2, $3)
		ON CONFLICT (company_id) DO UPDATE SET sealed = excluded.sealed, updated_at = excluded.updated_at`, companyID, sealed,
		db.Micros(tx.Now()))
	return err
}

// selectCompanyProfile returns the encrypted profile of a company, or nil if it has none.
func selectCompanyProfile(ctx context.Context, tx *db.Tx, companyID string) (sealed []byte, err error) {
	err = tx.QueryRow(ctx, "SELECT sealed FROM company_profiles WHERE company_id = $1", companyID).Scan(&sealed)
	if errors.Is(err, db.ErrNoRows) {
		return nil, nil
	}
	return sealed, err
}

func insertOwner(ctx context.Context, tx *db.Tx, companyID string, o Owner, sealed []byte) error {
	return tx.Insert(ctx, "owners", []string{"company_id", "owner_id", "sealed", "country", "ownership_bps", "control",
		"kyc_status", "created_at"},
		[][]any{{companyID, o.ID, sealed, o.Country, o.OwnershipBps, o.Control, o.KYCStatus, db.Micros(tx.Now())}})
}

// ownerRow is an owner as stored.
type ownerRow struct {
	id, status string
	sealed     []byte
	bps        int64
	control    bool
}

func selectOwners(ctx context.Context, tx *db.Tx, companyID string) ([]ownerRow, error) {
	rows, err := tx.Query(ctx, `SELECT owner_id, kyc_status, sealed, ownership_bps, control FROM owners
		WHERE company_id = $1 ORDER BY created_at, owner_id`, companyID)
	return db.Collect(rows, err, func(r *db.Rows) (o ownerRow, err error) {
		return o, r.Scan(&o.id, &o.status, &o.sealed, &o.bps, &o.control)
	})
}

func updateOwnerStatus(ctx context.Context, tx *db.Tx, companyID, ownerID, status string) error {
	_, err := tx.Exec(ctx, "UPDATE owners SET kyc_status = $3 WHERE company_id = $1 AND owner_id = $2", companyID, ownerID,
		status)
	return err
}

// eraseSubject deletes the key, documents, tax forms and tax IDs of a subject. It returns false if the subject does
// not exist. The subject's row remains, so that no new data is stored for the subject.
func eraseSubject(ctx context.Context, tx *db.Tx, subjectID string) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE subjects SET wrapped_key = '', files = 0, bytes = 0,
		erased_at = CASE WHEN erased_at = 0 THEN $2 ELSE erased_at END WHERE subject_id = $1`, subjectID, db.Micros(tx.Now()))
	if err != nil || n == 0 {
		return false, err
	}
	for _, table := range []string{"document_chunks", "documents", "tax_forms", "tax_ids"} {
		if _, err := tx.Exec(ctx, "DELETE FROM "+table+" WHERE subject_id = $1", subjectID); err != nil {
			return false, err
		}
	}
	return true, nil
}

func insertHold(ctx context.Context, tx *db.Tx, h Hold) (bool, error) {
	n, err := tx.Exec(ctx, `INSERT INTO legal_holds (subject_id, placed_by, reason, placed_at)
		VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`, h.SubjectID, h.By, h.Reason, db.Micros(tx.Now()))
	return n == 1, err
}

func deleteHold(ctx context.Context, tx *db.Tx, subjectID string) (bool, error) {
	n, err := tx.Exec(ctx, "DELETE FROM legal_holds WHERE subject_id = $1", subjectID)
	return n == 1, err
}

const holdColumns = "subject_id, placed_by, reason, placed_at"

func scanHold(r *db.Rows) (h Hold, err error) {
	var at int64
	err = r.Scan(&h.SubjectID, &h.By, &h.Reason, &at)
	h.At = db.Time(at)
	return h, err
}

// Holds returns all legal holds, newest first.
func Holds(ctx context.Context, tx *db.Tx, limit int) ([]Hold, error) {
	rows, err := tx.Query(ctx, "SELECT "+holdColumns+" FROM legal_holds ORDER BY placed_at DESC, subject_id LIMIT $1",
		int64(limit))
	return db.Collect(rows, err, scanHold)
}

// HoldOf returns the legal hold on a subject, or the zero Hold.
func HoldOf(ctx context.Context, tx *db.Tx, subjectID string) (Hold, error) {
	held, err := selectHolds(ctx, tx, subjectID)
	if err != nil || len(held) == 0 {
		return Hold{}, err
	}
	return held[0], nil
}

func selectHolds(ctx context.Context, tx *db.Tx, subjectIDs ...string) (all []Hold, err error) {
	return all, db.EachIn(ctx, tx, subjectIDs, "SELECT "+holdColumns+" FROM legal_holds WHERE subject_id IN %s", nil,
		func(r *db.Rows) error {
			h, err := scanHold(r)
			all = append(all, h)
			return err
		})
}

// companyOfOwner returns the company of an owner, or "".
func companyOfOwner(ctx context.Context, tx *db.Tx, ownerID string) (companyID string, err error) {
	err = tx.QueryRow(ctx, "SELECT company_id FROM owners WHERE owner_id = $1", ownerID).Scan(&companyID)
	if errors.Is(err, db.ErrNoRows) {
		err = nil
	}
	return companyID, err
}

// Ended returns the IDs of companies that were closed by a given time, and of their owners, if their documents were
// not erased. The IDs are sorted and start after the ID after.
func Ended(ctx context.Context, tx *db.Tx, until time.Time, after string, limit int) ([]string, error) {
	rows, err := tx.Query(ctx, `SELECT s.subject_id FROM subjects s WHERE s.erased_at = 0 AND s.subject_id > $2
			AND (s.subject_id IN (SELECT c.company_id FROM companies c WHERE c.closed_at > 0 AND c.closed_at <= $1)
			OR s.subject_id IN (SELECT o.owner_id FROM owners o JOIN companies c ON c.company_id = o.company_id
				WHERE c.closed_at > 0 AND c.closed_at <= $1))
		ORDER BY s.subject_id LIMIT $3`, db.Micros(until), after, int64(limit))
	return db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
}

// taxFormRow is a stored, encrypted tax form.
type taxFormRow struct {
	id              string
	sealed          []byte
	signed, expires time.Time
}

func insertTaxForm(ctx context.Context, tx *db.Tx, subjectID, id string, t TaxForm, sealed []byte) error {
	var expires int64
	if !t.ExpiresAt.IsZero() {
		expires = db.Micros(t.ExpiresAt)
	}
	return tx.Insert(ctx, "tax_forms", []string{"subject_id", "form_id", "form", "sealed", "signed_at", "expires_at"},
		[][]any{{subjectID, id, t.Form, sealed, db.Micros(t.SignedAt), expires}})
}

// newestTaxForms returns the newest tax form of each subject that has one, by subject.
func newestTaxForms(ctx context.Context, tx *db.Tx, subjectIDs []string) (map[string]taxFormRow, error) {
	all := map[string]taxFormRow{}
	return all, db.EachIn(ctx, tx, subjectIDs, `SELECT subject_id, form_id, sealed, signed_at, expires_at FROM tax_forms
		WHERE subject_id IN %s ORDER BY signed_at, form_id`, nil, func(r *db.Rows) error {
		var subject string
		var row taxFormRow
		var signed, expires int64
		err := r.Scan(&subject, &row.id, &row.sealed, &signed, &expires)
		if row.signed = db.Time(signed); expires != 0 {
			row.expires = db.Time(expires)
		}
		all[subject] = row // the rows are sorted, so the newest form is the last
		return err
	})
}
