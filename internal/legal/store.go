package legal

import (
	"context"

	"github.com/stipend/stipend/internal/db"
)

// acceptedBy returns what a user accepted, such as "terms 2026-07-01".
func acceptedBy(ctx context.Context, tx *db.Tx, userID string) ([]string, error) {
	rows, err := tx.Query(ctx, "SELECT document || ' ' || version FROM accepted_terms WHERE user_id = $1", userID)
	return db.Collect(rows, err, func(r *db.Rows) (text string, err error) { return text, r.Scan(&text) })
}

// insertAcceptance stores an acceptance, with the time of the first one.
func insertAcceptance(ctx context.Context, tx *db.Tx, userID string, d Document) error {
	_, err := tx.Exec(ctx, `INSERT INTO accepted_terms (user_id, document, version, accepted_at) VALUES ($1, $2, $3, $4)
		ON CONFLICT DO NOTHING`, userID, d.Kind, d.Version, db.Micros(tx.Now()))
	return err
}
