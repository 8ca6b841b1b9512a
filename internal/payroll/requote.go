package payroll

import (
	"context"
	"errors"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/receivable/quote"
)

// Refresh gives the quotes by which a pending payroll can be funded: the active one as it
// is, or a new one for what is still due. Late money that waits is applied first, at the
// present rate; when it covers the rest there is nothing left to quote.
func (s *Service) Refresh(ctx context.Context, tx *db.Tx, by identity.Principal, payrollID string) (Payroll, []quote.Quote, error) {
	company, err := by.Company("")
	if err != nil {
		return Payroll{}, nil, err
	}
	p, err := find(ctx, tx, company, payrollID)
	if err != nil {
		return Payroll{}, nil, err
	}
	if p.FundingMethod != MethodCrypto || p.State != Pending {
		return *p, nil, ErrState
	}
	f, err := look(ctx, tx, p)
	if err != nil {
		return *p, nil, err
	}
	late, err := f.suspense()
	if err != nil {
		return *p, nil, err
	}
	if late.Sign() > 0 {
		if err := s.applyLate(ctx, tx, f); err != nil {
			return *p, nil, err
		}
		_, covered, _, err := f.confirmed()
		if err != nil {
			return *p, nil, err
		}
		if covered {
			return *p, nil, f.conclude(ctx, tx)
		}
	}
	q, err := s.ask(ctx, tx, f)
	if err != nil {
		return *p, nil, err
	}
	p.Quote = &q
	return *p, []quote.Quote{q}, f.conclude(ctx, tx)
}

// announceLate tells that money came after the quote's end and is safe.
func (f *funding) announceLate(ctx context.Context, tx *db.Tx) error {
	var err error
	f.p.FundingState = FundingLate
	if f.p.Escrow, err = f.escrow(); err != nil {
		return err
	}
	return f.p.noteFunding(ctx, tx, EventFundingLate)
}

// autoRequote is the largest late amount, or what it is worth at the present rate, that is applied at a new rate without being asked.
var autoRequote = money.New(money.USD, 1_000_00)

// requote applies late money at the present rate, if it is little enough, and asks for the
// rest by a new quote. More waits for the company to refresh.
func (s *Service) requote(ctx context.Context, tx *db.Tx, f *funding) error {
	late, err := f.suspense()
	if err != nil {
		return err
	}
	_, most, err := quote.Price(ctx, tx, autoRequote, f.p.FundingCurrency, 0)
	if err != nil {
		return err
	}
	if late.Cmp(most) >= 0 {
		return nil
	}
	if err := s.applyLate(ctx, tx, f); err != nil {
		return err
	}
	_, err = s.ask(ctx, tx, f)
	if errors.Is(err, quote.ErrTooMany) || errors.Is(err, ErrQuoteLocked) {
		return nil // the money is applied; the company refreshes when it may
	}
	return err
}

// applyLate takes all late money out of suspense at the present rate.
func (s *Service) applyLate(ctx context.Context, tx *db.Tx, f *funding) error {
	p := f.p
	rate, _, err := quote.Price(ctx, tx, p.Total, p.FundingCurrency, s.SpreadBps)
	if err != nil {
		return err
	}
	if p.Currency == p.FundingCurrency {
		rate = money.Rate{}
	}
	for i := range f.receipts {
		r := &f.receipts[i]
		if r.suspense.IsZero() {
			continue
		}
		c, err := cover(p.Total, p.FundingCurrency, f.receipts)
		if err != nil {
			return err
		}
		room, err := c.Room(r.deposit, rate)
		if err != nil {
			return err
		}
		lines, err := r.apply(p.ID, rate, room)
		if err != nil {
			return err
		}
		if err := f.post(ctx, tx, r, "apply", lines); err != nil {
			return err
		}
	}
	return nil
}

// ask holds a price for what neither confirmed money nor money seen in time covers.
// ErrQuoteLocked says that there is nothing left to ask for.
func (s *Service) ask(ctx context.Context, tx *db.Tx, f *funding) (quote.Quote, error) {
	_, seen, err := f.coverages()
	if err != nil {
		return quote.Quote{}, err
	}
	covered, _, err := seen.Verdict(f.last.ID, f.last.Rate, f.p.ToleranceBps)
	if err != nil {
		return quote.Quote{}, err
	}
	if covered {
		return quote.Quote{}, ErrQuoteLocked
	}
	left, err := seen.Remaining("")
	if err != nil {
		return quote.Quote{}, err
	}
	if f.last.State != quote.StateActive { // an active one is given again as it is
		if err := s.guards.CheckWatched(ctx, tx, f.p.Network); err != nil {
			return quote.Quote{}, err
		}
	}
	p := f.p
	q, err := quote.Refresh(ctx, tx, quote.Params{
		CompanyID: p.CompanyID, ObjectID: p.ID, Due: left, Funding: p.FundingCurrency, Address: p.Address, Network: p.Network,
		Validity: s.QuoteValidity, SpreadBps: s.SpreadBps,
	})
	if err != nil {
		return q, err
	}
	f.quotes[q.ID] = q
	f.last = q
	return q, nil
}
