package app

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/httpapi"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/screening"
	"github.com/stipend/stipend/internal/travelrule"
)

// Erase erases the data of a person or company in all packages that store it, unless kyc.EraseUnpaidSince returns an
// error. It adds the erasure to the audit log, with a reason. until is the latest time of a last payment that may be
// erased.
func Erase(ctx context.Context, tx *db.Tx, subjectID string, until time.Time, reason string) error {
	names, err := kyc.EraseUnpaidSince(ctx, tx, subjectID, until)
	if err != nil {
		return err
	}
	if err := travelrule.Erase(ctx, tx, subjectID); err != nil {
		return err
	}
	if err := httpapi.ForgetAnswers(ctx, tx, names); err != nil {
		return err
	}
	return backoffice.RecordCommand(ctx, tx, backoffice.Erase, subjectID, reason)
}

// endedSource returns the IDs of people or companies that were not erased and whose relationship ended by a given
// time, sorted by ID and starting after the ID after.
type endedSource func(ctx context.Context, tx *db.Tx, until time.Time, after string, limit int) ([]string, error)

var endedSources = []endedSource{payee.Ended, identity.ClosedUsers, kyc.Ended}

// ended is a person or company that a source returns, and the ID before it.
type ended struct {
	id, after string
	source    endedSource
	until     time.Time
}

// still reports whether the source still returns the person or company, which another process may have erased.
func (e ended) still(ctx context.Context, tx *db.Tx) (bool, error) {
	ids, err := e.source(ctx, tx, e.until, e.after, 1)
	return len(ids) == 1 && ids[0] == e.id, err
}

const (
	endedPage = 500
	eraseLock = 0x657261736564 // advisory lock under which ended relationships are erased
)

// eachEnded calls f for each person and company whose relationship ended longer ago than kept.
func eachEnded(ctx context.Context, read func(func(context.Context, *db.Tx) error) error, kept time.Duration,
	f func(ended) error) error {
	for _, source := range endedSources {
		for after, more := "", true; more; {
			var ids []string
			var until time.Time
			if err := read(func(ctx context.Context, tx *db.Tx) (err error) {
				until = tx.Now().Add(-kept)
				ids, err = source(ctx, tx, until, after, endedPage)
				return err
			}); err != nil {
				return err
			}
			for _, id := range ids {
				if err := f(ended{id, after, source, until}); err != nil {
					return err
				}
				after = id
			}
			more = len(ids) == endedPage
		}
	}
	return ctx.Err()
}

// countEnded returns the number of people and companies that the next run of eraseEnded tries to erase.
func countEnded(ctx context.Context, tx *db.Tx, kept time.Duration) (n int64, err error) {
	counted := map[string]bool{}
	err = eachEnded(ctx, func(f func(context.Context, *db.Tx) error) error { return f(ctx, tx) }, kept,
		func(e ended) error {
			counted[e.id] = true
			return nil
		})
	return int64(len(counted)), err
}

// eraseEnded erases the data of people and companies whose relationship ended longer ago than kept, each in a
// separate transaction. It retains those whom a law or an open payment protects: with a legal hold, with a sanctions
// match that was not cleared, with a payment within the period, and users whom another company still pays.
func eraseEnded(ctx context.Context, d *db.DB, kept time.Duration) (erased, retained int64, err error) {
	err = eachEnded(ctx, func(f func(context.Context, *db.Tx) error) error { return d.Read(ctx, f) }, kept,
		func(e ended) error {
			var still bool
			err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
				if err := tx.Lock(ctx, eraseLock); err != nil {
					return err
				}
				if still, err = e.still(ctx, tx); err != nil || !still {
					return err
				}
				if err := checkEnded(ctx, tx, e.id); err != nil {
					return err
				}
				return Erase(ctx, tx, e.id, e.until, "retention period over")
			})
			if _, declared := apierr.As(err); declared {
				retained++
				return nil
			}
			if err == nil && still {
				erased++
			}
			return err
		})
	if err == nil && erased > 0 {
		err = d.Vacuum(ctx)
	}
	return erased, retained, err
}

// checkEnded returns an error if a company still pays the user, or if the person or company has a sanctions match
// that was not cleared.
func checkEnded(ctx context.Context, tx *db.Tx, subjectID string) error {
	if strings.HasPrefix(subjectID, "usr_") {
		switch active, err := payee.HasActive(ctx, tx, subjectID); {
		case err != nil:
			return err
		case active:
			return kyc.ErrUnpaid
		}
	}
	hits, err := screening.HitsAbout(ctx, tx, subjectID, endedPage)
	if err == nil && slices.ContainsFunc(hits, func(h screening.Hit) bool { return h.State != screening.Cleared }) {
		err = kyc.ErrRetention
	}
	return err
}
