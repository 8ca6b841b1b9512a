package payee

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/stipend/stipend/internal/db"
)

// segment is a set of recipients that filters do not tell apart. recipient_counts has how many each company has of each.
type segment struct {
	companyID, country, role, recipientType, status string
	hasLogin                                        bool
}

func (r Recipient) segment() segment {
	return segment{r.CompanyID, r.Country, r.Role, r.Type, r.Status, r.UserID != ""}
}

// countChange is by how much a segment grows.
type countChange struct {
	segment segment
	by      int64
}

// countNew counts a recipient that the transaction adds.
func countNew(tx *db.Tx, r Recipient) { tx.Defer(counts, countChange{r.segment(), 1}) }

// countMoved counts a recipient in another segment than before. The caller's statement must have been guarded by the old values.
func countMoved(tx *db.Tx, from, to segment) {
	if from != to {
		tx.Defer(counts, countChange{from, -1})
		tx.Defer(counts, countChange{to, 1})
	}
}

// countsOrder makes the counts the last rows that a commit locks, since concurrent commits of a company wait there for each other.
const countsOrder = 1000

// counts changes the rows in their order, so that concurrent commits cannot deadlock.
var counts = db.NewGroup(countsOrder, func(ctx context.Context, tx *db.Tx, items []any) error {
	changes := map[segment]int64{}
	for _, item := range items {
		c := item.(countChange)
		changes[c.segment] += c.by
	}
	for _, s := range slices.SortedFunc(maps.Keys(changes), compareSegments) {
		by := changes[s]
		switch {
		case by > 0:
			_, err := tx.Exec(ctx, `INSERT INTO recipient_counts (company_id, country, role, recipient_type, status, has_login, recipients)
				VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (company_id, country, role, recipient_type, status, has_login)
				DO UPDATE SET recipients = recipient_counts.recipients + excluded.recipients`,
				s.companyID, s.country, s.role, s.recipientType, s.status, s.hasLogin, by)
			if err != nil {
				return err
			}
		case by < 0:
			n, err := tx.Exec(ctx, `UPDATE recipient_counts SET recipients = recipients + $7 WHERE company_id = $1 AND country = $2 AND role = $3
				AND recipient_type = $4 AND status = $5 AND has_login = $6`, s.companyID, s.country, s.role, s.recipientType, s.status, s.hasLogin, by)
			if err != nil {
				return err
			}
			if n != 1 {
				return fmt.Errorf("recipient_counts has no row for %+v", s)
			}
		}
	}
	return nil
})

func compareSegments(a, b segment) int {
	login := func(s segment) int {
		if s.hasLogin {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(a.companyID, b.companyID), cmp.Compare(a.country, b.country), cmp.Compare(a.role, b.role),
		cmp.Compare(a.recipientType, b.recipientType), cmp.Compare(a.status, b.status), cmp.Compare(login(a), login(b)))
}
