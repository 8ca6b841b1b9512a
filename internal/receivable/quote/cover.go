package quote

import (
	"slices"

	"github.com/stipend/stipend/internal/money"
)

// This file decides what received money covers. It reads nothing and writes nothing.
//
// Money is valued by its price: the quote in force when it was first seen, or the rate at which a late deposit was applied.
// All money at one price is added up before it is converted, so a quote paid in ten parts covers exactly what it covers in
// one.

const (
	basisPoints = 10_000 // of the whole

	// dustSats is what no transaction can bring: smaller P2WPKH outputs are not relayed.
	dustSats = 294
)

// Coverage is how much of a total is covered at which prices.
type Coverage struct {
	total  money.Amount
	asset  money.Asset // funding asset
	prices []price
}

type price struct {
	id   string
	rate money.Rate
	sum  money.Amount
}

// Cover starts with nothing of a total that is paid in an asset.
func Cover(total money.Amount, asset money.Asset) Coverage {
	return Coverage{total: total, asset: asset}
}

// Add counts money at a price, which an id names.
func (c *Coverage) Add(id string, rate money.Rate, x money.Amount) error {
	i := slices.IndexFunc(c.prices, func(p price) bool { return p.id == id })
	if i < 0 {
		c.prices = append(c.prices, price{id, rate, money.Zero(c.asset)})
		i = len(c.prices) - 1
	}
	var err error
	c.prices[i].sum, err = c.prices[i].sum.Add(x)
	return err
}

// Clone is a copy to count on with.
func (c Coverage) Clone() Coverage {
	c.prices = slices.Clone(c.prices)
	return c
}

// Remaining is what of the total all prices but one leave uncovered, at least 0.
func (c Coverage) Remaining(but string) (money.Amount, error) {
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

// need is what is needed in all at a price, rounded up, given what the other prices cover.
func (c Coverage) need(id string, rate money.Rate) (money.Amount, error) {
	left, err := c.Remaining(id)
	if err != nil || c.asset == c.total.Asset() {
		return left, err
	}
	return rate.Convert(left, money.Ceil)
}

// Room is what is still needed at a price, at least 0.
func (c Coverage) Room(id string, rate money.Rate) (money.Amount, error) {
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

// Verdict says whether the total is covered when the missing part is priced at one rate,
// and what the house would absorb for it to be.
func (c Coverage) Verdict(id string, rate money.Rate, bps int64) (covered bool, shortfall money.Amount, err error) {
	none := money.Zero(c.asset)
	left, err := c.Remaining("")
	if err != nil || left.IsZero() {
		return err == nil, none, err
	}
	if rate.IsZero() && c.asset != c.total.Asset() {
		return false, none, nil
	}
	short, err := c.Room(id, rate)
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

// fundingDue is a total in the funding asset, rounded up.
func fundingDue(total money.Amount, funding money.Asset, rate money.Rate) (money.Amount, error) {
	if total.Asset() == funding {
		return total, nil
	}
	return rate.Convert(total, money.Ceil)
}

// tolerance is the shortfall that is accepted: the company's basis points of what is due,
// and at least what no relayable transaction could bring, as long as that is no more than
// a hundredth of it.
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

// Single is the one rate at which everything came in, zero when there were several.
func (c Coverage) Single() money.Rate {
	var rate money.Rate
	for _, p := range c.prices {
		if !rate.IsZero() && rate.Cmp(p.rate) != 0 {
			return money.Rate{}
		}
		rate = p.rate
	}
	return rate
}
