package auth

import (
	"context"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

// Limits of saved searches.
const (
	MaxSearchName = 60
	maxSearches   = 20   // per member and list
	maxQuery      = 2000 // bytes
)

// ErrTooManySearches is returned if a member has saved the maximum number of searches for a list.
var ErrTooManySearches = apierr.New(apierr.Conflict, "too_many_searches",
	"You have saved 20 searches for this list. Delete one first.")

// DraftList is the List of searches that store drafts of payrolls. The query of such a search contains the values of
// the form for a new payroll.
const DraftList = "/payrolls/new"

// maxDraft is the maximum size of the query of a draft, in bytes.
const maxDraft = 512 << 10

// Search is a filter of a list that a member saved. List is the path of the list, and Query the URL query with the
// filter.
type Search struct{ List, Name, Query string }

// Searches returns a member's saved searches for a list, sorted by name.
func Searches(ctx context.Context, tx *db.Tx, by Actor, list string) ([]Search, error) {
	rows, err := tx.Query(ctx, `SELECT name, query FROM saved_searches WHERE company_id = $1 AND user_id = $2
		AND list = $3 ORDER BY name`, by.CompanyID, by.UserID, list)
	return db.Collect(rows, err, func(r *db.Rows) (s Search, err error) {
		s.List = list
		return s, r.Scan(&s.Name, &s.Query)
	})
}

// SaveSearch saves a search for the member. It replaces the member's search with the same name.
func SaveSearch(ctx context.Context, tx *db.Tx, by Actor, s Search) error {
	var problems apierr.List
	s.Name = identity.Line(&problems, "/name", s.Name, 1, MaxSearchName)
	limit := maxQuery
	if s.List == DraftList {
		limit = maxDraft
	}
	if len(s.Query) > limit {
		problems.Add("invalid_parameter", "/query", "This filter is too long to be saved.")
	}
	if err := problems.Err(); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `INSERT INTO saved_searches (company_id, user_id, list, name, query, created_at)
		VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (company_id, user_id, list, name) DO UPDATE SET query = excluded.query`, by.CompanyID, by.UserID,
		s.List, s.Name, s.Query, db.Micros(tx.Now())); err != nil {
		return err
	}
	all, err := Searches(ctx, tx, by, s.List)
	if err == nil && len(all) > maxSearches {
		err = ErrTooManySearches
	}
	return err
}

// DeleteSearch deletes a member's saved search. It does nothing if there is no search with that name.
func DeleteSearch(ctx context.Context, tx *db.Tx, by Actor, list, name string) error {
	_, err := tx.Exec(ctx, `DELETE FROM saved_searches WHERE company_id = $1 AND user_id = $2 AND list = $3
		AND name = $4`, by.CompanyID, by.UserID, list, name)
	return err
}

// deleteSearches deletes all saved searches of a member.
func deleteSearches(ctx context.Context, tx *db.Tx, companyID, userID string) error {
	_, err := tx.Exec(ctx, "DELETE FROM saved_searches WHERE company_id = $1 AND user_id = $2", companyID, userID)
	return err
}
