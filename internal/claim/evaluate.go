package claim

import (
	"time"

	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/receivable"
	"github.com/stipend/stipend/internal/receivable/deposit"
	"github.com/stipend/stipend/internal/receivable/quote"
)

// facts has a claim and the facts about its money.
type facts struct {
	receivable.Facts

	c   *Claim
	was Claim // the claim as stored
	now time.Time
}

// current returns the facts with the decisions made about the claim so far. For a claim that was cancelled or is
// being refunded, only money that the merchant accepted counts. Deposits seen before a claim became invalid do not
// count.
func (f *facts) current() *receivable.Facts {
	f.Closed, f.VoidUntil = f.c.Refunding || !f.c.CancelledAt.IsZero(), f.c.InvalidAt
	return &f.Facts
}

// verdict has the state that a claim should have and the position that should be posted for it.
type verdict struct {
	state     State
	exception Exception
	enough    bool // the deposits seen cover the claim, so its quote is kept
	txHash    string
	seen      money.Amount // sum of all deposits on the chain, confirmed or not
	left      money.Amount // part of the claim's amount that no deposit seen in time covers
	books     position     // the position to be posted, without debts
}

// evaluate returns the state that the claim should have and the position that should be posted for it.
func (f *facts) evaluate() (verdict, error) {
	t, err := f.current().Evaluate()
	if err != nil {
		return verdict{}, err
	}
	v := verdict{exception: None, seen: t.Seen, left: t.Left, txHash: t.CompletedBy}
	if v.txHash == "" {
		v.txHash = t.LastTx
	}
	switch c := f.c; {
	case c.Refunding:
		v.state = f.refunding(t)
	case !c.CancelledAt.IsZero() && !t.Covered: // only money that the merchant accepted pays a cancelled claim
		v.state = Cancelled
		if t.Confirmed.Sign() > 0 {
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
	case !c.InvalidAt.IsZero() && !f.Newest().ValidFrom.After(c.InvalidAt):
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
	if v.books, err = f.books(t); err != nil {
		return v, err
	}
	switch {
	case v.state == PaidLate:
		v.exception = Late
	case v.state != Paid:
	case v.books.excess.Sign() > 0:
		v.exception = Overpaid
	case t.LateCounted:
		v.exception = Late
	case t.Shortfall.Sign() > 0:
		v.exception = WithinTolerance
	}
	return v, nil
}

// refunding returns the state of a claim whose money is refunded.
func (f *facts) refunding(t receivable.Verdict) State {
	switch {
	case t.Confirmed.Sign() > 0 && f.c.Refunded.Cmp(t.Confirmed) >= 0:
		return Refunded
	case t.Held.Sign() > 0 && f.anyLate():
		return PaidLate
	case t.Confirmed.Sign() > 0:
		return Underpaid
	case !f.c.CancelledAt.IsZero():
		return Cancelled
	}
	return Expired
}

// anyLate reports whether a confirmed deposit was late, or the claim was cancelled.
func (f *facts) anyLate() bool {
	for _, d := range f.Deposits {
		if d.State == deposit.Confirmed && !d.OnTime {
			return true
		}
	}
	return !f.c.CancelledAt.IsZero()
}

// overLightning returns the part of the confirmed money that was paid over Lightning.
func (f *facts) overLightning() (money.Amount, error) {
	sum := money.Zero(f.Asset)
	for _, d := range f.Deposits {
		if d.State != deposit.Confirmed || d.Chain != lightning.Chain {
			continue
		}
		var err error
		if sum, err = sum.Add(d.Amount); err != nil {
			return sum, err
		}
	}
	return sum, nil
}

// open reports whether the newest quote is active. A quote ends only when the chain has been watched until its end.
func (f *facts) open() bool {
	switch last := f.Newest(); last.State {
	case quote.StateActive:
		return true
	case quote.StateAccepted: // the quote will be reopened, because no deposit covers it now
		return f.now.Before(last.ValidTo)
	default:
		return false
	}
}

// abandoned reports whether the claim no longer waits for confirmations.
func (f *facts) abandoned() bool { return !f.now.Before(f.Newest().ValidTo.Add(MonitorFor)) }
