package payroll

import (
	"context"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/payout"
)

// freezeAgain is the delay of the second check of a frozen company's payrolls. It is longer than any release that was
// already running when the company was frozen.
const freezeAgain = time.Minute

// Reverted is the payload of JobReverted.
type Reverted struct {
	PayrollID string `json:"payroll_id"`
	Again     bool   `json:"again,omitempty"` // whether this is a repeated check, which the handler enqueued
}

// Freeze puts all payrolls of a company that may still send payments on hold, and the unsent payouts of payrolls that
// have ended. Later releases check for the freeze themselves.
func Freeze(ctx context.Context, tx *db.Tx, companyID string) error {
	if err := holdAll(ctx, tx, companyID); err != nil {
		return err
	}
	job.Enqueue(tx, job.New{CompanyID: companyID, Kind: JobFreeze, RunAt: tx.Now().Add(freezeAgain)})
	return nil
}

// HandleFreeze handles the job [JobFreeze]: if the company is still frozen, it puts its payrolls and payouts on hold
// again.
func HandleFreeze(ctx context.Context, tx *db.Tx, j job.Job) error {
	if frozen, err := isFrozen(ctx, tx, j.CompanyID); err != nil || !frozen {
		return err
	}
	return holdAll(ctx, tx, j.CompanyID)
}

func holdAll(ctx context.Context, tx *db.Tx, companyID string) error {
	ids, err := going(ctx, tx, companyID)
	if err != nil {
		return err
	}
	for _, id := range ids {
		p, err := find(ctx, tx, companyID, id)
		if err == nil {
			err = p.hold(ctx, tx, ReasonFrozen)
		}
		if err != nil {
			return err
		}
	}
	// A payment with several payouts ends when one payout fails. Its other payouts may still be unsent.
	ended, err := endedWithUnsent(ctx, tx, companyID)
	for _, id := range ended {
		if err == nil {
			_, err = payout.Hold(ctx, tx, companyID, id)
		}
	}
	return err
}

// Unfreeze resumes the payrolls and payouts that the company's freeze put on hold, unless another reason prevents it,
// and re-evaluates the payrolls whose debt was settled during the freeze.
func Unfreeze(ctx context.Context, tx *db.Tx, companyID string) error {
	if err := unholdAll(ctx, tx, companyID, ReasonFrozen); err != nil {
		return err
	}
	ended, err := endedOnHold(ctx, tx, companyID)
	for _, id := range ended {
		if err == nil {
			err = payout.Resume(ctx, tx, companyID, id)
		}
		enqueueRelease(tx, companyID, id, time.Time{}) // pays payees whose destination was corrected during the freeze
	}
	if err != nil {
		return err
	}
	return resumeOwing(ctx, tx, companyID)
}

func isFrozen(ctx context.Context, tx *db.Tx, companyID string) (bool, error) {
	company, err := identity.CompanyByID(ctx, tx, companyID)
	return err == nil && company.Active() != nil, err
}

// unholdAll ends the hold of all payrolls of a company that are on hold for a reason.
func unholdAll(ctx context.Context, tx *db.Tx, companyID, reason string) error {
	ids, err := heldFor(ctx, tx, companyID, reason)
	if err != nil {
		return err
	}
	for _, id := range ids {
		p, err := find(ctx, tx, companyID, id)
		if err == nil {
			err = p.unhold(ctx, tx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
