package payroll

import (
	"context"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
)

// Owed is an amount owed to one payee without a payroll. It is booked in account 2100 under the ID of the object that
// created the debt, and paid in the same way as a payment of a payroll.
type Owed struct {
	OwnerID  string // company that owns the object, its outputs and its journals
	ObjectID string
	Amount   money.Amount
	To       []destination.Destination // destinations with an allocation; see [Allocated]
}

// payroll returns a released payroll whose only payment is the owed amount, with the payment and the escrow.
func (o Owed) payroll() (*Payroll, Payment, escrow) {
	currency := o.Amount.Asset()
	return &Payroll{ID: o.ObjectID, CompanyID: o.OwnerID, Currency: currency, FundingCurrency: currency},
		Payment{ID: o.ObjectID, Amount: o.Amount},
		escrow{payroll: o.ObjectID, held: o.Amount, total: o.Amount, released: true}
}

// Carried reports whether this installation pays out to all of the destinations for a payer in the given country.
func (s *Service) Carried(to []destination.Destination, payerCountry string) bool {
	return carried(to, s.Destinations()) && !onlyInternationalACH(to, s.Banks, payerCountry)
}

// PlanOwed divides the owed amount by the allocations and exchanges the parts at current prices. It returns the
// outputs and the lines that turn the debt to the payee into debts to the outputs. It stores the records that the
// travel rule demands for the outputs. problem is the reason why the amount cannot be paid now, such as
// [ReasonTooSmall]; in that case there are no outputs or lines, and nothing is stored.
func (s *Service) PlanOwed(ctx context.Context, tx *db.Tx, o Owed) (outputs []payout.Output, lines []ledger.Line,
	problem string, err error) {
	p, m, e := o.payroll()
	shares, err := split(o.Amount, o.To)
	if err != nil {
		return nil, nil, "", err
	}
	r, err := s.planRecorded(ctx, tx, p, []Payment{m}, []entitlement{{paymentID: m.ID, net: o.Amount, used: o.To,
		shares: shares}}, e, money.Zero(p.Currency))
	if err != nil {
		return nil, nil, "", err
	}
	return r.outputs, r.lines.convert, r.lines.problems[0], nil
}

// Estimated is the amount that a destination would receive.
type Estimated struct {
	Share
	Receives money.Amount
	Rate     money.Rate // zero without an exchange
}

// Estimate returns the amounts that destinations with an allocation would receive from a payment at current prices.
// problem is the reason why the payment could not be made, or "". It reserves nothing.
func (s *Service) Estimate(ctx context.Context, tx *db.Tx, amount money.Amount, to []destination.Destination) (
	all []Estimated, problem string, err error) {
	p, _, e := Owed{Amount: amount, To: to}.payroll()
	shares, err := split(amount, to)
	if err != nil {
		return nil, "", err
	}
	all = make([]Estimated, 0, len(shares))
	of := entitlement{net: amount, used: to, shares: shares}
	prices, err := p.prices(ctx, tx, []entitlement{of}, e)
	if err != nil {
		return nil, "", err
	}
	outputs, problem, err := of.outputs(0, e, prices)
	for _, o := range outputs {
		all = append(all, Estimated{o.share, o.amount, o.rate})
	}
	return all, problem, err
}

// Redirected reports whether an output that failed or was returned can be sent again because its destination has
// changed.
func Redirected(outputs []payout.Output, to []destination.Destination) (bool, error) {
	wanted, err := corrections(outputs, to)
	return len(wanted) > 0, err
}

// ResendOwed queues the failed and returned outputs whose destination has changed, and updates them in outputs. It
// returns the lines that exchange the debts to outputs whose asset changed. problem is the reason why none of these
// outputs can be sent now; in that case nothing changes.
func (s *Service) ResendOwed(ctx context.Context, tx *db.Tx, o Owed, outputs []payout.Output) (lines []ledger.Line,
	problem string, err error) {
	p, _, e := o.payroll()
	wanted, err := corrections(outputs, o.To)
	if err != nil {
		return nil, "", err
	}
	exchanged, assets := exchangedBy(wanted)
	prices, err := p.prices(ctx, tx, []entitlement{exchanged}, e)
	if err != nil {
		return nil, "", err
	}
	capacity, err := s.Treasury.LockCapacity(ctx, tx, assets...)
	if err != nil {
		return nil, "", err
	}
	if problem, err = e.redirect(wanted, prices, capacity); err != nil || problem != "" {
		return nil, problem, err
	}
	if problem, err = s.recordNext(ctx, tx, o.ObjectID, wanted); err != nil || problem != "" {
		return nil, problem, err
	}
	traded := positions{}
	if lines, err = resend(ctx, tx, wanted, traded); err != nil {
		return nil, "", err
	}
	return append(lines, traded.lines()...), "", nil
}
