package payee

import (
	"context"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/screening"
	"github.com/stipend/stipend/internal/webhook"
)

// JobScreen is the kind of job that screens a payee against the sanctions lists. Its payload is a [JobPayload]. It is
// enqueued when a payee becomes active, and when the payee's name or a destination changes.
const JobScreen = "recipient.screen"

// Screen enqueues a [JobScreen].
func Screen(tx *db.Tx, companyID, id string) {
	job.Enqueue(tx, job.New{CompanyID: companyID, Kind: JobScreen, Payload: JobPayload{id}})
}

// JobPayable is the kind of job that executes payments that wait for a payee's destinations. Its payload is a
// [JobPayload]. It is enqueued when the destinations used for payments change, and when a payee becomes active again.
const JobPayable = "recipient.payable"

// Moved enqueues jobs after a change of a payee's destinations, for every company that pays the payee: a [JobScreen]
// if screen is true, because a destination is new, and a [JobPayable] if elsewhere is true, because payments now go
// to another account. For a user's own income, the company of the jobs is the user's ID.
func Moved(ctx context.Context, tx *db.Tx, by identity.Principal, owner Payee, screen, elsewhere bool) error {
	companies := []string{by.CompanyID}
	if owner.UserID != "" {
		var err error
		if companies, err = companiesOf(ctx, tx, owner.UserID, ""); err != nil {
			return err
		}
		if elsewhere {
			Payable(tx, owner.UserID, owner.UserID)
		}
	}
	for _, company := range companies {
		if company == "" {
			continue
		}
		if screen {
			Screen(tx, company, owner.ID)
		}
		if elsewhere {
			Payable(tx, company, owner.ID)
		}
	}
	return nil
}

// Payable enqueues a [JobPayable], after a change that may allow waiting payments to a payee.
func Payable(tx *db.Tx, companyID, id string) {
	job.Enqueue(tx, job.New{CompanyID: companyID, Kind: JobPayable, Payload: JobPayload{id}})
}

// Suspend makes a payee inactive while staff review a match with a sanctions list. It does nothing if the payee is
// already inactive or unknown.
func Suspend(ctx context.Context, tx *db.Tx, companyID, id string) error {
	return review(ctx, tx, companyID, id, deactivate, func(r Recipient) bool { return r.Status != Inactive })
}

// Restore reverts [Suspend]: it makes the payee active if their allocations total 100, and otherwise pending. A payee
// whom the company itself deactivated stays inactive.
func Restore(ctx context.Context, tx *db.Tx, companyID, id string) error {
	changes, err := db.Changes(ctx, tx, companyID, id)
	if err != nil || len(changes) == 0 || changes[len(changes)-1].Reason != screening.Reason {
		return err
	}
	return review(ctx, tx, companyID, id, reactivate, func(r Recipient) bool { return r.Status == Inactive })
}

func review(ctx context.Context, tx *db.Tx, companyID, id string, guard func(context.Context, *db.Tx,
	Recipient) (Recipient, bool, error), wanted func(Recipient) bool) error {
	for {
		known, err := Payees(ctx, tx, companyID, []string{id})
		if err != nil || len(known) == 0 {
			return err
		}
		old, err := selectOne(ctx, tx, companyID, id)
		if err != nil || !wanted(old) {
			return err
		}
		r, moved, err := guard(ctx, tx, old)
		if err != nil {
			return err
		}
		if moved {
			db.History(tx, r.CompanyID, r.ID, r.Version, old.Status, r.Status, screening.Reason)
			return emit(ctx, tx, webhook.RecipientStatusUpdate, r)
		}
	}
}
