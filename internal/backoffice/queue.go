package backoffice

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/bankreceipt"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/income"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/lightning"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/receivable/deposit"
	"github.com/stipend/stipend/internal/screening"
	"github.com/stipend/stipend/internal/withdrawal"
)

// The queues, the most urgent first.
const (
	InDoubt  = "in_doubt" // payouts with an unknown outcome
	Releases = "release"  // payments that need the approval of two members of staff
	Hits     = "hits"     // matches of sanctions screening
	Returned = "returned" // payouts that were returned or failed
	Suspense = "suspense" // received money that matches nothing
	Late     = "late"     // money that came too late for its payroll or claim
	Debts    = "debts"    // debts of companies after reversed deposits
	OnHold   = "on_hold"  // payments that are on hold for another reason
)

// Queues lists all queues.
var Queues = []string{InDoubt, Releases, Hits, Returned, Suspense, Late, Debts, OnHold}

// MostItems is the maximum number of items that are read of a queue.
const MostItems = 200

// Item is an entry of a queue.
type Item struct {
	CompanyID, ObjectID string
	Company             string // name of the company
	OfID                string // ID of the payroll, claim or withdrawal of the object; "" if the object is one
	State, Reason       string
	Amount              money.Amount
	Detail              string // transaction of a payment; "" for none
	Since               time.Time
	Match               *Match // of a screening hit; nil for others
	Lightning           bool   // a payment over Lightning whose outcome staff can decide
}

// Match is what a screening hit compares.
type Match struct {
	Name, Country string // of the payee or company
	Address       string // the address that matched; "" if the name did
	Entry         string // name of the list entry
	EntryID       string
	Programs      string // sanctions programs of the entry
	Score         int    // similarity of the names, 1 to 100
}

// Queue returns the items of a queue, oldest first, or apierr.NotFoundErr for an unknown queue.
func Queue(ctx context.Context, tx *db.Tx, name string) ([]Item, error) {
	items, err := readQueue(ctx, tx, name)
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for i := range items {
		id := items[i].CompanyID
		if _, known := names[id]; !known && id != "" {
			var err error
			if names[id], err = nameOf(ctx, tx, id); err != nil && !errors.Is(err, apierr.NotFoundErr) {
				return nil, err
			}
		}
		items[i].Company = names[id]
		m := items[i].Match
		if m == nil {
			continue
		}
		if items[i].OfID == id {
			m.Name = names[id]
			continue
		}
		payees, err := payee.Payees(ctx, tx, id, []string{items[i].OfID})
		if err != nil {
			return nil, err
		}
		m.Name, m.Country = payees[items[i].OfID].Name, payees[items[i].OfID].Country
	}
	return items, nil
}

// nameOf returns the name of a company, or of a user whose own income it is.
func nameOf(ctx context.Context, tx *db.Tx, id string) (string, error) {
	if identity.IsUser(id) {
		u, err := identity.GetUser(ctx, tx, nil, id)
		return u.Name(), err
	}
	company, err := identity.CompanyByID(ctx, tx, id)
	return company.Name, err
}

func readQueue(ctx context.Context, tx *db.Tx, name string) (items []Item, err error) {
	switch name {
	case InDoubt:
		if items, err = outputs(ctx, tx, payout.UnknownOutcome); err != nil {
			return nil, err
		}
		lost, err := lightning.Lost(ctx, tx, MostItems)
		return append(items, outputItems(lost)...), err
	case Returned:
		return outputs(ctx, tx, payout.Returned, payout.Failed)
	case Suspense:
		if items, err = open(ctx, tx, ledger.SuspenseUnknown); err != nil {
			return nil, err
		}
		return items, describe(ctx, tx, items)
	case Late:
		return open(ctx, tx, ledger.SuspenseLate)
	case Debts:
		items, err = open(ctx, tx, ledger.DueFromCustomer)
		for i := range items {
			items[i].Amount = items[i].Amount.Neg() // the account is an asset of the operator
			items[i].ObjectID = ledger.Debt{Dim: items[i].ObjectID, Amount: items[i].Amount}.ID()
		}
		return items, err
	case Releases, OnHold:
		return held(ctx, tx, name == Releases)
	case Hits:
		hits, err := screening.Hits(ctx, tx, screening.Open, MostItems)
		for i := range hits {
			h := &hits[i]
			m := &Match{Entry: h.EntryName, EntryID: h.EntryID, Programs: h.Programs, Score: h.Score}
			if h.Kind == screening.KindAddress {
				m.Address = h.Matched
			}
			items = append(items, Item{
				CompanyID: h.CompanyID, ObjectID: h.ID, OfID: h.SubjectID, Since: h.CreatedAt, Match: m,
			})
		}
		return items, err
	}
	return nil, apierr.NotFoundErr
}

func outputs(ctx context.Context, tx *db.Tx, states ...payout.State) (items []Item, err error) {
	all, err := payout.ListInStates(ctx, tx, MostItems, states...)
	return outputItems(all), err
}

func outputItems(all []payout.Output) (items []Item) {
	for i := range all {
		o := &all[i]
		items = append(items, Item{
			CompanyID: o.CompanyID, ObjectID: o.ID, OfID: o.PayrollID, State: string(o.State), Reason: o.Reason,
			Amount: o.Amount, Detail: o.TxID, Since: o.UpdatedAt,
			Lightning: o.Rail == payout.RailLightning && (o.State == payout.UnknownOutcome || o.State == payout.Sent),
		})
	}
	return items
}

func open(ctx context.Context, tx *db.Tx, c ledger.Code) (items []Item, err error) {
	all, err := ledger.OpenItems(ctx, tx, c, MostItems)
	for _, i := range all {
		items = append(items, Item{CompanyID: i.CompanyID, ObjectID: i.Dim, Amount: i.Balance, Since: i.Since})
	}
	return items, err
}

// describe adds the bank's details of transfers, and the addresses of deposits.
func describe(ctx context.Context, tx *db.Tx, items []Item) error {
	waiting, err := bankreceipt.List(ctx, tx, false, MostItems)
	if err != nil {
		return err
	}
	for i := range items {
		if strings.HasPrefix(items[i].ObjectID, "dep_") {
			d, err := deposit.Get(ctx, tx, items[i].CompanyID, items[i].ObjectID)
			if err != nil {
				return err
			}
			items[i].OfID, items[i].Reason = d.ObjectID, bankreceipt.ReasonUnknown
			items[i].Detail = strings.Join([]string{d.Chain, d.Address, d.TxID}, " · ")
		}
		for _, t := range waiting {
			if t.ID == items[i].ObjectID {
				items[i].Reason = t.Reason
				items[i].Detail = strings.Join(append([]string{t.BookedOn, t.Debtor, t.DebtorAccount}, t.Lines...), " · ")
			}
		}
	}
	return nil
}

// held returns the payments that need two members of staff, or those that are on hold for another reason.
func held(ctx context.Context, tx *db.Tx, release bool) (items []Item, err error) {
	runs, err := payroll.ListHeld(ctx, tx, MostItems)
	if err != nil {
		return nil, err
	}
	for _, p := range runs {
		if (p.Reason == payroll.ReasonRelease) == release {
			items = append(items, Item{
				CompanyID: p.CompanyID, ObjectID: p.ID, Reason: p.Reason, Amount: p.Total, Since: p.Since,
			})
		}
	}
	taken, err := withdrawal.ListHeld(ctx, tx, MostItems)
	if err != nil {
		return nil, err
	}
	for i := range taken {
		w := &taken[i]
		if (w.Reason == withdrawal.ReasonRelease) == release {
			items = append(items, Item{
				CompanyID: w.CompanyID, ObjectID: w.ID, Reason: w.Reason, Amount: w.Amount, Since: w.UpdatedAt,
			})
		}
	}
	incomes, err := income.ListHeld(ctx, tx, MostItems)
	if err != nil {
		return nil, err
	}
	for _, i := range incomes {
		if (i.Reason == payroll.ReasonRelease) == release {
			items = append(items, Item{
				CompanyID: i.UserID, ObjectID: i.ID, Reason: i.Reason, Amount: i.Amount, Since: i.UpdatedAt,
			})
		}
	}
	if release {
		refunds, err := claim.RefundsWithheld(ctx, tx, MostItems)
		for i := range refunds {
			r := &refunds[i]
			items = append(items, Item{
				CompanyID: r.CompanyID, ObjectID: r.ID, OfID: r.ClaimID, Reason: withdrawal.ReasonRelease, Amount: r.Amount,
				Since: r.Since,
			})
		}
		return items, err
	}
	queues, err := payout.WaitingQueues(ctx, tx, MostItems)
	for _, q := range queues {
		items = append(items, Item{CompanyID: q.CompanyID, Reason: q.Reason, Since: q.Since})
	}
	return items, err
}
