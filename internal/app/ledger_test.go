package app_test

import (
	"context"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
)

// checkLedger runs the ledger's checks on the database of a service.
func checkLedger(ctx context.Context, s *service) (report ledger.Report, err error) {
	err = s.DB().Read(ctx, func(ctx context.Context, tx *db.Tx) error {
		report, err = ledger.Check(ctx, tx)
		return err
	})
	return report, err
}
