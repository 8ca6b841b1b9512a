package claim

import (
	"time"

	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/receivable"
	"github.com/stipend/stipend/internal/receivable/deposit"
	"github.com/stipend/stipend/internal/receivable/quote"
)

// facts is a claim with the facts about its money.
type facts struct {
	receivable.Facts

	c   *Claim
	was Claim // as it is stored
	now time.Time
}

// current returns the facts with what was decided about the claim until now. Only money that the merchant accepted
// counts for a claim that was cancelled or is being refunded, and what was seen before a claim became invalid does
// not count.
func (f *facts) current() *receivable.Facts {
	f.Closed, f.VoidUntil = f.c.Refunding || !f.c.CancelledAt.IsZero(), f.c.InvalidAt
	return &f.Facts
}

// verdict is the state that a claim should have and what should be posted for it.
type verdict struct {
	state     State
	exception Exception
	enough    bool // what was seen covers the claim, so its quote is kept
	txHash    string
	seen      money.Amount // on the chain, confirmed or not
	left      money.Amount // of the claim's amount: what nothing seen in time covers; zero if it is enough
	books     position     // what should be posted; nothing is owed in it
}

// evaluate returns the state that the claim should have and what should be posted for it.
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
	case !c.CancelledAt.IsZero() && !t.Covered: // only what the merchant accepted pays a claim that was cancelled
		v.state = Cancelled
		if t.Confirmed.Sign() > 0 {
			v.state = PaidLate
		}
	case t.Covered || t.Enough && c.Policy.Confirmations == 0:
		v.state, v.enough = Paid, true
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
		v.left = money.Zero(t.Left.Asset()) // what is missing within the tolerance is not asked for
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

// refunding returns the state of a claim whose money is given back.
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

// anyLate reports whether a confirmed deposit came late, or the claim was cancelled.
func (f *facts) anyLate() bool {
	for _, d := range f.Deposits {
		if d.State == deposit.Confirmed && !d.OnTime {
			return true
		}
	}
	return !f.c.CancelledAt.IsZero()
}

// overLightning returns how much of the confirmed money came over Lightning.
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

// open reports whether the newest quote is in force. The quote itself decides when it has ended: not before the chain
// was watched until then.
func (f *facts) open() bool {
	switch last := f.Newest(); last.State {
	case quote.StateActive:
		return true
	case quote.StateAccepted: // it will be reopened, since nothing covers it any more
		return f.now.Before(last.ValidTo)
	default:
		return false
	}
}

// abandoned reports whether confirmations are no longer waited for.
func (f *facts) abandoned() bool { return !f.now.Before(f.Newest().ValidTo.Add(MonitorFor)) }
