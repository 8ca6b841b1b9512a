package claim

import (
	"maps"
	"slices"

	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/receivable"
	"github.com/stipend/stipend/internal/receivable/deposit"
)

// position has the amounts posted for a claim. The fields up to revenue are sums of postings. Money that a
// reorganization removed after it was paid out is a debt of the company.
type position struct {
	wallet    money.Amount            // confirmed money
	places    map[string]money.Amount // wallet by chain: in a wallet (1000, 1006) or in Lightning channels (1001)
	suspense  money.Amount            // part of wallet that waits because it is too little or late (2600)
	excess    money.Amount            // part of wallet owed to the payer, as an excess or a refund (2400)
	shortfall money.Amount            // missing amount that the operator pays (5030)
	exchanged money.Amount            // amount sold for the merchant's currency (3000)
	merchant  money.Amount            // amount owed to the merchant (2200)
	revenue   money.Amount            // the service's fee (4000)

	merchantDebt money.Amount // the company's debt for money credited to the merchant (1300)
	refundDebt   money.Amount // the company's debt for money refunded to the payer (1300)
}

func nothing(funding, settle money.Asset) position {
	f, s := money.Zero(funding), money.Zero(settle)
	return position{wallet: f, suspense: f, excess: f, shortfall: f, exchanged: f, merchant: s,
		revenue: s, merchantDebt: s, refundDebt: f}
}

// equal reports whether two positions are the same.
func (p position) equal(q position) bool {
	return maps.Equal(p.places, q.places) && p.wallet == q.wallet && p.suspense == q.suspense && p.excess == q.excess &&
		p.shortfall == q.shortfall && p.exchanged == q.exchanged && p.merchant == q.merchant && p.revenue == q.revenue &&
		p.merchantDebt == q.merchantDebt && p.refundDebt == q.refundDebt
}

// books returns the positions that should be posted for a claim, by asset. Nothing is posted before a confirmation.
// After it, all money waits until the money in one asset is enough. For a paid claim, that money is divided between
// the merchant, the service's fee and, for any excess, the payer. Money in other assets is owed to the payer.
func (f *facts) books(all map[money.Asset]receivable.Verdict) (map[money.Asset]position, error) {
	books := map[money.Asset]position{}
	for asset, t := range all {
		p := nothing(asset, f.c.settlesIn(asset))
		p.wallet = t.Confirmed
		var err error
		if p.places, err = places(f.assets[asset].Deposits); err != nil {
			return nil, err
		}
		switch {
		case f.c.Refunding:
			p.excess = t.Confirmed
		case !all[f.c.Funding].Covered:
			p.suspense = t.Confirmed
		case asset != f.c.Funding:
			p.excess = t.Confirmed
		default:
			if err := f.c.divide(&p, t); err != nil {
				return nil, err
			}
		}
		books[asset] = p
	}
	return books, nil
}

// places returns the sums of confirmed deposits by the chain of the deposits.
func places(all []deposit.Deposit) (sums map[string]money.Amount, err error) {
	for _, d := range all {
		if d.State != deposit.Confirmed {
			continue
		}
		if sums == nil {
			sums = map[string]money.Amount{}
		}
		sum, ok := sums[d.Chain]
		if !ok {
			sum = money.Zero(d.Amount.Asset())
		}
		if sums[d.Chain], err = sum.Add(d.Amount); err != nil {
			return nil, err
		}
	}
	return sums, nil
}

// divide divides the money that pays the claim between the merchant, the service's fee and the payer.
func (c *Claim) divide(p *position, t receivable.Verdict) (err error) {
	p.shortfall = t.Shortfall
	if p.excess, err = t.Confirmed.Sub(t.Counted); err != nil {
		return err
	}
	whole, err := t.Counted.Add(t.Shortfall) // the claim's amount in the asset of the payment
	if err != nil {
		return err
	}
	if c.SettleIn == c.Funding {
		if p.revenue, err = whole.Fraction(c.feeBps, basisPoints, money.HalfEven); err != nil {
			return err
		}
		p.merchant, err = whole.Sub(p.revenue)
		return err
	}
	p.exchanged, p.revenue = whole, c.Fee
	p.merchant, err = c.Amount.Sub(c.Fee)
	return err
}

const basisPoints = 10_000

// postings returns the lines that change the ledger from one position to another, and the resulting position. funds
// and refunds are the remaining balances of the merchant and the payer; if a change exceeds them, the company owes
// the rest.
func (c *Claim) postings(from, to position, funds, refunds money.Amount) ([]ledger.Line, position, error) {
	var lines []ledger.Line
	var err error
	// change posts a difference. credit states whether a credit raises the account.
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
	in := func(p position, place string) money.Amount {
		if a, ok := p.places[place]; ok {
			return a
		}
		return money.Zero(to.wallet.Asset())
	}
	chains := maps.Clone(from.places)
	if chains == nil {
		chains = map[string]money.Amount{}
	}
	maps.Copy(chains, to.places)
	for _, place := range slices.Sorted(maps.Keys(chains)) {
		code, dim := ledger.WalletOf(to.wallet.Asset(), place)
		change(code, dim, false, in(from, place), in(to, place))
	}
	change(ledger.SuspenseLate, c.ID, true, from.suspense, to.suspense)
	change(ledger.Shortfall, c.ID, false, from.shortfall, to.shortfall)
	change(ledger.FXPosition, "", true, from.exchanged, to.exchanged)
	if to.merchant.Asset() != to.wallet.Asset() {
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
	if to.merchant, to.merchantDebt, err = reach(from.merchant, from.merchantDebt, to.merchant, funds); err != nil {
		return nil, to, err
	}
	if to.excess, to.refundDebt, err = reach(from.excess, from.refundDebt, to.excess, refunds); err != nil {
		return nil, to, err
	}
	change(ledger.MerchantPayable, "", true, from.merchant, to.merchant)
	change(ledger.DueFromCustomer, "", false, from.merchantDebt, to.merchantDebt)
	change(ledger.RefundPayable, c.ID, true, from.excess, to.excess)
	change(ledger.DueFromCustomer, "", false, from.refundDebt, to.refundDebt)
	return lines, to, err
}

// reach returns the next posted amount of a liability and the next debt of the company, so that their difference is
// want. An increase first settles the debt. A decrease is taken from left, the remaining balance, and the rest
// becomes a debt.
func reach(booked, owed, want, left money.Amount) (nextBooked, nextOwed money.Amount, err error) {
	by, err := money.Sum(want.Asset(), want, booked.Neg(), owed)
	if err != nil {
		return booked, owed, err
	}
	debt := smaller(owed, by).Neg() // the change of the debt, which an increase settles first
	if by.Sign() < 0 {
		debt, err = smaller(smaller(left, by.Neg()), booked).Sub(by.Neg())
		debt = debt.Neg()
	}
	if err != nil {
		return booked, owed, err
	}
	if nextOwed, err = owed.Add(debt); err != nil {
		return booked, owed, err
	}
	nextBooked, err = money.Sum(want.Asset(), booked, by, debt)
	return nextBooked, nextOwed, err
}

func smaller(x, y money.Amount) money.Amount {
	if x.Cmp(y) < 0 {
		return x
	}
	return y
}
