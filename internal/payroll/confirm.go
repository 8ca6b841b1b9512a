package payroll

import (
	"context"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

// ConfirmDestination releases a payment that waits because its payee's destination changed recently. The member
// thereby confirms having asked the payee over another channel; the page has asked the member for a second factor. A
// later change of the destination makes the payment wait again. The argument shown is the PaymentContent that the
// member saw; if the payment or its destinations have changed since then, ConfirmDestination returns errChanged. It
// returns ErrNotFound if there is no such payment, approval.ErrApprover if the member may not approve payments, and
// ErrState if the payment does not wait for a confirmation.
func (s *Service) ConfirmDestination(ctx context.Context, tx *db.Tx, by identity.Principal, payrollID,
	paymentID, shown string) (Payroll, error) {
	p, err := find(ctx, tx, by.CompanyID, payrollID)
	if err != nil {
		return Payroll{}, err
	}
	if _, err := approval.Administrators(ctx, tx, by); err != nil {
		return *p, err
	}
	company, err := identity.CompanyByID(ctx, tx, p.CompanyID)
	if err == nil {
		err = company.Active()
	}
	if err != nil {
		return *p, err
	}
	m, found, err := p.payment(ctx, tx, paymentID)
	switch {
	case err != nil:
		return *p, err
	case !found:
		return *p, apierr.NotFoundErr
	case m.State != OnHold || m.Reason != ReasonCoolDown && m.Reason != ReasonCheck && m.Reason != ReasonAnswer:
		return *p, ErrState
	}
	now, err := s.PaymentContent(ctx, tx, *p, m)
	switch {
	case err != nil:
		return *p, err
	case now != shown:
		return *p, errChanged
	}
	if err := p.confirm(ctx, tx, m.ID, by.UserID); err != nil {
		return *p, err
	}
	if err := p.approveContent(ctx, tx, approved{m.ID, now}); err != nil {
		return *p, err
	}
	p.enqueueRelease(tx)
	return *p, nil
}

// PaymentContent returns a digest of a payment's payee, amount and destinations.
func (s *Service) PaymentContent(ctx context.Context, tx *db.Tx, p Payroll, m Payment) (string, error) {
	payees, all, err := p.destinations(ctx, tx, []Payment{m})
	if err != nil {
		return "", err
	}
	_, used := destinations(payees[m.PayeeID], all)
	return contentOf(m, used), nil
}
