// Package earnings returns a person's earnings: payments of payrolls and incomes, as far as the person may see them.
// It also exports the person's own data.
//
// A payment belongs to the year in which it had fully arrived. A payment that has neither arrived nor ended belongs
// to the present year, however old it is, so that no payment is missing from the person's pages and summaries.
package earnings

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/income"
	"github.com/stipend/stipend/internal/invoice/payer"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payroll"
)

// Payment is a payment to a person: a payment of a payroll, or an income.
type Payment struct {
	ID, From         string // From is the name of the company or payer; "" if unknown
	CompanyID        string // tenant of the payment: the company, or the person for an income
	Reference, About string
	Period           payroll.Period // pay period of the payroll; zero for none
	State            payroll.State
	Reason           string
	Amount, Fee      money.Amount    // Fee is the fee that the person paid
	At               time.Time       // when the payment was created or received
	Arrived          time.Time       // when all of it had arrived; zero before
	Outputs          []payout.Output // set by Find and LoadOutputs only
	Steps            []payroll.Step  // set by Find only
	payrollID        string          // ID of the payment's payroll, or of the income itself
}

// IsIncome reports whether the payment is an income, and not a payment of a payroll.
func (p Payment) IsIncome() bool { return income.IsIncome(p.ID) }

// Reader reads the payments of a user for whom a principal may act.
type Reader struct {
	Sealer *identity.Sealer
	By     identity.Principal
	UserID string // "" means the principal's own user
}

// user returns the user, and the companies whose payments the principal may see. These are all companies that pay the
// user; a company that acts for a user whom it created sees only its own payments.
func (r Reader) user(ctx context.Context, tx *db.Tx) (identity.User, []string, error) {
	u, err := identity.ActingUser(ctx, tx, r.By, r.UserID)
	if err != nil {
		return u, nil, err
	}
	if r.By.UserID != u.ID {
		return u, []string{r.By.CompanyID}, nil
	}
	companies, err := payee.CompaniesOf(ctx, tx, u.ID)
	return u, companies, err
}

// List returns the payments that arrived in [from, to), and incomes of that time whose credit was taken back. If open
// is set, it also returns payments that have neither arrived nor ended. Payments that have not arrived come first,
// then the others by arrival, newest first.
func (r Reader) List(ctx context.Context, tx *db.Tx, from, to time.Time, open bool) (all []Payment, err error) {
	u, companies, err := r.user(ctx, tx)
	if err != nil {
		return nil, err
	}
	for _, id := range companies {
		paying, err := identity.CompanyByID(ctx, tx, id)
		if err != nil {
			return nil, err
		}
		some, err := payroll.EarnedPayments(ctx, tx, id, u.ID, from, to, open)
		if err != nil {
			return nil, err
		}
		for _, m := range some {
			all = append(all, ofPayroll(paying, m))
		}
	}
	names, err := r.payers(ctx, tx)
	if err != nil {
		return nil, err
	}
	some, err := income.Earned(ctx, tx, u.ID, from, to, open)
	if err != nil {
		return nil, err
	}
	for i := range some {
		all = append(all, ofIncome(names, &some[i]))
	}
	slices.SortStableFunc(all, func(a, b Payment) int {
		switch {
		case a.Arrived.IsZero() && b.Arrived.IsZero():
			return b.At.Compare(a.At)
		case a.Arrived.IsZero():
			return -1
		case b.Arrived.IsZero():
			return 1
		}
		return b.Arrived.Compare(a.Arrived)
	})
	return all, nil
}

// OfYear returns the payments that arrived in a calendar year (UTC), oldest first.
func (r Reader) OfYear(ctx context.Context, tx *db.Tx, year int) ([]Payment, error) {
	from, to := Year(year)
	all, err := r.List(ctx, tx, from, to, false)
	if err != nil {
		return nil, err
	}
	slices.Reverse(all)
	all = slices.DeleteFunc(all, func(m Payment) bool { return m.Arrived.IsZero() })
	return all, nil
}

// LoadOutputs sets the outputs of payments that a Reader returned. It reads the outputs of each company together.
func LoadOutputs(ctx context.Context, tx *db.Tx, all []Payment) error {
	ctx = db.AcrossCompanies(ctx, "a person is paid by several companies; the payments were selected by person")
	key := func(m *Payment) payout.PaymentKey { return payout.PaymentKey{PayrollID: m.payrollID, PaymentID: m.ID} }
	of := map[string][]*Payment{}
	for i := range all {
		of[all[i].CompanyID] = append(of[all[i].CompanyID], &all[i])
	}
	for companyID, some := range of {
		keys := make([]payout.PaymentKey, len(some))
		for i, m := range some {
			keys[i] = key(m)
		}
		outputs, err := payout.ByPayment(ctx, tx, companyID, keys)
		if err != nil {
			return err
		}
		for _, m := range some {
			m.Outputs = outputs[key(m)]
		}
	}
	return nil
}

// Year returns the bounds of a calendar year in UTC.
func Year(year int) (from, to time.Time) {
	from = time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
	return from, from.AddDate(1, 0, 0)
}

func ofPayroll(paying identity.Company, m payroll.EarnedPayment) Payment {
	return Payment{ID: m.ID, From: paying.Name, CompanyID: paying.ID, Reference: m.ExternalID, Period: m.Period,
		About: m.Description, State: m.State, Reason: m.Reason, Amount: m.Amount, Fee: money.Zero(m.Amount.Asset()),
		At: m.CreatedAt, Arrived: m.ArrivedAt, Outputs: m.Outputs, payrollID: m.PayrollID}
}

func ofIncome(names map[string]string, i *income.Income) Payment {
	return Payment{ID: i.ID, From: names[i.PayerID], CompanyID: i.UserID, Reference: i.InvoiceID, State: i.State,
		Reason: i.Reason, Amount: i.Amount, Fee: i.Fee, At: i.CreatedAt, Arrived: i.ArrivedAt, Outputs: i.Outputs,
		Steps: i.Timeline, payrollID: i.ID}
}

// payers returns the names of the person's payers by ID.
func (r Reader) payers(ctx context.Context, tx *db.Tx) (map[string]string, error) {
	all, err := payer.List(ctx, tx, r.Sealer, r.By, r.UserID)
	names := map[string]string{}
	for _, p := range all {
		names[p.ID] = p.Name
	}
	return names, err
}

// Find returns a payment with its outputs and steps, or apierr.NotFoundErr.
func (r Reader) Find(ctx context.Context, tx *db.Tx, id string) (Payment, error) {
	if income.IsIncome(id) {
		i, err := income.Get(ctx, tx, r.By, r.UserID, id)
		if err != nil {
			return Payment{}, err
		}
		i.ArrivedAt = payroll.Arrived(i.State, i.Timeline)
		names, err := r.payers(ctx, tx)
		return ofIncome(names, &i), err
	}
	u, companies, err := r.user(ctx, tx)
	if err != nil {
		return Payment{}, err
	}
	for _, of := range companies {
		m, steps, err := payroll.FundedPaymentTo(ctx, tx, of, u.ID, id)
		if errors.Is(err, payroll.ErrNotFound) {
			continue
		}
		if err != nil {
			return Payment{}, err
		}
		paying, err := identity.CompanyByID(ctx, tx, of)
		p := ofPayroll(paying, payroll.EarnedPayment{PayeePayment: m, ArrivedAt: payroll.Arrived(m.State, steps)})
		p.Steps = steps
		return p, err
	}
	return Payment{}, apierr.NotFoundErr
}

// Totals returns the sums of the payments that have arrived, by currency.
func Totals(all []Payment) (sums []money.Amount, err error) {
	of := map[money.Asset]money.Amount{}
	for _, m := range all {
		if m.Arrived.IsZero() {
			continue
		}
		sum, ok := of[m.Amount.Asset()]
		if !ok {
			sum = money.Zero(m.Amount.Asset())
		}
		if of[m.Amount.Asset()], err = sum.Add(m.Amount); err != nil {
			return nil, err
		}
	}
	for _, a := range money.All() {
		if sum, ok := of[a]; ok {
			sums = append(sums, sum)
		}
	}
	return sums, nil
}
