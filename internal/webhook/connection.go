package webhook

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

// Connection is an app that receives the events of a company or user.
type Connection struct {
	SourceID, AppID string          // SourceID is the company or the user
	scopes          identity.Scopes // what a user allowed the app
}

// Connections are the apps of some companies and users.
type Connections []Connection

// ConnectionsOf returns the apps that companies have connected with the scope to read their events, until they
// disconnect or the member who connected the app no longer manages the company, and the apps that users have connected
// without a company, until they disconnect. A source is the ID of a company or user.
func ConnectionsOf(ctx context.Context, tx *db.Tx, sources ...string) (Connections, error) {
	var companies, users []string
	for _, id := range sources {
		if identity.IsUser(id) {
			users = append(users, id)
		} else {
			companies = append(companies, id)
		}
	}
	all, err := selectConnections(ctx, tx, companies)
	if err != nil {
		return nil, err
	}
	ofUsers, err := selectUserConnections(ctx, tx, users)
	for _, c := range ofUsers {
		same := func(o Connection) bool { return o.SourceID == c.SourceID && o.AppID == c.AppID }
		if i := slices.IndexFunc(all, same); i >= 0 {
			all[i].scopes |= c.scopes // the user has given several consents
		} else {
			all = append(all, c)
		}
	}
	return all, err
}

// Allow reports whether an app may receive an event. A company's app receives all but those of the company's
// endpoints. A user's app receives those that a scope allows that the user granted.
func (all Connections) Allow(appID string, e StoredEvent) bool {
	return slices.ContainsFunc(all, func(c Connection) bool {
		if c.AppID != appID || c.SourceID != e.CompanyID {
			return false
		}
		if !identity.IsUser(c.SourceID) {
			return !strings.HasPrefix(e.Name, "webhook.")
		}
		return slices.ContainsFunc(UserScopes(e.Name), c.scopes.Has)
	})
}

// userEvents are the events of users, by the scopes that allow them. Any one scope of a list suffices: those that let
// a user's token read the object.
var userEvents = []struct {
	scopes []identity.Scope
	names  []string
}{
	{[]identity.Scope{identity.UserDetail}, []string{UserKYCStatusUpdate.Name}},
	{[]identity.Scope{identity.UserBankDetails}, []string{
		IncomeReceived.Name, IncomeStatusUpdate.Name, TransferReceived.Name, TransferStatusUpdate.Name,
		UserFundingAccountStatus.Name, UserPaymentStatusUpdate.Name,
	}},
	{[]identity.Scope{identity.UserDistributionList, identity.UserDistributionDetail}, []string{
		DistributionChanged.Name, DistributionChecked.Name, DistributionCorrectionAsked.Name,
		DistributionCorrectionDisputed.Name,
	}},
	{[]identity.Scope{identity.UserInvoiceList, identity.UserInvoiceDetail}, []string{
		InvoiceCreated.Name, InvoiceStatusUpdate.Name,
	}},
	{[]identity.Scope{identity.UserPayerList, identity.UserPayerDetail}, []string{
		PayerCreated.Name, PayerStatusUpdate.Name,
	}},
}

// UserScopes returns the scopes by which an app that a user connected receives an event of the user, or nil if users
// have no such events. One of them suffices.
func UserScopes(name string) []identity.Scope {
	for _, e := range userEvents {
		if slices.Contains(e.names, name) {
			return e.scopes
		}
	}
	return nil
}

// And returns the event of the company, if it has one, and the same event of a user. It returns only the former if the
// ID is not that of a user. The event of the user is stored only if the user has connected an app.
func (e Event) And(userID string) (all []Event) {
	if e.CompanyID != "" && e.CompanyID != userID {
		all = append(all, e)
	}
	if identity.IsUser(userID) {
		e.CompanyID, e.ID = userID, ""
		all = append(all, e)
	}
	return all
}

// userConnects is the condition on a consent g to an app a that a user has connected the app without a company and
// has not disconnected it. $2 is the time. The expression prevents that the consents of all people are read, as the
// rows of one company.
const userConnects = ` AND g.company_id || '' = '' AND g.revoked_at = 0 AND g.expires_at > $2 AND a.status = 'active'`

// allowed is the condition that the app $1 may receive an event of a company or, by the user's consent, of a user.
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

// selectUserConnections selects the apps of users, each in a statement of its own, all in one round trip: for a list of
// users the consents of all might be read.
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

// withReaders returns rows of events without those of users who have connected no app.
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
		all = append(all, db.Statement{Query: fmt.Sprintf(selectAmong, some), Args: append([]any{db.Micros(tx.Now())}, args...),
			Row: func(r *db.Rows) error {
				var id string
				err := r.Scan(&id)
				found[id] = true
				return err
			}})
	}
	return found, tx.Batch(ctx, all)
}

// selectAmong selects those of users who have connected an app. The consents of each are found by an index, however
// many users there are: a join might read the consents of all.
const selectAmong = `WITH u (id) AS (%s) SELECT id FROM u WHERE (SELECT 1 FROM app_grants g
	WHERE g.user_id = u.id AND g.company_id || '' = '' AND g.revoked_at = 0 AND g.expires_at > $1 LIMIT 1) IS NOT NULL`
