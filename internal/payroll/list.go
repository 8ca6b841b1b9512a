package payroll

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/metadata"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/receivable/quote"
)

const (
	defaultPerPage = 20
	maxPerPage     = 100
)

// sortColumns has the columns by which payrolls are sorted for each value of Filter.Sort. Totals are sorted within
// their currency.
var sortColumns = map[string][]string{"created": {"payroll_id"}, "name": {"external_id", "payroll_id"},
	"payees": {"payees", "payroll_id"}, "total": {"currency", "total", "payroll_id"}}

// List returns a page of the company's payrolls, newest first unless the filter sorts them, and their total number.
func (s *Service) List(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string, f Filter) ([]Payroll,
	int64, error) {
	company, err := by.Company(companyID)
	if err != nil {
		return nil, 0, err
	}
	if f.Page.PerPage < 1 {
		f.Page.PerPage = defaultPerPage
	}
	f.Page.PerPage = min(f.Page.PerPage, maxPerPage)
	l := &db.List{Columns: payrollColumns, Table: "payrolls", ID: "payroll_id", Page: f.Page}
	if columns := sortColumns[f.Sort]; columns != nil {
		direction := " ASC"
		if f.Descending {
			direction = " DESC"
		}
		l.Order = strings.Join(columns, direction+", ") + direction
	}
	l.Where("company_id = ?", company)
	if f.Status != "" {
		l.Where("state = ?", string(f.Status))
	}
	if f.ExternalID != "" {
		l.Where("external_id = ?", f.ExternalID)
	}
	metadata.Conditions("payroll_id", company, f.Metadata, l.Where)
	l.Created(f.From, f.To)
	if err := f.search(tx, l, company); err != nil {
		return nil, 0, err
	}
	return db.ReadPage(ctx, tx, l, func(r *db.Rows) (Payroll, error) { return scanPayroll(company, r.Scan) })
}

// search adds the filter's conditions for payees, amount and text to the query for a company's payrolls.
func (f *Filter) search(tx *db.Tx, l *db.List, company string) error {
	const having = "payroll_id IN (SELECT m.payroll_id FROM payments m WHERE m.company_id = ? AND "
	if f.PayeeIDs != nil {
		values := []any{company}
		for _, id := range f.PayeeIDs {
			values = append(values, id)
		}
		l.Where(having+"m.payee_id IN ("+strings.TrimSuffix(strings.Repeat("?, ", len(f.PayeeIDs)), ", ")+"))", values...)
	}
	if f.Text != "" {
		is, pattern := tx.Contains(f.Text)
		conditions, values := []string{"external_id " + is + " ?"}, []any{pattern, company}
		var texts []string
		for _, column := range []string{"description", "category", "invoice_id", "external_payment_id"} {
			texts, values = append(texts, "m."+column+" "+is+" ?"), append(values, pattern)
		}
		conditions = append(conditions, having+"("+strings.Join(texts, " OR ")+"))")
		l.Where("("+strings.Join(conditions, " OR ")+")", values...)
	}
	if f.Amount == "" {
		return nil
	}
	units, err := unitsOf(f.Amount)
	if err != nil {
		return err
	}
	var conditions []string
	var values []any
	for _, n := range slices.Sorted(maps.Keys(units)) {
		all := units[n]
		conditions = append(conditions, "currency IN (?"+strings.Repeat(", ?", len(all)-1)+
			") AND (total = ? OR volume = ? OR "+having+"m.amount = ?))")
		values = append(append(values, all...), n, n, company, n)
	}
	l.Where("("+strings.Join(conditions, " OR ")+")", values...)
	return nil
}

// unitsOf returns the currencies in which a text is a valid amount, grouped by the number of units. It returns an
// error if the text is not an amount.
func unitsOf(amount string) (map[int64][]any, error) {
	units := map[int64][]any{}
	for _, a := range money.All() {
		if a.IsCrypto() {
			continue
		}
		if amount, err := money.Parse(a, amount); err == nil {
			units[amount.Units()] = append(units[amount.Units()], string(a))
		}
	}
	if len(units) == 0 {
		return nil, apierr.New(apierr.Invalid, "invalid_parameter", "amount is a number such as 1250.50.").At("query",
			"amount")
	}
	return units, nil
}

// PaymentFilter selects payments of a company and a page of them, the newest payroll first.
type PaymentFilter struct {
	PayeeID  string
	State    State     // "" for all
	Amount   string    // a decimal in any currency; "" for all
	From, To time.Time // selects payments of payrolls created in [From, To)
	Metadata map[string]string
	Page     db.Page
}

// Payments returns a page of the company's payments, the newest payroll first, and their total number.
func (s *Service) Payments(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string, f PaymentFilter) (
	[]PayeePayment, int64, error) {
	company, err := by.Company(companyID)
	if err != nil {
		return nil, 0, err
	}
	return listPayments(ctx, tx, company, f)
}

// Issue counts the payments of a payroll that are in one state and need attention: ActionRequired or Returned, or
// OnHold because the operator owns too little of an asset or a price has changed.
type Issue struct {
	CompanyID string // empty in the result of [Service.Issues]
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

// PayeeNames returns the names of the payroll's payees by ID. Payees whose data was erased have no name.
func (p *Payroll) PayeeNames(ctx context.Context, tx *db.Tx) (map[string]string, error) {
	var ids []string
	for _, m := range p.Payments {
		ids = append(ids, m.PayeeID)
	}
	slices.Sort(ids)
	payees, err := payee.Payees(ctx, tx, p.CompanyID, slices.Compact(ids))
	names := map[string]string{}
	for id, who := range payees {
		names[id] = who.Name
	}
	return names, err
}

// Payment returns a payment of a payroll of the company, with its outputs and timeline.
func (s *Service) Payment(ctx context.Context, tx *db.Tx, by identity.Principal, payrollID, paymentID string) (
	PayeePayment, []Step, error) {
	p, err := findOwn(ctx, tx, by, payrollID)
	if err != nil {
		return PayeePayment{}, nil, err
	}
	m, found, err := p.payment(ctx, tx, paymentID)
	if err != nil {
		return PayeePayment{}, nil, err
	}
	if !found {
		return PayeePayment{}, nil, ErrNotFound
	}
	m.PayrollID = p.ID
	all := PayeePayment{Payment: m, ExternalID: p.ExternalID, Period: p.Period, CreatedAt: p.CreatedAt}
	steps, err := all.complete(ctx, tx, p.CompanyID)
	return all, steps, err
}

// complete reads the outputs of a payment, and returns its timeline.
func (m *PayeePayment) complete(ctx context.Context, tx *db.Tx, companyID string) (steps []Step, err error) {
	if m.Outputs, err = payout.ForPayments(ctx, tx, companyID, m.PayrollID, m.ID); err != nil {
		return nil, err
	}
	changes, err := db.Changes(ctx, tx, companyID, m.ID)
	for _, c := range changes {
		steps = append(steps, Step{ObjectID: m.ID, Version: c.Version, From: State(c.From), To: State(c.To),
			Reason: c.Reason, At: db.Time(c.At)})
	}
	return steps, err
}

// Arrived returns the time at which a payment was last fulfilled, or the zero time if it is not in state Fulfilled.
func Arrived(state State, steps []Step) (at time.Time) {
	for _, s := range steps {
		if s.To == Fulfilled && state == Fulfilled {
			at = s.At
		}
	}
	return at
}
