package roster

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/stipend/stipend/internal/db"
)

const (
	changesOrder = 1000 // the last of a commit, since whoever raises a version holds it until the commit
	keep         = 1 << 16
	forgetEvery  = 1 << 10
)

// changes raises the versions of the companies of a commit, one after the other in the order of their ids, so that no two
// commits wait crosswise. The row is held until the commit: versions become visible in their order.
var changes = db.NewGroup(changesOrder, func(ctx context.Context, tx *db.Tx, items []any) error {
	of := map[string]map[string]bool{}
	for _, item := range items {
		c := item.([2]string)
		if of[c[0]] == nil {
			of[c[0]] = map[string]bool{}
		}
		of[c[0]][c[1]] = true
	}
	for _, company := range slices.Sorted(maps.Keys(of)) {
		var version int64
		err := tx.QueryRow(ctx, `INSERT INTO recipient_rosters (company_id, version, floor, changed) VALUES ($1, 1, 0, $2)
			ON CONFLICT (company_id) DO UPDATE SET version = recipient_rosters.version + 1, changed = recipient_rosters.changed + excluded.changed
			RETURNING version`, company, int64(len(of[company]))).Scan(&version)
		if err != nil {
			return err
		}
		rows := make([][]any, 0, len(of[company]))
		for id := range of[company] {
			rows = append(rows, []any{company, version, id})
		}
		if err := tx.Insert(ctx, "recipient_changes", []string{"company_id", "version", "recipient_id"}, rows); err != nil {
			return err
		}
		if version%forgetEvery == 0 && version > keep {
			if err := forget(ctx, tx, company, version-keep); err != nil {
				return err
			}
		}
	}
	return nil
})

// forget deletes the changes up to a version.
func forget(ctx context.Context, tx *db.Tx, companyID string, version int64) error {
	if _, err := tx.Exec(ctx, "DELETE FROM recipient_changes WHERE company_id = $1 AND version <= $2", companyID, version); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, "UPDATE recipient_rosters SET floor = $2 WHERE company_id = $1 AND floor < $2", companyID, version)
	return err
}

// current is 0 for a company whose recipients never changed.
func current(ctx context.Context, tx *db.Tx, companyID string) (version, floor int64, err error) {
	err = tx.QueryRow(ctx, "SELECT version, floor FROM recipient_rosters WHERE company_id = $1", companyID).Scan(&version, &floor)
	if errors.Is(err, db.ErrNoRows) {
		return 0, 0, nil
	}
	return version, floor, err
}

// largest are the companies with many recipients, each of which has been a change once.
func largest(ctx context.Context, tx *db.Tx) ([]string, error) {
	rows, err := tx.Query(ctx, "SELECT company_id FROM recipient_rosters WHERE changed >= 10000 ORDER BY changed DESC LIMIT 100")
	return db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
}

const columns = "recipient_id, name_key, email_key, role, recipient_type, status, country, user_id, created_at"

func scan(r *db.Rows, row *Row) error {
	var user string
	err := r.Scan(&row.ID, &row.Name, &row.Email, &row.Role, &row.Type, &row.Status, &row.Country, &user, &row.Created)
	row.Login = user != ""
	return err
}

// load reads all recipients of a company.
func load(ctx context.Context, tx *db.Tx, companyID string, version int64) (*view, error) {
	rows, err := tx.Query(ctx, "SELECT "+columns+" FROM recipients WHERE company_id = $1", companyID)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var wrong error
	b := build(func(yield func(*Row) bool) {
		var row Row
		for rows.Next() {
			if wrong = scan(rows, &row); wrong != nil || !yield(&row) {
				return
			}
		}
	}, 0)
	if err := errors.Join(wrong, rows.Err()); err != nil {
		return nil, err
	}
	return &view{version: version, base: b}, nil
}

// changedSince lists the recipients that changed after a version.
func changedSince(ctx context.Context, tx *db.Tx, companyID string, version int64) ([]string, error) {
	rows, err := tx.Query(ctx, "SELECT DISTINCT recipient_id FROM recipient_changes WHERE company_id = $1 AND version > $2", companyID, version)
	return db.Collect(rows, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
}

// read reads recipients as they are in this snapshot.
func read(ctx context.Context, tx *db.Tx, companyID string, ids []string) ([]*Row, error) {
	all := make([]*Row, 0, len(ids))
	for in, args := range tx.In(ids, 2) {
		rows, err := tx.Query(ctx, "SELECT "+columns+" FROM recipients WHERE company_id = $1 AND recipient_id IN "+in, append([]any{companyID}, args...)...)
		found, err := db.Collect(rows, err, func(r *db.Rows) (*Row, error) {
			row := new(Row)
			return row, scan(r, row)
		})
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}
