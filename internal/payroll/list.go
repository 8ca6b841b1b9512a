package payroll

import (
	"context"
	"errors"
	"time"

	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/receivable/quote"
)

const (
	defaultPerPage = 20
	maxPerPage     = 100
)

// List returns a page of the company's payrolls, newest first, and their total number.
func (s *Service) List(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string, f Filter) ([]Payroll,
	int64, error) {
	company, err := by.Company(companyID)
	if err != nil {
		return nil, 0, err
	}
	f.Page = max(f.Page, 1)
	if f.PerPage < 1 {
		f.PerPage = defaultPerPage
	}
	f.PerPage = min(f.PerPage, maxPerPage)
	l := &db.List{Columns: payrollColumns, Table: "payrolls", Order: "payroll_id DESC", Page: f.Page,
		PerPage: f.PerPage}
	l.Where("company_id = ?", company)
	if f.Status != "" {
		l.Where("state = ?", string(f.Status))
	}
	if f.ExternalID != "" {
		l.Where("external_id = ?", f.ExternalID)
	}
	l.Created(f.From, f.To)
	return db.ReadPage(ctx, tx, l, func(r *db.Rows) (Payroll, error) { return scanPayroll(company, r.Scan) })
}

// Issue is the number of payments of a payroll that need attention: those in ActionRequired or Returned, and those
// OnHold because the operator owns too little of an asset.
type Issue struct {
	CompanyID string // set by WaitingForConversion only
	PayrollID string
	State     State
	Payments  int64
}

// Paid is the sum of fulfilled payments of one day's payrolls in one currency.
type Paid struct {
	Day    time.Time
	Volume money.Amount
}

// Head returns a payroll of the company with its quote, but without its payments, outputs and timeline.
func (s *Service) Head(ctx context.Context, tx *db.Tx, by identity.Principal, payrollID string) (Payroll, error) {
	p, err := findOwn(ctx, tx, by, payrollID)
	if err != nil {
		return Payroll{}, err
	}
	if p.Approval, err = approval.ProgressOf(ctx, tx, p.subject()); err != nil {
		return *p, err
	}
	if !p.awaitsApproval() && len(p.Approval.By) == 0 {
		p.Approval = approval.Progress{}
	}
	if p.FundingMethod == MethodCrypto {
		q, err := quote.Last(ctx, tx, p.CompanyID, p.ID, p.FundingCurrency)
		switch {
		case err == nil:
			p.Quote = &q
		case !errors.Is(err, quote.ErrNotFound):
			return *p, err
		}
	}
	return *p, nil
}

// Get returns a payroll of the company with its quote, payments, outputs and timeline.
func (s *Service) Get(ctx context.Context, tx *db.Tx, by identity.Principal, payrollID string) (Payroll, error) {
	head, err := s.Head(ctx, tx, by, payrollID)
	if err != nil {
		return Payroll{}, err
	}
	p := &head
	if p.Payments, err = p.payments(ctx, tx, ""); err != nil {
		return *p, err
	}
	outputs, err := payout.ForPayroll(ctx, tx, p.CompanyID, p.ID)
	if err != nil {
		return *p, err
	}
	of := byPayment(outputs)
	for i := range p.Payments {
		p.Payments[i].Outputs = of[p.Payments[i].ID]
	}
	changes, err := db.Changes(ctx, tx, p.CompanyID, p.ID)
	if err != nil {
		return *p, err
	}
	for _, c := range changes {
		p.Timeline = append(p.Timeline, Step{
			ObjectID: p.ID, Version: c.Version, From: State(c.From), To: State(c.To), Reason: c.Reason,
			At: db.Time(c.At),
		})
	}
	steps, err := p.paymentSteps(ctx, tx)
	p.Timeline = append(p.Timeline, steps...)
	return *p, err
}
