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

// Refresher asks sources for prices and stores those that can be relied on. Only DB and Sources are required.
type Refresher struct {
	DB      *db.DB
	Sources []Source
	// Quorum is how many sources must agree on the price of a crypto asset; 2 when 0. A sandbox with its one invented
	// source sets 1.
	Quorum int
	// CryptoLimit and FiatLimit are how old a price may be; the package's constants when 0. A sandbox whose clock jumps
	// sets them long.
	CryptoLimit, FiatLimit time.Duration
	// Timeout bounds each source; 10 seconds when 0.
	Timeout time.Duration
}

var (
	maxDeviation = big.NewRat(2, 100)  // of a source from the median
	maxFiatJump  = big.NewRat(10, 100) // of a fiat price from the one before it
)

// Refresh asks all sources at once and stores what is acceptable. Its error lists every source that failed and every
// asset that got no new price; the other prices are stored all the same.
func (r *Refresher) Refresh(ctx context.Context) error {
	observed, problems := r.fetch(ctx)
	var refused []error
	err := r.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		before, err := loadAll(ctx, tx)
		if err != nil {
			return err
		}
		var accepted []Stored
		accepted, refused = r.judge(observed, before, tx.Now())
		return save(ctx, tx, accepted)
	})
	return errors.Join(slices.Concat([]error{err}, problems, refused)...)
}

type observation struct {
	source string
	Price
}

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

// judge decides which prices to store. It is the whole rule and touches nothing.
func (r *Refresher) judge(observed []observation, before map[money.Asset]Stored,
	now time.Time) (accepted []Stored, refused []error) {
	byAsset := map[money.Asset][]observation{}
	for _, o := range observed {
		if o.Rate.IsZero() || o.Rate.Quote() != money.USD || o.Rate.Base() == money.USD {
			refused = append(refused, fmt.Errorf("rates of %s: a price that is not in dollars", o.source))
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
			refused = append(refused, fmt.Errorf("rate of %s: %w", a, err))
			continue
		}
		accepted = append(accepted, s)
	}
	return accepted, refused
}

// settle finds the one price of an asset that its observations support.
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
		return far(value(o.Rate), middle,
			maxDeviation)
	})
	if len(agreeing) < quorum {
		return Stored{}, fmt.Errorf("%d of %d sources agree, %d must", len(agreeing), len(all), quorum)
	}
	price := median(agreeing)
	if !a.IsCrypto() && now.Before(before.ValidTo) && far(price, value(before.Rate), maxFiatJump) {
		return Stored{}, fmt.Errorf("%s is more than 10 %% away from the price before it, %s", price.FloatString(8),
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

func value(r money.Rate) *big.Rat {
	v, ok := new(big.Rat).SetString(r.String())
	if !ok {
		panic("rates: money wrote a rate that is no decimal")
	}
	return v
}

// median of an even number is the mean of the middle two: of two sources that disagree it is near neither.
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

// far says whether x differs from reference by more than a part of it.
func far(x, reference, part *big.Rat) bool {
	distance := new(big.Rat).Sub(x, reference)
	return distance.Abs(distance).Cmp(new(big.Rat).Mul(reference, part)) > 0
}
