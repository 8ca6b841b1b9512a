package treasury

import (
	"context"
	"errors"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/testkit/fixture"
)

var sats, cents, eur = fixture.Sats, fixture.USD, fixture.EUR

var kraken = Place{PlaceExchange, "kraken"}

// env is a database with prices, and a Treasury whose policy is Bounded.
type env struct {
	*fixture.Fixture
	*Treasury
}

func newTreasury(t testing.TB, p Policy) *Treasury {
	t.Helper()
	s, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// run runs f on both engines and checks the ledger afterwards.
func run(t *testing.T, f func(h env)) {
	t.Helper()
	fixture.Run(t, func(x *fixture.Fixture) {
		x.By.CompanyID = ledger.Operator
		f(env{x, newTreasury(x, Bounded)})
	})
}

// want runs f in a transaction and compares its result.
func (h env) want(name string, booked bool, target error, f func(context.Context, *db.Tx) (bool, error)) {
	h.Helper()
	var got bool
	err := h.DB.Write(h.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
		got, err = f(ctx, tx)
		return err
	})
	if got != booked || !errors.Is(err, target) {
		h.Errorf("%s: booked %v, %v; want %v, %v", name, got, err, booked, target)
	}
}

func (h env) deposit(p Place, reference string, x money.Amount) func(context.Context, *db.Tx) (bool, error) {
	return func(ctx context.Context, tx *db.Tx) (bool, error) {
		return Deposit(ctx, tx, Booking{p, reference}, x)
	}
}

func TestNewRefusesAMissingPolicy(t *testing.T) {
	for _, p := range []Policy{"", "other"} {
		if s, err := New(p); err == nil || s != nil {
			t.Errorf("New(%q) returned %v, %v", p, s, err)
		}
	}
}

func TestBookingsArePostedOnce(t *testing.T) {
	run(t, func(h env) {
		bank := Place{Kind: PlaceBank}
		h.want("a deposit", true, nil, h.deposit(kraken, "1", sats(100)))
		h.want("the same deposit again", false, nil, h.deposit(kraken, "1", sats(100)))
		h.want("another amount under the same reference", false, ErrBooked, h.deposit(kraken, "1", sats(101)))
		h.want("the same reference at another place", true, nil, h.deposit(bank, "1", cents(50)))
		h.want("no reference", false, errName, h.deposit(bank, " ", cents(50)))
		h.want("an amount of 0", false, errNothing, h.deposit(bank, "2", cents(0)))
		h.want("an unknown kind of place", false, errPlace, h.deposit(Place{Kind: "safe"}, "2", cents(1)))

		trade := func(reference string, given, got money.Amount) func(context.Context, *db.Tx) (bool, error) {
			return func(ctx context.Context, tx *db.Tx) (bool, error) {
				return h.Trade(ctx, tx, Booking{kraken, reference}, given, got)
			}
		}
		h.want("a trade of more than the exchange holds", false, ErrShort, trade("t1", sats(101), cents(1)))
		h.want("a trade", true, nil, trade("t1", sats(60), cents(30)))
		h.want("a trade within one asset", false, errSame, trade("t2", sats(10), sats(10)))

		transfer := func(reference string, x money.Amount) func(context.Context, *db.Tx) (bool, error) {
			return func(ctx context.Context, tx *db.Tx) (bool, error) {
				return h.Transfer(ctx, tx, Booking{kraken, reference}, bank, x)
			}
		}
		h.want("a transfer of more than the exchange holds", false, ErrShort, transfer("m1", cents(31)))
		h.WantBalance(ledger.Exchange, "kraken", sats(40))
		h.WantBalance(ledger.Exchange, "kraken", cents(30))
		h.WantBalance(ledger.FXPosition, "", sats(40)) // 100 sat deposited and 60 sold
		h.WantBalance(ledger.FXPosition, "", cents(80))
		h.want("a transfer", true, nil, transfer("m1", cents(30)))
		h.WantBalance(ledger.Exchange, "kraken", cents(0))
		h.WantBalance(ledger.Bank, "", cents(80))

		h.Read(func(ctx context.Context, tx *db.Tx) error {
			own, err := ledger.OperatorBalances(ctx, tx, money.BTC, money.USD)
			if own[money.BTC] != sats(0) || own[money.USD] != cents(80) {
				t.Errorf("the available balances are %v", own)
			}
			return err
		})
		withdraw := func(reference string, x money.Amount) func(context.Context, *db.Tx) (bool, error) {
			return func(ctx context.Context, tx *db.Tx) (bool, error) {
				return h.Withdraw(ctx, tx, Booking{bank, reference}, x)
			}
		}
		h.PostTransfer("com_1", "test", "1", "credit", ledger.Bank, ledger.CompanyFunds, cents(1_000))
		h.want("a withdrawal of money of companies", false, ErrShort, withdraw("w1", cents(81)))
		h.want("a withdrawal of all money of the operator", true, nil, withdraw("w1", cents(80)))
		// The operator does not own these coins.
		h.WantError(ErrShort, func(ctx context.Context, tx *db.Tx) error { return h.Send(ctx, tx, "out_1", sats(1)) })
	})
}

func TestSetLimitRefusesInvalidLimits(t *testing.T) {
	run(t, func(h env) {
		for _, c := range []struct {
			l    Limit
			want error
		}{
			{Limit{Asset: money.BTC, Least: sats(-1)}, errCrypto},
			{Limit{Asset: money.USD, Least: cents(10), Upper: cents(9)}, errOrder},
			{Limit{Asset: money.USD, Least: cents(10), Most: cents(0)}, errNothing},
			{Limit{Asset: money.USD, Least: cents(-10), Upper: cents(0), Most: cents(5)}, nil},
			{Limit{Asset: money.USD, Least: cents(-20)}, nil},
		} {
			h.WantError(c.want, func(ctx context.Context, tx *db.Tx) error { return SetLimit(ctx, tx, c.l) })
		}
		h.Read(func(ctx context.Context, tx *db.Tx) error {
			limits, err := loadLimits(ctx, tx)
			want := Limit{Asset: money.USD, Least: cents(-20)}
			if len(limits) != 1 || limits[money.USD] != want {
				t.Errorf("%+v", limits)
			}
			changes, err2 := db.Changes(ctx, tx, ledger.Operator, "fx_limit_USD")
			if len(changes) != 2 {
				t.Errorf("the history has %d changes, want 2", len(changes))
			}
			return errors.Join(err, err2)
		})
	})
}

func TestReportComputesHedges(t *testing.T) {
	run(t, func(h env) {
		h.want("a deposit of dollars", true, nil, h.deposit(Place{Kind: PlaceBank}, "1", cents(100_00)))
		h.want("a deposit of bitcoin", true, nil, h.deposit(kraken, "1", sats(3_000_000)))
		// A payroll that is funded in bitcoin and paid in euros leaves these positions.
		h.Post("com_1", "payroll", "prl_1", "release",
			ledger.Debit(ledger.HotWallet, "", sats(1_000_000)), ledger.Credit(ledger.FXPosition, "", sats(1_000_000)),
			ledger.Debit(ledger.FXPosition, "", eur(460_00)), ledger.Credit(ledger.OutputPayable, "out_1", eur(460_00)))
		h.Write(func(ctx context.Context, tx *db.Tx) error {
			return errors.Join(
				SetLimit(ctx, tx, Limit{Asset: money.BTC, Least: sats(0), Upper: sats(2_500_000)}),
				SetLimit(ctx, tx, Limit{Asset: money.EUR, Least: eur(-400_00)}),
				SetLimit(ctx, tx, Limit{Asset: money.GBP, Least: money.Zero(money.GBP)}))
		})
		h.Read(func(ctx context.Context, tx *db.Tx) error {
			r, err := newTreasury(h.TB, Unlimited).Report(ctx, tx)
			if err != nil {
				return err
			}
			by := map[money.Asset]Position{}
			for _, p := range r.Positions {
				by[p.Asset] = p
			}
			if len(r.Positions) != 4 {
				t.Errorf("%d positions, want 4", len(r.Positions))
			}
			if p := by[money.BTC]; p.Available != sats(1_000_000) || p.AtExchanges != sats(3_000_000) ||
				p.Capacity != sats(1_000_000) || p.Hedge != sats(-1_500_000) || p.Value != cents(2_000_00) {
				t.Errorf("%+v", p)
			}
			if p := by[money.EUR]; p.Available != eur(-460_00) || !p.Capacity.IsZero() || p.Hedge != eur(60_00) {
				t.Errorf("%+v", p)
			}
			if p := by[money.USD]; p.Bounded || p.Value != cents(100_00) {
				t.Errorf("%+v", p)
			}
			sum := cents(0)
			for _, p := range r.Positions {
				if sum, err = sum.Add(p.Value); err != nil {
					return err
				}
			}
			if r.Result != sum || len(r.Unpriced) != 0 {
				t.Errorf("the result is %s, unpriced %v", r.Result, r.Unpriced)
			}
			return nil
		})
	})
}

func TestCapacity(t *testing.T) {
	run(t, func(h env) {
		bank := Place{Kind: PlaceBank}
		h.want("a deposit of dollars", true, nil, h.deposit(bank, "1", cents(100)))
		h.want("a deposit of euros", true, nil, h.deposit(bank, "2", eur(100)))
		h.Write(func(ctx context.Context, tx *db.Tx) error {
			return SetLimit(ctx, tx, Limit{Asset: money.EUR, Least: eur(20), Most: eur(50)})
		})
		unlimited := newTreasury(h.TB, Unlimited)
		both := []money.Asset{money.USD, money.EUR}
		for name, c := range map[string]struct {
			of      *Treasury
			assets  []money.Asset
			reserve []money.Amount
			use     []money.Amount
			want    bool
		}{
			"up to the balance": {
				of: h.Treasury, assets: both, use: []money.Amount{cents(60), cents(40)}, want: true,
			},
			"more than the balance":             {of: h.Treasury, assets: both, use: []money.Amount{cents(60), cents(41)}},
			"more than one destination may get": {of: h.Treasury, assets: both, use: []money.Amount{eur(51)}},
			"all but the least balance": {
				of: h.Treasury, assets: both, use: []money.Amount{eur(50), eur(30)}, want: true,
			},
			"some of the least balance":       {of: h.Treasury, assets: both, use: []money.Amount{eur(50), eur(31)}},
			"no asset":                        {of: h.Treasury, want: true},
			"an asset that was not asked for": {of: h.Treasury, assets: both, use: []money.Amount{sats(0)}},
			"an asset that the operator lacks": {
				of: h.Treasury, assets: []money.Asset{money.BTC}, use: []money.Amount{sats(1)},
			},
			"reserved": {
				of: h.Treasury, assets: both, reserve: []money.Amount{cents(50)}, use: []money.Amount{cents(51)},
			},
			"reserved more than the balance": {
				of: h.Treasury, assets: both, reserve: []money.Amount{cents(101)}, use: []money.Amount{cents(0)},
			},
			"reserved and released": {
				of: h.Treasury, assets: both, reserve: []money.Amount{cents(50), cents(-50)}, use: []money.Amount{cents(100)},
				want: true,
			},
			"an unlimited currency":         {of: unlimited, assets: both, use: []money.Amount{cents(1_000)}, want: true},
			"a currency with its own limit": {of: unlimited, assets: both, use: []money.Amount{eur(50), eur(31)}},
			"an unlimited crypto asset":     {of: unlimited, assets: []money.Asset{money.BTC}, use: []money.Amount{sats(1)}},
		} {
			for _, lock := range []bool{false, true} {
				if err := h.DB.Write(h.Context(), func(ctx context.Context, tx *db.Tx) error {
					read := c.of.Capacity
					if lock {
						read = c.of.LockCapacity
					}
					left, err := read(ctx, tx, c.assets...)
					if err != nil {
						return err
					}
					for _, x := range c.reserve {
						if err := left.Reserve(x); err != nil {
							return err
						}
					}
					got, err := left.Use(c.use...)
					if got != c.want {
						t.Errorf("%s: Use reports %v, want %v", name, got, c.want)
					}
					return err
				}); err != nil {
					h.Errorf("%s: %v", name, err)
				}
			}
		}
	})
}

// A refused Use leaves the capacity as it was.
func TestRefusedUseSubtractsNothing(t *testing.T) {
	run(t, func(h env) {
		h.want("a deposit", true, nil, h.deposit(kraken, "1", cents(5)))
		h.want("a transfer", true, nil, func(ctx context.Context, tx *db.Tx) (bool, error) {
			return h.Transfer(ctx, tx, Booking{kraken, "2"}, Place{Kind: PlaceBank}, cents(5))
		})
		h.Read(func(ctx context.Context, tx *db.Tx) error {
			c, err := h.Capacity(ctx, tx, money.USD)
			if err != nil {
				return err
			}
			for _, step := range []struct {
				use  []money.Amount
				want bool
			}{{[]money.Amount{cents(3), cents(3)}, false}, {[]money.Amount{cents(5)}, true}, {[]money.Amount{cents(1)}, false}} {
				if got, err := c.Use(step.use...); got != step.want || err != nil {
					t.Errorf("Use(%v) = %v, %v; want %v", step.use, got, err, step.want)
				}
			}
			return nil
		})
	})
}

func TestAMissingCapacityPermitsNoExchange(t *testing.T) {
	for name, c := range map[string]*Capacity{"nil": nil, "zero": {}} {
		if ok, err := c.Use(cents(1)); ok || err != nil || !c.Limits(money.USD) || c.Reserve(cents(1)) != nil {
			t.Errorf("%s: Use returned %v, %v", name, ok, err)
		}
	}
}
