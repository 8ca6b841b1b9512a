package payroll

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
)

// Warning is a difference between a payment and what is usual, which approvers should check. A warning does not stop
// the payment.
type Warning struct {
	Code   WarningCode
	Since  time.Time    // when the destination changed; set for WarnDestination
	Most   money.Amount // largest earlier payment; set for WarnAmount
	Recent int64        // number of other payments; set for WarnFrequent
	// Check is the result of the check of the bank account, set for WarnAccount; "" if there was no check.
	Check destination.CheckResult
}

// WarningCode is the kind of a warning.
type WarningCode string

// Kinds of warnings.
const (
	WarnFirst       WarningCode = "first_payment"       // the company has never paid this payee
	WarnDestination WarningCode = "destination_changed" // the destination changed since the last payment
	WarnAmount      WarningCode = "unusual_amount"      // the amount is over 1.5 times the largest of the last payments
	WarnFrequent    WarningCode = "frequent_payments"   // several other payments in a short time
	WarnAccount     WarningCode = "account_check"       // the bank account has not passed its check
)

const (
	historyLength  = 12 // number of earlier payments of a payee with which an amount is compared
	frequentWithin = 7 * 24 * time.Hour
	frequentFrom   = 3 // smallest number of other payments within frequentWithin that causes a warning
)

// history summarizes the last payments of a company to a payee.
type history struct {
	most   money.Amount // largest of the payments made in one currency; without an asset if there is none
	recent int64        // number of recently created payments in other payrolls, made or not
}

// Warnings returns, by payment ID, the warnings about the payments of a payroll that were not sent yet. The first
// destination of a payee does not count as a change.
func (s *Service) Warnings(ctx context.Context, tx *db.Tx, p Payroll) (map[string][]Warning, error) {
	var waiting []*Payment
	var ids []string
	here := map[string]int64{} // payments of this payroll, by payee ID
	for i := range p.Payments {
		if p.Payments[i].State != Cancelled {
			here[p.Payments[i].PayeeID]++
		}
		if m := &p.Payments[i]; len(m.Outputs) == 0 && m.State != Cancelled {
			waiting, ids = append(waiting, m), append(ids, m.PayeeID)
		}
	}
	if len(waiting) == 0 {
		return nil, nil
	}
	ids = unique(ids)
	paid, err := lastPaid(ctx, tx, p.CompanyID, ids)
	if err != nil {
		return nil, err
	}
	earlier, err := p.earlierPayments(ctx, tx, ids, tx.Now().Add(-frequentWithin))
	if err != nil {
		return nil, err
	}
	changed, err := destinationChanges(ctx, tx, p.CompanyID, paid)
	if err != nil {
		return nil, err
	}
	unchecked, err := s.uncheckedAccounts(ctx, tx, p.CompanyID, ids)
	if err != nil {
		return nil, err
	}
	all := map[string][]Warning{}
	for _, m := range waiting {
		var found []Warning
		last, before := paid[m.PayeeID], earlier[m.PayeeID]
		if last.IsZero() {
			found = append(found, Warning{Code: WarnFirst})
		} else if at := changed[m.PayeeID]; last.Before(at) {
			found = append(found, Warning{Code: WarnDestination, Since: at})
		}
		if most := before.most.Units(); before.most.Asset() != "" && m.Amount.Units()-most > most/2 {
			found = append(found, Warning{Code: WarnAmount, Most: before.most})
		}
		if others := before.recent + here[m.PayeeID] - 1; others >= frequentFrom {
			found = append(found, Warning{Code: WarnFrequent, Recent: others})
		}
		if c := unchecked[m.PayeeID]; c != nil {
			found = append(found, Warning{Code: WarnAccount, Check: c.Result})
		}
		if len(found) > 0 {
			all[m.ID] = found
		}
	}
	return all, nil
}

// destinationChanges returns, by payee ID, the time of the last change of the payee's destinations since the earliest
// time in paid, which has the time of the last payment of each payee.
func destinationChanges(ctx context.Context, tx *db.Tx, companyID string, paid map[string]time.Time) (
	map[string]time.Time, error) {
	if len(paid) == 0 {
		return nil, nil
	}
	payees, err := payee.Payees(ctx, tx, companyID, slices.Sorted(maps.Keys(paid)))
	if err != nil {
		return nil, err
	}
	since := slices.MinFunc(slices.Collect(maps.Values(paid)), time.Time.Compare)
	changed, err := destination.ChangedSince(ctx, tx, owners(payees), since)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(payees, func(_ string, who payee.Payee) bool {
		return changed[who.ID].IsZero() && changed[who.UserID].IsZero()
	})
	if len(payees) == 0 {
		return nil, nil
	}
	all, err := destination.ForOwners(ctx, tx, owners(payees))
	if err != nil {
		return nil, err
	}
	recent := map[string]time.Time{}
	for id, who := range payees {
		owner, _ := destinations(who, all)
		if at := changed[owner]; !at.IsZero() {
			recent[id] = at
		}
	}
	return recent, nil
}

// uncheckedAccounts returns, by payee ID, the problems found by checks of payees' bank accounts.
func (s *Service) uncheckedAccounts(ctx context.Context, tx *db.Tx, companyID string, ids []string,
) (map[string]*destination.Concern, error) {
	payees, err := payee.Payees(ctx, tx, companyID, ids)
	if err != nil || len(payees) == 0 {
		return nil, err
	}
	all, err := destination.ForOwners(ctx, tx, owners(payees))
	if err != nil {
		return nil, err
	}
	of := map[string]*destination.Concern{}
	for id, who := range payees {
		_, used := destinations(who, all)
		of[id] = s.Checks.Concern(tx.Now(), used)
	}
	return of, nil
}
