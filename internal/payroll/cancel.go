package payroll

import (
	"context"
	"errors"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/receivable/quote"
	"github.com/stipend/stipend/internal/webhook"
)

// Cancel cancels a payroll before its release: one that is not fully funded, one paid from the balance, one that
// waits for an approval, or one funded in its own currency that waits for its pay date. Money that the payroll has
// received, including late money, is credited to the company's balance, and so is money that arrives later. Money
// that was counted at the rate of an expired quote is settled at the present rate (see reprice). The same applies to
// the cost of fixed receive amounts. Canceling twice has no effect. Cancel returns payout.ErrProcessing for a payroll
// that is being paid.
func (s *Service) Cancel(ctx context.Context, tx *db.Tx, by identity.Principal, payrollID string) (Payroll, error) {
	p, err := findOwn(ctx, tx, by, payrollID)
	if err == nil && (p.State == Pending || p.State == ExpiredUnfunded) {
		if err = s.cancelDebit(ctx, tx, by, p); err == nil {
			p, err = find(ctx, tx, p.CompanyID, p.ID) // the debit may have funded the payroll meanwhile
		}
	}
	if err != nil {
		return Payroll{}, err
	}
	from := p.State
	switch from {
	case Cancelled:
		return *p, nil
	case Pending, ExpiredUnfunded:
	case Received:
		if p.FromOutside() && tx.Now().Before(p.ReleaseAt) {
			if p.FundingCurrency == p.Currency {
				return *p, s.withdraw(ctx, tx, p, "")
			}
			return *p, ErrState.Detailf("This payroll is funded at the rate of its quote, so it will be paid.")
		}
		if p.FromOutside() {
			return *p, payout.ErrProcessing.Detailf("This payroll is funded and about to be paid out.")
		}
		return *p, s.withdraw(ctx, tx, p, "")
	case OnHold:
		if !p.awaitsApproval() {
			return *p, ErrState.Detailf("This payroll is on hold, and cannot be cancelled.")
		}
		return *p, s.withdraw(ctx, tx, p, "")
	case Released:
		return *p, payout.ErrProcessing.Detailf("This payroll is being paid out.")
	default:
		return *p, ErrState.Detailf("Only a payroll that is not fully funded yet can be cancelled; this one is %s.",
			from)
	}
	f, err := loadFunding(ctx, tx, p)
	if err != nil {
		return *p, err
	}
	if err := s.freeAll(ctx, tx, f); err != nil {
		return *p, err
	}
	p.State, p.Escrow = Cancelled, money.Zero(p.FundingCurrency)
	if err := p.step(ctx, tx, from, webhook.PayrollStatusUpdate, ""); err != nil {
		return *p, err
	}
	return *p, p.advanceEach(ctx, tx, Pending, Cancelled, "")
}

// freeAll credits the money that a payroll has received, minus the operator's gain on it, to the company's balance,
// and ends the payroll's quote.
func (s *Service) freeAll(ctx context.Context, tx *db.Tx, f *funding) error {
	gain, err := s.repriceReceipts(ctx, tx, f)
	if err != nil {
		return err
	}
	for i := range f.receipts {
		r := &f.receipts[i]
		if !r.active || r.escrow.IsZero() && r.suspense.IsZero() {
			continue
		}
		none := money.Zero(f.p.FundingCurrency)
		lines, err := r.rebook(f.p.ID, none, none)
		if err != nil {
			return err
		}
		if err := f.post(ctx, tx, r, "cancel", lines); err != nil {
			return err
		}
	}
	if err := f.p.postGain(tx, gain); err != nil {
		return err
	}
	return quote.Cancel(ctx, tx, f.p.CompanyID, f.p.ID)
}

// withdraw cancels a funded payroll that is not released yet, with an optional reason.
func (s *Service) withdraw(ctx context.Context, tx *db.Tx, p *Payroll, reason string) error {
	if p.FromOutside() {
		f, err := loadFunding(ctx, tx, p)
		if err != nil {
			return err
		}
		if err := s.freeAll(ctx, tx, f); err != nil {
			return err
		}
	} else if err := s.freeBalance(ctx, tx, p); err != nil {
		return err
	}
	short, from := p.Shortfall, p.State
	p.State, p.HeldFrom, p.HoldReason = Cancelled, "", ""
	p.Escrow, p.Shortfall = money.Zero(p.FundingCurrency), money.Zero(p.FundingCurrency)
	if err := p.step(ctx, tx, from, webhook.PayrollStatusUpdate, reason); err != nil {
		return err
	}
	if err := p.absorb(tx, short.Neg()); err != nil {
		return err
	}
	return p.advanceEach(ctx, tx, Received, Cancelled, reason)
}

// freeBalance returns the escrow of a payroll paid from the balance, minus the operator's gain on it, to the
// company's balance.
func (s *Service) freeBalance(ctx context.Context, tx *db.Tx, p *Payroll) error {
	gain := money.Zero(p.FundingCurrency)
	if !tx.Now().Before(p.CreatedAt.Add(s.QuoteValidity)) {
		value, err := s.presentValue(ctx, tx, p)
		if err != nil {
			return err
		}
		if gain, err = s.reprice(ctx, tx, value, p.Escrow); err != nil {
			return err
		}
	}
	if err := p.post(tx, "cancel", []ledger.Line{
		ledger.Debit(ledger.Escrow, p.ID, p.Escrow), ledger.Credit(ledger.CompanyFunds, "", p.Escrow),
	}); err != nil {
		return err
	}
	return p.postGain(tx, gain)
}

// repriceReceipts computes the operator's gain on each receipt that counts at the rate of a quote that has ended, or at
// the rate at which it was accepted late, and returns the sum.
func (s *Service) repriceReceipts(ctx context.Context, tx *db.Tx, f *funding) (money.Amount, error) {
	gain, left := money.Zero(f.p.FundingCurrency), f.p.Total
	var present money.Amount // set when first needed; see presentValue
	for i := range f.receipts {
		r := &f.receipts[i]
		if !r.active || r.escrow.IsZero() || r.rate.IsZero() {
			continue
		}
		value, err := r.rate.Convert(r.escrow, money.Ceil)
		if err != nil {
			return gain, err
		}
		value = smaller(value, left)
		if left, err = left.Sub(value); err != nil {
			return gain, err
		}
		if !f.facts.Ended(r.price, tx.Now()) {
			continue
		}
		if present.Asset() == "" {
			if present, err = s.presentValue(ctx, tx, f.p); err != nil {
				return gain, err
			}
		}
		// The receipt paid for its share of the fixed receive amounts.
		if value, err = value.Fraction(present.Units(), f.p.Total.Units(), money.Ceil); err != nil {
			return gain, err
		}
		if r.repriced, err = s.reprice(ctx, tx, value, r.escrow); err != nil {
			return gain, err
		}
		if gain, err = gain.Add(r.repriced); err != nil {
			return gain, err
		}
	}
	return gain, nil
}

// reprice returns the operator's gain, at least 0, on an amount that was held to cover a value at an earlier rate:
// the part of the amount that is not needed to buy the value at the present rate. The operator has carried the price
// risk since the quote and keeps this gain on a cancellation. Otherwise a company could pay a part of a payroll, or
// keep the payroll from being approved, wait for the market, and cancel when its money is worth more.
func (s *Service) reprice(ctx context.Context, tx *db.Tx, value, held money.Amount) (money.Amount, error) {
	none := money.Zero(held.Asset())
	_, cost, err := s.balanceDue(ctx, tx, value, held.Asset())
	if err != nil || cost.Cmp(held) >= 0 {
		return none, err
	}
	return held.Sub(cost)
}

// presentValue returns a payroll's total at present prices: a payment with a fixed receive amount counts with its
// present cost if that is below the cost that was set. Otherwise a company could fix a price, and cancel when the
// price has fallen.
func (s *Service) presentValue(ctx context.Context, tx *db.Tx, p *Payroll) (money.Amount, error) {
	payments, err := p.payments(ctx, tx, "")
	if err != nil || len(received(payments)) == 0 {
		return p.Total, err
	}
	prices, err := pricesOf(ctx, tx, p.Currency, received(payments), s.SpreadBps)
	if err != nil {
		return p.Total, err
	}
	value := p.Total
	for _, m := range payments {
		fallen, err := m.fallen(prices)
		if err != nil {
			return value, err
		}
		if value, err = value.Sub(fallen); err != nil {
			return value, err
		}
	}
	return value, nil
}

// postGain debits the operator's gain on a canceled payroll from the company's balance.
func (p *Payroll) postGain(tx *db.Tx, gain money.Amount) error {
	if gain.IsZero() {
		return nil
	}
	return p.post(tx, "reprice", []ledger.Line{
		ledger.Debit(ledger.CompanyFunds, "", gain), ledger.Credit(ledger.FXPosition, "", gain),
	})
}

// Expire changes a payroll to expired_unfunded if it has received no money within [UnfundedAfter] (job
// payroll.expire). A payroll stays pending while any money for it is seen or posted, its quote is valid, or its
// direct debit is in progress. The address of an expired payroll stays watched.
func (s *Service) Expire(ctx context.Context, tx *db.Tx, j job.Job) error {
	var in idPayload
	if err := j.Decode(&in); err != nil {
		return err
	}
	p, err := find(ctx, tx, j.CompanyID, in.PayrollID)
	if errors.Is(err, ErrNotFound) || err == nil && p.State != Pending {
		return nil
	}
	if err != nil {
		return err
	}
	end := p.CreatedAt.Add(UnfundedAfter)
	f, err := loadFunding(ctx, tx, p)
	if err != nil {
		return err
	}
	last := f.facts.Newest()
	waits := f.verdict.Waiting || last.State == quote.StateActive && tx.Now().Before(last.ValidTo)
	for _, r := range f.receipts {
		waits = waits || r.active
	}
	if byDebit, err := s.debitWaits(ctx, tx, p); err != nil {
		return err
	} else if byDebit {
		waits = true
	}
	if waits || tx.Now().Before(end) {
		again := tx.Now().Add(UnfundedAfter)
		if tx.Now().Before(end) {
			again = end
		}
		job.Enqueue(tx, job.New{CompanyID: p.CompanyID, Kind: JobExpire, Payload: in, RunAt: again})
		return nil
	}
	p.State = ExpiredUnfunded
	if err := p.step(ctx, tx, Pending, webhook.PayrollStatusUpdate, ""); err != nil {
		return err
	}
	return p.freeInvoices(ctx, tx)
}
