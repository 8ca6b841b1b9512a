package payroll

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/receivable"
	"github.com/stipend/stipend/internal/receivable/quote"
	"github.com/stipend/stipend/internal/webhook"
)

const reasonRevalued = "revalued"

// Refresh returns the quotes that can fund a pending payroll: the active quote unchanged, or else a new quote for the
// amount still due. It first accepts late money in suspense, at the current rate. If that covers the rest, it returns
// no quote.
func (s *Service) Refresh(ctx context.Context, tx *db.Tx, by identity.Principal, payrollID string) (Payroll,
	[]quote.Quote, error) {
	p, err := findOwn(ctx, tx, by, payrollID)
	if err != nil {
		return Payroll{}, nil, err
	}
	if p.FundingMethod != MethodCrypto || p.State != Pending {
		return *p, nil, ErrState
	}
	f, err := loadFunding(ctx, tx, p)
	if err != nil {
		return *p, nil, err
	}
	last := f.facts.Newest()
	valid := last.State == quote.StateActive && last.Covers(tx.Now())
	if len(f.facts.Deposits) == 0 && len(f.receipts) == 0 && !valid {
		if changed, err := s.revalue(ctx, tx, p); err != nil {
			return *p, nil, err
		} else if changed {
			db.History(tx, p.CompanyID, p.ID, p.Version, string(p.State), string(p.State), reasonRevalued)
			if err := p.emit(tx, webhook.PayrollUpdated, p.State, ""); err != nil {
				return *p, nil, err
			}
			if f, err = loadFunding(ctx, tx, p); err != nil {
				return *p, nil, err
			}
		}
	}
	late, err := f.suspense()
	if err != nil {
		return *p, nil, err
	}
	if late.Sign() > 0 {
		if err := s.acceptLate(ctx, tx, f); err != nil {
			return *p, nil, err
		}
		if f.verdict.Covered {
			return *p, nil, f.conclude(ctx, tx)
		}
	}
	q, err := s.quoteRest(ctx, tx, f)
	if err != nil {
		return *p, nil, err
	}
	p.Quote = &q
	return *p, []quote.Quote{q}, f.conclude(ctx, tx)
}

// announceLate emits an event about confirmed money that arrived after the end of the quote.
func (f *funding) announceLate(ctx context.Context, tx *db.Tx) error {
	var err error
	f.p.FundingState = FundingLate
	if f.p.Escrow, err = f.escrow(); err != nil {
		return err
	}
	return f.p.noteFunding(ctx, tx, webhook.PayrollFundingLate)
}

// requote accepts late money at the current rate if the amount is below the limit for automatic acceptance, and
// creates a quote for the rest. A larger amount of late money waits until the company calls Refresh.
func (s *Service) requote(ctx context.Context, tx *db.Tx, f *funding) error {
	late, err := f.suspense()
	if err != nil {
		return err
	}
	if automatic, err := receivable.AutomaticLate(ctx, tx, late); err != nil || !automatic {
		return err
	}
	if err := s.acceptLate(ctx, tx, f); err != nil {
		return err
	}
	_, err = s.quoteRest(ctx, tx, f)
	if errors.Is(err, quote.ErrTooMany) || errors.Is(err, ErrQuoteLocked) {
		return nil // the late money is accepted; the company can request a quote later
	}
	return err
}

// acceptLate credits all late money from suspense at the current rate.
func (s *Service) acceptLate(ctx context.Context, tx *db.Tx, f *funding) error {
	ids, rate, err := f.facts.AcceptLate(ctx, tx, s.SpreadBps)
	if err != nil {
		return err
	}
	for i := range f.receipts {
		if r := &f.receipts[i]; slices.Contains(ids, r.deposit) {
			r.price, r.rate = r.deposit, rate
		}
	}
	if err := f.evaluate(); err != nil {
		return err
	}
	if err := f.postVerdict(ctx, tx); err != nil {
		return err
	}
	return f.evaluate()
}

// quoteRest creates a quote for the amount that is covered neither by confirmed money nor by money seen in time. It
// returns ErrQuoteLocked if nothing is left.
func (s *Service) quoteRest(ctx context.Context, tx *db.Tx, f *funding) (quote.Quote, error) {
	p := f.p
	q, err := f.facts.Requote(ctx, tx, quote.Params{
		CompanyID: p.CompanyID, ObjectID: p.ID, Funding: p.FundingCurrency, Address: p.Address, Network: p.Network,
		Validity: s.QuoteValidity, SpreadBps: s.SpreadBps,
	}, func(until time.Time) error { return s.guards.CheckWatched(ctx, tx, p.Network, until) })
	if errors.Is(err, receivable.ErrCovered) {
		return q, ErrQuoteLocked
	}
	if err != nil {
		return q, err
	}
	return q, f.evaluate()
}
