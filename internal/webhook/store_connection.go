package webhook

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

// userConnects is a condition on a consent g to an app a: a user has connected the app without a company and has not
// disconnected it. $2 is the time. The concatenation of an empty string keeps the database from using the index on
// company_id, with which it would read the consents of all users.
const userConnects = ` AND g.company_id || '' = '' AND g.revoked_at = 0 AND g.expires_at > $2 AND a.status = 'active'`

// allowed is the condition that the app $1 may receive an event of a company, or an event of a user according to the
// user's consent.
var allowed = func() string {
	var cases []string
	for _, e := range userEvents {
		var scopes []string
		for _, s := range e.scopes {
			scopes = append(scopes, "' ' || g.scopes || ' ' LIKE '% "+s+" %' AND ' ' || a.scopes || ' ' LIKE '% "+s+" %'")
		}
		cases = append(cases, "events.name IN ('"+strings.Join(e.names, "', '")+"') AND ("+
			strings.Join(scopes, " OR ")+")")
	}
	return `(events.company_id NOT LIKE 'usr%' OR EXISTS (SELECT 1 FROM app_grants g
		JOIN apps a ON a.app_id = g.app_id
		WHERE g.app_id = $1 AND g.user_id = events.company_id` + userConnects +
		" AND (" + strings.Join(cases, " OR ") + ")))"
}()

// selectUserConnections selects the apps of users. It executes one statement for each user, in one round trip,
// because a statement for a list of users might read the consents of all users.
func selectUserConnections(ctx context.Context, tx *db.Tx, users []string) (all Connections, err error) {
	statements := make([]db.Statement, len(users))
	for i, id := range users {
		statements[i] = db.Statement{Query: `SELECT g.app_id, g.scopes, a.scopes FROM app_grants g
				JOIN apps a ON a.app_id = g.app_id
				WHERE g.user_id = $1` + userConnects, Args: []any{id, db.Micros(tx.Now())},
			Row: func(r *db.Rows) error {
				c := Connection{SourceID: id}
				var granted, registered string
				err := r.Scan(&c.AppID, &granted, &registered)
				g, _ := identity.ParseScopes(granted)
				a, _ := identity.ParseScopes(registered)
				c.scopes = g & a
				all = append(all, c)
				return err
			}}
	}
	return all, tx.Batch(ctx, statements)
}

// ofPeople returns a context for statements on events of users, which requests of a company can cause.
func ofPeople(ctx context.Context) context.Context {
	return db.AcrossCompanies(ctx, "events of a person belong to no company; the statements name the person")
}

// ofUser reports whether an event's row belongs to a user.
func ofUser(row []any) bool {
	id, _ := row[0].(string)
	return identity.IsUser(id)
}

// withReaders returns the rows of events without those of users who have connected no app.
func withReaders(ctx context.Context, tx *db.Tx, rows [][]any) ([][]any, error) {
	var users []string
	for _, row := range rows {
		if id, _ := row[0].(string); identity.IsUser(id) {
			users = append(users, id)
		}
	}
	if len(users) == 0 {
		return rows, nil
	}
	slices.Sort(users)
	readers, err := selectReaders(ctx, tx, slices.Compact(users))
	var all [][]any
	for _, row := range rows {
		if id, _ := row[0].(string); !identity.IsUser(id) || readers[id] {
			all = append(all, row)
		}
	}
	return all, err
}

// selectReaders selects the users who have connected an app without a company.
func selectReaders(ctx context.Context, tx *db.Tx, users []string) (map[string]bool, error) {
	found := map[string]bool{}
	var all []db.Statement
	rows := make([][]any, len(users))
	for i, id := range users {
		rows[i] = []any{id}
	}
	for some, args := range db.BindRows(tx, rows, 2) {
		all = append(all, db.Statement{
			Query: fmt.Sprintf(selectAmong, some), Args: append([]any{db.Micros(tx.Now())}, args...),
			Row: func(r *db.Rows) error {
				var id string
				err := r.Scan(&id)
				found[id] = true
				return err
			}})
	}
	return found, tx.Batch(ctx, all)
}

// selectAmong selects, from a list of users, those who have connected an app. It finds the consents of each user by
// an index, no matter how many users there are; a join might read the consents of all users.
const selectAmong = `WITH u (id) AS (%s) SELECT id FROM u WHERE (SELECT 1 FROM app_grants g
	WHERE g.user_id = u.id AND g.company_id || '' = '' AND g.revoked_at = 0 AND g.expires_at > $1 LIMIT 1) IS NOT NULL`
