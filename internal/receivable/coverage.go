package receivable

import (
	"slices"

	"github.com/stipend/stipend/internal/money"
)

// Each deposit has a price: the rate of the quote in force when the deposit was first seen, or the rate at which a
// late deposit was accepted. All money at one price is added up before it is converted, so ten partial payments under
// a quote cover exactly as much as one payment of their sum.

const (
	basisPoints = 10_000 // basis points in 100 %, for tolerances

	// dustSats is the smallest P2WPKH output that nodes relay, so it is the smallest amount that a transaction can pay.
	dustSats = 294
)

// coverage records which part of a total is covered, by price.
type coverage struct {
	total  money.Amount
	asset  money.Asset // asset of the payments
	prices []price
}

type price struct {
	id   string
	rate money.Rate
	sum  money.Amount
}

// add adds an amount that was paid at the price with an ID and rate.
func (c *coverage) add(id string, rate money.Rate, x money.Amount) error {
	i := slices.IndexFunc(c.prices, func(p price) bool { return p.id == id })
	if i < 0 {
		c.prices = append(c.prices, price{id, rate, money.Zero(c.asset)})
		i = len(c.prices) - 1
	}
	var err error
	c.prices[i].sum, err = c.prices[i].sum.Add(x)
	return err
}

// clone returns an independent copy.
func (c coverage) clone() coverage {
	c.prices = slices.Clone(c.prices)
	return c
}

// remaining returns the part of the total, at least 0, that the money at all prices but one does not cover.
func (c coverage) remaining(but string) (money.Amount, error) {
	left := c.total
	for _, p := range c.prices {
		if p.id == but {
			continue
		}
		value := p.sum
		var err error
		if c.asset != c.total.Asset() {
			if value, err = p.rate.Convert(p.sum, money.Floor); err != nil {
				return left, err
			}
		}
		if left, err = left.Sub(value); err != nil {
			return left, err
		}
	}
	if left.Sign() < 0 {
		left = money.Zero(left.Asset())
	}
	return left, nil
}

// need returns the amount, rounded up, that must be paid at a price to cover the total, given the money at other
// prices.
func (c coverage) need(id string, rate money.Rate) (money.Amount, error) {
	left, err := c.remaining(id)
	if err != nil || c.asset == c.total.Asset() {
		return left, err
	}
	return rate.Convert(left, money.Ceil)
}

// room returns the amount that must still be paid at the price with an ID and rate, at least 0.
func (c coverage) room(id string, rate money.Rate) (money.Amount, error) {
	need, err := c.need(id, rate)
	if err != nil {
		return need, err
	}
	for _, p := range c.prices {
		if p.id == id {
			if need, err = need.Sub(p.sum); err != nil {
				return need, err
			}
		}
	}
	if need.Sign() < 0 {
		need = money.Zero(c.asset)
	}
	return need, nil
}

// verdict reports whether the total is covered. The missing part is converted at the given rate; if it is within the
// tolerance, the total counts as covered, and shortfall is the amount that the operator would absorb.
func (c coverage) verdict(id string, rate money.Rate, bps int64) (covered bool, shortfall money.Amount, err error) {
	none := money.Zero(c.asset)
	left, err := c.remaining("")
	if err != nil || left.IsZero() {
		return err == nil, none, err
	}
	if rate.IsZero() && c.asset != c.total.Asset() {
		return false, none, nil
	}
	short, err := c.room(id, rate)
	if err != nil {
		return false, none, err
	}
	due, err := fundingDue(c.total, c.asset, rate)
	if err != nil {
		return false, none, err
	}
	allowed, err := tolerance(due, bps)
	if err != nil {
		return false, none, err
	}
	if short.Cmp(allowed) > 0 {
		return false, none, nil
	}
	return true, short, nil
}

// fundingDue converts a total to the funding asset, rounded up.
func fundingDue(total money.Amount, funding money.Asset, rate money.Rate) (money.Amount, error) {
	if total.Asset() == funding {
		return total, nil
	}
	return rate.Convert(total, money.Ceil)
}

// tolerance returns the accepted shortfall: bps of the amount due. In bitcoin, it is at least the smallest relayed
// output, if that is at most one percent of the amount due.
func tolerance(due money.Amount, bps int64) (money.Amount, error) {
	allowed, err := due.Fraction(bps, basisPoints, money.Floor)
	if err != nil || due.Asset() != money.BTC {
		return allowed, err
	}
	hundredth, err := due.Fraction(1, 100, money.Floor)
	if err != nil {
		return allowed, err
	}
	return money.New(due.Asset(), max(allowed.Units(), min(dustSats, hundredth.Units()))), nil
}

// single returns the common rate of all money, or zero if there are several rates.
func (c coverage) single() money.Rate {
	var rate money.Rate
	for _, p := range c.prices {
		if !rate.IsZero() && rate.Cmp(p.rate) != 0 {
			return money.Rate{}
		}
		rate = p.rate
	}
	return rate
}
