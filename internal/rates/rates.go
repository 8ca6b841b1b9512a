// Package rates knows what one asset costs in another right now, and refuses to guess.
//
// A [Source] observes prices in dollars. A [Refresher] asks all sources outside of any transaction, keeps for each
// asset the median of those that agree, and stores it with the instant at which it becomes too old. [Latest] reads
// what is stored, crossing through the dollar, and answers [ErrUnavailable] rather than a price that is missing, old
// or disputed.
//
// What makes a price acceptable:
//
//   - it is more than 0 and not older than its limit: 60 seconds for crypto, 5 days for fiat (the reference rates of a
//     Thursday carry over Easter);
//   - it lies within 2 % of the median of all sources; who lies further out is left aside;
//   - for crypto at least two sources agree. Fiat has one source, so a fiat price must lie within 10 % of the price
//     accepted before it, for as long as that one is not too old itself.
//
// When nothing acceptable comes in, the price stored before stays until its own limit. The package adds no spread,
// rounds no amount and promises nothing for later: a price that is held for a customer is a quote.
package rates

import (
	"context"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

// How old a price may be.
const (
	CryptoLimit = 60 * time.Second
	FiatLimit   = 5 * 24 * time.Hour
)

// ErrUnavailable says that there is no price that can be relied on. It passes.
var ErrUnavailable = apierr.New(apierr.Unavailable, "rate_unavailable",
	"No reliable exchange rate is available at this moment. Try again shortly.")

// Price is what one source observed: dollars for one whole unit of Rate's base.
type Price struct {
	Rate money.Rate
	At   time.Time // when the market showed it; zero when the source does not say, which means as of the asking
}

// Source observes prices. It is safe for concurrent use.
type Source interface {
	// Name is short, constant and unique among the sources of a Refresher.
	Name() string
	// Fetch asks for the prices that the source has, each with quote USD. It may return prices together with an error
	// that tells which others it could not get. It returns soon after ctx ends.
	Fetch(ctx context.Context) ([]Price, error)
}

// Stored is the accepted price of an asset.
type Stored struct {
	Rate       money.Rate // dollars for one whole unit
	Sources    string
	ObservedAt time.Time
	ValidTo    time.Time
}

// Key is for who knows before a transaction that it will ask for the price of an asset.
func Key(a money.Asset) db.Prefetch { return prices.Prefetch(a) }

// Latest is the price of one whole base in quote. It answers ErrUnavailable when either side has no price or an old
// one.
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

// List is every price that may be relied on now, sorted by asset.
func List(ctx context.Context, tx *db.Tx) ([]Stored, error) {
	return loadValid(ctx, tx)
}
