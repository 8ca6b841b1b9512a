package rates

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

// Refresher fetches prices from sources and stores the acceptable prices. DB and Sources are required.
type Refresher struct {
	DB      *db.DB
	Sources []Source
	// Quorum is the number of sources that must agree on the price of a crypto asset; 0 means 2. A sandbox, which has
	// only one source, sets 1.
	Quorum int
	// CryptoLimit and FiatLimit are the maximum ages of a price; 0 means the package's constants. A sandbox, which can
	// advance its clock, sets long limits.
	CryptoLimit, FiatLimit time.Duration
	// Timeout is the timeout of all sources together; 0 means 10 seconds.
	Timeout time.Duration
}

var (
	maxDeviation = big.NewRat(2, 100)  // maximum deviation of a source's price from the median
	maxFiatJump  = big.NewRat(10, 100) // maximum change of a fiat price from the stored price
)

// Refresh fetches the prices of all sources concurrently and stores the acceptable prices. If a source failed or an
// asset was rejected, it returns an error that lists each of them, but still stores the other prices.
func (r *Refresher) Refresh(ctx context.Context) error {
	observed, problems := r.fetch(ctx)
	var rejected []error
	err := r.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		before, err := loadAll(ctx, tx)
		if err != nil {
			return err
		}
		var accepted []Stored
		accepted, rejected = r.evaluate(observed, before, tx.Now())
		if err := save(ctx, tx, accepted); err != nil {
			return err
		}
		return keep(ctx, tx, slices.DeleteFunc(slices.Clone(accepted), func(s Stored) bool {
			return s.ObservedAt.Truncate(time.Hour).Equal(before[s.Rate.Base()].ObservedAt.Truncate(time.Hour))
		}))
	})
	return errors.Join(slices.Concat([]error{err}, problems, rejected)...)
}

// observation is a price with the name of its source.
type observation struct {
	source string
	Price
}

// fetch returns the prices of all sources, and an error for each source that failed.
func (r *Refresher) fetch(ctx context.Context) ([]observation, []error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(r.Timeout, 10*time.Second))
	defer cancel()
	prices, errs := make([][]Price, len(r.Sources)), make([]error, len(r.Sources))
	var wg sync.WaitGroup
	for i, s := range r.Sources {
		wg.Go(func() { prices[i], errs[i] = s.Fetch(ctx) })
	}
	wg.Wait()
	var all []observation
	for i, s := range r.Sources {
		if errs[i] != nil {
			errs[i] = fmt.Errorf("rates of %s: %w", s.Name(), errs[i])
		}
		for _, p := range prices[i] {
			all = append(all, observation{s.Name(), p})
		}
	}
	return all, errs
}

// evaluate returns the prices to store, and an error for each rejected asset. It has no side effects.
func (r *Refresher) evaluate(observed []observation, before map[money.Asset]Stored,
	now time.Time) (accepted []Stored, rejected []error) {
	byAsset := map[money.Asset][]observation{}
	for _, o := range observed {
		if o.Rate.IsZero() || o.Rate.Quote() != money.USD || o.Rate.Base() == money.USD {
			rejected = append(rejected, fmt.Errorf("rates of %s: the price is not in USD", o.source))
			continue
		}
		if o.At.IsZero() || o.At.After(now) {
			o.At = now
		}
		a := o.Rate.Base()
		byAsset[a] = append(byAsset[a], o)
	}
	assets := make([]money.Asset, 0, len(byAsset))
	for a := range byAsset {
		assets = append(assets, a)
	}
	slices.Sort(assets)
	for _, a := range assets {
		s, err := r.settle(a, byAsset[a], before[a], now)
		if err != nil {
			rejected = append(rejected, fmt.Errorf("rate of %s: %w", a, err))
			continue
		}
		accepted = append(accepted, s)
	}
	return accepted, rejected
}

// settle returns the new price of an asset: the median of its observations, or an error if too few sources agree or
// the price changed too much.
func (r *Refresher) settle(a money.Asset, all []observation, before Stored, now time.Time) (Stored, error) {
	limit, quorum := cmp.Or(r.FiatLimit, FiatLimit), 1
	if a.IsCrypto() {
		limit, quorum = cmp.Or(r.CryptoLimit, CryptoLimit), cmp.Or(r.Quorum, 2)
	}
	fresh := slices.DeleteFunc(slices.Clone(all), func(o observation) bool { return now.Sub(o.At) > limit })
	if len(fresh) == 0 {
		return Stored{}, fmt.Errorf("every observation is older than %s", limit)
	}
	middle := median(fresh)
	agreeing := slices.DeleteFunc(slices.Clone(fresh), func(o observation) bool {
		return far(value(o.Rate), middle, maxDeviation)
	})
	if len(agreeing) < quorum {
		return Stored{}, fmt.Errorf("%d of %d sources agree, %d are required", len(agreeing), len(all), quorum)
	}
	price := median(agreeing)
	if !a.IsCrypto() && now.Before(before.ValidTo) && far(price, value(before.Rate), maxFiatJump) {
		return Stored{}, fmt.Errorf("%s differs from the stored price %s by more than 10 %%", price.FloatString(8),
			before.Rate)
	}
	rate, err := money.ParseRate(a, money.USD, price.FloatString(16))
	if err != nil {
		return Stored{}, err
	}
	oldest := slices.MinFunc(agreeing, func(x, y observation) int { return x.At.Compare(y.At) }).At
	var names []string
	for _, o := range agreeing {
		names = append(names, o.source)
	}
	return Stored{Rate: rate, Sources: strings.Join(names, ","), ObservedAt: oldest, ValidTo: oldest.Add(limit)}, nil
}

// value returns a rate as a rational number.
func value(r money.Rate) *big.Rat {
	v, ok := new(big.Rat).SetString(r.String())
	if !ok {
		panic("rates: invalid decimal of a rate")
	}
	return v
}

// median returns the median of the observed rates. For an even number of rates it is the mean of the middle two, so
// if two sources disagree, both deviate from it.
func median(all []observation) *big.Rat {
	values := make([]*big.Rat, len(all))
	for i, o := range all {
		values[i] = value(o.Rate)
	}
	slices.SortFunc(values, (*big.Rat).Cmp)
	n := len(values)
	sum := new(big.Rat).Add(values[(n-1)/2], values[n/2])
	return sum.Quo(sum, big.NewRat(2, 1))
}

// far reports whether x differs from reference by more than the fraction part of reference.
func far(x, reference, part *big.Rat) bool {
	distance := new(big.Rat).Sub(x, reference)
	return distance.Abs(distance).Cmp(new(big.Rat).Mul(reference, part)) > 0
}
