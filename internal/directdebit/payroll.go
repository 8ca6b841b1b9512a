package directdebit

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payroll"
)

var _ payroll.Debits = (*Service)(nil)

// payrollMandate returns the mandate under which a payroll in a currency is collected, which is the newest active
// mandate, and the operator's account that collects.
func (s *Service) payrollMandate(ctx context.Context, tx *db.Tx, companyID string, asset money.Asset) (Mandate,
	bank.Account, error,
) {
	all, err := mandates(ctx, tx, companyID)
	if err != nil {
		return Mandate{}, bank.Account{}, err
	}
	i := slices.IndexFunc(all, func(m Mandate) bool {
		_, err := s.account(m.Scheme)
		return m.State == MandateActive && m.Scheme.Asset() == asset && err == nil
	})
	if i < 0 {
		return Mandate{}, bank.Account{}, ErrMandate.Detailf(
			"The company has no active mandate for direct debits in %s. An owner or administrator accepts one on the page "+
				"of direct debits.", asset)
	}
	a, err := s.account(all[i].Scheme)
	return all[i], a, err
}

var (
	errKey = apierr.New(apierr.Forbidden, "insufficient_scope",
		"Apps and platforms cannot debit the company's bank account. Use an API key of the company, or another funding "+
			"method.")
	errCurrency = apierr.New(apierr.Invalid, "currency_not_supported",
		"This installation collects no direct debits in the payroll's currency.")
)

// CheckPayroll implements payroll.Debits. A direct debit for a payroll, like all direct debits, can only be ordered
// by a member of the company or with the company's API key, not by a partner's app or a platform.
func (s *Service) CheckPayroll(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string,
	total money.Amount,
) error {
	if by.Kind != identity.KindSession && by.Kind != identity.KindAPIKey {
		return errKey
	}
	company, err := s.activeCompany(ctx, tx, by, companyID)
	if err != nil {
		return err
	}
	if len(s.Schemes(total.Asset())) == 0 {
		return errCurrency
	}
	_, a, err := s.payrollMandate(ctx, tx, company.ID, total.Asset())
	if err == nil && total.Cmp(a.MaxDebit()) > 0 {
		err = errTooLarge.Detailf("The maximum is %s %s.", a.MaxDebit(), a.Currency)
	}
	return err
}

// CollectPayroll implements payroll.Debits. The debit is due on the first day that the scheme's notice allows.
func (s *Service) CollectPayroll(ctx context.Context, tx *db.Tx, by identity.Principal, p *payroll.Payroll) error {
	m, a, err := s.payrollMandate(ctx, tx, p.CompanyID, p.Total.Asset())
	if err != nil {
		return err
	}
	name := []rune("Payroll " + cmp.Or(p.ExternalID, p.ID))
	d := Debit{CompanyID: p.CompanyID, Mandate: m, Amount: p.Total, Description: string(name[:min(len(name), 140)]),
		PayrollID: p.ID, CreatedBy: approval.CreatorOf(by)}
	return s.schedule(ctx, tx, &d, a, time.Time{})
}

// PayrollProgress implements payroll.Debits.
func (s *Service) PayrollProgress(ctx context.Context, tx *db.Tx, companyID, payrollID string) (payroll.DebitProgress,
	error,
) {
	d, err := OfPayroll(ctx, tx, companyID, payrollID)
	return d.progress(), err
}

// CancelPayroll implements payroll.Debits.
func (s *Service) CancelPayroll(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, payrollID string,
) error {
	found, err := OfPayroll(ctx, tx, companyID, payrollID)
	if err != nil || found.ID == "" {
		return err
	}
	d, err := lock(ctx, tx, companyID, found.ID)
	if err != nil || d.State != Scheduled {
		return err
	}
	return d.advance(ctx, tx, Cancelled, "", "its payroll was cancelled by "+by.ID)
}

// progress returns the debit's progress for the payroll that it funds.
func (d *Debit) progress() payroll.DebitProgress {
	switch d.State {
	case Scheduled, Submitting, Submitted:
		return payroll.DebitOrdered
	case Collected:
		if d.Released != d.Amount {
			return payroll.DebitOnHold
		}
		return payroll.DebitAvailable
	case Available:
		return payroll.DebitAvailable
	case Failed, Returned, Cancelled:
	}
	return payroll.DebitEnded
}

// informPayroll applies the progress of a debit to the payroll that it funds. It does nothing if the debit funds no
// payroll.
func (d *Debit) informPayroll(ctx context.Context, tx *db.Tx, progress payroll.DebitProgress) error {
	if d.PayrollID == "" {
		return nil
	}
	return payroll.DebitChanged(ctx, tx, d.CompanyID, d.PayrollID, progress)
}
