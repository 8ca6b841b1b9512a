package payroll

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
)

// changeShown is the time for which a change of a payee's destination is shown with payrolls.
const changeShown = 30 * 24 * time.Hour

// RecentDestinationChanges returns the times of destination changes in the last thirty days, by payee ID, for payees
// whom this payroll has not paid yet. Approvers see these changes. A first destination is not a change.
func (s *Service) RecentDestinationChanges(ctx context.Context, tx *db.Tx, p Payroll) (map[string]time.Time, error) {
	var ids []string
	for i := range p.Payments {
		if m := &p.Payments[i]; len(m.Outputs) == 0 && m.State != Cancelled {
			ids = append(ids, m.PayeeID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	payees, err := payee.Payees(ctx, tx, p.CompanyID, unique(ids))
	if err != nil {
		return nil, err
	}
	changed, err := destination.ChangedSince(ctx, tx, owners(payees), tx.Now().Add(-changeShown))
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(payees, func(_ string, who payee.Payee) bool {
		return changed[who.ID].IsZero() && changed[who.UserID].IsZero()
	})
	if len(payees) == 0 {
		return nil, nil
	}
	all, err := destination.ForOwners(ctx, tx, owners(payees))
	if err != nil {
		return nil, err
	}
	paid, err := lastPaid(ctx, tx, p.CompanyID, slices.Sorted(maps.Keys(payees)))
	if err != nil {
		return nil, err
	}
	recent := map[string]time.Time{}
	for id, who := range payees {
		owner, _ := destinations(who, all)
		at, last := changed[owner], paid[id]
		if !at.IsZero() && !last.IsZero() && last.Before(at) {
			recent[id] = at
		}
	}
	return recent, nil
}
