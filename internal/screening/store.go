package screening

import (
	"context"
	"errors"

	"github.com/stipend/stipend/internal/db"
)

const columns = `company_id, hit_id, subject_id, kind, matched, entry_id, entry_name, programs, score, state,
	reason, decided_by, version, created_at, decided_at`

func scan(scan func(...any) error) (h Hit, err error) {
	var state string
	var score, created, decided int64
	err = scan(&h.CompanyID, &h.ID, &h.SubjectID, &h.Kind, &h.Matched, &h.EntryID, &h.EntryName, &h.Programs, &score,
		&state, &h.Reason, &h.DecidedBy, &h.Version, &created, &decided)
	h.State, h.Score, h.CreatedAt = State(state), int(score), db.Time(created)
	if decided > 0 {
		h.DecidedAt = db.Time(decided)
	}
	return h, err
}

// insert inserts a new hit. If a concurrent transaction inserted the same hit, the unique index fails this transaction,
// which is then retried.
func insert(ctx context.Context, tx *db.Tx, h *Hit) error {
	_, err := tx.Exec(ctx, `INSERT INTO screening_hits (`+columns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, '', '', $11, $12, 0)`,
		h.CompanyID, h.ID, h.SubjectID, h.Kind, h.Matched, h.EntryID, h.EntryName, h.Programs, int64(h.Score),
		string(h.State), h.Version, db.Micros(h.CreatedAt))
	return err
}

// selectFor returns all hits of some subjects of a company.
func selectFor(ctx context.Context, tx *db.Tx, companyID string, subjects []string) (found []Hit, err error) {
	err = db.EachIn(ctx, tx, subjects, "SELECT "+columns+
		" FROM screening_hits WHERE company_id = $1 AND subject_id IN %s", []any{companyID}, func(r *db.Rows) error {
		h, err := scan(r.Scan)
		found = append(found, h)
		return err
	})
	return found, err
}

// selectBlocked returns the company's subjects that have a hit that is not cleared.
func selectBlocked(ctx context.Context, tx *db.Tx, companyID string) (map[string]bool, error) {
	rows, err := tx.Query(ctx, "SELECT subject_id FROM screening_hits WHERE company_id = $1 AND state <> 'cleared'",
		companyID)
	ids, err := db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
	blocked := make(map[string]bool, len(ids))
	for _, id := range ids {
		blocked[id] = true
	}
	return blocked, err
}

func find(ctx context.Context, tx *db.Tx, hitID string) (Hit, error) {
	h, err := scan(tx.QueryRow(ctx, "SELECT "+columns+" FROM screening_hits WHERE hit_id = $1", hitID).Scan)
	if errors.Is(err, db.ErrNoRows) {
		return Hit{}, ErrNoHit
	}
	return h, err
}

func selectHits(ctx context.Context, tx *db.Tx, state State, limit int) ([]Hit, error) {
	rows, err := tx.Query(ctx, "SELECT "+columns+` FROM screening_hits WHERE $1 = '' OR state = $1
		ORDER BY created_at DESC, hit_id DESC LIMIT $2`, string(state), int64(limit))
	return db.Collect(rows, err, func(r *db.Rows) (Hit, error) { return scan(r.Scan) })
}

// HitsAbout returns the newest hits of a company and its payees, or of a person, for staff.
func HitsAbout(ctx context.Context, tx *db.Tx, subjectID string, limit int) ([]Hit, error) {
	rows, err := tx.Query(ctx, "SELECT "+columns+` FROM screening_hits WHERE company_id = $1 OR subject_id = $1
		ORDER BY created_at DESC, hit_id DESC LIMIT $2`, subjectID, int64(limit))
	return db.Collect(rows, err, func(r *db.Rows) (Hit, error) { return scan(r.Scan) })
}

// decide stores a decision and returns the hit. Only an open hit can be confirmed; an open or confirmed hit can be
// cleared.
func decide(ctx context.Context, tx *db.Tx, hitID string, to State, by, reason string) (Hit, error) {
	h, err := scan(tx.QueryRow(ctx, `UPDATE screening_hits SET state = $2, decided_by = $3, reason = $4, decided_at = $5,
		version = version + 1
		WHERE hit_id = $1 AND (state = 'open' OR state = 'confirmed' AND $2 = 'cleared') RETURNING `+columns,
		hitID, string(to), by, reason, db.Micros(tx.Now())).Scan)
	if errors.Is(err, db.ErrNoRows) {
		return Hit{}, ErrNoHit
	}
	return h, err
}
