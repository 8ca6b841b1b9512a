package payroll

import (
	"context"

	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/webhook"
)

// The release itself checks that a payroll has the required approvals, so every path to a payout is checked. A payroll
// that lacks approvals is on hold with ReasonApproval. Package approval has the rules.

var errNotAwaiting = ErrState.Detailf("This payroll does not wait for an approval.")

func (p *Payroll) subject() approval.Subject {
	return approval.Subject{CompanyID: p.CompanyID, ID: p.ID, Creator: p.CreatedBy}
}

// awaiting loads a payroll that waits for an approval, for a member who may approve payments.
func awaiting(ctx context.Context, tx *db.Tx, by identity.Principal, payrollID string) (*Payroll, error) {
	p, err := find(ctx, tx, by.CompanyID, payrollID)
	if err != nil {
		return nil, err
	}
	if _, err := approval.Administrators(ctx, tx, by); err != nil {
		return p, err
	}
	if !p.awaitsApproval() {
		return p, errNotAwaiting
	}
	return p, nil
}

func (p *Payroll) awaitsApproval() bool { return p.State == OnHold && p.HoldReason == ReasonApproval }

// Approve records a member's approval of a payroll that waits for it, and releases the payroll once it has enough. A
// repeated approval has no effect. The caller has checked a recent second factor.
func (s *Service) Approve(ctx context.Context, tx *db.Tx, by identity.Principal, payrollID string) (Payroll, error) {
	p, err := awaiting(ctx, tx, by, payrollID)
	if err != nil {
		return Payroll{}, err
	}
	first, err := approval.Give(ctx, tx, by, p.subject())
	if err != nil {
		return *p, err
	}
	progress, err := approval.ProgressOf(ctx, tx, p.subject())
	switch {
	case err != nil:
		return *p, err
	case progress.Complete():
		p.State, p.HeldFrom, p.HoldReason = Received, "", ""
		p.enqueueRelease(tx)
	case !first:
		return *p, nil
	}
	return *p, p.step(ctx, tx, OnHold, webhook.PayrollStatusUpdate, ReasonApproved)
}

// Decline cancels a payroll that waits for an approval: nobody is paid, and the money returns to the company's
// balance.
func (s *Service) Decline(ctx context.Context, tx *db.Tx, by identity.Principal, payrollID string) (Payroll, error) {
	p, err := awaiting(ctx, tx, by, payrollID)
	if err != nil {
		return Payroll{}, err
	}
	return *p, p.withdraw(ctx, tx, ReasonDeclined)
}

// withdraw cancels a payroll that waits for an approval, with an optional reason.
func (p *Payroll) withdraw(ctx context.Context, tx *db.Tx, reason string) error {
	if !p.FromOutside() {
		return p.giveBack(ctx, tx, reason)
	}
	f, err := loadFunding(ctx, tx, p)
	if err != nil {
		return err
	}
	if err := f.freeAll(ctx, tx); err != nil {
		return err
	}
	short := p.Shortfall
	p.State, p.HeldFrom, p.HoldReason = Cancelled, "", ""
	p.Escrow, p.Shortfall = money.Zero(p.FundingCurrency), money.Zero(p.FundingCurrency)
	if err := p.step(ctx, tx, OnHold, webhook.PayrollStatusUpdate, reason); err != nil {
		return err
	}
	if err := p.absorb(tx, short.Neg()); err != nil {
		return err
	}
	return p.advanceEach(ctx, tx, Received, Cancelled, reason)
}
