// Package rates provides current exchange rates between assets. If no reliable rate is known, it returns an error.
//
// A [Source] observes prices in USD. A [Refresher] fetches the prices of all sources outside of transactions,
// computes for each asset the median of the sources that agree, and stores it with its expiration. [Latest] reads
// stored prices and converts between assets through USD. It returns [ErrUnavailable] if a price is missing or
// expired. [Past] returns past prices, for the valuation of past payments, from a history of one price per asset and
// hour.
//
// A price is acceptable if
//
//   - it is positive and not older than its limit: 60 seconds for crypto, 5 days for fiat, because the reference
//     rates of the Thursday before Easter are valid until Tuesday;
//   - it deviates by at most 2 % from the median of all sources; other sources are ignored;
//   - for crypto, at least two sources agree. Fiat has one source, so a fiat price must not differ from the stored
//     price by more than 10 % unless the stored price has expired.
//
// Otherwise the stored price remains until it expires. The package adds no spread, does not round amounts and does not
// guarantee prices for later; see package quote.
package rates

import (
	"context"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

// The maximum ages of prices.
const (
	CryptoLimit = 60 * time.Second
	FiatLimit   = 5 * 24 * time.Hour
)

// ErrUnavailable is returned if no reliable price is known. The condition is temporary.
var ErrUnavailable = apierr.New(apierr.Unavailable, "rate_unavailable",
	"No reliable exchange rate is available. Try again in a minute.")

// Price is the price that a source observed, in USD per whole unit of Rate's base.
type Price struct {
	Rate money.Rate
	At   time.Time // time of the observation; zero if the source does not state it and the price is current
}

// Source observes prices. It must be safe for concurrent use.
type Source interface {
	// Name returns a short constant, unique among the sources of a Refresher.
	Name() string
	// Fetch returns the current prices, each with quote USD. It may return some prices together with an error about the
	// others. It returns soon after ctx ends.
	Fetch(ctx context.Context) ([]Price, error)
}

// Stored is the accepted price of an asset.
type Stored struct {
	Rate       money.Rate // dollars for one whole unit
	Sources    string
	ObservedAt time.Time
	ValidTo    time.Time
}

// Key returns the prefetch key of the price of an asset.
func Key(a money.Asset) db.Prefetch { return prices.Prefetch(a) }

// Latest returns the price of one whole unit of base in quote. It returns ErrUnavailable if the price of base or
// quote is missing or too old.
func Latest(ctx context.Context, tx *db.Tx, base, quote money.Asset) (money.Rate, error) {
	if base == quote {
		return money.ParseRate(base, quote, "1")
	}
	b, err := inDollars(ctx, tx, base)
	if err != nil {
		return money.Rate{}, err
	}
	if quote == money.USD {
		return b, nil
	}
	q, err := inDollars(ctx, tx, quote)
	if err != nil {
		return money.Rate{}, err
	}
	q, err = q.Inverse()
	if err != nil {
		return money.Rate{}, err
	}
	return b.Cross(q)
}

// Past returns the price of one whole unit of base in quote at a time in the past, from the history of one price per
// hour. It returns ErrUnavailable if there is no history of base or quote. The price is for reports; it must not be
// used for exchanges.
func Past(ctx context.Context, tx *db.Tx, base, quote money.Asset, at time.Time) (money.Rate, error) {
	var both [2]money.Rate
	for i, a := range [2]money.Asset{base, quote} {
		text, found := "1", a == money.USD || base == quote
		if !found {
			var err error
			if text, found, err = past(ctx, tx, a, at); err != nil {
				return money.Rate{}, err
			}
		}
		if !found {
			return money.Rate{}, ErrUnavailable.Set("currency", string(a))
		}
		var err error
		if both[i], err = money.ParseRate(a, money.USD, text); err != nil {
			return money.Rate{}, err
		}
	}
	if base == quote {
		return money.ParseRate(base, quote, "1")
	}
	if quote == money.USD {
		return both[0], nil
	}
	inverse, err := both[1].Inverse()
	if err != nil {
		return money.Rate{}, err
	}
	return both[0].Cross(inverse)
}

// inDollars returns the price of an asset in USD, or ErrUnavailable.
func inDollars(ctx context.Context, tx *db.Tx, a money.Asset) (money.Rate, error) {
	if a == money.USD {
		return money.ParseRate(money.USD, money.USD, "1")
	}
	s, found, err := prices.Get(ctx, tx, a)
	if err == nil && (!found || !tx.Now().Before(s.ValidTo)) {
		return money.Rate{}, ErrUnavailable.Set("currency", string(a))
	}
	return s.Rate, err
}

// List returns all current prices, sorted by asset.
func List(ctx context.Context, tx *db.Tx) ([]Stored, error) {
	return loadValid(ctx, tx)
}
