package accounting

import (
	"context"

	"github.com/stipend/stipend/internal/db"
)

// selectAccounts returns the accounts that a company has set, by key.
func selectAccounts(ctx context.Context, tx *db.Tx, companyID string) (map[string]Account, error) {
	rows, err := tx.Query(ctx, "SELECT account, code, name FROM journal_accounts WHERE company_id = $1", companyID)
	set := map[string]Account{}
	_, err = db.Collect(rows, err, func(r *db.Rows) (a Account, err error) {
		err = r.Scan(&a.Key, &a.Code, &a.Name)
		set[a.Key] = a
		return a, err
	})
	return set, err
}

func upsertAccounts(ctx context.Context, tx *db.Tx, companyID string, all []Account) error {
	for _, a := range all {
		if _, err := tx.Exec(ctx, `INSERT INTO journal_accounts (company_id, account, code, name) VALUES ($1, $2, $3, $4)
			ON CONFLICT (company_id, account) DO UPDATE SET code = excluded.code, name = excluded.name`, companyID, a.Key,
			a.Code, a.Name); err != nil {
			return err
		}
	}
	return nil
}
