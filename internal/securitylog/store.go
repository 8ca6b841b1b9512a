package securitylog

import (
	"context"
	"time"

	"github.com/stipend/stipend/internal/db"
)

func insert(ctx context.Context, tx *db.Tx, e Event, companies []string) error {
	rows := make([][]any, len(companies))
	for i, company := range companies {
		rows[i] = []any{company, db.Micros(tx.Now()), tx.NewID("sev"), string(e.Category), e.Action, e.Path, e.UserID,
			e.StaffID, e.Outcome, e.Address, e.Network, e.Agent}
	}
	return tx.Insert(ctx, "security_events", []string{"company_id", "at", "event_id", "category", "action", "path",
		"user_id", "staff_id", "outcome", "address", "network", "agent"}, rows)
}

// Filter selects events. Empty fields do not filter.
type Filter struct {
	Category Category
	UserID   string
	Page     db.Page
}

// List returns a page of a company's events, newest first, and their total number.
func List(ctx context.Context, tx *db.Tx, companyID string, f Filter) (all []Event, total int64, err error) {
	l := &db.List{Columns: "event_id, at, category, action, path, user_id, staff_id, outcome, address, network, agent",
		Table: "security_events", ID: "event_id", Time: "at", Page: f.Page}
	l.Where("company_id = ?", companyID)
	if f.Category != "" {
		l.Where("category = ?", string(f.Category))
	}
	if f.UserID != "" {
		l.Where("user_id = ?", f.UserID)
	}
	return db.ReadPage(ctx, tx, l, func(r *db.Rows) (e Event, err error) {
		var at int64
		err = r.Scan(&e.ID, &at, &e.Category, &e.Action, &e.Path, &e.UserID, &e.StaffID, &e.Outcome, &e.Address, &e.Network,
			&e.Agent)
		e.At = db.Time(at)
		return e, err
	})
}

func selectKnown(ctx context.Context, tx *db.Tx, userID, network string, since time.Time) (bool, error) {
	var n int64
	err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM security_events
		WHERE user_id = $1 AND network = $2 AND category = $3 AND outcome = '' AND at > $4`,
		userID, network, string(SignIn), db.Micros(since)).Scan(&n)
	return n > 0, err
}

// Erase deletes the addresses and browser names in a person's events.
func Erase(ctx context.Context, tx *db.Tx, userID string) error {
	_, err := tx.Exec(ctx, "UPDATE security_events SET address = '', network = '', agent = '' WHERE user_id = $1", userID)
	return err
}

// pruneSize is the maximum number of events that one transaction deletes.
const pruneSize = 2000

// Prune deletes events that are older than kept, in small transactions, and returns their number.
func Prune(ctx context.Context, d *db.DB, kept time.Duration) (deleted int64, err error) {
	for {
		var n int64
		err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			n, err = tx.Exec(ctx, `DELETE FROM security_events WHERE (company_id, at, event_id) IN
				(SELECT company_id, at, event_id FROM security_events WHERE at <= $1 LIMIT $2)`,
				db.Micros(tx.Now().Add(-kept)), int64(pruneSize))
			return err
		})
		if err != nil {
			return deleted, err
		}
		if deleted += n; n < pruneSize {
			return deleted, nil
		}
	}
}

// CountExpired returns the number of events that [Prune] would delete.
func CountExpired(ctx context.Context, tx *db.Tx, kept time.Duration) (n int64, err error) {
	err = tx.QueryRow(ctx, "SELECT COUNT(*) FROM security_events WHERE at <= $1", db.Micros(tx.Now().Add(-kept))).Scan(&n)
	return n, err
}
