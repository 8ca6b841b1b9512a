package treasury

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/rates"
)

// Position is the amount of an asset that the operator owns, with the trade that its limit calls for.
type Position struct {
	Limit
	Bounded     bool         // whether exchanges into the asset are limited
	Available   money.Amount // operator's money in wallets and at banks; negative if companies and payees are owed more
	AtExchanges money.Amount
	Capacity    money.Amount // amount that may still be exchanged into the asset; the zero Amount if Bounded is false
	Hedge       money.Amount // amount to buy, or to sell if negative, to return to the limit
	Value       money.Amount // value of the position in dollars at Price; the zero Amount without a price
	Price       money.Rate   // current price in dollars; zero if there is none
}

// Report has the operator's position in every asset that has a balance or a limit, sorted by asset.
type Report struct {
	Positions []Position
	Result    money.Amount  // the value of all positions in dollars: capital, profit and loss
	Unpriced  []money.Asset // assets that Result leaves out because they have no price now
}

// Report returns the operator's positions, valued at present prices.
func (t *Treasury) Report(ctx context.Context, tx *db.Tx) (Report, error) {
	r := Report{Result: money.Zero(money.USD)}
	owned, err := ledger.OperatorBalances(ctx, tx)
	if err != nil {
		return r, err
	}
	set, err := loadLimits(ctx, tx)
	if err != nil {
		return r, err
	}
	for a := range set {
		if _, has := owned[a]; !has {
			owned[a] = money.Zero(a)
		}
	}
	limits, err := t.limits(ctx, tx, slices.Collect(maps.Keys(owned)))
	if err != nil {
		return r, err
	}
	for a, x := range owned {
		atExchanges, err := ledger.Total(ctx, tx, ledger.Operator, ledger.Exchange, a)
		if err != nil {
			return r, err
		}
		p, err := newPosition(limits[a], x, atExchanges)
		if err != nil {
			return r, err
		}
		total, err := x.Add(atExchanges)
		if err != nil {
			return r, err
		}
		switch p.Price, err = rates.Latest(ctx, tx, a, money.USD); {
		case errors.Is(err, rates.ErrUnavailable):
			if !total.IsZero() {
				r.Unpriced = append(r.Unpriced, a)
			}
		case err != nil:
			return r, err
		case a == money.USD:
			p.Value = total
		default:
			if p.Value, err = p.Price.Convert(total, money.HalfEven); err != nil {
				return r, err
			}
		}
		if p.Value.Asset() != "" {
			if r.Result, err = r.Result.Add(p.Value); err != nil {
				return r, err
			}
		}
		r.Positions = append(r.Positions, p)
	}
	slices.SortFunc(r.Positions, func(x, y Position) int { return cmp.Compare(x.Asset, y.Asset) })
	slices.Sort(r.Unpriced)
	return r, nil
}

// newPosition returns a position without its value. If the available balance is below the least one, the operator has
// to buy the difference. If it owns more than the upper balance, it has to sell the excess.
func newPosition(l Limit, available, atExchanges money.Amount) (Position, error) {
	p := Position{
		Limit: l, Bounded: !l.unlimited, Available: available, AtExchanges: atExchanges, Hedge: money.Zero(l.Asset),
	}
	total, err := available.Add(atExchanges)
	if err != nil {
		return p, err
	}
	above, err := available.Sub(l.Least)
	if err != nil {
		return p, err
	}
	if p.Bounded {
		p.Capacity = above
		if above.Sign() < 0 {
			p.Capacity = money.Zero(l.Asset)
		}
	}
	switch {
	case above.Sign() < 0:
		p.Hedge = above.Neg()
	case l.Upper.Asset() != "" && total.Cmp(l.Upper) > 0:
		p.Hedge, err = l.Upper.Sub(total)
	}
	return p, err
}
