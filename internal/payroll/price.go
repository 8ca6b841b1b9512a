package payroll

import (
	"context"
	"fmt"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
)

// A payment waits with ReasonPrice if its fixed receive amount costs over maxDrift more at the release than when the
// cost was set. It continues when the price falls or when the company decides: the company pays the difference from
// its balance, or cancels the payment and takes back its money.

// errDearer is returned if the difference has risen above the amount that the member saw.
var errDearer = apierr.New(apierr.Conflict, "payroll_changed",
	"The price has risen again, so the difference is higher now. Check it again.")

// PriceDifference returns how much more a payment that waits with ReasonPrice costs now than was paid for it, at
// least 0.
func (s *Service) PriceDifference(ctx context.Context, tx *db.Tx, p Payroll, m Payment) (money.Amount, error) {
	none := money.Zero(p.Currency)
	if m.Receive.Sign() <= 0 {
		return none, nil
	}
	prices, err := pricesOf(ctx, tx, p.Currency, received([]Payment{m}), s.SpreadBps)
	if err != nil {
		return none, err
	}
	cost, err := costOf(m.Receive, p.Currency, prices)
	if err != nil {
		return none, err
	}
	left, err := money.Sum(p.Currency, cost, m.Amount.Neg(), m.Surcharge.Neg())
	if err != nil || left.Sign() < 0 {
		return none, err
	}
	return left, nil
}

// waitsForPrice returns a payment that waits with ReasonPrice, and its payroll. It checks that the member may approve
// payments.
func (s *Service) waitsForPrice(ctx context.Context, tx *db.Tx, by identity.Principal, payrollID,
	paymentID string) (*Payroll, Payment, error) {
	p, err := find(ctx, tx, by.CompanyID, payrollID)
	if err != nil {
		return p, Payment{}, err
	}
	if _, err := approval.Administrators(ctx, tx, by); err != nil {
		return p, Payment{}, err
	}
	company, err := identity.CompanyByID(ctx, tx, p.CompanyID)
	if err == nil {
		err = company.Active()
	}
	if err == nil {
		err = ledger.CheckNoDebt(ctx, tx, p.CompanyID)
	}
	if err != nil {
		return p, Payment{}, err
	}
	m, found, err := p.payment(ctx, tx, paymentID)
	switch {
	case err != nil:
		return p, m, err
	case !found:
		return p, m, apierr.NotFoundErr
	case m.State != OnHold || m.Reason != ReasonPrice || p.State != Released && p.State != PartiallyFulfilled:
		return p, m, ErrState.Detailf("This payment does not wait for a price.")
	}
	return p, m, nil
}

// PayDifference debits from the company's balance the additional cost of a payment that waits with ReasonPrice, and
// releases the payment. most is the PriceDifference that the member saw. If the difference is lower now, the lower
// amount is debited; if it is higher, PayDifference returns an error.
func (s *Service) PayDifference(ctx context.Context, tx *db.Tx, by identity.Principal, payrollID, paymentID,
	most string) (Payroll, error) {
	p, m, err := s.waitsForPrice(ctx, tx, by, payrollID, paymentID)
	if err != nil {
		return dereference(p), err
	}
	shown, err := money.Parse(p.Currency, most)
	if err != nil {
		return *p, errDearer
	}
	left, err := s.PriceDifference(ctx, tx, *p, m)
	switch {
	case err != nil:
		return *p, err
	case left.Cmp(shown) > 0:
		return *p, errDearer
	case left.Sign() > 0:
		if err := p.post(tx, fmt.Sprintf("price:%s:%d", m.ID, m.Version), []ledger.Line{
			ledger.Debit(ledger.CompanyFunds, "", left), ledger.Credit(ledger.FXPosition, "", left),
		}); err != nil {
			return *p, err
		}
		paid, err := m.Surcharge.Add(left)
		if err != nil {
			return *p, err
		}
		if err := p.setSurcharge(ctx, tx, &m, paid); err != nil {
			return *p, err
		}
		db.History(tx, p.CompanyID, m.ID, m.Version, string(OnHold), string(OnHold), "price_difference_paid")
	}
	p.enqueueRelease(tx)
	return *p, nil
}

// TakeBack cancels a payment that waits with ReasonPrice. It credits the company's balance with the amount paid for
// the payment, but at most its present cost, and with the fee. The operator keeps the rest, because the price may
// have fallen meanwhile.
func (s *Service) TakeBack(ctx context.Context, tx *db.Tx, by identity.Principal, payrollID, paymentID string) (Payroll,
	error) {
	p, m, err := s.waitsForPrice(ctx, tx, by, payrollID, paymentID)
	if err != nil {
		return dereference(p), err
	}
	if owes, err := p.owes(ctx, tx); err != nil || owes {
		if err == nil {
			err = ErrState.Detailf("The funding of this payroll was reversed. Pay what is owed first.")
		}
		return *p, err
	}
	prices, err := pricesOf(ctx, tx, p.Currency, received([]Payment{m}), s.SpreadBps)
	if err != nil {
		return *p, err
	}
	kept, err := m.fallen(prices)
	if err != nil {
		return *p, err
	}
	all, err := money.Sum(p.Currency, m.Amount, m.Fee, m.Surcharge, kept.Neg())
	if err != nil {
		return *p, err
	}
	gain, err := kept.Sub(m.Surcharge)
	if err != nil {
		return *p, err
	}
	if err := p.post(tx, "take_back:"+m.ID, []ledger.Line{
		ledger.Debit(ledger.PayeePayable, m.ID, m.Amount), ledger.Debit(ledger.FeeRevenue, "payroll", m.Fee),
		credit(ledger.FXPosition, "", gain), ledger.Credit(ledger.CompanyFunds, "", all),
	}); err != nil {
		return *p, err
	}
	if err := p.advance(ctx, tx, &m, Cancelled, ReasonPrice, nil); err != nil {
		return *p, err
	}
	return *p, p.reviseOrConclude(ctx, tx)
}

func dereference(p *Payroll) Payroll {
	if p == nil {
		return Payroll{}
	}
	return *p
}
