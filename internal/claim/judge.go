package claim

import (
	"time"

	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/receivable/deposit"
	"github.com/stipend/stipend/internal/receivable/quote"
)

// facts is all that is known of a claim at one instant.
type facts struct {
	c        *Claim
	was      Claim // as it is stored
	now      time.Time
	deposits []deposit.Deposit // by first sight
	quotes   map[string]quote.Quote
	last     quote.Quote           // the newest
	applied  map[string]money.Rate // late deposits that were taken all the same, by id
}

// verdict is where a claim belongs.
type verdict struct {
	state     State
	exception Exception
	enough    bool // what was seen covers the claim, so its price is kept
	txHash    string
	seen      money.Amount // on the chain, confirmed or not
	left      money.Amount // of the claim's amount: what nothing seen in time covers; none once it is enough
	uncounted money.Amount // confirmed, and not in time
	books     position     // what has to be booked; nothing is owed in it
}

// counts says at which price a deposit pays the claim.
func (f *facts) counts(d deposit.Deposit) (id string, rate money.Rate, ok bool) {
	if rate, ok := f.applied[d.ID]; ok {
		return d.ID, rate, true
	}
	q, known := f.quotes[d.QuoteID]
	switch c := f.c; {
	case !known || !d.Timely || c.Refunding || !c.CancelledAt.IsZero():
		return "", money.Rate{}, false
	case !c.InvalidAt.IsZero() && !q.ValidFrom.After(c.InvalidAt):
		return "", money.Rate{}, false
	}
	return q.ID, f.price(q.Rate), true
}

// price is the rate of an exchange, zero where there is none.
func (f *facts) price(r money.Rate) money.Rate {
	if f.c.Amount.Asset() == f.c.Funding {
		return money.Rate{}
	}
	return r
}

// covered asks whether a coverage is enough at the newest price.
func (f *facts) covered(c quote.Coverage) (bool, money.Amount, error) {
	return c.Verdict(f.last.ID, f.last.Rate, f.c.Policy.ToleranceBps)
}

// tally counts the deposits.
type tally struct {
	seen, confirmed, taken, uncounted money.Amount // of the chain; confirmed; paying the claim; confirmed and not in time
	channels                          money.Amount // of what is confirmed: what came over Lightning
	counted                           bool         // anything was seen in time
	lateTaken                         bool         // a late deposit pays the claim
	full, sure                        bool         // what was seen covers the claim; what is confirmed does
	short                             money.Amount // what the house absorbs of what is confirmed
	left                              money.Amount // of the amount: what nothing seen covers
	room                              money.Amount // the same at the newest price
	completed, newest                 string       // transactions
}

func (f *facts) tally() (t tally, err error) {
	none := money.Zero(f.c.Funding)
	t = tally{seen: none, confirmed: none, channels: none, taken: none, uncounted: none, short: none}
	cover := quote.Cover(f.c.Amount, f.c.Funding)
	add := func(to *money.Amount, x money.Amount) {
		if err == nil {
			*to, err = to.Add(x)
		}
	}
	// What is confirmed comes first, so that nothing unconfirmed takes its place.
	for _, confirmed := range []bool{true, false} {
		for _, d := range f.deposits {
			if !d.State.Live() || (d.State == deposit.Confirmed) != confirmed {
				continue
			}
			add(&t.seen, d.Amount)
			if confirmed {
				add(&t.confirmed, d.Amount)
				if d.Chain == lightning.Chain {
					add(&t.channels, d.Amount)
				}
			}
			t.newest = d.TxID
			id, rate, counts := f.counts(d)
			if !counts {
				if confirmed {
					add(&t.uncounted, d.Amount)
				}
				continue
			}
			t.counted = true
			take, errRoom := cover.Room(id, rate)
			if errRoom != nil {
				return t, errRoom
			}
			if d.Amount.Cmp(take) < 0 {
				take = d.Amount
			}
			if errAdd := cover.Add(id, rate, take); errAdd != nil {
				return t, errAdd
			}
			if confirmed {
				add(&t.taken, take)
				t.lateTaken = t.lateTaken || take.Sign() > 0 && f.late(d)
			}
			if err != nil {
				return t, err
			}
			before := t.full
			if t.full, _, err = f.covered(cover); err != nil {
				return t, err
			}
			if t.full && !before {
				t.completed = d.TxID
			}
		}
		if confirmed {
			if t.sure, t.short, err = f.covered(cover); err != nil {
				return t, err
			}
		}
	}
	if err == nil {
		t.left, err = cover.Remaining("")
	}
	if err == nil {
		t.room, err = cover.Room(f.last.ID, f.price(f.last.Rate))
	}
	return t, err
}

// late says that a deposit was seen after the end of the price that values it.
func (f *facts) late(d deposit.Deposit) bool {
	_, applied := f.applied[d.ID]
	return applied || !d.FirstSeen.Before(f.quotes[d.QuoteID].ValidTo)
}

// judge says where a claim belongs and what has to be booked for it.
func (f *facts) judge() (verdict, error) {
	t, err := f.tally()
	if err != nil {
		return verdict{}, err
	}
	v := verdict{exception: None, seen: t.seen, left: t.left, uncounted: t.uncounted, txHash: t.completed}
	if v.txHash == "" {
		v.txHash = t.newest
	}
	switch c := f.c; {
	case c.Refunding:
		v.state = f.refunding(t)
	case !c.CancelledAt.IsZero() && !t.sure: // only what the merchant took all the same pays a claim that was cancelled
		v.state = Cancelled
		if t.confirmed.Sign() > 0 {
			v.state = PaidLate
		}
	case t.sure || t.full && c.Policy.Confirmations == 0:
		v.state, v.enough = Paid, true
	case t.full && f.abandoned():
		v.state = Invalid
	case t.full:
		v.state, v.enough = Confirming, true
	case t.uncounted.Sign() > 0:
		v.state = PaidLate
	case !c.InvalidAt.IsZero() && !f.last.ValidFrom.After(c.InvalidAt):
		v.state = Invalid
	case f.open():
		v.state = AwaitingPayment
		if t.counted {
			v.state = PartiallyPaid
		}
	default:
		v.state = Expired
		if t.counted {
			v.state = Underpaid
		}
	}
	if v.enough {
		v.left = money.Zero(t.left.Asset()) // what lacks within the tolerance is not asked for
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
	case t.lateTaken:
		v.exception = Late
	case t.short.Sign() > 0:
		v.exception = WithinTolerance
	}
	return v, nil
}

// refunding is the state of a claim whose money goes back.
func (f *facts) refunding(t tally) State {
	switch {
	case t.confirmed.Sign() > 0 && f.c.Refunded.Cmp(t.confirmed) >= 0:
		return Refunded
	case t.uncounted.Sign() > 0 && f.anyLate():
		return PaidLate
	case t.confirmed.Sign() > 0:
		return Underpaid
	case !f.c.CancelledAt.IsZero():
		return Cancelled
	}
	return Expired
}

func (f *facts) anyLate() bool {
	for _, d := range f.deposits {
		if d.State == deposit.Confirmed && !d.Timely {
			return true
		}
	}
	return !f.c.CancelledAt.IsZero()
}

// open says that the newest price still holds. Whether it has ended is for the quote to say, which waits until the chain has
// been watched up to then.
func (f *facts) open() bool {
	switch f.last.State {
	case quote.StateActive:
		return true
	case quote.StateAccepted: // about to be given up, since nothing covers it any more
		return f.now.Before(f.last.ValidTo)
	default:
		return false
	}
}

// abandoned says that confirmations are not waited for any more.
func (f *facts) abandoned() bool { return !f.now.Before(f.last.ValidTo.Add(MonitorFor)) }
