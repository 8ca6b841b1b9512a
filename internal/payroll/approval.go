package payroll

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/payee/destination"
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

// errChanged is returned if the payments have changed since the member saw them.
var errChanged = apierr.New(apierr.Conflict, "payroll_changed",
	"A payee, a destination or an amount has changed since this page was loaded. Check the payments again.")

// Approve records a member's approval of a payroll that waits for it, and releases the payroll once it has enough
// approvals. The argument shown is the result of [Service.Content] at the time the member saw the payees, amounts and
// destinations. If they have changed since then, Approve returns an error. A repeated approval has no effect. The
// caller must have checked a recent second factor.
func (s *Service) Approve(ctx context.Context, tx *db.Tx, by identity.Principal, payrollID, shown string) (Payroll,
	error) {
	if err := approval.LockLimit(ctx, tx, by.CompanyID); err != nil {
		return Payroll{}, err
	}
	p, err := awaiting(ctx, tx, by, payrollID)
	if err != nil {
		return Payroll{}, err
	}
	first, err := approval.Give(ctx, tx, by, p.subject())
	if err != nil {
		return *p, err
	}
	contents, err := p.contents(ctx, tx)
	if err != nil {
		return *p, err
	}
	if digest(contents) != shown {
		return *p, errChanged
	}
	if err := p.insertContents(ctx, tx, contents); err != nil {
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

// Content returns a digest of what members approve when they approve a payroll: the payee, the amount and the
// destinations of each payment.
func (s *Service) Content(ctx context.Context, tx *db.Tx, p Payroll) (string, error) {
	contents, err := p.contents(ctx, tx)
	return digest(contents), err
}

// BindRelease stores the digests of a payroll's payments when staff are asked to release the payroll. If an approval
// has stored digests before, they are kept.
func BindRelease(ctx context.Context, tx *db.Tx, companyID, payrollID string) error {
	p, err := find(ctx, tx, companyID, payrollID)
	if err != nil {
		return err
	}
	contents, err := p.contents(ctx, tx)
	if err != nil {
		return err
	}
	return p.insertContents(ctx, tx, contents)
}

// approved is a payment with the digest of its payee, amount and destinations.
type approved struct{ paymentID, content string }

// contents returns the digests of all payments, by position.
func (p *Payroll) contents(ctx context.Context, tx *db.Tx) ([]approved, error) {
	payments, err := p.payments(ctx, tx, "")
	if err != nil {
		return nil, err
	}
	payees, all, err := p.destinations(ctx, tx, payments)
	if err != nil {
		return nil, err
	}
	list := make([]approved, len(payments))
	for i, m := range payments {
		_, used := destinations(payees[m.PayeeID], all)
		list[i] = approved{m.ID, contentOf(m, used)}
	}
	return list, nil
}

// contentOf returns the digest of a payment's payee, amount and destinations.
func contentOf(m Payment, used []destination.Destination) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q", m.PayeeID, m.Amount.String(), m.Amount.Asset())
	if m.Receive.Sign() > 0 {
		fmt.Fprintf(h, " receives %q %q", m.Receive.String(), m.Receive.Asset())
	}
	for _, d := range used {
		fmt.Fprintf(h, " %q %d %q", d.ID, d.Allocation, d.Place())
		if d.Fixed.Sign() > 0 {
			fmt.Fprintf(h, " %q %q", d.Fixed.String(), d.Fixed.Asset())
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// digest returns the digest of all payments of a payroll.
func digest(all []approved) string {
	h := sha256.New()
	for _, a := range all {
		fmt.Fprintf(h, "%s %s\n", a.paymentID, a.content)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Decline cancels a payroll that waits for an approval. Nobody is paid, and the money returns to the company's
// balance as described at [Service.Cancel].
func (s *Service) Decline(ctx context.Context, tx *db.Tx, by identity.Principal, payrollID string) (Payroll, error) {
	p, err := awaiting(ctx, tx, by, payrollID)
	if err != nil {
		return Payroll{}, err
	}
	return *p, s.withdraw(ctx, tx, p, ReasonDeclined)
}
