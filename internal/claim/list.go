package claim

import (
	"context"
	"errors"
	"time"

	"golang.org/x/text/unicode/norm"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/receivable/deposit"
)

// Filter selects and pages claims of a company, newest first.
type Filter struct {
	Status   State
	PayerID  string
	From, To time.Time // selects claims created in [From, To)
	Page     int       // number of the page, from 1
	PerPage  int       // claims on a page, 1 to 100
}

// List returns a page of the company's claims, newest first, without their quotes, and their total number.
func (s *Service) List(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string, f Filter) ([]Claim,
	int64, error) {
	company, err := by.Company(companyID)
	if err != nil {
		return nil, 0, err
	}
	f.Page, f.PerPage = max(f.Page, 1), min(max(f.PerPage, 1), 100)
	f.PayerID = norm.NFC.String(f.PayerID) // the form in which references are stored
	return list(ctx, tx, company, f)
}

// Payment is one output that pays a claim.
type Payment struct {
	deposit.Deposit
	Confirmations int64 // current number of confirmations
}

// Detail is a claim with its payments.
type Detail struct {
	Claim
	Due      money.Amount // part of the amount that no payment seen in time covers
	Rest     money.Amount // Due in the funding asset, at the newest quote
	Payments []Payment    // ordered by the time first seen, including replaced and evicted payments
}

// Get returns a claim of the company with its payments.
func (s *Service) Get(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, claimID string) (Detail,
	error) {
	c, err := ofCompany(ctx, tx, by, companyID, claimID, find)
	if err != nil {
		return Detail{}, err
	}
	return s.detail(ctx, tx, c)
}

// lockAny locks a claim for the payer, who knows only its ID.
func lockAny(ctx context.Context, tx *db.Tx, claimID string) (*Claim, error) {
	c, err := findAny(ctx, tx, claimID)
	if err != nil {
		return nil, err
	}
	return lock(ctx, tx, c.CompanyID, c.ID)
}

func (s *Service) detail(ctx context.Context, tx *db.Tx, c *Claim) (Detail, error) {
	f, err := gather(ctx, tx, c)
	if err != nil {
		return Detail{}, err
	}
	if err := s.show(ctx, tx, f); err != nil {
		return Detail{}, err
	}
	t, err := f.current().Evaluate()
	if err != nil {
		return Detail{}, err
	}
	d := Detail{Claim: *c, Due: t.Left, Rest: t.Room, Payments: make([]Payment, len(f.Deposits))}
	if c.State == Paid || c.State == Confirming {
		d.Due = money.Zero(t.Left.Asset())
	}
	for i, one := range f.Deposits {
		out, err := chain.GetOutput(ctx, tx, one.Chain, one.Outpoint)
		if err != nil && !errors.Is(err, chain.ErrUnknown) {
			return d, err
		}
		d.Payments[i] = Payment{one, out.Depth}
	}
	return d, nil
}
