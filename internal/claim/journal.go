package claim

import (
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/receivable"
)

// position is what the ledger holds for a claim. The first nine are sums that came about by bookings; what could not be
// taken back after a reorganisation, because it had been paid out, is owed by the company.
type position struct {
	wallet    money.Amount // confirmed money: in the wallet (1000), and
	channels  money.Amount // of that: in the channels of the Lightning node (1001)
	suspense  money.Amount // of that: waits, because it is not enough or came late (2600)
	excess    money.Amount // of that: too much, or given back; the payer's (2400)
	shortfall money.Amount // absorbed by the house (5030)
	exchanged money.Amount // sold for the merchant's currency (3000)
	merchant  money.Amount // the merchant's (2200)
	revenue   money.Amount // the service's fee (4000)

	owedMerchant money.Amount // due from the company, of what had been the merchant's (1300)
	owedPayer    money.Amount // likewise of what had been paid back to the payer
}

func nothing(funding, settle money.Asset) position {
	f, s := money.Zero(funding), money.Zero(settle)
	return position{wallet: f, channels: f, suspense: f, excess: f, shortfall: f, exchanged: f, merchant: s, revenue: s, owedMerchant: s, owedPayer: f}
}

// books is what has to be booked for a claim: nothing before something is confirmed; then all of it waits, until it is
// enough. A claim that is paid divides it between the merchant, the service and, what is too much, the payer.
func (f *facts) books(t receivable.Verdict) (p position, err error) {
	c := f.c
	p = nothing(c.Funding, c.SettleIn)
	p.wallet = t.Confirmed
	if p.channels, err = f.overLightning(); err != nil {
		return p, err
	}
	switch {
	case c.Refunding:
		p.excess = t.Confirmed
		return p, nil
	case !t.Covered:
		p.suspense = t.Confirmed
		return p, nil
	}
	p.shortfall = t.Shortfall
	if p.excess, err = t.Confirmed.Sub(t.Counted); err != nil {
		return p, err
	}
	whole, err := t.Counted.Add(t.Shortfall) // what the claim comes to in what it was paid in
	if err != nil {
		return p, err
	}
	if c.SettleIn == c.Funding {
		if p.revenue, err = whole.Fraction(c.feeBps, basisPoints, money.HalfEven); err != nil {
			return p, err
		}
		p.merchant, err = whole.Sub(p.revenue)
		return p, err
	}
	p.exchanged, p.revenue = whole, c.Fee
	p.merchant, err = c.Amount.Sub(c.Fee)
	return p, err
}

const basisPoints = 10_000

// move gives the lines that take the books from one position to another, and the position that they lead to. funds and refunds
// are what is left of the merchant's and of the payer's money: no more can be taken back, and the company owes the rest.
func (c *Claim) move(from, to position, funds, refunds money.Amount) ([]ledger.Line, position, error) {
	var lines []ledger.Line
	var err error
	// change books a difference on the side where the account holds what it is given.
	change := func(code ledger.Code, dim string, credit bool, from, to money.Amount) {
		if err != nil {
			return
		}
		var d money.Amount
		if d, err = to.Sub(from); err != nil {
			return
		}
		if d.Sign() < 0 {
			d, credit = d.Neg(), !credit
		}
		if credit {
			lines = append(lines, ledger.Credit(code, dim, d))
		} else {
			lines = append(lines, ledger.Debit(code, dim, d))
		}
	}
	coins := func(p position) money.Amount {
		var in money.Amount
		if err == nil {
			in, err = p.wallet.Sub(p.channels)
		}
		return in
	}
	change(ledger.HotWallet, "", false, coins(from), coins(to))
	change(ledger.ChannelBalance, "", false, from.channels, to.channels)
	change(ledger.SuspenseLate, c.ID, true, from.suspense, to.suspense)
	change(ledger.Shortfall, c.ID, false, from.shortfall, to.shortfall)
	change(ledger.FXPosition, "", true, from.exchanged, to.exchanged)
	if c.SettleIn != c.Funding {
		sold := func(p position) money.Amount {
			if p.exchanged.IsZero() {
				return money.Zero(c.Amount.Asset())
			}
			return c.Amount
		}
		change(ledger.FXPosition, "", false, sold(from), sold(to))
	}
	change(ledger.FeeRevenue, "", true, from.revenue, to.revenue)
	if err != nil {
		return nil, to, err
	}
	if to.merchant, to.owedMerchant, err = reach(from.merchant, from.owedMerchant, to.merchant, funds); err != nil {
		return nil, to, err
	}
	if to.excess, to.owedPayer, err = reach(from.excess, from.owedPayer, to.excess, refunds); err != nil {
		return nil, to, err
	}
	change(ledger.MerchantPayable, "", true, from.merchant, to.merchant)
	change(ledger.DueFromCustomer, "", false, from.owedMerchant, to.owedMerchant)
	change(ledger.RefundPayable, c.ID, true, from.excess, to.excess)
	change(ledger.DueFromCustomer, "", false, from.owedPayer, to.owedPayer)
	return lines, to, err
}

// reach says how much of a liability is booked, and how much of it is owed by the company instead, so that the difference of
// the two is what it should be. A rise settles what is owed first; a fall takes what is left and has the rest owed.
func reach(booked, owed, want, left money.Amount) (nextBooked, nextOwed money.Amount, err error) {
	now, err := booked.Sub(owed)
	if err != nil {
		return booked, owed, err
	}
	by, err := want.Sub(now)
	if err != nil {
		return booked, owed, err
	}
	if by.Sign() >= 0 {
		settled := smaller(owed, by)
		if by, err = by.Sub(settled); err != nil {
			return booked, owed, err
		}
		if owed, err = owed.Sub(settled); err != nil {
			return booked, owed, err
		}
		booked, err = booked.Add(by)
		return booked, owed, err
	}
	by = by.Neg()
	taken := smaller(smaller(left, by), booked)
	rest, err := by.Sub(taken)
	if err != nil {
		return booked, owed, err
	}
	if owed, err = owed.Add(rest); err != nil {
		return booked, owed, err
	}
	booked, err = booked.Sub(taken)
	return booked, owed, err
}

func smaller(x, y money.Amount) money.Amount {
	if x.Cmp(y) < 0 {
		return x
	}
	return y
}
