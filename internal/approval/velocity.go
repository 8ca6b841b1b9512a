package approval

import (
	"context"
	"maps"
	"slices"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/money"
)

// Velocity has the amounts that may be paid out in a day and in a week without the approval of staff: by one company,
// and to one payee from all companies together. An amount without an asset means no limit.
//
// Released amounts count even if they are returned later. A person's own income counts as paid to the person.
type Velocity struct{ CompanyDay, CompanyWeek, PayeeDay, PayeeWeek money.Amount }

// WithVelocity returns the release limit with the given velocity limits.
func (l ReleaseLimit) WithVelocity(v Velocity) ReleaseLimit {
	l.velocity = v
	return l
}

// limits are the velocity limits of one kind of subjects.
type limits struct{ day, week money.Amount }

// none reports whether there are no limits, so that nothing needs to be counted.
func (l limits) none() bool { return l.day.Asset() == "" && l.week.Asset() == "" }

// of returns the limits of a company or of a user.
func (v Velocity) of(id string) limits {
	if identity.IsUser(id) {
		return v.payee()
	}
	return limits{v.CompanyDay, v.CompanyWeek}
}

func (v Velocity) payee() limits { return limits{v.PayeeDay, v.PayeeWeek} }

// PayeesApproved reports whether the amounts that a payroll pays to each payee may be paid: no payee exceeds the
// velocity limits, or two staff members have approved the release. It counts the amounts if they may be paid.
func (l ReleaseLimit) PayeesApproved(ctx context.Context, tx *db.Tx, companyID, objectID string,
	amounts map[string]money.Amount) (bool, error) {
	return l.velocity.payee().allowed(ctx, tx, companyID, objectID, amounts, false)
}

// allowed reports whether an object may pay amounts to, or from, its subjects now; see [limits.permit]. Allowed
// amounts are counted once. An object whose amounts were counted stays allowed.
func (l limits) allowed(ctx context.Context, tx *db.Tx, companyID, objectID string, amounts map[string]money.Amount,
	above bool) (bool, error) {
	if l.none() {
		return l.permit(ctx, tx, companyID, objectID, amounts, above)
	}
	// Concurrent payments of the same subjects wait, and then include these amounts.
	if err := lockSubjects(ctx, tx, slices.Sorted(maps.Keys(amounts)), tx.Now().Add(-week)); err != nil {
		return false, err
	}
	if ok, err := l.permit(ctx, tx, companyID, objectID, amounts, above); err != nil || !ok {
		return false, err
	}
	return true, insertVelocity(ctx, tx, objectID, amounts)
}

// permit reports whether amounts, together with the amounts already counted, are within the limits, or staff approved
// the object's release. above states that the object exceeds another limit in any case.
func (l limits) permit(ctx context.Context, tx *db.Tx, companyID, objectID string, amounts map[string]money.Amount,
	above bool) (bool, error) {
	if !above && !l.none() {
		var err error
		if above, err = l.above(ctx, tx, objectID, amounts); err != nil {
			return false, err
		}
	}
	if !above {
		return true, nil
	}
	return approved(ctx, tx, Release, companyID, objectID)
}

// above reports whether one of the subjects would exceed a limit.
func (l limits) above(ctx context.Context, tx *db.Tx, objectID string, amounts map[string]money.Amount) (bool, error) {
	ids := slices.Sorted(maps.Keys(amounts))
	counted, err := velocityOf(ctx, tx, objectID, ids)
	if err != nil {
		return false, err
	}
	ids = slices.DeleteFunc(ids, func(id string) bool {
		was, ok := counted[id]
		return ok && was.Asset() == amounts[id].Asset() && was.Cmp(amounts[id]) >= 0
	})
	for _, window := range []struct {
		limit money.Amount
		since int64
	}{{l.day, db.Micros(tx.Now().Add(-day))}, {l.week, db.Micros(tx.Now().Add(-week))}} {
		if window.limit.Asset() == "" || len(ids) == 0 {
			continue
		}
		used, err := velocitySince(ctx, tx, objectID, ids, window.since)
		if err != nil {
			return false, err
		}
		for _, id := range ids {
			if over, err := above(ctx, tx, window.limit, append(used[id], amounts[id])...); err != nil || over {
				return over, err
			}
		}
	}
	return false, nil
}
