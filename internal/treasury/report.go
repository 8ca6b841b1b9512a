package treasury

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/rates"
)

// Position is what the house owns of an asset, and what the operator should do about it.
type Position struct {
	Limit
	Bounded bool         // something bounds what is exchanged into it
	AtHand  money.Amount // owned, in the wallets and at banks; below 0, the house owes it without having it
	Away    money.Amount // owned, at exchanges
	Room    money.Amount // what may still be exchanged into it; zero Amount where nothing bounds that
	Hedge   money.Amount // to buy, or where negative to sell, to stand within the limit again
	Value   money.Amount // of all that is owned, in dollars at the present price
	Price   money.Rate   // that price; zero while there is none
}

// Report is the position of the house in every asset that it ever had to do with or that has a limit, sorted by asset.
type Report struct {
	Positions []Position
	// Result is what all positions together are worth in dollars: what the house brought, earned and lost.
	Result money.Amount
	// Unpriced are the assets that Result leaves out, since there is no price for them now.
	Unpriced []money.Asset
}

// Hedging reports how the house stands, valued at present prices.
func (d Desk) Hedging(ctx context.Context, tx *db.Tx) (Report, error) {
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
	var assets []money.Asset
	for a := range owned {
		assets = append(assets, a)
	}
	limits, err := d.limits(ctx, tx, assets)
	if err != nil {
		return r, err
	}
	for a, x := range owned {
		away, err := ledger.Total(ctx, tx, ledger.Operator, ledger.Exchange, a)
		if err != nil {
			return r, err
		}
		p, err := position(limits[a], x, away)
		if err != nil {
			return r, err
		}
		total, err := x.Add(away)
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

// position says what a holding is under its limit. With less at hand than its least, the house brings the difference; owning more
// than its upper end, it sells that.
func position(l Limit, atHand, away money.Amount) (Position, error) {
	p := Position{Limit: l, Bounded: !l.open, AtHand: atHand, Away: away, Hedge: money.Zero(l.Asset)}
	total, err := atHand.Add(away)
	if err != nil {
		return p, err
	}
	above, err := atHand.Sub(l.Least)
	if err != nil {
		return p, err
	}
	if p.Bounded {
		p.Room = above
		if above.Sign() < 0 {
			p.Room = money.Zero(l.Asset)
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
