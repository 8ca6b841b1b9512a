package payee

import (
	"context"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/screening"
	"github.com/stipend/stipend/internal/webhook"
)

// JobScreen is the kind of job that asks to compare a payee with the sanctions lists; its payload is a [Look]. It is enqueued
// when a payee becomes active, and when their name or a destination changes.
const JobScreen = "recipient.screen"

// Screen has a payee of a company compared with the sanctions lists.
func Screen(tx *db.Tx, companyID, id string) {
	job.Enqueue(tx, job.New{CompanyID: companyID, Kind: JobScreen, Payload: JobPayload{id}})
}

// JobPayable is the kind of job that asks to pay what waits for a payee's destinations; its payload is a [Look]. It is enqueued
// when money begins to go elsewhere, and when a payee becomes active again.
const JobPayable = "recipient.payable"

// Moved has everybody who pays a payee look at the destinations that the payee has now: at all of them where screen says that one
// is new, to compare it with the sanctions lists, and where money goes elsewhere, to pay what waits for that.
func Moved(ctx context.Context, tx *db.Tx, by identity.Principal, owner Payee, screen, elsewhere bool) error {
	companies := []string{by.CompanyID}
	if owner.UserID != "" {
		var err error
		if companies, err = companiesOf(ctx, tx, owner.UserID); err != nil {
			return err
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
			payable(tx, company, owner.ID)
		}
	}
	return nil
}

func payable(tx *db.Tx, companyID, id string) {
	job.Enqueue(tx, job.New{CompanyID: companyID, Kind: JobPayable, Payload: JobPayload{id}})
}

// Suspend makes a payee inactive while a person looks at them. One who is inactive already stays so, and unknown ones are
// nobody's business.
func Suspend(ctx context.Context, tx *db.Tx, companyID, id string) error {
	return review(ctx, tx, companyID, id, deactivate, func(r Recipient) bool { return r.Status != Inactive })
}

// Restore takes a Suspend back: the payee is active if their destinations take all of a payment, else pending. One whom the
// company itself made inactive stays so.
func Restore(ctx context.Context, tx *db.Tx, companyID, id string) error {
	changes, err := db.Changes(ctx, tx, companyID, id)
	if err != nil || len(changes) == 0 || changes[len(changes)-1].Reason != screening.Reason {
		return err
	}
	return review(ctx, tx, companyID, id, reactivate, func(r Recipient) bool { return r.Status == Inactive })
}

func review(ctx context.Context, tx *db.Tx, companyID, id string, guard func(context.Context, *db.Tx, Recipient) (Recipient, bool, error), wanted func(Recipient) bool) error {
	for {
		known, err := selectPayees(ctx, tx, companyID, []string{id})
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
