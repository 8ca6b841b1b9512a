package payroll

import (
	"slices"

	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
)

// This file decides what received money covers. It reads nothing and writes nothing.
//
// Money is valued by its price: the quote in force when it was first seen, or the rate at
// which a late deposit was applied. All money at one price is added up before it is
// converted, so a quote paid in ten parts covers exactly what it covers in one.

// receipt is what was booked for one deposit. While it is live, amount = escrow + surplus
// + suspense + repaid; once reversed, all four are nothing and owed is what could not be
// taken back from where it had gone.
type receipt struct {
	deposit string
	price   string     // id of the quote, or of the deposit itself when it was applied late
	rate    money.Rate // funding asset in the payroll's currency; zero while in suspense
	live    bool
	turn    int64 // bookings and reversals so far
	late    bool

	amount   money.Amount
	escrow   money.Amount // earmarked for the payroll
	surplus  money.Amount // the company's balance
	suspense money.Amount // late, waiting for a decision
	repaid   money.Amount // settled what an earlier reversal left owed
	owed     money.Amount // due from the company after a reversal
}

// coverage is how much of a payroll is covered at which prices.
type coverage struct {
	total  money.Amount
	asset  money.Asset // funding asset
	prices []price
}

type price struct {
	id   string
	rate money.Rate
	sum  money.Amount
}

// cover adds the live escrow of receipts up by price.
func cover(total money.Amount, asset money.Asset, receipts []receipt) (coverage, error) {
	c := coverage{total: total, asset: asset}
	for _, r := range receipts {
		if r.live && !r.escrow.IsZero() {
			if err := c.add(r.price, r.rate, r.escrow); err != nil {
				return c, err
			}
		}
	}
	return c, nil
}

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

func (c coverage) clone() coverage {
	c.prices = slices.Clone(c.prices)
	return c
}

// remaining is what of the total all prices but one leave uncovered, at least 0.
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

// need is what is needed in all at a price, rounded up, given what the other prices cover.
func (c coverage) need(id string, rate money.Rate) (money.Amount, error) {
	left, err := c.remaining(id)
	if err != nil || c.asset == c.total.Asset() {
		return left, err
	}
	return rate.Convert(left, money.Ceil)
}

// room is what is still needed at a price, at least 0.
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

// verdict says whether the payroll is covered when the missing part is priced at one rate,
// and what the house would absorb for it to be.
func (c coverage) verdict(id string, rate money.Rate, bps int64) (covered bool, shortfall money.Amount, err error) {
	none := money.Zero(c.asset)
	left, err := c.remaining("")
	if err != nil || left.IsZero() {
		return err == nil, none, err
	}
	if rate.IsZero() {
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

// single is the one rate at which everything came in, zero when there were several.
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

// newReceipt is the blank of a deposit.
func newReceipt(deposit string, amount money.Amount) receipt {
	none := money.Zero(amount.Asset())
	return receipt{deposit: deposit, amount: amount, escrow: none, surplus: none, suspense: none, repaid: none, owed: none}
}

// book decides where a confirmed deposit goes and gives the journal's lines. What an
// earlier reversal left owed is settled first. Then, while the payroll is open, room is
// what it may still take (a late deposit goes to suspense whole), and the rest is the
// company's.
func (r *receipt) book(payroll string, open bool, room money.Amount) ([]ledger.Line, error) {
	r.live, r.turn = true, r.turn+1
	none := money.Zero(r.amount.Asset())
	r.repaid, r.owed = r.owed, none
	rest, err := r.amount.Sub(r.repaid)
	if err != nil {
		return nil, err
	}
	switch {
	case !open:
		r.escrow, r.suspense = none, none
	case r.late:
		r.escrow, r.suspense = none, rest
	default:
		r.escrow, r.suspense = smaller(room, rest), none
	}
	if rest, err = rest.Sub(r.escrow); err != nil {
		return nil, err
	}
	if r.surplus, err = rest.Sub(r.suspense); err != nil {
		return nil, err
	}
	return []ledger.Line{
		ledger.Debit(ledger.HotWallet, "", r.amount),
		ledger.Credit(ledger.DueFromCustomer, "", r.repaid),
		ledger.Credit(ledger.Escrow, payroll, r.escrow),
		ledger.Credit(ledger.SuspenseLate, payroll, r.suspense),
		ledger.Credit(ledger.CompanyFunds, "", r.surplus),
	}, nil
}

// apply takes a late deposit out of suspense at a rate: as much as there is room for into
// escrow, the rest to the company.
func (r *receipt) apply(payroll string, rate money.Rate, room money.Amount) ([]ledger.Line, error) {
	moved := r.suspense
	take := smaller(room, moved)
	rest, err := moved.Sub(take)
	if err != nil {
		return nil, err
	}
	if r.surplus, err = r.surplus.Add(rest); err != nil {
		return nil, err
	}
	r.price, r.rate, r.turn = r.deposit, rate, r.turn+1
	r.escrow, r.suspense = take, money.Zero(moved.Asset())
	return []ledger.Line{
		ledger.Debit(ledger.SuspenseLate, payroll, moved),
		ledger.Credit(ledger.Escrow, payroll, take),
		ledger.Credit(ledger.CompanyFunds, "", rest),
	}, nil
}

// free gives escrow and suspense of a cancelled payroll to the company.
func (r *receipt) free(payroll string) ([]ledger.Line, error) {
	freed, err := r.escrow.Add(r.suspense)
	if err != nil {
		return nil, err
	}
	lines := []ledger.Line{
		ledger.Debit(ledger.Escrow, payroll, r.escrow),
		ledger.Debit(ledger.SuspenseLate, payroll, r.suspense),
		ledger.Credit(ledger.CompanyFunds, "", freed),
	}
	none := money.Zero(freed.Asset())
	r.escrow, r.suspense, r.turn = none, none, r.turn+1
	r.surplus, err = r.surplus.Add(freed)
	return lines, err
}

// reverse undoes the booking of a deposit that is not confirmed any more. divided says
// that escrow has been released, available is the company's balance: what cannot be taken
// back from either, the company owes.
func (r *receipt) reverse(payroll string, divided bool, available money.Amount) ([]ledger.Line, error) {
	none := money.Zero(r.amount.Asset())
	fromEscrow := r.escrow
	if divided {
		fromEscrow = none
	}
	fromFunds := smaller(r.surplus, available)
	owed := r.amount
	var err error
	for _, x := range [3]money.Amount{fromEscrow, fromFunds, r.suspense} {
		if owed, err = owed.Sub(x); err != nil {
			return nil, err
		}
	}
	lines := []ledger.Line{
		ledger.Debit(ledger.Escrow, payroll, fromEscrow),
		ledger.Debit(ledger.CompanyFunds, "", fromFunds),
		ledger.Debit(ledger.SuspenseLate, payroll, r.suspense),
		ledger.Debit(ledger.DueFromCustomer, "", owed),
		ledger.Credit(ledger.HotWallet, "", r.amount),
	}
	r.live, r.turn = false, r.turn+1
	r.escrow, r.surplus, r.suspense, r.repaid, r.owed = none, none, none, none, owed
	return lines, nil
}

func smaller(x, y money.Amount) money.Amount {
	if x.Cmp(y) < 0 {
		return x
	}
	return y
}
