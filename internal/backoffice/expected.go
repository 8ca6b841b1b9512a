package backoffice

import (
	"context"
	"time"

	"github.com/stipend/stipend/internal/bankreceipt"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/directdebit"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payroll"
)

// Directions of open bank payments. A payment is open if it was expected but the bank has not reported it, or if the
// bank reported it but it was not expected.
const (
	Incoming  = "incoming"  // transfers that fund payrolls and have not arrived in full
	Debits    = "debits"    // direct debits that the bank has and has not credited
	Reversals = "reversals" // reversals that were ordered and whose money has not come back
	Outgoing  = "outgoing"  // payment files with payments that the bank has not reported on
	Unmatched = "unmatched" // transfers that arrived and match nothing
)

// AgeLimits are the upper limits, in days, of the age groups of open bank payments. The last group has no limit.
var AgeLimits = []int{1, 3, 7, 30}

// OpenPayment is a bank payment that is expected and not reported, or reported and not expected.
type OpenPayment struct {
	Direction           string
	CompanyID, ObjectID string
	Expected, Arrived   money.Amount // zero amount if nothing was expected or arrived
	Open                money.Amount // the difference
	Since               time.Time    // time from which on it is expected, or when it arrived
	Age                 int          // index of the age group
}

// OpenPayments returns all open bank payments, by direction and age, the oldest first.
func OpenPayments(ctx context.Context, tx *db.Tx) (all []OpenPayment, err error) {
	add := func(p OpenPayment) {
		p.Age = len(AgeLimits)
		for i, days := range AgeLimits {
			if tx.Now().Sub(p.Since) <= time.Duration(days)*24*time.Hour {
				p.Age = i
				break
			}
		}
		all = append(all, p)
	}
	unfunded, err := payroll.AwaitingTransfers(ctx, tx)
	if err != nil {
		return nil, err
	}
	for _, u := range unfunded {
		open, err := u.Total.Sub(u.Arrived)
		if err != nil {
			return nil, err
		}
		add(OpenPayment{Direction: Incoming, CompanyID: u.CompanyID, ObjectID: u.ID, Expected: u.Total,
			Arrived: u.Arrived, Open: open, Since: u.Since})
	}
	debits, err := directdebit.Unconfirmed(ctx, tx)
	if err != nil {
		return nil, err
	}
	for _, d := range debits {
		since, err := time.Parse(time.DateOnly, d.DueOn)
		if err != nil {
			return nil, err
		}
		add(OpenPayment{Direction: Debits, CompanyID: d.CompanyID, ObjectID: d.Reference(), Expected: d.Amount,
			Arrived: money.Zero(d.Amount.Asset()), Open: d.Amount, Since: since})
	}
	reversals, err := bank.UnconfirmedReversals(ctx, tx)
	if err != nil {
		return nil, err
	}
	for _, r := range reversals {
		since, err := time.Parse(time.DateOnly, r.Settles)
		if err != nil {
			return nil, err
		}
		add(OpenPayment{Direction: Reversals, CompanyID: r.CompanyID, ObjectID: bank.FileReference(r.Number),
			Expected: r.Amount, Arrived: money.Zero(r.Amount.Asset()), Open: r.Amount, Since: since})
	}
	files, err := bank.ListUnconfirmed(ctx, tx)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		since, err := time.Parse(time.DateOnly, f.Execute)
		if err != nil {
			return nil, err
		}
		reported, err := f.Total.Sub(f.Open)
		if err != nil {
			return nil, err
		}
		add(OpenPayment{Direction: Outgoing, CompanyID: f.CompanyID, ObjectID: bank.FileReference(f.Number),
			Expected: f.Total, Arrived: reported, Open: f.Open, Since: since})
	}
	waiting, err := bankreceipt.InSuspense(ctx, tx)
	if err != nil {
		return nil, err
	}
	for _, t := range waiting {
		add(OpenPayment{Direction: Unmatched, ObjectID: t.ID, Expected: money.Zero(t.Amount.Asset()),
			Arrived: t.Amount, Open: t.Amount, Since: t.CreatedAt})
	}
	return all, nil
}
