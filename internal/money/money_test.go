package money_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/testkit"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		asset money.Asset
		text  string
		units int64
		err   error
	}{
		{money.USD, "12.5", 1250, nil},
		{money.USD, "12.500000000000000000", 1250, nil},
		{money.USD, "1e2", 10000, nil},
		{money.USD, "125e-2", 125, nil},
		{money.USD, "-0", 0, nil},
		{money.USD, "12.345", 0, money.ErrPrecision},
		{money.JPY, "12.5", 0, money.ErrPrecision},
		{money.KWD, "0.001", 1, nil},
		{money.BTC, "0.00000001", 1, nil},
		{money.BTC, "0.000000001", 0, money.ErrPrecision},
		{money.USD, "92233720368547758.07", math.MaxInt64, nil},
		{money.USD, "92233720368547758.08", 0, money.ErrTooLarge},
		{money.USD, "1e999999999", 0, money.ErrTooLarge},
		{money.USD, "1e-999999999", 0, money.ErrPrecision},
		{money.USD, "0e999999999", 0, nil},
		{money.USD, strings.Repeat("9", 10_000), 0, money.ErrTooLarge},
		{money.USD, "", 0, money.ErrNotANumber},
		{money.USD, "1.", 0, money.ErrNotANumber},
		{money.USD, "+1", 0, money.ErrNotANumber},
		{money.USD, "0x1", 0, money.ErrNotANumber},
		{money.USD, "NaN", 0, money.ErrNotANumber},
	} {
		got, err := money.Parse(c.asset, c.text)
		if !errors.Is(err, c.err) || c.err == nil && got.Units() != c.units {
			t.Errorf("%s %.30q: got %v, %v", c.asset, c.text, got.Units(), err)
		}
	}
}

func TestParseReturnsEveryFormattedAmount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SampledFrom(money.All()).Draw(t, "asset")
		x := money.New(a, rapid.Int64Min(math.MinInt64+1).Draw(t, "units"))
		got, err := money.Parse(a, x.String())
		if err != nil || got != x {
			t.Fatalf("%s → %v, %v", x, got, err)
		}
	})
}

func TestASplitSumsToTheWholeAmount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := money.New(money.BTC, rapid.Int64Min(0).Draw(t, "units"))
		weights := rapid.SliceOfN(rapid.Int64Range(0, 100), 1, 5).Draw(t, "weights")
		weights[0]++
		shares, err := x.Split(weights)
		testkit.Check(t, err)
		sum, err := money.Sum(money.BTC, shares...)
		if err != nil || sum != x {
			t.Fatalf("%v split by %v sums to %v, %v", x, weights, sum, err)
		}
		for i, s := range shares {
			if s.Sign() < 0 || weights[i] == 0 && !s.IsZero() {
				t.Fatalf("share %d of %v by %v is %v", i, x, weights, s)
			}
		}
	})
}

func TestSplitsOfSmallAmounts(t *testing.T) {
	for _, c := range []struct {
		units int64
		want  [3]int64
	}{{1, [3]int64{0, 0, 1}}, {100, [3]int64{33, 33, 34}}, {0, [3]int64{0, 0, 0}}} {
		shares, err := money.New(money.BTC, c.units).Split([]int64{33, 33, 34})
		testkit.Check(t, err)
		for i, s := range shares {
			if s.Units() != c.want[i] {
				t.Errorf("%d: share %d is %d, want %d", c.units, i, s.Units(), c.want[i])
			}
		}
	}
}

// The operator never loses by rounding: the funding amount is at least the payout, and at most one unit more.
func TestFundingRoundsUpAndPayoutsDown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate, err := money.ParseRate(money.BTC, money.USD, rapid.StringMatching(`[1-9][0-9]{0,5}\.[0-9]{1,8}`).Draw(t,
			"rate"))
		testkit.Check(t, err)
		due := money.New(money.USD, rapid.Int64Range(1, 1e10).Draw(t, "cents")) // at a rate of 1, more than all bitcoins
		funding, err := rate.Convert(due, money.Ceil)
		testkit.Check(t, err)
		payout, err := rate.Convert(due, money.Floor)
		if err != nil || funding.Cmp(payout) < 0 || funding.Units()-payout.Units() > 1 {
			t.Fatalf("funding %v, payout %v, %v", funding, payout, err)
		}
	})
}

func TestConvertAndCross(t *testing.T) {
	rate, err := money.ParseRate(money.BTC, money.USD, "50000")
	testkit.Check(t, err)
	got, err := rate.Convert(money.New(money.USD, 101_000), money.Ceil)
	if err != nil || got != money.New(money.BTC, 2_020_000) {
		t.Errorf("1,010.00 USD at 50,000 is %v, %v", got, err)
	}
	if rate.String() != "50000" {
		t.Errorf("String returns %s", rate)
	}
	eur, err := money.ParseRate(money.USD, money.EUR, "0.92")
	testkit.Check(t, err)
	cross, err := rate.Cross(eur)
	if err != nil || cross.String() != "46000" {
		t.Errorf("BTC/EUR is %v, %v", cross, err)
	}
}

func TestParseRateRejectsPricesThatAreNotPositive(t *testing.T) {
	for _, text := range []string{"0", "-1", "", "NaN", "1e-40"} {
		if r, err := money.ParseRate(money.BTC, money.USD, text); err == nil {
			t.Errorf("%q became the rate %s", text, r)
		}
	}
}

func TestFeesRoundHalfToEven(t *testing.T) {
	for units, want := range map[int64]int64{50: 0, 150: 2, 250: 2, 350: 4, 351: 4} {
		got, err := money.New(money.USD, units).Fraction(100, 10_000, money.HalfEven)
		if err != nil || got.Units() != want {
			t.Errorf("1 %% of %d is %d, want %d (%v)", units, got.Units(), want, err)
		}
	}
}

func TestAddRejectsOverflowAndOtherAssets(t *testing.T) {
	top := money.New(money.USD, math.MaxInt64)
	if _, err := top.Add(money.New(money.USD, 1)); !errors.Is(err, money.ErrTooLarge) {
		t.Errorf("got %v", err)
	}
	if _, err := top.Add(money.New(money.EUR, 1)); err == nil {
		t.Error("Add accepts USD and EUR")
	}
	if got, err := top.Add(money.Zero(money.USD)); err != nil || got != top {
		t.Errorf("adding 0 returns %v, %v", got, err)
	}
}
