package payee

import (
	"context"
	"log/slog"

	"github.com/stipend/stipend/internal/db"
)

// WarnWithoutSearchIndex logs a warning if the database has no index for searching recipients.
func WarnWithoutSearchIndex(ctx context.Context, d *db.DB, log *slog.Logger) {
	err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
		indexed, err := SearchIsIndexed(ctx, tx)
		if err == nil && !indexed {
			log.Warn("searches of recipients are slow: PostgreSQL lacks the extension pg_trgm; " +
				"see \"Search of recipients\" in docs/operating.md")
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		log.Warn("could not check the search index", "error", err)
	}
}
