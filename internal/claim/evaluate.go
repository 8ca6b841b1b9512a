package claim

import (
	"time"

	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/receivable"
	"github.com/stipend/stipend/internal/receivable/deposit"
	"github.com/stipend/stipend/internal/receivable/quote"
)

// facts is a claim with the facts about its money.
type facts struct {
	c        *Claim
	was      Claim // the claim as stored
	now      time.Time
	assets   map[money.Asset]*receivable.Facts // for each asset in which the claim can be paid
	deposits []deposit.Deposit                 // in all assets, by the time first seen
}

// in returns the facts about an asset, adjusted to the merchant's decisions about the claim. For a claim that was
// cancelled or is being refunded, only money that the merchant accepted counts. Deposits seen before a claim became
// invalid do not count.
func (f *facts) in(asset money.Asset) *receivable.Facts {
	one := f.assets[asset]
	one.Closed, one.VoidUntil = f.c.Refunding || !f.c.CancelledAt.IsZero(), f.c.InvalidAt
	return one
}

// current returns the facts about the asset that pays the claim.
func (f *facts) current() *receivable.Facts { return f.in(f.c.Funding) }

// newest returns the newest quote in the asset that pays the claim.
func (f *facts) newest() quote.Quote { return f.assets[f.c.Funding].Newest() }

// verdict is the result of an evaluation: the state that a claim should have, and the positions that should be
// posted.
type verdict struct {
	state     State
	exception Exception
	enough    bool // the deposits seen cover the claim, so that its quote is kept
	txHash    string
	seen      money.Amount             // sum of all deposits on the chain, confirmed or not
	left      money.Amount             // part of the claim's amount that no deposit seen in time covers
	books     map[money.Asset]position // positions to be posted, without debts
}

// evaluate returns the state that the claim should have and the positions that should be posted for it. It also sets
// the asset that pays the claim.
func (f *facts) evaluate() (verdict, error) {
	all := map[money.Asset]receivable.Verdict{}
	for asset := range f.assets {
		var err error
		if all[asset], err = f.in(asset).Evaluate(); err != nil {
			return verdict{}, err
		}
	}
	f.c.fund(paying(all, f.c.Funding))
	t := all[f.c.Funding]
	v := verdict{exception: None, seen: t.Seen, left: t.Left, txHash: t.CompletedBy}
	if v.txHash == "" {
		v.txHash = t.LastTx
	}
	switch c := f.c; {
	case c.Refunding:
		v.state = f.refunding(all)
	case !c.CancelledAt.IsZero() && !t.Covered: // only money that the merchant accepted pays a cancelled claim
		v.state = Cancelled
		if t.Confirmed.Sign() > 0 { // paying has chosen the asset with late money
			v.state = PaidLate
		}
	case t.Covered || t.Enough && c.Policy.Confirmations == 0:
		v.state, v.enough = Paid, true
		if t.Covered && c.ReturnedValue.Cmp(c.Amount) >= 0 {
			v.state = Refunded
		}
	case t.Enough && f.abandoned():
		v.state = Invalid
	case t.Enough:
		v.state, v.enough = Confirming, true
	case t.Held.Sign() > 0:
		v.state = PaidLate
	case !c.InvalidAt.IsZero() && !f.newest().ValidFrom.After(c.InvalidAt):
		v.state = Invalid
	case f.open():
		v.state = AwaitingPayment
		if t.AnyCounts {
			v.state = PartiallyPaid
		}
	default:
		v.state = Expired
		if t.AnyCounts {
			v.state = Underpaid
		}
	}
	if v.enough {
		v.left = money.Zero(t.Left.Asset()) // a shortfall within the tolerance is not requested
	}
	var err error
	if v.books, err = f.books(all); err != nil {
		return v, err
	}
	overpaid := false
	for _, p := range v.books {
		overpaid = overpaid || p.excess.Sign() > 0
	}
	switch {
	case v.state == PaidLate:
		v.exception = Late
	case v.state != Paid:
	case overpaid:
		v.exception = Overpaid
	case t.LateCounted:
		v.exception = Late
	case t.Shortfall.Sign() > 0:
		v.exception = WithinTolerance
	}
	return v, nil
}

// refunding returns the state of a claim whose money is refunded.
func (f *facts) refunding(all map[money.Asset]receivable.Verdict) State {
	received, held, owed := false, false, false
	for asset, t := range all {
		received, held = received || t.Confirmed.Sign() > 0, held || t.Held.Sign() > 0
		owed = owed || f.c.holding(asset).refunded.Cmp(t.Confirmed) < 0
	}
	switch {
	case received && !owed:
		return Refunded
	case held && f.anyLate():
		return PaidLate
	case received:
		return Underpaid
	case !f.c.CancelledAt.IsZero():
		return Cancelled
	}
	return Expired
}

// anyLate reports whether a confirmed deposit was late or the claim was cancelled.
func (f *facts) anyLate() bool {
	for _, d := range f.deposits {
		if d.State == deposit.Confirmed && !d.OnTime {
			return true
		}
	}
	return !f.c.CancelledAt.IsZero()
}

// open reports whether the newest quote in some asset is active. A quote expires only when the chain has been watched
// up to the quote's end.
func (f *facts) open() bool {
	for _, one := range f.assets {
		switch last := one.Newest(); last.State {
		case quote.StateActive:
			return true
		case quote.StateAccepted: // the quote will be reopened, because the deposits no longer cover the claim
			if f.now.Before(last.ValidTo) {
				return true
			}
		}
	}
	return false
}

// abandoned reports whether the claim no longer waits for confirmations.
func (f *facts) abandoned() bool { return !f.now.Before(f.newest().ValidTo.Add(MonitorFor)) }
